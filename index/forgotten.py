"""What the user had forgotten, and is not taken in again. Knows keys and hashes; of what was said nothing is left.

A prompt is kept as a hash with the journal's own key: two journals cannot be compared by it. Whoever has the journal
and guesses a short prompt can still find that it was said; without a hash it would come back from a prompt history.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from datetime import datetime

import msgspec
from msgspec import Struct

from agent_journal.errors import NoSuchSession
from agent_journal.index import codec
from agent_journal.index.guard import guarded
from agent_journal.index.store import Store
from agent_journal.session import Message, Session

KIND = "forgotten"  # of what a source holds and the journal left out
PROMPT = "forgotten/prompt"
PENDING = "forgetting"  # key of meta: the steps that a removal still needs


class Entry(Struct, frozen=True):
    key: str
    at: datetime | None
    with_it: int  # sub-agents that went with it


class Forgotten:
    def __init__(self, store: Store) -> None:
        self.store = store
        self.db = store.db

    @property
    def empty(self) -> bool:
        return not self.store.number("SELECT EXISTS (SELECT 1 FROM forgotten)")

    def holds(self, *keys: str) -> bool:
        marks = ",".join("?" * len(keys))
        return bool(self.store.number(f"SELECT EXISTS (SELECT 1 FROM forgotten WHERE key IN ({marks}))", keys))

    def holds_prompt(self, session: Session, message: Message) -> bool:
        """Only what was said before it was forgotten: the same words may be said again."""
        prompt = codec.prompt_of(message)
        if prompt is None:
            return False
        sql = "SELECT max(f.at_us) FROM forgotten_prompt p JOIN forgotten f ON f.key = p.key WHERE p.hash = ?"
        found = self.store.number(sql, (self._hash(prompt, session.workspace),))
        return found > (codec.microseconds(message.at) or 0)

    def add(self, session: int, root: str, at: datetime) -> None:
        """Remember a stored session and what people said in it. The caller holds the transaction."""
        key, workspace = self.db.execute("SELECT key, workspace FROM session WHERE id = ?", (session,)).fetchone()
        self.db.execute("INSERT OR REPLACE INTO forgotten VALUES (?, ?, ?)", (key, codec.microseconds(at), root))
        prompts = self.db.execute(
            "SELECT DISTINCT prompt FROM message WHERE session = ? AND prompt IS NOT NULL", (session,)
        )
        hashes = [(self._hash(prompt, workspace), key) for (prompt,) in prompts]
        self.db.executemany("INSERT OR IGNORE INTO forgotten_prompt VALUES (?, ?)", hashes)

    def _hash(self, prompt: int, workspace: str | None) -> int:
        said = msgspec.msgpack.encode((prompt, workspace))
        keyed = hashlib.blake2b(said, digest_size=8, key=self.store.journal_id.encode())
        return int.from_bytes(keyed.digest(), "big", signed=True)

    # --- what a user sees of it --------------------------------------------------------------------------

    def entries(self) -> list[Entry]:
        found = self.store.rows(
            "SELECT root, max(at_us), count(*) - 1 FROM forgotten GROUP BY root ORDER BY max(at_us) DESC, root"
        )
        return [Entry(str(key), codec.moment(at), int(str(count))) for key, at, count in found]

    def find(self, name: str) -> str:
        """The key that a name means: a key, an id, or a beginning that fits only one."""
        keys = [entry.key for entry in self.entries()]
        for fits in (str.__eq__, str.startswith):
            found = [key for key in keys if fits(key, name) or fits(key.partition(":")[2], name)]
            if len(found) == 1:
                return found[0]
            if found:
                raise NoSuchSession(f"{name!r} fits several: {', '.join(found[:5])}", "give more of the key")
        raise NoSuchSession(f"nothing that was forgotten is called {name[:60]!r}", "see `aj forget --list`")

    def let_in(self, roots: Sequence[str]) -> None:
        """Take them in again, should a source still hold them: those that do are read anew by the next reindex."""
        with self.store.transaction():
            for root in roots:
                self.db.execute(
                    "DELETE FROM forgotten_prompt WHERE key IN (SELECT key FROM forgotten WHERE root = ?)", (root,)
                )
                self.db.execute("DELETE FROM forgotten WHERE root = ?", (root,))
            held = (f'%"{KIND}%',)
            self.db.execute("DELETE FROM part WHERE skipped LIKE ?", held)
            self.db.execute("UPDATE source SET fingerprint = '' WHERE skipped LIKE ?", held)


def above(session: Session) -> Iterator[str]:
    """The sessions that a sub-agent worked for, as its key and its parent tell. A fork has a parent too, and stands
    for itself."""
    if not session.is_agent_session:
        return
    if session.parent_key:
        yield session.parent_key
    key = session.key
    while "/" in key:
        key = key.rpartition("/")[0]
        yield key


def pending(store: Store) -> list[str]:
    """Steps of a removal that was begun and not ended."""
    found = store.rows("SELECT value FROM meta WHERE key = ?", (PENDING,))
    with guarded(store.path):
        return msgspec.json.decode(str(found[0][0]), type=list[str]) if found else []


def set_pending(store: Store, steps: Sequence[str]) -> None:
    if steps:
        store.rows("INSERT OR REPLACE INTO meta VALUES (?, ?)", (PENDING, json.dumps(list(steps))))
    else:
        store.rows("DELETE FROM meta WHERE key = ?", (PENDING,))
