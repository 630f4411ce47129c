"""Project folders, searched for agents that keep no store of their own but leave files in the projects.

A look at folder names only, bounded in depth and in time: what it did not reach is reported, never called gone.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path

from agent_journal.connectors.base import Discovery, entries

DEPTH = 6  # folders below the root: ~/src/<host>/<owner>/<project>/<package>/<part>
SECONDS = 3.0  # of looking, a root; a warm cache lists some 50,000 folders in that time
PLACES = ("projects", "src", "code", "work", "dev", "repos")  # the home itself is too large to walk

# Filled by tools, not by people: large, and nothing that belongs to an agent lies below.
_LEFT = frozenset(
    "node_modules bower_components site-packages __pycache__ venv env target vendor dist build out "
    "Library AppData go Pods DerivedData".split()
)


def places(home: Path) -> list[Path]:
    """Where people keep projects; most of these will not exist."""
    return [home / name for name in PLACES]


def folders(root: Path, discovery: Discovery) -> Iterator[tuple[Path, list[os.DirEntry[str]]]]:
    """Every project folder with its entries, nearest first. Hidden folders, caches and links are not entered."""
    deadline = time.monotonic() + SECONDS
    waiting = deque([(root, 0)])
    while waiting:
        folder, depth = waiting.popleft()
        if time.monotonic() > deadline:
            discovery.unlisted.append((root, f"more folders than can be listed in {SECONDS:g} seconds; name a project"))
            return
        found = entries(folder, discovery)
        yield folder, found
        if depth < DEPTH:
            waiting += [(Path(e.path), depth + 1) for e in found if _is_entered(e)]


def _is_entered(entry: os.DirEntry[str]) -> bool:
    if entry.name.startswith(".") or entry.name in _LEFT:
        return False
    try:
        return entry.is_dir(follow_symlinks=False)
    except OSError:
        return False
