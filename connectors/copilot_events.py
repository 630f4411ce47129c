"""Copilot CLI's event log -> messages, of the main agent and of each sub-agent in the same file.

Looks only backwards: what an event becomes never depends on a later one, so a log cut anywhere and completed
later yields the messages of the whole log, with the same ids in the same order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from msgspec.structs import replace

from agent_journal.connectors.base import count, items, mapping, string, timestamp
from agent_journal.connectors.blocks import Stamp, kept_json, kind_name, numbered, result_text, small
from agent_journal.connectors.copilot_blocks import (
    DETAIL_CHARS,
    FACT_CHARS,
    attached,
    call_facts,
    is_meta_prompt,
    prompt_facts,
    result_facts,
    sub_agent_facts,
)
from agent_journal.connectors.copilot_draft import MAIN, Agents, Draft, Event, Slot, SubAgent
from agent_journal.connectors.copilot_facts import Facts
from agent_journal.connectors.copilot_legacy import Legacy, legacy_session
from agent_journal.session import Block, Message, Role, Text, Thinking, ToolCall, Usage

ID_CHARS = 200  # a longer session id is no id


class Log:
    def __init__(self, skipped: Counter[str], name: str) -> None:
        self.skipped = skipped
        self.name = name  # by its place on disk
        self.facts = Facts()
        self.drafts: list[Draft] = []
        self.imported: list[Legacy] = []  # sessions of the old format under an id of their own
        self.has_import = False
        self._id: str | None = None
        self._slots: dict[str, Slot] = {}  # by tool call id
        self._agents = Agents(self._slots)
        self._thinking: dict[str, Draft] = {}  # per agent: reasoning that waits for its message
        self._said: dict[str, Draft] = {}  # per agent: the last assistant message
        # Of every event: its agent, the kept event it stands for, and its parent.
        self._nodes: dict[str, tuple[str, str | None, str | None]] = {}
        self._seen: set[tuple[Any, ...]] = set()

    @property
    def session_id(self) -> str:
        """Settled with the first message: an id that came later would tear a growing session in two."""
        if self._id:
            return self._id
        told = self.facts.session_id or ""
        return told if 0 < len(told) <= ID_CHARS and told.isprintable() else self.name

    def take(self, record: dict[str, Any]) -> None:
        kind, data = kind_name(record.get("type")), mapping(record.get("data"))
        uuid, parent = string(record, "id"), string(record, "parentId")
        at = timestamp(record.get("timestamp"))
        if uuid in self._nodes:
            if (uuid, kind, at) in self._seen:
                self.skipped["duplicate event"] += 1
                return
            uuid = None  # an id that names two events names neither
        agent = MAIN if kind.startswith("subagent.") else self._agents.of(record, data)
        above = self._above(parent, agent)
        if uuid:
            self._seen.add((uuid, kind, at))
            self._nodes[uuid] = (agent, above, parent if parent in self._nodes else None)
        left_out = self._handle(Event(kind, data, agent, Stamp(uuid, above, at)), record.get("ephemeral") is True)
        if left_out:
            self.skipped[left_out] += 1
        if self._id is None and self.drafts:
            self._id = self.session_id

    def _handle(self, event: Event, ephemeral: bool) -> str | None:
        if ephemeral and event.kind != "session.title_changed":
            return f"ephemeral/{event.kind}"
        known = self.facts.take(event.kind, event.data) if event.agent == MAIN else self._aside(event)
        if known is not None:
            return None if known else event.kind
        handler = _HANDLERS.get(event.kind)
        return event.kind if handler is None else handler(self, event)

    def _aside(self, event: Event) -> bool | None:
        """A sub-agent's own model or folder is not the session's."""
        if not Facts.knows(event.kind):
            return None
        sub, model = self._agents.named.get(event.agent), string(event.data, "newModel")
        if sub and model:
            sub.facts["model"] = model
        return False

    def messages(self, agent: str) -> tuple[Message, ...]:
        return tuple(replace(d.message, blocks=numbered(d.blocks)) for d in self.drafts if d.agent == agent)

    def agents(self) -> Iterator[tuple[str, SubAgent]]:
        """Sub-agents that said something, in order of appearance."""
        for agent in dict.fromkeys(d.agent for d in self.drafts):
            if agent != MAIN:
                yield agent, self._agents.named.get(agent) or SubAgent("")

    def _above(self, uuid: str | None, agent: str) -> str | None:
        """The nearest event above that became something in the same agent's transcript. Parents are always
        earlier events (_nodes holds no others), so the walk ends."""
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
        sub = self._agents.named.get(event.agent)
        return string(event.data, "model") or (string(sub.facts, "model") if sub else None)

    # What people and models said.

    def _user(self, event: Event) -> str | None:
        self._thinking.pop(event.agent, None)
        text = result_text(event.data.get("content"), self.skipped)
        blocks: list[Block] = [Text(text, *event.stamp)] if text.strip() else []
        for raw in items(event.data.get("attachments")):
            if made := attached(raw, event.stamp, self.skipped):
                blocks.append(made)
        if not blocks:
            return "user.message/empty"
        is_meta, facts = is_meta_prompt(event.data, text), prompt_facts(event.data, text)
        self._place(event, Role.USER, blocks, is_meta=is_meta, extensions=facts)
        return None

    def _turn(self, event: Event) -> str | None:
        self._thinking.pop(event.agent, None)
        if event.kind == "assistant.turn_start":
            self._said.pop(event.agent, None)
        return event.kind

    def _reasoning(self, event: Event) -> str | None:
        """Opens the message that the next assistant.message of this agent and turn will extend."""
        text = result_text(event.data.get("content"), self.skipped)
        if not text.strip():
            return "assistant.reasoning/empty"
        said = self._said.get(event.agent)
        if said and said.thought(text):
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
        thought = string(event.data, "reasoningText") or ""
        if thought.strip() and not (draft and draft.thought(thought)):
            blocks.append(Thinking(thought, *event.stamp))
        text = result_text(event.data.get("content"), self.skipped)
        if text.strip():
            blocks.append(Text(text, *event.stamp))
        asked = items(event.data.get("toolRequests"))
        requests = [r for r in asked if isinstance(r, dict)]
        if len(requests) < len(asked):
            self.skipped["tool request/not an object"] += len(asked) - len(requests)
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
        facts = call_facts(request, name)
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
            self._agents.called(call_id, slot)
        return slot

    def _user_requested(self, event: Event) -> str | None:
        return self._begin(event, "request", {"user_requested": True})

    def _start(self, event: Event) -> str | None:
        return self._begin(event, "start", {})

    def _begin(self, event: Event, record: str, extensions: dict[str, Any]) -> str | None:
        call_id = string(event.data, "toolCallId") or ""
        facts = call_facts(event.data, string(event.data, "toolName", "name"))
        slot = self._slots.get(call_id)
        if slot is None or record in slot.filled:
            draft = self._place(event, Role.ASSISTANT, [], model=self._model(event), extensions=extensions)
            self._open(draft, event, call_id, record, facts)
            return None
        if slot.call.arguments is not None:
            facts = {k: v for k, v in facts.items() if k not in ("arguments", "paths")}
        slot.fill(record, **facts)
        return None

    def _complete(self, event: Event) -> str | None:
        call_id = string(event.data, "toolCallId") or ""
        result = result_facts(event.data, event.stamp, self.skipped)
        slot = self._slots.get(call_id)
        if slot is None or "complete" in slot.filled:
            name = string(event.data, "toolName", "name") or (slot.call.name if slot else None)
            self._open(self._place(event, Role.TOOL, []), event, call_id, "complete", call_facts({}, name) | result)
            return None
        agent, node = slot.draft.agent, self._nodes.get(event.stamp.uuid or "")
        slot.fill("complete", result_parent_uuid=self._above(node[2], agent) if node else None, **result)
        self._keep(event, agent)
        return None

    def _sub_started(self, event: Event) -> str | None:
        call_id = string(event.data, "toolCallId")
        if not call_id:
            return event.kind
        self._agents.start(call_id).facts |= sub_agent_facts(event.data)
        return None

    def _sub_ended(self, event: Event) -> str | None:
        sub = self._agents.started.get(string(event.data, "toolCallId") or "")
        if sub is None:
            return event.kind
        sub.facts["outcome"] = event.kind.removeprefix("subagent.")
        error = event.data.get("error")
        if text := error if isinstance(error, str) else string(mapping(error), "message"):
            sub.facts["error"] = text[:FACT_CHARS]
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
        self._place(event, Role.SYSTEM, [Text(text, *event.stamp)], is_meta=True, is_error=True, extensions=extensions)
        return None

    def _import(self, event: Event) -> str | None:
        """A session of the old format goes on in this one: under the same id its messages come first, under
        another it is this one's parent."""
        self._id = self.session_id
        legacy = legacy_session(mapping(event.data.get("legacySession")), self.skipped)
        self.facts.model = self.facts.model or legacy.model
        self.facts.trusted_folder = self.facts.trusted_folder or legacy.folder
        if path := string(event.data, "sourceFile"):
            self.facts.extensions["imported_from"] = path
        self.has_import = True
        if legacy.id and legacy.id != self._id:
            self.imported.append(legacy)
            self.facts.parent_session_id, self.facts.parent_is_local = legacy.id, True
        else:
            self.drafts += self.adopted(legacy)
        return None

    def adopted(self, legacy: Legacy) -> list[Draft]:
        drafts = []
        for message in legacy.messages:
            if message.uuid in self._nodes:
                message = replace(message, uuid=None)
            elif message.uuid:
                self._nodes[message.uuid] = (MAIN, message.uuid, None)
            drafts.append(Draft(message.role, MAIN, message, list(message.blocks)))
        return drafts


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
