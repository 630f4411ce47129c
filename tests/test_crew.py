"""Threads that share out a job hold nothing of it afterwards."""

from __future__ import annotations

import gc
import threading
import time
import weakref

from agent_journal.index.crew import Crew


class Owner:
    def __init__(self) -> None:
        self.crew = Crew(2)
        self.done: list[int] = []

    def work(self) -> None:
        self.crew.share_out(self._one, range(8))

    def _one(self, item: int) -> None:
        self.done.append(item)


def test_what_shared_out_a_job_goes_with_its_threads() -> None:
    """A model of 30 MB and its threads stayed for each journal that a process opened."""
    before = set(threading.enumerate())
    owner = Owner()
    owner.work()
    assert sorted(owner.done) == list(range(8))
    seen, started = weakref.ref(owner), set(threading.enumerate()) - before
    del owner
    until = time.monotonic() + 10
    while (seen() or any(thread.is_alive() for thread in started)) and time.monotonic() < until:
        gc.collect()
        time.sleep(0.01)
    assert len(started) == 2
    assert seen() is None
    assert not any(thread.is_alive() for thread in started)
