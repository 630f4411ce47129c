"""Agents' SQLite databases, read without leaving a trace: not even SQLite's own -shm file beside them.

A database in WAL mode writes beside itself when it is opened, even to read. So a database with a write-ahead log is
copied away with it and the copy is opened; one at rest is opened as it is, immutable. A rollback journal is never
replayed: it may name another file, which SQLite would then delete. Views are not read either: they are programs.
"""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from agent_journal.connectors.base import FileStat, database_files, stat_of
from agent_journal.connectors.jsonl import MAX_LINE_BYTES
from agent_journal.errors import UnreadableSource

MAX_COPY_BYTES = 8 * 2**30
MAX_VALUE_BYTES = 256 * 2**20  # beyond it SQLite refuses the row
MAX_VALUE_KEPT = MAX_LINE_BYTES
MAX_SECONDS = 120.0  # of reading one session; STEPS of SQLite's machine between two looks at the clock
STEPS = 100_000
COPIES = 5  # tries to copy a database that is being written; its log is moved into it once in a thousand pages
_JOURNAL = bytes.fromhex("d9d505f920a163d7")  # how a rollback journal in use begins
_RECURSIVE = 33  # SQLITE_RECURSIVE; Python has no name for it


class Database(sqlite3.Connection):
    """A connection that cannot write."""

    path: Path  # of the agent's own file
    at_rest: FileStat | None = None  # that file as it was when it was opened, where it is read in its place
    deadline = 0.0
    ran_out = False

    def stopping(self) -> bool:
        self.ran_out |= time.monotonic() > self.deadline
        return self.ran_out

    @contextmanager
    def one_session(self) -> Iterator[None]:
        """Reading one of many sessions, each with time of its own unless that ran out for one. Raises UnreadableSource,
        also where the agent began to write meanwhile: what was read then may be of two states."""
        with _named(self.path):
            if not self.ran_out:
                self.deadline = time.monotonic() + MAX_SECONDS
            yield
            if self.at_rest and stat_of(self.path) != self.at_rest:
                raise UnreadableSource(f"{self.path}: its agent began to write it; it is read when that is done")


@contextmanager
def reading(path: Path) -> Iterator[Database]:
    """Raises UnreadableSource for whatever SQLite or the disk refuses."""
    with _named(path), tempfile.TemporaryDirectory(prefix="aj-") as folder, _opened(path, Path(folder)) as db:
        yield db


@contextmanager
def _named(path: Path) -> Iterator[None]:
    try:
        yield
    except (sqlite3.Error, OSError, OverflowError, UnicodeDecodeError) as error:  # the last: of a damaged schema
        raise UnreadableSource(f"{path}: {getattr(error, 'strerror', None) or error}") from error


@contextmanager
def _opened(path: Path, folder: Path) -> Iterator[Database]:
    own, files = path, database_files(path)
    if not files:
        raise UnreadableSource(f"{path}: not a file")
    if any(f.path.name.endswith("-journal") and _is_hot(f.path) for f in files[1:]):
        raise UnreadableSource(f"{path}: its agent is in the middle of writing it; it is read when that is done")
    live = [f for f in files[1:] if f.size and f.path.name.endswith("-wal")]
    if live:
        if sum(f.size for f in files) > MAX_COPY_BYTES:
            raise UnreadableSource(f"{path}: too large to copy while its agent is writing; close the agent first")
        path = _copied(files[0], [f.path for f in live], folder)
    how = "mode=rw" if live else "mode=ro&immutable=1"  # the copy is ours: SQLite may replay its log into it
    db = sqlite3.connect(f"{path.absolute().as_uri()}?{how}", uri=True, factory=Database)
    db.path, db.at_rest = own, None if live else files[0]
    db.text_factory = _text
    db.execute("PRAGMA query_only = 1")
    db.execute("PRAGMA trusted_schema = 0")
    db.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_VALUE_BYTES)
    db.set_authorizer(_allowed)
    db.deadline = time.monotonic() + MAX_SECONDS
    db.set_progress_handler(db.stopping, STEPS)
    try:
        yield db
    finally:
        db.close()


def _copied(own: FileStat, logs: list[Path], folder: Path) -> Path:
    """The copy of a database with its log. A log that grows meanwhile does no harm; one whose pages were moved into
    the database between the two copies belongs to another state of it."""
    seen: FileStat | None = own
    for _ in range(COPIES):
        for path in (own.path, *logs):
            with suppress(FileNotFoundError):  # a log goes when the last writer closes the database
                shutil.copyfile(path, folder / path.name)
        before, seen = seen, stat_of(own.path)
        if seen == before:
            return folder / own.path.name
        for path in logs:
            (folder / path.name).unlink(missing_ok=True)
    raise UnreadableSource(f"{own.path}: its agent is writing it all the time; it is read when that is done")


def _is_hot(journal: Path) -> bool:
    """Agents that keep the file between transactions overwrite its beginning with zeros."""
    with journal.open("rb") as file:
        return file.read(len(_JOURNAL)) == _JOURNAL


def _allowed(action: int, first: str | None, second: str | None, database: str | None, inside: str | None) -> int:
    """Nothing through a view or trigger (`inside` names it), and no query that feeds itself."""
    return sqlite3.SQLITE_DENY if inside or action == _RECURSIVE else sqlite3.SQLITE_OK


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")


def columns(db: sqlite3.Connection, table: str) -> frozenset[str]:
    """Names of a table's columns; none if there is no such table. Agents add and drop columns between releases."""
    return frozenset(str(row[1]) for row in db.execute("SELECT * FROM pragma_table_info(?)", (table,)).fetchall())


def length(column: str) -> str:
    """SQL for how many bytes a value takes: of a text, SQLite's own length counts characters, and those up to a NUL.
    Of bytes alone it is told without reading them."""
    return f"CASE typeof({column}) WHEN 'text' THEN length(CAST({column} AS BLOB)) ELSE length({column}) END"


def rows(
    db: sqlite3.Connection, table: str, wanted: tuple[str, ...], rest: str = "", *values: Any
) -> Iterator[dict[str, Any]]:
    """The wanted columns that this version of the table has, one mapping a row, None for a value that is too long.
    `rest` is our own SQL, never data."""
    held = columns(db, table)
    chosen = [name for name in wanted if name in held]
    if chosen:
        kept = 'CASE WHEN {0} <= {1} THEN "{2}" END'
        names = ", ".join(kept.format(length(f'"{name}"'), MAX_VALUE_KEPT, name) for name in chosen)
        for row in db.execute(f'SELECT {names} FROM "{table}" {rest}', values):
            yield dict(zip(chosen, row, strict=True))
