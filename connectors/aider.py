"""Aider: one Markdown history in every project, one session a run. Never writes to it, keeps no clone's copy apart.

The writer's own marks decide who speaks, not Markdown: a prompt is "#### line" and a notice "> line", each after a
blank line and with two spaces at its end; a reply has neither. Older versions mark only the first line of a notice.
"""

from __future__ import annotations

import hashlib
import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path

from msgspec import structs

from agent_journal.connectors import projects
from agent_journal.connectors.base import Discovery, Reading, Source, file_time, given_folder, readable, stat_of
from agent_journal.connectors.jsonl import text_lines
from agent_journal.errors import UnreadableSource
from agent_journal.session import (
    Block,
    Message,
    Origin,
    Resume,
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

AGENT = "aider"
HISTORY = ".aider.chat.history.md"
INPUTS = ".aider.input.history"  # what was typed, with the time of each prompt
HEADER = "# aider chat started at "
ENDED = "  "  # two spaces, which the writer puts behind every line that is not a reply

_SHELL = re.compile(r"(?:/(?:run|test|git)\s+|!)(.+)", re.DOTALL)
_ENCODED = re.compile(r"[A-Za-z0-9+/=]{4096,}")  # images that a terminal would have shown
_THOUGHT = re.compile(r"^(?:-{4,}\n+)?►\s*\*\*(THINKING|ANSWER)\*\*[ \t]*$|^<(/?think(?:ing)?)>[ \t]*$", re.MULTILINE)
_SEVERAL_LINES = re.compile(r"> (?:Tokens: [\d.]|Add the output to the chat\?|Command Line Args:)")
_FAILURE = re.compile(
    r"^(?:litellm\.|Unexpected error|The LLM did not conform|# \d+ SEARCH/REPLACE block)", re.MULTILINE
)


class Aider:
    agent = AGENT
    name = "Aider"
    aliases: tuple[str, ...] = ()
    config_key = "aider"
    env = "AJ_AIDER_PATH"
    parser_version = 1

    def roots(self, environ: Mapping[str, str], home: Path) -> list[Path]:
        given = given_folder(environ, "AIDER_CHAT_HISTORY_FILE", home)
        return [*projects.places(home), *([given] if given and given.is_absolute() else [])]

    def discover(self, root: Path) -> Discovery:
        discovery = Discovery()
        if stat_of(root):
            _add(root, discovery)
            return discovery
        for _, found in projects.folders(root, discovery):
            for entry in found:
                if entry.name == HISTORY:
                    _add(Path(entry.path), discovery)
        return discovery

    def parse(self, source: Source) -> Reading:
        reading = Reading()
        typed = _typed(source)
        seen: dict[str, int] = defaultdict(int)
        for run, until in _runs(source.path, reading):
            seen[run.header] += 1
            run.times = _between(typed, run.started, until)
            messages = tuple(run.messages(reading))
            if not any(m.role is Role.USER for m in messages):
                reading.skipped["blank session"] += 1  # launched and left, or asked for nothing but a commit
                continue
            reading.transcripts.append(Transcript(_session(source, run, seen[run.header], messages), messages))
        return reading

    def resume(self, session: Session) -> Resume | None:
        """Aider restores the whole file: no run of it can be chosen."""
        return Resume(("aider", "--restore-chat-history"), session.workspace)


def _add(path: Path, discovery: Discovery) -> None:
    files = tuple(found for found in (stat_of(path), stat_of(path.with_name(INPUTS))) if found)
    if files and files[0].path == path:
        discovery.sources.append(Source(AGENT, path, files))


def _session(source: Source, run: _Run, ordinal: int, messages: tuple[Message, ...]) -> Session:
    place = hashlib.blake2b(str(source.path).encode("utf-8", "surrogateescape"), digest_size=4).hexdigest()
    again = f".{ordinal}" if ordinal > 1 else ""  # the header counts whole seconds
    times = {} if run.times or run.started is None else {"times": "only the session's start is known"}
    return Session(
        key=f"{AGENT}:{place}/{run.header}{again}",
        id=run.header,
        agent=AGENT,
        origin=Origin(path=readable(str(source.path)), home=source.home),
        title=next((prompt_title(m.text) for m in messages if m.is_human and m.text[0] not in "/!"), None),
        workspace=readable(str(source.path.parent)),
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
    times: dict[str, list[datetime]] = defaultdict(list)
    for file in source.files[1:]:
        at, said = None, list[str]()
        try:
            for line, _ in text_lines(file.path, Reading()):
                if line.startswith("# "):
                    at, said = _local(line[2:]), []
                elif line.startswith("+") and at:
                    if said:
                        times["\n".join(said)].pop()
                    said.append(line[1:].rstrip())
                    times["\n".join(said)].append(at)
        except UnreadableSource:
            continue
    return times


def _between(
    typed: dict[str, list[datetime]], start: datetime | None, end: datetime | None
) -> dict[str, list[datetime]]:
    """What was typed in one run, latest first, so that pop() gives the next."""
    if start is None:
        return {}
    found = {
        text: [t for t in times[bisect_left(times, start) :] if end is None or t < end][::-1]
        for text, times in typed.items()
    }
    return {text: times for text, times in found.items() if times}


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
    times: dict[str, list[datetime]] = field(default_factory=dict)
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

    def messages(self, reading: Reading) -> list[Message]:
        made: list[Message] = []
        at = self.started
        for voice, lines in self.parts:
            if voice is _Voice.PROMPT:
                text = "\n".join(line[5:].rstrip() for line in lines).strip()
                if text in ("", "<blank>"):
                    reading.skipped["prompt/blank"] += 1
                    continue
                at = self.times[text].pop() if self.times.get(text) else at
                made.append(Message(Role.USER, (Text(text, at=at),), at=at))
            elif voice is _Voice.REPLY:
                blocks = tuple(_reply_blocks("\n".join(lines).strip(), at))
                made.append(Message(Role.ASSISTANT, blocks, at=at, model=self.model))
            else:
                self._notice(lines, made, at, reading)
        return made

    def _notice(self, lines: list[str], made: list[Message], at: datetime | None, reading: Reading) -> None:
        told = [line[2:].rstrip() if line.startswith("> ") else line.rstrip(" >") for line in lines]
        last = made[-1] if made else None
        command = _SHELL.match(last.text) if last and last.role is Role.USER else None
        if command:
            text = _ENCODED.sub("[encoded data]", "\n".join(told).strip())
            made.append(Message(Role.TOOL, (self._call("shell", at, command=command[1], result=text),), at=at))
            return
        notice = _Notice(self, at, last)
        rest = [line for line in told if not notice.knows(line, reading)]
        if last and last.role is Role.ASSISTANT:
            made[-1] = structs.replace(last, blocks=last.blocks + tuple(notice.calls), usage=notice.usage)
        elif notice.calls:
            made.append(Message(Role.TOOL, tuple(notice.calls), at=at))
        text = _ENCODED.sub("[encoded data]", "\n".join(rest).strip())
        if text:
            failed = _FAILURE.search(text) is not None
            made.append(Message(Role.SYSTEM, (Text(text, at=at),), at=at, is_meta=True, is_error=failed))

    def _call(
        self, name: str, at: datetime | None, *, result: str | None = None, success: bool | None = None, **given: str
    ) -> ToolCall:
        self.calls += 1
        path = given.get("path")
        return ToolCall(
            id=f"{name}-{self.calls}",
            name=name,
            type=_TYPES.get(name, ToolType.GENERIC),
            arguments=given,
            result=result,
            success=success,
            paths=(path,) if path else (),
            at=at,
        )


_TYPES = {"shell": ToolType.SHELL, "edit": ToolType.WRITE}


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


@dataclass(slots=True)
class _Notice:
    """The lines of one notice that are facts: of the run, or of the reply before them."""

    run: _Run
    at: datetime | None
    reply: Message | None
    calls: list[ToolCall] = field(default_factory=list)
    usage: Usage | None = None

    def knows(self, line: str, reading: Reading) -> bool:
        for pattern, take in _FACTS:
            if found := pattern.match(line):
                take(self, found)
                return True
        if _STARTUP.match(line):
            reading.skipped["notice/startup"] += 1
            return True
        return False

    def tokens(self, found: re.Match[str]) -> None:
        amounts = {what: _amount(number) for number, what in _AMOUNT.findall(found[0])}
        self.usage = Usage(
            input_tokens=amounts.get("sent", 0),
            output_tokens=amounts.get("received", 0),
            cache_creation_tokens=amounts.get("cache write", 0),
            cache_read_tokens=amounts.get("cache hit", 0) or amounts.get("cached", 0),
        )

    def edit(self, found: re.Match[str]) -> None:
        self.calls.append(self.run._call("edit", self.at, success=True, result=found[0], path=found[1].strip()))

    def no_edit(self, found: re.Match[str]) -> None:
        self.calls.append(self.run._call("edit", self.at, success=False, result=found[0], path=found[1].strip()))

    def commit(self, found: re.Match[str]) -> None:
        self.calls.append(
            self.run._call("git_commit", self.at, success=True, result=found[0], hash=found[1], message=found[2])
        )

    def version(self, found: re.Match[str]) -> None:
        self.run.version = found[1]

    def model(self, found: re.Match[str]) -> None:
        self.run.model = found[1]

    def ignore(self, found: re.Match[str]) -> None:
        """Said again by the line before it."""


_AMOUNT = re.compile(r"([\d.,]+[kM]?) (sent|cache write|cache hit|cached|received)")


def _amount(text: str) -> int:
    """Numbers are rounded to thousands by today's versions: 3.2k."""
    try:
        return int(float(text.rstrip("kM").replace(",", "")) * {"k": 1_000, "M": 1_000_000}.get(text[-1], 1))
    except (ValueError, OverflowError):
        return 0


_FACTS: tuple[tuple[re.Pattern[str], Callable[[_Notice, re.Match[str]], None]], ...] = (
    (re.compile(r"Tokens: .*received.*"), _Notice.tokens),
    (re.compile(r"Costs? (?:do not|\$)|Cost: \$"), _Notice.ignore),
    (re.compile(r"(?:Applied edit to|Creating empty file) (.+)"), _Notice.edit),
    (re.compile(r"(?:Did not apply edit to|Skipping edits to) (.+?)(?: \(--dry-run\)| that .*)?$"), _Notice.no_edit),
    (re.compile(r"Commit ([0-9a-f]{7,40}) (.+)"), _Notice.commit),
    (re.compile(r"Aider v(\d\S*)"), _Notice.version),
    (re.compile(r"(?:Main m|M)odels?: (\S+?)⚡? with "), _Notice.model),
)
# What every launch prints. The first line repeats the command, which may hold keys.
_STARTUP = re.compile(
    r"\S*\baider(?:\.exe)?(?: -.*| \S+.*)?$|(?:Weak|Editor) model: |Git repo: |Repo-map: |Use /help <"
)
