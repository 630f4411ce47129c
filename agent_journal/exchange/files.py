"""Files of either format: which it is, its lines, compressed or not. A damaged file gives what was whole in it."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import msgspec
from msgspec import Struct

from agent_journal.errors import BadExchange

_SUFFIXES = (".ndjson", ".json")
GZIP = b"\x1f\x8b"
LONGEST_LINE = 2**29  # bytes of a session; the longest known is half of that
_DECODE = msgspec.json.Decoder().decode


class Line(Struct, frozen=True):
    number: int
    value: Any = None
    problem: str = ""  # why there is no value


@contextmanager
def opened(path: Path) -> Iterator[IO[bytes]]:
    """The file's bytes, unpacked."""
    if path.exists() and not path.is_file():
        raise BadExchange(
            f"{path}: no ordinary file", "give a file that `aj export` wrote; save what a pipe brings first"
        )
    try:
        with path.open("rb") as raw:
            packed = raw.read(2) == GZIP
            raw.seek(0)
            yield gzip.GzipFile(fileobj=raw) if packed else raw  # type: ignore[misc]
    except OSError as error:
        raise BadExchange(f"{path}: {error.strerror or error}", "give a file that `aj export` wrote") from error


def exchanged(path: Path) -> list[Path]:
    """The file itself; of a folder, the files whose names are those of an export."""
    if not path.is_dir():
        return [path]
    found = sorted(f for f in path.iterdir() if f.name.removesuffix(".gz").endswith(_SUFFIXES) and f.is_file())
    if not found:
        raise BadExchange(f"{path}: no file in it ends in {', '.join(_SUFFIXES)} or these with .gz", _EITHER)
    return found


def lines(path: Path) -> Iterator[Line]:
    """Each line with its number. The last one says so where the file is cut off or its compression damaged."""
    number = 0
    with opened(path) as file:
        while True:
            try:
                text = file.readline(LONGEST_LINE)
            except (EOFError, zlib.error, gzip.BadGzipFile, OSError) as error:
                yield Line(number + 1, problem=f"the file is damaged or cut off here ({error})")
                return
            if not text:
                return
            number += 1
            if len(text) == LONGEST_LINE and not text.endswith(b"\n"):
                text = b""
                yield Line(number, problem="longer than any session can be")
                while (rest := file.readline(2**20)) and not rest.endswith(b"\n"):
                    pass
            if text.strip():
                yield _line(number, text)


def _line(number: int, text: bytes) -> Line:
    try:
        return Line(number, _DECODE(text.removeprefix(b"\xef\xbb\xbf")))
    except RecursionError:
        return Line(number, problem="nested too deeply")
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        return Line(number, problem=f"no JSON ({error})")


def document(path: Path) -> Any:
    """The whole file as one JSON value."""
    return parsed(path, text(path))


def text(path: Path) -> str:
    with opened(path) as file:
        try:
            return file.read(LONGEST_LINE).decode("utf-8-sig")
        except (EOFError, zlib.error, gzip.BadGzipFile, OSError) as error:
            raise BadExchange(f"{path}: the file is damaged or cut off ({error})", "export it again") from error
        except UnicodeDecodeError as error:
            raise BadExchange(f"{path}: neither NDJSON nor SessionData ({error})", _EITHER) from error


def parsed(path: Path, content: str) -> Any:
    try:
        return _DECODE(content)
    except (msgspec.DecodeError, RecursionError) as error:
        raise BadExchange(f"{path}: neither NDJSON nor SessionData ({error})", _EITHER) from error


_EITHER = "`aj import` and `aj validate` read what `aj export --format ndjson` or `--format sessiondata` writes"


def is_session_data(path: Path) -> bool:
    """False for NDJSON. Told by the first line: SessionData is one object, NDJSON begins with its header."""
    first = next(lines(path), None)
    if first is None:
        raise BadExchange(f"{path}: the file is empty", _EITHER)
    if isinstance(first.value, dict):
        if "schemaVersion" in first.value or "exchanges" in first.value:
            return True
        if first.value.get("type") in ("header", "session"):
            return False
    value = document(path)  # an object over many lines, or another file altogether
    if isinstance(value, dict) and ("schemaVersion" in value or "exchanges" in value):
        return True
    raise BadExchange(f"{path}: neither NDJSON nor SessionData", _EITHER)
