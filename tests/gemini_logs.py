"""Builders of valid Gemini CLI chats, in both formats: messages with ids m1, m2, … a second apart."""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from agent_journal.connectors.base import Reading
from agent_journal.connectors.gemini import Gemini

SESSION = "7c1d5a52-1111-4222-8333-444455556666"
SHOP = "/home/ana/shop"
SHOP_HASH = hashlib.sha256(SHOP.encode()).hexdigest()


def at(seconds: int) -> datetime:
    return datetime(2026, 5, 1, 10, 0, tzinfo=UTC).replace(minute=seconds // 60, second=seconds % 60)


def iso(seconds: int) -> str:
    return at(seconds).isoformat().replace("+00:00", ".000Z")


def call(call_id: str, name: str, args: Any, output: str | None = None, **more: Any) -> dict[str, Any]:
    made: dict[str, Any] = {"id": call_id, "name": name, "args": args, "status": "executing", "timestamp": iso(1)}
    if output is not None:
        response = {"id": call_id, "name": name, "response": {"output": output}}
        made |= {"status": "success", "result": [{"functionResponse": response}], "timestamp": iso(30)}
    return made | more


class Chat:
    def __init__(self, session_id: str = SESSION, **facts: Any) -> None:
        self.facts = {
            "sessionId": session_id,
            "projectHash": SHOP_HASH,
            "startTime": iso(0),
            "lastUpdated": iso(0),
        } | facts
        self.messages: list[dict[str, Any]] = []
        self.lines: list[Any] = [self.facts]

    def add(self, kind: str, content: Any, **more: Any) -> Chat:
        number = len(self.messages) + 1
        record = {"id": f"m{number}", "timestamp": iso(number), "type": kind, "content": content} | more
        self.messages.append(record)
        self.lines.append(record)
        return self

    def user(self, content: Any, **more: Any) -> Chat:
        return self.add("user", content, **more)

    def gemini(self, content: Any, **more: Any) -> Chat:
        return self.add("gemini", content, **({"thoughts": [], "tokens": None, "model": "gemini-3-pro"} | more))

    def again(self, **more: Any) -> Chat:
        """The last message, written once more with more in it."""
        self.messages[-1] = self.messages[-1] | more
        self.lines.append(self.messages[-1])
        return self

    def log(self, record: Any) -> Chat:
        self.lines.append(record)
        return self

    @property
    def document(self) -> str:
        return json.dumps(self.facts | {"messages": self.messages}, indent=2)

    @property
    def text(self) -> str:
        return "".join(json.dumps(line) + "\n" for line in self.lines)

    def write(self, base: Path, project: str = "shop", suffix: str = ".jsonl", name: str = "") -> Path:
        """Below a folder that stands for ~/.gemini."""
        session_id = str(self.facts["sessionId"])
        path = base / "tmp" / project / "chats" / f"{name or f'session-2026-05-01T10-00-{session_id[:8]}'}{suffix}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self.text if suffix == ".jsonl" else self.document, encoding="utf-8")
        return path


def shop_chat(**facts: Any) -> Chat:
    """A prompt, a call with its result written in two steps, an answer, a notice."""
    chat = Chat(**facts).user([{"text": "Why does checkout fail?"}])
    thought = {"subject": "Looking at the cart", "description": "The total may be null.", "timestamp": iso(1)}
    chat.gemini("", thoughts=[thought], toolCalls=[call("c1", "run_shell_command", {"command": "npm test"})])
    tokens = {"input": 9000, "output": 40, "cached": 7000, "thoughts": 120, "tool": 0, "total": 9160}
    chat.again(toolCalls=[call("c1", "run_shell_command", {"command": "npm test"}, "3 failing")], tokens=tokens)
    chat.gemini([{"text": "The total is null."}])
    return chat.add("info", "Request cancelled.").log({"$set": {"lastUpdated": iso(5), "summary": "Fix checkout"}})


def mark(base: Path, project: str, path: str) -> None:
    (base / "tmp" / project).mkdir(parents=True, exist_ok=True)
    (base / "tmp" / project / ".project_root").write_text(path + "\n", encoding="utf-8")


def home(folder: Path) -> None:
    base = folder / ".gemini"
    shop_chat().write(base)
    mark(base, "shop", SHOP)
    other = Chat("8d2e6b63-1111-4222-8333-444455556666").user("Add a refund page").gemini("Done.")
    other.write(base, SHOP_HASH, ".json")
    (base / "projects.json").write_text(json.dumps({"projects": {SHOP: "shop"}}), encoding="utf-8")


def read(base: Path) -> Reading:
    """The one source below a folder that stands for ~/.gemini."""
    (source,) = Gemini().discover(base).sources
    return Gemini().parse(source)
