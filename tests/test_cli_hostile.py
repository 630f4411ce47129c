"""Sessions that try to speak to the terminal. Nothing of theirs may reach it but letters."""

from __future__ import annotations

import json
import re
from pathlib import Path

import copilot_logs
import logs
import pytest
from process import Aj, Ran

from agent_journal.render.width import columns

TITLE = "\x1b]0;owned\x07"
LINK = "\x1b]8;;http://evil.example\x1b\\click\x1b]8;;\x1b\\"
CLIPBOARD = "\x1b]52;c;cm0gLXJmIC8=\x07"
RED = "\x1b[31mred\x1b[0m\x1b[2J"
C1 = "\x9b31m\x9d0;owned\x9c\x90q\x9c"
BIDI = "\u202egnp.exe\u202c\u2066x\u2069\u200e\u200f\u061c"
HIDDEN = "\u200b\ufeff\u00ad\U000e0041\U000e007f"
MOVES = "over\rwritten\x08\x08\x07\x00\x7f\v\f\x85\u2028"
EVIL = f"needle {TITLE}{LINK}{CLIPBOARD}{RED}{C1}{BIDI}{HIDDEN}{MOVES} end"
WIDE = "needle " + "長い日本語の文章です" * 30 + " " + "x" * 300

# What a terminal acts on, reorders by, or does not show. Line feeds end our own lines.
FORBIDDEN = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\u00ad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff\U000e0000-\U000e0fff]"
)
AT = {"timestamp": "2025-03-02T09:15:00.000Z"}


@pytest.fixture(scope="module")
def aj(tmp_path_factory: pytest.TempPathFactory) -> Aj:
    """Evil in every field that is ever shown: texts, titles, folders, branches, models, tools, file names."""
    home = tmp_path_factory.mktemp("hostile") / "home"
    cwd = f"/home/ana/{EVIL}".replace("\x00", "")
    common = AT | {"cwd": cwd, "gitBranch": EVIL, "slug": EVIL, "version": EVIL}
    call = logs.tool_use("t1", EVIL, command=EVIL, file_path=EVIL, **{EVIL: [EVIL]})
    logs.write(
        logs.transcript_path(home),
        {"type": "custom-title", "customTitle": EVIL, "sessionId": logs.SESSION},
        {"type": EVIL, "uuid": "x"},
        logs.user("u1", EVIL, **common),
        logs.assistant("a1", logs.thinking(EVIL), logs.text(EVIL), call, message={"model": EVIL}, **common),
        logs.user("r1", [logs.tool_result("t1", EVIL, is_error=True)], **common),
        logs.user("u2", WIDE, **common),
        logs.assistant("a2", logs.text(WIDE), logs.tool_use("t2", "Bash", command=WIDE), **common),
        logs.user("r2", [logs.tool_result("t2", f"{WIDE}\n\t{WIDE}")], **common),
    )
    bad = home / ".claude/projects/-p" / "evil\x1b]0;owned\x07\x9b31m\u202e.jsonl"
    bad.parent.mkdir(parents=True)
    bad.write_bytes(b"{broken \x1b[31m\n" + logs.lines([logs.user("u9", EVIL, **common)]) + b"not json \x1b]0;x\x07\n")
    log = (
        copilot_logs.Events().start(context={"cwd": cwd, "branch": EVIL}).user(EVIL).asks("c1", EVIL, {"command": EVIL})
    )
    log.done("c1", EVIL)
    log.write(home / ".copilot")
    return Aj(home)


COMMANDS = [
    ["reindex"],
    ["search", "needle"],
    ["search", "needle", "--full"],
    ["search", "needle", "--in", "tool_input"],
    ["search", "needle", "--in", "title"],
    ["search", EVIL.replace("\x00", "")],
    ["search", "needle", "--branch", "nosuch\x1b[31m"],
    ["search", 'bad"\x1b[31m', "since:\x1b[31m"],
    ["show", "1"],
    ["show", logs.SESSION, "--full", "--thinking"],
    ["show", "\x1b[31mnosuch"],
    ["show", f"{logs.SESSION}:2"],
    ["sessions"],
    ["agents"],
    ["doctor"],
    ["reindex", "--full"],
    ["reindex", "--agent", "\x1b[31m"],
    ["config", "get", "\x1b[31m"],
    ["config", "set", "index.exclude", "\x1b[31mx"],
    ["config", "get", "index.exclude"],
    ["config", "show"],
    ["config", "set", "search.max_results", "\x1b[31m"],
    ["\x1b[31m", "--\x1b[31m"],
]


def test_no_command_passes_on_a_control_sequence(aj: Aj) -> None:
    for arguments in COMMANDS:
        ran = aj(*arguments)
        found = FORBIDDEN.findall(ran.out) + FORBIDDEN.findall(ran.err)
        assert (arguments, found) == (arguments, [])
        assert "Traceback" not in ran.err
        assert "unexpected" not in ran.err


def test_journal_of_hostile_sessions_is_whole(aj: Aj) -> None:
    aj("reindex")
    answer = aj("search", "needle", "--json", "--full").object
    assert answer["total"]["messages"] >= 5
    assert any("\x1b]52;c;" in m["message"]["text"] for m in answer["matches"]), "JSON escapes, it does not lose"


@pytest.mark.parametrize("form", [["--json"], ["--ndjson"]])
def test_json_holds_no_raw_control_character(aj: Aj, form: list[str]) -> None:
    ran = aj("search", "needle", *form)
    raw = re.findall("[\x00-\x09\x0b-\x1f\x7f-\x9f]", ran.out + ran.err)
    assert (ran.code, raw) == (0, [])
    assert all(json.loads(line) for line in ran.lines)


def too_wide(ran: Ran, width: int) -> list[str]:
    """But for what is meant for pasting: commands, ids, paths."""
    pasted = re.compile(r"^(id|folder|file|resume) |claude --resume|copilot --resume|^ +(! )?~?/|^ +[^ ]*\.jsonl")
    return [line for line in ran.lines if columns(line) > width and not pasted.search(line)]


@pytest.mark.parametrize("width", [40, 100])
def test_no_line_is_wider_than_the_terminal(aj: Aj, width: int) -> None:
    narrow = aj.having(COLUMNS=str(width))
    for arguments in (
        ["search", "needle"],
        ["search", "needle", "--full"],
        ["show", logs.SESSION],
        ["show", logs.SESSION, "--full", "--thinking"],
        ["sessions"],
        ["doctor"],
        ["reindex"],
    ):
        ran = narrow(*arguments)
        assert (arguments, too_wide(ran, width)) == (arguments, [])
        said = [line for line in ran.err.splitlines() if columns(line) > width and "--cursor" not in line]
        assert (arguments, said) == (arguments, [])


def test_paths_of_real_files_are_never_opened_for_writing(tmp_path: Path) -> None:
    path = logs.write(logs.transcript_path(tmp_path), logs.user("u1", "needle", **AT))
    path.chmod(0o400)
    before = path.stat()
    aj = Aj(tmp_path)
    aj("needle")
    aj("reindex", "--full")
    after = path.stat()
    assert (after.st_mtime_ns, after.st_ctime_ns) == (before.st_mtime_ns, before.st_ctime_ns)
