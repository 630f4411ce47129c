"""Cursor's editor: chats in its state databases, of every generation, and the workspaces they belong to."""

from __future__ import annotations

import contextlib
import json
import tracemalloc
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from cursor_ide_logs import COMPOSER, OTHER, State, bubble, chat, document, home, placed, read, tool, workspace
from hypothesis import given, settings
from hypothesis import strategies as st
from junk import RELAXED, assert_storable, junk, spoiled_lines
from test_cursor_cli import listing

from agent_journal.connectors.base import Reading
from agent_journal.connectors.cursor_ide import CursorIde
from agent_journal.errors import UnreadableSource
from agent_journal.session import Attachment, Message, Origin, Role, Session, Text, Thinking, ToolCall, ToolType, Usage

CREATED_AT = datetime.fromtimestamp(1786948236.174, UTC)


def sessions(reading: Reading) -> dict[str, Session]:
    return {t.session.id: t.session for t in reading.transcripts}


def test_chat_of_today_becomes_a_session(tmp_path: Path) -> None:
    path = State(tmp_path).composer(*chat(), workspaceIdentifier=placed()).close()
    reading = read(tmp_path)
    (transcript,) = reading.transcripts
    asked, thought = datetime(2026, 8, 17, 6, 30, 36, 299000, UTC), datetime(2026, 8, 17, 6, 30, 41, 992000, UTC)
    assert transcript.session == Session(
        key=f"cursor-ide:{COMPOSER}",
        id=COMPOSER,
        agent="cursor-ide",
        origin=Origin(path=str(path)),
        title="Fix login",
        workspace="/home/me/app",
        git_branch="main",
    )
    assert transcript.messages == (
        Message(Role.USER, (Text("why 401?", "b1", None, asked),), uuid="b1", at=asked),
        Message(
            Role.ASSISTANT, (Thinking("Check it.", "b2", None, thought),), uuid="b2", at=thought, model="composer-2"
        ),
        Message(
            Role.ASSISTANT,
            (
                ToolCall(
                    "call-b3",
                    "read_file_v2",
                    ToolType.READ,
                    {"targetFile": "/home/me/app/auth.ts"},
                    '{"totalLinesInFile":290}',
                    True,
                    result_uuid="b3",
                    paths=("/home/me/app/auth.ts",),
                    uuid="b3",
                ),
            ),
            uuid="b3",
            model="composer-2",
        ),
        Message(
            Role.ASSISTANT, (Text("The token expired.", "b4"),), uuid="b4", model="composer-2", usage=Usage(900, 42)
        ),
    )
    assert not transcript.second_hand
    assert reading.skipped == {"bubble/capability 22": 1}
    assert CursorIde().resume(transcript.session) is None


def test_content_that_is_only_in_the_write_ahead_log_of_a_running_editor_is_read(tmp_path: Path) -> None:
    state = State(tmp_path)
    state.db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    state.db.execute("PRAGMA wal_autocheckpoint = 0")
    state.composer(*chat())
    wal = state.path.with_name("state.vscdb-wal")
    assert b"token expired" in wal.read_bytes()
    assert b"token expired" not in state.path.read_bytes()
    state.db.execute("BEGIN IMMEDIATE")  # in the middle of a write
    state.composer(bubble("x1", 1, "not committed"), composer_id=OTHER)
    assert [t.messages[-1].text for t in read(tmp_path).transcripts] == ["The token expired."]
    state.db.execute("ROLLBACK")
    assert wal in [f.path for f in CursorIde().discover(tmp_path).sources[0].files]
    state.close()


@pytest.mark.parametrize("live", [True, False])
def test_reading_leaves_names_bytes_and_times_of_the_folder_as_they_were(tmp_path: Path, live: bool) -> None:
    home(tmp_path)
    user = tmp_path / ".config" / "Cursor" / "User"
    other = workspace(user, "file:///home/me/app", **{"composer.composerData": {"allComposers": []}})
    writer = State(user)
    writer.put("composerData:z", document("z", isDraft=True))
    if not live:
        writer.close()
        other.close()
    before = listing(tmp_path)
    sources = CursorIde().discover(user).sources
    assert [s.path.parent.name for s in sources] == ["globalStorage", "84c9"]
    for source in sources:
        CursorIde().parse(source)
    assert listing(tmp_path) == before
    writer.close()
    other.close()


# Generations of chats.


def test_bubbles_inline_in_the_first_versions_have_their_tools_beside_them(tmp_path: Path) -> None:
    kept = {
        "o2": {"name": "run_terminal_cmd", "toolCallId": "t", "status": "completed", "rawArgs": '{"command": "ls"}'}
    }
    kept["o2"]["result"] = '{"output": "a.py"}'
    capability = {"type": 15, "data": {"bubbleDataMap": json.dumps(kept)}}
    inline = [bubble("o1", 1, "hi"), bubble("o2", 2, "Sure."), bubble("o3", 2, "Hm.", isThought=True)]
    facts = document(_v=2, conversation=inline, capabilities=[capability])
    State(tmp_path).put(f"composerData:{COMPOSER}", facts).close()
    messages = read(tmp_path).transcripts[0].messages
    assert [m.text for m in messages] == ["hi", "Sure.", ""]
    assert messages[2].thinking == "Hm."
    (made,) = messages[1].tool_calls
    assert (made.type, made.arguments, made.result) == (ToolType.SHELL, {"command": "ls"}, "a.py")


def test_bubbles_in_a_map_follow_the_headers_where_there_are_any(tmp_path: Path) -> None:
    held = {"m1": bubble("m1", 1, "one"), "m2": bubble("m2", 2, "two")}
    order = [{"bubbleId": "m2"}, {"bubbleId": "m1"}, {"bubbleId": "m9"}]
    state = State(tmp_path)
    state.put(f"composerData:{COMPOSER}", document(conversationMap=held))
    state.put(f"composerData:{OTHER}", document(OTHER, conversationMap=held, fullConversationHeadersOnly=order))
    state.put("bubbleId:gone:b1", bubble("b1", 1, "of a chat that was deleted")).close()
    reading = read(tmp_path)
    assert [[m.text for m in t.messages] for t in reading.transcripts] == [["one", "two"], ["two", "one"]]
    assert reading.skipped == {"bubble/missing": 1, "bubble/of no chat": 1}


def test_bubble_that_is_listed_a_thousand_times_is_one_message(tmp_path: Path) -> None:
    """It was read from the database each time: a file of a megabyte filled the memory."""
    order = [{"bubbleId": "b1"}] * 1000
    state = State(tmp_path).put(f"composerData:{COMPOSER}", document(fullConversationHeadersOnly=order))
    state.put(f"bubbleId:{COMPOSER}:b1", bubble("b1", 1, "why 401?")).close()
    reading = read(tmp_path)
    assert [[m.text for m in t.messages] for t in reading.transcripts] == [["why 401?"]]
    assert reading.skipped == {"bubble/listed again": 999}


def test_panel_of_2024_and_prompts_of_a_workspace_are_read(tmp_path: Path) -> None:
    bubbles = [{"type": "user", "text": "how?"}, {"type": "ai", "rawText": "So."}]
    tabs = {"tabs": [{"tabId": "tab1", "chatTitle": "How", "lastSendTime": 1718000000000, "bubbles": bubbles}, {}]}
    prompts = [{"text": "how?", "commandType": 4}, {"text": ""}]
    items = {"workbench.panel.aichat.view.aichat.chatdata": tabs, "aiService.prompts": prompts}
    workspace(tmp_path, "file:///c%3A/my%20app", **items).close()
    reading = read(tmp_path)
    old, typed = reading.transcripts
    assert (old.session.id, old.session.title, old.session.workspace) == ("tab1", "How", "C:\\my app")
    assert [(m.role, m.text) for m in old.messages] == [(Role.USER, "how?"), (Role.ASSISTANT, "So.")]
    assert old.messages[0].at == datetime.fromtimestamp(1718000000, UTC)
    assert (typed.session.key, typed.second_hand) == ("cursor-ide:prompts/84c9", True)
    assert [m.text for m in typed.messages] == ["how?"]
    assert reading.skipped == {"chat without an id": 1, "prompt/empty": 1}


def test_blank_chats_drafts_and_deleted_rows_are_counted(tmp_path: Path) -> None:
    state = State(tmp_path).put("composerData:a", document("a")).put("composerData:b", document("b", isDraft=True))
    state.put("composerData:c", None).put("composerData:d", "{ half")
    state.put("composerData:e", b'{"conversation": [{"type": 1, "text": "raw \x01 control \xff"}]}').close()
    reading = read(tmp_path)
    assert [m.text for t in reading.transcripts for m in t.messages] == ["raw \x01 control \ufffd"]
    assert reading.skipped == {"blank session": 1, "draft": 1, "deleted": 1}
    assert reading.bad_line_count == 1


# Bubbles.


def test_times_come_in_three_spellings_and_relative_ones_are_passed(tmp_path: Path) -> None:
    epoch = 1786948300000
    timing = {"clientStartTime": 5321.7, "clientRpcSendTime": epoch, "clientEndTime": epoch + 9}
    State(tmp_path).composer(
        bubble("a", 1, "no time: the chat's start"),
        bubble("b", 2, "number", createdAt=epoch),
        bubble("c", 2, "timing", timingInfo=timing),
        bubble("d", 2, "none", timingInfo={"clientStartTime": 12}),
    ).close()
    later = datetime.fromtimestamp(epoch / 1000, UTC)
    assert [m.at for m in read(tmp_path).transcripts[0].messages] == [CREATED_AT, later, later, None]


def test_a_prompt_without_a_time_has_that_of_its_answer(tmp_path: Path) -> None:
    epoch = 1786948300000
    State(tmp_path).composer(
        bubble("a", 1, "first", createdAt=epoch),
        bubble("b", 1, "no time, and no answer with one"),
        bubble("c", 2, "answer"),
        bubble("d", 1, "no time"),
        bubble("e", 2, "answer", createdAt=epoch + 1000),
        bubble("f", 1, "not answered yet"),
    ).close()
    at = [datetime.fromtimestamp(epoch / 1000 + seconds, UTC) for seconds in (0, 1)]
    messages = read(tmp_path).transcripts[0].messages
    assert [m.at for m in messages] == [at[0], None, None, at[1], at[1], None]
    assert messages[3].blocks[0].at == at[1]


def test_tool_states_tell_success_and_errors_what_the_user_saw(tmp_path: Path) -> None:
    error = json.dumps({"clientVisibleErrorMessage": "File not found"})
    State(tmp_path).composer(
        bubble("a", 1, "go"),
        tool("b", "run_terminal_command_v2", params='{"command": "ls"}', result='{"output": "a.py"}'),
        tool("c", status="error", error=error, rawArgs='{"target_file": "x.py"}'),
        tool("d", status="rejected", params="not json"),
        tool("e", status="loading", result="half"),
        tool("f", status="completed", params={"a": 1}, result={"b": [2]}),
    ).close()
    calls = [c for m in read(tmp_path).transcripts[0].messages for c in m.tool_calls]
    assert [(c.arguments, c.result, c.success, c.details) for c in calls] == [
        ({"command": "ls"}, "a.py", True, {}),
        ({"target_file": "x.py"}, "File not found", False, {"status": "error"}),
        ("not json", "", False, {"status": "rejected"}),
        (None, None, None, {}),
        ({"a": 1}, '{"b":[2]}', True, {}),
    ]


def test_models_images_and_thoughts_of_a_bubble(tmp_path: Path) -> None:
    thoughts = [{"thinking": "First."}, {"text": "Second."}]
    shown = {"text": "First."}  # once more beside them
    State(tmp_path).composer(
        bubble("a", 1, "look", images=[{"path": "/tmp/a.png", "data": "AAAA"}]),
        bubble(
            "b",
            2,
            "Yes.",
            thinking=shown,
            allThinkingBlocks=thoughts,
            modelInfo={"modelName": "gpt-5"},
            tokenCount={"inputTokens": 0},
        ),
        bubble("c", 9, "unknown type"),
        modelConfig={"modelName": "default"},
    ).close()
    reading = read(tmp_path)
    first, second = reading.transcripts[0].messages
    assert first.blocks[1] == Attachment("image", "/tmp/a.png", uuid="a", at=CREATED_AT)
    assert (second.thinking, second.model, second.usage) == ("First.\n\nSecond.", "gpt-5", None)
    assert reading.skipped == {"bubble/type 9": 1}


# Whose chat.


def test_sub_agents_are_known_by_their_parent_their_header_or_their_name(tmp_path: Path) -> None:
    state = State(tmp_path)
    said = bubble("a", 1, "go")
    state.composer(said, composer_id="parent", subagentComposerIds=["child"], subComposerIds=["parent", 7])
    for name in ("child", "task-1", "flagged", "plain"):
        state.composer(said, composer_id=name, isBestOfNSubcomposer=name == "best")
    state.composer(said, composer_id="best", isBestOfNSubcomposer=True)
    state.header("flagged", 1, name="From the header").close()
    found = sessions(read(tmp_path))
    assert {name: s.is_agent_session for name, s in found.items()} == {
        "agent-child": True,
        "best": True,
        "flagged": True,
        "parent": False,
        "plain": False,
        "task-1": True,
    }
    child = found["agent-child"]
    assert (child.key, child.parent_key) == ("cursor-ide:parent/agent-child", "cursor-ide:parent")
    assert (child.parent_session_id, child.agent_id) == ("parent", "child")


def test_workspace_is_taken_from_the_first_place_that_tells(tmp_path: Path) -> None:
    state = State(tmp_path)
    said, told = bubble("a", 1, "go"), bubble("a", 1, "go", workspaceUris=["file:///told%20by/bubble"])
    state.composer(said, composer_id="1", workspaceIdentifier=placed("/in/document"))
    state.header("1", workspaceIdentifier=placed("/in/header"))
    state.composer(said, composer_id="2", workspaceIdentifier=placed("/in/document"))
    state.composer(said, composer_id="3")
    state.header("3", agentLocation={"environment": {"uri": {"fsPath": "/in/location"}}})
    state.composer(said, composer_id="4", trackedGitRepos=[{"repoPath": "/in/repository"}])
    for name in ("5", "6", "7", "8", "9"):
        state.composer(told, composer_id=name)
    state.close()
    listed = {"allComposers": [{"composerId": "5"}], "selectedComposerIds": ["6"], "lastFocusedComposerIds": ["7", 3]}
    pane = "workbench.panel.composerChatViewPane"
    workspace(tmp_path, "vscode-remote://ssh-remote%2Bhost/srv/app", **{"composer.composerData": listed}).close()
    panes = {f"{pane}.uuid": {"workbench.panel.aichat.view.8": {}}, f"{pane}.hidden": {f"{pane}.9": {}}}
    workspace(tmp_path, "file:///c%3A/app", "beef", **panes).close()
    reading = CursorIde().parse(CursorIde().discover(tmp_path).sources[0])
    assert {t.session.id: t.session.workspace for t in reading.transcripts} == {
        "1": "/in/header",
        "2": "/in/document",
        "3": "/in/location",
        "4": "/in/repository",
        "5": "/srv/app",
        "6": "/srv/app",
        "7": "/srv/app",
        "8": "C:\\app",
        "9": "/told by/bubble",
    }


def test_workspace_database_that_cannot_be_read_costs_only_the_workspace(tmp_path: Path) -> None:
    State(tmp_path).composer(bubble("a", 1, "go")).close()
    broken = workspace(tmp_path, "file:///home/me/app").close()
    broken.write_bytes(b"no database" * 500)
    reading = CursorIde().parse(CursorIde().discover(tmp_path).sources[0])
    assert (len(reading.transcripts), reading.bad_line_count) == (1, 1)


# Which files.


def test_databases_are_found_from_any_folder_above_or_below(tmp_path: Path) -> None:
    user = tmp_path / "Cursor" / "User"
    path = State(user).close()
    inner = workspace(user, "file:///home/me/app").close()
    path.with_name("state.vscdb.backup").write_bytes(b"")
    for root, found in (
        (user, [path, inner]),
        (user.parent, [path, inner]),
        (user / "workspaceStorage", [inner]),
        (inner.parent, [inner]),
        (inner, [inner]),
    ):
        assert [s.path for s in CursorIde().discover(root).sources] == found
    (source,) = CursorIde().discover(inner).sources
    assert [f.path.name for f in source.files] == ["state.vscdb", "workspace.json"]


def test_roots_are_the_editors_folders_on_each_system(tmp_path: Path) -> None:
    given = {"XDG_CONFIG_HOME": "~/conf", "APPDATA": "/c/Users/me/AppData/Roaming"}
    assert CursorIde().roots(given, tmp_path) == [
        tmp_path / "conf" / "Cursor" / "User",
        tmp_path / "Library" / "Application Support" / "Cursor" / "User",
        Path("/c/Users/me/AppData/Roaming/Cursor/User"),
        tmp_path / ".cursor",
    ]


@pytest.mark.parametrize("data", [b"not a database at all" * 200, b"SQLite format 3\0" + b"\1" * 5000])
def test_file_that_is_no_database_is_unreadable(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "globalStorage" / "state.vscdb"
    path.parent.mkdir()
    path.write_bytes(data)
    with pytest.raises(UnreadableSource):
        read(tmp_path)


# Growth, size, and anything anywhere.


def test_each_growth_of_a_chat_is_a_prefix_of_the_next(tmp_path: Path) -> None:
    state = State(tmp_path)
    before: list[tuple[Any, ...]] = []
    for end in range(1, len(chat()) + 1):
        state.composer(*chat()[:end])
        messages = read(tmp_path).transcripts[0].messages
        now = [(m.role, m.uuid, m.at, [type(b) for b in m.blocks]) for m in messages]
        assert now[: len(before)] == before
        before = now
    state.close()


def test_what_the_editor_keeps_beside_the_words_is_not_held_in_memory(tmp_path: Path) -> None:
    state = State(tmp_path)
    state.db.execute("BEGIN")
    ballast = "x" * 200_000
    for number in range(100):
        state.composer(bubble("a", 1, "go", context=ballast), composer_id=f"c{number}")
        state.put(f"checkpointId:c{number}:1", ballast)
    state.db.execute("COMMIT")
    state.close()
    tracemalloc.start()
    reading = read(tmp_path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(reading.transcripts) == 100
    assert peak < 6_000_000  # of 40 MB


KEYS = ("type", "text", "bubbleId", "toolFormerData", "params", "result", "status", "uri", "path", "tabs", "1")


@settings(RELAXED, max_examples=80)
@given(data=st.data(), key=st.sampled_from(sorted(document())), fact=junk(*KEYS), other=junk(*KEYS))
def test_wrong_types_anywhere_raise_nothing_but_unreadable_source(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, key: str, fact: Any, other: Any
) -> None:
    folder = tmp_path_factory.mktemp("any")
    state, said = State(folder), spoiled_lines(chat(), data, junk(*KEYS))
    for number, one in enumerate(said):
        state.put(f"bubbleId:{COMPOSER}:{number}", json.dumps(one))
    order = [{"bubbleId": str(number)} for number in range(len(said))]
    state.put(f"composerData:{COMPOSER}", json.dumps(document(fullConversationHeadersOnly=order) | {key: fact}))
    facts = {"subagentComposerIds": fact, "capabilities": [{"type": 15, "data": fact}], "conversation": [fact]}
    state.put(f"composerData:{OTHER}", json.dumps(document(OTHER) | facts | {"conversationMap": fact}))
    state.header(OTHER, workspaceIdentifier=other, trackedGitRepos=[fact], agentLocation=fact).close()
    items = ("composer.composerData", "aiService.prompts", "workbench.panel.aichat.view.aichat.chatdata")
    state = workspace(folder, "file:///home/me/app")
    for item in items:
        state.put(item, json.dumps(fact), "ItemTable")
    state.path.with_name("workspace.json").write_text(json.dumps({"folder": fact}))
    state.close()
    for source in CursorIde().discover(folder).sources:
        with contextlib.suppress(UnreadableSource):
            assert_storable(CursorIde().parse(source))
