"""One pass over the store that feeds the statistics: every body is decoded once, and none is kept."""

from __future__ import annotations

from collections.abc import Container, Iterable

from agent_journal.index.store import Store
from agent_journal.statistics import Counting, Statistics

# Of copies of one message, the first session's is the one that others copied.
ORIGINALS_FIRST = "parent_key IS NOT NULL, ended_us, key"


def tallied(store: Store, sessions: Iterable[int] | None = None, wanted: Container[int] | None = None) -> Statistics:
    """Of all sessions or some, all messages or those with a wanted digest."""
    with store.snapshot():
        counting = Counting(store.repeated_digests())
        for row in store.ordered_sessions(ORIGINALS_FIRST, sessions):
            session, derived = store.facts(row)
            visit, taken = counting.visit(session, derived), 0
            for digest, message in store.stream(row, wanted):
                visit.take(digest, message)
                taken += 1
            if taken:
                visit.end(whole=taken == derived.message_count)
        return counting.statistics()
