"""Which of Copilot CLI's files make a source."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from copilot_logs import SESSION, Events, read

from agent_journal.connectors.copilot_cli import CopilotCli
from agent_journal.connectors.copilot_files import EVENTS, LEGACY
from agent_journal.connectors.registry import BY_NAME, CONNECTORS

OLD = '{"sessionId": "%s", "timeline": [{"id": "t1", "type": "user", "text": "%s"}]}'


def found(root: Path) -> list[tuple[str, str]]:
    sources = CopilotCli().discover(root).sources
    return [(str(s.path.relative_to(root) if root.is_dir() else s.path.name), s.kind) for s in sources]


def log(path: Path, text: str = "hi") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(Events().start(context=None, sessionId=None).user(text).text)
    return path


def test_registry_knows_copilot_by_every_name() -> None:
    assert {type(c) for c in CONNECTORS} >= {CopilotCli}
    assert isinstance(BY_NAME["copilot"], CopilotCli)
    assert isinstance(BY_NAME["copilot_cli"], CopilotCli)


def test_roots_follow_the_environment(tmp_path: Path) -> None:
    roots = CopilotCli().roots
    assert roots({}, tmp_path) == [tmp_path / ".copilot", tmp_path / ".copilot-cli"]
    assert roots({"COPILOT_HOME": "/elsewhere"}, tmp_path) == [Path("/elsewhere"), tmp_path / ".copilot-cli"]
    moved = {"XDG_STATE_HOME": str(tmp_path / "state")}
    assert roots(moved, tmp_path)[2:] == [tmp_path / "state" / ".copilot"]


def test_old_home_that_links_to_the_new_one_is_not_read_twice(tmp_path: Path) -> None:
    log(tmp_path / ".copilot" / "session-state" / "a" / "events.jsonl")
    (tmp_path / "state" / ".copilot").mkdir(parents=True)
    (tmp_path / "state" / ".copilot" / "session-state").symlink_to(tmp_path / ".copilot" / "session-state")
    roots = CopilotCli().roots({"XDG_STATE_HOME": str(tmp_path / "state")}, tmp_path)
    assert roots == [tmp_path / ".copilot", tmp_path / ".copilot-cli"]


def test_home_holds_all_generations(tmp_path: Path) -> None:
    home = tmp_path / ".copilot"
    log(home / "session-state" / "a" / "events.jsonl")
    log(home / "session-state" / "b.jsonl")
    log(home / "session-state" / "a" / "files" / "data.jsonl")
    log(home / "logs" / "c.jsonl")
    (home / "history-session-state").mkdir()
    (home / "history-session-state" / "session_d_1759276800000.json").write_text(OLD % ("d", "hi"))
    (home / "command-history-state.json").write_text("{}")
    assert found(home) == [
        ("session-state/a/events.jsonl", EVENTS),
        ("session-state/b.jsonl", EVENTS),
        ("history-session-state/session_d_1759276800000.json", LEGACY),
    ]


def test_session_in_two_folders_of_one_home_is_read_once(tmp_path: Path) -> None:
    for folder in ("session-state", "sessions"):
        log(tmp_path / folder / "a" / "events.jsonl")
    discovery = CopilotCli().discover(tmp_path)
    assert [s.path for s in discovery.sources] == [tmp_path / "session-state" / "a" / "events.jsonl"]
    assert [p for p, _ in discovery.passed] == [tmp_path / "sessions" / "a" / "events.jsonl"]


def test_root_may_be_a_folder_of_sessions_one_session_or_one_file(tmp_path: Path) -> None:
    seed = tmp_path / ".copilot-cli"
    path = log(seed / "sessions" / "a" / "events.jsonl")
    assert found(seed) == [("sessions/a/events.jsonl", EVENTS)]
    assert found(seed / "sessions") == [("a/events.jsonl", EVENTS)]
    assert found(seed / "sessions" / "a") == [("events.jsonl", EVENTS)]
    assert found(path) == [("events.jsonl", EVENTS)]
    assert read(path).transcripts[0].session.id == "a"


def test_missing_root_is_empty(tmp_path: Path) -> None:
    discovery = CopilotCli().discover(tmp_path / "nowhere")
    assert (discovery.sources, discovery.passed, discovery.unlisted) == ([], [], [])


@pytest.mark.parametrize(("flat_time", "winner"), [(5, "a/events.jsonl"), (10, "a/events.jsonl"), (20, "a.jsonl")])
def test_session_in_both_layouts_is_read_once(tmp_path: Path, flat_time: int, winner: str) -> None:
    os.utime(log(tmp_path / "a" / "events.jsonl"), (10, 10))
    os.utime(log(tmp_path / "a.jsonl"), (flat_time, flat_time))
    discovery = CopilotCli().discover(tmp_path)
    (source,) = discovery.sources
    assert source.path == tmp_path / "a.jsonl"  # as before the move, so that the journal knows it again
    assert CopilotCli().parse(source).transcripts[0].session.origin.path == str(tmp_path / winner)
    assert [p.name for p, _ in discovery.passed] == ["events.jsonl" if winner == "a.jsonl" else "a.jsonl"]


def test_change_of_workspace_yaml_changes_the_fingerprint(tmp_path: Path) -> None:
    for path in (log(tmp_path / "a" / "events.jsonl"), log(tmp_path / "b.jsonl")):
        (before,) = CopilotCli().discover(path).sources
        folder = tmp_path / path.name.removesuffix(".jsonl") if path.name == "b.jsonl" else path.parent
        folder.mkdir(exist_ok=True)
        (folder / "workspace.yaml").write_text("name: Cart\n")
        (after,) = CopilotCli().discover(path).sources
        assert before.fingerprint != after.fingerprint
        assert CopilotCli().parse(after).transcripts[0].session.title == "Cart"


def test_legacy_session_that_goes_on_in_a_log_is_one_session(tmp_path: Path) -> None:
    log(tmp_path / "session-state" / "a" / "events.jsonl", "later")
    (tmp_path / "history-session-state").mkdir()
    old = tmp_path / "history-session-state" / "session_a_1759276800000.json"
    old.write_text(OLD % ("a", "earlier"))
    (transcript,) = read(tmp_path).transcripts
    assert [m.text for m in transcript.messages] == ["earlier", "later"]
    old.write_text("{")
    reading = read(tmp_path)
    assert [m.text for m in reading.transcripts[0].messages] == ["later"]
    assert reading.bad_line_count == 1


def test_folders_named_like_files_and_broken_links_are_passed_by_name(tmp_path: Path) -> None:
    (tmp_path / "a" / "events.jsonl").mkdir(parents=True)
    (tmp_path / "b.jsonl").mkdir()
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "workspace.yaml").mkdir()
    (tmp_path / "d.jsonl").symlink_to(tmp_path / "gone")
    (tmp_path / "e").mkdir()
    (tmp_path / "e" / "events.jsonl").symlink_to(tmp_path / "e" / "events.jsonl")
    (tmp_path / "f").symlink_to(tmp_path)
    (tmp_path / "notes.txt").write_text("x")
    discovery = CopilotCli().discover(tmp_path)
    assert discovery.sources == []
    assert [str(p.relative_to(tmp_path)) for p, _ in discovery.passed] == [
        "a/events.jsonl",
        "b.jsonl",
        "c",
        "d.jsonl",
        "e/events.jsonl",
        "f",
        "notes.txt",
    ]


def test_workspace_yaml_that_is_a_folder_or_gone_is_ignored(tmp_path: Path) -> None:
    path = log(tmp_path / "a" / "events.jsonl")
    (tmp_path / "a" / "workspace.yaml").mkdir()
    assert len(read(path).transcripts) == 1
    (tmp_path / "a" / "workspace.yaml").rmdir()
    (tmp_path / "a" / "workspace.yaml").write_text("name: x")
    (source,) = CopilotCli().discover(tmp_path).sources
    (tmp_path / "a" / "workspace.yaml").unlink()
    reading = CopilotCli().parse(source)
    assert (len(reading.transcripts), reading.bad_line_count) == (1, 1)


def test_name_that_is_not_utf8_is_still_a_session(tmp_path: Path) -> None:
    try:
        log(tmp_path / os.fsdecode(b"caf\xe9") / "events.jsonl")
    except OSError:
        pytest.skip("this file system takes only UTF-8 names")
    session = read(tmp_path).transcripts[0].session
    assert session.id == "caf\ufffd"
    session.origin.path.encode("utf-8")


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="everything is readable here")
@pytest.mark.parametrize("mode", [0o000, 0o400])
@pytest.mark.parametrize("closed", [".copilot", ".copilot/session-state", f".copilot/session-state/{SESSION}"])
def test_folder_without_permission_is_unlisted_not_gone(tmp_path: Path, closed: str, mode: int) -> None:
    log(tmp_path / ".copilot" / "session-state" / SESSION / "events.jsonl")
    log(tmp_path / ".copilot" / "session-state" / "flat.jsonl")
    (tmp_path / closed).chmod(mode)
    try:
        discovery = CopilotCli().discover(tmp_path / ".copilot")
        assert [p for p, _ in discovery.unlisted if p.is_relative_to(tmp_path / closed)] != []
        assert discovery.passed == []
    finally:
        (tmp_path / closed).chmod(0o700)
