"""The folder that a hash stands for: some agents name a project by the SHA-256 or MD5 of its path and tell no more.

Sessions of other agents in the same folder, and of the same agent that do tell, give it away. Opens no file.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from pathlib import PurePosixPath, PureWindowsPath
from typing import TYPE_CHECKING

from agent_journal.index.codec import path_text

if TYPE_CHECKING:
    from agent_journal.index.store import Store

_HASH = re.compile(r"[0-9a-f]{64}|[0-9a-f]{32}")
_PATH_CHARS = 4096  # the longest a system takes: every folder above a path is hashed, too


class Folders:
    """What is known at one moment; nothing is hashed before a hash is asked for."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: dict[str, str] | None = None

    def called(self, name: str | None) -> str | None:
        if name is None or not _HASH.fullmatch(name):
            return None
        if self._known is None:
            found = self._store.rows("SELECT DISTINCT workspace FROM session WHERE workspace IS NOT NULL")
            self._known = {h: path for path in _upwards({path_text(row[0]) for row in found}) for h in _hashes(path)}
        return self._known.get(name)

    def told_later(self) -> Iterator[tuple[tuple[str, str, str], str]]:
        """(agent, home, path) of each source with a session of no known folder that is known by now, and the folder."""
        found = self._store.rows(
            "SELECT DISTINCT source.agent, source.home, source.path FROM session JOIN source "
            "ON source.id = session.source WHERE session.workspace IS NULL AND NOT source.gone"
        )
        for agent, home, path in found:
            named = (self.called(part) for part in re.split(r"[/\\]", path_text(path)))
            if folder := next(filter(None, named), None):
                yield (str(agent), str(home), path_text(path)), folder


def _upwards(paths: set[str]) -> Iterator[str]:
    """Each folder once, with all above it: an agent may have been started there."""
    seen: set[str] = set()
    for path in paths:
        pure = PureWindowsPath(path) if "\\" in path else PurePosixPath(path)
        for folder in map(str, (pure, *pure.parents) if len(path) <= _PATH_CHARS else ()):
            if folder in seen:
                break
            seen.add(folder)
            yield folder


def _hashes(path: str) -> Iterator[str]:
    """Qwen Code lower-cases Windows' paths first."""
    for spelled in {path, path.lower() if "\\" in path else path}:
        data = spelled.encode("utf-8", "surrogateescape")
        yield hashlib.sha256(data).hexdigest()
        yield hashlib.md5(data, usedforsecurity=False).hexdigest()
