"""Builders of valid Copilot CLI logs: events with ids e1, e2, … each below the one before."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from agent_journal.connectors.base import Reading, Source, stat_of
from agent_journal.connectors.copilot_cli import CopilotCli
from agent_journal.connectors.copilot_files import EVENTS

FIXTURES = Path(__file__).parent / "fixtures" / "copilot"
SESSION = "0d3c9f10-2222-4333-8444-555566667777"


class Events:
    def __init__(self) -> None:
        self.lines: list[str] = []

    def add(self, kind: str, agent: str | None = None, /, **data: Any) -> Events:
        number = len(self.lines) + 1
        record: dict[str, Any] = {
            "type": kind,
            "data": data,
            "id": f"e{number}",
            "timestamp": f"2026-04-01T08:{number // 60:02}:{number % 60:02}.000Z",
            "parentId": f"e{number - 1}" if number > 1 else None,
        }
        if agent:
            record["agentId"] = agent
        self.lines.append(json.dumps(record))
        return self

    def start(self, session_id: str = SESSION, **data: Any) -> Events:
        context = {"cwd": "/home/ana/shop", "branch": "main"}
        given = {"sessionId": session_id, "copilotVersion": "1.0.63", "selectedModel": "gpt-5.4", "context": context}
        return self.add("session.start", **(given | data))

    def user(self, content: str, agent: str | None = None, /, **data: Any) -> Events:
        return self.add("user.message", agent, content=content, **data)

    def says(self, content: str, agent: str | None = None, /, **data: Any) -> Events:
        return self.add("assistant.message", agent, content=content, **data)

    def asks(self, call_id: str, name: str, arguments: Any, agent: str | None = None, /, **data: Any) -> Events:
        request = {"toolCallId": call_id, "name": name, "arguments": arguments}
        return self.says("", agent, toolRequests=[request], **data)

    def done(self, call_id: str, content: str, agent: str | None = None, /, **data: Any) -> Events:
        answer = {"toolCallId": call_id, "success": True, "result": {"content": content}}
        return self.add("tool.execution_complete", agent, **(answer | data))

    @property
    def text(self) -> str:
        return "".join(line + "\n" for line in self.lines)

    def write(self, home: Path, session_id: str = SESSION) -> Path:
        path = home / "session-state" / session_id / "events.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self.text, encoding="utf-8")
        return path


def read(root: Path) -> Reading:
    """The one source below a root."""
    (source,) = CopilotCli().discover(root).sources
    return CopilotCli().parse(source)


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def source_of(path: Path, kind: str = EVENTS) -> Source:
    stat = stat_of(path)
    assert stat
    return Source("copilot-cli", path, (stat,), kind)


def parse_text(path: Path, data: bytes) -> Reading:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return CopilotCli().parse(source_of(path))


def full_log() -> Events:
    """Every kind of event that becomes, or changes, a message."""
    log = Events().start()
    log.add("session.model_change", newModel="gpt-5.5")
    log.add("system.message", role="system", content="You are Copilot.")
    log.user("Why does checkout fail?", attachments=[{"type": "file", "path": "/home/ana/shop/cart.ts"}])
    log.add("assistant.turn_start", turnId="0")
    log.add("assistant.reasoning", reasoningId="r1", content="Run the tests.")
    log.asks("call_1", "bash", {"command": "npm test"}, outputTokens=12)
    log.add("tool.execution_start", toolCallId="call_1", toolName="bash", arguments={"command": "npm test"})
    log.done("call_1", "3 failing")
    log.asks("call_2", "task", {"description": "Find refunds", "prompt": "Find refunds"})
    log.add("subagent.started", toolCallId="call_2", agentName="explore", agentDisplayName="Explore")
    log.user("Find refunds", "ag-1")
    log.asks("call_3", "grep", {"pattern": "refund", "path": "src"}, "ag-1")
    log.done("call_3", "src/refund.ts", "ag-1")
    log.says("Found refund.ts", "ag-1")
    log.add("subagent.completed", toolCallId="call_2", agentName="explore")
    log.done("call_2", "Found refund.ts")
    log.add("tool.user_requested", toolCallId="call_4", toolName="bash", arguments={"command": "ls"})
    log.done("call_4", "cart.ts")
    log.add("session.error", errorType="query", message="Rate limited")
    log.add("session.compaction_complete", success=True, summaryContent="<overview>Cart</overview>")
    log.says("The total is null for empty carts.", outputTokens=40)
    log.done("call_9", "a late answer")
    return log


def home(folder: Path) -> None:
    """A HOME with two sessions."""
    full_log().write(folder / ".copilot")
    other = "5d3c6b21-1111-4222-8333-444455556666"
    Events().start(sessionId=other).user("Add a refund page").write(folder / ".copilot", other)
