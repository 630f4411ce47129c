"""Codex sessions that grow: after every step the journal equals one made afresh, and ids of messages stay."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import journals
import pytest
from codex_logs import SESSION, START, Rollout, full_log, read, uuid7
from journals import contents, ids, stored

from agent_journal.config import load
from agent_journal.connectors.codex import Codex
from agent_journal.connectors.registry import SOURCE_KEYS
from agent_journal.index.lock import writing
from agent_journal.index.report import SyncReport
from agent_journal.index.scan import Look, scan
from agent_journal.index.store import Store
from agent_journal.index.sync import Sync
from agent_journal.search import Journal

SHARED = Path(__file__).parents[1].parent / "shared" / "data"
GROWTH = SHARED / "growth" / "codex"
needs_growth = pytest.mark.skipif(not GROWTH.is_dir(), reason="no snapshots of growing sessions beside the repository")


class Home:
    """A home whose journal is kept elsewhere, taken in by this one connector."""

    def __init__(self, path: Path, journal: Path) -> None:
        self.path = path
        self.environ = {"HOME": str(path), "AJ_HOME": str(journal)}
        self.config = load(self.environ, SOURCE_KEYS)

    def take_in(self) -> SyncReport:
        folder = self.config.storage.index_path
        Store.make_folder(folder)
        with writing(folder, 0.0):
            store = Store.create(folder)
            try:
                found = scan(store, [Codex()], Look(self.config, self.environ, self.path))
                return Sync(store, self.config).run(found, [Codex()])
            finally:
                store.close()

    @contextmanager
    def journal(self) -> Iterator[Journal]:
        with Journal.open(self.config, self.environ) as journal:
            yield journal


def assert_grows_as_if_read_at_once(tmp_path: Path, name: str, snapshots: list[bytes]) -> None:
    home = tmp_path / "home"
    file = home / ".codex" / "sessions" / "2026" / "05" / "04" / name
    file.parent.mkdir(parents=True)
    grown = Home(home, tmp_path / "grown")
    before: dict[tuple[str, int], int] = {}
    for number, data in enumerate(snapshots):
        file.write_bytes(data)
        grown.take_in()
        fresh = Home(home, tmp_path / f"fresh{number}")
        fresh.take_in()
        with grown.journal() as one, fresh.journal() as other:
            assert contents(one) == contents(other)
            now = ids(stored(one))
            assert {place: now[place] for place in before} == before
            before = now
        shutil.rmtree(tmp_path / f"fresh{number}")
    assert before


@needs_growth
@pytest.mark.parametrize("session", sorted(p.name for p in GROWTH.glob("*")))
def test_real_session_grows_as_if_read_at_once(tmp_path: Path, session: str) -> None:
    snapshots = [p.read_bytes() for p in sorted((GROWTH / session).glob("*.jsonl"))]
    assert len(snapshots) >= 4
    assert_grows_as_if_read_at_once(tmp_path, f"rollout-2026-05-04T07-00-00-{session}.jsonl", snapshots)


@needs_growth
def test_real_session_cut_anywhere_grows_as_if_read_at_once(tmp_path: Path) -> None:
    file = next(GROWTH.glob("019ddeed*/07.jsonl"))
    data = file.read_bytes()
    snapshots = [data[:end] for end in range(20_011, len(data), 40_009)] + [data]
    assert_grows_as_if_read_at_once(tmp_path, f"rollout-2026-05-04T07-00-00-{file.parent.name}.jsonl", snapshots)


def test_session_written_line_by_line_grows_as_if_read_at_once(tmp_path: Path) -> None:
    log = full_log()
    snapshots = ["".join(line + "\n" for line in log.lines[:end]).encode() for end in range(1, len(log.lines) + 1)]
    assert_grows_as_if_read_at_once(tmp_path, log.name, snapshots)


def test_rollout_cut_at_any_byte_holds_a_beginning_of_the_whole(tmp_path: Path) -> None:
    data = full_log().text.encode()
    path = full_log().write(tmp_path)
    whole = read(path).transcripts[0].messages
    for end in range(0, len(data), 7):
        path.write_bytes(data[:end])
        for transcript in read(path).transcripts:
            for early, late in zip(transcript.messages, whole, strict=False):
                assert (early.role, early.uuid, early.at) == (late.role, late.uuid, late.at)
                assert len(early.blocks) <= len(late.blocks)
            assert len(transcript.messages) <= len(whole)


def test_session_that_is_archived_keeps_its_messages_and_their_ids(tmp_path: Path) -> None:
    home = Home(tmp_path / "home", tmp_path / "journal")
    live = full_log().write(home.path / ".codex")
    home.take_in()
    with home.journal() as journal:
        before = stored(journal)
    archive = home.path / ".codex" / "archived_sessions"
    archive.mkdir()
    live.rename(archive / live.name)
    home.take_in()
    with home.journal() as journal:
        assert stored(journal) == before


@pytest.mark.parametrize("child_is_newer", [True, False])
def test_history_of_the_parent_is_stored_once_whichever_file_is_read_first(
    tmp_path: Path, child_is_newer: bool
) -> None:
    home = Home(tmp_path / "home", tmp_path / "journal")
    parent = Rollout().turn().user("Why does checkout fail?").says("Null total.")
    child = Rollout(uuid7(START.replace(hour=8)), START.replace(hour=8), forked_from_id=SESSION)
    child.lines += parent.lines
    child.turn().user("And refunds?").says("Null too.")
    for log, seconds in ((parent, 2000), (child, 3000 if child_is_newer else 1000)):
        os.utime(log.write(home.path / ".codex"), (seconds, seconds))  # the newest is read first
    home.take_in()
    with home.journal() as journal:
        assert {key: [m.text for _, _, m, _ in rows] for key, rows in stored(journal).items()} == {
            f"codex:{SESSION}": ["Why does checkout fail?", "Null total."],
            f"codex:{child.id}": ["And refunds?", "Null too."],
        }


def test_real_siblings_without_their_parent_show_its_history_once(real: journals.Home) -> None:
    with real.journal() as journal:
        answer = journal.search('"a single CLI entrypoint and one substantive package"', refresh=False)
    (match,) = answer.matches
    assert match.session.session.parent_session_id == "019d7d08-46c9-7f73-affe-4e6ca9852d56"
    assert len(match.also_in) == 1


def test_prompt_history_adds_only_sessions_without_a_rollout(tmp_path: Path) -> None:
    home = Home(tmp_path / "home", tmp_path / "journal")
    Rollout().turn().user("Why?").says("So.").write(home.path / ".codex")
    lines = f'{{"session_id": "{SESSION}", "ts": 1777878001, "text": "Why?"}}\n'
    lines += '{"session_id": "gone", "ts": 1777878002, "text": "What was it?"}\n'
    (home.path / ".codex" / "history.jsonl").write_text(lines)
    home.take_in()
    with home.journal() as journal:
        assert {key: [m.text for _, _, m, _ in rows] for key, rows in stored(journal).items()} == {
            f"codex:{SESSION}": ["Why?", "So."],
            "codex:gone": ["What was it?"],
        }
