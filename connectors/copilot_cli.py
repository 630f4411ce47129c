"""Copilot CLI: event logs below ~/.copilot/session-state, and the JSON sessions of its first versions.

Never writes to Copilot's folders. Where files are is in copilot_files; how they are read, in copilot_sessions.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from agent_journal.connectors.base import Discovery, Reading, Source, given_folder, resumed
from agent_journal.connectors.copilot_files import AGENT, find
from agent_journal.session import Resume, Session


class CopilotCli:
    agent = AGENT
    name = "Copilot CLI"
    aliases: tuple[str, ...] = ("copilot",)
    config_key = "copilot_cli"
    env = "AJ_COPILOT_PATH"
    parser_version = 1
    in_projects: tuple[str, ...] = ()

    def roots(self, environ: Mapping[str, str], home: Path) -> list[Path]:
        """XDG_STATE_HOME was used by old versions; what is there now may be links to the home of today."""
        found = [given_folder(environ, "COPILOT_HOME", home) or home / ".copilot", home / ".copilot-cli"]
        if state := given_folder(environ, "XDG_STATE_HOME", home):
            found.append(state / ".copilot")
        distinct: dict[Path, Path] = {}
        for root in found:
            distinct.setdefault(_real(root), root)
        return list(distinct.values())

    def discover(self, root: Path) -> Discovery:
        return find(root)

    def parse(self, source: Source) -> Reading:
        from agent_journal.connectors.copilot_sessions import read

        return read(source)

    def resume(self, session: Session) -> Resume | None:
        return resumed(session, "copilot", "--resume={}")


def _real(root: Path) -> Path:
    """What a home stands for: its sessions' folder may be a link even where the home itself is none."""
    try:
        return (root / "session-state").resolve()
    except (OSError, RuntimeError, ValueError):  # a loop of links, a name that holds a NUL
        return root
