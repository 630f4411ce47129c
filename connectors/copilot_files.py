"""Where Copilot CLI keeps its sessions: which files make one source. Looks at names and stats only.

Never goes below a session's own folder: its files/ holds what the user and the agent made, not conversation.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from agent_journal.connectors.base import Discovery, FileStat, Source, entries, is_folder, readable, stat_of

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
    if stat_of(root):
        _single_file(root, discovery)
        return discovery
    parts = [root / name for name in (*CURRENT_FOLDERS, LEGACY_FOLDER)]
    is_home = root.name in _HOMES or any(is_folder(part) for part in parts)
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


class _Found:
    """Logs by the session they are named after: a session may have moved from one layout to another."""

    def __init__(self) -> None:
        self.folders: dict[str, FileStat] = {}
        self.flat: dict[str, FileStat] = {}
        self.legacy: dict[str, list[FileStat]] = {}

    def put(self, logs: dict[str, FileStat], name: str, log: FileStat, discovery: Discovery) -> None:
        if name in logs:
            discovery.passed.append((log.path, f"the same session as {readable(str(logs[name].path))}"))
        else:
            logs[name] = log

    def into(self, discovery: Discovery) -> None:
        """One source per session. One of the old format that goes on in an event log is read with the log."""
        for name in sorted(self.folders.keys() | self.flat.keys()):
            # The flat layout came first: a source that keeps its path stays the same source after the move.
            logs = [log for log in (self.flat.get(name), self.folders.get(name)) if log]
            path = logs[0].path
            files = (*logs, *_sidecars(path), *self.legacy.pop(name, []))
            source = Source(AGENT, path, files, EVENTS)
            discovery.sources.append(source)
            kept = log_of(source)
            reason = f"the same session as {readable(str(kept.path))}"
            discovery.passed += [(log.path, reason) for log in logs if log is not kept]
        for name in sorted(self.legacy):
            discovery.sources += [Source(AGENT, f.path, (f,), LEGACY) for f in self.legacy[name]]


def log_of(source: Source) -> FileStat:
    """The log to read where a session has two: the one in its own folder, unless the flat one is newer."""
    logs = [f for f in source.files if f.path.suffix == ".jsonl"]
    return max(logs or source.files[:1], key=lambda f: (f.mtime_ns, f.path.name == LOG))


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
        found.put(found.folders, folder.name, own, discovery)
        return
    listed = entries(folder, discovery)
    if listed and _is_closed(folder, discovery):
        return
    for entry in listed:
        if entry.is_dir(follow_symlinks=False):
            _session_folder(Path(entry.path), found, discovery)
        else:
            _file(entry, found, discovery)


def _session_folder(folder: Path, found: _Found, discovery: Discovery) -> None:
    log = stat_of(folder / LOG)
    if log:
        found.put(found.folders, folder.name, log, discovery)
        return
    names = {e.name for e in entries(folder, discovery)}
    if _is_closed(folder, discovery):
        return
    if LOG in names:
        discovery.passed.append((folder / LOG, "a folder, a broken link, or not a regular file"))
    elif folder.suffix in (".jsonl", ".json"):
        discovery.passed.append((folder, "a folder named like a log"))
    else:
        discovery.passed.append((folder, f"a session's folder without {LOG}"))


def _is_closed(folder: Path, discovery: Discovery) -> bool:
    """A folder may be listed and still not be entered: its files then seem to be missing."""
    if os.access(folder, os.R_OK | os.X_OK):
        return False
    if all(path != folder for path, _ in discovery.unlisted):
        discovery.unlisted.append((folder, "Permission denied"))
    return True


def _file(entry: os.DirEntry[str], found: _Found, discovery: Discovery) -> None:
    path = Path(entry.path)
    old = legacy_name(entry.name)
    if entry.is_symlink() and is_folder(path):
        discovery.passed.append((path, "a link to a folder, not followed"))
    elif path.suffix != ".jsonl" and old is None:
        discovery.passed.append((path, "not a session log"))
    elif (stat := stat_of(path)) is None:
        discovery.passed.append((path, "a broken link, or not a regular file"))
    elif old:
        found.legacy.setdefault(old[0], []).append(stat)
    else:
        found.put(found.flat, path.stem, stat, discovery)
