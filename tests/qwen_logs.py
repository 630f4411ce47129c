"""Builders of valid Qwen Code logs: records with ids q1, q2, … each below the one before, a second apart."""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from agent_journal.connectors.base import Reading
from agent_journal.connectors.qwen import Qwen

SESSION = "3f0c1e2d-1111-4222-8333-444455556666"
SHOP = "/home/ana/shop"
PROJECT = "-home-ana-shop"
SHOP_HASH = hashlib.sha256(SHOP.encode()).hexdigest()


def at(seconds: int) -> datetime:
    return datetime(2026, 6, 1, 10, 0, seconds, tzinfo=UTC)


def iso(seconds: int) -> str:
    return at(seconds).isoformat().replace("+00:00", ".000Z")


class Log:
    def __init__(self, session_id: str = SESSION, **common: Any) -> None:
        self.session_id = session_id
        self.common = {"cwd": SHOP, "version": "0.15.10", "gitBranch": "main"} | common
        self.records: list[dict[str, Any]] = []

    def add(self, kind: str, parts: Any = None, /, **more: Any) -> Log:
        number = len(self.records) + 1
        record: dict[str, Any] = {
            "uuid": f"q{number}",
            "parentUuid": f"q{number - 1}" if number > 1 else None,
            "sessionId": self.session_id,
            "timestamp": iso(number),
            "type": kind,
            **self.common,
        }
        if parts is not None:
            record["message"] = {"role": "model" if kind == "assistant" else "user", "parts": parts}
        self.records.append(record | more)
        return self

    def user(self, text: str, **more: Any) -> Log:
        return self.add("user", [{"text": text}], **more)

    def says(self, *parts: Any, **more: Any) -> Log:
        made = [{"text": p} if isinstance(p, str) else p for p in parts]
        return self.add("assistant", made, **({"model": "qwen3-coder-plus"} | more))

    def result(self, call_id: str, response: Any, status: str | None = "success", **more: Any) -> Log:
        part = {"functionResponse": {"id": call_id, "name": "run_shell_command", "response": response}}
        told = {"toolCallResult": {"callId": call_id, "status": status}} if status else {}
        return self.add("tool_result", [part], **(told | more))

    def system(self, subtype: str, **payload: Any) -> Log:
        return self.add("system", subtype=subtype, systemPayload=payload)

    @property
    def text(self) -> str:
        return "".join(json.dumps(record) + "\n" for record in self.records)

    def write(self, base: Path, place: str = "") -> Path:
        """Below a folder that stands for ~/.qwen; `place` is another path in the project's folder."""
        path = base / "projects" / PROJECT / (place or f"chats/{self.session_id}.jsonl")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self.text, encoding="utf-8")
        return path


def asks(call_id: str, command: str) -> dict[str, Any]:
    return {"functionCall": {"id": call_id, "name": "run_shell_command", "args": {"command": command}}}


def shop_log() -> Log:
    usage = {
        "promptTokenCount": 12000,
        "candidatesTokenCount": 90,
        "thoughtsTokenCount": 30,
        "cachedContentTokenCount": 8000,
        "totalTokenCount": 12090,
    }
    thought = {"text": "The total may be null.", "thought": True}
    log = Log().user("Why does checkout fail?", provenance="real_user")
    log.says(thought, "I will run the tests.", asks("call_1", "npm test"), usageMetadata=usage)
    log.result("call_1", {"output": "3 failing"})
    log.system("custom_title", customTitle="Cart bug", titleSource="auto")
    log.system("slash_command", phase="invocation", rawCommand="/about")
    log.user("also check refunds", subtype="mid_turn_user_message")
    return log.says("Refunds are fine.")


def write_sub_agent(base: Path, agent: str = "explore-1", **meta: Any) -> Path:
    log = Log(isSidechain=True, agentId=agent, agentName="explore")
    log.user("Find refunds", subtype="agent_launch_prompt").says("Found refund.ts")
    path = log.write(base, f"subagents/{SESSION}/agent-{agent}.jsonl")
    told = {"agentId": agent, "agentType": "explore", "description": "Find refunds", "parentSessionId": SESSION}
    path.with_name(f"agent-{agent}.meta.json").write_text(json.dumps(told | {"status": "completed"} | meta))
    return path


def home(folder: Path) -> None:
    base = folder / ".qwen"
    shop_log().write(base)
    write_sub_agent(base, toolUseId="call_1")
    Log("4a1d2f3e-1111-4222-8333-444455556666").user("Add a refund page").says("Done.").write(base)


def read(base: Path) -> Reading:
    """The one source below a folder that stands for ~/.qwen."""
    (source,) = Qwen().discover(base).sources
    return Qwen().parse(source)
