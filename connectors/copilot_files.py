"""Where Copilot CLI keeps its sessions: which files make one source. Looks at names and stats only.

Never goes below a session's own folder: its files/ holds what the user and the agent made, not conversation.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from agent_journal.connectors.base import Discovery, FileStat, Source, entries, stat_of

AGENT = "copilot-cli"
EVENTS, LEGACY = "events", "legacy"  # kinds of Source
LOG, WORKSPACE = "events.jsonl", "workspace.yaml"
CURRENT_FOLDERS = ("session-state", "sessions")
LEGACY_FOLDER = "history-session-state"
_HOMES = (".copilot", ".copilot-cli")
_LEGACY_NAME = re.compile(r"session_(.+?)(?:_(\d{9,}))?\.json", re.DOTALL)


def find(root: Path) -> Discovery:
    """Sources of a home such as ~/.copilot, a folder of sessions, one session's folder, or one file."""
    discovery = Discovery()
    if root.is_file():
        _single_file(root, discovery)
        return discovery
    parts = [root / name for name in (*CURRENT_FOLDERS, LEGACY_FOLDER)]
    is_home = root.name in _HOMES or any(part.is_dir() for part in parts)
    found = _Found()
    for folder in parts if is_home else [root]:
        _folder(folder, found, discovery)
    found.into(discovery)
    return discovery


def legacy_name(name: str) -> tuple[str, str | None] | None:
    """Session id and start (epoch milliseconds) in the name of a session of the old format."""
    match = _LEGACY_NAME.fullmatch(name)
    return (match[1], match[2]) if match else None


def session_name(path: Path) -> str:
    """The session a log belongs to, by its place."""
    return readable(path.parent.name if path.name == LOG else path.stem)


def readable(name: str) -> str:
    """A file name as text that can be written: not all names are UTF-8."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


class _Found:
    """Logs by the session they are named after: a session may have moved from one layout to another."""

    def __init__(self) -> None:
        self.folders: dict[str, FileStat] = {}
        self.flat: dict[str, FileStat] = {}
        self.legacy: dict[str, list[FileStat]] = {}

    def into(self, discovery: Discovery) -> None:
        """One source per session. One of the old format that goes on in an event log is read with the log."""
        for name in sorted(self.folders.keys() | self.flat.keys()):
            log = self._newest(name, discovery)
            older = self.legacy.pop(name, [])
            discovery.sources.append(Source(AGENT, log.path, (log, *_sidecars(log.path), *older), EVENTS))
        for name in sorted(self.legacy):
            discovery.sources += [Source(AGENT, f.path, (f,), LEGACY) for f in self.legacy[name]]

    def _newest(self, name: str, discovery: Discovery) -> FileStat:
        folder, flat = self.folders.get(name), self.flat.get(name)
        if folder is None or flat is None:
            only = folder or flat
            assert only is not None
            return only
        kept, other = (flat, folder) if flat.mtime_ns > folder.mtime_ns else (folder, flat)
        discovery.passed.append(
            (other.path, f"the same session as {readable(str(kept.path))}, which is newer")
        )
        return kept


def _sidecars(log: Path) -> list[FileStat]:
    own = log.parent if log.name == LOG else log.with_suffix("")
    found = stat_of(own / WORKSPACE)
    return [found] if found else []


def _single_file(path: Path, discovery: Discovery) -> None:
    found = stat_of(path)
    if found is None:
        discovery.passed.append((path, "not a regular file"))
    elif path.suffix == ".jsonl":
        discovery.sources.append(Source(AGENT, path, (found, *_sidecars(path)), EVENTS))
    elif path.suffix == ".json":
        discovery.sources.append(Source(AGENT, path, (found,), LEGACY))
    else:
        discovery.passed.append((path, "not a .jsonl or .json file"))


def _folder(folder: Path, found: _Found, discovery: Discovery) -> None:
    own = stat_of(folder / LOG)
    if own:
        found.folders[folder.name] = own
        return
    for entry in entries(folder, discovery):
        if entry.is_dir(follow_symlinks=False):
            _session_folder(Path(entry.path), found, discovery)
        else:
            _file(entry, found, discovery)


def _session_folder(folder: Path, found: _Found, discovery: Discovery) -> None:
    log = stat_of(folder / LOG)
    if log:
        found.folders[folder.name] = log
        return
    names = {e.name for e in entries(folder, discovery)}
    if not os.access(folder, os.R_OK | os.X_OK):
        if all(path != folder for path, _ in discovery.unlisted):
            discovery.unlisted.append((folder, "Permission denied"))
    elif LOG in names:
        discovery.passed.append((folder / LOG, "a folder, a broken link, or not a regular file"))
    elif folder.suffix in (".jsonl", ".json"):
        discovery.passed.append((folder, "a folder named like a log"))
    else:
        discovery.passed.append((folder, f"a session's folder without {LOG}"))


def _file(entry: os.DirEntry[str], found: _Found, discovery: Discovery) -> None:
    path = Path(entry.path)
    old = legacy_name(entry.name)
    if entry.is_symlink() and path.is_dir():
        discovery.passed.append((path, "a link to a folder, not followed"))
    elif path.suffix != ".jsonl" and old is None:
        discovery.passed.append((path, "not a session log"))
    elif (stat := stat_of(path)) is None:
        discovery.passed.append((path, "a broken link, or not a regular file"))
    elif old:
        found.legacy.setdefault(old[0], []).append(stat)
    else:
        found.flat[path.stem] = stat
