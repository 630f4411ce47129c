"""Aider: one Markdown history in every project. Only reads it; how is in aider_log."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from agent_journal.connectors import projects
from agent_journal.connectors.base import Discovery, Reading, Source, given_folder, stat_of
from agent_journal.session import Resume, Session

AGENT = "aider"
HISTORY = ".aider.chat.history.md"
INPUTS = ".aider.input.history"  # what was typed, with the time of each prompt


class Aider:
    agent = AGENT
    name = "Aider"
    aliases: tuple[str, ...] = ()
    config_key = "aider"
    env = "AJ_AIDER_PATH"
    parser_version = 1
    in_projects: tuple[str, ...] = (HISTORY,)

    def roots(self, environ: Mapping[str, str], home: Path) -> list[Path]:
        given = given_folder(environ, "AIDER_CHAT_HISTORY_FILE", home)
        return [*projects.places(home), *([given] if given and given.is_absolute() else [])]

    def discover(self, root: Path) -> Discovery:
        discovery = Discovery()
        if stat_of(root):
            _add(root, discovery)
            return discovery
        for _, found in projects.folders(root, discovery):
            for entry in found:
                if entry.name == HISTORY:
                    _add(Path(entry.path), discovery)
        return discovery

    def parse(self, source: Source) -> Reading:
        from agent_journal.connectors.aider_log import read

        return read(source)

    def resume(self, session: Session) -> Resume | None:
        """Aider restores the whole file: no run of it can be chosen."""
        return Resume(("aider", "--restore-chat-history"), session.workspace)


def _add(path: Path, discovery: Discovery) -> None:
    files = tuple(found for found in (stat_of(path), stat_of(path.with_name(INPUTS))) if found)
    if files and files[0].path == path:
        discovery.sources.append(Source(AGENT, path, files))
