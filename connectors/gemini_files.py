"""Where Gemini CLI, and Qwen Code before it left that layout, keep chats: which files make one source, and
which folder they were about. Finding looks at names and stats only.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

from agent_journal.connectors.base import (
    Discovery,
    FileStat,
    Source,
    entries,
    is_folder,
    items,
    mapping,
    readable,
    stat_of,
    string,
)
from agent_journal.connectors.jsonl import document
from agent_journal.errors import UnreadableSource
from agent_journal.session import Message, Text, Thinking, ToolCall

CHAT, HISTORY = "chat", "history"  # kinds of Source
CHATS, LOG = "chats", "logs.json"
MARKER, REGISTRY = ".project_root", "projects.json"
_HOMES = (".gemini", ".qwen")
_SUFFIXES = (".json", ".jsonl")
_HASH = re.compile(r"[0-9a-f]{64}")


def find(root: Path, agent: str) -> Discovery:
    """Sources of a home such as ~/.gemini, its tmp, one project's folder below that, its chats, or one file."""
    discovery = Discovery()
    found = _Found(discovery)
    if single := stat_of(root):
        if root.name == LOG:
            discovery.sources.append(Source(agent, root, (single, *_markers([root])), HISTORY))
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
        discovery.sources.append(Source(agent, log.path, (log, *_markers([log.path])), HISTORY))
    for entry in entries(folder, discovery):
        if entry.name.startswith("checkpoint") and entry.name.endswith(".json"):
            discovery.passed.append((Path(entry.path), "a saved copy of a chat"))
    for entry in entries(folder / CHATS, discovery):
        if entry.is_dir(follow_symlinks=False):
            for inner in entries(Path(entry.path), discovery):
                _file(inner, found, discovery)
        else:
            _file(entry, found, discovery)


def _file(entry: os.DirEntry[str], found: _Found, discovery: Discovery) -> None:
    path = Path(entry.path)
    if path.suffix not in _SUFFIXES:
        discovery.passed.append((path, "not a session log"))
    elif stat := stat_of(path):
        found.add(stat)
    else:
        discovery.passed.append((path, "a folder, a broken link, or not a regular file"))


class _Found:
    """Copies of chats by name: a session that goes on in a newer version is copied from the folder named by a
    hash to one named by a slug, and from .json to .jsonl beside it."""

    def __init__(self, discovery: Discovery) -> None:
        self._discovery = discovery
        self._copies: dict[tuple[str | None, str], list[FileStat]] = {}

    def add(self, stat: FileStat) -> None:
        self._copies.setdefault((sub_agent_parent(stat.path), stat.path.stem), []).append(stat)

    def into(self, agent: str) -> None:
        for copies in self._copies.values():
            # The oldest first: a source that keeps its path stays the same source when a newer copy appears.
            copies.sort(key=lambda f: (not _HASH.fullmatch(project_of(f.path).name), str(f.path)))
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


# Which folder a chat was about.

_MARKER_BYTES = 4096
_MOST_CANDIDATES = 5000
_TEXT_CHARS = 2**20
_PATH = re.compile(r"(?:/[\w.@+~-]+)+|[A-Za-z]:(?:\\[\w. @+~-]+)+")
_CONTEXT = re.compile(
    r"Workspace Directories:\*\*\s{1,20}- (.{1,1000})|I'm currently working in the directory: (.{1,1000})"
)
_CONTEXT_MESSAGES = 3


def workspace(source: Source, facts: Mapping[str, Any], messages: tuple[Message, ...]) -> str | None:
    """The project's folder: as the program recorded it, else any path at hand whose hash is the project's."""
    if marked := next(filter(None, (_marked(f.path) for f in source.files if f.path.name == MARKER)), None):
        return marked
    names = [project_of(f.path).name for f in source.files if f.path.name not in (MARKER, REGISTRY)]
    registered = _registered(source)
    for path, slug in registered.items():
        if slug in names:
            return path
    hashes = {name for name in (*names, string(facts, "projectHash") or "") if _HASH.fullmatch(name)}
    if hashes:
        known = (*registered, *map(str, source.path.parents), *_named(messages))
        candidates = dict.fromkeys(islice((p for one in known for p in _upwards(one)), _MOST_CANDIDATES))
        if found := next((p for p in candidates if not hashes.isdisjoint(_hashes(p))), None):
            return readable(found)
    return next((d for d in items(facts.get("directories")) if isinstance(d, str) and d), None) or _told(messages)


def _marked(path: Path) -> str | None:
    try:
        with path.open("rb") as file:
            text = file.read(_MARKER_BYTES).decode("utf-8", "replace")
    except OSError:
        return None
    return text.strip() or None


def _registered(source: Source) -> dict[str, str]:
    """Path -> slug."""
    path = next((f.path for f in source.files if f.path.name == REGISTRY), None)
    try:
        found = mapping(mapping(document(path)).get("projects")) if path else {}
    except UnreadableSource:  # being rewritten: the next run reads it whole
        return {}
    return {path: slug for path, slug in found.items() if isinstance(slug, str)}


def _named(messages: tuple[Message, ...]) -> Iterator[str]:
    """Absolute paths that calls, results and texts mention."""
    left = _TEXT_CHARS
    for text in (t for m in messages for t in _texts(m)):
        for match in _PATH.finditer(text[:left]):
            yield match[0]
        left -= len(text)
        if left <= 0:
            return


def _texts(message: Message) -> Iterator[str]:
    for block in message.blocks:
        if isinstance(block, ToolCall):
            yield from (v for v in mapping(block.arguments).values() if isinstance(v, str))
            yield block.result or ""
        elif isinstance(block, Text | Thinking):
            yield block.text


def _upwards(path: str) -> Iterator[str]:
    pure = PureWindowsPath(path) if "\\" in path else PurePosixPath(path)
    return map(str, (pure, *pure.parents))


def _hashes(path: str) -> Iterator[str]:
    """Qwen Code lower-cases Windows' paths first."""
    for spelled in dict.fromkeys((path, path.lower())):
        yield hashlib.sha256(spelled.encode("utf-8", "surrogateescape")).hexdigest()


def _told(messages: tuple[Message, ...]) -> str | None:
    """The context that is set before the first prompt names the folder."""
    for message in messages[:_CONTEXT_MESSAGES]:
        if message.is_meta and (found := _CONTEXT.search(message.text)):
            return (found[1] or found[2]).strip()
    return None
