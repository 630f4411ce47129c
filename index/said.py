"""Whether a stored session says already what an export of it says, however either is cut into messages.

Other programs write a message for each record, and so does NDJSON 1.0, which has no thinking either; a redacted export
has placeholders where secrets stood. Without an id of its own such a message would pass for a new one.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cached_property

import msgspec

from agent_journal.session import Message, Role, Text, Thinking, ToolCall

_MARK = "REDACTED-"
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
        self._units.subtract(self._stored(unit) or unit for unit in _units(message))

    def holds(self, message: Message) -> bool:
        """And takes what it holds."""
        units = list(_units(message))
        if not units:
            return (message.uuid or message.at) in self._records
        taken: list[Unit] = []
        for unit in units:
            stored = self._stored(unit)
            if stored is None:
                self._units.update(taken)
                return False
            self._units[stored] -= 1
            taken.append(stored)
        return True

    def _stored(self, unit: Unit) -> Unit | None:
        """The unit as the session has it, which may be redacted where this one is not, and the other way round."""
        if self._units[unit] > 0:
            return unit
        kind, words = unit
        alike = (kind, _MARK.join(_parts(words)))
        if found := next((u for u in self._alike.get(alike, ()) if self._units[u] > 0), None):
            return found
        parts = _parts(words)
        known = self._alike if len(parts) > 1 else self._redacted
        near = (a for a in known if a[0] == kind and (_fits(parts, a[1]) or _fits(a[1].split(_MARK), words)))
        return next((u for a in near for u in self._alike[a] if self._units[u] > 0), None)

    @cached_property
    def _alike(self) -> dict[Unit, list[Unit]]:
        """The units by what they are without a placeholder's number and kind."""
        alike: dict[Unit, list[Unit]] = {}
        for unit in self._units:
            alike.setdefault((unit[0], _MARK.join(_parts(unit[1]))), []).append(unit)
        return alike

    @cached_property
    def _redacted(self) -> list[Unit]:
        return [alike for alike in self._alike if _MARK in alike[1]]


def _parts(words: str) -> list[str]:
    """What stands around placeholders. Each stands for anything, also for another: its number is that of one export,
    and its kind that by which this export met the secret first."""
    return _PLACEHOLDER.split(words) if _MARK in words else [words]


def _fits(parts: list[str], words: str) -> bool:
    """Whether the words have these parts in their order, with something between any two."""
    if len(parts) == 1:
        return False
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
