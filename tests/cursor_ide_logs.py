"""Builders of valid state databases of Cursor's editor: chats of every generation, workspaces, headers."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

from agent_journal.connectors.base import Reading
from agent_journal.connectors.cursor_ide import CursorIde

COMPOSER = "c0ffee00-2222-4333-8444-555555555555"
OTHER = "c0ffee01-2222-4333-8444-555555555555"
WORKSPACE = "/home/me/app"
CREATED = 1786948236174


class State:
    """A state.vscdb. Until it is closed, what was written last stands in its -wal file."""

    def __init__(self, user: Path, *below: str) -> None:
        self.path = user.joinpath(*(below or ("globalStorage",)), "state.vscdb")
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.db = sqlite3.connect(self.path, isolation_level=None)
        self.db.execute("PRAGMA journal_mode = WAL")
        for table in ("ItemTable", "cursorDiskKV"):
            self.db.execute(f"CREATE TABLE IF NOT EXISTS {table} (key TEXT UNIQUE ON CONFLICT REPLACE, value BLOB)")

    def put(self, key: str, value: Any, table: str = "cursorDiskKV") -> State:
        held = value if value is None or isinstance(value, str | bytes) else json.dumps(value)
        self.db.execute(f"INSERT INTO {table} VALUES (?, ?)", (key, held))
        return self

    def composer(self, *bubbles: dict[str, Any], composer_id: str = COMPOSER, **facts: Any) -> State:
        """A chat of today: a document that orders its bubbles, and a row for each of them."""
        for one in bubbles:
            self.put(f"bubbleId:{composer_id}:{one['bubbleId']}", one)
        order = [{"bubbleId": one["bubbleId"], "type": one["type"]} for one in bubbles]
        return self.put(
            f"composerData:{composer_id}", document(composer_id, fullConversationHeadersOnly=order, **facts)
        )

    def header(self, composer_id: str = COMPOSER, is_subagent: int = 0, **value: Any) -> State:
        self.db.execute(
            "CREATE TABLE IF NOT EXISTS composerHeaders (composerId TEXT PRIMARY KEY, workspaceId TEXT, "
            "createdAt INTEGER, isSubagent INTEGER, value TEXT)"
        )
        row = (composer_id, "84c9", CREATED, is_subagent, json.dumps({"type": "head"} | value))
        self.db.execute("INSERT OR REPLACE INTO composerHeaders VALUES (?, ?, ?, ?, ?)", row)
        return self

    def close(self) -> Path:
        self.db.close()
        return self.path


def document(composer_id: str = COMPOSER, **facts: Any) -> dict[str, Any]:
    return {
        "_v": 17,
        "composerId": composer_id,
        "name": "Fix login",
        "createdAt": CREATED,
        "createdOnBranch": "main",
        "modelConfig": {"modelName": "composer-2"},
        "text": "a draft never sent",
    } | facts


def placed(path: str = WORKSPACE) -> dict[str, Any]:
    return {"id": "84c9", "uri": {"fsPath": path, "scheme": "file"}}


def bubble(name: str, kind: int, text: str = "", **facts: Any) -> dict[str, Any]:
    return {"_v": 3, "type": kind, "bubbleId": name, "text": text} | facts


def tool(name: str, called: str = "read_file_v2", **facts: Any) -> dict[str, Any]:
    former = {"tool": 40, "name": called, "toolCallId": f"call-{name}", "status": "completed", "rawArgs": ""}
    return bubble(name, 2, capabilityType=15, toolFormerData=former | facts)


def chat() -> list[dict[str, Any]]:
    return [
        bubble(
            "b1", 1, "why 401?", createdAt="2026-08-17T06:30:36.299Z", images=[], workspaceUris=["file:///home/me/b"]
        ),
        bubble("b2", 2, createdAt="2026-08-17T06:30:41.992Z", thinking={"text": "Check it.", "signature": "x"}),
        tool("b3", params='{"targetFile": "/home/me/app/auth.ts"}', result='{"totalLinesInFile":290}'),
        bubble("b4", 2, "The token expired.", tokenCount={"inputTokens": 900, "outputTokens": 42}),
        bubble("b5", 2, capabilityType=22),
    ]


def workspace(user: Path, folder: str, name: str = "84c9", **items: Any) -> State:
    state = State(user, "workspaceStorage", name)
    state.path.with_name("workspace.json").write_text(json.dumps({"folder": folder}))
    for key, value in items.items():
        state.put(key, value, "ItemTable")
    return state


def home(folder: Path) -> None:
    """Two chats of one workspace."""
    state = State(folder / ".config" / "Cursor" / "User")
    state.composer(*chat(), workspaceIdentifier=placed())
    state.composer(bubble("x1", 1, "rename it"), bubble("x2", 2, "Done."), composer_id=OTHER).close()


def read(root: Path) -> Reading:
    """The one source below a root."""
    (source,) = CursorIde().discover(root).sources
    return CursorIde().parse(source)
