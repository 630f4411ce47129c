"""Raw copies of the agents' own files beside an export, where they still exist. Never redacted, never changed."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

from msgspec import Struct

from agent_journal.staging import Staging

FOLDER = "source"
# What SQLite keeps beside a database that is in use: without it the copy would lack the newest sessions.
_BESIDE = ("", "-wal")


class Copies(Struct, frozen=True):
    files: int
    gone: int  # sources that no longer exist


def copied(sources: Iterable[tuple[str, str]], staging: Staging, home: Path) -> Copies:
    """`sources`: (path, label of its home) as the journal itself read them. What a session says of its origin is not
    followed: an imported one may name any file."""
    files, gone = 0, 0
    for path, label in sources:
        found = list(_files(Path(path)))
        gone += not found
        for file in found:
            name = _name(label, file, home)
            if name not in staging.files:
                shutil.copyfile(file, staging.place(name), follow_symlinks=False)
                files += 1
    return Copies(files, gone)


def _files(path: Path) -> Iterator[Path]:
    """Regular files only: a link may lead anywhere, a pipe never ends."""
    if path.is_dir() and not path.is_symlink():
        for folder, _, names in os.walk(path):
            yield from (p for name in sorted(names) if (p := Path(folder, name)).is_file() and not p.is_symlink())
        return
    for suffix in _BESIDE:
        beside = Path(f"{path}{suffix}")
        if beside.is_file() and not beside.is_symlink():
            yield beside


def _name(label: str, file: Path, home: Path) -> str:
    """Below the home's label, as it lay in the home; a file from elsewhere by its whole path."""
    inside = file.relative_to(home) if file.is_relative_to(home) else Path(*file.parts[1:])
    # A journal may come from elsewhere, by `aj restore`: what it says is a name, never a way out.
    return str(Path(FOLDER, re.sub(r"[^\w-]", "_", label), *(part for part in inside.parts if part != "..")))
