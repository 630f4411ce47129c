"""The journal as one file, made while it is in use, and made a journal again; and every archive that is none."""

from __future__ import annotations

import errno
import gzip
import hashlib
import io
import json
import os
import random
import resource
import sqlite3
import stat
import subprocess
import tarfile
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from conversations import talk, vectors_of, with_tiny
from journals import Home, contents, hits, killed_after, tree

from agent_journal.errors import JournalUnwritable
from agent_journal.index import restore, schema

WORDS = "heron stork crane ibis egret bittern wren robin finch kestrel osprey harrier dunnock siskin".split()


def populate(home: Home, sessions: int = 3, turns: int = 5) -> None:
    for number in range(sessions):
        chance = random.Random(number)
        talk(home, f"s{number:04}", *(" ".join(chance.choice(WORDS) for _ in range(30)) for _ in range(turns)))


@pytest.fixture
def full(home: Home) -> Home:
    populate(home)
    home.configure("[search]\nmax_results = 7\n")
    home.reindex()
    return home


def other(home: Home, tmp_path: Path) -> Home:
    """The same person with another, empty journal."""
    return Home(home.path, {"AJ_HOME": str(tmp_path / "other")})


def everything(home: Home) -> Any:
    with home.journal() as journal:
        return contents(journal), hits(journal.search("heron", refresh=False, limit=100))


def backed_up(home: Home, file: Path) -> Path:
    ran = home.aj("backup", str(file))
    assert ran.returncode == 0, ran.stderr
    return file


def members(file: Path) -> dict[str, bytes]:
    with tarfile.open(file) as tar:
        found = {}
        for member in tar:
            content = tar.extractfile(member)
            assert content is not None
            found[member.name] = content.read()
        return found


def left_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


# --- backup ----------------------------------------------------------------------------------------------


def test_backup_holds_the_journal_its_settings_and_a_list_of_both(full: Home, tmp_path: Path) -> None:
    file = tmp_path / "to" / "journal.tar.gz"
    file.parent.mkdir()
    ran = full.aj("backup", str(file))
    assert ran.returncode == 0
    assert ran.stdout.startswith(f"{file}: 3 sessions, 15 messages, ")
    assert ran.stderr == "nothing in it is redacted: keep it as you keep the journal\n"
    assert left_in(file.parent) == ["journal.tar.gz"]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    found = members(file)
    assert list(found) == ["manifest.json", "config.toml", "journal.db"]
    manifest = json.loads(found["manifest.json"])
    with full.journal() as journal:
        assert manifest["journal"] == journal.store.journal_id
    assert (manifest["kind"], manifest["format"]) == ("agent-journal backup", 1)
    assert (manifest["sessions"], manifest["messages"]) == (3, 15)
    sums = {name: hashlib.sha256(content).hexdigest() for name, content in found.items() if name != "manifest.json"}
    assert {name: entry["sha256"] for name, entry in manifest["files"].items()} == sums
    assert found["config.toml"] == b"[search]\nmax_results = 7\n"


def test_backup_without_a_name_lies_in_the_current_folder(full: Home, tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    ran = full.aj("backup", "--json", cwd=tmp_path / "here")
    (name,) = left_in(tmp_path / "here")
    assert name.startswith("agent-journal_20")
    assert name.endswith(".tar.gz")
    found = json.loads(ran.stdout)
    assert (found["file"], found["messages"]) == (str(tmp_path / "here" / name), 15)
    time.sleep(1)
    assert full.aj("backup", str(tmp_path / "here")).returncode == 0
    assert len(left_in(tmp_path / "here")) == 2


def refused(ran: subprocess.CompletedProcess[str], *sentences: str) -> None:
    said = " ".join(ran.stderr.split())
    assert (ran.returncode, ran.stdout) == (2, "")
    assert said.startswith("aj: ")
    for sentence in sentences:
        assert sentence in said


def test_backup_replaces_a_file_only_if_told(full: Home, tmp_path: Path) -> None:
    file = tmp_path / "mine.tar.gz"
    file.write_text("precious")
    refused(full.aj("backup", str(file)), "is there already", "--force")
    assert file.read_text() == "precious"
    assert full.aj("backup", str(file), "--force").returncode == 0
    assert "journal.db" in members(file)


@pytest.mark.parametrize("linked", [False, True])
def test_backup_never_replaces_what_is_not_a_file(full: Home, tmp_path: Path, linked: bool) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(tmp_path / "pipe")
    target = tmp_path / ("link" if linked else "pipe")
    for options in ([], ["--force"]):
        refused(full.aj("backup", str(target), *options), f"{target} is not a file")
    assert stat.S_ISFIFO((tmp_path / "pipe").lstat().st_mode)
    assert (tmp_path / "link").is_symlink()


@pytest.mark.parametrize("dangling", [False, True])
def test_backup_over_a_link_replaces_the_link_and_only_if_told(full: Home, tmp_path: Path, dangling: bool) -> None:
    file, target = tmp_path / "precious", tmp_path / "link"
    if not dangling:
        file.write_text("precious")
    target.symlink_to(file)
    refused(full.aj("backup", str(target)), "is there already", "--force")
    assert target.is_symlink()
    assert full.aj("backup", str(target), "--force").returncode == 0
    assert not target.is_symlink()
    assert "journal.db" in members(target)
    assert file.exists() != dangling
    assert dangling or file.read_text() == "precious"


def test_backup_into_nowhere_is_a_sentence(full: Home, tmp_path: Path) -> None:
    refused(full.aj("backup", str(tmp_path / "no" / "such" / "a.tar.gz")), "cannot be written (No such file")
    refused(Home(tmp_path / "empty").aj("backup", str(tmp_path / "a.tar.gz")), "there is no journal")


def test_backup_on_a_full_disk_leaves_nothing(home: Home, tmp_path: Path) -> None:
    populate(home, 20, 100)
    home.reindex()
    file = tmp_path / "to" / "a.tar.gz"
    file.parent.mkdir()

    def small() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))

    ran = home.aj("backup", str(file), preexec_fn=small)
    refused(ran, "a.tar.gz: the backup cannot be written (")
    assert left_in(file.parent) == []


def test_killed_backup_leaves_no_target_file(home: Home, tmp_path: Path) -> None:
    populate(home, 60, 100)
    home.reindex()
    started = time.monotonic()
    backed_up(home, tmp_path / "whole.tar.gz")
    span = time.monotonic() - started
    for part in (0.4, 0.55, 0.7, 0.85):
        file = tmp_path / f"{part}.tar.gz"
        killed_after(home.start("backup", str(file)), part * span)
        assert not file.exists() or members(file)["journal.db"]  # whole, if it was quicker


def test_backup_beside_a_writer_is_one_state_of_the_journal(home: Home, tmp_path: Path) -> None:
    populate(home, 20)
    home.reindex()
    populate(home, 300, 10)
    process = home.start("reindex")
    made = 0
    while process.poll() is None:
        file = backed_up(home, tmp_path / f"{made}.tar.gz")
        made += 1
        found = members(file)
        manifest = json.loads(found["manifest.json"])
        copy = tmp_path / "copy.db"
        copy.write_bytes(found["journal.db"])
        db = sqlite3.connect(copy)
        assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert db.execute("SELECT count(*) FROM session").fetchone()[0] == manifest["sessions"]
        assert db.execute("SELECT count(*) FROM message").fetchone()[0] == manifest["messages"]
        db.close()
    assert process.communicate() is not None
    assert process.returncode == 0
    assert made > 0


# --- restore ---------------------------------------------------------------------------------------------


def test_restored_into_an_empty_home_it_answers_the_same(full: Home, tmp_path: Path) -> None:
    file = backed_up(full, tmp_path / "a.tar.gz")
    new = other(full, tmp_path)
    ran = new.aj("restore", str(file))
    assert ran.returncode == 0
    assert ran.stdout.startswith("restored 3 sessions and 15 messages, as of 20")
    assert ran.stderr == f"{tmp_path}/other/config.toml is restored too\n"
    assert everything(new) == everything(full)
    assert (tmp_path / "other" / "config.toml").read_text() == "[search]\nmax_results = 7\n"
    assert stat.S_IMODE((tmp_path / "other" / "index" / "journal.db").stat().st_mode) == 0o600
    assert left_in(tmp_path / "other" / "index") == ["journal.db", "lexical", "write.lock"]
    assert new.reindex().sessions_new == 0
    assert new.aj("doctor").returncode == 0


def test_a_journal_that_is_there_is_replaced_only_if_told_and_kept(full: Home, tmp_path: Path) -> None:
    file = backed_up(full, tmp_path / "a.tar.gz")
    new = Home(tmp_path / "person", {"AJ_HOME": str(tmp_path / "other")})
    new.path.mkdir()
    talk(new, "mine", "the wombat digs")
    new.reindex()
    before = new.stored()
    refused(new.aj("restore", str(file)), "there is a journal in", "--replace")
    refused(new.aj("restore", str(file), "--replace", stdin=subprocess.DEVNULL), "elsewhere say --yes")
    assert new.stored() == before
    ran = new.aj("restore", str(file), "--replace", "--yes")
    assert ran.returncode == 0
    (aside,) = (tmp_path / "other" / "index").glob("journal_*.db")
    assert ran.stdout.splitlines()[1] == f"the journal that was there is kept: {aside}"
    assert stat.S_IMODE(aside.stat().st_mode) == 0o600
    assert everything(new)[1] == everything(full)[1]
    db = sqlite3.connect(aside)
    assert db.execute("SELECT key FROM session").fetchall() == [("claude-code:mine",)]
    db.close()
    ran = new.aj("forget", "s0001", "--yes")
    assert ran.stderr == f"{aside} was set aside by a restore, and is as it was\n"


def test_a_damaged_journal_is_set_aside_as_it_is(full: Home, tmp_path: Path) -> None:
    expected = everything(full)
    file = backed_up(full, tmp_path / "a.tar.gz")
    full.database.write_bytes(b"SQLite format 3\0" + b"rubbish" * 5000)
    rubbish = full.database.read_bytes()
    assert full.aj("search", "heron").returncode == 2
    ran = full.aj("restore", str(file), "--replace", "--yes")
    assert ran.returncode == 0, ran.stderr
    assert ran.stderr == f"{full.path}/.agent-journal/config.toml is there, and stays as it is\n"
    (aside,) = full.index.glob("journal_*.db")
    assert aside.read_bytes() == rubbish
    assert everything(full) == expected


def test_what_was_derived_from_the_other_journal_is_not_taken_for_its_own(home: Home, tmp_path: Path) -> None:
    """An older backup of the same journal: numbers of messages mean others now, vectors of texts mean the same."""
    home = with_tiny(home)
    talk(home, "first", "the heron stands in the reeds")
    home.reindex()
    file = backed_up(home, tmp_path / "a.tar.gz")
    path = talk(home, "second", "the stork walks over the meadow")
    home.reindex()
    path.unlink()
    assert home.aj("restore", str(file), "--replace", "--yes").returncode == 0
    talk(home, "third", "a crane flies above the lake")
    report = home.reindex()
    assert (report.sessions_new, report.embedding.texts) == (1, 1)
    assert [m.session.session.key for m in home.search("crane").matches] == ["claude-code:third"]
    assert not home.search("stork", mode="lexical").matches
    assert home.aj("doctor").returncode == 0


def test_vectors_of_another_journal_go(home: Home, tmp_path: Path) -> None:
    home = with_tiny(home)
    talk(home, "first", "the heron stands in the reeds")
    home.reindex()
    file = backed_up(home, tmp_path / "a.tar.gz")
    new = replace(other(home, tmp_path), vectors=True)
    assert new.aj("restore", str(file)).returncode == 0
    add_tiny_to(new, tmp_path)
    talk(home, "second", "the stork walks over the meadow")
    new.reindex()
    vectors = vectors_of(new)
    stranger = Home(tmp_path / "stranger", {"AJ_HOME": str(tmp_path / "strange")})
    stranger.path.mkdir()
    talk(stranger, "else", "something else")
    stranger.reindex()
    foreign = backed_up(stranger, tmp_path / "b.tar.gz")
    assert vectors
    assert new.aj("restore", str(foreign), "--replace", "--yes").returncode == 0
    assert not (tmp_path / "other" / "index" / "vectors").exists()


def add_tiny_to(home: Home, folder: Path) -> None:
    import shutil

    models = Path(home.environ["AJ_HOME"]) / "models"
    shutil.copytree(home.path / ".agent-journal" / "models", models, dirs_exist_ok=True)


def test_settings_that_lead_to_another_journal_are_not_restored(full: Home, tmp_path: Path) -> None:
    full.configure(f'[storage]\nindex_path = "{full.index}"\n')
    file = backed_up(full, tmp_path / "a.tar.gz")
    new = other(full, tmp_path)
    ran = new.aj("restore", str(file))
    assert ran.returncode == 0
    assert "not restored: it sets storage.index_path" in ran.stderr
    assert not (tmp_path / "other" / "config.toml").exists()
    full.configure("nonsense = 1\n")
    manifest = json.loads(members(file)["manifest.json"])
    assert manifest["sessions"] == 3


def test_a_search_beside_a_restore_goes_on(full: Home, tmp_path: Path) -> None:
    file = backed_up(full, tmp_path / "a.tar.gz")
    with full.journal() as journal:
        before = hits(journal.search("heron", refresh=False))
        assert full.aj("restore", str(file), "--replace", "--yes").returncode == 0
        assert hits(journal.search("heron", refresh=False)) == before


def test_killed_restore_leaves_the_old_journal_or_the_new_one(home: Home, tmp_path: Path) -> None:
    populate(home, 40, 60)
    home.reindex()
    expected = everything(home)
    file = backed_up(home, tmp_path / "a.tar.gz")
    new = Home(tmp_path / "person", {"AJ_HOME": str(tmp_path / "other")})
    new.path.mkdir()
    path = talk(new, "mine", "the heron digs")
    new.reindex()
    path.unlink()  # or a search would take it in again, beside what was restored
    new.reindex()
    mine = everything(new)
    started = time.monotonic()
    assert Home(new.path, {"AJ_HOME": str(tmp_path / "timed")}).aj("restore", str(file)).returncode == 0
    span = time.monotonic() - started
    for part in (0.4, 0.55, 0.7, 0.85):
        killed_after(new.start("restore", str(file), "--replace", "--yes"), part * span)
        with new.journal() as journal:
            assert contents(journal) in (mine[0], expected[0])
            assert journal.search("heron").matches
        for path in (tmp_path / "other" / "index").glob("journal_*.db"):
            path.unlink()
    assert new.aj("restore", str(file), "--replace", "--yes").returncode == 0
    assert everything(new) == expected
    assert [name for name in left_in(tmp_path / "other" / "index") if "restore" in name or "part" in name] == []


# --- archives that are none ------------------------------------------------------------------------------

Changed = Callable[[dict[str, bytes]], Mapping[str, Any]]


def packed(file: Path, contents: Mapping[str, Any]) -> None:
    """An archive of these: bytes are files, a TarInfo is whatever it says."""
    with tarfile.open(file, "w:gz") as tar:
        for name, content in contents.items():
            if isinstance(content, tarfile.TarInfo):
                tar.addfile(content)
                continue
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))


def listed(found: dict[str, bytes], **changes: Any) -> dict[str, bytes]:
    """With a manifest that fits what is in it, but for these changes."""
    manifest = json.loads(found["manifest.json"])
    sums = {
        name: {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
        for name, content in found.items()
        if name in ("journal.db", "config.toml")
    }
    return found | {"manifest.json": json.dumps(manifest | {"files": sums} | changes).encode()}


def link(name: str) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = tarfile.SYMTYPE, "/etc/passwd"
    return member


def with_trigger(found: dict[str, bytes]) -> bytes:
    db = sqlite3.connect(":memory:")
    db.deserialize(found["journal.db"])
    db.execute("CREATE TRIGGER evil AFTER INSERT ON message BEGIN DELETE FROM session; END")
    db.commit()
    content = db.serialize()
    db.close()
    return content


def with_rows(sql: str) -> Changed:
    """A journal in which a value was replaced, and everything else fits."""

    def changed(found: dict[str, bytes]) -> dict[str, bytes]:
        db = sqlite3.connect(":memory:")
        db.deserialize(found["journal.db"])
        assert db.execute(sql).rowcount > 0
        db.commit()
        content = db.serialize()
        db.close()
        return listed(found | {"journal.db": content})

    return changed


UNREADABLE, FOREIGN = "its journal holds what cannot be read", "its journal holds what no journal does"
PART = "INSERT INTO part SELECT id, 'x', '', 'read', ''"
ROWS = {
    "a body of nonsense": ("UPDATE message SET body = x'02ff00' WHERE id = (SELECT max(id) FROM message)", UNREADABLE),
    "a body of text": ("UPDATE message SET body = 'abc'", FOREIGN),
    "facts of nonsense": ("UPDATE session SET facts = x'00ff'", UNREADABLE),
    "nothing derived": ("UPDATE session SET derived = x''", UNREADABLE),
    "a title that is no text": ("UPDATE session SET slug = CAST(x'ff' AS TEXT)", UNREADABLE),
    "words for a number": ("UPDATE message SET changed_seq = 'many'", FOREIGN),
    "words for a count": ("UPDATE meta SET value = 'many' WHERE key = 'seq'", FOREIGN),
    "a count beyond all": ("UPDATE meta SET value = 9223372036854775807 WHERE key = 'seq'", FOREIGN),
    "a message below zero": ("UPDATE message SET id = -id", FOREIGN),
    "a message beyond all": ("UPDATE message SET id = id + 4294967295", FOREIGN),
    "a place before the first": ("UPDATE message SET ordinal = -ordinal", FOREIGN),
    "a change that is to come": ("UPDATE message SET changed_seq = 9223372036854775807", FOREIGN),
    "fewer than no messages": ("UPDATE session SET message_count = -5", FOREIGN),
    "a time that no calendar has": ("UPDATE session SET ended_us = -9223372036854775807", FOREIGN),
    "messages of no session": ("UPDATE message SET session = session + 1000", FOREIGN),
    "sessions of no source": ("UPDATE session SET source = source + 1000", FOREIGN),
    "no count": ("DELETE FROM meta WHERE key = 'seq'", FOREIGN),
    "a dictionary of text": ("INSERT OR REPLACE INTO meta VALUES ('dictionary', 'abc')", FOREIGN),
    "half a removal": ("INSERT INTO meta VALUES ('forgetting', '{')", UNREADABLE),
    "a removal of numbers": ("INSERT INTO meta VALUES ('forgetting', '[5]')", UNREADABLE),
    "skipped nonsense": ("UPDATE source SET skipped = '['", UNREADABLE),
    "a part that skipped nonsense": (f"{PART}, 0, 0, 0, '[]', '{{\"a\": \"b\"}}' FROM source", UNREADABLE),
    "a part with bad nonsense": (f"{PART}, 0, 0, 0, '[', '{{}}' FROM source", UNREADABLE),
    "a part of fewer than no lines": (f"{PART}, 0, -1, 0, '[]', '{{}}' FROM source", FOREIGN),
    "a part of no source": ("INSERT INTO part VALUES (1000, 'x', '', 'read', '', 0, 0, 0, '[]', '{}')", FOREIGN),
    "a home above": ("UPDATE source SET home = '..'", FOREIGN),
    "a home elsewhere": ("UPDATE source SET home = '../../etc'", FOREIGN),
    "a home of two lines": ("UPDATE source SET home = 'local' || char(10)", FOREIGN),
}


def newer(found: dict[str, bytes]) -> bytes:
    return found["journal.db"][:60] + (len(schema.MIGRATIONS) + 5).to_bytes(4, "big") + found["journal.db"][64:]


def torn(found: dict[str, bytes]) -> bytes:
    return found["journal.db"][:8192] + b"\xff" * 4096 + found["journal.db"][12288:]


WRONG: dict[str, tuple[Changed, str]] = {
    "tampered": (lambda f: f | {"journal.db": f["journal.db"][:-1] + b"x"}, "its checksum is wrong"),
    "longer": (lambda f: f | {"journal.db": f["journal.db"] + b"x"}, "something else than it lists"),
    "another file": (lambda f: f | {"../../evil": b"x"}, "something else than it lists"),
    "a name from elsewhere": (lambda f: {"/etc/passwd": b"x"} | f, "is no backup of a journal"),
    "a link": (lambda f: f | {"config.toml": link("config.toml")}, "something else than files"),
    "a link for a manifest": (lambda f: f | {"manifest.json": link("manifest.json")}, "something else than files"),
    "without a journal": (lambda f: {k: v for k, v in f.items() if k != "journal.db"}, "journal.db is missing"),
    "without a manifest": (lambda f: {"journal.db": f["journal.db"]}, "is no backup of a journal"),
    "of another kind": (lambda f: listed(f, kind="photos"), "is no backup of a journal"),
    "of a later format": (lambda f: listed(f, format=2, aj="9.9"), "written by another version of aj (9.9)"),
    "a manifest of nonsense": (lambda f: f | {"manifest.json": b"\xff{"}, "list of contents cannot be read"),
    "a manifest of other types": (lambda f: listed(f, sessions="many"), "list of contents cannot be read"),
    "lists other files": (lambda f: listed(f, files={"x": {"bytes": 1, "sha256": ""}}), "names other files"),
    "another journal's id": (lambda f: listed(f, journal="x"), "not a whole journal"),
    "no database": (lambda f: listed(f | {"journal.db": b"hello" * 1000}), "its journal cannot be read"),
    "another database": (lambda f: listed(f | {"journal.db": b""}), "its journal cannot be read"),
    "a torn database": (lambda f: listed(f | {"journal.db": torn(f)}), "is damaged: "),
    "a trigger": (lambda f: listed(f | {"journal.db": with_trigger(f)}), "not a whole journal"),
    "a later journal": (lambda f: listed(f | {"journal.db": newer(f)}), "written by a newer agent-journal"),
    "an endless claim": (
        lambda f: listed(f, files={"journal.db": {"bytes": 2**60, "sha256": ""}}),
        "no space left on the disk free some space and run it again; the journal is as it was",
    ),
    **{name: (with_rows(sql), sentence) for name, (sql, sentence) in ROWS.items()},
}


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> tuple[Home, dict[str, bytes]]:
    folder = tmp_path_factory.mktemp("sound")
    (folder / "home").mkdir()
    home = Home(folder / "home")
    populate(home)
    home.configure("[search]\nmax_results = 7\n")
    home.reindex()
    return home, members(backed_up(home, folder / "a.tar.gz"))


def nothing_changed(home: Home, file: Path, sentence: str) -> None:
    before = tree(home.index)
    refused(home.aj("restore", str(file), "--replace", "--yes"), sentence)
    assert tree(home.index) == before


@pytest.mark.parametrize("name", WRONG)
def test_archive_that_is_not_whole_changes_nothing(
    sound: tuple[Home, dict[str, bytes]], tmp_path: Path, name: str
) -> None:
    change, sentence = WRONG[name]
    home, found = sound
    packed(tmp_path / "wrong.tar.gz", change(found))
    nothing_changed(home, tmp_path / "wrong.tar.gz", sentence)


def test_archive_rewritten_by_hand_is_taken_if_it_is_sound(
    sound: tuple[Home, dict[str, bytes]], tmp_path: Path
) -> None:
    home, found = sound
    packed(tmp_path / "a.tar.gz", listed(found))
    assert other(home, tmp_path).aj("restore", str(tmp_path / "a.tar.gz")).returncode == 0


def test_tables_that_an_earlier_version_explained_otherwise_are_the_same_tables(
    sound: tuple[Home, dict[str, bytes]], tmp_path: Path
) -> None:
    home, found = sound
    db = sqlite3.connect(":memory:", isolation_level=None)
    db.deserialize(found["journal.db"])
    db.execute("PRAGMA writable_schema = ON")
    db.execute("UPDATE sqlite_schema SET sql = replace(sql, 'read | empty', 'read or empty')")
    packed(tmp_path / "a.tar.gz", listed(found | {"journal.db": db.serialize()}))
    db.close()
    assert other(home, tmp_path).aj("restore", str(tmp_path / "a.tar.gz")).returncode == 0


def test_backup_of_an_earlier_version_is_restored(sound: tuple[Home, dict[str, bytes]], tmp_path: Path) -> None:
    home, found = sound
    db = sqlite3.connect(":memory:", isolation_level=None)
    db.deserialize(found["journal.db"])
    db.executescript(
        "DROP TABLE part; DROP INDEX session_second_hand; DROP INDEX message_prompt;"
        "CREATE INDEX message_prompt ON message (prompt) WHERE prompt IS NOT NULL; PRAGMA user_version = 3;"
    )
    packed(tmp_path / "a.tar.gz", listed(found | {"journal.db": db.serialize()}))
    db.close()
    restored = other(home, tmp_path)
    assert restored.aj("restore", str(tmp_path / "a.tar.gz")).returncode == 0
    assert restored.stored() == home.stored()


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "is no backup of a journal"),
        (b"just some text", "is no backup of a journal"),
        (gzip.compress(b"just some text" * 100), "is no backup of a journal"),
        (gzip.compress(b""), "is no backup of a journal"),
        (gzip.compress(bytes(1024)), "is no backup of a journal"),
    ],
    ids=["empty", "text", "gz of text", "gz of nothing", "empty tar"],
)
def test_file_of_another_kind_changes_nothing(
    sound: tuple[Home, dict[str, bytes]], tmp_path: Path, content: bytes, sentence: str
) -> None:
    (tmp_path / "wrong").write_bytes(content)
    nothing_changed(sound[0], tmp_path / "wrong", sentence)


def test_missing_file_and_folder_are_sentences(sound: tuple[Home, dict[str, bytes]], tmp_path: Path) -> None:
    nothing_changed(sound[0], tmp_path / "none", "cannot be read (No such file or directory)")
    nothing_changed(sound[0], tmp_path, "cannot be read (Is a directory)")


def test_pipe_in_place_of_an_archive_is_not_waited_for(home: Home, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    ran = home.aj("restore", str(tmp_path / "pipe"))
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "pipe is no ordinary file" in " ".join(ran.stderr.split())


def test_archive_cut_short_anywhere_changes_nothing(full: Home, tmp_path: Path) -> None:
    content = backed_up(full, tmp_path / "a.tar.gz").read_bytes()
    for share in (0.01, 0.1, 0.5, 0.9, 0.99):
        (tmp_path / "cut").write_bytes(content[: int(len(content) * share)])
        nothing_changed(full, tmp_path / "cut", "cut short or damaged")


def test_restore_into_a_folder_that_cannot_be_written_is_a_sentence(
    sound: tuple[Home, dict[str, bytes]], tmp_path: Path
) -> None:
    packed(tmp_path / "a.tar.gz", sound[1])
    (tmp_path / "taken").write_text("a file")
    new = Home(sound[0].path, {"AJ_HOME": str(tmp_path / "taken")})
    refused(new.aj("restore", str(tmp_path / "a.tar.gz")), "cannot be")


def test_restore_on_a_full_disk_keeps_the_journal(home: Home, tmp_path: Path) -> None:
    populate(home, 20, 100)
    home.reindex()
    file = backed_up(home, tmp_path / "a.tar.gz")
    before = everything(home)

    def small() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))

    ran = home.aj("restore", str(file), "--replace", "--yes", preexec_fn=small)
    refused(ran, "cannot be written")
    assert everything(home) == before


def test_restore_that_fails_late_leaves_no_copy(home: Home, tmp_path: Path) -> None:
    """The write-ahead log of the new journal is larger than the journal: it alone does not fit."""
    populate(home, 20, 100)
    home.reindex()
    file = backed_up(home, tmp_path / "a.tar.gz")
    before = everything(home)
    most = len(members(file)["journal.db"])

    def small() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))

    ran = home.aj("restore", str(file), "--replace", "--yes", preexec_fn=small)
    refused(ran, "cannot be written")
    assert not (home.index / "lexical").exists()  # so it was late
    assert list(home.index.glob("journal_*")) == []
    assert everything(home) == before


def test_journal_that_is_only_aside_after_a_late_failure_is_named(full: Home) -> None:
    aside = full.index / "journal_20260101_000000.db"
    full.database.replace(aside)
    error = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    with pytest.raises(JournalUnwritable) as failure, restore._as_it_was():
        raise restore._undone(full.index, aside, error)
    said = f"{full.index}: no space left on the disk; the journal that was there is kept: {aside}"
    assert (failure.value.message, failure.value.hint) == (said, "free some space and run it again")
    assert aside.exists()
