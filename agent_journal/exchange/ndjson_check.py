"""What is wrong with a file of unified NDJSON, line by line. Reads one line at a time and changes nothing."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

from agent_journal.exchange import schemas
from agent_journal.exchange.files import Line
from agent_journal.exchange.ndjson import AGENTS, STRICT, key_of_line

VERSION_1 = re.compile(r"1\.\d{1,9}(\.\d{1,9})?", re.ASCII)


class Check:
    """Fed line by line; each line's complaints come at once, the header's promise is checked at the end."""

    def __init__(self, *, strict: bool = False) -> None:
        self.strict = strict
        self.header: dict[str, Any] | None = None
        self.sessions = 0
        self.strangers: Counter[str] = Counter()  # agents of a 1.0 file that it does not name
        self.keys: dict[str, int] = {}  # session -> line

    def line(self, line: Line) -> Iterator[str]:
        if line.problem:
            yield line.problem
        elif not isinstance(line.value, dict) or line.value.get("type") not in ("header", "session"):
            yield 'neither a header nor a session: `type` must be "header" or "session"'
        elif (line.value["type"] == "header") != (line.number == 1):
            yield "a header must be the first line, and only that"
        elif line.number == 1:
            self.header = line.value
            if problem := version_problem(line.value):
                yield problem
            else:
                yield from schemas.complaints(schemas.NDJSON, line.value)
        else:
            self.sessions += 1
            yield from self._session(line)

    def end(self) -> Iterator[str]:
        if self.header is None:
            yield "there is no header"
        elif problem := count_problem(self.header.get("session_count"), self.sessions):
            yield problem

    def _session(self, line: Line) -> Iterator[str]:
        wrong = list(schemas.complaints(schemas.NDJSON, line.value))
        yield from wrong
        if wrong:
            return
        session, messages = line.value["session"], line.value["messages"]
        key = key_of_line(line.value)
        if key in self.keys:
            yield f"session.id: {session['id']!r} stands on line {self.keys[key]} already"
        self.keys.setdefault(key, line.number)
        for place, message in enumerate(messages):
            if message["index"] != place + 1:
                yield f"messages[{place}].index: is {message['index']}, must be {place + 1}"
                break
        yield from _doubled(messages)
        if session["agent"] not in AGENTS and self._is_1_0 and not self.strict:
            self.strangers[session["agent"]] += 1
        if session["agent"] not in AGENTS and self.strict:
            yield f"session.agent: {session['agent']!r} is not one of {', '.join(sorted(AGENTS))}"
        if self._is_1_0 and any(b["type"] == "thinking" for m in messages for b in m["content"]):
            yield "messages: schema 1.0 has no thinking blocks"

    @property
    def _is_1_0(self) -> bool:
        return (self.header or {}).get("schema_version") == STRICT


def _doubled(messages: list[dict[str, Any]]) -> Iterator[str]:
    seen: dict[str, int] = {}
    for place, message in enumerate(messages):
        uuid = message.get("uuid")
        if uuid is not None and seen.setdefault(uuid, place) != place:
            yield f"messages[{place}].uuid: {uuid!r} is that of messages[{seen[uuid]}] already"


def version_problem(header: dict[str, Any]) -> str:
    version = header.get("schema_version")
    if not isinstance(version, str) or VERSION_1.fullmatch(version):
        return ""
    return f"schema_version: {version} is not understood; this program reads 1.x"


def count_problem(promised: object, sessions: int) -> str:
    if promised == sessions:
        return ""
    return f"the header promises {promised} sessions, the file has {sessions}: it may have been cut off"
