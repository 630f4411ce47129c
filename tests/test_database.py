"""Agents' databases while their agents write them."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import cursor_cli_logs
import cursor_ide_logs
import pytest

from agent_journal.connectors import cursor_states, cursor_stores, database
from agent_journal.errors import UnreadableSource


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    """An agent that keeps its database open."""
    db = sqlite3.connect(tmp_path / "store.db", isolation_level=None)
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("CREATE TABLE said (text TEXT)")
    yield db
    db.close()


def say(agent: sqlite3.Connection, count: int) -> None:
    agent.execute("BEGIN")
    agent.executemany("INSERT INTO said VALUES (?)", [("x" * 500,)] * count)
    agent.execute("COMMIT")


def read(path: Path) -> int:
    with database.reading(path) as db:
        assert db.execute("SELECT * FROM pragma_integrity_check").fetchall() == [("ok",)]
        return int(db.execute("SELECT count(*) FROM said WHERE length(text) = 500").fetchone()[0])


def checkpointing(monkeypatch: pytest.MonkeyPatch, agent: sqlite3.Connection, times: int) -> None:
    """So often the agent moves its log into the database, and goes on in a new one, between two copies."""
    copy, left = shutil.copyfile, [times]

    def copyfile(source: Path, target: Path) -> None:
        copy(source, target)
        if source.name == "store.db" and left[0]:
            left[0] -= 1
            say(agent, 400)
            agent.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            say(agent, 1)

    monkeypatch.setattr(shutil, "copyfile", copyfile)


def test_a_log_that_is_moved_into_the_database_between_the_copies_is_copied_again(
    tmp_path: Path, agent: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    say(agent, 10)
    checkpointing(monkeypatch, agent, times=1)
    assert read(tmp_path / "store.db") == 411


def test_a_database_that_never_rests_is_read_another_time(
    tmp_path: Path, agent: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    say(agent, 10)
    checkpointing(monkeypatch, agent, times=100)
    with pytest.raises(UnreadableSource, match="writing it all the time"):
        read(tmp_path / "store.db")


@pytest.mark.parametrize("lock", ["BEGIN IMMEDIATE", "BEGIN EXCLUSIVE", "PRAGMA locking_mode = EXCLUSIVE"])
def test_a_writer_that_holds_the_database_is_not_waited_for(
    tmp_path: Path, agent: sqlite3.Connection, lock: str
) -> None:
    say(agent, 10)
    agent.execute(lock)
    agent.execute("INSERT INTO said VALUES ('not yet')")
    assert read(tmp_path / "store.db") == 10


HIDDEN = "\0" + json.dumps({"role": "user", "content": "x" * 5000, "type": 1, "text": "x" * 5000})


def test_a_text_of_cursors_that_hides_its_length_behind_a_nul_is_too_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (cursor_states, cursor_stores):
        monkeypatch.setattr(module, "MAX_LINE_BYTES", 4000)
    chat = cursor_cli_logs.Chat(tmp_path / ".cursor").say(cursor_cli_logs.prompt("why?"))
    chat.db.execute("UPDATE blobs SET data = ? WHERE CAST(data AS TEXT) LIKE '{%'", (HIDDEN,))
    chat.close()
    state = cursor_ide_logs.State(tmp_path / "User")
    state.composer(cursor_ide_logs.bubble("b1", 1, "why?")).put("bubbleId:" + cursor_ide_logs.COMPOSER + ":b1", HIDDEN)
    state.close()
    for reading in (cursor_cli_logs.read(tmp_path / ".cursor"), cursor_ide_logs.read(tmp_path / "User")):
        assert (reading.transcripts, ["longer than" in reason for _, reason in reading.bad_lines]) == ([], [True])


def test_a_value_that_hides_its_length_behind_a_nul_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "MAX_VALUE_KEPT", 4000)
    with sqlite3.connect(":memory:") as db:
        db.execute("CREATE TABLE said (text)")
        db.executemany("INSERT INTO said VALUES (?)", [(HIDDEN,), (b"x" * 4001,), (b"x" * 4000,), (7,)])
        assert [row["text"] for row in database.rows(db, "said", ("text",))] == [None, None, b"x" * 4000, 7]
