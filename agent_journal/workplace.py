"""A folder to work in beside the place that a file is made for: renamed out of it, it appears whole or not at all.

The folder is for its owner alone and gone afterwards. What a killed run left goes when the next one begins.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

STALE_SECONDS = 24 * 3600.0  # after which a folder is of a run that was killed


@contextmanager
def workplace(parent: Path, prefix: str) -> Iterator[Path]:
    """In `parent`, on the same file system as the destination: elsewhere a rename would be a copy."""
    import tempfile  # 3 ms, which every start would pay for the sake of `private`

    for left in parent.glob(f"{prefix}*"):
        with suppress(OSError):
            if time.time() - left.stat().st_mtime > STALE_SECONDS:
                shutil.rmtree(left)
    folder = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def private_folder(folder: Path) -> None:
    """For its owner alone, like those above it that are missing. One that was there is left as it is."""
    for missing in [above for above in reversed(folder.parents) if not above.exists()]:
        missing.mkdir(mode=0o700, exist_ok=True)
    folder.mkdir(mode=0o700, exist_ok=True)


def private(path: str, flags: int) -> int:
    """For `open`: a file for its owner alone, for it may hold what was told to an agent in confidence."""
    return os.open(path, flags, 0o600)
