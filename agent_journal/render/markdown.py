"""A session as Markdown: one renderer for every agent, for people and for repositories.

What was said stays Markdown. Whatever in it could change how the rest of the page reads is made harmless: raw HTML
is shown as text, an open fence is closed, control sequences of terminals go. It knows only what a message says, not
where it stands in the journal: the same page comes out of an export that was read in again.
"""

from __future__ import annotations

import html
import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from functools import cache, singledispatch
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from agent_journal.render.clean import clean_line, clean_text
from agent_journal.render.message import about_what, spelled
from agent_journal.session import (
    Account,
    Attachment,
    Block,
    Message,
    Role,
    Session,
    Text,
    Thinking,
    ToolCall,
    ToolType,
    shortened,
)

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

PROSE_CHARS = 200_000  # beyond it a text is data that was pasted, and is fenced instead of parsed
ABOUT_CHARS = 100
INLINE_CHARS = 200  # a longer argument gets a fence of its own
# In ToolCall.details: how the tool that wrote a SessionData file would have the call shown.
FORMATTED, SUMMARY = "formattedMarkdown", "displaySummary"
_COMMANDS = frozenset(("command", "cmd", "script"))
_TICKS = re.compile(r"`+")
# Characters of a line that mean something to Markdown: an underscore only beside a word, "&" only before an entity.
_SPECIAL = re.compile(r"([\\`*\[\]<~|]|(?<!\w)_|_(?!\w)|&(?=#?\w+;)|#(?=#*$))")
# An autolink that may stay one, or what CommonMark could read as the start of raw HTML.
_ANGLE = re.compile(r"<(?:(?:https?|mailto):[^\s<>]*>|[\w.+-]+@[\w.-]+>|(?=[A-Za-z/!?]))")
# A tag that begins a line is HTML even inside a code span; there a line break reads as a space.
_TAG_AFTER_BREAK = re.compile(r"\n[ \t>]*(?=<)")
_TOKEN = re.compile(r"\\.|`+|<|!(?=\[)", re.DOTALL)
# What may be more than plain prose: a tag, a fence, a heading (or its underline), an image.
_TELLING = re.compile(r"<|```|~~~|!\[|^ {0,3}(?:#|=+[ \t]*$|-+[ \t]*$)", re.MULTILINE)
DEEPER = 2  # our own headings are of levels 1 and 2: what somebody said must not look like a turn or a session
_CLOSING = re.compile(r" {0,3}(`{3,}|~{3,})[ \t]*")


def session_markdown(account: Account) -> Iterator[str]:
    """The page in pieces, each ending in a line feed."""
    yield f"# {escaped(account.derived.title) or 'Untitled session'}\n\n"
    yield "".join(f"- {name}: {fact}\n" for name, fact in _facts(account) if fact)
    for message in account.messages:
        yield "\n" + _message(message, account.session)


def _facts(account: Account) -> Iterator[tuple[str, str]]:
    session, derived = account.session, account.derived
    yield "Agent", escaped(" ".join(filter(None, (session.agent, session.agent_version))))
    yield "Project", code(session.workspace or "")
    yield "Branch", code(session.git_branch or "")
    yield "When", " – ".join(dict.fromkeys(when(at) for at in (derived.started_at, derived.ended_at) if at))
    yield "Session", code(session.id)
    yield "Started by session", code(session.parent_session_id or "")
    yield "Model", ", ".join(map(code, dict.fromkeys(m.model for m in account.messages if m.model)))


def when(at: datetime | None) -> str:
    return f"{at:%Y-%m-%d %H:%M:%S} UTC" if at else ""


def _message(message: Message, session: Session) -> str:
    heading = " · ".join(filter(None, (_speaker(message, session), when(message.at))))
    body = "\n".join(filter(None, map(_block, message.blocks)))
    if message.is_meta or message.is_compaction or message.role is Role.SYSTEM:
        return fold(heading, body)
    return f"## {heading}\n" + (f"\n{body}" if body else "")


def _speaker(message: Message, session: Session) -> str:
    marks = {
        "written by the agent": message.is_meta,
        "summary of what came before": message.is_compaction,
        "side conversation": message.is_sidechain and not session.is_agent_session,
        "error": message.is_error,
    }
    told = ", ".join(mark for mark, holds in marks.items() if holds)
    return message.role.capitalize() + (f" ({told})" if told else "")


@singledispatch
def _block(block: Block) -> str:
    raise TypeError(type(block).__name__)


@_block.register
def _(block: Text) -> str:
    return prose(block.text)


@_block.register
def _(block: Thinking) -> str:
    return fold("Thinking", prose(block.text)) if block.text.strip() else ""


@_block.register
def _(block: Attachment) -> str:
    media = f" ({escaped(block.media_type)})" if block.media_type else ""
    named = " ".join(filter(None, (f"Attached {escaped(block.kind)}", code(block.name))))
    return f"{named}{media}\n" + (f"\n{fenced(clean_text(block.text))}" if block.text.strip() else "")


@_block.register
def _(block: ToolCall) -> str:
    return fold(tool_summary(block), tool_markdown(block))


def fold(summary: str, body: str) -> str:
    """The blank lines make CommonMark read the body as Markdown; nothing in `body` may be raw HTML but folds."""
    return f"<details>\n<summary>{html.escape(clean_line(summary), quote=False)}</summary>\n\n" + (
        f"{body}\n</details>\n" if body else "</details>\n"
    )


def tool_summary(call: ToolCall) -> str:
    """One line: what kind of tool, which, whether it failed, and about what; or what another tool said of it."""
    given = call.details.get(SUMMARY)
    if isinstance(given, str) and given.strip():
        return clean_line(given)
    head = f"{call.type}: {clean_line(call.name)}" + " (failed)" * (call.success is False)
    about = shortened(clean_line(about_what(call.arguments)[1][: ABOUT_CHARS * 8]), ABOUT_CHARS)
    return f"{head} · {about}" if about else head


def tool_markdown(call: ToolCall) -> str:
    """One tool use with its answer, without the fold and its summary."""
    formatted = call.details.get(FORMATTED)
    if isinstance(formatted, str) and formatted.strip():
        parts = [f"<formatted-markdown>\n\n{prose(formatted)}\n</formatted-markdown>\n"]
    else:
        parts = [*_arguments(call), *_result(call)]
    if call.paths:
        parts.append(f"Files: {', '.join(map(code, call.paths))}\n")
    if call.agent_session:
        parts.append(f"Started session: {code(call.agent_session)}\n")
    return "\n".join(parts)


def _arguments(call: ToolCall) -> Iterator[str]:
    """Short ones as a list, each long one in a fence of its own; nothing is spelled as JSON that need not be."""
    if not isinstance(call.arguments, Mapping):
        if call.arguments not in (None, ""):
            yield f"Input:\n\n{fenced(clean_text(spelled(call.arguments)))}"
        return
    texts = {str(name): clean_text(spelled(value)) for name, value in call.arguments.items()}
    short = {name: text for name, text in texts.items() if len(text) <= INLINE_CHARS and "\n" not in text}
    if short:
        yield "".join(f"- {_named(name)}: {code(text)}".rstrip() + "\n" for name, text in short.items())
    for name, text in texts.items():
        if name not in short:
            yield f"{_named(name)}:\n\n{fenced(text, _language(call, name))}"


def _named(argument: str) -> str:
    return argument if argument.isidentifier() and argument.isascii() else code(argument) or "(unnamed)"


def _language(call: ToolCall, argument: str) -> str:
    if call.type is ToolType.SHELL and argument in _COMMANDS:
        return "bash"
    suffix = PurePosixPath(call.paths[0]).suffix[1:] if call.type is ToolType.WRITE and len(call.paths) == 1 else ""
    return suffix if suffix.isalnum() and suffix.isascii() else ""


def _result(call: ToolCall) -> Iterator[str]:
    facts = {
        name: fact for name, fact in call.details.items() if isinstance(fact, (str, int, float)) and name != SUMMARY
    }
    told = [f"{_named(name)} {code(text)}" for name, fact in facts.items() if len(text := spelled(fact)) <= ABOUT_CHARS]
    head = "Failed" if call.success is False else "Output"
    head += f" ({', '.join(told)})" if told else ""
    if call.result:
        yield f"{head}:\n\n{fenced(clean_text(call.result))}"
    elif told or call.success is False:
        yield f"{head}\n"


def fenced(text: str, language: str = "") -> str:
    """A code block that holds exactly this text, closed by a fence that the text cannot contain."""
    longest = max((len(run) for run in _TICKS.findall(text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text}{'' if text.endswith(chr(10)) or not text else chr(10)}{fence}\n"


def code(text: str) -> str:
    """A code span of one line; nothing for nothing."""
    line = clean_line(text)
    if not line:
        return ""
    tick = "`" * (1 + max((len(run) for run in _TICKS.findall(line)), default=0))
    space = " " if "`" in (line[0], line[-1]) else ""
    return f"{tick}{space}{line}{space}{tick}"


def escaped(text: str) -> str:
    """One line in which no character means anything to Markdown."""
    return _SPECIAL.sub(r"\\\1", clean_line(text))


def prose(text: str) -> str:
    """Markdown from a log: as it is, but that it ends where it ends, and that its HTML is shown and not obeyed."""
    text = clean_text(text).strip("\n").rstrip()
    if not text.strip():
        return ""
    if len(text) > PROSE_CHARS:
        return fenced(text)
    if not _TELLING.search(text):
        return f"{text}\n"
    lines = text.split("\n")
    parsed = _markdown().parse(text)
    tokens = [token for token in parsed if token.type in ("fence", "code_block", "inline")]
    lines += _missing_fence(tokens[-1:], lines)
    for number in {*range(len(lines))} - {number for token in tokens for number in range(*token.map or ())}:
        lines[number] = _ANGLE.sub(_harmless, lines[number])  # between the blocks: link definitions, deep nesting
    for token in reversed(parsed):  # from the end, for a paragraph becomes one item
        start, end = token.map or (0, 0)
        if token.type == "inline":
            lines[start:end] = [_without_html("\n".join(lines[start:end]))]
        elif token.type == "heading_open" and not token.level:
            lines[start : start + 1 + (token.markup[0] != "#")] = [_deeper(token, lines[start])]
    return "\n".join(lines) + "\n"


def _deeper(heading: Token, line: str) -> str:
    """A heading of level 3 or below, on one line; an underline goes."""
    marks = "#" * min(6, int(heading.tag[1:]) + DEEPER)
    words = line.strip().removeprefix(heading.markup) if heading.markup[0] == "#" else " ".join(line.split())
    return f"{marks} {words.strip()}"


@cache
def _markdown() -> MarkdownIt:
    """Blocks only, and HTML as text: the structure that the page has once its HTML is escaped."""
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark", {"html": False}).disable(["inline", "text_join"])


def _on_one_line(broken: re.Match[str]) -> str:
    """A line break in code reads as a space; marks of a quote are none of the code's."""
    return " " if ">" in broken[0] else f" {broken[0][1:]}"


def _harmless(angle: re.Match[str]) -> str:
    return angle[0] if len(angle[0]) > 1 else r"\<"


def _without_html(text: str) -> str:
    """The text of one paragraph, heading or cell, its tags escaped but for those that stand in code."""
    made, at = [], 0
    ends: dict[str, list[int]] = defaultdict(list)  # of the backtick runs, by run: pasted logs hold thousands
    for run in _TICKS.finditer(text):
        ends[run[0]].append(run.end())
    while found := _TOKEN.search(text, at):
        made.append(text[at : found.start()])
        at, mark = found.end(), found[0]
        if mark == "<" and (angle := _ANGLE.match(text, found.start())):
            at, mark = angle.end(), _harmless(angle)
        elif mark == "!":
            mark = r"\!"  # an image would be fetched by whatever shows the page; a link waits to be followed
        elif mark[0] == "`":
            after = bisect_right(ends[mark], at)
            at = ends[mark][after] if after < len(ends[mark]) else at
            mark = _TAG_AFTER_BREAK.sub(_on_one_line, text[found.start() : at])
        made.append(mark)
    return "".join([*made, text[at:]])


def _missing_fence(last: Sequence[Token], lines: Sequence[str]) -> Iterator[str]:
    """The fence that a text was cut off before, or forgot. Fences inside lists and quotes end with those."""
    for token in last:
        if token.type != "fence" or token.level or not token.map or token.map[1] < len(lines):
            continue
        closing = _CLOSING.fullmatch(lines[-1])
        same = closing and closing[1][0] == token.markup[0] and len(closing[1]) >= len(token.markup)
        if not same or token.map[1] - token.map[0] == 1:
            yield token.markup
