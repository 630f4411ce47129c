"""The word index: one tantivy document per distinct message. Derived from the store; may be deleted at any time.

A message that forks or resumes copied into several sessions is one document that lies in all of them.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import secrets
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

import tantivy

from agent_journal.errors import JournalError, JournalUnwritable, unwritable
from agent_journal.index import words
from agent_journal.index.document import SCHEMA, Indexed, document
from agent_journal.index.exclusion import is_private
from agent_journal.index.store import Copy, Store
from agent_journal.session import Message, StoredSession

FORMAT = 7  # raised when documents would be written differently: the folder is then rebuilt
ENGINE: str = tantivy.__version__  # type: ignore[attr-defined]  # another release may not read its files
FOLDER, BESIDE = "lexical", "lexical.new"
STATE = "state.json"
MANIFEST = "meta.json"  # tantivy's own list of segments
DAMAGED = "the word index is damaged"
LEAST_SPACE = 2**20  # bytes free; below it a writer that died is taken to have died of a full disk
BATCH = 500  # messages read from the store at a time


class Lexical:
    def __init__(self, folder: Path, index: tantivy.Index, options: Indexed, reached: int, made: str) -> None:
        self.folder = folder
        self.index = index
        self.options = options
        self.reached = reached
        self.made = made  # names this index: another one in its folder has another name

    @classmethod
    def open(cls, store: Store, options: Indexed) -> tuple[Lexical | None, str]:
        """The index as of its last commit, or None and why it must be rebuilt."""
        folder = store.folder / FOLDER
        if not folder.exists():
            return None, "the word index is missing"
        state = _state(folder)
        if state is None or not (folder / MANIFEST).is_file():  # tantivy would begin an empty index
            return None, "the word index is unfinished"
        if state.get("format") != FORMAT or state.get("tantivy") != ENGINE:
            return None, "the word index was written by another version"
        if state.get("options") != options.mark:
            return None, "the settings of the word index changed"
        if state.get("journal") != store.journal_id or state.get("seq", 0) > store.seq:
            return None, "the word index belongs to another journal"
        try:
            index = tantivy.Index(SCHEMA, path=str(folder), reuse=True)
            words.register(index)
            index.reload()
        except (ValueError, OSError):
            return None, DAMAGED
        return cls(folder, index, options, int(state["seq"]), state.get("made", "")), ""

    @classmethod
    def create(cls, store: Store, options: Indexed, name: str = FOLDER) -> Lexical:
        """An empty index in place of whatever is there. The caller holds the write lock."""
        folder = store.folder / name
        try:
            put_away(folder)
            folder.mkdir(mode=0o700)
            (folder / f"{STATE}.new").touch(0o600)  # so that a folder that a crash leaves here is known as ours
            index = tantivy.Index(SCHEMA, path=str(folder), reuse=False)
        except (OSError, ValueError) as error:
            raise unwritable(folder, error) from error
        words.register(index)
        made = cls(folder, index, options, 0, secrets.token_hex(8))
        made._write_state(store, 0)
        return made

    def take_place(self) -> None:
        """Become the index that is searched. Whoever searches the old one has its files open, and goes on."""
        place = self.folder.with_name(FOLDER)
        try:
            put_away(place, successor=self.folder)
        except OSError as error:
            raise unwritable(place, error) from error
        self.folder = place

    @property
    def is_replaced(self) -> bool:
        """Whether another process put another index into its folder: tantivy takes its files for those of this one, and
        would find nothing or half of it."""
        state = _state(self.folder)
        return state is not None and state.get("made", "") != self.made

    def searcher(self) -> tantivy.Searcher:
        return self.index.searcher()

    def _write_state(self, store: Store, seq: int) -> None:
        """After the commit: a crash in between replays harmlessly, since every change is delete, then add."""
        mark = self.options.mark
        state = {"format": FORMAT, "tantivy": ENGINE, "options": mark, "journal": store.journal_id, "seq": seq}
        state["made"] = self.made
        temporary = self.folder / (STATE + ".new")
        try:
            _make_private(self.folder)
            temporary.write_text(json.dumps(state))
            temporary.chmod(0o600)
            temporary.replace(self.folder / STATE)
        except OSError as error:
            raise unwritable(self.folder, error) from error
        self.reached = seq


class DamagedIndex(JournalError):
    """Its files are not what was written. Whoever meets it has it rebuilt from the store."""

    kind = "index_damaged"


@contextmanager
def reading() -> Iterator[None]:
    """tantivy reads lazily: damage shows as an error, or as a panic in Rust, in the middle of a search."""
    try:
        yield
    except ValueError as error:
        raise DamagedIndex(DAMAGED) from error
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        raise DamagedIndex(DAMAGED) from error


@contextmanager
def _writing(folder: Path) -> Iterator[None]:
    """A full disk, a folder without permission and a damaged segment all come as one kind of error."""
    try:
        with reading():
            yield
    except DamagedIndex as damage:
        error = damage.__cause__
        assert error is not None
        if shutil.disk_usage(folder).free < LEAST_SPACE:
            raise unwritable(folder, OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))) from error
        if any(words in str(error).lower() for words in ("os error", "lockbusy")):
            raise unwritable(folder, Exception(str(error))) from error
        raise


def put_away(folder: Path, successor: Path | None = None) -> None:
    """Moved before it is removed: a thread of tantivy may still put a file into it."""
    aside = folder.with_name(f"{FOLDER}.{os.getpid()}.old")
    if folder.exists():
        _check_own(folder)
        folder.replace(aside)
    if successor:
        successor.replace(folder)
    shutil.rmtree(aside, ignore_errors=True)


def leftovers(folder: Path) -> list[Path]:
    """What a run that died left of indexes beside the one that is searched. The caller holds the write lock."""
    return [path for path in folder.glob(f"{FOLDER}.*") if path.suffix in (".old", ".new") and path.is_dir()]


def _check_own(folder: Path) -> None:
    """Only what was written here is removed: the setting may name a folder of the user's own."""
    names = {path.name for path in folder.iterdir()} if folder.is_dir() and not folder.is_symlink() else {""}
    if names and not names & {STATE, MANIFEST, f"{STATE}.new"}:
        raise JournalUnwritable(
            f"{folder} holds files that are not of the journal", "set storage.index_path to a folder of its own"
        )


def _make_private(folder: Path) -> None:
    """tantivy knows nothing of modes."""
    for path in folder.iterdir():
        with contextlib.suppress(FileNotFoundError):  # a merge removed it
            if path.stat().st_mode & 0o077:
                path.chmod(0o600)


def _state(folder: Path) -> dict[str, Any] | None:
    try:
        found = json.loads((folder / STATE).read_text())
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) and isinstance(found.get("seq"), int) else None


class LexicalWriter:
    """Takes in what changed in the store since the index last committed."""

    def __init__(self, lexical: Lexical, store: Store, memory_mb: int) -> None:
        self.lexical = lexical
        self.store = store
        self.fed = lexical.reached  # above `reached` once documents are handed over but not committed
        with _writing(lexical.folder):
            self.writer = lexical.index.writer(heap_size=memory_mb * 2**20, num_threads=1)
        # New messages have higher ids: only those up to here can have a document already.
        fresh = lexical.reached == 0 and lexical.searcher().num_docs == 0
        self.highest = 0 if fresh else 2**62
        self.sessions: dict[int, StoredSession] = {}
        self.at_hand: Mapping[int, Message] = {}

    def feed(self, at_hand: Mapping[int, Message]) -> None:
        """Hand over every change of the store up to now. Commits nothing. `at_hand`: messages as the store has them, by
        id, that need not be read back: of a full index that is a tenth of the time."""
        seq = self.store.seq
        self.sessions.clear()  # their facts may have changed since the last time
        self.at_hand = at_hand
        with _writing(self.lexical.folder), self.store.snapshot():  # one look: a lock for each message takes as long
            self._forget(self._tombstones(seq))
            written: set[int] = set()  # copies of one message, which may be all there is: their document has them all
            for batch in self._changed(seq):
                written |= self._write([number for number in batch if number not in written])
        self.fed = seq

    def commit(self) -> None:
        if self.fed == self.lexical.reached:
            return
        with _writing(self.lexical.folder):
            self.writer.commit()
            self.lexical._write_state(self.store, self.fed)
            self.lexical.index.reload()

    def close(self, *, merge: bool) -> None:
        """Without `merge`, segments are left to a later run: a search must not wait for them."""
        if merge:
            with _writing(self.lexical.folder):
                self.writer.wait_merging_threads()
        _make_private(self.lexical.folder)

    def _tombstones(self, seq: int) -> list[int]:
        return self.store.numbers("SELECT message FROM tombstone WHERE seq > ? AND seq <= ?", (self.fed, seq))

    def _changed(self, seq: int) -> Iterator[list[int]]:
        ids = self.store.numbers(
            "SELECT id FROM message WHERE changed_seq > ? AND changed_seq <= ? ORDER BY changed_seq, id",
            (self.fed, seq),
        )
        for start in range(0, len(ids), BATCH):
            yield ids[start : start + BATCH]

    def _write(self, batch: Sequence[int]) -> set[int]:
        """Returns the messages that stand in a document with others."""
        groups = self.store.copies(batch)
        if len(self.sessions) > 2000:
            self.sessions.clear()
        if any(number not in groups for number in batch):
            raise self.store.lacking("a message's session")
        distinct = {groups[number][0].message: groups[number] for number in batch}
        self._forget([c.message for c in chain(*distinct.values()) if c.message <= self.highest])
        for every in distinct.values():
            copies = [copy for copy in every if not self._is_private(copy.session)]
            if copies:
                first = copies[0].message
                self.writer.add_document(self._document(first, copies))
                self.highest = max(self.highest, first)
        self.highest = max(self.highest, *batch, 0)
        return {copy.message for copies in distinct.values() if len(copies) > 1 for copy in copies}

    def _forget(self, messages: Sequence[int]) -> None:
        """By query: delete_documents_by_term takes a number for signed, and finds nothing in an unsigned field."""
        if messages:
            self.writer.delete_documents_by_query(tantivy.Query.term_set_query(SCHEMA, "id", list(messages)))

    def _document(self, number: int, copies: Sequence[Copy]) -> tantivy.Document:
        message = self.at_hand.get(number) or self.store.message(number).message
        sessions = [self._session(copy.session) for copy in copies]
        heads = [session for copy, session in zip(copies, sessions, strict=True) if copy.is_head]
        fields = document(message, sessions, heads, self.lexical.options)
        fields["id"] = [number]
        fields["session"] = sorted({copy.session for copy in copies})
        fields["shown"] = [copies[0].session]
        # So that a page can ask for what its first page saw, also after a rebuild.
        fields["seq"] = [copies[0].changed_seq]
        return tantivy.Document.from_dict(fields, SCHEMA)

    def _is_private(self, session: int) -> bool:
        patterns = self.lexical.options.exclude
        return bool(patterns) and is_private(self._session(session).session, patterns)

    def _session(self, session: int) -> StoredSession:
        if session not in self.sessions:
            self.sessions[session] = self.store.session(session)
        return self.sessions[session]
