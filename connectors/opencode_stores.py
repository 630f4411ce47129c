"""OpenCode's three stores, read as turns: a message and its parts; what those mean is in opencode_records.

A database may be larger than memory: its sessions are read one by one. No path out of a log is followed.
"""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Callable, Generator, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from agent_journal.connectors import database
from agent_journal.connectors.base import (
    Discovery,
    Part,
    Reading,
    Source,
    entries,
    is_plain_id,
    items,
    mapping,
    mark_of,
    readable,
    string,
)
from agent_journal.connectors.blocks import kind_name
from agent_journal.connectors.jsonl import decoded, json_object, parsed, sidecar, too_long
from agent_journal.connectors.opencode import TREE, messages_of
from agent_journal.connectors.opencode_records import Turn, told
from agent_journal.errors import UnreadableSource

_SESSION = (
    "id", "project_id", "parent_id", "directory", "title", "version", "slug", "revert", "time_created", "time_updated",
    "time_archived",
)  # fmt: skip
_HELD = ("message", "part", "session_message")  # the tables that hold what was said


def read(source: Source) -> Reading:
    """A tree of files, or an export."""
    reading = Reading()
    info, turns = (_from_tree if source.kind == TREE else _from_export)(source.path, reading)
    if transcript := told(info, turns, source, reading.skipped):
        reading.transcripts.append(transcript)
    return reading


# Where sessions stand: each reader gives a session's facts, in the words of its files, and its turns.


def sessions(source: Source) -> Generator[Part, None, None]:
    with database.reading(source.path) as db:
        if "id" not in database.columns(db, "session"):
            raise UnreadableSource(f"{readable(str(source.path))}: no database of OpenCode")
        parents = {row.get("id"): row.get("parent_id") for row in database.rows(db, "session", ("id", "parent_id"))}
        worktrees = {row.get("id"): row.get("worktree") for row in database.rows(db, "project", ("id", "worktree"))}
        held = [_held(db, table) for table in _HELD]
        for row in database.rows(db, "session", _SESSION, "ORDER BY id"):
            parent, project = row.get("parent_id"), row.get("project_id")
            info = row | {"grandparentID": parents.get(parent), "worktree": worktrees.get(project)}
            mark = mark_of(*info.values(), *(table.get(row.get("id")) for table in held))
            size, read = partial(_size, db, row.get("id")), partial(_session, db, info, source)
            yield Part(str(row.get("id")), mark, size, read)


def _held(db: sqlite3.Connection, table: str) -> dict[Any, tuple[int, ...]]:
    """Of each session, how many rows it has, and when the last of them was written: a part is written again when its
    tool ends. A version that did not note that has bytes to be counted, which takes far longer."""
    columns = database.columns(db, table)
    times = [name for name in ("time_created", "time_updated") if name in columns]
    if not {"session_id", "data"} <= columns:
        return {}
    told = [f"max({name})" for name in times]
    if "time_updated" not in columns:
        told.append(f"sum({database.length('data')})")
    found = db.execute(f'SELECT session_id, count(*), {", ".join(told)} FROM "{table}" GROUP BY session_id')
    return {session: tuple(facts) for session, *facts in found}


def _size(db: database.Database, session: Any) -> int:
    with db.one_session():
        found = [
            db.execute(f'SELECT total({database.length("data")}) FROM "{table}" WHERE session_id = ?', (session,))
            for table in _HELD
            if {"session_id", "data"} <= database.columns(db, table)
        ]
        return sum(int(size) for rows in found for (size,) in rows)


def _session(db: database.Database, info: dict[str, Any], source: Source) -> Reading:
    reading, session = Reading(), info.get("id")
    with db.one_session():
        turns = _turns(db, session, reading) or _next_turns(db, session, reading)
    facts = info | {
        "parentID": info.get("parent_id"),
        "time": {"archived": info.get("time_archived")},
        "revert": parsed(info.get("revert")),
    }
    if transcript := told(facts, turns, source, reading.skipped):
        reading.transcripts.append(transcript)
    return reading


def _turns(db: sqlite3.Connection, session: Any, reading: Reading) -> list[Turn]:
    parts: dict[Any, list[dict[str, Any]]] = defaultdict(list)
    where = "WHERE session_id = ? ORDER BY"
    for row in database.rows(db, "part", ("id", "message_id", "data"), f"{where} message_id, id", session):
        if (part := _column(row, reading)) is not None:
            parts[row.get("message_id")].append(part)
    found = database.rows(db, "message", ("id", "time_created", "data"), f"{where} time_created, id", session)
    return [(said, parts[row.get("id")]) for row in found if (said := _column(row, reading)) is not None]


def _next_turns(db: sqlite3.Connection, session: Any, reading: Reading) -> list[Turn]:
    """The table that will replace both: its records are told in the words of today's."""
    wanted = ("id", "type", "time_created", "data")
    found = database.rows(db, "session_message", wanted, "WHERE session_id = ? ORDER BY seq", session)
    turns = []
    for row in found:
        kind = kind_name(row.get("type"))
        said, speak = _column(row, reading), _NEXT.get(kind)
        if said is None:
            continue
        if speak is None:
            reading.skipped[f"message/{kind}"] += 1
            continue
        role, parts = speak(said)
        turns.append((said | {"role": role, "summary": kind == "compaction"}, parts))
    return turns


def _column(row: dict[str, Any], reading: Reading) -> dict[str, Any] | None:
    """The record in a row's data column, with the id that it leaves to the row."""
    reading.lines += 1
    data = row.get("data")
    try:
        record = decoded(data) if isinstance(data, (str, bytes)) else data
        if isinstance(record, dict):
            own = {"id": row.get("id")}
            return record | own if "time" in record else record | own | {"time": {"created": row.get("time_created")}}
        long = f"empty, or {too_long()}"
        reading.bad_line(reading.lines, long if data is None else f"a {type(record).__name__}, not an object")
    except ValueError as error:
        reading.bad_line(reading.lines, str(error))
    return None


def _from_tree(path: Path, reading: Reading) -> tuple[dict[str, Any], list[Turn]]:
    info = json_object(path)
    turns = []
    for file, message in _files(messages_of(path), reading):
        turns.append((message, [part for _, part in _files(_parts_of(path, file), reading)]))
    parent = string(info, "parentID")
    if is_plain_id(parent):
        info["grandparentID"] = sidecar(path.with_name(f"{parent}.json"), reading).get("parentID")
    return {"id": readable(path.stem)} | info, turns


def _parts_of(path: Path, message: Path) -> Path:
    parts = message.parents[2] / "part"
    return parts / path.stem / message.stem if path.parent.name == "info" else parts / message.stem


def _files(folder: Path, reading: Reading) -> Iterator[tuple[Path, dict[str, Any]]]:
    """The records of a folder by id, which is by time."""
    unseen = Discovery()
    for entry in entries(folder, unseen):
        if not entry.name.endswith(".json"):
            continue
        reading.lines += 1
        try:
            record = json_object(Path(entry.path))
            yield Path(entry.path), {"id": readable(entry.name.removesuffix(".json"))} | record
        except UnreadableSource as error:
            reading.bad_line(reading.lines, error.message)
    for path, reason in unseen.unlisted:
        reading.bad_line(reading.lines, f"{readable(str(path))}: {reason}")


def _from_export(path: Path, reading: Reading) -> tuple[dict[str, Any], list[Turn]]:
    export = json_object(path)
    if not isinstance(export.get("info"), dict):
        raise UnreadableSource(f"{readable(str(path))}: no session of OpenCode")
    turns = [mapping(turn) for turn in items(export.get("messages"))]
    reading.lines += len(turns)
    return (
        {"id": readable(path.stem)} | export["info"],
        [(mapping(turn.get("info")), [mapping(part) for part in items(turn.get("parts"))]) for turn in turns],
    )


# The table session_message.


def _next_user(said: dict[str, Any]) -> tuple[str, list[dict[str, Any]]]:
    files = [mapping(file) | {"type": "file"} for file in items(said.get("files"))]
    return "user", [{"type": "text", "text": said.get("text")}, *files]


def _next_assistant(said: dict[str, Any]) -> tuple[str, list[dict[str, Any]]]:
    said["modelID"] = mapping(said.get("model")).get("id")
    return "assistant", [_next_part(mapping(part)) for part in items(said.get("content"))]


def _next_part(part: dict[str, Any]) -> dict[str, Any]:
    if part.get("type") != "tool":
        return part
    state = mapping(part.get("state"))
    told = {"output": state.get("content"), "error": mapping(state.get("error")).get("message")}
    return {"type": "tool", "tool": part.get("name"), "callID": part.get("id"), "state": state | told}


def _next_shell(said: dict[str, Any]) -> tuple[str, list[dict[str, Any]]]:
    state = {"status": "completed", "input": {"command": said.get("command")}, "output": said.get("output")}
    return "tool", [{"type": "tool", "tool": "bash", "callID": said.get("callID"), "state": state}]


_NEXT: Mapping[str, Callable[[dict[str, Any]], tuple[str, list[dict[str, Any]]]]] = {
    "user": _next_user,
    "assistant": _next_assistant,
    "shell": _next_shell,
    "system": lambda said: ("system", [{"type": "text", "text": said.get("text")}]),
    "synthetic": lambda said: ("system", [{"type": "text", "text": said.get("text")}]),
    "compaction": lambda said: ("assistant", [{"type": "text", "text": said.get("summary")}]),
}
