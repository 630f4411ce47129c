"""A message of the journal as records of unified NDJSON. Pure; ndjson_join.py is the way back.

The journal joins what agents write apart: records that were streamed, results that came later. Unified NDJSON has one
message a record, with results as messages of the user, so a message of ours is split here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from msgspec import UNSET, structs, to_builtins

from agent_journal.exchange.ndjson_facts import OURS, UNKNOWN, Facts, Stamp, ToolFacts, with_unknown
from agent_journal.exchange.ndjson_join import joined
from agent_journal.session import Attachment, Block, Message, Role, Text, Thinking, ToolCall, Usage, tool_type

ROLES = {Role.USER: "user", Role.ASSISTANT: "assistant", Role.SYSTEM: "system", Role.TOOL: "user"}
_PLAIN_USAGE = ("input_tokens", "output_tokens", "cache_creation_tokens", "cache_read_tokens")


def split(message: Message) -> list[dict[str, Any]]:
    """The message as records, without their index."""
    records = _split(message, exactly=False)
    return records if joined(records) == [message] else _split(message, exactly=True)


def _split(message: Message, exactly: bool) -> list[dict[str, Any]]:
    orphan = message.role is Role.TOOL and not exactly and all(_is_orphan(b) for b in message.blocks)
    records = [] if orphan and message.blocks else [_record(message, g, exactly) for g in _groups(message)]
    for record in records[1:]:
        record["extensions"][OURS]["part"] = True
    if records:
        _head(records[0], message, exactly)
    records += _results(message, exactly)
    if message.extensions:
        records[0]["extensions"] = {**message.extensions, **records[0].get("extensions", {})}
    return [_tidy(record) for record in records]


def _is_orphan(block: Block) -> bool:
    """The answer to a call that was never seen."""
    return isinstance(block, ToolCall) and block.arguments is None and block.result is not None


def _groups(message: Message) -> list[list[Block]]:
    """Blocks by the record they came from."""
    groups: list[list[Block]] = [[]]
    current = message.uuid
    for block in message.blocks:
        uuid = block.uuid or message.uuid
        if uuid != current and groups[-1]:
            groups.append([])
        current = uuid
        groups[-1].append(block)
    return groups


def _stamp(item: Message | Block) -> Stamp:
    return item.uuid, item.parent_uuid, item.at


def _record(message: Message, blocks: Sequence[Block], exactly: bool) -> dict[str, Any]:
    own = next((_stamp(b) for b in blocks if b.uuid), _stamp(message))
    calls = [b for b in blocks if isinstance(b, ToolCall)]
    facts = Facts(
        stamps=tuple(_stamp(b) for b in blocks) if exactly or any(_stamp(b) != own for b in blocks) else (),
        tools=tuple(_tool_facts(call) for call in calls),
        attachments=tuple(
            (place, structs.replace(b, uuid=None, parent_uuid=None, at=None))
            for place, b in enumerate(blocks)
            if isinstance(b, Attachment)
        ),
    )
    if not any(to_builtins(tool) for tool in facts.tools):
        facts = structs.replace(facts, tools=())
    uuid, parent, at = own
    return {
        "uuid": uuid,
        "parent_uuid": parent,
        "role": ROLES[message.role],
        "timestamp": at,
        "content": [_WRITTEN[type(b)](b) for b in blocks if not isinstance(b, Attachment)],
        "metadata": _place(message),
        "extensions": {OURS: to_builtins(facts, builtin_types=(datetime,))},
    }


def _place(message: Message) -> dict[str, Any]:
    """What each record of a message repeats."""
    given = {
        "cwd": message.cwd,
        "git_branch": message.git_branch,
        "agent_version": message.agent_version,
        "user_type": message.user_type,
        "is_meta": message.is_meta or None,
    }
    found: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    if message.role is Role.ASSISTANT and any(
        v is not None for v in (message.model, message.stop_reason, message.stop_sequence)
    ):
        found["model"] = {
            "name": message.model,
            "stop_reason": message.stop_reason,
            "stop_sequence": message.stop_sequence,
        }
    return found


def _head(record: dict[str, Any], message: Message, exactly: bool) -> None:
    """What stands on a message's first record alone, so that tokens are counted once."""
    answer = message.role is Role.ASSISTANT
    if answer and message.usage is not None:
        record["metadata"]["token_usage"] = {name: max(0, getattr(message.usage, name)) for name in _PLAIN_USAGE}
    if message.request_id is not None:
        record["metadata"]["request_id"] = message.request_id
    plain = Usage(*(max(0, getattr(message.usage or Usage(), name)) for name in _PLAIN_USAGE))
    own = (record["uuid"], record["parent_uuid"], record["timestamp"])
    facts = Facts(
        role=Role.TOOL if message.role is Role.TOOL else None,
        at=_stamp(message) if exactly or own != _stamp(message) else None,
        model=None if answer else message.model,
        stop_reason=None if answer else message.stop_reason,
        stop_sequence=None if answer else message.stop_sequence,
        usage=None if answer and message.usage == plain else message.usage,
        api_id=message.api_id,
        is_sidechain=message.is_sidechain,
        is_compaction=message.is_compaction,
        is_error=message.is_error,
    )
    record["extensions"][OURS] |= to_builtins(facts, builtin_types=(datetime,))


def _tool_facts(call: ToolCall) -> ToolFacts:
    return ToolFacts(
        type=None if call.type == tool_type(call.name) else call.type,
        paths=call.paths,
        agent_session=call.agent_session,
        details=call.details,
        arguments=UNSET if isinstance(call.arguments, dict) else call.arguments,
        success=UNSET if call.success is _success(call.result, call.success is False) else call.success,
        answered=_answered(call) if call.result is None and any(_answered(call)) else None,
    )


def _answered(call: ToolCall) -> Stamp:
    return call.result_uuid, call.result_parent_uuid, call.result_at


def _success(result: str | None, is_error: bool) -> bool | None:
    """What a result's is_error says."""
    return None if result is None else not is_error


def _results(message: Message, exactly: bool) -> list[dict[str, Any]]:
    """Results as messages of the user; those of one record together."""
    calls = message.tool_calls
    records: list[dict[str, Any]] = []
    last: Stamp | None = None
    for place, call in enumerate(calls):
        if call.result is None:
            continue
        stamp = _answered(call)
        if call.result_uuid is None or stamp != last:
            records.append(_result_record(stamp))
        last = stamp
        records[-1]["content"].append(
            {
                "type": "tool_result",
                "tool_id": call.id,
                "tool_name": call.name,
                "output": call.result,
                "is_error": call.success is False,
            }
        )
        if exactly:
            records[-1]["extensions"][OURS].setdefault("calls", []).append(place)
    return records


def _result_record(stamp: Stamp) -> dict[str, Any]:
    uuid, parent, at = stamp
    return {
        "uuid": uuid,
        "parent_uuid": parent,
        "role": "user",
        "timestamp": at,
        "content": [],
        "extensions": {OURS: {}},
    }


def _text(block: Text) -> dict[str, Any]:
    return {"type": "text", "text": block.text}


def _thinking(block: Thinking) -> dict[str, Any]:
    return {"type": "thinking", "text": block.text}


def _tool_use(block: ToolCall) -> dict[str, Any]:
    given = block.arguments
    if not isinstance(given, dict):
        given = {} if given is None else {"input": given}
    return {"type": "tool_use", "tool_id": block.id, "tool_name": block.name, "input": given}


_WRITTEN: Mapping[type, Any] = {Text: _text, Thinking: _thinking, ToolCall: _tool_use}


def _tidy(record: dict[str, Any]) -> dict[str, Any]:
    """Without what is empty; a parent is null where the record has an id but no parent, as in the format's examples."""
    extensions = {name: value for name, value in record["extensions"].items() if value or name != OURS}
    given = {UNKNOWN: extensions.pop(UNKNOWN, {})}
    tidy = {
        name: value
        for name, value in {**record, "extensions": extensions}.items()
        if value not in (None, {}) or (name == "parent_uuid" and record["uuid"] is not None)
    }
    return with_unknown(tidy, given)
