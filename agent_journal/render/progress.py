"""One line of progress on a terminal, erased when the work is done. Silent everywhere else."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from typing import TextIO

from agent_journal.render.clean import clean_line
from agent_journal.render.width import cut, cut_start

BAR = 20
INTERVAL = 0.1  # seconds between two drawings: more only costs time
SETTLED = 1.0  # seconds before a rate is worth an estimate


def shows_progress(stream: TextIO) -> bool:
    return stream.isatty() and os.environ.get("TERM") != "dumb"


class Progress:
    """Called with stage, done, total and a detail; use as a context manager, so that the line goes away."""

    def __init__(
        self,
        stream: TextIO | None = None,
        *,
        width: int = 80,
        clock: Callable[[], float] = time.monotonic,
        enabled: bool | None = None,
    ) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._enabled = shows_progress(self._stream) if enabled is None else enabled
        self._width = width
        self._clock = clock
        self._stage = ""
        self._began = 0.0
        self._drawn: float | None = None

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        self.clear()

    def __call__(self, stage: str, done: int, total: int, detail: str = "") -> None:
        if not self._enabled:
            return
        now = self._clock()
        if stage != self._stage:
            self._stage, self._began = stage, now
        elif self._drawn is not None and now - self._drawn < INTERVAL:
            return
        self._drawn = now
        line = progress_line(stage, done, total, detail, now - self._began, self._width - 1)
        self._stream.write(f"\r{cut(line, self._width - 1)}\x1b[K")
        self._stream.flush()

    def clear(self) -> None:
        if self._drawn is not None:
            self._stream.write("\r\x1b[K")
            self._stream.flush()
            self._drawn = None


def progress_line(stage: str, done: int, total: int, detail: str, seconds: float, width: int = 80) -> str:
    parts = [clean_line(stage)]
    if total > 0:
        filled = BAR * min(done, total) // total
        parts.append(f"[{'#' * filled}{'.' * (BAR - filled)}] {done}/{total}")
    elif done:
        parts.append(str(done))
    if seconds >= SETTLED and done > 0:
        rate = done / seconds
        parts.append(f"{rate:.0f}/s" if rate >= 10 else f"{rate:.1f}/s")
        if total > done:
            parts.append(f"{duration((total - done) / rate)} left")
    line = "  ".join(parts)
    return f"{line}  {cut_start(clean_line(detail), max(width - len(line) - 2, 1))}" if detail else line


def duration(seconds: float) -> str:
    """`7s`, `3m 20s`, `1h 05m`."""
    whole = max(round(seconds), 0)
    if whole < 60:
        return f"{whole}s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes}m {rest:02d}s"
    return f"{minutes // 60}h {minutes % 60:02d}m"
