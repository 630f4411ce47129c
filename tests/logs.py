"""Builders of valid Claude Code log lines. Each returns one record; keywords add or replace its fields."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from agent_journal.connectors.base import Reading, Source
from agent_journal.connectors.claude_code import ClaudeCode
from agent_journal.session import Message, Transcript

Record = dict[str, Any]

SESSION = "5b0d2a6e-7a51-4a1e-9a0b-0f6f5c1d2e3f"
CWD = "/home/ana/shop"
PROJECT = "-home-ana-shop"


def chain(kind: str, uuid: str, parent: str | None, **fields: Any) -> Record:
    return {
        "parentUuid": parent,
        "isSidechain": False,
        "userType": "external",
        "cwd": CWD,
        "sessionId": SESSION,
        "version": "2.1.100",
        "gitBranch": "main",
        "type": kind,
        "uuid": uuid,
        "timestamp": "2026-03-02T09:15:00.000Z",
    } | fields


def user(uuid: str, content: Any, parent: str | None = None, **fields: Any) -> Record:
    return chain("user", uuid, parent, message={"role": "user", "content": content}, **fields)


def assistant(uuid: str, *content: Any, id: str | None = None, out: int = 5, **fields: Any) -> Record:
    """`id` is the message id that streamed records share; `out` the output tokens so far."""
    message = {
        "model": "claude-opus-4-6",
        "id": id or f"msg_{uuid}",
        "type": "message",
        "role": "assistant",
        "content": list(content),
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": 4, "output_tokens": out, "cache_read_input_tokens": 100},
    }
    parent = fields.pop("parent", None)
    return chain("assistant", uuid, parent, message=message | fields.pop("message", {}), **fields)


def text(words: str) -> Record:
    return {"type": "text", "text": words}


def thinking(words: str) -> Record:
    return {"type": "thinking", "thinking": words, "signature": "Eu0B"}


def tool_use(id: str, name: str = "Bash", **input: Any) -> Record:
    return {"type": "tool_use", "id": id, "name": name, "input": input}


def tool_result(id: str, content: Any = "ok", **fields: Any) -> Record:
    return {"type": "tool_result", "tool_use_id": id, "content": content} | fields


def system(uuid: str, subtype: str, content: Any, **fields: Any) -> Record:
    return chain("system", uuid, None, subtype=subtype, content=content, level="info", **fields)


def queued(uuid: str, prompt: Any, **attachment: Any) -> Record:
    return chain("attachment", uuid, None, attachment={"type": "queued_command", "prompt": prompt} | attachment)


def agent_progress(uuid: str, agent_id: str, call: str, *inner: Record) -> Record:
    """The last of `inner` is the message the record is about, those before are repeated."""
    data = {"type": "agent_progress", "agentId": agent_id, "prompt": "look", "message": inner[-1]}
    data["normalizedMessages"] = list(inner[:-1])
    return chain("progress", uuid, None, data=data, parentToolUseID=call, toolUseID=f"agent_{call}")


def lines(records: Iterable[Mapping[str, Any]]) -> bytes:
    return b"".join(json.dumps(r, ensure_ascii=False).encode() + b"\n" for r in records)


def write(path: Path, *records: Mapping[str, Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(lines(records))
    return path


def transcript_path(root: Path, name: str = SESSION) -> Path:
    return root / ".claude" / "projects" / PROJECT / f"{name}.jsonl"


def source(path: Path) -> Source:
    """The one source that a look at this file finds."""
    (found,) = ClaudeCode().discover(path).sources
    return found


def read_bytes(tmp_path: Path, data: bytes, name: str = SESSION) -> Reading:
    path = transcript_path(tmp_path, name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return ClaudeCode().parse(source(path))


def read(tmp_path: Path, *records: Mapping[str, Any], name: str = SESSION) -> Reading:
    return read_bytes(tmp_path, lines(records), name)


def transcript(tmp_path: Path, *records: Mapping[str, Any], name: str = SESSION) -> Transcript:
    """The session of a file that holds these records."""
    return read(tmp_path, *records, name=name).transcripts[0]


def messages(tmp_path: Path, *records: Mapping[str, Any]) -> tuple[Message, ...]:
    return transcript(tmp_path, *records).messages


def said(found: Iterable[Message]) -> list[tuple[str, str]]:
    return [(m.role.value, m.text) for m in found]


def home(folder: Path) -> None:
    """A HOME with two sessions, one with a tool call."""
    write(
        transcript_path(folder),
        user("u1", "Fix the till"),
        assistant("a1", text("I look."), tool_use("t1", command="cat till.py"), parent="u1"),
        user("u2", [tool_result("t1", "total = 0")], "a1"),
        assistant("a2", text("Done."), parent="u2"),
    )
    other = "6c1e3b7f-8b62-4b2f-9b1c-1a7a6d2e3f4a"
    write(transcript_path(folder, other), user("v1", "Add a refund page", sessionId=other))
