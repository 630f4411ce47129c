"""Real sessions, counted a second time: a counter written from the format descriptions alone, without the
connectors, must find as many messages and tool calls in every file as the connectors do.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agent_journal.connectors.base import Connector
from agent_journal.connectors.claude_code import ClaudeCode
from agent_journal.connectors.copilot_cli import CopilotCli

HOME = Path(__file__).parents[1].parent / "shared" / "data" / "home"
pytestmark = pytest.mark.skipif(not HOME.is_dir(), reason="no shared data")

Counts = tuple[int, int]  # messages, tool calls


def raw_records(path: Path) -> Iterator[dict[str, Any]]:
    for line in path.read_text("utf-8", "replace").split("\n"):
        while line.strip():
            record, end = json.JSONDecoder().raw_decode(line)
            yield record
            line = line[end:]


def claude_counts(path: Path) -> Counts:
    """formats/claude-code.md, section by section."""
    records = list(raw_records(path))
    own_agents = {p.stem for p in path.with_suffix("").glob("subagents/**/agent-*.jsonl")}
    echoes: dict[str, list[dict[str, Any]]] = defaultdict(list)  # 3.6: agent_progress, no file of its own
    for data in (r["data"] for r in records if r["type"] == "progress"):
        if data.get("type") == "agent_progress" and f"agent-{data['agentId']}" not in own_agents:
            echoes[data["agentId"]] += [*data.get("normalizedMessages", []), data["message"]]
    parts = [conversation_counts(r) for r in (records, *echoes.values())]
    return sum(p[0] for p in parts), sum(p[1] for p in parts)


def conversation_counts(records: Iterable[dict[str, Any]]) -> Counts:
    seen, answers, calls, results, others, turns = set(), set(), set(), set(), 0, 0
    for r in records:
        uuid, kind, message = r.get("uuid"), r.get("type"), r.get("message", {})
        if uuid and uuid in seen:
            continue  # 5.2: first per uuid
        seen.add(uuid)
        content = message.get("content") or []
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        results |= {b["tool_use_id"] for b in blocks if b["type"].endswith("tool_result")}
        turns += kind in ("user", "assistant")
        if kind == "assistant":  # 5.1: one message per message.id
            answers.add(message.get("id") or uuid)
            calls |= {b["id"] for b in blocks if b["type"].endswith("tool_use")}
        elif kind == "user":  # 4: only tool_result: no message of its own
            others += any(b["type"] in ("image", "document") or b.get("text", "").strip() for b in blocks)
        elif kind == "system":  # 3.4: kept where it says something
            others += bool(r.get("content") or (r["subtype"] == "api_error" and says_why(r)))
        elif kind == "attachment":  # 3.5: only queued_command is speech
            others += r["attachment"]["type"] == "queued_command"
    lone = len(results - calls)  # 4: role tool
    return (len(answers) + others + lone, len(calls) + lone) if turns else (0, 0)  # 5.9: else empty


def says_why(value: Any) -> bool:
    """Whether an error holds a sentence anywhere."""
    inner = value.values() if isinstance(value, dict) else ()
    return isinstance(value, dict) and ("message" in value or any(says_why(v) for v in inner))


def copilot_counts(path: Path) -> Counts:
    """formats/copilot-cli.md, section 4."""
    messages, calls = 0, set()
    for r in raw_records(path):
        kind, data = r["type"], r["data"]
        said = data.get("content")
        if kind == "assistant.message":  # skipped if content, reasoning and requests are all empty
            messages += bool(said or data.get("reasoningText") or data.get("toolRequests"))
        elif kind in ("user.message", "system.notification"):  # system.message, hooks: left out by default
            messages += bool(said)
        requests = data.get("toolRequests") or ([data] if kind == "tool.execution_start" else [])
        calls |= {request["toolCallId"] for request in requests}  # 5.1: merged by toolCallId
    return messages, len(calls)


def connector_counts(connector: Connector) -> dict[Path, Counts]:
    """By file: a sub-agent's transcript counts for the file it stands in."""
    found: dict[Path, Counts] = {}
    for root in connector.roots({}, HOME):
        for source in connector.discover(root).sources:
            found |= {f.path: (0, 0) for f in source.files if f.path.suffix == ".jsonl"}
            for transcript in connector.parse(source).transcripts:
                path = Path(transcript.session.origin.path)
                messages, calls = found[path]
                more = sum(len(m.tool_calls) for m in transcript.messages)
                found[path] = messages + len(transcript.messages), calls + more
    return found


def test_every_claude_file_holds_as_many_messages_and_calls_as_counted_by_hand() -> None:
    expected = {p: claude_counts(p) for p in (HOME / ".claude" / "projects").rglob("*.jsonl")}
    assert len(expected) > 100
    assert connector_counts(ClaudeCode()) == expected


def test_every_copilot_file_holds_as_many_messages_and_calls_as_counted_by_hand() -> None:
    expected = {p: copilot_counts(p) for p in (HOME / ".copilot").rglob("events.jsonl")}
    assert len(expected) > 5
    assert connector_counts(CopilotCli()) == expected


def test_no_line_of_a_real_claude_file_is_bad() -> None:
    claude = ClaudeCode()
    readings = [claude.parse(s) for root in claude.roots({}, HOME) for s in claude.discover(root).sources]
    assert [r.bad_lines for r in readings if r.bad_line_count] == []
