"""What an attacker who can write one log tried: each stays a sentence, a counted line, or nothing at all."""

from __future__ import annotations

import json
import os
import pty
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import codex_logs
import logs
import opencode_logs
import pytest
from journals import Home

from agent_journal.errors import BadQuery, NoSuchSession
from agent_journal.index.intake import Intake
from agent_journal.index.store import Store
from agent_journal.paging import Page, written
from agent_journal.session import Message, Origin, Role, Session, Text, Transcript


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path / "home")
    home.claude(logs.user("u1", "a heron"), logs.assistant("a1", logs.thinking("hm"), logs.text("a bird")))
    return home


def database(home: Home) -> Path:
    opencode_logs.home(home.path)
    return home.path / ".local" / "share" / "opencode" / "opencode.db"


def test_a_rollback_journal_that_names_another_file_deletes_nothing(home: Home, tmp_path: Path) -> None:
    path, victim = database(home), tmp_path / "precious.txt"
    victim.write_text("mine")
    name = str(victim).encode()
    tail = len(name).to_bytes(4, "big") + sum(name).to_bytes(4, "big") + bytes.fromhex("d9d505f920a163d7")
    header = (
        bytes.fromhex("d9d505f920a163d7") + bytes(4) + bytes(8) + (512).to_bytes(4, "big") + (4096).to_bytes(4, "big")
    )
    journal = path.with_name(path.name + "-journal")
    journal.write_bytes(header.ljust(512, b"\0") + bytes(4) + name + tail)
    report = home.reindex()
    assert (victim.read_text(), journal.exists()) == ("mine", True)
    assert [why for a in report.agents for _, why in a.failures] == [
        f"{path}: its agent is in the middle of writing it; it is read when that is done"
    ]


def test_a_view_in_an_agents_database_is_not_run(home: Home) -> None:
    path = database(home)
    with sqlite3.connect(path) as db:
        db.execute("ALTER TABLE session RENAME TO kept")
        db.execute(
            "CREATE VIEW session AS WITH RECURSIVE n(id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM n) SELECT * FROM n"
        )
    db.close()
    started = time.process_time()
    home.reindex()
    assert time.process_time() - started < 30
    assert home.search("heron").total.messages == 1


def test_a_pipe_in_the_place_of_a_file_is_not_waited_for(home: Home) -> None:
    folder = home.path / ".local" / "share" / "opencode" / "storage"
    for name in ("session/p/ses_1.json", "message/ses_1/msg_0.json", "part/msg_1/prt_1.json"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        os.mkfifo(folder / name)
    assert home.aj("reindex").returncode == 0


def test_a_pipe_in_the_place_of_the_journal_is_not_waited_for(home: Home) -> None:
    home.reindex()
    (database,) = home.path.rglob("journal.db")
    database.unlink()
    os.mkfifo(database)
    for command in (["search", "heron"], ["reindex"], ["doctor"]):
        ran = home.aj(*command)
        assert (ran.returncode, "journal.db is no ordinary file" in " ".join(ran.stderr.split())) == (2, True)


def test_show_paints_on_a_terminal(home: Home) -> None:
    home.reindex()
    leader, follower = pty.openpty()
    command = [sys.executable, "-m", "agent_journal", "show", logs.SESSION, "--thinking"]
    environ = os.environ | home.environ | {"TERM": "xterm"}
    environ.pop("NO_COLOR", None)
    process = subprocess.Popen(command, stdout=follower, stderr=follower, env=environ)
    os.close(follower)
    shown = os.read(leader, 100_000)
    assert process.wait() == 0, shown
    assert b"a heron" in shown
    os.close(leader)


def test_a_folder_of_the_users_own_is_neither_emptied_nor_closed(home: Home, tmp_path: Path) -> None:
    own = tmp_path / "own"
    (own / "lexical").mkdir(parents=True, mode=0o755)
    (own / "lexical" / "mine").write_text("x")
    own.chmod(0o755)
    mode = own.stat().st_mode
    ran = Home(home.path, {"AJ_INDEX_PATH": str(own)}).aj("reindex")
    assert (ran.returncode, (own / "lexical" / "mine").read_text(), own.stat().st_mode) == (2, "x", mode)
    assert "holds files that are not of the journal" in ran.stderr


def test_a_very_long_folder_name_costs_no_memory(home: Home) -> None:
    home.claude(logs.user("u1", "a heron", cwd="/a" * 30_000))
    started = time.process_time()
    home.reindex()
    assert (home.search("heron").total.messages, time.process_time() - started < 20) == (1, True)


@pytest.mark.parametrize("moment", ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "9999-12-31T23:59:59-23:59"])
@pytest.mark.parametrize("zone", ["America/New_York", "Pacific/Auckland"])
def test_the_ends_of_the_calendar_can_be_listed_anywhere(home: Home, moment: str, zone: str) -> None:
    home.claude(logs.user("u1", "a heron", timestamp=moment))
    there = Home(home.path, {"TZ": zone})
    assert [there.aj(*command).returncode for command in (["reindex"], ["sessions"], ["search", "heron"])] == [0, 0, 0]


def test_a_file_from_the_far_future_is_read(home: Home) -> None:
    path = home.claude(logs.user("u1", "a heron", timestamp=None))
    try:
        os.utime(path, (999_999_999_999, 999_999_999_999))
    except OSError:
        pytest.skip("this file system has no such times")
    assert home.aj("reindex").returncode == 0


@pytest.mark.parametrize("page", [Page(2**62, 1), Page(10**30, 1), Page(-1, 1), Page(0, -1), Page(0, 2**70)])
def test_a_forged_cursor_is_refused(home: Home, page: Page) -> None:
    home.reindex()
    with pytest.raises(BadQuery, match="not a cursor"):
        home.search("heron", cursor=written(page, "heron\0relevance"))


@pytest.mark.parametrize("name", ["", "x" * 60_000, "\udcff", "%"])
def test_a_name_that_names_nothing_is_said(home: Home, name: str) -> None:
    home.reindex()
    with home.journal() as journal, pytest.raises(NoSuchSession, match="no session is called"):
        journal.session(name)


def test_the_same_message_in_many_files_costs_no_more_than_many_messages(home: Home) -> None:
    for number in range(600):
        home.claude(logs.user("u1", "an egret", timestamp=None), name=f"{number:08d}-0000-4000-8000-000000000000")
    started = time.process_time()
    home.reindex()
    (match,) = home.search("egret").matches
    assert (len(match.also_in) >= 599, time.process_time() - started < 30) == (True, True)


def test_the_same_message_many_times_in_one_file_costs_no_more_than_many_messages(home: Home) -> None:
    line = {"role": "user", "content": [{"type": "input_text", "text": "an egret"}], "type": "message"}
    record = {"timestamp": "2026-05-04T07:00:01.020Z", "type": "response_item", "payload": line}
    log = home.path / ".codex" / "sessions" / "rollout-2026-05-04T07-00-00-0196aaaa-0000-7000-8000-000000000001.jsonl"
    log.parent.mkdir(parents=True)
    log.write_text((json.dumps(record) + "\n") * 15_000)
    started = time.process_time()
    home.reindex()
    assert (home.search("egret").total.messages, time.process_time() - started < 15) == (1, True)


def test_the_same_prompt_in_many_sessions_costs_no_more_than_many_prompts(home: Home) -> None:
    history = home.path / "projects" / "shop" / ".aider.chat.history.md"
    history.parent.mkdir(parents=True)
    history.write_text("# aider chat started at 2026-05-04 07:00:00\n\n#### egret  \n\nreply\n\n" * 16_000)
    started = time.process_time()
    home.reindex()
    assert time.process_time() - started < 20


def test_the_same_prompt_beside_a_prompt_history_is_not_compared_with_all_sessions_that_hold_it(tmp_path: Path) -> None:
    """It was as soon as the history held one prompt of no transcript: the time grew with the square of the sessions."""

    def steps(sessions: int) -> int:
        folder, taken = tmp_path / str(sessions), [0]
        Store.make_folder(folder)
        with Store.create(folder) as store:
            store.db.set_progress_handler(lambda: taken.__setitem__(0, taken[0] + 1), 100)
            intake = Intake(store)
            with store.transaction():
                source = intake.import_source("history", "history.jsonl")
                intake.merge(source, "history.jsonl", [said("an old ibis", "history", second_hand=True)])
                intake.merge(source, "log", [said("egret", str(number)) for number in range(sessions)])
        return taken[0]

    assert steps(2000) < 3 * steps(1000)


def said(text: str, name: str, *, second_hand: bool = False) -> Transcript:
    session = Session(f"aider:{name}", name, "aider", Origin(path="log"), workspace="/home/ana/shop")
    return Transcript(session, (Message(Role.USER, (Text(text),)),), second_hand=second_hand)


def test_an_answer_of_many_calls_costs_no_more_than_many_answers(home: Home) -> None:
    call = {"type": "function_call", "name": "f", "call_id": "c", "arguments": "{}"}
    record = {"timestamp": "2026-05-04T07:00:01.020Z", "type": "response_item", "payload": call}
    log = home.path / "rollout-2026-05-04T07-00-00-0196aaaa-0000-7000-8000-000000000001.jsonl"
    log.write_text((json.dumps(record) + "\n") * 50_000)
    started = time.process_time()
    codex_logs.read(log)
    assert time.process_time() - started < 10


@pytest.mark.parametrize("stream", [">&-", "2>&-"])
def test_a_closed_stream_is_no_error(home: Home, stream: str) -> None:
    home.reindex()
    line = f"{sys.executable} -m agent_journal search heron {stream}"
    ran = subprocess.run(line, shell=True, env=os.environ | home.environ, capture_output=True, text=True)
    assert (ran.returncode, "Traceback" in ran.stderr + ran.stdout) == (0, False)


def test_resume_runs_no_program_of_the_sessions_folder(home: Home, tmp_path: Path) -> None:
    folder = tmp_path / "trap"
    folder.mkdir()
    (folder / "claude").write_text("#!/bin/sh\necho trapped\n")
    (folder / "claude").chmod(0o755)
    home.claude(logs.user("u1", "a heron", cwd=str(folder)))
    trapped = Home(home.path, {"PATH": ".::/usr/bin:/bin"})
    trapped.reindex()
    ran = trapped.aj("resume", logs.SESSION[:8])
    assert (ran.returncode, "trapped" in ran.stdout) == (2, False)


def test_a_time_zone_a_day_away_is_named(home: Home) -> None:
    home.reindex()
    nowhere = Home(home.path, {"TZ": "UTC+99"})
    for command in (["search", "heron"], ["export", "--all", "--format", "ndjson"], ["sessions"]):
        ran = nowhere.aj(*command)
        assert (command, ran.returncode, ran.stderr[:29]) in [
            (command, 2, "aj: TZ=UTC+99 is no time zone"),
            (["sessions"], 0, "1 of 1 session\n"),
        ]


def test_what_the_last_search_found_is_not_waited_for(home: Home) -> None:
    home.reindex()
    assert home.aj("search", "heron").returncode == 0
    (last,) = home.path.rglob("last_search.json")
    last.unlink()
    os.mkfifo(last)
    assert home.aj("search", "heron").returncode == 0
    assert home.aj("show", "1").returncode == 2


@pytest.mark.parametrize("content", ["[" * 100_000, '{"1": ["x", Infinity]}', '{"1": ["\\ud800", 1]}', "9" * 5000])
def test_what_the_last_search_found_may_be_damaged(home: Home, content: str) -> None:
    home.reindex()
    assert home.aj("search", "heron").returncode == 0
    (last,) = home.path.rglob("last_search.json")
    last.write_text(content)
    ran = home.aj("show", "1")
    assert (ran.returncode, "unexpected" in ran.stderr) == (2, False)


@pytest.mark.parametrize(
    ("change", "command"),
    [
        ("UPDATE meta SET value = 'x' WHERE key = 'seq'", ["search", "heron"]),
        ("UPDATE source SET bad = '['", ["doctor"]),
        ("UPDATE source SET skipped = 'many'", ["doctor"]),
    ],
)
def test_what_the_journal_never_writes_is_damage(home: Home, change: str, command: list[str]) -> None:
    home.reindex()
    (path,) = home.path.rglob("journal.db")
    with sqlite3.connect(path) as db:
        db.execute(change)
    db.close()
    ran = home.aj(*command, "--json")
    assert (ran.returncode, ran.stdout, json.loads(ran.stderr)["error"]["kind"]) == (2, "", "journal_corrupt")


def test_a_time_in_the_journal_that_no_calendar_has_is_none(home: Home) -> None:
    home.reindex()
    (path,) = home.path.rglob("journal.db")
    with sqlite3.connect(path) as db:
        db.execute("UPDATE session SET started_us = 9223372036854775807, ended_us = 9223372036854775807")
    db.close()
    ran = home.aj("doctor")
    assert (ran.returncode, "unexpected" in ran.stderr) == (0, False)


def test_a_setting_of_an_agent_that_names_no_path_costs_no_session(home: Home) -> None:
    settings = home.path / ".qwen" / "settings.json"
    settings.parent.mkdir()
    settings.write_text(json.dumps({"advanced": {"runtimeOutputDir": "/srv/qwen\0"}}))
    home.reindex()
    assert home.search("heron").total.messages == 1
    assert home.aj("doctor").returncode == 0


def test_a_folder_named_from_where_aj_was_called_is_the_same_from_elsewhere(home: Home, tmp_path: Path) -> None:
    codex_logs.home(home.path / "here")
    called = Home(home.path, {"CODEX_HOME": "here/.codex"})
    for folder in (home.path, tmp_path):
        assert called.aj("reindex", cwd=folder).returncode == 0
    with home.journal() as journal:
        _, sessions = journal.store.newest_sessions(100)
        found = [s for s in sessions if s.session.agent == "codex"]
        assert found
        assert [s.gone for s in found] == [False] * len(found)
