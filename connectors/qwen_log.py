"""Qwen Code's session logs -> transcripts. Copied histories and telemetry in the logs are never indexed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from agent_journal.connectors.base import (
    Reading,
    Source,
    count,
    file_time,
    mapping,
    prompted,
    readable,
    session_key,
    string,
    timestamp,
)
from agent_journal.connectors.blocks import Stamp, kind_name
from agent_journal.connectors.google_files import CHATS
from agent_journal.connectors.google_parts import (
    Conversation,
    is_acknowledgement,
    is_injected,
    part_block,
    parts_of,
    prompt_blocks,
    responses_of,
    result_facts,
    usage_of,
)
from agent_journal.connectors.jsonl import records, sidecar
from agent_journal.connectors.qwen import AGENT, META, SESSION, SUB_AGENT, SUB_AGENTS
from agent_journal.session import Message, Origin, Role, Session, Text, Transcript, Usage

_SPOKEN = (None, "mid_turn_user_message", "realtime_message", "agent_launch_prompt")  # subtypes of real prompts
_RUNTIME = ("goal_runtime", "goal_control", "system")  # provenance of injected ones


@dataclass(slots=True)
class _Log:
    reading: Reading
    made: Conversation
    ids: dict[str, None] = field(default_factory=dict)
    titles: dict[bool, str] = field(default_factory=dict)  # by whether a person gave it
    facts: dict[str, str] = field(default_factory=dict)  # the first cwd, the last branch and version
    parent_session: str | None = None
    forked_from: str | None = None
    last: str | None = None
    parents: dict[str, str | None] = field(default_factory=dict)
    nearest: dict[str | None, str | None] = field(default_factory=dict)  # uuid -> itself or its nearest kept ancestor

    def take(self, record: dict[str, Any]) -> None:
        uuid, above = string(record, "uuid"), string(record, "parentUuid")
        if uuid and uuid in self.parents:
            self.reading.skipped["repeated"] += 1
            return
        self._notice(record)
        stamp = Stamp(uuid, self.nearest.get(above), timestamp(record.get("timestamp")))
        kind = kind_name(record.get("type"))
        handler = _HANDLERS.get(kind)
        kept = handler is not None and handler(self, record, stamp)
        if not kept:
            subtype = string(record, "subtype")
            self.reading.skipped[f"{kind}/{kind_name(subtype)}" if subtype else kind] += 1
        if uuid:
            self.last, self.parents[uuid] = uuid, above
            self.nearest[uuid] = uuid if kept else stamp.parent_uuid

    def _notice(self, record: dict[str, Any]) -> None:
        if session_id := string(record, "sessionId"):
            self.ids[session_id] = None
        if cwd := string(record, "cwd"):
            self.facts.setdefault("cwd", cwd)
        self.facts |= {k: v for k in ("gitBranch", "version") if (v := string(record, k))}
        self.forked_from = self.forked_from or string(mapping(record.get("forkedFrom")), "sessionId")

    def _message(self, role: Role, record: dict[str, Any], stamp: Stamp, **more: Any) -> Message:
        return Message(
            role,
            (),
            *stamp,
            cwd=string(record, "cwd"),
            git_branch=string(record, "gitBranch"),
            agent_version=string(record, "version"),
            is_sidechain=record.get("isSidechain") is True,
            **more,
        )

    def user(self, record: dict[str, Any], stamp: Stamp) -> bool:
        message, subtype = mapping(record.get("message")), record.get("subtype")
        if subtype == "realtime_message" and message.get("role") == "model":
            return self.assistant(record, stamp)
        answered = self.result(record, stamp)
        shown = string(mapping(record.get("systemPayload")), "displayText")
        blocks = prompt_blocks(shown, message.get("parts"), stamp, self.made.skipped)
        if not blocks:
            return answered
        text = "".join(b.text for b in blocks if isinstance(b, Text))
        is_meta = is_injected(text) or subtype not in _SPOKEN or record.get("provenance") in _RUNTIME
        self.made.add(self._message(Role.USER, record, stamp, is_meta=is_meta), blocks)
        return True

    def assistant(self, record: dict[str, Any], stamp: Stamp) -> bool:
        parts = parts_of(mapping(record.get("message")).get("parts"))
        blocks = [b for raw in parts if (b := part_block(raw, stamp, self.made.skipped))]
        if not blocks:
            return False
        message = self._message(
            Role.ASSISTANT,
            record,
            stamp,
            model=string(record, "model"),
            usage=_usage(record),
            is_meta=is_acknowledgement("".join(b.text for b in blocks if isinstance(b, Text))),
        )
        self.made.add(message, blocks)
        return True

    def result(self, record: dict[str, Any], stamp: Stamp) -> bool:
        """Some versions write results as user records."""
        told = mapping(record.get("toolCallResult"))
        responses = responses_of(mapping(record.get("message")).get("parts"))
        if not responses and told:
            responses = [{"id": told.get("callId")}]
        kept = False
        for response in responses:
            call_id = string(response, "id") or string(told, "callId") or ""
            mine = told if string(told, "callId") in (None, call_id) else {}
            content = [{"functionResponse": response}] if "response" in response else []
            facts = result_facts(content, mine.get("resultDisplay"), mine.get("status"), self.made.skipped)
            kept |= self.made.answer(call_id, string(response, "name"), facts, stamp)
        return kept

    def system(self, record: dict[str, Any], stamp: Stamp) -> bool:
        payload, subtype = mapping(record.get("systemPayload")), record.get("subtype")
        if subtype == "custom_title" and (title := string(payload, "customTitle")):
            self.titles[payload.get("titleSource") != "auto"] = title
        elif subtype == "parent_session":
            self.parent_session = string(payload, "parentSessionId")
        command = string(payload, "rawCommand") if subtype == "slash_command" else None
        if not command or payload.get("phase") == "result":
            return False
        self.made.add(self._message(Role.USER, record, stamp, is_meta=True), [Text(command, *stamp)])
        return True

    def messages(self) -> tuple[Message, ...]:
        """After a rewind or a branch the records left behind remain, beside the path to the last one."""
        active = self._path()
        if active is None:
            return self.made.messages()
        left = {"inactive": "rewound"}
        return tuple(
            m if m.uuid is None or m.uuid in active else replace(m, extensions=left) for m in self.made.messages()
        )

    def _path(self) -> set[str] | None:
        """None where a lost record breaks it: nobody can tell then what was left behind."""
        path: set[str] = set()
        at = self.last
        while at is not None:
            if at in path or at not in self.parents:
                return None
            path.add(at)
            at = self.parents[at]
        return path


_HANDLERS: Mapping[str, Callable[[_Log, dict[str, Any], Stamp], bool]] = {
    "user": _Log.user,
    "assistant": _Log.assistant,
    "tool_result": _Log.result,
    "system": _Log.system,
}


def _usage(record: dict[str, Any]) -> Usage | None:
    """A branch's copies of records were paid for in the session they come from."""
    counts = mapping(record.get("usageMetadata"))
    if not counts or "forkedFrom" in record:
        return None
    output = count(counts.get("candidatesTokenCount"))
    return usage_of(counts.get("promptTokenCount"), counts.get("cachedContentTokenCount"), output)


# Sessions.


def read_log(source: Source) -> Reading:
    reading = Reading()
    log = _Log(reading, Conversation(reading.skipped))
    for _, record in records(source.path, reading):
        log.take(record)
    stem = readable(source.path.stem)
    session_id = next((i for i in log.ids if i.casefold() == stem.casefold()), next(iter(log.ids), stem))
    sidecars = [sidecar(f.path, reading) for f in source.files[1:]]
    if source.kind == SESSION:
        for path, meta in zip((f.path for f in source.files[1:]), sidecars, strict=True):
            log.made.link(string(meta, "toolUseId") or "", f"{AGENT}:{session_id}/{path.name.removesuffix(META)}")
    if log.made.speaks():
        messages = log.messages()
        session = Session(
            key=session_key(AGENT, session_id),
            id=session_id,
            agent=AGENT,
            origin=Origin(path=readable(str(source.path)), home=source.home),
            title=log.titles.get(True) or log.titles.get(False),
            workspace=log.facts.get("cwd"),
            workspace_encoded=_project_name(source.path),
            git_branch=log.facts.get("gitBranch"),
            agent_version=log.facts.get("version"),
            parent_session_id=log.parent_session,
            parent_key=session_key(AGENT, log.parent_session) if log.parent_session else None,
            extensions=({"forked_from": log.forked_from} if log.forked_from else {})
            | file_time(messages, source.files[0]),
        )
        if source.kind == SUB_AGENT:
            session = _sub_agent(session, next(iter(sidecars), {}), source.path, messages)
        reading.transcripts.append(Transcript(session, messages))
    return reading


def _project_name(path: Path) -> str | None:
    return next((readable(p.parent.name) for p in path.parents if p.name in (CHATS, SUB_AGENTS)), None)


def _sub_agent(session: Session, meta: dict[str, Any], path: Path, messages: tuple[Message, ...]) -> Session:
    """The folder it lies in is named after the session that started it; the sidecar may come later."""
    parent = readable(path.parent.name)
    agent_id = readable(path.stem).removeprefix("agent-")
    above = string(meta, "parentAgentId")
    kind, task = string(meta, "agentType"), string(meta, "description")
    title = f"{kind}: {task}" if kind and task else task or prompted(messages) or kind
    outcome = string(meta, "status")
    return replace(
        session,
        key=session_key(AGENT, agent_id, parent),
        id=f"{parent}:{agent_id}",
        title=title,
        is_agent_session=True,
        parent_session_id=parent,
        parent_key=session_key(AGENT, above, parent) if above else session_key(AGENT, parent),
        agent_id=agent_id,
        extensions=session.extensions | ({"outcome": outcome} if outcome else {}),
    )
