"""Databases of many sessions: what changed is read and nothing else, and the journal is as if all of it had been."""

from __future__ import annotations

import json
import shutil
import sqlite3
import time
import tracemalloc
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from journals import Home, contents, ids
from junk import RELAXED
from opencode_logs import CHILD, OTHER, SESSION, START, assistant, database, info, insert, tool, user
from shared_databases import changed, health, read_again

from agent_journal.connectors.opencode import OpenCode
from agent_journal.errors import UnreadableSource
from agent_journal.index import sync

BIRDS = ("heron", "stork", "crane")


def place(home: Home) -> Path:
    return home.path / ".local" / "share" / "opencode"


def ses(bird: str) -> str:
    return f"ses_{bird}"


def said(bird: str) -> list[dict[str, Any]]:
    return [user(0, f"Tell me of the {bird}"), assistant(1, {"type": "text", "text": f"A {bird} it is"})]


@pytest.fixture
def birds(home: Home) -> Home:
    """Three sessions of one database, indexed."""
    database(place(home), *((info(ses(bird)), said(bird)) for bird in BIRDS))
    home.reindex()
    return home


def file(home: Home) -> Path:
    return place(home) / "opencode.db"


def misprint(home: Home) -> None:
    """Words of the same length in all sessions, so that none tells it: whatever is read again has them."""
    with changed(file(home)) as db:
        db.execute("UPDATE part SET data = replace(data, 'Tell me', 'Told me')")


def add(home: Home, bird: str, number: int, text: str) -> None:
    turn = user(number, text)
    with changed(file(home)) as db:
        name, row = f"{ses(bird)}{turn['info'].pop('id')}", turn["info"]
        db.execute(
            "INSERT INTO message(id, session_id, time_created, data) VALUES (?,?,?,?)",
            (name, ses(bird), row["time"]["created"], json.dumps(row)),
        )
        db.execute(
            "INSERT INTO part(id, message_id, session_id, data) VALUES (?,?,?,?)",
            (f"{name}p", name, ses(bird), json.dumps(turn["parts"][0])),
        )


def assert_like_a_fresh_one(home: Home, folder: Path) -> None:
    fresh = Home(home.path, {"AJ_HOME": str(folder)})
    fresh.reindex()
    with home.journal() as one, fresh.journal() as other:
        assert contents(one) == contents(other)


# --- what is read ----------------------------------------------------------------------------------------


def test_only_the_session_that_changed_is_read_again(birds: Home) -> None:
    misprint(birds)
    add(birds, "stork", 2, "And its chicks?")
    report = birds.reindex()
    assert (report.sources_read, report.sessions_changed, report.messages_new, report.messages_changed) == (1, 1, 1, 1)
    assert read_again(birds) == ["ses_stork"]
    assert birds.reindex().sources_read == 0


@pytest.mark.parametrize("how", ["full", "another parser"])
def test_all_of_it_is_read_again_where_it_would_be_read_otherwise(
    birds: Home, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    misprint(birds)
    birds.reindex()
    if how == "another parser":
        monkeypatch.setattr(OpenCode, "parser_version", OpenCode.parser_version + 1)
    report = birds.reindex(full=how == "full")
    assert (report.sources_read, report.sessions_changed, report.messages_changed) == (1, 3, 3)
    assert birds.reindex().sources_read == 0


def test_a_search_finds_the_new_message_of_a_database_that_would_take_too_long_to_read(
    birds: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agent_journal.search.REFRESH_SECONDS", 2.0)  # a machine may have much else to do
    with changed(file(birds)) as db:
        db.execute("CREATE TABLE ballast (data)")
        db.execute("INSERT INTO ballast VALUES (zeroblob(?))", (40 * 2**20,))
        insert(db, info(OTHER), [user(0, "x"), user(1, "padded " * 400_000)])
    birds.reindex()
    add(birds, "stork", 2, "And its chicks?")
    answer = birds.search("chicks")
    assert (answer.total.messages, answer.coverage.behind) == (1, 0)


def test_session_that_left_the_database_stays_in_the_journal(birds: Home) -> None:
    before = birds.stored()
    with changed(file(birds)) as db:
        for table, column in (("session", "id"), ("message", "session_id"), ("part", "session_id")):
            db.execute(f"DELETE FROM {table} WHERE {column} = ?", (ses("stork"),))
    birds.reindex()
    assert birds.stored() == before


# --- what is counted -------------------------------------------------------------------------------------


def break_part(home: Home, bird: str) -> None:
    with changed(file(home)) as db:
        db.execute("UPDATE part SET data = '{\"half' WHERE session_id = ? AND id LIKE '%010'", (ses(bird),))


def test_damaged_rows_are_counted_once_however_often_other_sessions_change(birds: Home) -> None:
    break_part(birds, "stork")
    assert birds.reindex().bad_lines == 1
    for number in (2, 3):
        add(birds, "heron", number, "More")
        report = birds.reindex()
        assert (report.bad_lines, report.messages_new) == (1, 1)
    assert health(birds, "opencode").bad_lines == 1
    assert [path for path, _ in health(birds, "opencode").problems] == [f"{file(birds)}:2"]
    assert health(birds, "opencode").problems[0][1].startswith("ses_stork: not JSON")
    break_part(birds, "heron")
    birds.reindex()
    assert health(birds, "opencode").bad_lines == 2
    with changed(file(birds)) as db:
        db.execute("DELETE FROM session WHERE id = 'ses_stork'")
    birds.reindex()
    assert health(birds, "opencode").bad_lines == 1


def test_what_was_left_out_is_the_sum_over_all_sessions(birds: Home) -> None:
    with changed(file(birds)) as db:
        for name in ("ses_x", "ses_y"):
            insert(db, info(name), [assistant(0, {"type": "step-start"})])
    birds.reindex()
    add(birds, "heron", 2, "More")
    birds.reindex()
    assert health(birds, "opencode").skipped == {"blank session": 2, "message/empty": 2, "part/step-start": 2}
    assert (health(birds, "opencode").indexed, health(birds, "opencode").empty) == (1, 0)


def test_database_that_cannot_be_read_for_a_while_is_not_read_whole_after_it(birds: Home) -> None:
    whole = file(birds).read_bytes()
    file(birds).write_bytes(b"SQLite format 3\0" + b"x" * 5000)
    assert birds.reindex().sources_failed == 1
    assert health(birds, "opencode").failed == 1
    file(birds).write_bytes(whole)
    misprint(birds)
    add(birds, "stork", 2, "And its chicks?")
    report = birds.reindex()
    assert (report.sources_failed, report.sessions_changed) == (0, 1)
    assert health(birds, "opencode").failed == 0


def test_a_session_that_cannot_be_understood_costs_no_other(birds: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    from agent_journal.connectors import opencode_stores

    told = opencode_stores.told

    def mistaken(facts: Any, *rest: Any) -> Any:
        if facts["id"] == "ses_heron":
            raise TypeError
        return told(facts, *rest)

    for bird in BIRDS:
        add(birds, bird, 2, "More")
    with monkeypatch.context() as patch:
        patch.setattr(opencode_stores, "told", mistaken)
        report = birds.reindex()
    assert (report.sources_failed, report.sessions_changed) == (1, 2)
    assert [why for _, why in health(birds, "opencode").problems] == ["could not be understood (TypeError)"]
    add(birds, "crane", 3, "Still more")
    assert birds.reindex().messages_new == 2
    assert health(birds, "opencode").problems == ()


def test_session_read_while_the_agent_began_to_write_is_read_again(birds: Home) -> None:
    """What stands in the file's pages by then may be of two states; what is told of it is of the one before."""
    (source,) = OpenCode().discover(place(birds)).sources
    parts = OpenCode().sessions(source)
    part = next(parts)
    add(birds, "heron", 2, "More")
    with pytest.raises(UnreadableSource, match="began to write"):
        part.read()
    parts.close()


def test_live_database_is_copied_once_for_all_its_sessions(birds: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    copies = []
    copy = shutil.copyfile
    monkeypatch.setattr(shutil, "copyfile", lambda source, target: (copies.append(target), copy(source, target)))
    with closing(sqlite3.connect(file(birds))) as agent:
        agent.execute("PRAGMA journal_mode = WAL")
        for bird in BIRDS:
            insert(agent, info(f"ses_young_{bird}"), said(bird))
        assert birds.reindex().sessions_new == 3
        assert [path.name for path in copies] == ["opencode.db", "opencode.db-wal"]
        assert not copies[0].exists()


# --- private and forgotten sessions ----------------------------------------------------------------------


def test_session_that_was_kept_out_is_read_when_it_no_longer_is(birds: Home) -> None:
    with changed(file(birds)) as db:
        insert(db, info("ses_wren", directory="/home/me/secret"), said("wren"))
    birds.configure('[index]\nexclude = ["/home/me/secret"]\n')
    birds.reindex()
    assert birds.search("wren").total.messages == 0
    add(birds, "heron", 2, "More")
    birds.reindex()
    birds.configure("")
    birds.reindex()
    assert birds.search("wren").total.messages == 2
    assert birds.reindex().sources_read == 0


def test_forgotten_session_stays_out_and_comes_in_when_it_is_let_in(birds: Home) -> None:
    assert birds.aj("forget", "ses_stork", "--yes").returncode == 0
    add(birds, "heron", 2, "More")
    add(birds, "stork", 2, "More")
    birds.reindex()
    assert (list(birds.stored()), health(birds, "opencode").skipped) == (
        ["opencode:ses_crane", "opencode:ses_heron"],
        {"forgotten": 1},
    )
    assert birds.aj("forget", "--undo", "ses_stork").returncode == 0
    birds.reindex()
    assert (len(birds.stored()), health(birds, "opencode").skipped) == (3, {})


# --- growth ----------------------------------------------------------------------------------------------

NAMES = (SESSION, CHILD, OTHER)


def begin(db: sqlite3.Connection) -> None:
    insert(db, info(), [user(0, "Fix the CI"), assistant(1, tool("bash", {"command": "npm test"}, "running"))])
    insert(db, info(OTHER, title="New session - 2026-01-02T03:04:07.000Z"), said("heron"))


def result(db: sqlite3.Connection, _: int) -> None:
    data = json.dumps(tool("bash", {"command": "npm test"}, output="all green", metadata={"exit": 0}))
    db.execute("UPDATE part SET data = ? WHERE id = ?", (data, f"{SESSION}prt_010"))


def title(db: sqlite3.Connection, number: int) -> None:
    db.execute("UPDATE session SET title = ? WHERE id = ?", (f"Title {number}", OTHER))


def revert(db: sqlite3.Connection, _: int) -> None:
    db.execute("UPDATE session SET revert = ? WHERE id = ?", ('{"messageID": "msg_01"}', SESSION))


def archive(db: sqlite3.Connection, number: int) -> None:
    db.execute("UPDATE session SET time_archived = ? WHERE id = ?", (START + number, OTHER))


def moved(db: sqlite3.Connection, number: int) -> None:
    db.execute("UPDATE session SET directory = '/', project_id = 'p' WHERE id = ?", (OTHER,))
    db.execute("INSERT OR REPLACE INTO project VALUES ('p', ?, 'p')", (f"/srv/{number}",))


def subagent(db: sqlite3.Connection, _: int) -> None:
    if not db.execute("SELECT 1 FROM session WHERE id = ?", (CHILD,)).fetchone():
        insert(db, info(CHILD, parentID=SESSION), said("stork"))


def longer(db: sqlite3.Connection, number: int) -> None:
    for name in NAMES[::2]:
        data = json.dumps({"role": "user", "time": {"created": START + number * 1000}})
        key = f"{name}more{number:03}"
        db.execute(
            "INSERT INTO message(id, session_id, time_created, data) VALUES (?,?,?,?)",
            (key, name, START + number * 1000, data),
        )
        part = json.dumps({"type": "text", "text": f"Question {number}"})
        db.execute("INSERT INTO part(id, message_id, session_id, data) VALUES (?,?,?,?)", (key, key, name, part))


@settings(RELAXED, max_examples=12)
@given(st.lists(st.sampled_from([result, title, revert, archive, moved, subagent, longer]), min_size=1, max_size=6))
def test_journal_that_followed_a_database_equals_a_fresh_one(
    tmp_path_factory: pytest.TempPathFactory, steps: list[Callable[[sqlite3.Connection, int], None]]
) -> None:
    folder = tmp_path_factory.mktemp("grown")
    home = Home(folder, {"AJ_HOME": str(folder / "aj")})
    database(place(home))
    before: dict[tuple[str, int], int] = {}
    for number, step in enumerate([lambda db, _: begin(db), *steps], start=10):
        with changed(file(home)) as db:
            step(db, number)
        home.reindex()
        now = ids(home.stored())
        assert before.items() <= now.items()
        before = now
    assert_like_a_fresh_one(home, folder / "fresh")


def test_message_that_was_taken_back_is_marked(birds: Home) -> None:
    with changed(file(birds)) as db:
        db.execute("DELETE FROM message WHERE session_id = 'ses_stork' AND id LIKE '%01'")
    birds.reindex()
    assert [vanished for _, _, _, vanished in birds.stored()["opencode:ses_stork"]] == [False, True]


# --- runs that end in between ----------------------------------------------------------------------------


def test_a_search_ends_between_two_sessions_and_the_next_run_goes_on_there(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    database(place(home), *((info(ses(bird)), said(bird)) for bird in BIRDS))
    monkeypatch.setattr("agent_journal.search.FIRST_RUN_SECONDS", 0.0)
    answer = home.search("tell in:user")
    assert [m.session.session.id for m in answer.matches] == ["ses_crane"]
    assert any("1 changed file" in note or "first run" in note for note in answer.notes)
    misprint(home)
    report = home.reindex()
    assert (report.sources_read, report.left, report.sessions_new, report.sessions_changed) == (1, 0, 2, 0)
    assert read_again(home) == ["ses_heron", "ses_stork"]
    assert home.reindex().sources_read == 0


def test_a_session_too_long_for_a_search_leaves_the_others_their_turn(
    birds: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(2, 200):
        add(birds, "crane", number, "Much more")
    add(birds, "stork", 2, "And its chicks?")
    monkeypatch.setattr("agent_journal.search.REFRESH_SECONDS", 2.0)
    monkeypatch.setattr(sync, "BYTES_PER_SECOND", 2000)
    answer = birds.search("chicks OR much")
    assert (answer.total.messages, answer.coverage.behind) == (1, 1)
    assert birds.reindex().messages_new == 198
    assert birds.search("chicks OR much", limit=300).total.messages == 199


def test_killed_between_two_batches_the_next_run_goes_on(home: Home) -> None:
    turns = [user(0, "Tell me of the heron"), *(user(n, f"{n} " + "padding " * 2000) for n in range(1, 40))]
    database(place(home), *((info(f"ses_{n:03}"), turns) for n in range(60)))  # 40 MB
    kills = 0
    for _ in range(20):
        process = home.start("reindex")
        deadline = time.monotonic() + 60
        while process.poll() is None and read_so_far(home) in (0, kills) and time.monotonic() < deadline:
            time.sleep(0.01)
        process.kill()
        process.communicate()
        kills = read_so_far(home)
        if kills:
            break
    assert 0 < kills < 60
    first = {key: rows[0][0] for key, rows in home.stored().items()}
    misprint(home)
    assert home.aj("reindex").returncode == 0
    now = home.stored()
    assert (len(now), {key: now[key][0][0] for key in first}) == (60, first)
    assert sum(rows[0][2].text.startswith("Tell") for rows in now.values()) == kills
    assert home.reindex().sources_read == 0


def read_so_far(home: Home) -> int:
    try:
        with closing(sqlite3.connect(f"file:{home.database}?mode=ro", uri=True)) as db:
            return int(db.execute("SELECT count(*) FROM part").fetchone()[0])
    except sqlite3.Error:
        return 0


def test_journal_of_the_version_before_takes_its_database_in_once_more(home: Home) -> None:
    database(place(home), *((info(ses(bird)), said(bird)) for bird in BIRDS))
    home.reindex()
    before = home.stored()
    with closing(sqlite3.connect(home.database)) as db:
        db.executescript(
            "DROP TABLE part; DROP INDEX session_second_hand; DROP INDEX message_prompt;"
            "CREATE INDEX message_prompt ON message (prompt) WHERE prompt IS NOT NULL; PRAGMA user_version = 3;"
        )
    assert home.reindex().sources_read == 0
    assert home.stored() == before
    for number in (2, 3):
        add(home, "heron", number, "More")
        assert home.reindex().messages_new == 1
        misprint(home)
    assert read_again(home) == ["ses_heron"]


def test_backup_with_such_sessions_is_restored(birds: Home) -> None:
    break_part(birds, "stork")
    birds.reindex()
    before = birds.stored()
    assert birds.aj("backup", str(birds.path / "b.tar.gz")).returncode == 0
    ran = birds.aj("restore", str(birds.path / "b.tar.gz"), "--replace", "--yes")
    assert (ran.returncode, ran.stderr, birds.stored()) == (0, "", before)
    assert birds.reindex().sources_read == 0


def test_memory_does_not_grow_with_the_database(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    turns = [user(n, f"{n} " + "padding " * 5000) for n in range(25)]
    database(place(home), *((info(f"ses_{n:03}"), turns) for n in range(20)))
    monkeypatch.setattr(sync, "BATCH_BYTES", 2**20)
    tracemalloc.start()
    assert home.reindex().sessions_new == 20
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 12_000_000  # of 20 MB
