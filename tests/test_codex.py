"""Codex CLI: what its rollouts say, once; whose they are; the forms of earlier versions."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
import zstandard
from codex_logs import SESSION, START, Rollout, full_log, home, messages, read, source_of, uuid7
from hypothesis import given
from hypothesis import strategies as st
from junk import RELAXED, assert_storable, junk, spoiled_lines

from agent_journal.connectors.codex import Codex
from agent_journal.errors import UnreadableSource
from agent_journal.session import Message, Resume, Role, Text, Thinking, ToolCall, ToolType, Usage, derive

REAL = Path(__file__).parents[1].parent / "shared" / "data" / "home" / ".codex"
LATER = START + timedelta(hours=1)
CHILD = uuid7(LATER)


def said(found: tuple[Message, ...]) -> list[tuple[str, str, bool]]:
    return [(m.role.value, m.text, m.is_meta) for m in found]


# What was said, once.


def test_item_and_the_event_that_repeats_it_are_one_message(tmp_path: Path) -> None:
    path = Rollout().turn().user("Why?").says("Because.").write(tmp_path)
    reading = read(path)
    assert said(reading.transcripts[0].messages) == [("user", "Why?", False), ("assistant", "Because.", False)]
    assert reading.skipped == {"event_msg/user_message": 1, "assistant that repeats its event": 1}


def test_event_after_its_item_is_not_a_second_answer(tmp_path: Path) -> None:
    log = Rollout().turn().user("Why?").message("assistant", "Because.", id="msg_1")
    log.event("agent_message", message="Because.").says("Really.").says("Because.")
    found = messages(log.write(tmp_path))
    assert [m.text for m in found] == ["Why?", "Because.", "Really.", "Because."]
    assert found[1].uuid == "msg_1"


def test_text_that_only_an_event_tells_is_kept(tmp_path: Path) -> None:
    log = Rollout().turn().event("user_message", message="Why?").event("agent_reasoning", text="Hm.")
    found = messages(log.event("agent_message", message="Because.").write(tmp_path))
    assert said(found) == [("user", "Why?", False), ("assistant", "Because.", False)]
    assert found[1].thinking == "Hm."


def test_paginated_items_repeat_the_response_items(tmp_path: Path) -> None:
    log = Rollout(history_mode="paginated").turn().message("user", "Why?", id="msg_0")
    parts = [{"type": "text", "text": "Why?"}, {"type": "skill", "name": "retro"}]
    log.event("item_completed", item={"type": "UserMessage", "content": parts})
    log.calls("call_1", "exec_command", {"cmd": "npm test"}).output("call_1", "3 failing")
    log.event("item_completed", item={"type": "CommandExecution", "id": "call_1", "exit_code": 1})
    log.message("assistant", "Null.", id="msg_1")
    log.event("item_completed", item={"type": "AgentMessage", "content": [{"type": "Text", "text": "Null."}]})
    log.event("item_completed", item={"type": "Plan", "text": "1. fix"})
    reading = read(log.write(tmp_path))
    found = reading.transcripts[0].messages
    assert said(found) == [("user", "Why?", False), ("assistant", "", False), ("assistant", "Null.", False)]
    assert [(c.success, c.details) for c in found[1].tool_calls] == [(False, {"exit_code": 1})]
    assert reading.skipped["event_msg/item/Plan"] == 1


@pytest.mark.parametrize(
    ("item", "success"),
    [
        ({"type": "CommandExecution", "status": "declined", "exit_code": None}, False),
        ({"type": "CommandExecution", "status": "completed", "exit_code": 0}, True),
        ({"type": "CommandExecution", "status": "completed", "exit_code": 2}, False),
        ({"type": "CommandExecution", "status": "in_progress"}, None),
        ({"type": "FileChange", "status": "failed"}, False),
        ({"type": "McpToolCall", "status": "completed", "result": {"content": []}}, True),
        ({"type": "McpToolCall", "status": ["failed"]}, None),
        ({"type": "DynamicToolCall", "success": False}, False),
    ],
)
def test_paginated_items_tell_how_a_call_ended(tmp_path: Path, item: dict[str, Any], success: bool | None) -> None:
    log = Rollout(history_mode="paginated").turn().user("Go").calls("c1", "do_it", {}).output("c1", "text")
    log.event("item_completed", item={"id": "c1"} | item)
    assert [c.success for m in messages(log.write(tmp_path)) for c in m.tool_calls] == [success]


def test_reasoning_text_and_calls_of_one_response_are_one_message(tmp_path: Path) -> None:
    found = messages(full_log().write(tmp_path))
    answer = next(m for m in found if m.role is Role.ASSISTANT)
    at = START + timedelta(seconds=7)
    assert answer.at == at
    assert answer.blocks == (
        Thinking("**Inspecting cart code**", "rs_1", None, at),
        Text("I run the tests.", None, None, START + timedelta(seconds=9)),
        ToolCall(
            "call_1",
            "exec_command",
            ToolType.SHELL,
            {"cmd": "npm test", "workdir": "/home/ana/shop"},
            "Chunk ID: a1\nWall time: 4.9 seconds\nProcess exited with code 1\nOutput:\n3 failing",
            False,
            result_at=START + timedelta(seconds=15),
            details={"exit_code": 1},
            uuid="fc_1",
            at=START + timedelta(seconds=11),
        ),
        ToolCall(
            "call_2",
            "apply_patch",
            ToolType.WRITE,
            "*** Begin Patch\n*** Update File: cart.ts\n@@\n-a\n+b\n*** End Patch",
            "Success.",
            True,
            result_at=START + timedelta(seconds=16),
            paths=("cart.ts",),
            details={"exit_code": 0},
            at=START + timedelta(seconds=12),
        ),
    )
    assert (answer.model, answer.cwd, answer.git_branch) == ("gpt-5.4-codex", "/home/ana/shop", "main")
    assert answer.usage == Usage(240, 40, 0, 160)


def test_every_kind_of_record_in_its_place(tmp_path: Path) -> None:
    (transcript,) = read(full_log().write(tmp_path)).transcripts
    found = transcript.messages
    assert said(found) == [
        ("system", "<permissions instructions>read only</permissions instructions>", True),
        ("user", "# AGENTS.md instructions for /home/ana/shop\n\n<environment_context>\n<cwd>/x</cwd>", True),
        ("user", "Why does checkout fail?", False),
        ("assistant", "I run the tests.", False),
        ("assistant", "", False),
        ("assistant", "The total is null.", False),
        ("user", "ls\n\ncart.ts", False),
        ("user", "Fix it", False),
        ("user", "<turn_aborted>\nThe user interrupted the previous turn.", True),
        ("assistant", "Fixed.", False),
        ("system", "Summary of the work so far", True),
        ("user", "Go", False),
        ("assistant", "Good\n\nOne", False),
        ("assistant", "Only told", False),
        ("tool", "", False),
    ]
    assert [c.name for c in found[4].tool_calls] == ["local_shell", "web_search", "tool_search"]
    assert found[4].tool_calls[2].result == "mcp__hub__fetch"
    assert [n for n, m in enumerate(found) if "rolled_back" in m.extensions] == [7, 8, 9]
    assert (found[10].is_compaction, found[11].is_sidechain) == (True, True)
    session = transcript.session
    assert (session.key, session.title, session.workspace) == (f"codex:{SESSION}", "Cart bug", "/home/ana/shop")
    assert (session.git_branch, session.agent_version, session.usage) == ("main", "0.130.0", Usage(540, 90, 0, 360))
    assert derive(session, found).turn_count == 3


def test_injected_user_text_is_told_from_prompts_by_their_events(tmp_path: Path) -> None:
    log = Rollout().turn().message("user", "Something Codex will inject one day").user("<skill> what is this?")
    found = messages(log.says("A tag.").write(tmp_path))
    assert [m.is_meta for m in found] == [True, False, False]


def test_injected_parts_beside_a_prompt_are_left_out_and_counted(tmp_path: Path) -> None:
    log = Rollout().turn().message("user", "<environment_context>\n<cwd>/x</cwd>", "Why?")
    reading = read(log.event("user_message", message="Why?").says("So.").write(tmp_path))
    assert said(reading.transcripts[0].messages)[0] == ("user", "Why?", False)
    assert reading.skipped["injected part of a prompt"] == 1


def test_request_behind_the_context_of_an_ide_is_the_prompt(tmp_path: Path) -> None:
    text = "# Context from my IDE setup:\n## Open tabs: a.ts\n## My request for Codex:\nFix a.ts"
    assert said(messages(Rollout().turn().user(text).says("ok").write(tmp_path)))[0] == ("user", "Fix a.ts", False)


def test_last_prompt_whose_event_is_not_written_yet_is_not_called_injected(tmp_path: Path) -> None:
    log = Rollout().turn().user("Why?").says("So.").message("user", "And then?")
    assert said(messages(log.write(tmp_path)))[-1] == ("user", "And then?", False)


def test_prompt_with_an_image_keeps_no_bytes_of_it(tmp_path: Path) -> None:
    url = "data:image/png;base64," + "A" * 9000
    parts = [{"type": "input_text", "text": "What is this?"}, {"type": "input_image", "image_url": url}]
    (asked,) = messages(Rollout().item("message", role="user", content=parts).write(tmp_path))
    assert [getattr(b, "media_type", "") for b in asked.blocks] == ["", "image/png"]
    assert len(msgspec.json.encode(asked)) < 1000


def test_same_prompt_said_twice_on_purpose_stays_twice(tmp_path: Path) -> None:
    assert len(messages(Rollout().turn().user("yes").user("yes").write(tmp_path))) == 2


# Tools.


@pytest.mark.parametrize(
    ("output", "text", "success"),
    [
        ("Exit code: 0\nWall time: 1 seconds\nOutput:\nok", "Exit code: 0\nWall time: 1 seconds\nOutput:\nok", True),
        ("Process exited with code 2\nOutput:\n", "Process exited with code 2\nOutput:\n", False),
        ("Chunk ID: a\nOutput:\nExit code: 1", "Chunk ID: a\nOutput:\nExit code: 1", None),  # printed, not told
        (json.dumps({"output": "x", "metadata": {"exit_code": 3}}), "x", False),
        ({"content": "done", "success": True}, "done", True),
        ([{"type": "input_text", "text": "a"}, {"type": "input_text", "text": "b"}], "a\nb", None),
        ("aborted by user after 3.1s", "aborted by user after 3.1s", False),
        ("exec_command failed for `ls`", "exec_command failed for `ls`", False),
        ("Plan updated", "Plan updated", None),
        (None, "", None),
    ],
)  # fmt: skip
def test_output_tells_how_a_call_ended(tmp_path: Path, output: Any, text: str, success: bool | None) -> None:
    log = Rollout().turn().user("go").calls("c", "shell", {"command": ["ls"]}).output("c", output)
    (call,) = messages(log.write(tmp_path))[1].tool_calls
    assert (call.result, call.success) == (text, success)


def test_calls_keep_arguments_namespace_and_patched_files(tmp_path: Path) -> None:
    patch = "apply_patch <<'E'\n*** Begin Patch\n*** Add File: new.py\n+x\n*** Move to: b.py\n*** End Patch\nE"
    log = Rollout().turn().user("go").calls("c1", "shell", {"command": ["bash", "-lc", patch]})
    log.calls("c2", "_fetch_pr", {"n": 1}, namespace="mcp__hub")
    log.item("function_call", name="odd", arguments="{not json", call_id="c3")
    first, second, third = messages(log.write(tmp_path))[1].tool_calls
    assert first.paths == ("new.py", "b.py")
    assert (second.name, second.type, second.arguments) == ("mcp__hub__fetch_pr", ToolType.GENERIC, {"n": 1})
    assert third.arguments == "{not json"


def test_spawned_agent_is_named_by_its_session(tmp_path: Path) -> None:
    log = Rollout().turn().user("go").calls("c", "spawn_agent", {"message": "look"})
    log.output("c", json.dumps({"agent_id": CHILD, "nickname": "Ohm"}))
    (call,) = messages(log.write(tmp_path))[1].tool_calls
    assert call.agent_session == f"codex:{SESSION}/agent-{CHILD}"


# Tokens.


def test_repeated_token_count_is_counted_once(tmp_path: Path) -> None:
    log = Rollout().turn().user("go").says("a").tokens(10, 10).tokens(10, 10).event("token_count", info=None)
    (transcript,) = read(log.says("b").tokens(25, 15).write(tmp_path)).transcripts
    assert transcript.session.usage == Usage(150, 25, 0, 100)
    assert [m.usage.output_tokens for m in transcript.messages if m.usage] == [10, 15]


def test_totals_that_begin_anew_are_added(tmp_path: Path) -> None:
    log = Rollout().turn().user("go").says("a").tokens(30, 30).says("b").tokens(5, 5)
    (transcript,) = read(log.write(tmp_path)).transcripts
    assert transcript.session.usage == Usage(210, 35, 0, 140)


# Forks and sub-agents.


def parent_log() -> Rollout:
    return Rollout().turn().user("Why does checkout fail?").says("Null total.").tokens(40, 40)


def child_of(parent: Rollout, session_id: str = CHILD, turn: str | None = None, **meta: Any) -> Rollout:
    """As Codex copies it: its own head, the parent's lines with the time of the fork, then its own turns."""
    log = Rollout(session_id, LATER, **meta)
    for line in map(json.loads, parent.lines):
        log.add(line["type"], **line["payload"])
    return log.turn(turn).user("Find refunds").says("refund.ts").tokens(55, 15)


SPAWN = {"subagent": {"thread_spawn": {"parent_thread_id": SESSION, "agent_nickname": "Ohm", "agent_role": "explorer"}}}


def test_sub_agent_leaves_out_the_history_it_copied(tmp_path: Path) -> None:
    parent = parent_log()
    parent.write(tmp_path)
    reading = read(child_of(parent, source=SPAWN).write(tmp_path))
    (transcript,) = reading.transcripts
    session = transcript.session
    assert [m.text for m in transcript.messages] == ["Find refunds", "refund.ts"]
    assert all(m.is_sidechain for m in transcript.messages)
    assert session.usage == Usage(90, 15, 0, 60)
    assert (session.key, session.id) == (f"codex:{SESSION}/agent-{CHILD}", CHILD)
    assert (session.parent_key, session.parent_session_id) == (f"codex:{SESSION}", SESSION)
    assert (session.is_agent_session, session.agent_id, session.title) == (True, "Ohm", "Find refunds")
    assert session.extensions == {"agent_type": "explorer"}
    assert sum(n for kind, n in reading.skipped.items() if kind.startswith("copied from the parent/")) == 7


def test_fork_names_its_parent_and_is_no_sub_agent(tmp_path: Path) -> None:
    parent = parent_log()
    parent.write(tmp_path, "archived_sessions")
    (transcript,) = read(child_of(parent, forked_from_id=SESSION).write(tmp_path)).transcripts
    session = transcript.session
    assert [m.text for m in transcript.messages] == ["Find refunds", "refund.ts"]
    assert (session.key, session.parent_key, session.is_agent_session) == (f"codex:{CHILD}", f"codex:{SESSION}", False)


def test_fork_that_inherits_its_history_without_a_copy_names_the_parent(tmp_path: Path) -> None:
    parent = parent_log().write(tmp_path)
    base = {"thread_id": SESSION, "end_ordinal_exclusive": 7, "end_byte_offset": parent.stat().st_size}
    log = Rollout(CHILD, LATER, history_mode="paginated", history_base=base).turn().user("Find refunds").says("Here.")
    (transcript,) = read(log.write(tmp_path)).transcripts
    session = transcript.session
    assert (session.key, session.parent_key, session.is_agent_session) == (f"codex:{CHILD}", f"codex:{SESSION}", False)
    assert [m.text for m in transcript.messages] == ["Find refunds", "Here."]


def test_turns_whose_ids_tell_no_time_are_looked_up_in_the_parent(tmp_path: Path) -> None:
    parent = Rollout().turn("t1").user("Why?").says("So.")
    parent.write(tmp_path)
    child = child_of(parent, forked_from_id=SESSION, turn="t2")
    assert [m.text for m in messages(child.write(tmp_path))] == ["Find refunds", "refund.ts"]


def test_parent_whose_id_tells_of_the_last_day_there_is_costs_no_session(tmp_path: Path) -> None:
    """Its file is looked for in the folders of the days around: the day after is none."""
    parent = uuid7(datetime(9999, 12, 31, 12, tzinfo=UTC))
    child = child_of(parent_log(), turn="t2", forked_from_id=parent)
    assert [m.text for m in messages(child.write(tmp_path))][-2:] == ["Find refunds", "refund.ts"]


def test_copied_history_is_kept_where_the_parent_is_gone_and_is_equal_in_siblings(tmp_path: Path) -> None:
    parent = parent_log()
    first, second = (messages(child_of(parent, uuid7(LATER, n), source=SPAWN).write(tmp_path / str(n))) for n in (1, 2))
    assert [m.text for m in first] == ["Why does checkout fail?", "Null total.", "Find refunds", "refund.ts"]
    assert [m.extensions for m in first] == [{"copied_from": SESSION}] * 2 + [{}] * 2
    assert [(m.role, m.at, m.blocks) for m in first[:2]] == [(m.role, m.at, m.blocks) for m in second[:2]]
    assert [m.usage for m in first[:2]] == [None, None]


def test_file_cut_while_the_history_is_being_copied_is_no_session_yet(tmp_path: Path) -> None:
    parent = parent_log()
    parent.write(tmp_path)
    child = child_of(parent, source=SPAWN)
    child.lines = child.lines[:5]
    assert read(child.write(tmp_path)).transcripts == []


def test_result_of_a_copied_call_is_left_out_with_it(tmp_path: Path) -> None:
    parent = parent_log().calls("c", "spawn_agent", {"message": "look"})
    parent.write(tmp_path)
    child = child_of(parent, source=SPAWN).output("c", "You are the newly spawned agent")
    assert [m.role for m in messages(child.write(tmp_path))] == [Role.USER, Role.ASSISTANT]


def test_history_below_the_first_own_ordinal_is_left_out(tmp_path: Path) -> None:
    log = Rollout(source=SPAWN, subagent_history_start_ordinal=5)
    for number, text in ((3, "of the parent"), (5, "its own")):
        line = {"timestamp": log.stamp(), "ordinal": number, "type": "response_item"}
        content = [{"type": "output_text", "text": text}]
        log.lines.append(json.dumps(line | {"payload": {"type": "message", "role": "assistant", "content": content}}))
    assert [m.text for m in messages(log.write(tmp_path))] == ["its own"]


def test_grandchild_is_keyed_by_the_root_of_the_tree(tmp_path: Path) -> None:
    grand = uuid7(LATER, 9)
    source = {"subagent": {"thread_spawn": {"parent_thread_id": CHILD}}}
    log = Rollout(grand, LATER, source=source, root=SESSION).turn().user("look").says("found")
    session = read(log.write(tmp_path)).transcripts[0].session
    assert (session.key, session.parent_key) == (f"codex:{SESSION}/agent-{grand}", f"codex:{SESSION}/agent-{CHILD}")


def test_sessions_imported_from_another_agent_are_left_to_that_agent(tmp_path: Path) -> None:
    log = Rollout().turn("external-import-turn-1").user("said to Claude").says("said by Claude")
    reading = read(log.write(tmp_path))
    assert (reading.transcripts, reading.skipped["imported from another agent/response_item"]) == ([], 2)
    assert [m.text for m in messages(log.turn().user("said to Codex").write(tmp_path))] == ["said to Codex"]


def test_internal_and_blank_sessions_are_counted_and_not_shown(tmp_path: Path) -> None:
    internal = read(Rollout(source={"internal": "guardian"}).turn().user("risk?").says("low").write(tmp_path))
    assert (internal.transcripts, internal.skipped["internal session"]) == ([], 1)
    blank = read(Rollout().message("user", "<environment_context>").write(tmp_path))
    assert (blank.transcripts, blank.skipped["blank session"]) == ([], 1)


# Older forms.


def test_lines_without_an_envelope(tmp_path: Path) -> None:
    lines: list[dict[str, Any]] = [
        {"id": "5973b6c0", "timestamp": "2025-07-01T10:00:00.000Z", "instructions": "x", "git": {"branch": "main"}},
        {"record_type": "state"},
        {"type": "message", "role": "user", "content": [
            {"type": "input_text", "text": "<environment_context>\nCurrent working directory: /home/ana/shop\n"}]},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "fix it"}]},
        {"type": "function_call", "name": "shell", "arguments": '{"command":["ls"]}', "call_id": "call_9"},
        {"type": "function_call_output", "call_id": "call_9", "output": '{"output":"a.ts","metadata":{"exit_code":0}}'},
    ]  # fmt: skip
    path = tmp_path / "sessions" / "rollout-2025-07-01T10-00-00-5973b6c0.jsonl"
    path.parent.mkdir()
    path.write_text("\n".join(map(json.dumps, lines)))
    (source,) = Codex().discover(tmp_path).sources
    reading = Codex().parse(source)
    (transcript,) = reading.transcripts
    session = transcript.session
    assert [m.is_meta for m in transcript.messages] == [True, False, False]
    assert [(c.result, c.success) for c in transcript.messages[2].tool_calls] == [("a.ts", True)]
    assert (session.id, session.workspace, session.git_branch) == ("5973b6c0", "/home/ana/shop", "main")
    assert session.extensions == {"times": "only the session's start is known"}
    assert reading.skipped == {"record_type/state": 1}


def test_document_of_the_first_cli(tmp_path: Path) -> None:
    items = [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "fix it"}]},
        {"type": "message", "id": "msg_1", "role": "assistant", "content": [{"type": "output_text", "text": "Done."}]},
    ]
    whole = {"session": {"timestamp": "2025-05-01T10:00:00.000Z", "id": "1f2e", "instructions": ""}, "items": items}
    path = tmp_path / "sessions" / "rollout-2025-05-01-1f2e.json"
    path.parent.mkdir()
    path.write_text(json.dumps(whole))
    (source,) = Codex().discover(tmp_path).sources
    (transcript,) = Codex().parse(source).transcripts
    assert (transcript.session.id, said(transcript.messages)) == (
        "1f2e",
        [("user", "fix it", False), ("assistant", "Done.", False)],
    )
    path.write_text("[1, 2]")
    with pytest.raises(UnreadableSource):
        Codex().parse(source)


def test_compressed_session_reads_as_the_plain_one(tmp_path: Path) -> None:
    plain = full_log().write(tmp_path)
    packed = plain.with_name(plain.name + ".zst")
    packed.write_bytes(zstandard.ZstdCompressor().compress(plain.read_bytes()))
    assert messages(packed) == messages(plain)
    found = Codex().discover(tmp_path)
    assert [s.path for s in found.sources] == [plain]
    assert found.passed == [(packed, f"the same session as {plain}")]


def test_compressed_session_that_is_cut_short_is_unfinished(tmp_path: Path) -> None:
    packed = tmp_path / f"rollout-2026-05-04T07-00-00-{SESSION}.jsonl.zst"
    data = zstandard.ZstdCompressor(write_checksum=True).compress(full_log().text.encode())
    for end in (0, 3, 20, len(data) // 2, len(data) - 1):
        packed.write_bytes(data[:end])
        assert read(packed).unfinished
    packed.write_bytes(data + data)
    assert not read(packed).unfinished


# Finding.


def test_live_session_is_preferred_to_its_archived_copy(tmp_path: Path) -> None:
    live = full_log().write(tmp_path)
    archived = full_log().write(tmp_path, "archived_sessions")
    (tmp_path / "sessions" / "rollout-x.jsonl.tmp").write_text("")
    found = Codex().discover(tmp_path)
    assert [s.path for s in found.sources] == [live]
    assert [p for p, _ in found.passed] == [tmp_path / "sessions" / "rollout-x.jsonl.tmp", archived]


def test_codex_home_is_looked_at_if_it_is_a_folder(tmp_path: Path) -> None:
    given = tmp_path / "elsewhere"
    assert Codex().roots({"CODEX_HOME": str(given)}, tmp_path) == [tmp_path / ".codex"]
    given.mkdir()
    assert Codex().roots({"CODEX_HOME": str(given)}, tmp_path) == [given]


def test_sessions_folder_or_one_file_may_be_given(tmp_path: Path) -> None:
    path = full_log().write(tmp_path)
    for root in (tmp_path, tmp_path / "sessions", path):
        assert [s.path for s in Codex().discover(root).sources] == [path]
    assert Codex().discover(tmp_path / "nowhere").sources == []


def test_thread_taken_back_goes_on_in_a_session_of_its_own(tmp_path: Path) -> None:
    path = full_log().write(tmp_path)
    again = path.with_name(path.name.replace(".jsonl", "_0196bbbb.jsonl"))
    again.write_text(path.read_text())
    session = read(again).transcripts[0].session
    assert (session.key, session.id) == (f"codex:{SESSION}_0196bbbb", SESSION)


def test_name_in_the_index_is_the_title_and_the_last_one_wins(tmp_path: Path) -> None:
    path = full_log().write(tmp_path)
    names = [{"id": SESSION, "thread_name": n} for n in ("First", "Second")] + [{"id": "x", "thread_name": "Other"}]
    (tmp_path / "session_index.jsonl").write_text("\n".join(map(json.dumps, names)))
    assert read(path).transcripts[0].session.title == "Second"


def test_files_beside_a_session_are_read_once_for_all_that_need_them(tmp_path: Path) -> None:
    """A tree of 100 sub-agents read its parent's whole file 100 times, and each session the names of all."""
    parent = Rollout().turn("t1").user("Why?").says("So.")
    index = tmp_path / "session_index.jsonl"
    beside = [parent.write(tmp_path), index]
    index.write_text(json.dumps({"id": SESSION, "thread_name": "Checkout"}))
    children = [child_of(parent, uuid7(LATER, n), turn="t2", source=SPAWN).write(tmp_path) for n in range(4)]
    opened: list[str] = []
    sys.addaudithook(lambda event, arguments: opened.append(str(arguments[0])) if event == "open" else None)
    for child in children:
        assert [m.text for m in messages(child)] == ["Find refunds", "refund.ts"]
    assert [opened.count(str(path)) for path in beside] == [1, 1]
    index.write_text(json.dumps({"id": SESSION, "thread_name": "Checkout again"}))
    assert read(beside[0]).transcripts[0].session.title == "Checkout again"


def test_prompt_history_is_known_second_hand(tmp_path: Path) -> None:
    (tmp_path / "sessions").mkdir()
    lines = [{"session_id": "s1", "ts": 1777878001, "text": "Why?"}, {"session_id": "s1", "ts": 1777878002}]
    (tmp_path / "history.jsonl").write_text("\n".join(map(json.dumps, lines)))
    (source,) = Codex().discover(tmp_path).sources
    reading = Codex().parse(source)
    (transcript,) = reading.transcripts
    assert (transcript.session.key, transcript.second_hand) == ("codex:s1", True)
    assert [m.text for m in transcript.messages] == ["Why?"]
    assert reading.skipped == {"history/untyped": 1}


def test_resume_takes_the_session_id_and_nothing_that_looks_like_an_option(tmp_path: Path) -> None:
    session = read(full_log().write(tmp_path)).transcripts[0].session
    assert Codex().resume(session) == Resume(("codex", "resume", SESSION), "/home/ana/shop")
    assert Codex().resume(msgspec.structs.replace(session, id="--yolo")) is None


def test_home_of_two_sessions(tmp_path: Path) -> None:
    home(tmp_path)
    (root,) = Codex().roots({}, tmp_path)
    readings = [Codex().parse(s) for s in Codex().discover(root).sources]
    assert [len(r.transcripts) for r in readings] == [1, 1]


# Wrong types: whatever a field holds, a rollout is read or called unreadable.

EVERY_LINE = list(map(json.loads, [*full_log().lines, *child_of(parent_log(), source=SPAWN).lines]))


@RELAXED
@given(data=st.data())
def test_wrong_types_in_any_field_never_stop_a_run(tmp_path: Path, data: st.DataObject) -> None:
    lines = list(EVERY_LINE)
    if data.draw(st.booleans()):
        lines = [line["payload"] for line in lines if line["type"] in ("session_meta", "response_item")]
    wrong = junk("type", "text", "content", "id", "output", "subagent", "t1", "call_1")
    file = tmp_path / "rollout-2026-05-04T07-00-00-x.jsonl"
    file.write_text("\n".join(map(json.dumps, spoiled_lines(lines, data, wrong))))
    assert_storable(read(file))


# Real sessions, counted a second time from the description of the format alone.


def raw_records(path: Path) -> list[dict[str, Any]]:
    found, text = [], path.read_text("utf-8", "replace")
    decoder = json.JSONDecoder()
    for line in text.split("\n"):
        while line.strip():
            record, end = decoder.raw_decode(line)
            found.append(record)
            line = line[end:].lstrip()
    return found


def counted(path: Path) -> dict[str, int]:
    """Texts, prompts, calls and results by their items; messages as the responses they came in."""
    kinds = {"function_call", "custom_tool_call", "web_search_call", "tool_search_call"}
    found = dict.fromkeys(("answers", "prompts", "user", "system", "calls", "results", "responses"), 0)
    totals: Any = None
    within = texts = False  # a response goes on until its tokens, an output or a user's message; one text in each
    for record in raw_records(path):
        fields, kind = record["payload"], record["payload"].get("type")
        role = fields.get("role") if kind == "message" else None
        found["answers"] += role == "assistant"
        found["user"] += role == "user"
        found["system"] += role == "developer"
        found["prompts"] += kind == "user_message"
        found["calls"] += kind in kinds
        found["results"] += str(kind).endswith("_output")
        if role == "assistant" or kind in kinds:
            found["responses"] += not within or (role == "assistant" and texts)
            texts = role == "assistant" or kind in kinds
            within = True
        elif role or str(kind).endswith("_output") or record["type"] in ("turn_context", "compacted"):
            within = False
        elif kind in ("task_started", "turn_aborted") or (kind == "token_count" and fields["info"]):
            within = within and kind == "token_count" and fields["info"]["total_token_usage"] == totals
        if kind == "token_count" and fields["info"]:
            totals = fields["info"]["total_token_usage"]
    return found


@pytest.mark.skipif(not REAL.is_dir(), reason="no sample of real sessions beside the repository")
def test_real_sessions_hold_what_was_counted_by_hand() -> None:
    sources = Codex().discover(REAL).sources
    assert len(sources) == 42
    for source in sources:
        reading = Codex().parse(source)
        (transcript,) = reading.transcripts
        found = transcript.messages
        by_role = {role: [m for m in found if m.role is role] for role in Role}
        calls = [c for m in found for c in m.tool_calls]
        ours = {
            "answers": sum(isinstance(b, Text) for m in by_role[Role.ASSISTANT] for b in m.blocks),
            "prompts": sum(not m.is_meta for m in by_role[Role.USER]),
            "user": len(by_role[Role.USER]),
            "system": len(by_role[Role.SYSTEM]),
            "calls": len(calls),
            "results": sum(c.result is not None for c in calls),
            "responses": len(by_role[Role.ASSISTANT]),
        }
        assert ours == counted(source.path), source.path.name
        assert (reading.bad_line_count, by_role[Role.TOOL]) == (0, [])


@pytest.mark.skipif(not REAL.is_dir(), reason="no sample of real sessions beside the repository")
def test_real_sessions_lose_no_text_and_count_tokens_as_codex_does() -> None:
    for source in Codex().discover(REAL).sources:
        (transcript,) = Codex().parse(source).transcripts
        kept = {b.text for m in transcript.messages for b in m.blocks if isinstance(b, Text)}
        joined = "\n".join(kept)
        totals, inherited, owned = {"output_tokens": 0}, 0, False
        for record in raw_records(source.path):
            fields = record["payload"]
            if fields.get("type") == "message":
                assert all(part["text"] in joined for part in fields["content"])
            if fields.get("turn_id", "") > transcript.session.id and not owned:
                inherited, owned = totals["output_tokens"], True
            if fields.get("type") == "token_count" and fields["info"]:
                totals = fields["info"]["total_token_usage"]
        assert transcript.session.usage
        assert transcript.session.usage.output_tokens == totals["output_tokens"] - inherited


def test_source_that_is_gone_is_unreadable(tmp_path: Path) -> None:
    path = full_log().write(tmp_path)
    source = source_of(path)
    path.unlink()
    with pytest.raises(UnreadableSource):
        Codex().parse(source)
