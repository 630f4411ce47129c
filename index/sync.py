"""The one incremental loop: discover, read what changed, merge it into the store, let the word index follow.

One bad file never stops a run and is never silent: its failure is kept, and tried again when the file changes.
"""

from __future__ import annotations

import fnmatch
import glob
import os
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from pathlib import Path

import msgspec
from msgspec import Struct

from agent_journal.config import Config
from agent_journal.connectors.base import Connector, Discovery, Reading, Source
from agent_journal.errors import UnreadableSource
from agent_journal.index.intake import Intake, Merged
from agent_journal.index.lexical import Indexed, Lexical, LexicalWriter
from agent_journal.index.store import SourceRow, Store, guarded

Progress = Callable[[str, int, int, str], None]  # stage, done, total, what is being read

BATCH_BYTES = 8 * 2**20  # source bytes per transaction: what a crash makes us read again
BATCH_SECONDS = 0.5
COMMIT_SECONDS = 5.0  # searches beside a long run see what is in so far
LEAST_SAMPLES, MOST_SAMPLES = 500, 3000  # messages to learn compression from; a small journal needs none
BYTES_PER_SECOND = 8 * 2**20  # what reading and indexing are expected to do, for budgets


class AgentReport(Struct, frozen=True):
    agent: str
    name: str
    roots: tuple[str, ...]
    sources: int
    read: int
    empty: int
    failed: int
    bad_lines: int
    skipped: dict[str, int]
    passed: tuple[tuple[str, str], ...]
    unlisted: tuple[tuple[str, str], ...]
    failures: tuple[tuple[str, str], ...]


class SyncReport(Struct, frozen=True):
    agents: tuple[AgentReport, ...]
    sources_seen: int
    sources_read: int
    sources_failed: int
    sessions_new: int
    sessions_changed: int
    messages_new: int
    messages_changed: int
    bad_lines: int
    gone: int  # sources that vanished since the last run
    left: int  # changed sources that did not fit the time budget
    seconds: float
    notes: tuple[str, ...] = ()


class Scan(Struct):
    """What is on disk now, beside what the journal knows."""

    found: dict[str, Discovery]  # by agent
    roots: dict[str, list[Path]]
    changed: list[tuple[Connector, Source]]
    gone: list[int]  # source rows whose file is no longer there
    back: list[int]  # rows marked gone whose file is there, unchanged


def roots_of(connector: Connector, config: Config, environ: Mapping[str, str], home: Path) -> list[Path]:
    """Where to look: the agent's own places and what the configuration adds, or only the latter."""
    named = config.storage.sources.get(connector.config_key, ())
    roots = connector.roots(environ, home) if config.storage.discovers(connector.config_key) else []
    for value in named:
        if glob.has_magic(value):
            roots += [Path(p) for p in sorted(glob.glob(value, recursive=True, include_hidden=True))]
        else:
            roots.append(Path(value))
    return list(dict.fromkeys(roots))


def scan(
    store: Store | None,
    connectors: Sequence[Connector],
    config: Config,
    environ: Mapping[str, str],
    home: Path,
    *,
    full: bool = False,
) -> Scan:
    """Look at names and stats only; open nothing."""
    known = store.known() if store is not None else {}
    result = Scan({}, {}, [], [], [])
    seen: set[tuple[str, str, str]] = set()
    for connector in connectors:
        roots = roots_of(connector, config, environ, home)
        discovery = Discovery()
        for root in roots:
            discovery.extend(connector.discover(root))
        result.found[connector.agent], result.roots[connector.agent] = discovery, roots
        for source in _excluding(discovery, config.index.exclude):
            key = (source.agent, source.home, str(source.path))
            if key in seen:
                continue
            seen.add(key)
            row = known.get(key)
            if full or row is None or row[1:3] != (source.fingerprint, connector.parser_version):
                result.changed.append((connector, source))
            elif row[3]:
                result.back.append(row[0])
    agents = {c.agent for c in connectors}
    for key, row in known.items():
        if key[0] in agents and key not in seen and not row[3] and not os.path.lexists(key[2]):
            result.gone.append(row[0])
    result.changed.sort(key=_newest_first)
    return result


def _newest_first(item: tuple[Connector, Source]) -> tuple[bool, int, str]:
    """The prompt history last: what it repeats is then already known."""
    _, source = item
    return source.kind == "history", -source.newest_ns, str(source.path)


def _excluding(discovery: Discovery, patterns: Sequence[str]) -> list[Source]:
    kept = []
    for source in discovery.sources:
        if patterns and excluded(str(source.path), patterns):
            discovery.passed.append((source.path, "excluded by index.exclude"))
        else:
            kept.append(source)
    return kept


def excluded(path: str, patterns: Sequence[str]) -> bool:
    """A pattern names a file or folder, and everything below it; Claude's folder names are workspaces with dashes."""
    return any(_below(path, pattern) or _below_encoded(path, pattern) for pattern in patterns)


def _below(path: str, pattern: str) -> bool:
    return fnmatch.fnmatchcase(path, pattern) or fnmatch.fnmatchcase(path, pattern.rstrip("/") + "/*")


def _below_encoded(path: str, pattern: str) -> bool:
    encoded = "".join(c if c.isalnum() or c in "*?" else "-" for c in pattern.rstrip("/"))
    if not encoded.strip("-*?"):
        return False
    return any(fnmatch.fnmatchcase(part, encoded) for part in Path(path).parts)


class Sync:
    """One run. The caller holds the write lock."""

    def __init__(self, store: Store, config: Config, progress: Progress | None = None) -> None:
        self.store = store
        self.config = config
        self.progress = progress or (lambda *_: None)
        self.intake = Intake(store)
        self.merged = Merged()
        self.readings: dict[str, list[tuple[Source, str, Reading]]] = {}
        self.notes: list[str] = []
        self.committed = time.monotonic()

    def run(self, found: Scan, connectors: Sequence[Connector], budget_seconds: float | None = None) -> SyncReport:
        started = time.monotonic()
        self._mark(found)
        lexical = self._lexical()
        done = 0
        if found.changed or lexical.reached < self.store.seq:
            writer = self._writer(lexical)
            done = self._read_all(found.changed, writer, started, budget_seconds)
            self._finish(writer, len(found.changed), merge=budget_seconds is None)
        return self._report(found, connectors, done, time.monotonic() - started)

    def follow(self) -> None:
        """Let the word index catch up with the store; no source is looked at."""
        lexical = self._lexical()
        if lexical.reached < self.store.seq:
            self._finish(self._writer(lexical), 0, merge=True)

    def _lexical(self) -> Lexical:
        lexical, why = Lexical.open(self.store)
        if lexical is None:
            if self.store.seq:
                self.notes.append(f"{why}: rebuilt from the journal")
            lexical = Lexical.create(self.store)
        return lexical

    def _writer(self, lexical: Lexical) -> LexicalWriter:
        options = Indexed(self.config.index.thinking, self.config.index.tool_output_chars)
        return LexicalWriter(lexical, self.store, self.config.index.writer_memory_mb, options)

    def _finish(self, writer: LexicalWriter, total: int, *, merge: bool) -> None:
        self.progress("indexing", total, total, "")
        writer.feed()
        writer.commit()
        writer.close(merge=merge)

    def _mark(self, found: Scan) -> None:
        with guarded(self.store.path):
            self.store.db.execute("BEGIN IMMEDIATE")
            for gone, rows in ((1, found.gone), (0, found.back)):
                for row in rows:
                    self.store.db.execute("UPDATE source SET gone = ? WHERE id = ?", (gone, row))
            self.store.db.execute("COMMIT")

    def _read_all(
        self,
        changed: Sequence[tuple[Connector, Source]],
        writer: LexicalWriter,
        started: float,
        budget_seconds: float | None,
    ) -> int:
        """Read sources in batches; after each the store commits and the word index takes the batch in beside us."""
        pending: list[tuple[Connector, Source, str, Reading]] = []
        size, since = 0, time.monotonic()
        for number, (connector, source) in enumerate(changed):
            expected = time.monotonic() - started + source.size / BYTES_PER_SECOND
            if budget_seconds is not None and expected > budget_seconds:
                self._write(pending, writer)
                return number
            self.progress("reading", number, len(changed), str(source.path))
            pending.append((connector, source, *self._read(connector, source)))
            size += source.size
            if size >= BATCH_BYTES or time.monotonic() - since > BATCH_SECONDS:
                self._write(pending, writer)
                pending, size, since = [], 0, time.monotonic()
        self._write(pending, writer)
        return len(changed)

    def _read(self, connector: Connector, source: Source) -> tuple[str, Reading]:
        """(failure or "", what was read). The one place that decides to go on after a bad file."""
        try:
            return "", connector.parse(source)
        except UnreadableSource as failure:
            return failure.message, Reading()

    def _write(self, pending: Sequence[tuple[Connector, Source, str, Reading]], writer: LexicalWriter) -> None:
        if not pending:
            return
        db = self.store.db
        with guarded(self.store.path):
            db.execute("BEGIN IMMEDIATE")
            try:
                self._learn(pending)
                for connector, source, failure, reading in pending:
                    self._write_one(connector, source, failure, reading)
            except BaseException:
                db.execute("ROLLBACK")
                self.store.relearn()
                raise
            db.execute("COMMIT")
        writer.feed()
        if time.monotonic() - self.committed > COMMIT_SECONDS:
            writer.commit()
            self.committed = time.monotonic()

    def _learn(self, pending: Sequence[tuple[Connector, Source, str, Reading]]) -> None:
        if self.store.bodies.learnt:
            return
        said = (m for _, _, _, reading in pending for t in reading.transcripts for m in t.messages)
        samples = list(islice(said, MOST_SAMPLES))
        if len(samples) >= LEAST_SAMPLES:
            self.store.learn(samples)

    def _write_one(self, connector: Connector, source: Source, failure: str, reading: Reading) -> None:
        transcripts = [t for t in reading.transcripts if not self._private(t.session.workspace)]
        status = "read" if transcripts else "excluded" if reading.transcripts else "empty"
        row = self._source_row(connector, source, "failed" if failure else status, failure, reading)
        merged = self.intake.merge(row, str(source.path), transcripts)
        for name in Merged.__struct_fields__:
            setattr(self.merged, name, getattr(self.merged, name) + getattr(merged, name))
        reading.transcripts = []  # the report needs counts, not the conversation
        self.readings.setdefault(connector.agent, []).append((source, failure, reading))

    def _private(self, workspace: str | None) -> bool:
        return bool(workspace) and any(_below(workspace or "", p) for p in self.config.index.exclude)

    def _source_row(self, connector: Connector, source: Source, status: str, detail: str, reading: Reading) -> int:
        found = self.store.db.execute(
            "INSERT INTO source (agent, home, path, fingerprint, parser_version, status, detail, lines, bad_lines, "
            "bad, skipped, unfinished, gone) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0) "
            "ON CONFLICT (agent, home, path) DO UPDATE SET fingerprint = excluded.fingerprint, "
            "parser_version = excluded.parser_version, status = excluded.status, detail = excluded.detail, "
            "lines = excluded.lines, bad_lines = excluded.bad_lines, bad = excluded.bad, skipped = excluded.skipped, "
            "unfinished = excluded.unfinished, gone = 0 RETURNING id",
            (
                source.agent, source.home, str(source.path), source.fingerprint, connector.parser_version, status,
                detail, reading.lines, reading.bad_line_count, msgspec.json.encode(reading.bad_lines).decode(),
                msgspec.json.encode(reading.skipped).decode(), reading.unfinished,
            ),
        ).fetchone()  # fmt: skip
        return int(found[0])

    # --- the report --------------------------------------------------------------------------------------

    def _report(self, found: Scan, connectors: Sequence[Connector], done: int, seconds: float) -> SyncReport:
        agents = tuple(self._agent(c, found) for c in connectors)
        return SyncReport(
            agents=agents,
            sources_seen=sum(a.sources for a in agents),
            sources_read=done,
            sources_failed=sum(a.failed for a in agents),
            sessions_new=self.merged.sessions_new,
            sessions_changed=self.merged.sessions_changed,
            messages_new=self.merged.messages_new,
            messages_changed=self.merged.messages_changed,
            bad_lines=sum(a.bad_lines for a in agents),
            gone=len(found.gone),
            left=len(found.changed) - done,
            seconds=seconds,
            notes=tuple(self.notes),
        )

    def _agent(self, connector: Connector, found: Scan) -> AgentReport:
        discovery = found.found[connector.agent]
        readings = self.readings.get(connector.agent, [])
        skipped: Counter[str] = Counter()
        for _, _, reading in readings:
            skipped.update(reading.skipped)
        failures = [(str(s.path), failure) for s, failure, _ in readings if failure]
        return AgentReport(
            agent=connector.agent,
            name=connector.name,
            roots=tuple(str(r) for r in found.roots[connector.agent]),
            sources=len(discovery.sources),
            read=len(readings) - len(failures),
            empty=sum(not r.lines for _, failure, r in readings if not failure),
            failed=len(failures),
            bad_lines=sum(r.bad_line_count for _, _, r in readings),
            skipped=dict(skipped),
            passed=tuple((str(p), why) for p, why in discovery.passed),
            unlisted=tuple((str(p), why) for p, why in discovery.unlisted),
            failures=tuple(failures),
        )


__all__ = ["AgentReport", "Progress", "Scan", "SourceRow", "Sync", "SyncReport", "roots_of", "scan"]
