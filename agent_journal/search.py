"""The journal as a library: everything `aj` does is a method here. Query in, Answer out.

A query never opens an agent's file; taking in what changed is a step of its own before it (`refresh`).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct, structs

from agent_journal import paging
from agent_journal import query as language
from agent_journal.answer import Answer, Coverage, Match, Parts, Place, Totals
from agent_journal.config import Config, home_folder, model_folders
from agent_journal.config_keys import VECTORS_OFF
from agent_journal.connectors.registry import BY_AGENT, BY_NAME, CONNECTORS
from agent_journal.errors import BadModel, JournalBusy, NoJournal
from agent_journal.index import last_search
from agent_journal.index.forgotten import pending
from agent_journal.index.lexical import DamagedIndex, Lexical, reading
from agent_journal.index.lock import writing
from agent_journal.index.report import SyncReport
from agent_journal.index.scan import Look, Scan, scan
from agent_journal.index.store import Copy, Store
from agent_journal.index.sync import Progress, Sync, indexed
from agent_journal.index.vectors_kept import NOTHING_YET, kept_marks
from agent_journal.lookup import Found, Lookup
from agent_journal.query import Query
from agent_journal.ranking import Candidate
from agent_journal.session import Resume, StoredMessage, StoredSession

if TYPE_CHECKING:
    from agent_journal.health import AgentHealth, Health
    from agent_journal.hybrid import Hybrid
    from agent_journal.redaction import Redactor
    from agent_journal.semantics import Semantics
    from agent_journal.statistics import Statistics

FIRST_RUN_SECONDS = 20.0  # a first search answers after this with what it has: the newest sessions
REFRESH_SECONDS = 0.4  # a later search takes in what fits; the rest is `aj reindex`
PATIENCE_SECONDS = 3.0  # how long reindex waits for a search that is refreshing
NOT_CAUGHT_UP = "what was read last is not searchable yet: aj reindex"
ELSEWHERE = "in: leaves out what was said, and the rest is searched by words"
ONLY_NAMES = "only filters, names or patterns were asked for"
ONLY_SIGNS = "no letter or digit was asked for, and signs are not searched"
BY_DATE = "sorted by date"

T = TypeVar("T")


class Freshness(Struct, frozen=True):
    behind: int = 0
    stale: bool = False
    notes: tuple[str, ...] = ()


class SessionList(Struct, frozen=True):
    total: int
    sessions: tuple[StoredSession, ...]
    next: str | None
    notes: tuple[str, ...] = ()


class Asked(Struct, frozen=True):
    """What an answer's matches are explained by."""

    lookup: Lookup
    hybrid: Hybrid | None
    parts: Mapping[int, Parts]
    redactor: Redactor | None = None

    def message(self, message: StoredMessage) -> StoredMessage:
        return self.redactor.message(message) if self.redactor else message

    def session(self, session: StoredSession) -> StoredSession:
        return self.redactor.session(session) if self.redactor else session


class Journal:
    """Open until closed; cheap to open: nothing is read before it is asked for."""

    def __init__(self, config: Config, environ: Mapping[str, str]) -> None:
        self.config = config
        self.environ = environ
        self.home = home_folder(environ)
        self.folder = config.storage.index_path
        self._store: Store | None = None
        self._lexical: Lexical | None = None
        self._semantics: Semantics | None = None

    @classmethod
    def open(cls, config: Config, environ: Mapping[str, str] | None = None) -> Journal:
        return cls(config, os.environ if environ is None else environ)

    def close(self) -> None:
        if self._store is not None:
            self._store.close()
        self._store = self._lexical = self._semantics = None

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def exists(self) -> bool:
        if self._store is None:
            self._store = Store.open(self.folder)
            if self._store is not None and self._store.outdated:
                self.close()
                with writing(self.folder, PATIENCE_SECONDS):
                    self._store = Store.create(self.folder)
        return self._store is not None

    @property
    def store(self) -> Store:
        if not self.exists or self._store is None:
            raise NoJournal(f"there is no journal in {self.folder} yet", "run `aj reindex`")
        return self._store

    # --- taking in ---------------------------------------------------------------------------------------

    def reindex(
        self,
        *,
        full: bool = False,
        agent: str | None = None,
        vectors: bool = True,
        budget: float | None = None,
        progress: Progress | None = None,
    ) -> SyncReport:
        """Take in everything that changed; search by words is complete before the first text is embedded. `budget`:
        seconds that embedding may take. Raises JournalBusy if another process goes on writing."""
        report = self._sync(PATIENCE_SECONDS, full=full, agent=agent, progress=progress)
        return self._embedded(report, progress, budget, check=full) if vectors else report

    def _embedded(
        self, report: SyncReport, progress: Progress | None, budget: float | None, *, check: bool
    ) -> SyncReport:
        from agent_journal import semantics

        try:
            folders = model_folders(self.config, self.environ)
            done, name, why = semantics.embed(self.store, self.config, folders, progress, budget, check=check)
        except JournalBusy:
            return structs.replace(report, notes=(*report.notes, "another aj is embedding: left to it"))
        except BadModel as error:
            return structs.replace(report, notes=(*report.notes, error.message))
        seconds = report.seconds + done.seconds
        notes = (*report.notes, why) if why else report.notes
        return structs.replace(report, embedder=name, embedding=done, seconds=seconds, notes=notes)

    def _sync(
        self,
        patience: float,
        *,
        full: bool = False,
        agent: str | None = None,
        budget: float | None = None,
        found: Scan | None = None,
        progress: Progress | None = None,
    ) -> SyncReport:
        """`found`: what a quick look has just seen, so that it is not looked for twice."""
        connectors = [BY_AGENT[agent]] if agent else CONNECTORS
        Store.make_folder(self.folder)
        with writing(self.folder, patience):
            self.close()
            self._store = Store.create(self.folder)
            if progress:
                progress("looking", 0, 0, "")
            run = Sync(self._store, self.config, progress)
            if found is not None:
                return run.run(found, connectors, budget)
            look = Look(self.config, self.environ, self.home, full=full)
            report = run.run(scan(self._store, connectors, look), connectors, budget, look)
            return self._forgotten(self._store, report, progress) if budget is None else report

    def _forgotten(self, store: Store, report: SyncReport, progress: Progress | None) -> SyncReport:
        """End a removal that was begun and died."""
        if not pending(store):
            return report
        from agent_journal.index.forget import complete

        left = complete(store, self.config, progress)
        return structs.replace(report, notes=(*report.notes, *left))

    @contextmanager
    def taking_in(self) -> Iterator[tuple[Store, Callable[[], None]]]:
        """The store for writing, and what lets the word index follow."""
        Store.make_folder(self.folder)
        with writing(self.folder, PATIENCE_SECONDS):
            self.close()
            self._store = Store.create(self.folder)
            yield self._store, Sync(self._store, self.config).follow

    def refresh(self, progress: Progress | None = None) -> Freshness:
        """Take in what fits a small budget. A first run has a larger one; a busy journal is left as it is."""
        first, found = not self.exists, None
        if not first:
            found = scan(self.store, CONNECTORS, Look(self.config, self.environ, self.home, quick=True))
            if not (found.changed or found.gone or found.back) and self._current():
                return Freshness()
        try:
            report = self._sync(
                0.0 if self._answers() else PATIENCE_SECONDS,
                budget=FIRST_RUN_SECONDS if first else REFRESH_SECONDS,
                found=found,
                progress=progress if first else None,
            )
        except JournalBusy:
            if found is None or not self._answers():
                raise
            return Freshness(len(found.changed), stale=True)
        notes = list(report.notes)
        if first and report.left:
            notes.append(f"first run: the {report.sources_read} newest files are in")
        return Freshness(report.left, notes=tuple(notes))

    def _index(self) -> Lexical | None:
        if self._lexical is None or self._lexical.is_replaced:
            self._lexical, _ = Lexical.open(self.store, indexed(self.config))
        return self._lexical

    def _answers(self) -> bool:
        """Whether there is a word index with anything in it: one that is being made anew would find nothing."""
        lexical = self._index() if self.exists else None
        return lexical is not None and (lexical.reached > 0 or self.store.seq == 0)

    def _current(self) -> bool:
        lexical = self._index()
        return lexical is not None and lexical.reached >= self.store.seq

    def _as_it_is(self) -> Freshness:
        """No look at the agents' files; only a missing word index is rebuilt, for without it there is no answer."""
        if self._index() is not None:
            return Freshness(notes=() if self._current() else (NOT_CAUGHT_UP,))
        _, why = Lexical.open(self.store, indexed(self.config))
        return Freshness(notes=(self._rebuilt(why),))

    def _rebuilt(self, why: str) -> str:
        """Make the word index anew from the store alone."""
        self._lexical = None
        with writing(self.folder, PATIENCE_SECONDS):
            Sync(self.store, self.config).follow(afresh=True)
        return f"{why}: rebuilt from the journal"

    # --- asking ------------------------------------------------------------------------------------------

    def search(
        self,
        query: Query | str,
        *,
        mode: str | None = None,
        limit: int | None = None,
        cursor: str | None = None,
        context: int | None = None,
        sort: str = "relevance",
        refresh: bool = True,
        redactor: Redactor | None = None,
        progress: Progress | None = None,
    ) -> Answer:
        """`redactor`: what leaves for another program goes through it first."""
        query = language.parse(query) if isinstance(query, str) else query
        fresh = self.refresh(progress) if refresh else self._as_it_is()
        started = time.perf_counter()
        limit = limit or self.config.search.max_results
        wanted = mode or self.config.search.default_mode
        question = f"{language.format(query)}\0{sort}\0{wanted}"
        page = paging.read(cursor, question)
        lookup, (found, hybrid, why), notes = self._asked(
            query, lambda asked: self._found(asked, _pinned(page, asked), limit, wanted, recent=sort == "recent")
        )
        page = _pinned(page, lookup)
        if not found.messages or not page.offset:
            notes = (*notes, *self._unmet(lookup, redactor, empty=not found.messages))
        if hybrid and (doubt := hybrid.doubt(empty=not found.messages)):
            notes = (*notes, doubt)
        around = self.config.search.default_context if context is None else context
        with self.store.snapshot():  # or what another process forgets meanwhile would look like damage
            matches = self._matches(Asked(lookup, hybrid, found.parts, redactor), found.candidates, page.offset, around)
            sessions, messages = self.store.counts()
        end = page.offset + len(found.candidates)
        embedded = min(1.0, hybrid.meaning.messages / messages) if hybrid and messages else 0.0
        return Answer(
            query=query,
            asked=wanted,
            used=hybrid.mode if hybrid else "lexical",
            why=why,
            embedder=hybrid.embedder.name if hybrid else None,
            coverage=Coverage(sessions, messages, embedded, fresh.behind, fresh.stale),
            total=Totals(
                found.messages, found.sessions, found.exact, found.messages - found.by_meaning, found.by_meaning
            ),
            took_ms=(time.perf_counter() - started) * 1000,
            matches=matches,
            next=paging.written(paging.Page(end, page.seq), question) if end < found.messages else None,
            notes=(*fresh.notes, *notes),
        )

    def _found(
        self, lookup: Lookup, page: paging.Page, limit: int, mode: str, *, recent: bool
    ) -> tuple[Found, Hybrid | None, str]:
        """(What was found, by which vectors if by any, and why not in the mode that was asked for.)"""
        try:
            hybrid, why = self._hybrid(lookup, mode, recent=recent)
            if hybrid is not None:
                return hybrid.page(page, limit), hybrid, why
        except BadModel as error:  # it may fail on one text and not on others
            why = error.message
        return lookup.page(page, limit, recent=recent), None, why

    def _hybrid(self, lookup: Lookup, mode: str, *, recent: bool) -> tuple[Hybrid | None, str]:
        """None, and why, where words alone answer. For no less are numpy imported and a model loaded: 0.2 s."""
        words = lookup.query.words()
        if mode == "lexical":
            return None, ""
        if recent or not words:
            return None, BY_DATE if recent else ONLY_NAMES
        if not any(map(str.isalnum, "".join(word.text for word in words))):
            return None, ONLY_SIGNS
        if not self.config.vector.enabled:
            return None, VECTORS_OFF
        if not kept_marks(self.store):
            return None, NOTHING_YET
        if not lookup.question:
            return None, ONLY_NAMES if "text" in lookup.places else ELSEWHERE
        from agent_journal.hybrid import Hybrid

        means = self._means()
        if means.embedder is None or means.meaning is None:
            return None, means.why
        return Hybrid(lookup, means.meaning, means.embedder, mode), means.why

    def _unmet(self, lookup: Lookup, redactor: Redactor | None = None, *, empty: bool = True) -> tuple[str, ...]:
        """What to say of filters and words that leave nothing."""
        with reading(), self.store.snapshot():
            if not (empty or lookup.unheard):
                return ()
            from agent_journal.unmet import misspelt, unmet

            found = unmet(lookup) if empty else misspelt(lookup)
        return tuple(map(redactor.text, found)) if redactor else found

    def _means(self) -> Semantics:
        """Opened once; what another process embeds meanwhile is seen by the next Journal."""
        if self._semantics is None:
            from agent_journal import semantics

            self._semantics = semantics.opened(self.store, self.config, model_folders(self.config, self.environ))
        return self._semantics

    def _asked(self, query: Query, ask: Callable[[Lookup], T]) -> tuple[Lookup, T, tuple[str, ...]]:
        """Ask the word index. One that turns out to be damaged is made anew and asked again."""
        lookup = self._lookup(query)
        try:
            with reading():
                return lookup, ask(lookup), ()
        except DamagedIndex as damage:
            note = self._rebuilt(damage.message)
        lookup = self._lookup(query)
        return lookup, ask(lookup), (note,)

    def _lookup(self, query: Query) -> Lookup:
        lexical = self._index()
        if lexical is None:
            raise JournalBusy("the word index is being rebuilt", "try again in a moment")
        return Lookup(query, self.store, lexical, {n: c.agent for n, c in BY_NAME.items()})

    def _matches(self, asked: Asked, candidates: Sequence[Candidate], offset: int, around: int) -> tuple[Match, ...]:
        copies = self.store.copies([c.message for c in candidates])
        session_of = cache(lambda row: asked.session(self.store.session(row)))
        matches = []
        for rank, candidate in enumerate(candidates, start=offset + 1):
            # None: it was removed between the word index's commit and now, or stands in excluded sessions alone.
            shown = asked.lookup.shown(copies.get(candidate.message, ()))
            if shown:
                also = tuple(Place(p.key, p.ordinal) for p in copies[candidate.message] if p is not shown)
                matches.append(self._match(asked, rank, candidate, shown, session_of(shown.session), also, around))
        return tuple(matches)

    def _match(
        self,
        asked: Asked,
        rank: int,
        candidate: Candidate,
        shown: Copy,
        session: StoredSession,
        also: tuple[Place, ...],
        around: int,
    ) -> Match:
        before, stored, after = self.store.context(shown, around)
        message = asked.message(stored)
        parts = asked.parts.get(candidate.message, Parts(candidate.score))
        if asked.hybrid and not parts.words:
            where, snippet = asked.hybrid.excerpt(message, session)
        else:
            where, snippet = asked.lookup.excerpt(message, [session] if shown.is_head else [])
        return Match(
            rank=rank,
            score=candidate.score,
            found_by=("lexical",) * bool(parts.words) + ("semantic",) * (parts.cosine is not None),
            where=where,
            snippet=snippet,
            session=session,
            message=message,
            before=tuple(map(asked.message, before)),
            after=tuple(map(asked.message, after)),
            also_in=also,
            resume=self.resume(session),
            parts=parts,
        )

    # --- sessions ----------------------------------------------------------------------------------------

    def sessions(self, query: Query | str = "", limit: int = 20, cursor: str | None = None) -> SessionList:
        """Sessions with at least one message that fits, newest first."""
        query = language.parse(query) if isinstance(query, str) else query
        question = f"sessions\0{language.format(query)}"
        page = paging.read(cursor, question)
        rows, notes = self._fitting(query)
        with self.store.snapshot():
            total, found = self.store.newest_sessions(limit, page.offset, rows)
        end = page.offset + len(found)
        following = paging.written(paging.Page(end), question) if end < total else None
        return SessionList(total, tuple(found), following, notes)

    def session_rows(self, query: Query | None = None) -> list[int] | None:
        """Rows of the sessions with at least one message that fits; None for all of them."""
        return self._fitting(query or Query("", None))[0]

    def _fitting(self, query: Query) -> tuple[list[int] | None, tuple[str, ...]]:
        """(As session_rows, and what to say of the word index.)"""
        if query.is_empty:
            return self.store.open_sessions(self.config.index.exclude), ()
        fresh = self._as_it_is()
        lookup, rows, notes = self._asked(query, Lookup.sessions)
        why = () if rows else self._unmet(lookup)
        return rows, (*fresh.notes, *notes, *why)

    def statistics(self, query: Query | str = "") -> Statistics:
        """What the messages that fit add up to."""
        from agent_journal.tallying import tallied

        query = language.parse(query) if isinstance(query, str) else query
        if query.is_empty:
            return tallied(self.store, self.store.open_sessions(self.config.index.exclude))
        fresh = self._as_it_is()
        lookup, (rows, messages), notes = self._asked(query, lambda asked: (asked.sessions(), asked.messages()))
        found = tallied(self.store, rows, self.store.digests(messages))
        why = () if rows else self._unmet(lookup)
        return structs.replace(found, notes=(*fresh.notes, *notes, *why))

    def session(self, name: str) -> StoredSession:
        """By key, id, slug, or the beginning of one that fits only one."""
        with self.store.snapshot():
            return self.store.find(name)

    def messages(self, session: StoredSession, first: int = 1, last: int | None = None) -> list[StoredMessage]:
        with self.store.snapshot():
            return self.store.messages(session.row, first, last)

    def resume(self, session: StoredSession) -> Resume | None:
        """None where its agent cannot go on with it, or no longer has it."""
        connector = None if session.gone else BY_AGENT.get(session.session.agent)
        return connector.resume(session.session) if connector else None

    # --- the last search ---------------------------------------------------------------------------------

    def remember(self, answer: Answer) -> None:
        hits = {m.rank: (m.session.session.key, m.message.ordinal) for m in answer.matches}
        last_search.remember(self.folder, hits)

    def recall(self, rank: int) -> last_search.Hit:
        """(session key, ordinal) of a hit of the last search."""
        return last_search.recall(self.folder, rank)

    # --- what is there -----------------------------------------------------------------------------------

    def agents(self) -> tuple[AgentHealth, ...]:
        """What each agent has here and in the journal."""
        from agent_journal.health import agents_of

        return agents_of(self)[0]

    def doctor(self) -> Health:
        from agent_journal.health import examined

        return examined(self)


def _pinned(page: paging.Page, lookup: Lookup) -> paging.Page:
    """Later pages see what the first one saw."""
    return paging.Page(page.offset, page.seq or lookup.lexical.reached)
