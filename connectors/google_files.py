"""Where Gemini CLI, and Qwen Code before it left that layout, keep chats: which files make one source.

Looks at names and stats only.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path

from agent_journal.connectors.base import Discovery, FileStat, Source, entries, is_folder, readable, stat_of

CHAT, HISTORY = "chat", "history"  # kinds of Source
CHATS, LOG = "chats", "logs.json"
MARKER, REGISTRY = ".project_root", "projects.json"
_HOMES = (".gemini", ".qwen")
_SUFFIXES = (".json", ".jsonl")
HASH = re.compile(r"[0-9a-f]{64}")
_NAMED = re.compile(r"session-.+-([0-9a-f]{8})")  # when it began, and the beginning of its id
_LEFT = {  # folders of a project that hold no conversation
    "checkpoints": "copies of files as they were before edits",
    "tool-outputs": "long outputs of tools, whose beginnings and ends are in the chats",
}


def find(root: Path, agent: str) -> Discovery:
    """Sources of a home such as ~/.gemini, its tmp, one project's folder below that, its chats, or one file."""
    discovery = Discovery()
    found = _Found(discovery)
    if single := stat_of(root):
        if root.name == LOG:
            discovery.sources.append(_history(single, agent))
        elif root.suffix in _SUFFIXES:
            found.add(single)
        else:
            discovery.passed.append((root, "not a .json or .jsonl file"))
    else:
        for project in _projects(root, discovery):
            _project(project, agent, found, discovery)
    found.into(agent)
    return discovery


def project_of(path: Path) -> Path:
    """The folder of the project a chat, or a prompt log, belongs to: named by a slug or by the path's hash."""
    return next((p.parent for p in path.parents[:2] if p.name == CHATS and path.name != LOG), path.parent)


def sub_agent_parent(path: Path) -> str | None:
    """The session below whose folder a sub-agent's chat lies."""
    below, above = path.parent.name, path.parent.parent.name
    return readable(below) if above == CHATS and below != CHATS else None


def _projects(root: Path, discovery: Discovery) -> list[Path]:
    is_home = root.name in _HOMES or is_folder(root / "tmp")
    if not is_home and root.name != "tmp":
        if is_folder(root / CHATS) or stat_of(root / LOG):
            return [root]
        if root.name == CHATS:
            return [root.parent]
    return folders(root / "tmp" if is_home else root, discovery)


def folders(above: Path, discovery: Discovery) -> list[Path]:
    listed = entries(above, discovery)
    linked = [Path(e.path) for e in listed if e.is_symlink() and is_folder(Path(e.path))]
    discovery.passed += [(path, "a link to a folder, not followed") for path in linked]
    return [Path(e.path) for e in listed if e.is_dir(follow_symlinks=False)]


def _project(folder: Path, agent: str, found: _Found, discovery: Discovery) -> None:
    if log := stat_of(folder / LOG):
        discovery.sources.append(_history(log, agent))
    for entry in entries(folder, discovery):
        if entry.name.startswith("checkpoint") and entry.name.endswith(".json"):
            discovery.passed.append((Path(entry.path), "a saved copy of a chat"))
        elif entry.name in _LEFT and entry.is_dir(follow_symlinks=False):
            discovery.passed.append((Path(entry.path), _LEFT[entry.name]))
    for entry in entries(folder / CHATS, discovery):
        if entry.is_dir(follow_symlinks=False):
            for inner in entries(Path(entry.path), discovery):
                _file(inner, found, discovery)
        else:
            _file(entry, found, discovery)


def _history(log: FileStat, agent: str) -> Source:
    return Source(agent, log.path, (log, *_markers([log.path])), HISTORY, read_last=True)


def _file(entry: os.DirEntry[str], found: _Found, discovery: Discovery) -> None:
    path = Path(entry.path)
    if path.suffix not in _SUFFIXES:
        discovery.passed.append((path, "not a session log"))
    elif stat := stat_of(path):
        found.add(stat)
    else:
        discovery.passed.append((path, "a folder, a broken link, or not a regular file"))


class _Found:
    """Copies of chats by the id in their names: a session that goes on in a newer version is copied from the folder
    named by a hash to one named by a slug, and from .json to .jsonl beside it."""

    def __init__(self, discovery: Discovery) -> None:
        self._discovery = discovery
        self._copies: dict[tuple[str | None, str], list[FileStat]] = {}

    def add(self, stat: FileStat) -> None:
        named = _NAMED.fullmatch(stat.path.stem)
        name = named[1] if named else stat.path.stem
        self._copies.setdefault((sub_agent_parent(stat.path), name), []).append(stat)

    def into(self, agent: str) -> None:
        for copies in self._copies.values():
            # The oldest first: a source that keeps its path stays the same source when a newer copy appears.
            copies.sort(key=lambda f: (not HASH.fullmatch(project_of(f.path).name), str(f.path)))
            paths = [f.path for f in copies]
            self._discovery.sources.append(Source(agent, paths[0], (*copies, *_markers(paths)), CHAT))


def _markers(paths: Iterable[Path]) -> list[FileStat]:
    """The files that tell the project's path. The registry, which changes with every new project, only where
    there is no marker."""
    projects = dict.fromkeys(map(project_of, paths))
    found = [s for p in projects if (s := stat_of(p / MARKER))]
    if found:
        return found
    return [s for r in dict.fromkeys(p.parent.parent / REGISTRY for p in projects) if (s := stat_of(r))]
