"""SQLite's failures as sentences. A damaged journal is reported, never deleted."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from agent_journal.errors import JournalCorrupt, JournalError, JournalUnwritable, unwritable
from agent_journal.index import codec

# By SQLite's primary result codes; an I/O error is most often a disk without space for the shared-memory file.
_UNWRITABLE = {
    sqlite3.SQLITE_FULL, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM, sqlite3.SQLITE_IOERR,
}  # fmt: skip
_LOCKED = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}


@contextmanager
def guarded(path: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.DatabaseError as error:
        raise _sentence(path, error) from error
    except codec.DAMAGE as error:
        raise damaged(path, error) from error


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
