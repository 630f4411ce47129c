"""The journal as one file to keep: a consistent copy of journal.db while others read and write, and config.toml.

What can be derived (word index, vectors) is not in it. Nothing is redacted: a backup is the journal.
"""

from __future__ import annotations

import errno
import hashlib
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path

from agent_journal import __version__
from agent_journal.errors import CannotBackUp, JournalError
from agent_journal.index.archive import CONFIG, FORMAT, KIND, File, Manifest, described, write
from agent_journal.index.guard import cannot_write, guarded
from agent_journal.index.store import DATABASE, Store
from agent_journal.index.sync import Progress
from agent_journal.workplace import workplace

PAGES = 4096  # of SQLite, copied between two looks for an interrupt
_PREFIX = ".aj-backup-"


def default_name(now: datetime) -> str:
    return f"agent-journal_{now:%Y%m%d_%H%M%S}.tar.gz"


def backup(
    store: Store, config: Path, target: Path, *, force: bool = False, progress: Progress = lambda *_: None
) -> Manifest:
    """Write the archive under another name beside its place, and rename it when it is whole."""
    with _target(target):
        _refuse_existing(target, force)
    with _target(target), workplace(target.parent, _PREFIX) as folder:
        database = folder / DATABASE
        sessions, messages = copied(store, database, progress)
        kept = {CONFIG: config.read_bytes()} if config.is_file() else {}
        manifest = Manifest(
            KIND,
            FORMAT,
            store.journal_id,
            datetime.now(UTC),
            sessions,
            messages,
            __version__,
            {DATABASE: described(database)}
            | {name: File(len(content), hashlib.sha256(content).hexdigest()) for name, content in kept.items()},
        )
        archive = folder / "archive"
        write(archive, manifest, database, kept, progress)
        _refuse_existing(target, force)
        archive.replace(target)
    return manifest


def copied(store: Store, into: Path, progress: Progress) -> tuple[int, int]:
    """A consistent copy: one state of the journal, whoever writes meanwhile. Returns (sessions, messages) of it."""
    into.touch(0o600, exist_ok=False)
    with guarded(store.path), closing(sqlite3.connect(into, isolation_level=None)) as copy:
        copy.execute("PRAGMA synchronous = OFF")
        with store.snapshot():  # without it, every commit of another process would start the copy again
            counts = store.counts()
            try:
                store.db.backup(
                    copy, pages=PAGES, progress=lambda _, left, total: progress("copying", total - left, total, "")
                )
            except sqlite3.OperationalError as error:
                if cannot_write(error):  # the copy: the journal is only read
                    raise OSError(errno.EIO, str(error)) from error
                raise
        copy.execute("PRAGMA journal_mode = DELETE")  # one file, without companions
    return counts


# --- the place it is written to --------------------------------------------------------------------------


def _refuse_existing(target: Path, force: bool) -> None:
    if target.is_dir():
        raise CannotBackUp(f"{target} is a folder", "give the name of a file")
    if not os.path.lexists(target):
        return
    if target.exists() and not target.is_file():  # a pipe or a device: whoever uses it would find a file instead
        raise CannotBackUp(f"{target} is not a file", "give another name")
    if not force:
        raise CannotBackUp(f"{target} is there already", "give another name, or --force to replace it")


@contextmanager
def _target(target: Path) -> Iterator[None]:
    try:
        yield
    except JournalError:
        raise
    except OSError as error:
        reason = error.strerror or str(error)
        raise CannotBackUp(f"{target}: the backup cannot be written ({reason})", "nothing was left there") from error
