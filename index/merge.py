"""What a re-read session adds to a stored one. Nothing that was stored is ever taken away by a shorter file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from msgspec import Struct, structs

from agent_journal.session import Block, Message, Session, Text, Thinking, ToolCall

S = TypeVar("S", bound=Struct)
_UNSAID: tuple[object, ...] = (None, False, "", (), {}, "unknown")  # as a file leaves what it does not tell


def merged_message(old: Message, new: Message) -> Message:
    """The new reading, with what only the old one had. For a file that grew, this is the new reading."""
    usage = new.usage
    if old.usage is not None and (usage is None or old.usage.output_tokens > usage.output_tokens):
        usage = old.usage
    return structs.replace(
        new,
        blocks=_merged_blocks(old.blocks, new.blocks),
        usage=usage,
        stop_reason=new.stop_reason or old.stop_reason,
        model=new.model or old.model,
    )


def grew_into(old: Message, new: Message) -> bool:
    """Whether the new reading says all that the old one said, and perhaps more."""
    if (old.uuid, old.role, old.at) != (new.uuid, new.role, new.at):
        return False
    return _merged_blocks(old.blocks, new.blocks) == new.blocks


def completed_message(old: Message, new: Message) -> Message:
    """For a reading that `grew_into` new words and results, and may tell less of the old ones than was known."""
    known: dict[object, list[Block]] = {}
    for block in old.blocks:
        known.setdefault(_name(block), []).append(block)
    blocks = [completed(found.pop(0), b) if (found := known.get(_name(b))) else b for b in new.blocks]
    told = completed(old, new)
    if told.usage and new.usage and new.usage.output_tokens > told.usage.output_tokens:
        told = structs.replace(told, usage=new.usage)
    return structs.replace(told, blocks=tuple(blocks))


def _name(block: Block) -> object:
    if isinstance(block, ToolCall):
        return "call", block.id, block.name
    return (type(block), block.text) if isinstance(block, (Text, Thinking)) else (block.kind, block.name)


def completed(old: S, new: S, names: Sequence[str] = ()) -> S:
    """The old one, with what only the new one tells. `names`: of these fields alone."""
    gaps = {n: getattr(new, n) for n in names or old.__struct_fields__ if getattr(old, n) in _UNSAID}
    return structs.replace(old, **{name: told for name, told in gaps.items() if told not in _UNSAID})


def _merged_blocks(old: Sequence[Block], new: Sequence[Block]) -> tuple[Block, ...]:
    calls = {b.id: b for b in old if isinstance(b, ToolCall)}
    blocks: list[Block] = [_merged_call(calls.get(b.id), b) if isinstance(b, ToolCall) else b for b in new]
    known = {b.id for b in new if isinstance(b, ToolCall)}
    for block in old:
        if isinstance(block, ToolCall):
            if block.id not in known:
                blocks.append(block)
        elif isinstance(block, (Text, Thinking)):
            if not _said(block, new):
                blocks.append(block)
        elif block not in new:
            blocks.append(block)
    return tuple(blocks)


def _merged_call(old: ToolCall | None, new: ToolCall) -> ToolCall:
    if old is None or old.result is None or new.result is not None:
        return new
    return structs.replace(
        new,
        result=old.result,
        success=old.success,
        result_uuid=old.result_uuid,
        result_parent_uuid=old.result_parent_uuid,
        result_at=old.result_at,
        details=new.details or old.details,
    )


def _said(block: Text | Thinking, new: Sequence[Block]) -> bool:
    """Streamed text grows: a block that starts with the old text contains it."""
    return any(
        isinstance(b, (Text, Thinking)) and type(b) is type(block) and b.text.startswith(block.text) for b in new
    )


def merged_session(old: Session, new: Session) -> Session:
    """For a file that lost messages: facts it no longer tells are kept."""
    gaps = {
        name: getattr(old, name)
        for name in Session.__struct_fields__
        if getattr(new, name) is None and getattr(old, name) is not None
    }
    return structs.replace(new, **gaps)
