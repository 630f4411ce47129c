"""Qwen Code's logs: a tree of records with Google-style parts, sub-agents, and the chats of its first versions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from gemini_logs import Chat
from hypothesis import given
from hypothesis import strategies as st
from junk import RELAXED, assert_storable, junk, spoiled, spoiled_lines
from qwen_logs import PROJECT, SESSION, SHOP, SHOP_HASH, Log, asks, at, home, iso, read, shop_log, write_sub_agent

from agent_journal.connectors.base import Reading
from agent_journal.connectors.qwen import Qwen
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
    Usage,
)


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return tmp_path / ".qwen"


def texts(reading: Reading) -> list[tuple[str, str]]:
    return [(m.role.value, m.text) for t in reading.transcripts for m in t.messages]


def test_log_becomes_a_session(base: Path) -> None:
    path = shop_log().write(base)
    reading = read(base)
    (transcript,) = reading.transcripts
    assert transcript.session == Session(
        key=f"qwen:{SESSION}",
        id=SESSION,
        agent="qwen",
        origin=Origin(path=str(path)),
        title="Cart bug",
        workspace=SHOP,
        workspace_encoded=PROJECT,
        git_branch="main",
        agent_version="0.15.10",
    )
    shell = ToolCall(
        id="call_1",
        name="run_shell_command",
        type=ToolType.SHELL,
        arguments={"command": "npm test"},
        result="3 failing",
        success=True,
        result_uuid="q3",
        result_parent_uuid="q2",
        result_at=at(3),
        uuid="q2",
        parent_uuid="q1",
        at=at(2),
    )
    spoken = (
        Thinking("The total may be null.", "q2", "q1", at(2)),
        Text("I will run the tests.", "q2", "q1", at(2)),
        shell,
    )
    common: dict[str, Any] = {"cwd": SHOP, "git_branch": "main", "agent_version": "0.15.10"}
    model = "qwen3-coder-plus"
    usage = Usage(input_tokens=4000, output_tokens=90, cache_read_tokens=8000)
    assert transcript.messages == (
        Message(Role.USER, (Text("Why does checkout fail?", "q1", None, at(1)),), "q1", None, at(1), **common),
        Message(Role.ASSISTANT, spoken, "q2", "q1", at(2), model, usage=usage, **common),
        Message(Role.USER, (Text("/about", "q5", "q3", at(5)),), "q5", "q3", at(5), is_meta=True, **common),
        Message(Role.USER, (Text("also check refunds", "q6", "q5", at(6)),), "q6", "q5", at(6), **common),
        Message(Role.ASSISTANT, (Text("Refunds are fine.", "q7", "q6", at(7)),), "q7", "q6", at(7), model, **common),
    )
    assert reading.skipped == {"system/custom_title": 1}


# Prompts.


@pytest.mark.parametrize(
    ("fields", "is_meta"),
    [
        ({}, False),
        ({"subtype": "mid_turn_user_message"}, False),
        ({"subtype": "realtime_message"}, False),
        ({"subtype": "notification"}, True),
        ({"subtype": "cron"}, True),
        ({"subtype": "goal_runtime"}, True),
        ({"provenance": "goal_control"}, True),
    ],
)
def test_injected_prompt_is_not_a_persons(base: Path, fields: dict[str, Any], is_meta: bool) -> None:
    Log().user("check the cart", **fields).says("ok").write(base)
    assert read(base).transcripts[0].messages[0].is_meta is is_meta


def test_prompt_is_what_was_typed_not_its_expansion(base: Path) -> None:
    parts = [{"text": "look at @cart.ts"}, {"text": "const total = null"}, {"inlineData": {"mimeType": "image/png"}}]
    Log().add("user", parts, systemPayload={"displayText": "look at @cart.ts"}).write(base)
    reading = read(base)
    (message,) = reading.transcripts[0].messages
    assert (message.text, message.blocks[1]) == (
        "look at @cart.ts",
        Attachment("image", media_type="image/png", uuid="q1", at=at(1)),
    )
    assert reading.skipped == {"part/expansion of a prompt": 1}


def test_voice_of_the_model_in_a_user_record_is_the_models(base: Path) -> None:
    log = Log().user("hi")
    log.add("user", subtype="realtime_message", message={"role": "model", "parts": [{"text": "Hello!"}]}).write(base)
    assert texts(read(base)) == [("user", "hi"), ("assistant", "Hello!")]


# Results.


def test_result_in_a_user_record_joins_its_call(base: Path) -> None:
    response = {"functionResponse": {"id": "c1", "response": {"output": "ok"}}}
    Log().user("go").says(asks("c1", "ls")).add("user", [response]).says("done").write(base)
    (transcript,) = read(base).transcripts
    assert [m.role.value for m in transcript.messages] == ["user", "assistant", "assistant"]
    assert [(c.result, c.success, c.result_uuid) for m in transcript.messages for c in m.tool_calls] == [
        ("ok", True, "q3")
    ]


@pytest.mark.parametrize(
    ("response", "told", "result", "success"),
    [
        ({"output": "ok"}, None, "ok", True),
        ({"error": "no"}, None, "no", False),
        ({"error": "no"}, {"status": "success"}, "no", False),
        ({"n": 1}, {"status": "error"}, '{"n":1}', False),
        ({}, {"status": "cancelled", "resultDisplay": "stopped"}, "stopped", False),
        ({}, {"status": "success", "resultDisplay": {"fileDiff": "+b", "fileName": "a"}}, "+b", True),
    ],
)
def test_result_of_a_call(base: Path, response: Any, told: Any, result: str, success: bool) -> None:
    log = Log().user("go").says(asks("c1", "ls"))
    log.result("c1", response, None, **({"toolCallResult": {"callId": "c1"} | told} if told else {})).write(base)
    (call,) = read(base).transcripts[0].messages[1].tool_calls
    assert (call.result, call.success) == (result, success)


def test_result_without_a_call_is_a_message_of_its_own(base: Path) -> None:
    Log().user("go").result("c9", {"output": "late"}).write(base)
    assert [(m.role, [c.result for c in m.tool_calls]) for m in read(base).transcripts[0].messages] == [
        (Role.USER, []),
        (Role.TOOL, ["late"]),
    ]


# The tree and the program's own records.


def test_records_left_behind_by_a_rewind_stay_and_are_marked(base: Path) -> None:
    log = Log().user("one").says("two").user("three").says("four")
    log.add("system", subtype="rewind", systemPayload={"truncatedCount": 2}, parentUuid="q2")
    log.user("three, but better").write(base)
    (transcript,) = read(base).transcripts
    assert [(m.text, m.parent_uuid, m.extensions) for m in transcript.messages] == [
        ("one", None, {}),
        ("two", "q1", {}),
        ("three", "q2", {"inactive": "rewound"}),
        ("four", "q3", {"inactive": "rewound"}),
        ("three, but better", "q2", {}),
    ]


def test_lost_record_in_the_tree_marks_nothing(base: Path) -> None:
    Log().user("one").says("two").add("user", [{"text": "three"}], parentUuid="lost").write(base)
    assert [m.extensions for m in read(base).transcripts[0].messages] == [{}, {}, {}]


def test_record_written_twice_counts_once(base: Path) -> None:
    log = Log().user("one")
    log.records *= 2
    log.write(base)
    reading = read(base)
    assert (texts(reading), reading.skipped) == ([("user", "one")], {"repeated": 1})


@pytest.mark.parametrize(
    ("titles", "expected"),
    [
        ([("A", "auto"), ("B", "auto")], "B"),
        ([("Mine", "manual"), ("B", "auto")], "Mine"),
        ([("Mine", None), ("B", "auto")], "Mine"),
        ([], None),
    ],
)
def test_title_of_a_person_wins_over_a_generated_one(
    base: Path, titles: list[tuple[str, str | None]], expected: str | None
) -> None:
    log = Log().user("one")
    for title, source in titles:
        log.system("custom_title", customTitle=title, **({"titleSource": source} if source else {}))
    log.write(base)
    assert read(base).transcripts[0].session.title == expected


def test_copied_histories_and_telemetry_are_never_indexed(base: Path) -> None:
    copied = {"role": "user", "parts": [{"text": "copied"}]}
    log = Log().user("one").system("chat_compression", info={}, compressedHistory=[copied])
    log.system("agent_bootstrap", history=[copied]).system("ui_telemetry", uiEvent={"prompt": "copied"})
    log.system("slash_command", phase="result", rawCommand="/about").add("hologram").write(base)
    reading = read(base)
    assert texts(reading) == [("user", "one")]
    assert reading.skipped == {
        "system/chat_compression": 1,
        "system/agent_bootstrap": 1,
        "system/ui_telemetry": 1,
        "system/slash_command": 1,
        "hologram": 1,
    }


def test_copies_in_a_branch_are_not_paid_for_twice(base: Path) -> None:
    usage = {"promptTokenCount": 10, "candidatesTokenCount": 5}
    copied = {"forkedFrom": {"sessionId": "origin", "messageUuid": "q2"}}
    Log().user("one", **copied).says("two", usageMetadata=usage, **copied).says("x", usageMetadata=usage).write(base)
    (transcript,) = read(base).transcripts
    assert [m.usage for m in transcript.messages] == [None, None, Usage(input_tokens=10, output_tokens=5)]
    assert transcript.session.extensions == {"forked_from": "origin"}


def test_session_started_by_another_names_it(base: Path) -> None:
    Log().system("parent_session", parentSessionId="p1").user("one").write(base)
    session = read(base).transcripts[0].session
    assert (session.parent_session_id, session.parent_key, session.is_agent_session) == ("p1", "qwen:p1", False)


def test_workspace_is_the_first_folder_branch_and_version_the_last(base: Path) -> None:
    log = Log().user("one").user("two", cwd="/elsewhere", gitBranch="fix", version="0.16.0")
    log.write(base)
    session = read(base).transcripts[0].session
    assert (session.workspace, session.git_branch, session.agent_version) == (SHOP, "fix", "0.16.0")


# Files.


def test_records_glued_on_one_line_and_a_cut_last_line_are_read(base: Path) -> None:
    log = Log().user("one").says("two").user("three")
    path = log.write(base)
    first, second, third = (json.dumps(r) for r in log.records)
    path.write_text(f"{first}{second}\n{third[:-9]}")
    reading = read(base)
    assert (texts(reading), reading.unfinished) == ([("user", "one"), ("assistant", "two")], True)


def test_empty_log_is_no_session(base: Path) -> None:
    Log().write(base)
    reading = read(base)
    assert (reading.transcripts, reading.skipped) == ([], {"blank session": 1})


def test_archived_session_gives_way_to_the_active_one(base: Path) -> None:
    archived = Log().user("old").write(base, f"chats/archive/{SESSION}.jsonl")
    (alone,) = Qwen().discover(base).sources
    active = Log().user("new").write(base)
    (active.parent / f"{SESSION}.runtime.json").write_text("{}")
    discovery = Qwen().discover(base)
    assert (alone.path, [s.path for s in discovery.sources]) == (archived, [active])
    assert discovery.passed == [
        (active.parent / f"{SESSION}.runtime.json", "not a session log"),
        (archived, f"the same session as {active}"),
    ]


def test_sub_agent_belongs_to_the_call_that_started_it(base: Path) -> None:
    shop_log().write(base)
    path = write_sub_agent(base, toolUseId="call_1")
    main, sub = (Qwen().parse(s).transcripts[0] for s in Qwen().discover(base).sources)
    key = f"qwen:{SESSION}/agent-explore-1"
    assert [c.agent_session for m in main.messages for c in m.tool_calls] == [key]
    assert sub.session == Session(
        key=key,
        id=f"{SESSION}:explore-1",
        agent="qwen",
        origin=Origin(path=str(path)),
        title="explore: Find refunds",
        workspace=SHOP,
        workspace_encoded=PROJECT,
        git_branch="main",
        agent_version="0.15.10",
        is_agent_session=True,
        parent_session_id=SESSION,
        parent_key=f"qwen:{SESSION}",
        agent_id="explore-1",
        extensions={"outcome": "completed"},
    )
    assert [(m.role.value, m.is_sidechain, m.is_meta) for m in sub.messages] == [
        ("user", True, False),
        ("assistant", True, False),
    ]


def test_sub_agent_of_a_sub_agent_hangs_below_it(base: Path) -> None:
    write_sub_agent(base, parentAgentId="explore-0")
    assert read(base).transcripts[0].session.parent_key == f"qwen:{SESSION}/agent-explore-0"


def test_sub_agent_without_a_sidecar_is_titled_by_its_task(base: Path) -> None:
    path = write_sub_agent(base)
    path.with_name("agent-explore-1.meta.json").unlink()
    session = read(base).transcripts[0].session
    assert (session.title, session.parent_key) == ("Find refunds", f"qwen:{SESSION}")


def test_half_written_sidecar_is_counted_and_the_log_is_read(base: Path) -> None:
    path = write_sub_agent(base)
    path.with_name("agent-explore-1.meta.json").write_text("{")
    reading = read(base)
    assert (len(reading.transcripts), reading.bad_line_count) == (1, 1)


def test_chat_of_the_first_versions_is_read_as_geminis(base: Path) -> None:
    chat = Chat("old-1", projectHash=SHOP_HASH).user(f"fix {SHOP}/cart.ts").gemini("Done.")
    path = chat.write(base, SHOP_HASH, ".json")
    prompt = {"sessionId": "older", "messageId": 0, "type": "user", "message": "hi", "timestamp": iso(1)}
    (path.parent.parent / "logs.json").write_text(json.dumps([prompt]))
    transcripts = [t for s in Qwen().discover(base).sources for t in Qwen().parse(s).transcripts]
    assert [(t.session.key, t.session.agent, t.session.workspace, t.second_hand) for t in transcripts] == [
        ("qwen:older", "qwen", None, True),
        ("qwen:old-1", "qwen", SHOP, False),
    ]
    assert [Qwen().resume(t.session) for t in transcripts] == [None, None]


def test_every_level_of_the_folders_may_be_named(base: Path) -> None:
    path = Log().user("one").write(base)
    for root in (base, base / "projects", path.parent.parent, path.parent, path):
        assert [s.path for s in Qwen().discover(root).sources] == [path], root
    assert Qwen().discover(base / "absent").sources == []


def test_roots_follow_the_programs_own_variables_and_settings(tmp_path: Path) -> None:
    own = tmp_path / ".qwen"
    assert Qwen().roots({}, tmp_path) == [own]
    assert Qwen().roots({"QWEN_HOME": "/srv/q"}, tmp_path) == [Path("/srv/q")]
    assert Qwen().roots({"QWEN_RUNTIME_DIR": "~/run"}, tmp_path) == [tmp_path / "run", own]
    own.mkdir()
    (own / "settings.json").write_text('{"advanced": {"runtimeOutputDir": "/srv/run"}}')
    assert Qwen().roots({}, tmp_path) == [Path("/srv/run"), own]
    (own / "settings.json").write_text("// a comment")
    assert Qwen().roots({}, tmp_path) == [own]


def test_resume_runs_in_the_projects_folder() -> None:
    origin = Origin(path="/x/a1.jsonl")
    session = Session("qwen:a1", "a1", "qwen", origin, workspace=SHOP)
    assert Qwen().resume(session) == Resume(("qwen", "--resume", "a1"), SHOP)
    sub = Session("qwen:a1/agent-s", "a1:s", "qwen", origin, parent_session_id="a1", agent_id="s")
    assert Qwen().resume(sub) == Resume(("qwen", "--resume", "a1"), None)
    assert Qwen().resume(Session("qwen:-x", "--yolo", "qwen", origin)) is None


# Growth and wrong types.


def full_log() -> Log:
    log = shop_log().result("call_9", {"output": "late"}).user("three")
    log.add("system", subtype="rewind", parentUuid="q7", systemPayload={"truncatedCount": 1})
    return log.user("better", subtype="notification").says("Done.", asks("call_2", "ls")).result("call_2", {"a": 1})


def test_log_cut_at_any_byte_is_a_prefix_of_the_whole(base: Path) -> None:
    path = full_log().write(base)
    data = path.read_bytes()
    (whole,) = read(base).transcripts
    for end in range(0, len(data), 7):
        path.write_bytes(data[:end])
        for transcript in read(base).transcripts:
            for early, late in zip(transcript.messages, whole.messages, strict=False):
                assert (early.uuid, early.parent_uuid, early.role, early.at, early.text, early.is_meta) == (
                    late.uuid,
                    late.parent_uuid,
                    late.role,
                    late.at,
                    late.text,
                    late.is_meta,
                )
            assert len(transcript.messages) <= len(whole.messages)


KEYS = ("uuid", "parentUuid", "text", "parts", "functionCall", "functionResponse", "response", "id", "q1", "call_1")


@RELAXED
@given(data=st.data())
def test_wrong_types_in_any_field_never_stop_a_run(tmp_path: Path, data: st.DataObject) -> None:
    path = full_log().write(tmp_path)
    path.write_text("\n".join(map(json.dumps, spoiled_lines(full_log().records, data, junk(*KEYS)))))
    (source,) = Qwen().discover(path).sources
    assert_storable(Qwen().parse(source))


@RELAXED
@given(data=st.data())
def test_wrong_types_in_a_sidecar_are_harmless(tmp_path: Path, data: st.DataObject) -> None:
    path = write_sub_agent(tmp_path)
    meta = path.with_name("agent-explore-1.meta.json")
    meta.write_text(json.dumps(spoiled(json.loads(meta.read_text()), data, junk("agentId", "status", SESSION))))
    (source,) = Qwen().discover(path).sources
    reading = Qwen().parse(source)
    assert len(reading.transcripts) == 1
    assert_storable(reading)


def test_small_home_is_read_whole(tmp_path: Path) -> None:
    home(tmp_path)
    (root,) = Qwen().roots({}, tmp_path)
    readings = [Qwen().parse(s) for s in Qwen().discover(root).sources]
    assert {t.session.key: len(t.messages) for r in readings for t in r.transcripts} == {
        f"qwen:{SESSION}": 5,
        f"qwen:{SESSION}/agent-explore-1": 2,
        "qwen:4a1d2f3e-1111-4222-8333-444455556666": 2,
    }
