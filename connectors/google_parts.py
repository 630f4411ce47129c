"""Google-style content parts -> our Block values, for Gemini CLI and its fork Qwen Code. Pure: opens no file.

Bytes of images and encoded data never pass; an unknown part is counted by its name.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import replace

from agent_journal.connectors.base import count, count_blank, items, mapping, string
from agent_journal.connectors.blocks import Place, Stamp, attachment, json_text, kind_name, numbered, tool_call
from agent_journal.session import Block, Message, Role, Text, Thinking, ToolCall, Usage

# What the program itself says in the user's name, or what was for the program and not for the model.
_INJECTED = re.compile(
    r"\s*(?:/[A-Za-z][\w:-]*(?:\s|$)|\?\s*$|<session_context>|<hook_context>|<state_snapshot>"
    r"|This is the (?:Gemini CLI|Qwen Code)\. We are setting up the context)"
)
_ACKNOWLEDGED = "Got it. Thanks for the "  # "… context!": the answer made up for the injected first message
# "@file" in a prompt puts the whole file behind it.
_REFERENCED = re.compile(r"--- Content from referenced files ---(.*?)(?:--- End of content ---|\Z)", re.DOTALL)
_REFERENCE = re.compile(r"^Content from @?(.+?):$", re.MULTILINE)
SNAPSHOT = "<state_snapshot>"  # opens the summary that stands for a compressed history

_SUCCESS = {"success": True, "error": False, "cancelled": False}


def is_injected(text: str) -> bool:
    return _INJECTED.match(text) is not None


def is_acknowledgement(text: str) -> bool:
    return text.startswith(_ACKNOWLEDGED) and len(text) < 100


def parts_of(content: Any) -> Sequence[Any]:
    """`content` as parts: it may be a string, one part, or a list whose strings are texts."""
    found = content if isinstance(content, list) else [content] if content else []
    return [{"text": p} if isinstance(p, str) else p for p in found]


def part_block(raw: Any, stamp: Stamp, skipped: Counter[str]) -> Block | None:
    """One part that is not a response; None when it holds nothing to keep, which is counted."""
    part = mapping(raw)
    kind = next((k for k in _MAKERS if k in part), None)
    if kind is None:
        skipped[f"part/{kind_name(next(iter(part), None))}"] += 1
        return None
    made = _MAKERS[kind](part, stamp)
    if made is None:
        skipped[f"part/empty {kind}"] += 1
    return made


def _text(part: dict[str, Any], stamp: Stamp) -> Block | None:
    text = string(part, "text")
    if not text or not text.strip():
        return None
    return Thinking(text, *stamp) if part.get("thought") is True else Text(text, *stamp)


def _call(part: dict[str, Any], stamp: Stamp) -> Block | None:
    return call_block(mapping(part["functionCall"]), stamp)


def _attachment(part: dict[str, Any], stamp: Stamp) -> Block | None:
    data = mapping(part.get("inlineData") or part.get("fileData"))
    media = string(data, "mimeType") or ""
    kind = "image" if media.startswith("image/") else "file"
    return attachment(kind, string(data, "displayName", "fileUri"), media, stamp)


def _code(part: dict[str, Any], stamp: Stamp) -> Block | None:
    inner = mapping(part.get("executableCode") or part.get("codeExecutionResult"))
    text = string(inner, "code", "output")
    return Text(text, *stamp) if text else None


_MAKERS: Mapping[str, Callable[[dict[str, Any], Stamp], Block | None]] = {
    "functionCall": _call,
    "inlineData": _attachment,
    "fileData": _attachment,
    "executableCode": _code,
    "codeExecutionResult": _code,
    "text": _text,
}


def call_block(fields: Mapping[str, Any], stamp: Stamp, **more: Any) -> ToolCall:
    return tool_call(string(fields, "id"), string(fields, "name"), fields.get("args"), stamp, **more)


def prompt_blocks(shown: Any, content: Any, stamp: Stamp, skipped: Counter[str]) -> list[Block]:
    """What a person typed: what they were shown of it where that was kept, without files the program put behind
    it, whose names remain. `shown` is parts or None, `content` what was sent to the model."""
    sent = [p for p in parts_of(content) if "functionResponse" not in mapping(p)]
    others = [p for p in sent if not isinstance(mapping(p).get("text"), str)]
    whole = "".join(string(mapping(p), "text") or "" for p in sent)
    typed = "".join(string(mapping(p), "text") or "" for p in parts_of(shown)) or whole
    text = _REFERENCED.sub("", typed)
    if text != whole:
        skipped["part/expansion of a prompt"] += 1
        text = text.rstrip()
    names = [name for found in _REFERENCED.findall(typed) for name in _REFERENCE.findall(found)]
    blocks: list[Block] = [Text(text, *stamp)] if text.strip() else []
    blocks += [attachment("file", name, None, stamp) for name in dict.fromkeys(names)]
    return blocks + [made for p in others if (made := part_block(p, stamp, skipped))]


def responses_of(content: Any) -> list[dict[str, Any]]:
    return [mapping(p["functionResponse"]) for p in parts_of(content) if "functionResponse" in mapping(p)]


def result_facts(result: Any, display: Any, status: Any, skipped: Counter[str]) -> dict[str, Any]:
    """`result`, `success` and `details` of a call: its responses and texts, else what was shown on the screen."""
    texts, failed = [], False
    for raw in parts_of(result):
        part = mapping(raw)
        if "functionResponse" in part:
            response = mapping(part["functionResponse"]).get("response")
            texts.append(_response_text(response))
            failed = failed or bool(mapping(response).get("error"))
        else:
            texts.append(string(part, "text") or "")
    text = "\n".join(t for t in texts if t) or _display_text(display, skipped)
    success = _SUCCESS.get(status) if isinstance(status, str) else None
    if success is None and texts and not isinstance(status, str):
        success = True
    facts: dict[str, Any] = {"success": False if failed else success}
    if text or texts:
        facts["result"] = text
    if status == "cancelled":
        facts["details"] = {"status": status}
    return facts


def _response_text(response: Any) -> str:
    fields = mapping(response)
    for key in ("output", "error"):
        value = fields.get(key)
        if value:
            return value if isinstance(value, str) else json_text(value)
    return "" if "output" in fields or not response else json_text(response)


def _display_text(display: Any, skipped: Counter[str]) -> str:
    """A string, a diff, a list of tasks, or a terminal's lines, each a list of coloured pieces."""
    fields = mapping(display)
    if isinstance(display, str):
        return display
    if diff := string(fields, "fileDiff"):
        return diff
    if todos := items(fields.get("todos")):
        tasks = map(mapping, todos)
        return "\n".join(f"{string(t, 'status') or ''}: {string(t, 'description', 'content') or ''}" for t in tasks)
    if isinstance(display, list):
        return "\n".join("".join(string(mapping(p), "text") or "" for p in items(line)) for line in display).rstrip()
    if display is not None:
        skipped["result shown only"] += 1
    return ""


def usage_of(prompt: Any, cached: Any, output: int) -> Usage:
    """Both programs count cached tokens as input too."""
    seen, kept = count(prompt), count(cached)
    return Usage(input_tokens=max(0, seen - kept), output_tokens=output, cache_read_tokens=kept)


@dataclass(slots=True)
class Conversation:
    """Messages in the order of their records; a result joins its call however far apart the two are."""

    skipped: Counter[str]
    _messages: list[Message] = field(default_factory=list)
    _blocks: list[list[Block]] = field(default_factory=list)
    _calls: dict[str, Place] = field(default_factory=dict)

    def add(self, message: Message, blocks: list[Block]) -> None:
        self._messages.append(message)
        self._blocks.append(blocks)
        for index, block in enumerate(blocks):
            if isinstance(block, ToolCall) and block.id:
                self._calls[block.id] = Place(blocks, index)

    def answer(self, call_id: str, name: str | None, facts: dict[str, Any], stamp: Stamp) -> bool:
        """False for a result that repeats one; a result without a call is a message of its own."""
        facts = facts | {"result_uuid": stamp.uuid, "result_parent_uuid": stamp.parent_uuid, "result_at": stamp.at}
        place = self._calls.get(call_id)
        if place is None:
            call = call_block({"id": call_id, "name": name}, stamp, **facts)
            self.add(Message(Role.TOOL, (), stamp.uuid, stamp.parent_uuid, stamp.at), [call])
            return True
        if place.call.result is not None:
            self.skipped["tool result/repeated"] += 1
            return False
        place.fill(**facts)
        return True

    def link(self, call_id: str, session_key: str) -> None:
        """The call that started a sub-agent leads to its transcript."""
        if place := self._calls.get(call_id):
            place.fill(agent_session=session_key)

    def messages(self) -> tuple[Message, ...]:
        return tuple(replace(m, blocks=numbered(b)) for m, b in zip(self._messages, self._blocks, strict=True))

    def speaks(self) -> bool:
        """Whether anybody said anything; a launch without a prompt leaves notices and errors. Counts what is left."""
        if any(m.role is not Role.SYSTEM and not m.is_meta for m in self._messages):
            return True
        count_blank((m.role for m in self._messages), self.skipped)
        return False
