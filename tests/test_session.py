"""The unified model: what is derived from a session's messages."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from agent_journal.session import (
    Derived,
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
    project_name,
    prompt_title,
    shortened,
    tool_type,
    usage_once,
)

AT = datetime(2026, 3, 2, 9, 15, tzinfo=UTC)


def session(**facts: object) -> Session:
    given = {"key": "claude-code:s1", "id": "s1", "agent": "claude-code", "origin": Origin("/s1.jsonl")}
    return Session(**(given | facts))  # type: ignore[arg-type]


def said(role: Role, text: str, **facts: object) -> Message:
    return Message(role, (Text(text),), **facts)  # type: ignore[arg-type]


def test_derived_facts_of_a_small_session() -> None:
    usage = Usage(
        input_tokens=10, output_tokens=5, cache_creation_tokens=25, cache_read_tokens=75, service_tier="standard"
    )
    failed = ToolCall("t1", "Bash", result="no", success=False)
    unanswered = ToolCall("t2", "Read")
    found = derive(
        session(workspace="/home/ana/shop"),
        [
            said(Role.USER, "<local-command-caveat>…", is_meta=True, at=AT),
            said(Role.USER, "# Why does checkout fail?", at=AT + timedelta(seconds=2)),
            Message(Role.ASSISTANT, (failed, unanswered), api_id="m1", usage=usage, at=AT + timedelta(seconds=90)),
            said(Role.USER, "sub-agent's prompt", is_sidechain=True, at=AT + timedelta(seconds=30)),
        ],
    )
    assert found == Derived(
        title="Why does checkout fail?",
        project="shop",
        started_at=AT,
        ended_at=AT + timedelta(seconds=90),
        message_count=4,
        turn_count=1,
        user_record_count=3,
        tool_call_count=2,
        error_count=1,
        usage=usage,
    )
    assert (found.duration_seconds, usage.total_tokens, usage.cache_hit_rate) == (90, 15, 0.75)


def test_session_without_messages_or_times_derives_zeros() -> None:
    found = derive(session(), [said(Role.SYSTEM, "x")])
    assert (found.title, found.project, found.started_at, found.ended_at) == ("", "", None, None)
    assert (found.duration_seconds, found.error_count) == (0, 0)
    assert (found.usage.total_tokens, found.usage.cache_hit_rate) == (0, None)


def test_times_that_run_backwards_give_smallest_and_largest() -> None:
    found = derive(session(), [said(Role.USER, "b", at=AT + timedelta(hours=1)), said(Role.USER, "a", at=AT)])
    assert (found.started_at, found.duration_seconds) == (AT, 3600)


def test_title_is_own_then_summary_then_first_human_prompt() -> None:
    prompts = [said(Role.USER, "<system-reminder>", is_meta=True), said(Role.USER, "fix   the\ncart")]
    assert derive(session(title="T", summary="S"), prompts).title == "T"
    assert derive(session(summary="S"), prompts).title == "S"
    assert derive(session(), prompts).title == "fix the cart"


def test_prompt_that_is_only_markup_does_not_leave_the_session_untitled() -> None:
    assert derive(session(), [said(Role.USER, "<b></b>"), said(Role.USER, "fix it")]).title == "fix it"


def test_long_title_is_cut_at_a_word() -> None:
    assert shortened("word " * 40) == "word " * 14 + "word…"
    assert shortened("x" * 200) == "x" * 79 + "…"
    assert shortened(" " * 5000 + "late words") == "late words"
    assert prompt_title("\n" * 5000 + "## late words") == "late words"


def test_agents_own_totals_win_over_summed_messages() -> None:
    own = Usage(input_tokens=1000)
    answer = Message(Role.ASSISTANT, (), api_id="m", usage=Usage(input_tokens=1))
    assert derive(session(usage=own), [answer]).usage == own


def test_usage_repeated_on_streamed_records_counts_once_with_the_largest_output() -> None:
    def answer(api_id: str | None, out: int) -> Message:
        return Message(Role.ASSISTANT, (), api_id=api_id, usage=Usage(input_tokens=4, output_tokens=out))

    found = list(usage_once([answer("m1", 2), answer("m1", 159), answer("m1", 3), answer(None, 7), answer(None, 7)]))
    assert sorted(u.output_tokens for u in found) == [7, 7, 159]


def test_only_spoken_main_thread_user_text_is_human() -> None:
    assert said(Role.USER, "hi").is_human
    assert not said(Role.USER, " \n").is_human
    assert not said(Role.USER, "hi", is_meta=True).is_human
    assert not said(Role.USER, "hi", is_sidechain=True).is_human
    assert not said(Role.ASSISTANT, "hi").is_human


def test_text_and_thinking_are_joined_by_an_empty_line_apart_from_each_other() -> None:
    message = Message(Role.ASSISTANT, (Thinking("t1"), Text("a"), ToolCall("1", "Bash"), Text("b"), Thinking("t2")))
    assert (message.text, message.thinking) == ("a\n\nb", "t1\n\nt2")


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("Write", ToolType.WRITE),
        ("Edit", ToolType.WRITE),
        ("CreateFile", ToolType.WRITE),
        ("Read", ToolType.READ),
        ("Cat", ToolType.READ),
        ("view_file", ToolType.READ),
        ("Grep", ToolType.SEARCH),
        ("Glob", ToolType.SEARCH),
        ("Find", ToolType.SEARCH),
        ("WebSearch", ToolType.SEARCH),
        ("Bash", ToolType.SHELL),
        ("Execute", ToolType.SHELL),
        ("RunCommand", ToolType.SHELL),
        ("TodoWrite", ToolType.TASK),
        ("TaskManager", ToolType.TASK),
        ("ExitPlanMode", ToolType.GENERIC),
        ("mcp__github__get_issue", ToolType.GENERIC),
        ("Frobnicate", ToolType.UNKNOWN),
        ("", ToolType.UNKNOWN),
    ],
)
def test_tool_type_by_name(name: str, kind: ToolType) -> None:
    assert tool_type(name) is kind


@pytest.mark.parametrize(
    ("workspace", "name"),
    [
        ("/home/ana/shop", "shop"),
        ("/home/ana/shop/", "shop"),
        ("C:\\work\\api", "api"),
        ("C:\\work/api", "api"),
        ("/", ""),
        ("", ""),
        (None, ""),
    ],
)
def test_project_name_is_the_last_part_of_either_systems_path(workspace: str | None, name: str) -> None:
    assert project_name(workspace) == name
