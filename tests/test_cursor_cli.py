"""Cursor CLI's chats: databases of blobs, their order, what is joined and what is counted."""

from __future__ import annotations

import contextlib
import json
import sqlite3
import time
import tracemalloc
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from cursor_cli_logs import (
    BUCKET,
    CREATED,
    OTHER,
    SESSION,
    WORKSPACE,
    Chat,
    call,
    conversation,
    home,
    name_of,
    node,
    prompt,
    read,
    result,
    text,
    transcript_line,
    transcript_path,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from junk import RELAXED, assert_storable, junk, spoiled_lines

from agent_journal.connectors.base import Discovery
from agent_journal.connectors.cursor_cli import CursorCli
from agent_journal.errors import UnreadableSource
from agent_journal.session import Attachment, Message, Origin, Resume, Role, Session, Text, Thinking, ToolCall, ToolType

STARTED = datetime.fromtimestamp(CREATED / 1000, UTC)


def blob_id(message: dict[str, Any]) -> str:
    return name_of(json.dumps(message).encode())


def texts(root: Path) -> list[str]:
    return [m.text for t in read(root).transcripts for m in t.messages]


def test_chat_becomes_a_session_with_results_joined_and_context_left_out(tmp_path: Path) -> None:
    path = Chat(tmp_path).say(*conversation()).close()
    reading = read(tmp_path)
    (transcript,) = reading.transcripts
    said = conversation()
    question, answer, last = blob_id(said[2]), blob_id(said[3]), blob_id(said[5])
    assert transcript.session == Session(
        key=f"cursor-cli:{SESSION}",
        id=SESSION,
        agent="cursor-cli",
        origin=Origin(path=str(path)),
        title="Fix flaky test",
        workspace=WORKSPACE,
        workspace_encoded=BUCKET,
    )
    assert transcript.messages == (
        Message(Role.USER, (Text("why does test_x fail?", question, None, STARTED),), uuid=question, at=STARTED),
        Message(
            Role.ASSISTANT,
            (
                Thinking("Let me look.", answer),
                Text("I'll read the file.", answer),
                ToolCall(
                    "toolu_01",
                    "Read",
                    ToolType.READ,
                    {"path": "/home/me/app/a.py"},
                    "1|import os",
                    True,
                    result_uuid=blob_id(said[4]),
                    paths=("/home/me/app/a.py",),
                    uuid=answer,
                ),
            ),
            uuid=answer,
            model="claude-4.5-opus-high-thinking",
        ),
        Message(Role.ASSISTANT, (Text("It never imports sys.", last),), uuid=last, model="gpt-5"),
    )
    assert not transcript.second_hand
    assert reading.skipped == {"message/system": 1, "injected context": 1, "blob/node": 1}
    assert (reading.lines, reading.bad_line_count) == (6, 0)


def test_content_that_is_only_in_the_write_ahead_log_of_a_running_agent_is_read(tmp_path: Path) -> None:
    chat = Chat(tmp_path)
    chat.db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    chat.db.execute("PRAGMA wal_autocheckpoint = 0")
    chat.say(*conversation())
    wal = chat.path.with_name("store.db-wal")
    assert b"never imports" in wal.read_bytes()
    assert b"never imports" not in chat.path.read_bytes()
    assert texts(tmp_path)[-1] == "It never imports sys."
    chat.db.execute("BEGIN IMMEDIATE")  # in the middle of a write
    chat.blob(prompt("not committed"))
    assert texts(tmp_path)[-1] == "It never imports sys."
    chat.db.execute("ROLLBACK")
    (source,) = CursorCli().discover(tmp_path).sources
    assert wal in [f.path for f in source.files]
    chat.close()


def listing(folder: Path) -> dict[str, tuple[int, bytes]]:
    found = sorted(folder.rglob("*"))
    return {str(p): (p.stat().st_mtime_ns, p.read_bytes() if p.is_file() else b"") for p in found}


@pytest.mark.parametrize("live", [True, False])
def test_reading_leaves_names_bytes_and_times_of_the_folder_as_they_were(tmp_path: Path, live: bool) -> None:
    home(tmp_path)
    chat = Chat(tmp_path / ".cursor", "33333333-2222-4333-8444-555555555555").say(*conversation())
    if not live:
        chat.close()
    before = listing(tmp_path)
    for source in CursorCli().discover(tmp_path / ".cursor").sources:
        CursorCli().parse(source)
    assert listing(tmp_path) == before
    chat.close()


def test_without_a_root_the_node_that_lists_most_gives_the_order(tmp_path: Path) -> None:
    chat = Chat(tmp_path)
    names = [chat.blob(prompt(words)) for words in ("second", "first", "third")]
    chat.blob(node(names[0]))
    chat.blob(node(names[1], names[0], names[2]))
    chat.meta(latestRootBlobId="0" * 64).close()
    assert texts(tmp_path) == ["first", "second", "third"]


def test_without_nodes_blobs_are_read_as_they_were_written(tmp_path: Path) -> None:
    chat = Chat(tmp_path)
    for words in ("one", "two"):
        chat.blob(prompt(words))
    chat.blob(b"the very first$11111111-2222-4333-8444-555555555555")
    chat.close()
    assert texts(tmp_path) == ["one", "two", "the very first"]


def test_nested_nodes_and_messages_inside_them_are_read_depth_first(tmp_path: Path) -> None:
    chat = Chat(tmp_path)
    one, two, three = (chat.blob(prompt(words)) for words in ("one", "two", "three"))
    inside = json.dumps(prompt("inside")).encode()
    turn = chat.blob(node(one, tag=b"\x12") + node(two, behind=b"\x22\x10" + inside + b"\x28\x01"))
    chat.blob(node(turn))  # an older root
    root = chat.blob(node(turn, three, three) + b"\x12\x20" + bytes.fromhex(chat.blob(prompt("not of field 1"))))
    chat.meta(latestRootBlobId=root).close()
    reading = read(tmp_path)
    assert [m.text for m in reading.transcripts[0].messages] == ["one", "two", "inside", "three"]
    assert reading.skipped["blob/unreachable"] == 2


def test_bytes_that_only_look_like_a_reference_are_passed(tmp_path: Path) -> None:
    chat = Chat(tmp_path)
    name = chat.blob(prompt("one"))
    junk = b"\x0a\x20" + b"a" * 32 + b"\x0a\x20" + bytes(range(128, 160)) + b"\x0a\x20\x0a"
    chat.meta(latestRootBlobId=chat.blob(junk + node(name) + b"\x0a\x20\x01")).close()
    assert texts(tmp_path) == ["one"]


def test_nodes_that_list_one_another_end(tmp_path: Path) -> None:
    chat = Chat(tmp_path)
    one = chat.blob(prompt("one"))
    first, second = "8f" * 32, "9f" * 32  # no true hashes, so that a loop can be made
    for name, other in ((first, second), (second, first)):
        chat.db.execute("INSERT INTO blobs VALUES (?, ?)", (name, node(other, one)))
    chat.meta(latestRootBlobId=first).close()
    assert texts(tmp_path) == ["one"]


def test_tables_with_other_column_names_and_plain_json_facts_are_understood(tmp_path: Path) -> None:
    chat = Chat(tmp_path)
    chat.db.execute("DROP TABLE blobs")
    chat.db.execute("CREATE TABLE blobs (key TEXT PRIMARY KEY, value BLOB)")
    chat.say(prompt("hello"))
    chat.meta(plain=True, name="Named", workspacePath="/srv/app").close()
    session = read(tmp_path).transcripts[0].session
    assert (session.title, session.workspace) == ("Named", "/srv/app")


def test_meta_json_beside_the_database_wins_over_the_facts_inside(tmp_path: Path) -> None:
    path = Chat(tmp_path).say(prompt("hello")).close()
    meta = {"schemaVersion": 1, "title": "By its file", "createdAtMs": CREATED + 1000, "hasConversation": True}
    path.with_name("meta.json").write_text(json.dumps(meta))
    path.with_name("prompt_history.json").write_text('["hello"]')
    discovery = CursorCli().discover(tmp_path)
    assert [f.path.name for f in discovery.sources[0].files] == ["store.db", "meta.json"]
    transcript = CursorCli().parse(discovery.sources[0]).transcripts[0]
    assert transcript.session.title == "By its file"
    assert transcript.messages[0].at == datetime.fromtimestamp((CREATED + 1000) / 1000, UTC)


def test_unnamed_chat_has_no_title_and_damaged_facts_are_counted(tmp_path: Path) -> None:
    path = Chat(tmp_path).say(prompt("hello"), name="New Agent").close()
    path.with_name("meta.json").write_text('{"title": ')
    reading = read(tmp_path)
    assert reading.transcripts[0].session.title is None
    assert reading.bad_line_count == 1


def test_workspace_is_found_by_its_digest_among_the_files_that_calls_name(tmp_path: Path) -> None:
    part = call("t1", "Read", {"path": f"{WORKSPACE}/src/a.py"})
    Chat(tmp_path).say(prompt("hello"), {"role": "assistant", "content": [part]}).close()
    assert read(tmp_path).transcripts[0].session.workspace == WORKSPACE


def test_calls_that_name_folders_without_end_do_not_fill_memory(tmp_path: Path) -> None:
    """Every folder above every file was tried and kept: 20 MB of calls took gigabytes."""
    calls = [call(f"c{n}", "Read", {"path": f"/{n}" + "/a" * 400}) for n in range(300)]
    Chat(tmp_path, bucket="0" * 32).say(prompt("one"), {"role": "assistant", "content": calls}).close()
    tracemalloc.start()
    assert read(tmp_path).transcripts[0].session.workspace is None
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20 * 2**20


def test_results_tell_failure_in_three_ways(tmp_path: Path) -> None:
    calls = {"role": "assistant", "content": [call(f"t{n}", "Shell", {"command": "x"}) for n in range(5)]}
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    answers = [
        result("t0", "no", isError=True),
        result("t1", "Error: not found"),
        result("t2", "Command exited with code 2"),
        result("t3", "Command exited with code 0"),
        result("t4", parts),
    ]
    Chat(tmp_path).say(prompt("run"), calls, *answers).close()
    made = read(tmp_path).transcripts[0].messages[1].tool_calls
    assert [c.success for c in made] == [False, False, False, True, True]
    assert made[4].result == "a\nb"


def test_result_of_a_call_never_seen_is_a_message_of_its_own(tmp_path: Path) -> None:
    answer = result("t9", {"lines": 3})
    Chat(tmp_path).say(prompt("run"), answer).close()
    name = blob_id(answer)
    assert read(tmp_path).transcripts[0].messages[1] == Message(
        Role.TOOL,
        (ToolCall("t9", "Read", ToolType.READ, None, '{"lines":3}', True, result_uuid=name, uuid=name),),
        uuid=name,
    )


def test_redacted_parts_are_counted_and_images_are_attachments(tmp_path: Path) -> None:
    image = {"type": "image", "image": "data:image/png;base64,AAAA", "mimeType": "image/png"}
    hidden = [{"type": "redacted-reasoning", "data": "x"}, *text("[REDACTED]", "Seen.")]
    asked = {"role": "user", "content": [*prompt("look")["content"], image]}
    Chat(tmp_path).say(asked, {"role": "assistant", "content": hidden}).close()
    reading = read(tmp_path)
    first, second = reading.transcripts[0].messages
    assert [type(b) for b in first.blocks] == [Text, Attachment]
    assert second.text == "Seen."
    assert (reading.skipped["block/redacted-reasoning"], reading.skipped["block/redacted"]) == (1, 1)


def test_context_beside_a_query_and_behind_it_is_left_out(tmp_path: Path) -> None:
    wrapped = "<timestamp>Sunday, Sep 20, 2026, 12:31 AM (UTC+3)</timestamp>\n<user_query>\nadd\n</user_query>\nfiles"
    Chat(tmp_path).say(
        {"role": "user", "content": text("<open_files>a.py</open_files>", wrapped)},
        {"role": "user", "content": "<system_reminder>Be brief.</system_reminder>"},
        {"role": "user", "content": "no wrapper at all"},
    ).close()
    assert texts(tmp_path) == ["add", "no wrapper at all"]


def test_message_times_are_used_where_newer_versions_write_them(tmp_path: Path) -> None:
    Chat(tmp_path).say(prompt("a"), prompt("b") | {"createdAt": CREATED + 5000}).close()
    assert [m.at for m in read(tmp_path).transcripts[0].messages] == [
        STARTED,
        datetime.fromtimestamp((CREATED + 5000) / 1000, UTC),
    ]


def test_chat_in_which_nothing_was_said_is_counted(tmp_path: Path) -> None:
    Chat(tmp_path).say(conversation()[0], conversation()[1]).close()
    reading = read(tmp_path)
    assert (reading.transcripts, reading.skipped["blank session"]) == ([], 1)


@pytest.mark.parametrize("data", [b"", b"not a database at all" * 200, b"SQLite format 3\0" + b"\1" * 5000])
def test_file_that_is_no_database_is_unreadable(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "chats" / BUCKET / SESSION / "store.db"
    path.parent.mkdir(parents=True)
    path.write_bytes(data)
    with pytest.raises(UnreadableSource):
        read(tmp_path)


# Which files.


def test_home_gives_chats_and_their_sub_agents_and_names_what_it_passes(tmp_path: Path) -> None:
    home(tmp_path)
    cursor = tmp_path / ".cursor"
    known = transcript_path(cursor, f"{SESSION}.jsonl")
    known.write_text(transcript_line("user", *text("why")))
    transcript_path(cursor, "of-the-editor.jsonl").write_text(transcript_line("user", *text("why")))
    discovery = CursorCli().discover(cursor)
    assert [(s.agent, s.path.relative_to(cursor).as_posix()) for s in discovery.sources] == [
        ("cursor-cli", f"chats/{BUCKET}/{SESSION}/store.db"),
        ("cursor-cli", f"chats/{BUCKET}/{OTHER}/store.db"),
        ("cursor-cli", f"projects/home-me-app/agent-transcripts/{SESSION}/subagents/sub-1.jsonl"),
    ]
    store = cursor / "chats" / BUCKET / SESSION / "store.db"
    assert discovery.passed == [(known, f"the same session as {store}")]
    child = CursorCli().parse(discovery.sources[2]).transcripts[0].session
    assert (child.key, child.id, child.parent_key, child.is_agent_session) == (
        f"cursor-cli:{SESSION}/agent-sub-1",
        "agent-sub-1",
        f"cursor-cli:{SESSION}",
        True,
    )


def test_files_beside_a_chat_that_are_not_read_are_named(tmp_path: Path) -> None:
    home(tmp_path)
    cursor = tmp_path / ".cursor"
    chat = cursor / "chats" / BUCKET / SESSION
    for name in ("prompt_history.json", "meta.json", "store.db-shm", "notes.md"):
        (chat / name).write_text("[]")
    passed = [(chat / "notes.md", "not a chat"), (chat / "prompt_history.json", "a list of prompts, not a chat")]
    assert CursorCli().discover(cursor).passed == passed
    assert {path for path, _ in CursorCli().discover(chat).passed} == {path for path, _ in passed}


def test_folder_that_is_named_is_read_whatever_its_layout(tmp_path: Path) -> None:
    chat = Chat(tmp_path / "home").say(prompt("hello")).close()
    conversations = tmp_path / ".cursor" / "conversations"
    conversations.mkdir(parents=True)
    (conversations / "a.jsonl").write_text(transcript_line("user", *text("hi")))
    (conversations / "notes.md").write_text("no transcript")
    assert conversations in CursorCli().roots({}, tmp_path)
    for root, names in ((conversations, ["a.jsonl"]), (chat, ["store.db"]), (chat.parent, ["store.db"])):
        assert [s.path.name for s in CursorCli().discover(root).sources] == names
    assert CursorCli().discover(conversations).passed == [(conversations / "notes.md", "not a transcript")]
    assert CursorCli().discover(tmp_path / "nowhere") == Discovery()


def test_only_chats_of_databases_are_resumed(tmp_path: Path) -> None:
    home(tmp_path)
    sessions = [CursorCli().parse(s).transcripts[0].session for s in CursorCli().discover(tmp_path / ".cursor").sources]
    resumed = [CursorCli().resume(session) for session in sessions]
    command = ("cursor-agent", "--resume", SESSION)
    assert resumed == [Resume(command, WORKSPACE), Resume((*command[:2], OTHER), None), Resume(command, None)]
    plain = Session("cursor-cli:x", "x", "cursor-cli", Origin("/x.jsonl"))
    assert CursorCli().resume(plain) is None
    assert CursorCli().resume(msgspec.structs.replace(plain, id="--version", origin=Origin("/store.db"))) is None


# Growth, and anything anywhere.


def test_each_growth_of_a_chat_is_a_prefix_of_the_next(tmp_path: Path) -> None:
    chat, said = Chat(tmp_path), conversation()
    before: list[tuple[Any, ...]] = []
    for end in range(3, len(said) + 1):
        chat.say(*said[:end])
        now = [(m.role, m.uuid, m.at, [type(b) for b in m.blocks]) for m in read(tmp_path).transcripts[0].messages]
        assert now[: len(before)] == before
        before = now
    chat.close()


KEYS = ("type", "text", "role", "content", "toolCallId", "toolName", "args", "result", "providerOptions")


@settings(RELAXED, max_examples=60)
@given(data=st.data())
def test_wrong_types_anywhere_raise_nothing_but_unreadable_source(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("any")
    told = st.sampled_from(["createdAt", "name", "workspacePath", "lastUsedModel", "latestRootBlobId"])
    said = spoiled_lines(conversation(), data, junk(*KEYS))
    facts = data.draw(st.dictionaries(told, junk(*KEYS), max_size=2))
    Chat(folder).say(*[m for m in said if isinstance(m, dict)], **facts).close()
    with contextlib.suppress(UnreadableSource):
        assert_storable(read(folder))


@settings(RELAXED, max_examples=60)
@given(flips=st.lists(st.tuples(st.integers(0, 20_000), st.integers(0, 255)), min_size=1, max_size=40))
def test_damaged_database_raises_nothing_but_unreadable_source(
    tmp_path_factory: pytest.TempPathFactory, flips: list[tuple[int, int]]
) -> None:
    folder = tmp_path_factory.mktemp("damaged")
    path = Chat(folder).say(*conversation()).close()
    data = bytearray(path.read_bytes())
    for place, byte in flips:
        data[place % len(data)] = byte
    path.write_bytes(bytes(data))
    try:
        for transcript in read(folder).transcripts:
            msgspec.msgpack.encode(transcript)
    except UnreadableSource:
        pass


def test_long_chain_of_nodes_is_read_without_recursion(tmp_path: Path) -> None:
    chat = Chat(tmp_path)
    chat.db.execute("BEGIN")
    name = chat.blob(prompt("at the bottom"))
    for _ in range(3000):
        name = chat.blob(node(name))
    chat.meta(latestRootBlobId=name)
    chat.db.execute("COMMIT")
    chat.close()
    assert texts(tmp_path) == ["at the bottom"]


def test_database_that_is_not_cursors_is_unreadable(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "store.db") as db:
        db.execute("CREATE TABLE other (id)")
    db.close()
    with pytest.raises(UnreadableSource, match="not a chat of Cursor's"):
        read(tmp_path / "store.db")


def test_an_indented_text_in_a_blob_is_searched_for_references_in_a_moment(tmp_path: Path) -> None:
    """Each indented line begins as a reference does; 20 MB of them took half a minute."""
    chat = Chat(tmp_path)
    name = chat.blob(prompt("one"))
    chat.meta(latestRootBlobId=chat.blob(node(name) + b"\n " * (4 * 2**20))).close()
    started = time.monotonic()
    assert texts(tmp_path) == ["one"]
    assert time.monotonic() - started < 2
