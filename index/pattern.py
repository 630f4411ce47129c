"""Paths that a pattern of the configuration names: *, ?, [abc], and ** for any number of folders.

Not Python's glob: that follows links below **, which may lead around in circles for ever, and ends when it has seen
everything. This looks for a bounded time, and what it did not reach is reported.
"""

from __future__ import annotations

import fnmatch
import glob
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from agent_journal.connectors.base import Discovery, entries
from agent_journal.connectors.projects import SECONDS

ANY_DEPTH = "**"


class _Late(Exception):
    pass


def matching(base: Path, parts: Sequence[str], discovery: Discovery) -> list[Path]:
    """In the order of their names, each once."""
    found: dict[Path, None] = {}
    try:
        for path in _below(base, tuple(parts), time.monotonic() + SECONDS):
            found[path] = None
    except _Late:
        reason = f"more folders than can be looked through in {SECONDS:g} seconds; name a folder"
        discovery.unlisted.append((base.joinpath(*parts), reason))
    return sorted(found)


def _below(base: Path, parts: tuple[str, ...], deadline: float) -> Iterator[Path]:
    """Nearest first."""
    level = [(base, parts)]
    while level:
        following: list[tuple[Path, tuple[str, ...]]] = []
        for path, left in level:
            if time.monotonic() > deadline:
                raise _Late
            if not left:
                yield path
            elif left[0] == ANY_DEPTH:
                following += _any_depth(path, left)
            elif glob.has_magic(left[0]):
                listed = entries(path, Discovery())
                following += [(Path(e.path), left[1:]) for e in listed if fnmatch.fnmatch(e.name, left[0])]
            elif os.path.lexists(path / left[0]):
                following.append((path / left[0], left[1:]))
        level = following


def _any_depth(path: Path, parts: tuple[str, ...]) -> Iterator[tuple[Path, tuple[str, ...]]]:
    """The folder itself, and every one in it that is no link. At the end of a pattern, files too."""
    yield path, parts[1:]
    for entry in entries(path, Discovery()):
        if entry.is_dir(follow_symlinks=False):
            yield Path(entry.path), parts
        elif not parts[1:]:
            yield Path(entry.path), ()
