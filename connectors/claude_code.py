"""Claude Code: transcripts below ~/.claude/projects, their sub-agents, and the prompt history.

Never writes to Claude's folders. Where files are is in claude_files; how they are read, in claude_sessions.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from agent_journal.connectors.base import Discovery, Reading, Source, given_folder, resumed
from agent_journal.connectors.claude_files import AGENT, PROMPTS, find
from agent_journal.session import Resume, Session


class ClaudeCode:
    agent = AGENT
    name = "Claude Code"
    aliases: tuple[str, ...] = ("claude",)
    config_key = "claude_code"
    env = "AJ_CLAUDE_PATH"
    parser_version = 1
    in_projects: tuple[str, ...] = ()

    def roots(self, environ: Mapping[str, str], home: Path) -> list[Path]:
        config = given_folder(environ, "CLAUDE_CONFIG_DIR", home) or home / ".claude"
        return list(dict.fromkeys((config, home / ".config" / "claude")))

    def discover(self, root: Path) -> Discovery:
        return find(root)

    def parse(self, source: Source) -> Reading:
        from agent_journal.connectors.claude_sessions import read

        return read(source)

    def resume(self, session: Session) -> Resume | None:
        """Prompts without a transcript cannot be resumed."""
        return None if session.origin.path.endswith(PROMPTS) else resumed(session, "claude", "--resume", "{}")
