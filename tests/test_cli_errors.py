"""What goes wrong is a sentence on stderr and an exit code; what is piped, interrupted or redirected ends quietly."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import logs
import pytest
from process import CLAUDE, Aj, two_sessions

COMMANDS = ["search", "reindex", "show", "sessions", "agents", "doctor", "config"]
SETTINGS = ["show", "path", "init", "get", "set", "edit"]


@pytest.fixture(scope="module")
def aj(tmp_path_factory: pytest.TempPathFactory) -> Aj:
    found = two_sessions(tmp_path_factory.mktemp("errors") / "home")
    assert found("reindex").code == 0
    return found


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ["-draft", "parser"],
            ["aj: No such option '-d'.", "A query that starts with a dash goes after --: aj search -- --dry-run"],
        ),
        (
            ["search", "--dry-run"],
            [
                "aj: No such option '--dry-run'.",
                "A query that starts with a dash goes after --: aj search -- --dry-run",
            ],
        ),
        (
            ["search"],
            [
                "aj: Invalid value for QUERY: say what to search for: words, or a filter such as",
                "--agent",
                "See aj search --help",
            ],
        ),
        (
            ["search", ""],
            [
                "aj: Invalid value for QUERY: say what to search for: words, or a filter such as",
                "--agent",
                "See aj search --help",
            ],
        ),
        (
            ["search", "*"],
            [
                "aj: Invalid value for QUERY: say what to search for: words, or a filter such as",
                "--agent",
                "See aj search --help",
            ],
        ),
        (
            ["search", "( )"],
            [
                "aj: Invalid value for QUERY: say what to search for: words, or a filter such as",
                "--agent",
                "See aj search --help",
            ],
        ),
        (
            ["search", '""'],
            [
                "aj: Invalid value for QUERY: say what to search for: words, or a filter such as",
                "--agent",
                "See aj search --help",
            ],
        ),
        (
            ["quotes", "since:3x"],
            [
                "aj: since:3x — use a date (2026-03-01, 2026-03, 2026-03-01T14:30), or 5h, 3d,",
                "2w, 1y, today, yesterday, last-week, last-month",
                "quotes since:3x",
                "       ^^^^^^^^",
            ],
        ),
        (
            ["quotes", "--cursor", "x"],
            ["aj: that is not a cursor", "use the `next` of an earlier answer, or leave it out"],
        ),
        (["show", "9999"], ["aj: the last search has no hit 9999", "search again, or give a session's id"]),
        (["show", "nosuch"], ["aj: no session is called 'nosuch'", "see `aj sessions`"]),
        (["show", f"{CLAUDE}:77"], ["aj: that session has no message 77; its messages are 1 to 6"]),
        (
            ["config", "get", "search.max_result"],
            ["aj: unknown key search.max_result; did you mean search.max_results?"],
        ),
    ],
)
def test_error_is_a_sentence_and_exits_2(aj: Aj, arguments: list[str], said: list[str]) -> None:
    ran = aj(*arguments)
    assert (ran.code, ran.out, ran.err.splitlines()) == (2, "", said)


def test_a_number_of_thousands_of_digits_is_no_messages(aj: Aj) -> None:
    name = f"{CLAUDE}:{'9' * 5000}"
    ran = aj("show", name, "--json")
    assert (ran.code, ran.error["kind"]) == (2, "no_such_session")


@pytest.mark.parametrize("command", [["validate"], ["import"], ["backup"], ["restore"], ["models", "add"]])
def test_a_name_that_is_too_long_is_said(aj: Aj, command: list[str]) -> None:
    ran = aj(*command, "n" * 300, "--json")
    assert (ran.code, ran.out) == (2, "")
    assert "n" * 300 in ran.error["message"]
    assert "too long" in ran.error["message"]


def test_unknown_agent_is_told_the_known_ones(aj: Aj) -> None:
    ran = aj("reindex", "--agent", "hal")
    said = " ".join(ran.err.split())
    assert (ran.code, ran.out, ran.err.splitlines()[-1]) == (2, "", "See aj reindex --help")
    assert said.startswith("aj: Invalid value for --agent: no agent is called hal; known are claude-code, ")


@pytest.mark.parametrize(
    ("arguments", "kind"),
    [
        (["search", "since:3x"], "bad_query"),
        (["search", "--bogus"], "usage"),
        (["show", "nosuch"], "no_such_session"),
        (["sessions", "since:3x"], "bad_query"),
        (["config", "get", "nosuch"], "bad_config"),
    ],
)
def test_error_with_json_is_an_object_on_stderr(aj: Aj, arguments: list[str], kind: str) -> None:
    ran = aj(*arguments, "--json")
    assert (ran.code, ran.out) == (2, "")
    assert (set(ran.error), ran.error["kind"]) == ({"kind", "message", "hint"}, kind)
    assert ran.error["message"]


def test_without_a_journal_no_refresh_says_so(tmp_path: Path) -> None:
    aj = Aj(tmp_path)
    said = "aj: there is no journal in ~/.agent-journal/index yet run `aj reindex`"
    for arguments in (["search", "x", "--no-refresh"], ["sessions", "--no-refresh"], ["show", "1"]):
        ran = aj(*arguments)
        assert (ran.code, ran.out, " ".join(ran.err.split())) == (2, "", said)
    assert aj("search", "x", "--no-refresh", "--json").error["kind"] == "no_journal"
    assert list(tmp_path.iterdir()) == []


def test_an_empty_home_is_searched_and_nothing_is_found(tmp_path: Path) -> None:
    ran = Aj(tmp_path)("parser")
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.splitlines() == ["no sessions found; aj agents lists where they are looked for"]


def test_query_that_starts_with_a_dash_is_searched_after_two(aj: Aj) -> None:
    assert aj("search", "--", "--survive").code == 0
    assert aj("--", "survive").code == 0
    assert aj("search", "--", "survive", "-nested").code == 1


def test_name_of_a_command_wins_over_a_search_for_it(aj: Aj) -> None:
    assert aj("agents").lines[0] == "Claude Code  claude-code, claude"
    assert aj("search", "agents").code == 1


def test_version_and_bare_words_that_look_like_none(aj: Aj) -> None:
    version = aj("--version")
    assert (version.code, version.lines[0].split()[0]) == (0, "aj")
    assert aj("--limit", "1", "survive").code == 0


@pytest.mark.parametrize("arguments", [[], ["config"]])
def test_nothing_asked_prints_the_help(aj: Aj, arguments: list[str]) -> None:
    ran = aj(*arguments)
    assert (ran.code, ran.err, ran.lines[0].split()[0]) == (0, "", "Usage:")


@pytest.mark.parametrize("command", [[], *([c] for c in COMMANDS), *(["config", c] for c in SETTINGS)], ids=" ".join)
def test_help_has_an_example_fits_a_terminal_and_loads_nothing_heavy(aj: Aj, command: list[str]) -> None:
    arguments = [sys.executable, "-X", "importtime", "-m", "agent_journal", *command, "--help"]
    ran = subprocess.run(arguments, env=aj.environment, capture_output=True, check=True, text=True)
    loaded = {line.rpartition("|")[2].strip().partition(".")[0] for line in ran.stderr.splitlines()}
    assert loaded & {"tantivy", "sqlite3", "msgspec", "zstandard", "tomlkit", "tomllib", "rich", "hashlib"} == set()
    assert [line for line in ran.stdout.splitlines() if len(line) > 80] == []
    assert "Example:" in ran.stdout or command == ["config"]


def test_a_search_loads_no_more_than_it_needs(aj: Aj) -> None:
    arguments = [sys.executable, "-X", "importtime", "-m", "agent_journal", "search", "--no-refresh", "survive"]
    ran = subprocess.run(arguments, env=aj.environment, capture_output=True, check=True, text=True)
    loaded = {line.rpartition("|")[2].strip() for line in ran.stderr.splitlines() if "|" in line}
    assert loaded & {"tomlkit", "rich", "asyncio", "multiprocessing", "agent_journal.health"} == set()


# --- streams --------------------------------------------------------------------------------------------


def many_hits(home: Path) -> Aj:
    at = {"timestamp": "2025-03-02T09:15:00.000Z"}
    records = [logs.user(f"u{n}", f"needle number {n} " + "hay " * 100, **at) for n in range(300)]
    logs.write(logs.transcript_path(home), *records)
    return Aj(home)


def test_closed_pipe_ends_quietly(tmp_path: Path) -> None:
    aj = many_hits(tmp_path)
    aj("reindex")
    for form in ([], ["--json"], ["--ndjson"]):
        process = aj.start("needle", "--limit", "1000", "--full", *form, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.read(10)
        process.stdout.close()
        assert (process.stderr.read(), process.wait(60)) == (b"", 0)
        process.stderr.close()


def on_a_terminal(aj: Aj, *arguments: str) -> tuple[int, str]:
    """Exit code and all that a person sees."""
    import pty  # absent on Windows

    ours, theirs = pty.openpty()
    process = aj.start(*arguments, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    seen = b""
    while True:
        try:
            piece = os.read(ours, 65536)
        except OSError:  # Linux says so when the other end is closed
            break
        if not piece:
            break
        seen += piece
    os.close(ours)
    return process.wait(60), seen.decode()


@pytest.mark.skipif(os.name == "nt", reason="needs a pseudo-terminal")
def test_colour_only_on_a_terminal_that_wants_it(aj: Aj) -> None:
    wanted = on_a_terminal(aj.having(TERM="xterm"), "survive")
    assert (wanted[0], "\x1b[1;33msurvive\x1b[0m" in wanted[1]) == (0, True)
    for unwanted in (aj.having(TERM="xterm", NO_COLOR="1"), aj.having(TERM="dumb")):
        code, seen = on_a_terminal(unwanted, "survive")
        assert (code, "\x1b" in seen) == (0, False)
    assert "\x1b" not in aj.having(TERM="xterm")("survive").out


@pytest.mark.skipif(os.name == "nt", reason="needs a pseudo-terminal")
def test_progress_is_drawn_on_a_terminal_and_erased(tmp_path: Path) -> None:
    aj = two_sessions(tmp_path / "home").having(TERM="xterm")
    code, seen = on_a_terminal(aj, "reindex")
    drawn, _, rest = seen.rpartition("\r\x1b[K")
    assert (code, "reading  [" in drawn, rest.splitlines()[0]) == (0, True, "\x1b[1mClaude Code\x1b[0m  1 file, 1 read")


def test_interrupt_exits_130(tmp_path: Path) -> None:
    aj = Aj(tmp_path).having(EDITOR=f"{sys.executable} {Path(__file__).with_name('interrupting_editor.py')}")
    ran = aj("config", "edit")
    assert (ran.code, ran.out, ran.err) == (130, "", "aj: interrupted\n")


def test_output_that_the_terminal_cannot_spell_is_no_error(aj: Aj) -> None:
    plain = aj.having(PYTHONUTF8="0", PYTHONIOENCODING="ascii", LC_ALL="C")
    ran = plain("survive")
    assert (ran.code, ran.lines[0]) == (0, " 1  claude-code ? shop ? main ? 2025-03-02 09:15")
    assert json.loads(plain("survive", "--json").out)["matches"][0]["where"] == "assistant"


def test_unexpected_trouble_never_quotes_a_session(tmp_path: Path) -> None:
    aj = two_sessions(tmp_path / "home")
    aj("reindex")
    (aj.home / ".agent-journal" / "index" / "journal.db").write_bytes(b"nested quotes, not a database" * 200)
    ran = aj("survive")
    assert (ran.code, ran.out, "nested" in ran.err, "Traceback" in ran.err) == (2, "", False, False)
