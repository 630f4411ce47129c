"""One message as lines: whole, cut to a readable size, or as a single line of gist."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import singledispatch
from typing import Any

from agent_journal.render.clean import clean_line, clean_text
from agent_journal.render.style import Look, counted
from agent_journal.render.width import cut, cut_start, wrap
from agent_journal.session import Attachment, Block, Message, StoredMessage, Text, Thinking, ToolCall, prompt_title

TEXT_LINES = 20  # of a message that is not shown whole
RESULT_LINES = 3
GIST_CHARS = 400  # more than a line can show; keeps a megabyte of text from being cleaned for one line
MARKED_CHARS = 4000
ABOUT_COLUMNS = 60
# The argument that says what a call is about, most telling first. Of paths the end tells most.
PATHS = (
    "file_path", "path", "notebook_path", "filePath", "targetFile", "target_file", "absolute_path", "dir_path",
    "relativeWorkspacePath", "relative_workspace_path",
)  # fmt: skip
TELLING = (
    "command", "cmd", "pattern", "query", "url", *PATHS, "description", "prompt", "message", "skill", "input",
)  # fmt: skip
_SUMMARY = re.compile(r"<summary>([^<]{1,400})</summary>")


def label(stored: StoredMessage) -> str:
    """Role initial and ordinal: `a12`."""
    return f"{str(stored.message.role)[:1]}{stored.ordinal}"


def gist(message: Message) -> str:
    """A message in one line: what was said, else what was done, else what was thought."""
    said = _without_markup(message.text) if message.text.startswith("<") else clean_line(message.text[:GIST_CHARS])
    if said:
        return said
    done = " ".join(f"[{call_gist(call, message.cwd)}]" for call in message.tool_calls[:5])
    if done:
        return done
    thought = clean_line(message.thinking[:GIST_CHARS])
    if thought:
        return f"(thinking) {thought}"
    return " ".join(_attached(b) for b in message.blocks if isinstance(b, Attachment)) or "(empty)"


def _without_markup(text: str) -> str:
    """What agents wrap in tags says nothing in its first hundred characters, unless it has a summary."""
    found = _SUMMARY.search(text[:MARKED_CHARS])
    return clean_line(found[1] if found else "") or clean_line(prompt_title(text) or text[:GIST_CHARS])


def call_gist(call: ToolCall, cwd: str | None, room: int = ABOUT_COLUMNS) -> str:
    """Name and, in `room` columns, what it is about; paths as seen from the folder it ran in."""
    name, about = about_what(call.arguments)
    about = clean_line(about[:GIST_CHARS])
    if cwd and len(cwd) > 1:
        about = re.sub(re.escape(clean_line(cwd)) + r"[/\\](?=[\w.])", "", about)
    about = (cut_start if name in PATHS else cut)(about, room) if room > 1 else ""
    return " ".join(filter(None, (clean_line(call.name), "(failed)" * (call.success is False), about)))


def about_what(arguments: Any) -> tuple[str, str]:
    """(Name, text) of the argument that says most; without a name where the call was given a text alone."""
    if isinstance(arguments, str):
        return "", arguments
    if not isinstance(arguments, dict):
        return "", ""
    texts = ((name, as_text(arguments.get(name))) for name in TELLING)
    return next(((name, text) for name, text in texts if text.strip()), ("", ""))


def as_text(value: Any) -> str:
    """An argument that is a text, or a command as its words; empty for any other."""
    if isinstance(value, list) and all(isinstance(part, str) for part in value):
        return " ".join(value)
    return value if isinstance(value, str) else ""


def spelled(value: Any) -> str:
    """A text as it is, anything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _attached(block: Attachment) -> str:
    return f"[{clean_line(block.kind)}{' ' if block.name else ''}{clean_line(block.name)}]"


class _Page:
    """How a message is drawn, and how much of it."""

    def __init__(self, message: Message, look: Look, indent: str, *, whole: bool, tools: bool, thinking: bool) -> None:
        self.cwd = message.cwd
        self.look = look
        self.indent = indent
        self.whole = whole
        self.tools = tools
        self.thinking = thinking

    def wrapped(self, text: str, most: int, style: str = "", inner: str = "") -> Iterator[str]:
        """At most `most` lines unless whole, and how many of the text's own lines were left out."""
        width = self.look.width - len(self.indent) - len(inner)
        written = clean_text(text).strip("\n").split("\n")
        shown: list[str] = []
        done = 0
        # Line by line, for a result of a megabyte is not wrapped to show three lines of it.
        while done < len(written) and (self.whole or len(shown) < most):
            shown += wrap(written[done], width)
            done += 1
        cut_off = not self.whole and len(shown) > most + 1
        left = len(written) - done + cut_off
        if left == 1 and not cut_off:
            shown += wrap(written[done], width)[:1]
            left = 0
        for line in shown[:most] if cut_off else shown:
            yield (self.indent + inner + self.look.paint(line, style)).rstrip()
        if left:
            yield self.indent + inner + self.look.paint(f"… {counted(left, 'more line')}", "dim")


def message_lines(
    message: Message, look: Look, *, indent: str, whole: bool, tools: bool = True, thinking: bool = True
) -> Iterator[str]:
    page = _Page(message, look, indent, whole=whole, tools=tools, thinking=thinking)
    for block in message.blocks:
        yield from _block_lines(block, page)


@singledispatch
def _block_lines(block: Block, page: _Page) -> Iterator[str]:
    raise TypeError(type(block).__name__)


@_block_lines.register
def _(block: Text, page: _Page) -> Iterator[str]:
    if block.text.strip():
        yield from page.wrapped(block.text, TEXT_LINES)


@_block_lines.register
def _(block: Thinking, page: _Page) -> Iterator[str]:
    if page.thinking and block.text.strip():
        yield page.indent + page.look.paint("(thinking)", "dim")
        yield from page.wrapped(block.text, TEXT_LINES, "dim")


@_block_lines.register
def _(block: Attachment, page: _Page) -> Iterator[str]:
    yield page.indent + cut(_attached(block), page.look.width - len(page.indent))
    if block.text.strip():
        yield from page.wrapped(block.text, RESULT_LINES, inner="  ")


@_block_lines.register
def _(block: ToolCall, page: _Page) -> Iterator[str]:
    if not page.tools:
        return
    room = page.look.width - len(page.indent)
    head = call_gist(block, page.cwd, 0 if page.whole else ABOUT_COLUMNS)
    yield page.indent + page.look.paint(cut(f"[{head}]", room), "agent")
    if page.whole:
        yield from _argument_lines(block.arguments, page)
    if block.result and block.result.strip():
        yield from page.wrapped(block.result, RESULT_LINES, "dim", inner="  | ")


def _argument_lines(arguments: Any, page: _Page) -> Iterator[str]:
    """One `name: value` for each; texts as they are, not as JSON spells them."""
    if not isinstance(arguments, dict):
        arguments = {} if arguments is None else {"": arguments}
    for name, value in arguments.items():
        text = spelled(value)
        between = "\n" if "\n" in text else " "
        yield from page.wrapped(f"{name}:{between}{text}" if name else text, TEXT_LINES, inner="  ")
