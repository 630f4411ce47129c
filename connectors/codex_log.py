"""One Codex rollout, record by record: what was said, once, though most of it is written as an item and as an event.

Looks only backwards: a later line may complete a message, never move one. Opens no file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from msgspec import structs

from agent_journal.connectors.base import count, items, mapping, string, timestamp
from agent_journal.connectors.blocks import contents, kind_name
from agent_journal.connectors.codex_lineage import Lineage
from agent_journal.connectors.codex_parts import (
    CALL_NAMES,
    attachment,
    call_arguments,
    call_paths,
    call_result,
    is_injected,
    json_object,
    named_folder,
    part_text,
    prompt_texts,
    squeezed,
    token_totals,
    usage_of,
)
from agent_journal.session import Block, Message, Role, Text, Thinking, ToolCall, Usage, tool_type


@dataclass(slots=True, eq=False)
class Draft:
    """A message that later records may still complete."""

    role: Role
    at: datetime | None
    uuid: str | None = None
    blocks: list[Block] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)  # fields of Message
    extensions: dict[str, Any] = field(default_factory=dict)
    whole: str = ""  # of a user's: all of it without spaces, and what is left without the injected parts
    prompt: str = ""
    confirmed: bool = False  # an event says that a person wrote this
    from_event: bool = False

    def has(self, *kinds: type) -> bool:
        return any(isinstance(b, kinds) for b in self.blocks)


class Log:
    def __init__(self, skipped: Counter[str], lineage: Lineage) -> None:
        self.skipped = skipped
        self.lineage = lineage
        self.title: str | None = None
        self.timed = False  # the old forms tell no time but the start
        self.workspace: str | None = None
        self.usage: Usage | None = None
        self.drafts: list[Draft] = []
        self._turn: dict[str, Any] = {}  # the latest turn_context
        self._totals: dict[str, Any] = {}
        self._open: Draft | None = None  # the answer that is still being given
        self._answer: Draft | None = None
        self._asked: list[Draft] = []  # what the user's side said since the last answer
        self._aborted = False
        self._by_item: Counter[tuple[str, str]] = Counter()
        self._by_event: dict[tuple[str, str], list[tuple[Draft, int]]] = {}
        self._calls: dict[str, tuple[Draft, int]] = {}
        self._left_calls: set[str] = set()
        self._verdicts: dict[str, tuple[bool, Any]] = {}

    def take(self, record: dict[str, Any]) -> None:
        kind, fields = _envelope(record)
        enveloped = fields is not record
        at = timestamp(record.get("timestamp")) if enveloped else self.lineage.start
        self.timed = self.timed or enveloped
        if kind == "session_meta":
            self._take_meta(fields)
            return
        if kind == "turn_context" or (kind == "event_msg" and fields.get("type") == "task_started"):
            self._open = None
            self.lineage.begin_turn(string(fields, "turn_id"), at)
        if reason := self.lineage.left_because(record):
            self._leave(reason, kind, fields)
            return
        if self.lineage.copying:
            at = self.lineage.copied_at or at  # the line's own time is that of the fork, and differs from copy to copy
        read = _RECORDS.get(kind)
        if read is None:
            self.skipped[kind_name(kind)] += 1
        else:
            read(self, fields, at)

    def _take_meta(self, fields: dict[str, Any]) -> None:
        if self.lineage.take_meta(fields):
            self.workspace = string(fields, "cwd")
        else:
            self.skipped["session_meta of the parent"] += 1

    def _leave(self, reason: str, kind: str, fields: dict[str, Any]) -> None:
        self.skipped[f"{reason}/{kind_name(kind)}"] += 1
        if call := string(fields, "call_id"):
            self._left_calls.add(call)
        self._totals = token_totals(fields) or self._totals

    def _take_turn(self, fields: dict[str, Any], _: datetime | None) -> None:
        self._turn = fields
        self.workspace = self.workspace or string(fields, "cwd")

    def _take_item(self, fields: dict[str, Any], at: datetime | None) -> None:
        read = _ITEMS.get(kind_name(fields.get("type")))
        if read is None:
            self.skipped[f"response_item/{kind_name(fields.get('type'))}"] += 1
        else:
            read(self, fields, at)

    def _take_event(self, fields: dict[str, Any], at: datetime | None) -> None:
        kind = kind_name(fields.get("type"))
        read = _EVENTS.get(kind)
        if read is not None:
            read(self, fields, at)
        if kind not in _EVENTS_KEPT:
            item = mapping(fields.get("item"))
            self.skipped[f"event_msg/{kind}" + (f"/{kind_name(item.get('type'))}" if item else "")] += 1

    def _add(self, draft: Draft) -> Draft:
        meta = self.lineage.meta
        draft.facts |= {
            "cwd": string(self._turn, "cwd") or self.workspace,
            "git_branch": string(mapping(meta.get("git")), "branch"),
            "agent_version": string(meta, "cli_version"),
        }
        if self.lineage.copying:
            draft.extensions["copied_from"] = self.lineage.parent
        self.drafts.append(draft)
        return draft

    # --- the user's side ---------------------------------------------------------------------------------

    def _take_message(self, fields: dict[str, Any], at: datetime | None) -> None:
        role = string(fields, "role")
        if role == "assistant":
            for raw in contents(fields.get("content")):
                self._say("assistant", part_text(raw), at, string(fields, "id"))
            return
        if role != "user":
            self._take_system(fields, at)
            return
        self._open = None
        draft = self._user_draft(contents(fields.get("content")), at, string(fields, "id"))
        if draft is None:
            return
        same = [d for d in self._asked if d.prompt == draft.prompt or d.whole == draft.whole]
        if told := next((d for d in same if d.from_event), None):
            told.blocks, told.from_event = draft.blocks, False
        elif same and self._aborted and draft.prompt:
            self.skipped["prompt written again after an interruption"] += 1
        else:
            self._asked.append(self._add(draft))

    def _user_draft(self, parts: Sequence[Any], at: datetime | None, uuid: str | None) -> Draft | None:
        texts = [t for t in map(part_text, parts) if t.strip()]
        kept = [t for t in texts if not is_injected(t)]
        if kept:
            self.skipped["injected part of a prompt"] += len(texts) - len(kept)
        self.workspace = self.workspace or next(filter(None, map(named_folder, texts)), None)
        draft = _asked(kept or texts, at, uuid)
        draft.whole = squeezed("".join(texts))
        draft.prompt = draft.prompt if kept else ""
        draft.blocks += [a for p in parts if (a := attachment(p, uuid, at))]
        if not draft.blocks:
            self.skipped["response_item/message without text"] += 1
            return None
        return draft

    def _hear_user(self, fields: dict[str, Any], at: datetime | None) -> None:
        """People's prompts are exactly these events; the item that says the same stands beside them."""
        item = mapping(fields.get("item"))
        text = "".join(map(part_text, contents(item.get("content")))) if item else string(fields, "message") or ""
        heard = _asked([text], at, None)
        heard.confirmed = heard.from_event = True
        if not heard.prompt:
            return
        near = [d for d in self._asked if {heard.whole, heard.prompt} & {d.whole, d.prompt}]
        near = near or [d for d in self._asked if d.prompt and heard.prompt in d.prompt]
        if near:
            next((d for d in near if not d.confirmed), near[-1]).confirmed = True
        else:
            self._open = None
            self._asked.append(self._add(heard))

    def _take_system(self, fields: dict[str, Any], at: datetime | None) -> None:
        text = "\n\n".join(filter(str.strip, map(part_text, contents(fields.get("content")))))
        if text:
            draft = self._add(Draft(Role.SYSTEM, at, string(fields, "id"), facts={"is_meta": True}))
            draft.blocks.append(Text(text, draft.uuid, None, at))

    def _take_mail(self, fields: dict[str, Any], at: datetime | None) -> None:
        """What one agent of a tree wrote to another."""
        text = "\n\n".join(filter(str.strip, map(part_text, contents(fields.get("content")))))
        if not text:
            self.skipped["message between agents without text"] += 1
            return
        self._open = None
        draft = self._add(Draft(Role.USER, at, string(fields, "id"), facts={"is_sidechain": True}, confirmed=True))
        draft.blocks.append(Text(text, draft.uuid, None, at))
        draft.extensions |= {k: v[:200] for k in ("author", "recipient") if (v := string(fields, k))}

    # --- the model's side --------------------------------------------------------------------------------

    def _answering(self, at: datetime | None, uuid: str | None, after: tuple[type, ...]) -> Draft:
        """The open answer, or a new one if the open one has got beyond what comes now."""
        if self._open is None or self._open.has(*after):
            model = string(self._turn, "model")
            self._open = self._answer = self._add(Draft(Role.ASSISTANT, at, uuid, facts={"model": model}))
            self._asked, self._aborted = [], False
        return self._open

    def _say(self, kind: str, text: str, at: datetime | None, uuid: str | None) -> None:
        """From an item. Where its event came first, the text stands already and only gets its id."""
        if not text.strip():
            self.skipped[f"response_item/{kind} without text"] += 1
            return
        key = kind, squeezed(text)
        if told := self._by_event.get(key):
            draft, place = told.pop(0)
            draft.blocks[place] = structs.replace(draft.blocks[place], uuid=uuid)
            return
        self._by_item[key] += 1
        self._put(kind, text, at, uuid)

    def _hear(self, kind: str, text: str, at: datetime | None) -> None:
        key = kind, squeezed(text)
        if self._by_item[key] > 0:
            self._by_item[key] -= 1
        elif key[1]:
            self._by_event.setdefault(key, []).append(self._put(kind, text, at, None))

    def _put(self, kind: str, text: str, at: datetime | None, uuid: str | None) -> tuple[Draft, int]:
        make = Thinking if kind == "reasoning" else Text
        draft = self._answering(at, uuid, (Text, ToolCall))
        draft.blocks.append(make(text, uuid, None, at))
        return draft, len(draft.blocks) - 1

    def _take_reasoning(self, fields: dict[str, Any], at: datetime | None) -> None:
        texts = [part_text(p) for key in ("summary", "content") for p in contents(fields.get(key))]
        if not any(t.strip() for t in texts):
            self.skipped["response_item/reasoning without text"] += 1
        for text in filter(str.strip, texts):
            self._say("reasoning", text, at, string(fields, "id"))

    def _hear_answer(self, fields: dict[str, Any], at: datetime | None) -> None:
        self._hear("assistant", string(fields, "message") or "", at)

    def _hear_reasoning(self, fields: dict[str, Any], at: datetime | None) -> None:
        self._hear("reasoning", string(fields, "text") or "", at)

    def _hear_review(self, fields: dict[str, Any], at: datetime | None) -> None:
        review = mapping(fields.get("review_output"))
        found = [f for one in items(review.get("findings")) if (f := mapping(one))]
        texts = [string(review, "overall_explanation"), *(string(f, k) for f in found for k in ("title", "body"))]
        self._hear("assistant", "\n\n".join(filter(None, texts)), at)

    def _hear_item(self, fields: dict[str, Any], at: datetime | None) -> None:
        item = mapping(fields.get("item"))
        kind = item.get("type")
        if kind == "UserMessage":
            self._hear_user(fields, at)
        elif kind == "AgentMessage":
            for part in contents(item.get("content")):
                self._hear("assistant", part_text(part), at)
        elif kind == "Reasoning":
            for part in (*items(item.get("summary_text")), *items(item.get("raw_content"))):
                self._hear("reasoning", part if isinstance(part, str) else "", at)
        elif kind == "CommandExecution":
            self._take_verdict(item | {"call_id": item.get("id")}, at)

    def _take_compaction(self, fields: dict[str, Any], at: datetime | None) -> None:
        self._open = None
        text = string(fields, "message")
        if not text:
            self.skipped["compacted without text"] += 1
            return
        draft = self._add(Draft(Role.SYSTEM, at, facts={"is_meta": True, "is_compaction": True}))
        draft.blocks.append(Text(text, None, None, at))

    # --- tools -------------------------------------------------------------------------------------------

    def _take_call(self, fields: dict[str, Any], at: datetime | None) -> None:
        uuid, kind = string(fields, "id"), kind_name(fields.get("type"))
        name = CALL_NAMES.get(kind) or string(fields, "name") or "unknown"
        if space := string(fields, "namespace"):
            name = f"{space}__{name.removeprefix('_')}"
        arguments = call_arguments(fields)
        call = ToolCall(
            id=string(fields, "call_id", "id") or "",
            name=name,
            type=tool_type(name),
            arguments=arguments,
            success=False if fields.get("status") in ("failed", "incomplete") else None,
            paths=call_paths(arguments),
            uuid=uuid,
            at=at,
        )
        draft = self._answering(at, uuid, ())
        draft.blocks.append(call)
        if call.id:
            self._calls[call.id] = draft, len(draft.blocks) - 1
            self._apply_verdict(call.id)

    def _take_result(self, fields: dict[str, Any], at: datetime | None) -> None:
        self._open = None
        call_id = string(fields, "call_id") or ""
        if call_id in self._left_calls and call_id not in self._calls:
            self.skipped["result of a call that was left out"] += 1
            return
        text, success, details = call_result(fields, self.skipped)
        if call_id not in self._calls:
            draft = self._add(Draft(Role.TOOL, at, string(fields, "id")))
            draft.blocks.append(ToolCall(call_id, "unknown", at=at))
            self._calls[call_id] = draft, 0
        draft, place = self._calls[call_id]
        call = draft.blocks[place]
        assert isinstance(call, ToolCall)
        spawned = string(json_object(text), "agent_id") if call.name.endswith("spawn_agent") else None
        draft.blocks[place] = structs.replace(
            call,
            result=text,
            success=call.success if success is None else success,
            result_uuid=string(fields, "id"),
            result_at=at,
            details=details,
            agent_session=self.lineage.key_of(spawned) if spawned else None,
        )
        self._apply_verdict(call_id)

    def _take_verdict(self, fields: dict[str, Any], _: datetime | None) -> None:
        """How a command ended, from its event: surer than what the result says in words."""
        call_id, code, done = string(fields, "call_id"), fields.get("exit_code"), fields.get("success")
        if isinstance(code, int) and not isinstance(code, bool):
            done = code == 0
        elif isinstance(fields.get("result"), dict):
            done = "Ok" in fields["result"]
        if call_id and isinstance(done, bool):
            self._verdicts[call_id] = done, code
            self._apply_verdict(call_id)

    def _apply_verdict(self, call_id: str) -> None:
        if call_id not in self._verdicts or call_id not in self._calls:
            return
        (done, code), (draft, place) = self._verdicts[call_id], self._calls[call_id]
        call = draft.blocks[place]
        assert isinstance(call, ToolCall)
        details = call.details | ({"exit_code": code} if isinstance(code, int) and abs(code) < 2**32 else {})
        draft.blocks[place] = structs.replace(call, success=done, details=details)

    # --- tokens, interruptions ---------------------------------------------------------------------------

    def _take_tokens(self, fields: dict[str, Any], _: datetime | None) -> None:
        totals, before = token_totals(fields), self._totals
        if not totals or totals == before:
            return  # a limit was told, or the same count again
        self._totals, self._open = totals, None
        if self.lineage.copying:
            return  # the parent's tokens
        last = mapping(mapping(fields.get("info")).get("last_token_usage"))
        grown = {k: count(v) - count(before.get(k)) for k, v in totals.items()}
        spent = usage_of(
            grown if min(grown.values()) >= 0 else last or totals
        )  # the totals start again after a rollback
        self.usage = spent if self.usage is None else self.usage + spent
        if self._answer is not None:
            told = self._answer.facts.get("usage")
            self._answer.facts["usage"] = usage_of(last) if told is None else told + usage_of(last)

    def _take_abort(self, fields: dict[str, Any], _: datetime | None) -> None:
        if self._open is not None or (self.drafts and self.drafts[-1] is self._answer):
            assert self._answer is not None
            self._answer.facts["stop_reason"] = (string(fields, "reason") or "aborted")[:60]
        self._aborted, self._open = True, None

    def _take_rollback(self, fields: dict[str, Any], _: datetime | None) -> None:
        """Turns taken back stay in the file and here, marked."""
        turns = count(fields.get("num_turns"))
        for draft in reversed(self.drafts):
            if turns == 0:
                return
            if "rolled_back" not in draft.extensions:
                draft.extensions["rolled_back"] = True
                turns -= draft.role is Role.USER and bool(draft.prompt)

    def _take_title(self, fields: dict[str, Any], _: datetime | None) -> None:
        if fields.get("thread_id") in (None, self.lineage.id):
            self.title = string(fields, "thread_name") or self.title

    # --- the end -----------------------------------------------------------------------------------------

    def messages(self) -> tuple[Message, ...]:
        told = any(d.confirmed and d.prompt for d in self.drafts)
        return tuple(self._message(d, told) for d in self.drafts)

    def _message(self, draft: Draft, told: bool) -> Message:
        facts = dict(draft.facts)
        if draft.role is Role.USER and not draft.confirmed:
            # The event of a prompt comes after it: the last one may not have got its own yet.
            facts["is_meta"] = not draft.prompt or (told and draft is not self.drafts[-1])
        if self.lineage.is_sub_agent:
            facts["is_sidechain"] = True
        return Message(
            draft.role, tuple(draft.blocks), uuid=draft.uuid, at=draft.at, extensions=draft.extensions, **facts
        )


def _asked(texts: Sequence[str], at: datetime | None, uuid: str | None) -> Draft:
    said = [t for text in texts for t in prompt_texts(text)]
    draft = Draft(Role.USER, at, uuid, [Text(t, uuid, None, at) for t in said if t.strip()])
    draft.whole, draft.prompt = squeezed("".join(texts)), squeezed("".join(said))
    return draft


def _envelope(record: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """(kind, fields). Before September 2025 lines had no envelope: the fields are then the record itself."""
    payload = record.get("payload")
    if isinstance(payload, dict):
        return string(record, "type") or "untyped", payload
    if isinstance(record.get("type"), str):
        return "response_item", record
    if string(record, "id") and "timestamp" in record:
        return "session_meta", record
    return ("record_type/" + kind_name(record["record_type"]) if "record_type" in record else "untyped"), record


_Reader = Callable[[Log, dict[str, Any], datetime | None], None]
_RECORDS: Mapping[str, _Reader] = {
    "response_item": Log._take_item,
    "event_msg": Log._take_event,
    "turn_context": Log._take_turn,
    "compacted": Log._take_compaction,
    "inter_agent_communication": Log._take_mail,
}
_ITEMS: Mapping[str, _Reader] = {
    "message": Log._take_message,
    "reasoning": Log._take_reasoning,
    "agent_message": Log._take_mail,
    "function_call": Log._take_call,
    "custom_tool_call": Log._take_call,
    **dict.fromkeys(CALL_NAMES, Log._take_call),
    "function_call_output": Log._take_result,
    "custom_tool_call_output": Log._take_result,
    "tool_search_output": Log._take_result,
}
_EVENTS: Mapping[str, _Reader] = {
    "user_message": Log._hear_user,
    "agent_message": Log._hear_answer,
    "agent_reasoning": Log._hear_reasoning,
    "agent_reasoning_raw_content": Log._hear_reasoning,
    "exited_review_mode": Log._hear_review,
    "item_completed": Log._hear_item,
    "exec_command_end": Log._take_verdict,
    "patch_apply_end": Log._take_verdict,
    "mcp_tool_call_end": Log._take_verdict,
    "token_count": Log._take_tokens,
    "turn_aborted": Log._take_abort,
    "thread_rolled_back": Log._take_rollback,
    "thread_name_updated": Log._take_title,
}
# Read for what they tell of a turn or the session; every other event repeats an item, and is counted.
_EVENTS_KEPT = frozenset({"token_count", "turn_aborted", "thread_rolled_back", "thread_name_updated", "task_started"})
