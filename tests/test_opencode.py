from __future__ import annotations

import hashlib
import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from journals import Home
from junk import RELAXED, junk, spoiled
from opencode_logs import (
    CHILD,
    OTHER,
    SCHEMA,
    SESSION,
    assistant,
    at,
    conversation,
    database,
    home,
    info,
    insert,
    read,
    save,
    tool,
    tree,
    user,
)

from agent_journal.connectors.opencode import Kilo, OpenCode
from agent_journal.errors import UnreadableSource
from agent_journal.session import (
    Attachment,
    Message,
    Resume,
    Role,
    Text,
    Thinking,
    ToolCall,
    ToolType,
    Transcript,
    Usage,
)


def expected(mark: str = "") -> tuple[Message, ...]:
    """conversation(), with ids that in a database begin with the session's."""
    call = ToolCall(
        "call_9", "bash", ToolType.SHELL, {"command": "npm test"}, "1 failed", False, result_at=at(2),
        details={"exit_code": 1}, uuid=f"{mark}prt_012", parent_uuid=f"{mark}msg_01", at=at(1.1),
    )  # fmt: skip
    return (
        Message(
            Role.USER,
            (Text("Fix the CI", f"{mark}prt_000", f"{mark}msg_00", at(0)),),
            uuid=f"{mark}msg_00",
            at=at(0),
        ),
        Message(
            Role.ASSISTANT,
            (
                Thinking("Look first.", f"{mark}prt_011", f"{mark}msg_01", at(1.05)),
                call,
                Text("One test fails.", f"{mark}prt_013", f"{mark}msg_01", at(1)),
            ),
            uuid=f"{mark}msg_01",
            parent_uuid="msg_00",
            at=at(1),
            model="claude-sonnet-4-5",
            stop_reason="stop",
            usage=Usage(6, 88, 2142, 10),
            cwd="/home/me/app",
        ),
    )


def only(folder: Path, *turns: dict[str, Any], **facts: Any) -> Transcript:
    (transcript,) = read(database(folder, (info(**facts), list(turns)))).transcripts
    return transcript


def test_rows_of_the_database_become_a_session(tmp_path: Path) -> None:
    reading = read(database(tmp_path, (info(), conversation())))
    (transcript,) = reading.transcripts
    session = transcript.session
    assert transcript.messages == expected(SESSION)
    assert (session.key, session.title, session.slug) == (f"opencode:{SESSION}", "Fix CI", "quiet-fox")
    assert (session.workspace, session.agent_version, session.extensions) == ("/home/me/app", "1.2.3", {})
    assert (transcript.second_hand, session.is_agent_session) == (False, False)
    assert reading.skipped == {"part/step-start": 1, "part/synthetic text": 1}
    assert OpenCode().resume(session) == Resume(("opencode", "--session", SESSION), "/home/me/app")


@pytest.mark.parametrize("oldest", [False, True])
def test_both_trees_of_files_hold_the_same_session_second_hand(tmp_path: Path, oldest: bool) -> None:
    path = tree(tmp_path, info(), conversation(), oldest)
    (source,) = OpenCode().discover(tmp_path).sources
    (transcript,) = OpenCode().parse(source).transcripts
    assert [f.path.name for f in source.files] == [path.name, "msg_00.json", "msg_01.json"]
    assert transcript.messages == expected()
    assert (transcript.second_hand, transcript.session.key) == (True, f"opencode:{SESSION}")


def test_an_export_holds_the_same_session_second_hand(tmp_path: Path) -> None:
    path = save(tmp_path / "export.json", {"info": info(), "messages": conversation()})
    (transcript,) = read(path).transcripts
    assert transcript.messages == expected()
    assert transcript.second_hand


def test_children_are_linked_by_the_task_that_started_them(tmp_path: Path) -> None:
    task = tool("task", {"prompt": "Explore"}, output="Done", metadata={"sessionId": CHILD})
    turns = [user(0, "go"), assistant(1, task)]
    child = info(CHILD, parentID=SESSION, title="Child session - 2026-01-02T03:04:07.000Z")
    grandchild = info("ses_3fC", parentID=CHILD, title="New session - 2026-01-02T03:04:07.000Z")
    said = [user(0, "Explore")]
    path = database(tmp_path / "db", (info(), turns), (child, said), (grandchild, said))
    for one in (child, grandchild):
        tree(tmp_path / "tree", one, said)
    main, second, third = [t.session for t in read(path).transcripts]
    assert read(path).transcripts[0].messages[1].tool_calls[0].agent_session == second.key
    for source in OpenCode().discover(tmp_path / "tree").sources:
        (found,) = OpenCode().parse(source).transcripts
        assert (found.session.key, found.session.parent_key) in [(s.key, s.parent_key) for s in (second, third)]
    assert (second.key, second.parent_key) == (f"opencode:{SESSION}/agent-{CHILD}", main.key)
    assert (third.key, third.parent_key) == (f"opencode:{CHILD}/agent-ses_3fC", second.key)
    assert (third.id, third.parent_session_id, third.is_agent_session, third.title) == ("ses_3fC", CHILD, True, None)


@pytest.mark.parametrize(
    ("call", "result", "success"),
    [
        (tool("read", {"filePath": "/a"}, output="x"), "x", True),
        (tool("bash", {}, output="x", metadata={"exit": 0}), "x", True),
        (tool("bash", {}, output="x", metadata={"exit": None}), "x", True),
        (tool("read", {}, "error", error="no such file"), "no such file", False),
        (tool("invalid", {"tool": "reed"}, output="unknown tool"), "unknown tool", False),
        (tool("read", {}, "running"), None, None),
        (tool("read", {}, "pending"), None, None),
    ],
)
def test_results_of_tools(tmp_path: Path, call: dict[str, Any], result: str | None, success: bool | None) -> None:
    (made,) = only(tmp_path, user(0, "go"), assistant(1, call)).messages[1].tool_calls
    assert (made.result, made.success) == (result, success)


def test_files_mentions_subtasks_and_errors(tmp_path: Path) -> None:
    parts = [
        {"type": "file", "mime": "image/png", "url": "data:image/png;base64,AAAA"},
        {"type": "file", "mime": "text/plain", "filename": "a.py", "url": "file:///a.py"},
        {"type": "agent", "name": "general"},
        {"type": "subtask", "prompt": "Review it", "description": "Review", "agent": "review"},
        {"type": "compaction", "auto": True},
    ]
    error = {"name": "MessageAbortedError", "data": {"message": "stopped"}}
    turns = [
        user(0, " ", *parts),
        assistant(1, error=error),
        assistant(2, {"type": "text", "text": "So far"}, summary=True),
    ]
    reading = read(database(tmp_path, (info(), turns)))
    asked, failed, summary = reading.transcripts[0].messages
    assert [(b.kind, b.name, b.media_type) for b in asked.blocks if isinstance(b, Attachment)] == [
        ("file", "", "image/png"), ("file", "a.py", "text/plain"), ("agent", "general", "")
    ]  # fmt: skip
    assert asked.text == "Review it"
    assert (failed.text, failed.is_error) == ("MessageAbortedError: stopped", True)
    assert (summary.is_compaction, failed.is_compaction) == (True, False)
    assert reading.skipped == {"part/compaction": 1, "part/empty text": 1}


def test_a_session_in_the_root_folder_belongs_where_the_model_worked(tmp_path: Path) -> None:
    said = assistant(1, {"type": "text", "text": "x"})
    assert only(tmp_path / "a", user(0, "go"), said, directory="/").session.workspace == "/home/me/app"
    assert only(tmp_path / "b", user(0, "go"), directory="/").session.workspace == "/"


def test_archived_and_undone_sessions_are_kept_and_say_so(tmp_path: Path) -> None:
    session = only(tmp_path, user(0, "go"), archived=1, revert='{"messageID":"msg_00"}').session
    assert session.extensions == {"undone_from": "msg_00", "archived": True}


def test_the_next_table_is_read_where_a_session_has_no_messages(tmp_path: Path) -> None:
    path = database(tmp_path, (info(), []))
    call = {"type": "tool", "id": "c1", "name": "read", "state": {"status": "completed", "input": {"filePath": "/a"},
            "content": [{"type": "text", "text": "x = 1"}]}}  # fmt: skip
    lost = {"type": "tool", "id": "c2", "name": "read", "state": {"status": "error", "error": {"message": "gone"}}}
    rows = [
        ("user", {"text": "Fix", "files": [{"name": "a.py", "mime": "text/plain"}]}),
        ("assistant", {"model": {"id": "m"}, "content": [{"type": "reasoning", "text": "Hm"}, call, lost],
                       "tokens": {"input": 1, "output": 2}}),
        ("shell", {"callID": "s1", "command": "ls", "output": "a.py"}),
        ("synthetic", {"text": "a reminder"}),
        ("model-switched", {}),
        ("compaction", {"summary": "We fixed it"}),
    ]  # fmt: skip
    with closing(sqlite3.connect(path)) as db:
        for n, (kind, data) in enumerate(rows):
            row = (f"m{n}", SESSION, kind, n, 1767323047000 + n * 1000, json.dumps(data))
            db.execute(
                "INSERT INTO session_message(id, session_id, type, seq, time_created, data) VALUES (?,?,?,?,?,?)", row
            )
        db.commit()
    reading = read(path)
    (transcript,) = reading.transcripts
    said = [(m.role, m.text, [(c.name, c.result, c.success) for c in m.tool_calls], m.at) for m in transcript.messages]
    assert said == [
        (Role.USER, "Fix", [], at(0)),
        (Role.ASSISTANT, "", [("read", "x = 1", True), ("read", "gone", False)], at(1)),
        (Role.TOOL, "", [("bash", "a.py", True)], at(2)),
        (Role.SYSTEM, "a reminder", [], at(3)),
        (Role.ASSISTANT, "We fixed it", [], at(5)),
    ]
    assert [m.is_compaction for m in transcript.messages] == [False] * 4 + [True]
    assert (transcript.messages[1].model, transcript.messages[1].usage) == ("m", Usage(1, 2))
    assert reading.skipped == {"message/model-switched": 1}


def test_a_database_of_an_older_release_lacks_columns(tmp_path: Path) -> None:
    path = tmp_path / "opencode.db"
    with closing(sqlite3.connect(path)) as db:
        db.executescript(
            "CREATE TABLE session(id, directory, title); CREATE TABLE message(id, session_id, time_created, data);"
            "CREATE TABLE part(id, message_id, session_id, data);"
            "INSERT INTO session VALUES ('s', '/w', 'T');"
            "INSERT INTO message VALUES ('m', 's', 5, '{\"role\":\"user\"}'), ('n', 's', 6, '{\"ro');"
            "INSERT INTO part VALUES ('p', 'm', 's', CAST('{\"type\":\"text\",\"text\":\"hi\"}' AS BLOB));"
            "INSERT INTO part VALUES ('q', 'm', 's', 7);"
        )
    reading = read(path)
    (transcript,) = reading.transcripts
    assert [(m.role, m.text) for m in transcript.messages] == [(Role.USER, "hi")]
    part, message = [reason for _, reason in reading.bad_lines]
    assert part == "a int, not an object"
    assert message.startswith("not JSON")


def test_a_value_too_long_to_be_conversation_is_named_and_costs_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A part of 200 MB took 1.5 GB of memory."""
    path = database(tmp_path, (info(title="x" * 2000), [user(0, "Fix the CI"), user(1, "é" * 600)]))
    monkeypatch.setattr("agent_journal.connectors.database.MAX_VALUE_KEPT", 1000)
    reading = read(path)
    (transcript,) = reading.transcripts
    assert (transcript.session.title, [m.text for m in transcript.messages]) == (None, ["Fix the CI"])
    assert [reason for _, reason in reading.bad_lines] == ["empty, or longer than 64 MB"]


def test_what_a_running_agent_has_only_in_its_write_ahead_log_is_read_and_nothing_is_touched(tmp_path: Path) -> None:
    path = database(tmp_path, (info(), conversation()))
    with closing(sqlite3.connect(path)) as writer:
        writer.execute("PRAGMA journal_mode = WAL")
        writer.execute("PRAGMA wal_autocheckpoint = 0")
        insert(writer, info(OTHER), [user(0, "written just now")])
        writer.execute("BEGIN IMMEDIATE")
        writer.execute("UPDATE session SET title = 'not yet said'")
        before = digests(tmp_path)
        found = {t.session.id: (t.session.title, t.messages[0].text) for t in read(path).transcripts}
        assert digests(tmp_path) == before
        assert found == {SESSION: ("Fix CI", "Fix the CI"), OTHER: ("Fix CI", "written just now")}
        writer.rollback()
    before = digests(tmp_path)
    assert len(read(path).transcripts) == 2
    assert digests(tmp_path) == before


def digests(folder: Path) -> dict[str, str]:
    return {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in folder.iterdir()}


def test_growth_of_the_log_changes_the_fingerprint(tmp_path: Path) -> None:
    path = database(tmp_path, (info(), conversation()))
    with closing(sqlite3.connect(path)) as writer:
        writer.execute("PRAGMA journal_mode = WAL")
        (before,) = OpenCode().discover(tmp_path).sources
        insert(writer, info(OTHER), conversation())
        (after,) = OpenCode().discover(tmp_path).sources
        assert before.fingerprint != after.fingerprint


def test_longer_sessions_keep_their_earlier_messages(tmp_path: Path) -> None:
    turns = [t for n in range(0, 8, 2) for t in (user(n, f"q{n}"), assistant(n + 1, {"type": "text", "text": f"a{n}"}))]
    whole = only(tmp_path / "whole", *turns).messages
    for length in range(1, len(turns)):
        assert only(tmp_path / str(length), *turns[:length]).messages == whole[:length]


def test_sessions_without_messages_are_counted(tmp_path: Path) -> None:
    reading = read(database(tmp_path, (info(), []), (info(OTHER), [assistant(0, {"type": "step-start"})])))
    assert reading.transcripts == []
    assert reading.skipped == {"blank session": 2, "message/empty": 1, "part/step-start": 1}


def test_a_broken_message_file_leaves_the_others(tmp_path: Path) -> None:
    path = tree(tmp_path, info(), conversation())
    (tmp_path / "storage" / "message" / SESSION / "msg_00.json").write_text('{"role": "us')
    reading = read(path)
    assert [m.role for m in reading.transcripts[0].messages] == [Role.ASSISTANT]
    assert reading.bad_line_count == 1


@pytest.mark.parametrize("text", ["", "[]", "{", '{"info": 3}'])
def test_files_that_are_no_session_are_unreadable(tmp_path: Path, text: str) -> None:
    for name in ("export.json", "opencode.db"):
        (tmp_path / name).write_text(text)
        with pytest.raises(UnreadableSource):
            read(tmp_path / name)


def test_parents_named_like_paths_are_not_followed(tmp_path: Path) -> None:
    save(tmp_path / "secret.json", {"parentID": "leaked"})
    path = tree(tmp_path, info(parentID="../../../secret"), conversation())
    assert "leaked" not in repr(read(path).transcripts)


# Discovery.


def test_a_home_has_databases_of_all_channels_and_the_files_before_them(tmp_path: Path) -> None:
    home(tmp_path)
    (root,) = OpenCode().roots({}, tmp_path)
    database(root, name="opencode-dev.db")
    (root / "auth.json").write_text("{}")
    sources = OpenCode().discover(root).sources
    names = [(s.path.name, s.kind) for s in sources]
    assert names == [("opencode-dev.db", "database"), ("opencode.db", "database"), (f"{OTHER}.json", "tree")]
    found = [t.session.key for s in sources for t in OpenCode().parse(s).transcripts]
    assert found == [f"opencode:{SESSION}", f"opencode:{SESSION}/agent-{CHILD}", f"opencode:{OTHER}"]


def test_files_left_behind_add_nothing_to_a_session_of_the_database(tmp_path: Path) -> None:
    """They are the newer ones where the agent touched them last; what was taken back since is only in them."""
    (root,) = OpenCode().roots({}, tmp_path)
    database(root, (info(), [user(0, "Fix the CI")]))
    tree(root, info(), [user(0, "Fix the CI"), user(1, "taken back")])
    home = Home(tmp_path)
    home.reindex()
    assert {key: [m.text for _, _, m, _ in rows] for key, rows in home.stored().items()} == {
        f"opencode:{SESSION}": ["Fix the CI"]
    }


def test_kilo_has_the_same_store_under_its_own_name(tmp_path: Path) -> None:
    home(tmp_path, "kilo")
    (root,) = Kilo().roots({"OPENCODE_DB": "/x.db"}, tmp_path)
    first = Kilo().parse(Kilo().discover(root).sources[0]).transcripts[0]
    assert (root, first.session.key, first.session.agent) == (tmp_path / ".local/share/kilo", f"kilo:{SESSION}", "kilo")
    assert Kilo().resume(first.session) == Resume(("kilo", "--session", SESSION), "/home/me/app")


def test_variables_of_the_agent_move_its_store(tmp_path: Path) -> None:
    data = {"XDG_DATA_HOME": "/data"}
    assert OpenCode().roots(data, tmp_path) == [Path("/data/opencode")]
    for name, more in (("opencode-x.db", []), ("my.db", ["/data/opencode/my.db"]), ("/else/my.db", ["/else/my.db"])):
        assert OpenCode().roots(data | {"OPENCODE_DB": name}, tmp_path) == [Path("/data/opencode"), *map(Path, more)]


def test_ids_that_are_no_words_are_not_resumed(tmp_path: Path) -> None:
    assert OpenCode().resume(only(tmp_path, user(0, "go"), id="--help").session) is None


# Wrong types.


@settings(RELAXED, max_examples=150)
@given(st.data())
def test_wrong_types_are_survived(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    folder = tmp_path_factory.mktemp("spoiled")
    wrong = junk("id", "type", "text", "tool", "state", "status", "input", "time", "created", "info", "parts", "role")
    export = spoiled({"info": info(), "messages": conversation()}, data, wrong)
    try:
        reading = read(save(folder / "export.json", export))
    except UnreadableSource:
        return
    for transcript in reading.transcripts:
        assert all(m.blocks for m in transcript.messages)


@settings(RELAXED, max_examples=60)
@given(st.data())
def test_wrong_values_in_columns_are_survived(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    folder = tmp_path_factory.mktemp("spoiled")
    value = st.none() | st.integers(-(2**40), 2**40) | st.floats() | st.binary(max_size=9) | st.text(max_size=9)
    row = data.draw(st.lists(value, min_size=3, max_size=3))
    path = folder / "opencode.db"
    with closing(sqlite3.connect(path)) as db:
        db.executescript(SCHEMA.replace(" PRIMARY KEY", "").replace(" TEXT", ""))
        insert(db, info(), conversation())
        column = data.draw(st.sampled_from(["id", "parent_id", "directory", "title", "revert", "time_created"]))
        db.execute(f"UPDATE session SET {column} = ?", row[:1])
        db.execute("UPDATE message SET data = ?, time_created = ? WHERE id LIKE '%01'", row[1:])
        db.commit()
    for transcript in read(path).transcripts:
        assert transcript.messages[0].text == "Fix the CI"
