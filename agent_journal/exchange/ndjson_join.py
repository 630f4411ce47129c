"""Records of unified NDJSON as messages of the journal: results go to their calls, parts to their message. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, structs

from agent_journal.exchange.moments import utc
from agent_journal.exchange.ndjson_facts import OURS, RESERVED, UNKNOWN, Facts, Stamp, ToolFacts
from agent_journal.session import Block, Message, Role, Text, Thinking, ToolCall, Usage, tool_type


class _Model(Struct, frozen=True):
    name: str | None = None
    stop_reason: str | None = None
    stop_sequence: str | None = None


class _Tokens(Struct, frozen=True):
    input_tokens: Annotated[int, Meta(ge=0)] = 0
    output_tokens: Annotated[int, Meta(ge=0)] = 0
    cache_creation_tokens: Annotated[int, Meta(ge=0)] = 0
    cache_read_tokens: Annotated[int, Meta(ge=0)] = 0


class _Metadata(Struct, frozen=True):
    cwd: str | None = None
    git_branch: str | None = None
    agent_version: str | None = None
    user_type: str | None = None
    is_meta: bool | None = None
    model: _Model | None = None
    token_usage: _Tokens | None = None
    request_id: str | None = None


class _TextBlock(Struct, frozen=True, tag="text"):
    text: str


class _ThinkingBlock(Struct, frozen=True, tag="thinking"):
    text: str


class _ToolUse(Struct, frozen=True, tag="tool_use"):
    tool_id: str
    tool_name: str
    input: Any = None


class _ToolResult(Struct, frozen=True, tag="tool_result"):
    tool_id: str
    output: Any
    tool_name: str = ""
    is_error: bool = False


class _Record(Struct, frozen=True):
    role: Literal["user", "assistant", "system"]
    content: list[dict[str, Any]]
    index: int = 0
    uuid: str | None = None
    parent_uuid: str | None = None
    timestamp: datetime | None = None
    metadata: _Metadata | None = None
    extensions: dict[str, Any] | None = None


_FIELDS = frozenset(_Record.__struct_fields__)
_Said = _TextBlock | _ThinkingBlock | _ToolUse
_BLOCKS = _Said | _ToolResult
_KNOWN_BLOCKS = {"text", "thinking", "tool_use", "tool_result"}


def joined(records: Sequence[Mapping[str, Any]]) -> list[Message]:
    """Records as the journal's messages. Raises msgspec.ValidationError for what is none."""
    joining = _Joining()
    for place, record in enumerate(records):
        try:
            joining.take(record)
        except msgspec.ValidationError as error:
            raise msgspec.ValidationError(f"messages[{place}]: {error}") from error
    return [Message(blocks=tuple(blocks), **fields) for fields, blocks in joining.messages]


class _Joining:
    def __init__(self) -> None:
        self.messages: list[tuple[dict[str, Any], list[Block]]] = []
        # Calls that wait for their result: id -> (message, place among its blocks), the newest message last.
        self.waiting: dict[str, list[tuple[int, int]]] = {}
        self.told: set[tuple[int, int]] = set()  # calls whose success is known better than by is_error

    def take(self, value: Mapping[str, Any]) -> None:
        record = msgspec.convert(value, _Record)
        facts = msgspec.convert((record.extensions or {}).get(OURS, {}), Facts)
        known = [b for b in record.content if _is_known(b)]
        blocks = [msgspec.convert(b, _BLOCKS) for b in known]
        results = [b for b in blocks if isinstance(b, _ToolResult)]
        said = [b for b in blocks if not isinstance(b, _ToolResult)]
        stamp = (record.uuid, record.parent_uuid, utc(record.timestamp))
        orphans = [r for place, r in enumerate(results) if not self._answer(r, place, facts, stamp)]
        if said or facts.attachments or not results or len(known) < len(record.content):
            self._say(value, record, facts, said, stamp)
        for result in orphans:
            self._orphan(result, stamp)

    def _say(
        self, value: Mapping[str, Any], record: _Record, facts: Facts, said: Sequence[_Said], stamp: Stamp
    ) -> None:
        if not (facts.part and self.messages):
            self.messages.append((_fields(value, record, facts, stamp), []))
        number, (_, blocks) = len(self.messages) - 1, self.messages[-1]
        tools = iter(facts.tools)
        for block in _placed(said, facts, stamp):
            here = number, len(blocks)
            if isinstance(block, ToolCall):
                of_tool = next(tools, ToolFacts())
                block = _with_facts(block, of_tool)
                self.waiting.setdefault(block.id, []).append(here)
                self.told |= {here} if of_tool.success is not UNSET else set()
            blocks.append(block)

    def _answer(self, result: _ToolResult, place: int, facts: Facts, stamp: Stamp) -> bool:
        """Whether a call was waiting for it."""
        found = self._call(result, place, facts)
        if found is None:
            return False
        self.waiting[result.tool_id].remove(found)
        number, position = found
        call = self.messages[number][1][position]
        assert isinstance(call, ToolCall)
        uuid, parent, at = stamp
        self.messages[number][1][position] = structs.replace(
            call,
            result=_output(result.output),
            success=call.success if found in self.told else not result.is_error,
            result_uuid=uuid,
            result_parent_uuid=parent,
            result_at=at,
        )
        return True

    def _call(self, result: _ToolResult, place: int, facts: Facts) -> tuple[int, int] | None:
        waiting = self.waiting.get(result.tool_id, [])
        if place < len(facts.calls) and self.messages:
            blocks = self.messages[-1][1]
            calls = [(len(self.messages) - 1, at) for at, b in enumerate(blocks) if isinstance(b, ToolCall)]
            named = calls[facts.calls[place]] if 0 <= facts.calls[place] < len(calls) else None
            return named if named in waiting else None
        if not waiting:
            return None
        return next(call for call in waiting if call[0] == waiting[-1][0])

    def _orphan(self, result: _ToolResult, stamp: Stamp) -> None:
        uuid, parent, at = stamp
        call = ToolCall(
            id=result.tool_id,
            name=result.tool_name,
            type=tool_type(result.tool_name),
            result=_output(result.output),
            success=not result.is_error,
            result_uuid=uuid,
            result_parent_uuid=parent,
            result_at=at,
            uuid=uuid,
            parent_uuid=parent,
            at=at,
        )
        fields = {"role": Role.TOOL, "uuid": uuid, "parent_uuid": parent, "at": at}
        self.messages.append((fields, [call]))


def _is_known(block: Mapping[str, Any]) -> bool:
    kind = block.get("type")
    return isinstance(kind, str) and kind in _KNOWN_BLOCKS


def _placed(said: Sequence[_Said], facts: Facts, stamp: Stamp) -> Iterator[Block]:
    """The blocks of a record with what stood between them, each with its own stamp."""
    blocks = [_read(block) for block in said]
    for place, attachment in facts.attachments:
        blocks.insert(min(place, len(blocks)), attachment)
    for place, block in enumerate(blocks):
        uuid, parent, at = facts.stamps[place] if place < len(facts.stamps) else stamp
        yield structs.replace(block, uuid=uuid, parent_uuid=parent, at=utc(at))


def _read(block: _Said) -> Block:
    if isinstance(block, _TextBlock):
        return Text(block.text)
    if isinstance(block, _ThinkingBlock):
        return Thinking(block.text)
    return ToolCall(block.tool_id, block.tool_name, tool_type(block.tool_name), block.input)


def _with_facts(call: ToolCall, facts: ToolFacts) -> ToolCall:
    uuid, parent, at = facts.answered or (None, None, None)
    return structs.replace(
        call,
        type=facts.type or call.type,
        paths=facts.paths,
        agent_session=facts.agent_session,
        details=facts.details,
        arguments=call.arguments if facts.arguments is UNSET else facts.arguments,
        success=None if facts.success is UNSET else facts.success,
        result_uuid=uuid,
        result_parent_uuid=parent,
        result_at=utc(at),
    )


def _fields(value: Mapping[str, Any], record: _Record, facts: Facts, stamp: Stamp) -> dict[str, Any]:
    """A message's own fields; its blocks come apart."""
    about, usage = record.metadata or _Metadata(), facts.usage
    model = about.model or _Model()
    if usage is None and about.token_usage is not None:
        usage = Usage(*(getattr(about.token_usage, name) for name in _Tokens.__struct_fields__))
    uuid, parent, at = facts.at or stamp
    extensions = {name: kept for name, kept in (record.extensions or {}).items() if name not in RESERVED}
    unknown = {name: kept for name, kept in value.items() if name not in _FIELDS}
    if strange := [b for b in record.content if not _is_known(b)]:
        extensions["unknown_blocks"] = strange
    return {
        "role": facts.role or Role(record.role),
        "uuid": uuid,
        "parent_uuid": parent,
        "at": utc(at),
        "model": facts.model if model.name is None else model.name,
        "stop_reason": facts.stop_reason if model.stop_reason is None else model.stop_reason,
        "stop_sequence": facts.stop_sequence if model.stop_sequence is None else model.stop_sequence,
        "usage": usage,
        "api_id": facts.api_id,
        "request_id": about.request_id,
        "cwd": about.cwd,
        "git_branch": about.git_branch,
        "agent_version": about.agent_version,
        "user_type": about.user_type,
        "is_meta": about.is_meta is True,
        "is_sidechain": facts.is_sidechain,
        "is_compaction": facts.is_compaction,
        "is_error": facts.is_error,
        "extensions": extensions | ({UNKNOWN: unknown} if unknown else {}),
    }


def _output(value: Any) -> str:
    """A result is text; what other programs wrote in another shape is kept as JSON."""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
