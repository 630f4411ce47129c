"""`aj export` through a real process: what is chosen, where it goes, what is left out, and what a failure leaves."""

from __future__ import annotations

import gzip
import json
import os
import random
import signal
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import logs
import pytest
from journals import LONGEST
from process import CLAUDE, COPILOT, Aj, Ran, two_sessions, write_claude

from agent_journal.exchange import ndjson, schemas, sessiondata_check


@pytest.fixture
def aj(tmp_path: Path) -> Aj:
    found = two_sessions(tmp_path / "home")
    assert found("reindex").code == 0
    return found


def records(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def told(ran: Ran) -> str:
    """What stderr says, however it was broken into lines."""
    return " ".join(ran.err.split())


def names(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


# --- NDJSON ---------------------------------------------------------------------------------------------


def test_everything_in_one_file_with_a_true_header(aj: Aj) -> None:
    ran = aj("export", "--all", "--json", "-o", "all.ndjson")
    header, *sessions = records(aj.home / "all.ndjson")
    assert (ran.code, ran.out) == (0, "")
    assert ran.err.startswith("2 sessions, 8 messages → ~/all.ndjson (")
    assert {name: value for name, value in header.items() if name != "export_timestamp"} == {
        "type": "header",
        "schema_version": "1.1",
        "agent_types": ["claude-code", "copilot-cli"],
        "homes": ["local"],
        "workspaces": ["shop"],
        "session_count": 2,
    }
    assert [s["session"]["id"] for s in sessions] == [CLAUDE, COPILOT]  # by their beginnings
    assert [list(schemas.complaints(schemas.NDJSON, value)) for value in (header, *sessions)] == [[], [], []]


def test_the_formats_own_consumer_runs_on_it(aj: Aj) -> None:
    aj("export", "--ah", "--aw", "--json", "-o", "export.ndjson")
    consumer = """
import json

with open("export.ndjson") as f:
    header = json.loads(f.readline())
    print(f"Exporting {header['session_count']} sessions")

    for line in f:
        record = json.loads(line)
        session = record["session"]
        messages = record["messages"]
        print(f"Session {session['id']}: {len(messages)} messages")
"""
    ran = subprocess.run([sys.executable, "-c", consumer], cwd=aj.home, capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines() == [
        "Exporting 2 sessions",
        f"Session {CLAUDE}: 8 messages",
        f"Session {COPILOT}: 2 messages",
    ]


def test_the_default_name_is_made_of_the_time(aj: Aj) -> None:
    (aj.home / "backup").mkdir()
    aj("export", "--all", "--json", "-o", "backup")
    aj("export", "shop", "--json")
    for folder in (aj.home / "backup", aj.home):
        (file,) = folder.glob("export_*.ndjson")
        assert len(file.stem) == len("export_20251227_103000")


def test_raw_and_normalized_in_one_run(aj: Aj) -> None:
    ran = aj("export", CLAUDE, "--source", "--json", "-o", "both/")
    own = Path("source/local/.claude/projects/-home-ana-shop") / f"{CLAUDE}.jsonl"
    found = names(aj.home / "both")
    assert [name for name in found if not name.startswith("export_")] == [str(own)]
    assert len(found) == 2
    assert (aj.home / "both" / own).read_bytes() == logs.transcript_path(aj.home, CLAUDE).read_bytes()
    assert stat.S_IMODE((aj.home / "both").stat().st_mode) == 0o700
    assert ran.err.splitlines()[-1] == "1 file of the agents copied as it is: not redacted"
    copied = aj("export", CLAUDE, "--source", "-o", "copied/").err.splitlines()
    assert copied[0].startswith("1 session → ")


def test_an_imported_session_cannot_have_any_file_copied(aj: Aj, tmp_path: Path) -> None:
    (aj.home / "private").write_text("mine")
    aj("export", CLAUDE, "--json", "-o", "a.ndjson")
    text = (
        (aj.home / "a.ndjson").read_text().replace(str(logs.transcript_path(aj.home, CLAUDE)), str(aj.home / "private"))
    )
    other = Aj(tmp_path / "other")
    other.home.mkdir()
    (other.home / "a.ndjson").write_text(text)
    assert other("import", "a.ndjson").code == 0
    ran = other("export", "--all", "--source", "--json", "-o", "out")
    assert [name for name in names(other.home / "out") if name.startswith("source")] == []
    assert ran.code == 0


def test_raw_files_alone_are_not_called_redacted(aj: Aj) -> None:
    ran = aj("export", "--all", "--source", "-o", "raw")
    assert (ran.code, "redacted:" in ran.err) == (0, False)
    assert len(names(aj.home / "raw")) == 2


def test_compressed_by_name_or_by_flag(aj: Aj) -> None:
    aj("export", "--all", "-o", "a.ndjson.gz")
    aj("export", "--all", "--json", "--gzip", "-o", "b.ndjson")
    first, second = (gzip.decompress((aj.home / name).read_bytes()) for name in ("a.ndjson.gz", "b.ndjson.gz"))
    assert first.splitlines()[1:] == second.splitlines()[1:]
    assert len(first.splitlines()) == 3


def test_schema_1_0_is_strict_and_says_what_it_left_out(aj: Aj) -> None:
    ran = aj("export", CLAUDE, "--json", "--schema", "1.0", "-o", "-")
    header, session = (json.loads(line) for line in ran.lines)
    assert header["schema_version"] == "1.0"
    assert {b["type"] for m in session["messages"] for b in m["content"]} == {"text", "tool_use", "tool_result"}
    assert "extensions" not in json.dumps(session)
    assert "1 thinking" in ran.err


def test_strict_refuses_agents_that_the_format_does_not_name(aj: Aj) -> None:
    ran = aj("export", "--all", "--json", "--strict", "-o", "x.ndjson")
    assert ran.code == 2
    assert "ndjson names only claude-code, codex, gemini, not copilot-cli (1)" in ran.err
    assert not (aj.home / "x.ndjson").exists()
    assert aj("export", "--agent", "claude", "--json", "--strict", "-o", "x.ndjson").code == 0


def test_agents_that_a_format_does_not_list_are_told_once(aj: Aj) -> None:
    ran = aj("export", "--all", "-f", "sessiondata", "--json", "-o", "both")
    assert ran.err.splitlines()[1:] == [
        "under their own names, which sessiondata does not list: copilot-cli (1)",
        "under their own names, which ndjson does not list: copilot-cli (1)",
    ]
    piped = aj("export", "--all", "--json", "-o", "-")
    assert piped.err.splitlines()[1:] == ["under their own names, which ndjson does not list: copilot-cli (1)"]
    assert [json.loads(line)["type"] for line in piped.lines] == ["header", "session", "session"]
    for options in (["--all", "-f", "markdown"], [CLAUDE, "--json"]):
        assert "own names" not in aj("export", *options, "-o", "-").err


# --- what is chosen -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("chosen", "ids"),
    [
        ([CLAUDE], [CLAUDE]),
        ([CLAUDE[:8], COPILOT[:8]], [CLAUDE, COPILOT]),
        (["shop"], [CLAUDE, COPILOT]),
        (["/home/ana/shop"], [CLAUDE, COPILOT]),
        (["--query", "project:shop quotes"], [CLAUDE]),
        (["--project", "shop"], [CLAUDE, COPILOT]),
        (["--home", "local", "--since", "2025-04-01"], [COPILOT]),
        (["--all", "--sort", "source"], [CLAUDE, COPILOT]),
    ],
)
def test_sessions_are_chosen_by_name_workspace_query_and_filter(aj: Aj, chosen: list[str], ids: list[str]) -> None:
    ran = aj("export", *chosen, "--json", "-o", "-")
    assert [json.loads(line)["session"]["id"] for line in ran.lines[1:]] == ids


def test_a_hit_is_exported_without_sub_agents(aj: Aj) -> None:
    """The number was a hit in the first look, and a session's name in the second, which counts the sub-agents."""
    assert aj("search", "quotes", "--mode", "lexical").code == 0
    ran = aj("export", "1", "--no-subagents", "--json", "-o", "-")
    assert [json.loads(line)["session"]["id"] for line in ran.lines[1:]] == [CLAUDE]


def test_nothing_chosen_is_a_usage_error_and_nothing_found_is_not_an_error(aj: Aj) -> None:
    nothing = aj("export", "--json")
    assert nothing.code == 2
    assert "say what to export" in nothing.err
    none = aj("export", "--query", "zebra", "--json")
    assert (none.code, none.err.splitlines()) == (1, ["nothing to export: no session fits"])
    unknown = aj("export", "nosuch", "--json")
    assert unknown.code == 2
    assert "no session is called 'nosuch'" in unknown.err


def test_tools_and_thinking_can_be_left_out_and_that_is_said(aj: Aj) -> None:
    ran = aj("export", CLAUDE, "--json", "--no-tools", "--no-thinking", "-o", "-")
    (session,) = (json.loads(line) for line in ran.lines[1:])
    assert {b["type"] for m in session["messages"] for b in m["content"]} == {"text"}
    assert "left out: 2 tool calls, 1 messages of which nothing else is left, 1 thinking blocks" in ran.err


def test_tool_calls_are_left_out_by_the_setting(aj: Aj) -> None:
    assert aj("config", "set", "export.include_tool_calls", "false").code == 0
    assert "left out: 2 tool calls" in aj("export", CLAUDE, "--json", "-o", "-").err
    assert "left out" not in aj("export", CLAUDE, "--json", "--tools", "-o", "-").err


# --- the other formats ----------------------------------------------------------------------------------


def test_markdown_html_and_session_data_are_a_file_a_session(aj: Aj) -> None:
    stem = f"2025-03-02-why-does-the-cart-parser-drop-nested-quotes-{CLAUDE[:8]}"
    other = f"2025-04-01-rename-the-parser-module-{COPILOT[:8]}"
    for name, suffix in (("markdown", ".md"), ("sessiondata", ".json"), ("html", ".html")):
        ran = aj("export", "--all", "--format", name, "-o", name)
        assert ran.code == 0
        index = ["index.html"] if name == "html" else []
        assert names(aj.home / name) == sorted([f"{stem}{suffix}", f"{other}{suffix}", *index])
    assert sessiondata_check.problems(json.loads((aj.home / "sessiondata" / f"{stem}.json").read_text())) == []


def test_several_formats_at_once_go_into_one_folder(aj: Aj) -> None:
    aj("export", CLAUDE, "-f", "markdown", "-f", "html", "--json", "-o", "all")
    assert sorted(Path(name).suffix for name in names(aj.home / "all")) == [".html", ".md", ".ndjson"]
    several = aj("export", "--all", "-f", "markdown", "--json", "-o", "both.md")
    assert "both.md is the name of one file, and there will be several" in told(several)


def test_the_usual_format_and_theme_are_settings(aj: Aj) -> None:
    aj("config", "set", "export.html_theme", "light")
    assert aj("export", CLAUDE, "-o", "pages").code == 0
    (page,) = (aj.home / "pages").glob("2025*.html")
    assert 'data-theme="light"' in page.read_text()
    assert 'data-theme="dark"' in aj("export", CLAUDE, "-f", "html", "--theme", "dark", "-o", "-").out


def test_one_session_without_a_target_is_one_file_here(aj: Aj) -> None:
    aj("search", "nested quotes")
    for name in ("html", "sessiondata"):
        assert aj("export", "1", "-f", name).code == 0
    found = sorted(path.name for path in aj.home.glob("2025*"))
    assert [(name[:10], Path(name).suffix) for name in found] == [("2025-03-02", ".html"), ("2025-03-02", ".json")]
    assert "compressed pages" in told(aj("export", "--all", "-f", "html", "--gzip"))


def test_one_session_goes_into_the_file_that_is_named_and_its_name_says_the_format(aj: Aj) -> None:
    aj("export", CLAUDE, "-o", "cart.md")
    assert (aj.home / "cart.md").read_text().startswith("# Why does the cart parser drop nested quotes?\n")
    ran = aj("export", "--all", "-o", "cart.html")
    assert ran.code == 2
    assert "2 sessions do not fit into ~/cart.html: html is a file a session" in told(ran)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["-f", "markdown", "-o", "x.html"], "the name of x.html says html, but markdown is asked for"),
        (["--json", "-o", "notes.md"], "the name of notes.md says markdown, but ndjson is asked for"),
        (["-f", "html", "-o", "all.json.gz"], "the name of all.json.gz says sessiondata, but html is asked for"),
        (
            ["-o", "foo.xyz"],
            "no format has names in .xyz; known are .html, .md, .ndjson, .jsonl, .json: "
            "give --format too, or for a folder foo.xyz/",
        ),
    ],
)
def test_a_name_that_would_mislead_is_refused(aj: Aj, arguments: list[str], sentence: str) -> None:
    before = names(aj.home)
    ran = aj("export", CLAUDE, *arguments)
    assert (ran.code, ran.out, names(aj.home)) == (2, "", before)
    assert f"Invalid value for --output: {sentence}" in told(ran)


def test_what_misleads_nobody_is_written(aj: Aj) -> None:
    (aj.home / "there.d").mkdir()
    for arguments, file in (
        (["-f", "markdown", "-o", "cart.txt"], "cart.txt"),
        (["-o", "CART.MD"], "CART.MD"),
        (["--json", "-o", "cart.jsonl.gz"], "cart.jsonl.gz"),
        (["--json", "-o", "cart.json"], "cart.json"),
        (["-o", "there.d"], "there.d/*.html"),
        (["-o", "new.d/"], "new.d/*.html"),
    ):
        assert aj("export", CLAUDE, *arguments).code == 0
        assert len(list(aj.home.glob(file))) == 1


def test_markdown_is_the_same_from_the_journal_and_from_its_ndjson(aj: Aj, tmp_path: Path) -> None:
    aj("export", "--all", "--json", "--no-redact", "-o", "all.ndjson")
    other = Aj(tmp_path / "other")
    other.home.mkdir()
    assert other("import", str(aj.home / "all.ndjson")).code == 0
    for one in (aj, other):
        one("export", "--all", "--no-redact", "-f", "markdown", "-o", "pages")
    assert names(aj.home / "pages") == names(other.home / "pages")
    for name in names(aj.home / "pages"):
        assert (aj.home / "pages" / name).read_text() == (other.home / "pages" / name).read_text()


# --- secrets --------------------------------------------------------------------------------------------


def test_secrets_are_replaced_unless_told_otherwise_and_counted(aj: Aj) -> None:
    token = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    logs.write(logs.transcript_path(aj.home, "5ec2e700"), logs.user("k1", f"my token is {token}", sessionId="5ec2e700"))
    aj("reindex")
    for name in ("ndjson", "markdown", "sessiondata", "html"):
        ran = aj("export", "5ec2e700", "-f", name, "-o", "-")
        assert token not in ran.out
        assert "redacted: " in ran.err
        assert token in aj("export", "5ec2e700", "-f", name, "--no-redact", "-o", "-").out


# --- what a failure leaves ------------------------------------------------------------------------------


def test_a_file_that_is_there_stays_unless_forced(aj: Aj) -> None:
    (aj.home / "a.ndjson").write_text("mine")
    ran = aj("export", "--all", "-o", "a.ndjson")
    assert ran.code == 2
    assert "~/a.ndjson is there already" in told(ran)
    assert (aj.home / "a.ndjson").read_text() == "mine"
    assert aj("export", "--all", "-o", "a.ndjson", "--force").code == 0
    assert names(aj.home).count("a.ndjson") == 1


def test_files_are_for_their_owner_alone(aj: Aj) -> None:
    aj("export", "--all", "-o", "a.ndjson")
    assert stat.S_IMODE((aj.home / "a.ndjson").stat().st_mode) == 0o600


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_and_a_closed_pipe_are_no_crash(aj: Aj) -> None:
    with (
        open("/dev/full", "wb") as full,
        aj.start("export", "--all", "--json", "-o", "-", stdout=full, stderr=subprocess.PIPE) as process,
    ):
        _, err = process.communicate(timeout=LONGEST)
    assert process.returncode == 2
    assert b"Traceback" not in err


def test_a_target_that_cannot_be_written_is_a_sentence(aj: Aj) -> None:
    (aj.home / "file").write_text("")
    ran = aj("export", "--all", "-o", "file/below/a.ndjson")
    assert ran.code == 2
    assert "cannot be written" in ran.err
    assert "Traceback" not in ran.err


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Aj:
    found = two_sessions(tmp_path_factory.mktemp("large"))
    for number in range(300):
        write_claude(found.home, f"{number:08d}-0000-4000-8000-000000000000", sessionId=f"{number:08d}")
    chance = random.Random(1)  # what gzip makes only half as small
    numbers = " ".join(str(chance.randrange(10**6)) for _ in range(30_000))
    logs.write(logs.transcript_path(found.home, "5ec2e7aa"), logs.user("u1", numbers, sessionId="5ec2e7aa"))
    assert found("reindex").code == 0
    return found


def parts(home: Path, pattern: str) -> list[Path]:
    return list(home.glob(f".aj-export-*/{pattern}"))


def broken_off(aj: Aj, how: signal.Signals, part: str, *arguments: str) -> int:
    """Once some of the export is written."""
    with aj.start("export", "--all", *arguments, stderr=subprocess.PIPE) as process:
        while not any(path.stat().st_size for path in parts(aj.home, part)):
            assert process.poll() is None
        os.kill(process.pid, how)
        process.communicate(timeout=LONGEST)
    return process.returncode


@pytest.mark.skipif(sys.platform == "win32", reason="needs signals")
@pytest.mark.parametrize("how", ["SIGINT", "SIGKILL"])
@pytest.mark.parametrize(
    ("part", "arguments"),
    [
        ("*.html", ["-f", "html", "-o", "pages"]),
        ("*.json", ["-f", "sessiondata", "-o", "pages/"]),
        ("all.ndjson", ["-o", "all.ndjson"]),
        ("all.ndjson", ["-o", "all.ndjson", "--force"]),
    ],
)
def test_broken_off_it_leaves_nothing_half_written(large: Aj, how: str, part: str, arguments: list[str]) -> None:
    if "--force" in arguments:
        (large.home / "all.ndjson").write_text("mine")
    before = names(large.home)
    code = broken_off(large, signal.Signals[how], part, *arguments)
    for left in large.home.glob(".aj-export-*"):
        assert how == "SIGKILL"  # the next export takes it away when it is a day old
        os.utime(left, (0, 0))
    assert code == {"SIGINT": 130, "SIGKILL": -signal.SIGKILL}[how]
    assert not (large.home / "pages").exists()
    if "--force" in arguments:
        assert (large.home / "all.ndjson").read_text() == "mine"
        (large.home / "all.ndjson").unlink()
    assert large("export", CLAUDE, "-o", "next.ndjson").code == 0
    (large.home / "next.ndjson").unlink()
    assert parts(large.home, "") == []
    assert names(large.home) == [name for name in before if name != "all.ndjson"]


@pytest.mark.skipif(sys.platform == "win32", reason="needs limits")
@pytest.mark.parametrize(
    "arguments", [["-o", "all.ndjson", "--force"], ["-o", "all.ndjson.gz"], ["-f", "html", "-o", "pages"]]
)
def test_a_file_that_cannot_grow_is_a_sentence_and_leaves_nothing(large: Aj, arguments: list[str]) -> None:
    """As on a full disk, only that no file may be larger than 40 kB: SQLite needs 32."""
    import resource

    (large.home / "all.ndjson").write_text("mine")
    before = names(large.home)

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, 40_000))

    pipe = subprocess.PIPE
    with large.start("export", "--all", *arguments, stderr=pipe, preexec_fn=limit) as process:
        _, err = process.communicate(timeout=LONGEST)
    assert (process.returncode, b"Traceback" in err) == (2, False)
    assert "cannot be written (File too large)" in " ".join(err.decode().split())
    assert (large.home / "all.ndjson").read_text() == "mine"
    assert names(large.home) == before


def test_the_version_constants_are_those_of_the_format() -> None:
    assert (ndjson.VERSION, ndjson.STRICT) == ("1.1", "1.0")
