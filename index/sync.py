"""The one incremental loop: discover, read what changed, merge it into the store, let the word index follow.

One bad file never stops a run and is never silent: its failure is kept, and tried again when the file changes. Of a
file that holds many sessions those that changed are read, one by one, and a run may end between two of them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from itertools import islice
from typing import TypeVar

import msgspec
from msgspec import Struct, structs

from agent_journal.config import Config
from agent_journal.connectors.base import Connector, Part, Reading, Sharing, Source, home_kind, readable
from agent_journal.errors import UnreadableSource
from agent_journal.index.codec import path_value
from agent_journal.index.document import Indexed
from agent_journal.index.exclusion import excluded, is_private
from agent_journal.index.folders import Folders
from agent_journal.index.forgotten import KIND as FORGOTTEN
from agent_journal.index.guard import guarded
from agent_journal.index.intake import Intake, Merged
from agent_journal.index.lexical import BESIDE, DamagedIndex, Lexical, LexicalWriter
from agent_journal.index.parts import Outcome, Parts
from agent_journal.index.report import SyncReport, agent_report, sync_report
from agent_journal.index.scan import Look, Scan, exclusion_mark, failure_mark, place_notes, scan
from agent_journal.index.store import Store
from agent_journal.session import Transcript

Progress = Callable[[str, int, int, str], None]  # stage, done, total, what is being read

UNUSED = "NOT EXISTS (SELECT 1 FROM session WHERE session.source = source.id)"
BATCH_BYTES = 8 * 2**20  # source bytes per transaction: what a crash makes us read again
BATCH_SECONDS = 0.5
COMMIT_SECONDS = 5.0  # searches beside a long run see what is in so far
LEAST_SAMPLES, MOST_SAMPLES = 500, 3000  # messages to learn compression from; a small journal needs none
BYTES_PER_SECOND = 8 * 2**20  # what reading and indexing are expected to do, for budgets
# A database of many sessions is copied, and looked through for those that changed.
LOOKED_THROUGH_PER_SECOND = 512 * 2**20
OUTCOMES = ("failed", "read", FORGOTTEN, "excluded", "empty")  # of a source, the first that one of its parts has

T = TypeVar("T")


class Budget(Struct, frozen=True):
    started: float
    seconds: float | None  # None: as long as it takes

    def allows(self, more: float) -> bool:
        return self.seconds is None or time.monotonic() - self.started + more <= self.seconds


class Pending(Struct):
    """What was read and is not written yet: a source, or a part of one."""

    connector: Connector
    source: Source
    failure: str
    reading: Reading
    part: Part | None = None


def indexed(config: Config) -> Indexed:
    return Indexed(config.index.thinking, config.index.tool_output_chars, config.index.exclude)


class Sync:
    """One run. The caller holds the write lock."""

    def __init__(self, store: Store, config: Config, progress: Progress | None = None) -> None:
        self.store = store
        self.config = config
        self.progress = progress or (lambda *_: None)
        self.indexed = indexed(config)
        self.intake = Intake(store)
        self.parts = Parts(store)
        self.merged = Merged()
        self.folders = Folders(store)
        self.readings: dict[str, list[tuple[Source, str, Reading]]] = {}
        self.notes: list[str] = []
        self.committed = self.wrote = time.monotonic()
        self.pending: list[Pending] = []
        self.pending_bytes = 0
        self.begun: dict[tuple[str, str, str], int] = {}  # shared sources, and their rows
        self.writer: LexicalWriter | None = None

    def run(
        self,
        found: Scan,
        connectors: Sequence[Connector],
        budget_seconds: float | None = None,
        look: Look | None = None,
    ) -> SyncReport:
        """`look`: look once more where files lie among projects, when sessions that were read name new ones."""
        started = time.monotonic()
        budget = Budget(started, budget_seconds)
        known = self.store.workspaces() if look else []
        self.notes += place_notes(look) if look else ()
        self._mark(found)
        lexical = self._lexical()
        done = 0
        if found.changed or lexical.reached < self.store.seq:
            with self._written(lexical):
                done = self._read_all(found, found.changed, budget)
                if look and self.store.workspaces() != known:
                    done += self._read_all(found, self._nearby(found, connectors, look), budget)
                done += self._read_all(found, self._placed_now(found, connectors), budget)
                self._finish(len(found.changed), merge=budget_seconds is None)
        agents = tuple(agent_report(c, found, self.readings.get(c.agent, ())) for c in connectors)
        seconds = time.monotonic() - started
        return sync_report(agents, found, self.merged, done, seconds, tuple(self.notes))

    def _nearby(self, found: Scan, connectors: Sequence[Connector], look: Look) -> Sequence[tuple[Connector, Source]]:
        again = scan(self.store, [c for c in connectors if c.in_projects], structs.replace(look, full=False))
        found.found |= again.found
        found.roots |= again.roots
        found.changed += again.changed
        return again.changed

    def _placed_now(self, found: Scan, connectors: Sequence[Connector]) -> Sequence[tuple[Connector, Source]]:
        """Sources to read again: sessions that were read after them tell the folder their own only has a hash of."""
        patterns = self.config.index.exclude
        self.folders = Folders(self.store)
        later = {
            key
            for key, folder in self.folders.told_later()
            if not excluded(folder, patterns) and not excluded(key[2], patterns)
        }
        every = ((c, s) for c in connectors for s in found.found[c.agent].sources) if later else ()
        again = [(c, s) for c, s in every if (s.agent, s.home, str(s.path)) in later]
        for agent, readings in self.readings.items():  # what is read twice counts once
            self.readings[agent] = [r for r in readings if (agent, r[0].home, str(r[0].path)) not in later]
        found.changed += again
        return again

    def follow(self, *, afresh: bool = False) -> None:
        """Let the word index catch up with the store, or make it anew; no source is looked at."""
        lexical = Lexical.create(self.store, self.indexed) if afresh else self._lexical()
        if lexical.reached < self.store.seq:
            with self._written(lexical):
                self._finish(0, merge=True)

    def renew(self) -> None:
        """The word index written anew beside the old one, which answers until then. What was deleted from it is in its
        files until its segments merge, and tantivy's binding cannot be told to merge them."""
        self.follow()
        beside = Lexical.create(self.store, self.indexed, BESIDE)
        with self._written(beside):
            self._finish(0, merge=True)
        beside.take_place()

    @contextmanager
    def _written(self, lexical: Lexical) -> Iterator[None]:
        try:
            self.writer = self._writer(lexical)
            yield
        finally:
            self.writer = None  # drops tantivy's own lock

    def _index(self, *, commit: bool) -> None:
        """Hand over what changed. A word index that turns out to be damaged is made anew: the store has it all."""
        try:
            self._feed(commit=commit)
        except DamagedIndex as damage:
            self.notes.append(f"{damage.message}: rebuilt from the journal")
            self.writer = None
            self.writer = self._writer(Lexical.create(self.store, self.indexed))
            self._feed(commit=commit)

    def _feed(self, *, commit: bool) -> None:
        assert self.writer is not None
        self.writer.feed(self.intake.written)
        if commit:
            self.writer.commit()

    def _lexical(self) -> Lexical:
        lexical, why = Lexical.open(self.store, self.indexed)
        if lexical is None:
            if self.store.seq:
                self.notes.append(f"{why}: rebuilt from the journal")
            lexical = Lexical.create(self.store, self.indexed)
        return lexical

    def _writer(self, lexical: Lexical) -> LexicalWriter:
        return LexicalWriter(lexical, self.store, self.config.index.writer_memory_mb)

    def _finish(self, total: int, *, merge: bool) -> None:
        self.progress("indexing", total, total, "")
        self._index(commit=True)
        assert self.writer is not None
        self.writer.close(merge=merge)

    def _mark(self, found: Scan) -> None:
        with guarded(self.store.path):
            self.store.db.execute("BEGIN IMMEDIATE")
            for gone, rows in ((1, found.gone), (0, found.back)):
                for row in rows:
                    self.store.db.execute("UPDATE source SET gone = ? WHERE id = ?", (gone, row))
            self.store.db.execute(f"DELETE FROM source WHERE gone AND status = '{FORGOTTEN}' AND {UNUSED}")
            self.store.db.execute("DELETE FROM part WHERE source NOT IN (SELECT id FROM source)")
            self.store.db.execute("COMMIT")

    def _read_all(self, found: Scan, changed: Sequence[tuple[Connector, Source]], budget: Budget) -> int:
        """Read sources in batches; after each the store commits and the word index takes the batch in beside us.
        Returns how many were read whole."""
        done = 0
        for number, (connector, source) in enumerate(changed):
            # A journal with nothing in it begins with whatever is newest.
            first = not done and not self.store.seq
            if not (first or budget.allows(_seconds(source))):
                continue  # left to `aj reindex`; smaller ones behind a large one still have their turn
            progress = partial(self.progress, "reading", number, len(changed))
            progress(str(source.path))
            if isinstance(connector, Sharing) and source.shared:
                done += self._read_shared(connector, source, budget, progress, afresh=found.afresh)
            else:
                failure, reading = self._attempt(source, partial(connector.parse, source))
                self._take(Pending(connector, source, failure, reading or Reading()), source.size)
                done += 1
        self._write()
        return done

    def _read_shared(
        self, connector: Sharing, source: Source, budget: Budget, progress: Callable[[str], None], *, afresh: bool
    ) -> bool:
        """Read those sessions of a source that changed. Returns whether the budget was enough for all of them."""
        known = self._begin(connector, source, afresh=afresh)
        left, out = set(known), exclusion_mark(self.config)
        whole = True
        with closing(connector.sessions(source)) as parts:
            while True:
                failure, part = self._attempt(source, partial(next, parts, None))
                if part is None:
                    break
                left.discard(part.name)
                if known.get(part.name) in (part.mark, part.mark + out):
                    continue
                _, size = self._attempt(source, part.size)
                first = not self.store.seq and not self.pending
                if not (first or budget.allows((size or 0) / BYTES_PER_SECOND)):
                    whole = False
                    if budget.allows(0):
                        continue
                    break
                progress(f"{source.path}: {part.name}")
                wrong, reading = self._attempt(source, part.read)
                self._take(Pending(connector, source, wrong, reading or Reading(), part), size or 0)
        self._write()
        self._end(connector, source, failure, left if whole and not failure else set(), whole=whole)
        return whole

    def _begin(self, connector: Connector, source: Source, *, afresh: bool) -> dict[str, str]:
        """The marks that a shared source's sessions are known by. Until it is read whole, it counts as changed."""
        key = (source.agent, source.home, str(source.path))
        with self.store.transaction():
            known = self.store.db.execute(
                "SELECT id, parser_version FROM source WHERE (agent, home, path) = (?, ?, ?)",
                (source.agent, source.home, path_value(str(source.path))),
            ).fetchone()
            row = known[0] if known else self._source_row(connector, source, "", Outcome("read", "", 0), Reading())
            self.store.db.execute(
                "UPDATE source SET fingerprint = '', parser_version = ?, gone = 0 WHERE id = ?",
                (connector.parser_version, row),
            )
            if key not in self.begun and (afresh or (known and known[1] != connector.parser_version)):
                self.parts.forget(row)
            self.begun[key] = row
            return self.parts.marks(row)

    def _end(self, connector: Connector, source: Source, failure: str, gone: set[str], *, whole: bool) -> None:
        row = self.begun[source.agent, source.home, str(source.path)]
        with self.store.transaction():
            self.parts.remove(row, gone)
            outcome, reading = self.parts.sum(row, OUTCOMES)
            if failure:
                outcome = structs.replace(outcome, status="failed", failure=failure)
            fingerprint = source.fingerprint + self._mark_of(source, outcome, reading) if whole else ""
            self._source_row(connector, source, fingerprint, outcome, reading)
        if whole:
            self.readings.setdefault(connector.agent, []).append((source, outcome.failure, reading))

    def _attempt(self, source: Source, step: Callable[[], T]) -> tuple[str, T | None]:
        """(failure or "", what a connector yields). The one place that decides to go on after a bad file."""
        try:
            return "", step()
        except UnreadableSource as failure:
            return failure.message, None
        except Exception as error:  # noqa: BLE001 - a mistake of ours about one file must not cost the others theirs
            return f"{source.path}: could not be understood ({type(error).__name__})", None

    def _take(self, pending: Pending, size: int) -> None:
        self.pending.append(pending)
        self.pending_bytes += size
        if self.pending_bytes >= BATCH_BYTES or time.monotonic() - self.wrote > BATCH_SECONDS:
            self._write()

    def _write(self) -> None:
        if not self.pending:
            return
        with self.store.transaction():
            self._learn()
            for pending in self.pending:
                self._write_one(pending)
        self.pending, self.pending_bytes = [], 0
        due = time.monotonic() - self.committed > COMMIT_SECONDS
        self._index(commit=due)
        self.intake.written.clear()
        self.wrote = time.monotonic()
        if due:
            self.committed = self.wrote

    def _learn(self) -> None:
        if self.store.bodies.learnt:
            return
        said = (m for pending in self.pending for t in pending.reading.transcripts for m in t.messages)
        samples = list(islice(said, MOST_SAMPLES))
        if len(samples) >= LEAST_SAMPLES:
            self.store.learn(samples)

    def _write_one(self, pending: Pending) -> None:
        connector, source, reading, part = pending.connector, pending.source, pending.reading, pending.part
        patterns, path = self.config.index.exclude, str(source.path)
        placed = (self._homed(t, source) for t in reading.transcripts)
        transcripts = [t for t in placed if not is_private(t.session, patterns)]
        kept_out = len(reading.transcripts) - len(transcripts)
        admitted, left_out = self.intake.admitted(path, transcripts)
        reading.skipped.update(left_out)
        status = "read" if admitted else FORGOTTEN if transcripts else "excluded" if kept_out else "empty"
        outcome = Outcome("failed" if pending.failure else status, pending.failure, kept_out)
        reading.transcripts = []  # the report needs counts, not the conversation
        if part is None:
            fingerprint = source.fingerprint + self._mark_of(source, outcome, reading)
            row = self._source_row(connector, source, fingerprint, outcome, reading)
            self.readings.setdefault(connector.agent, []).append((source, pending.failure, reading))
        else:
            row = self.begun[source.agent, source.home, path]
            mark = part.mark + (exclusion_mark(self.config) if kept_out else "")
            self.parts.put(row, part.name, "" if pending.failure else mark, outcome, reading)
        self.merged += self.intake.merge(row, path, admitted)

    def _mark_of(self, source: Source, outcome: Outcome, reading: Reading) -> str:
        """What its fingerprint does not tell and would have it read otherwise."""
        if outcome.failure or any(line == 0 for line, _ in reading.bad_lines):
            return failure_mark(source)
        return exclusion_mark(self.config) if outcome.kept_out else ""

    def _homed(self, transcript: Transcript, source: Source) -> Transcript:
        """Connectors read files; which machine a home belongs to is told by its path, a folder by other sessions."""
        session, path = transcript.session, self.config.homes.get(source.home)
        if session.workspace is None and (folder := self.folders.called(session.workspace_encoded)):
            session = structs.replace(session, workspace=folder)
        if path is not None:
            kind, host = home_kind(str(path))
            origin = structs.replace(session.origin, type=kind, host=host, home=source.home)
            session = structs.replace(session, origin=origin)
        return transcript if session is transcript.session else structs.replace(transcript, session=session)

    def _source_row(
        self, connector: Connector, source: Source, fingerprint: str, outcome: Outcome, reading: Reading
    ) -> int:
        bad = [(line, readable(reason)) for line, reason in reading.bad_lines]
        found = self.store.db.execute(
            "INSERT INTO source (agent, home, path, fingerprint, parser_version, status, detail, lines, bad_lines, "
            "bad, skipped, unfinished, gone) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0) "
            "ON CONFLICT (agent, home, path) DO UPDATE SET fingerprint = excluded.fingerprint, "
            "parser_version = excluded.parser_version, status = excluded.status, detail = excluded.detail, "
            "lines = excluded.lines, bad_lines = excluded.bad_lines, bad = excluded.bad, skipped = excluded.skipped, "
            "unfinished = excluded.unfinished, gone = 0 RETURNING id",
            (
                source.agent, source.home, path_value(str(source.path)), fingerprint,
                connector.parser_version, outcome.status, readable(outcome.failure), reading.lines,
                reading.bad_line_count,
                msgspec.json.encode(bad).decode(), msgspec.json.encode(reading.skipped).decode(), reading.unfinished,
            ),
        ).fetchone()  # fmt: skip
        return int(found[0])


def _seconds(source: Source) -> float:
    """What a source is expected to take, of a shared one before any of its sessions is read."""
    return source.size / (LOOKED_THROUGH_PER_SECOND if source.shared else BYTES_PER_SECOND)
