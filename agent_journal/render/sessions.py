"""Sessions for people: as a list, and one as a transcript."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from agent_journal.render.clean import clean_line
from agent_journal.render.message import label, message_lines
from agent_journal.render.progress import duration
from agent_journal.render.style import Look, counted, local
from agent_journal.render.width import columns, cut, flowed

if TYPE_CHECKING:
    from agent_journal.session import StoredMessage, StoredSession

INDENT = "    "
PARENT_CHARS = 13
LIST_INDENT = 10  # the short id and two spaces
NAME_COLUMNS = 24  # of a project; the branch takes what is left
DATE_CHARS = len("2026-03-02")
NONE_FOUND = "no sessions found; aj agents lists where they are looked for"
ELLIPSIS = "…"  # what `cut` leaves of a name where there is no room


def head_of(stored: StoredSession, when: str, look: Look, lead: int) -> str:
    """Agent, project, branch and time on a line that already holds `lead` columns."""
    session = stored.session
    agent = clean_line(session.agent)
    room = look.width - lead - columns(agent) - (columns(when) + 3 if when else 0)
    names = []
    for name, most in ((stored.derived.project, NAME_COLUMNS), (session.git_branch or "", look.width)):
        shown = cut(clean_line(name), min(most, room - 3))
        if shown not in ("", ELLIPSIS):
            names.append(shown)
            room -= columns(shown) + 3
    parts = [look.paint(agent, "agent"), *names, look.paint(when, "dim")]
    return " · ".join(part for part in parts if part)


def title_of(stored: StoredSession) -> str:
    return clean_line(stored.derived.title) or "(no title)"


def session_remarks(stored: StoredSession) -> str:
    """What a reader must know before trusting or opening it."""
    session = stored.session
    remarks = []
    if session.is_agent_session:
        parent = clean_line(session.parent_session_id or "")[:PARENT_CHARS]
        remarks.append(f"sub-agent of {parent}" if parent else "sub-agent")
    if session.origin.home != "local":
        remarks.append(f"home {clean_line(session.origin.home)}")
    if stored.gone:
        remarks.append("source gone")
    return " · ".join(remarks)


def session_list_lines(sessions: Sequence[StoredSession], look: Look) -> Iterator[str]:
    """Two lines each. Times stand in a column of their own: the list is in their order."""
    names = [clean_line(s.handle) for s in sessions]
    indent = max((len(name) + 2 for name in names if len(name) <= NAME_COLUMNS), default=LIST_INDENT)
    for stored in sessions:
        derived = stored.derived
        when = local(derived.ended_at) or "no time"
        name = look.paint(f"{clean_line(stored.handle):<{indent - 2}}  ", "bold")
        yield f"{name}{look.paint(f'{when:<16}', 'dim')}  {head_of(stored, '', look, indent + 18)}"
        facts = " · ".join(filter(None, (counted(derived.message_count, "message"), session_remarks(stored))))
        room = look.width - indent - columns(facts) - 3
        yield f"{'':{indent}}{cut(title_of(stored), max(room, 20))} · {look.paint(facts, 'dim')}"


def session_head_lines(stored: StoredSession, command: str | None, look: Look) -> Iterator[str]:
    session, derived = stored.session, stored.derived
    yield look.paint(cut(title_of(stored), look.width), "title")
    yield head_of(stored, local(derived.started_at), look, 0)
    facts = [counted(derived.message_count, "message"), counted(derived.tool_call_count, "tool call")]
    if derived.error_count:
        facts.append(f"{derived.error_count:,} failed")
    if derived.duration_seconds >= 1:
        facts.append(duration(derived.duration_seconds))
    yield from flowed([*facts, *filter(None, [session_remarks(stored)])], look.width)
    places = (("id", session.key), ("folder", session.workspace), ("file", session.origin.path))
    for name, value in (*((name, clean_line(value or "")) for name, value in places), ("resume", command)):
        if value:
            yield look.paint(f"{name:<8}", "dim") + value


def transcript_lines(
    messages: Sequence[StoredMessage],
    look: Look,
    *,
    whole: frozenset[int] | None,
    tools: bool = True,
    thinking: bool = False,
) -> Iterator[str]:
    """`whole`: the ordinals that are printed uncut; None prints all so. What the line above said is not repeated."""
    width = max((len(label(m)) for m in messages), default=0)
    said: tuple[str, str] = ("", "")  # the day and the model that the last heading left in force
    for stored in messages:
        uncut = whole is None or stored.ordinal in whole
        body = list(message_lines(stored.message, look, indent=INDENT, whole=uncut, tools=tools, thinking=thinking))
        if not body:
            continue
        facts, said = _facts(stored, said)
        mark = "" if not whole else "> " if uncut else "  "
        head = f"{label(stored):<{width}}  "
        about = cut(" · ".join(facts), look.width - len(mark) - len(head))
        yield ""
        yield look.paint(mark, "match") + look.paint(head, "bold") + look.paint(about, "dim")
        yield from body


def _facts(stored: StoredMessage, said: tuple[str, str]) -> tuple[list[str], tuple[str, str]]:
    message = stored.message
    when, model = local(message.at), clean_line(message.model or "")
    day = when[:DATE_CHARS]
    facts = [str(message.role), when[DATE_CHARS + 1 :] if day == said[0] else when, model if model != said[1] else ""]
    facts += [word for word, holds in _flags(stored) if holds]
    return [fact for fact in facts if fact], (day or said[0], model or said[1])


def _flags(stored: StoredMessage) -> Iterator[tuple[str, bool]]:
    message = stored.message
    yield "written by the agent", message.is_meta
    yield "side chain", message.is_sidechain
    yield "summary of earlier messages", message.is_compaction
    yield "error", message.is_error
    yield "no longer in its file", stored.vanished
