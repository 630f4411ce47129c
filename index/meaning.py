"""Which message has which vectors, for one embedder. Derived from the store; may be deleted at any time.

`vectors.bin` keeps one vector per distinct piece of text; `places.bin` says in which messages the pieces stand. The
second is a table in the order of messages, small enough (16 bytes a piece) to be written anew at every commit. Embeds
nothing and knows no model: queries come as vectors, and which messages may be shown is the caller's to say.
"""

from __future__ import annotations

import math
import os
import shutil
import zlib
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from agent_journal.errors import JournalUnwritable, unwritable
from agent_journal.index import chunks, vector_file
from agent_journal.index.store import Store
from agent_journal.index.vectors import NAME as VECTORS
from agent_journal.index.vectors import Vectors
from agent_journal.index.vectors_kept import folder_of
from agent_journal.workplace import private

FORMAT = 2
NAME = "places.bin"
PLACE = np.dtype([("message", "<u4"), ("session", "<u4"), ("seq", "<u4"), ("row", "<u4")])
NOTHING = 0xFFFFFFFF  # the row of a message in which there is nothing to embed
SAMPLE_ROWS = 4000  # rows whose cosines tell what is usual for a query
MOST_COSINE = 1.01  # rounding included; anything else, and what is no number, is damage
FEW_ROWS = 150  # left by a filter: what is usual is then told half by them, half by all
# Of what all texts have in common, taken from a query: the general ones, near to everything, are then no longer near to
# each question (Mu & Viswanath 2018). Of 181 real questions 155 then have their session in the first ten, not 154, 138
# of them first, not 135; on LoCoMo nDCG@10 is .521, not .514. From .3 to .5 all is equal, 1 is worse.
COMMON_SHARE = 0.4
COMMON_ROWS = 1000  # enough for a mean; of fewer texts it is as much their subject as what texts have in common
# Of a few texts, those that are meant decide themselves what is usual: of five, none can be two deviations above the
# mean, and where a fifth is about one thing, hardly any of it. The fewer there are, the more other texts tell.
MANY_ROWS = 1000
# What three cosines differ by is chance. Across 13,000 texts it is .038 to .07 (71 questions, granite).
USUAL_DEVIATION, DEVIATION_ROWS = 0.05, 5
NEIGHBOUR_SHARE = 0.1  # of the better neighbour's strength: what is said around a message is part of what it means
SILENT_SHARE = 0.7  # of that, for a message that has no words of its own: a tool call between two sentences

Messages = NDArray[np.int64]
Floats = NDArray[np.float32]


class Embedded(Struct, frozen=True):
    """What of a message is embedded beside its words."""

    thinking: bool = False
    tool_input: bool = False
    tool_output: bool = False
    exclude: tuple[str, ...] = ()

    @property
    def mark(self) -> str:
        beside = f"{self.thinking:d}{self.tool_input:d}{self.tool_output:d}"
        return f"{chunks.VERSION}.{beside}.{zlib.crc32(repr(self.exclude).encode()):08x}"


class Usual(Struct, frozen=True):
    """What cosines with any text look like for one query: models differ in it, and so do queries."""

    mean: float
    deviation: float

    def strength(self, cosines: Floats) -> Floats:
        """In deviations above the mean."""
        return ((cosines - self.mean) / self.deviation).astype(np.float32)

    def mixed(self, other: Usual, share: float) -> Usual:
        return Usual(
            share * other.mean + (1 - share) * self.mean,
            share * other.deviation + (1 - share) * self.deviation,
        )


def told_by(cosines: Floats) -> Usual:
    if not len(cosines):
        return Usual(0.0, 1.0)
    return Usual(float(cosines.mean()), max(float(cosines.std()), 1e-3))


def told_by_middle(cosines: Floats) -> Usual:
    """By the middle one, and how far those below it lie from it: some may be near by chance, and it stays the same."""
    middle = float(np.median(cosines))
    below = cosines[cosines < middle] - middle
    variance = float(below @ below) + DEVIATION_ROWS * USUAL_DEVIATION**2
    return Usual(middle, math.sqrt(variance / (len(below) + DEVIATION_ROWS)))


class State(Struct, frozen=True):
    """What stands in the head of places.bin."""

    journal: str
    options: str
    generation: int
    reached: int = 0  # the store's seq that was last seen
    complete: bool = False  # whether every message up to there has its place
    count: int = 0
    checksum: int = 0
    format: int = FORMAT

    @property
    def made_of(self) -> tuple[str, str, int]:
        return self.journal, self.options, self.generation

    def summed(self, content: bytes) -> int:
        """Of the head too: a flipped bit in `reached` would leave messages without vectors for ever."""
        return zlib.crc32(msgspec.json.encode(replace(self, checksum=0)), zlib.crc32(content))


class Meaning:
    def __init__(self, folder: Path, vectors: Vectors, options: Embedded, places: NDArray[Any], state: State) -> None:
        self.folder = folder
        self.vectors = vectors
        self.options = options
        self.places = places
        self.state = state
        self._index: _Index | None = None

    @classmethod
    def open(
        cls, store: Store, mark: str, dimensions: int, precision: str, options: Embedded
    ) -> tuple[Meaning | None, str]:
        """None and why. Places that are lost or of another journal cost no vector: pieces are known by their text."""
        folder = folder_of(store, mark, precision)
        if taken := _folder_in_place_of_file(folder):
            return None, f"{taken} is a folder; remove it"
        vectors, why = Vectors.open(folder, mark, dimensions, precision)
        if vectors is None:
            return None, why
        fresh = State(store.journal_id, options.mark, vectors.generation)
        state, places = _read(folder / NAME)
        if state is None and vectors.count:
            why = why or "the places of the vectors are lost"
        if state is None or state.made_of != fresh.made_of:
            return cls(folder, vectors, options, np.empty(0, PLACE), fresh), why
        whole = (places["row"] < vectors.count) | (places["row"] == NOTHING)
        if not whole.all():  # the vectors were cut short: what lost one has to have it anew
            lost = np.unique(places["message"][~whole])
            places = places[~np.isin(places["message"], lost)]
            state = fresh
        return cls(folder, vectors, options, places, state), why

    @classmethod
    def create(cls, store: Store, mark: str, dimensions: int, precision: str, options: Embedded) -> Meaning:
        """The caller holds the write lock."""
        folder = folder_of(store, mark, precision)
        if taken := _folder_in_place_of_file(folder):
            raise JournalUnwritable(f"{taken} is a folder", "remove it and run `aj reindex`; nothing is lost")
        vectors = Vectors.create(folder, mark, dimensions, precision)
        state = State(store.journal_id, options.mark, vectors.generation)
        return cls(folder, vectors, options, np.empty(0, PLACE), state)

    def keep(self, places: NDArray[Any], reached: int, complete: bool) -> None:
        """Vectors first, then their places: what a crash leaves between is found again by its text."""
        self.vectors.commit()
        content = places.tobytes()
        head = replace(
            self.state,
            generation=self.vectors.generation,
            reached=reached,
            complete=complete,
            count=len(places),
        )
        head = replace(head, checksum=head.summed(content))
        temporary = self.folder / f"{NAME}.new"
        try:
            with open(temporary, "wb", opener=private) as file:
                file.write(msgspec.json.encode(head) + b"\n")
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(self.folder / NAME)
        except OSError as error:
            raise unwritable(self.folder, error) from error
        self.places, self.state, self._index = places, head, None

    # --- what is there -----------------------------------------------------------------------------------

    @property
    def messages(self) -> int:
        """Messages that were looked at, with or without words."""
        return len(self._indexed.message)

    @property
    def _indexed(self) -> _Index:
        if self._index is None:
            self._index = _Index.of(self.places)
        return self._index

    # --- asking ------------------------------------------------------------------------------------------

    def rows_of(self, messages: Messages) -> NDArray[np.bool_]:
        """The vectors that stand in some of these messages, as a mask."""
        wanted = np.isin(self.places["message"], messages.astype(np.uint32))
        mask = np.zeros(self.vectors.count + 1, np.bool_)
        mask[np.minimum(self.places["row"][wanted], self.vectors.count)] = True
        return mask[:-1]

    def distinct(self, query: Floats) -> Floats:
        """What of a query tells texts apart."""
        apart = query - COMMON_SHARE * self._common
        return (apart / (float(np.sqrt(apart @ apart)) or 1.0)).astype(np.float32)

    @cached_property
    def _common(self) -> Floats:
        """What all texts have in common: their mean, and the less of it the fewer they are."""
        some = self.vectors.vectors[:: max(1, self.vectors.count // COMMON_ROWS)].astype(np.float32)
        some = some[np.square(some).sum(axis=1) <= MOST_COSINE]  # a damaged row must not decide for all others
        enough = self.vectors.count / (self.vectors.count + COMMON_ROWS)
        common: Floats = (enough * some.sum(axis=0) / max(len(some), 1)).astype(np.float32)
        return common

    @property
    def smallness(self) -> float:
        """1 without any text, 0 for a journal that tells by itself what is usual."""
        return max(0.0, 1 - self.vectors.count / MANY_ROWS)

    def usual(self, query: Floats, mask: NDArray[np.bool_] | None, others: Floats) -> Usual:
        """Among what a filter leaves, and among everything the less that is: among a few, none stands out. `others`:
        vectors of texts of no journal, if any are to tell in a small one."""
        found = self._sampled(query, np.arange(self.vectors.count))
        everywhere = told_by(found)
        if len(others):
            everywhere = everywhere.mixed(told_by_middle(others @ query), self.smallness)
        if mask is None:
            return everywhere
        rows = np.flatnonzero(mask)
        return everywhere.mixed(told_by(self._sampled(query, rows)), len(rows) / (len(rows) + FEW_ROWS))

    def _sampled(self, query: Floats, rows: NDArray[np.int64]) -> Floats:
        some = rows[:: max(1, len(rows) // SAMPLE_ROWS)].astype(np.int64)
        found = self.vectors.cosines(query, some)
        return found[np.abs(found) <= MOST_COSINE]  # a damaged row must not decide for all others

    def nearest(self, query: Floats, k: int, mask: NDArray[np.bool_] | None) -> tuple[Messages, Floats]:
        """The messages of the k nearest pieces, best first, each once, with its best cosine."""
        rows, cosines = self.vectors.search(query, k, mask)
        whole = np.abs(cosines) <= MOST_COSINE
        rows, cosines = rows[whole], cosines[whole]
        best = np.full(self.vectors.count + 1, -2.0, np.float32)
        best[rows] = cosines
        found = best[np.minimum(self.places["row"], self.vectors.count)]
        here = np.flatnonzero(found > -2.0)
        order = here[np.lexsort((self.places["message"][here], -found[here]))]
        messages, first = np.unique(self.places["message"][order], return_index=True)
        place = np.argsort(first, kind="stable")
        return messages[place].astype(np.int64), found[order][first[place]]

    def strengths(self, query: Floats, messages: Messages, usual: Usual) -> Floats:
        """How near each of these messages is to the query, what stands around it included; 0 is nothing special."""
        index = self._indexed
        at = index.position(messages)
        near = np.stack([at, index.before[at], index.after[at]])
        wanted = np.unique(near[near >= 0])
        known = np.full(len(index.message) + 1, -np.inf, np.float32)  # the last one stands for none
        known[wanted] = self._best(query, index, wanted)
        own, before, after = (usual.strength(known[row]) for row in near)
        around = np.maximum(np.maximum(before, after), 0.0)
        own = np.where(np.isneginf(own), SILENT_SHARE * around, own)
        return np.maximum(own + NEIGHBOUR_SHARE * around, 0.0).astype(np.float32)

    def best_piece(self, query: Floats, message: int) -> int:
        """Which of a message's pieces is nearest, counted from 0."""
        start, end = np.searchsorted(self.places["message"], [message, message + 1])
        rows = self.places["row"][start:end]
        if not len(rows) or rows[0] == NOTHING:
            return 0
        return int(self.vectors.cosines(query, rows.astype(np.int64)).argmax())

    def _best(self, query: Floats, index: _Index, at: NDArray[np.int64]) -> Floats:
        """The best cosine of each message's pieces; -inf without any."""
        counts = index.end[at] - index.start[at]
        offsets = np.repeat(np.cumsum(counts) - counts, counts)
        places = np.repeat(index.start[at], counts) + np.arange(counts.sum()) - offsets
        rows = self.places["row"][places]
        found = np.full(len(rows), -np.inf, np.float32)
        real = rows != NOTHING
        found[real] = self.vectors.cosines(query, rows[real].astype(np.int64))
        best = np.full(len(at), -np.inf, np.float32)
        np.maximum.at(best, np.repeat(np.arange(len(at)), counts), found)
        return best


class _Index(Struct, frozen=True):
    """The places by message: where each one's pieces lie, and who speaks before and after it in its session."""

    message: Messages
    start: NDArray[np.int64]
    end: NDArray[np.int64]
    before: NDArray[np.int64]  # position of the nearest message with words, -1 for none; one more, for position -1
    after: NDArray[np.int64]

    @classmethod
    def of(cls, places: NDArray[Any]) -> _Index:
        message, start = np.unique(places["message"], return_index=True)
        end = np.append(start[1:], len(places))[: len(start)]
        session = np.append(places["session"][start].astype(np.int64), -1)  # the last is of no message
        speaks = places["row"][start] != NOTHING
        at, none = np.arange(len(message)), len(message)
        before = np.append(-1, np.maximum.accumulate(np.where(speaks, at, -1)))
        after = np.append(np.minimum.accumulate(np.where(speaks, at, none)[::-1])[::-1], [none, -1])[1:]
        before, after = (np.where(session[other] == session, other, -1) for other in (before, after))
        return cls(message.astype(np.int64), start, end, before, after)

    def position(self, messages: Messages) -> NDArray[np.int64]:
        if not len(self.message):
            return np.full(len(messages), -1, np.int64)
        at = np.minimum(np.searchsorted(self.message, messages), len(self.message) - 1)
        return np.where(self.message[at] == messages, at, -1)


def prune(store: Store, folder: Path) -> bool:
    """Leave no vector but those of messages in the store; the caller holds the lock. False: nothing tells which they
    are, so all of them were removed."""
    try:
        header = vector_file.header_of(folder / VECTORS)
        vectors, _ = Vectors.open(folder, header.mark, header.dimensions, header.precision)
    except vector_file.NotVectors:
        vectors = None
    state, places = _read(folder / NAME)
    (folder / f"{NAME}.new").unlink(missing_ok=True)
    if vectors is None or state is None or (state.journal, state.generation) != (store.journal_id, vectors.generation):
        shutil.rmtree(folder)
        return False
    numbers = np.array(store.numbers("SELECT id FROM message"), np.uint32)
    real = places["row"] != NOTHING
    places = places[np.isin(places["message"], numbers) & (~real | (places["row"] < vectors.count))]
    real = places["row"] != NOTHING
    keep = np.zeros(vectors.count, np.bool_)
    keep[places["row"][real]] = True
    moved = vectors.compact(keep)
    places["row"][real] = moved[places["row"][real]]
    Meaning(folder, vectors, Embedded(), places, state).keep(places, state.reached, state.complete)
    return True


def _folder_in_place_of_file(folder: Path) -> Path | None:
    return next((path for path in (folder / VECTORS, folder / NAME) if path.is_dir()), None)


def _read(path: Path) -> tuple[State | None, NDArray[Any]]:
    """None for anything but a whole file of ours."""
    nothing = np.empty(0, PLACE)
    try:
        with path.open("rb") as file:
            state = msgspec.json.decode(file.readline(4096), type=State)
            content = file.read()
    except (OSError, msgspec.MsgspecError, ValueError, RecursionError):
        return None, nothing
    if (
        state.format != FORMAT
        or len(content) != state.count * PLACE.itemsize
        or state.summed(content) != state.checksum
    ):
        return None, nothing
    return state, np.frombuffer(content, PLACE)
