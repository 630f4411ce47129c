"""Gives messages their vectors: newest sessions first, each text once, to be broken off and resumed at any moment.

Chooses no model and takes no lock, and writes nothing but vectors and their places: the journal is only read.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from agent_journal.errors import BadModel
from agent_journal.index.chunks import chunks, digest_of
from agent_journal.index.document import asked, capped, said, titled
from agent_journal.index.embed import Embedder
from agent_journal.index.exclusion import is_private
from agent_journal.index.guard import guarded
from agent_journal.index.meaning import NOTHING, PLACE, Embedded, Meaning
from agent_journal.index.report import EmbeddingReport
from agent_journal.index.store import Store
from agent_journal.index.vector_file import blocks
from agent_journal.session import Message, Role, StoredMessage, StoredSession

COMMIT_SECONDS = 5.0  # what a kill makes us embed again
BATCH_MESSAGES = 8  # between two looks at the clock: a long one is dozens of texts
CONTEXT_CHARS = 100  # of the request that a message answers
LEAST_WORDS, LEAST_CHARS = 2, 12  # either: some languages put no spaces
OUTPUT_CHARS = 2000  # of a tool's output, where that is embedded at all
# Of each tool call, and of all of a message: one piece. What a command is for stands at its beginning; with 450 and 900
# as much is found, no more.
CALL_CHARS, CALLS_CHARS = 300, 440
ORPHAN_SHARE, LEAST_ORPHANS = 0.25, 1000  # vectors that nothing stands for any more, before the file is written anew

# SQLite gives the number of a removed message to a later one.
GONE = "SELECT message FROM tombstone WHERE seq > ? AND message NOT IN (SELECT id FROM message)"

PROBE = "probe"  # a text that any model can embed

Progress = Callable[[int, int], None]  # messages done, of how many
_SPEAKERS = {Role.USER, Role.ASSISTANT}


class Piece(NamedTuple):
    place: str  # one of document.PLACES
    text: str
    embedded: str  # the text, and what it answers


def pieces(message: StoredMessage, session: StoredSession, store: Store, options: Embedded) -> list[Piece]:
    """What of a message is embedded, in order. The request it answers stands behind each piece: "yes, that fixed it"
    means something only with it (message hit@10 by vectors alone: 44 -> 50 of 71)."""
    before = store.asked_before(message)
    context = " ".join(chunks(said(before)[: 4 * CONTEXT_CHARS]))[:CONTEXT_CHARS] if before else ""
    named = chunks(titled(session)) if store.is_head(message) else []
    found = [Piece("title", text, text) for text in named]
    for place, whole in _texts(message.message, options):
        own = filter(_says, chunks(whole))
        found += [Piece(place, text, f"{text}\n{context}" if context else text) for text in own]
    return list({piece.embedded: piece for piece in found}.values())


def _says(piece: str) -> bool:
    """Not "continue" or "/diff": with the request behind it, that would mean just the request."""
    return len(piece.split()) >= LEAST_WORDS or len(piece) >= LEAST_CHARS


def _texts(message: Message, options: Embedded) -> Iterator[tuple[str, str]]:
    """What programs inject (skills, reminders) is found by its words alone: on real sessions that is two fifths of
    all text, and nobody paraphrases it."""
    if message.role in _SPEAKERS and not message.is_meta:
        yield "text", said(message)
    if options.thinking:
        yield "thinking", message.thinking
    if options.tool_input:
        yield "input", "\n".join(asked(c.name, c.arguments)[:CALL_CHARS] for c in message.tool_calls)[:CALLS_CHARS]
    if options.tool_output:
        yield from (("output", capped(c.result, OUTPUT_CHARS)) for c in message.tool_calls if c.result)


class Embedding:
    """One run. The caller holds the write lock."""

    def __init__(self, meaning: Meaning, store: Store, embedder: Embedder) -> None:
        self.meaning = meaning
        self.store = store
        self.embedder = embedder
        self.options = meaning.options
        self.known = _Known(meaning.vectors.digests)
        self.placed: list[NDArray[Any]] = []
        self.embedded = self.refused = 0
        self._session: StoredSession | None = None

    def run(self, progress: Progress | None = None, budget_seconds: float | None = None) -> EmbeddingReport:
        started = time.monotonic()
        seq = self.store.seq
        state = self.meaning.state
        if state.complete and state.reached >= seq:
            return EmbeddingReport()
        pending, done = self._pending(), 0
        kept = started
        try:
            for batch in blocks(pending, BATCH_MESSAGES):
                if budget_seconds is not None and time.monotonic() - started > budget_seconds:
                    break
                self._place(batch)
                done += len(batch)
                if progress:
                    progress(done, len(pending))
                if time.monotonic() - kept > COMMIT_SECONDS:
                    self._keep(state.reached, complete=False)
                    kept = time.monotonic()
        finally:
            complete = done == len(pending)
            self._keep(seq if complete else state.reached, complete)
        if complete:
            self._compact()
        seconds = time.monotonic() - started
        return EmbeddingReport(done, self.embedded, len(pending) - done, seconds, self.refused)

    def _pending(self) -> NDArray[Any]:
        """(message, session, seq) of what has no place yet or another one, newest sessions first."""
        state = self.meaning.state
        with guarded(self.store.path):
            rows = self.store.db.execute(
                "SELECT m.id, m.session, m.changed_seq FROM message m JOIN session s ON s.id = m.session "
                "WHERE m.changed_seq > ? ORDER BY s.ended_us DESC, m.session, m.ordinal",
                (state.reached if state.complete else 0,),
            )
            found = np.fromiter(rows, np.dtype([("message", "<u4"), ("session", "<u4"), ("seq", "<u4")]))
        places = self.meaning.places
        if not len(places):
            return found
        there = np.minimum(np.searchsorted(places["message"], found["message"]), len(places) - 1)
        same = (places["message"][there] == found["message"]) & (places["seq"][there] == found["seq"])
        pending: NDArray[Any] = found[~same]
        return pending

    def _place(self, batch: NDArray[Any]) -> None:
        found = list(self._read(batch))
        wanted = {digest_of(text): text for _, texts in found for text in texts}
        new = [digest for digest in wanted if digest not in self.known]
        if new:
            vectors = self._vectors([wanted[digest] for digest in new])
            first = self.meaning.vectors.append(np.array(new, np.uint64), vectors)
            self.known.add(new, first)
            self.embedded += len(new)
        rows = [
            (place["message"], place["session"], place["seq"], row)
            for place, texts in found
            for row in ([self.known[digest_of(text)] for text in texts] or [NOTHING])
        ]
        self.placed.append(np.array(rows, PLACE))

    def _vectors(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Zeros for a text that the model cannot embed: tokenizers stumble over some, and half precision overflows.
        It must not cost the texts behind it theirs, in this run and every later one."""
        try:
            return self.embedder.embed(texts)
        except BadModel:
            self.embedder.embed([PROBE])  # raises where it is not the texts' fault
        return np.concatenate([self._alone(text) for text in texts])

    def _alone(self, text: str) -> NDArray[np.float32]:
        try:
            return self.embedder.embed([text])
        except BadModel:
            self.refused += 1
            return np.zeros((1, self.embedder.dimensions), np.float32)

    def _read(self, batch: NDArray[Any]) -> Iterator[tuple[Any, list[str]]]:
        """(place, what to embed of it), as of one moment: another process may be taking in sessions meanwhile."""
        db = self.store.db
        with guarded(self.store.path):
            db.execute("BEGIN")
        try:
            for place in batch:
                number = int(place["message"])
                if self.store.number("SELECT count(*) FROM message WHERE id = ?", (number,)):
                    yield place, [piece.embedded for piece in self._pieces(number)]
        finally:
            db.execute("COMMIT")

    def _pieces(self, number: int) -> list[Piece]:
        stored = self.store.message(number)
        session = self._session_of(stored)
        if self.options.exclude and is_private(session.session, self.options.exclude):
            return []
        return pieces(stored, session, self.store, self.options)

    def _session_of(self, message: StoredMessage) -> StoredSession:
        if self._session is None or self._session.row != message.session:
            self._session = self.store.session(message.session)
        return self._session

    def _keep(self, reached: int, complete: bool) -> None:
        places = self.meaning.places
        gone = self.store.numbers(GONE, (self.meaning.state.reached,))
        fresh = np.concatenate(self.placed) if self.placed else np.empty(0, PLACE)
        replaced = np.unique(np.concatenate([fresh["message"], np.array(gone, np.uint32)]))
        places = np.concatenate([places[~np.isin(places["message"], replaced)], fresh])
        self.meaning.keep(places[np.argsort(places["message"], kind="stable")], reached, complete)
        self.placed.clear()

    def _compact(self) -> None:
        """Places that a crash leaves behind name another generation of the vectors, and are then made anew."""
        meaning = self.meaning
        keep = meaning.rows_of(meaning.places["message"].astype(np.int64))
        orphans = len(keep) - int(keep.sum())
        if orphans < max(LEAST_ORPHANS, ORPHAN_SHARE * len(keep)):
            return
        moved = meaning.vectors.compact(keep)
        places = meaning.places.copy()
        real = places["row"] != NOTHING
        places["row"][real] = moved[places["row"][real]]
        meaning.keep(places, meaning.state.reached, complete=True)


class _Known:
    """Row of a piece by its digest. Sorted numbers, not a dict: a million pieces take 16 MB."""

    def __init__(self, digests: NDArray[np.uint64]) -> None:
        self.order = np.argsort(digests, kind="stable")
        self.digests = np.asarray(digests)[self.order]
        self.recent: dict[int, int] = {}

    def __contains__(self, digest: int) -> bool:
        return digest in self.recent or self._found(digest) is not None

    def __getitem__(self, digest: int) -> int:
        recent = self.recent.get(digest)
        found = self._found(digest) if recent is None else recent
        if found is None:
            raise KeyError(digest)
        return found

    def _found(self, digest: int) -> int | None:
        at = int(np.searchsorted(self.digests, np.uint64(digest)))
        return int(self.order[at]) if at < len(self.digests) and int(self.digests[at]) == digest else None

    def add(self, digests: Sequence[int], first: int) -> None:
        self.recent.update(zip(digests, range(first, first + len(digests)), strict=True))
