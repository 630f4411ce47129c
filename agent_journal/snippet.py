"""Why a message was found: the place that answers the query best, and a line of it with the matched words marked.

The word index keeps no text, so matches are found again here, in the stored text, by the same words and stems.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from agent_journal.answer import Snippet
from agent_journal.index import words
from agent_journal.query import Phrase, Word

WIDTH = 220  # characters of a snippet
MAX_HITS = 2000  # marks looked at in one place: a word that fills a dump needs no better window
EXACT_GAIN = 0.15  # the word as written, over its stem
PHRASE_GAIN = 1.0
FOLDED = 2  # letters a word may gain by folding accents (ß, œ) or lose by a mistake
LONGEST_RUN = 400  # letters: of a longer run a line shows no more, and text without spaces may be megabytes of one
_LETTER = r"[^\W_]"
_RUN = re.compile(rf"{_LETTER}{{1,{LONGEST_RUN}}}")
_FOREIGN = re.compile(r"[^\x00-\x7f]")
_BLANKS = re.compile(r"[\s\x00-\x1f\x7f-\x9f]+")


class Hit(Struct, frozen=True):
    start: int
    end: int
    term: int  # which of the query's words
    exact: bool


class Found(Struct, frozen=True):
    """The best window of one place."""

    value: float
    place: str
    text: str
    start: int
    end: int
    hits: tuple[Hit, ...]


def terms_of(asked: Sequence[Word | Phrase]) -> list[Term]:
    """What to mark: once for a page, of which every text is looked through for the same."""
    return [Term(number, term) for number, term in enumerate(_topical(asked))]


def best_place(
    texts: Iterable[tuple[str, str]], asked: Sequence[Term], weights: Mapping[str, float]
) -> tuple[str, Snippet] | None:
    """(place, snippet) of the text that holds most of the terms, closest together; None without any text."""
    best: Found | None = None
    for place, text in texts:
        found = _window(place, text, asked)
        weighed = (found.value, weights.get(place, 0.0) if asked else 0.0)  # nothing asked: what was said comes first
        if best is None or weighed > (best.value, weights.get(best.place, 0.0) if asked else 0.0):
            best = found
    return (best.place, _snippet(best)) if best else None


def _topical(terms: Sequence[Word | Phrase]) -> list[Word | Phrase]:
    kept = [t for t in terms if not (isinstance(t, Word) and t.text.lower() in words.STOPWORDS)]
    return kept or list(terms)


class Term:
    """Finds one word or phrase of the query in a folded text."""

    def __init__(self, number: int, term: Word | Phrase) -> None:
        self.number = number
        text = term.text if isinstance(term, Phrase) else words.bare(term.text)
        self.tokens = words.asked_words(text)
        self.is_phrase = isinstance(term, Phrase) and len(self.tokens) > 1
        self.cjk = words.has_cjk(term.text)
        self.prefix = isinstance(term, Word) and term.prefix
        self.fuzzy = isinstance(term, Word) and term.fuzzy
        self.stems = set() if isinstance(term, Phrase) or self.prefix else set(words.stems(text))
        self.needle = ""  # what every match begins with, where that is known
        self.pattern = self._pattern(_lowered(text))
        self._seen: dict[str, bool | None] = {}  # of what is written, as it was verified

    def _pattern(self, text: str) -> re.Pattern[str] | None:
        if not self.tokens:
            return None
        if self.cjk:
            whole = r"[\W_]*".join(map(re.escape, words.runs(text)))
            pairs = [] if self.is_phrase else map(re.escape, self.tokens)
            return re.compile("|".join([f"({whole})", *pairs]))
        if self.is_phrase:
            self.needle = self.tokens[0]
            apart = r"[\W_]+".join(map(re.escape, self.tokens))
            return re.compile(rf"(?<![^\W_]){apart}(?![^\W_])")
        whole = r"[\W_]*".join(map(re.escape, self.tokens))
        if self.fuzzy:
            return _RUN
        # Longest first, so that a whole identifier is marked rather than its first part.
        beginnings = sorted({_beginning(s) for s in (*self.tokens, *self.stems)}, key=len, reverse=True)
        if all(known.startswith(beginnings[-1]) for known in (self.tokens[0], *beginnings)):
            self.needle = beginnings[-1]
            if len(self.tokens) == 1 and _RUN.fullmatch(self.tokens[0]):  # not one with vowel signs inside
                return _RUN  # compiled once for all words
        return re.compile(rf"(?:{'|'.join([whole, *map(re.escape, beginnings)])}){_LETTER}{{0,{LONGEST_RUN}}}")

    def hits(self, text: str, original: str) -> Iterator[Hit]:
        """`text`: the original, folded and in lower case. Most words of a question are not in most texts, and that is
        told far sooner than where they are."""
        place = 0
        while match := self._next(text, original, place):
            start, place = match.span()
            if self.cjk:
                yield Hit(start, place, self.number, match[1] is not None)
            elif self.is_phrase:
                yield Hit(start, place, self.number, True)
            elif _starts_word(original, start) and (how := self._how(original[start:place])) is not None:
                yield Hit(start, place, self.number, how)
            else:
                place = start + 1  # the word may begin again inside: Port in reportPort

    def _next(self, text: str, original: str, place: int) -> re.Match[str] | None:
        if self.pattern is None or not self.needle:
            return self.pattern and self.pattern.search(text, place)
        while (place := text.find(self.needle, place)) >= 0:
            if (self.is_phrase or _starts_word(original, place)) and (match := self.pattern.match(text, place)):
                return match
            place += 1
        return None

    def _how(self, written: str) -> bool | None:
        if written not in self._seen:
            self._seen[written] = self._verified(written)
        return self._seen[written]

    def _verified(self, written: str) -> bool | None:
        """Whether these characters are the word itself (True), a form of it (False), or neither (None)."""
        found = words.asked_words(written)
        if self.prefix:
            return True if found and found[0].startswith(self.tokens[0]) else None
        if self.fuzzy and abs(len(written) - len(self.tokens[0])) > FOLDED:
            return None
        if self.fuzzy:
            return next((f == self.tokens[0] for f in found if _within_one(f, self.tokens[0])), None)
        if found == self.tokens or "".join(found) == "".join(self.tokens):
            return True
        return False if self.stems & set(words.stems(written)) else None


def _beginning(stem: str) -> str:
    """What every form of a stem starts with: stories and story share stor, stemmed to stori."""
    return stem[:-1] if len(stem) > 3 and stem[-1] in "iy" else stem


def _starts_word(text: str, start: int) -> bool:
    """At a word's beginning, or at a capital inside a camelCase name."""
    if start == 0 or not text[start - 1].isalnum():
        return True
    if not text[start].isupper():
        return False
    return not text[start - 1].isupper() or text[start + 1 : start + 2].islower()


def _within_one(a: str, b: str) -> bool:
    """One letter added, left out, changed, or two neighbours swapped."""
    if a == b:
        return True
    if abs(len(a) - len(b)) > 1:
        return False
    place = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
    rests = ((place + 1, place + 1), (place, place + 1), (place + 1, place))
    if any(a[i:] == b[j:] for i, j in rests):
        return True
    return a[place : place + 2] == b[place : place + 2][::-1] and a[place + 2 :] == b[place + 2 :]


def folded(text: str) -> str:
    """Accents removed, character for character, so that places stay the same."""
    if text.isascii():
        return text
    return _FOREIGN.sub(_base, words.without_accents(text))


def _lowered(text: str) -> str:
    """Also in lower case: the dotted capital I, the one letter that would become two, is folded before. Python ends
    words in another sigma, tantivy does not."""
    return folded(text).lower().replace("ς", "σ")


def _base(found: re.Match[str]) -> str:
    base = unicodedata.normalize("NFD", found[0])[0]
    return base if base.isascii() else found[0]


def _window(place: str, text: str, asked: Sequence[Term]) -> Found:
    """The stretch of WIDTH characters with the most of the query in it; the earliest of equals."""
    text = words.colourless(text)
    plain = _lowered(text)
    hits = sorted((h for term in asked for h in _some(term.hits(plain, text))), key=lambda h: (h.start, -h.end))
    if not hits:
        return Found(0.0, place, text, 0, min(len(text), WIDTH), ())
    phrases = {term.number for term in asked if term.is_phrase}
    best, best_value, low = 0, -1.0, 0
    values: list[Hit] = []
    for hit in hits:
        values.append(hit)
        while values[low].start < hit.end - WIDTH and low < len(values) - 1:
            low += 1
        value = _value(values[low:], phrases)
        if value > best_value + 1e-9:
            best, best_value = low, value
    first = hits[best]
    inside = [h for h in hits[best:] if h.end <= first.start + WIDTH] or [first]
    spread = max(h.end for h in inside) - first.start
    lead = max(0, (WIDTH - spread) // 2)
    start = max(0, min(first.start - min(lead, 60), len(text) - WIDTH))
    end = min(len(text), max(start + WIDTH, inside[-1].end))
    every = {h.term for h in hits}
    start, end = _at_words(text, start, end)
    shown = tuple(h for h in hits if start <= h.start and h.end <= end)
    return Found(best_value + 0.5 * len(every), place, text, start, end, shown)


def _some(hits: Iterator[Hit]) -> Iterator[Hit]:
    for number, hit in enumerate(hits):
        if number == MAX_HITS:
            return
        yield hit


def _value(hits: Sequence[Hit], phrases: set[int]) -> float:
    best: dict[int, float] = {}
    for hit in hits:
        gain = 1.0 + EXACT_GAIN * hit.exact + PHRASE_GAIN * (hit.term in phrases)
        best[hit.term] = max(best.get(hit.term, 0.0), gain)
    spread = hits[-1].end - hits[0].start
    return sum(best.values()) - 0.0005 * spread


def _snippet(found: Found) -> Snippet:
    """One line: white space and control characters become single spaces, ranges follow."""
    lead, tail = "…" * (found.start > 0), "…" * (found.end < len(found.text))

    def shown(end: int) -> str:
        """The window up to there: what stands before a word is as long as the way to it."""
        line = _BLANKS.sub(" ", found.text[found.start : end])
        return lead + line if lead else line.removeprefix(" ")

    highlights: list[tuple[int, int]] = []
    for hit in found.hits:
        low, high = len(shown(hit.start)), len(shown(hit.end))
        if highlights and low <= highlights[-1][1]:
            before = highlights.pop()
            low, high = before[0], max(high, before[1])
        highlights.append((low, high))
    return Snippet(shown(found.end) + tail, tuple(highlights))


def _at_words(text: str, start: int, end: int) -> tuple[int, int]:
    """The window moved outwards or inwards by a few characters so that it cuts no word."""
    if start > 0 and (space := text.rfind(" ", max(0, start - 15), start + 1)) >= 0:
        start = space + 1
    if end < len(text) and (space := text.find(" ", end, end + 15)) >= 0:
        end = space
    return start, end
