"""A backup becomes the journal. All of it is checked before anything is changed; what was there is kept aside.

The word index is made anew from it; vectors of another journal are removed.
"""

from __future__ import annotations

import contextlib
import errno
import gzip
import os
import re
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from msgspec import Struct

from agent_journal import config_file
from agent_journal.config import Config, load
from agent_journal.errors import (
    FULL_DISK,
    BadConfig,
    JournalCorrupt,
    JournalExists,
    JournalUnwritable,
    unwritable,
)
from agent_journal.index import last_search, lexical, meaning, schema
from agent_journal.index.archive import CONFIG, Archive, Manifest, reading
from agent_journal.index.codec import microseconds
from agent_journal.index.forgotten import pending
from agent_journal.index.guard import guarded, primary_code
from agent_journal.index.lock import writing
from agent_journal.index.store import DATABASE, DICTIONARIES, Store
from agent_journal.index.sync import Progress, Sync
from agent_journal.workplace import private, workplace

PATIENCE_SECONDS = 3.0
WORKPLACE = ".restore-"
# By what tables are, not by the text that made them: a later version may say it in other words.
_SCHEMA = """
    SELECT type, name, tbl_name, (
        SELECT json_group_array(json_array(c.name, c.type, c."notnull", c.pk, c.hidden))
        FROM pragma_table_xinfo(s.name) c
    )
    FROM sqlite_schema s WHERE name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY type, name
"""
# What a column's type lets in; SQLite itself lets in anything. Paths that are no text are kept as bytes.
_STORED_AS = {"INTEGER": ("integer",), "TEXT": ("text",), "BLOB": ("blob",)}
_PATHS = ("path", "workspace")
_LABEL = re.compile(r"(?!\.{1,2}\Z)[A-Za-z0-9_.-]+")  # of a home
_KEPT = "; the journal that was there is kept: "
_FIRST_US, _LAST_US = (microseconds(end.replace(tzinfo=UTC)) for end in (datetime.min, datetime.max))
_META = {"seq": int, "journal_id": str, **dict.fromkeys(DICTIONARIES, bytes)}


class Restored(Struct, frozen=True):
    manifest: Manifest
    set_aside: Path | None  # the journal that was there
    config: bytes | None  # as the backup has it
    notes: tuple[str, ...] = ()


def restore(
    path: Path, config: Config, *, replace: bool, now: datetime, progress: Progress = lambda *_: None
) -> Restored:
    """Raises BadBackup, and changes nothing, unless the archive is whole."""
    folder = config.storage.index_path
    with reading(path) as archive, _as_it_was():
        Store.make_folder(folder)
        with writing(folder, PATIENCE_SECONDS), _workplace(folder) as place:
            _refuse_existing(folder, replace)
            settings = _extracted(archive, place, progress)
            _check(archive, place / DATABASE)
            _bring_up_to_date(archive, place / DATABASE)
            _check_rows(archive, place, progress)
            aside = _set_aside(folder, now)
            notes = _installed(folder, place / DATABASE, archive.manifest, config, aside)
    return Restored(archive.manifest, aside, settings, notes)


def _extracted(archive: Archive, place: Path, progress: Progress) -> bytes | None:
    """The journal into a file; returns what config.toml held."""
    size, settings = archive.manifest.files[DATABASE].bytes, None
    if size > shutil.disk_usage(place).free:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    for name, content in archive.contents():
        if name == CONFIG:
            settings = b"".join(content)
            continue
        with open(place / DATABASE, "xb", opener=private) as file:
            for chunk in content:
                file.write(chunk)
                progress("unpacking", file.tell(), size, "")
    return settings


def _check(archive: Archive, database: Path) -> None:
    """Whether it is a whole journal of a version that is known, and nothing besides."""
    schema.check_version(schema.header_version(database))
    try:
        with closing(sqlite3.connect(database, isolation_level=None)) as db:
            version = schema.version_of(db)
            found = db.execute("PRAGMA quick_check(1)").fetchall()
            owner = db.execute("SELECT value FROM meta WHERE key = 'journal_id'").fetchall()
            tables = db.execute(_SCHEMA).fetchall()
    except sqlite3.DatabaseError as error:
        raise archive.refused(f"its journal cannot be read ({error})") from error
    with closing(sqlite3.connect(":memory:")) as known:
        for script in schema.MIGRATIONS[:version]:
            known.executescript(script)
        expected = known.execute(_SCHEMA).fetchall()
    if found != [("ok",)] or owner != [(archive.manifest.journal,)] or tables != expected:
        raise archive.refused("what it holds is not a whole journal")


def _bring_up_to_date(archive: Archive, database: Path) -> None:
    """What an earlier version made has not all the tables whose rows are looked at."""
    try:
        with closing(sqlite3.connect(database, isolation_level=None)) as db:
            if schema.version_of(db) < len(schema.MIGRATIONS):
                schema.migrate(db)
    except sqlite3.DatabaseError as error:
        raise archive.refused(f"its journal cannot be read ({error})") from error


def _check_rows(archive: Archive, place: Path, progress: Progress) -> None:
    """Reads every row once: what cannot be read after the journal was replaced would be found too late."""
    store = Store.open(place)
    if store is None:
        raise archive.refused("what it holds is not a whole journal")
    with closing(store):
        try:
            with guarded(store.path), store.snapshot():
                sound = _columns(store) and _meta(store) and _numbers(store) and _sources(store)
                if sound:
                    _read(store, progress)
        except (JournalCorrupt, MemoryError, RecursionError) as error:
            raise archive.refused("its journal holds what cannot be read") from error
    if not sound:
        raise archive.refused("its journal holds what no journal does")


def _columns(store: Store) -> bool:
    """Whether every value is of its column's type."""
    found = store.rows(
        'SELECT s.name, c.name, c.type, c."notnull" OR c.pk FROM sqlite_schema s, pragma_table_info(s.name) c '
        "WHERE s.type = 'table' AND c.type != ''"
    )
    for table, column, kind, needed in found:
        allowed = (*_STORED_AS[str(kind)], *(("null",) * (not needed)), *(("blob",) * (column in _PATHS)))
        marks = ",".join("?" * len(allowed))
        sql = f'SELECT EXISTS (SELECT 1 FROM "{table}" WHERE typeof("{column}") NOT IN ({marks}))'
        if store.number(sql, allowed):
            return False
    return True


def _meta(store: Store) -> bool:
    values = {str(key): value for key, value in store.rows("SELECT key, value FROM meta")}
    pending(store)
    return {"seq", "journal_id"} <= values.keys() and all(
        isinstance(value, _META.get(key, object)) for key, value in values.items()
    )


def _numbers(store: Store) -> bool:
    """Whether every number can be what it stands for: the word index and the places of vectors hold no others, and what
    names a row names one that is there."""
    odd = (
        "SELECT 1 FROM message WHERE id NOT BETWEEN 1 AND :most OR session NOT BETWEEN 1 AND :most "
        "OR ordinal NOT BETWEEN 1 AND :most OR changed_seq NOT BETWEEN 0 AND :seq",
        "SELECT 1 FROM session WHERE id NOT BETWEEN 1 AND :most OR message_count NOT BETWEEN 0 AND :most "
        "OR started_us NOT BETWEEN :first AND :last OR ended_us NOT BETWEEN :first AND :last",
        "SELECT 1 FROM tombstone WHERE seq NOT BETWEEN 0 AND :seq",
        "SELECT 1 FROM forgotten WHERE at_us NOT BETWEEN :first AND :last",
        "SELECT 1 FROM part WHERE max(lines, bad_lines, kept_out) > :most OR min(lines, bad_lines, kept_out) < 0",
        "SELECT 1 WHERE :seq NOT BETWEEN 0 AND :most",
    )
    bounds = {"most": meaning.NOTHING - 1, "seq": store.seq, "first": _FIRST_US, "last": _LAST_US}
    if store.rows("PRAGMA foreign_key_check"):
        return False
    return not any(store.db.execute(f"SELECT EXISTS ({sql})", bounds).fetchone()[0] for sql in odd)


def _sources(store: Store) -> bool:
    sources = store.sources()
    for source in sources:
        msgspec.json.decode(source.bad, type=list[tuple[int, str]])
        msgspec.json.decode(source.skipped, type=dict[str, int])
    for bad, skipped in store.rows("SELECT bad, skipped FROM part"):
        msgspec.json.decode(str(bad), type=list[tuple[int, str]])
        msgspec.json.decode(str(skipped), type=dict[str, int])
    return all(_LABEL.fullmatch(source.home) for source in sources)


def _read(store: Store, progress: Progress) -> None:
    total = store.number("SELECT count(*) FROM message")
    for row in store.numbers("SELECT id FROM session"):
        # Texts too: one that is not UTF-8 raises.
        store.rows("SELECT key, native_id, slug, agent, workspace, parent_key FROM session WHERE id = ?", (row,))
        store.facts(row)
    for done, (body,) in enumerate(store.db.execute("SELECT body FROM message")):
        store.message_of(body)
        if done % 1000 == 0:
            progress("checking", done, total, "")


# --- the journal -----------------------------------------------------------------------------------------


@contextmanager
def _workplace(folder: Path) -> Iterator[Path]:
    """Below the journal's folder; what a run that was killed left there goes. The caller holds the write lock."""
    clear(folder)
    try:
        with workplace(folder, WORKPLACE) as place:
            yield place
    except gzip.BadGzipFile:  # an OSError too, but of the archive
        raise
    except OSError as error:
        raise unwritable(folder, error) from error


@contextmanager
def _as_it_was() -> Iterator[None]:
    """A full disk is told with what to do about it here: nothing was begun that `aj reindex` could end."""
    try:
        yield
    except JournalUnwritable as error:
        if not any(words in error.message for words in FULL_DISK):
            raise
        as_it_was = "" if _KEPT in error.message else "; the journal is as it was"
        raise JournalUnwritable(error.message, f"free some space and run it again{as_it_was}") from error


def clear(folder: Path) -> None:
    for left in folder.glob(f"{WORKPLACE}*"):
        shutil.rmtree(left, ignore_errors=True)
    for part in folder.glob("journal_*.part*"):
        part.unlink(missing_ok=True)


def _refuse_existing(folder: Path, replace: bool) -> None:
    if (folder / DATABASE).exists() and (folder / DATABASE).stat().st_size and not replace:
        raise JournalExists(
            f"there is a journal in {folder} already", "--replace puts the backup in its place, and keeps it aside"
        )


def _set_aside(folder: Path, now: datetime) -> Path | None:
    """The journal that is there under another name: copied while others may read it, or moved if it is damaged."""
    database = folder / DATABASE
    aside = folder / f"journal_{now:%Y%m%d_%H%M%S}.db"
    if not database.exists() or not database.stat().st_size:
        return None
    if aside.exists():
        raise JournalUnwritable(f"{aside} is there already", "try again in a moment")
    part = aside.with_suffix(".part")
    try:
        part.touch(0o600, exist_ok=False)
        with closing(sqlite3.connect(database)) as old, closing(sqlite3.connect(part)) as copy:
            old.backup(copy)
            whole = copy.execute("PRAGMA quick_check(1)").fetchall() == [("ok",)]
            copy.execute("PRAGMA journal_mode = DELETE")
    except sqlite3.DatabaseError as error:
        part.unlink(missing_ok=True)
        if primary_code(error) == sqlite3.SQLITE_FULL:
            raise unwritable(folder, error) from error
        whole = False
    if whole:
        part.replace(aside)
        return aside
    part.unlink(missing_ok=True)
    database.replace(aside)
    for companion in ("-wal", "-shm"):  # what the damaged one has not taken in yet stays with it
        with contextlib.suppress(FileNotFoundError):
            Path(f"{database}{companion}").replace(Path(f"{aside}{companion}"))
    return aside


def _installed(folder: Path, backup: Path, manifest: Manifest, config: Config, aside: Path | None) -> tuple[str, ...]:
    """In one transaction of SQLite: a crash leaves the old journal or the new one, and searches go on.

    What is derived tells by numbers of messages, which mean others now. Vectors are known by their texts: those of
    the same journal are kept.
    """
    database = folder / DATABASE
    same = _state(database)[:1] == (manifest.journal,)
    try:
        _put_away(folder)
        os.close(os.open(database, os.O_RDWR | os.O_CREAT, 0o600))
        with closing(sqlite3.connect(backup)) as source, closing(sqlite3.connect(database)) as live:
            source.backup(live)
    except (OSError, sqlite3.DatabaseError) as error:
        raise _undone(folder, aside, error) from error
    if not same:
        shutil.rmtree(folder / "vectors", ignore_errors=True)
    try:
        with Store.create(folder) as store:
            Sync(store, config).follow(afresh=True)
    except JournalUnwritable as error:
        return (f"the word index is not rebuilt yet ({error.message}): aj reindex",)
    return ()


def _put_away(folder: Path) -> None:
    """What is derived from the old journal."""
    lexical.put_away(folder / lexical.FOLDER)
    for path in lexical.leftovers(folder):
        shutil.rmtree(path)
    (folder / last_search.NAME).unlink(missing_ok=True)
    for places in (folder / "vectors").glob(f"*/{meaning.NAME}"):
        places.unlink()


def _undone(folder: Path, aside: Path | None, error: Exception) -> JournalUnwritable:
    """The journal was not replaced. Its copy goes, unless it is all there is of it."""
    failure = unwritable(folder, error)
    if aside is None:
        return failure
    state = _state(aside)
    if state and state == _state(folder / DATABASE) and _is_whole(folder / DATABASE):
        aside.unlink()
        return failure
    return JournalUnwritable(f"{failure.message}{_KEPT}{aside}", failure.hint)


def _state(database: Path) -> tuple[object, ...]:
    """(Its id, how far it was written, its rows), or nothing if that cannot be read."""
    try:
        with closing(_read_only(database)) as db:
            (found,) = db.execute(
                "SELECT (SELECT value FROM meta WHERE key = 'journal_id'), (SELECT value FROM meta WHERE key = 'seq'), "
                "(SELECT count(*) FROM session), (SELECT count(*) FROM message)"
            )
            return tuple(found)
    except sqlite3.DatabaseError:
        return ()


def _is_whole(database: Path) -> bool:
    try:
        with closing(_read_only(database)) as db:
            return bool(db.execute("PRAGMA quick_check(1)").fetchall() == [("ok",)])
    except sqlite3.DatabaseError:
        return False


def _read_only(database: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{database.as_uri()}?mode=ro", uri=True)


def kept_aside(folder: Path) -> list[Path]:
    """Journals that a restore replaced. They hold what they held."""
    return sorted(folder.glob("journal_*.db"))


def put_config(content: bytes, place: Path, environ: Mapping[str, str], agents: Mapping[str, str]) -> str:
    """The configuration of the backup, where there is none and it does not lead away from what was restored. Returns
    what was done."""
    if place.exists():
        return f"{place} is there, and stays as it is"
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / place.name).write_bytes(content)
        try:
            origins = load({**environ, "AJ_HOME": folder}, agents).origins
        except BadConfig as error:
            return f"the config.toml of the backup is not restored: {error.message}"
    if origins.get("storage.index_path") == "file":
        return "the config.toml of the backup is not restored: it sets storage.index_path, so another journal"
    try:
        config_file.write(place, content)
    except JournalUnwritable as error:
        return f"the config.toml of the backup is not restored: {error.message}"
    return f"{place} is restored too"
