"""Gemini CLI's chats: both formats, their copies, and what the log of changes takes back."""

from __future__ import annotations

import hashlib
import json
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from gemini_logs import SESSION, SHOP, SHOP_HASH, Chat, at, call, home, iso, mark, read, shop_chat
from hypothesis import given
from hypothesis import strategies as st
from junk import RELAXED, assert_storable, junk, spoiled, spoiled_lines

from agent_journal.connectors.base import Reading
from agent_journal.connectors.gemini import Gemini
from agent_journal.errors import UnreadableSource
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
    derive,
)

REAL = Path(__file__).parents[1].parent / "shared" / "data" / "home" / ".gemini"


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return tmp_path / ".gemini"


def texts(reading: Reading) -> list[tuple[str, str]]:
    return [(m.role.value, m.text) for t in reading.transcripts for m in t.messages]


def only_message(reading: Reading) -> Message:
    (transcript,) = reading.transcripts
    (message,) = transcript.messages
    return message


# One chat, whole.


@pytest.mark.parametrize("suffix", [".json", ".jsonl"])
def test_chat_of_either_format_is_the_same_conversation(base: Path, suffix: str) -> None:
    chat = shop_chat()
    if suffix == ".json":
        chat.facts |= {"lastUpdated": iso(5), "summary": "Fix checkout"}
    path = chat.write(base, suffix=suffix)
    mark(base, "shop", SHOP)
    (transcript,) = read(base).transcripts
    assert transcript.session == Session(
        key=f"gemini:{SESSION}",
        id=SESSION,
        agent="gemini",
        origin=Origin(path=str(path)),
        summary="Fix checkout",
        workspace=SHOP,
        workspace_encoded="shop",
    )
    shell = ToolCall(
        id="c1",
        name="run_shell_command",
        type=ToolType.SHELL,
        arguments={"command": "npm test"},
        result="3 failing",
        success=True,
        result_at=at(30),
        uuid="m2",
        parent_uuid="m1",
        at=at(2),
    )
    thought = Thinking("Looking at the cart: The total may be null.", "m2", "m1", at(1))
    usage = Usage(input_tokens=2000, output_tokens=160, cache_read_tokens=7000)
    assert transcript.messages == (
        Message(Role.USER, (Text("Why does checkout fail?", "m1", None, at(1)),), "m1", None, at(1)),
        Message(Role.ASSISTANT, (thought, shell), "m2", "m1", at(2), "gemini-3-pro", usage=usage),
        Message(Role.ASSISTANT, (Text("The total is null.", "m3", "m2", at(3)),), "m3", "m2", at(3), "gemini-3-pro"),
        Message(Role.SYSTEM, (Text("Request cancelled.", "m4", "m3", at(4)),), "m4", "m3", at(4), is_meta=True),
    )


def test_message_written_again_with_every_change_counts_once(base: Path) -> None:
    tokens = {"input": 10, "output": 5, "cached": 0, "thoughts": 0}
    Chat().user("hi").gemini("Hello", tokens=tokens).again(tokens=tokens).again(model="gemini-3-flash").write(base)
    (transcript,) = read(base).transcripts
    derived = derive(transcript.session, transcript.messages)
    assert (derived.message_count, derived.usage) == (2, Usage(input_tokens=10, output_tokens=5))
    assert transcript.messages[1].model == "gemini-3-flash"


# What the log of changes takes back.


def test_rewound_messages_stay_in_place_and_the_next_prompt_continues_before_them(base: Path) -> None:
    chat = Chat().user("one").gemini("two").user("three").gemini("four").log({"$rewindTo": "m3"})
    chat.user("three, but better").write(base)
    (transcript,) = read(base).transcripts
    assert [(m.text, m.parent_uuid, m.extensions) for m in transcript.messages] == [
        ("one", None, {}),
        ("two", "m1", {}),
        ("three", "m2", {"inactive": "rewound"}),
        ("four", "m3", {"inactive": "rewound"}),
        ("three, but better", "m2", {}),
    ]


def test_rewind_to_an_unknown_message_takes_back_all(base: Path) -> None:
    Chat().user("one").gemini("two").log({"$rewindTo": "nowhere"}).user("three").write(base)
    (transcript,) = read(base).transcripts
    assert [(m.text, m.parent_uuid, m.extensions.get("inactive")) for m in transcript.messages] == [
        ("one", None, "rewound"),
        ("two", "m1", "rewound"),
        ("three", None, None),
    ]


def test_masked_history_does_not_take_away_a_result(base: Path) -> None:
    chat = Chat().user("go").gemini("", toolCalls=[call("c1", "read_file", {"file_path": "a.ts"}, "const a = 1")])
    masked = chat.messages[1] | {"toolCalls": [call("c1", "read_file", {"file_path": "a.ts"}, "[masked]")]}
    response = {"id": "c1", "name": "read_file", "response": {"output": "[masked]"}}
    synced = {"id": "s1", "timestamp": iso(9), "type": "user", "content": [{"functionResponse": response}]}
    chat.log({"$set": {"messages": [chat.messages[0], masked, synced]}}).write(base)
    reading = read(base)
    assert [c.result for m in reading.transcripts[0].messages for c in m.tool_calls] == ["const a = 1"]
    assert reading.skipped == {"tool result/repeated": 1, "message/empty user": 1}


def test_compressed_history_is_marked_and_what_it_stands_for_stays(base: Path) -> None:
    chat = Chat().user("one").gemini("two")
    summary = {"id": "s1", "timestamp": iso(9), "type": "user", "content": "<state_snapshot>Cart</state_snapshot>"}
    known = {"id": "s2", "timestamp": iso(9), "type": "gemini", "content": "Got it. Thanks for the additional context!"}
    chat.log({"$set": {"messages": [summary, known]}}).user("three").write(base)
    (transcript,) = read(base).transcripts
    assert [(m.uuid, m.parent_uuid, m.is_meta, m.is_compaction) for m in transcript.messages] == [
        ("m1", None, False, False),
        ("m2", "m1", False, False),
        ("s1", None, True, True),
        ("s2", "s1", True, False),
        ("m3", "s2", False, False),
    ]
    assert [m.extensions for m in transcript.messages[:2]] == [{"inactive": "replaced"}] * 2


def test_lines_that_mean_nothing_are_counted(base: Path) -> None:
    chat = Chat().user("one").log({"future": 1}).add("hologram", "?").add("gemini", None)
    chat.log({"$set": {"messages": [chat.messages[0], 7]}}).write(base)
    assert read(base).skipped == {
        "record/future": 1,
        "message/not an object": 1,
        "message/hologram": 1,
        "message/empty gemini": 1,
    }


def test_document_over_several_lines_in_a_jsonl_file_is_read(base: Path) -> None:
    path = Chat().user("one").write(base)
    path.write_text(Chat().user("one").document)
    reading = read(base)
    assert (texts(reading), reading.bad_line_count) == ([("user", "one")], 0)


def test_half_written_last_line_keeps_earlier_messages(base: Path) -> None:
    path = Chat().user("one").gemini("two").write(base)
    path.write_text(path.read_text()[:-20])
    reading = read(base)
    assert (texts(reading), reading.unfinished) == ([("user", "one")], True)


def test_half_written_document_is_unreadable_for_now(base: Path) -> None:
    path = Chat().user("one").write(base, suffix=".json")
    path.write_text(path.read_text()[:-20])
    with pytest.raises(UnreadableSource):
        read(base)


# Prompts.


def test_prompt_is_what_was_typed_not_the_files_put_behind_it(base: Path) -> None:
    content = [
        {"text": "Why does @cart.ts fail?"},
        {"text": "\n--- Content from referenced files ---"},
        {"text": "\nContent from @cart.ts:\n"},
        {"text": "export const total = null"},
        {"text": "\n--- End of content ---"},
    ]
    typed = [{"text": "Why does @cart.ts fail?"}]
    Chat().user(content).user("".join(p["text"] for p in content)).user(content, displayContent=typed).write(base)
    (transcript,) = read(base).transcripts
    assert [m.text for m in transcript.messages] == ["Why does @cart.ts fail?"] * 3
    attached = [[b.name for b in m.blocks if isinstance(b, Attachment)] for m in transcript.messages]
    assert attached == [["cart.ts"], ["cart.ts"], []]


@pytest.mark.parametrize(
    ("text", "is_meta"),
    [
        ("/chat save x", True),
        ("/home/ana is full", False),
        ("?", True),
        ("? why", False),
        ("<session_context>\nToday is", True),
        ("<hook_context>lint</hook_context>", True),
        ("This is the Gemini CLI. We are setting up the context for our chat.", True),
    ],
)
def test_injected_prompt_is_not_a_persons(base: Path, text: str, is_meta: bool) -> None:
    Chat().user(text).gemini("ok").write(base)
    assert read(base).transcripts[0].messages[0].is_meta is is_meta


def test_made_up_answer_to_the_context_is_not_the_models(base: Path) -> None:
    Chat().gemini("Got it. Thanks for the context!").user("hi").write(base)
    assert [m.is_meta for m in read(base).transcripts[0].messages] == [True, False]


def test_record_of_results_only_is_no_prompt(base: Path) -> None:
    asked = {"functionCall": {"id": "c1", "name": "read_file", "args": {"file_path": "a.ts"}}}
    answer = {"functionResponse": {"id": "c1", "name": "read_file", "response": {"output": "const a = 1"}}}
    stray = {"functionResponse": {"id": "c9", "name": "glob", "response": {"error": "no such folder"}}}
    Chat().user("go").gemini([{"text": "Reading."}, asked]).user([answer]).user([stray]).gemini("ok").write(base)
    (transcript,) = read(base).transcripts
    assert [(m.role.value, m.text, m.parent_uuid) for m in transcript.messages] == [
        ("user", "go", None),
        ("assistant", "Reading.", "m1"),
        ("tool", "", "m3"),
        ("assistant", "ok", "m4"),
    ]
    calls = [(c.id, c.result, c.success, c.result_uuid) for m in transcript.messages for c in m.tool_calls]
    assert calls == [("c1", "const a = 1", True, "m3"), ("c9", "no such folder", False, "m4")]


def test_images_leave_their_kind_and_unknown_parts_their_count(base: Path) -> None:
    image = {"inlineData": {"mimeType": "image/png", "data": "A" * 9000}}
    Chat().user([{"text": "look"}, image, {"hologram": 1}, "and tell"]).write(base)
    reading = read(base)
    message = only_message(reading)
    assert (message.text, message.blocks[1]) == (
        "lookand tell",
        Attachment("image", media_type="image/png", uuid="m1", at=at(1)),
    )
    assert reading.skipped == {"part/hologram": 1}


# Answers and calls.


def test_thought_parts_serve_where_thoughts_were_not_kept(base: Path) -> None:
    parts = [{"text": "Maybe null.", "thought": True}, {"text": "It is null."}]
    Chat().user("q").gemini(parts).gemini(parts, thoughts=[{"subject": "Null", "description": "Maybe."}]).write(base)
    messages = read(base).transcripts[0].messages
    assert [(m.thinking, m.text) for m in messages[1:]] == [
        ("Maybe null.", "It is null."),
        ("Null: Maybe.", "It is null."),
    ]


def test_call_in_content_repeats_the_recorded_one(base: Path) -> None:
    asked = {"functionCall": {"id": "c1", "name": "glob", "args": {}}}
    other = {"functionCall": {"id": "c2", "name": "glob", "args": {}}}
    Chat().user("q").gemini([asked, other], toolCalls=[call("c1", "glob", {}, "a.ts")]).write(base)
    reading = read(base)
    assert [(c.id, c.result) for c in reading.transcripts[0].messages[1].tool_calls] == [("c2", None), ("c1", "a.ts")]
    assert reading.skipped == {"part/repeated": 1}


@pytest.mark.parametrize(
    ("fields", "result", "success"),
    [
        ({"status": "success", "result": "plain"}, "plain", True),
        ({"status": "executing"}, None, None),
        ({"status": "cancelled", "result": [{"text": "stopped"}]}, "stopped", False),
        ({"status": "error", "resultDisplay": "boom"}, "boom", False),
        ({"status": "success", "resultDisplay": {"fileDiff": "-a\n+b"}}, "-a\n+b", True),
        (
            {"status": "success", "resultDisplay": {"todos": [{"status": "pending", "description": "test"}]}},
            "pending: test",
            True,
        ),
        ({"status": "success", "resultDisplay": [[{"text": "a"}, {"text": "b"}], [{"text": "c"}]]}, "ab\nc", True),
        ({"status": "success", "result": [{"functionResponse": {"response": {"error": "no"}}}]}, "no", False),
        ({"status": "success", "result": [{"functionResponse": {"response": {"n": [1]}}}]}, '{"n":[1]}', True),
        ({"status": "success", "result": [{"functionResponse": {"response": {"output": ""}}}]}, "", True),
    ],
)
def test_result_of_a_call(base: Path, fields: dict[str, Any], result: str | None, success: bool | None) -> None:
    Chat().gemini("", toolCalls=[call("c1", "replace", {"file_path": "a.ts"}, **fields)]).write(base)
    (made,) = only_message(read(base)).tool_calls
    assert (made.result, made.success, made.paths, made.type) == (result, success, ("a.ts",), ToolType.WRITE)


def test_error_is_the_programs_own(base: Path) -> None:
    Chat().user("q").add("error", "[API Error: quota]").add("warning", "slow").write(base)
    messages = read(base).transcripts[0].messages
    assert [(m.role, m.is_meta, m.is_error) for m in messages[1:]] == [
        (Role.SYSTEM, True, True),
        (Role.SYSTEM, True, False),
    ]


def test_session_in_which_nobody_spoke_is_left(base: Path) -> None:
    Chat().add("error", "Automatic update failed").user("/quit").write(base)
    reading = read(base)
    assert (reading.transcripts, reading.skipped) == (
        [],
        {"blank session": 1, "blank session/system message": 1, "blank session/user message": 1},
    )


# Files: copies, sub-agents, prompt logs.


def test_copies_of_a_session_are_one_source_and_the_newest_is_read(base: Path) -> None:
    old = Chat().user("one").write(base, SHOP_HASH, ".json")
    Chat().user("one").write(base, "shop", ".json")
    new = Chat(lastUpdated=iso(50)).user("one").gemini("two").write(base, "shop")
    mark(base, "shop", SHOP)
    (source,) = Gemini().discover(base).sources
    reading = Gemini().parse(source)
    assert (source.path, len(source.files)) == (old, 4)
    assert texts(reading) == [("user", "one"), ("assistant", "two")]
    assert [(t.session.origin.path, t.session.workspace) for t in reading.transcripts] == [(str(new), SHOP)]
    assert reading.skipped == {"another copy of the session": 2}


def test_copies_of_a_session_that_began_at_different_times_are_one_source_too(base: Path) -> None:
    """The time in a name is when that file was begun; the id is the session's."""
    Chat(lastUpdated=iso(50)).user("one").gemini("two").write(base, name="session-2025-12-01T10-00-7c1d5a52")
    Chat().user("one").write(base)
    Chat("8d2e6b63-1111-4222-8333-444455556666").user("three").write(base)
    sources = Gemini().discover(base).sources
    assert [len(s.files) for s in sources] == [2, 1]
    assert texts(Gemini().parse(sources[0])) == [("user", "one"), ("assistant", "two")]


def test_half_written_copy_gives_way_to_a_whole_one(base: Path) -> None:
    old = Chat().user("one").write(base, suffix=".json")
    old.write_text("{")
    Chat().user("one").write(base)
    reading = read(base)
    assert (texts(reading), reading.bad_line_count) == ([("user", "one")], 1)


def test_different_sessions_under_one_name_are_both_kept(base: Path) -> None:
    Chat(SESSION).user("one").write(base, "a", name="backup")
    Chat("other").user("two").write(base, "b", name="backup")
    assert texts(read(base)) == [("user", "one"), ("user", "two")]


def test_sub_agents_chat_belongs_to_the_session_that_started_it(base: Path) -> None:
    started = call("c1", "codebase_investigator", {"objective": "Find"}, "Found", agentId="sub-1")
    main = Chat().user("go").gemini("", toolCalls=[started]).write(base)
    sub = Chat("sub-1", kind="subagent", directories=[SHOP]).user("Find").gemini("Found")
    path = main.parent / SESSION / "sub-1.jsonl"
    path.parent.mkdir()
    path.write_text(sub.text)
    first, second = (Gemini().parse(s).transcripts[0] for s in Gemini().discover(base).sources)
    parent, child = sorted((first, second), key=lambda t: t.session.is_agent_session)
    key = f"gemini:{SESSION}/agent-sub-1"
    assert [c.agent_session for m in parent.messages for c in m.tool_calls] == [key]
    assert child.session == Session(
        key=key,
        id="sub-1",
        agent="gemini",
        origin=Origin(path=str(path)),
        workspace=SHOP,
        workspace_encoded="shop",
        is_agent_session=True,
        parent_session_id=SESSION,
        parent_key=f"gemini:{SESSION}",
        agent_id="sub-1",
    )


def test_flat_sub_agent_is_an_agents_session_without_a_parent(base: Path) -> None:
    Chat(kind="subagent").user("Find").write(base)
    session = read(base).transcripts[0].session
    assert (session.is_agent_session, session.parent_key) == (True, None)


def test_prompt_log_is_a_second_hand_session_each(base: Path) -> None:
    prompts = [
        {"sessionId": "a", "messageId": 0, "type": "user", "message": "one", "timestamp": iso(1)},
        {"sessionId": "a", "messageId": 1, "type": "user", "message": "/quit", "timestamp": iso(2)},
        {"sessionId": "b", "messageId": 0, "type": "user", "message": "/quit", "timestamp": iso(3)},
        {"sessionId": "b"},
    ]
    mark(base, "shop", SHOP)
    (base / "tmp" / "shop" / "logs.json").write_text(json.dumps(prompts))
    reading = read(base)
    (transcript,) = reading.transcripts
    assert (transcript.second_hand, transcript.session.key, transcript.session.workspace) == (True, "gemini:a", SHOP)
    assert [(m.text, m.uuid, m.at, m.is_meta) for m in transcript.messages] == [
        ("one", None, at(1), False),
        ("/quit", None, at(2), True),
    ]
    assert reading.skipped == {"history/empty": 1, "history/only commands": 1}


def test_files_that_are_no_chats_are_named(base: Path) -> None:
    path = Chat().user("one").write(base)
    (path.parent / f"{path.name}.tmp-12").write_text("")
    (path.parent.parent / "checkpoint-try.json").write_text("[]")
    (base / "tmp" / "bin").mkdir()
    (path.parents[1] / "checkpoints").mkdir()
    (path.parents[1] / "tool-outputs").mkdir()
    discovery = Gemini().discover(base)
    assert [s.path for s in discovery.sources] == [path]
    assert discovery.passed == [
        (path.parent.parent / "checkpoint-try.json", "a saved copy of a chat"),
        (path.parents[1] / "checkpoints", "copies of files as they were before edits"),
        (path.parents[1] / "tool-outputs", "long outputs of tools, whose beginnings and ends are in the chats"),
        (path.parent / f"{path.name}.tmp-12", "not a session log"),
    ]


def test_every_level_of_the_folders_may_be_named(base: Path) -> None:
    path = Chat().user("one").write(base, "chats")
    for root in (base, base / "tmp", base / "tmp" / "chats", path.parent, path):
        assert [s.path for s in Gemini().discover(root).sources] == [path], root
    assert Gemini().discover(base / "absent").sources == []


def test_roots_follow_the_programs_own_variable(tmp_path: Path) -> None:
    assert Gemini().roots({}, tmp_path) == [tmp_path / ".gemini", tmp_path / ".cache" / ".gemini"]
    assert Gemini().roots({"GEMINI_CLI_HOME": "/srv"}, tmp_path)[0] == Path("/srv/.gemini")


# Workspaces.


def test_workspace_from_the_registry_of_projects(base: Path) -> None:
    Chat(projectHash="x").user("one").write(base, "shop-1")
    (base / "projects.json").write_text(json.dumps({"projects": {"/home/ana/other": "shop", SHOP: "shop-1"}}))
    assert read(base).transcripts[0].session.workspace == SHOP
    (base / "projects.json").write_text('{"projects": {"/home')
    reading = read(base)
    assert (reading.transcripts[0].session.workspace, reading.bad_line_count) == (None, 1)


@pytest.mark.parametrize("mentioned", ["registry", "call", "text", "windows"])
def test_workspace_is_a_known_path_whose_hash_is_the_projects(base: Path, mentioned: str) -> None:
    folder = "C:\\Users\\Ana\\shop" if mentioned == "windows" else SHOP
    told = {"call": [call("c1", "read_file", {"file_path": f"{SHOP}/src/cart.ts"})]}.get(mentioned, [])
    text = {"text": f"see {SHOP}/a.ts", "windows": f"see {folder}\\a.ts"}.get(mentioned, "hi")
    hashed = hashlib.sha256(folder.encode()).hexdigest()
    Chat(projectHash=hashed).user(text).gemini("ok", toolCalls=told).write(base, hashed, ".json")
    if mentioned == "registry":
        (base / "projects.json").write_text(json.dumps({"projects": {f"{SHOP}/packages/web": "web"}}))
    assert read(base).transcripts[0].session.workspace == folder


@pytest.mark.parametrize("mentioned", ["registry", "text"])
def test_path_longer_than_any_is_no_workspace_and_costs_no_time(base: Path, mentioned: str) -> None:
    """Every folder above a path is hashed: of a path of 1 MB that took minutes."""
    endless = "/a" * 200_000
    Chat(projectHash=SHOP_HASH).user(f"see {endless}" if mentioned == "text" else "hi").write(base, SHOP_HASH)
    if mentioned == "registry":
        (base / "projects.json").write_text(json.dumps({"projects": {endless: "web"}}))
    started = time.monotonic()
    assert read(base).transcripts[0].session.workspace is None
    assert time.monotonic() - started < 2


def test_workspace_may_be_the_home_the_files_lie_in(base: Path) -> None:
    hashed = hashlib.sha256(str(base.parent).encode()).hexdigest()
    Chat(projectHash=hashed).user("hi").write(base, hashed)
    assert read(base).transcripts[0].session.workspace == str(base.parent)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"<session_context>\n- **Workspace Directories:**\n  - {SHOP}\n- **OS**", SHOP),
        (
            "This is the Gemini CLI. We are setting up the context for our chat.\n"
            f"I'm currently working in the directory: {SHOP}\nHere",
            SHOP,
        ),
        ("I'm currently working in the directory: /elsewhere", None),
    ],
)
def test_workspace_from_the_injected_context(base: Path, text: str, expected: str | None) -> None:
    Chat(projectHash="x").user(text).user("hi").write(base, "unmarked")
    session = read(base).transcripts[0].session
    assert (session.workspace, session.workspace_encoded) == (expected, "unmarked")


# Resuming.


def test_resume_runs_in_the_projects_folder(tmp_path: Path) -> None:
    origin = Origin(path="/x/session-1.jsonl")
    session = Session("gemini:a1", "a1", "gemini", origin, workspace=SHOP)
    assert Gemini().resume(session) == Resume(("gemini", "--resume", "a1"), SHOP)
    sub = Session("gemini:a1/agent-s", "s", "gemini", origin, parent_session_id="a1", agent_id="s")
    assert Gemini().resume(sub) == Resume(("gemini", "--resume", "a1"), None)
    assert Gemini().resume(Session("gemini:-x", "--yolo", "gemini", origin)) is None
    assert Gemini().resume(Session("gemini:a1", "a1", "gemini", Origin(path="/x/logs.json"))) is None


# Growth, wrong types, real files.


def full_chat() -> Chat:
    chat = shop_chat().user("again").log({"$rewindTo": "m5"}).user("once more").gemini("Done.")
    replaced = [chat.messages[0], {"id": "s1", "type": "user", "timestamp": iso(40), "content": "<state_snapshot>x"}]
    return chat.log({"$set": {"messages": replaced}}).user("and then?").gemini([{"text": "Nothing."}])


def test_log_cut_at_any_byte_is_a_prefix_of_the_whole(base: Path) -> None:
    path = full_chat().write(base)
    data = path.read_bytes()
    (whole,) = read(base).transcripts
    for end in range(0, len(data), 7):
        path.write_bytes(data[:end])
        for transcript in read(base).transcripts:
            for early, late in zip(transcript.messages, whole.messages, strict=False):
                assert (early.uuid, early.parent_uuid, early.role, early.at) == (
                    late.uuid,
                    late.parent_uuid,
                    late.role,
                    late.at,
                )
                assert early.text == late.text
            assert len(transcript.messages) <= len(whole.messages)


KEYS = ("id", "text", "content", "functionCall", "functionResponse", "response", "messages", "m1", "c1", "$set", "type")


@RELAXED
@given(data=st.data())
def test_wrong_types_in_any_field_never_stop_a_run(tmp_path: Path, data: st.DataObject) -> None:
    suffix = data.draw(st.sampled_from([".json", ".jsonl"]))
    path = full_chat().write(tmp_path, suffix=suffix)
    if suffix == ".json":
        path.write_text(json.dumps(spoiled(json.loads(path.read_text()), data, junk(*KEYS))))
    else:
        path.write_text("\n".join(map(json.dumps, spoiled_lines(full_chat().lines, data, junk(*KEYS)))))
    (source,) = Gemini().discover(path).sources
    try:
        assert_storable(Gemini().parse(source))
    except UnreadableSource:
        assert suffix == ".json"


@RELAXED
@given(data=st.data())
def test_wrong_types_beside_the_chats_are_harmless(tmp_path: Path, data: st.DataObject) -> None:
    base = tmp_path / ".gemini"
    Chat().user("one").write(base)
    wrong = junk("projects", "sessionId", "message", "timestamp", SHOP)
    (base / "projects.json").write_text(json.dumps(data.draw(wrong)))
    (base / "tmp" / "shop" / "logs.json").write_text(json.dumps(data.draw(wrong)))
    for source in Gemini().discover(base).sources:
        try:
            Gemini().parse(source)
        except UnreadableSource:
            assert source.kind == "history"


def test_small_home_is_read_whole(tmp_path: Path) -> None:
    home(tmp_path)
    (root, _) = Gemini().roots({}, tmp_path)
    readings = [Gemini().parse(s) for s in Gemini().discover(root).sources]
    found = {t.session.id: (t.session.workspace, len(t.messages)) for r in readings for t in r.transcripts}
    assert found == {SESSION: (SHOP, 4), "8d2e6b63-1111-4222-8333-444455556666": (SHOP, 2)}


def counted(path: Path) -> tuple[int, int, int, int]:
    """Messages, calls, results and tokens, from the description of the format alone."""
    chat = json.loads(path.read_text())
    kinds = Counter(m["type"] for m in chat["messages"])
    if not kinds["user"] + kinds["gemini"]:
        return 0, 0, 0, 0
    said = [m for m in chat["messages"] if m["content"].strip() or m.get("thoughts") or m.get("toolCalls")]
    calls = [c for m in said for c in m.get("toolCalls", [])]
    tokens = [m["tokens"] for m in said if m.get("tokens")]
    spent = sum(t["input"] + t["output"] + t["thoughts"] for t in tokens)
    return len(said), len(calls), sum("result" in c for c in calls), spent


@pytest.mark.skipif(not REAL.is_dir(), reason="no sample of real sessions beside the repository")
def test_every_real_file_holds_as_much_as_counted_by_hand() -> None:
    expected = {p: counted(p) for p in REAL.glob("tmp/*/chats/*.json")}
    assert len(expected) == 30
    found = {}
    for source in Gemini().discover(REAL).sources:
        reading = Gemini().parse(source)
        messages = [m for t in reading.transcripts for m in t.messages]
        calls = [c for m in messages for c in m.tool_calls]
        usages = [m.usage for m in messages if m.usage]
        spent = sum(u.input_tokens + u.cache_read_tokens + u.output_tokens for u in usages)
        found[source.path] = len(messages), len(calls), sum(c.result is not None for c in calls), spent
        assert (reading.bad_line_count, [k for k in reading.skipped if not k.startswith("blank")]) == (0, [])
    assert found == expected


@pytest.mark.skipif(not REAL.is_dir(), reason="no sample of real sessions beside the repository")
def test_real_files_lose_no_prompt_answer_thought_or_result() -> None:
    for source in Gemini().discover(REAL).sources:
        messages = [m for t in Gemini().parse(source).transcripts for m in t.messages]
        said = "\n".join(b.text for m in messages for b in m.blocks if isinstance(b, Text | Thinking))
        results = {c.id: c.result for m in messages for c in m.tool_calls}
        for record in json.loads(source.path.read_text())["messages"] if messages else []:
            assert record["content"] in said
            assert all(t["description"] in said for t in record.get("thoughts", []))
            for one in record.get("toolCalls", []):
                response = one["result"][0]["functionResponse"]["response"]
                assert results[one["id"]] == response.get("output", response.get("error"))


@pytest.mark.skipif(not REAL.is_dir(), reason="no sample of real sessions beside the repository")
def test_real_hash_is_resolved_by_a_path_the_session_mentions() -> None:
    readings = [Gemini().parse(s) for s in Gemini().discover(REAL).sources]
    sessions = [t.session for r in readings for t in r.transcripts]
    known = {(s.workspace, s.workspace_encoded) for s in sessions if s.workspace}
    assert len(known) == 4
    assert all(hashlib.sha256(path.encode()).hexdigest() == folder for path, folder in known)
