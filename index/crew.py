"""Threads that share out a job, and let go of it when they are interrupted. Knows nothing of what they do."""

from __future__ import annotations

import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from typing import NamedTuple

LAST_ITEM_SECONDS, LOOK_SECONDS = 2.0, 0.002  # an interruption waits for what is under way: 512 tokens take 0.1 s


class _Job(NamedTuple):
    do: Callable[[int], None]
    left: deque[int]
    ended: list[BaseException | None]  # of each thread for which nothing is left: what went wrong
    over: SimpleQueue[None]  # tells of each


class Crew:
    """No pool of futures, and none that is started for each job: an interruption that meets the waiting thread inside
    a lock of theirs leaves it locked, and both sides then wait for ever. The queues here are written in C, and whole
    after any interruption."""

    def __init__(self, threads: int) -> None:
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._threads = threads
        for _ in range(threads):
            threading.Thread(target=_serve, args=(self._jobs,), name="embed", daemon=True).start()
        weakref.finalize(self, _dismiss, self._jobs, threads)

    def share_out(self, do: Callable[[int], None], items: Sequence[int]) -> None:
        job = _Job(do, deque(items), [], SimpleQueue())
        asked = 0
        try:
            while asked < self._threads:
                self._jobs.put(job)
                asked += 1
            while len(job.ended) < asked:
                job.over.get()
        except BaseException:
            job.left.clear()
            until = time.monotonic() + LAST_ITEM_SECONDS
            while len(job.ended) < asked and time.monotonic() < until:  # each ends with the item it is at
                time.sleep(LOOK_SECONDS)
            raise
        for failure in filter(None, job.ended):
            raise failure


def _serve(jobs: SimpleQueue[_Job | None]) -> None:
    while job := jobs.get():
        job.ended.append(_done(job))
        job.over.put(None)
        del job  # it holds whoever shared it out, who would never go while this waits for the next


def _done(job: _Job) -> BaseException | None:
    try:
        while True:
            try:
                item = job.left.popleft()
            except IndexError:
                return None
            job.do(item)
    except BaseException as error:  # noqa: BLE001 - raised by share_out(), in the thread that waits
        job.left.clear()
        return error


def _dismiss(jobs: SimpleQueue[_Job | None], threads: int) -> None:
    for _ in range(threads):
        jobs.put(None)
