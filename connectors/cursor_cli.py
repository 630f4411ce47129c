"""Cursor CLI: one database of blobs a chat, below ~/.cursor/chats, and the transcripts of its sub-agents.

Never writes to Cursor's folders. A transcript without a database is the editor's: see cursor_ide.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from msgspec.structs import replace

from agent_journal.connectors.base import Discovery, Reading, Source, database_files, readable, resumed, stat_of, walk
from agent_journal.connectors.cursor_files import (
    META,
    NO_CHAT,
    PROMPTS,
    STORE,
    TRANSCRIPT,
    home_transcripts,
    is_home,
    is_read_with,
    parent_of,
    stores,
    tellings,
    transcripts,
)
from agent_journal.session import Resume, Session

AGENT = "cursor-cli"
_MAX_DEPTH = 5  # folders below a named one: projects/<workspace>/agent-transcripts/<id>/subagents


class CursorCli:
    agent = AGENT
    name = "Cursor CLI"
    aliases: tuple[str, ...] = ("cursor", "cursor-agent")
    config_key = "cursor"
    env = "AJ_CURSOR_PATH"
    parser_version = 2
    in_projects: tuple[str, ...] = ()

    def roots(self, environ: Mapping[str, str], home: Path) -> list[Path]:
        return [home / ".cursor", home / ".cursor" / "conversations"]

    def discover(self, root: Path) -> Discovery:
        """A home such as ~/.cursor, any folder of chats or transcripts, or one file."""
        discovery = Discovery()
        if stat_of(root):
            _add(tellings(root), discovery)
        elif is_home(root):
            _discover_home(root, discovery)
        else:
            _add((Path(entry.path) for entry in walk(root, discovery, _MAX_DEPTH)), discovery)
        return discovery

    def parse(self, source: Source) -> Reading:
        from agent_journal.connectors.cursor_stores import read_store
        from agent_journal.connectors.cursor_transcripts import read_transcript

        return read_transcript(source) if source.kind == TRANSCRIPT else read_store(source)

    def resume(self, session: Session) -> Resume | None:
        """Only what is in a database can be resumed, and only from its workspace."""
        held = session.is_agent_session or session.origin.path.endswith(STORE)
        return resumed(session, "cursor-agent", "--resume", "{}") if held else None


def _discover_home(home: Path, discovery: Discovery) -> None:
    held = stores(home, discovery)
    _add(held.values(), discovery)
    for source in home_transcripts(home, discovery):
        if source.path.stem in held:
            discovery.passed.append((source.path, f"the same session as {readable(str(held[source.path.stem]))}"))
        elif parent_of(source.path) in held:
            discovery.sources.append(replace(source, agent=AGENT))


def _add(paths: Iterable[Path], discovery: Discovery) -> None:
    others: list[Path] = []
    for path in paths:
        if path.name == STORE and (files := database_files(path)):
            meta = stat_of(path.with_name(META))
            discovery.sources.append(Source(AGENT, path, files + ((meta,) if meta else ())))
        elif path.name == PROMPTS:
            discovery.passed.append((path, NO_CHAT))
        elif not is_read_with(path):
            others.append(path)
    discovery.sources += [replace(source, agent=AGENT) for source in transcripts(others, discovery)]
