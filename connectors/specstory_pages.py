"""SpecStory's Markdown pages -> transcripts.

Arguments and results of tools are what the page shows, no more.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from agent_journal.connectors.base import FileStat, Reading, Source, file_time, readable, session_key, timestamp
from agent_journal.connectors.blocks import Stamp, tool_call, tool_paths
from agent_journal.connectors.jsonl import text_lines
from agent_journal.connectors.prompt_text import is_injected, readable_command
from agent_journal.connectors.specstory import AGENT, FOLDER, NAME, TIME
from agent_journal.session import Block, Message, Origin, Role, Session, Text, Thinking, ToolCall, ToolType, Transcript

_SESSION = re.compile(rf"<!-- (.{{1,60}}?) Session (\S{{1,200}}) \(({TIME})\) -->")
_SPEAKER = re.compile(rf"_\*\*(User|Agent|Assistant)( - sidechain)?(?: \((.{{0,200}}?) ?({TIME})?\))?\*\*_")
_MESSAGE_ID = re.compile(r"<!-- message-id: (\S{1,200}) -->")
_TOOL = re.compile(r'<tool-use data-tool-type="([^"]*)" data-tool-name="([^"]*)"><details>')
_SUMMARY = re.compile(r"<summary>(?:Tool use: \*\*(.{0,500}?)\*\*)?(.*)</summary>")
_THINK = "<think><details><summary>Thought Process</summary>"
_KEYED = re.compile(r"(?:^|[ \n])(?:- )?(\w+):? `([^`\n]*)`")
_FILE = re.compile(r"(?:\w+ file:)? ?`([^`\n]+)`")
_WRITTEN = re.compile(r"(?:The file|File created successfully at:) (\S.{0,1000}?)(?: has been |$)", re.MULTILINE)
_FAILED = re.compile(r"<tool_use_error>|Exit code [1-9]|(?:.*\n){0,3}Process exited with code [1-9]")


def read(source: Source) -> Reading:
    """A session told under two names is one: the longer telling."""
    reading = Reading()
    told: dict[str, Transcript] = {}
    for file in source.files:
        transcript = _read(file, source, reading)
        if not any(m.role is Role.USER or m.role is Role.ASSISTANT for m in transcript.messages):
            reading.skipped["blank session"] += 1
            continue
        kept = told.get(transcript.session.key)
        if kept:
            reading.skipped["session told twice"] += 1
        if kept is None or len(kept.messages) < len(transcript.messages):
            told[transcript.session.key] = transcript
    reading.transcripts += told.values()
    return reading


def _read(file: FileStat, source: Source, reading: Reading) -> Transcript:
    log = _Log()
    for line, ended in text_lines(file.path, reading):
        if not ended and line.startswith(("_", "<")) and not log.closer and not _SPEAKER.fullmatch(line):
            reading.unfinished = True
        else:
            log.take(line)
    log.end_message()
    messages = tuple(m for m in log.messages if m.blocks)
    if empty := len(log.messages) - len(messages):
        reading.skipped["message/empty"] += empty
    named = re.fullmatch(NAME, readable(file.path.stem))
    session_id = log.session_id or readable(file.path.stem)
    session = Session(
        key=session_key(AGENT, session_id),
        id=session_id,
        agent=AGENT,
        origin=Origin(path=readable(str(file.path)), home=source.home),
        title=log.title,
        slug=named[2] if named else None,
        workspace=_workspace(file.path),
        extensions=log.extensions | file_time(messages, file),
    )
    return Transcript(session, messages)


def _workspace(path: Path) -> str | None:
    """The project, where the page still lies in it."""
    path = path.absolute()
    return readable(str(path.parents[2])) if path.parts[-3:-1] == (FOLDER, "history") else None


def _time(text: str | None) -> datetime | None:
    """Also as in file names: 2026-06-20_11-00-00Z."""
    return timestamp(f"{text[:10]}T{text[11:19].replace('-', ':')}{text[19:]}") if text else None


@dataclass(slots=True)
class _Log:
    messages: list[Message] = field(default_factory=list)
    session_id: str | None = None
    started: datetime | None = None
    title: str | None = None
    extensions: dict[str, Any] = field(default_factory=dict)
    speaker: re.Match[str] | None = None
    uuid: str | None = None
    blocks: list[Block] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    closer: str = ""  # the line that ends the open block: until then nothing has a meaning
    tool: tuple[str, str] = ("", "")  # type and name, "" type: thoughts
    calls: int = 0

    def take(self, line: str) -> None:
        if self.closer:
            if line == self.closer:
                self._end_block()
            else:
                self.lines.append(line)
            return
        speaker = _SPEAKER.fullmatch(line)
        if speaker and (not self.lines or not self.lines[-1]):
            self.end_message()
            self.speaker = speaker
        elif self.speaker is None:
            self._header(line)
        else:
            self._said(line)

    def _header(self, line: str) -> None:
        if found := _SESSION.fullmatch(line):
            self.extensions["provider"], self.session_id, self.started = found[1], found[2], _time(found[3])
        elif line.startswith("#") and self.title is None:
            self.title = re.sub(rf"\(?{TIME}\)?$", "", line.lstrip("# ")).strip() or None

    def _said(self, line: str) -> None:
        opened, summary = _TOOL.fullmatch(line), _SUMMARY.fullmatch(line)
        if opened:
            self._begin_block("</details></tool-use>", (opened[1], opened[2]))
        elif line == _THINK:
            self._begin_block("</details></think>", ("", ""))
        elif summary and summary[1] and self.lines[-1:] == ["<details>"]:  # before the tag <tool-use> there was
            self.lines.pop()
            self._begin_block("</details>", ("unknown", summary[1]))
            self.lines.append(line)
        elif (found := _MESSAGE_ID.fullmatch(line)) and not self.lines:
            self.uuid = found[1]
        else:
            self.lines.append(line)

    def _begin_block(self, closer: str, tool: tuple[str, str]) -> None:
        self._end_text()
        self.closer, self.tool = closer, tool

    def _end_block(self) -> None:
        kind, name = self.tool
        lines, self.lines, self.closer = self.lines, [], ""
        text = "\n".join(lines).strip()
        if kind or name:
            self.calls += 1
            self.blocks.append(_call(f"{name}-{self.calls}", kind, name, lines, self._at))
        elif text:
            self.blocks.append(Thinking(text, at=self._at))

    def _end_text(self) -> None:
        lines, self.lines = self.lines, []
        while lines and lines[-1] in ("", "---"):  # the rule stands between speakers
            lines.pop()
        if text := "\n".join(lines).strip():
            self.blocks.append(Text(text, at=self._at))

    @property
    def _at(self) -> datetime | None:
        return (_time(self.speaker[4]) if self.speaker else None) or self.started

    def end_message(self) -> None:
        """Ends the message of the speaker before, and a block that a cut page left open."""
        if self.closer:
            self._end_block()
        self._end_text()
        if self.speaker is None:
            self.blocks = []
            return
        said = self.speaker
        if said[4] is None and self.started:
            self.extensions["times"] = "only the session's start is known"
        role = Role.USER if said[1] == "User" else Role.ASSISTANT
        injected = role is Role.USER and all(isinstance(b, Text) and is_injected(b.text) for b in self.blocks)
        if injected:
            self.blocks = [Text(readable_command(b.text), at=b.at) for b in self.blocks if isinstance(b, Text)]
        self.messages.append(
            Message(
                role,
                tuple(self.blocks),
                uuid=self.uuid,
                at=self._at,
                model=_model(said[3]) if role is Role.ASSISTANT else None,
                is_meta=injected,
                is_sidechain=said[2] is not None,
                is_compaction=injected and self.blocks != [] and _summarises(self.blocks[0]),
            )
        )
        self.speaker, self.uuid, self.blocks = None, None, []


def _summarises(block: Block) -> bool:
    return isinstance(block, Text) and block.text.startswith("This session is being continued")


def _model(text: str | None) -> str | None:
    """`claude-opus-4-6`, or as the editor's extension tells it: `model gpt-5, mode Agent`."""
    return text.removeprefix("model ").split(",")[0].strip() or None if text else None


# Tools. A page shows the arguments in words and code marks, then the result in the last fenced block.


def _call(call_id: str, kind: str, name: str, lines: list[str], at: datetime | None) -> ToolCall:
    kinds = {k.value: k for k in ToolType if k is not ToolType.UNKNOWN}
    given, result = _split(lines, kind)
    arguments = _arguments(given, kind)
    failed = "**Error:**" in given or (result is not None and _FAILED.match(result) is not None)
    told: dict[str, Any] = {"result": result, "success": None if result is None else not failed}
    if kind in kinds:
        told["type"] = kinds[kind]
    if not tool_paths(arguments) and (found := _WRITTEN.match(result or "")):
        told["paths"] = tool_paths({"path": found[1]})
    return tool_call(call_id, name, arguments or None, Stamp(at=at), **told)


def _split(lines: list[str], kind: str) -> tuple[list[str], str | None]:
    """Lines before the result, and the result. A written file stands in a fence of its own before it; whatever a
    result itself holds, fences too, ends with the block."""
    openings = [n for n, line in enumerate(lines) if line in ("```text", "```")]
    last = max((n for n, line in enumerate(lines) if line == "```"), default=-1)
    texts = [n for n in openings if lines[n] == "```text" and n < last]
    if texts:
        start = texts[-1 if kind == "write" else 0]
    else:
        bare = _outside_fences(lines, last)
        if bare is None:
            return lines, None
        start = bare
    return lines[:start], "\n".join(lines[start + 1 : last])


def _outside_fences(lines: list[str], last: int) -> int | None:
    """The first bare fence before `last` that does not close one opened with a language before."""
    inside = False
    for place, line in enumerate(lines[: max(last, 0)]):
        if line == "```" and not inside:
            return place
        if line.startswith("```") or line.endswith(" ```"):
            inside = not inside
    return None


def _arguments(lines: list[str], kind: str) -> dict[str, Any]:
    summary = _SUMMARY.fullmatch(lines[0]) if lines else None
    text = "\n".join([(summary[2] if summary else "").strip(" •"), *lines[1 if summary else 0 :]]).strip("\n")
    text = re.sub(r"\*\*(?:Input|Result|Error):\*\*", "", text).rstrip()
    fence = re.search(r"```\w*\n", text)
    if fence and text.endswith("```") and len(text) - 3 > fence.end():
        words = re.sub(r"Input(?: \(truncated\))?:$", "", text[: fence.start()].strip()).strip()
        key = {"shell": "command", "write": "content"}.get(kind, "input")
        return {key: text[fence.end() : -3].strip("\n")} | ({"description": words} if words else {})
    if kind == "shell" and (line := re.search(r"(?:^|\n)`(.*)`\s*\Z", text)):
        words = text[: line.start()].strip()
        return {"command": line[1]} | ({"description": words} if words else {})
    if only := _FILE.fullmatch(text):
        return {"command" if kind == "shell" else "file_path": only[1]}
    if not _KEYED.sub("", text).strip():
        return dict(_KEYED.findall(text))
    return {"input": text.strip()}
