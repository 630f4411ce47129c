"""A parsed query as a tantivy query: words weighted by place, phrases and close words preferred, filters exact.

What a filter fits is filters.py's to say; nothing here is looked up but how rare a word is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

from tantivy import Occur
from tantivy import Query as Clause

from agent_journal.clause import all_of, among_sessions, any_of, unscored
from agent_journal.filters import IN, Resolver, Roles, fits
from agent_journal.index import words
from agent_journal.index.document import OF_SESSIONS, PLACES, SCHEMA, STEM, WHOLE, one_value
from agent_journal.query import EITHER, And, Filter, Group, Node, Not, Or, Phrase, Query, Word, asks_for_text

# How much a word counts by where it stands. What people said outweighs what tools printed.
WEIGHTS = {"text": 1.0, "title": 1.1, "thinking": 0.5, "input": 0.5, "output": 0.4}
STEM_SHARE = 0.6  # a stem's weight beside the word as written
TIE = 0.25  # how much a word's lesser places add to its best one
WHOLE_PHRASE = 2.0  # all the words, side by side
# What the whole query side by side is worth for being there at all, in a message of any length: so often its words'
# rarity, for each pair of neighbours. Of a pasted error message the one that holds it is meant.
PHRASE_PRESENT, MOST_PAIRS = 1.0, 6
NEAR_PAIR = 0.35  # two neighbouring words of the query, close together
NEAR_SLOP = 4
HYPHENED_SHARE = 0.7  # a part of laptop-only
PART_SHARE = 0.25  # a part of an identifier, where the whole was asked for
RARE = 3.5  # a part in less than three of a hundred messages says enough alone: numpy>=1.2
SHORT_HASHES = range(7, 13)  # git names a commit by as many characters as tell it apart
FUZZY_SHARE = 0.7
PRESENT_POWER = 0.3  # how much the place matters for that
PRESENT = 1.0  # of a word's rarity, for being in the message at all

# The whole message as one text, function words included: who asks a question in words means somebody's answer in words.
# Beside it all of the above counts for less. Of 221 real questions 167 then have their session first, not 159.
WHOLE_SHARE, PLACES_SHARE = 1.0, 0.8

Rarity = Callable[[str], float]  # of a stem: its inverse document frequency


def composed(query: Query, resolver: Resolver, rarity: Rarity, *, loose: bool = False) -> Clause:
    """`loose`: the same question without its bare words, of which none has to match: what a message must be and hold
    to be found by meaning."""
    if query.root is None or (loose and isinstance(query.root, Word)):
        return Clause.all_query()
    return _Composer(dict.fromkeys(PLACES), resolver, rarity, loose).node(query.root)


def every_word(query: Query, resolver: Resolver, rarity: Rarity, there: Callable[[str], bool]) -> Clause:
    """All of the query's topical words and phrases, anywhere in a message, but for words that are not there at all:
    a slip, or a name that nobody used."""
    composer = _Composer(dict.fromkeys(PLACES), resolver, rarity)
    topical = [w for w in query.words() if not (isinstance(w, Word) and w.text.lower() in words.STOPWORDS)]
    every = [w for w in topical if isinstance(w, Phrase) or w.prefix or w.fuzzy or there(w.text)]
    return all_of(composer.node(w) for w in every or query.words())


def places_of(query: Query) -> Roles:
    """Where any word of the query may stand; of one without words, where in: says to look."""
    everywhere: Roles = dict.fromkeys(PLACES)
    if query.words():
        found: Roles = {}
        for places in _places_of_words(query.root, everywhere):
            found |= {p: r if found.get(p, r) == r else None for p, r in places.items()}
        return found
    items = query.root.items if isinstance(query.root, (And, Group)) else (query.root,)
    return _narrowed(everywhere, [item for item in items if item is not None])


def _places_of_words(node: Node | None, places: Roles) -> Iterator[Roles]:
    """Those of each word: an in: holds for what stands beside it, and for what that holds."""
    if isinstance(node, (Word, Phrase)):
        yield places
    elif isinstance(node, (And, Or, Group)):
        inner = places if isinstance(node, Or) else _narrowed(places, node.items)
        for item in node.items:
            yield from _places_of_words(item, inner)


def _narrowed(places: Roles, items: Sequence[Node]) -> Roles:
    """The places that in: filters among these items leave. Options stand together as an item of their own."""
    wanted: Roles = {}
    unwanted: set[str] = set()
    for item in items:
        parts = item.items if isinstance(item, Group) and all(map(_is_filter, item.items)) else (item,)
        for part in parts:
            inner = part.item if isinstance(part, Not) else part
            if not isinstance(inner, Filter) or inner.field != "in":
                continue
            if inner is not part:
                unwanted |= IN[inner.value].keys()
                continue
            for place, role in IN[inner.value].items():
                wanted[place] = role if wanted.get(place, role) == role else None
    chosen = {p: r for p, r in wanted.items() if p in places} if wanted else places
    return {p: r for p, r in chosen.items() if p not in unwanted}


def _is_filter(node: Node) -> bool:
    return isinstance(node.item if isinstance(node, Not) else node, Filter)


class _Composer:
    def __init__(self, places: Roles, resolver: Resolver, rarity: Rarity, loose: bool = False) -> None:
        self.places = places
        self.resolver = resolver
        self.rarity = rarity
        self.loose = loose

    def node(self, node: Node) -> Clause:
        if isinstance(node, Word):
            return self.word(node)
        if isinstance(node, Phrase):
            return self.phrase(node.text)
        if isinstance(node, Filter):
            return fits(node, self.resolver)
        if isinstance(node, Not):
            return Clause.boolean_query([(Occur.Must, Clause.all_query()), (Occur.MustNot, self.unwanted(node.item))])
        if isinstance(node, Or):
            return any_of([self.node(item) for item in node.items])
        inner = _Composer(_narrowed(self.places, node.items), self.resolver, self.rarity, self.loose)
        if isinstance(node, And):
            return all_of(inner.node(item) for item in self._binding(node.items))
        return inner.group(node)

    def _binding(self, items: Sequence[Node]) -> Sequence[Node]:
        """What of an AND has to match. A single word beside filters is as loose as it is alone."""
        words = [item for item in items if isinstance(item, Word)]
        alone = self.loose and len(words) == 1 and sum(map(asks_for_text, items)) == 1
        return [item for item in items if item not in words] if alone else items

    def unwanted(self, node: Node) -> Clause:
        if isinstance(node, Filter) and node.field == "session":
            # A message that also stands in a session nobody excluded is still an answer, from there.
            alone = Clause.term_query(SCHEMA, "is", "alone")
            return all_of([among_sessions(self.resolver.sessions_named(node.value)), alone])
        if isinstance(node, Filter) and node.field in OF_SESSIONS:
            # The same holds for one that another agent, home or project has, too.
            return all_of([fits(node, self.resolver), Clause.term_query(SCHEMA, "is", one_value(node.field))])
        if isinstance(node, Filter) and node.field == "in":
            return Clause.empty_query()  # it narrows the places, see _narrowed
        return _Composer(self.places, self.resolver, self.rarity).node(node)

    def group(self, group: Group) -> Clause:
        """Side by side: filters and phrases required, any word may match, excluded things must not."""
        clauses: list[tuple[Occur, Clause]] = []
        by_field: dict[str, list[Clause]] = {}
        optional: list[Word] = []
        for item in group.items:
            if isinstance(item, Word):
                optional.append(item)
            elif isinstance(item, Not):
                clauses.append((Occur.MustNot, self.unwanted(item.item)))
            elif isinstance(item, Filter):
                # since and until narrow each other; most other fields, given twice, mean either.
                key = item.field if item.field in EITHER else f"{item.field}:{item.value}"
                by_field.setdefault(key, []).append(unscored(fits(item, self.resolver)))
            else:
                clauses.append((Occur.Must, self.node(item)))
        clauses += [(Occur.Must, any_of(found)) for found in by_field.values()]
        if optional and not self.loose:
            occur = Occur.Should if group.words_only_rank else Occur.Must
            clauses.append((occur, self.any_word(optional)))
        if not any(occur == Occur.Must for occur, _ in clauses):
            clauses.append((Occur.Must, Clause.all_query()))
        return Clause.boolean_query(clauses)

    # --- words -------------------------------------------------------------------------------------------

    def any_word(self, asked: Sequence[Word]) -> Clause:
        by_place = self._by_place(asked)
        if self.places.keys() != set(PLACES) or any(self.places.values()):
            return by_place  # in: asks for one place
        return Clause.boolean_query(
            [(Occur.Must, Clause.boost_query(by_place, PLACES_SHARE)), (Occur.Should, self._in_whole(asked))]
        )

    def _in_whole(self, asked: Sequence[Word]) -> Clause:
        plain = (words.bare(w.text) for w in asked if not (w.prefix or w.fuzzy))
        stems = [stem for text in plain for stem in words.stems(text) if len(stem) > 1]
        every = any_of([Clause.term_query(SCHEMA, WHOLE, stem) for stem in stems])
        return Clause.boost_query(every, WHOLE_SHARE)

    def _by_place(self, asked: Sequence[Word]) -> Clause:
        topical = [w for w in asked if w.text.lower() not in words.STOPWORDS] or list(asked)
        clauses = [self.word(w) for w in topical]
        plain = [w for w in asked if not (w.prefix or w.fuzzy)]
        if len(plain) > 1:
            bonus = self._together(plain) + [self._present(w) for w in topical if not (w.prefix or w.fuzzy)]
            return Clause.boolean_query([(Occur.Must, any_of(clauses)), *((Occur.Should, b) for b in bonus)])
        return any_of(clauses)

    def _together(self, asked: Sequence[Word]) -> list[Clause]:
        """The whole query as a phrase, and neighbouring words close to each other."""
        every = [t for w in asked for t in words.asked_words(w.text)]
        bonus = [
            Clause.boost_query(self._scoped(place, _phrase(place, every)), WHOLE_PHRASE * WEIGHTS[place])
            for place in self.places
            if len(every) > 1
        ]
        if len(every) > 2:
            worth = PHRASE_PRESENT * min(len(every) - 1, MOST_PAIRS) * sum(map(self._rarity_of, asked))
            whole = [self._worth(place, _phrase(place, every), worth) for place in self.places]
            bonus.append(Clause.disjunction_max_query(whole, 0.0))
        topical = [t for w in asked if w.text.lower() not in words.STOPWORDS for t in words.asked_words(w.text)]
        for pair in pairwise(topical):
            if pair[0] == pair[1]:
                continue
            for place in self.places:
                near = _phrase(place, pair, NEAR_SLOP)
                bonus.append(Clause.boost_query(self._scoped(place, near), NEAR_PAIR * WEIGHTS[place]))
        return bonus

    def _rarity_of(self, word: Word) -> float:
        """Of its rarest part; 0 for a word that carries no topic."""
        if word.text.lower() in words.STOPWORDS:
            return 0.0
        return max((self.rarity(part) for part in words.stems(words.bare(word.text)) if len(part) > 1), default=0.0)

    def _present(self, word: Word) -> Clause:
        """What a word adds by being there at all, however long the message: one that has them all comes before one
        that is short and repeats a single word."""
        text = words.bare(word.text)
        parts = [p for p in words.stems(text) if len(p) > 1]
        if words.is_hyphened(text) or not parts:
            return Clause.empty_query()
        worth = PRESENT * self._rarity_of(word)
        return Clause.disjunction_max_query([self._present_in(place, parts, worth) for place in self.places], 0.0)

    def _present_in(self, place: str, parts: Sequence[str], worth: float) -> Clause:
        return self._worth(place, all_of(Clause.term_query(SCHEMA, place + STEM, part) for part in parts), worth)

    def _worth(self, place: str, clause: Clause, worth: float) -> Clause:
        return Clause.const_score_query(self._scoped(place, clause), worth * WEIGHTS[place] ** PRESENT_POWER)

    def word(self, word: Word) -> Clause:
        text = words.bare(word.text)
        tokens = words.asked_words(text)
        if not tokens:
            return Clause.empty_query()
        if word.prefix:
            return self._each(lambda place: _prefix(place, tokens))
        if word.fuzzy and len(tokens) == 1:
            return Clause.boost_query(self._each(lambda p: Clause.fuzzy_term_query(SCHEMA, p, tokens[0])), FUZZY_SHARE)
        if len(tokens) == 1:
            return self._simple(text, tokens[0])
        return self._identifier(text, tokens)

    def _simple(self, text: str, token: str) -> Clause:
        forms = [self._term(token)]
        if words.has_cjk(text):
            if len(text) == 1:
                forms.append(self._each(lambda place: _prefix(place, [token])))
            return Clause.disjunction_max_query(forms, TIE)
        parts = words.stems(text)
        if len(parts) > 1:  # camelCase: the same name written with underscores, and its parts
            split = words.asked_words(words.split(text))
            forms.append(self._each(lambda place: _phrase(place, split)))
            forms.append(self._parts(parts))
        else:
            forms += [self._stem(part) for part in parts]
        if words.is_hash(token):
            forms.append(self._each(lambda place: _prefix(place, [token])))
            forms += [self._term(token[:length]) for length in SHORT_HASHES if length < len(token)]
        return Clause.disjunction_max_query(forms, TIE)

    def _identifier(self, text: str, tokens: list[str]) -> Clause:
        """snake_case, a/b/c.py, --dry-run, CJK: the parts in order, the same name as camelCase, two parts anywhere."""
        forms = [self._each(lambda place: _phrase(place, tokens))]
        if words.has_cjk(text):
            forms += [Clause.boost_query(self._term(token), PART_SHARE) for token in tokens]
            return any_of(forms)
        forms.append(self._term("".join(tokens)))
        if words.is_hyphened(text):
            parts = [part for part in tokens if part not in words.STOPWORDS]
            forms += [Clause.boost_query(self._stem(words.stems(part)[0]), HYPHENED_SHARE) for part in parts]
            return any_of(forms)
        forms.append(self._parts(words.stems(text)))
        name = words.asked_words(re.split(r"[/\\]", text.rstrip("/\\"))[-1])
        if 0 < len(name) < len(tokens):  # a path: the file may be written without its folders
            forms.append(Clause.boost_query(self.phrase(" ".join(name)), PART_SHARE))
        return any_of(forms)

    def _parts(self, parts: Sequence[str]) -> Clause:
        """Two neighbours of an identifier's parts, anywhere: one part alone (py, use, src) stands in every message
        unless it is rare, and so do two numbers."""
        pairs = [
            all_of([self._stem(a), self._stem(b)]) for a, b in pairwise(parts) if not (a.isdigit() and b.isdigit())
        ]
        rare = [self._stem(part) for part in parts if not part.isdigit() and self.rarity(part) >= RARE]
        return Clause.boost_query(any_of([*pairs, *rare]), PART_SHARE)

    def phrase(self, text: str) -> Clause:
        tokens = words.asked_words(text)
        if not tokens:
            return Clause.empty_query()
        if len(tokens) == 1:
            return self._term(tokens[0])
        return self._each(lambda place: _phrase(place, tokens))

    def _stem(self, stem: str) -> Clause:
        return Clause.boost_query(self._each(lambda p: Clause.term_query(SCHEMA, p, stem), suffix=STEM), STEM_SHARE)

    def _term(self, token: str) -> Clause:
        return self._each(lambda place: Clause.term_query(SCHEMA, place, token))

    def _each(self, clause: Callable[[str], Clause], suffix: str = "") -> Clause:
        """The same question of every place, weighted; the best place counts, the others add a little."""
        found = [
            Clause.boost_query(self._scoped(place, clause(place + suffix)), WEIGHTS[place]) for place in self.places
        ]
        return Clause.disjunction_max_query(found, TIE) if found else Clause.empty_query()

    def _scoped(self, place: str, clause: Clause) -> Clause:
        role = self.places[place]
        return clause if role is None else all_of([clause, unscored(Clause.term_query(SCHEMA, "role", role))])


def _phrase(place: str, tokens: Sequence[str], slop: int = 0) -> Clause:
    return Clause.phrase_query(SCHEMA, place, [*tokens], slop)


def _prefix(place: str, tokens: Sequence[str]) -> Clause:
    if len(tokens) == 1:
        return Clause.regex_query(SCHEMA, place, re.escape(tokens[0]) + ".*")
    return Clause.phrase_prefix_query(SCHEMA, place, list(tokens))
