from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from specstory_logs import SESSION, Page, at, home, read, release

from agent_journal.connectors.specstory import SpecStory
from agent_journal.errors import UnreadableSource
from agent_journal.session import Message, Resume, Role, Text, Thinking, ToolCall, ToolType, Transcript

REAL = Path(__file__).parents[1].parent / "shared" / "data" / "home" / "projects" / "getspecstory"


def only(page: Page, folder: Path) -> Transcript:
    (transcript,) = read(page.write(folder)).transcripts
    return transcript


def test_a_page_becomes_one_session_with_a_message_for_each_speaker_line(tmp_path: Path) -> None:
    transcript = only(release(), tmp_path)
    model = "claude-opus-4-6"
    listing = {"command": "ls .github", "description": "List them"}
    call = ToolCall("Bash-1", "Bash", ToolType.SHELL, listing, "release.yml", True, at=at(3))
    assert transcript.messages == (
        Message(Role.USER, (Text("Move the release files.", at=at(0)),), at=at(0)),
        Message(Role.ASSISTANT, (Thinking("Where are they?", at=at(1)),), at=at(1), model=model),
        Message(Role.ASSISTANT, (Text("Let me look.", at=at(2)),), at=at(2), model=model),
        Message(Role.ASSISTANT, (call,), at=at(3), model=model),
        Message(Role.ASSISTANT, (Text("There is one file.", at=at(4)),), at=at(4), model=model),
    )
    session = transcript.session
    assert (session.key, session.id, session.slug) == (f"specstory:{SESSION}", SESSION, "move-the-release")
    assert (session.title, session.workspace) == (None, str(tmp_path))
    assert session.extensions == {"provider": "Claude Code"}
    assert SpecStory().resume(session) == Resume(("claude", "--resume", SESSION), str(tmp_path))


@pytest.mark.parametrize(
    ("kind", "name", "body", "arguments", "result", "success"),
    [
        ("read", "Read", " `./main.go`\n\n```text\n1→package\n```", {"file_path": "./main.go"}, "1→package", True),
        ("read", "Read", "Read file: `./main.go`", {"file_path": "./main.go"}, None, None),
        ("search", "Grep", " path `./` pattern `a b`\n\n```text\nx\n```", {"path": "./", "pattern": "a b"}, "x", True),
        ("shell", "Bash", "\n```bash\na\nb\n```\n\n```text\nok\n```", {"command": "a\nb"}, "ok", True),
        ("shell", "Bash", "Try\n\n`x`\n\n```text\nExit code 1\nno\n```", {"command": "x", "description": "Try"},
         "Exit code 1\nno", False),
        ("write", "Write", "```md\n```text\nin\n```\n```\n\n```text\nok\n```", {"content": "```text\nin\n```"}, "ok",
         True),
        ("task", "Task", "Look\n\n```text\n# Found\n```go\nx\n```\nend\n```", {"input": "Look"},
         "# Found\n```go\nx\n```\nend", True),
        ("unknown", "shell", "**Input:**\n\n- command: `[bash -lc x]`\n- workdir: `/w`\n\n**Error:**\n\n```\nno\n```",
         {"command": "[bash -lc x]", "workdir": "/w"}, "no", False),
        ("unknown", "exec", "Input (truncated): ```\nconst r\n...\n```", {"input": "const r\n..."}, None, None),
        ("generic", "TodoWrite", "**Agent task list:**\n- [ ] one", {"input": "**Agent task list:**\n- [ ] one"}, None,
         None),
        ("task", "TaskUpdate", "\n```text\nUpdated\n```", None, "Updated", True),
        ("generic", "Empty", "", None, None, None),
    ],
)  # fmt: skip
def test_what_a_page_shows_of_a_tool(
    tmp_path: Path, kind: str, name: str, body: str, arguments: Any, result: str | None, success: bool | None
) -> None:
    (call,) = only(Page().user("go").uses(kind, name, body), tmp_path).messages[1].tool_calls
    assert (call.name, call.arguments, call.result, call.success) == (name, arguments, result, success)


def test_a_command_may_stand_in_the_summary(tmp_path: Path) -> None:
    page = Page().user("go").uses("shell", "exec_command", "```\nProcess exited with code 1\n```", " `go build`")
    (call,) = only(page, tmp_path).messages[1].tool_calls
    assert (call.arguments, call.result, call.success) == (
        {"command": "go build"}, "Process exited with code 1", False
    )  # fmt: skip


def test_an_edit_names_its_file_only_in_the_answer(tmp_path: Path) -> None:
    page = Page().user("go").uses("write", "Edit", "\n```text\nThe file /src/a b.go has been updated.\n```")
    (call,) = only(page, tmp_path).messages[1].tool_calls
    assert call.paths == ("/src/a b.go",)


def test_speaker_lines_inside_a_tool_or_in_the_middle_of_a_text_are_text(tmp_path: Path) -> None:
    said = "_**User (2026-01-01 00:00:00Z)**_"
    page = (
        Page().user(f"why does it print\n{said}\nhere?").uses("shell", "Bash", f"`cat x`\n\n```text\n\n{said}\n\n```")
    )
    user, agent = only(page, tmp_path).messages
    assert user.text == f"why does it print\n{said}\nhere?"
    assert agent.tool_calls[0].result == f"\n{said}\n"


def test_what_claude_code_wrote_for_the_user_is_marked(tmp_path: Path) -> None:
    command = "<command-name>/model</command-name>\n  <command-message>model</command-message>"
    summary = "This session is being continued from a previous conversation."
    page = Page().user(command).user("[Request interrupted by user]").user(summary).user("hello")
    messages = only(page, tmp_path).messages
    assert [(m.text, m.is_meta, m.is_compaction) for m in messages] == [
        ("/model", True, False),
        ("[Request interrupted by user]", True, False),
        (summary, True, True),
        ("hello", False, False),
    ]


def test_side_chains_message_ids_and_local_times(tmp_path: Path) -> None:
    page = Page().user("go").agent("x", "Agent - sidechain")
    page.text += "_**Agent (gpt-5 2026-01-16 09:48:59-0700)**_\n<!-- message-id: m-7 -->\n\nDone.\n\n"
    side, main = only(page, tmp_path).messages[1:]
    assert (side.is_sidechain, side.text) == (True, "x")
    assert (main.uuid, main.at, main.model, main.is_sidechain) == ("m-7", at(59), "gpt-5", False)


def test_pages_of_the_first_version_know_only_the_start(tmp_path: Path) -> None:
    page = Page()
    page.text = (
        "## Fix the search (2026-01-16 16:48:00Z)\n\n<!-- cursor Session s-1 (2026-01-16_16-48-00Z) -->\n\n"
        "_**User**_\n\nfix it\n\n---\n\n_**Assistant (model gpt-5, mode Agent)**_\n\n<details>\n"
        "<summary>Tool use: **read_file** • Read file: `a.py`</summary>\n\n```\nx = 1\n```\n\n</details>\n\nFixed.\n"
    )
    transcript = only(page, tmp_path)
    call = ToolCall(
        "read_file-1", "read_file", ToolType.READ, {"file_path": "a.py"}, "x = 1", True, paths=("a.py",), at=at(0)
    )
    assert transcript.messages == (
        Message(Role.USER, (Text("fix it", at=at(0)),), at=at(0)),
        Message(Role.ASSISTANT, (call, Text("Fixed.", at=at(0))), at=at(0), model="gpt-5"),
    )
    assert transcript.session.title == "Fix the search"
    assert transcript.session.extensions == {"provider": "cursor", "times": "only the session's start is known"}
    assert SpecStory().resume(transcript.session) is None


def test_a_session_told_under_two_names_is_one(tmp_path: Path) -> None:
    Page().user("Move the release files.").write(tmp_path, "2026-01-16_16-48-38Z.md")
    long = release().write(tmp_path)
    (source,) = SpecStory().discover(tmp_path).sources
    reading = SpecStory().parse(source)
    assert source.path == long
    assert [SpecStory().discover(file.path).sources for file in source.files] == [[source]] * 2
    assert [(t.session.origin.path, len(t.messages)) for t in reading.transcripts] == [(str(long), 5)]
    assert reading.skipped == {"session told twice": 1}


def test_two_sessions_of_the_same_second_are_two(tmp_path: Path) -> None:
    release().write(tmp_path)
    Page("other").user("hi").write(tmp_path, "2026-01-16_16-48-38Z.md")
    assert [t.session.id for t in read(tmp_path).transcripts] == [SESSION, "other"]


def test_pages_on_which_nobody_speaks_are_counted(tmp_path: Path) -> None:
    reading = read(Page().write(tmp_path))
    assert (reading.transcripts, reading.skipped) == ([], {"blank session": 1})


def test_cutting_a_page_anywhere_changes_no_earlier_message(tmp_path: Path) -> None:
    page = release().user("thanks")
    path = page.write(tmp_path)
    whole = [(m.role, m.at) for m in read(path).transcripts[0].messages]
    for cut in range(len(page.text)):
        path.write_text(page.text[:cut], encoding="utf-8")
        for transcript in read(path).transcripts:
            part = [(m.role, m.at) for m in transcript.messages]
            assert part == whole[: len(part)], page.text[:cut][-60:]


PIECES = ["\n", "_**User**_\n\n", "_**Agent (x)**_\n\n", "---\n", "```text\n", "```\n", "</details></tool-use>\n",
          '<tool-use data-tool-type="write" data-tool-name="W"><details>\n', "<summary>x</summary>\n", "`a`\n",
          "<details>\n<summary>Tool use: **R** `a`</summary>\n", "</details>\n", "<!-- x -->\n"]  # fmt: skip


@settings(max_examples=100, deadline=None)
@given(st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=30)), max_size=30))
def test_any_text_is_read(tmp_path_factory: pytest.TempPathFactory, pieces: list[str]) -> None:
    path = tmp_path_factory.getbasetemp() / "page.md"
    path.write_bytes("".join(["_**User**_\n\n", *pieces]).encode("utf-8", "replace"))
    for transcript in read(path).transcripts:
        assert all(m.blocks for m in transcript.messages)


def test_projects_and_history_folders_are_found(tmp_path: Path) -> None:
    home(tmp_path)
    paths = [s.path for root in SpecStory().roots({}, tmp_path) for s in SpecStory().discover(root).sources]
    history = tmp_path / "projects" / "shop" / ".specstory" / "history"
    assert [p.name for p in paths] == ["2026-05-04_13-00-00Z.md", "2026-01-16_16-48-38Z-move-the-release.md"]
    for root in (history, history.parent, history.parent.parent, paths[1]):
        assert [s.path for s in SpecStory().discover(root).sources] == [paths[1]]


def test_a_page_that_vanished_is_unreadable(tmp_path: Path) -> None:
    path = release().write(tmp_path)
    (source,) = SpecStory().discover(path).sources
    path.unlink()
    with pytest.raises(UnreadableSource):
        SpecStory().parse(source)


# The real pages, counted again with whole-page patterns.

TOOL = re.compile(r"^<tool-use .*?^</details></tool-use>$", re.DOTALL | re.MULTILINE)
SPEAKER = re.compile(r"^_\*\*(User|Agent)\b.*\*\*_\n((?:(?!_\*\*(?:User|Agent)).*\n?)*)", re.MULTILINE)


def page_counts(path: Path) -> tuple[str, Counter[str]]:
    text = path.read_text("utf-8")
    counts = Counter(
        {"tool": len(TOOL.findall(text)), "think": len(re.findall(r"^<think><details>", text, re.MULTILINE))}
    )
    for who, said in SPEAKER.findall(TOOL.sub("[tool]", text)):
        counts[who] += said.replace("---", "").strip() != ""
    (session,) = re.findall(r"^<!-- .* Session (\S+) \(", text, re.MULTILINE)
    return session, counts


@pytest.mark.skipif(not REAL.is_dir(), reason="no shared data")
def test_real_pages_have_as_many_messages_and_tools_as_their_text() -> None:
    pages = [page_counts(path) for path in REAL.glob("**/.specstory/history/*.md")]
    expected = {session: +counts for session, counts in pages if counts.total()}
    found = {}
    for source in SpecStory().discover(REAL.parent).sources:
        for transcript in SpecStory().parse(source).transcripts:
            counts = Counter(User=0)
            for message in transcript.messages:
                counts["User" if message.role is Role.USER else "Agent"] += 1
                counts["tool"] += len(message.tool_calls)
                counts["think"] += sum(isinstance(b, Thinking) for b in message.blocks)
            found[transcript.session.id] = +counts
    assert (len(pages), len(found)) == (51, 47)
    assert found == expected
