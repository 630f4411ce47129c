"""What `aj doctor` knows: every file is indexed or named with its reason, and the journal is sound. Changes nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from agent_journal.config import model_folders
from agent_journal.connectors.base import Connector, readable
from agent_journal.connectors.registry import CONNECTORS
from agent_journal.errors import JournalError
from agent_journal.index.document import Indexed
from agent_journal.index.forgotten import KIND as FORGOTTEN
from agent_journal.index.forgotten import pending
from agent_journal.index.guard import guarded
from agent_journal.index.lexical import Lexical
from agent_journal.index.scan import Look, Scan, scan
from agent_journal.index.store import DATABASE, SourceRow, Store
from agent_journal.index.sync import indexed

if TYPE_CHECKING:
    from agent_journal.search import Journal

Check = tuple[str, bool, str]


class AgentHealth(Struct, frozen=True):
    agent: str
    name: str
    roots: tuple[str, ...]
    files_found: int
    indexed: int
    empty: int
    failed: int
    gone: int
    unsought: int  # read earlier from a place that is no longer looked at
    sessions: int
    messages: int
    newest: datetime | None
    bad_lines: int
    skipped: dict[str, int]
    problems: tuple[tuple[str, str], ...]
    passed: tuple[tuple[str, str], ...]


class Health(Struct, frozen=True):
    agents: tuple[AgentHealth, ...]
    journal_path: str
    journal_bytes: int
    lexical_bytes: int
    vector_bytes: int
    sessions: int
    messages: int
    embedded: float  # share of messages whose meaning is searched
    behind: int
    checks: tuple[Check, ...]
    ok: bool


def agents_of(journal: Journal) -> tuple[tuple[AgentHealth, ...], Scan]:
    store = journal.store if journal.exists else None
    found = scan(store, CONNECTORS, Look(journal.config, journal.environ, journal.home))
    rows = store.sources() if store else []
    with guarded(journal.folder / DATABASE):  # what a row says may be damaged, too
        return tuple(_agent(c, found, [r for r in rows if r.agent == c.agent], store) for c in CONNECTORS), found


def examined(journal: Journal) -> Health:
    agents, found = agents_of(journal)
    store = journal.store if journal.exists else None
    vectors = _vectors(store, journal) if store else None
    checks = (*_checks(store, indexed(journal.config)), *([("vectors", *vectors[:2])] if vectors else []))
    sessions, messages = store.counts() if store else (0, 0)
    return Health(
        agents=agents,
        journal_path=str(journal.folder),
        journal_bytes=sum(_size(p) for p in journal.folder.glob("journal.db*")),
        lexical_bytes=sum(_size(p) for p in (journal.folder / "lexical").glob("*")),
        vector_bytes=sum(_size(p) for p in (journal.folder / "vectors").glob("*/*")),
        sessions=sessions,
        messages=messages,
        embedded=vectors[2] if vectors else 0.0,
        behind=len(found.changed),
        checks=checks,
        ok=all(fine for _, fine, _ in checks) and not any(a.failed for a in agents),
    )


def _vectors(store: Store, journal: Journal) -> tuple[bool, str, float]:
    from agent_journal import semantics  # here: numpy comes with it, and `aj agents` needs none

    try:
        return semantics.examined(store, journal.config, model_folders(journal.config, journal.environ))
    except JournalError as error:  # a journal that is damaged; the check before this one says how
        return False, error.message, 0.0


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _agent(connector: Connector, found: Scan, rows: list[SourceRow], store: Store | None) -> AgentHealth:
    discovery = found.found[connector.agent]
    skipped: Counter[str] = Counter()
    for row in rows:
        skipped.update(msgspec.json.decode(row.skipped, type=dict[str, int]))
    sessions, messages, newest = store.agent_counts(connector.agent) if store else (0, 0, None)
    found_now = {(source.home, str(source.path)) for source in discovery.sources}
    present = [row for row in rows if not row.gone]
    here = [row for row in present if (row.home, row.path) in found_now]
    blank = [(readable(row.path), "no messages in it") for row in here if row.status == "empty"]
    unlisted = [(readable(str(path)), f"cannot be listed: {why}") for path, why in discovery.unlisted]
    forgotten = [(readable(row.path), "forgotten: aj forget --list") for row in here if row.status == FORGOTTEN]
    private = [(readable(row.path), "excluded by index.exclude") for row in here if row.status == "excluded"]
    return AgentHealth(
        agent=connector.agent,
        name=connector.name,
        roots=tuple(readable(str(root)) for root in found.roots[connector.agent]),
        files_found=len(discovery.sources),
        indexed=sum(row.status == "read" for row in here),
        empty=sum(row.status == "empty" for row in here),
        failed=sum(row.status == "failed" for row in here),
        gone=sum(row.gone for row in rows),
        unsought=len(present) - len(here),
        sessions=sessions,
        messages=messages,
        newest=newest,
        bad_lines=sum(row.bad_lines for row in rows),
        skipped=dict(skipped.most_common()),
        problems=(*unlisted, *_problems(here)),
        passed=(*blank, *((readable(str(path)), why) for path, why in discovery.passed), *private, *forgotten),
    )


def _problems(rows: list[SourceRow]) -> Iterator[tuple[str, str]]:
    for row in rows:
        path = readable(row.path)
        if row.status == "failed":
            yield path, row.detail.removeprefix(f"{path}: ")
        named = msgspec.json.decode(row.bad, type=list[tuple[int, str]])
        for line, reason in named:
            yield (f"{path}:{line}" if line else path), reason
        if row.bad_lines > len(named):
            yield path, f"and {row.bad_lines - len(named)} more bad lines"


def _checks(store: Store | None, options: Indexed) -> Iterator[Check]:
    if store is None:
        yield "journal", False, "there is none yet: run aj reindex"
        return
    try:
        damage = store.damage()
    except JournalError as error:
        damage = error.message
    yield "journal.db", not damage, damage or "whole"
    if pending(store):
        yield "forgetting", False, "not ended; what was forgotten may still be in its files: run aj reindex"
    if untimed := store.number("SELECT count(*) FROM session WHERE started_us IS NULL"):
        yield (
            "times",
            True,
            f"{untimed:,} sessions whose messages tell none; listed last, not found by since: and until:",
        )
    lexical, why = Lexical.open(store, options)
    if lexical is None:
        yield "word index", False, f"{why}; the next search or reindex rebuilds it"
        return
    behind = lexical.reached < store.seq
    documents = f"{lexical.searcher().num_docs:,} distinct messages"
    yield "word index", not behind, f"{documents}; behind the journal: run aj reindex" if behind else documents
