"""The editor's database of all chats of a machine: what changed is read, and what a chat's mark depends on."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from cursor_ide_logs import COMPOSER, State, bubble, placed, workspace
from cursor_ide_logs import OTHER as OTHER_CHAT
from hypothesis import given, settings
from hypothesis import strategies as st
from journals import Home, contents
from junk import RELAXED
from shared_databases import changed, health, read_again


def editor(home: Home) -> Path:
    return home.path / ".config" / "Cursor" / "User"


def wrong(home: Home) -> None:
    """As misprint() does."""
    with changed(editor(home) / "globalStorage" / "state.vscdb") as db:
        db.execute("UPDATE cursorDiskKV SET value = replace(value, 'Tell me', 'Told me') WHERE key LIKE 'bubbleId:%'")


@pytest.fixture
def chats(home: Home) -> Home:
    state = State(editor(home))
    state.composer(bubble("a", 1, "Tell me of the heron"), bubble("b", 2, "A heron it is"))
    state.composer(bubble("a", 1, "Tell me of the stork"), composer_id=OTHER_CHAT).close()
    home.reindex()
    return home


def test_only_the_chat_that_changed_is_read_again(chats: Home) -> None:
    wrong(chats)
    state = State(editor(chats))
    state.put(f"bubbleId:{OTHER_CHAT}:a", bubble("a", 1, "Told me of the stork and more")).close()
    report = chats.reindex()
    assert (report.sources_read, report.sessions_changed, report.messages_changed) == (1, 1, 1)
    assert read_again(chats) == [OTHER_CHAT]
    chats.reindex(full=True)
    assert read_again(chats) == [COMPOSER, OTHER_CHAT]


def test_what_stands_beside_a_chat_is_part_of_its_mark(chats: Home, tmp_path: Path) -> None:
    """Its header, the workspace that lists it, the chat that started it: each changes it without touching it."""
    user_folder = editor(chats)
    key, other = f"cursor-ide:{COMPOSER}", f"cursor-ide:{OTHER_CHAT}"

    def session(name: str) -> Any:
        chats.reindex()
        with chats.journal() as journal:
            return journal.session(name).session

    listed = {"composer.composerData": {"allComposers": [{"composerId": COMPOSER}]}}
    workspace(user_folder, "file:///home/me/listed", **listed).close()
    state = State(user_folder)
    state.put("unrelated", "x")
    assert session(key).workspace == "/home/me/listed"
    state.header(name="From the header", workspaceIdentifier=placed("/home/me/placed"))
    assert session(key).workspace == "/home/me/placed"
    state.composer(
        bubble("a", 1, "Tell me of the heron"), bubble("b", 2, "A heron it is"), subagentComposerIds=[OTHER_CHAT]
    )
    state.close()
    chats.reindex()
    assert list(chats.stored()) == [key, f"{key}/agent-{OTHER_CHAT}", other]


def test_bubbles_of_no_chat_are_counted_once(chats: Home) -> None:
    state = State(editor(chats))
    state.put("bubbleId:gone:b1", bubble("b1", 1, "of a chat that was deleted"))
    state.put(f"bubbleId:{COMPOSER}:unlisted", bubble("unlisted", 1, "not in its chat's order"))
    for number in range(2):
        state.put(f"bubbleId:{OTHER_CHAT}:a", bubble("a", 1, "Tell me more" + "!" * number))
        chats.reindex()
        assert health(chats, "cursor-ide").skipped == {"bubble/of no chat": 2}
    state.db.execute("DELETE FROM cursorDiskKV WHERE key LIKE 'bubbleId:gone:%'")
    state.close()
    chats.reindex()
    assert health(chats, "cursor-ide").skipped == {"bubble/of no chat": 1}


@settings(RELAXED, max_examples=12)
@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 3), st.sampled_from("abc")), min_size=1, max_size=6))
def test_journal_that_followed_the_editor_equals_a_fresh_one(steps: list[tuple[str, int, str]]) -> None:
    """Each step a chat, how many answers it has, and the chat it says it started: the first time it is told, for a
    chat that is somebody's sub-agent only later is a session of its own until then."""
    with tempfile.TemporaryDirectory() as folder:
        home = Home(Path(folder) / "home", {"AJ_HOME": str(Path(folder) / "aj")})
        state = State(editor(home))
        for name, answers, title in steps:
            asked = bubble("q", 1, "Tell me", createdAt=1786948300000)
            told = [bubble(f"b{n}", 2, f"answer {n}", createdAt=1786948300000 + n) for n in range(answers)]
            state.composer(asked, *told, composer_id=name, name=title * (answers + 1))
            home.reindex()
        state.close()
        home.reindex()
        expected = {key: len(rows) for key, rows in home.stored().items()}
        assert set(expected) == {f"cursor-ide:{name}" for name, _, _ in steps}
        fresh = Home(home.path, {"AJ_HOME": str(Path(folder) / "fresh")})
        fresh.reindex()
        last = {name: answers for name, answers, _ in steps}
        with home.journal() as one, fresh.journal() as other:
            grown, whole = contents(one), contents(other)
        for name, answers in last.items():
            key = f"cursor-ide:{name}"
            assert grown[0][key][0] == whole[0][key][0]
            assert [row for row in grown[1][key] if not row[2]] == whole[1][key]
            assert len(whole[1][key]) == answers + 1


def test_a_chat_without_a_name_is_counted_beside_what_belongs_to_none(chats: Home) -> None:
    state = State(editor(chats))
    state.composer(bubble("a", 1, "Tell me of the crane"), composer_id="").put("bubbleId:gone:b1", bubble("b1", 1, "x"))
    state.db.execute("UPDATE cursorDiskKV SET value = '{' WHERE key = 'bubbleId::a'")
    state.close()
    for read in (1, 0):
        assert chats.reindex().sources_read == read
        found = health(chats, "cursor-ide")
        assert (found.bad_lines, found.skipped["bubble/of no chat"]) == (1, 2)
