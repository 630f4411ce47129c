"""Builders of valid Codex rollouts: one line a second, as items and as the events that repeat them."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from agent_journal.connectors.base import Reading, Source, stat_of
from agent_journal.connectors.codex import Codex
from agent_journal.session import Message

START = datetime(2026, 5, 4, 7, 0, tzinfo=UTC)


def uuid7(moment: datetime, tail: int = 1) -> str:
    """An id that tells when it was made, as Codex makes them."""
    digits = f"{int(moment.timestamp() * 1000):012x}7000{0x8000000000000000 + tail:016x}"
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


SESSION = uuid7(START)


class Rollout:
    """A turn's id is made at its line's time, so that it is later than the session's."""

    def __init__(self, session_id: str = SESSION, start: datetime = START, root: str = "", **meta: Any) -> None:
        self.id = session_id
        self.start = start
        self.lines: list[str] = []
        given = {"id": session_id, "timestamp": self.stamp(), "cwd": "/home/ana/shop", "originator": "codex_cli_rs",
                 "cli_version": "0.130.0", "source": "cli", "git": {"branch": "main"}}  # fmt: skip
        self.add("session_meta", **(given | meta | ({"session_id": root} if root else {})))

    @property
    def now(self) -> datetime:
        return self.start + timedelta(seconds=len(self.lines))

    def stamp(self) -> str:
        return self.now.isoformat(timespec="milliseconds").replace("+00:00", "Z")

    def add(self, record: str, /, **payload: Any) -> Rollout:
        self.lines.append(json.dumps({"timestamp": self.stamp(), "type": record, "payload": payload}))
        return self

    def item(self, kind: str, /, **fields: Any) -> Rollout:
        return self.add("response_item", **({"type": kind} | fields))

    def event(self, kind: str, /, **fields: Any) -> Rollout:
        return self.add("event_msg", **({"type": kind} | fields))

    def turn(self, turn_id: str | None = None) -> Rollout:
        turn_id = turn_id or uuid7(self.now)
        self.event("task_started", turn_id=turn_id)
        return self.add("turn_context", turn_id=turn_id, cwd="/home/ana/shop", model="gpt-5.4-codex")

    def message(self, role: str, *texts: str, **fields: Any) -> Rollout:
        kind = "output_text" if role == "assistant" else "input_text"
        return self.item("message", role=role, content=[{"type": kind, "text": t} for t in texts], **fields)

    def user(self, text: str) -> Rollout:
        return self.message("user", text).event("user_message", message=text, images=[])

    def says(self, text: str) -> Rollout:
        return self.event("agent_message", message=text).message("assistant", text)

    def calls(self, call_id: str, name: str, arguments: Any, **fields: Any) -> Rollout:
        return self.item("function_call", name=name, arguments=json.dumps(arguments), call_id=call_id, **fields)

    def output(self, call_id: str, output: Any, **fields: Any) -> Rollout:
        return self.item("function_call_output", call_id=call_id, output=output, **fields)

    def tokens(self, total: int, last: int) -> Rollout:
        def usage(output: int) -> dict[str, int]:
            return {"input_tokens": 10 * output, "cached_input_tokens": 4 * output, "output_tokens": output}

        info = {"total_token_usage": usage(total), "last_token_usage": usage(last)}
        return self.event("token_count", info=info, rate_limits=None)

    @property
    def text(self) -> str:
        return "".join(line + "\n" for line in self.lines)

    @property
    def name(self) -> str:
        return f"rollout-{self.start:%Y-%m-%dT%H-%M-%S}-{self.id}.jsonl"

    def write(self, codex: Path, folder: str | None = None) -> Path:
        """Below Codex's own folder."""
        path = codex / (f"sessions/{self.start:%Y/%m/%d}" if folder is None else folder) / self.name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self.text, encoding="utf-8")
        return path


def source_of(path: Path) -> Source:
    stat = stat_of(path)
    assert stat
    return Source("codex", path, (stat,))


def read(path: Path) -> Reading:
    return Codex().parse(source_of(path))


def messages(path: Path) -> tuple[Message, ...]:
    (transcript,) = read(path).transcripts
    return transcript.messages


def full_log() -> Rollout:
    """Every kind of record that becomes, or changes, a message."""
    log = Rollout()
    log.message("developer", "<permissions instructions>read only</permissions instructions>")
    log.message("user", "# AGENTS.md instructions for /home/ana/shop", "<environment_context>\n<cwd>/x</cwd>")
    log.turn().user("Why does checkout fail?")
    log.event("agent_reasoning", text="**Inspecting cart code**")
    log.item("reasoning", id="rs_1", summary=[{"type": "summary_text", "text": "**Inspecting cart code**"}])
    log.says("I run the tests.")
    log.calls("call_1", "exec_command", {"cmd": "npm test", "workdir": "/home/ana/shop"}, id="fc_1")
    log.item("custom_tool_call", call_id="call_2", name="apply_patch", status="completed",
             input="*** Begin Patch\n*** Update File: cart.ts\n@@\n-a\n+b\n*** End Patch")  # fmt: skip
    log.tokens(40, 40)
    log.event("exec_command_end", call_id="call_1", exit_code=1, stdout="3 failing")
    log.output("call_1", "Chunk ID: a1\nWall time: 4.9 seconds\nProcess exited with code 1\nOutput:\n3 failing")
    log.item("custom_tool_call_output", call_id="call_2",
             output=json.dumps({"output": "Success.", "metadata": {"exit_code": 0}}))  # fmt: skip
    log.item("local_shell_call", call_id="call_3", status="completed", action={"type": "exec", "command": ["ls"]})
    log.item("web_search_call", status="completed", action={"type": "search", "query": "null total"})
    log.item("tool_search_call", call_id="call_4", arguments={"query": "pull request"})
    tools = [{"type": "namespace", "name": "mcp__hub", "tools": [{"name": "fetch"}]}]
    log.item("tool_search_output", call_id="call_4", tools=tools)
    log.says("The total is null.").tokens(90, 50).event("task_complete", turn_id="t", last_agent_message="…")
    log.turn().message("user", "<user_shell_command>\n<command>\nls\n</command>\n<result>\ncart.ts\n</result>\n")
    log.user("Fix it").event("turn_aborted", reason="interrupted")
    log.message("user", "<turn_aborted>\nThe user interrupted the previous turn.")
    log.turn().user("Fix it").says("Fixed.").event("thread_rolled_back", num_turns=1)
    log.add("compacted", message="Summary of the work so far", replacement_history=[])
    log.item("agent_message", author="/root", recipient="/root/a", content=[{"type": "input_text", "text": "Go"}])
    log.event("exited_review_mode", review_output={"overall_explanation": "Good", "findings": [{"title": "One"}]})
    log.event("item_completed", item={"type": "AgentMessage", "content": [{"type": "Text", "text": "Only told"}]})
    log.event("thread_name_updated", thread_id=SESSION, thread_name="Cart bug")
    return log.output("call_9", "of a call that was never written")


def home(folder: Path) -> None:
    """A HOME with two sessions, the second one archived."""
    full_log().write(folder / ".codex")
    later = START + timedelta(days=1)
    log = Rollout(uuid7(later), later).turn().user("Add a refund page").says("I look.")
    log.calls("call_1", "shell", {"command": ["bash", "-lc", "ls"]}).output("call_1", "Exit code: 0\nOutput:\ncart.ts")
    log.says("Done.").write(folder / ".codex", "archived_sessions")
