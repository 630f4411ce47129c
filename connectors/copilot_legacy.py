"""Copilot CLI's first format (up to 0.0.341) -> messages: one JSON object, in a file or inside an event log.

The timeline is what the user saw, with times; the chat sent to the model serves only where there is none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from msgspec.structs import replace

from agent_journal.connectors.base import items, mapping, string, timestamp
from agent_journal.connectors.blocks import Stamp, contents, kind_name, numbered, result_text
from agent_journal.connectors.copilot_blocks import call_facts
from agent_journal.connectors.copilot_draft import Draft, Slot
from agent_journal.connectors.copilot_facts import trusted_folder
from agent_journal.connectors.jsonl import parsed
from agent_journal.session import Attachment, Block, Message, Role, Text, ToolCall

_SUCCESS = {"success": True, "failure": False, "rejected": False, "denied": False}


@dataclass(frozen=True, slots=True)
class Legacy:
    id: str | None
    started_at: datetime | None
    model: str | None
    folder: str | None  # one the user trusted: the old format records no working folder
    messages: tuple[Message, ...]
    timed: bool  # False: only the session's start is known


def legacy_session(fields: Mapping[str, Any], skipped: Counter[str]) -> Legacy:
    started_at, model = timestamp(fields.get("startTime")), string(fields, "selectedModel")
    timeline, chat = items(fields.get("timeline")), items(fields.get("chatMessages"))
    conversation = _Conversation(skipped, model)
    for entry in timeline:
        conversation.entry(entry)
    timed = bool(conversation.drafts)
    if not timed:
        conversation.started_at = started_at
        for message in chat:
            conversation.chat(message)
    elif chat:
        skipped["legacy/chat beside a timeline"] += len(chat)
    return Legacy(string(fields, "sessionId"), started_at, model, conversation.folder, conversation.messages(), timed)


@dataclass(slots=True)
class _Conversation:
    skipped: Counter[str]
    model: str | None
    started_at: datetime | None = None
    folder: str | None = None
    drafts: list[Draft] = field(default_factory=list)
    _slots: dict[str, Slot] = field(default_factory=dict)
    _uuids: set[str] = field(default_factory=set)

    def messages(self) -> tuple[Message, ...]:
        return tuple(replace(d.message, blocks=numbered(d.blocks)) for d in self.drafts)

    # The timeline.

    def entry(self, raw: Any) -> None:
        entry = mapping(raw)
        kind = kind_name(entry.get("type"))
        handler = _ENTRIES.get(kind)
        if handler is None or not handler(self, entry, self._stamp(entry)):
            self.skipped[f"legacy/{kind}"] += 1

    def _stamp(self, entry: dict[str, Any]) -> Stamp:
        """An id that names two entries names the first."""
        uuid = string(entry, "id")
        return Stamp(None if uuid in self._uuids else uuid, None, timestamp(entry.get("timestamp")))

    def _place(self, role: Role, blocks: list[Block], stamp: Stamp, **more: Any) -> Draft:
        if stamp.uuid:
            self._uuids.add(stamp.uuid)
        model = self.model if role is Role.ASSISTANT else None
        draft = Draft(role, "", Message(role, (), uuid=stamp.uuid, at=stamp.at, model=model, **more), blocks)
        self.drafts.append(draft)
        return draft

    def _said(self, role: Role, entry: dict[str, Any], stamp: Stamp, **more: Any) -> bool:
        text = result_text(entry.get("text"), self.skipped)
        if not text.strip():
            return False
        self._place(role, [Text(text, *stamp)], stamp, **more)
        return True

    def _user(self, entry: dict[str, Any], stamp: Stamp) -> bool:
        return self._said(Role.USER, entry, stamp)

    def _copilot(self, entry: dict[str, Any], stamp: Stamp) -> bool:
        return self._said(Role.ASSISTANT, entry, stamp)

    def _error(self, entry: dict[str, Any], stamp: Stamp) -> bool:
        return self._said(Role.SYSTEM, entry, stamp, is_meta=True, is_error=True)

    def _info(self, entry: dict[str, Any], stamp: Stamp) -> bool:
        self.folder = self.folder or trusted_folder(string(entry, "text") or "")
        return False

    def _requested(self, entry: dict[str, Any], stamp: Stamp) -> bool:
        return self._call(entry, stamp, "request", {})

    def _completed(self, entry: dict[str, Any], stamp: Stamp) -> bool:
        result = entry.get("result")
        fields = mapping(result)
        text = result if isinstance(result, str) else result_text(fields.get("log"), self.skipped)
        answer: dict[str, Any] = {
            "result": text or string(fields, "message", "error", "content") or "",
            "success": _SUCCESS.get(kind_name(fields.get("type"))),
            "result_uuid": stamp.uuid,
            "result_at": stamp.at,
        }
        if kind_name(fields.get("type")) in ("rejected", "denied"):
            answer["details"] = {"error_code": fields["type"]}
        return self._call(entry, stamp, "complete", answer)

    def _call(self, entry: dict[str, Any], stamp: Stamp, record: str, answer: dict[str, Any]) -> bool:
        """A repeated record of the same kind is another call under a reused id."""
        call_id = string(entry, "callId", "toolCallId") or ""
        facts = call_facts(entry, string(entry, "name", "toolName"))
        facts |= answer | {"details": facts.get("details", {}) | answer.get("details", {})}
        slot = self._slots.get(call_id)
        if slot and record not in slot.filled:
            if stamp.uuid:
                self._uuids.add(stamp.uuid)
            slot.fill(record, **facts)
            return True
        self._open(self._place(Role.ASSISTANT, [], stamp), stamp, call_id, record, facts)
        return True

    def _open(self, draft: Draft, stamp: Stamp, call_id: str, record: str, facts: dict[str, Any]) -> None:
        draft.blocks.append(ToolCall(**{"id": call_id, "name": "unknown", **facts, **stamp._asdict()}))
        if call_id:
            self._slots[call_id] = Slot(draft, len(draft.blocks) - 1, {record})

    # The chat: what was sent to the model, without ids or times of its own.

    def chat(self, raw: Any) -> None:
        message = mapping(raw)
        role = kind_name(message.get("role"))
        handler = _CHAT.get(role)
        if handler is None or not handler(self, message, Stamp(None, None, self.started_at)):
            self.skipped[f"legacy/{role} chat"] += 1

    def _chat_user(self, message: dict[str, Any], stamp: Stamp) -> bool:
        blocks = self._chat_blocks(message, stamp)
        if blocks:
            self._place(Role.USER, blocks, stamp)
        return bool(blocks)

    def _chat_assistant(self, message: dict[str, Any], stamp: Stamp) -> bool:
        blocks = self._chat_blocks(message, stamp)
        calls = [call for call in items(message.get("tool_calls")) if isinstance(call, dict)]
        if not (blocks or calls):
            return False
        draft = self._place(Role.ASSISTANT, blocks, stamp)
        for call in calls:
            function = mapping(call.get("function"))
            spoken = {"arguments": _decoded(function.get("arguments"))}
            facts = call_facts(spoken, string(function, "name"))
            self._open(draft, stamp, string(call, "id") or "", "request", facts)
        return True

    def _chat_result(self, message: dict[str, Any], stamp: Stamp) -> bool:
        call_id = string(message, "tool_call_id") or ""
        answer = {"result": result_text(message.get("content"), self.skipped), "result_at": stamp.at}
        slot = self._slots.get(call_id)
        if slot and "complete" not in slot.filled:
            slot.fill("complete", **answer)
            return True
        facts = call_facts({}, string(message, "name")) | answer
        self._open(self._place(Role.TOOL, [], stamp), stamp, call_id, "complete", facts)
        return True

    def _chat_blocks(self, message: dict[str, Any], stamp: Stamp) -> list[Block]:
        parts = contents(message.get("content"))
        images = [p for p in parts if mapping(p).get("type") == "image_url"]
        text = result_text([p for p in parts if mapping(p).get("type") != "image_url"], self.skipped)
        blocks: list[Block] = [Text(text, *stamp)] if text.strip() else []
        return blocks + [Attachment("image", uuid=stamp.uuid, at=stamp.at) for _ in images]


def _decoded(arguments: Any) -> Any:
    """The chat holds arguments as a string of JSON; one that is not stays as it is."""
    value = parsed(arguments)
    return value if isinstance(value, dict) else arguments


_Handler = Callable[[_Conversation, dict[str, Any], Stamp], bool]
_ENTRIES: Mapping[str, _Handler] = {
    "user": _Conversation._user,
    "copilot": _Conversation._copilot,
    "error": _Conversation._error,
    "info": _Conversation._info,
    "tool_call_requested": _Conversation._requested,
    "tool_call_completed": _Conversation._completed,
}
_CHAT: Mapping[str, _Handler] = {
    "user": _Conversation._chat_user,
    "assistant": _Conversation._chat_assistant,
    "tool": _Conversation._chat_result,
    "function": _Conversation._chat_result,
}
