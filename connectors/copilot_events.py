"""Copilot CLI's event log -> messages, of the main agent and of each sub-agent in the same file.

Looks only backwards: what an event becomes never depends on a later one, so a log cut anywhere and completed
later yields the messages of the whole log, with the same ids in the same order.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
from msgspec.structs import replace

from agent_journal.connectors.base import count, items, mapping, string, timestamp
from agent_journal.connectors.blocks import Stamp, contents, kept_json, kind_name, result_text, small, tool_paths
from agent_journal.connectors.copilot_facts import Facts
from agent_journal.connectors.copilot_legacy import legacy_session
from agent_journal.session import (
    Attachment,
    Block,
    Message,
    Role,
    Text,
    Thinking,
    ToolCall,
    ToolType,
    Usage,
    tool_type,
)

MAIN = ""  # the agent of events that name none
TRANSFORMED_CHARS = 4000  # a prompt with injected context is kept beside the raw one up to here (R31)
SELECTION_CHARS = 2000
DETAIL_CHARS = 200
MAX_DETAILS = 20

_PATCHED = re.compile(r"^\*\*\* (?:Add|Update|Delete) File: (.+)$", re.MULTILINE)
_TELLING = frozenset(
    "exit_code exitCode is_timeout shell_status shell_error_category linesAdded linesRemoved durationMs "
    "duration_ms largeOutputHandled largeOutputOriginalSizeBytes executionMode url interrupted".split()
)  # of some forty telemetry fields, those that say how the call went


@dataclass(frozen=True, slots=True)
class Event:
    kind: str
    data: dict[str, Any]
    agent: str
    stamp: Stamp  # parent_uuid is already the nearest kept event of the same agent


@dataclass(slots=True)
class Draft:
    """A message while later events may still extend it."""

    role: Role
    agent: str
    message: Message
    blocks: list[Block] = field(default_factory=list)


@dataclass(slots=True)
class Slot:
    """Where a tool call lives: with the first of its records. A request, a start and a completion each fill it once;
    a repeated one is another call under a reused id."""

    draft: Draft
    index: int
    filled: set[str]

    @property
    def call(self) -> ToolCall:
        block = self.draft.blocks[self.index]
        assert isinstance(block, ToolCall)
        return block

    def fill(self, record: str, **changes: Any) -> None:
        self.filled.add(record)
        self.draft.blocks[self.index] = replace(self.call, **changes)


@dataclass(slots=True)
class SubAgent:
    call_id: str
    slot: Slot | None = None
    agent: str | None = None  # None until one of its events tells
    facts: dict[str, Any] = field(default_factory=dict)  # of subagent.started, completed, failed

    @property
    def title(self) -> str | None:
        name = string(self.facts, "agentDisplayName", "agentName")
        task = string(mapping(self.slot.call.arguments), "description") if self.slot else None
        task = task or string(self.facts, "agentDescription", "description")
        return f"{name}: {task}" if name and task else name or task


class Log:
    def __init__(self, skipped: Counter[str]) -> None:
        self.skipped = skipped
        self.facts = Facts()
        self.drafts: list[Draft] = []
        self.started: dict[str, SubAgent] = {}  # by tool call id
        self._agents: dict[str, SubAgent] = {}  # by agent id
        self._slots: dict[str, Slot] = {}
        self._thinking: dict[str, Draft] = {}  # per agent: reasoning that waits for its message
        self._said: dict[str, Draft] = {}  # per agent: the last assistant message
        # Of every event: its agent, the kept event it stands for, and its parent.
        self._nodes: dict[str, tuple[str, str | None, str | None]] = {}
        self._seen: set[tuple[Any, ...]] = set()

    def take(self, record: dict[str, Any]) -> None:
        kind, data = kind_name(record.get("type")), mapping(record.get("data"))
        uuid, parent = string(record, "id"), string(record, "parentId")
        at = timestamp(record.get("timestamp"))
        if uuid in self._nodes:
            if (uuid, kind, at) in self._seen:
                self.skipped["duplicate event"] += 1
                return
            uuid = None  # an id that names two events names neither
        agent = self._agent_of(kind, record, data)
        above = self._above(parent, agent)
        if uuid:
            self._seen.add((uuid, kind, at))
            self._nodes[uuid] = (agent, above, parent if parent in self._nodes else None)
        left_out = self._handle(Event(kind, data, agent, Stamp(uuid, above, at)), record.get("ephemeral") is True)
        if left_out:
            self.skipped[left_out] += 1

    def _handle(self, event: Event, ephemeral: bool) -> str | None:
        if ephemeral and event.kind != "session.title_changed":
            return f"ephemeral/{event.kind}"
        known = self.facts.take(event.kind, event.data)
        if known is not None:
            return None if known else event.kind
        handler = _HANDLERS.get(event.kind)
        return event.kind if handler is None else handler(self, event)

    def messages(self, agent: str) -> tuple[Message, ...]:
        return tuple(replace(d.message, blocks=tuple(d.blocks)) for d in self.drafts if d.agent == agent)

    def agents(self) -> Iterator[tuple[str, SubAgent]]:
        """Sub-agents that said something, in order of appearance."""
        for agent in dict.fromkeys(d.agent for d in self.drafts):
            if agent != MAIN:
                yield agent, self._agents.get(agent) or SubAgent("")

    # Which agent, and below which event.

    def _agent_of(self, kind: str, record: dict[str, Any], data: dict[str, Any]) -> str:
        if kind.startswith("subagent."):
            return MAIN
        agent, call_id = string(record, "agentId"), string(data, "parentToolCallId")
        if agent:
            if agent not in self._agents:
                self._link(agent, call_id or self._only_start(agent))
            return agent
        if not call_id:
            return MAIN
        known = self.started.setdefault(call_id, SubAgent(call_id, self._slots.get(call_id)))
        if known.agent is None:
            self._link(call_id, call_id)
        return known.agent or call_id

    def _only_start(self, agent: str) -> str | None:
        """The call that started an agent whose events name only itself, where there is no doubt."""
        if agent in self.started:
            return agent
        waiting = [s.call_id for s in self.started.values() if s.agent is None]
        return waiting[0] if len(waiting) == 1 else None

    def _link(self, agent: str, call_id: str | None) -> None:
        if not call_id:
            self._agents[agent] = SubAgent("", agent=agent)
            return
        sub = self.started.setdefault(call_id, SubAgent(call_id, self._slots.get(call_id)))
        sub.agent = sub.agent or agent
        self._agents[agent] = sub

    def _above(self, uuid: str | None, agent: str) -> str | None:
        """The nearest event above that became something in the same agent's transcript. Parents are always earlier
        events (_nodes holds no others), so the walk ends."""
        while uuid is not None and uuid in self._nodes:
            owner, kept, parent = self._nodes[uuid]
            if owner == agent:
                return kept
            uuid = parent
        return None

    def _keep(self, event: Event, agent: str, kept: str | None = None) -> None:
        if event.stamp.uuid:
            self._nodes[event.stamp.uuid] = (agent, kept or event.stamp.uuid, self._nodes[event.stamp.uuid][2])

    def _place(self, event: Event, role: Role, blocks: list[Block], **more: Any) -> Draft:
        uuid, parent_uuid, at = event.stamp
        message = Message(
            role=role,
            blocks=(),
            uuid=uuid,
            parent_uuid=parent_uuid,
            at=at,
            cwd=self.facts.cwd,
            git_branch=self.facts.branch,
            agent_version=self.facts.version,
            is_sidechain=event.agent != MAIN,
            **more,
        )
        draft = Draft(role, event.agent, message, blocks)
        self.drafts.append(draft)
        self._keep(event, event.agent)
        return draft

    def _model(self, event: Event) -> str | None:
        """A sub-agent may run on another model than the one the session has selected."""
        if event.agent == MAIN:
            return string(event.data, "model") or self.facts.model
        sub = self._agents.get(event.agent)
        return string(event.data, "model") or (string(sub.facts, "model") if sub else None)

    # What people and models said.

    def _user(self, event: Event) -> str | None:
        self._thinking.pop(event.agent, None)
        text = result_text(event.data.get("content"), self.skipped)
        blocks: list[Block] = [Text(text, *event.stamp)] if text.strip() else []
        blocks += [a for raw in items(event.data.get("attachments")) if (a := _attachment(raw, event.stamp))]
        if not blocks:
            return "user.message/empty"
        source = string(event.data, "source") or ""
        is_meta = (
            source.startswith(("skill-", "agent-"))
            or event.data.get("isAutopilotContinuation") is True
            or text.startswith("<skill-context")
        )
        self._place(event, Role.USER, blocks, is_meta=is_meta, extensions=_prompt_facts(event.data, text))
        return None

    def _turn(self, event: Event) -> str | None:
        self._thinking.pop(event.agent, None)
        return event.kind

    def _reasoning(self, event: Event) -> str | None:
        """Opens the message that the next assistant.message of this agent and turn will extend."""
        text = result_text(event.data.get("content"), self.skipped)
        if not text.strip():
            return "assistant.reasoning/empty"
        said = self._said.get(event.agent)
        if said and any(isinstance(b, Thinking) and text.strip() in b.text for b in said.blocks):
            return "assistant.reasoning/repeated"
        draft = self._thinking.get(event.agent)
        if draft is None:
            draft = self._place(event, Role.ASSISTANT, [], model=self._model(event))
            self._thinking[event.agent] = draft
        draft.blocks.append(Thinking(text, *event.stamp))
        self._keep(event, event.agent)
        return None

    def _assistant(self, event: Event) -> str | None:
        draft = self._thinking.pop(event.agent, None)
        blocks: list[Block] = []
        thought = _unsaid(string(event.data, "reasoningText") or "", draft)
        if thought:
            blocks.append(Thinking(thought, *event.stamp))
        text = result_text(event.data.get("content"), self.skipped)
        if text.strip():
            blocks.append(Text(text, *event.stamp))
        requests = [r for r in items(event.data.get("toolRequests")) if isinstance(r, dict)]
        if not (blocks or requests or draft):
            return "assistant.message/empty"
        if draft is None:
            draft = self._place(event, Role.ASSISTANT, blocks)
        else:
            draft.blocks += blocks
        draft.message = replace(draft.message, **self._answer_facts(event))
        for request in requests:
            self._request(event, draft, request)
        self._said[event.agent] = draft
        own = any(b.uuid == event.stamp.uuid for b in draft.blocks)
        self._keep(event, event.agent, None if own else draft.message.uuid)
        return None

    def _answer_facts(self, event: Event) -> dict[str, Any]:
        data = event.data
        chunked = count(data.get("chunkCount")) > 1  # the chunks of one answer repeat its tokens
        tokens = count(data.get("outputTokens"))
        return {
            "model": self._model(event),
            "api_id": (string(data, "apiCallId") if chunked else None) or string(data, "messageId"),
            "request_id": string(data, "requestId", "serviceRequestId"),
            "usage": Usage(output_tokens=tokens) if tokens else None,
        }

    # Tools.

    def _request(self, event: Event, draft: Draft, request: dict[str, Any]) -> None:
        name, call_id = string(request, "name", "toolName"), string(request, "toolCallId", "id") or ""
        facts = _call_facts(request, name)
        slot = self._slots.get(call_id) if call_id else None
        if slot and (slot.draft is draft or "request" not in slot.filled):
            if "request" in slot.filled:
                self.skipped["tool request/repeated"] += 1
            else:
                slot.fill("request", **facts)
            return
        self._open(draft, event, call_id, "request", facts)

    def _open(self, draft: Draft, event: Event, call_id: str, record: str, facts: dict[str, Any]) -> Slot:
        call = ToolCall(**{"id": call_id, "name": "unknown", **facts, **event.stamp._asdict()})
        slot = Slot(draft, len(draft.blocks), {record})
        draft.blocks.append(call)
        if call_id:
            self._slots[call_id] = slot
            if call_id in self.started and self.started[call_id].slot is None:
                self.started[call_id].slot = slot
        return slot

    def _user_requested(self, event: Event) -> str | None:
        return self._begin(event, "request", {"user_requested": True})

    def _start(self, event: Event) -> str | None:
        return self._begin(event, "start", {})

    def _begin(self, event: Event, record: str, extensions: dict[str, Any]) -> str | None:
        call_id = string(event.data, "toolCallId") or ""
        facts = _call_facts(event.data, string(event.data, "toolName", "name"))
        slot = self._slots.get(call_id)
        if slot is None or record in slot.filled:
            draft = self._place(event, Role.ASSISTANT, [], model=self._model(event), extensions=extensions)
            self._open(draft, event, call_id, record, facts)
            return None
        known = slot.call
        if known.arguments is not None:
            facts = {k: v for k, v in facts.items() if k not in ("arguments", "paths")}
        slot.fill(record, **(facts | {"details": known.details | facts.get("details", {})}))
        return None

    def _complete(self, event: Event) -> str | None:
        call_id = string(event.data, "toolCallId") or ""
        result = _result_facts(event, self.skipped)
        slot = self._slots.get(call_id)
        if slot is None or "complete" in slot.filled:
            name = string(event.data, "toolName", "name")
            draft = self._place(event, Role.TOOL, [])
            self._open(draft, event, call_id, "complete", _call_facts({}, name) | result)
            return None
        details = slot.call.details | result["details"]
        slot.fill("complete", **(result | {"details": details}))
        parent = self._above(self._nodes[event.stamp.uuid][2], slot.draft.agent) if event.stamp.uuid else None
        slot.fill("complete", result_parent_uuid=parent)
        self._keep(event, slot.draft.agent)
        return None

    def _sub_started(self, event: Event) -> str | None:
        call_id = string(event.data, "toolCallId")
        if not call_id:
            return event.kind
        sub = self.started.setdefault(call_id, SubAgent(call_id))
        sub.slot = sub.slot or self._slots.get(call_id)
        sub.facts |= _sub_facts(event.data)
        return None

    def _sub_ended(self, event: Event) -> str | None:
        sub = self.started.get(string(event.data, "toolCallId") or "")
        if sub is None:
            return event.kind
        sub.facts["outcome"] = event.kind.removeprefix("subagent.")
        error = event.data.get("error")
        if text := error if isinstance(error, str) else string(mapping(error), "message"):
            sub.facts["error"] = text[:TRANSFORMED_CHARS]
        return None

    # What the agent itself wrote.

    def _compaction(self, event: Event) -> str | None:
        text = string(event.data, "summaryContent")
        if not text:
            return event.kind
        path = string(event.data, "checkpointPath")
        extensions = {"checkpoint": path} if path else {}
        self._place(
            event, Role.SYSTEM, [Text(text, *event.stamp)], is_meta=True, is_compaction=True, extensions=extensions
        )
        return None

    def _notification(self, event: Event) -> str | None:
        text = result_text(event.data.get("content"), self.skipped)
        if not text.strip():
            return event.kind
        kind = event.data.get("kind")
        extensions = {"notification": kept_json(kind)} if small(kind, DETAIL_CHARS * 5) else {}
        self._place(event, Role.SYSTEM, [Text(text, *event.stamp)], is_meta=True, extensions=extensions)
        return None

    def _failure(self, event: Event) -> str | None:
        text = string(event.data, "message", "errorMessage", "reason", "content")
        if not text:
            return event.kind
        if event.kind == "abort":
            text = f"Aborted: {text}"
        kept = {key: event.data[key] for key in ("errorType", "statusCode") if small(event.data.get(key), DETAIL_CHARS)}
        extensions = {"event": event.kind} | ({"error": kept_json(kept)} if kept else {})
        self._place(
            event, Role.SYSTEM, [Text(text, *event.stamp)], is_meta=True, is_error=True, extensions=extensions
        )
        return None

    def _import(self, event: Event) -> str | None:
        """A session of the old format, continued in this one: its messages come first."""
        legacy = legacy_session(mapping(event.data.get("legacySession")), self.skipped)
        self.facts.model = self.facts.model or legacy.model
        self.facts.trusted_folder = self.facts.trusted_folder or legacy.folder
        if path := string(event.data, "sourceFile"):
            self.facts.extensions["imported_from"] = path
        for message in legacy.messages:
            if message.uuid in self._nodes:
                message = replace(message, uuid=None)
            elif message.uuid:
                self._nodes[message.uuid] = (event.agent, message.uuid, None)
            self.drafts.append(Draft(message.role, event.agent, message, list(message.blocks)))
        return None


_HANDLERS: Mapping[str, Callable[[Log, Event], str | None]] = {
    "user.message": Log._user,
    "assistant.turn_start": Log._turn,
    "assistant.turn_end": Log._turn,
    "assistant.reasoning": Log._reasoning,
    "assistant.message": Log._assistant,
    "tool.user_requested": Log._user_requested,
    "tool.execution_start": Log._start,
    "tool.execution_complete": Log._complete,
    "subagent.started": Log._sub_started,
    "subagent.completed": Log._sub_ended,
    "subagent.failed": Log._sub_ended,
    "session.compaction_complete": Log._compaction,
    "system.notification": Log._notification,
    "session.error": Log._failure,
    "model.call_failure": Log._failure,
    "abort": Log._failure,
    "session.import_legacy": Log._import,
}
