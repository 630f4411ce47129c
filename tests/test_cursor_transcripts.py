"""Cursor's transcripts: lines of JSON, the text format before them, and who may read them."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from cursor_cli_logs import OTHER, SESSION, Chat, conversation, prompt, text, transcript_line, transcript_path
from cursor_ide_logs import State, chat
from hypothesis import given, settings
from hypothesis import strategies as st
from junk import RELAXED, assert_storable, junk, spoiled_lines
from test_cursor_cli import KEYS

from agent_journal.config import load
from agent_journal.connectors import cursor_transcripts
from agent_journal.connectors.base import Reading
from agent_journal.connectors.cursor_cli import CursorCli
from agent_journal.connectors.cursor_ide import CursorIde
from agent_journal.connectors.cursor_transcripts import encoded_folder, existing_folder, prompt_time
from agent_journal.index.scan import Look, scan
from agent_journal.index.store import Store
from agent_journal.index.sync import Sync
from agent_journal.session import Message, Origin, Role, Session, Text, Thinking, ToolCall, ToolType

ASKED = "<timestamp>Sunday, Sep 20, 2026, 12:31 AM (UTC+3)</timestamp>\n<user_query>\nadd tests\n</user_query>\n<more>"
AT = datetime(2026, 9, 19, 21, 31, tzinfo=UTC)
EDITOR = "e0000000-2222-4333-8444-555555555555"

OLD = """user:
<user_query>
add tests
</user_query>

assistant:
[Thinking] planning
  and more
I'll run the tests.
Now.
[Tool call] Shell
  command: pytest -q
  cwd=/home/me/app
[Tool result] Shell
  2 passed

  in 1 s
[Tool call] ApplyPatch
  *** Begin Patch
  +new
All pass.
user:
thanks
"""


PIECES = (
    "user:\n", "assistant:\n", "[Thinking] ", "[Tool call] Shell\n", "[Tool result]\n", '  {"a": 1}\n', "\n", "text\n",
    "<user_query>", "</user_query>", "\0", "  key: value\n",
)  # fmt: skip


def lines() -> list[Any]:
    use = {"type": "tool_use", "name": "Shell", "input": {"command": "pytest -q", "path": "/home/me/app/t.py"}}
    said = [
        ("user", text(ASKED)),
        ("assistant", [*text("Looking."), use]),
        ("assistant", [{"type": "thinking", "thinking": "Hm."}, {"type": "redacted", "data": "[REDACTED]"}]),
        ("user", text("<user_query>again</user_query>")),
        ("assistant", text("[REDACTED]", "Done.")),
    ]
    records: list[Any] = [json.loads(transcript_line(role, *parts)) for role, parts in said]
    return [*records, {"type": "turn_ended", "status": "success"}]


def write(path: Path, records: list[Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def read(root: Path, connector: CursorCli | CursorIde | None = None) -> Reading:
    connector = connector or CursorIde()
    (source,) = connector.discover(root).sources
    return connector.parse(source)


def test_lines_become_a_session_that_gives_way_to_the_database(tmp_path: Path) -> None:
    path = write(transcript_path(tmp_path, f"{EDITOR}.jsonl"), lines())
    reading = read(tmp_path)
    (transcript,) = reading.transcripts
    assert transcript.second_hand
    assert transcript.session == Session(
        key=f"cursor-ide:{EDITOR}",
        id=EDITOR,
        agent="cursor-ide",
        origin=Origin(path=str(path)),
        workspace="/home/me/app",
        workspace_encoded="home-me-app",
    )
    arguments = {"command": "pytest -q", "path": "/home/me/app/t.py"}
    run = ToolCall("call-1", "Shell", ToolType.SHELL, arguments, paths=("/home/me/app/t.py",), at=AT)
    assert transcript.messages == (
        Message(Role.USER, (Text("add tests", at=AT),), at=AT),
        Message(Role.ASSISTANT, (Text("Looking.", at=AT), run), at=AT),
        Message(Role.ASSISTANT, (Thinking("Hm.", at=AT),), at=AT),
        Message(Role.USER, (Text("again"),)),
        Message(Role.ASSISTANT, (Text("Done."),)),
    )
    assert reading.skipped == {"block/redacted": 2, "status/turn_ended": 1}


def test_text_format_keeps_thoughts_calls_and_results(tmp_path: Path) -> None:
    path = transcript_path(tmp_path, f"{EDITOR}.txt")
    path.write_text(OLD)
    reading = read(tmp_path)
    (transcript,) = reading.transcripts
    shell = ToolCall(
        "call-1", "Shell", ToolType.SHELL, {"command": "pytest -q", "cwd": "/home/me/app"}, "2 passed\n\nin 1 s", True
    )
    patch = ToolCall("call-2", "ApplyPatch", ToolType.WRITE, "*** Begin Patch\n+new")
    assert transcript.messages == (
        Message(Role.USER, (Text("add tests"),)),
        Message(
            Role.ASSISTANT,
            (Thinking("planning\n  and more"), Text("I'll run the tests.\nNow."), shell, patch, Text("All pass.")),
        ),
        Message(Role.USER, (Text("thanks"),)),
    )
    assert "time_of_file" in transcript.session.extensions


def test_other_spellings_of_calls_and_results_are_joined(tmp_path: Path) -> None:
    use = {"type": "tool_call", "toolName": "Read", "toolCallId": "a", "args": {"path": "x"}}
    nameless = [{"type": "tool_use", "name": "Shell", "input": {"n": n}} for n in (1, 2)]
    answers = [
        {"role": "tool", "toolCallId": "a", "content": "one"},
        {"role": "user", "message": {"content": [{"type": "tool_result", "name": "Shell", "content": text("two")}]}},
        {"role": "assistant", "message": {"content": [{"type": "command_output", "output": "exited with code 1"}]}},
        {"role": "tool", "tool_use_id": "b", "result": "of nothing"},
    ]
    asked = json.loads(transcript_line("user", *text(ASKED)))
    called = json.loads(transcript_line("assistant", use, *nameless))
    write(transcript_path(tmp_path, f"{EDITOR}.jsonl"), [asked, called, *answers])
    _, message, lonely = read(tmp_path).transcripts[0].messages
    assert [(c.id, c.result, c.success) for c in message.tool_calls] == [
        ("a", "one", True),
        ("call-2", "two", True),
        ("call-3", "exited with code 1", False),
    ]
    assert (lonely.role, lonely.tool_calls[0].result, lonely.at) == (Role.TOOL, "of nothing", AT)


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("Friday, Jan 2, 2026, 12:05 PM (UTC-3:30)", datetime(2026, 1, 2, 15, 35, tzinfo=UTC)),
        ("Jan 2, 2026, 9:05 AM (UTC)", datetime(2026, 1, 2, 9, 5, tzinfo=UTC)),
        ("Friday, Feb 31, 2026, 9:05 AM (UTC)", None),
        ("Friday, Xyz 1, 2026, 9:05 AM (UTC)", None),
        ("yesterday", None),
    ],
)
def test_time_before_a_prompt(written: str, expected: datetime | None) -> None:
    assert prompt_time(f"<timestamp>{written}</timestamp> hello") == expected


# Which files.


def test_session_in_several_layouts_is_one_source_that_keeps_its_path(tmp_path: Path) -> None:
    old = transcript_path(tmp_path, f"{EDITOR}.txt")
    old.write_text(OLD)
    before = CursorIde().discover(tmp_path).sources
    nested = write(transcript_path(tmp_path, EDITOR, f"{EDITOR}.jsonl"), lines())
    flat = write(transcript_path(tmp_path, f"{EDITOR}.jsonl"), lines())
    (after,) = CursorIde().discover(tmp_path).sources
    assert (after.path, [f.path for f in after.files]) == (before[0].path, [old, flat, nested])
    assert [CursorIde().discover(path).sources for path in (old, flat, nested)] == [[after]] * 3
    assert CursorIde().parse(after).transcripts[0].session.origin.path == str(nested)


def test_each_transcript_of_a_home_is_read_by_exactly_one_agent(tmp_path: Path) -> None:
    Chat(tmp_path).say(*conversation()).close()
    for below in ((f"{SESSION}.jsonl",), (SESSION, "subagents", "s1.jsonl")):
        write(transcript_path(tmp_path, *below), lines())
    for below in ((EDITOR, f"{EDITOR}.jsonl"), (EDITOR, "subagents", "s2.jsonl")):
        write(transcript_path(tmp_path, *below), lines())
    transcript_path(tmp_path, "notes.md").write_text("")
    by_cli, by_editor = CursorCli().discover(tmp_path), CursorIde().discover(tmp_path)
    assert [s.path.stem for s in by_cli.sources] == ["store", "s1"]
    assert [s.path.stem for s in by_editor.sources] == [EDITOR, "s2"]
    assert [p.name for p, _ in by_cli.passed] == ["notes.md", f"{SESSION}.jsonl"]
    assert by_editor.passed == []
    child = CursorIde().parse(by_editor.sources[1]).transcripts[0].session
    assert (child.key, child.parent_key) == (f"cursor-ide:{EDITOR}/agent-s2", f"cursor-ide:{EDITOR}")


@pytest.mark.parametrize(
    ("there", "expected"),
    [
        (["me_x/my.app"], "me_x/my.app"),
        (["me/x/my-app", "me-x"], "me/x/my-app"),
        (["me-x/my_app", "me/x/my.app"], None),
        (["me-x/my/other"], None),
        ([], None),
    ],
)
def test_workspace_is_the_only_folder_that_is_called_so(tmp_path: Path, there: list[str], expected: str | None) -> None:
    """A transcript that names no file: "/", ".", "_" and "-" are all the same in the name of its folder."""
    for name in there:
        (tmp_path / name).mkdir(parents=True)
    encoded = encoded_folder(f"{tmp_path}/me-x-my-app")
    path = tmp_path / ".cursor" / "projects" / encoded / "agent-transcripts" / f"{OTHER}.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text(transcript_line("user", *text("<user_query>hello</user_query>")))
    session = read(tmp_path / ".cursor").transcripts[0].session
    assert (session.workspace, session.workspace_encoded) == (expected and str(tmp_path / expected), encoded)


def test_a_name_that_fits_too_many_folders_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "shop" / "till").mkdir(parents=True)
    name = encoded_folder(f"{tmp_path}/shop/till")
    assert existing_folder(name) == f"{tmp_path}/shop/till"
    monkeypatch.setattr(cursor_transcripts, "_MOST_LISTED", len(tmp_path.parts))
    assert existing_folder(name) is None


def test_session_in_a_database_and_a_transcript_is_stored_once(tmp_path: Path) -> None:
    editor = State(tmp_path / ".config" / "Cursor" / "User")
    editor.composer(*chat(), composer_id=EDITOR).close()
    Chat(tmp_path / ".cursor").say(*conversation()).close()
    for name in (EDITOR, SESSION, "nowhere-else"):
        write(transcript_path(tmp_path / ".cursor", f"{name}.jsonl"), lines())
    connectors = (CursorCli(), CursorIde())
    environ = {"HOME": str(tmp_path), "AJ_HOME": str(tmp_path / ".aj")}
    config = load(environ, {c.config_key: c.env for c in connectors})
    Store.make_folder(tmp_path / ".aj" / "index")
    with Store.create(tmp_path / ".aj" / "index") as store:
        Sync(store, config).run(scan(store, connectors, Look(config, environ, tmp_path)), connectors)
        stored = store.rows("SELECT key, message_count, second_hand FROM session ORDER BY key")
    assert stored == [
        (f"cursor-cli:{SESSION}", 3, 0),
        (f"cursor-ide:{EDITOR}", 4, 0),
        ("cursor-ide:nowhere-else", 5, 1),
    ]


def test_transcript_that_is_named_is_read_by_the_agent_it_is_named_for(tmp_path: Path) -> None:
    path = write(tmp_path / "somewhere" / "x.jsonl", lines())
    assert read(path, CursorCli()).transcripts[0].session.key == "cursor-cli:x"
    assert read(path, CursorIde()).transcripts[0].session.key == "cursor-ide:x"


# Growth, and anything anywhere.


def grown(path: Path, data: bytes) -> list[Message]:
    path.write_bytes(data)
    return [m for t in read(path.parents[2].parent).transcripts for m in t.messages]


@pytest.mark.parametrize("suffix", ["jsonl", "txt"])
def test_transcript_cut_at_any_byte_is_a_prefix_of_the_whole(tmp_path: Path, suffix: str) -> None:
    path = transcript_path(tmp_path, f"{EDITOR}.{suffix}")
    whole = OLD if suffix == "txt" else "".join(json.dumps(line) + "\n" for line in lines())
    final = [(m.role, m.at, [type(b) for b in m.blocks]) for m in grown(path, whole.encode())]
    for end in range(len(whole)):
        now = [(m.role, m.at, [type(b) for b in m.blocks]) for m in grown(path, whole.encode()[:end])]
        assert len(now) <= len(final)
        for early, late in zip(now, final, strict=False):
            assert early[:2] == late[:2]
            assert early[2] == late[2][: len(early[2])]


@settings(RELAXED, max_examples=80)
@given(data=st.data())
def test_wrong_types_anywhere_are_harmless(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    folder = tmp_path_factory.mktemp("any")
    write(transcript_path(folder, f"{EDITOR}.jsonl"), spoiled_lines(lines(), data, junk(*KEYS)))
    assert_storable(read(folder))


@settings(RELAXED, max_examples=80)
@given(pieces=st.lists(st.sampled_from(PIECES), max_size=30))
def test_any_text_is_read(tmp_path_factory: pytest.TempPathFactory, pieces: list[str]) -> None:
    path = transcript_path(tmp_path_factory.mktemp("text"), f"{EDITOR}.txt")
    path.write_text("".join(pieces))
    assert_storable(read(path))


def test_many_results_without_ids_are_joined_in_time(tmp_path: Path) -> None:
    calls = [{"type": "tool_use", "name": f"T{n % 7}", "input": {}} for n in range(20_000)]
    results = [{"type": "tool_result", "name": f"T{n % 9}", "content": "x"} for n in range(20_000)]
    records = [json.loads(transcript_line("assistant", *calls)), json.loads(transcript_line("user", *results))]
    write(transcript_path(tmp_path, f"{EDITOR}.jsonl"), [prompt("go"), *records])
    messages = read(tmp_path).transcripts[0].messages
    assert sum(c.result is not None for m in messages for c in m.tool_calls) == 20_000
