"""Gemini CLI: chats, sub-agents' chats and prompt logs below ~/.gemini/tmp.

Never writes to Gemini's folders. Saved checkpoints and tool outputs are left: they repeat chats.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from agent_journal.connectors.base import Discovery, Reading, Source, given_folder, resumed
from agent_journal.connectors.google_files import HISTORY, LOG, find
from agent_journal.session import Resume, Session

AGENT = "gemini"


class Gemini:
    agent = AGENT
    name = "Gemini CLI"
    aliases: tuple[str, ...] = ("gemini-cli",)
    config_key = "gemini"
    env = "AJ_GEMINI_PATH"
    parser_version = 1
    in_projects: tuple[str, ...] = ()

    def roots(self, environ: Mapping[str, str], home: Path) -> list[Path]:
        """Inside macOS's sandbox the program keeps its files below the cache."""
        base = given_folder(environ, "GEMINI_CLI_HOME", home) or home
        return [base / ".gemini", base / ".cache" / ".gemini"]

    def discover(self, root: Path) -> Discovery:
        return find(root, AGENT)

    def parse(self, source: Source) -> Reading:
        from agent_journal.connectors.google_chats import read_chat, read_history

        return read_history(source) if source.kind == HISTORY else read_chat(source)

    def resume(self, session: Session) -> Resume | None:
        """From the project's folder only. Prompts without a chat cannot be resumed."""
        return None if session.origin.path.endswith(LOG) else resumed(session, "gemini", "--resume", "{}")
