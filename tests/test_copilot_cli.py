"""Copilot CLI's logs as sessions: what is kept, what is joined, what is counted."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from copilot_logs import FIXTURES, SESSION, Events, at, parse_text, read

from agent_journal.connectors.base import Reading
from agent_journal.connectors.copilot_cli import CopilotCli
from agent_journal.session import (
    Attachment,
    Message,
    Origin,
    Resume,
    Role,
    Session,
    Text,
    Thinking,
    ToolCall,
    ToolType,
    Transcript,
    Usage,
)

KEY = f"copilot-cli:{SESSION}"


def fixture() -> Reading:
    return read(FIXTURES / "session-state")


def test_session_facts_come_from_log_and_workspace_yaml() -> None:
    path = FIXTURES / "session-state" / SESSION / "events.jsonl"
    session = fixture().transcripts[0].session
    extensions = dict(session.extensions)
    assert extensions.pop("model_metrics").keys() == {"gpt-5.4", "gpt-5-mini"}
    assert session == Session(
        key=KEY,
        id=SESSION,
        agent="copilot-cli",
        origin=Origin(path=str(path)),
        title='Fix empty-cart "checkout"',
        summary="The total is null for empty carts",
        workspace="/home/ana/shop",
        git_branch="fix/cart",
        agent_version="1.0.63",
        usage=Usage(
            input_tokens=5000 + 400 + 30,
            output_tokens=160 + 50 + 7,
            cache_creation_tokens=1000,
            cache_read_tokens=15100,
        ),
        extensions=session.extensions,
    )
    assert extensions == {
        "git_root": "/home/ana/shop",
        "repository": "acme/shop",
        "host_type": "github",
        "head_commit": "0123abc",
        "user_named": "false",
        "producer": "copilot-agent",
        "log_version": 1,
        "start_time": "2026-04-01T08:00:00.000Z",
        "info": {"mcp": "Configured MCP servers: github"},
        "system_prompt_chars": 31,
        "premium_requests": 1,
        "api_duration_ms": 5000,
        "shutdown_type": "routine",
        "resumes": 1,
    }


def test_prompt_keeps_raw_text_attachments_and_injected_context_apart() -> None:
    stamp = {"uuid": "e4", "at": at("2026-04-01T08:00:02")}
    assert fixture().transcripts[0].messages[0] == Message(
        Role.USER,
        (
            Text("Why does checkout fail?", **stamp),
            Attachment("file", "/home/ana/shop/cart.ts", **stamp),
            Attachment("selection", "/home/ana/shop/total.ts", text="return null", **stamp),
        ),
        **stamp,
        cwd="/home/ana/shop",
        git_branch="main",
        agent_version="1.0.63",
        extensions={
            "agent_mode": "interactive",
            "transformed": "<current_datetime>2026-04-01T08:00:02Z</current_datetime>\n\nWhy does checkout fail?",
        },
    )


def test_results_are_joined_to_their_requests() -> None:
    stamp = {"uuid": "e6", "parent_uuid": "e4", "at": at("2026-04-01T08:00:05")}
    answer = fixture().transcripts[0].messages[1]
    assert (answer.model, answer.api_id, answer.usage) == ("gpt-5.4", "m1", Usage(output_tokens=120))
    assert answer.blocks == (
        Thinking("Check the tests first.", **stamp),
        ToolCall(
            "call_1",
            "bash",
            ToolType.SHELL,
            {"command": "npm test", "description": "Run tests"},
            "3 failing",
            True,
            result_uuid="e8",
            result_parent_uuid="e6",
            result_at=at("2026-04-01T08:00:09"),
            details={"intention": "Run tests", "exit_code": 1},
            **stamp,
        ),
        ToolCall(
            "call_2",
            "edit",
            ToolType.WRITE,
            {"path": "/home/ana/shop/cart.ts", "old_str": "null", "new_str": "0"},
            "The user rejected this tool call.",
            False,
            result_uuid="e9",
            result_parent_uuid="e8",
            result_at=at("2026-04-01T08:00:10"),
            paths=("/home/ana/shop/cart.ts",),
            details={"error_code": "rejected"},
            **stamp,
        ),
    )


def test_patch_names_its_files_also_the_one_that_was_moved(tmp_path: Path) -> None:
    patch = "*** Begin Patch\n*** Update File: a.py\n*** Move to: b.py\n@@\n-x\n*** Delete File: a.py\n*** End Patch"
    Events().start().user("go").asks("c1", "apply_patch", patch).write(tmp_path)
    (call,) = read(tmp_path).transcripts[0].messages[1].tool_calls
    assert call.paths == ("a.py", "b.py")


def test_everything_left_out_is_counted_by_kind() -> None:
    reading = fixture()
    assert (reading.skipped, reading.bad_line_count, reading.lines) == (
        {"session.info": 1, "system.message": 1, "assistant.turn_start": 1, "assistant.turn_end": 1},
        0,
        19,
    )


def test_sub_agent_tagged_by_agent_id_is_a_child_transcript() -> None:
    main, child = fixture().transcripts
    path = FIXTURES / "session-state" / SESSION / "events.jsonl"
    assert child == Transcript(
        Session(
            key=f"{KEY}/agent-ag-1",
            id="agent-ag-1",
            agent="copilot-cli",
            origin=Origin(path=str(path)),
            title="Explore: Find refunds",
            workspace="/home/ana/shop",
            git_branch="fix/cart",
            agent_version="1.0.63",
            is_agent_session=True,
            parent_session_id=SESSION,
            parent_key=KEY,
            agent_id="ag-1",
            extensions={"agent_type": "explore", "description": "Read-only search"},
        ),
        (
            Message(
                Role.ASSISTANT,
                (Text("Found refund.ts", "e17", None, at("2026-04-02T08:01:05")),),
                uuid="e17",
                at=at("2026-04-02T08:01:05"),
                model="gpt-5-mini",
                api_id="m4",
                cwd="/home/ana/shop",
                git_branch="fix/cart",
                agent_version="1.0.63",
                is_sidechain=True,
            ),
        ),
    )
    (call,) = main.messages[-1].tool_calls
    assert (call.id, call.agent_session, call.result) == ("call_3", child.session.key, "Found refund.ts")


def test_sub_agent_tagged_only_by_the_call_that_started_it(tmp_path: Path) -> None:
    log = Events().start().user("go").asks("call_2", "task", {"description": "Look"})
    log.add("subagent.started", toolCallId="call_2", agentName="explore")
    log.asks("call_3", "grep", {"pattern": "x"}, parentToolCallId="call_2")
    log.done("call_3", "found", parentToolCallId="call_2").done("call_2", "done").says("Over.")
    log.write(tmp_path)
    main, child = read(tmp_path).transcripts
    assert (child.session.key, child.session.agent_id) == (f"{KEY}/agent-call_2", "call_2")
    assert [(c.id, c.result) for m in child.messages for c in m.tool_calls] == [("call_3", "found")]
    assert [m.uuid for m in main.messages] == ["e2", "e3", "e8"]
    assert main.messages[1].tool_calls[0].agent_session == child.session.key


def test_sub_agent_whose_tag_changes_stays_one_transcript(tmp_path: Path) -> None:
    log = Events().start().user("go").says("Looking", parentToolCallId="call_2")
    log.says("Found", "ag-1", parentToolCallId="call_2").says("Again", "ag-1")
    log.write(tmp_path)
    assert [(t.session.agent_id, len(t.messages)) for t in read(tmp_path).transcripts] == [(None, 1), ("call_2", 3)]


def test_two_sub_agents_at_once_are_not_mixed(tmp_path: Path) -> None:
    log = Events().start().user("go")
    for call in ("call_1", "call_2"):
        log.add("subagent.started", toolCallId=call, agentName=call)
    log.says("one", "a", parentToolCallId="call_1").says("two", "b").says("one more", "a")
    log.add("session.model_change", "a", newModel="small").says("by small", "a").says("mine")
    log.write(tmp_path)
    main, a, b = read(tmp_path).transcripts
    assert [m.text for m in a.messages] == ["one", "one more", "by small"]
    assert [m.text for m in b.messages] == ["two"]
    assert (a.messages[-1].model, main.messages[-1].model) == ("small", "gpt-5.4")


def test_bad_line_in_the_middle_loses_one_line(tmp_path: Path) -> None:
    lines = Events().start().user("first").says("second").says("third").lines
    lines[2] = lines[2][:40]
    reading = parse_text(tmp_path / SESSION / "events.jsonl", "\n".join([*lines, ""]).encode())
    assert [m.text for m in reading.transcripts[0].messages] == ["first", "third"]
    assert (reading.bad_line_count, reading.bad_lines[0][0]) == (1, 3)


def test_lone_surrogates_become_writable_text(tmp_path: Path) -> None:
    log = Events().start("id-\ud83d").user("broken \ud83d emoji").asks("c\udc00", "bash", {"command": "\ud83d"})
    log.done("c\udc00", "\udfff")
    log.write(tmp_path, "s")
    (transcript,) = read(tmp_path).transcripts
    assert transcript.session.id == "id-?"
    assert transcript.messages[0].text == "broken ? emoji"
    assert transcript.messages[1].tool_calls[0].result == "?"


@pytest.mark.parametrize(
    ("written", "read_as"),
    [
        ("2026-04-01T08:00:02.000Z", at("2026-04-01T08:00:02")),
        ("2026-04-01T10:00:02+02:00", at("2026-04-01T08:00:02")),
        ("2026-04-01T08:00:02", at("2026-04-01T08:00:02")),
        (1775030402, at("2026-04-01T08:00:02")),
        (1775030402000, at("2026-04-01T08:00:02")),
        ("1775030402000", at("2026-04-01T08:00:02")),
        (1775030402.5, at("2026-04-01T08:00:02.500000")),
        ("yesterday", None),
        (-1, None),
        (10**30, None),
        (True, None),
        ([], None),
        (None, None),
    ],
)
def test_timestamps_of_every_shape(tmp_path: Path, written: Any, read_as: datetime | None) -> None:
    line = {"type": "user.message", "id": "e1", "timestamp": written, "data": {"content": "hi"}}
    reading = parse_text(tmp_path / "s" / "events.jsonl", json.dumps(line).encode())
    (transcript,) = reading.transcripts
    assert transcript.messages[0].at == read_as
    assert ("time_of_file" in transcript.session.extensions) == (read_as is None)


def test_blank_session_gives_no_transcript_and_is_counted(tmp_path: Path) -> None:
    Events().start().add("session.error", message="No network").add("session.shutdown").write(tmp_path)
    reading = read(tmp_path)
    assert (reading.transcripts, reading.skipped) == ([], {"blank session": 1, "blank session/system message": 1})


def test_start_completion_and_repeated_records_of_one_call(tmp_path: Path) -> None:
    log = Events().start().user("go")
    log.add("tool.execution_start", toolCallId="c", toolName="bash", arguments={"command": "a"})
    log.done("c", "one").done("c", "two")
    log.done("lost", "", success=None, result="plain").asks("open", "bash", {"command": "b"})
    log.write(tmp_path)
    messages = read(tmp_path).transcripts[0].messages
    calls = [(m.role, c.name, c.result, c.success) for m in messages for c in m.tool_calls]
    assert calls == [
        (Role.ASSISTANT, "bash", "one", True),
        (Role.TOOL, "bash", "two", True),
        (Role.TOOL, "unknown", "plain", True),
        (Role.ASSISTANT, "bash", None, None),
    ]


def test_reasoning_event_and_reasoning_text_are_not_both_kept(tmp_path: Path) -> None:
    log = Events().start().user("go").add("assistant.turn_start")
    log.add("assistant.reasoning", content="Think.").says("Said.", reasoningText="Think.")
    log.add("assistant.reasoning", content="Think.").add("assistant.turn_start")
    log.add("assistant.reasoning", content="Think.").says("Again.")
    log.write(tmp_path)
    reading = read(tmp_path)
    kept = [(m.uuid, m.thinking, m.text) for m in reading.transcripts[0].messages[1:]]
    assert kept == [("e4", "Think.", "Said."), ("e8", "Think.", "Again.")]
    assert reading.skipped["assistant.reasoning/repeated"] == 1


def test_duplicate_event_is_dropped_and_reused_id_is_not_trusted(tmp_path: Path) -> None:
    lines = Events().start().user("one").user("two").lines
    third = json.loads(lines[2]) | {"id": "e2"}
    text = "\n".join([*lines[:2], lines[1], json.dumps(third)])
    reading = parse_text(tmp_path / "s" / "events.jsonl", text.encode())
    assert [(m.uuid, m.text) for m in reading.transcripts[0].messages] == [("e2", "one"), (None, "two")]
    assert reading.skipped == {"duplicate event": 1}


def test_session_id_that_tries_to_climb_is_only_text(tmp_path: Path) -> None:
    Events().start("../../etc/passwd").user("hi").write(tmp_path, "s")
    (transcript,) = read(tmp_path).transcripts
    assert transcript.session.key == "copilot-cli:../../etc/passwd"
    assert CopilotCli().resume(transcript.session) is None


def test_session_id_that_comes_after_a_message_does_not_rename_the_session(tmp_path: Path) -> None:
    Events().user("hi").start("late").write(tmp_path, "folder")
    Events().start("x" * 1000).user("hi").write(tmp_path, "long")
    found = [CopilotCli().parse(s).transcripts[0].session.id for s in CopilotCli().discover(tmp_path).sources]
    assert found == ["folder", "long"]


def test_resume_names_the_session_and_its_folder() -> None:
    main, child = (t.session for t in fixture().transcripts)
    expected = Resume(("copilot", f"--resume={SESSION}"), "/home/ana/shop")
    assert (CopilotCli().resume(main), CopilotCli().resume(child)) == (expected, expected)


def test_detached_session_names_its_parent(tmp_path: Path) -> None:
    Events().start(detachedFromSpawningParentSessionId="p1").user("hi").write(tmp_path)
    session = read(tmp_path).transcripts[0].session
    assert (session.parent_session_id, session.parent_key, session.is_agent_session) == ("p1", "copilot-cli:p1", False)


@pytest.mark.parametrize(
    ("yaml", "expected"),
    [
        (b"name: It's done # really\n", ("It's done", None)),
        (b"name: 'It''s'\ncwd: C:\\shop\n", ("It's", "C:\\shop")),
        (b"name: |\n  two\n  lines\n", ("two\nlines", None)),
        (b"name: [a, b]\nsummary: {x: 1}\n", (None, None)),
        (b"name: ~\nsummary: plain\n", ("plain", None)),
        (b"\xff\xfe\0\0:::\n- - -\n\tname: x\n", (None, None)),
        (b'name: "half', ("half", None)),
        (b"", (None, None)),
    ],
)
def test_workspace_yaml_of_any_shape(tmp_path: Path, yaml: bytes, expected: tuple[str | None, str | None]) -> None:
    path = Events().start(context=None).user("hi").write(tmp_path)
    path.with_name("workspace.yaml").write_bytes(yaml)
    session = read(tmp_path).transcripts[0].session
    assert (session.title, session.workspace) == expected


def test_trusted_folder_serves_where_no_folder_is_recorded(tmp_path: Path) -> None:
    log = Events().start(context=None)
    log.add("session.info", infoType="folder_trust", message="Folder /srv/shop has been added to trusted folders.")
    log.user("hi").write(tmp_path)
    assert read(tmp_path).transcripts[0].session.workspace == "/srv/shop"
