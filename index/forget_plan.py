"""Which sessions are to be forgotten, and what a user should know before they are. Changes nothing."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection
from datetime import datetime

from msgspec import Struct

from agent_journal.index import codec
from agent_journal.index.codec import path_text
from agent_journal.index.guard import guarded
from agent_journal.index.store import CHOSEN, Store
from agent_journal.session import StoredSession


class Plan(Struct, frozen=True):
    """What is to be forgotten."""

    sessions: tuple[StoredSession, ...]  # newest first; with their sub-agents
    messages: int
    also_in: tuple[tuple[str, int], ...]  # sessions that stay, and how many of these messages they hold too
    files: tuple[str, ...]  # of the agents, that still hold them


def chosen(
    store: Store,
    named: Collection[str] | None = None,
    fits: Callable[[str], bool] | None = None,
    before: datetime | None = None,
) -> Plan:
    """The sessions among some keys (None: all), whose project fits, and that ended before a moment."""
    keys = set()
    until = codec.microseconds(before)
    for key, derived, ended in store.rows("SELECT key, derived, ended_us FROM session"):
        if named is not None and key not in named:
            continue
        if until is not None and (ended is None or int(str(ended)) >= until):
            continue
        with guarded(store.path):
            if fits is None or (isinstance(derived, bytes) and fits(codec.derived_of(derived).project)):
                keys.add(str(key))
    return _plan(store, with_sub_agents(store, keys))


def with_sub_agents(store: Store, keys: Collection[str]) -> dict[int, str]:
    """Row of each of these sessions and of their sub-agents -> key of the topmost one that it goes with."""
    above: dict[str, str] = {}
    for key, parent in store.rows("SELECT key, parent_key FROM session WHERE is_agent AND parent_key IS NOT NULL"):
        above[str(key)] = str(parent)
    found = {}
    for row, key in store.rows("SELECT id, key FROM session"):
        line = [str(key)]
        while (parent := above.get(line[-1])) and parent not in line:
            line.append(parent)
        if tops := [each for each in line if each in keys]:
            found[int(str(row))] = tops[-1]
    return found


def _plan(store: Store, rows: dict[int, str]) -> Plan:
    listed = json.dumps(list(rows))
    _, sessions = store.newest_sessions(len(rows), among=rows)
    others = store.rows(
        f"SELECT s.key, count(*) FROM message m JOIN session s ON s.id = m.session WHERE m.session NOT IN {CHOSEN} "
        f"AND m.digest IN (SELECT digest FROM message WHERE session IN {CHOSEN}) GROUP BY s.key ORDER BY 2 DESC, 1",
        (listed, listed),
    )
    sources = store.rows(
        f"SELECT DISTINCT path FROM source WHERE id IN (SELECT source FROM session WHERE id IN {CHOSEN})", (listed,)
    )
    paths = sorted(path_text(row[0]) for row in sources)
    return Plan(
        tuple(sessions),
        store.number(f"SELECT count(*) FROM message WHERE session IN {CHOSEN}", (listed,)),
        tuple((str(key), int(str(number))) for key, number in others),
        tuple(path for path in paths if os.path.lexists(path)),
    )
