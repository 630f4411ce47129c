"""Claude Code records -> messages, one Conversation per session. Opens nothing but spilled tool output.

Records come in file order and are never looked at again; a message stands where its first content stood:
the beginning of a file gives the beginning of what the whole file gives.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from msgspec.structs import replace

from agent_journal.connectors.base import items, mapping, string, timestamp
from agent_journal.connectors.blocks import (
    Place,
    Stamp,
    block,
    contents,
    is_call,
    is_failure,
    is_result,
    kept_json,
    kind_name,
    numbered,
    result_text,
    tool_paths,
)
from agent_journal.connectors.claude_draft import Draft, add_text, fields_of, joined
from agent_journal.connectors.claude_facts import Facts
from agent_journal.connectors.claude_results import outcome_details
from agent_journal.connectors.prompt_text import readable_command, spoken, task_link
from agent_journal.session import Block, Message, Role, Text, Thinking, ToolCall, tool_type

AGENT_TOOLS = frozenset({"Task", "Agent"})


class Conversation:
    """The messages of one session, and of the sub-agents whose progress it echoes."""

    def __init__(
        self,
        skipped: Counter[str],
        agent_key: Callable[[str], str],
        full_text: Callable[[str], str] = lambda text: text,
        own_agents: frozenset[str] = frozenset(),
    ) -> None:
        self.skipped = skipped
        self.agent_key = agent_key  # agent id -> session key
        self.full_text = full_text  # a result that was spilled to a file -> the whole of it
        self.own_agents = own_agents  # sub-agents with a file of their own: their echoes say nothing new
        self.facts = Facts()
        self.uuids: set[str] = set()
        self.turns = 0  # user and assistant records taken
        self.echoes: dict[str, Conversation] = {}
        self._drafts: list[Draft] = []
        self._answers: dict[str, Draft] = {}  # by message.id: streamed records need not be neighbours
        self._calls: dict[str, Place] = {}
        self._early: dict[str, Draft] = {}  # results whose call was not seen before them
        self._waiting: list[Draft] = []  # those of them that may still find it
        self._started: dict[str, str] = {}  # tool call id -> key of the sub-agent it started
        self._tasks: dict[str, str] = {}  # the same from notices, which tell of background shells too
        self._detours: dict[str, str | None] = {}  # uuid of a record that became nothing -> its parent
        self._warmups: set[str] = set()

    def add(self, record: dict[str, Any]) -> None:
        kind = record.get("type")
        uuid = string(record, "uuid")
        if uuid:
            if uuid in self.uuids:
                self.skipped["duplicate uuid"] += 1
                return
            self.uuids.add(uuid)
        handler = _CHAIN.get(kind) if isinstance(kind, str) else None
        if handler is None:
            if not self.facts.take(kind_name(kind), record):
                self.skipped[kind_name(kind)] += 1
            return
        parent = string(record, "parentUuid", "logicalParentUuid")
        stamp = Stamp(uuid, parent if parent != uuid else None, timestamp(record.get("timestamp")))
        if self._is_warmup(record, stamp):
            left_out: str | None = "warm-up"
        else:
            self.facts.see(record, kind in ("user", "assistant"))
            left_out = handler(self, record, stamp)
        if left_out:
            self.skipped[left_out] += 1
            if uuid:
                self._detours[uuid] = stamp.parent_uuid

    def messages(self) -> tuple[Message, ...]:
        """To be asked once, after the last record."""
        if waiting := sum(not d.answered for d in self._waiting):
            self.skipped["result before its call"] += waiting
        return tuple(self._message(d) for d in self._drafts)

    # Records of the chain. Each handler returns the kind to count when the record became nothing.

    def _user(self, record: dict[str, Any], stamp: Stamp) -> str | None:
        self.turns += 1
        parts = contents(mapping(record.get("message")).get("content"))
        results = [raw for raw in parts if is_result(raw)]
        outcome = record.get("toolUseResult") if len(results) == 1 else None
        for raw in results:
            self._result(raw, outcome, record, stamp)
        said = [raw for raw in parts if not is_result(raw)]
        return self._spoken(said, record, stamp, None if results else "user/empty")

    def _spoken(self, parts: list[Any], record: dict[str, Any], stamp: Stamp, empty: str | None) -> str | None:
        blocks, injected = spoken(parts, stamp, self.skipped)
        if not blocks:
            return empty
        compaction = record.get("isCompactSummary") is True
        draft = Draft(Role.SYSTEM if compaction else Role.USER, fields_of(record), stamp, blocks)
        draft.is_compaction = compaction
        draft.is_meta = (
            injected
            or compaction
            or _claims(record, "isMeta", "isVisibleInTranscriptOnly")
            or (string(mapping(record.get("origin")), "kind") or "human") != "human"
        )
        if isinstance(blocks[0], Text):
            self._link_task(blocks[0].text)
        if not draft.is_meta:
            self._settle()
        self._place(draft)
        return None

    def _link_task(self, text: str) -> None:
        if link := task_link(text):
            self._tasks.setdefault(link[1], self.agent_key(link[0]))

    def _assistant(self, record: dict[str, Any], stamp: Stamp) -> str | None:
        self.turns += 1
        message = mapping(record.get("message"))
        api_id = string(message, "id")
        draft = self._answers.get(api_id) if api_id else None
        if draft is None:
            draft = Draft(Role.ASSISTANT, fields_of(record), stamp, api_id=api_id)
            draft.is_meta = _claims(record, "isMeta", "isVisibleInTranscriptOnly")
            if api_id:
                self._answers[api_id] = draft
        draft.is_error = draft.is_error or _claims(record, "isApiErrorMessage")
        draft.answer(message)
        before = len(draft.blocks)
        for raw in contents(message.get("content")):
            self._answer_block(draft, raw, record, stamp)
        if not draft.blocks and draft.usage is None:
            return "assistant/empty"
        if not draft.placed:
            self._settle()
        self._place(draft)
        if len(draft.blocks) == before and stamp.uuid and stamp.uuid != draft.stamp.uuid:
            last = draft.blocks[-1].uuid if draft.blocks else None
            self._detours[stamp.uuid] = last or draft.stamp.uuid
        return None

    def _answer_block(self, draft: Draft, raw: Any, record: dict[str, Any], stamp: Stamp) -> None:
        if is_result(raw):
            self._result(raw, None, record, stamp)
            return
        if is_call(raw) and ("tool", string(raw, "id") or "") in draft.seen:
            self._fill_arguments(raw)
            return
        made = block(raw, stamp, self.skipped)
        if isinstance(made, ToolCall):
            self._call(draft, made)
        elif isinstance(made, (Text, Thinking)):
            add_text(draft, made)
        elif made is not None:
            draft.blocks.append(made)

    def _call(self, draft: Draft, call: ToolCall) -> None:
        if call.id:
            draft.seen.add(("tool", call.id))
            early = self._early.pop(call.id, None)
            if early is not None:
                early.answered = True
                call = joined(call, early.blocks[0])
            self._calls.setdefault(call.id, Place(draft.blocks, len(draft.blocks)))
        draft.blocks.append(call)

    def _fill_arguments(self, raw: dict[str, Any]) -> None:
        """A snapshot that repeats a call may be the first to hold its input."""
        place = self._calls[string(raw, "id") or ""]
        if not place.call.arguments and raw.get("input"):
            arguments = kept_json(raw["input"])
            place.fill(arguments=arguments, paths=tool_paths(arguments))

    def _settle(self) -> None:
        """Claude writes some results a few lines before their call, always within one answer. When the talk
        has moved on, what still waits gets a message of its own, for good: no later line takes one away."""
        for lone in self._waiting:
            if not lone.answered:
                self._place(lone)
        self._waiting.clear()

    def _result(self, raw: dict[str, Any], outcome: Any, record: dict[str, Any], stamp: Stamp) -> None:
        text = self.full_text(result_text(raw.get("content"), self.skipped))
        agent = string(mapping(outcome), "agentId")
        answer = ToolCall(
            id=string(raw, "tool_use_id") or "",
            name="unknown",
            type=tool_type("unknown"),
            result=text,
            success=not is_failure(raw),
            result_uuid=stamp.uuid,
            result_parent_uuid=stamp.parent_uuid,
            result_at=stamp.at,
            agent_session=self.agent_key(agent) if agent else None,
            details=outcome_details(outcome, text),
        )
        place = self._calls.get(answer.id)
        if place is not None:
            if place.call.result is None:
                place.blocks[place.at] = joined(place.call, answer)
                return
            if place.call.result == text:
                self.skipped["block/repeated result"] += 1
                return
        lone = Draft(Role.TOOL, fields_of(record), stamp, [replace(answer, uuid=stamp.uuid, at=stamp.at)])
        lone.is_meta = _claims(record, "isMeta")
        if place is None and answer.id and answer.id not in self._early:
            self._early[answer.id] = lone
            self._waiting.append(lone)
        else:
            self._place(lone)

    def _system(self, record: dict[str, Any], stamp: Stamp) -> str | None:
        subtype = kind_name(record.get("subtype"))
        text = result_text(record.get("content"), self.skipped)
        if subtype == "api_error":
            text = text or _error_text(record)
        if not text.strip():
            return f"system/{subtype}"
        draft = Draft(Role.SYSTEM, fields_of(record), stamp, [Text(readable_command(text), *stamp)])
        draft.is_meta = subtype != "away_summary"  # that one is a recap to read
        draft.is_error = subtype == "api_error" or record.get("level") == "error"
        self._place(draft)
        return None

    def _attachment(self, record: dict[str, Any], stamp: Stamp) -> str | None:
        attached = mapping(record.get("attachment"))
        kind = f"attachment/{kind_name(attached.get('type'))}"
        if kind != "attachment/queued_command":
            return kind
        told = attached.get("commandMode") == "task-notification" or _claims(attached, "isMeta")
        said = [raw for raw in contents(attached.get("prompt")) if not is_result(raw)]
        seen = {**record, "origin": attached.get("origin"), "isMeta": told or record.get("isMeta")}
        return self._spoken(said, seen, stamp, kind)

    def _progress(self, record: dict[str, Any], stamp: Stamp) -> str | None:
        if stamp.uuid:
            self._detours[stamp.uuid] = stamp.parent_uuid
        data = mapping(record.get("data"))
        kind = f"progress/{kind_name(data.get('type'))}"
        agent_id = string(data, "agentId")
        if kind != "progress/agent_progress" or agent_id is None:
            return kind
        if call := string(record, "parentToolUseID"):
            self._started[call] = self.agent_key(agent_id)
        if agent_id in self.own_agents:
            return kind
        echo = self.echoes.get(agent_id)
        if echo is None:
            echo = self.echoes[agent_id] = Conversation(Counter(), self.agent_key, self.full_text)
        return None if echo.overhear(data, record) else kind

    def overhear(self, data: dict[str, Any], outer: dict[str, Any]) -> bool:
        """Take what one progress record repeats of a sub-agent. The list repeats all so far, and holds texts
        that no `message` ever carries; the uuid tells what is new."""
        heard = False
        around = {key: outer.get(key) for key in ("cwd", "version", "gitBranch", "slug", "sessionId", "userType")}
        for inner in (*items(data.get("normalizedMessages")), data.get("message")):
            record = mapping(inner)
            uuid = string(record, "uuid")
            if record.get("type") in ("user", "assistant") and uuid and uuid not in self.uuids:
                self.add({**around, **record, "isSidechain": True})
                heard = True
        return heard

    def _queue(self, record: dict[str, Any], stamp: Stamp) -> str | None:
        self._link_task(result_text(record.get("content"), Counter()))
        return "queue-operation"  # repeats a prompt that comes as a record of its own

    def _is_warmup(self, record: dict[str, Any], stamp: Stamp) -> bool:
        """2.0.x warmed its sub-agents up with a prompt nobody wrote."""
        if record.get("isSidechain") is not True:
            return False
        warm = stamp.parent_uuid in self._warmups
        if not warm and stamp.parent_uuid is None and record.get("type") == "user":
            parts = contents(mapping(record.get("message")).get("content"))
            warm = len(parts) == 1 and (string(mapping(parts[0]), "text") or "").strip() == "Warmup"
        if warm and stamp.uuid:
            self._warmups.add(stamp.uuid)
        return warm

    def _place(self, draft: Draft) -> None:
        if not draft.placed:
            draft.placed = True
            self._drafts.append(draft)
            self._detours.pop(draft.stamp.uuid or "", None)  # its first record alone held nothing

    # Drafts -> messages.

    def _message(self, draft: Draft) -> Message:
        return Message(
            role=draft.role,
            blocks=numbered([self._settled(b) for b in draft.blocks]),
            uuid=draft.stamp.uuid,
            parent_uuid=self._ancestor(draft.stamp.parent_uuid),
            at=draft.stamp.at,
            model=draft.model,
            api_id=draft.api_id,
            stop_reason=draft.stop_reason,
            stop_sequence=draft.stop_sequence,
            usage=draft.usage,
            is_meta=draft.is_meta,
            is_compaction=draft.is_compaction,
            is_error=draft.is_error,
            **draft.fields,
        )

    def _settled(self, part: Block) -> Block:
        """Links that only the whole file tells: the sub-agent of a call, parents that became nothing."""
        changes: dict[str, Any] = {}
        if part.parent_uuid in self._detours:
            changes["parent_uuid"] = self._ancestor(part.parent_uuid)
        if isinstance(part, ToolCall):
            if part.result_parent_uuid in self._detours:
                changes["result_parent_uuid"] = self._ancestor(part.result_parent_uuid)
            link = self._started.get(part.id) or (self._tasks.get(part.id) if part.name in AGENT_TOOLS else None)
            if part.agent_session is None and link:
                changes["agent_session"] = link
        return replace(part, **changes) if changes else part

    def _ancestor(self, uuid: str | None) -> str | None:
        """The nearest record above that became something; a log may name its parents in a circle."""
        walked: set[str] = set()
        while uuid is not None and uuid in self._detours:
            if uuid in walked:
                uuid = None
                break
            walked.add(uuid)
            uuid = self._detours[uuid]
        for one in walked:  # thousands of progress records may stand between two messages
            self._detours[one] = uuid
        return uuid


_CHAIN: Mapping[str, Callable[[Conversation, dict[str, Any], Stamp], str | None]] = {
    "user": Conversation._user,
    "assistant": Conversation._assistant,
    "system": Conversation._system,
    "attachment": Conversation._attachment,
    "progress": Conversation._progress,
    "queue-operation": Conversation._queue,
}


def _claims(record: dict[str, Any], *keys: str) -> bool:
    return any(record.get(key) is True for key in keys)


_ERROR_PLACES = (("error",), ("error", "error"), ("error", "error", "error"), ("cause",), ("error", "cause"))


def _error_text(record: dict[str, Any]) -> str:
    """The sentence inside an api_error, however deep the client library wrapped it."""
    for place in _ERROR_PLACES:
        holder: Any = record
        for key in place:
            holder = mapping(mapping(holder).get(key))
        if text := string(holder, "formatted", "message", "code"):
            status = mapping(record.get("error")).get("status")
            return f"API error {status}: {text}" if isinstance(status, int) else f"API error: {text}"
    plain = record.get("error")
    return f"API error: {plain}" if isinstance(plain, str) and plain else ""
