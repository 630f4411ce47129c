"""What tests of a database of many sessions change in it, and what the journal then tells of it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from journals import Home

from agent_journal.health import AgentHealth


@contextmanager
def changed(path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(path)) as db, db:
        yield db


def health(home: Home, agent: str) -> AgentHealth:
    with home.journal() as journal:
        return next(a for a in journal.doctor().agents if a.agent == agent)


def read_again(home: Home) -> list[str]:
    """Since the misprint; a reading that says other words than one before is kept beside them."""
    return [key.partition(":")[2] for key, rows in home.stored().items() if rows[0][2].text.startswith("Told")]
