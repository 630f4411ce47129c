"""reindex, agents and doctor through a real process, with everything they print."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import logs
import pytest
from process import CLAUDE, Aj, lines, two_sessions

from agent_journal.index import model

CLAUDE_FILE = f"~/.claude/projects/-home-ana-shop/{CLAUDE}.jsonl"
OWN = model.bundled()
MODEL = OWN.card.name if OWN else "hash"


@pytest.fixture(scope="module")
def aj(tmp_path_factory: pytest.TempPathFactory) -> Aj:
    found = two_sessions(tmp_path_factory.mktemp("reports") / "home")
    assert found("reindex").code == 0
    return found


def test_reindex_says_what_is_new_then_that_nothing_is(tmp_path: Path) -> None:
    aj = two_sessions(tmp_path / "home")
    first, second = aj("reindex"), aj("reindex")
    assert lines(first.out) == [
        "Claude Code  1 file, 1 read",
        "Copilot CLI  1 file, 1 read",
        "2 new sessions · 8 new messages · N s",
    ]
    assert lines(second.out)[-1] == "nothing new · N s"
    report = aj("reindex", "--agent", "copilot", "--full", "--json").object
    assert [(a["agent"], a["read"]) for a in report["agents"]] == [("copilot-cli", 1)]
    assert (first.code, second.code, first.err + second.err) == (0, 0, "")


def test_agents_say_where_they_are_looked_for(aj: Aj) -> None:
    ran = aj("agents")
    assert (ran.code, ran.err) == (0, "")
    assert ran.lines[:7] == [
        "Claude Code  claude-code, claude",
        "  ~/.claude",
        "  ~/.config/claude  (not there)",
        "  1 session, 6 messages, newest 2025-03-02 09:15",
        "  elsewhere: aj config set storage.sources.claude_code PATH",
        "             or AJ_CLAUDE_PATH=PATH, for there alone",
        "",
    ]
    listed = {agent["agent"]: agent for agent in aj("agents", "--json").object["agents"]}
    assert listed["copilot-cli"] == {
        "agent": "copilot-cli",
        "name": "Copilot CLI",
        "aliases": ["copilot"],
        "roots": [{"path": "~/.copilot", "exists": True}, {"path": "~/.copilot-cli", "exists": False}],
        "sessions": 1,
        "messages": 2,
        "newest": "2025-04-01T08:00:03.000Z",
        "config_key": "storage.sources.copilot_cli",
        "environment": "AJ_COPILOT_PATH",
    }


def sections(out: str) -> list[list[str]]:
    """Without that of the agents that left nothing here: there are more of them with every version."""
    found = [part.split("\n") for part in "\n".join(lines(out)).split("\n\n")]
    return [section for section in found if section[0] != "Nothing found of"]


def test_doctor_of_a_sound_journal(aj: Aj) -> None:
    ran = aj("doctor")
    assert (ran.code, ran.err) == (0, "")
    assert [line for section in sections(ran.out) for line in section] == [
        "Claude Code",
        "  ~/.claude",
        "  ~/.config/claude  (not there)",
        "  1 file found, 1 indexed",
        "  1 session, 6 messages, newest 2025-03-02 09:15",
        "Copilot CLI",
        "  ~/.copilot",
        "  ~/.copilot-cli  (not there)",
        "  1 file found, 1 indexed",
        "  1 session, 2 messages, newest 2025-04-01 08:00",
        "Journal",
        "  ~/.agent-journal/index",
        "  2 sessions, 8 messages · N kB, word index N kB",
        "  ok journal.db: whole",
        "  ok word index: 8 distinct messages",
        f"  ok vectors: nothing is embedded by {MODEL} yet: aj",
        "     reindex",
    ]


# One message of the two sessions has no words to embed: it only calls a tool.
def test_doctor_counts_what_is_embedded(tmp_path: Path) -> None:
    aj = replace(two_sessions(tmp_path / "home"), vectors=True)
    assert aj("reindex").code == 0
    ran = aj("doctor")
    assert (ran.code, ran.err) == (0, "")
    assert sections(ran.out)[-1][2:] == [
        "  2 sessions, 8 messages · N kB, word index N kB, vectors N kB",
        "  ok journal.db: whole",
        "  ok word index: 8 distinct messages",
        f"  ok vectors: 10 texts of 8 messages, {MODEL}",
    ]
    found = aj("doctor", "--json").object
    assert (found["embedded"], found["checks"][-1]) == (1.0, ["vectors", True, f"10 texts of 8 messages, {MODEL}"])


def test_doctor_says_how_many_messages_wait_for_their_vectors(tmp_path: Path) -> None:
    aj = replace(two_sessions(tmp_path / "home"), vectors=True)
    aj("reindex")
    path = aj.home / ".claude/projects/-home-ana-shop" / "later.jsonl"
    logs.write(path, logs.user("u9", "And the till?", sessionId="later"))
    aj("search", "till")
    ran = aj("doctor")
    said = " ".join("".join(sections(ran.out)[-1][-2:]).split())
    assert (ran.code, said) == (0, f"ok vectors: 10 texts of 8 messages, {MODEL}; 1 more: aj reindex")


def test_doctor_finds_a_damaged_vector_and_a_full_reindex_makes_it_anew(tmp_path: Path) -> None:
    aj = replace(two_sessions(tmp_path / "home"), vectors=True)
    aj("reindex")
    (file,) = (aj.home / ".agent-journal" / "index" / "vectors").glob("*/vectors.bin")
    content = bytearray(file.read_bytes())
    content[-100] ^= 1
    file.write_bytes(content)
    ran = aj("doctor")
    assert (ran.code, sections(ran.out)[-1][-2:]) == (
        1,
        ["  !  vectors: the vectors are damaged: their checksum is wrong: aj reindex", "     --full makes them anew"],
    )
    assert aj("reindex").code == 0
    assert aj("doctor").code == 1
    assert aj("reindex", "--full").code == 0
    assert aj("doctor").code == 0


def test_doctor_names_a_model_that_is_missing(tmp_path: Path) -> None:
    aj = replace(two_sessions(tmp_path / "home"), vectors=True)
    aj("reindex")
    assert aj("config", "set", "index.vector.model", "absent").code == 0
    ran = aj("doctor")
    assert ran.code == 1
    assert sections(ran.out)[-1][-1].startswith("  !  vectors: no model is called absent")


def test_doctor_names_a_bad_line_and_a_source_that_is_gone(tmp_path: Path) -> None:
    aj = two_sessions(tmp_path / "home")
    path = aj.home / ".claude/projects/-home-ana-shop" / f"{CLAUDE}.jsonl"
    path.write_bytes(path.read_bytes() + b"{broken\n")
    aj("reindex")
    shutil.rmtree(aj.home / ".copilot")
    aj("reindex")
    ran = aj("doctor")
    assert ran.lines[3] == "  1 file found, 1 indexed, 1 bad line"
    assert [line for line in ran.lines if line.startswith("  !")] == [f"  ! {CLAUDE_FILE}:9:"]
    assert "  0 files found, 0 indexed, 1 gone (kept in the journal)" in ran.lines
    assert aj("show", "0d3c9f10").lines[2] == "2 messages · 0 tool calls · 1s · source gone"
