"""A session as one self-contained page, and many as an index. Nothing is fetched, and nothing of a log runs."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from functools import singledispatch
from urllib.parse import quote

from agent_journal.render.html_index import Entry, index_page
from agent_journal.render.html_page import CLOSING, THEME_BUTTON, amount, moment, opening
from agent_journal.render.html_text import prose, safe, safe_line, verbatim
from agent_journal.render.html_tools import tool
from agent_journal.render.message import gist
from agent_journal.render.progress import duration
from agent_journal.render.style import counted
from agent_journal.render.width import cut
from agent_journal.session import Account, Attachment, Block, Message, Role, Text, Thinking, ToolCall

__all__ = ["Entry", "index_page", "session_page"]

PROMPT_COLUMNS = 120
LINE_COLUMNS = 140


def session_page(account: Account, *, theme: str, index: str | None) -> Iterator[str]:
    """`index`: where the index page is, seen from this one."""
    yield from opening(account.derived.title or "A session without a title", theme, "session")
    yield from _bar(index)
    yield from _prompts(account)
    yield "<main>\n"
    yield from _head(account)
    before = _Before()
    for ordinal, message in zip(account.ordinals, account.messages, strict=True):
        body = "".join(part for block in message.blocks for part in _block(block, message))
        if body:
            yield from _message(ordinal, message, body, before)
    if not account.messages:
        yield '<p class="nothing">This session has no messages.</p>\n'
    yield f"</main>\n{_HELP}{CLOSING}"


# --- around the messages --------------------------------------------------------------------------------


def _bar(index: str | None) -> Iterator[str]:
    yield '<div class="bar"><button id="menu" type="button">Prompts</button>'
    if index is not None:
        yield f'<a class="home" href="{safe(quote(index))}">Sessions</a>'
    yield '<search><input id="find" type="search" placeholder="Find" aria-label="Find in this session"'
    yield ' autocomplete="off" spellcheck="false"><output id="count" for="find"></output>'
    yield '<button id="back" type="button" title="Previous hit (Shift+Enter)" aria-label="Previous hit">↑</button>'
    yield '<button id="on" type="button" title="Next hit (Enter)" aria-label="Next hit">↓</button>'
    yield '<button id="only" type="button" title="Only messages with a hit" aria-pressed="false">Only</button></search>'
    yield '<button id="folds" type="button" title="Open or close all tools and thinking (t)">Unfold</button>'
    yield f'{THEME_BUTTON}<button id="keys" type="button" title="Keys (?)" aria-label="Keys">?</button></div>\n'


def _prompts(account: Account) -> Iterator[str]:
    yield '<nav id="prompts" aria-label="Prompts"><h2>Prompts</h2><ol>\n'
    for ordinal, message in zip(account.ordinals, account.messages, strict=True):
        if message.is_human and not message.is_compaction:
            yield f'<li><a href="#m{ordinal}">{safe_line(cut(gist(message), PROMPT_COLUMNS))}</a></li>\n'
    yield "</ol></nav>\n"


def _head(account: Account) -> Iterator[str]:
    session, derived = account.session, account.derived
    yield f'<header class="head"><h1>{safe_line(derived.title) or "A session without a title"}</h1>\n'
    names = (session.agent, derived.project, session.git_branch or "")
    facts = [f"<b>{safe_line(name)}</b>" for name in names if name.strip()]
    facts += filter(None, [moment(derived.started_at)])
    if derived.duration_seconds >= 1:
        facts.append(_fact(duration(derived.duration_seconds)))
    yield f'<p class="facts">{" · ".join(facts)}</p>\n'
    yield f'<p class="facts">{" · ".join(_counts(account))}</p>\n<dl class="named">'
    for name, value in _names(account):
        yield f'<dt>{name}</dt><dd><code class="whole">{safe_line(value)}</code></dd>'
    yield "</dl></header>\n"


def _fact(words: str) -> str:
    return f"<span>{words}</span>"


def _counts(account: Account) -> Iterator[str]:
    derived, usage = account.derived, account.derived.usage
    yield _fact(counted(derived.turn_count, "turn"))
    yield _fact(counted(derived.message_count, "message"))
    if derived.tool_call_count:
        here = sum(len(message.tool_calls) for message in account.messages)
        left_out = "" if here >= derived.tool_call_count else f" ({here:,} shown)"
        yield _fact(counted(derived.tool_call_count, "tool call") + left_out)
    if derived.error_count:
        yield f'<span class="bad">{derived.error_count:,} failed</span>'
    if usage.input_tokens or usage.output_tokens:
        cached = usage.cache_read_tokens
        from_cache = f", {amount(cached)} from cache" if cached else ""
        yield _fact(f"{amount(usage.input_tokens)} tokens in, {amount(usage.output_tokens)} out{from_cache}")


def _names(account: Account) -> Iterator[tuple[str, str]]:
    session = account.session
    models = dict.fromkeys(message.model for message in account.messages if message.model)
    if models:
        yield "model", ", ".join(models)
    if session.workspace:
        yield "folder", session.workspace
    if session.is_agent_session:
        yield "sub-agent of", session.parent_key or session.parent_session_id or "an unknown session"
    yield "id", session.id
    yield "open", f"aj show {shlex.quote(session.key)}"
    if account.resumable:
        yield "continue", f"aj resume {shlex.quote(session.key)}"


_KEYS = (
    ("j k", "next, previous message; Enter opens or closes its folds"),
    ("n p", "next, previous prompt"),
    ("/", "find; Enter and Shift+Enter go through the hits"),
    ("t", "open or close all tools and thinking"),
    ("?", "this list"),
    ("Esc", "leave"),
)
_HELP = (
    '<dialog id="help"><h2>Keys</h2><dl class="named">'
    + "".join(
        f"<dt>{' '.join(f'<kbd>{key}</kbd>' for key in keys.split())}</dt><dd>{does}</dd>" for keys, does in _KEYS
    )
    + '</dl><button id="close" type="button">Close</button></dialog>\n'
)


# --- one message ----------------------------------------------------------------------------------------


class _Before:
    """What the message above said, and need not be said again."""

    def __init__(self) -> None:
        self.speaker = ""
        self.model = ""
        self.day = ""


def _message(ordinal: int, message: Message, body: str, before: _Before) -> Iterator[str]:
    marks = [words for words, holds in _marks(message) if holds]
    quiet = message.is_meta or message.role is Role.SYSTEM or message.is_compaction
    kinds = ["message", str(message.role)]
    kinds += [
        name
        for name, holds in (
            ("human", message.is_human and not message.is_compaction),
            ("quiet", quiet),
            ("side", message.is_sidechain),
            ("error", message.is_error),
        )
        if holds
    ]
    speaker = " ".join((*kinds, *marks))
    same = speaker == before.speaker and message.role is Role.ASSISTANT
    before.speaker = speaker
    if same:
        kinds.append("same")
    yield f'<article id="m{ordinal}" class="{" ".join(kinds)}">'
    yield f"<header>{_heading(message, marks, before, same=same)}"
    yield f'<a class="no" href="#m{ordinal}" title="Link to message {ordinal}">#{ordinal}</a></header>\n'
    if quiet:
        line = safe_line(cut(gist(message), LINE_COLUMNS))
        yield f'<details class="fold"><summary><span class="about">{line}</span></summary>{body}</details>'
    else:
        yield body
    yield "</article>\n"


def _marks(message: Message) -> Iterator[tuple[str, bool]]:
    yield "written by the agent", message.is_meta
    yield "sub-agent", message.is_sidechain
    yield "summary of earlier messages", message.is_compaction
    yield "error", message.is_error


def _heading(message: Message, marks: list[str], before: _Before, *, same: bool) -> str:
    parts = [] if same else [f"<b>{message.role.capitalize()}</b>"]
    parts += [] if same else [f'<span class="mark">{mark}</span>' for mark in marks]
    if message.model and message.model != before.model:
        before.model = message.model
        parts.append(f'<span class="model">{safe_line(message.model)}</span>')
    if message.at is not None:
        day = message.at.strftime("%Y-%m-%d")
        parts.append(moment(message.at, "clock" if day == before.day else "moment"))
        before.day = day
    return " ".join(parts)


@singledispatch
def _block(block: Block, message: Message) -> Iterator[str]:
    raise TypeError(type(block).__name__)


@_block.register
def _(block: Text, message: Message) -> Iterator[str]:
    if block.text.strip():
        yield prose(block.text, breaks=message.role is not Role.ASSISTANT) + "\n"


@_block.register
def _(block: Thinking, message: Message) -> Iterator[str]:
    if block.text.strip():
        line = safe_line(cut(" ".join(block.text[: LINE_COLUMNS * 4].split()), LINE_COLUMNS))
        yield f'<details class="fold thinking"><summary><b>Thinking</b> <span class="about">{line}</span></summary>'
        yield f"{prose(block.text)}</details>\n"


@_block.register
def _(block: Attachment, message: Message) -> Iterator[str]:
    kinds = " · ".join(filter(None, (safe_line(block.kind), safe_line(block.name), safe_line(block.media_type))))
    yield f'<p class="attachment">{kinds}</p>\n'
    if block.text.strip():
        yield verbatim(block.text)


@_block.register
def _(block: ToolCall, message: Message) -> Iterator[str]:
    yield from tool(block, message.cwd)
    yield "\n"
