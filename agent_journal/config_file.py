"""config.toml as text: read it, find the line of a key, change one key, write it whole or not at all.

Knows TOML and files, not which settings exist. Refuses to change a file that does not parse, and any change
that would touch another value.
"""

from __future__ import annotations

import contextlib
import copy
import json
import os
import re
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from msgspec import Struct

from agent_journal.errors import BadConfig, JournalUnwritable
from agent_journal.workplace import private

_BOM = "\ufeff"  # Windows editors begin UTF-8 files with it; TOML does not allow it


class Document(Struct, frozen=True):
    path: Path
    text: str  # without byte order mark, lines ended by \n alone
    data: dict[str, Any]
    bom: bool = False
    crlf: bool = False

    def line_of(self, key: tuple[str, ...]) -> int:
        """The 1-based line that sets the key; of a key inside an inline table, the line where that begins."""
        lines: dict[tuple[str, ...], int] = {}
        for statement in _statements(self.text):
            lines.setdefault(statement.key, statement.line)
            for length in range(1, len(statement.key)):  # [a.b] also makes a
                lines.setdefault(statement.key[:length], statement.line)
        found = (lines[key[:length]] for length in range(len(key), 0, -1) if key[:length] in lines)
        return next(found, 1)

    def bytes_of(self, text: str) -> bytes:
        """The text in this file's own line ends and byte order mark."""
        lines = text.replace("\n", "\r\n") if self.crlf else text
        return ((_BOM if self.bom else "") + lines).encode()


def read(path: Path) -> Document | None:
    """None when there is no such file; BadConfig when there is one that cannot be understood."""
    raw = _bytes(path)
    if raw is None:
        return None
    try:
        whole = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise BadConfig(
            f"{path}, line {line}: not UTF-8 (byte 0x{raw[error.start]:02x}); save the file as UTF-8"
        ) from error
    text = whole.removeprefix(_BOM).replace("\r\n", "\n")
    return Document(path, text, _parsed(path, text), whole.startswith(_BOM), "\r\n" in whole)


def _bytes(path: Path) -> bytes | None:
    try:
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            raise BadConfig(f"{path} is a folder; it must be a file")
        if stat.S_ISFIFO(mode):  # reading one waits for ever
            raise BadConfig(f"{path} is a pipe; it must be a file")
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise BadConfig(f"{path} cannot be read: {error.strerror or error}") from error


_PLACE = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")


def _parsed(path: Path, text: str) -> dict[str, Any]:
    import tomllib

    try:
        return tomllib.loads(text)
    except RecursionError as error:
        raise BadConfig(f"{path} is nested too deeply") from error
    except ValueError as error:  # TOMLDecodeError, or Python's refusal of numbers with thousands of digits
        message = str(error)
        place = _PLACE.search(message)
        if place is None:
            raise BadConfig(f"{path}: not valid TOML: {message}") from error
        line = place[1] or len(text.rstrip("\n").split("\n"))
        where = f" (column {place[2]})" if place[2] else ""
        reason = message[: place.start()]
        raise BadConfig(f"{path}, line {line}: not valid TOML: {reason}{where}") from error


# --- where things stand in the text ---------------------------------------------------------------------


class _Statement(Struct, frozen=True):
    """A table header or a key with its value. Lines are 1-based; a value may end below where it began."""

    key: tuple[str, ...]
    line: int
    last_line: int
    header: bool


_NAME = r"""(?:[A-Za-z0-9_-]+|"(?:\\.|[^"\\\n])*"|'[^'\n]*')"""
_NAMES = rf"{_NAME}(?:[ \t]*\.[ \t]*{_NAME})*"
_HEAD = re.compile(rf"[ \t]*(?:\[\[?[ \t]*(?P<table>{_NAMES})[ \t]*\]|(?P<key>{_NAMES})[ \t]*=)")
_PIECE = re.compile(
    r'"""(?:\\.|[^\\])*?"""+'
    r"|'''.*?'''+"
    r'|"(?:\\.|[^"\\\n])*"'
    r"|'[^'\n]*'"
    r"|\#[^\n]*"
    r"""|[^"'\#\[\]{}\n]+"""
    r"|.",
    re.DOTALL,
)
_DEPTH = {"[": 1, "{": 1, "]": -1, "}": -1}


def _statements(text: str) -> Iterator[_Statement]:
    """Of a text that tomllib accepted: what is malformed may be misplaced here."""
    table: tuple[str, ...] = ()
    place, line = 0, 1
    while place < len(text):
        head = _HEAD.match(text, place)
        end = _end_of_value(text, head.end() if head else place)
        last_line = line + text.count("\n", place, end)
        if head and head["table"]:
            table = _names(head["table"])
            yield _Statement(table, line, last_line, header=True)
        elif head:
            yield _Statement(table + _names(head["key"]), line, last_line, header=False)
        place, line = end + 1, last_line + 1


def _end_of_value(text: str, place: int) -> int:
    """Where the newline stands that ends a statement: outside strings, comments and brackets."""
    depth = 0
    while piece := _PIECE.match(text, place):
        if piece[0] == "\n" and depth <= 0:
            return place
        depth += _DEPTH.get(piece[0], 0)
        place = piece.end()
    return len(text)


def _names(written: str) -> tuple[str, ...]:
    """Dotted and quoted names as TOML itself reads them."""
    import tomllib

    names: list[str] = []
    rest: Any = tomllib.loads(f"{written} = 0")
    while isinstance(rest, dict):
        [(name, rest)] = rest.items()
        names.append(name)
    return tuple(names)


# --- changing one key -----------------------------------------------------------------------------------


def literal(value: bool | int | str | list[str]) -> str:
    """The value in TOML, on one line."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, str):
        # JSON's escapes are TOML's, except that TOML wants DEL escaped too.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return "[" + ", ".join(literal(item) for item in value) + "]"


def with_value(document: Document, key: tuple[str, ...], value: bool | int | str | list[str]) -> str:
    """The document's text with one key set; comments, order and every other value as they were."""
    import tomllib

    wanted = _wanted(document, key, value)
    for text in (_inserted(document, key, value), _replaced(document, key, value)):
        try:
            if text is not None and tomllib.loads(text) == wanted:
                return text
        except tomllib.TOMLDecodeError:
            continue
    raise BadConfig(
        f"{document.path}, line {document.line_of(key)}: {'.'.join(key)} cannot be changed "
        "without touching other settings; edit the file by hand"
    )


def _wanted(document: Document, key: tuple[str, ...], value: object) -> dict[str, Any]:
    data = copy.deepcopy(document.data)
    table = data
    for depth, name in enumerate(key[:-1], 1):
        table = table.setdefault(name, {})
        if not isinstance(table, dict):
            dotted = ".".join(key[:depth])
            line = document.line_of(key[:depth])
            raise BadConfig(f"{document.path}, line {line}: {dotted} must be a table, [{dotted}]")
    table[key[-1]] = value
    return data


def _inserted(document: Document, key: tuple[str, ...], value: bool | int | str | list[str]) -> str | None:
    """A new line below the commented-out default, else below the table's last key.

    tomlkit would put it below the comments that introduce the next table.
    """
    statements = list(_statements(document.text))
    header = next((s for s in statements if s.header and s.key == key[:-1]), None)
    if header is None or any(s.key == key and not s.header for s in statements):
        return None
    lines = document.text.split("\n")
    after = [s for s in statements if s.line > header.line]
    table_end = next((s.line - 1 for s in after if s.header), len(lines))
    commented = re.compile(rf"\s*#\s*{re.escape(key[-1])}\s*=")
    place = max((s.last_line for s in after if s.last_line <= table_end), default=header.last_line)
    for number in range(header.line, table_end):
        if commented.match(lines[number]):
            place = number + 1
            break
    lines.insert(place, f"{key[-1]} = {literal(value)}")
    return "\n".join(lines)


def _replaced(document: Document, key: tuple[str, ...], value: bool | int | str | list[str]) -> str | None:
    import tomlkit
    from tomlkit.exceptions import TOMLKitError
    from tomlkit.items import InlineTable

    try:
        whole = tomlkit.parse(document.text)
        table: Any = whole
        for depth, name in enumerate(key[:-1], 2):
            if name not in table:
                inline = isinstance(table, InlineTable)
                table[name] = tomlkit.inline_table() if inline else tomlkit.table(depth < len(key))
            table = table[name]
        table[key[-1]] = value
        return tomlkit.dumps(whole)
    except (TOMLKitError, ValueError, RecursionError):
        return None


# --- writing --------------------------------------------------------------------------------------------


def write(path: Path, content: bytes) -> None:
    """All of it or nothing: a new file takes the old one's place. A link stays a link to the changed file."""
    target = path.resolve()
    _make_folder(target.parent)
    new = target.with_name(f".{target.name}.{os.getpid()}.{time.time_ns()}")
    try:
        _create(new, content)
        new.replace(target)
    except OSError as error:
        with contextlib.suppress(OSError):
            new.unlink(missing_ok=True)
        raise JournalUnwritable(f"{path} cannot be written: {error.strerror or error}") from error


def write_new(path: Path, content: bytes) -> None:
    _make_folder(path.parent)
    try:
        _create(path, content)
    except FileExistsError as error:
        raise BadConfig(f"{path} already exists; edit it, or change one key with `aj config set KEY VALUE`") from error
    except OSError as error:
        raise JournalUnwritable(f"{path} cannot be written: {error.strerror or error}") from error


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise JournalUnwritable(f"{folder} cannot be made a folder: {error.strerror or error}") from error


def _create(path: Path, content: bytes) -> None:
    with open(path, "xb", opener=private) as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
