"""Aider's Markdown history -> transcripts, one a run; runs that asked nothing are left.

The writer's own marks decide who speaks, not Markdown: a prompt is "#### line" and a notice "> line", each after a
blank line and with two spaces at its end; a reply has neither. Older versions mark only the first line of a notice.
"""

from __future__ import annotations

import hashlib
import re
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path

from msgspec import structs

from agent_journal.connectors.aider import AGENT
from agent_journal.connectors.base import Reading, Source, count, file_time, readable
from agent_journal.connectors.blocks import Stamp, tool_call
from agent_journal.connectors.jsonl import text_lines
from agent_journal.errors import UnreadableSource
from agent_journal.session import (
    Block,
    Message,
    Origin,
    Role,
    Session,
    Text,
    Thinking,
    ToolCall,
    ToolType,
    Transcript,
    Usage,
    prompt_title,
)

HEADER = "# aider chat started at "
ENDED = "  "  # two spaces, which the writer puts behind every line that is not a reply

_SHELL = re.compile(r"(?:/(?:run|test|git)\s+|!)(.+)", re.DOTALL)
_ENCODED = re.compile(r"(?<![A-Za-z0-9+/=])[A-Za-z0-9+/=]{4096,}")  # images that a terminal would have shown
_THOUGHT = re.compile(r"^(?:-{4,}\n+)?►\s*\*\*(THINKING|ANSWER)\*\*[ \t]*$|^<(/?think(?:ing)?)>[ \t]*$", re.MULTILINE)
_SEVERAL_LINES = re.compile(r"> (?:Tokens: [\d.]|Add the output to the chat\?|Command Line Args:)")
_FAILURE = re.compile(r"^(?:litellm\.|Unexpected error|The LLM did not|# \d+ SEARCH/REPLACE block)", re.MULTILINE)
_AMOUNT = re.compile(r"([\d.,]+[kM]?) (sent|cache write|cache hit|cached|received)")
# What every launch prints. The first line repeats the command, which may hold keys.
_STARTUP = re.compile(r"\S*\baider(?:\.exe)?(?: .*)?$|(?:Weak|Editor) model: |Git repo: |Repo-map: |Use /help <")


def read(source: Source) -> Reading:
    reading = Reading()
    typed = _typed(source)
    seen: Counter[str] = Counter()
    for run, until in _runs(source.path, reading):
        seen[run.header] += 1
        messages = run.messages(typed, until, reading.skipped)
        if not any(m.role is Role.USER for m in messages):
            reading.skipped["blank session"] += 1  # launched and left, or asked for nothing but a commit
            continue
        reading.transcripts.append(Transcript(_session(source, run, seen[run.header], messages), messages))
    return reading


def _session(source: Source, run: _Run, ordinal: int, messages: tuple[Message, ...]) -> Session:
    path = source.path.absolute()  # the same file has one key, however it was named
    place = hashlib.blake2b(str(path).encode("utf-8", "surrogateescape"), digest_size=4).hexdigest()
    again = f".{ordinal}" if ordinal > 1 else ""  # the header counts whole seconds
    known = len(source.files) > 1 or run.started is None
    times = {} if known else {"times": "only the session's start is known"}
    return Session(
        key=f"{AGENT}:{place}/{run.header}{again}",
        id=run.header,
        agent=AGENT,
        origin=Origin(path=readable(str(path)), home=source.home),
        title=next((prompt_title(m.text) for m in messages if m.is_human and m.text[0] not in "/!"), None),
        workspace=readable(str(path.parent)),
        agent_version=run.version,
        extensions=times | file_time(messages, source.files[0]),
    )


# Times. The file knows the start of a run only; the history of typed lines, where there is one, each prompt's own.


def _local(text: str) -> datetime | None:
    """Aider writes the clock of the machine it runs on, without a zone."""
    try:
        return datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError, OSError):
        return None


def _typed(source: Source) -> dict[str, list[datetime]]:
    """When each text was typed. The file is a help only: unreadable, it is as good as missing."""
    typed: list[tuple[datetime, list[str]]] = []
    for file in source.files[1:]:
        at: datetime | None = None
        try:
            for line, _ in text_lines(file.path, Reading()):
                if line.startswith("# "):
                    at = _local(line[2:])
                    typed += [(at, [])] if at else []
                elif line.startswith("+") and at:
                    typed[-1][1].append(line[1:].rstrip())
        except UnreadableSource:
            continue
    times: dict[str, list[datetime]] = defaultdict(list)
    for moment, lines in sorted(typed):
        times["\n".join(lines).strip()].append(moment)
    return times


def _typed_at(times: list[datetime], after: datetime | None, until: datetime | None) -> datetime | None:
    """The first of these times that lies within the run and behind the prompt before."""
    place = bisect_right(times, after) if after else len(times)
    return times[place] if place < len(times) and (until is None or times[place] < until) else after


# Who speaks.


class _Voice(Enum):
    PROMPT = "prompt"
    NOTICE = "notice"
    REPLY = "reply"


def _runs(path: Path, reading: Reading) -> Iterator[tuple[_Run, datetime | None]]:
    """Each run, and when the next one began."""
    run: _Run | None = None
    for line, ended in text_lines(path, reading):
        if not ended and run is not None and run.is_cut(line):
            reading.unfinished = True
            break
        if line.startswith(HEADER):
            following = _Run(line[len(HEADER) :].strip()[:80])
            if run is not None:
                yield run, following.started
            run = following
        elif run is not None:
            run.take(line)
        elif line.strip():
            reading.skipped["line before the first run"] += 1
    if run is not None:
        yield run, None


@dataclass(slots=True)
class _Run:
    header: str
    started: datetime | None = None
    version: str | None = None
    model: str | None = None
    folder: str | None = None  # where it was started, if not where the file lies
    parts: list[tuple[_Voice, list[str]]] = field(default_factory=list)
    spaced: bool | None = None  # whether marked lines end in two spaces: the first marked line tells
    gap: bool = True  # the line before is blank
    open: bool = False  # a notice of several lines has not reached the two spaces at its end
    fenced: bool = False
    calls: int = 0

    def __post_init__(self) -> None:
        self.started = _local(self.header)

    def is_cut(self, line: str) -> bool:
        """Half of a marked line cannot be told from a reply. Every other line is read as far as it goes."""
        return line.startswith(("#", ">")) and not line.endswith(ENDED) and self.spaced is not False

    def take(self, line: str) -> None:
        if not line.strip():
            self.gap = True
            if self.parts and (self.open or self.parts[-1][0] is _Voice.REPLY):
                self.parts[-1][1].append("")
            return
        voice = self._voice(line)
        if not self.parts or self.parts[-1][0] is not voice or (voice is _Voice.PROMPT and self.gap):
            self.parts.append((voice, []))
            self.fenced = False
        self.parts[-1][1].append(line)
        self.open = voice is _Voice.NOTICE and self.spaced is True and not line.endswith(ENDED)
        self.fenced ^= voice is _Voice.REPLY and line.startswith("```")
        self.gap = False

    def _voice(self, line: str) -> _Voice:
        before = self.parts[-1][0] if self.parts else None
        asks, tells = line.startswith("#### ") or line == "####", line.startswith("> ") or line == ">"
        if self.spaced is None and (asks or tells):
            self.spaced = line.endswith(ENDED)
        # An open fence means nothing where marks end in spaces: replies are cut off inside fences, and a text
        # inside one that has both the blank line and the spaces was not seen in a hundred thousand lines.
        marked = line.endswith(ENDED) if self.spaced else not self.fenced
        if asks and marked and (self.gap or before is _Voice.PROMPT):
            return _Voice.PROMPT
        if tells and marked and (self.gap or before is not _Voice.REPLY):
            return _Voice.NOTICE
        if tells and (_SEVERAL_LINES.match(line) if self.gap and before else before is not _Voice.REPLY):
            return _Voice.NOTICE
        goes_on = before is _Voice.NOTICE and (self.open or not self.gap)
        return _Voice.NOTICE if goes_on else _Voice.REPLY

    # What was said.

    def messages(
        self, typed: Mapping[str, list[datetime]], until: datetime | None, skipped: Counter[str]
    ) -> tuple[Message, ...]:
        made: list[Message] = []
        at = self.started
        for voice, lines in self.parts:
            if voice is _Voice.NOTICE:
                self._notice(lines, made, at, skipped)
            elif voice is _Voice.REPLY:
                blocks = tuple(_reply_blocks("\n".join(lines).strip(), at))
                made.append(Message(Role.ASSISTANT, blocks, at=at, model=self.model))
            elif (text := "\n".join(line[5:].rstrip() for line in lines).strip()) in ("", "<blank>"):
                skipped["prompt/blank"] += 1
            else:
                at = _typed_at(typed.get(text, []), at, until)
                made.append(Message(Role.USER, (Text(text, at=at),), at=at))
        return tuple(structs.replace(m, cwd=self.folder) for m in made) if self.folder else tuple(made)

    def _notice(self, lines: list[str], made: list[Message], at: datetime | None, skipped: Counter[str]) -> None:
        told = ["" if line == ">" else line.removeprefix("> ").rstrip() for line in lines]
        last = made[-1] if made else Message(Role.SYSTEM, ())
        command = _SHELL.match(last.text) if last.role is Role.USER else None
        if command:
            output = self._call("shell", {"command": command[1]}, _kept(told), None, at)
            made.append(Message(Role.TOOL, (output,), at=at))
            return
        calls: list[ToolCall] = []
        usage, rest = None, []
        for line in told:
            if not made and _STARTUP.match(line):
                skipped["notice/startup"] += 1
            elif line.startswith("Tokens: "):
                usage = _usage(line)
            elif self._is_fact(line) or line.startswith(("Cost: $", "Costs do not")):
                continue
            elif call := self._told_call(line, at):
                calls.append(call)
            else:
                rest.append(line)
        if last.role is Role.ASSISTANT:
            made[-1] = structs.replace(last, blocks=(*last.blocks, *calls), usage=usage)
        elif calls:
            made.append(Message(Role.TOOL, tuple(calls), at=at))
        if usage and last.role is not Role.ASSISTANT:
            skipped["notice/tokens without a reply"] += 1
        if text := _kept(rest):
            failed = _FAILURE.search(text) is not None
            made.append(Message(Role.SYSTEM, (Text(text, at=at),), at=at, is_meta=True, is_error=failed))

    def _is_fact(self, line: str) -> bool:
        if found := re.match(r"Aider v(\d\S*)$", line):
            self.version = found[1]
        elif found := re.match(r"(?:Main m|M)odels?: (\S+?)⚡? with ", line):
            self.model = found[1]
        elif found := re.match(r"Cur working dir: (\S.*)", line):
            self.folder = found[1].rstrip()
        return found is not None

    def _told_call(self, line: str, at: datetime | None) -> ToolCall | None:
        for name, pattern, success in _CALLS:
            if found := pattern.match(line):
                return self._call(name, {k: v.strip() for k, v in found.groupdict().items()}, line, success, at)
        return None

    def _call(
        self, name: str, given: dict[str, str], result: str, success: bool | None, at: datetime | None
    ) -> ToolCall:
        self.calls += 1
        told = {"type": _TYPES.get(name, ToolType.GENERIC), "result": result, "success": success}
        return tool_call(f"{name}-{self.calls}", name, given, Stamp(at=at), **told)


_TYPES = {"shell": ToolType.SHELL, "edit": ToolType.WRITE}
_NOT_APPLIED = r"(?:Did not apply edit to|Skipping edits to) (?P<path>.+?)(?: \(--dry-run\)| that .*)?$"
_CALLS = (
    ("edit", re.compile(r"(?:Applied edit to|Creating empty file) (?P<path>.+)"), True),
    ("edit", re.compile(_NOT_APPLIED), False),
    ("git_commit", re.compile(r"Commit (?P<hash>[0-9a-f]{7,40}) (?P<message>.+)"), True),
)


def _kept(lines: list[str]) -> str:
    return _ENCODED.sub("[encoded data]", "\n".join(lines).strip())


def _usage(line: str) -> Usage:
    amounts = {what: _amount(number) for number, what in _AMOUNT.findall(line)}
    return Usage(
        input_tokens=amounts.get("sent", 0),
        output_tokens=amounts.get("received", 0),
        cache_creation_tokens=amounts.get("cache write", 0),
        cache_read_tokens=amounts.get("cache hit", 0) or amounts.get("cached", 0),
    )


def _amount(text: str) -> int:
    """Today's versions round to thousands: 3.2k."""
    try:
        return count(round(float(text.rstrip("kM").replace(",", "")) * {"k": 1e3, "M": 1e6}.get(text[-1], 1)))
    except (ValueError, OverflowError):
        return 0


def _reply_blocks(text: str, at: datetime | None) -> Iterator[Block]:
    """A reply with the thoughts that some models put before it."""
    thinks, start = False, 0
    for mark in _THOUGHT.finditer(text):
        yield from _one_block(text[start : mark.start()], thinks, at)
        thinks, start = mark[1] == "THINKING" or (mark[2] or "/")[0] != "/", mark.end()
    yield from _one_block(text[start:], thinks, at)


def _one_block(text: str, thinks: bool, at: datetime | None) -> Iterator[Block]:
    text = text.strip().removesuffix("------------").strip() if thinks else text.strip()
    if text:
        yield Thinking(text, at=at) if thinks else Text(text, at=at)
