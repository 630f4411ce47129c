"""Columns, not characters: measuring, cutting and wrapping cleaned text as a terminal shows it."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator, Sequence

_NO_COLUMNS = frozenset({"Mn", "Me", "Cf"})
_TWO_COLUMNS = frozenset({"W", "F"})
TAB = 4


def columns(text: str) -> int:
    if text.isascii():
        return len(text)
    return sum(map(_columns_of, text))


def _columns_of(char: str) -> int:
    if char.isascii():
        return 1
    if unicodedata.category(char) in _NO_COLUMNS:
        return 0
    return 2 if unicodedata.east_asian_width(char) in _TWO_COLUMNS else 1


def cut(text: str, width: int) -> str:
    """At most `width` columns; what was cut leaves an ellipsis."""
    if columns(text) <= width:
        return text
    return text[: _fitting(text, 0, max(width - 1, 0))] + "…"


def cut_start(text: str, width: int) -> str:
    """As `cut`, but keeps the end: of a path, the name."""
    if columns(text) <= width:
        return text
    backwards = text[::-1]
    return "…" + backwards[: _fitting(backwards, 0, max(width - 1, 0))][::-1]


def _fitting(text: str, start: int, width: int) -> int:
    """Where the characters from `start` on stop fitting into `width` columns."""
    used = 0
    for place in range(start, len(text)):
        used += _columns_of(text[place])
        if used > width:
            return place
    return len(text)


def wrap_spans(text: str, width: int) -> Iterator[tuple[int, int]]:
    """Ranges of one long line that each fit, broken at spaces where there are any."""
    width = max(width, 2)
    start = 0
    while start < len(text):
        end = _fitting(text, start, width)
        if end < len(text) and text[end] != " ":
            space = text.rfind(" ", start + 1, end)
            # Scripts without spaces, and words longer than a line, break where the line is full.
            end = space if space > start else max(end, start + 1)
        yield start, end
        start = end
        while start < len(text) and text[start] == " ":
            start += 1


def wrap(text: str, width: int) -> list[str]:
    """Lines of a text of several lines; indentation stays on the first piece of each."""
    lines: list[str] = []
    for line in text.expandtabs(TAB).split("\n"):
        line = line.rstrip()
        pieces = [line[a:b].rstrip() for a, b in wrap_spans(line, width)]
        lines += pieces or [""]
    return lines


def flowed(parts: Iterable[str], width: int, between: str = " · ") -> Iterator[str]:
    """Parts joined into lines that fit. A part is never broken."""
    line = ""
    for part in parts:
        if line and columns(line) + columns(between) + columns(part) > width:
            yield line.rstrip()
            line = part
        else:
            line = f"{line}{between}{part}" if line else part
    if line:
        yield line


def sentence(text: str, width: int) -> Iterator[str]:
    """One line of text flowed at its spaces, so that a path stays whole."""
    return flowed(text.split(" "), width, " ")


def listed(facts: Sequence[str], width: int, indent: str) -> Iterator[str]:
    """Facts with commas between them, every line indented."""
    commas = [f"{fact}," for fact in facts[:-1]] + list(facts[-1:])
    return (indent + line for line in flowed(commas, width - len(indent), " "))
