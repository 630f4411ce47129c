"""The journal's tables. Migrations are numbered and only ever added: a journal outlives the program that wrote it."""

from __future__ import annotations

import sqlite3
import uuid
from pathlib import Path

from agent_journal.errors import JournalTooNew

MIGRATIONS = [
    """
    CREATE TABLE meta (key TEXT PRIMARY KEY, value) WITHOUT ROWID;

    -- The unit a connector reads. `fingerprint` covers every file of it.
    CREATE TABLE source (
        id INTEGER PRIMARY KEY,
        agent TEXT NOT NULL, home TEXT NOT NULL, path TEXT NOT NULL,
        fingerprint TEXT NOT NULL, parser_version INTEGER NOT NULL,
        status TEXT NOT NULL,               -- read | empty | excluded | failed
        detail TEXT NOT NULL DEFAULT '',
        lines INTEGER NOT NULL DEFAULT 0,
        bad_lines INTEGER NOT NULL DEFAULT 0,
        bad TEXT NOT NULL DEFAULT '[]',     -- JSON: [[line, reason], …], the first few
        skipped TEXT NOT NULL DEFAULT '{}', -- JSON: kind -> count
        unfinished INTEGER NOT NULL DEFAULT 0,
        gone INTEGER NOT NULL DEFAULT 0,
        UNIQUE (agent, home, path)
    );

    -- `facts` and `derived` are the whole values; the columns are what lists and filters ask for.
    CREATE TABLE session (
        id INTEGER PRIMARY KEY,
        key TEXT NOT NULL UNIQUE, native_id TEXT NOT NULL, slug TEXT,
        agent TEXT NOT NULL, source INTEGER NOT NULL REFERENCES source(id),
        second_hand INTEGER NOT NULL,
        workspace TEXT, parent_key TEXT, is_agent INTEGER NOT NULL,
        started_us INTEGER, ended_us INTEGER,
        message_count INTEGER NOT NULL,
        head INTEGER,                       -- the message that carries the title in the lexical index
        facts BLOB NOT NULL, derived BLOB NOT NULL
    );
    CREATE INDEX session_native ON session (native_id);
    CREATE INDEX session_ended ON session (ended_us);
    CREATE INDEX session_parent ON session (parent_key) WHERE parent_key IS NOT NULL;

    -- `identity`, `digest`, `stamp` and `prompt` are 64-bit hashes: of the agent's id (or content and
    -- place), of what was said and when, of the whole value, and of a person's words.
    CREATE TABLE message (
        id INTEGER PRIMARY KEY,
        session INTEGER NOT NULL REFERENCES session(id),
        ordinal INTEGER NOT NULL,
        identity INTEGER NOT NULL, digest INTEGER NOT NULL, stamp INTEGER NOT NULL, prompt INTEGER,
        vanished INTEGER NOT NULL DEFAULT 0,
        changed_seq INTEGER NOT NULL,
        body BLOB NOT NULL,
        UNIQUE (session, ordinal)
    );
    CREATE INDEX message_digest ON message (digest);
    CREATE INDEX message_changed ON message (changed_seq);
    CREATE INDEX message_prompt ON message (prompt) WHERE prompt IS NOT NULL;

    -- Messages that were removed, so that derived indexes can follow.
    CREATE TABLE tombstone (seq INTEGER NOT NULL, message INTEGER NOT NULL);
    """,
    """
    -- What a person said last before a message, in a session of any length.
    CREATE INDEX message_asked ON message (session, ordinal) WHERE prompt IS NOT NULL;
    """,
    """
    -- What `aj forget` removed and is not to be taken in again; `root` is the session it went with, itself for most.
    CREATE TABLE forgotten (key TEXT PRIMARY KEY, at_us INTEGER NOT NULL, root TEXT NOT NULL) WITHOUT ROWID;

    -- What people said there, as keyed hashes: a prompt history repeats it without naming the session.
    CREATE TABLE forgotten_prompt (hash INTEGER NOT NULL, key TEXT NOT NULL, PRIMARY KEY (hash, key)) WITHOUT ROWID;
    """,
    """
    -- Of a source that holds many sessions, how each was read; `mark` tells whether it changed since, '' that it is to
    -- be read again. What the source's own row counts is the sum of these.
    CREATE TABLE part (
        source INTEGER NOT NULL REFERENCES source(id), name TEXT NOT NULL,
        mark TEXT NOT NULL,
        status TEXT NOT NULL, detail TEXT NOT NULL,
        kept_out INTEGER NOT NULL,          -- sessions that index.exclude does not let in
        lines INTEGER NOT NULL, bad_lines INTEGER NOT NULL, bad TEXT NOT NULL, skipped TEXT NOT NULL,
        PRIMARY KEY (source, name)
    ) WITHOUT ROWID;

    -- Which of the few second-hand sessions of a workspace hold a prompt.
    CREATE INDEX session_second_hand ON session (workspace) WHERE second_hand;
    DROP INDEX message_prompt;
    CREATE INDEX message_prompt ON message (prompt, session) WHERE prompt IS NOT NULL;
    """,
]


def migrate(db: sqlite3.Connection) -> None:
    """Bring the tables up to date. Run under the write lock."""
    version = version_of(db)
    check_version(version)
    for number, script in enumerate(MIGRATIONS[version:], start=version + 1):
        db.executescript(f"BEGIN; {script} PRAGMA user_version = {number}; COMMIT;")
    db.execute("INSERT OR IGNORE INTO meta VALUES ('journal_id', ?), ('seq', 0)", (uuid.uuid4().hex,))
    db.commit()


def version_of(db: sqlite3.Connection) -> int:
    """0: a file without tables yet."""
    return int(db.execute("PRAGMA user_version").fetchone()[0])


def header_version(path: Path) -> int:
    """The version in a database's header: enough to refuse a newer journal without opening, so changing, it."""
    try:
        with path.open("rb") as file:
            header = file.read(64)
    except OSError:
        return 0
    return int.from_bytes(header[60:64], "big") if header.startswith(b"SQLite format 3\0") else 0


def check_version(version: int) -> None:
    if version > len(MIGRATIONS):
        raise JournalTooNew(
            f"this journal was written by a newer agent-journal (format {version}; this one knows {len(MIGRATIONS)})",
            "upgrade agent-journal; the journal was not touched",
        )
