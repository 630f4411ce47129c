"""A bounded reader of JSON lines, and of single JSON files.

Bad, over-long and half-written lines are counted, never fatal; a file that cannot be read at all is an
UnreadableSource and nothing else.
"""

from __future__ import annotations

import errno
import io
import json
import math
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, cast

import msgspec
import zstandard

from agent_journal.connectors.base import Reading, readable, stat_of
from agent_journal.errors import UnreadableSource

MAX_LINE_BYTES = 64 * 2**20  # agents write images and file snapshots inline; a longer line is no conversation
BASE64_CHARS = 4096  # a longer string without a single space under a data key is an encoded file
MAX_EXPANSION = 300  # real logs shrink to a tenth or so; more than this is a bomb
RESCUE_CHARS = 4 * 2**20
RESCUE_TRIES = 200
RESCUE_READ = 4 * RESCUE_CHARS  # of all tries together: nested 200 deep, one line of 4 MB took minutes
_CHUNK = 2**20
_BOM = b"\xef\xbb\xbf"
_BASE64_KEYS = frozenset({"data", "signature", "reasoningOpaque", "encrypted_content", "encryptedContent"})

_decode = msgspec.json.Decoder().decode


def records(path: Path, reading: Reading) -> Iterator[tuple[int, dict[str, Any]]]:
    """Each JSON object of the file with its 1-based line number, in order."""
    for number, line, ended in _whole_lines(path, reading):
        if line.strip(b" \t\r\n\0"):
            reading.lines += 1
            yield from _parsed(line, number, ended, reading)
        elif b"\0" in line:  # a file system that lost power leaves runs of NUL
            reading.bad_line(number, "only NUL bytes")


def text_lines(path: Path, reading: Reading) -> Iterator[tuple[str, bool]]:
    """Each line of a text without its end, and whether it had one: the last may still be being written."""
    for _, line, ended in _whole_lines(path, reading):
        reading.lines += 1
        yield line.decode("utf-8", "replace").rstrip("\r\n"), ended


def _whole_lines(path: Path, reading: Reading) -> Iterator[tuple[int, bytes, bool]]:
    """(number, line, whether a newline ended it). Over-long ones are counted; what expands without end is cut off."""
    try:
        with _opened(path) as file:
            read, most = 0, max(path.stat().st_size * MAX_EXPANSION, _CHUNK)
            for number, line, ended in _lines(file):
                if line is None:
                    reading.lines += 1
                    reading.bad_line(number, too_long())
                    continue
                read += len(line)
                if read > most:
                    reading.lines += 1
                    reading.bad_line(
                        number, f"more than {MAX_EXPANSION:,} times what the file holds; the rest is left out"
                    )
                    return
                yield number, line.removeprefix(_BOM) if number == 1 else line, ended
        if path.suffix == ".zst" and not _is_whole(path):
            reading.unfinished = True  # what was decompressed ends silently where the file does
    except (OSError, zstandard.ZstdError) as error:
        raise _unreadable(path, error) from error


def document(path: Path) -> Any:
    """The JSON of a file that holds one value. Half-written or over-long, it is unreadable for now."""
    try:
        with _opened(path) as file:
            data = file.read(MAX_LINE_BYTES + 1)
    except (OSError, zstandard.ZstdError) as error:
        raise _unreadable(path, error) from error
    if len(data) > MAX_LINE_BYTES:
        raise UnreadableSource(f"{path}: {too_long()}")
    try:
        return decoded(data)
    except ValueError as error:
        raise UnreadableSource(f"{path}: {error}") from error


def json_object(path: Path) -> dict[str, Any]:
    """The object in a file that holds one value."""
    whole = document(path)
    if not isinstance(whole, dict):
        raise UnreadableSource(f"{readable(str(path))}: {no_object(whole)}")
    return whole


def sidecar(path: Path, reading: Reading) -> dict[str, Any]:
    """The object in a small file beside a session: empty where there is none, counted where it cannot be read."""
    try:
        return json_object(path) if stat_of(path) else {}
    except UnreadableSource as error:
        reading.bad_line(0, error.message)
        return {}


def parsed(value: Any) -> Any:
    """The JSON in a string; a string that holds none stays one, as does every other value."""
    try:
        return decoded(value) if isinstance(value, str | bytes) else value
    except ValueError:
        return value


def decoded(data: bytes | str) -> Any:
    """JSON that stands inside something else: a column, a string. Lenient as for lines; raises ValueError only."""
    try:
        return _decode(data.removeprefix(_BOM) if isinstance(data, bytes) else data)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        text = data.removeprefix(_BOM).decode("utf-8", "replace") if isinstance(data, bytes) else data
    try:
        return _clean(_lenient.decode(text.strip(" \t\r\n\0")))
    except (ValueError, RecursionError) as error:
        raise ValueError(_reason(error)) from error


def too_long() -> str:
    return f"longer than {MAX_LINE_BYTES // 2**20} MB"


def no_object(value: Any) -> str:
    return f"a JSON {type(value).__name__}, not an object"


def _opened(path: Path) -> BinaryIO:
    try:
        file = _regular(path)
        if path.suffix != ".zst":
            return file
        whole = zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True, closefd=True)
        return cast(BinaryIO, io.BufferedReader(cast(io.RawIOBase, whole)))
    except (OSError, ValueError) as error:  # ValueError: a name that holds a NUL
        raise _unreadable(path, error) from error


def _is_whole(path: Path) -> bool:
    """Whether compressed data ends with the end of a frame. Looks at the headers of frames and blocks only."""
    with path.open("rb") as file:
        size = file.seek(0, io.SEEK_END)
        place = 0
        while place < size:
            file.seek(place)
            head = file.read(18)  # no header is longer
            if len(head) >= 8 and head[0] & 0xF0 == 0x50 and head[1:4] == b"\x2a\x4d\x18":  # to be skipped
                place += 8 + int.from_bytes(head[4:8], "little")
                continue
            try:
                place += zstandard.frame_header_size(head)
                checksum = 4 if zstandard.get_frame_parameters(head).has_checksum else 0
            except zstandard.ZstdError:
                return False
            place = _after_blocks(file, place) + checksum
        return place == size > 0


def _after_blocks(file: BinaryIO, place: int) -> int:
    """Where a frame's blocks end, perhaps behind the end of the file."""
    while True:
        file.seek(place)
        header = int.from_bytes(file.read(3).ljust(3, b"\1"), "little")  # a header that is missing ends the frame
        place += 3 + (1 if header >> 1 & 3 == 1 else header >> 3)  # of a run of one byte only that byte is written
        if header & 1:
            return place


def _regular(path: Path) -> BinaryIO:
    """Opened without waiting: a pipe named like a log would wait for ever."""
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "not a regular file")
    return os.fdopen(descriptor, "rb")


def _unreadable(path: Path, error: Exception) -> UnreadableSource:
    return UnreadableSource(f"{path}: {getattr(error, 'strerror', None) or error}")


def _lines(file: BinaryIO) -> Iterator[tuple[int, bytes | None, bool]]:
    """(number, line or None if over-long, whether a newline ended it); holds at most one line in memory."""
    number = 0
    while True:
        line = file.readline(MAX_LINE_BYTES)
        if not line:
            return
        number += 1
        if line.endswith(b"\n"):
            yield number, line, True
        elif len(line) < MAX_LINE_BYTES:
            yield number, line, False
        else:
            while True:
                rest = file.readline(_CHUNK)
                if not rest or rest.endswith(b"\n"):
                    break
            yield number, None, True


def _parsed(line: bytes, number: int, ended: bool, reading: Reading) -> Iterator[tuple[int, dict[str, Any]]]:
    try:
        record = _decode(line)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        yield from _salvaged(line, number, ended, reading)
        return
    if isinstance(record, dict):
        yield number, record
    else:
        reading.bad_line(number, no_object(record))


_lenient = json.JSONDecoder(strict=False)


def _salvaged(line: bytes, number: int, ended: bool, reading: Reading) -> Iterator[tuple[int, dict[str, Any]]]:
    """The slow path: invalid UTF-8, lone surrogates, control characters, NaN, several records on one line."""
    text = line.decode("utf-8", "replace").strip(" \t\r\n\0")
    place = 0
    while place < len(text):
        try:
            record, place = _lenient.raw_decode(text, place)
            record = _clean(record)
        except (ValueError, RecursionError) as error:
            if not ended and not isinstance(error, RecursionError):
                reading.unfinished = True  # still being written: the next run reads it whole
                return
            reading.bad_line(number, _reason(error))
            last = _after_crash(text, place)
            if last is not None:
                yield number, last
            return
        if isinstance(record, dict):
            yield number, record
        else:
            reading.bad_line(number, no_object(record))
        while place < len(text) and text[place] in " \t\r\0":
            place += 1


def _after_crash(text: str, broken: int) -> dict[str, Any] | None:
    """The whole record that a program, started again, wrote behind the half of one it died on. Inside strings
    a quote is escaped, so a brace before a bare quote opens an object; ours is the one the line ends with."""
    if len(text) > RESCUE_CHARS:
        return None
    start, left = broken, RESCUE_READ
    for _ in range(RESCUE_TRIES):
        start = text.find('{"', start + 1)
        if start < 0 or left < 0:
            return None
        try:
            record, end = _lenient.raw_decode(text, start)
            if end == len(text):
                return dict(_clean(record))
        except (ValueError, RecursionError) as error:
            end = error.pos if isinstance(error, json.JSONDecodeError) else len(text)
        left -= end - start
    return None


def _reason(error: Exception) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"not JSON: {error.msg} at character {error.pos + 1}"
    return "nested too deeply" if isinstance(error, RecursionError) else "not JSON"


def _clean(value: Any) -> Any:
    """Fit to be stored: no lone surrogates (not UTF-8), no NaN (unequal to itself), no integer too long."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, list):
        return [_clean(v) for v in value]
    if isinstance(value, dict):
        return {_clean(k): _clean(v) for k, v in value.items()}
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if storable(value) else str(value)


def storable(value: Any) -> bool:
    """False for an integer of more than 64 bits: JSON allows it, the journal's encoding does not."""
    return not isinstance(value, int) or -(2**63) <= value < 2**64


def without_base64(value: Any) -> Any:
    """The same JSON with encoded files and signatures replaced by their length: they are not conversation."""
    if isinstance(value, list):
        return [without_base64(v) for v in value]
    if isinstance(value, dict):
        return {k: _size_note(v) if _is_encoded(k, v) else without_base64(v) for k, v in value.items()}
    return value if storable(value) else str(value)


def _is_encoded(key: str, value: Any) -> bool:
    if not isinstance(value, str):
        return False
    if value.startswith("data:") and ";base64," in value[:100]:
        return True
    return len(value) > BASE64_CHARS and key in _BASE64_KEYS and " " not in value[:BASE64_CHARS]


def _size_note(value: str) -> str:
    return f"[{len(value)} characters of encoded data]"
