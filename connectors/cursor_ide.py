"""Cursor, the editor: chats ("composers") in its state databases, and transcripts of agent runs that have no other.

Never writes to the editor's folders. How the databases are read is in cursor_states.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from pathlib import Path

from msgspec.structs import replace

from agent_journal.connectors.base import (
    Discovery,
    Part,
    Reading,
    Source,
    database_files,
    entries,
    given_folder,
    stat_of,
    whole,
)
from agent_journal.connectors.cursor_files import (
    home_transcripts,
    is_home,
    parent_of,
    stores,
    tellings,
    transcripts,
)
from agent_journal.session import Resume, Session

AGENT = "cursor-ide"
DATABASE, WORKSPACES = "state.vscdb", "workspaceStorage"
_USER = Path("Cursor", "User")


class CursorIde:
    agent = AGENT
    name = "Cursor"
    aliases: tuple[str, ...] = ("cursor-editor",)
    config_key = "cursor_ide"
    env = "AJ_CURSOR_IDE_PATH"
    parser_version = 2
    in_projects: tuple[str, ...] = ()

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
        from agent_journal.connectors.cursor_transcripts import read_transcript

        return whole(self.sessions(source)) if source.shared else read_transcript(source)

    def sessions(self, source: Source) -> Generator[Part, None, None]:
        from agent_journal.connectors.cursor_states import sessions

        return sessions(source)

    def resume(self, session: Session) -> Resume | None:
        """The editor opens folders, not chats."""
        return None


def _add_file(path: Path, discovery: Discovery) -> None:
    if path.suffix != ".vscdb":
        discovery.sources += [replace(source, agent=AGENT) for source in transcripts(tellings(path), discovery)]
        return
    files, beside = database_files(path), stat_of(path.with_name("workspace.json"))
    discovery.sources.append(Source(AGENT, path, files + ((beside,) if beside else ()), shared=True))


def _add_databases(root: Path, discovery: Discovery) -> None:
    places = [root, *(Path(e.path) for e in entries(root, discovery) if e.is_dir(follow_symlinks=False))]
    for inner in ("User", WORKSPACES, f"User/{WORKSPACES}"):
        places += [Path(e.path) for e in entries(root / inner, discovery) if e.is_dir(follow_symlinks=False)]
    for place in dict.fromkeys(places):
        if stat_of(place / DATABASE):
            _add_file(place / DATABASE, discovery)
