"""How wide, how coloured and at what moment a page is drawn. Decided once a command, from the terminal."""

from __future__ import annotations

import os
import shutil
from datetime import UTC, datetime
from typing import TextIO

from msgspec import Struct, field

from agent_journal.dates import in_local_time

MIN_WIDTH = 40  # narrower terminals wrap by themselves
MAX_WIDTH = 120  # longer lines are hard to read

_CODES = {"bold": "1", "dim": "2", "agent": "36", "match": "1;33", "title": "1", "good": "32", "bad": "31"}


class Look(Struct, frozen=True):
    width: int = 80
    colour: bool = False
    now: datetime = field(default_factory=lambda: datetime.now(UTC))

    def paint(self, text: str, style: str) -> str:
        return f"\x1b[{_CODES[style]}m{text}\x1b[0m" if self.colour and text and style else text


def coloured(stream: TextIO) -> bool:
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def look_at(stream: TextIO) -> Look:
    width = shutil.get_terminal_size((80, 24)).columns
    return Look(width=max(MIN_WIDTH, min(width, MAX_WIDTH)), colour=coloured(stream))


_AGO = ((60, 60, "m"), (3600, 24, "h"), (86_400, 30, "d"))  # unit in seconds, how many of it, its letter


def local(at: datetime | None) -> str:
    return in_local_time(at).strftime("%Y-%m-%d %H:%M") if at else ""


def ago(at: datetime | None, now: datetime) -> str:
    """`3d ago`; nothing for what is long past, unknown or in the future."""
    if at is None:
        return ""
    seconds = (now - at).total_seconds()
    if seconds < 0:
        return ""
    if seconds < 60:
        return "just now"
    return next((f"{int(seconds // unit)}{letter} ago" for unit, most, letter in _AGO if seconds < unit * most), "")


def counted(number: int, noun: str, plural: str = "") -> str:
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def sized(size: int) -> str:
    if size < 1000:
        return f"{size} B"
    power = min(len(str(size)) - 1, 11) // 3
    return f"{size / 1000**power:.1f} {('B', 'kB', 'MB', 'GB')[power]}"
