"""Builders of OpenCode's stores: the same session as rows of a database, as a tree of files, as an export."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from agent_journal.connectors.base import Reading
from agent_journal.connectors.opencode import OpenCode

SESSION, CHILD, OTHER = "ses_3fA", "ses_3fB", "ses_2zz"
START = 1767323047000

SCHEMA = """
CREATE TABLE project(id TEXT PRIMARY KEY, worktree TEXT, name TEXT);
CREATE TABLE session(id TEXT PRIMARY KEY, project_id TEXT, parent_id TEXT, slug TEXT, directory TEXT, title TEXT,
  version TEXT, revert TEXT, cost REAL, time_created INTEGER, time_updated INTEGER, time_archived INTEGER);
CREATE TABLE message(id TEXT PRIMARY KEY, session_id TEXT, time_created INTEGER, time_updated INTEGER, data TEXT);
CREATE TABLE part(id TEXT PRIMARY KEY, message_id TEXT, session_id TEXT, time_created INTEGER, data TEXT);
CREATE TABLE session_message(id TEXT PRIMARY KEY, session_id TEXT, type TEXT, seq INTEGER, time_created INTEGER,
  data TEXT);
"""

Record = dict[str, Any]


def info(session: str = SESSION, **more: Any) -> Record:
    made = {"id": session, "slug": "quiet-fox", "version": "1.2.3", "projectID": "4b825dc", "directory": "/home/me/app"}
    return made | {"title": "Fix CI", "time": {"created": START, "updated": START + 9000}} | more


def at(seconds: float) -> datetime:
    return datetime.fromtimestamp(START / 1000 + seconds, UTC)


def user(number: int, text: str, *parts: Record, **more: Any) -> Record:
    said = {"role": "user", "time": {"created": START + number * 1000}, "model": {"modelID": "claude-sonnet-4-5"}}
    return turn(number, said | more, {"type": "text", "text": text}, *parts)


def assistant(number: int, *parts: Record, **more: Any) -> Record:
    said = {
        "role": "assistant",
        "parentID": "msg_00",
        "modelID": "claude-sonnet-4-5",
        "path": {"cwd": "/home/me/app", "root": "/home/me/app"},
        "finish": "stop",
        "tokens": {"input": 6, "output": 88, "reasoning": 0, "cache": {"read": 10, "write": 2142}},
        "time": {"created": START + number * 1000},
    }
    return turn(number, said | more, *parts)


def turn(number: int, said: Record, *parts: Record) -> Record:
    return {
        "info": {"id": f"msg_{number:02}"} | said,
        "parts": [{"id": f"prt_{number:02}{n}"} | part for n, part in enumerate(parts)],
    }


def tool(name: str, given: Any, status: str = "completed", **state: Any) -> Record:
    when = {"start": START + 1100, "end": START + 2000}
    return {"type": "tool", "tool": name, "callID": "call_9",
            "state": {"status": status, "input": given, "time": when} | state}  # fmt: skip


def conversation() -> list[Record]:
    return [
        user(0, "Fix the CI", {"type": "text", "text": "Called the Read tool", "synthetic": True}),
        assistant(
            1,
            {"type": "step-start"},
            {"type": "reasoning", "text": "Look first.", "time": {"start": START + 1050}},
            tool("bash", {"command": "npm test"}, output="1 failed", metadata={"exit": 1}),
            {"type": "text", "text": "One test fails."},
        ),
    ]


def insert(db: sqlite3.Connection, facts: Record, turns: list[Record]) -> None:
    values = (facts["id"], facts["projectID"], facts.get("parentID"), facts["slug"], facts["directory"], facts["title"],
              facts["version"], facts.get("revert"), facts["time"]["created"], facts.get("archived"))  # fmt: skip
    names = "id, project_id, parent_id, slug, directory, title, version, revert, time_created, time_archived"
    db.execute(f"INSERT INTO session({names}) VALUES (?,?,?,?,?,?,?,?,?,?)", values)
    for one in turns:
        said = dict(one["info"])
        name = f"{facts['id']}{said.pop('id')}"
        row = (name, facts["id"], said["time"]["created"], json.dumps(said))
        db.execute("INSERT INTO message(id, session_id, time_created, data) VALUES (?,?,?,?)", row)
        for part in one["parts"]:
            rest = {k: v for k, v in part.items() if k != "id"}
            row = (facts["id"] + part["id"], name, facts["id"], json.dumps(rest))
            db.execute("INSERT INTO part(id, message_id, session_id, data) VALUES (?,?,?,?)", row)
    db.commit()


def database(folder: Path, *sessions: tuple[Record, list[Record]], name: str = "opencode.db") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(folder / name)) as db:
        db.executescript(SCHEMA)
        for facts, turns in sessions:
            insert(db, facts, turns)
    return folder / name


def tree(folder: Path, facts: Record, turns: list[Record], oldest: bool = False) -> Path:
    store = folder / "project" / "app" / "storage" / "session" if oldest else folder / "storage"
    path = store / "info" / f"{facts['id']}.json" if oldest else store / "session" / "4b825dc" / f"{facts['id']}.json"
    save(path, facts)
    for one in turns:
        said = one["info"]
        save(store / "message" / facts["id"] / f"{said['id']}.json", said)
        above = store / "part" / facts["id"] if oldest else store / "part"
        for part in one["parts"]:
            save(above / said["id"] / f"{part['id']}.json", part)
    return path


def save(path: Path, record: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(record), encoding="utf-8")
    return path


def home(folder: Path, program: str = "opencode") -> None:
    data = folder / ".local" / "share" / program
    child = info(CHILD, parentID=SESSION, title="Child session - 2026-01-02T03:04:07.000Z")
    explored = [user(0, "Explore"), assistant(1, {"type": "text", "text": "Done"})]
    database(data, (info(), conversation()), (child, explored), name=f"{program}.db")
    tree(data, info(OTHER, title="Before the database"), conversation())


def read(path: Path) -> Reading:
    (source,) = OpenCode().discover(path).sources
    return OpenCode().parse(source)
