"""Which folder a chat of Gemini CLI or Qwen Code was about: recorded beside it, or known by its hash only."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

from agent_journal.connectors.base import Reading, Source, items, mapping, readable, string
from agent_journal.connectors.google_files import HASH, MARKER, REGISTRY, project_of
from agent_journal.connectors.jsonl import sidecar
from agent_journal.session import Message, Text, Thinking, ToolCall

_MARKER_BYTES = 4096
_MOST_CANDIDATES = 5000
_TEXT_CHARS = 2**20
_PATH_CHARS = 4096  # the longest a system takes; every folder above is tried, and a path of 1 MB has half a million
_PATH = re.compile(r"(?:/[\w.@+~-]+)+|[A-Za-z]:(?:\\[\w. @+~-]+)+")
_CONTEXT = re.compile(
    r"Workspace Directories:\*\*\s{1,20}- (.{1,1000})|I'm currently working in the directory: (.{1,1000})"
)
_CONTEXT_MESSAGES = 3


def workspace(source: Source, facts: Mapping[str, Any], messages: tuple[Message, ...], reading: Reading) -> str | None:
    """The project's folder: as the program recorded it, else any path at hand whose hash is the project's."""
    if marked := next(filter(None, (_marked(f.path) for f in source.files if f.path.name == MARKER)), None):
        return marked
    names = [project_of(f.path).name for f in source.files if f.path.name not in (MARKER, REGISTRY)]
    registered = _registered(source, reading)
    for path, slug in registered.items():
        if slug in names:
            return path
    hashes = {name for name in (*names, string(facts, "projectHash") or "") if HASH.fullmatch(name)}
    if hashes:
        known = (p for p in (*registered, *map(str, source.path.parents), *_named(messages)) if len(p) <= _PATH_CHARS)
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


def _registered(source: Source, reading: Reading) -> dict[str, str]:
    """Path -> slug."""
    path = next((f.path for f in source.files if f.path.name == REGISTRY), None)
    found = mapping(sidecar(path, reading).get("projects")) if path else {}
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
