"""The journal's truth: sources, sessions and messages in SQLite. Search indexes are derived from it.

Reading lives here; what a re-read source changes is decided in intake.py.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Container, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

import msgspec
from msgspec import Struct

from agent_journal.errors import JournalCorrupt, JournalUnwritable, unwritable
from agent_journal.index import codec, naming, schema
from agent_journal.index.codec import path_text
from agent_journal.index.exclusion import is_private
from agent_journal.index.guard import damaged, guarded
from agent_journal.session import LOCAL, Derived, Message, Session, StoredMessage, StoredSession, project_name
from agent_journal.workplace import private_folder

DATABASE = "journal.db"
IMPORTED = "import"  # a source's agent where it is an export: no connector looks for it, so it never goes missing
BUSY_MS = 5000
DICTIONARIES = ("dictionary", "named_dictionary")  # keys of meta; a journal has one of them, or none


class Copy(Struct, frozen=True, array_like=True):
    """One place where a message stands."""

    message: int
    session: int
    ordinal: int
    key: str  # of the session
    is_head: bool  # carries the session's title in the word index
    changed_seq: int


class Known(Struct, frozen=True):
    id: int
    fingerprint: str
    parser_version: int
    gone: bool


class SourceRow(Struct, frozen=True, array_like=True):
    id: int
    agent: str
    home: str
    path: str
    fingerprint: str
    parser_version: int
    status: str
    detail: str
    lines: int
    bad_lines: int
    bad: str
    skipped: str
    unfinished: bool
    gone: bool


_SOURCE_COLUMNS = ", ".join(SourceRow.__struct_fields__)
_SESSION_COLUMNS = "s.id, s.facts, s.derived, (SELECT gone FROM source WHERE source.id = s.source)"

_MESSAGE = "SELECT id, session, ordinal, body, vanished FROM message"
_MESSAGES = "CAST(coalesce(sum(message_count), 0) AS INTEGER)"
CHOSEN = "(SELECT value FROM json_each(?))"  # rows, as a JSON list


class Store:
    """A connection to the journal. Readers never wait for a writer: SQLite's write-ahead log keeps the last commit."""

    def __init__(self, folder: Path, db: sqlite3.Connection) -> None:
        self.folder = folder
        self.path = folder / DATABASE
        self.db = db
        self._bodies: codec.Bodies | None = None

    @staticmethod
    def make_folder(folder: Path) -> None:
        """For its owner alone: it holds everything the agents were told."""
        try:
            private_folder(folder)
        except OSError as error:
            raise unwritable(folder, error) from error

    @classmethod
    def create(cls, folder: Path) -> Store:
        """Open, and bring the tables up to date. The caller holds the write lock."""
        path = folder / DATABASE
        try:
            os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))  # what SQLite adds takes the database's own mode
            if path.stat().st_mode & 0o077:
                path.chmod(0o600)
        except OSError as error:
            raise unwritable(folder, error) from error
        with guarded(path):
            db = _connected(path)
            try:
                schema.check_version(schema.version_of(db))
                db.execute("PRAGMA journal_mode = WAL")
                schema.migrate(db)
            except BaseException:
                db.close()
                raise
        return cls(folder, db)

    @classmethod
    def open(cls, folder: Path) -> Store | None:
        """None where there is no journal, or one that is only being made."""
        path = folder / DATABASE
        if not path.exists():
            return None
        with guarded(path):
            db = _connected(path)
            try:
                version = schema.version_of(db)
                schema.check_version(version)
            except BaseException:
                db.close()
                raise
        if version == 0:
            db.close()
            return None
        return cls(folder, db)

    @property
    def outdated(self) -> bool:
        """An earlier version's tables: to be brought up to date before they are read."""
        with guarded(self.path):
            return schema.version_of(self.db) < len(schema.MIGRATIONS)

    def close(self) -> None:
        self.db.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def rows(self, sql: str, values: Sequence[object] = ()) -> list[tuple[object, ...]]:
        with guarded(self.path):
            return self.db.execute(sql, values).fetchall()

    def _one(self, sql: str, values: Sequence[object] = ()) -> tuple[object, ...]:
        """A row that must be there."""
        found = self.rows(sql, values)
        if not found:
            raise self.lacking("a row")
        return found[0]

    def lacking(self, what: str) -> JournalCorrupt:
        """For whoever misses something that the tables' own rules say is there."""
        return damaged(self.path, LookupError(f"{what} is missing"))

    def number(self, sql: str, values: Sequence[object] = ()) -> int:
        found = self.rows(sql, values)
        return self._whole(found[0][0]) if found and found[0][0] is not None else 0

    def numbers(self, sql: str, values: Sequence[object] = ()) -> list[int]:
        """The first column of every row."""
        return [self._whole(row[0]) for row in self.rows(sql, values)]

    def _whole(self, value: object) -> int:
        """SQLite lets any value into any column."""
        if not isinstance(value, int):
            raise damaged(self.path, TypeError("words where a number belongs"))
        return value

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Several reads see one state of the journal, whatever is written meanwhile."""
        if self.db.in_transaction:  # a part of a longer look
            yield
            return
        self.rows("BEGIN")
        try:
            yield
        finally:
            self.rows("ROLLBACK")

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All of it or nothing is written. The caller holds the write lock."""
        with guarded(self.path):
            self.db.execute("BEGIN IMMEDIATE")
            try:
                yield
            except BaseException:
                if self.db.in_transaction:  # SQLite itself gives up the transaction on a full disk
                    self.db.execute("ROLLBACK")
                self.relearn()
                raise
            self.db.execute("COMMIT")

    # --- the whole ---------------------------------------------------------------------------------------

    @property
    def journal_id(self) -> str:
        return str(self._one("SELECT value FROM meta WHERE key = 'journal_id'")[0])

    @property
    def seq(self) -> int:
        return self.number("SELECT value FROM meta WHERE key = 'seq'")

    def next_seq(self) -> int:
        """Of the change that is being written. The caller holds the transaction."""
        return int(self.db.execute("UPDATE meta SET value = value + 1 WHERE key = 'seq' RETURNING value").fetchone()[0])

    def counts(self) -> tuple[int, int]:
        """(sessions, messages). Summed over sessions: counting message rows would read the whole table."""
        row = self.rows(f"SELECT count(*), {_MESSAGES} FROM session")[0]
        return self._whole(row[0]), self._whole(row[1])

    def sources(self) -> list[SourceRow]:
        with guarded(self.path):
            found = self.db.execute(f"SELECT {_SOURCE_COLUMNS} FROM source").fetchall()
            return [msgspec.convert([path_text(value) for value in row], SourceRow, strict=False) for row in found]

    def known(self) -> dict[tuple[str, str, str], Known]:
        """By (agent, home, path): all a scan needs to see what changed."""
        with guarded(self.path):
            found = self.db.execute(
                "SELECT agent, home, path, id, fingerprint, parser_version, gone FROM source"
            ).fetchall()
        return {(a, h, path_text(p)): Known(i, f, v, bool(g)) for a, h, p, i, f, v, g in found}

    def workspaces(self) -> list[Path]:
        """Folders that sessions of the local home ran in and that are still there."""
        found = self.rows(
            "SELECT DISTINCT session.workspace FROM session JOIN source ON source.id = session.source "
            "WHERE session.workspace IS NOT NULL AND source.home = ?",
            (LOCAL,),
        )
        paths = (Path(path_text(row[0])) for row in found)
        return sorted(path for path in paths if path.is_absolute() and _is_folder(path))

    def agent_counts(self, agent: str) -> tuple[int, int, datetime | None]:
        """(sessions, messages, when the newest ended)."""
        row = self.rows(f"SELECT count(*), {_MESSAGES}, max(ended_us) FROM session WHERE agent = ?", (agent,))[0]
        return self._whole(row[0]), self._whole(row[1]), codec.moment(row[2])

    def damage(self) -> str:
        """What SQLite finds wrong with the file, or nothing. Reads all of it."""
        found = [str(row[0]) for row in self.rows("PRAGMA quick_check(5)")]
        return "" if found == ["ok"] else "; ".join(found)

    # --- sessions ----------------------------------------------------------------------------------------

    def _session(self, row: Sequence[object]) -> StoredSession:
        number, facts, derived, gone = row
        with guarded(self.path):
            session, derivation = codec.session_of(_bytes(facts)), codec.derived_of(_bytes(derived))
        return StoredSession(self._whole(number), session, derivation, bool(gone), naming.handle(self, session))

    def session(self, row: int) -> StoredSession:
        return self._session(self._one(f"SELECT {_SESSION_COLUMNS} FROM session s WHERE s.id = ?", (row,)))

    def newest_sessions(
        self, limit: int, offset: int = 0, among: Iterable[int] | None = None
    ) -> tuple[int, list[StoredSession]]:
        """(how many there are, one page of them), all of them or those among some rows."""
        where, given = _within(among)
        total = self.number(f"SELECT count(*) FROM session s {where}", given)
        found = self.rows(
            f"SELECT {_SESSION_COLUMNS} FROM session s {where} ORDER BY s.ended_us DESC, s.id LIMIT ? OFFSET ?",
            (*given, limit, offset),
        )
        return total, [self._session(row) for row in found]

    def ordered_sessions(self, order: str, among: Iterable[int] | None = None) -> list[int]:
        """Rows of all sessions or some, in an order of SQL."""
        where, given = _within(among)
        return self.numbers(f"SELECT s.id FROM session s {where} ORDER BY {order}", given)

    def read_from(self, rows: Iterable[int]) -> list[tuple[str, str]]:
        """(path, label of the home) of the agents' files that these sessions were read from."""
        found = self.rows(
            "SELECT DISTINCT c.path, c.home FROM session s JOIN source c ON c.id = s.source "
            f"WHERE c.agent != ? AND s.id IN {CHOSEN} ORDER BY c.path",
            (IMPORTED, json.dumps(list(rows))),
        )
        return [(path_text(path), str(home)) for path, home in found]

    def workspace_sessions(self, name: str) -> list[int]:
        """Rows of the sessions of a workspace, by its path or its last component."""
        found = self.rows("SELECT DISTINCT workspace FROM session WHERE workspace IS NOT NULL")
        paths = [row[0] for row in found if name in (row[0], project_name(path_text(row[0])))]
        return self.numbers(f"SELECT id FROM session WHERE workspace IN {CHOSEN}", (json.dumps(paths),))

    def facts(self, row: int) -> tuple[Session, Derived]:
        facts, derived = self._one("SELECT facts, derived FROM session WHERE id = ?", (row,))
        with guarded(self.path):
            return codec.session_of(_bytes(facts)), codec.derived_of(_bytes(derived))

    def open_sessions(self, patterns: Sequence[str]) -> list[int] | None:
        """Rows of the sessions that no pattern of index.exclude keeps out; None for all of them."""
        if not patterns:
            return None
        found = self.rows("SELECT id, facts FROM session")
        return [int(str(row[0])) for row in found if not is_private(codec.session_of(_bytes(row[1])), patterns)]

    def gone_sessions(self) -> list[int]:
        return self.numbers("SELECT s.id FROM session s JOIN source c ON c.id = s.source WHERE c.gone")

    def is_head(self, message: StoredMessage) -> bool:
        """Whether it carries its session's title in the word index."""
        return self.number("SELECT head FROM session WHERE id = ?", (message.session,)) == message.id

    def find(self, name: str) -> StoredSession:
        """By key, native id, slug, or a prefix of one that fits only one."""
        return self.session(naming.row_of(self, name))

    # --- messages ----------------------------------------------------------------------------------------

    @property
    def bodies(self) -> codec.Bodies:
        if self._bodies is None:
            found = self.rows("SELECT value, key = ? FROM meta WHERE key IN (?, ?)", (DICTIONARIES[1], *DICTIONARIES))
            self._bodies = codec.Bodies(_bytes(found[0][0]), named=bool(found[0][1])) if found else codec.Bodies(None)
        return self._bodies

    def learn(self, samples: Sequence[Message]) -> None:
        """Take these messages as the pattern for compressing all later ones. Once in a journal's life, unless some are
        forgotten: bodies that were written with an earlier dictionary are the caller's to rewrite."""
        dictionary = codec.dictionary_of(samples)
        self.rows("DELETE FROM meta WHERE key IN (?, ?)", DICTIONARIES)
        if dictionary is not None:
            self.rows("INSERT INTO meta VALUES (?, ?)", (DICTIONARIES[1], dictionary))
        self.relearn()

    def relearn(self) -> None:
        """Look again for the dictionary: another process wrote it, or our transaction that did was undone."""
        self._bodies = None

    def message_of(self, body: bytes) -> Message:
        if not self.bodies.readable(body):
            self.relearn()
        return self.bodies.message(body)

    def _message(self, row: Sequence[object]) -> StoredMessage:
        number, session, ordinal, body, vanished = row
        with guarded(self.path):
            if not self.bodies.readable(_bytes(body)):  # rewritten, with its dictionary, since this row was read
                (body,) = self._one("SELECT body FROM message WHERE id = ?", (number,))
            message = self.message_of(_bytes(body))
        return StoredMessage(self._whole(number), self._whole(session), self._whole(ordinal), message, bool(vanished))

    def messages(self, session: int, first: int = 1, last: int | None = None) -> list[StoredMessage]:
        found = self.rows(
            f"{_MESSAGE} WHERE session = ? AND ordinal BETWEEN ? AND ? ORDER BY ordinal",
            (session, min(first, 2**62), 2**62 if last is None else min(last, 2**62)),
        )
        return [self._message(row) for row in found]

    def stream(self, session: int, wanted: Container[int] | None = None) -> Iterator[tuple[int, Message]]:
        """(Digest, message) of a session, one after the other; only those with a wanted digest are decoded."""
        with guarded(self.path):
            found = self.db.execute("SELECT digest, body FROM message WHERE session = ? ORDER BY ordinal", (session,))
            for digest, body in found:
                if wanted is None or digest in wanted:
                    yield digest, self.message_of(_bytes(body))

    def repeated_digests(self) -> frozenset[int]:
        """Of messages that stand in several places."""
        return frozenset(self.numbers("SELECT digest FROM message GROUP BY digest HAVING count(*) > 1"))

    def digests(self, messages: Sequence[int]) -> frozenset[int]:
        sql = f"SELECT digest FROM message WHERE id IN {CHOSEN}"
        return frozenset(self.numbers(sql, (json.dumps(messages),)))

    def message(self, number: int) -> StoredMessage:
        return self._message(self._one(f"{_MESSAGE} WHERE id = ?", (number,)))

    def context(self, at: Copy, around: int) -> tuple[list[StoredMessage], StoredMessage, list[StoredMessage]]:
        """A message between those before and after it: a range read."""
        near = self.messages(at.session, at.ordinal - around, at.ordinal + around)
        place = next((place for place, m in enumerate(near) if m.id == at.message), None)
        if place is None:
            raise self.lacking("a message")
        return near[:place], near[place], near[place + 1 :]

    def asked_before(self, at: StoredMessage) -> Message | None:
        """What a person said last before a message: what it answers."""
        found = self.rows(
            f"{_MESSAGE} WHERE session = ? AND ordinal < ? AND prompt IS NOT NULL ORDER BY ordinal DESC LIMIT 1",
            (at.session, at.ordinal),
        )
        return self._message(found[0]).message if found else None

    def copies(self, messages: Sequence[int]) -> dict[int, list[Copy]]:
        """For each of these messages, every place that holds the same one, itself included; oldest session first."""
        marks = ",".join("?" * len(messages))
        digests = self.rows(f"SELECT id, digest FROM message WHERE id IN ({marks})", messages)
        found = self.rows(
            "SELECT c.digest, c.id, c.session, c.ordinal, s.key, s.head IS c.id, c.changed_seq "
            "FROM message c JOIN session s ON s.id = c.session "
            f"WHERE c.digest IN (SELECT digest FROM message WHERE id IN ({marks})) "
            "ORDER BY s.parent_key IS NOT NULL, s.ended_us, s.key, c.ordinal",
            messages,
        )
        groups: dict[object, list[Copy]] = {}
        for digest, *place in found:
            groups.setdefault(digest, []).append(msgspec.convert(place, Copy, strict=False))
        return {int(str(number)): groups[digest] for number, digest in digests if digest in groups}


def _within(rows: Iterable[int] | None) -> tuple[str, tuple[str, ...]]:
    """What limits a query over `session s` to some rows, and its value; nothing for all of them."""
    return ("", ()) if rows is None else (f"WHERE s.id IN {CHOSEN}", (json.dumps(list(rows)),))


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except (OSError, ValueError):  # a log may name anything
        return False


def _connected(path: Path) -> sqlite3.Connection:
    if path.exists() and not path.is_file():  # SQLite would wait for a pipe
        raise JournalUnwritable(f"{path} is no ordinary file", "move it away and run `aj reindex`")
    schema.check_version(schema.header_version(path))
    db = sqlite3.connect(path, timeout=BUSY_MS / 1000, isolation_level=None)
    db.execute("PRAGMA synchronous = NORMAL")  # WAL stays consistent; a power cut may lose the last batch
    db.execute("PRAGMA cache_size = -16000")
    return db


def _bytes(value: object) -> bytes:
    if not isinstance(value, bytes):
        raise sqlite3.DatabaseError("a body is not a blob")
    return value
