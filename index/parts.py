"""What the journal knows of the sessions that share one source: how each was read, and by which mark it is known.

The caller holds the write lock and the transaction.
"""

from __future__ import annotations

from collections import Counter

import msgspec
from msgspec import Struct

from agent_journal.connectors.base import Reading, readable
from agent_journal.index.store import Store


class Outcome(Struct, frozen=True):
    """How a source was read, or a part of one."""

    status: str  # as in the journal's table of sources
    failure: str  # "" unless it could not be read
    kept_out: int  # sessions


class Parts:
    def __init__(self, store: Store) -> None:
        self.store = store
        self.db = store.db

    def marks(self, source: int) -> dict[str, str]:
        found = self.db.execute("SELECT name, mark FROM part WHERE source = ?", (source,))
        return {str(name): str(mark) for name, mark in found}

    def put(self, source: int, name: str, mark: str, outcome: Outcome, reading: Reading) -> None:
        bad = [(line, readable(reason)) for line, reason in reading.bad_lines]
        self.db.execute(
            "INSERT OR REPLACE INTO part VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                source, name, mark, outcome.status, readable(outcome.failure), outcome.kept_out, reading.lines,
                reading.bad_line_count, msgspec.json.encode(bad).decode(),
                msgspec.json.encode(reading.skipped).decode(),
            ),
        )  # fmt: skip

    def remove(self, source: int, names: set[str]) -> None:
        """Of sessions that are no longer in the source. What is stored of them stays."""
        self.db.executemany("DELETE FROM part WHERE source = ? AND name = ?", [(source, name) for name in names])

    def forget(self, source: int) -> None:
        """All of the source is to be read again, when it is read."""
        self.db.execute("DELETE FROM part WHERE source = ?", (source,))

    def sum(self, source: int, order: tuple[str, ...]) -> tuple[Outcome, Reading]:
        """What reading all of it at once would have told; its status is the first of the order that a part has."""
        reading, of_it = Reading(), (source,)
        reading.lines, reading.bad_line_count, kept_out = self.db.execute(
            "SELECT CAST(total(lines) AS INTEGER), CAST(total(bad_lines) AS INTEGER), CAST(total(kept_out) AS INTEGER) "
            "FROM part WHERE source = ?",
            of_it,
        ).fetchone()
        skipped = self.db.execute(
            "SELECT kind.key, CAST(total(kind.value) AS INTEGER) FROM part, json_each(part.skipped) kind "
            "WHERE source = ? GROUP BY 1",
            of_it,
        )
        reading.skipped = Counter(dict(skipped))
        bad = self.db.execute(
            "SELECT name, bad FROM part WHERE source = ? AND bad_lines ORDER BY name LIMIT ?",
            (source, Reading.MAX_NAMED),
        )
        for name, lines in bad:
            told = msgspec.json.decode(lines, type=list[tuple[int, str]])
            reading.bad_lines += [(line, f"{name}: {reason}" if line else reason) for line, reason in told]
        del reading.bad_lines[Reading.MAX_NAMED :]
        there = {status for (status,) in self.db.execute("SELECT DISTINCT status FROM part WHERE source = ?", of_it)}
        failure = self.db.execute("SELECT detail FROM part WHERE source = ? AND detail != '' LIMIT 1", of_it).fetchone()
        status = next((status for status in order if status in there), "empty")
        return Outcome(status, failure[0] if failure else "", kept_out), reading
