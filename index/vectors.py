"""The vectors of one embedder: appended, searched, compacted. Derived from the journal, and safe to delete.

    vectors/<mark>/vectors.bin   header, then rows of digest and vector
    vectors/<mark>/bits.bin      their signs, where there are many

A writer appends behind what is committed and then rewrites the header: a reader sees the last committed rows, whatever
else happens to the file. Which messages a digest belongs to is the journal's affair.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from agent_journal.errors import JournalUnwritable
from agent_journal.index import vector_bits, vector_file
from agent_journal.index.vector_file import Header, NotVectors, Rows, Stored, blocks
from agent_journal.index.vector_scan import Row, Scores, best, dots, hamming, nearest, signs
from agent_journal.workplace import private_folder

NAME = "vectors.bin"

# bench/vectors.py, two cores, 384 dimensions: at 300,000 rows every dot product takes 11 ms, the prefilter 2 ms; at a
# million 36 and 11, and in a new process, which must map every page it reads, 43 and 26. Below, exact is quick enough.
EXACT_ROWS = 300_000
# Of the exact top 10, the nearest hundredth by sign held .991 among 11,800 real messages (MiniLM), a fiftieth .997, and
# all of it among 100,000 and more made ones. Deeper is cheap: 10,000 rows are scored in 1 ms.
DEPTH_SHARE = 100
LEAST_DEPTH = 4096
# Fetching a row that is named costs about three times as much as passing it in a scan, and more where it must be read.
FETCHED_SHARE = 16


class Vectors:
    """`count` rows are committed and can be searched; a row never moves except by compact()."""

    def __init__(self, folder: Path, stored: Stored, exact_rows: int) -> None:
        self.folder = folder
        self.exact_rows = exact_rows  # up to so many rows every one is compared
        self._pending: Header | None = None  # counts what was appended since the last commit
        self._adopt(stored)

    def _adopt(self, stored: Stored) -> None:
        self._stored = stored
        self._bits: NDArray[np.uint8] | None = None

    @classmethod
    def open(
        cls, folder: Path, mark: str, dimensions: int, precision: str, exact_rows: int = EXACT_ROWS
    ) -> tuple[Vectors | None, str]:
        """None and why; or the vectors, and what was lost of them, if anything."""
        try:
            stored = vector_file.load(folder / NAME, Header(mark, dimensions, precision, 0))
        except NotVectors as reason:
            return None, str(reason)
        return cls(folder, stored, exact_rows), _loss(stored)

    @classmethod
    def create(cls, folder: Path, mark: str, dimensions: int, precision: str, exact_rows: int = EXACT_ROWS) -> Vectors:
        """An empty file in place of whatever is there. The caller holds the journal's write lock."""
        header = vector_file.fresh(mark, dimensions, precision)
        with vector_file.writing(folder):
            private_folder(folder)
            vector_file.write_anew(folder / NAME, header, ())
            vector_bits.forget(folder)
        return cls(folder, Stored(header, np.empty(0, header.row)), exact_rows)

    @property
    def count(self) -> int:
        return len(self._stored.rows)

    @property
    def generation(self) -> int:
        """Another one: rows have moved."""
        return self._stored.header.generation

    @property
    def dimensions(self) -> int:
        return self._stored.header.dimensions

    @property
    def digests(self) -> NDArray[np.uint64]:
        digests: NDArray[np.uint64] = self._stored.rows["digest"]
        return digests

    @property
    def vectors(self) -> NDArray[Any]:
        """Mapped, in their own precision; rows stand apart by a digest."""
        return self._stored.rows["vector"]

    # --- writing: the caller holds the journal's write lock ---

    def append(self, digests: NDArray[np.uint64], vectors: NDArray[np.float32]) -> int:
        """Returns the first of the new rows. Not visible to anyone, nor kept after a crash, before commit()."""
        if vectors.shape != (len(digests), self.dimensions):
            raise ValueError(
                f"{len(digests)} digests with vectors of shape {vectors.shape}, not {self.dimensions} wide"
            )
        with vector_file.writing(self.folder):
            header = self._pending or self._begin()
            rows = np.zeros(len(digests), header.row)
            rows["digest"], rows["vector"] = digests, _finite(vectors, rows["vector"].dtype)
            with vector_file.opened(self.folder / NAME) as descriptor:
                self._pending = vector_file.put_rows(descriptor, header, rows)
        return header.count

    def _begin(self) -> Header:
        """From the file as it is now: another process may have written since this one looked."""
        path = self.folder / NAME
        try:
            stored = vector_file.load(path, self._stored.header)
        except NotVectors as reason:
            hint = "run `aj reindex`: the vectors are made anew"
            raise JournalUnwritable(f"{path}: {reason}", hint) from reason
        if stored.lost or not vector_bits.known(self.folder, stored.header):
            vector_bits.forget(self.folder)  # bits of rows that are gone: others will stand in their place
        header = vector_file.recover(path, stored)
        self._adopt(Stored(header, stored.rows))
        return header

    def commit(self) -> None:
        """Rows first, then their bits, then the header that counts them; each is on the disk before the next."""
        if self._pending is None:
            return
        with vector_file.writing(self.folder), vector_file.opened(self.folder / NAME) as descriptor:
            header = replace(self._pending, commits=self._pending.commits + 1)
            os.fsync(descriptor)
            rows = vector_file.mapped(descriptor, header, header.count)
            self._keep_bits(rows, header)
            vector_file.put_header(descriptor, header)
        self._pending = None
        self._adopt(Stored(header, rows))

    def _keep_bits(self, rows: Rows, header: Header) -> None:
        # A file that exists is kept up at any size: bits of rows that were never committed must not pass for others.
        if len(rows) > self.exact_rows or (self.folder / vector_bits.NAME).exists():
            vector_bits.extend(self.folder, rows, header, self.count)

    def compact(self, keep: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Only the rows to keep, in their order. Returns the new row of each old one, -1 for those that are gone."""
        self.commit()
        with vector_file.writing(self.folder):
            header, rows = self._begin(), self._stored.rows
            if keep.shape != (len(rows),):
                raise ValueError(f"a choice among {keep.shape} rows, but there are {len(rows)}")
            if not keep.all():
                fresh = vector_file.fresh(header.mark, header.dimensions, header.precision)
                kept = (rows[places] for places in blocks(np.flatnonzero(keep)))
                vector_file.write_anew(self.folder / NAME, fresh, kept)
                vector_bits.forget(self.folder)
                self._adopt(vector_file.load(self.folder / NAME, fresh))
                self._keep_bits(self._stored.rows, self._stored.header)
        return np.where(keep, np.cumsum(keep, dtype=np.int64) - 1, -1)

    def check(self) -> str:
        """Reads all of it: "" or what is wrong."""
        stored = self._stored
        if stored.lost:
            return _loss(stored)
        if vector_file.checksum(stored.rows) != stored.header.checksum:
            return "the vectors are damaged: their checksum is wrong"
        if vector_bits.known(self.folder, stored.header) >= self.count and not np.array_equal(
            vector_bits.load(self.folder, stored.rows, stored.header), vector_bits.computed(stored.rows, stored.header)
        ):
            return "the signs of the vectors are damaged: they are not those of the vectors"
        return ""

    # --- searching ---

    def search(
        self, query: NDArray[np.float32], k: int, mask: NDArray[np.bool_] | None = None
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """The k best rows among those of the mask and their cosines, best first, equal ones by row."""
        asked = self._asked(query)
        chosen = None if mask is None else np.flatnonzero(mask[: self.count])
        if chosen is None or len(chosen) > max(LEAST_DEPTH, self.count // FETCHED_SHARE):
            if self.count <= self.exact_rows:
                scores = dots(asked, self.vectors)
                return _answer(scores if chosen is None else scores[chosen], k, chosen)
            chosen = self._prefiltered(asked, k, chosen)
        return _answer(self._scores(asked, chosen), k, chosen)

    def cosines(self, query: NDArray[np.float32], rows: NDArray[np.int64]) -> NDArray[np.float32]:
        return self._scores(self._asked(query), rows).astype(np.float32)

    def _asked(self, query: NDArray[np.float32]) -> NDArray[Any]:
        if query.shape != (self.dimensions,):
            raise ValueError(f"a query of shape {query.shape} for vectors of {self.dimensions} dimensions")
        asked: NDArray[Any] = _finite(query[None], self.vectors.dtype)[0]
        return asked

    def _scores(self, asked: NDArray[Any], rows: Row) -> Scores:
        parts = [dots(asked, self.vectors[places]) for places in blocks(rows)]
        return np.concatenate(parts) if parts else np.empty(0)

    def _prefiltered(self, asked: NDArray[Any], k: int, chosen: Row | None) -> Row:
        if self._bits is None:
            self._bits = vector_bits.load(self.folder, self._stored.rows, self._stored.header)
        distances = hamming(signs(asked[None])[0], self._bits)
        depth = max(LEAST_DEPTH, self.count // DEPTH_SHARE, 20 * k)
        return nearest(distances, depth) if chosen is None else chosen[nearest(distances[chosen], depth)]


def _loss(stored: Stored) -> str:
    if not stored.lost:
        return ""
    return f"the file of vectors was cut short: {stored.lost:,} of {stored.header.count:,} are lost"


def _finite(vectors: NDArray[Any], kind: np.dtype[Any]) -> NDArray[Any]:
    """A vector that is no vector becomes zero: it is like nothing, and no sum or order is spoilt by it."""
    with np.errstate(over="ignore", invalid="ignore"):
        cast = vectors.astype(kind)
    cast[~np.isfinite(cast).all(axis=1)] = 0
    return cast


def _answer(scores: Scores, k: int, rows: Row | None) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    places = best(scores, k)
    return (places if rows is None else rows[places]), scores[places].astype(np.float32)
