"""Aider: one Markdown history in every project. Only reads it; how is in aider_log."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from agent_journal.connectors import projects
from agent_journal.connectors.base import Discovery, Reading, Source, given_folder, stat_of
from agent_journal.session import Resume, Session

AGENT = "aider"
HISTORY = ".aider.chat.history.md"
INPUTS = ".aider.input.history"  # what was typed, with the time of each prompt
SETTINGS = ".aider.conf.yml"
_SETTINGS_BYTES = 2**16
_FILE = re.compile(r"""^chat-history-file:[ \t]+(["']?)([^"'\n#]+?)\1[ \t\r]*(?:#.*)?$""", re.MULTILINE)


class Aider:
    agent = AGENT
    name = "Aider"
    aliases: tuple[str, ...] = ()
    config_key = "aider"
    env = "AJ_AIDER_PATH"
    parser_version = 1
    in_projects: tuple[str, ...] = (HISTORY,)

    def roots(self, environ: Mapping[str, str], home: Path) -> list[Path]:
        """A relative name of the history is one for every project; only an absolute one is a place."""
        given = given_folder(environ, "AIDER_CHAT_HISTORY_FILE", home) or _configured(home)
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


def _configured(home: Path) -> Path | None:
    """As the settings in the home say, which hold a name a line."""
    if stat_of(home / SETTINGS) is None:  # a pipe would be waited for
        return None
    try:
        with (home / SETTINGS).open("rb") as file:
            found = _FILE.search(file.read(_SETTINGS_BYTES).decode("utf-8", "replace"))
    except (OSError, ValueError):
        return None
    return given_folder({"file": found[2]}, "file", home) if found else None


def _add(path: Path, discovery: Discovery) -> None:
    files = tuple(found for found in (stat_of(path), stat_of(path.with_name(INPUTS))) if found)
    if files and files[0].path == path:
        discovery.sources.append(Source(AGENT, path, files))
