"""Where vectors lie, a folder for each model. A search that finds none asks no further: numpy alone takes as long to
import as words take to answer."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from agent_journal.index.store import Store

FOLDER = "vectors"
NOTHING_YET = "nothing is embedded yet: aj reindex"


def folder_of(store: Store, mark: str, precision: str) -> Path:
    return store.folder / FOLDER / f"{mark}-{precision}"


def kept_marks(store: Store) -> Sequence[str]:
    """Names of the folders that hold vectors, newest first."""
    try:
        every = [each for each in (store.folder / FOLDER).iterdir() if each.is_dir()]
        found = [(each.stat().st_mtime_ns, each.name) for each in every]
    except OSError:
        return []
    return [name for _, name in sorted(found, reverse=True)]
