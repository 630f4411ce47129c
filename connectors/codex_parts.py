"""What the parts of a Codex record say: texts, arguments, results, tokens. Pure; knows nothing of the order of records."""

from __future__ import annotations

import re
import uuid
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from agent_journal.connectors.base import count, items, mapping, string
from agent_journal.connectors.blocks import kept_json, kind_name, result_text, tool_paths
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
_PATCHED = re.compile(r"^\*\*\* (?:(?:Add|Update|Delete) File|Move to): (.+?)\s*$", re.M)
_EXIT = re.compile(r"^(?:Exit code:|Process exited with code) (-?\d{1,10})$", re.M)
_FAILED = re.compile(r"aborted by user|failed|\w+ (?:verification )?failed")
_HEADER_CHARS = 4000
CALL_NAMES = {
    "local_shell_call": "local_shell", "web_search_call": "web_search", "tool_search_call": "tool_search",
    "image_generation_call": "image_generation",
}  # fmt: skip


def uuid7_time(text: str) -> datetime | None:
    try:
        found = uuid.UUID(text)
        return datetime.fromtimestamp((found.int >> 80) / 1000, UTC) if found.version == 7 else None
    except (ValueError, OverflowError, OSError):
        return None


def is_injected(text: str) -> bool:
    return text.lstrip()[:40].lower().startswith(_INJECTED)


def prompt_texts(text: str) -> tuple[str, ...]:
    """What a person wrote: a request without what the IDE put before it, or a shell command and what it printed."""
    if shell := _SHELL.match(text.lstrip()):
        return tuple(t.strip() for t in shell.groups() if t and t.strip())
    return (text.partition(_REQUEST)[2].strip() or text,)


def named_folder(text: str) -> str | None:
    found = _CWD.search(text[:_HEADER_CHARS]) if is_injected(text) else None
    return (found[1] or found[2]).strip() if found else None


def squeezed(text: str) -> str:
    """An event joins what an item holds in parts: compared without spaces."""
    return "".join(text.split())


def part_text(raw: Any) -> str:
    return string(mapping(raw), "text") or ""


def attachment(raw: Any, uuid: str | None, at: datetime | None) -> Attachment | None:
    fields = mapping(raw)
    kind = {"input_image": "image", "input_audio": "audio"}.get(kind_name(fields.get("type")))
    if kind is None:
        return None
    url = string(fields, "image_url") or ""
    media = url[5:].partition(";")[0][:100] if url.startswith("data:") else ""
    return Attachment(kind, "" if media else url[:1024], media, uuid=uuid, at=at)


def call_arguments(fields: dict[str, Any]) -> Any:
    """JSON in a string, the plain input of a custom tool, or what a built-in tool was asked to do."""
    given = next((fields[k] for k in ("arguments", "input", "action", "revised_prompt") if fields.get(k)), None)
    if isinstance(given, str) and "arguments" in fields:
        try:
            return kept_json(msgspec.json.decode(given))
        except (msgspec.MsgspecError, ValueError, RecursionError):
            return given
    return kept_json(given)


def _script(arguments: Any) -> str:
    """Where a patch may stand: the input itself, or a command line."""
    given = next((v for k in ("cmd", "command", "input", "patch") if (v := mapping(arguments).get(k))), arguments)
    return "\n".join(t for t in (given if isinstance(given, list) else [given]) if isinstance(t, str))


def call_paths(arguments: Any) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*tool_paths(arguments), *_PATCHED.findall(_script(arguments)))))


def json_object(text: str) -> dict[str, Any]:
    if not text.startswith("{"):
        return {}
    try:
        return mapping(msgspec.json.decode(text))
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return {}


def call_result(fields: dict[str, Any], skipped: Counter[str]) -> tuple[str, bool | None, dict[str, Any]]:
    """(text, success, details) of an output: text, parts, an object, or an object written as text."""
    output = fields.get("output")
    if fields.get("type") == "tool_search_output":
        return "\n".join(_tool_names(fields.get("tools"))), None, {}
    told = mapping(output) or (json_object(output) if isinstance(output, str) else {})
    if isinstance(told.get("output"), str) and isinstance(told.get("metadata"), dict):
        output, code = told["output"], told["metadata"].get("exit_code")
    else:
        output = told.get("content", output) if isinstance(output, dict) else output
        code = None
    text = result_text(output, skipped)
    if code is None and (found := _EXIT.search(text[:_HEADER_CHARS].partition("\nOutput:\n")[0])):
        code = int(found[1])
    if isinstance(code, int) and abs(code) < 2**32:
        return text, code == 0, {"exit_code": code}
    if isinstance(told.get("success"), bool):
        return text, told["success"], {}
    return text, False if _FAILED.match(text) else None, {}


def _tool_names(tools: Any, space: str = "") -> list[str]:
    found = []
    for tool in map(mapping, items(tools)):
        name = space + (string(tool, "name") or "unknown")
        inner = items(tool.get("tools"))
        found += _tool_names(inner, f"{name}__") if inner and not space else [name]
    return found


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
