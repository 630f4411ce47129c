"""Exported sessions taken into a journal: of either format, as often as one likes, whatever else is in the file.

A bad record is named and left out; the rest comes in. What a session's own source already gave stays as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from agent_journal.connectors.jsonl import storable
from agent_journal.errors import BadExchange
from agent_journal.exchange import files, ndjson, ndjson_check, sessiondata_check, sessiondata_read
from agent_journal.exchange.checking import Problem
from agent_journal.index.intake import Intake, Merged
from agent_journal.index.store import IMPORTED, Store
from agent_journal.index.sync import Progress
from agent_journal.search import Journal
from agent_journal.session import Origin, Transcript

MOST_PROBLEMS = 1000  # of one file: more are told by nobody and read by nobody
BATCH_MESSAGES = 2000  # a transaction's worth: what a crash makes the next import read again


class Imported(Struct, frozen=True):
    """What one file brought."""

    path: Path
    sessions: int  # in the file and understood
    sessions_new: int
    sessions_changed: int
    messages_new: int
    forgotten: int  # left out, for they were forgotten
    excluded: int  # left out by index.exclude
    empty: int  # left out: there is no message to keep
    problems: tuple[Problem, ...]


class Item(Struct, frozen=True):
    """A record of a file: a session, or what is wrong with it."""

    line: int
    transcript: Transcript | None = None
    problem: str = ""


def import_files(journal: Journal, paths: Iterable[Path], progress: Progress | None = None) -> Iterator[Imported]:
    """File after file; a folder stands for what is in it. A file of another kind, or of a version that is not
    understood, is a problem among several, and BadExchange if it is alone."""
    found = [file.absolute() for path in paths for file in files.exchanged(path)]
    alone = len(found) == 1
    items = _items(found[0], alone)
    first = next(items)  # a file that is refused as a whole changes nothing, not even an empty journal
    with journal.taking_in() as (store, follow):
        try:
            for number, path in enumerate(found):
                run = _Run(store, path, journal.config.index.exclude, progress)
                for item in chain([first], items) if number == 0 else _items(path, alone):
                    run.take(item)
                run.flush()
                yield run.done()
        finally:
            follow()


def _items(path: Path, alone: bool) -> Iterator[Item]:
    try:
        yield from _session_data(path) if files.is_session_data(path) else _lines(path)
    except BadExchange as error:
        if alone:
            raise
        yield Item(0, problem=error.message.removeprefix(f"{path}: "))


# --- what a file holds ----------------------------------------------------------------------------------


def _lines(path: Path) -> Iterator[Item]:
    check = _Header()
    seen: dict[str, int] = {}
    for line in files.lines(path):
        if line.problem:
            yield Item(line.number, problem=line.problem)
        elif check.header is None:
            check.read(path, line.value)
        elif not isinstance(line.value, dict) or line.value.get("type") != "session":
            yield Item(line.number, problem="no session")
        else:
            check.count += 1
            yield _item(line, seen)
    yield Item(0, problem=check.problem())


class _Header:
    def __init__(self) -> None:
        self.header: ndjson.Header | None = None
        self.count = 0

    def read(self, path: Path, value: Any) -> None:
        if wrong := ndjson_check.version_problem(value if isinstance(value, dict) else {}):
            raise BadExchange(f"{path}: line 1: {wrong}", "a later agent-journal may read it")
        try:
            self.header = ndjson.read_header(value)
        except msgspec.ValidationError as error:
            raise BadExchange(f"{path}: line 1: {_said(error)}", "the first line must be the header") from error

    def problem(self) -> str:
        return ndjson_check.count_problem(self.header.session_count, self.count) if self.header else ""


def _item(line: files.Line, seen: dict[str, int]) -> Item:
    try:
        transcript = ndjson.read_session(_storable(line.value))
    except msgspec.ValidationError as error:
        return Item(line.number, problem=_said(error))
    except RecursionError:
        return Item(line.number, problem="nested too deeply")
    first = seen.setdefault(transcript.session.key, line.number)
    if first != line.number:
        return Item(line.number, problem=f"session {transcript.session.id!r} stands on line {first} already")
    return Item(line.number, transcript)


def _session_data(path: Path) -> Iterator[Item]:
    value = files.document(path)
    if wrong := sessiondata_check.version_problem(value):
        raise BadExchange(f"{path}: {wrong}", "a later agent-journal may read it")
    problems = sessiondata_check.problems(value)
    if problems:
        more = f" (and {len(problems) - 1} more: see `aj validate`)" if len(problems) > 1 else ""
        raise BadExchange(f"{path}: {problems[0]}{more}", "mend it, or export it again")
    yield Item(1, sessiondata_read.read(value, Origin(str(path))))


def _storable(value: Any) -> Any:
    """JSON as the journal can keep it."""
    if isinstance(value, dict):
        return {name: _storable(kept) for name, kept in value.items()}
    if isinstance(value, list):
        return [_storable(kept) for kept in value]
    return value if storable(value) else str(value)


def _said(error: msgspec.ValidationError) -> str:
    """Without the dollar of msgspec's places: - at `$.role`."""
    return str(error).replace("`$.", "`")


# --- into the journal -----------------------------------------------------------------------------------


class _Run:
    def __init__(self, store: Store, path: Path, exclude: Sequence[str], progress: Progress | None) -> None:
        self.store, self.path, self.exclude = store, path, exclude
        self.progress = progress or (lambda *_: None)
        self.intake = Intake(store)
        self.source: int | None = None
        self.pending: list[Transcript] = []
        self.merged = Merged()
        self.sessions = self.excluded = self.empty = 0
        self.problems: list[Problem] = []

    def take(self, item: Item) -> None:
        if item.problem and len(self.problems) < MOST_PROBLEMS:
            self.problems.append(Problem(item.line, item.problem))
        if item.transcript is None:
            return
        self.sessions += 1
        self.progress("importing", self.sessions, 0, item.transcript.session.id)
        if not item.transcript.messages:
            self.empty += 1
            return
        self.pending.append(item.transcript)
        if sum(len(t.messages) for t in self.pending) >= BATCH_MESSAGES:
            self.flush()

    def flush(self) -> None:
        from agent_journal.index.exclusion import is_private

        kept = [t for t in self.pending if not is_private(t.session, self.exclude)]
        self.excluded += len(self.pending) - len(kept)
        self.pending = []
        if not kept:
            return
        with self.store.transaction():
            if self.source is None:
                self.source = self.intake.import_source(IMPORTED, str(self.path))
            self.merged += self.intake.add(self.source, str(self.path), kept)
        self.intake.written.clear()  # the word index follows when all is in, and reads what it needs

    def done(self) -> Imported:
        return Imported(
            self.path,
            self.sessions,
            self.merged.sessions_new,
            self.merged.sessions_changed,
            self.merged.messages_new,
            self.merged.forgotten,
            self.excluded,
            self.empty,
            tuple(self.problems),
        )
