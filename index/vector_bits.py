"""The signs of the vectors, one bit a number, in a file beside them: a new process need not read every vector.

All of it is derived. A file that is missing, damaged, short or made of other rows is no error: it counts as none.
"""

from __future__ import annotations

import mmap
import os
import struct
import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from agent_journal.index.vector_file import Header, Rows, blocks, opened, put
from agent_journal.index.vector_scan import signs

NAME = "bits.bin"
_HEADER = struct.Struct("<8sQQI")  # magic, generation of the vectors, count, bytes a row
_SUM = struct.Struct("<I")
_MAGIC = b"AJBITS01"
_START = 64  # the header's room: rows begin on a cache line

Bits = NDArray[np.uint8]


def bytes_a_row(header: Header) -> int:
    return (header.dimensions + 7) // 8


def computed(rows: Rows, header: Header) -> Bits:
    bits = np.empty((len(rows), bytes_a_row(header)), np.uint8)
    done = 0
    for block in blocks(rows):
        bits[done : done + len(block)] = signs(block["vector"])
        done += len(block)
    return bits


def known(folder: Path, header: Header) -> int:
    """Of how many rows the file has the bits."""
    try:
        with (folder / NAME).open("rb") as file:
            start, size = file.read(_START), os.fstat(file.fileno()).st_size
    except OSError:
        return 0
    if len(start) < _START or start[: _HEADER.size + _SUM.size] != _packed(header, _counted(start)):
        return 0
    return min(_counted(start), (size - _START) // bytes_a_row(header))


def _packed(header: Header, count: int) -> bytes:
    start = _HEADER.pack(_MAGIC, header.generation, count, bytes_a_row(header))
    return start + _SUM.pack(zlib.crc32(start))


def _counted(start: bytes) -> int:
    return int(_HEADER.unpack_from(start)[2])


def load(folder: Path, rows: Rows, header: Header) -> Bits:
    """Of all these rows: mapped, or computed where the file does not have them."""
    width = bytes_a_row(header)
    if known(folder, header) < len(rows):
        return computed(rows, header)
    try:
        with (folder / NAME).open("rb") as file:
            view = mmap.mmap(file.fileno(), _START + len(rows) * width, access=mmap.ACCESS_READ)
    except (OSError, ValueError):
        return computed(rows, header)
    return np.frombuffer(view, np.uint8, len(rows) * width, _START).reshape(-1, width)


def extend(folder: Path, rows: Rows, header: Header, committed: int) -> None:
    """Bits of all these rows, before their header is written. Those behind the committed are of a run that died."""
    width, path = bytes_a_row(header), folder / NAME
    done = min(known(folder, header), committed)
    if not done:
        path.unlink(missing_ok=True)  # a reader may have mapped the old one
    with opened(path, os.O_RDWR | os.O_CREAT) as descriptor:
        for block in blocks(rows[done:]):
            put(descriptor, _START + done * width, signs(block["vector"]).tobytes())
            done += len(block)
        os.fsync(descriptor)
        put(descriptor, 0, _packed(header, done).ljust(_START, b"\0"))
        os.fsync(descriptor)


def forget(folder: Path) -> None:
    (folder / NAME).unlink(missing_ok=True)
