"""A journal fed in steps equals the journal of the whole files, ids never change, and nothing stored is ever lost."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from copilot_logs import full_log
from hypothesis import given, settings
from hypothesis import strategies as st
from journals import SHARED_HOME, Home, contents, hits, ids, without_ids
from logs import CWD, SESSION, assistant, lines, text, thinking, tool_result, tool_use, user
from test_claude_growth import RECORDS

FIXTURE = Path(__file__).parent / "fixtures" / "claude" / "checkout.jsonl"
OTHER = "0a0b0c0d-1111-4222-8333-444455556666"
WHEN = 1_750_000_000

CLAUDE_FILES = (
    "-Users-roblou-code-vscode-copilot-chat/b02ed4d8-1f00-45cc-949f-3ea63b2dbde2.jsonl",
    "-Users-jesse-fixture/short-conversation.jsonl",
    "-Users-soph-Work-entire-devenv-cli/488c5296-fc78-4fdf-8cfd-f1cae9454bd0.jsonl",
    "-Users-nodo-work-entire-git-sync/be1a18de-2cb7-4306-972b-1c58b5256718.jsonl",
    "-Users-soph-Work-entire-devenv-git-sync/4746b2b9-d72d-4d6a-81af-a70ba92e9c94.jsonl",
    "-Users-gtrrz-victor-wks-gitsync/88db7fea-797f-49be-9036-c762ae804ce0.jsonl",
)
COPILOT_FILES = ("1afc31c8-d97f-4331-bae9-b6417f1b79a9", "832dd140-8fac-433c-a45a-d29e7b1a4a39")


def put(path: Path, data: bytes) -> None:
    """Always with the same time: what a session without times falls back to must not tell two journals apart."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    os.utime(path, (WHEN, WHEN))


def journal_of_whole(folder: Path, place: Path, data: bytes, queries: Sequence[str]) -> Any:
    home = Home(folder)
    put(folder / place, data)
    home.reindex()
    with home.journal() as journal:
        return contents(journal), [hits(journal.search(query, limit=500)) for query in queries]


def assert_steps_equal_whole(
    folder: Path, place: Path, data: bytes, cuts: Iterable[int], queries: Sequence[str]
) -> None:
    """`place` is where the agent keeps the file, below the home folder."""
    home_path = folder / "home"
    whole = journal_of_whole(home_path, place, data, queries)
    (folder / "home").rename(folder / "whole")
    home = Home(home_path)
    before: dict[tuple[str, int], int] = {}
    for cut in [*cuts, len(data)]:
        put(home_path / place, data[:cut])
        with home.journal() as journal:
            journal.reindex()
        now = ids(home.stored())
        assert before.items() <= now.items(), f"an id changed at byte {cut}"
        before = now
    with home.journal() as journal:
        assert contents(journal) == whole[0]
        assert [hits(journal.search(query, limit=500)) for query in queries] == whole[1]


def words_of(data: bytes) -> list[str]:
    """Some words of the file, to search for."""
    found = re.findall(rb"[A-Za-z]{5,12}", data)
    return sorted({word.decode().lower() for word in found[:: max(1, len(found) // 12)]})


def line_cuts(data: bytes, most: int) -> list[int]:
    """Ends of lines, and places inside the lines between them."""
    ends = [i + 1 for i, byte in enumerate(data) if byte == 10]
    step = max(1, 2 * len(ends) // most)
    return sorted({*ends[::step], *(max(end - 7, 0) for end in ends[step // 2 :: step])})


CLAUDE_PLACE = Path(".claude", "projects", "-home-ana-shop", f"{SESSION}.jsonl")


def test_fixture_cut_at_every_line_and_inside_them_equals_the_whole(tmp_path: Path) -> None:
    data = FIXTURE.read_bytes()
    assert_steps_equal_whole(
        tmp_path, CLAUDE_PLACE, data, line_cuts(data, 1000), ["checkout", "cart empty", "is:error"]
    )


def test_records_of_every_kind_cut_at_every_line_equal_the_whole(tmp_path: Path) -> None:
    data = lines(RECORDS)
    assert_steps_equal_whole(
        tmp_path, CLAUDE_PLACE, data, line_cuts(data, 1000), ["early", "found", "why", "compacted"]
    )


def test_copilot_log_cut_at_every_line_and_inside_them_equals_the_whole(tmp_path: Path) -> None:
    data = full_log().text.encode()
    place = Path(".copilot", "session-state", OTHER, "events.jsonl")
    assert_steps_equal_whole(tmp_path, place, data, line_cuts(data, 1000), ["checkout", "refund", "failing", "cart"])


# Streamed answers, results far behind their calls, and records without ids of their own.
SAID: list[dict[str, Any]] = [
    user("u1", "Why is the pelican blue?"),
    assistant("a1", thinking("Feathers perhaps"), id="m1", out=1, parent="u1"),
    assistant("a2", text("Because of its feathers."), id="m1", out=7, parent="a1"),
    assistant("a3", tool_use("t1", "Bash", command="ls feathers"), tool_use("t2", "Read", file_path="/a"), id="m2"),
    user("r2", [tool_result("t2", "second answered first")], parent="a3"),
    user("u2", "And the flamingo?", parent="r2"),
    user("r1", [tool_result("t1", "late feathers", is_error=True)], parent="a3"),
    assistant("a4", text("Shrimps."), id="m3", parent="r1"),
    {k: v for k, v in user("x", "Nobody numbered this").items() if k != "uuid"},
    {k: v for k, v in assistant("y", tool_use("t3", command="pwd"), id="m4").items() if k != "uuid"},
    {k: v for k, v in user("z", [tool_result("t3", "/home/ana")]).items() if k != "uuid"},
    {k: v for k, v in user("x", "Nobody numbered this").items() if k != "uuid"},
    {"type": "summary", "summary": "Colours of birds", "leafUuid": "a4"},
    {"type": "custom-title", "customTitle": "Plumage", "sessionId": SESSION},
]


@settings(max_examples=15, deadline=None)
@given(st.permutations(SAID), st.data())
def test_records_in_any_order_cut_anywhere_equal_the_whole(records: list[dict[str, Any]], data: st.DataObject) -> None:
    whole = lines(records)
    cuts = sorted(data.draw(st.sets(st.integers(0, len(whole)), min_size=1, max_size=6)))
    with tempfile.TemporaryDirectory() as folder:
        assert_steps_equal_whole(Path(folder), CLAUDE_PLACE, whole, cuts, ["feathers", "plumage", "numbered"])


@settings(max_examples=10, deadline=None)
@given(st.data())
def test_copilot_log_cut_anywhere_equals_the_whole(data: st.DataObject) -> None:
    whole = full_log().text.encode()
    cuts = sorted(data.draw(st.sets(st.integers(0, len(whole)), min_size=1, max_size=6)))
    place = Path(".copilot", "session-state", OTHER, "events.jsonl")
    with tempfile.TemporaryDirectory() as folder:
        assert_steps_equal_whole(Path(folder), place, whole, cuts, ["checkout", "refund"])


@pytest.mark.skipif(not SHARED_HOME.is_dir(), reason="no shared data")
@pytest.mark.parametrize("name", CLAUDE_FILES)
def test_real_claude_file_in_steps_equals_the_whole(tmp_path: Path, name: str) -> None:
    place = Path(".claude", "projects", name)
    data = (SHARED_HOME / place).read_bytes()
    assert_steps_equal_whole(tmp_path, place, data, line_cuts(data, 24), words_of(data))


@pytest.mark.skipif(not SHARED_HOME.is_dir(), reason="no shared data")
@pytest.mark.parametrize("name", COPILOT_FILES)
def test_real_copilot_file_in_steps_equals_the_whole(tmp_path: Path, name: str) -> None:
    place = Path(".copilot", "session-state", name, "events.jsonl")
    data = (SHARED_HOME / place).read_bytes()
    assert_steps_equal_whole(tmp_path, place, data, line_cuts(data, 24), words_of(data))


# --- files that lose something ---------------------------------------------------------------------------


def talk(*words: str, session: str = SESSION) -> list[dict[str, Any]]:
    """A prompt for each word, each with its answer."""
    return [
        record
        for n, word in enumerate(words)
        for record in (
            user(f"u-{word}", f"Tell me of the {word}", sessionId=session, timestamp=f"2026-03-02T09:{n:02}:00.000Z"),
            assistant(f"a-{word}", text(f"A {word} it is"), sessionId=session),
        )
    ]


def test_shortened_file_loses_nothing_that_was_stored(home: Home) -> None:
    records = [*talk("heron", "stork", "crane"), {"type": "custom-title", "customTitle": "Long legs"}]
    home.claude(*records)
    home.reindex()
    before = home.stored()
    home.claude(*talk("heron"))
    home.reindex()
    (rows,) = home.stored().values()
    (old,) = before.values()
    assert rows == [(n, o, m, o > 2) for n, o, m, _ in old]
    assert sorted(m.message.ordinal for m in home.search("stork").matches) == [3, 4]
    with home.journal() as journal:
        assert journal.session(SESSION).session.title == "Long legs"
    home.claude(*records)
    home.reindex()
    assert home.stored() == before


def test_emptied_file_keeps_its_session(home: Home) -> None:
    path = home.claude(*talk("heron"))
    home.reindex()
    before = without_ids(home.stored())
    path.write_bytes(b"")
    home.reindex()
    assert {k: [(o, m) for o, m, _ in v] for k, v in without_ids(home.stored()).items()} == {
        k: [(o, m) for o, m, _ in v] for k, v in before.items()
    }
    assert home.search("heron").total.messages == 2


def test_file_replaced_by_another_conversation_keeps_both(home: Home) -> None:
    home.claude(*talk("heron", "stork"))
    home.reindex()
    home.claude(*talk("wren"))
    home.reindex()
    (rows,) = home.stored().values()
    assert [(o, m.text, vanished) for _, o, m, vanished in rows] == [
        (1, "Tell me of the heron", True),
        (2, "A heron it is", True),
        (3, "Tell me of the stork", True),
        (4, "A stork it is", True),
        (5, "Tell me of the wren", False),
        (6, "A wren it is", False),
    ]
    assert {m.message.ordinal for m in home.search("heron OR wren").matches} == {1, 2, 5, 6}


def test_tool_result_that_a_rewritten_file_dropped_is_kept(home: Home) -> None:
    asked = [user("u1", "Run it"), assistant("a1", tool_use("t1", command="make"))]
    home.claude(*asked, user("r1", [tool_result("t1", "all green")]))
    home.reindex()
    home.claude(*asked, user("u2", "More"))
    home.reindex()
    (rows,) = home.stored().values()
    assert [c.result for _, _, m, _ in rows for c in m.tool_calls] == ["all green"]
    assert [m.message.ordinal for m in home.search("green").matches] == [2]


def test_two_live_files_with_one_session_id_are_two_sessions(home: Home) -> None:
    first = home.claude(*talk("heron"))
    home.claude(*talk("wren"), project="-home-ana-other")
    home.reindex()
    assert [[m.text for _, _, m, _ in rows] for rows in home.stored().values()] == [
        ["Tell me of the heron", "A heron it is"],
        ["Tell me of the wren", "A wren it is"],
    ] or [[m.text for _, _, m, _ in rows] for rows in home.stored().values()] == [
        ["Tell me of the wren", "A wren it is"],
        ["Tell me of the heron", "A heron it is"],
    ]
    keys = list(home.stored())
    assert keys[0] == f"claude-code:{SESSION}"
    assert keys[1].startswith(f"claude-code:{SESSION}~")
    before = ids(home.stored())
    first.unlink()
    home.claude(*talk("wren", "robin"), project="-home-ana-other")
    home.reindex()
    assert before.items() <= ids(home.stored()).items()
    assert sorted(len(rows) for rows in home.stored().values()) == [2, 4]


def test_moved_file_stays_one_session(home: Home) -> None:
    path = home.claude(*talk("heron"))
    home.reindex()
    before = home.stored()
    target = home.claude_path(project="-home-ana-moved")
    target.parent.mkdir(parents=True)
    path.rename(target)
    home.reindex()
    assert home.stored() == before
    with home.journal() as journal:
        assert not journal.session(SESSION).gone


# --- forks -----------------------------------------------------------------------------------------------


def test_fork_is_one_hit_that_names_both_sessions(home: Home) -> None:
    shared = talk("heron")
    home.claude(*shared)
    home.claude(*shared, *talk("stork"), name=OTHER)
    home.reindex()
    (match,) = home.search("heron in:user").matches
    assert match.session.session.key == f"claude-code:{SESSION}"
    assert [(p.session, p.ordinal) for p in match.also_in] == [(f"claude-code:{OTHER}", 1)]
    assert home.search("heron in:user").total.messages == 1
    (only,) = home.search(f"heron in:user session:{OTHER}").matches
    assert only.session.session.key == f"claude-code:{OTHER}"


def test_fork_taken_in_later_joins_the_hit(home: Home) -> None:
    shared = talk("heron")
    home.claude(*shared)
    home.reindex()
    home.claude(*shared, *talk("stork"), name=OTHER)
    home.reindex()
    (match,) = home.search("heron in:user").matches
    assert [(p.session, p.ordinal) for p in match.also_in] == [(f"claude-code:{OTHER}", 1)]


def test_copy_that_changes_leaves_the_hit(home: Home) -> None:
    shared = [user("u1", "Look at the heron"), assistant("a1", tool_use("t1", command="heron"))]
    home.claude(*shared)
    home.claude(*shared, name=OTHER)
    home.reindex()
    assert home.search("heron in:tool").total.messages == 1
    home.claude(*shared, user("r1", [tool_result("t1", "egret")]), name=OTHER)
    home.reindex()
    found = home.search("heron in:tool").matches
    assert sorted((m.session.session.key, m.also_in) for m in found) == [
        (f"claude-code:{OTHER}", ()),
        (f"claude-code:{SESSION}", ()),
    ]


# --- the prompt history ----------------------------------------------------------------------------------


def prompt(words: str, session: str | None = SESSION, at: int = 1_772_442_900_000) -> dict[str, Any]:
    record = {"display": words, "pastedContents": {}, "timestamp": at, "project": CWD}
    return record | ({"sessionId": session} if session else {})


def test_history_prompt_without_transcript_is_found(home: Home) -> None:
    home.history(prompt("where is the bittern"), prompt("an old ibis", None))
    home.reindex()
    (match,) = home.search("bittern").matches
    assert (match.session.session.key, match.message.ordinal) == (f"claude-code:{SESSION}", 1)
    assert home.search("ibis").total.messages == 1


def test_history_prompt_gives_way_when_its_transcript_appears(home: Home, tmp_path: Path) -> None:
    home.history(prompt("Tell me of the heron"))
    home.reindex()
    assert home.search("heron").total.messages == 1
    home.claude(*talk("heron"))
    home.reindex()
    alone = Home(tmp_path / "alone")
    alone.claude(*talk("heron"))
    alone.reindex()
    assert without_ids(home.stored()) == without_ids(alone.stored())
    assert home.search("heron in:user").total.messages == 1
    home.history(prompt("Tell me of the heron"), prompt("Tell me of the stork"))
    home.reindex()
    assert without_ids(home.stored()) == without_ids(alone.stored())


def test_prompt_that_the_transcript_does_not_hold_is_kept(home: Home) -> None:
    home.history(prompt("Tell me of the heron"), prompt("a prompt that was taken back"))
    home.reindex()
    home.claude(*talk("heron"))
    home.reindex()
    (rows,) = home.stored().values()
    assert sorted(m.text for _, _, m, _ in rows) == [
        "A heron it is",
        "Tell me of the heron",
        "a prompt that was taken back",
    ]


@pytest.mark.parametrize("touched", [False, True], ids=["history unchanged", "history grew"])
def test_old_prompt_without_session_id_gives_way_to_a_transcript(home: Home, touched: bool) -> None:
    old = [prompt("Tell me of the heron", None), prompt("an old ibis", None)]
    home.history(*old)
    home.reindex()
    home.claude(*talk("heron"))
    if touched:
        home.history(*old, prompt("a newer prompt", None))
    home.reindex()
    (match,) = home.search("heron in:user").matches
    assert match.session.session.key == f"claude-code:{SESSION}"
    assert home.search("ibis").total.messages == 1


def test_history_read_in_steps_equals_the_whole(tmp_path: Path) -> None:
    data = lines([prompt(f"prompt of bird {n}", session) for n in range(6) for session in (SESSION, None)])
    place = Path(".claude", "history.jsonl")
    assert_steps_equal_whole(tmp_path, place, data, line_cuts(data, 100), ["bird"])


def test_echoed_subagent_gives_way_to_its_own_file(home: Home) -> None:
    from logs import agent_progress

    inner = (user("g1", "look for egrets"), assistant("g2", text("found an egret")))
    main = [
        user("u1", "Delegate"),
        assistant("a1", tool_use("t1", "Task", prompt="look for egrets")),
        agent_progress("p1", "abc", "t1", *inner),
    ]
    home.claude(*main)
    home.reindex()
    key = f"claude-code:{SESSION}/agent-abc"
    before = {k: v for k, v in ids(home.stored()).items() if k[0] == key}
    assert before
    agent = home.claude_path().with_suffix("") / "subagents" / "agent-abc.jsonl"
    put(agent, lines([{**r, "isSidechain": True, "agentId": "abc"} for r in (*inner, assistant("g3", text("done")))]))
    home.reindex()
    rows = home.stored()[key]
    assert [m.text for _, _, m, _ in rows] == ["look for egrets", "found an egret", "done"]
    assert before.items() <= ids(home.stored()).items()


def test_cuts_are_in_order() -> None:
    cuts = line_cuts(lines(SAID), 1000)
    assert all(a < b for a, b in pairwise(cuts))
