"""What a Claude Code transcript says of its session: titles, folder, parents; and the links between its records."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from logs import (
    CWD,
    SESSION,
    assistant,
    chain,
    messages,
    read,
    said,
    text,
    thinking,
    tool_result,
    tool_use,
    transcript,
    user,
)

from agent_journal.connectors.claude_code import ClaudeCode
from agent_journal.session import Origin, Resume, Session, Usage, derive

PROMPT = user("1", "first prompt")
CUSTOM = {"type": "custom-title", "customTitle": "cart bug", "sessionId": SESSION}
AI = {"type": "ai-title", "aiTitle": "Diagnose checkout", "sessionId": SESSION}
SUMMARY = {"type": "summary", "summary": "Fix checkout", "leafUuid": "1"}
LAST = {"type": "last-prompt", "lastPrompt": "the last one", "sessionId": SESSION}


@pytest.mark.parametrize(
    ("records", "title"),
    [
        ([SUMMARY, AI, CUSTOM, LAST, PROMPT], "cart bug"),
        ([PROMPT, CUSTOM, CUSTOM | {"customTitle": "renamed"}], "renamed"),
        ([PROMPT, AI, CUSTOM, CUSTOM | {"customTitle": ""}], "Diagnose checkout"),
        ([PROMPT, AI, AI | {"aiTitle": "Newer"}, SUMMARY, LAST], "Newer"),
        ([SUMMARY, PROMPT, LAST], "Fix checkout"),
        ([PROMPT, SUMMARY | {"leafUuid": None}], "Fix checkout"),
        ([PROMPT, SUMMARY | {"leafUuid": "in another file"}], "first prompt"),
        ([PROMPT, LAST], "first prompt"),
        ([user("1", "<bash-input>ls</bash-input>"), LAST], "the last one"),
    ],
)
def test_title_order(tmp_path: Path, records: list[dict[str, Any]], title: str) -> None:
    found = transcript(tmp_path, *records)
    assert derive(found.session, found.messages).title == title


def test_folder_and_slug_come_from_the_first_record_branch_and_version_from_the_last(tmp_path: Path) -> None:
    found = transcript(
        tmp_path,
        chain("system", "0", None, content="x", cwd="/elsewhere"),
        user("1", "a", cwd="", gitBranch="", slug="calm-otter"),
        user("2", "b"),
        user("3", "c", cwd="/home/ana/other", gitBranch="fix/cart", version="2.1.101", slug="new-slug"),
        user("4", "d", cwd="/home/ana/other", gitBranch="", version=""),
    )
    session = found.session
    assert (session.workspace, session.slug) == (CWD, "calm-otter")
    assert (session.git_branch, session.agent_version) == ("fix/cart", "2.1.101")
    assert [m.cwd for m in found.messages] == ["/elsewhere", None, CWD, "/home/ana/other", "/home/ana/other"]


def test_relocated_session_belongs_to_its_new_folder(tmp_path: Path) -> None:
    moved = {"type": "relocated", "relocatedCwd": "/srv/shop", "sessionId": SESSION}
    assert transcript(tmp_path, PROMPT, moved).session.workspace == "/srv/shop"


def test_bookkeeping_is_kept_as_facts_and_the_last_record_of_a_kind_holds(tmp_path: Path) -> None:
    found = transcript(
        tmp_path,
        user("1", "a", entrypoint="cli", thinkingMetadata={"level": "high", "disabled": False, "triggers": []}),
        {"type": "tag", "tag": "old"},
        {"type": "tag", "tag": "billing"},
        {"type": "agent-setting", "agentSetting": "security-reviewer"},
        {"type": "worktree-state", "worktreeSession": {"worktreeBranch": "wt"}},
        {"type": "mode", "mode": "plan"},
        {"type": "mode", "mode": None},
    )
    assert found.session.extensions == {
        "entrypoint": "cli",
        "tag": "billing",
        "agent_setting": "security-reviewer",
        "worktree": {"worktreeBranch": "wt"},
    }
    assert found.messages[0].extensions == {"thinking_metadata": {"level": "high", "disabled": False, "triggers": []}}


def test_unknown_record_types_are_counted_and_do_no_harm(tmp_path: Path) -> None:
    reading = read(tmp_path, PROMPT, {"type": "marble-origami-commit", "x": 1}, {"no": "type"}, {"type": 7})
    assert said(reading.transcripts[0].messages) == [("user", "first prompt")]
    assert reading.skipped == {"marble-origami-commit": 1, "untyped": 2}


def test_file_without_conversation_is_no_session(tmp_path: Path) -> None:
    snapshot = {"type": "file-history-snapshot", "messageId": "m", "snapshot": {}}
    assert read(tmp_path, SUMMARY, snapshot, LAST).transcripts == []


# Identity, copies and branches.


def test_stem_is_the_session_id_and_a_foreign_id_in_the_records_is_its_parent(tmp_path: Path) -> None:
    own = "0e000000-0000-4000-8000-000000000000"
    session = transcript(tmp_path, user("1", "old"), user("2", "new", sessionId=own), name=own).session
    assert (session.key, session.id) == (f"claude-code:{own}", own)
    assert (session.parent_session_id, session.parent_key) == (SESSION, f"claude-code:{SESSION}")
    assert not session.is_agent_session


def test_fork_keeps_the_uuids_of_what_it_copied_and_names_its_origin(tmp_path: Path) -> None:
    fork_id = "0f000000-0000-4000-8000-000000000000"
    records = [user("1", "shared"), assistant("2", text("answer"), parent="1")]
    origin = {"sessionId": SESSION, "messageUuid": "1"}
    copies = [r | {"sessionId": fork_id, "forkedFrom": origin} for r in records]
    first = transcript(tmp_path, *records)
    fork = transcript(tmp_path, *copies, user("3", "other way", parent="2", sessionId=fork_id), name=fork_id)
    assert [m.uuid for m in first.messages] == ["1", "2"]
    assert [m.uuid for m in fork.messages] == ["1", "2", "3"]
    assert [m.api_id for m in fork.messages][:2] == [m.api_id for m in first.messages]
    assert fork.session.parent_session_id == SESSION
    assert [m.extensions.get("forked_from") for m in fork.messages] == [origin, origin, None]


def test_record_written_twice_is_taken_once_and_counted(tmp_path: Path) -> None:
    reading = read(tmp_path, user("1", "once"), user("1", "once"), user("1", "changed"))
    assert said(reading.transcripts[0].messages) == [("user", "once")]
    assert reading.skipped == {"duplicate uuid": 2}


def test_parents_that_became_nothing_are_walked_over(tmp_path: Path) -> None:
    progress = chain("progress", "2", "1", data={"type": "hook_progress"})
    (_, answer) = messages(
        tmp_path,
        user("1", "go"),
        progress,
        chain("attachment", "3", "2", attachment={"type": "hook_success"}),
        assistant("4", text("gone"), parent="3"),
    )
    assert answer.parent_uuid == "1"
    assert [b.parent_uuid for b in answer.blocks] == ["1"]


def test_parents_in_a_circle_end_nowhere(tmp_path: Path) -> None:
    (prompt, answer) = messages(
        tmp_path,
        user("0", "self", parent="0"),
        chain("progress", "1", "2", data={}),
        chain("progress", "2", "1", data={}),
        assistant("3", text("hi"), parent="1"),
    )
    assert (prompt.parent_uuid, answer.parent_uuid) == (None, None)


def test_rewound_branches_are_all_kept_in_file_order(tmp_path: Path) -> None:
    found = messages(tmp_path, user("1", "root"), user("2", "abandoned", parent="1"), user("3", "taken", parent="1"))
    assert [(m.text, m.parent_uuid) for m in found] == [("root", None), ("abandoned", "1"), ("taken", "1")]


def test_sidechain_inside_the_main_file_is_marked_message_by_message(tmp_path: Path) -> None:
    found = transcript(
        tmp_path,
        user("1", "main"),
        user("2", "look around", isSidechain=True),
        assistant("3", text("found"), parent="2", isSidechain=True),
    )
    assert [m.is_sidechain for m in found.messages] == [False, True, True]
    assert not found.session.is_agent_session
    assert derive(found.session, found.messages).turn_count == 1


def test_file_of_sidechains_only_is_an_agent_session(tmp_path: Path) -> None:
    assert transcript(tmp_path, user("1", "look", isSidechain=True)).session.is_agent_session


def test_warm_up_of_a_sub_agent_is_dropped_with_all_its_answers(tmp_path: Path) -> None:
    warm = [
        user("1", "Warmup", isSidechain=True),
        assistant("2", text("Ready."), parent="1", isSidechain=True),
        user("3", [tool_result("t")], parent="2", isSidechain=True),
    ]
    reading = read(tmp_path, *warm, user("4", "Warmup"))
    assert said(reading.transcripts[0].messages) == [("user", "Warmup")]
    assert reading.skipped == {"warm-up": 3}
    assert read(tmp_path, *warm).transcripts == []


# Times and tokens.


def test_messages_keep_file_order_when_times_run_backwards_or_are_missing(tmp_path: Path) -> None:
    found = transcript(
        tmp_path,
        user("1", "a", timestamp="2026-03-02T10:00:00Z"),
        user("2", "b", timestamp=1772442900120),
        user("3", "c", timestamp=None),
        user("4", "d", timestamp="yesterday"),
        {"type": "pr-link", "prNumber": 1, "timestamp": "2027-01-01T00:00:00Z"},
    )
    assert [m.text for m in found.messages] == ["a", "b", "c", "d"]
    assert [m.at is None for m in found.messages] == [False, False, True, True]
    derived = derive(found.session, found.messages)
    assert derived.started_at is not None
    assert derived.started_at.isoformat() == "2026-03-02T09:15:00.120000+00:00"
    assert derived.ended_at is not None
    assert derived.ended_at.isoformat() == "2026-03-02T10:00:00+00:00"


def test_session_without_any_time_names_its_files(tmp_path: Path) -> None:
    session = transcript(tmp_path, user("1", "a", timestamp=None)).session
    assert list(session.extensions) == ["time_of_file"]


def test_synthetic_message_has_no_model_and_no_usage(tmp_path: Path) -> None:
    (found,) = messages(tmp_path, assistant("1", text("No response requested."), message={"model": "<synthetic>"}))
    assert (found.text, found.model, found.usage) == ("No response requested.", None, None)


def test_all_counts_of_an_answer_are_read(tmp_path: Path) -> None:
    usage = {
        "input_tokens": 1,
        "output_tokens": 2,
        "cache_creation_input_tokens": 3,
        "cache_read_input_tokens": 4,
        "cache_creation": {"ephemeral_5m_input_tokens": 5, "ephemeral_1h_input_tokens": 6},
        "service_tier": "standard",
    }
    (found,) = messages(tmp_path, assistant("1", thinking("x"), message={"usage": usage}))
    assert found.usage == Usage(1, 2, 3, 4, 5, 6, "standard")


@pytest.mark.parametrize("wrong", [-1, "7", 1.5e300, True, None, [], float("nan")])
def test_wrong_counts_are_zero(tmp_path: Path, wrong: object) -> None:
    (found,) = messages(tmp_path, assistant("1", text("x"), message={"usage": {"output_tokens": wrong}}))
    assert found.usage == Usage()


# Going on with a session.


def session(**facts: Any) -> Session:
    return Session(**({"key": "k", "id": SESSION, "agent": "claude-code", "origin": Origin("/x")} | facts))


def test_resume_runs_in_the_sessions_folder_and_a_sub_agent_resumes_its_parent() -> None:
    assert ClaudeCode().resume(session(workspace=CWD)) == Resume(("claude", "--resume", SESSION), CWD)
    agent = session(id="agent-a1", agent_id="a1", parent_session_id=SESSION)
    assert ClaudeCode().resume(agent) == Resume(("claude", "--resume", SESSION), None)


@pytest.mark.parametrize("bad", ["../../etc/passwd", "--dangerously-skip", "a b", "a;b", "", "history/-home"])
def test_session_id_that_is_no_plain_name_is_never_put_in_a_command(bad: str) -> None:
    assert ClaudeCode().resume(session(id=bad)) is None


def test_link_from_a_call_to_the_sub_agent_it_started(tmp_path: Path) -> None:
    notice = "<task-notification>\n<task-id>{}</task-id>\n<tool-use-id>{}</tool-use-id>"
    (answer,) = messages(
        tmp_path,
        assistant(
            "1", tool_use("t1", "Task"), tool_use("t2", "Agent"), tool_use("t3", "Bash"), tool_use("t4", "Skill")
        ),
        user("2", [tool_result("t1")], toolUseResult={"agentId": "a1"}),
        {"type": "queue-operation", "operation": "enqueue", "content": [text(notice.format("a2", "t2"))]},
        {"type": "queue-operation", "operation": "enqueue", "content": notice.format("shell3", "t3")},
        chain("progress", "3", None, data={"type": "agent_progress", "agentId": "a4"}, parentToolUseID="t4"),
    )
    key = f"claude-code:{SESSION}/agent-"
    assert [c.agent_session for c in answer.tool_calls] == [f"{key}a1", f"{key}a2", None, f"{key}a4"]
