"""The file of vectors: a header in two copies, then rows of digest and vector, only ever appended to.

Digest and vector stand in one row of one file, so that no crash can part them and one rename replaces both.
Nothing here knows what a digest means, or how rows are compared.
"""

from __future__ import annotations

import mmap
import os
import struct
import sys
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from agent_journal.errors import unwritable

MAGIC = b"AJVECTOR"
VERSION = 1
PRECISIONS = {"f16": "<f2", "f32": "<f4"}
BLOCK_ROWS = 16_384  # 12 MB of 384 half-precision numbers: what is held in memory at once
LONGEST_MARK = 400  # bytes

_SLOT = struct.Struct(f"<8sHHIQQQIH{LONGEST_MARK}s")
_SUM = struct.Struct("<I")
SLOT_BYTES = 512  # one sector
HEADER_BYTES = 2 * SLOT_BYTES
_WIDTHS = {np.dtype(kind).itemsize: name for name, kind in PRECISIONS.items()}

T = TypeVar("T", bound=np.generic)
Rows = NDArray[np.void]  # fields "digest" and "vector"


class NotVectors(Exception):
    """The sentence why a file cannot be used."""


class Header(Struct, frozen=True):
    mark: str  # of the embedder
    dimensions: int
    precision: str
    generation: int  # a random number of this file: what is derived from its rows names it
    commits: int = 0
    count: int = 0
    checksum: int = 0  # crc32 over all committed rows

    @property
    def row(self) -> np.dtype[np.void]:
        return np.dtype([("digest", "<u8"), ("vector", PRECISIONS[self.precision], (self.dimensions,))])

    @property
    def end(self) -> int:
        return self.place(self.count)

    def place(self, row: int) -> int:
        return HEADER_BYTES + row * self.row.itemsize

    def packed(self) -> bytes:
        mark = shortened(self.mark).encode()
        width = np.dtype(PRECISIONS[self.precision]).itemsize
        numbers = (width, self.dimensions, self.count, self.generation, self.commits, self.checksum)
        slot = _SLOT.pack(MAGIC, VERSION, *numbers, len(mark), mark).ljust(SLOT_BYTES - _SUM.size, b"\0")
        return slot + _SUM.pack(zlib.crc32(slot))


class Stored(Struct, frozen=True):
    """What was committed, mapped; `lost` rows the header counts are no longer in the file."""

    header: Header
    rows: Rows
    lost: int = 0


def shortened(mark: str) -> str:
    return mark.encode("utf-8", "backslashreplace")[:LONGEST_MARK].decode("utf-8", "ignore")


def fresh(mark: str, dimensions: int, precision: str) -> Header:
    return Header(shortened(mark), dimensions, precision, int.from_bytes(os.urandom(8), "little"))


# --- reading ---------------------------------------------------------------------------------------


def load(path: Path, wanted: Header) -> Stored:
    """Raises NotVectors with the reason; a file that was cut short gives its whole rows."""
    try:
        with path.open("rb") as file:
            header = _newest(file.read(HEADER_BYTES))
            _refuse_others(header, wanted)
            size = os.fstat(file.fileno()).st_size
            count = min(header.count, (size - HEADER_BYTES) // header.row.itemsize)
            return Stored(header, mapped(file.fileno(), header, count), header.count - count)
    except FileNotFoundError:
        raise NotVectors("there are no vectors yet") from None
    except (OSError, ValueError) as error:  # ValueError: mmap's, of a file that was cut at this moment
        raise NotVectors(f"the vectors cannot be read ({getattr(error, 'strerror', None) or error})") from error


def header_of(path: Path) -> Header:
    """What a file says of itself. Raises NotVectors with the reason."""
    try:
        with path.open("rb") as file:
            return _newest(file.read(HEADER_BYTES))
    except OSError as error:
        raise NotVectors(f"the vectors cannot be read ({error.strerror or error})") from error


def mapped(descriptor: int, header: Header, count: int) -> Rows:
    if not count:
        return np.empty(0, header.row)
    view = mmap.mmap(descriptor, header.place(count), access=mmap.ACCESS_READ)
    return np.frombuffer(view, header.row, count, HEADER_BYTES)


def _newest(start: bytes) -> Header:
    """Copies are written one after the other: whatever a crash or a reader falls between, one of them is whole."""
    if len(start) < HEADER_BYTES:
        raise NotVectors("the file of vectors is damaged: its header is cut short")
    slots = [start[:SLOT_BYTES], start[SLOT_BYTES:]]
    whole = [slot for slot in slots if _SUM.pack(zlib.crc32(slot[: -_SUM.size])) == slot[-_SUM.size :]]
    headers = [_unpacked(slot) for slot in whole if slot.startswith(MAGIC)]
    if not headers:
        raise NotVectors("the file of vectors is damaged: its header is wrong")
    return max(headers, key=lambda header: header.commits)


def _unpacked(slot: bytes) -> Header:
    _, version, width, dimensions, count, generation, commits, checksum, length, mark = _SLOT.unpack_from(slot)
    if version != VERSION or width not in _WIDTHS:
        raise NotVectors("the vectors were written by another version of aj")
    name = mark[:length].decode("utf-8", "replace")
    return Header(name, dimensions, _WIDTHS[width], generation, commits, count, checksum)


def _refuse_others(header: Header, wanted: Header) -> None:
    if header.mark != shortened(wanted.mark):
        raise NotVectors(f"the vectors are of another embedder ({header.mark}, not {wanted.mark})")
    if header.dimensions != wanted.dimensions:
        raise NotVectors(f"the vectors have {header.dimensions} dimensions, not {wanted.dimensions}")
    if header.precision != wanted.precision:
        raise NotVectors(f"the vectors are {header.precision}, not {wanted.precision}")


def blocks(rows: NDArray[T], size: int = BLOCK_ROWS) -> Iterator[NDArray[T]]:
    for start in range(0, len(rows), size):
        yield rows[start : start + size]


def checksum(rows: Rows) -> int:
    total = 0
    for block in blocks(rows):
        total = zlib.crc32(block.view(np.uint8).data, total)
    return total


# --- writing: the caller holds the journal's write lock --------------------------------------------


@contextmanager
def writing(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise unwritable(folder, error) from error


@contextmanager
def opened(path: Path, flags: int = os.O_RDWR) -> Iterator[int]:
    descriptor = os.open(path, flags | getattr(os, "O_BINARY", 0), 0o600)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def put(descriptor: int, place: int, content: bytes | memoryview) -> None:
    """All of it, or OSError: a disk that fills up takes a part first."""
    os.lseek(descriptor, place, os.SEEK_SET)
    left = memoryview(content)
    while left:
        left = left[os.write(descriptor, left) :]


def put_header(descriptor: int, header: Header) -> None:
    for slot in range(2):
        put(descriptor, slot * SLOT_BYTES, header.packed())
        os.fsync(descriptor)


def put_rows(descriptor: int, header: Header, rows: Rows) -> Header:
    """Behind those the header counts; returns the header that counts these too, not yet written."""
    content = rows.view(np.uint8).data
    put(descriptor, header.end, content)
    return replace(header, count=header.count + len(rows), checksum=zlib.crc32(content, header.checksum))


def write_anew(path: Path, header: Header, pieces: Iterable[Rows]) -> None:
    """A whole new file, written beside and renamed: a crash leaves the old one or the new one."""
    beside = leftover(path)
    beside.unlink(missing_ok=True)
    with opened(beside, os.O_RDWR | os.O_CREAT | os.O_EXCL) as descriptor:
        for piece in pieces:
            header = put_rows(descriptor, header, piece)
        put_header(descriptor, header)
    beside.replace(path)
    if sys.platform != "win32":
        with opened(path.parent, os.O_RDONLY) as descriptor:
            os.fsync(descriptor)


def leftover(path: Path) -> Path:
    return path.with_name(path.name + ".new")


def recover(path: Path, stored: Stored) -> Header:
    """Cuts back what was never committed, and counts no row that is gone."""
    leftover(path).unlink(missing_ok=True)
    header = stored.header
    with opened(path) as descriptor:
        if stored.lost:
            count, total = len(stored.rows), checksum(stored.rows)
            header = replace(header, commits=header.commits + 1, count=count, checksum=total)
            put_header(descriptor, header)
        if os.fstat(descriptor).st_size > header.end:
            os.ftruncate(descriptor, header.end)
    return header
