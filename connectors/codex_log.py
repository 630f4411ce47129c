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
from agent_journal.connectors.blocks import contents, kind_name, numbered
from agent_journal.connectors.codex_lineage import Lineage
from agent_journal.connectors.codex_parts import (
    attached,
    is_injected,
    is_shell,
    named_folder,
    part_text,
    prompt_texts,
    squeezed,
    token_totals,
    usage_of,
)
from agent_journal.connectors.codex_tools import CALL_NAMES, Calls, call_of
from agent_journal.session import Block, Message, Role, Text, Thinking, ToolCall, Usage

NEAR = 50  # prompts without an answer between them among which a repeated one is looked for


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
    is_shell: bool = False  # a command the user ran from the prompt; no event tells of it

    def ends_in(self, kinds: tuple[type, ...]) -> bool:
        """The last block tells: behind a text or a call no thought is put. One answer may hold 100,000 calls."""
        return bool(self.blocks) and isinstance(self.blocks[-1], kinds)


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
        self._has_events = False  # that tell prompts from what is injected; the old forms have none
        self._event = ""  # the kind of the event that is being read
        self._by_item: Counter[tuple[str, str]] = Counter()
        self._by_event: dict[tuple[str, str], list[tuple[Draft, int]]] = {}
        self._calls = Calls(skipped, lineage.key_of)

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
            self._calls.left.add(call)
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
        self._event = f"event_msg/{kind}"
        if kind == "item_completed":
            kind = f"item/{kind_name(mapping(fields.get('item')).get('type'))}"
            self._event = f"event_msg/{kind}"
            fields = mapping(fields.get("item"))
        read = _EVENTS.get(kind)
        if read is None:
            self.skipped[self._event] += 1
        else:
            read(self, fields, at)

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
            self._take_text(fields, at, Role.SYSTEM, is_meta=True)
            return
        self._open = None
        draft = self._user_draft(contents(fields.get("content")), at, string(fields, "id"))
        if draft is None:
            return
        same = [d for d in self._asked if d.prompt == draft.prompt or d.whole == draft.whole]
        if told := next((d for d in same if d.from_event), None):
            told.blocks, told.from_event = draft.blocks, False
            self.skipped["prompt that repeats its event"] += 1
        elif same and self._aborted and draft.prompt:
            self.skipped["prompt written again after an interruption"] += 1
        else:
            self._ask(draft)

    def _user_draft(self, parts: Sequence[Any], at: datetime | None, uuid: str | None) -> Draft | None:
        texts = [t for t in map(part_text, parts) if t.strip()]
        kept = [t for t in texts if not is_injected(t)]
        if 0 < len(kept) < len(texts):
            self.skipped["injected part of a prompt"] += len(texts) - len(kept)
        self.workspace = self.workspace or next(filter(None, map(named_folder, texts)), None)
        draft = _asked(kept or texts, at, uuid)
        draft.whole = squeezed("".join(texts))
        draft.prompt = draft.prompt if kept else ""
        draft.blocks += [a for p in parts if (a := attached(p, uuid, at))]
        if not draft.blocks:
            self.skipped["message without text"] += 1
            return None
        return draft

    def _hear_user(self, fields: dict[str, Any], at: datetime | None) -> None:
        """People's prompts are exactly these events; the item that says the same stands beside them."""
        parts = contents(fields.get("content"))
        heard = _asked(["".join(map(part_text, parts)) or string(fields, "message") or ""], at, None)
        heard.confirmed = heard.from_event = self._has_events = True
        near = [d for d in self._asked if {heard.whole, heard.prompt} & {d.whole, d.prompt}]
        near = near or [d for d in self._asked if d.prompt and heard.prompt in d.prompt]
        if near or not heard.prompt:
            self.skipped[self._event] += 1
            for draft in [d for d in near if not d.confirmed][:1]:
                draft.confirmed = True
            return
        self._open = None
        self._ask(heard)

    def _ask(self, draft: Draft) -> None:
        self._asked = [*self._asked[-NEAR:], self._add(draft)]

    def _take_text(self, fields: dict[str, Any], at: datetime | None, role: Role, **facts: Any) -> Draft | None:
        """A message that nothing later completes."""
        self._open, parts = None, contents(fields.get("content") or fields.get("message"))
        text = "\n\n".join(filter(str.strip, map(part_text, parts)))
        if not text:
            self.skipped["message without text"] += 1
            return None
        uuid = string(fields, "id")
        return self._add(Draft(role, at, uuid, [Text(text, uuid, None, at)], facts))

    def _take_mail(self, fields: dict[str, Any], at: datetime | None) -> None:
        """What one agent of a tree wrote to another."""
        if draft := self._take_text(fields, at, Role.USER, is_sidechain=True):
            draft.confirmed = True
            draft.extensions |= {k: v[:200] for k in ("author", "recipient") if (v := string(fields, k))}

    def _take_compaction(self, fields: dict[str, Any], at: datetime | None) -> None:
        self._take_text(fields, at, Role.SYSTEM, is_meta=True, is_compaction=True)

    # --- the model's side --------------------------------------------------------------------------------

    def _answering(self, at: datetime | None, uuid: str | None, after: tuple[type, ...]) -> Draft:
        """The open answer, or a new one if the open one has got beyond what comes now."""
        if self._open is None or self._open.ends_in(after):
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
            self.skipped[f"{kind} that repeats its event"] += 1
            return
        self._by_item[key] += 1
        self._put(kind, text, at, uuid)

    def _hear(self, kind: str, text: str, at: datetime | None) -> None:
        """From an event. Where its item came first, there is nothing to add."""
        key = kind, squeezed(text)
        if self._by_item[key] > 0 or not key[1]:
            self._by_item[key] -= 1 if key[1] else 0
            self.skipped[self._event] += 1
        else:
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
        for text in [string(fields, "message"), *map(part_text, contents(fields.get("content")))]:
            if text:
                self._hear("assistant", text, at)

    def _hear_reasoning(self, fields: dict[str, Any], at: datetime | None) -> None:
        for text in (fields.get("text"), *items(fields.get("summary_text")), *items(fields.get("raw_content"))):
            if isinstance(text, str):
                self._hear("reasoning", text, at)

    def _hear_review(self, fields: dict[str, Any], at: datetime | None) -> None:
        review = mapping(fields.get("review_output"))
        found = map(mapping, items(review.get("findings")))
        texts = [string(review, "overall_explanation"), *(string(f, k) for f in found for k in ("title", "body"))]
        self._hear("assistant", "\n\n".join(filter(None, texts)), at)

    def _take_call(self, fields: dict[str, Any], at: datetime | None) -> None:
        self._calls.put(call_of(fields, at), self._answering(at, string(fields, "id"), ()).blocks)

    def _take_output(self, fields: dict[str, Any], at: datetime | None) -> None:
        self._open = None
        if self._calls.is_left(string(fields, "call_id") or ""):
            self.skipped["output of a call that was left out"] += 1
        elif lone := self._calls.answer(fields, at):
            self._add(Draft(Role.TOOL, at, string(fields, "id"), lone))

    def _hear_end(self, fields: dict[str, Any], _: datetime | None) -> None:
        self._calls.hear(fields)
        self.skipped[self._event] += 1  # all else in it is in the output

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
        restarted = min(grown.values()) < 0  # totals begin anew after a rollback
        spent = usage_of(last or totals if restarted else grown)
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
                turns -= draft.role is Role.USER and bool(draft.prompt or draft.confirmed)

    def _take_title(self, fields: dict[str, Any], _: datetime | None) -> None:
        if fields.get("thread_id") in (None, self.lineage.id):
            self.title = string(fields, "thread_name") or self.title

    def _take_nothing(self, _: dict[str, Any], __: datetime | None) -> None:
        """Of the beginning of a turn only its id is needed, and that was taken."""

    # --- the end -----------------------------------------------------------------------------------------

    def messages(self) -> tuple[Message, ...]:
        return tuple(map(self._message, self.drafts))

    def _message(self, draft: Draft) -> Message:
        facts = dict(draft.facts)
        if draft.role is Role.USER and not draft.confirmed and not draft.is_shell:
            # The event of a prompt comes after it: the last one may not have got its own yet.
            facts["is_meta"] = not draft.prompt or (self._has_events and draft is not self.drafts[-1])
        if self.lineage.is_sub_agent:
            facts["is_sidechain"] = True
        blocks = numbered(draft.blocks)
        return Message(draft.role, blocks, uuid=draft.uuid, at=draft.at, extensions=draft.extensions, **facts)


def _asked(texts: Sequence[str], at: datetime | None, uuid: str | None) -> Draft:
    said = [t for text in texts for t in prompt_texts(text)]
    draft = Draft(Role.USER, at, uuid, [Text(t, uuid, None, at) for t in said if t.strip()])
    draft.whole, draft.prompt = squeezed("".join(texts)), squeezed("".join(said))
    draft.is_shell = any(map(is_shell, texts))
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
    "function_call_output": Log._take_output,
    "custom_tool_call_output": Log._take_output,
    "tool_search_output": Log._take_output,
}
_EVENTS: Mapping[str, _Reader] = {
    "user_message": Log._hear_user,
    "agent_message": Log._hear_answer,
    "agent_reasoning": Log._hear_reasoning,
    "agent_reasoning_raw_content": Log._hear_reasoning,
    "exited_review_mode": Log._hear_review,
    "item/UserMessage": Log._hear_user,
    "item/AgentMessage": Log._hear_answer,
    "item/Reasoning": Log._hear_reasoning,
    "item/CommandExecution": Log._hear_end,
    "item/FileChange": Log._hear_end,
    "item/McpToolCall": Log._hear_end,
    "item/DynamicToolCall": Log._hear_end,
    "exec_command_end": Log._hear_end,
    "patch_apply_end": Log._hear_end,
    "mcp_tool_call_end": Log._hear_end,
    "token_count": Log._take_tokens,
    "turn_aborted": Log._take_abort,
    "thread_rolled_back": Log._take_rollback,
    "thread_name_updated": Log._take_title,
    "task_started": Log._take_nothing,
}
