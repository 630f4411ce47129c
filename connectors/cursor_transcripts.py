"""Cursor's plain transcripts, written for every agent run, and the messages they share with its other stores.

A transcript knows no times but those of prompts and seldom a result: where a database holds the session, it gives way.
"""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path, PurePosixPath
from typing import Any

from msgspec.structs import replace

from agent_journal.connectors.base import (
    Discovery,
    Reading,
    Source,
    entries,
    file_time,
    is_folder,
    mapping,
    readable,
    session_key,
    string,
)
from agent_journal.connectors.blocks import (
    Place,
    Stamp,
    block,
    contents,
    json_text,
    kind_name,
    numbered,
    result_text,
    tool_call,
)
from agent_journal.connectors.cursor_files import FOLDER, parent_of
from agent_journal.connectors.jsonl import parsed, records, text_lines
from agent_journal.session import Block, Message, Origin, Role, Session, Text, Thinking, ToolCall, Transcript

REDACTED = "[REDACTED]"
_MOST_FOLDERS = 5000  # to try for a workspace; 20,000 paths of 500 folders each took gigabytes
_MOST_LISTED = 100  # folders whose names are compared with a name in which "/" and "-" are the same


def read_transcript(source: Source) -> Reading:
    reading, file = Reading(), source.files[-1]
    conversation = Conversation(reading.skipped)
    read = _read_lines if file.path.suffix == ".jsonl" else _read_text
    read(file.path, conversation, reading)
    messages = conversation.messages()
    if not any(m.role in (Role.USER, Role.ASSISTANT) for m in messages):
        reading.skipped["blank session"] += 1
        return reading
    name, parent = readable(file.path.stem), parent_of(file.path)
    encoded = next((readable(p.parent.name) for p in file.path.parents if p.name == FOLDER), None)
    session = Session(
        key=session_key(source.agent, name, parent),
        id=f"agent-{name}" if parent else name,
        agent=source.agent,
        origin=Origin(path=readable(str(file.path)), home=source.home),
        workspace=named_folder(messages, lambda folder: encoded_folder(folder) == encoded) or existing_folder(encoded),
        workspace_encoded=encoded,
        is_agent_session=parent is not None,
        parent_session_id=parent,
        parent_key=session_key(source.agent, parent) if parent else None,
        agent_id=name if parent else None,
        extensions=file_time(messages, file),
    )
    reading.transcripts.append(Transcript(session, messages, second_hand=True))
    return reading


def encoded_folder(folder: str) -> str:
    return re.sub(r"[^A-Za-z0-9]", "-", folder.lstrip("/"))


def named_folder(messages: Sequence[Message], fits: Callable[[str], bool]) -> str | None:
    """A workspace known only by a one-way name: the folder above a file some call names that has this name."""
    tried: set[str] = set()
    for path in (PurePosixPath(p) for m in messages for call in m.tool_calls for p in call.paths):
        for folder in (str(p) for p in (path, *path.parents) if p.is_absolute()):
            if folder in tried:
                continue
            if fits(folder):
                return folder
            tried.add(folder)
            if len(tried) == _MOST_FOLDERS:
                return None
    return None


def existing_folder(encoded: str | None) -> str | None:
    """The only folder on this machine of an encoded name; none where two could be meant, or it is gone."""
    if not encoded:
        return None
    found: list[str] = []
    waiting = [("/", encoded)]
    for _ in range(_MOST_LISTED):
        if not waiting or len(found) > 1:
            break
        above, rest = waiting.pop()
        for entry in entries(Path(above), Discovery()):
            name = encoded_folder(entry.name)
            if rest != name and not rest.startswith(f"{name}-"):
                continue
            if not is_folder(Path(entry.path)):
                continue
            if rest == name:
                found.append(readable(entry.path))
            else:
                waiting.append((entry.path, rest[len(name) + 1 :]))
    return found[0] if len(found) == 1 and not waiting else None


def _read_lines(path: Path, conversation: Conversation, reading: Reading) -> None:
    at: datetime | None = None
    for _, record in records(path, reading):
        role = kind_name(record.get("role"))
        content = mapping(record.get("message")).get("content", record.get("content"))
        if role == "untyped":
            reading.skipped[f"status/{kind_name(record.get('type'))}"] += 1
            continue
        if string(record, "tool_use_id", "toolCallId"):
            content = [record]
        typed = [p for p in contents(content) if mapping(p).get("type") == "text"]
        if role == "user" and typed:
            at = prompt_time(result_text(typed, reading.skipped))
        conversation.add(role, content, Stamp(None, None, at))


# "Sunday, Sep 20, 2026, 12:31 AM (UTC+3)"
_TIME = re.compile(
    r"<timestamp>\s*(?:\w+,\s+)?([A-Z][a-z]{2})[a-z]*\.?\s+(\d{1,2}),\s+(\d{4}),\s+(\d{1,2}):(\d\d)\s*([AP]M)"
    r"\s*(?:\(UTC(?:([+-]\d{1,2})(?::(\d\d))?)?\))?\s*</timestamp>"
)
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def prompt_time(text: str) -> datetime | None:
    """The time that stands before a prompt: the only one a transcript tells."""
    found = _TIME.search(text)
    if not found or found[1] not in _MONTHS:
        return None
    hour = int(found[4]) % 12 + (12 if found[6] == "PM" else 0)
    east = int(found[7] or 0) * 60
    east += int(found[8] or 0) * (-1 if (found[7] or "").startswith("-") else 1)
    try:
        local = datetime(int(found[3]), _MONTHS.index(found[1]) + 1, int(found[2]), hour, int(found[5]), tzinfo=UTC)
        return local - timedelta(minutes=east)
    except (ValueError, OverflowError):
        return None


# Text, the first format: roles and blocks marked by lines.

_MARK = re.compile(r"\[(Thinking|Tool call|Tool result)\] ?(.*)")
_KINDS = {"Thinking": "thinking", "Tool call": "tool-call", "Tool result": "tool-result"}
_ROLE_MARKS = ("user:", "assistant:")
_SETTING = re.compile(r"(\w+)\s*[:=]\s?(.*)")


def _read_text(path: Path, conversation: Conversation, reading: Reading) -> None:
    role, parts = "", list[tuple[str, list[str]]]()
    for line, ended in text_lines(path, reading):
        mark = _MARK.match(line)
        if not ended and (line.startswith("[") or any(m.startswith(line) for m in _ROLE_MARKS)):
            reading.unfinished = True  # perhaps half a mark: read when it is whole
        elif line.rstrip() in _ROLE_MARKS:
            _add_parts(conversation, role, parts)
            role, parts = line.rstrip()[:-1], []
        elif mark and role:
            parts.append((_KINDS[mark[1]], [mark[2]]))
        elif parts and (parts[-1][0] == "text" or not line.strip() or line[0] in " \t"):
            parts[-1][1].append(line)
        elif role:
            parts.append(("text", [line]))
        elif line.strip():
            reading.skipped["line before the first role"] += 1
    _add_parts(conversation, role, parts)


def _add_parts(conversation: Conversation, role: str, parts: list[tuple[str, list[str]]]) -> None:
    made: list[dict[str, Any]] = []
    for kind, lines in parts:
        name, body = lines[0].strip(), "\n".join(line.removeprefix("  ") for line in lines[1:]).strip("\n")
        if kind == "tool-call":
            made.append({"type": kind, "toolName": name, "args": _arguments(body)})
        elif kind == "tool-result":
            made.append({"type": kind, "toolName": name, "result": body})
        else:
            made.append({"type": kind, "text": "\n".join(lines).strip()})
    if role:
        text = "\n".join(p["text"] for p in made if p["type"] == "text")
        at = prompt_time(text) if role == "user" else conversation.last_at
        conversation.add(role, made, Stamp(None, None, at))


def _arguments(body: str) -> Any:
    """JSON, or a setting a line, or a patch, which stays text."""
    if isinstance(value := parsed(body), dict):
        return value
    settings = [_SETTING.fullmatch(line.strip()) for line in body.splitlines() if line.strip()]
    return {s[1]: s[2] for s in settings if s} if settings and all(settings) else body


# Messages of content parts, as transcripts and store.db both hold them.

_ROLES = {"user": Role.USER, "assistant": Role.ASSISTANT, "tool": Role.TOOL}
_TYPES = {"reasoning": "thinking", "tool-call": "call", "tool_call": "call", "tool_use": "call"}
_RESULTS = frozenset({"tool-result", "tool_result", "command_output"})
_INJECTED = ("<user_info>", "<system-reminder>", "<system_reminder>", "<environment_details>", "<context>")
_QUERY, _QUERY_END = "<user_query>", "</user_query>"
_EXIT = re.compile(r"exited with code (-?\d{1,10})")


@dataclass(slots=True)
class Conversation:
    skipped: Counter[str]
    started_at: datetime | None = None  # of the session: stands for the time of its first message
    _drafts: list[tuple[Message, list[Block]]] = field(default_factory=list)
    _open: dict[str, Place] = field(default_factory=dict)  # calls without a result
    _named: dict[str, deque[str]] = field(default_factory=dict)  # the same by tool, first first
    _calls: int = 0

    @property
    def last_at(self) -> datetime | None:
        return self._drafts[-1][0].at if self._drafts else None

    def messages(self) -> tuple[Message, ...]:
        return tuple(replace(message, blocks=numbered(blocks)) for message, blocks in self._drafts)

    def add(self, role_name: str, content: Any, stamp: Stamp, model: str | None = None) -> None:
        role = _ROLES.get(role_name)
        if role is None:
            self.skipped[f"message/{role_name}"] += 1
            return
        if stamp.at is None and not self._drafts:
            stamp = stamp._replace(at=self.started_at)
        parts = list(contents(content))
        message = Message(role, (), uuid=stamp.uuid, at=stamp.at, model=model if role is Role.ASSISTANT else None)
        blocks: list[Block] = []
        for part in self._spoken(parts) if role is Role.USER else parts:
            kind = kind_name(mapping(part).get("type"))
            if kind in _RESULTS or role is Role.TOOL:
                self._result(part, stamp)
            elif made := self._block(part, kind, stamp):
                blocks.append(made)
                if len(blocks) == 1:
                    self._drafts.append((message, blocks))
                if isinstance(made, ToolCall):
                    self._open[made.id] = Place(blocks, len(blocks) - 1)
                    self._named.setdefault(made.name, deque()).append(made.id)

    def _spoken(self, parts: Sequence[Any]) -> Iterator[Any]:
        """What a person typed: beside a wrapped query all other text is added by Cursor."""
        wrapped = any(_QUERY in (string(mapping(p), "text") or "") for p in parts)
        for part in parts:
            text = string(mapping(part), "text")
            if text is None or mapping(part).get("type") != "text":
                yield part
            elif wrapped and _QUERY in text:
                yield {"type": "text", "text": text.partition(_QUERY)[2].partition(_QUERY_END)[0].strip()}
            elif wrapped or "<user_info>" in text or text.lstrip().startswith(_INJECTED):
                self.skipped["injected context"] += 1
            else:
                yield {"type": "text", "text": _TIME.sub("", text).strip()}

    def _block(self, part: Any, kind: str, stamp: Stamp) -> Block | None:
        kind = _TYPES.get(kind, kind)
        if kind == "call":
            return self._call(part, stamp)
        made = block(mapping(part) | {"type": kind}, stamp, self.skipped)
        if isinstance(made, Text | Thinking) and made.text.strip() == REDACTED:
            self.skipped["block/redacted"] += 1
            return None
        return made

    def _call(self, part: dict[str, Any], stamp: Stamp) -> ToolCall:
        """Most calls of transcripts have no id: they are numbered, or they would be taken for one another."""
        self._calls += 1
        call_id = string(part, "toolCallId", "id") or f"call-{self._calls}"
        return tool_call(call_id, string(part, "toolName", "name"), part.get("args", part.get("input")), stamp)

    def _result(self, raw: Any, stamp: Stamp) -> None:
        part = mapping(raw)
        call_id, name = string(part, "toolCallId", "tool_use_id"), string(part, "toolName", "name")
        text = self._result_text(part)
        failed = part.get("isError", part.get("is_error"))
        answer: dict[str, Any] = {
            "result": text,
            "success": not failed if isinstance(failed, bool) else not _tells_failure(text),
            "result_uuid": stamp.uuid,
            "result_at": stamp.at,
        }
        place = self._open.pop(call_id or self._unanswered(name) or "", None)
        if place:
            place.fill(**answer)
            return
        call = tool_call(call_id, name, None, stamp, **answer)
        self._drafts.append((Message(Role.TOOL, (), uuid=stamp.uuid, at=stamp.at), [call]))

    def _unanswered(self, name: str | None) -> str | None:
        """The call that a result without an id answers: the first of its tool, else the latest of all."""
        if name is None:
            return next(reversed(self._open), None)
        waiting = self._named.get(name, deque())
        while waiting and waiting[0] not in self._open:
            waiting.popleft()
        return waiting[0] if waiting else None

    def _result_text(self, part: Mapping[str, Any]) -> str:
        value = next((part[key] for key in ("result", "content", "output", "text") if part.get(key) is not None), "")
        if isinstance(value, dict) and "text" not in value:
            return json_text(value)
        return result_text(value, self.skipped)


def _tells_failure(text: str) -> bool:
    code = _EXIT.search(text)
    return text.startswith("Error:") or (code is not None and int(code[1]) != 0)
