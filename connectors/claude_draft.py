"""A Claude Code message while its records come in: streamed parts, repeated snapshots, joined results.

Knows one message only; which records belong to it is decided in claude_records.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import replace

from agent_journal.connectors.base import string
from agent_journal.connectors.blocks import Stamp, small, usage_of
from agent_journal.session import Block, Role, Text, Thinking, ToolCall, Usage

SYNTHETIC = "<synthetic>"  # the model of messages the program made itself
EXTENSION_BYTES = 4096
SNAPSHOT_BLOCKS = 64  # a growing text is among the last; comparing with all would be quadratic
PLAN_CHARS = 65536
# Facts beside a message that fit no field of ours: key in the record -> key in extensions.
_EXTENSIONS = (
    ("thinkingMetadata", "thinking_metadata"),
    ("todos", "todos"),
    ("permissionMode", "permission_mode"),
    ("origin", "origin"),
    ("promptSource", "prompt_source"),
    ("imagePasteIds", "image_paste_ids"),
    ("sourceToolUseID", "source_tool_use_id"),
    ("agentName", "agent_name"),
    ("forkedFrom", "forked_from"),  # copied from another session
    ("attributionSkill", "attribution_skill"),
    ("attributionPlugin", "attribution_plugin"),
    ("compactMetadata", "compact_metadata"),
    ("microcompactMetadata", "compact_metadata"),
)


@dataclass(slots=True)
class Draft:
    """A message while records may still add to it."""

    role: Role
    fields: dict[str, Any]  # of the first of its records; the record itself may hold megabytes of images
    stamp: Stamp
    blocks: list[Block] = field(default_factory=list)
    seen: set[tuple[str, str]] = field(default_factory=set)  # (kind, text) of blocks: snapshots repeat them
    api_id: str | None = None
    model: str | None = None
    stop_reason: str | None = None
    stop_sequence: str | None = None
    usage: Usage | None = None
    is_meta: bool = False
    is_compaction: bool = False
    is_error: bool = False
    placed: bool = False
    answered: bool = False  # an early result whose call came after all

    def answer(self, message: dict[str, Any]) -> None:
        """What a streamed record knows of the whole answer; counts are partial until the last."""
        model = string(message, "model")
        self.stop_reason = string(message, "stop_reason", "stopReason") or self.stop_reason
        self.stop_sequence = string(message, "stop_sequence", "stopSequence") or self.stop_sequence
        if model == SYNTHETIC:
            return
        self.model = model or self.model
        usage = usage_of(message.get("usage"))
        if usage and (self.usage is None or usage.output_tokens >= self.usage.output_tokens):
            self.usage = usage


def add_text(draft: Draft, made: Text | Thinking) -> None:
    """Snapshots of a growing text replace each other, in the place and with the stamp of the first."""
    kind = type(made).__name__
    if (kind, made.text) in draft.seen:
        return
    draft.seen.add((kind, made.text))
    for index in range(max(0, len(draft.blocks) - SNAPSHOT_BLOCKS), len(draft.blocks)):
        earlier = draft.blocks[index]
        if type(earlier) is type(made) and made.text.startswith(earlier.text):
            draft.blocks[index] = replace(earlier, text=made.text)
            return
    draft.blocks.append(made)


def joined(call: ToolCall, answer: Block) -> ToolCall:
    assert isinstance(answer, ToolCall)
    return replace(
        call,
        result=answer.result,
        success=answer.success,
        result_uuid=answer.result_uuid,
        result_parent_uuid=answer.result_parent_uuid,
        result_at=answer.result_at,
        agent_session=answer.agent_session,
        details=answer.details,
    )


def fields_of(record: dict[str, Any]) -> dict[str, Any]:
    return {
        "request_id": string(record, "requestId"),
        "cwd": string(record, "cwd"),
        "git_branch": string(record, "gitBranch"),
        "agent_version": string(record, "version"),
        "user_type": string(record, "userType"),
        "is_sidechain": record.get("isSidechain") is True,
        "extensions": _extensions(record),
    }


def _extensions(record: dict[str, Any]) -> dict[str, Any]:
    found = {name: record[key] for key, name in _EXTENSIONS if key in record and small(record[key], EXTENSION_BYTES)}
    plan = record.get("planContent")
    if isinstance(plan, str) and small(plan, PLAN_CHARS):
        found["plan_content"] = plan
    return found
