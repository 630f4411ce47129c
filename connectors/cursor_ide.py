"""Cursor, the editor: chats ("composers") in its state databases, and transcripts of agent runs that have no other.

One database holds all chats of a machine and may be gigabytes long: chats are read one by one, and their messages
("bubbles") by key, one at a time. What the editor keeps beside them (diffs, checkpoints, context) is never read.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from pathlib import Path, PureWindowsPath
from typing import Any
from urllib.parse import unquote, urlsplit

from msgspec import structs

from agent_journal.connectors import database
from agent_journal.connectors.base import (
    Discovery,
    Reading,
    Source,
    count,
    entries,
    file_time,
    given_folder,
    items,
    mapping,
    readable,
    stat_of,
    string,
    timestamp,
)
from agent_journal.connectors.blocks import kept_json, kind_name, tool_paths
from agent_journal.connectors.cursor_transcripts import (
    TRANSCRIPT,
    home_transcripts,
    is_home,
    parent_of,
    read_transcript,
    stores,
    transcripts,
)
from agent_journal.connectors.jsonl import MAX_LINE_BYTES, decoded, document
from agent_journal.errors import UnreadableSource
from agent_journal.session import (
    Attachment,
    Block,
    Message,
    Origin,
    Resume,
    Role,
    Session,
    Text,
    Thinking,
    ToolCall,
    Transcript,
    Usage,
    tool_type,
)

AGENT = "cursor-ide"
DATABASE, GLOBAL, WORKSPACES = "state.vscdb", "globalStorage", "workspaceStorage"
_USER = Path("Cursor", "User")
_EARLIEST_MS = 946_684_800_000  # the year 2000: smaller numbers count from the start of the program
_CHATS, _PROMPTS = "workbench.panel.aichat.view.aichat.chatdata", "aiService.prompts"
_PANE, _VIEW = "workbench.panel.composerChatViewPane", "workbench.panel.aichat.view."


class CursorIde:
    agent = AGENT
    name = "Cursor"
    aliases: tuple[str, ...] = ("cursor-editor",)
    config_key = "cursor_ide"
    env = "AJ_CURSOR_IDE_PATH"
    parser_version = 1

    def roots(self, environ: Mapping[str, str], home: Path) -> list[Path]:
        """The editor's own folder on each system, and where agents of the editor leave transcripts."""
        found = [
            (given_folder(environ, "XDG_CONFIG_HOME", home) or home / ".config") / _USER,
            home / "Library" / "Application Support" / _USER,
            (given_folder(environ, "APPDATA", home) or home / "AppData" / "Roaming") / _USER,
            home / ".cursor",
        ]
        return list(dict.fromkeys(found))

    def discover(self, root: Path) -> Discovery:
        """A User folder or one above or below it, a home such as ~/.cursor, or one file."""
        discovery = Discovery()
        if stat_of(root):
            _add_file(root, discovery)
        elif is_home(root):
            held = stores(root, Discovery()).keys()  # those are Cursor CLI's, and so are their sub-agents
            found = home_transcripts(root, discovery)
            discovery.passed.clear()  # named once, by Cursor CLI
            own = [s for s in found if held.isdisjoint((s.path.stem, parent_of(s.path)))]
            discovery.sources += [replace(source, agent=AGENT) for source in own]
        else:
            _add_databases(root, discovery)
        return discovery

    def parse(self, source: Source) -> Reading:
        reading = Reading()
        if source.kind == TRANSCRIPT:
            read_transcript(source, reading)
            return reading
        with database.reading(source.path) as db:
            state = _State(db, source, reading)
            state.read_composers()
            state.read_chats()
            state.read_prompts()
        return reading

    def resume(self, session: Session) -> Resume | None:
        """The editor opens folders, not chats."""
        return None


def _add_file(path: Path, discovery: Discovery) -> None:
    if path.suffix != ".vscdb":
        discovery.sources += [replace(source, agent=AGENT) for source in transcripts([path], discovery)]
        return
    files, beside = database.files_of(path), stat_of(path.with_name("workspace.json"))
    discovery.sources.append(Source(AGENT, path, files + ((beside,) if beside else ())))


def _add_databases(root: Path, discovery: Discovery) -> None:
    places = [root, *(Path(e.path) for e in entries(root, discovery) if e.is_dir(follow_symlinks=False))]
    for inner in ("User", WORKSPACES, f"User/{WORKSPACES}"):
        places += [Path(e.path) for e in entries(root / inner, discovery) if e.is_dir(follow_symlinks=False)]
    for place in dict.fromkeys(places):
        if stat_of(place / DATABASE):
            _add_file(place / DATABASE, discovery)


@dataclass
class _State:
    """One state database, whose tables are keys and values."""

    db: sqlite3.Connection
    source: Source
    reading: Reading

    @property
    def is_global(self) -> bool:
        return self.source.path.parent.name == GLOBAL

    @property
    def skipped(self) -> Any:
        return self.reading.skipped

    # Chats of today.

    def read_composers(self) -> None:
        parents: dict[str, str] = {}
        made: list[Transcript] = []
        for key, value in _range(self.db, "cursorDiskKV", "composerData:", self.reading):
            composer = _Composer(self, key.partition(":")[2], mapping(value))
            transcript = composer.transcript()
            for child in composer.children():
                parents.setdefault(child, composer.id)
            if transcript:
                made.append(transcript)
        self.reading.transcripts += [_below(t, parents.get(t.session.id)) for t in made]
