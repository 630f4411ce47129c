"""Builders of valid Cursor CLI chats (store.db) and of Cursor's transcripts, as the real ones are laid out."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from pathlib import Path
from typing import Any

from agent_journal.connectors.base import Reading
from agent_journal.connectors.cursor_cli import CursorCli

SESSION = "11111111-2222-4333-8444-555555555555"
OTHER = "22222222-2222-4333-8444-555555555555"
WORKSPACE = "/home/me/app"
BUCKET = hashlib.md5(WORKSPACE.encode()).hexdigest()
CREATED = 1768862746153


def text(*lines: str) -> list[dict[str, Any]]:
    return [{"type": "text", "text": line} for line in lines]


def prompt(words: str) -> dict[str, Any]:
    return {"role": "user", "content": text(f"<user_query>\n{words}\n</user_query>")}


def call(call_id: str, name: str, args: Any) -> dict[str, Any]:
    return {"type": "tool-call", "toolCallId": call_id, "toolName": name, "args": args}


def result(call_id: str, value: Any, **more: Any) -> dict[str, Any]:
    part = {"type": "tool-result", "toolCallId": call_id, "toolName": "Read", "result": value} | more
    return {"role": "tool", "id": call_id, "content": [part]}


def conversation() -> list[dict[str, Any]]:
    """A chat with everything that becomes, or changes, a message."""
    options = {"cursor": {"modelName": "claude-4.5-opus-high-thinking"}}
    return [
        {"role": "system", "content": "You are an AI coding assistant."},
        {"role": "user", "content": text(f"<user_info>\nOS Version: linux\nWorkspace Path: {WORKSPACE}\n</user_info>")},
        prompt("why does test_x fail?"),
        {
            "id": "1",
            "role": "assistant",
            "content": [
                {"type": "reasoning", "text": "Let me look.", "signature": "x" * 99, "providerOptions": options},
                {"type": "text", "text": "I'll read the file."},
                call("toolu_01", "Read", {"path": f"{WORKSPACE}/a.py"}),
            ],
        },
        result("toolu_01", "1|import os", isError=False),
        {"id": "1", "role": "assistant", "content": text("It never imports sys.")},
    ]


def name_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def node(*names: str, tag: bytes = b"\x0a", behind: bytes = b"") -> bytes:
    return b"".join(tag + b"\x20" + bytes.fromhex(name) for name in names) + behind


class Chat:
    """A store.db. Until it is closed, what was written last stands in its -wal file."""

    def __init__(self, folder: Path, session_id: str = SESSION, bucket: str = BUCKET) -> None:
        self.path = folder / "chats" / bucket / session_id / "store.db"
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.db = sqlite3.connect(self.path, isolation_level=None)
        self.db.execute("PRAGMA journal_mode = WAL")
        self.db.execute("CREATE TABLE IF NOT EXISTS blobs (id TEXT PRIMARY KEY, data BLOB)")
        self.db.execute("CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT)")

    def blob(self, data: bytes | dict[str, Any]) -> str:
        raw = data if isinstance(data, bytes) else json.dumps(data).encode()
        self.db.execute("INSERT OR IGNORE INTO blobs VALUES (?, ?)", (name_of(raw), raw))
        return name_of(raw)

    def meta(self, *, plain: bool = False, **facts: Any) -> Chat:
        value = json.dumps({"agentId": SESSION, "mode": "default", "createdAt": CREATED} | facts)
        held = value if plain else value.encode().hex()
        self.db.execute("INSERT OR REPLACE INTO meta VALUES ('0', ?)", (held,))
        return self

    def say(self, *messages: dict[str, Any], **facts: Any) -> Chat:
        """The whole conversation so far, under a new root."""
        root = self.blob(node(*[self.blob(m) for m in messages]))
        known = {"latestRootBlobId": root, "name": "Fix flaky test", "lastUsedModel": "gpt-5"}
        return self.meta(**(known | facts))

    def close(self) -> Path:
        self.db.close()
        return self.path


def transcript_line(role: str, *parts: Any) -> str:
    return json.dumps({"role": role, "message": {"content": list(parts)}}) + "\n"


def transcript_path(folder: Path, *below: str) -> Path:
    path = folder.joinpath("projects", "home-me-app", "agent-transcripts", *below)
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def home(folder: Path) -> None:
    """Two chats, one of them with a sub-agent."""
    cursor = folder / ".cursor"
    Chat(cursor).say(*conversation()).close()
    Chat(cursor, OTHER).say(prompt("rename the module"), {"role": "assistant", "content": "Done."}).close()
    path = transcript_path(cursor, SESSION, "subagents", "sub-1.jsonl")
    lines = transcript_line("user", *text("find callers")), transcript_line("assistant", *text("There are two."))
    path.write_text("".join(lines))


def read(root: Path) -> Reading:
    """The one source below a root."""
    (source,) = CursorCli().discover(root).sources
    return CursorCli().parse(source)
