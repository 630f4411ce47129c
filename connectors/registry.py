"""Every agent, once. Options, configuration keys, `aj agents` and the documents derive from this list."""

from __future__ import annotations

from agent_journal.connectors.aider import Aider
from agent_journal.connectors.base import Connector
from agent_journal.connectors.claude_code import ClaudeCode
from agent_journal.connectors.codex import Codex
from agent_journal.connectors.copilot_cli import CopilotCli
from agent_journal.connectors.cursor_cli import CursorCli
from agent_journal.connectors.cursor_ide import CursorIde
from agent_journal.connectors.gemini import Gemini
from agent_journal.connectors.opencode import Kilo, OpenCode
from agent_journal.connectors.qwen import Qwen
from agent_journal.connectors.specstory import SpecStory

CONNECTORS: tuple[Connector, ...] = (
    ClaudeCode(),
    CopilotCli(),
    Codex(),
    Gemini(),
    Qwen(),
    CursorCli(),
    CursorIde(),
    Aider(),
    OpenCode(),
    Kilo(),
    SpecStory(),
)

BY_AGENT = {c.agent: c for c in CONNECTORS}
BY_NAME = {name: c for c in CONNECTORS for name in (c.agent, *c.aliases, c.config_key)}
SOURCE_KEYS = {c.config_key: c.env for c in CONNECTORS}  # configuration key -> environment variable
