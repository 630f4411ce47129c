"""What every connector must do, whatever its agent: one contract, run for each row of the registry."""

from __future__ import annotations

import contextlib
import hashlib
import math
import random
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import aider_logs
import codex_logs
import copilot_logs
import cursor_cli_logs
import cursor_ide_logs
import gemini_logs
import logs
import opencode_logs
import pytest
import qwen_logs
import specstory_logs
from hypothesis import given, settings
from hypothesis import strategies as st
from journals import Home, contents, ids
from junk import RELAXED

from agent_journal.connectors import jsonl
from agent_journal.connectors.base import Connector, Reading, Source
from agent_journal.connectors.registry import BY_AGENT, CONNECTORS
from agent_journal.errors import UnreadableSource
from agent_journal.session import ToolCall

HOMES: dict[str, Callable[[Path], None]] = {
    "claude-code": logs.home,
    "copilot-cli": copilot_logs.home,
    "codex": codex_logs.home,
    "gemini": gemini_logs.home,
    "qwen": qwen_logs.home,
    "cursor-cli": cursor_cli_logs.home,
    "cursor-ide": cursor_ide_logs.home,
    "aider": aider_logs.home,
    "opencode": opencode_logs.home,
    "kilo": partial(opencode_logs.home, program="kilo"),
    "specstory": specstory_logs.home,
}
every_agent = pytest.mark.parametrize("agent", [c.agent for c in CONNECTORS])
LINES = (".jsonl", ".md", ".txt")
JUNK = [
    b"",
    b"\0" * 300,
    b"{",
    b"[]\n",
    b"null\n" * 3,
    b"\xff\xfe\xfd" * 50,
    b"SQLite format 3\0" + b"x" * 4096,
    b"# \n" * 9,
]


def found(connector: Connector, home: Path) -> list[Source]:
    return [source for root in connector.roots({}, home) for source in connector.discover(root).sources]


def read(connector: Connector, home: Path) -> list[Reading]:
    readings = []
    for source in found(connector, home):
        with contextlib.suppress(UnreadableSource):
            readings.append(connector.parse(source))
    return readings


def files_of(home: Path) -> list[Path]:
    return sorted(path for path in home.rglob("*") if path.is_file())


def state(home: Path) -> dict[str, tuple[str, int]]:
    return {
        str(path): (hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "", path.stat().st_mtime_ns)
        for path in sorted(home.rglob("*"))
        if ".agent-journal" not in path.parts
    }


def test_the_registry_imports_no_reader_of_files() -> None:
    """A search imports it, and most searches read nothing: reading costs three times as long to import as finding."""
    code = "import sys, agent_journal.connectors.registry; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    own = {name.removeprefix("agent_journal.connectors.") for name in loaded if "connectors." in name}
    finding = {type(c).__module__.rpartition(".")[2] for c in CONNECTORS} | {"base", "registry", "projects"}
    assert own == finding | {"claude_files", "copilot_files", "cursor_files", "google_files"}
    assert {"zstandard", "sqlite3"}.isdisjoint(loaded)


@every_agent
def test_a_source_looked_at_by_its_path_is_the_one_found_from_its_root(agent: str, tmp_path: Path) -> None:
    HOMES[agent](tmp_path)
    if agent == "specstory":
        specstory_logs.release().write(tmp_path / "projects" / "shop", "2026-01-16_16-48-38Z.md")
        specstory_logs.release().write(tmp_path / "projects" / "shop", "2026-01-16_16-48-38Z-release.md")
    for source in found(BY_AGENT[agent], tmp_path):
        assert BY_AGENT[agent].discover(source.path).sources == [source]


@every_agent
def test_every_call_of_a_message_can_be_told_from_the_others(agent: str, tmp_path: Path) -> None:
    HOMES[agent](tmp_path)
    for message in (m for reading in read(BY_AGENT[agent], tmp_path) for t in reading.transcripts for m in t.messages):
        ids = [block.id for block in message.blocks if isinstance(block, ToolCall)]
        assert "" not in ids
        assert len(set(ids)) == len(ids)


@every_agent
def test_every_connector_has_a_home_to_be_tested_on(agent: str, tmp_path: Path) -> None:
    HOMES[agent](tmp_path)
    transcripts = [t for reading in read(BY_AGENT[agent], tmp_path) for t in reading.transcripts]
    assert len({t.session.key for t in transcripts}) >= 2
    assert all(t.session.agent == agent and t.session.key.startswith(f"{agent}:") for t in transcripts)
    assert any(m.is_human for t in transcripts for m in t.messages)


def test_every_agent_that_can_resume_is_given_its_command(tmp_path: Path) -> None:
    for write in HOMES.values():
        write(tmp_path)
    Home(tmp_path).reindex()
    with Home(tmp_path).journal() as journal:
        oldest = {c.agent: journal.sessions(f"agent:{c.agent} -is:subagent").sessions[-1] for c in CONNECTORS}
        commands = {agent: journal.resume(session) for agent, session in oldest.items()}
    assert {agent: c and (" ".join(c.argv), c.cwd) for agent, c in commands.items()} == {
        "claude-code": ("claude --resume 5b0d2a6e-7a51-4a1e-9a0b-0f6f5c1d2e3f", "/home/ana/shop"),
        "copilot-cli": ("copilot --resume=5d3c6b21-1111-4222-8333-444455556666", "/home/ana/shop"),
        "codex": ("codex resume 019df1c9-6180-7000-8000-000000000001", "/home/ana/shop"),
        "gemini": ("gemini --resume 8d2e6b63-1111-4222-8333-444455556666", "/home/ana/shop"),
        "qwen": ("qwen --resume 4a1d2f3e-1111-4222-8333-444455556666", "/home/ana/shop"),
        "cursor-cli": ("cursor-agent --resume 11111111-2222-4333-8444-555555555555", "/home/me/app"),
        "cursor-ide": None,
        "aider": ("aider --restore-chat-history", str(tmp_path / "projects" / "shop")),
        "opencode": ("opencode --session ses_2zz", "/home/me/app"),
        "kilo": ("kilo --session ses_2zz", "/home/me/app"),
        "specstory": (
            "claude --resume e317d7b9-3289-4345-9c97-0bb1e3d998c8",
            str(tmp_path / "projects" / "shop"),
        ),
    }


@every_agent
def test_a_root_that_is_missing_or_empty_or_a_file_holds_nothing(agent: str, tmp_path: Path) -> None:
    connector = BY_AGENT[agent]
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_bytes(b"junk")
    for name in ("missing", "empty", "file"):
        home = tmp_path / name
        assert [t for r in read(connector, home) for t in r.transcripts] == []
        for root in connector.roots({}, home):
            assert connector.discover(root).sources == []


@every_agent
@pytest.mark.parametrize("junk", JUNK, ids=range(len(JUNK)))
def test_any_file_may_be_junk(agent: str, junk: bytes, tmp_path: Path) -> None:
    HOMES[agent](tmp_path)
    for path in files_of(tmp_path):
        path.write_bytes(junk)
    transcripts = [t for reading in read(BY_AGENT[agent], tmp_path) for t in reading.transcripts]
    assert [m.text for t in transcripts for m in t.messages if m.text] == []


@every_agent
def test_damage_anywhere_raises_nothing_but_unreadable_source(agent: str, tmp_path: Path) -> None:
    """Bytes cut off, overwritten, doubled or left out; `read` lets only UnreadableSource pass."""
    HOMES[agent](tmp_path)
    files = {path: path.read_bytes() for path in files_of(tmp_path)}

    @settings(RELAXED, max_examples=150)
    @given(st.integers(0, 2**32))
    def damaged(seed: int) -> None:
        chance = random.Random(seed)
        for path, whole in files.items():
            low, high = sorted(chance.randrange(len(whole) + 1) for _ in range(2))
            middle = chance.choice([b"", bytes(chance.randbytes(8)), whole[low:high] * 2, b"\0" * 20, b'{"type":[]}'])
            path.write_bytes(whole[:low] + middle + (whole[high:] if chance.random() < 0.8 else b""))
        read(BY_AGENT[agent], tmp_path)

    damaged()


@every_agent
def test_a_second_run_reads_nothing_and_the_files_are_as_they_were(agent: str, tmp_path: Path) -> None:
    HOMES[agent](tmp_path)
    before, home = state(tmp_path), Home(tmp_path)
    first = home.reindex()
    with home.journal() as journal:
        stored = contents(journal)
    second = home.reindex()
    with home.journal() as journal:
        assert contents(journal) == stored
    again = home.reindex(full=True)
    with home.journal() as journal:
        assert contents(journal) == stored
    assert first.sessions_new >= 2
    assert (second.sources_read, second.messages_new, again.messages_new, again.messages_changed) == (0, 0, 0, 0)
    assert state(tmp_path) == before


@every_agent
def test_a_line_of_any_length_costs_no_other_line(agent: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jsonl, "MAX_LINE_BYTES", 2**18)
    HOMES[agent](tmp_path)
    before = [t.messages for reading in read(BY_AGENT[agent], tmp_path) for t in reading.transcripts]
    lengthened = [path for path in files_of(tmp_path) if path.suffix in LINES]
    for path in lengthened:
        with path.open("ab") as file:
            file.write(b"x" * 2**19 + b"\n")
    readings = read(BY_AGENT[agent], tmp_path)
    assert [t.messages for reading in readings for t in reading.transcripts] == before
    assert sum(reading.bad_line_count for reading in readings) == len(lengthened)


def cut_to(path: Path, whole: bytes, share: float) -> None:
    """The beginning of a log, or a database without its last rows; a document is written whole or not at all."""
    if path.suffix in LINES:
        lines = whole.splitlines(keepends=True)
        whole = b"".join(lines[: math.ceil(len(lines) * share)])
    path.write_bytes(whole)
    if whole.startswith(b"SQLite format 3"):
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as db:
            for (table,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
                (rows,) = db.execute(f'SELECT max(rowid) FROM "{table}"').fetchone()
                db.execute(f'DELETE FROM "{table}" WHERE rowid > ?', (math.ceil((rows or 0) * share),))


@every_agent
def test_sources_that_grow_equal_a_fresh_index_and_messages_keep_their_ids(agent: str, tmp_path: Path) -> None:
    home = tmp_path / "home"
    HOMES[agent](home)
    whole = {path: path.read_bytes() for path in files_of(home)}
    grown, before = Home(home, {"AJ_HOME": str(tmp_path / "grown")}), dict[tuple[str, int], int]()
    for share in (0.4, 0.7, 1.0):
        for path, data in whole.items():
            cut_to(path, data, share)
        grown.reindex()
        now = ids(grown.stored())
        assert {place: now.get(place) for place in before} == before
        before = now
    fresh = Home(home, {"AJ_HOME": str(tmp_path / "fresh")})
    fresh.reindex()
    with grown.journal() as one, fresh.journal() as other:
        assert contents(one) == contents(other)


@every_agent
def test_a_source_that_shrinks_or_turns_to_junk_loses_nothing(agent: str, tmp_path: Path) -> None:
    HOMES[agent](tmp_path)
    home = Home(tmp_path)
    home.reindex()
    with home.journal() as journal:
        before = journal.store.counts()
    for path in files_of(tmp_path):
        if ".agent-journal" not in path.parts:
            path.write_bytes(path.read_bytes()[: path.stat().st_size // 3])
    home.reindex()
    with home.journal() as journal:
        sessions, messages = journal.store.counts()
    assert sessions == before[0]
    assert messages >= before[1]  # half a message, cut where it has no id yet, is kept beside the whole one


@every_agent
def test_a_hostile_agent_costs_no_other_agent_its_results(agent: str, tmp_path: Path) -> None:
    for write in HOMES.values():
        write(tmp_path)
    for path in {file.path for source in found(BY_AGENT[agent], tmp_path) for file in source.files}:
        path.write_bytes(b"\0junk" * 1000)
    report = Home(tmp_path).reindex()
    with Home(tmp_path).journal() as journal:
        sessions = {c.agent: journal.store.agent_counts(c.agent)[0] for c in CONNECTORS}
    assert sessions[agent] == 0
    assert all(sessions[other] >= 2 for other in HOMES if other != agent)
    assert all(a.sources > 0 for a in report.agents)
