"""What the parts of a Codex record say: prompts and what was injected among them, ids, tokens. Pure."""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from agent_journal.connectors.base import count, mapping, string
from agent_journal.connectors.blocks import Stamp, attachment, kind_name
from agent_journal.session import Attachment, Usage

# How the texts begin that Codex itself puts among the user's; compared in lower case.
_INJECTED = (
    "<user_instructions>", "<environment_context>", "# agents.md instructions", "<instructions>",
    "<permissions instructions>", "<turn_aborted>", "<subagent_notification>", "<skill>", "<skills_instructions>",
    "<plugins_instructions>", "<recommended_plugins>", "<apps_instructions>", "<environments_instructions>",
    "<collaboration_mode>", "<multi_agent_mode>", "<realtime_conversation>", "<context_window",
    "<codex_internal_context", "<goal_context>", "<hook_prompt", "<tools>",
)  # fmt: skip
_REQUEST = "## My request for Codex:"  # the IDE writes open files and selections before it
_SHELL = re.compile(r"<user_shell_command>\s*<command>(.*?)</command>(?:\s*<result>(.*?)</result>)?", re.S)
_CWD = re.compile(r"<cwd>([^<\n]+)</cwd>|Current working directory: (\S[^\n]*)")
HEADER_CHARS = 4000


def uuid7_time(text: str) -> datetime | None:
    try:
        found = uuid.UUID(text)
        return datetime.fromtimestamp((found.int >> 80) / 1000, UTC) if found.version == 7 else None
    except (ValueError, OverflowError, OSError):
        return None


def is_injected(text: str) -> bool:
    return text.lstrip()[:40].lower().startswith(_INJECTED)


def is_shell(text: str) -> bool:
    return _SHELL.match(text.lstrip()) is not None


def prompt_texts(text: str) -> tuple[str, ...]:
    """What a person wrote: a request without what the IDE put before it, or a shell command and what it printed."""
    if shell := _SHELL.match(text.lstrip()):
        return tuple(t.strip() for t in shell.groups() if t and t.strip())
    return (text.partition(_REQUEST)[2].strip() or text,)


def named_folder(text: str) -> str | None:
    found = _CWD.search(text[:HEADER_CHARS]) if is_injected(text) else None
    return (found[1] or found[2]).strip() if found else None


def squeezed(text: str) -> str:
    """An event joins what an item holds in parts: compared without spaces."""
    return "".join(text.split())


def part_text(raw: Any) -> str:
    return string(mapping(raw), "text") or ""


def attached(raw: Any, uuid: str | None, at: datetime | None) -> Attachment | None:
    fields = mapping(raw)
    kind = {"input_image": "image", "input_audio": "audio"}.get(kind_name(fields.get("type")))
    if kind is None:
        return None
    url = string(fields, "image_url") or ""
    media = url[5:].partition(";")[0] if url.startswith("data:") else ""
    return attachment(kind, url, media, Stamp(uuid, None, at))


def token_totals(fields: dict[str, Any]) -> dict[str, Any]:
    return mapping(mapping(fields.get("info")).get("total_token_usage"))


def usage_of(tokens: Mapping[str, Any]) -> Usage:
    """Codex counts cached tokens among the input; its output holds the reasoning."""
    cached = count(tokens.get("cached_input_tokens"))
    return Usage(
        input_tokens=max(0, count(tokens.get("input_tokens")) - cached),
        output_tokens=count(tokens.get("output_tokens")),
        cache_creation_tokens=count(tokens.get("cache_write_input_tokens")),
        cache_read_tokens=cached,
    )
