"""A bubble, as Cursor's editor calls one message of a chat -> our Message. Pure: opens no database.

Results and arguments are JSON inside strings; times come in three spellings, and some only count from a start.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from msgspec.structs import replace

from agent_journal.connectors.base import count, items, mapping, string, timestamp
from agent_journal.connectors.blocks import Stamp, attachment, json_text, kind_name, numbered, tool_call
from agent_journal.connectors.jsonl import parsed
from agent_journal.session import Block, Message, Role, Text, Thinking, ToolCall, Usage

_EARLIEST_MS = 946_684_800_000  # the year 2000: smaller numbers count from the start of the program
_ROLES = {1: Role.USER, 2: Role.ASSISTANT, "user": Role.USER, "ai": Role.ASSISTANT}
_SUCCESS = {"completed": True, "error": False, "cancelled": False, "rejected": False}


def message_of(
    bubble: Mapping[str, Any],
    name: str | None,
    tool: Mapping[str, Any],
    started: datetime | None,
    skipped: Counter[str],
) -> Message | None:
    """`tool`: the call beside the bubble, in versions that keep it apart. `started`: stands for a time not told."""
    kind = bubble.get("type")
    role = _ROLES.get(kind) if isinstance(kind, int | str) else None
    at = _time(bubble) or started
    blocks = [*_thoughts(bubble, name, at), *_said(bubble, name, at)]
    if tool := mapping(bubble.get("toolFormerData")) or tool:
        blocks.append(_call(tool, name, at))
    if role is None or not blocks:
        what = f"type {kind}" if role is None else f"capability {bubble.get('capabilityType') or 0}"
        skipped[f"bubble/{kind_name(what)}"] += 1
        return None
    tokens = mapping(bubble.get("tokenCount"))
    usage = Usage(count(tokens.get("inputTokens")), count(tokens.get("outputTokens")))
    return Message(
        role,
        numbered(blocks),
        uuid=name,
        at=at,
        model=model_of(bubble.get("modelInfo")) if role is Role.ASSISTANT else None,
        usage=usage if usage != Usage() else None,
    )


def model_of(config: Any) -> str | None:
    name = string(mapping(config), "modelName")
    return name if name != "default" else None


def moment(value: Any) -> datetime | None:
    if isinstance(value, int | float) and not value >= _EARLIEST_MS:
        return None
    return timestamp(value)


def _time(bubble: Mapping[str, Any]) -> datetime | None:
    timing = mapping(bubble.get("timingInfo"))
    told = (timing.get(key) for key in ("clientStartTime", "clientRpcSendTime", "clientEndTime"))
    return next(filter(None, map(moment, (bubble.get("createdAt"), *told))), None)


def _thoughts(bubble: Mapping[str, Any], name: str | None, at: datetime | None) -> Iterator[Block]:
    """Some versions write the thought, and once more among all of them."""
    every = (bubble.get("thinking"), *items(bubble.get("allThinkingBlocks")))
    texts = (raw if isinstance(raw, str) else string(mapping(raw), "text", "thinking") for raw in every)
    for text in dict.fromkeys(texts):
        if text and text.strip():
            yield Thinking(text, uuid=name, at=at)


def timed(message: Message, at: datetime) -> Message:
    """A prompt that tells no time of its own."""
    return replace(message, at=at, blocks=tuple(replace(block, at=at) for block in message.blocks))


def _said(bubble: Mapping[str, Any], name: str | None, at: datetime | None) -> Iterator[Block]:
    text = string(bubble, "text", "rawText")
    if text and text.strip():
        yield Thinking(text, uuid=name, at=at) if bubble.get("isThought") is True else Text(text, uuid=name, at=at)
    for image in items(bubble.get("images")):
        yield attachment("image", string(mapping(image), "path", "name"), None, Stamp(name, None, at))


def _call(tool: Mapping[str, Any], name: str | None, at: datetime | None) -> ToolCall:
    status = string(tool, "status")
    success = _SUCCESS.get(status or "")
    return tool_call(
        string(tool, "toolCallId") or name,
        string(tool, "name"),
        parsed(tool.get("params") or tool.get("rawArgs") or None),
        Stamp(name, None, at),
        result=_result(tool) if success is not None else None,
        success=success,
        result_uuid=name if success is not None else None,
        details={"status": status} if success is False else {},
    )


def _result(tool: Mapping[str, Any]) -> str:
    """Results are JSON in a string; a command's holds its output, an error's what the user was shown."""
    for key, inner in (("result", "output"), ("error", "clientVisibleErrorMessage")):
        if raw := tool.get(key):
            return string(mapping(parsed(raw)), inner) or (raw if isinstance(raw, str) else json_text(raw))
    return ""
