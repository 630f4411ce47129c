"""Forgetting: sessions leave the journal, its word index and its vectors, and no file of it holds their words any more.

First one transaction removes them and notes what is left to do; then step by step their traces go. A run that dies in
between is ended by the next reindex or forget. The agents' own files are never touched.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

import msgspec
import numpy as np

from agent_journal.config import Config
from agent_journal.errors import JournalBusy
from agent_journal.index import last_search, lexical, restore
from agent_journal.index.forget_plan import Plan, with_sub_agents
from agent_journal.index.forgotten import KIND, Forgotten, pending, set_pending
from agent_journal.index.guard import guarded
from agent_journal.index.lock import writing
from agent_journal.index.meaning import prune
from agent_journal.index.parts import Parts
from agent_journal.index.store import CHOSEN, DICTIONARIES, Store
from agent_journal.index.sync import LEAST_SAMPLES, MOST_SAMPLES, Progress, Sync

PATIENCE_SECONDS = 10.0  # a search that takes in what changed is soon done
SHARED_BYTES = 8  # a run that the dictionary may have from a message; shorter ones are anyone's
BATCH = 500  # messages rewritten at a time


def forget(store: Store, config: Config, plan: Plan, progress: Progress | None = None) -> tuple[str, ...]:
    """Remove the sessions and every trace of them. Returns what could not be done yet, as sentences."""
    with writing(store.folder, PATIENCE_SECONDS):
        _remove(store, with_sub_agents(store, {stored.session.key for stored in plan.sessions}))
        return complete(store, config, progress)


def let_in(store: Store, names: Sequence[str]) -> list[str]:
    """Let sessions in again. Returns their keys."""
    with writing(store.folder, PATIENCE_SECONDS):
        kept_out = Forgotten(store)
        roots = [kept_out.find(name) for name in names]
        kept_out.let_in(roots)
    return roots


# --- the removal -----------------------------------------------------------------------------------------


def _remove(store: Store, rows: dict[int, str]) -> None:
    listed, db, kept_out = json.dumps(list(rows)), store.db, Forgotten(store)
    now = datetime.now(UTC)
    db.execute("PRAGMA secure_delete = ON")
    with store.transaction():
        seq = store.next_seq()
        taught = "bodies" in pending(store) or _taught_by(store, rows)
        for row, root in rows.items():
            kept_out.add(row, root, now)
        sources = db.execute(
            f"SELECT source, count(*) FROM session WHERE id IN {CHOSEN} GROUP BY source", (listed,)
        ).fetchall()
        db.execute(f"INSERT INTO tombstone SELECT ?, id FROM message WHERE session IN {CHOSEN}", (seq, listed))
        db.execute(
            f"UPDATE message SET changed_seq = ? WHERE session NOT IN {CHOSEN} "
            f"AND digest IN (SELECT digest FROM message WHERE session IN {CHOSEN})",
            (seq, listed, listed),
        )
        db.execute(f"DELETE FROM message WHERE session IN {CHOSEN}", (listed,))
        db.execute(f"DELETE FROM session WHERE id IN {CHOSEN}", (listed,))
        for source, count in sources:
            _settle(store, source, count)
        set_pending(store, [step for step in _STEPS if step != "bodies" or taught])


def _settle(store: Store, source: int, count: int) -> None:
    """What a source's row says now is what reading it again would make it say."""
    path, skipped, left = store.db.execute(
        "SELECT path, skipped, EXISTS (SELECT 1 FROM session WHERE source = source.id) FROM source WHERE id = ?",
        (source,),
    ).fetchone()
    Parts(store).forget(source)  # they are not known by their sessions' keys
    if not left and not os.path.lexists(path):
        store.db.execute("DELETE FROM source WHERE id = ?", (source,))
        return
    kinds = msgspec.json.decode(skipped, type=dict[str, int])
    kinds[KIND] = kinds.get(KIND, 0) + count
    store.db.execute("UPDATE source SET skipped = ? WHERE id = ?", (msgspec.json.encode(kinds).decode(), source))
    if not left:
        store.db.execute("UPDATE source SET status = ?, detail = '', bad = '[]' WHERE id = ?", (KIND, source))


def _taught_by(store: Store, rows: dict[int, str]) -> bool:
    """Whether the dictionary that bodies are compressed with may hold something of these sessions."""
    found = store.rows("SELECT value FROM meta WHERE key IN (?, ?)", DICTIONARIES)
    if not found or not isinstance(found[0][0], bytes):
        return False
    known = np.unique(_runs(found[0][0]))
    bodies = store.db.execute(f"SELECT body FROM message WHERE session IN {CHOSEN}", (json.dumps(list(rows)),))
    return any(np.isin(_runs(store.bodies.loaded(body)), known).any() for (body,) in bodies)


def _runs(data: bytes) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    """Every run of eight bytes, as a number."""
    if len(data) < SHARED_BYTES:
        return np.empty(0, np.uint64)
    windows = np.lib.stride_tricks.sliding_window_view(np.frombuffer(data, np.uint8), SHARED_BYTES)
    return np.ascontiguousarray(windows).view(np.uint64).ravel()


# --- its traces ------------------------------------------------------------------------------------------


def complete(store: Store, config: Config, progress: Progress | None = None) -> tuple[str, ...]:
    """End what a removal began. Returns why some of it is left. The caller holds the write lock."""
    left, reasons = pending(store), []
    for step in [step for step in _STEPS if step in left]:
        if progress:
            progress("forgetting", len(_STEPS) - len(left), len(_STEPS), "")
        if reason := _STEPS[step](store, config):
            reasons.append(reason)
            continue
        left.remove(step)
        set_pending(store, left)
    return tuple(reasons)


def _bodies(store: Store, _: Config) -> str:
    """Learn again from what is left, and write every message with that. A few messages go without a dictionary."""
    count = store.number("SELECT count(*) FROM message")
    every = max(1, count // MOST_SAMPLES)
    most = MOST_SAMPLES if count >= LEAST_SAMPLES else 0
    some = store.numbers("SELECT id FROM message WHERE id % ? = 0 LIMIT ?", (every, most))
    samples = [store.message(number).message for number in some]
    old, last = store.bodies, 0
    with store.transaction():
        store.learn(samples)
        sql = "SELECT id, body FROM message WHERE id > ? ORDER BY id LIMIT ?"
        while found := store.db.execute(sql, (last, BATCH)).fetchall():
            rewritten = [(store.bodies.stored(old.loaded(body)), number) for number, body in found]
            store.db.executemany("UPDATE message SET body = ? WHERE id = ?", rewritten)
            last = found[-1][0]
        set_pending(store, [step for step in pending(store) if step != "bodies"])
    return ""


def _words(store: Store, config: Config) -> str:
    for path in lexical.leftovers(store.folder):
        shutil.rmtree(path)
    Sync(store, config).renew()
    (store.folder / last_search.NAME).unlink(missing_ok=True)
    return ""


def _vectors(store: Store, _: Config) -> str:
    folder = store.folder / "vectors"
    if not folder.is_dir():
        return ""
    try:
        with writing(folder, 0.0):
            for each in [path for path in folder.iterdir() if path.is_dir()]:
                prune(store, each)
    except JournalBusy:
        return "another aj is embedding: vectors of what was forgotten stay until the next `aj reindex`"
    return ""


def _file(store: Store, _: Config) -> str:
    """SQLite keeps what was deleted in free pages and in its write-ahead log until both are written anew."""
    restore.clear(store.folder)
    with guarded(store.path):
        store.db.execute("VACUUM")
        busy, *_rest = store.db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    return "another aj is reading: the journal's log is emptied by the next `aj reindex`" if busy else ""


# In this order: the file is written anew when everything else has been taken out of it.
_STEPS: dict[str, Callable[[Store, Config], str]] = {
    "bodies": _bodies, "words": _words, "vectors": _vectors, "file": _file,
}  # fmt: skip
