"""What is forgotten is gone from every file of the journal, and does not come back."""

from __future__ import annotations

import json
import os
import pty
import random
import sqlite3
import subprocess
import time
from pathlib import Path
from typing import Any

import logs
import pytest
from conversations import talk, vectors_of, with_tiny
from journals import LONGEST, Home, killed_after

from agent_journal.errors import NoSuchSession
from agent_journal.index import codec, forget, forget_plan
from agent_journal.index.chunks import digest_of
from agent_journal.index.document import PLACES, STEM
from agent_journal.index.lexical import Lexical
from agent_journal.index.lock import writing
from agent_journal.index.store import Store
from agent_journal.index.sync import indexed

SECRET = "quokkaphrase"
PHRASE = f"the {SECRET} lives on Rottnest Island"
KEPT = "wombatsentence"
WORDS = "heron stork crane ibis egret bittern wren robin finch kestrel osprey harrier dunnock siskin".split()


def traces(home: Home, needle: str = SECRET) -> list[str]:
    """Every place of the journal's folder in which a word is found, packed or not."""
    sought = needle.encode()
    found = [
        f"raw {path.name}"
        for path in sorted(Path(home.environ["AJ_HOME"]).rglob("*"))
        if path.is_file() and sought in path.read_bytes().lower()
    ]
    with home.journal() as journal:
        store = journal.store
        for number, body in store.rows("SELECT id, body FROM message"):
            assert isinstance(body, bytes)
            found += [f"message {number}"] * (sought in store.bodies.loaded(body))
        for key, facts, derived in store.rows("SELECT key, facts, derived FROM session"):
            assert isinstance(facts, bytes)
            assert isinstance(derived, bytes)
            found += [f"session {key}"] * (sought in codec.loaded(facts) + codec.loaded(derived))
        lexical, _ = Lexical.open(store, indexed(journal.config))
        assert lexical is not None
        # A term stays in the files until the segments of its documents are gone, deleted or not.
        searcher = lexical.searcher()
        found += [f"words {place}" for place in PLACES if searcher.doc_freq(place, needle)]
        found += [f"stems {place}" for place in PLACES if searcher.doc_freq(place + STEM, needle)]
        found += ["hits"] * bool(journal.search(needle, refresh=False, mode="lexical").matches)
    return found


def keys(home: Home) -> list[str]:
    return sorted(home.stored())


def forgets(home: Home, *arguments: str) -> subprocess.CompletedProcess[str]:
    ran = home.aj("forget", *arguments, "--yes", stdin=subprocess.DEVNULL)
    assert (ran.returncode, ran.stderr) == (0, ""), ran.stderr
    return ran


@pytest.fixture
def two(home: Home) -> Home:
    """A session to forget and one to keep."""
    talk(home, "secret", PHRASE, f"and the {SECRET} smiles")
    talk(home, "kept", f"the {KEPT} digs", "and sleeps all day")
    home.reindex()
    assert traces(home)
    return home


# --- gone ------------------------------------------------------------------------------------------------


def test_nothing_of_it_is_left_in_any_file(two: Home) -> None:
    assert two.aj("search", SECRET).returncode == 0  # writes the file of the last search
    ran = forgets(two, "secret")
    assert ran.stdout == "forgot 1 session with 2 messages\n"
    assert traces(two) == []
    assert keys(two) == ["claude-code:kept"]
    assert [m.session.session.key for m in two.search(KEPT).matches] == ["claude-code:kept"]
    assert not (two.index / "last_search.json").exists()
    assert (two.index / "journal.db-wal").stat().st_size < 10_000 if (two.index / "journal.db-wal").exists() else True
    assert two.aj("doctor").returncode == 0


def test_titles_tools_thinking_and_sub_agents_go_too(home: Home) -> None:
    call = logs.tool_use("t1", "Bash", command=f"grep {SECRET}")
    path = home.claude(
        {"type": "custom-title", "customTitle": f"All about {SECRET}", "sessionId": logs.SESSION},
        logs.user("u1", "look", cwd=f"/home/ana/{SECRET}"),
        logs.assistant("a1", logs.thinking(f"a {SECRET}?"), call),
        logs.user("r1", [logs.tool_result("t1", f"found {SECRET}")]),
    )
    sub = path.with_suffix("") / "subagents" / "agent-ab12.jsonl"
    said = logs.user("s1", f"{SECRET} help", isSidechain=True, agentId="ab12")
    logs.write(sub, said)
    talk(home, "kept", KEPT)
    home.reindex()
    assert len(keys(home)) == 3
    path.unlink()
    sub.unlink()
    forgets(home, logs.SESSION)
    assert keys(home) == ["claude-code:kept"]
    # The key of a forgotten session stays, and nothing else: here not even the path of a source that is gone.
    assert traces(home) == []


def test_vectors_go_and_those_of_others_stay(home: Home) -> None:
    home = with_tiny(home)
    talk(home, "secret", PHRASE, "nested quotes are dropped by the parser")
    talk(home, "kept", "nested quotes are dropped by the parser", "lentil soup with cumin and stock")
    home.reindex()
    before = vectors_of(home)
    forgets(home, "secret")
    after = vectors_of(home)
    assert set(after) < set(before)
    assert digest_of(PHRASE) in before
    assert digest_of(PHRASE) not in after
    assert digest_of("nested quotes are dropped by the parser") in after
    assert traces(home) == []
    assert home.aj("doctor").returncode == 0
    assert home.reindex().embedding.texts == 0
    answer = home.search("lentil soup", mode="semantic")
    assert (answer.used, answer.coverage.embedded) == ("semantic", 1.0)


def test_vectors_whose_places_are_lost_are_removed_whole(home: Home) -> None:
    home = with_tiny(home)
    talk(home, "secret", PHRASE)
    talk(home, "kept", "lentil soup with cumin")
    home.reindex()
    (places,) = home.index.glob("vectors/*/places.bin")
    places.unlink()
    forgets(home, "secret")
    assert list(home.index.glob("vectors/*/")) == []
    assert home.reindex().embedding.texts > 0
    assert digest_of(PHRASE) not in vectors_of(home)


def large(home: Home, name: str, word: str, count: int) -> None:
    chance = random.Random(name)
    said = (f"{word} {' '.join(chance.choice(WORDS) for _ in range(20))} {number}" for number in range(count))
    talk(home, name, *said)


def test_the_dictionary_that_learnt_from_it_is_learnt_anew(home: Home) -> None:
    """Each of its messages begins with the phrase: training keeps what many have in common."""
    large(home, "secret", PHRASE, 400)
    large(home, "kept", f"the {KEPT} digs", 700)
    home.reindex()
    before = home.stored()["claude-code:kept"]
    with home.journal() as journal:
        ((old,),) = journal.store.rows("SELECT value FROM meta WHERE key = 'named_dictionary'")
    assert isinstance(old, bytes)
    assert SECRET.encode() in old
    forgets(home, "secret")
    with home.journal() as journal:
        ((new,),) = journal.store.rows("SELECT value FROM meta WHERE key = 'named_dictionary'")
        assert journal.store.bodies.learnt
    assert new != old
    assert traces(home) == []
    assert home.stored() == {"claude-code:kept": before}
    large(home, "later", "a later session", 30)
    home.reindex()
    assert len(home.stored()["claude-code:later"]) == 30


def test_too_few_messages_are_left_to_learn_from(home: Home) -> None:
    large(home, "secret", PHRASE, 600)
    talk(home, "kept", f"the {KEPT} digs and digs and digs " * 20)
    home.reindex()
    before = home.stored()["claude-code:kept"]
    forgets(home, "secret")
    assert home.stored() == {"claude-code:kept": before}
    assert traces(home) == []


def test_a_reader_from_before_reads_what_was_rewritten(home: Home) -> None:
    large(home, "secret", PHRASE, 400)
    large(home, "kept", f"the {KEPT} digs", 700)
    home.reindex()
    with home.journal() as journal:
        kept = journal.session("kept")
        before = journal.messages(kept)
        stale = journal.store.rows(
            "SELECT id, session, ordinal, body, vanished FROM message WHERE id = ?", (before[0].id,)
        )
        forgets(home, "secret")
        assert journal.messages(kept) == before
        assert journal.store._message(stale[0]) == before[0]  # a body from before, its dictionary gone
        assert journal.search(KEPT, refresh=False).matches


def test_journal_of_the_first_versions_with_a_nameless_dictionary(home: Home) -> None:
    large(home, "secret", PHRASE, 400)
    large(home, "kept", f"the {KEPT} digs", 700)
    home.reindex()
    before = home.stored()
    with home.journal() as journal:
        store = journal.store
        named = store.bodies
        ((dictionary,),) = store.rows("SELECT value FROM meta WHERE key = 'named_dictionary'")
        assert isinstance(dictionary, bytes)
        nameless = codec.Bodies(dictionary, named=False)
        store.rows("BEGIN")
        for number, body in store.rows("SELECT id, body FROM message"):
            assert isinstance(body, bytes)
            store.rows("UPDATE message SET body = ? WHERE id = ?", (nameless.stored(named.loaded(body)), number))
        store.rows("UPDATE meta SET key = 'dictionary' WHERE key = 'named_dictionary'")
        store.rows("COMMIT")
    assert home.stored() == before
    forgets(home, "secret")
    assert home.stored() == {"claude-code:kept": before["claude-code:kept"]}
    assert traces(home) == []


# --- which ones ------------------------------------------------------------------------------------------


@pytest.fixture
def several(home: Home) -> Home:
    talk(home, "shop-old", "one", cwd="/home/ana/shop", timestamp="2024-01-01T10:00:00.000Z")
    talk(home, "shop-new", "two", cwd="/home/ana/shop", timestamp="2026-01-01T10:00:00.000Z")
    talk(home, "shopping", "three", cwd="/home/ana/shopping", timestamp="2024-01-01T10:00:00.000Z")
    talk(home, "admin", "four", cwd="/home/ana/Shop-Admin", timestamp="2026-02-01T10:00:00.000Z")
    home.reindex()
    return home


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--project", "shop"], {"shop-old", "shop-new"}),
        (["--project", "shop-ADMIN"], {"admin"}),
        (["--project", "shop*"], {"shop-old", "shop-new", "shopping", "admin"}),
        (["--before", "2025"], {"shop-old", "shopping"}),
        (["--before", "2024-01-01"], set()),
        (["--project", "SHOP", "--before", "2025-06"], {"shop-old"}),
        (["shop-n", "shopping"], {"shop-new", "shopping"}),
        (["shop-n", "shopping", "--before", "2025"], {"shopping"}),
        (["claude-code:admin"], {"admin"}),
    ],
)
def test_conditions_are_met_together(several: Home, arguments: list[str], expected: set[str]) -> None:
    ran = several.aj("forget", *arguments, "--dry-run", "--json")
    assert {each["id"] for each in json.loads(ran.stdout)["sessions"]} == expected
    assert (ran.returncode, ran.stderr) == (0 if expected else 1, "")
    assert len(keys(several)) == 4


def test_a_word_of_a_project_is_not_its_name(several: Home) -> None:
    for name, sentence in (
        ("admin", "no project is called admin; there are Shop-Admin (1)"),
        ("shopp", "no project is called shopp; there are shop (2), shopping (1)"),
        ("soap", "no project is called soap; there are shop (2)"),
        ("kitchen", "no project is called kitchen; see `aj sessions`"),
    ):
        ran = several.aj("forget", "--project", name, "--yes")
        assert (ran.returncode, ran.stdout, ran.stderr) == (1, "", f"{sentence}\n")
        ran = several.aj("forget", "--project", name, "--yes", "--json")
        assert (ran.returncode, json.loads(ran.stdout)["notes"]) == (1, [sentence])
    assert several.aj("forget", "--project", "shop", "--before", "2020", "--yes").stderr == "no session fits\n"
    assert len(keys(several)) == 4


def test_several_projects_are_named_before_they_go(several: Home) -> None:
    ran = several.aj("forget", "--project", "shop*", "--dry-run")
    assert "projects: shop (2), Shop-Admin (1), shopping (1)" in ran.stdout.splitlines()
    code, errors = asked(several, b"n\n", "--project", "shop-*")
    assert (code, errors) == (1, "Forget them for good? [y/N] nothing was forgotten\n")
    code, errors = asked(several, b"n\n", "--before", "2025")
    question = "Forget the sessions of shop (1), shopping (1) for good?"
    assert (code, errors) == (1, f"{question} [y/N] nothing was forgotten\n")


def test_a_hit_of_the_last_search_can_be_forgotten(several: Home) -> None:
    assert several.aj("search", "three").returncode == 0
    forgets(several, "1")
    assert keys(several) == ["claude-code:admin", "claude-code:shop-new", "claude-code:shop-old"]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "aj: Invalid value for SESSION: say what to forget: a session, --project or --before"),
        (
            ["--before", "3x", "--yes"],
            "aj: --before 3x — use a date (2026-03-01, 2026-03, 2026-03-01T14:30), or 5h, 3d, 2w",
        ),
        (["nobody", "--yes"], "aj: no session is called 'nobody'"),
        (
            ["shopping:1", "--yes"],
            "aj: Invalid value for SESSION: shopping:1 is one message; only whole sessions are forgotten",
        ),
        (["shopping"], "aj: Invalid value for --yes: aj forget asks on a terminal only; elsewhere say --yes"),
        (["--undo"], "aj: Invalid value for SESSION: say which: a key of aj forget --list"),
        (["--undo", "shopping"], "aj: nothing that was forgotten is called 'shopping'"),
    ],
)
def test_wrong_use_is_a_sentence_and_changes_nothing(several: Home, arguments: list[str], sentence: str) -> None:
    ran = several.aj("forget", *arguments, stdin=subprocess.DEVNULL)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert " ".join(ran.stderr.split()).startswith(sentence)
    assert len(keys(several)) == 4


def test_there_may_be_nothing_to_let_in(several: Home) -> None:
    ran = several.aj("forget", "--undo", "--all")
    assert (ran.returncode, ran.stdout, ran.stderr) == (1, "", "nothing is forgotten\n")
    assert json.loads(several.aj("forget", "--undo", "--all", "--json").stdout)["let_in"] == []


def test_dry_run_says_what_goes_and_what_stays(two: Home) -> None:
    path = two.claude_path("secret")
    ran = two.aj("forget", "secret", "--dry-run")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.splitlines() == [
        "secret  2026-03-02 09:15  claude-code · shop · main",
        f"        {PHRASE} · 2 messages",
        "1 session with 2 messages",
        f"the agent's own file stays: {path}",
        "earlier backups and exports hold what they hold",
    ]
    assert path.exists()
    assert traces(two)


def asked(home: Home, answer: bytes, *arguments: str) -> tuple[int, str]:
    """`aj forget` on a terminal."""
    master, slave = pty.openpty()
    process = home.start("forget", *(arguments or ("secret",)), stdin=slave)
    os.close(slave)
    os.write(master, answer)
    _, errors = process.communicate(timeout=LONGEST)
    os.close(master)
    return process.returncode, errors


def test_on_a_terminal_it_asks(two: Home) -> None:
    assert asked(two, b"\n") == (1, "Forget them for good? [y/N] nothing was forgotten\n")
    assert len(keys(two)) == 2
    assert asked(two, b"y\n") == (0, "Forget them for good? [y/N] ")
    assert keys(two) == ["claude-code:kept"]


def test_a_fork_keeps_its_copies_and_is_named(home: Home) -> None:
    shared = [logs.user("u1", f"{KEPT} one"), logs.assistant("a1", logs.text(f"{KEPT} two"))]
    home.claude(*(r | {"sessionId": "first"} for r in shared), name="first")
    own = logs.user("u2", "own words", parent="a1", sessionId="second")
    home.claude(*(r | {"sessionId": "second"} for r in shared), own, name="second")
    home.reindex()
    ran = home.aj("forget", "first", "--dry-run", "--json")
    assert json.loads(ran.stdout)["also_in"] == [{"session": "claude-code:second", "messages": 2}]
    forgets(home, "first")
    (hit,) = home.search(f"{KEPT} one", limit=1).matches
    assert (hit.session.session.key, hit.also_in) == ("claude-code:second", ())


# --- not taken in again ----------------------------------------------------------------------------------


def test_it_does_not_come_back(two: Home) -> None:
    forgets(two, "secret")
    path = two.claude_path("secret")
    for full in (False, True):
        report = two.reindex(full=full)
        assert (report.sessions_new, traces(two)) == (0, [])
    more = logs.user("secret-9", f"more of {SECRET}", sessionId="secret")
    path.write_bytes(path.read_bytes() + logs.lines([more]))
    (agent,) = [agent for agent in two.reindex().agents if agent.agent == "claude-code"]
    assert agent.skipped == {"forgotten": 1}
    moved = two.claude_path("secret", "-home-ana-elsewhere")
    moved.parent.mkdir()
    path.rename(moved)
    two.reindex(full=True)
    assert keys(two) == ["claude-code:kept"]
    assert traces(two) == []
    doctor = json.loads(two.aj("doctor", "--json").stdout)
    (agent,) = [agent for agent in doctor["agents"] if agent["agent"] == "claude-code"]
    assert (agent["skipped"], agent["gone"]) == ({"forgotten": 1}, 0)
    assert [str(moved), "forgotten: aj forget --list"] in agent["passed"]


def test_new_sub_agents_of_it_stay_out(two: Home) -> None:
    forgets(two, "secret")
    sub = two.claude_path("secret").with_suffix("") / "subagents" / "agent-ab12.jsonl"
    logs.write(sub, logs.user("s1", PHRASE, isSidechain=True, agentId="ab12", sessionId="secret"))
    two.reindex()
    assert keys(two) == ["claude-code:kept"]


def test_a_fork_of_it_that_comes_later_is_taken_in(two: Home) -> None:
    forgets(two, "secret")
    foreign = logs.user("u1", "older", sessionId="secret")
    two.claude(foreign, logs.user("u2", "younger", parent="u1", sessionId="fork"), name="fork")
    two.reindex()
    assert "claude-code:fork" in keys(two)


def test_a_second_live_file_of_the_same_id_is_its_own(two: Home) -> None:
    talk_again = two.claude_path("secret", "-elsewhere")
    logs.write(talk_again, logs.user("x", f"{KEPT} again", sessionId="secret"))
    two.reindex()
    (copy,) = [key for key in keys(two) if "~" in key]
    forgets(two, "claude-code:secret")
    more = [logs.user("x", f"{KEPT} again", sessionId="secret"), logs.user("y", "it grows", sessionId="secret")]
    logs.write(talk_again, *more)
    two.reindex()
    assert [len(rows) for key, rows in two.stored().items() if key == copy] == [2]
    assert keys(two) == ["claude-code:kept", copy]
    forgets(two, copy)
    two.reindex(full=True)
    assert keys(two) == ["claude-code:kept"]


def history(home: Home, *prompts: tuple[str, int], **fields: Any) -> None:
    """Prompts without a session's id, as old versions wrote them."""
    home.history(
        *({"display": p, "project": logs.CWD, "timestamp": at, "pastedContents": {}} | fields for p, at in prompts)
    )


MARCH = 1772442900000  # 2026-03-02, milliseconds


def test_prompts_of_it_do_not_come_back_from_the_history(home: Home) -> None:
    talk(home, "secret", PHRASE, f"and the {SECRET} smiles")
    talk(home, "kept", KEPT)
    history(home, (PHRASE, MARCH), (f"and  the {SECRET} smiles", MARCH + 1), ("only in the history", MARCH + 2))
    home.reindex()
    forgets(home, "secret")
    for full in (False, True):
        report = home.reindex(full=full)
        assert traces(home) == []
    (agent,) = [agent for agent in report.agents if agent.agent == "claude-code"]
    assert {kind: n for kind, n in agent.skipped.items() if "forgotten" in kind} == {
        "forgotten": 1,
        "forgotten/prompt": 2,
    }
    assert [m.text for _, _, m, _ in home.stored()["claude-code:history/-home-ana-shop"]] == ["only in the history"]


def test_prompts_that_name_the_session_do_not_come_back(home: Home) -> None:
    path = talk(home, "secret", PHRASE)
    talk(home, "kept", KEPT)
    home.reindex()
    forgets(home, "secret")
    path.unlink()
    history(home, (PHRASE, MARCH), (f"more {SECRET}", MARCH + 1), sessionId="secret")
    home.reindex()
    assert traces(home) == []


def test_the_same_words_said_later_or_elsewhere_are_taken_in(home: Home) -> None:
    talk(home, "secret", "continue")
    home.reindex()
    forgets(home, "secret")
    later = int(time.time() * 1000) + 60_000
    history(home, ("continue", later), sessionId="lost")
    home.reindex()
    assert "claude-code:lost" in keys(home)
    history(home, ("continue", MARCH), sessionId="lost", project="/home/ana/other")
    home.reindex()
    assert "claude-code:lost" in keys(home)


def test_a_forgotten_history_stays_out(home: Home) -> None:
    history(home, (PHRASE, MARCH))
    talk(home, "kept", KEPT)
    home.reindex()
    forgets(home, "claude-code:history/-home-ana-shop")
    history(home, (PHRASE, MARCH), ("something new", MARCH + 5))
    home.reindex()
    assert keys(home) == ["claude-code:kept"]
    assert traces(home) == []


def test_undo_lets_it_in_again_without_a_change_of_its_file(two: Home) -> None:
    before = two.stored()["claude-code:secret"]
    assert two.aj("forget", "--list").returncode == 1
    forgets(two, "secret")
    ran = two.aj("forget", "--list")
    assert ran.returncode == 0
    assert ran.stdout.split()[2:] == ["claude-code:secret"]
    two.reindex()
    assert two.aj("forget", "--undo", "sec").stdout == (
        "claude-code:secret comes back with the next aj reindex, if its file still exists\n"
    )
    two.reindex()
    assert [row[1:] for row in two.stored()["claude-code:secret"]] == [row[1:] for row in before]
    assert two.aj("forget", "--list").returncode == 1
    forgets(two, "secret")
    assert two.aj("forget", "--undo", "claude-code:secret").returncode == 0  # at once, without a reindex between
    two.reindex()
    assert "claude-code:secret" in keys(two)


# --- dying in between ------------------------------------------------------------------------------------


@pytest.mark.parametrize("deaths", range(5))
def test_interrupted_between_any_two_steps_the_next_reindex_ends_it(home: Home, deaths: int) -> None:
    home = with_tiny(home)
    large(home, "secret", PHRASE, 300)
    large(home, "kept", f"the {KEPT} digs", 300)
    home.reindex()
    before = home.stored()["claude-code:kept"]

    def die(*_: object) -> None:
        nonlocal deaths
        deaths -= 1
        if deaths < 0:
            raise KeyboardInterrupt

    with home.journal() as journal:
        plan = forget_plan.chosen(journal.store, {"claude-code:secret"})
        try:
            forget.forget(journal.store, journal.config, plan, die)
        except KeyboardInterrupt:
            assert keys(home) == ["claude-code:kept"]
            assert home.search(f"{KEPT} digs").matches
            assert not home.search(SECRET, mode="lexical").matches
            assert home.aj("doctor").returncode == 1
            assert home.aj("reindex").returncode == 0
    assert home.aj("doctor").returncode == 0
    assert traces(home) == []
    assert digest_of(PHRASE) not in vectors_of(home)
    assert home.stored() == {"claude-code:kept": before}


def test_killed_at_any_moment_it_is_there_or_gone_for_good(home: Home, tmp_path: Path) -> None:
    large(home, "kept", f"the {KEPT} digs", 700)
    large(home, "secret", PHRASE, 700)
    home.reindex()
    before = home.stored()
    undisturbed = Home(home.path, {"AJ_HOME": str(tmp_path / "undisturbed")})
    undisturbed.reindex()
    started = time.monotonic()
    assert undisturbed.aj("forget", "secret", "--yes").returncode == 0
    span = time.monotonic() - started
    for part in (0.3, 0.45, 0.6, 0.75, 0.9, None):
        process = home.start("forget", "secret", "--yes")
        if part:
            killed_after(process, part * span)
        else:
            process.communicate()
        with sqlite3.connect(home.database) as db:
            assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        db.close()
        if "claude-code:secret" in keys(home):
            assert part
            assert home.stored() == before
            continue
        assert home.aj("reindex").returncode == 0
        assert traces(home) == []
        assert home.stored() == {"claude-code:kept": before["claude-code:kept"]}
        assert home.aj("forget", "--undo", "secret").returncode == 0
        assert home.aj("reindex").returncode == 0
        before = home.stored()  # numbers of messages are others now


def test_searches_beside_it_answer(home: Home) -> None:
    large(home, "kept", f"the {KEPT} digs", 1500)
    large(home, "secret", PHRASE, 1500)
    home.reindex()
    process = home.start("forget", "secret", "--yes")
    answers = 0
    while process.poll() is None:
        ran = home.aj("search", KEPT)
        assert (ran.returncode, "aj:" in ran.stderr) == (0, False), ran.stderr
        answers += 1
    _, errors = process.communicate()
    assert (process.returncode, answers > 0) == (0, True), errors
    home.reindex()
    assert traces(home) == []


def test_forgotten_while_its_hits_are_read_it_is_no_damage(two: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process removes the session after the word index was asked, at any read of the answer's rows."""
    read = Store.rows
    with two.journal() as journal:
        expected = [(m.session.session.key, m.message.ordinal) for m in journal.search(SECRET, refresh=False).matches]
        assert len(expected) == 2

    def answered(place: int) -> tuple[list[tuple[str, int]], int]:
        """(Hits of a search, reads that it took), with the session forgotten before one of its reads."""
        reads, done = 0, False

        def watched(store: Store, sql: str, values: Any = ()) -> Any:
            nonlocal reads, done
            if store is journal.store:
                reads += 1
                if reads == place and not done:
                    done = True
                    with sqlite3.connect(two.database) as db:
                        db.execute(
                            "DELETE FROM message WHERE session = (SELECT id FROM session WHERE key LIKE '%secret')"
                        )
                        db.execute("DELETE FROM session WHERE key LIKE '%secret'")
                    db.close()
            return read(store, sql, values)

        with two.journal() as journal:
            assert journal.store
            with monkeypatch.context() as patch:
                patch.setattr(Store, "rows", watched)
                answer = journal.search(SECRET, refresh=False)
        return [(m.session.session.key, m.message.ordinal) for m in answer.matches], reads

    kept = two.database.read_bytes()
    _, count = answered(0)
    found = []
    for place in range(1, count + 1):
        found.append(answered(place)[0])
        for companion in ("-wal", "-shm"):
            Path(f"{two.database}{companion}").unlink(missing_ok=True)
        two.database.write_bytes(kept)
    assert [] in found
    assert expected in found
    assert all(hits in ([], expected) for hits in found)


def test_a_reader_that_does_not_let_go_delays_it_and_is_named(two: Home) -> None:
    db = sqlite3.connect(two.database, isolation_level=None)
    db.execute("BEGIN")
    db.execute("SELECT count(*) FROM message").fetchone()
    ran = two.aj("forget", "secret", "--yes")
    assert ran.returncode == 0
    assert ran.stderr == "another aj is reading: the journal's log is emptied by the next `aj reindex`\n"
    db.close()
    assert two.aj("doctor").returncode == 1
    assert two.aj("reindex").returncode == 0
    assert traces(two) == []
    assert two.aj("doctor").returncode == 0


def test_an_embedder_at_work_delays_the_vectors(home: Home) -> None:
    home = with_tiny(home)
    talk(home, "secret", PHRASE)
    talk(home, "kept", "lentil soup with cumin")
    home.reindex()
    with writing(home.index / "vectors", 0):
        ran = home.aj("forget", "secret", "--yes")
    assert ran.returncode == 0
    assert ran.stderr.startswith("another aj is embedding")
    assert digest_of(PHRASE) in vectors_of(home)
    home.reindex()
    assert digest_of(PHRASE) not in vectors_of(home)


def test_leftovers_of_runs_that_died_go_too(two: Home) -> None:
    for name in ("lexical.99.old", "lexical.new", ".restore-x"):
        (two.index / name).mkdir()
        (two.index / name / "meta.json").write_text(SECRET)
    forgets(two, "secret")
    assert traces(two) == []


def test_a_busy_journal_is_a_sentence(two: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forget, "PATIENCE_SECONDS", 0.1)
    with two.journal() as journal, writing(two.index, 0), pytest.raises(Exception, match="another aj is writing"):
        forget.forget(journal.store, journal.config, forget_plan.chosen(journal.store, {"claude-code:secret"}))
    assert len(keys(two)) == 2


def test_what_was_forgotten_is_found_by_the_beginning_of_its_key(two: Home) -> None:
    forgets(two, "secret", "kept")
    with two.journal() as journal:
        with pytest.raises(NoSuchSession, match="fits several"):
            forget.let_in(journal.store, ["claude"])
        assert forget.let_in(journal.store, ["kep"]) == ["claude-code:kept"]
