"""A parsed query as a tantivy query: filters exact, words weighted by place, phrases and close words preferred."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

import tantivy
from msgspec import Struct
from tantivy import Occur
from tantivy import Query as Clause

from agent_journal.errors import BadQuery
from agent_journal.index import words
from agent_journal.index.document import OF_SESSIONS, PLACES, SCHEMA, STEM, WHOLE, milliseconds, one_value
from agent_journal.query import EITHER, And, Filter, Group, Node, Not, Or, Phrase, Query, Word, asks_for_text
from agent_journal.session import Session

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
LONGEST_PATTERN, MOST_STARS = 150, 8
PRESENT_POWER = 0.3  # how much the place matters for that
PRESENT = 1.0  # of a word's rarity, for being in the message at all

# The whole message as one text, function words included: who asks a question in words means somebody's answer in words.
# Beside it all of the above counts for less. Of 221 real questions 167 then have their session first, not 159.
WHOLE_SHARE, PLACES_SHARE = 1.0, 0.8

Roles = dict[str, str | None]  # place -> the role it is limited to

_IN: dict[str, Roles] = {
    "user": {"text": "user"},
    "assistant": {"text": "assistant"},
    "text": {"text": None},
    "thinking": {"thinking": None},
    "tool_input": {"input": None},
    "tool_result": {"output": None},
    "tool": {"input": None, "output": None},
    "title": {"title": None},
}


class Resolver(Struct, frozen=True):
    """What only the journal and this machine know."""

    sessions_named: Callable[[str], list[int]]
    sessions_gone: Callable[[], list[int]]
    agents: Mapping[str, str]  # agent of each name that people may type
    folders: Callable[[str], Sequence[str]]  # absolute paths that a typed one means


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
    return _all(composer.node(w) for w in every or query.words())


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
                unwanted |= _IN[inner.value].keys()
                continue
            for place, role in _IN[inner.value].items():
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
            return self.filter(node)
        if isinstance(node, Not):
            return Clause.boolean_query([(Occur.Must, Clause.all_query()), (Occur.MustNot, self.unwanted(node.item))])
        if isinstance(node, Or):
            return _any([self.node(item) for item in node.items])
        inner = _Composer(_narrowed(self.places, node.items), self.resolver, self.rarity, self.loose)
        if isinstance(node, And):
            return _all(inner.node(item) for item in self._binding(node.items))
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
            return _all([_among(self.resolver.sessions_named(node.value)), alone])
        if isinstance(node, Filter) and node.field in OF_SESSIONS:
            # The same holds for one that another agent, home or project has, too.
            return _all([self.filter(node), Clause.term_query(SCHEMA, "is", one_value(node.field))])
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
                by_field.setdefault(key, []).append(_unscored(self.filter(item)))
            else:
                clauses.append((Occur.Must, self.node(item)))
        clauses += [(Occur.Must, _any(found)) for found in by_field.values()]
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
        every = _any([Clause.term_query(SCHEMA, WHOLE, stem) for stem in stems])
        return Clause.boost_query(every, WHOLE_SHARE)

    def _by_place(self, asked: Sequence[Word]) -> Clause:
        topical = [w for w in asked if w.text.lower() not in words.STOPWORDS] or list(asked)
        clauses = [self.word(w) for w in topical]
        plain = [w for w in asked if not (w.prefix or w.fuzzy)]
        if len(plain) > 1:
            bonus = self._together(plain) + [self._present(w) for w in topical if not (w.prefix or w.fuzzy)]
            return Clause.boolean_query([(Occur.Must, _any(clauses)), *((Occur.Should, b) for b in bonus)])
        return _any(clauses)

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
        return self._worth(place, _all(Clause.term_query(SCHEMA, place + STEM, part) for part in parts), worth)

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
            return _any(forms)
        forms.append(self._term("".join(tokens)))
        if words.is_hyphened(text):
            parts = [part for part in tokens if part not in words.STOPWORDS]
            forms += [Clause.boost_query(self._stem(words.stems(part)[0]), HYPHENED_SHARE) for part in parts]
            return _any(forms)
        forms.append(self._parts(words.stems(text)))
        name = words.asked_words(re.split(r"[/\\]", text.rstrip("/\\"))[-1])
        if 0 < len(name) < len(tokens):  # a path: the file may be written without its folders
            forms.append(Clause.boost_query(self.phrase(" ".join(name)), PART_SHARE))
        return _any(forms)

    def _parts(self, parts: Sequence[str]) -> Clause:
        """Two neighbours of an identifier's parts, anywhere: one part alone (py, use, src) stands in every message
        unless it is rare, and so do two numbers."""
        pairs = [_all([self._stem(a), self._stem(b)]) for a, b in pairwise(parts) if not (a.isdigit() and b.isdigit())]
        rare = [self._stem(part) for part in parts if not part.isdigit() and self.rarity(part) >= RARE]
        return Clause.boost_query(_any([*pairs, *rare]), PART_SHARE)

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
        return clause if role is None else _all([clause, _unscored(Clause.term_query(SCHEMA, "role", role))])

    # --- filters -----------------------------------------------------------------------------------------

    def filter(self, item: Filter) -> Clause:
        return getattr(self, f"_by_{item.field}", self._by_term)(item)

    def _by_term(self, item: Filter) -> Clause:
        """branch, role, tool: the whole value, or a glob."""
        return _matching(item.field, item.value.lower())

    def _by_agent(self, item: Filter) -> Clause:
        agent = self.resolver.agents.get(item.value.lower())
        if agent is None:
            raise _unknown_agent(item.value, self.resolver.agents)
        return Clause.term_query(SCHEMA, "agent", agent)

    def _by_project(self, item: Filter) -> Clause:
        return Clause.regex_query(SCHEMA, "project", project_pattern(item.value))

    def _by_model(self, item: Filter) -> Clause:
        """Any part of the name: model:opus."""
        value = item.value.lower()
        return _matching("model", value if "*" in value else f"*{value}*")

    def _by_dir(self, item: Filter) -> Clause:
        """As written, and as the folder it means from here: ~, .., a link."""
        value = item.value.replace("\\", "/").rstrip("/") or "/"
        if "*" in value:
            return _matching("dir", value)
        return _any([_matching("dir", path) for path in dict.fromkeys((value, *self.resolver.folders(value)))])

    def _by_file(self, item: Filter) -> Clause:
        """A file's name, the end of its path, or a glob of either."""
        return _matching("file", item.value.lower().replace("\\", "/").strip("/"))

    def _by_in(self, item: Filter) -> Clause:
        return _any([self._scoped_has(place, role) for place, role in _IN[item.value].items()])

    def _scoped_has(self, place: str, role: str | None) -> Clause:
        has = Clause.term_query(SCHEMA, "is", f"has {place}")
        return has if role is None else _all([has, Clause.term_query(SCHEMA, "role", role)])

    def _by_is(self, item: Filter) -> Clause:
        if item.value == "gone":
            return _among(self.resolver.sessions_gone())
        return Clause.term_query(SCHEMA, "is", item.value)

    def _by_session(self, item: Filter) -> Clause:
        return _among(self.resolver.sessions_named(item.value))

    def _by_since(self, item: Filter) -> Clause:
        assert item.at is not None
        return Clause.range_query(SCHEMA, "at", tantivy.FieldType.Integer, lower_bound=milliseconds(item.at))

    def _by_until(self, item: Filter) -> Clause:
        assert item.at is not None
        bound = milliseconds(item.at)
        return Clause.range_query(SCHEMA, "at", tantivy.FieldType.Integer, upper_bound=bound, include_upper=False)


def _unknown_agent(name: str, agents: Mapping[str, str]) -> BadQuery:
    import difflib  # here: nearly every query names an agent that is known

    near = difflib.get_close_matches(name.lower(), agents, 1)
    guess = f"did you mean agent:{near[0]}? " if near else ""
    # A name of the settings such as claude_code, which differs in a sign alone, is accepted and not worth a word.
    others = {
        agent: [n for n, of in agents.items() if of == agent and n.replace("_", "-") != agent]
        for agent in sorted(set(agents.values()))
    }
    known = ", ".join(f"{agent} ({', '.join(names)})" if names else agent for agent, names in others.items())
    return BadQuery(f"agent:{name} — {guess}known agents: {known}")


def _matching(field: str, value: str) -> Clause:
    if "*" not in value:
        return Clause.term_query(SCHEMA, field, value)
    _check(field, value)
    return Clause.regex_query(SCHEMA, field, _starred(value))


def _starred(value: str) -> str:
    return ".*".join(re.escape(part) for part in value.split("*"))


def may_hold(node: Node | None, facts: Session, project: str, resolver: Resolver) -> bool:
    """Whether a session may hold what is asked for, by its own facts. What is asked of messages it may always hold."""
    if isinstance(node, Filter) and node.field in OF_SESSIONS:
        return _is_of(node, facts, project, resolver)
    if isinstance(node, Not):
        inner = node.item
        return not (
            isinstance(inner, Filter) and inner.field in OF_SESSIONS and _is_of(inner, facts, project, resolver)
        )
    if isinstance(node, Or):
        return any(may_hold(item, facts, project, resolver) for item in node.items)
    if isinstance(node, Group):
        either = {f: [i for i in node.items if isinstance(i, Filter) and i.field == f] for f in OF_SESSIONS}
        others = [i for i in node.items if not (isinstance(i, Filter) and i.field in OF_SESSIONS)]
        return all(any(_is_of(i, facts, project, resolver) for i in same) for same in either.values() if same) and all(
            may_hold(item, facts, project, resolver) for item in others
        )
    return not isinstance(node, And) or all(may_hold(item, facts, project, resolver) for item in node.items)


def _is_of(item: Filter, facts: Session, project: str, resolver: Resolver) -> bool:
    """As the fields of the word index have it."""
    if item.field == "agent":
        return resolver.agents.get(item.value.lower()) == facts.agent
    if item.field == "home":
        return re.fullmatch(_starred(item.value.lower()), facts.origin.home) is not None
    return re.fullmatch(project_pattern(item.value), project.lower()) is not None


def project_pattern(value: str) -> str:
    """The name in lower case, or whole words of it: project:shop finds shop and shop-admin."""
    value = value.lower()
    _check("project", value)
    if "*" in value:
        return _starred(value)
    return rf"(.*[^a-z0-9])?{re.escape(value)}([^a-z0-9].*)?"


def _check(field: str, value: str) -> None:
    """tantivy compiles a pattern into a table that must stay small."""
    if len(value.encode()) > LONGEST_PATTERN or value.count("*") > MOST_STARS:
        limits = f"at most {LONGEST_PATTERN} characters and {MOST_STARS} stars"
        raise BadQuery(f"{field}: {value[:40]}… — a pattern has {limits}")


def _phrase(place: str, tokens: Sequence[str], slop: int = 0) -> Clause:
    return Clause.phrase_query(SCHEMA, place, [*tokens], slop)


def _prefix(place: str, tokens: Sequence[str]) -> Clause:
    if len(tokens) == 1:
        return Clause.regex_query(SCHEMA, place, re.escape(tokens[0]) + ".*")
    return Clause.phrase_prefix_query(SCHEMA, place, list(tokens))


def _among(sessions: Sequence[int], field: str = "session") -> Clause:
    return Clause.term_set_query(SCHEMA, field, list(sessions)) if sessions else Clause.empty_query()


def seen_by(clause: Clause, seq: int) -> Clause:
    """Only what the index held when it had reached this change: later pages continue the first."""
    bound = Clause.range_query(SCHEMA, "seq", tantivy.FieldType.Unsigned, upper_bound=seq)
    return _all([clause, _unscored(bound)])


def alone(clause: Clause) -> Clause:
    """Only messages that stand in one session."""
    return _all([clause, _unscored(Clause.term_query(SCHEMA, "is", "alone"))])


def among(clause: Clause, messages: Sequence[int]) -> Clause:
    return _all([clause, _unscored(_among(messages, "id"))])


def _all(clauses: Iterable[Clause]) -> Clause:
    return Clause.boolean_query([(Occur.Must, c) for c in clauses])


def _any(clauses: Sequence[Clause]) -> Clause:
    return clauses[0] if len(clauses) == 1 else Clause.boolean_query([(Occur.Should, c) for c in clauses])


def _unscored(clause: Clause) -> Clause:
    return Clause.const_score_query(clause, 0.0)
