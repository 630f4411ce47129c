"""One writer per journal: an advisory lock the operating system drops when its holder dies."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from agent_journal.errors import JournalBusy, unwritable

_PAUSE_SECONDS = 0.05


def _take(descriptor: int) -> bool:
    try:
        if sys.platform == "win32":
            import msvcrt

            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


@contextmanager
def writing(folder: Path, wait_seconds: float) -> Iterator[None]:
    """Hold the journal for writing, or raise JournalBusy after waiting a moment."""
    try:
        descriptor = os.open(folder / "write.lock", os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise unwritable(folder, error) from error
    try:
        deadline = time.monotonic() + wait_seconds
        while not _take(descriptor):
            if time.monotonic() >= deadline:
                raise JournalBusy("another aj is writing to the journal", "wait for it to finish, then try again")
            time.sleep(_PAUSE_SECONDS)
        yield
    finally:
        os.close(descriptor)  # closing drops the lock
