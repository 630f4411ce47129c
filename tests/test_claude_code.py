"""Claude Code's records, and the messages and facts they become. Layouts on disk are in test_claude_files."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from logs import (
    CWD,
    SESSION,
    assistant,
    messages,
    read,
    said,
    source,
    text,
    thinking,
    tool_result,
    tool_use,
    transcript,
    user,
)

from agent_journal.connectors.claude_code import ClaudeCode
from agent_journal.session import (
    Attachment,
    Message,
    Origin,
    Role,
    Session,
    Text,
    Thinking,
    ToolCall,
    ToolType,
    Usage,
    derive,
)

FIXTURE = Path(__file__).parent / "fixtures" / "claude" / "checkout.jsonl"


def at(clock: str) -> datetime:
    return datetime.fromisoformat(f"2026-03-02T{clock}").replace(tzinfo=UTC)


def uuid(n: int) -> str:
    return f"a1111111-0000-4000-8000-{n:012}"


def test_whole_small_session_as_values() -> None:
    reading = ClaudeCode().parse(source(FIXTURE))
    (found,) = reading.transcripts
    common: dict[str, Any] = {"cwd": CWD, "git_branch": "main"}
    assert found.session == Session(
        key="claude-code:checkout",
        id="checkout",
        agent="claude-code",
        origin=Origin(path=str(FIXTURE)),
        summary="Fix empty-cart checkout",
        slug="calm-jumping-otter",
        workspace=CWD,
        workspace_encoded="claude",
        git_branch="main",
        agent_version="2.1.100",
        parent_session_id=SESSION,
        parent_key=f"claude-code:{SESSION}",
        extensions={
            "pr_links": [{"number": 42, "url": "https://example.test/pr/42", "repository": "acme/shop"}],
            "tracked_files": ["src/cart.ts"],
        },
    )
    call = ToolCall(
        id="toolu_01AAA",
        name="Bash",
        type=ToolType.SHELL,
        arguments={"command": "npm test", "description": "Run tests"},
        result="3 tests failed",
        success=False,
        result_uuid=uuid(4),
        result_parent_uuid=uuid(3),
        result_at=at("09:15:08"),
        details={"exit_code": 1, "error": "Exit code 1"},
        uuid=uuid(3),
        parent_uuid=uuid(2),
        at=at("09:15:05"),
    )
    assert found.messages == (
        Message(
            Role.USER,
            (Text("Why does checkout fail for empty carts?", uuid(1), None, at("09:15:00.120")),),
            uuid=uuid(1),
            at=at("09:15:00.120"),
            agent_version="2.1.99",
            user_type="external",
            extensions={"permission_mode": "default"},
            **common,
        ),
        Message(
            Role.ASSISTANT,
            (Thinking("The cart total is probably null.", uuid(2), uuid(1), at("09:15:03")), call),
            uuid=uuid(2),
            parent_uuid=uuid(1),
            at=at("09:15:03"),
            model="claude-opus-4-6",
            api_id="msg_01ABC",
            request_id="req_011X",
            stop_reason="tool_use",
            usage=Usage(4, 159, 2100, 15000),
            agent_version="2.1.100",
            **common,
        ),
        Message(
            Role.ASSISTANT,
            (Text("API Error: 529 overloaded", uuid(6), uuid(4), at("09:16:00")),),
            uuid=uuid(6),
            parent_uuid=uuid(4),
            at=at("09:16:00"),
            api_id="b2222222-0000-4000-8000-000000000001",
            stop_reason="stop_sequence",
            is_error=True,
        ),
    )
    assert reading.skipped == {"summary": 1, "attribution-snapshot": 1}
    assert (reading.lines, reading.bad_line_count, reading.unfinished) == (10, 0, False)


# Streamed records.


def test_records_sharing_a_message_id_are_one_message_even_when_others_stand_between(tmp_path: Path) -> None:
    (answer, prompt) = messages(
        tmp_path,
        assistant("1", thinking("hm"), id="m", out=1),
        assistant("2", tool_use("t1"), id="m", out=90),
        user("3", [tool_result("t1", "done")]),
        user("4", "and this?"),
        assistant("5", text("Said last."), id="m", out=40),
    )
    assert [type(b) for b in answer.blocks] == [Thinking, ToolCall, Text]
    assert [b.uuid for b in answer.blocks] == ["1", "2", "5"]
    assert answer.tool_calls[0].result == "done"
    assert answer.usage == Usage(input_tokens=4, output_tokens=90, cache_read_tokens=100)
    assert prompt.text == "and this?"


def test_usage_of_streamed_records_is_counted_once(tmp_path: Path) -> None:
    found = transcript(
        tmp_path, *(assistant(str(n), text(f"part {n}"), id="m", out=n) for n in range(1, 6)), assistant("9", text("x"))
    )
    assert derive(found.session, found.messages).usage == Usage(8, 10, 0, 200)


def test_growing_snapshots_of_a_text_leave_the_longest_in_the_first_place(tmp_path: Path) -> None:
    (answer,) = messages(
        tmp_path,
        assistant("1", text("The cart"), id="m"),
        assistant("2", text("The cart is null"), tool_use("t1", command="ls"), id="m"),
        assistant("3", text("The cart is null"), tool_use("t1", command="ls"), id="m"),
    )
    assert [b.text for b in answer.blocks if isinstance(b, Text)] == ["The cart is null"]
    assert [(c.id, c.arguments) for c in answer.tool_calls] == [("t1", {"command": "ls"})]


def test_snapshot_that_first_holds_a_calls_input_fills_it_in(tmp_path: Path) -> None:
    (answer,) = messages(
        tmp_path,
        assistant("1", tool_use("t1", "Read"), id="m"),
        assistant("2", tool_use("t1", "Read", file_path="/a.py"), id="m"),
    )
    assert [(c.arguments, c.paths) for c in answer.tool_calls] == [({"file_path": "/a.py"}, ("/a.py",))]


def test_answer_without_message_id_is_a_message_of_its_own(tmp_path: Path) -> None:
    records = (assistant(str(n), text(f"a{n}"), message={"id": None}) for n in range(2))
    assert said(messages(tmp_path, *records)) == [("assistant", "a0"), ("assistant", "a1")]


def test_empty_first_record_of_an_answer_stays_its_parent(tmp_path: Path) -> None:
    (answer, prompt) = messages(
        tmp_path,
        assistant("1", thinking(""), id="m", message={"usage": None}),
        assistant("2", text("hello"), id="m", parent="1"),
        user("3", "next", parent="1"),
    )
    assert (answer.uuid, answer.text, prompt.parent_uuid) == ("1", "hello", "1")


def test_stop_reason_is_read_in_both_spellings(tmp_path: Path) -> None:
    found = messages(
        tmp_path,
        assistant("1", text("a"), message={"stop_reason": "end_turn"}),
        assistant("2", text("b"), message={"stopReason": "max_tokens"}),
    )
    assert [m.stop_reason for m in found] == ["end_turn", "max_tokens"]


# Tool results.


def test_result_far_below_its_call_is_joined_and_missing_result_leaves_success_open(tmp_path: Path) -> None:
    (answer, _, later) = messages(
        tmp_path,
        assistant("1", tool_use("t1"), tool_use("t2")),
        user("2", "meanwhile"),
        assistant("3", text("ok")),
        user("4", [tool_result("t2")]),
    )
    assert [(c.id, c.result, c.success) for c in answer.tool_calls] == [("t1", None, None), ("t2", "ok", True)]
    assert later.text == "ok"


def test_result_written_before_its_call_is_joined_to_it(tmp_path: Path) -> None:
    found = messages(
        tmp_path,
        assistant("1", text("I run it"), id="m"),
        user("3", [tool_result("t1", "early")], parent="2"),
        assistant("2", tool_use("t1"), id="m", parent="1"),
        assistant("4", text("done")),
    )
    assert said(found) == [("assistant", "I run it"), ("assistant", "done")]
    assert [c.result for m in found for c in m.tool_calls] == ["early"]


def test_result_whose_call_never_comes_is_a_tool_message(tmp_path: Path) -> None:
    (lone, answer) = messages(tmp_path, user("1", [tool_result("t9", "left over")]), assistant("2", text("so")))
    assert (lone.role, lone.uuid, [c.result for c in lone.tool_calls]) == (Role.TOOL, "1", ["left over"])
    assert answer.text == "so"


def test_result_still_waiting_for_its_call_at_the_end_is_counted(tmp_path: Path) -> None:
    reading = read(tmp_path, user("1", "go"), user("2", [tool_result("t9", "left over")]))
    assert said(reading.transcripts[0].messages) == [("user", "go")]
    assert reading.skipped == {"result before its call": 1}


def test_text_beside_a_result_is_a_message_of_its_own(tmp_path: Path) -> None:
    found = messages(tmp_path, assistant("1", tool_use("t1")), user("2", [tool_result("t1"), text("stop there")]))
    assert said(found) == [("assistant", ""), ("user", "stop there")]


@pytest.mark.parametrize(
    ("content", "result"),
    [
        ("plain", "plain"),
        ([text("a"), text("b")], "a\nb"),
        ([{"type": "image", "source": {"type": "base64", "data": "A" * 9000}}], "[image]"),
        ([{"type": "tool_reference", "tool_name": "Grep"}], "Grep"),
        (None, ""),
    ],
)
def test_result_content_in_every_shape(tmp_path: Path, content: Any, result: str) -> None:
    (answer,) = messages(tmp_path, assistant("1", tool_use("t1")), user("2", [tool_result("t1", content)]))
    assert [(c.result, c.success) for c in answer.tool_calls] == [(result, True)]


def test_tool_use_result_adds_facts_but_never_repeats_text(tmp_path: Path) -> None:
    outcome = {"stdout": "3 passed", "stderr": "warning: old", "interrupted": True, "isImage": False, "code": 200}
    (answer,) = messages(
        tmp_path, assistant("1", tool_use("t1")), user("2", [tool_result("t1", "3 passed")], toolUseResult=outcome)
    )
    assert answer.tool_calls[0].details == {"interrupted": True, "code": 200, "stderr": "warning: old"}


def test_providers_own_tools_answer_inside_the_assistants_record(tmp_path: Path) -> None:
    search = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "q"}}
    hits = [{"type": "web_search_result", "title": "T", "url": "https://t.test"}]
    failure = {"type": "web_search_tool_result_error", "error_code": "max_uses_exceeded"}
    (answer,) = messages(
        tmp_path,
        assistant(
            "1",
            search,
            {"type": "web_search_tool_result", "tool_use_id": "s1", "content": hits},
            search | {"id": "s2"},
            {"type": "web_search_tool_result", "tool_use_id": "s2", "content": failure},
        ),
    )
    assert [(c.type, c.result, c.success) for c in answer.tool_calls] == [
        (ToolType.SEARCH, "T https://t.test", True),
        (ToolType.SEARCH, "web_search_tool_result_error: max_uses_exceeded", False),
    ]


def test_images_are_named_without_their_bytes_and_unknown_blocks_are_counted(tmp_path: Path) -> None:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "A" * 100_000}}
    reading = read(
        tmp_path,
        user("1", [text("see"), image]),
        assistant("2", {"type": "redacted_thinking", "data": "zzz"}, {"type": "fallback"}, thinking(""), text("ok")),
        assistant("3", tool_use("t", "Upload", data="A" * 9000)),
    )
    prompt, answer, upload = reading.transcripts[0].messages
    assert [b for b in prompt.blocks if isinstance(b, Attachment)] == [
        Attachment("image", "", "image/png", "", "1", None, at("09:15:00"))
    ]
    assert len(answer.blocks) == 1
    assert upload.tool_calls[0].arguments == {"data": "[9000 characters of encoded data]"}
    assert reading.skipped == {"block/redacted_thinking": 1, "block/fallback": 1, "block/empty thinking": 1}
