"""A message as a document of the word index: its fields, its filters, and what of it is searched at all. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from functools import lru_cache
from itertools import islice
from typing import Any

import tantivy
from msgspec import Struct, msgpack

from agent_journal.index import words
from agent_journal.session import Attachment, Message, StoredSession, ToolCall

MAX_FOLDER_CHARS = 1024  # of a path whose every part becomes a term
MAX_PATHS = 40  # files named per document
PATH_SUFFIXES = 6  # a/b/c.py is found as c.py, b/c.py, …
MAX_FIELD_CHARS = 2_000_000  # of a message's own text; a pasted dump beyond this is searched by its head and tail

# A score is multiplied by log2(2 + weight): what people and models said counts twice what programs injected.
SAID_WEIGHT, META_WEIGHT = 2, 0

# Where words stand: one field each, with a twin for stems.
PLACES = ("text", "thinking", "input", "output", "title")
STEM = "_stem"
# All of a message's stems together. A place alone is short or empty in most messages, so that BM25 takes what is usual
# there for long; and of a question a part may stand in the text, a part in the command that was run.
WHOLE = "whole"
WHOLE_OUTPUT_CHARS = 500  # of what tools printed: with 4,000, 5 of 221 questions fewer find their message


def _schema() -> tantivy.Schema:
    builder = tantivy.SchemaBuilder()
    for name in ("id", "session", "seq"):
        builder.add_unsigned_field(name, indexed=True, fast=True)
    builder.add_unsigned_field("shown", indexed=True, fast=True)  # the session whose copy is shown
    builder.add_unsigned_field("weight", fast=True)
    builder.add_integer_field("at", indexed=True, fast=True)
    for name in ("agent", "home", "project", "dir", "branch", "role", "tool", "file", "model", "is"):
        builder.add_text_field(name, tokenizer_name="raw", index_option="basic")
    for name in PLACES:
        builder.add_text_field(name, tokenizer_name=words.EXACT, index_option="position")
        builder.add_text_field(name + STEM, tokenizer_name=words.STEMMED, index_option="freq")
    builder.add_text_field(WHOLE, tokenizer_name=words.STEMMED, index_option="freq")
    return builder.build()


SCHEMA = _schema()
OF_SESSIONS = ("agent", "home", "project")  # fields that differ between the sessions a message stands in


def one_value(field: str) -> str:
    """The flag of a message all of whose sessions agree in a field."""
    return f"one {field}"


class Indexed(Struct, frozen=True):
    """What of a message is indexed. Other options make another index."""

    thinking: bool = True
    tool_output_chars: int = 20_000
    exclude: tuple[str, ...] = ()  # sessions that were stored before they were excluded are not found

    @property
    def mark(self) -> str:
        """Tells whether they changed, without telling what is private."""
        return hashlib.blake2b(msgpack.encode(self), digest_size=8).hexdigest()


def document(
    message: Message, sessions: Sequence[StoredSession], heads: Sequence[StoredSession], options: Indexed
) -> dict[str, list[Any]]:
    """The fields of one message, with the facts of every session it stands in."""
    calls = message.tool_calls
    fields: dict[str, list[Any]] = {
        "agent": sorted({s.session.agent for s in sessions}),
        "home": sorted({s.session.origin.home for s in sessions}),
        "project": sorted({s.derived.project.lower() for s in sessions if s.derived.project}),
        "dir": _every(_folders, filter(None, (message.cwd, *(s.session.workspace for s in sessions)))),
        "role": [message.role.value],
        "weight": [META_WEIGHT if message.is_meta else SAID_WEIGHT],
    }
    flags = [*_flags(message, calls, sessions), *(one_value(name) for name in OF_SESSIONS if len(fields[name]) == 1)]
    if message.git_branch:
        fields["branch"] = [message.git_branch.lower()]
    if message.model:
        fields["model"] = [message.model.lower()]
    if calls:
        fields["tool"] = sorted({c.name.lower() for c in calls if c.name})
        fields["file"] = _every(_suffixes, islice((p for c in calls for p in c.paths), MAX_PATHS))
    moment = message.at or sessions[0].derived.started_at
    if moment is not None:
        fields["at"] = [milliseconds(moment)]
    whole = []
    for place, text in contents(message, heads, options):
        flags.append(f"has {place}")
        ready = words.prepared(text)
        split = words.split(ready)
        fields[place], fields[place + STEM] = [ready], [split]
        whole.append(capped(split, WHOLE_OUTPUT_CHARS) if place == "output" else split)
    fields[WHOLE] = ["\n".join(whole)]
    fields["is"] = flags
    return fields


def _every(parts: Callable[[str], Iterable[str]], values: Iterable[str]) -> list[str]:
    return sorted({part for value in values for part in parts(value)})


def contents(message: Message, heads: Sequence[StoredSession], options: Indexed) -> Iterator[tuple[str, str]]:
    """(place, text) for everything searchable in a message."""
    if text := said(message):
        yield "text", capped(text, MAX_FIELD_CHARS)
    if options.thinking and (thought := message.thinking):
        yield "thinking", capped(thought, MAX_FIELD_CHARS)
    calls = message.tool_calls
    if calls:
        yield "input", capped("\n".join(asked(c.name, c.arguments) for c in calls), MAX_FIELD_CHARS)
        if results := "\n".join(capped(c.result, options.tool_output_chars) for c in calls if c.result):
            yield "output", results
    if heads and (titles := "\n".join(titled(h) for h in heads)):
        yield "title", titles


def said(message: Message) -> str:
    """The message's own words, with the names and quoted text of what was attached."""
    parts = [message.text]
    parts += [f"{b.name} {b.text}".strip() for b in message.blocks if isinstance(b, Attachment)]
    return "\n\n".join(p for p in parts if p)


def asked(name: str, arguments: Any) -> str:
    """A tool call as text: its name and every value, one a line; keys are the tool's vocabulary, not the user's."""
    return "\n".join([name, *_leaves(arguments)])


def _leaves(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for part in value.values():
            yield from _leaves(part)
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from _leaves(part)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield str(value)


def titled(session: StoredSession) -> str:
    facts = session.session
    parts = [facts.title, facts.summary, facts.slug and facts.slug.replace("-", " ")]
    return "\n".join(p for p in parts if p)


def names(titles: str) -> list[str]:
    """What a session is called, apart again: one is shown as why it was found, not the title with a slug behind it."""
    return titles.split("\n")


def capped(text: str, limit: int) -> str:
    """Head and tail: what a command was and how it ended are what people look for."""
    if len(text) <= limit:
        return text
    tail = limit // 3
    return text[: limit - tail] + "\n…\n" + text[len(text) - tail :]


def milliseconds(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)


def _flags(message: Message, calls: Sequence[ToolCall], sessions: Sequence[StoredSession]) -> Iterator[str]:
    if message.is_error or any(c.success is False for c in calls):
        yield "error"
    if message.is_meta:
        yield "meta"
    if message.is_sidechain:
        yield "sidechain"
    if message.is_sidechain or sessions[0].session.is_agent_session:
        yield "subagent"
    if len(sessions) == 1:
        yield "alone"


@lru_cache(maxsize=64)
def _folders(path: str) -> tuple[str, ...]:
    """A folder and all above it, so that dir: is one look-up."""
    clean = path[:MAX_FOLDER_CHARS].replace("\\", "/").rstrip("/")
    found = []
    while clean:
        found.append(clean)
        clean = clean.rpartition("/")[0]
    return tuple(found)


def _suffixes(path: str) -> tuple[str, ...]:
    """A file as people name it: alone, with its folder, …, and whole."""
    parts = path.lower().replace("\\", "/").strip("/").split("/")
    found = ["/".join(parts[start:]) for start in range(max(0, len(parts) - PATH_SUFFIXES), len(parts))]
    return (*found, "/".join(parts)) if len(parts) > PATH_SUFFIXES else tuple(found)
