"""A Copilot CLI message, tool call or sub-agent while later events may still add to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import replace

from agent_journal.connectors.base import mapping, string
from agent_journal.connectors.blocks import Stamp
from agent_journal.session import Block, Message, Role, Thinking, ToolCall

MAIN = ""  # the agent of events that name none
CONVERSATION = frozenset({Role.USER, Role.ASSISTANT, Role.TOOL})  # a session without any of these is blank


@dataclass(frozen=True, slots=True)
class Event:
    kind: str
    data: dict[str, Any]
    agent: str
    stamp: Stamp  # parent_uuid is already the nearest kept event of the same agent


@dataclass(slots=True)
class Draft:
    role: Role
    agent: str
    message: Message
    blocks: list[Block] = field(default_factory=list)

    def thought(self, text: str) -> bool:
        return any(isinstance(b, Thinking) and text.strip() in b.text for b in self.blocks)


@dataclass(slots=True)
class Slot:
    """Where a tool call lives: with the first of its records. A request, a start and a completion each fill
    it once; a repeated one is another call under a reused id."""

    draft: Draft
    index: int
    filled: set[str]

    @property
    def call(self) -> ToolCall:
        block = self.draft.blocks[self.index]
        assert isinstance(block, ToolCall)
        return block

    def fill(self, record: str, **changes: Any) -> None:
        """Details add up over the records; everything else is replaced."""
        self.filled.add(record)
        known = self.call
        details = known.details | changes.pop("details", {})
        self.draft.blocks[self.index] = replace(known, details=details, **changes)


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

    def link(self, key: str) -> None:
        """The call that started it leads to its transcript; the first agent of a call is the one meant."""
        if self.slot and self.slot.call.agent_session is None:
            self.slot.fill("agent", agent_session=key)


class Agents:
    """Whose event is whose: newer logs tag events with an agent's id, older ones with the call behind it."""

    def __init__(self, slots: Mapping[str, Slot]) -> None:
        self._slots = slots
        self.started: dict[str, SubAgent] = {}  # by tool call id
        self.named: dict[str, SubAgent] = {}  # by agent id

    def of(self, record: Mapping[str, Any], data: Mapping[str, Any]) -> str:
        agent, call_id = string(record, "agentId"), string(data, "parentToolCallId")
        if agent:
            sub = self.named.get(agent) or self._link(agent, call_id or self._only_start(agent))
            return sub.call_id if sub.call_id and sub.agent == sub.call_id else agent
        if not call_id:
            return MAIN
        known = self.start(call_id)
        if known.agent is None:
            self._link(call_id, call_id)
        return known.agent or call_id

    def start(self, call_id: str) -> SubAgent:
        sub = self.started.setdefault(call_id, SubAgent(call_id))
        sub.slot = sub.slot or self._slots.get(call_id)
        return sub

    def called(self, call_id: str, slot: Slot) -> None:
        if call_id in self.started and self.started[call_id].slot is None:
            self.started[call_id].slot = slot

    def _only_start(self, agent: str) -> str | None:
        """The call that started an agent whose events name only itself, where there is no doubt."""
        if agent in self.started:
            return agent
        waiting = [s.call_id for s in self.started.values() if s.agent is None]
        return waiting[0] if len(waiting) == 1 else None

    def _link(self, agent: str, call_id: str | None) -> SubAgent:
        sub = self.start(call_id) if call_id else SubAgent("")
        sub.agent = sub.agent or agent
        self.named[agent] = sub
        return sub
