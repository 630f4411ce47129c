"""More than one home, and files that lie among projects."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import aider_logs
import cursor_cli_logs
import gemini_logs
import logs
import pytest
from journals import Home, facts

from agent_journal.connectors.base import Source, home_kind
from agent_journal.index.sync import Sync
from agent_journal.session import Transcript


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/home/ana/backup", ("local", None)),
        ("/mnt/c/Users/ana", ("windows", None)),
        (r"\\wsl$\Ubuntu\home\ana", ("wsl", "Ubuntu")),
        (r"\\wsl.localhost\Debian\home\ana", ("wsl", "Debian")),
        ("//wsl.localhost/Debian/home/ana", ("wsl", "Debian")),
    ],
)
def test_a_homes_path_tells_whose_machine_it_is(path: str, kind: tuple[str, str | None]) -> None:
    assert home_kind(path) == kind


@pytest.fixture
def two_homes(tmp_path: Path) -> Home:
    home, other = Home(tmp_path / "here"), Home(tmp_path / "there")
    home.claude(logs.user("u1", "a heron on the local machine"))
    other.claude(logs.user("u2", "a heron on the laptop"), name="6c1e3b7f-0000-4000-8000-000000000002")
    home.configure(f'[homes]\nlaptop = "{other.path}"\n')
    return home


def test_sessions_of_other_homes_are_found_and_say_so(two_homes: Home) -> None:
    two_homes.reindex()
    found = {m.message.message.text: m.session.session.origin.home for m in two_homes.search("heron").matches}
    assert found == {"a heron on the local machine": "local", "a heron on the laptop": "laptop"}
    texts = [[m.message.message.text for m in two_homes.search(q).matches] for q in ("home:laptop", "-home:laptop")]
    assert texts == [["a heron on the laptop"], ["a heron on the local machine"]]


def test_the_same_session_in_two_homes_is_one_hit(two_homes: Home, tmp_path: Path) -> None:
    Home(tmp_path / "there").claude(logs.user("u1", "a heron on the local machine"))
    two_homes.reindex()
    (match,) = two_homes.search('"local machine"').matches
    assert [place.ordinal for place in match.also_in] == [1]


def test_a_home_under_two_names_is_read_once_and_said(two_homes: Home, tmp_path: Path) -> None:
    there, link = tmp_path / "there", tmp_path / "link"
    link.symlink_to(there)
    two_homes.configure(f'[homes]\nme = "{two_homes.path}"\nlaptop = "{there}"\nagain = "{link}"\n')
    assert two_homes.reindex().notes == (
        "homes.me is the same folder as local, and read as local",
        "homes.again is the same folder as laptop, and read as laptop",
    )
    found = [(m.session.session.origin.home, m.also_in) for m in two_homes.search("heron").matches]
    assert sorted(found) == [("laptop", ()), ("local", ())]


def test_a_home_that_is_not_there_is_named(two_homes: Home, tmp_path: Path) -> None:
    two_homes.configure(f'[homes]\nlaptop = "{tmp_path / "tehre"}"\n')
    assert two_homes.reindex().notes == (f"homes.laptop: there is no folder {tmp_path / 'tehre'}",)


def test_a_place_that_somebody_named_and_that_is_not_there_is_named(two_homes: Home, tmp_path: Path) -> None:
    lost, found = tmp_path / "lost", two_homes.path / ".claude"
    two_homes.configure(
        f'[storage.sources]\nclaude_code = ["{found}", "{lost}"]\naider = "{lost}/*/.aider.chat.history.md"\n'
    )
    assert two_homes.reindex().notes == (f"storage.sources.claude_code: there is nothing at {lost}",)
    assert Home(two_homes.path, {"AJ_CLAUDE_PATH": str(lost)}).reindex().notes == (
        f"AJ_CLAUDE_PATH: there is nothing at {lost}",
    )


def test_a_search_does_not_walk_through_projects_but_follows_files_it_knows(tmp_path: Path) -> None:
    home = Home(tmp_path)
    file = tmp_path / "src" / "shop" / aider_logs.HISTORY
    file.parent.mkdir(parents=True)
    run = "\n# aider chat started at 2026-03-02 09:15:00\n\n#### why is the heron grey  \n\nIt is a bird.\n"
    file.write_text(run)
    home.reindex()
    other = tmp_path / "src" / "till" / aider_logs.HISTORY
    other.parent.mkdir()
    other.write_text(run.replace("heron", "egret"))
    file.write_text(run + "\n#### and the bittern  \n\nAlso a bird.\n")
    assert [len(home.search(word).matches) for word in ("bittern", "egret")] == [1, 0]
    home.reindex()
    assert len(home.search("egret").matches) == 1


def test_projects_that_sessions_name_are_looked_through_in_the_same_run(tmp_path: Path) -> None:
    home, project = Home(tmp_path / "home"), tmp_path / "elsewhere" / "shop"
    project.mkdir(parents=True)
    (project / aider_logs.HISTORY).write_text(
        "\n# aider chat started at 2026-03-02 09:15:00\n\n#### why is the heron grey  \n\nIt is a bird.\n"
    )
    home.claude(logs.user("u1", "hello", cwd=str(project)))
    home.reindex()
    assert [m.session.session.agent for m in home.search("heron").matches] == ["aider"]


def test_files_among_the_projects_of_another_home_are_read_for_that_home_only(two_homes: Home, tmp_path: Path) -> None:
    file = tmp_path / "there" / "src" / "shop" / aider_logs.HISTORY
    file.parent.mkdir(parents=True)
    file.write_text("\n# aider chat started at 2026-03-02 09:15:00\n\n#### why is the heron grey  \n\nIt is a bird.\n")
    two_homes.reindex()
    two_homes.reindex()
    with two_homes.journal() as journal:
        found = [session.origin.home for session, _, _ in facts(journal).values() if session.agent == "aider"]
    assert found == ["laptop"]


def test_sessions_of_windows_seen_from_wsl_say_whose_they_are(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.configure('[homes]\nwork = "/mnt/c/Users/ana"\n')
    home.claude(logs.user("u1", "hello"))
    home.reindex()
    with home.journal() as journal:
        (session, _, _) = next(iter(facts(journal).values()))
        sync = Sync(journal.store, journal.config)
        source = Source(session.agent, Path("/mnt/c/Users/ana/.claude/x.jsonl"), (), home="work")
        origin = sync._homed(Transcript(session, ()), source).session.origin
    assert (origin.type, origin.host, origin.home) == ("windows", None, "work")


def test_a_copy_in_another_home_is_neither_shown_for_this_one_nor_hides_it(two_homes: Home, tmp_path: Path) -> None:
    """A backup of a home holds what the home holds: every message stands in both."""
    Home(tmp_path / "there").claude(logs.user("u1", "a heron on the local machine"))
    two_homes.reindex()
    asked = ("home:local", "-home:laptop", "home:laptop", "-home:local", "home:local OR agent:codex")
    shown = [[m.session.session.origin.home for m in two_homes.search(f"machine ({q})").matches] for q in asked]
    assert shown == [["local"], ["local"], ["laptop"], ["laptop"], ["local"]]
    with two_homes.journal() as journal:
        listed = [[s.session.origin.home for s in journal.sessions(q).sessions] for q in asked[:4]]
    assert listed == [["local"], ["local"], ["laptop", "laptop"], ["laptop", "laptop"]]


# Folders that an agent's own files only have a hash of.


def workspaces(home: Home) -> dict[str, str | None]:
    with home.journal() as journal:
        return {session.agent: session.workspace for session, _, _ in facts(journal).values()}


def hashed_chat(home: Home) -> None:
    gemini_logs.Chat().user("why is the heron grey").write(home.path / ".gemini", gemini_logs.SHOP_HASH)


def test_a_folder_known_by_its_hash_is_the_one_that_another_session_names(tmp_path: Path) -> None:
    home = Home(tmp_path)
    hashed_chat(home)
    bucket = hashlib.md5(b"/home/ana").hexdigest()
    cursor_cli_logs.Chat(tmp_path / ".cursor", bucket=bucket).say(cursor_cli_logs.prompt("a heron")).close()
    os.utime(home.claude(logs.user("u1", "hello", cwd=gemini_logs.SHOP)), (0, 0))  # read last
    report = home.reindex()
    assert workspaces(home) == {"claude-code": "/home/ana/shop", "gemini": "/home/ana/shop", "cursor-cli": "/home/ana"}
    assert [agent.read for agent in report.agents if agent.agent == "gemini"] == [1]
    assert (report.sessions_new, report.sessions_changed) == (3, 0)
    assert home.reindex().sources_read == 0
    assert {m.session.session.agent for m in home.search("heron project:shop").matches} == {"gemini"}


def test_a_folder_that_a_later_session_names_is_filled_in_and_stays(tmp_path: Path) -> None:
    home = Home(tmp_path)
    hashed_chat(home)
    home.reindex()
    assert workspaces(home) == {"gemini": None}
    home.claude(logs.user("u1", "hello", cwd=gemini_logs.SHOP + "/src"))
    home.reindex()
    assert workspaces(home)["gemini"] == gemini_logs.SHOP
    gemini_logs.Chat().user("why is the heron grey").gemini("It is.").write(
        home.path / ".gemini", gemini_logs.SHOP_HASH
    )
    home.reindex()
    assert workspaces(home)["gemini"] == gemini_logs.SHOP


def test_a_chat_of_a_private_folder_is_kept_out_though_only_a_hash_names_it(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.claude(logs.user("u1", "hello", cwd=gemini_logs.SHOP))
    home.reindex()
    home.configure(f'[index]\nexclude = ["{gemini_logs.SHOP}"]\n')
    hashed_chat(home)
    home.reindex()
    assert "gemini" not in workspaces(home)
    assert home.reindex().sources_read == 0
