"""One query against one state of the word index: candidates, totals, and why each was found. Knows no vectors."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path

import tantivy
from msgspec import Struct

from agent_journal.answer import Parts, Snippet
from agent_journal.clause import alone, among, seen_by
from agent_journal.compose import WEIGHTS, composed, every_word, places_of
from agent_journal.filters import Resolver, may_hold
from agent_journal.index import words
from agent_journal.index.document import OF_SESSIONS, PLACES, STEM, contents, names
from agent_journal.index.lexical import Lexical
from agent_journal.index.store import Copy, Store
from agent_journal.paging import Page
from agent_journal.query import Filter, Node, Phrase, Query, Word
from agent_journal.ranking import Candidate, ranked
from agent_journal.session import StoredMessage, StoredSession
from agent_journal.snippet import Term, best_place, terms_of

BLOCK = 300  # documents that are ranked among themselves
SESSION_CAP = 10_000  # above this, "at least so many sessions"
MOST_SESSIONS = 65_000
MOST_VALUES = 2_000  # of a field that are compared with one that nothing has

_WHERE = {"thinking": "thinking", "input": "tool_input", "output": "tool_result", "title": "title"}


def where(place: str, role: str) -> str:
    """As an answer names a place of the word index."""
    return _WHERE.get(place, role)


class Found(Struct, frozen=True):
    candidates: list[Candidate]
    messages: int
    sessions: int
    exact: bool
    parts: Mapping[int, Parts] = {}  # of candidates that words alone did not rank
    by_meaning: int = 0  # of the messages, those that meaning alone brought in


class Lookup:
    def __init__(self, query: Query, store: Store, lexical: Lexical, agents: Mapping[str, str]) -> None:
        self.query = query
        self.store = store
        self.lexical = lexical
        self.searcher = lexical.searcher()
        self._named: dict[str, frozenset[int]] = {}
        self.places = places_of(query)
        self.resolver = Resolver(lambda name: [store.find(name).row], store.gone_sessions, agents, _folders)
        self.clause = composed(query, self.resolver, self.rarity)

    def rarity(self, stem: str) -> float:
        """BM25's own measure, over the place where most words stand."""
        documents, holding = self.searcher.num_docs, self.searcher.doc_freq("text" + STEM, stem)
        return math.log(1 + (documents - holding + 0.5) / (holding + 0.5))

    def page(self, page: Page, limit: int, *, recent: bool) -> Found:
        seq = page.seq or self.lexical.reached
        clause = seen_by(self.clause, seq)
        # Without words there is nothing to rank by.
        recent = recent or not self.query.words()
        if recent:
            result = self.searcher.search(clause, limit, True, "at", page.offset)
            candidates, total = self._candidates(result), _count(result)
        else:
            candidates, total = self._ranked(clause, page.offset, limit)
        sessions, exact = self.session_rows(seq) if total else ([], True)
        return Found(candidates, total, len(sessions), exact)

    def _ranked(self, clause: tantivy.Query, offset: int, limit: int) -> tuple[list[Candidate], int]:
        """Block by block, so that a page far down needs only its own blocks."""
        wanted: list[Candidate] = []
        total, block = 0, offset // BLOCK
        skip = offset - block * BLOCK
        while len(wanted) < limit + skip:
            found, total = self._block(clause, block)
            wanted += ranked(found)
            block += 1
            if block * BLOCK >= total:
                break
        return wanted[skip : skip + limit], total

    def _block(self, clause: tantivy.Query, block: int) -> tuple[list[Candidate], int]:
        result = self.searcher.search(clause, BLOCK, True, offset=block * BLOCK, weight_by_field="weight")
        return self._candidates(result), _count(result)

    # --- beside search by meaning ------------------------------------------------------------------------

    def best(self, seq: int) -> tuple[list[Candidate], int]:
        """(The best documents by their words, how many have any.)"""
        return self._block(seen_by(self.clause, seq), 0)

    def tail(self, seq: int) -> Iterator[Candidate]:
        """What comes after the best ones, in the order of its words."""
        clause, block = seen_by(self.clause, seq), 1
        while True:
            found, total = self._block(clause, block)
            yield from ranked(found)
            block += 1
            if block * BLOCK >= total:
                return

    def scored(self, messages: Sequence[int], seq: int) -> list[Candidate]:
        """Those of some messages that have words of the query, with what these are worth."""
        return self._among(seen_by(self.clause, seq), messages)

    def holding(self, messages: Sequence[int]) -> frozenset[int]:
        """Those of some messages that hold every word of the query that is anywhere."""
        found = self._among(every_word(self.query, self.resolver, self.rarity, self.holds), messages)
        return frozenset(candidate.message for candidate in found)

    def allowed(self, messages: Sequence[int], seq: int) -> list[Candidate]:
        """Those of some messages that may be shown: documents of the index that the filters and quotes let pass."""
        return self._among(seen_by(self.scope, seq), messages)

    def _among(self, clause: tantivy.Query, messages: Sequence[int]) -> list[Candidate]:
        if not messages:
            return []
        narrowed = among(clause, messages)
        return self._candidates(self.searcher.search(narrowed, len(messages), False, weight_by_field="weight"))

    def within(self, most: int, seq: int) -> list[int] | None:
        """The messages that may be shown, if they are no more than `most`."""
        clause = seen_by(self.scope, seq)
        if _count(self.searcher.search(clause, 1, True)) > most:
            return None
        found = self.searcher.search(clause, most, False)
        return [int(n or 0) for n in self.searcher.fast_field_values("id", [address for _, address in found.hits])]

    @cached_property
    def scope(self) -> tantivy.Query:
        return composed(self.query, self.resolver, self.rarity, loose=True)

    def holds(self, text: str) -> bool:
        """Whether every part of a word stands somewhere."""
        stems = words.stems(words.bare(text))
        return bool(stems) and all(map(self.knows, stems))

    def knows(self, stem: str) -> bool:
        return any(self.searcher.doc_freq(place + STEM, stem) for place in PLACES)

    @cached_property
    def unheard(self) -> tuple[str, ...]:
        """The words of the query that stand nowhere, names and numbers aside."""
        asked = (w.text for w in self.query.words() if isinstance(w, Word) and not (w.prefix or w.fuzzy))
        plain = dict.fromkeys(words.bare(text) for text in asked)
        return tuple(word for word in plain if word.isalpha() and not self.holds(word))

    def _candidates(self, result: tantivy.SearchResult) -> list[Candidate]:
        addresses = [address for _, address in result.hits]
        ids = self.searcher.fast_field_values("id", addresses)
        sessions = self.searcher.fast_field_values("shown", addresses)
        keys = (float(key) if isinstance(key, float) else 0.0 for key, _ in result.hits)
        return [
            Candidate(int(number or 0), int(session or 0), score)
            for number, session, score in zip(ids, sessions, keys, strict=True)
        ]

    def session_rows(self, seq: int) -> tuple[list[int], bool]:
        """(Sessions that hold words of the query, whether that is all of them.)"""
        clause = seen_by(self.clause, seq)
        buckets, others = self._buckets(clause, SESSION_CAP)
        return self._holding(buckets, clause), not others

    def _buckets(self, clause: tantivy.Query, most: int) -> tuple[list[int], int]:
        terms = {"field": "session", "size": most, "segment_size": most}
        found = self.searcher.aggregate(clause, {"sessions": {"terms": terms}})["sessions"]
        return [int(bucket["key"]) for bucket in found["buckets"]], int(found.get("sum_other_doc_count") or 0)

    def sessions(self) -> list[int]:
        """Every session with a message that fits."""
        rows, _ = self._buckets(self.clause, MOST_SESSIONS)
        asked, unwanted = self._sessions("session"), self._sessions("-session")
        named = [row for row in rows if row not in unwanted and (not asked or row in asked)]
        return self._holding(named, self.clause)

    def _holding(self, rows: list[int], clause: tantivy.Query) -> list[int]:
        """Without sessions that are among the answers only because others, which were asked for, hold the same message.
        What is true of a message that stands nowhere else is true of its session."""
        if not self._asks_of_sessions:
            return rows
        sure = frozenset(self._buckets(alone(clause), MOST_SESSIONS)[0])
        return [row for row in rows if row in sure or self._may_hold(row)]

    @cached_property
    def _asks_of_sessions(self) -> bool:
        return any(field.removeprefix("-") in OF_SESSIONS for field in self.query.filters())

    def _may_hold(self, row: int) -> bool:
        facts, derived = self.store.facts(row)
        return may_hold(self.query.root, facts, derived.project, self.resolver)

    def messages(self) -> list[int]:
        """Every message that fits: one of its copies."""
        total = _count(self.searcher.search(self.clause, 1, True))
        found = self.searcher.search(self.clause, max(total, 1), False)
        return [candidate.message for candidate in self._candidates(found)]

    # --- what filters leave ------------------------------------------------------------------------------

    def any_that_fits(self, node: Node) -> int | None:
        """A message that fits this alone, whatever else was asked for."""
        clause = composed(Query("", node), self.resolver, self.rarity)
        found = self._candidates(self.searcher.search(clause, 1, False))
        return found[0].message if found else None

    def values(self, field: str, beginning: str = "") -> list[str]:
        """What a field holds, in lower case: the most frequent first."""
        return [value for value, _ in self.searcher.terms_with_prefix(field, beginning, limit=MOST_VALUES)]

    def as_written(self, message: int, item: Filter) -> str:
        """The value of a filter as this message has it, of which the word index knows lower case alone."""
        stored = self.store.message(message)
        said, derived = stored.message, self.store.facts(stored.session)[1]
        names = [*(c.name for c in said.tool_calls), said.git_branch, said.model, derived.project]
        return next((name for name in names if name and name.lower() == item.value), item.value)

    # --- why ---------------------------------------------------------------------------------------------

    def shown(self, places: Sequence[Copy]) -> Copy | None:
        """The copy to show: of a session that was asked for and not excluded, else of the oldest that fits."""
        allowed = [p for p in places if p.session not in self._sessions("-session")]
        if len(allowed) > 1 and self._asks_of_sessions:
            allowed = [p for p in allowed if self._may_hold(p.session)] or allowed
        return next((p for p in allowed if p.session in self._sessions("session")), allowed[0] if allowed else None)

    def _sessions(self, field: str) -> frozenset[int]:
        if field not in self._named:
            names = self.query.filters().get(field, [])
            self._named[field] = frozenset(self.store.find(name).row for name in names)
        return self._named[field]

    @property
    def question(self) -> str:
        """What to look for by meaning; nothing where only names and patterns were asked for, or only in tools' text."""
        if "text" not in self.places:
            return ""
        asked = [w for w in self.query.words() if isinstance(w, Phrase) or not (w.prefix or w.fuzzy)]
        return " ".join(w.text for w in asked)

    @cached_property
    def terms(self) -> list[Term]:
        return terms_of(self.query.words())

    def excerpt(self, message: StoredMessage, heads: Sequence[StoredSession]) -> tuple[str, Snippet]:
        """`heads`: the session whose title the message carries, if it does."""
        role = message.message.role.value
        texts = [
            (place, part)
            for place, text in contents(message.message, heads, self.lexical.options)
            if place in self.places and self.places[place] in (None, role)
            for part in (names(text) if place == "title" else [text])
        ]
        best = best_place(texts, self.terms, WEIGHTS)
        if best is None:
            return role, Snippet("", ())
        place, snippet = best
        return where(place, role), snippet


def _folders(path: str) -> list[str]:
    """The folder as seen from here, and as the system knows it."""
    try:
        absolute = Path(path).expanduser().absolute()
        return [os.path.normpath(absolute), str(absolute.resolve())]
    except (OSError, RuntimeError, ValueError):  # no such user, a loop of links, no current folder
        return []


def _count(result: tantivy.SearchResult) -> int:
    return int(result.count or 0)  # type: ignore[attr-defined]  # there, but not in tantivy's stub
