"""Cursor CLI's store.db -> a transcript: messages as JSON, each in a blob named by its hash, and nodes listing them.

Opens the database and the facts beside it, and nothing that they name.
"""

from __future__ import annotations

import hashlib
import re
import sqlite3
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent_journal.connectors import database
from agent_journal.connectors.base import Reading, Source, file_time, mapping, readable, session_key, string, timestamp
from agent_journal.connectors.blocks import Stamp, contents, kind_name
from agent_journal.connectors.cursor_cli import AGENT
from agent_journal.connectors.cursor_files import META
from agent_journal.connectors.cursor_transcripts import Conversation, named_folder
from agent_journal.connectors.jsonl import MAX_LINE_BYTES, decoded, parsed, sidecar, too_long
from agent_journal.errors import UnreadableSource
from agent_journal.session import Origin, Role, Session, Transcript

UNNAMED = "New Agent"  # what a chat is called until it has a name


def read_store(source: Source) -> Reading:
    reading = Reading()
    with database.reading(source.path) as db:
        facts = _facts(db, source, reading)
        blobs = _Blobs.of(db, source.path, reading)
        started = timestamp(facts.get("createdAtMs")) or timestamp(facts.get("createdAt"))
        conversation, workspace = Conversation(reading.skipped, started), string(facts, "workspacePath")
        for name, message in blobs.messages(string(facts, "latestRootBlobId")):
            reading.lines += 1
            stamp = Stamp(name, None, timestamp(message.get("createdAt")))
            workspace = workspace or _told_workspace(message)
            model = _model(message) or string(facts, "lastUsedModel")
            conversation.add(kind_name(message.get("role")), message.get("content"), stamp, model)
    messages = conversation.messages()
    if not any(m.role in (Role.USER, Role.ASSISTANT) for m in messages):
        reading.skipped["blank session"] += 1
        return reading
    folder = source.path.parent
    title = string(facts, "title", "name")
    session = Session(
        key=session_key(AGENT, readable(folder.name)),
        id=readable(folder.name),
        agent=AGENT,
        origin=Origin(path=readable(str(source.path)), home=source.home),
        title=title if title != UNNAMED else None,
        workspace=workspace or named_folder(messages, lambda path: _digest(path) == folder.parent.name),
        workspace_encoded=readable(folder.parent.name),
        extensions=file_time(messages, source.files[0]),
    )
    reading.transcripts.append(Transcript(session, messages))
    return reading


def _digest(folder: str) -> str:
    """The name of a workspace below chats/."""
    return hashlib.md5(folder.encode("utf-8", "replace"), usedforsecurity=False).hexdigest()


def _facts(db: sqlite3.Connection, source: Source, reading: Reading) -> dict[str, Any]:
    """What the database says of itself, and above it the file beside it, which newer versions keep."""
    facts: dict[str, Any] = {}
    for row in database.rows(db, "meta", ("key", "value"), "ORDER BY key DESC"):  # '0' is the only key today
        if row.get("value") is None:
            reading.bad_line(0, f"meta: empty, or {too_long()}")
            continue
        try:
            facts |= mapping(_meta(row["value"]))
        except ValueError as error:
            reading.bad_line(0, f"meta: {error}")
    return facts | sidecar(source.path.with_name(META), reading)


def _meta(value: Any) -> Any:
    """JSON, in most versions written as hexadecimal digits."""
    data = _bytes(value)
    return decoded(data if data.lstrip()[:1] == b"{" else bytes.fromhex(data.decode("ascii", "replace")))


def _told_workspace(message: Mapping[str, Any]) -> str | None:
    """From the context that Cursor puts before the first prompt."""
    if message.get("role") != "user":
        return None
    texts = (string(mapping(part), "text") or "" for part in contents(message.get("content")))
    told = next((text for text in texts if "<user_info>" in text), "")
    line = told.partition("Workspace Path:")[2].partition("\n")[0].strip()
    return line or None


def _model(message: Mapping[str, Any]) -> str | None:
    for holder in (message, *contents(message.get("content"))):
        options = mapping(mapping(mapping(holder).get("providerOptions")).get("cursor"))
        if name := string(options, "modelName"):
            return name
    return None


# The blobs.

# A tag, the length 32, and a hash: of 32 bytes that are no text one of the first 25 is none (see _is_hash).
_HASH = rb"\x20(?=[\x20-\x7e]{0,24}[^\x20-\x7e])"
_IN_ROOT, _IN_NODE = re.compile(rb"\x0a" + _HASH), re.compile(rb"[\x0a\x12]" + _HASH)
_PRINTABLE = bytes(range(0x20, 0x7F))
_MOST_MISSES = 10_000  # one after another: it is a text then, in which indented lines begin like references
_OLD_PROMPT = re.compile(r"([^\x00-\x08\x0e-\x1f]+)\$[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


@dataclass(slots=True)
class _Blobs:
    db: sqlite3.Connection
    key: str
    value: str
    reading: Reading
    ids: dict[str, str]  # each for itself. Only these in memory: the blobs are read one at a time
    seen: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, db: sqlite3.Connection, path: Path, reading: Reading) -> _Blobs:
        held = database.columns(db, "blobs")
        key, value = ("id", "data") if "data" in held else ("key", "value")
        if not {key, value} <= held:
            raise UnreadableSource(f"{path}: not a chat of Cursor's")
        ids = (row[0] for row in db.execute(f"SELECT {key} FROM blobs"))
        return cls(db, key, value, reading, {name: name for name in ids if isinstance(name, str)})

    def messages(self, root: str | None) -> Iterator[tuple[str, dict[str, Any]]]:
        """In the order the root lists them; without it, the node that lists most; else as they were written."""
        found = 0
        for way in (self._below(root), self._below_fullest(), self._written()):
            for item in way:
                found += 1
                yield item
            if found:
                break
        left = Counter({"blob/node": len(self.seen) - found, "blob/unreachable": len(self.ids) - len(self.seen)})
        self.reading.skipped.update(+left)

    def _below(self, root: str | None) -> Iterator[tuple[str, dict[str, Any]]]:
        """Depth first. A message inside a node stands behind what the node lists."""
        waiting: list[str | tuple[str, dict[str, Any]]] = [root] if root in self.ids else []
        while waiting:
            name = waiting.pop()
            if isinstance(name, tuple):
                yield name
                continue
            if name in self.seen:
                continue
            self.seen.add(name)
            data = self._data(name)
            if message := self._message(name, data):
                yield name, message
                continue
            # Field 1 of the root lists the messages; its other fields refer to more than the conversation.
            listed = (list(self._listed(data, _IN_ROOT)) if name == root else []) or list(self._listed(data, _IN_NODE))
            start, end = data.find(b'{"', listed[-1][1] if listed else 0), data.rfind(b"}")
            if 0 <= start < end and (inside := _embedded(data[start : end + 1])):
                waiting.append((name, inside))
            waiting += [child for child, _ in reversed(listed) if child not in self.seen]

    def _below_fullest(self) -> Iterator[tuple[str, dict[str, Any]]]:
        best, most = None, 0
        for name, data in self._rows():
            listed = 0 if data[:1] == b"{" else sum(1 for _ in self._listed(data, _IN_NODE))
            if listed and listed >= most:
                best, most = name, listed
        yield from self._below(best)

    def _written(self) -> Iterator[tuple[str, dict[str, Any]]]:
        for name, data in self._rows():
            old = _old_prompt(data)
            message = {"role": "user", "content": old} if old else self._message(name, data)
            if message:
                self.seen.add(name)
                yield name, message

    def _rows(self) -> Iterator[tuple[str, bytes]]:
        length = database.length(self.value)
        query = f"SELECT {self.key}, {self.value} FROM blobs WHERE {length} <= ? ORDER BY rowid"
        for name, data in self.db.execute(query, (MAX_LINE_BYTES,)):
            if name in self.ids:
                yield name, _bytes(data)

    def _data(self, name: str) -> bytes:
        length = database.length(self.value)
        query = f"SELECT {self.value} FROM blobs WHERE {self.key} = ? AND {length} <= ?"
        row = self.db.execute(query, (name, MAX_LINE_BYTES)).fetchone()
        if row is None:
            self.reading.bad_line(0, f"blob {name[:12]}: {too_long()}, or deleted")
        return _bytes(row[0]) if row else b""

    def _message(self, name: str, data: bytes) -> dict[str, Any] | None:
        if data[:1] != b"{":
            return None
        try:
            fields = mapping(decoded(data))
        except ValueError as error:
            self.reading.bad_line(0, f"blob {name[:12]}: {error}")
            return None
        return fields if string(fields, "role") else None

    def _listed(self, data: bytes, reference: re.Pattern[bytes]) -> Iterator[tuple[str, int]]:
        """Blobs that a node refers to, each with the place behind it."""
        place = misses = 0
        while misses < _MOST_MISSES and (found := reference.search(data, place)):
            place = found.end()
            child = data[place : place + 32]
            name = self.ids.get(child.hex()) if _is_hash(child) else None
            if name is None:
                misses += 1
                continue
            place, misses = place + 32, 0
            yield name, place


def _bytes(value: Any) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode("utf-8", "replace")


def _embedded(data: bytes) -> dict[str, Any] | None:
    """A node is mostly not JSON: what only looks like it is no damage."""
    fields = mapping(parsed(data))
    return fields if string(fields, "role") else None


def _is_hash(name: bytes) -> bool:
    """32 characters of text are none."""
    return len(name) == 32 and len(name.translate(None, _PRINTABLE)) >= 8


def _old_prompt(data: bytes) -> str | None:
    """The first versions wrote a prompt as text, "$" and its id."""
    found = _OLD_PROMPT.fullmatch(data.decode("utf-8", "replace")) if data[-37:-36] == b"$" else None
    return found[1] if found else None
