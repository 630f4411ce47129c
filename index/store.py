"""The journal's truth: sources, sessions and messages in SQLite. Search indexes are derived from it.

Reading lives here; what a re-read source changes is decided in intake.py.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any

import msgspec
from msgspec import Struct

from agent_journal.errors import JournalCorrupt, JournalError, JournalUnwritable, NoSuchSession, unwritable
from agent_journal.index import codec, schema
from agent_journal.index.exclusion import is_private
from agent_journal.session import Message, Session, StoredMessage, StoredSession

DATABASE = "journal.db"
BUSY_MS = 5000
AMBIGUOUS_SHOWN = 5
LONGEST_NAME = 500
LEAST_HANDLE = 8  # characters of an id that people can compare


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

_MESSAGES = "CAST(coalesce(sum(message_count), 0) AS INTEGER)"


@contextmanager
def guarded(path: Path) -> Iterator[None]:
    """SQLite's failures as sentences. A damaged journal is reported, never deleted."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        raise _sentence(path, error) from error
    except codec.DAMAGE as error:
        raise _damaged(path, error) from error


# By SQLite's primary result codes; an I/O error is most often a disk without space for the shared-memory file.
_UNWRITABLE = {
    sqlite3.SQLITE_FULL, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM, sqlite3.SQLITE_IOERR,
}  # fmt: skip
_LOCKED = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}


def _sentence(path: Path, error: sqlite3.DatabaseError) -> JournalError:
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF
    if code in _UNWRITABLE:
        return unwritable(path.parent, error)
    if code in _LOCKED:
        return JournalUnwritable(f"{path}: the database is locked by another program", "close it and try again")
    return _damaged(path, error)


def _damaged(path: Path, error: Exception) -> JournalCorrupt:
    return JournalCorrupt(
        f"{path} is damaged ({error})",
        "it was left as it is. Sessions whose files still exist can be rebuilt: move journal.db away and run "
        "`aj reindex`. Sessions whose files are gone are only in it: try `sqlite3 journal.db .recover` on a copy.",
    )


class Store:
    """A connection to the journal. Readers never wait for a writer: SQLite's write-ahead log keeps the last commit."""

    def __init__(self, folder: Path, db: sqlite3.Connection) -> None:
        self.folder = folder
        self.path = folder / DATABASE
        self.db = db
        self._bodies: codec.Bodies | None = None

    @staticmethod
    def make_folder(folder: Path) -> None:
        """For its owner alone: it holds everything the agents were told. One that was there is left as it is."""
        try:
            for missing in [f for f in reversed(folder.parents) if not f.exists()]:
                missing.mkdir(mode=0o700, exist_ok=True)
            folder.mkdir(exist_ok=True, mode=0o700)
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

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
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
        return _damaged(self.path, LookupError(f"{what} is missing"))

    def number(self, sql: str, values: Sequence[object] = ()) -> int:
        found = self.rows(sql, values)
        return int(str(found[0][0])) if found and found[0][0] is not None else 0

    # --- the whole ---------------------------------------------------------------------------------------

    @property
    def journal_id(self) -> str:
        return str(self._one("SELECT value FROM meta WHERE key = 'journal_id'")[0])

    @property
    def seq(self) -> int:
        return self.number("SELECT value FROM meta WHERE key = 'seq'")

    def counts(self) -> tuple[int, int]:
        """(sessions, messages). Summed over sessions: counting message rows would read the whole table."""
        row = self.rows(f"SELECT count(*), {_MESSAGES} FROM session")[0]
        return int(str(row[0])), int(str(row[1]))

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
        found = self.rows("SELECT DISTINCT workspace FROM session WHERE workspace IS NOT NULL")
        paths = (Path(path_text(row[0])) for row in found)
        return sorted(path for path in paths if path.is_absolute() and _is_folder(path))

    def agent_counts(self, agent: str) -> tuple[int, int, datetime | None]:
        """(sessions, messages, when the newest ended)."""
        row = self.rows(f"SELECT count(*), {_MESSAGES}, max(ended_us) FROM session WHERE agent = ?", (agent,))[0]
        return int(str(row[0])), int(str(row[1])), codec.moment(row[2])

    def damage(self) -> str:
        """What SQLite finds wrong with the file, or nothing. Reads all of it."""
        found = [str(row[0]) for row in self.rows("PRAGMA quick_check(5)")]
        return "" if found == ["ok"] else "; ".join(found)

    # --- sessions ----------------------------------------------------------------------------------------

    def _session(self, row: Sequence[object]) -> StoredSession:
        number, facts, derived, gone = row
        with guarded(self.path):
            session, derivation = codec.session_of(_bytes(facts)), codec.derived_of(_bytes(derived))
        return StoredSession(int(str(number)), session, derivation, bool(gone), self._handle(session))

    def _handle(self, session: Session) -> str:
        """The shortest text that names the session and no other: a beginning of its id, else its key."""
        below, same, above = self._one(
            "SELECT (SELECT max(native_id) FROM session WHERE native_id < ?1), "
            "(SELECT count(*) FROM session WHERE native_id = ?1), "
            "(SELECT min(native_id) FROM session WHERE native_id > ?1)",
            (session.id,),
        )
        if same != 1:
            return session.key
        needed = [LEAST_HANDLE, *(_shared(session.id, str(other)) + 1 for other in (below, above) if other)]
        return session.id[: max(needed)]

    def session(self, row: int) -> StoredSession:
        return self._session(self._one(f"SELECT {_SESSION_COLUMNS} FROM session s WHERE s.id = ?", (row,)))

    def newest_sessions(
        self, limit: int, offset: int = 0, among: Iterable[int] | None = None
    ) -> tuple[int, list[StoredSession]]:
        """(how many there are, one page of them), all of them or those among some rows."""
        where, values = "", ""
        if among is not None:
            where, values = "WHERE s.id IN (SELECT value FROM json_each(?))", json.dumps(list(among))
        given = (values,) if where else ()
        total = self.number(f"SELECT count(*) FROM session s {where}", given)
        found = self.rows(
            f"SELECT {_SESSION_COLUMNS} FROM session s {where} ORDER BY s.ended_us DESC, s.id LIMIT ? OFFSET ?",
            (*given, limit, offset),
        )
        return total, [self._session(row) for row in found]

    def open_sessions(self, patterns: Sequence[str]) -> list[int] | None:
        """Rows of the sessions that no pattern of index.exclude keeps out; None for all of them."""
        if not patterns:
            return None
        found = self.rows("SELECT id, facts FROM session")
        return [int(str(row[0])) for row in found if not is_private(codec.session_of(_bytes(row[1])), patterns)]

    def gone_sessions(self) -> list[int]:
        found = self.rows("SELECT s.id FROM session s JOIN source c ON c.id = s.source WHERE c.gone")
        return [int(str(row[0])) for row in found]

    def is_head(self, message: StoredMessage) -> bool:
        """Whether it carries its session's title in the word index."""
        return self.number("SELECT head FROM session WHERE id = ?", (message.session,)) == message.id

    def find(self, name: str) -> StoredSession:
        """A session by key, native id, slug, or a prefix of an id or key that fits only one."""
        # Arguments that are not UTF-8 hold surrogates, which SQLite cannot take.
        plain = name.encode("utf-8", "replace").decode()
        if not name or len(name) > LONGEST_NAME or plain != name:
            raise NoSuchSession(f"no session is called {plain[:60]!r}", "see `aj sessions`")
        exact = self.rows(
            f"SELECT {_SESSION_COLUMNS} FROM session s WHERE s.key = ?1 OR s.native_id = ?1 OR s.slug = ?1", (name,)
        )
        if len(exact) == 1:
            return self._session(exact[0])
        if exact:
            raise self._ambiguous(name, exact)
        like = name.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_") + "%"
        found = self.rows(
            f"SELECT {_SESSION_COLUMNS} FROM session s "
            "WHERE s.native_id LIKE ?1 ESCAPE '\\' OR s.key LIKE ?1 ESCAPE '\\' "
            f"OR s.slug LIKE ?1 ESCAPE '\\' ORDER BY s.is_agent, s.ended_us DESC LIMIT {AMBIGUOUS_SHOWN + 1}",
            (like,),
        )
        if not found:
            raise NoSuchSession(f"no session is called {name!r}", "see `aj sessions`")
        if len(found) > 1 and not (mains := self._one_main(found)):
            raise self._ambiguous(name, found)
        return self._session(found[0] if len(found) == 1 else mains)

    def _one_main(self, found: Sequence[Sequence[object]]) -> Sequence[object]:
        """A session's own sub-agents share its prefix: the prefix still names the session."""
        mains = [row for row in found if not codec.session_of(_bytes(row[1])).is_agent_session]
        return mains[0] if len(mains) == 1 and len(found) <= AMBIGUOUS_SHOWN else ()

    def _ambiguous(self, name: str, found: Sequence[Sequence[object]]) -> NoSuchSession:
        names = [self._session(row).session.key for row in found[:AMBIGUOUS_SHOWN]]
        more = " …" if len(found) > AMBIGUOUS_SHOWN else ""
        return NoSuchSession(f"{name!r} fits several sessions: {', '.join(names)}{more}", "give more of the id")

    # --- messages ----------------------------------------------------------------------------------------

    @property
    def bodies(self) -> codec.Bodies:
        if self._bodies is None:
            found = self.rows("SELECT value FROM meta WHERE key = 'dictionary'")
            self._bodies = codec.Bodies(_bytes(found[0][0]) if found else None)
        return self._bodies

    def learn(self, samples: Sequence[Message]) -> None:
        """Take these messages as the pattern for compressing all later ones. Once in a journal's life."""
        dictionary = codec.dictionary_of(samples)
        if dictionary is not None:
            self.rows("INSERT INTO meta VALUES ('dictionary', ?)", (dictionary,))
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
            message = self.message_of(_bytes(body))
        return StoredMessage(int(str(number)), int(str(session)), int(str(ordinal)), message, bool(vanished))

    def messages(self, session: int, first: int = 1, last: int | None = None) -> list[StoredMessage]:
        found = self.rows(
            "SELECT id, session, ordinal, body, vanished FROM message "
            "WHERE session = ? AND ordinal BETWEEN ? AND ? ORDER BY ordinal",
            (session, min(first, 2**62), 2**62 if last is None else min(last, 2**62)),
        )
        return [self._message(row) for row in found]

    def message(self, number: int) -> StoredMessage:
        sql = "SELECT id, session, ordinal, body, vanished FROM message WHERE id = ?"
        return self._message(self._one(sql, (number,)))

    def context(self, at: StoredMessage, around: int) -> tuple[tuple[StoredMessage, ...], tuple[StoredMessage, ...]]:
        """The messages before and after one: a range read."""
        near = self.messages(at.session, at.ordinal - around, at.ordinal + around)
        return (
            tuple(m for m in near if m.ordinal < at.ordinal),
            tuple(m for m in near if m.ordinal > at.ordinal),
        )

    def asked_before(self, at: StoredMessage) -> Message | None:
        """What a person said last before a message: what it answers."""
        found = self.rows(
            "SELECT body FROM message WHERE session = ? AND ordinal < ? AND prompt IS NOT NULL "
            "ORDER BY ordinal DESC LIMIT 1",
            (at.session, at.ordinal),
        )
        with guarded(self.path):
            return self.message_of(_bytes(found[0][0])) if found else None

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


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except (OSError, ValueError):  # a log may name anything
        return False


def _shared(a: str, b: str) -> int:
    """How many characters two texts begin with alike."""
    pairs = zip(a, b, strict=False)
    return next((place for place, (x, y) in enumerate(pairs) if x != y), min(len(a), len(b)))


def _connected(path: Path) -> sqlite3.Connection:
    schema.check_version(schema.header_version(path))
    db = sqlite3.connect(path, timeout=BUSY_MS / 1000, isolation_level=None)
    db.execute("PRAGMA synchronous = NORMAL")  # WAL stays consistent; a power cut may lose the last batch
    db.execute("PRAGMA cache_size = -16000")
    return db


def path_value(path: str) -> str | bytes:
    """A path as SQLite can keep it: a name that is no text is kept as its bytes."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return os.fsencode(path)
    return path


def path_text(value: Any) -> Any:
    return os.fsdecode(value) if isinstance(value, bytes) else value


def _bytes(value: object) -> bytes:
    if not isinstance(value, bytes):
        raise sqlite3.DatabaseError("a body is not a blob")
    return value
