"""Gemini CLI's chat files, which Qwen Code's first versions wrote too -> transcripts.

A .json file is the conversation; a .jsonl file is a log of changes to it, replayed here. What a rewind or a
compression took out of the conversation was said all the same: it stays, in its place, marked as inactive.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from agent_journal.connectors.base import (
    Reading,
    Source,
    file_time,
    items,
    mapping,
    readable,
    session_key,
    string,
    timestamp,
)
from agent_journal.connectors.base import count as tokens_in
from agent_journal.connectors.blocks import Stamp, kind_name
from agent_journal.connectors.google_files import MARKER, REGISTRY, project_of, sub_agent_parent
from agent_journal.connectors.google_parts import (
    SNAPSHOT,
    Conversation,
    call_block,
    is_acknowledgement,
    is_injected,
    part_block,
    parts_of,
    prompt_blocks,
    responses_of,
    result_facts,
    usage_of,
)
from agent_journal.connectors.google_workspace import workspace
from agent_journal.connectors.jsonl import document, json_object, records
from agent_journal.errors import UnreadableSource
from agent_journal.session import Block, Message, Origin, Role, Session, Text, Thinking, Transcript, Usage

_NEVER = datetime.min.replace(tzinfo=UTC)


@dataclass(slots=True)
class _Entry:
    record: dict[str, Any]
    uuid: str | None
    parent: str | None  # key of the message before it when it first appeared
    inactive: str = ""  # "rewound" or "replaced": no longer part of the conversation


@dataclass(slots=True)
class Chat:
    """One file's conversation as its last line leaves it."""

    path: Path
    agent: str
    reading: Reading = field(default_factory=Reading)
    facts: dict[str, Any] = field(default_factory=dict)
    entries: dict[str, _Entry] = field(default_factory=dict)  # in the order of their first appearance
    active: dict[str, None] = field(default_factory=dict)

    @property
    def session_id(self) -> str:
        return string(self.facts, "sessionId") or readable(self.path.stem)

    @property
    def age(self) -> tuple[datetime, int]:
        return timestamp(self.facts.get("lastUpdated")) or _NEVER, len(self.entries)

    # Replay. The tests are in the program's own order.

    def take(self, record: dict[str, Any]) -> None:
        if isinstance(record.get("$rewindTo"), str):
            self._rewind(record["$rewindTo"])
        elif isinstance(record.get("id"), str):
            self._put(record)
        elif isinstance(record.get("$set"), dict):
            self._set(record["$set"])
        elif string(record, "sessionId"):
            self._set(record)
        else:
            self.reading.skipped[f"record/{kind_name(next(iter(record), None))}"] += 1

    def _rewind(self, key: str) -> None:
        """Takes back the message and all after it; all there are where it is unknown."""
        last = ""
        while self.active and last != key:
            last, _ = self.active.popitem()
            self.entries[last].inactive = "rewound"

    def _put(self, record: dict[str, Any]) -> str:
        """Every change of a message writes it again, whole."""
        uuid = string(record, "id")
        key = uuid or f"\0{len(self.entries)}"
        known = self.entries.get(key)
        if known is None:
            self.entries[key] = _Entry(record, uuid, next(reversed(self.active), None))
        else:
            known.record, known.inactive = record, ""
        self.active[key] = None
        return key

    def _set(self, facts: dict[str, Any]) -> None:
        self.facts |= {k: v for k, v in facts.items() if k != "messages"}
        if isinstance(facts.get("messages"), list):
            self.replace(facts["messages"])

    def replace(self, messages: list[Any]) -> None:
        """A compressed or masked history. Of a message that is known it only holds less."""
        before, self.active = self.active, {}
        for message in messages:
            if not isinstance(message, dict):
                self.reading.skipped["message/not an object"] += 1
            elif (key := string(message, "id")) and key in before:
                self.active[key] = None
            else:
                self._put(message)
        for key in before.keys() - self.active.keys():
            self.entries[key].inactive = "replaced"

    # Messages.

    def conversation(self) -> Conversation:
        made = Conversation(self.reading.skipped)
        nearest: dict[str | None, str | None] = {}  # uuid of the nearest message above that is kept
        for key, entry in self.entries.items():
            parent = nearest.get(entry.parent)
            stamp = Stamp(entry.uuid, parent, timestamp(entry.record.get("timestamp")))
            kind = kind_name(entry.record.get("type"))
            maker = _MAKERS.get(kind)
            kept = maker is not None and maker(self, made, entry, stamp)
            if not kept:
                made.skipped[f"message/empty {kind}" if maker else f"message/{kind}"] += 1
            nearest[key] = (entry.uuid or parent) if kept else parent
        return made

    def _user(self, made: Conversation, entry: _Entry, stamp: Stamp) -> bool:
        record = entry.record
        kept = False
        for response in responses_of(record.get("content")):
            facts = result_facts([{"functionResponse": response}], None, None, made.skipped)
            kept |= made.answer(string(response, "id") or "", string(response, "name"), facts, stamp)
        blocks = prompt_blocks(record.get("displayContent"), record.get("content"), stamp, made.skipped)
        if not blocks:
            return kept
        text = "".join(b.text for b in blocks if isinstance(b, Text))
        compaction = text.lstrip().startswith(SNAPSHOT)
        made.add(_message(Role.USER, stamp, entry, is_meta=is_injected(text), is_compaction=compaction), blocks)
        return True

    def _gemini(self, made: Conversation, entry: _Entry, stamp: Stamp) -> bool:
        record = entry.record
        blocks: list[Block] = [t for raw in items(record.get("thoughts")) if (t := _thought(mapping(raw), stamp))]
        has_thoughts = bool(blocks)
        calls = [mapping(c) for c in items(record.get("toolCalls"))]
        called = {string(c, "id") for c in calls} | ({None} if calls else set())
        for raw in parts_of(record.get("content")):
            part = mapping(raw)
            is_call = "functionCall" in part and string(mapping(part["functionCall"]), "id") in called
            if is_call or (has_thoughts and part.get("thought") is True):
                made.skipped["part/repeated"] += 1
            elif block := part_block(raw, stamp, made.skipped):
                blocks.append(block)
        blocks += [self._call(call, stamp, made.skipped) for call in calls]
        if not blocks:
            return False
        text = "".join(b.text for b in blocks if isinstance(b, Text))
        message = _message(
            Role.ASSISTANT,
            stamp,
            entry,
            model=string(record, "model"),
            usage=_usage(record.get("tokens")),
            is_meta=is_acknowledgement(text),
        )
        made.add(message, blocks)
        return True

    def _call(self, call: dict[str, Any], stamp: Stamp, skipped: Counter[str]) -> Block:
        facts = result_facts(call.get("result"), call.get("resultDisplay"), call.get("status"), skipped)
        if "result" in facts:
            facts["result_at"] = timestamp(call.get("timestamp"))
        if sub := string(call, "agentId"):
            facts["agent_session"] = session_key(self.agent, sub, self.session_id)
        return call_block(call, stamp, **facts)

    def _notice(self, made: Conversation, entry: _Entry, stamp: Stamp) -> bool:
        parts = (part_block(raw, stamp, made.skipped) for raw in parts_of(entry.record.get("content")))
        blocks = [b for b in parts if b]
        if blocks:
            is_error = entry.record.get("type") == "error"
            made.add(_message(Role.SYSTEM, stamp, entry, is_meta=True, is_error=is_error), blocks)
        return bool(blocks)


_MAKERS: Mapping[str, Callable[[Chat, Conversation, _Entry, Stamp], bool]] = {
    "user": Chat._user,
    "gemini": Chat._gemini,
    "qwen": Chat._gemini,
    "info": Chat._notice,
    "warning": Chat._notice,
    "error": Chat._notice,
}


def _message(role: Role, stamp: Stamp, entry: _Entry, **more: Any) -> Message:
    extensions = {"inactive": entry.inactive} if entry.inactive else {}
    return Message(role, (), stamp.uuid, stamp.parent_uuid, stamp.at, extensions=extensions, **more)


def _thought(fields: dict[str, Any], stamp: Stamp) -> Thinking | None:
    told = [t for t in (string(fields, "subject"), string(fields, "description")) if t]
    at = timestamp(fields.get("timestamp")) or stamp.at
    return Thinking(": ".join(told), stamp.uuid, stamp.parent_uuid, at) if told else None


def _usage(value: Any) -> Usage | None:
    tokens = mapping(value)
    if not tokens:
        return None
    output = tokens_in(tokens.get("output")) + tokens_in(tokens.get("thoughts"))  # output leaves thoughts out
    return usage_of(tokens.get("input"), tokens.get("cached"), output)


# Files.


def read_chat(source: Source) -> Reading:
    """The newest of a session's copies. A name that several sessions share is no copy: each is read."""
    reading, newest = Reading(), dict[str, Chat]()
    failures: list[UnreadableSource] = []
    for path in (f.path for f in source.files if f.path.name not in (MARKER, REGISTRY)):
        try:
            chat = _chat(path, source.agent)
        except UnreadableSource as error:
            failures.append(error)
            continue
        kept = newest.get(chat.session_id)
        if kept is not None:
            reading.skipped["another copy of the session"] += 1
        if kept is None or chat.age >= kept.age:
            newest[chat.session_id] = chat
    if not newest and failures:
        raise failures[0]
    for failure in failures:
        reading.bad_line(0, failure.message)
    for chat in newest.values():
        _add(chat, source, reading)
    return reading


def _chat(path: Path, agent: str) -> Chat:
    chat = Chat(path, agent)
    if path.suffix == ".jsonl":
        for _, record in records(path, chat.reading):
            chat.take(record)
        if chat.entries or chat.facts or not chat.reading.bad_line_count:
            return chat
        try:
            whole = json_object(path)  # one conversation written over several lines, as .json files are
        except UnreadableSource:
            return chat
        chat = Chat(path, agent)
    else:
        whole = json_object(path)
    chat._set(whole)
    return chat


def _add(chat: Chat, source: Source, reading: Reading) -> None:
    conversation = chat.conversation()
    if conversation.speaks():
        reading.transcripts.append(_transcript(chat, conversation.messages(), source, reading))
    own = chat.reading
    reading.skipped.update(own.skipped)
    reading.bad_lines += own.bad_lines[: Reading.MAX_NAMED]
    reading.bad_line_count += own.bad_line_count
    reading.lines += own.lines
    reading.unfinished |= own.unfinished


def _transcript(chat: Chat, messages: tuple[Message, ...], source: Source, reading: Reading) -> Transcript:
    parent = sub_agent_parent(chat.path)
    stem = readable(chat.path.stem)
    session = Session(
        key=session_key(source.agent, stem if parent else chat.session_id, parent),
        id=chat.session_id,
        agent=source.agent,
        origin=Origin(path=readable(str(chat.path)), home=source.home),
        summary=string(chat.facts, "summary"),
        workspace=workspace(source, chat.facts, messages, reading),
        workspace_encoded=readable(project_of(chat.path).name),
        is_agent_session=parent is not None or chat.facts.get("kind") == "subagent",
        parent_session_id=parent,
        parent_key=session_key(source.agent, parent) if parent else None,
        agent_id=stem if parent else None,
        extensions=file_time(messages, source.files[0]),
    )
    return Transcript(session, messages)


def read_history(source: Source) -> Reading:
    """The prompts of a project: all that versions before chat files left, and all that is left of deleted ones."""
    prompts = document(source.path)
    if not isinstance(prompts, list):
        raise UnreadableSource(f"{readable(str(source.path))}: a JSON {type(prompts).__name__}, not a list of prompts")
    reading = Reading()
    sessions: dict[str, list[Message]] = {}
    for prompt in map(mapping, prompts):
        session_id, text = string(prompt, "sessionId"), string(prompt, "message")
        if not session_id or not text or not text.strip():
            reading.skipped["history/empty"] += 1
            continue
        at = timestamp(prompt.get("timestamp"))
        message = Message(Role.USER, (Text(text, at=at),), at=at, is_meta=is_injected(text))
        sessions.setdefault(session_id, []).append(message)
    folder = workspace(source, {}, (), reading)
    for session_id, messages in sessions.items():
        if not any(m.is_human for m in messages):
            reading.skipped["history/only commands"] += len(messages)
            continue
        session = Session(
            key=session_key(source.agent, session_id),
            id=session_id,
            agent=source.agent,
            origin=Origin(path=readable(str(source.path)), home=source.home),
            workspace=folder,
            workspace_encoded=readable(project_of(source.path).name),
        )
        reading.transcripts.append(Transcript(session, tuple(messages), second_hand=True))
    return reading
