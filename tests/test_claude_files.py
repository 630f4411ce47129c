"""Claude Code's folders: which files make one source, sub-agents in every layout, spilled results, history."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from logs import (
    CWD,
    PROJECT,
    SESSION,
    agent_progress,
    assistant,
    lines,
    read,
    said,
    source,
    text,
    tool_result,
    tool_use,
    transcript_path,
    user,
    write,
)

from agent_journal.connectors.base import Discovery, Reading
from agent_journal.connectors.claude_code import ClaudeCode
from agent_journal.connectors.claude_history import encoded
from agent_journal.errors import UnreadableSource
from agent_journal.session import Attachment, Text, Transcript

CLAUDE = ClaudeCode()
ASKED = user("b1", "look at refunds", isSidechain=True, agentId="a7f")
FOUND = assistant("b2", text("Found refund.ts"), parent="b1", isSidechain=True, agentId="a7f")
KEY = f"claude-code:{SESSION}/agent-a7f"


def names(discovery: Discovery) -> list[str]:
    return [s.path.name for s in discovery.sources]


def all_transcripts(root: Path) -> dict[str, Transcript]:
    return {t.session.key: t for s in CLAUDE.discover(root).sources for t in CLAUDE.parse(s).transcripts}


# Where to look.


def test_roots_are_the_config_folder_and_an_old_place(tmp_path: Path) -> None:
    old = tmp_path / ".config" / "claude"
    assert CLAUDE.roots({}, tmp_path) == [tmp_path / ".claude", old]
    assert CLAUDE.roots({"CLAUDE_CONFIG_DIR": "/opt/c"}, tmp_path) == [Path("/opt/c"), old]
    assert CLAUDE.roots({"CLAUDE_CONFIG_DIR": "~/.config/claude"}, tmp_path) == [old]


def test_config_folder_of_any_name_its_projects_one_project_and_one_file_are_all_roots(tmp_path: Path) -> None:
    config = tmp_path / "work-claude"
    path = write(config / "projects" / PROJECT / f"{SESSION}.jsonl", user("1", "hi"))
    write(config / "todos" / "x" / "stray.jsonl", user("1", "not a session"))
    for root in (config, config / "projects", path.parent, path):
        assert names(CLAUDE.discover(root)) == [path.name]
    assert CLAUDE.discover(tmp_path / "missing") == Discovery()


def test_odd_things_in_a_project_are_passed_with_a_reason(tmp_path: Path) -> None:
    project = tmp_path / ".claude" / "projects" / PROJECT
    write(project / "good.jsonl", user("1", "hi"))
    (project / "folder.jsonl").mkdir()
    (project / "broken.jsonl").symlink_to(project / "nowhere")
    (project / "loop.jsonl").symlink_to(project / "loop.jsonl")
    (project / "loop").symlink_to(project / "loop")
    (project / "up").symlink_to(project.parent)
    (project / "notes.txt").write_text("x")
    write(project / "journal.jsonl", {"type": "x"})
    os.mkfifo(project / "pipe.jsonl")
    found = CLAUDE.discover(tmp_path / ".claude")
    assert names(found) == ["good.jsonl"]
    assert {path.name: reason for path, reason in found.passed} == {
        "folder.jsonl": "a folder named like a transcript",
        "broken.jsonl": "a broken link, or not a regular file",
        "loop.jsonl": "a broken link, or not a regular file",
        "loop": "not a .jsonl file",
        "up": "a link to a folder, not followed",
        "notes.txt": "not a .jsonl file",
        "journal.jsonl": "a workflow's journal, not a conversation",
        "pipe.jsonl": "a broken link, or not a regular file",
    }


def test_transcript_that_vanished_or_became_a_folder_is_unreadable(tmp_path: Path) -> None:
    path = write(transcript_path(tmp_path), user("1", "hi"))
    found = source(path)
    path.unlink()
    with pytest.raises(UnreadableSource):
        CLAUDE.parse(found)
    path.mkdir()
    with pytest.raises(UnreadableSource):
        CLAUDE.parse(found)


def test_file_name_that_is_not_utf8_can_be_stored(tmp_path: Path) -> None:
    folder = tmp_path / ".claude" / "projects" / PROJECT
    folder.mkdir(parents=True)
    try:
        (folder / os.fsdecode(b"caf\xe9.jsonl")).write_bytes(lines([user("1", "hi")]))
    except OSError:
        pytest.skip("this file system takes UTF-8 names only")
    (found,) = all_transcripts(tmp_path / ".claude").values()
    assert found.session.id == "caf�"
    assert found.session.origin.path.endswith("/caf�.jsonl")


def test_fingerprint_changes_when_a_sidecar_does(tmp_path: Path) -> None:
    path = write(transcript_path(tmp_path), user("1", "hi"))
    before = source(path).fingerprint
    write(path.with_suffix("") / "subagents" / "agent-a7f.jsonl", ASKED)
    assert source(path).fingerprint != before


# Sub-agents.


def agents_in(tmp_path: Path, place: str) -> Path:
    write(
        transcript_path(tmp_path),
        user("1", "go"),
        assistant("2", tool_use("t1", "Task", description="Refund check", subagent_type="Explore")),
        user("3", [tool_result("t1", "done")], toolUseResult={"agentId": "a7f"}),
    )
    return write(transcript_path(tmp_path).parent / place / "agent-a7f.jsonl", ASKED, FOUND)


@pytest.mark.parametrize(
    ("place", "title"),
    [
        (f"{SESSION}/subagents", "Refund check"),
        (f"{SESSION}/subagents/workflow/run-1", "Refund check"),
        (".", "look at refunds"),  # a source of its own, which does not see the parent's call
    ],
)
def test_sub_agent_in_a_file_of_its_own(tmp_path: Path, place: str, title: str) -> None:
    path = agents_in(tmp_path, place)
    found = all_transcripts(tmp_path / ".claude")
    assert list(found) == [f"claude-code:{SESSION}", KEY] or list(found) == [KEY, f"claude-code:{SESSION}"]
    agent = found[KEY]
    session = agent.session
    assert (session.id, session.agent_id, session.is_agent_session) == ("agent-a7f", "a7f", True)
    assert (session.parent_session_id, session.parent_key) == (SESSION, f"claude-code:{SESSION}")
    assert (session.workspace, session.workspace_encoded, session.title) == (CWD, PROJECT, title)
    assert Path(session.origin.path).resolve() == path.resolve()
    assert said(agent.messages) == [("user", "look at refunds"), ("assistant", "Found refund.ts")]
    assert not agent.second_hand
    parent = found[f"claude-code:{SESSION}"]
    assert [c.agent_session for m in parent.messages for c in m.tool_calls] == [KEY]


def test_sidecar_describes_a_sub_agent_and_a_broken_one_does_no_harm(tmp_path: Path) -> None:
    path = agents_in(tmp_path, ".")
    meta = path.with_suffix(".meta.json")
    meta.write_text('{"agentType":"Explore","description":"Refunds","worktreePath":"/wt","x":[1]}')
    session = all_transcripts(tmp_path / ".claude")[KEY].session
    assert session.title == "Refunds"
    assert session.extensions == {"agent_type": "Explore", "description": "Refunds", "worktree_path": "/wt"}
    meta.write_text('{"agentType":')
    assert all_transcripts(tmp_path / ".claude")[KEY].session.extensions == {}
    (source,) = ClaudeCode().discover(path).sources
    assert ClaudeCode().parse(source).bad_line_count == 1


def test_sub_agents_outlive_the_transcript_they_belong_to(tmp_path: Path) -> None:
    agents_in(tmp_path, f"{SESSION}/subagents")
    transcript_path(tmp_path).unlink()
    assert list(all_transcripts(tmp_path / ".claude")) == [KEY]
    transcript_path(tmp_path).symlink_to("nowhere")
    assert list(all_transcripts(tmp_path / ".claude")) == [KEY]


def test_workflow_journal_beside_sub_agents_is_no_conversation(tmp_path: Path) -> None:
    path = agents_in(tmp_path, f"{SESSION}/subagents/workflow")
    write(path.parent / "journal.jsonl", user("x", "not said"))
    found = CLAUDE.discover(tmp_path / ".claude")
    assert [(p.name, r) for p, r in found.passed] == [("journal.jsonl", "a workflow's journal, not a conversation")]
    assert len(all_transcripts(tmp_path / ".claude")) == 2


def test_sub_agent_that_cannot_be_read_does_not_take_its_parent_with_it(tmp_path: Path) -> None:
    path = agents_in(tmp_path, f"{SESSION}/subagents")
    found = source(transcript_path(tmp_path))
    path.unlink()
    reading = CLAUDE.parse(found)
    assert [t.session.id for t in reading.transcripts] == [SESSION]
    assert reading.bad_line_count == 1


def test_sub_agent_echoed_in_its_parents_progress_is_a_second_hand_session(tmp_path: Path) -> None:
    reading = read(
        tmp_path,
        user("1", "go"),
        assistant("2", tool_use("t1", "Task", description="Refund check")),
        agent_progress("p1", "a7f", "t1", ASKED),
        agent_progress("p2", "a7f", "t1", ASKED, FOUND),
    )
    parent, echo = reading.transcripts
    assert said(parent.messages) == [("user", "go"), ("assistant", "")]
    assert [c.agent_session for m in parent.messages for c in m.tool_calls] == [KEY]
    assert (echo.session.key, echo.second_hand, echo.session.title) == (KEY, True, "Refund check")
    assert said(echo.messages) == [("user", "look at refunds"), ("assistant", "Found refund.ts")]
    assert all(m.is_sidechain for m in echo.messages)


def test_echo_gives_way_to_the_sub_agents_own_file(tmp_path: Path) -> None:
    path = agents_in(tmp_path, f"{SESSION}/subagents")
    main = transcript_path(tmp_path)
    main.write_bytes(main.read_bytes() + lines([agent_progress("p1", "a7f", "t1", ASKED)]))
    reading = CLAUDE.parse(source(main))
    assert [(t.session.key, t.second_hand) for t in reading.transcripts] == [
        (f"claude-code:{SESSION}", False),
        (KEY, False),
    ]
    assert reading.skipped == {"progress/agent_progress": 1}
    assert path.exists()


def test_session_id_with_dots_and_slashes_leads_nowhere(tmp_path: Path) -> None:
    secret = write(tmp_path / "secret" / "tool-results" / "t.txt", user("x", "secret"))
    evil = "../../../secret"
    spilled = f"<persisted-output>\nFull output saved to: {secret}\n"
    records = [assistant("1", tool_use("t1"), sessionId=evil), user("2", [tool_result("t1", spilled)], sessionId=evil)]
    write(transcript_path(tmp_path, "agent-a7f"), *records)
    write(transcript_path(tmp_path, "session-x"), *records)
    found = all_transcripts(tmp_path / ".claude")
    assert set(found) == {f"claude-code:{evil}/agent-a7f", f"claude-code:{evil}"}
    assert {c.result for t in found.values() for m in t.messages for c in m.tool_calls} == {spilled}
    assert [CLAUDE.resume(t.session) for t in found.values()] == [None, None]


# Spilled tool results.


def spilled_result(tmp_path: Path, saved: str) -> str | None:
    preview = f"<persisted-output>\nOutput too large (1 MB). Full output saved to: {saved}\n\nPreview:\nfirst\n"
    reading = read(tmp_path, assistant("1", tool_use("t1")), user("2", [tool_result("t1", preview)]))
    (call,) = reading.transcripts[0].messages[0].tool_calls
    return None if call.result == preview else call.result


def results_folder(tmp_path: Path) -> Path:
    folder = transcript_path(tmp_path).with_suffix("") / "tool-results"
    folder.mkdir(parents=True)
    return folder


def test_spilled_result_is_read_whole_from_the_sessions_own_folder(tmp_path: Path) -> None:
    folder = results_folder(tmp_path)
    (folder / "t1.txt").write_text("first\nlast")
    (folder / "t2.json").write_text('[{"type":"text","text":"a"},{"type":"text","text":"b"}]')
    assert spilled_result(tmp_path, str(folder / "t1.txt")) == "first\nlast"
    assert spilled_result(tmp_path, str(folder / "t2.json")) == "a\nb"
    moved = f"C:\\Users\\ana\\.claude\\projects\\p\\{SESSION}\\tool-results\\t1.txt"
    assert spilled_result(tmp_path, moved) == "first\nlast"


@pytest.mark.parametrize("saved", ["../secret.txt", "/etc/hostname", "tool-results/..", "tool-results/", "x\0y"])
def test_spilled_path_outside_is_not_followed(tmp_path: Path, saved: str) -> None:
    folder = results_folder(tmp_path)
    (folder.parent / "secret.txt").write_text("secret")
    assert spilled_result(tmp_path, saved) is None
    assert spilled_result(tmp_path, f"{folder}/{saved}") is None


def test_spilled_file_or_folder_that_is_a_link_out_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("secret")
    folder = results_folder(tmp_path)
    (folder / "t1.txt").symlink_to(tmp_path / "secret.txt")
    (folder / "loop.txt").symlink_to(folder / "loop.txt")
    assert spilled_result(tmp_path, str(folder / "t1.txt")) is None
    assert spilled_result(tmp_path, str(folder / "loop.txt")) is None
    outside = tmp_path / "outside" / "tool-results"
    outside.mkdir(parents=True)
    (outside / "t9.txt").write_text("secret")
    (folder / "t1.txt").unlink()
    (folder / "loop.txt").unlink()
    folder.rmdir()
    folder.symlink_to(outside)
    assert spilled_result(tmp_path, str(folder / "t9.txt")) is None
    folder.unlink()
    folder.parent.rmdir()
    folder.parent.symlink_to(outside.parent)
    assert spilled_result(tmp_path, str(folder / "t9.txt")) is None


def test_spilled_file_that_is_gone_leaves_the_preview(tmp_path: Path) -> None:
    assert spilled_result(tmp_path, str(results_folder(tmp_path) / "t1.txt")) is None


# Prompt history.


def history(tmp_path: Path, *records: dict[str, Any]) -> Reading:
    path = write(tmp_path / ".claude" / "history.jsonl", *records)
    (found,) = CLAUDE.discover(tmp_path / ".claude").sources
    assert (found.path, found.kind) == (path, "history")
    return CLAUDE.parse(found)


def test_history_is_a_source_of_its_own_with_a_second_hand_session_each(tmp_path: Path) -> None:
    cache = tmp_path / ".claude" / "paste-cache"
    cache.mkdir(parents=True)
    (cache / "0123456789abcdef.txt").write_text("the long paste")
    line = {"project": CWD, "sessionId": SESSION, "timestamp": 1772442900120}
    pasted = {
        "1": {"id": 1, "type": "text", "contentHash": "0123456789abcdef"},
        "2": {"id": 2, "type": "text", "content": "short paste"},
        "3": {"id": 3, "type": "image", "mediaType": "image/png", "content": "A" * 5000},
        "4": {"id": 4, "type": "text", "contentHash": "../../secret"},
    }
    reading = history(
        tmp_path,
        line | {"display": "Why? [Pasted text #1]", "pastedContents": pasted},
        line | {"display": "/clear", "pastedContents": {}},
        {"display": "before session ids", "timestamp": 1759276800000, "project": "/srv/shop"},
        line | {"display": " ", "pastedContents": None},
    )
    first, older = reading.transcripts
    assert first.second_hand
    assert older.second_hand
    assert (first.session.key, first.session.workspace_encoded) == (f"claude-code:{SESSION}", PROJECT)
    prompt, command = first.messages
    assert prompt.at is not None
    assert prompt.at.isoformat() == "2026-03-02T09:15:00.120000+00:00"
    assert prompt.blocks == (
        Text("Why? [Pasted text #1]\n\nthe long paste\n\nshort paste", at=prompt.at),
        Attachment("image", "", "image/png", at=prompt.at),
    )
    assert (command.text, command.is_meta) == ("/clear", True)
    assert (older.session.id, older.session.workspace) == ("history/-srv-shop", "/srv/shop")
    assert reading.skipped == {"history/empty": 1}


def test_folder_names_are_encoded_as_claude_code_does() -> None:
    assert encoded("/home/ana/my_app.v2") == "-home-ana-my-app-v2"
    assert encoded("C:\\work\\api") == "C--work-api"
    assert encoded("/é/🛒") == "-----"
    assert len(encoded("/long" * 100)) == 200


# Files laid out by hand.


@pytest.mark.parametrize("name", ["2026-03-02/session-x.jsonl", "Shop/2026-03-02-x.jsonl"])
def test_hand_laid_file_may_hold_several_sessions(tmp_path: Path, name: str) -> None:
    path = tmp_path / "sessions" / name
    title = {"type": "summary", "summary": "Of the first", "leafUuid": "1"}
    write(path, title, user("1", "a", sessionId="s1"), user("2", "b", sessionId="s2"), user("3", "c", sessionId="s1"))
    found = all_transcripts(tmp_path / "sessions")
    assert {key: [m.text for m in t.messages] for key, t in found.items()} == {
        "claude-code:s1": ["a", "c"],
        "claude-code:s2": ["b"],
    }
    assert found["claude-code:s1"].session.summary == "Of the first"
    assert found["claude-code:s1"].session.workspace_encoded == PROJECT
