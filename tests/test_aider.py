from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest
from aider_logs import START, History, at, home, read, shop
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_journal.connectors import projects
from agent_journal.connectors.aider import HISTORY, Aider
from agent_journal.errors import UnreadableSource
from agent_journal.session import Message, Resume, Role, Text, Thinking, ToolCall, ToolType, Transcript, Usage

SHARED = Path(__file__).parents[1].parent / "shared" / "data"
REAL = SHARED / "home" / "projects" / "Aider-AI__aider" / HISTORY
needs_data = pytest.mark.skipif(not REAL.is_file(), reason="no shared data")


def only(history: History, folder: Path) -> Transcript:
    (transcript,) = read(history.write(folder)).transcripts
    return transcript


def said(transcript: Transcript) -> list[tuple[Role, str]]:
    return [(m.role, m.text) for m in transcript.messages]


def test_a_run_becomes_one_session_with_edits_on_the_reply_and_output_on_the_command(tmp_path: Path) -> None:
    transcript = only(shop(), tmp_path)
    now = at()
    reply = "I'll add exponential backoff.\n\nsrc/webhook.py\n```python\n<<<<<<< SEARCH\n=======\n>>>>>>> REPLACE\n```"
    edit = ToolCall(
        "edit-1", "edit", ToolType.WRITE, {"path": "src/webhook.py"}, "Applied edit to src/webhook.py", True,
        paths=("src/webhook.py",), at=now,
    )  # fmt: skip
    commit = ToolCall(
        "git_commit-2", "git_commit", ToolType.GENERIC, {"hash": "1a2b3c4", "message": "feat: add webhook retry"},
        "Commit 1a2b3c4 feat: add webhook retry", True, at=now,
    )  # fmt: skip
    output = "42 passed\nAdd command output to the chat? (Y)es/(N)o [Yes]: n"
    undo = "You can use /undo to undo and discard each aider commit."
    assert transcript.messages == (
        Message(Role.USER, (Text("add a retry to the webhook\nwith backoff", at=now),), at=now),
        Message(
            Role.ASSISTANT, (Text(reply, at=now), edit, commit), at=now, model="anthropic/claude-sonnet-4",
            usage=Usage(3200, 210),
        ),
        Message(Role.SYSTEM, (Text(undo, at=now),), at=now, is_meta=True),
        Message(Role.USER, (Text("/run pytest -q", at=now),), at=now),
        Message(
            Role.TOOL, (ToolCall("shell-3", "shell", ToolType.SHELL, {"command": "pytest -q"}, output, at=now),), at=now
        ),
    )  # fmt: skip
    session = transcript.session
    assert (session.id, session.agent_version, session.workspace) == (START, "0.86.1", str(tmp_path))
    assert re.fullmatch(rf"aider:[0-9a-f]{{8}}/{START}", session.key)
    assert session.title == "add a retry to the webhook with backoff"
    assert session.extensions == {"times": "only the session's start is known"}
    assert Aider().resume(session) == Resume(("aider", "--restore-chat-history"), str(tmp_path))


def test_a_run_that_was_started_in_a_folder_of_the_project_says_so(tmp_path: Path) -> None:
    told = "> Cur working dir: /home/ana/shop/tests  \n> Git working dir: /home/ana/shop  \n"
    path = tmp_path / HISTORY
    path.write_text(f"\n# aider chat started at {START}\n\n{told}\n#### add a test  \n\nDone.\n")
    (transcript,) = read(path).transcripts
    assert transcript.session.workspace == str(tmp_path)
    assert [(m.text, m.cwd) for m in transcript.messages] == [
        ("Git working dir: /home/ana/shop", "/home/ana/shop/tests"),
        ("add a test", "/home/ana/shop/tests"),
        ("Done.", "/home/ana/shop/tests"),
    ]


def test_the_command_line_of_a_launch_may_hold_keys_and_is_not_kept(tmp_path: Path) -> None:
    reading = read(shop().write(tmp_path))
    assert "sk-123" not in repr(reading.transcripts)
    assert reading.skipped == {"notice/startup": 4}


def test_runs_with_equal_headers_have_keys_of_their_own(tmp_path: Path) -> None:
    history = History().run().user("one").run().user("two").run("2026-06-09 15:00:00").user("three")
    reading = read(history.write(tmp_path))
    keys = [t.session.key.split("/")[1] for t in reading.transcripts]
    assert keys == [START, f"{START}.2", "2026-06-09 15:00:00"]
    assert [t.session.id for t in reading.transcripts] == [START, START, "2026-06-09 15:00:00"]


def test_same_run_in_two_projects_has_two_keys(tmp_path: Path) -> None:
    shop().write(tmp_path / "a")
    shop().write(tmp_path / "b")
    sources = Aider().discover(tmp_path).sources
    keys = {t.session.key for s in sources for t in Aider().parse(s).transcripts}
    assert len(keys) == 2


def test_runs_without_a_prompt_are_counted_not_kept(tmp_path: Path) -> None:
    history = History().run().launch("2026-06-09 15:00:00").notice("Commit 1a2b3c4 fix: imports")
    history.text = "left over\n" + history.text
    reading = read(history.write(tmp_path))
    assert reading.transcripts == []
    assert reading.skipped == {"blank session": 2, "line before the first run": 1, "notice/startup": 4}


def test_heading_and_quote_inside_a_reply_stay_in_the_reply(tmp_path: Path) -> None:
    reply = "# Plan\n\n#### First step\n\n> a quoted line\n\nThe end.\n>>>>>>> REPLACE"
    transcript = only(History().launch().user("plan?").reply(reply), tmp_path)
    assert said(transcript) == [(Role.USER, "plan?"), (Role.ASSISTANT, reply)]


def test_a_reply_cut_off_inside_a_fence_does_not_swallow_the_next_prompt(tmp_path: Path) -> None:
    history = History().launch().user("edit").reply("```python\nx = 1").notice("^C again to exit").user("again")
    assert said(only(history, tmp_path)) == [
        (Role.USER, "edit"),
        (Role.ASSISTANT, "```python\nx = 1"),
        (Role.SYSTEM, "^C again to exit"),
        (Role.USER, "again"),
    ]


def test_old_notice_of_several_lines_is_marked_on_its_first_line_only(tmp_path: Path) -> None:
    output = (
        "==== starts ====\nplatform darwin\n\ndef test():\n    \n>   main(\n\n#### not a prompt\n==== 1 failed ===="
    )
    history = History().launch().user("/test pytest").notice(output)
    history.user("fix it").reply("Fixed.").notice("Tokens: 9,869 sent, 1,200 received.\nCost: $0.03 message.", "Bye")
    transcript = only(history, tmp_path)
    output = output.replace("    \n>   main", "\n  main")
    assert [c.result for m in transcript.messages for c in m.tool_calls] == [output]
    assert said(transcript)[2:] == [(Role.USER, "fix it"), (Role.ASSISTANT, "Fixed."), (Role.SYSTEM, "Bye")]
    assert transcript.messages[3].usage == Usage(9869, 1200)


def test_histories_without_the_two_spaces_are_split_by_prefix_outside_fences(tmp_path: Path) -> None:
    history = History()
    reply = "Hi.\n```\n\n#### no prompt\n```"
    history.text = f"# aider chat started at 2023-06-01 10:00:00\n\n#### hello\n\n{reply}\n\n> done\n\n#### bye\n"
    assert said(only(history, tmp_path)) == [
        (Role.USER, "hello"),
        (Role.ASSISTANT, reply),
        (Role.SYSTEM, "done"),
        (Role.USER, "bye"),
    ]


def test_two_inputs_in_a_row_are_two_prompts_and_a_blank_one_is_none(tmp_path: Path) -> None:
    history = History().launch().user("/ask why").user(" why").user("<blank>").reply("Because.")
    reading = read(history.write(tmp_path))
    (transcript,) = reading.transcripts
    assert said(transcript) == [(Role.USER, "/ask why"), (Role.USER, "why"), (Role.ASSISTANT, "Because.")]
    assert transcript.session.title == "why"
    assert reading.skipped["prompt/blank"] == 1


def test_thoughts_are_told_from_the_answer(tmp_path: Path) -> None:
    reply = "--------------\n► **THINKING**\n\nHm.\n\n------------\n► **ANSWER**\n\nYes."
    tagged = "<think>\nLet me see.\n</think>\nNo."
    transcript = only(History().launch().user("a").reply(reply).user("b").reply(tagged), tmp_path)
    now = at()
    assert [m.blocks for m in transcript.messages if m.role is Role.ASSISTANT] == [
        (Thinking("Hm.", at=now), Text("Yes.", at=now)),
        (Thinking("Let me see.", at=now), Text("No.", at=now)),
    ]


def test_failed_edits_and_errors_are_failures(tmp_path: Path) -> None:
    history = History().launch().user("a").reply("b").notice("Skipping edits to src/a.py that matches gitignore spec.")
    history.notice("Did not apply edit to b.py (--dry-run)").user("c").notice("litellm.APIError: overloaded")
    transcript = only(history, tmp_path)
    assert [(c.paths, c.success) for m in transcript.messages for c in m.tool_calls] == [
        (("src/a.py",), False),
        (("b.py",), False),
    ]
    assert transcript.messages[-1].is_error


@pytest.mark.parametrize(
    ("line", "usage"),
    [
        ("Tokens: 1.2k sent, 3k cache write, 4.5k cache hit, 12 received.", Usage(1200, 12, 3000, 4500)),
        ("Tokens: 4 sent, 2,000 cached, 7 received. Cost: $0.1 message", Usage(4, 7, 0, 2000)),
        ("Tokens: ,., sent, k received.", Usage()),
    ],
)
def test_token_counts(tmp_path: Path, line: str, usage: Usage) -> None:
    transcript = only(History().launch().user("a").reply("b").notice(line), tmp_path)
    assert transcript.messages[1].usage == usage


def test_typed_lines_give_each_prompt_its_own_time(tmp_path: Path) -> None:
    history = History().launch().user("one\ntwo").reply("x").user("again").user("again")
    history.launch("2026-06-09 15:00:00").user("one\ntwo")
    (tmp_path / ".aider.input.history").write_text(
        "\n# 2026-06-09 14:02:00.5\n+one\n+two\n\n"
        "# 2026-06-09 14:03:00\n+again\n# 2026-06-09 15:30:00\n+again\n# bad\n+x\n"
    )
    first, second = read(history.write(tmp_path)).transcripts
    assert [m.at for m in first.messages] == [
        at("2026-06-09 14:02:00.5"), at("2026-06-09 14:02:00.5"), at("2026-06-09 14:03:00"), at("2026-06-09 14:03:00")
    ]  # fmt: skip
    assert second.messages[0].at == at("2026-06-09 15:00:00")
    assert first.session.extensions == {}


def test_a_header_without_a_time_leaves_the_time_of_the_file(tmp_path: Path) -> None:
    path = History().run("yesterday").user("a").write(tmp_path)
    os.utime(path, (1_780_000_000, 1_780_000_000))
    (transcript,) = read(path).transcripts
    assert transcript.session.id == "yesterday"
    assert transcript.session.extensions == {"time_of_file": "2026-05-28T20:26:40+00:00"}


def test_windows_line_ends_and_bad_bytes_are_read(tmp_path: Path) -> None:
    path = tmp_path / HISTORY
    path.write_bytes(b"\xef\xbb\xbf" + shop().text.lstrip().replace("\n", "\r\n").encode() + b"\r\n#### caf\xe9  \r\n")
    (transcript,) = read(path).transcripts
    assert transcript.messages[0].text == "add a retry to the webhook\nwith backoff"
    assert transcript.messages[-1].text == "caf\ufffd"


def test_pictures_printed_to_the_terminal_are_not_kept(tmp_path: Path) -> None:
    transcript = only(History().launch().user("/run plot").notice("\x1b]1337;File=:" + "iVBOR" * 2000), tmp_path)
    assert transcript.messages[1].tool_calls[0].result == "\x1b]1337;File=:[encoded data]"


# Growth.


def roles(text: str, path: Path) -> list[list[Role]]:
    path.write_text(text, encoding="utf-8")
    return [[m.role for m in t.messages] for t in read(path).transcripts]


def test_cutting_the_file_anywhere_changes_no_earlier_message(tmp_path: Path) -> None:
    text = (
        shop().launch("2026-06-09 15:00:00").user("and then?").reply("#### Heading\n> quote\nEnd.").notice("Bye").text
    )
    whole = roles(text, tmp_path / HISTORY)
    for cut in range(len(text)):
        for part, full in zip(roles(text[:cut], tmp_path / HISTORY), whole, strict=False):
            assert part == full[: len(part)], text[:cut][-60:]


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.sampled_from(
                ["\n", "#### x  \n", "> y  \n", "> Tokens: ", "####\n", ">\n", "```\n", "# aider chat started at "]
            ),
            st.text(max_size=30),
        )
    )
)
def test_any_text_is_read(tmp_path_factory: pytest.TempPathFactory, pieces: list[str]) -> None:
    path = tmp_path_factory.getbasetemp() / HISTORY
    path.write_bytes("".join(["# aider chat started at 2026-01-01 00:00:00\n", *pieces]).encode("utf-8", "replace"))
    for transcript in read(path).transcripts:
        assert any(m.role is Role.USER for m in transcript.messages)
        assert all(m.blocks for m in transcript.messages)


# Discovery.


def test_projects_are_found_below_the_usual_places_and_nothing_behind_links_or_caches(tmp_path: Path) -> None:
    home(tmp_path)
    for hidden in ("node_modules/x", ".venv", "a/b/c/d/e/f/g"):
        shop().write(tmp_path / "projects" / hidden)
    deep = shop().write(tmp_path / "projects" / "a/b/c/d/e/f")
    (tmp_path / "projects" / "loop").symlink_to(tmp_path / "projects", target_is_directory=True)
    roots = Aider().roots({"AIDER_CHAT_HISTORY_FILE": "chat.md"}, tmp_path)
    found = [s.path for root in roots for s in Aider().discover(root).sources]
    shops = [tmp_path / "projects" / name / HISTORY for name in ("cart", "shop")]
    assert roots == [tmp_path / name for name in ("projects", "src", "code", "work", "dev", "repos")]
    assert found == [*shops, deep]


@pytest.mark.parametrize(
    ("setting", "place"),
    [
        ("chat-history-file: ~/logs/aider.md", "logs/aider.md"),
        ("model: x\nchat-history-file:   '/srv/aider.md'  # all of them\n", "/srv/aider.md"),
        ('chat-history-file: "~/logs/aider.md"\r\n', "logs/aider.md"),
        ("chat-history-file: logs/aider.md", None),
        ("# chat-history-file: /srv/aider.md", None),
    ],
)
def test_one_history_of_all_projects_is_where_settings_say(tmp_path: Path, setting: str, place: str | None) -> None:
    (tmp_path / ".aider.conf.yml").write_text(setting)
    usual = projects.places(tmp_path)
    assert Aider().roots({}, tmp_path) == [*usual, *([tmp_path / place] if place else [])]
    assert Aider().roots({"AIDER_CHAT_HISTORY_FILE": "/tmp/x.md"}, tmp_path) == [*usual, Path("/tmp/x.md")]


def test_a_walk_that_takes_too_long_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home(tmp_path)
    monkeypatch.setattr(projects, "SECONDS", -1.0)
    discovery = Aider().discover(tmp_path)
    assert discovery.sources == []
    assert [path for path, _ in discovery.unlisted] == [tmp_path]


def test_a_file_of_any_name_is_read_when_named(tmp_path: Path) -> None:
    path = shop().write(tmp_path).rename(tmp_path / "chat.md")
    assert len(read(path).transcripts) == 1
    assert Aider().discover(tmp_path / "missing.md").sources == []


def test_a_file_that_vanished_is_unreadable(tmp_path: Path) -> None:
    path = shop().write(tmp_path)
    (source,) = Aider().discover(path).sources
    path.unlink()
    with pytest.raises(UnreadableSource):
        Aider().parse(source)


# The real history, counted again: by paragraphs, because the writer puts a blank line before prompts and replies.


TOLD = r"^> (?:Applied edit|Did not apply edit|Skipping edits|Creating empty file|Commit [0-9a-f]{7,40} )"


def paragraph_counts(run: str) -> tuple[int, int, int]:
    """Prompts, replies, edits and commits of one run."""
    prompts = replies = calls = 0
    opened, before, shell = False, "", False
    for paragraph in re.split(r"\n[ \t]*(?=\n)", run):
        lines = paragraph.strip("\n").split("\n")
        if not paragraph.strip():
            continue
        closes = lines[-1].endswith("  ")
        if lines[0].startswith("#### ") and lines[0].endswith("  "):
            asked = [line[5:].strip() for line in lines if line.startswith("#### ")]
            prompts += "".join(asked) not in ("", "<blank>")
            shell = re.match(r"!|/(run|test|git)\s", asked[0]) is not None
            before, opened = "prompt", not closes
            told = "" if shell else paragraph
        elif opened or (lines[0].startswith("> ") and (lines[0].endswith("  ") or lines[0].startswith("> Tokens:"))):
            told = "" if shell and before != "reply" else paragraph
            before, opened = "notice", not closes
        elif lines[0].startswith("> ") and before == "":
            told, before, opened = paragraph, "notice", not closes
        else:
            replies += before != "reply"
            before, told, shell = "reply", "", False
        calls += len(re.findall(TOLD, told, re.MULTILINE))
    return prompts, replies, calls


@needs_data
def test_real_history_has_as_many_prompts_replies_and_edits_as_its_paragraphs() -> None:
    runs = re.split(r"^# aider chat started at (.*)\n", REAL.read_text("utf-8", "replace"), flags=re.MULTILINE)[1:]
    raw = {header: paragraph_counts(run) for header, run in zip(runs[::2], runs[1::2], strict=True)}
    expected = {header: counts for header, counts in raw.items() if counts[0]}
    reading = read(REAL)
    found = {
        t.session.id: (
            sum(m.role is Role.USER for m in t.messages),
            sum(m.role is Role.ASSISTANT for m in t.messages),
            sum(c.name != "shell" for m in t.messages for c in m.tool_calls),
        )
        for t in reading.transcripts
    }
    assert found == expected
    assert reading.skipped["blank session"] == len(raw) - len(expected)


@needs_data
def test_real_answers_stand_where_the_queries_say() -> None:
    sessions = {t.session.id: t.messages for t in read(REAL).transcripts}
    queries = [json.loads(line) for line in (SHARED / "relevance" / "queries.jsonl").read_text("utf-8").splitlines()]
    asked = [q for q in queries if q["agent"] == "aider"]
    where = {"assistant": Role.ASSISTANT, "tool_result": Role.TOOL}
    for query in asked:
        held = [m for m in sessions[query["session"]] if query["gold"][0] in repr_text(m)]
        assert where[query["where"]] in {m.role for m in held}, query["id"]
    assert asked


def repr_text(message: Message) -> str:
    return "\n".join([message.text, *(c.result or "" for c in message.tool_calls)])
