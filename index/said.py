"""Whether a stored session says already what an export of it says, however either is cut into messages.

Other programs write a message for each record, and so does NDJSON 1.0, which has no thinking either; a redacted export
has placeholders where secrets stood. Without an id of its own such a message would pass for a new one.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator

import msgspec

from agent_journal.session import Message, Role, Text, Thinking, ToolCall

_PLACEHOLDER = re.compile(r"REDACTED-[a-z]+(?:-[a-z]+)*-\d+")  # as redaction.py numbers them
Unit = tuple[str, str]  # what kind of thing was said, and its words


class Said:
    """Each thing as often as it was said: what is said once more is new."""

    def __init__(self, messages: Iterable[Message]) -> None:
        self._units: Counter[Unit] = Counter()
        self._records: set[object] = set()
        for message in messages:
            self._units.update(_units(message))
            self._records.update(_records(message))

    def take(self, message: Message) -> None:
        """This is one of the stored messages."""
        self._units.subtract(_units(message))

    def holds(self, message: Message) -> bool:
        """And takes what it holds."""
        units = Counter(_units(message))
        if not units:
            return (message.uuid or message.at) in self._records
        stored = [(self._stored(unit), count) for unit, count in units.items()]
        if any(unit is None or self._units[unit] < count for unit, count in stored):
            return False
        self.take(message)
        return True

    def _stored(self, unit: Unit) -> Unit | None:
        """The unit as the session has it: a placeholder stands for anything."""
        if self._units[unit] > 0:
            return unit
        kind, words = unit
        parts = _PLACEHOLDER.split(words)
        if len(parts) == 1:
            return None
        return next((u for u, count in self._units.items() if count > 0 and u[0] == kind and _fits(parts, u[1])), None)


def _fits(parts: list[str], words: str) -> bool:
    """Whether the words have these parts in their order, with something between any two."""
    first, *between, last = parts
    if not words.startswith(first):
        return False
    end = len(first)
    for part in between:
        place = words.find(part, end + 1)
        if place < 0:
            return False
        end = place + len(part)
    return words.endswith(last) and len(words) - len(last) > end


def _units(message: Message) -> Iterator[Unit]:
    for block in message.blocks:
        if isinstance(block, Thinking):
            yield "thinking", block.text
        elif isinstance(block, Text):
            yield "user" if message.role is Role.USER else "agent", block.text
        elif isinstance(block, ToolCall):
            yield from _units_of(block)
        else:
            yield block.kind, block.name


def _units_of(call: ToolCall) -> Iterator[Unit]:
    given = call.arguments if isinstance(call.arguments, dict) else {"input": call.arguments}
    known = call.id or f"{call.name} {msgspec.json.encode(given, order='sorted').decode()}"
    yield "call", known
    if call.result is not None:
        yield "result", f"{known} {call.result}"


def _records(message: Message) -> Iterator[object]:
    """By these a message is known of which an export left nothing."""
    yield from (message.uuid, message.at)
    for block in message.blocks:
        yield from (block.uuid, block.at)
        if isinstance(block, ToolCall):
            yield from (block.result_uuid, block.result_at)
