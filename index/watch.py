"""One thread that looks after what others are doing, and breaks off what takes too long. Knows nothing of what that is.

A timer for each would be a thread for each: of texts that take 3 ms to embed, one in five fewer a second.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable

LOOKS = 4  # in the time that something may take


class Watch:
    def __init__(self, seconds: float) -> None:
        self._begun: dict[Callable[[], None], float] = {}
        ended = threading.Event()
        threading.Thread(target=_look, args=(self._begun, seconds, ended), name="watch", daemon=True).start()
        weakref.finalize(self, ended.set)

    def begin(self, break_off: Callable[[], None]) -> None:
        self._begun[break_off] = time.monotonic()

    def end(self, break_off: Callable[[], None]) -> bool:
        """False where it was broken off."""
        return self._begun.pop(break_off, None) is not None


def _look(begun: dict[Callable[[], None], float], seconds: float, ended: threading.Event) -> None:
    while not ended.wait(seconds / LOOKS):
        for break_off, since in list(begun.items()):
            if time.monotonic() - since > seconds and begun.pop(break_off, None) is not None:
                break_off()
