"""The leaves of a query: words, phrases and filters, cut from the text and written back.

Knows nothing of precedence or trees (see query.py). Lenient with pasted text: what only looks like syntax is a word.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime

from agent_journal.dates import moment
from agent_journal.errors import BadQuery

FIELDS = (
    "agent", "project", "dir", "branch", "role", "tool", "file", "model", "in", "is", "since", "until", "session",
)  # fmt: skip
CHOICES = {
    "role": ("user", "assistant", "system", "tool"),
    "in": ("user", "assistant", "text", "thinking", "tool_input", "tool_result", "tool", "title"),
    "is": ("error", "subagent", "meta", "gone", "sidechain"),
}
ALIASES = {("in", "input"): "tool_input", ("in", "output"): "tool_result"}
OPERATORS = frozenset({"AND", "OR", "NOT"})
MAX_WORDS = 200
MIN_PREFIX_LETTERS = 2  # one letter before * would stand for a large part of all words
MIN_TYPO_LETTERS = 4  # shorter names before a colon (id:, on:, x:) are more often text than a slip

_NAME = re.compile(r"([A-Za-z_]+):(?!:|//)")  # not std::vector, not file:///home
_ESCAPABLE = "()*~\\"
_SHOWN_AROUND = 30  # characters of the query shown on either side of a mistake


@dataclass(frozen=True, slots=True)
class Word:
    text: str
    prefix: bool = False
    fuzzy: bool = False
    start: int = field(default=0, compare=False)  # places in Query.text, in characters
    end: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Phrase:
    text: str
    start: int = field(default=0, compare=False)
    end: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Filter:
    field: str
    value: str  # as written; of role, in and is the canonical name
    start: int = field(default=0, compare=False)
    end: int = field(default=0, compare=False)
    at: datetime | None = None  # since: the first moment that passes; until: the first that no longer does. UTC


Leaf = Word | Phrase | Filter


@dataclass(frozen=True, slots=True)
class Token:
    """A leaf, an operator, or one of the two parentheses."""

    kind: str  # "leaf", "AND", "OR", "NOT", "(", ")"
    start: int
    end: int
    leaf: Leaf | None = None
    negated: bool = False  # written with a dash before it


def tokens(text: str, now: datetime) -> Iterator[Token]:
    place = count = 0
    while place < len(text):
        if text[place].isspace():
            place += 1
            continue
        negated = _is_negation(text, place)
        found, place = _token(text, place + negated, negated, now)
        if found is None or found.kind not in "()":
            count += 1
            if count > MAX_WORDS:
                raise too_many_words()
        if found is not None:
            yield found


def too_many_words() -> BadQuery:
    return BadQuery(f"the query has more than {MAX_WORDS} words — keep the ones that matter")


def _token(text: str, place: int, negated: bool, now: datetime) -> tuple[Token | None, int]:
    """The token at this place and where the next may start; None for what is left out: "" and *."""
    if text[place] in "()":
        return Token(text[place], place, place + 1, negated=negated), place + 1
    quoted = _quoted(text, place)
    if quoted:
        phrase, end = quoted
        leaf: Leaf | None = Phrase(phrase, place, end) if phrase else None
    elif name := _field_at(text, place):
        leaf, end = _filter_at(text, place, name, now)
    else:
        leaf, end = _word_at(text, place)
        if isinstance(leaf, Word) and not negated and text[place:end] in OPERATORS:
            return Token(leaf.text, place, end, leaf), end
    return (Token("leaf", place, end, leaf, negated) if leaf else None), end


def _is_negation(text: str, place: int) -> bool:
    """-word, -"a phrase", -(a group), -agent:x; not a-b, --flag, -> or a dash alone."""
    if text[place] != "-" or (place and not (text[place - 1].isspace() or text[place - 1] == "(")):
        return False
    following = text[place + 1 : place + 2]
    if following in ("", "-", ")") or following.isspace():
        return False
    if following == "(" or _quoted(text, place + 1):
        return True
    return any(c.isalnum() for c, _ in _letters(text, place + 1)[0])


# Words


def _letters(text: str, place: int) -> tuple[list[tuple[str, bool]], int]:
    """The characters of the word here, each with whether a backslash made it literal, and the word's end."""
    letters: list[tuple[str, bool]] = []
    start, depth = place, 0
    while place < len(text) and not text[place].isspace():
        char, following = text[place], text[place + 1 : place + 2]
        at_start_of_word = place == start and following and not following.isspace()
        if char == "\\" and following and (following in _ESCAPABLE or at_start_of_word):
            letters.append((following, True))
            place += 2
            continue
        if char == "(" and text[start:place] in OPERATORS:  # NOT(a OR b)
            break
        depth += (char == "(") - (char == ")")
        if depth < 0:
            break
        letters.append((char, False))
        place += 1
    return letters, place


def _word_at(text: str, place: int) -> tuple[Word | None, int]:
    letters, end = _letters(text, place)
    if all(letter == ("*", False) for letter in letters):
        return None, end
    mark = letters[-1]
    whole = "".join(c for c, _ in letters)
    if mark not in (("*", False), ("~", False)) or not any(c.isalnum() for c in whole):
        return Word(whole, start=place, end=end), end
    while letters[-1] == mark:
        letters.pop()
    stem = "".join(c for c, _ in letters)
    prefix = mark[0] == "*"
    if prefix and sum(c.isalnum() for c in stem) < MIN_PREFIX_LETTERS:
        raise misplaced(
            f"{shown(whole)} — write at least {MIN_PREFIX_LETTERS} letters before the *", text, place, end
        )
    return Word(stem, prefix, not prefix, place, end), end


def written_word(word: Word) -> str:
    """The word with backslashes where it would otherwise be read as syntax."""
    text = word.text
    last = len(text) - 1
    parentheses_stay = text[:1] != "(" and _balanced(text)
    written = []
    for i, char in enumerate(text):
        escaped = (
            (char == "\\" and (i in (0, last) or text[i + 1] in _ESCAPABLE))
            or (char in "()" and not parentheses_stay)
            or (char in "*~" and i == last)
            or (i == 0 and _reads_as_syntax(text))
        )
        written.append("\\" + char if escaped else char)
    return "".join(written) + "*" * word.prefix + "~" * word.fuzzy


def _reads_as_syntax(text: str) -> bool:
    if text[0] == '"' or text in OPERATORS or text.partition("(")[0] in OPERATORS or _is_negation(text, 0):
        return True
    name = _NAME.match(text)
    return name is not None and (name[1].lower() in FIELDS or _meant_field(name[1]) is not None)


def _balanced(text: str) -> bool:
    depth = 0
    for char in text:
        depth += (char == "(") - (char == ")")
        if depth < 0:
            return False
    return depth == 0


# Quotes: a backslash counts only before a quote, so that "C:\new folder" is what it looks like.


def _quoted(text: str, place: int) -> tuple[str, int] | None:
    """The text between quotes here and the place after them; None where no quote opens, or none closes."""
    if text[place : place + 1] != '"':
        return None
    close = text.find('"', place + 1)
    first_close = close
    while close >= 0:
        inside = text[place + 1 : close]
        if (len(inside) - len(inside.rstrip("\\"))) % 2 == 0:
            return _unescaped(inside), close + 1
        close = text.find('"', close + 1)
    if first_close < 0:
        return None
    return text[place + 1 : first_close].strip(), first_close + 1  # "C:\dir\" with nothing after it


_BEFORE_QUOTE = re.compile(r'(\\*)("|\Z)')


def _unescaped(inside: str) -> str:
    return _BEFORE_QUOTE.sub(lambda m: "\\" * (len(m[1]) // 2) + m[2], inside).strip()


def quoted(text: str) -> str:
    return '"' + _BEFORE_QUOTE.sub(lambda m: m[1] * 2 + ("\\" + m[2] if m[2] else ""), text) + '"'


# Filters


def _field_at(text: str, place: int) -> re.Match[str] | None:
    """The `name:` here if it is a filter; raises for a filter misspelt."""
    match = _NAME.match(text, place)
    if match is None:
        return None
    name, has_value = match[1], _has_value(text, match.end())
    if name in FIELDS or (name.lower() in FIELDS and has_value):  # "File: x" is pasted text, "File:x" a filter
        return match
    meant = _meant_field(name) if has_value else None
    if meant:
        raise misplaced(
            f"{name}: is not a filter — did you mean {meant}:?",
            text,
            place,
            match.end(),
            "to search for it as text, put it in quotes",
        )
    return None


def _has_value(text: str, place: int) -> bool:
    return place < len(text) and not text[place].isspace() and text[place] != ")"


def _filter_at(text: str, place: int, match: re.Match[str], now: datetime) -> tuple[Filter, int]:
    name, value_start = match[1].lower(), match.end()
    closed = _quoted(text, value_start)
    if closed is None and text[value_start : value_start + 1] == '"':
        raise misplaced(f"{name}: the quote is not closed", text, value_start, len(text))
    value, end = closed or _bare_value(text, value_start)
    if not value:
        raise misplaced(
            f"{name}: needs a value right after the colon — {_example(name)}", text, place, max(end, value_start)
        )
    try:
        value, at = understood(name, value, now)
    except BadQuery as error:
        raise misplaced(error.message, text, place, end) from error
    return Filter(name, value, place, end, at), end


def _bare_value(text: str, place: int) -> tuple[str, int]:
    """Up to a space, or a parenthesis that the value did not open. Backslashes are the value's own."""
    start, depth = place, 0
    while place < len(text) and not text[place].isspace():
        depth += (text[place] == "(") - (text[place] == ")")
        if depth < 0:
            break
        place += 1
    return text[start:place], place


def understood(name: str, value: str, now: datetime) -> tuple[str, datetime | None]:
    """The value in its canonical form, and the moment it means if it is a date."""
    if name in ("since", "until"):
        try:
            return value, moment(value, now, end=name == "until")
        except BadQuery as error:
            raise BadQuery(f"{name}:{error.message}") from error
    choices = CHOICES.get(name)
    if choices is None:
        return value, None
    chosen = ALIASES.get((name, value.lower()), value.lower())
    if chosen not in choices:
        raise BadQuery(f"{name}:{shown(value)} — use {', '.join(choices[:-1])} or {choices[-1]}")
    return chosen, None


def written_filter(item: Filter) -> str:
    value = item.value
    bare = (
        not any(c.isspace() for c in value) and not value.startswith(('"', ":", "//")) and _balanced(value)
    )
    return f"{item.field}:{value if bare else quoted(value)}"


_EXAMPLES = {
    "agent": "claude", "project": "api", "dir": "~/work/api", "branch": "main", "role": "user", "tool": "Bash",
    "file": "parser.py", "model": "opus*", "in": "thinking", "is": "error", "since": "3d", "until": "2026-03-01",
    "session": "3f2a",
}  # fmt: skip


def _example(name: str) -> str:
    return f"{name}:{_EXAMPLES[name]}"


def _meant_field(name: str) -> str | None:
    """The filter this name is one slip away from: a letter missing, added, changed, or two swapped."""
    typed = name.lower()
    if len(typed) < MIN_TYPO_LETTERS:
        return None
    return next((known for known in FIELDS if len(known) > 2 and _one_slip(typed, known)), None)


def _one_slip(a: str, b: str) -> bool:
    if abs(len(a) - len(b)) > 1:
        return False
    same = 0
    while same < min(len(a), len(b)) and a[same] == b[same]:
        same += 1
    rest_a, rest_b = a[same:], b[same:]
    swapped = rest_a[:2] == rest_b[:2][::-1] and rest_a[2:] == rest_b[2:]
    return swapped or rest_a[1:] == rest_b[1:] or rest_a[1:] == rest_b or rest_a == rest_b[1:]


# Mistakes, shown where they are


def misplaced(message: str, text: str, start: int, end: int, advice: str = "") -> BadQuery:
    """The error with the query and a line of carets below the place as its hint."""
    left, right = max(0, start - _SHOWN_AROUND), min(len(text), end + _SHOWN_AROUND, start + 3 * _SHOWN_AROUND)
    before = ("…" if left else "") + shown(text[left:start], len(text))
    marked = shown(text[start : min(end, right)], len(text))
    after = shown(text[end:right], len(text)) + ("…" if right < len(text) else "")
    carets = " " * _cells(before) + "^" * max(1, _cells(marked))
    return BadQuery(message, "\n".join(filter(None, (before + marked + after, carets, advice))))


def shown(text: str, limit: int = 40) -> str:
    """A user's text inside a sentence: short, and without control characters."""
    clipped = text if len(text) <= limit else text[: limit - 1] + "…"
    return "".join(c if c.isprintable() else " " for c in clipped)


def _cells(text: str) -> int:
    return sum(0 if unicodedata.combining(c) else 1 + (unicodedata.east_asian_width(c) in "WF") for c in text)
