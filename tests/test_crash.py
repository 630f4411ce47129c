"""A run that dies at any moment, is interrupted, or meets another: the journal stays whole and catches up."""

from __future__ import annotations

import json
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from journals import LONGEST, Home, contents, hits, killed_after
from logs import assistant, text, thinking, tool_result, tool_use, user

from agent_journal import search
from agent_journal.errors import JournalBusy
from agent_journal.index.lexical import Lexical
from agent_journal.index.lock import writing
from agent_journal.index.sync import indexed
from agent_journal.search import NOT_CAUGHT_UP

SESSIONS = 300
ROUNDS, KILLS = 2, 4
WORDS = "heron stork crane ibis egret bittern wren robin finch kestrel osprey harrier dunnock siskin".split()
# What a death after the first commit and before the word index is made leaves behind.
NO_WORD_INDEX = "the word index is missing: rebuilt from the journal"
QUERIES = ("heron stork", "kestrel", "is:error", "nest in:tool", "osprey in:thinking")


def sentence(chance: random.Random) -> str:
    return " ".join(chance.choice(WORDS) for _ in range(40))


def records(number: int, turns: int) -> Iterator[dict[str, Any]]:
    chance = random.Random(number)
    for turn in range(turns):
        name = f"{number}-{turn}"
        when = f"2026-03-{number % 28 + 1:02}T{turn:02}:{number % 60:02}:00.000Z"
        yield user(f"u{name}", f"{sentence(chance)} {name}", timestamp=when)
        call = tool_use(f"t{name}", command=f"find {chance.choice(WORDS)}")
        yield assistant(f"a{name}", thinking(sentence(chance)), text(sentence(chance)), call, timestamp=when)
        result = tool_result(f"t{name}", f"nest of {sentence(chance)}", is_error=turn == 3)
        yield user(f"r{name}", [result], timestamp=when)


def populate(home: Home, sessions: int = SESSIONS) -> None:
    for number in range(sessions):
        home.claude(*records(number, number % 7 + 2), name=f"{number:08x}-0000-4000-8000-000000000000")


def everything(home: Home) -> Any:
    with home.journal() as journal:
        return contents(journal), [hits(journal.search(query, limit=300)) for query in QUERIES]


def assert_whole(database: Path) -> None:
    with sqlite3.connect(database) as db:
        assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    db.close()


def test_killed_at_any_moment_the_journal_is_whole_and_catches_up(home: Home, tmp_path: Path) -> None:
    populate(home)
    undisturbed = Home(home.path, {"AJ_HOME": str(tmp_path / "undisturbed")})
    started = time.monotonic()
    assert undisturbed.aj("reindex").returncode == 0
    span = time.monotonic() - started
    expected = everything(undisturbed)
    chance = random.Random(7)
    for attempt in range(ROUNDS):
        # Each round from the beginning, each kill going on from whatever the last one left.
        one = Home(home.path, {"AJ_HOME": str(tmp_path / f"killed-{attempt}")})
        for number in range(KILLS):
            process = one.start("reindex", *(["--full"] if number % 2 else []))
            killed_after(process, chance.uniform(0.2, 1) * span)
            if not one.database.exists():
                continue
            assert_whole(one.database)
            with one.journal() as journal:
                if journal.exists:
                    assert set(journal.search("heron", refresh=False).notes) <= {NOT_CAUGHT_UP, NO_WORD_INDEX}
        assert one.aj("reindex").returncode == 0
        assert everything(one) == expected


def test_killed_between_the_store_and_the_word_index_the_next_search_finds_all(home: Home) -> None:
    populate(home, 20)
    home.reindex()
    expected = everything(home)
    lexical = home.index / "lexical"
    kept = {p.name: p.read_bytes() for p in lexical.iterdir()}
    home.claude(*records(900, 3), name="new")
    home.reindex()
    with home.journal() as journal:
        found = contents(journal)
    # The word index as it was: what a death before its commit leaves.
    for path in lexical.iterdir():
        path.unlink()
    for name, data in kept.items():
        (lexical / name).write_bytes(data)
    after = everything(home)
    assert after[0] == found
    assert len(after[1][3]) == len(expected[1][3]) + 3
    assert len(set(after[1][3])) == len(after[1][3])


def test_killed_between_the_word_index_and_its_note_nothing_is_found_twice(home: Home) -> None:
    populate(home, 20)
    home.reindex()
    state = home.index / "lexical" / "state.json"
    before = state.read_bytes()
    home.claude(*records(900, 3), name="new")
    home.reindex()
    expected = everything(home)
    state.write_bytes(before)
    assert everything(home) == expected


# --- two at once -----------------------------------------------------------------------------------------


def test_second_reindex_waits_a_moment_then_says_who_is_in_the_way(home: Home) -> None:
    populate(home, 2)
    home.reindex()
    started = time.monotonic()
    with writing(home.index, 0):
        ended = home.aj("reindex")
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.splitlines()[0] == "aj: another aj is writing to the journal"
    assert time.monotonic() - started > 1


def test_second_reindex_goes_on_when_the_first_is_done(home: Home) -> None:
    populate(home, 2)
    home.reindex()
    with writing(home.index, 0):
        process = home.start("reindex")
        time.sleep(1)
    _, errors = process.communicate(timeout=LONGEST)
    assert (process.returncode, errors) == (0, "")


def test_two_reindexes_at_once_lose_nothing(home: Home, tmp_path: Path) -> None:
    populate(home, 60)
    alone = Home(home.path, {"AJ_HOME": str(tmp_path / "alone")})
    alone.reindex()
    both = [home.start("reindex"), home.start("reindex")]
    for process in both:
        process.communicate(timeout=LONGEST)
        assert process.returncode in (0, 2)
    assert everything(home) == everything(alone)


def test_search_beside_a_writer_answers_from_the_last_commit_and_says_so(home: Home) -> None:
    populate(home, 10)
    home.reindex()
    before = home.search("nest in:tool", limit=100).total.messages
    home.claude(*records(900, 3), name="new")
    with writing(home.index, 0):
        answer = home.search("nest in:tool", limit=100)
        assert (answer.total.messages, answer.coverage.stale, answer.coverage.behind) == (before, True, 1)
        ended = home.aj("search", "nest")
        assert ended.returncode == 0
    answer = home.search("nest in:tool", limit=100)
    assert (answer.total.messages, answer.coverage.stale, answer.coverage.behind) == (before + 3, False, 0)


def test_search_beside_a_word_index_that_is_begun_anew_does_not_say_that_nothing_is_there(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four searches at once after an upgrade: one made the word index anew, one found nothing in it."""
    monkeypatch.setattr(search, "PATIENCE_SECONDS", 0.2)
    populate(home, 3)
    home.reindex()
    with writing(home.index, 0), home.journal() as journal:
        Lexical.create(journal.store, indexed(journal.config))
        with pytest.raises(JournalBusy):
            journal.search("nest")
    assert home.search("nest").matches


def test_searches_during_a_reindex_answer(home: Home) -> None:
    populate(home)
    home.reindex()
    process = home.start("reindex", "--full")
    answers = 0
    while process.poll() is None:
        answer = home.search("heron")
        assert answer.matches
        answers += 1
    _, errors = process.communicate()
    assert (process.returncode, errors) == (0, "")
    assert answers > 0


def test_first_search_while_another_process_makes_the_journal_waits_or_says_so(home: Home) -> None:
    populate(home, 5)
    home.index.mkdir(parents=True)
    with writing(home.index, 0):
        ended = home.aj("search", "heron")
    assert ended.returncode == 2
    assert "another aj is writing" in ended.stderr


# --- interrupted -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("delay", [0.0, 0.2, 0.5])
def test_interrupted_reindex_exits_130_and_loses_nothing(home: Home, tmp_path: Path, delay: float) -> None:
    populate(home, 200)
    process = home.start("reindex")
    while not home.database.exists() and process.poll() is None:
        time.sleep(0.01)
    time.sleep(delay)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=LONGEST)
    # It may have been quicker; while it goes, Python has given the signal's own meaning back.
    interrupted = "aj: interrupted\nwhat is done is kept; `aj reindex` goes on\n"
    assert (process.returncode, errors) in [(130, interrupted), (0, ""), (-signal.SIGINT, "")]
    assert_whole(home.database)
    assert home.aj("reindex").returncode == 0
    alone = Home(home.path, {"AJ_HOME": str(tmp_path / "alone")})
    alone.reindex()
    assert everything(home) == everything(alone)


INTERRUPTED_AT_THE_IMPORT = """
import sys
class Finder:
    def find_spec(self, name, *rest):
        if name == "agent_journal.process":
            raise KeyboardInterrupt
sys.meta_path.insert(0, Finder())
from agent_journal.__main__ import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.parametrize("option", ["--json", "--ndjson", "--full"])
def test_a_program_that_interrupts_at_once_gets_its_kind_of_error(option: str) -> None:
    command = [sys.executable, "-c", INTERRUPTED_AT_THE_IMPORT, "search", "heron", option]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=LONGEST)
    assert (ended.returncode, ended.stdout) == (130, "")
    if option == "--full":
        assert ended.stderr == "aj: interrupted\n"
    else:
        assert json.loads(ended.stderr) == {"error": {"kind": "interrupted", "message": "interrupted", "hint": ""}}


@pytest.mark.parametrize("stage", ["reading", "indexing"])
def test_interrupt_in_one_process_leaves_a_journal_that_goes_on(home: Home, stage: str) -> None:
    populate(home, 30)
    home.reindex()
    before = everything(home)
    home.claude(*records(900, 3), name="new")

    def interrupt(now: str, *_: object) -> None:
        if now == stage:
            raise KeyboardInterrupt

    with home.journal() as journal:
        with pytest.raises(KeyboardInterrupt):
            journal.reindex(progress=interrupt)
        kept = contents(journal)
        assert {key: kept[0].get(key) for key in before[0][0]} == before[0][0]
        journal.reindex()
        assert len(contents(journal)[0]) == 31
        assert len(hits(journal.search("nest in:tool", limit=300))) == len(before[1][3]) + 3
