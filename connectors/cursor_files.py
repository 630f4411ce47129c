"""Where Cursor's command line and editor leave databases and transcripts. Looks at names and stats only."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from agent_journal.connectors.base import Discovery, FileStat, Source, entries, is_folder, readable, stat_of, walk

TRANSCRIPT = "history"  # kind of Source
STORE, META, PROMPTS = "store.db", "meta.json", "prompt_history.json"  # of a chat
FOLDER, _SUB_AGENTS = "agent-transcripts", "subagents"
NO_CHAT = "a list of prompts, not a chat"
_HOME_PARTS = ("chats", "projects")
_SUFFIXES = (".txt", ".jsonl")


def is_home(root: Path) -> bool:
    return root.name == ".cursor" or any(is_folder(root / part) for part in _HOME_PARTS)


def stores(home: Path, discovery: Discovery) -> dict[str, Path]:
    """chats/<md5 of the workspace>/<session id>/store.db, by session."""
    held: dict[str, Path] = {}
    for path in _paths(home / "chats", discovery):
        if path.name == STORE:
            held[path.parent.name] = path
        elif not is_read_with(path):
            discovery.passed.append((path, NO_CHAT if path.name == PROMPTS else "not a chat"))
    return held


def is_read_with(path: Path) -> bool:
    """A chat's database, SQLite's own files beside it, and its facts."""
    return path.name.startswith((STORE, META))


def home_transcripts(home: Path, discovery: Discovery) -> list[Source]:
    projects = [Path(e.path) / FOLDER for e in entries(home / "projects", discovery)]
    return [source for folder in projects for source in transcripts(_paths(folder, discovery), discovery)]


def _paths(folder: Path, discovery: Discovery) -> Iterator[Path]:
    return (Path(entry.path) for entry in walk(folder, discovery, 2))


def transcripts(paths: Iterable[Path], discovery: Discovery) -> list[Source]:
    """One source a session. Its oldest layout gives the path, so that a session that moves stays the same source."""
    found: dict[tuple[Path, str], list[FileStat]] = {}
    for path in paths:
        own = stat_of(path) if path.suffix in _SUFFIXES else None
        if own is None:
            discovery.passed.append((path, "not a transcript"))
            continue
        found.setdefault((_folder_of(path), path.stem), []).append(own)
    listed = (sorted(files, key=_freshness) for files in found.values())
    return [Source("", files[0].path, tuple(files), TRANSCRIPT, read_last=True) for files in listed]


def tellings(path: Path) -> list[Path]:
    """A transcript with all others of its session; any other file alone."""
    if path.suffix not in _SUFFIXES:
        return [path]
    folder, name = _folder_of(path), path.stem
    inside = folder / name if folder.name == FOLDER else folder
    return [p for p in dict.fromkeys(f / f"{name}{s}" for f in (folder, inside) for s in _SUFFIXES) if stat_of(p)]


def _folder_of(path: Path) -> Path:
    """Where transcripts of all layouts lie: newer versions make a folder for each session."""
    nested = path.parent.name == path.stem and path.parent.parent.name == FOLDER
    return path.parent.parent if nested else path.parent


def _freshness(file: FileStat) -> tuple[bool, bool]:
    """.txt came first, then lines of JSON, then a folder for each session."""
    return file.path.suffix == ".jsonl", file.path.parent.name == file.path.stem


def parent_of(path: Path) -> str | None:
    """The session that started the sub-agent of this transcript."""
    return readable(path.parent.parent.name) if path.parent.name == _SUB_AGENTS else None
