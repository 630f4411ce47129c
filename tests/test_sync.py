"""The incremental loop: what is read, what is remembered, what is rebuilt, and what is never touched."""

from __future__ import annotations

import json
import os
import shutil
import stat
from pathlib import Path
from typing import Any

import pytest
from copilot_logs import full_log
from journals import Home, contents, hits, tree
from logs import SESSION, assistant, text, tool_result, tool_use, user

from agent_journal.connectors.claude_code import ClaudeCode
from agent_journal.connectors.registry import CONNECTORS
from agent_journal.index import schema

BIRDS = ("heron", "stork", "crane")
REBUILT = "rebuilt from the journal"


def id_of(bird: str) -> str:
    return f"{bird}-0000-4000-8000-000000000000"


def talk(bird: str, *more: dict[str, Any], cwd: str = "/home/ana/shop") -> list[dict[str, Any]]:
    return [
        user(f"u-{bird}", f"Tell me of the {bird}", cwd=cwd),
        assistant(f"a-{bird}", text(f"A {bird} it is"), tool_use(f"t-{bird}", command=f"find {bird}"), cwd=cwd),
        user(f"r-{bird}", [tool_result(f"t-{bird}", f"nest of the {bird}")], cwd=cwd),
        *more,
    ]


@pytest.fixture
def birds(home: Home) -> Home:
    """Three sessions, indexed."""
    for bird in BIRDS:
        home.claude(*talk(bird), name=id_of(bird))
    home.reindex()
    return home


def found(home: Home, query: str, **options: Any) -> list[tuple[str, int]]:
    return sorted((m.session.session.id, m.message.ordinal) for m in home.search(query, **options).matches)


# --- what is read ----------------------------------------------------------------------------------------


def test_nothing_changed_reads_nothing(birds: Home) -> None:
    before = birds.stored()
    report = birds.reindex()
    assert (report.sources_seen, report.sources_read, report.messages_new, report.messages_changed) == (3, 0, 0, 0)
    assert birds.stored() == before


def test_one_grown_file_is_the_only_one_read(birds: Home) -> None:
    birds.claude(*talk("stork", user("u9", "And its chicks?")), name=id_of("stork"))
    report = birds.reindex()
    assert (report.sources_read, report.sessions_changed, report.messages_new, report.messages_changed) == (1, 1, 1, 0)
    assert found(birds, "chicks") == [(id_of("stork"), 3)]


def test_search_takes_in_what_changed_before_it_answers(birds: Home) -> None:
    birds.claude(*talk("wren"), name=id_of("wren"))
    assert found(birds, "wren in:user") == [(id_of("wren"), 1)]


def test_search_without_refresh_looks_at_nothing(birds: Home) -> None:
    birds.claude(*talk("wren"), name=id_of("wren"))
    assert found(birds, "wren", refresh=False) == []


def test_reindex_of_one_agent_leaves_the_others(home: Home) -> None:
    home.claude(*talk("heron"))
    full_log().write(home.path / ".copilot")
    report = home.reindex(agent="copilot-cli")
    assert [(a.agent, a.read) for a in report.agents] == [("copilot-cli", 1)]
    assert [key.partition(":")[0] for key in home.stored()] == ["copilot-cli"] * len(home.stored())
    home.claude_path().unlink()
    assert home.reindex(agent="copilot-cli").gone == 0


def test_new_parser_version_reads_again(birds: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    before = birds.stored()
    monkeypatch.setattr(ClaudeCode, "parser_version", ClaudeCode.parser_version + 1)
    report = birds.reindex()
    assert (report.sources_read, report.messages_new, report.messages_changed) == (3, 0, 0)
    assert birds.stored() == before
    assert birds.reindex().sources_read == 0


def test_the_same_folder_under_two_names_is_read_once(home: Home) -> None:
    home.claude(*talk("heron"))
    (home.path / ".config").mkdir()
    (home.path / ".config" / "claude").symlink_to(home.path / ".claude")
    report = home.reindex()
    assert (report.sources_read, report.sessions_new) == (1, 1)
    assert list(home.stored()) == [f"claude-code:{SESSION}"]


def test_file_whose_name_is_not_text_is_indexed_once(home: Home) -> None:
    name = os.fsdecode(b"caf\xe9-0000")
    path = home.claude(*talk("heron"), name=name)
    report = home.reindex()
    assert (report.sources_read, report.sources_failed) == (1, 0)
    assert home.search("heron").total.messages == 2
    assert home.reindex().sources_read == 0
    path.unlink()
    assert home.reindex().gone == 1
    assert [m.session.gone for m in home.search("heron in:user").matches] == [True]


# --- failures --------------------------------------------------------------------------------------------


def legacy(home: Home, name: str, data: str) -> Path:
    """A session that is one JSON document: half of it is unreadable."""
    path = home.path / ".copilot" / "history-session-state" / f"session_{name}_1759276800000.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(data)
    return path


def document(words: str) -> str:
    said = [{"role": "user", "content": words}, {"role": "assistant", "content": "ok"}]
    return json.dumps({"sessionId": "9a1b", "chatMessages": said})


def test_failure_is_named_remembered_and_tried_again_when_the_file_changes(birds: Home) -> None:
    path = legacy(birds, "9a1b", '{"sessionId": "9a')
    birds.claude(*talk("wren"), name=id_of("wren"))
    report = birds.reindex()
    assert (report.sources_read, report.sources_failed, report.sessions_new) == (2, 1, 1)
    (failure,) = [f for agent in report.agents for f in agent.failures]
    assert failure[0] == str(path)
    assert birds.reindex().sources_read == 0
    with birds.journal() as journal:
        health = journal.doctor()
        assert not health.ok
        assert [p for agent in health.agents for p, _ in agent.problems] == [str(path)]
    path.write_text(document("a kestrel hovers"))
    assert birds.reindex().sources_failed == 0
    assert birds.search("kestrel").total.messages == 1
    with birds.journal() as journal:
        assert journal.doctor().ok


def test_file_that_becomes_unreadable_keeps_its_last_good_transcript(home: Home) -> None:
    path = legacy(home, "9a1b", document("a kestrel hovers"))
    home.reindex()
    before = home.stored()
    path.write_text('{"sessionId": "9a')
    assert home.reindex().sources_failed == 1
    assert home.stored() == before
    assert home.search("kestrel").total.messages == 1


# --- sources that go and come back -----------------------------------------------------------------------


def test_deleted_source_is_still_found_shown_whole_and_marked_gone(birds: Home) -> None:
    before = birds.stored()
    path = birds.claude_path(id_of("stork"))
    data = path.read_bytes()
    path.unlink()
    assert birds.reindex().gone == 1
    (match,) = birds.search("stork in:user").matches
    assert match.session.gone
    assert found(birds, "is:gone") == [(id_of("stork"), 1), (id_of("stork"), 2)]
    assert found(birds, "-is:gone in:user") == [(id_of("crane"), 1), (id_of("heron"), 1)]
    assert birds.stored() == before
    shown = birds.aj("show", id_of("stork"), "--full")
    assert shown.returncode == 0
    assert "nest of the stork" in shown.stdout
    path.write_bytes(data)
    birds.reindex()
    assert found(birds, "is:gone") == []
    assert birds.stored() == before


def test_source_that_comes_back_unchanged_is_not_read_again(birds: Home, tmp_path: Path) -> None:
    path = birds.claude_path(id_of("stork"))
    path.rename(tmp_path / "aside")
    birds.reindex()
    (tmp_path / "aside").rename(path)
    assert birds.reindex().sources_read == 0
    assert found(birds, "is:gone") == []


def test_search_alone_notices_that_a_source_went(birds: Home) -> None:
    birds.claude_path(id_of("stork")).unlink()
    assert found(birds, "is:gone in:user") == [(id_of("stork"), 1)]


def test_full_reads_everything_again_and_keeps_what_is_gone(birds: Home) -> None:
    before = birds.stored()
    birds.claude_path(id_of("stork")).unlink()
    report = birds.reindex(full=True)
    assert (report.sources_read, report.gone, report.messages_new, report.messages_changed) == (2, 1, 0, 0)
    assert birds.stored() == before
    assert found(birds, "stork in:user") == [(id_of("stork"), 1)]


def test_whole_home_gone_loses_nothing(birds: Home) -> None:
    before = birds.stored()
    shutil.rmtree(birds.path / ".claude")
    assert birds.reindex(full=True).gone == 3
    assert birds.stored() == before


# --- private projects ------------------------------------------------------------------------------------


def private_home(home: Home) -> None:
    home.claude(*talk("heron"), name=id_of("heron"))
    home.claude(*talk("stork", cwd="/home/ana/secret/deep"), name=id_of("stork"), project="-home-ana-secret-deep")
    home.claude(*talk("crane", cwd="/home/ana/secret"), name=id_of("crane"), project="-home-ana-secret")
    prompt = {"display": "a secret bittern", "timestamp": 1_772_442_900_000, "project": "/home/ana/secret"}
    home.history(prompt, prompt | {"display": "an open ibis", "project": "/home/ana/shop"})


SECRET = "/home/ana/secret"
SECRETS = [SECRET, f"{SECRET}/", f"{SECRET}/*", f"{SECRET}/**", "/home/ana/sec*", "*/secret*"]


@pytest.mark.parametrize("pattern", SECRETS)
def test_excluded_workspace_never_reaches_the_journal(home: Home, pattern: str) -> None:
    private_home(home)
    home.configure(f'[index]\nexclude = ["{pattern}"]\n')
    home.reindex()
    assert found(home, "tell in:user") == [(id_of("heron"), 1)]
    assert home.search("bittern").total.messages == 0
    assert home.search("ibis").total.messages == 1
    stored = b"".join(content for _, _, content in tree(home.index).values())
    assert b"secret" not in stored.replace(str(home.path).encode(), b"").replace(b"-home-ana-secret", b"")


def test_excluding_a_folder_does_not_exclude_one_that_only_begins_like_it(home: Home) -> None:
    home.claude(user("u1", "a heron", cwd="/home/ana/secret-notes"), project="-home-ana-secret-notes")
    home.configure('[index]\nexclude = ["/home/ana/secret/**"]\n')
    home.reindex()
    assert home.search("heron").total.messages == 1


def test_what_was_stored_before_it_was_excluded_is_neither_found_nor_listed(home: Home) -> None:
    private_home(home)
    home.reindex()
    assert home.search("crane").total.messages > 0
    home.configure(f'[index]\nexclude = ["{SECRET}"]\n')
    answer = home.search("crane")
    with home.journal() as journal:
        listed = [s.session.workspace for s in journal.sessions(limit=50).sessions]
    assert (answer.total.messages, SECRET in listed) == (0, False)
    home.configure("")
    assert home.search("crane").total.messages > 0


def test_excluded_file_glob_is_not_even_opened(home: Home) -> None:
    private_home(home)
    home.configure(f'[index]\nexclude = ["{home.path}/.claude/projects/-home-ana-secret*"]\n')
    report = home.reindex()
    assert report.sources_read == 2
    passed = [p for agent in report.agents for p in agent.passed]
    assert sorted((Path(p).stem, why) for p, why in passed) == [
        (id_of("crane"), "excluded by index.exclude"),
        (id_of("stork"), "excluded by index.exclude"),
    ]


def test_workspace_no_longer_excluded_is_read_without_being_asked(home: Home) -> None:
    private_home(home)
    home.configure('[index]\nexclude = ["/home/ana/secret/*", "/home/ana/secret"]\n')
    home.reindex()
    assert home.reindex().sources_read == 0
    home.configure("")
    home.reindex()
    assert found(home, "tell in:user") == [(id_of(b), 1) for b in ("crane", "heron", "stork")]
    assert home.search("bittern").total.messages == 1
    assert home.reindex().sources_read == 0


# --- the word index is derived ---------------------------------------------------------------------------


@pytest.mark.parametrize("refresh", [True, False])
def test_deleted_word_index_is_rebuilt_by_the_next_search_which_says_so(birds: Home, refresh: bool) -> None:
    before = hits(birds.search("nest"))
    shutil.rmtree(birds.index / "lexical")
    answer = birds.search("nest", refresh=refresh)
    assert hits(answer) == before
    assert answer.notes == (f"the word index is missing: {REBUILT}",)
    assert birds.search("nest", refresh=refresh).notes == ()


def test_rebuilding_needs_no_source(birds: Home) -> None:
    before = hits(birds.search("nest"))
    shutil.rmtree(birds.path / ".claude")
    shutil.rmtree(birds.index / "lexical")
    assert hits(birds.search("nest")) == before


def segment_files(home: Home, ending: str) -> list[Path]:
    found = list((home.index / "lexical").glob(f"*{ending}"))
    assert found
    return found


def damage(path: Path, how: str) -> None:
    """In a new file: this process may still have the old one in its memory."""
    data = path.read_bytes()
    path.unlink()
    if how == "emptied":
        path.write_bytes(b"")
    elif how == "halved":
        path.write_bytes(data[: len(data) // 2])
    elif how == "overwritten":
        path.write_bytes(b"\xff" * len(data))
    elif how == "overwritten inside":  # the footer, which tantivy looks at, is left
        footer = 150 if len(data) > 300 else 0
        path.write_bytes(b"\xff" * (len(data) - footer) + data[len(data) - footer :])


@pytest.mark.parametrize("refresh", [True, False])
@pytest.mark.parametrize("how", ["deleted", "emptied", "halved", "overwritten", "overwritten inside"])
@pytest.mark.parametrize("ending", ["meta.json", "state.json", ".term", ".idx", ".pos", ".fast", ".fieldnorm"])
def test_damaged_word_index_is_rebuilt_and_never_an_error(birds: Home, ending: str, how: str, refresh: bool) -> None:
    before = hits(birds.search("nest"))
    for path in segment_files(birds, ending):
        damage(path, how)
    answer = birds.search("nest", refresh=refresh)
    assert hits(answer) == before
    assert [n for n in answer.notes if n.endswith(REBUILT)]


def test_reindex_over_a_damaged_word_index_rebuilds_it(birds: Home) -> None:
    before = hits(birds.search("nest"))
    for path in segment_files(birds, ".term"):
        damage(path, "halved")
    birds.claude(*talk("wren"), name=id_of("wren"))
    birds.reindex()
    assert len(hits(birds.search("nest"))) == len(before) + 1


def test_word_index_of_another_journal_is_rebuilt(birds: Home, tmp_path: Path) -> None:
    other = Home(tmp_path / "other")
    other.claude(*talk("wren"))
    other.reindex()
    shutil.rmtree(birds.index / "lexical")
    shutil.copytree(other.index / "lexical", birds.index / "lexical")
    answer = birds.search("nest")
    assert len(answer.matches) == 3
    assert answer.notes == (f"the word index belongs to another journal: {REBUILT}",)


def test_word_index_ahead_of_a_restored_journal_is_rebuilt(birds: Home, tmp_path: Path) -> None:
    shutil.copy(birds.database, tmp_path / "backup")
    birds.claude(*talk("wren"), name=id_of("wren"))
    birds.reindex()
    for path in birds.index.glob("journal.db*"):
        path.unlink()
    shutil.copy(tmp_path / "backup", birds.database)
    birds.claude_path(id_of("wren")).unlink()
    answer = birds.search("nest")
    assert len(answer.matches) == 3
    assert birds.search("wren").matches == ()


def test_journal_of_an_earlier_version_is_brought_up_to_date_by_a_search(
    birds: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = birds.stored()
    monkeypatch.setattr(schema, "MIGRATIONS", [*schema.MIGRATIONS, "CREATE TABLE later (id INTEGER PRIMARY KEY);"])
    assert len(birds.search("nest", refresh=False).matches) == 3
    with birds.journal() as journal:
        assert journal.store.rows("SELECT count(*) FROM later") == [(0,)]
    assert birds.stored() == before


def test_journal_that_was_only_begun_is_no_journal_yet(home: Home) -> None:
    home.claude(*talk("heron"))
    home.index.mkdir(parents=True)
    home.database.touch()
    assert home.aj("search", "heron", "--no-refresh").returncode == 2
    with home.journal() as journal:
        assert not journal.exists
    assert home.search("heron in:user").total.messages == 1


# --- the folder, and the agents' files -------------------------------------------------------------------


def modes(folder: Path) -> dict[str, str]:
    paths = [folder, *folder.rglob("*")]
    return {str(p.relative_to(folder.parent)): oct(stat.S_IMODE(p.stat().st_mode)) for p in paths}


def test_journal_is_for_its_owner_alone(birds: Home) -> None:
    birds.claude(*talk("wren"), name=id_of("wren"))
    old = os.umask(0o022)
    try:
        assert birds.aj("search", "wren").returncode == 0
        assert birds.aj("reindex").returncode == 0
    finally:
        os.umask(old)
    folder = birds.path / ".agent-journal"
    wrong = {
        name: mode
        for name, mode in modes(folder).items()
        if mode != ("0o700" if (folder.parent / name).is_dir() else "0o600")
    }
    assert wrong == {}


def test_database_is_private_while_it_is_written(birds: Home) -> None:
    with birds.journal() as journal:
        journal.reindex(full=True)
        names = {p.name: oct(stat.S_IMODE(p.stat().st_mode)) for p in birds.index.glob("journal.db*")}
    assert names == dict.fromkeys(names, "0o600")
    assert "journal.db-wal" in names


def test_agents_files_may_be_read_only(home: Home) -> None:
    path = home.claude(*talk("heron"))
    path.chmod(0o400)
    path.parent.chmod(0o500)
    try:
        home.reindex()
        assert home.search("heron in:user").total.messages == 1
    finally:
        path.parent.chmod(0o700)


def test_agents_files_are_never_modified(home: Home) -> None:
    for bird in BIRDS:
        home.claude(*talk(bird), name=id_of(bird))
    full_log().write(home.path / ".copilot")
    legacy(home, "broken", '{"sessionId": "9a')
    home.history({"display": "a prompt", "timestamp": 1_772_442_900_000, "project": "/home/ana/shop"})
    before = tree(home.path)
    for arguments in (["reindex"], ["search", "heron"], ["reindex", "--full"], ["show", id_of("heron")], ["doctor"]):
        assert home.aj(*arguments).returncode in (0, 1)
    after = {name: value for name, value in tree(home.path).items() if not name.startswith(".agent-journal")}
    assert after == before


def test_two_journals_of_the_same_home_are_equal(beginnings: Path, tmp_path: Path) -> None:
    """Whatever the batches: one run, and one agent after the other."""
    one = Home(beginnings, {"AJ_HOME": str(tmp_path / "one")})
    two = Home(beginnings, {"AJ_HOME": str(tmp_path / "two")})
    with one.journal() as first, two.journal() as second:
        first.reindex()
        for connector in reversed(CONNECTORS):
            second.reindex(agent=connector.agent)
        assert first.store.counts() >= (200, 4000)
        assert contents(first) == contents(second)
        for query in ("checkpoint", "refactor test", "is:error"):
            assert hits(first.search(query, limit=1000)) == hits(second.search(query, limit=1000))
