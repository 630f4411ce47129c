"""SQLite's failures as sentences. A damaged journal is reported, never deleted."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from agent_journal.errors import JournalCorrupt, JournalError, JournalUnwritable, unwritable
from agent_journal.index import codec

# By SQLite's primary result codes; an I/O error is most often a disk without space for the shared-memory file.
_UNWRITABLE = {
    sqlite3.SQLITE_FULL, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM, sqlite3.SQLITE_IOERR,
}  # fmt: skip
_LOCKED = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}


class guarded:
    """No generator: a page of results passes through it 300 times."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, sqlite3.DatabaseError):
            raise _sentence(self._path, error) from error
        if isinstance(error, codec.DAMAGE):
            raise damaged(self._path, error) from error


def cannot_write(error: sqlite3.Error) -> bool:
    """Whether the disk or its permissions are in the way, and not what is in the file."""
    return primary_code(error) in _UNWRITABLE


def primary_code(error: sqlite3.Error) -> int:
    """Python's own checks raise without a code: what they refuse is no journal."""
    return getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF


def _sentence(path: Path, error: sqlite3.DatabaseError) -> JournalError:
    if cannot_write(error):
        return unwritable(path.parent, error)
    if primary_code(error) in _LOCKED:
        return JournalUnwritable(f"{path}: the database is locked by another program", "close it and try again")
    return damaged(path, error)


def damaged(path: Path, error: Exception) -> JournalCorrupt:
    return JournalCorrupt(
        f"{path} is damaged ({error})",
        "it was left as it is. Sessions whose files still exist can be rebuilt: move journal.db away and run "
        "`aj reindex`. Sessions whose files are gone are only in it: try `sqlite3 journal.db .recover` on a copy.",
    )
