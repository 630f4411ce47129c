"""What --json leaves out unless --full asks for it: a program that reads an answer pays for every character.

Cut texts end in an ellipsis, and whoever cuts says so (`clipped`). Shapes stay: a cut object is an object.
"""

from __future__ import annotations

from typing import Any

from agent_journal.render.message import TELLING, spelled

# Shares of search.clip_chars. What matched is in the snippet already; the rest is there to judge the hit by.
THINKING = 4
ARGUMENTS = 4
RESULT = 6
AROUND = 6  # a message of the context
CALL_AROUND = 12  # a tool call of the context
CALLS = 3  # tool calls of one message that are listed


class Clip:
    """Cuts texts and remembers whether it had to. A limit of None cuts nothing."""

    def __init__(self, limit: int | None) -> None:
        self.limit = limit
        self.clipped = False

    def text(self, text: str, share: int = 1) -> str:
        return text if self.limit is None else self._cut(text, self.limit // share)

    def _cut(self, text: str, most: int) -> str:
        if len(text) <= most:
            return text
        self.clipped = True
        return text[: max(most, 1) - 1].rstrip() + "…"

    def some(self, items: tuple[Any, ...], most: int) -> tuple[Any, ...]:
        if self.limit is None or len(items) <= most:
            return items
        self.clipped = True
        return items[:most]

    def arguments(self, arguments: Any) -> Any:
        """The same JSON with long texts cut; of an object the most telling members, as many as fit."""
        if self.limit is None or arguments is None:
            return arguments
        most = self.limit // ARGUMENTS
        if isinstance(arguments, dict):
            return self._members(arguments, most)
        written = spelled(arguments)
        return arguments if len(written) <= most else self._cut(written, most)

    def _members(self, given: dict[str, Any], room: int) -> dict[str, Any]:
        kept: dict[str, Any] = {}
        for name in sorted(given, key=_telling):
            value = given[name]
            whole = spelled(value)
            room -= len(name)
            if len(whole) <= room:
                kept[name] = value
            elif isinstance(value, str) and room > 1:
                kept[name] = whole = self._cut(value, room)
            else:
                self.clipped = True
                continue
            room -= len(whole)
        return kept


def _telling(name: str) -> int:
    return TELLING.index(name) if name in TELLING else len(TELLING)
