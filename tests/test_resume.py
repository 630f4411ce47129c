"""`aj resume`: this process becomes the agent, in the session's folder."""

from __future__ import annotations

import json
import stat
import subprocess
from pathlib import Path

import pytest
from logs import text, transcript_path, user, write
from process import Aj

SESSION = "9f8e7d6c-1111-4222-8333-444455556666"


@pytest.fixture
def aj(tmp_path: Path) -> Aj:
    folder = tmp_path / "shop"
    folder.mkdir()
    write(transcript_path(tmp_path, SESSION), user("u1", [text("fix the till")], cwd=str(folder), sessionId=SESSION))
    programs = tmp_path / "bin"
    programs.mkdir()
    claude = programs / "claude"
    claude.write_text('#!/bin/sh\necho "$PWD: claude $*"; exit 7\n')
    claude.chmod(claude.stat().st_mode | stat.S_IXUSR)
    aj = Aj(tmp_path, {"PATH": f"{programs}:/usr/bin:/bin"})
    aj("reindex")
    return aj


def test_the_agent_takes_over_in_the_sessions_folder_and_its_exit_code_is_ours(aj: Aj) -> None:
    ran = aj("resume", "9f8e7d")
    assert (ran.code, ran.out) == (7, f"~/shop: claude --resume {SESSION}\n")


def test_a_hit_of_the_last_search_can_be_resumed(aj: Aj) -> None:
    aj("search", "till")
    assert aj("resume", "1").code == 7


def test_print_shows_the_command_and_runs_nothing(aj: Aj) -> None:
    ran = aj("resume", "9f8e7d", "--print")
    assert (ran.code, ran.out) == (0, f"cd ~/shop && claude --resume {SESSION}\n")


@pytest.mark.parametrize(
    "name", ["a  b", "line\nend", "\x1b[31mred", "esc\x1b", "$(touch x)`touch x`'\"\x1b", "\u202eltr\u00a0\\t"]
)
@pytest.mark.parametrize("command", [["resume", SESSION[:6], "--print"], ["search", "till"], ["show", SESSION[:6]]])
def test_the_command_leads_a_shell_to_the_sessions_folder_whatever_its_name(
    aj: Aj, name: str, command: list[str]
) -> None:
    """Cleaned for the terminal, the command named another folder, and an escape at its end took the quote away."""
    folder = aj.home / name
    folder.mkdir()
    write(transcript_path(aj.home, SESSION), user("u1", [text("fix the till")], cwd=str(folder), sessionId=SESSION))
    ran = aj(*command) if command[0] == "search" else (aj("reindex"), aj(*command))[1]
    line = next(line for line in ran.out.splitlines() if "claude --resume" in line)
    pasted = line[line.index("cd ") :].replace("~", str(aj.home), 1)
    done = subprocess.run(
        ["bash", "-c", f'claude() {{ printf %s "$PWD"; }}; {pasted}'], capture_output=True, text=True, check=True
    )
    assert (done.stdout, pasted.isprintable() or "\u00a0" in pasted) == (str(folder), True)


def test_a_folder_that_is_gone_is_said(aj: Aj) -> None:
    (aj.home / "shop").rmdir()
    ran = aj("resume", "9f8e7d")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.split()[:8] == "aj: the session's folder is gone: ~/shop make".split()


def test_a_folder_that_is_not_known_is_said(aj: Aj) -> None:
    """Gemini's chats lie below a hash of their folder, and it finds them from there only."""
    chat = aj.home / ".gemini" / "tmp" / ("0f" * 32) / "chats" / "session-2026-05-28T10-00-1a2b3c4d.json"
    chat.parent.mkdir(parents=True)
    said = {"id": "m1", "timestamp": "2026-05-28T10:00:00.000Z", "type": "user", "content": "mend the cart"}
    chat.write_text(json.dumps({"sessionId": "1a2b3c4d-1111-4222-8333-444455556666", "messages": [said]}))
    aj("reindex")
    ran = aj("resume", "1a2b3c4d", "--print")
    assert (ran.code, ran.out) == (0, "gemini --resume 1a2b3c4d-1111-4222-8333-444455556666\n")
    assert ran.err.startswith("its folder is not known: ")
    assert aj("resume", "9f8e7d", "--print").err == ""


def test_a_program_that_is_missing_is_said(aj: Aj) -> None:
    (aj.home / "bin" / "claude").unlink()
    ran = aj("resume", "9f8e7d")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("aj: claude is not installed, or not on the PATH\n")


def test_a_session_of_another_home_is_not_looked_for_in_this_one(aj: Aj, tmp_path: Path) -> None:
    """The agent would say that it knows no such session, or worse, begin a new one."""
    (tmp_path / ".agent-journal" / "config.toml").write_text(f'[homes]\nlaptop = "{tmp_path / "laptop"}"\n')
    other = SESSION.replace("9f8e", "1a2b")
    path = transcript_path(tmp_path / "laptop", other)
    write(path, user("u9", [text("fix the lid")], cwd=str(tmp_path / "shop"), sessionId=other))
    aj("reindex")
    ran = aj("resume", "1a2b7d")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == "aj: the session is of the home laptop\n`aj resume --print` shows the command to run there\n"
    assert aj("resume", "1a2b7d", "--print").out == f"cd ~/shop && claude --resume {other}\n"


@pytest.mark.parametrize(
    ("file", "prompt"),
    [
        (".claude/history.jsonl", {"sessionId": "1a2b-3c4d", "display": "paint it", "timestamp": 1772442900000}),
        (".codex/history.jsonl", {"session_id": "1a2b-3c4d", "text": "paint it", "ts": 1772442900}),
    ],
)
def test_prompts_whose_session_is_deleted_cannot_be_resumed(aj: Aj, file: str, prompt: dict[str, object]) -> None:
    (aj.home / file).parent.joinpath("sessions").mkdir(parents=True)
    (aj.home / file).write_text(json.dumps(prompt) + "\n")
    aj("reindex")
    ran = aj("resume", "1a2b-3c4d", "--print")
    assert (ran.code, ran.out) == (2, "")


@pytest.mark.parametrize(("folder", "shown"), [("-", "./-"), ("-P", "./-P"), ("-x; id", "'./-x; id'")])
def test_a_folder_that_begins_with_a_dash_is_no_option(aj: Aj, folder: str, shown: str) -> None:
    write(transcript_path(aj.home, SESSION), user("u1", [text("fix the till")], cwd=folder, sessionId=SESSION))
    aj("reindex")
    assert aj("resume", "9f8e7d", "--print").out == f"cd {shown} && claude --resume {SESSION}\n"
