"""An answer as a page for people: one block a match, the messages around it, how to open and resume it.

Lines go out without their line ends. Whatever came from a log is cleaned before it is measured or painted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from agent_journal.render.clean import clean_line, clean_span, clean_text
from agent_journal.render.machine import resume_command
from agent_journal.render.message import gist, label, message_lines
from agent_journal.render.style import Look, ago, counted, local
from agent_journal.render.width import columns, cut, wrap_spans

if TYPE_CHECKING:
    from agent_journal.answer import Answer, Match, Snippet
    from agent_journal.session import StoredMessage, StoredSession

INDENT = "    "
SNIPPET_LINES = 4
LIST_INDENT = 10  # the short id and two spaces
NAME_COLUMNS = 24  # of a project; the branch takes what is left


def answer_lines(answer: Answer, look: Look, *, full: bool = False) -> Iterator[str]:
    shown: str | None = None
    for place, match in enumerate(answer.matches):
        if place:
            yield ""
        key = match.session.session.key
        yield from match_lines(match, look, same_session=key == shown, full=full)
        shown = key


def match_lines(match: Match, look: Look, *, same_session: bool, full: bool) -> Iterator[str]:
    rank = f"{match.rank:>2}  "
    at = match.message.message.at or match.session.derived.started_at
    when = " · ".join(filter(None, (local(at), ago(at, look.now))))
    if same_session:
        yield look.paint(rank, "bold") + look.paint(
            cut(f"same session · {when}".rstrip(" ·"), look.width - 4), "dim"
        )
    else:
        yield look.paint(rank, "bold") + _header(match.session, when, look, len(INDENT))
        yield from _title_lines(match.session, look)
    yield from _around(match.before, look, full)
    yield _match_label(match, look)
    if full:
        yield from message_lines(match.message.message, look, indent=INDENT * 2, whole=True)
    else:
        yield from _snippet_lines(match.snippet, look)
    yield from _around(match.after, look, full)
    yield from _foot(match, look)


def _header(stored: StoredSession, when: str, look: Look, lead: int) -> str:
    session = stored.session
    agent = clean_line(session.agent)
    project = cut(clean_line(stored.derived.project), NAME_COLUMNS)
    fixed = [agent, project, when]
    room = look.width - lead - sum(columns(part) + 3 for part in fixed if part)
    branch = cut(clean_line(session.git_branch or ""), max(room, 8))
    parts = [look.paint(agent, "agent"), project, branch, look.paint(when, "dim")]
    return " · ".join(part for part in parts if part)


def _title_lines(stored: StoredSession, look: Look) -> Iterator[str]:
    title = clean_line(stored.derived.title) or "(no title)"
    yield INDENT + look.paint(cut(title, look.width - len(INDENT)), "title")
    if remarks := session_remarks(stored):
        yield INDENT + cut(remarks, look.width - len(INDENT))


def session_remarks(stored: StoredSession) -> str:
    """What a reader must know before trusting or opening it."""
    session = stored.session
    remarks = []
    if session.is_agent_session:
        parent = short_id(session.parent_session_id) if session.parent_session_id else ""
        remarks.append(f"sub-agent of {parent}" if parent else "sub-agent")
    if stored.gone:
        remarks.append("source gone")
    return " · ".join(remarks)


def _match_label(match: Match, look: Look) -> str:
    role = str(match.message.message.role)
    where = match.where.replace("_", " ")
    text = role if where == role else f"{role}, in {where}"
    if match.message.vanished:
        text += ", no longer in its file"
    return f"  {look.paint('>', 'match')} {label(match.message)}  {clean_line(text)}"


def _around(messages: Sequence[StoredMessage], look: Look, full: bool) -> Iterator[str]:
    for stored in messages:
        head = f"{INDENT}{label(stored)}  "
        if full:
            yield look.paint(head + str(stored.message.role), "dim")
            yield from message_lines(stored.message, look, indent=INDENT * 2, whole=True)
        else:
            yield look.paint(head + cut(gist(stored.message), look.width - columns(head)), "dim")


def _snippet_lines(snippet: Snippet, look: Look) -> Iterator[str]:
    text, ranges = _cleaned(snippet)
    indent = INDENT * 2
    spans = list(wrap_spans(text, look.width - len(indent) - 2))
    for start, end in spans[:SNIPPET_LINES]:
        yield indent + _painted(text, start, end, ranges, look)
    if len(spans) > SNIPPET_LINES:
        yield indent + "…"


def _cleaned(snippet: Snippet) -> tuple[str, list[tuple[int, int]]]:
    """The text piece by piece, so that the ranges still fit after something was removed from it."""
    pieces: list[str] = []
    ranges: list[tuple[int, int]] = []
    length = place = 0
    for start, end in sorted(snippet.highlights):
        start, end = max(start, place), min(end, len(snippet.text))
        if start >= end:
            continue
        before, inside = clean_span(snippet.text[place:start]), clean_span(snippet.text[start:end])
        pieces += (before, inside)
        ranges.append((length + len(before), length + len(before) + len(inside)))
        length += len(before) + len(inside)
        place = end
    pieces.append(clean_span(snippet.text[place:]))
    return "".join(pieces), ranges


def _painted(text: str, start: int, end: int, ranges: Sequence[tuple[int, int]], look: Look) -> str:
    parts: list[str] = []
    place = start
    for low, high in ranges:
        low, high = max(low, place), min(high, end)
        if low < high:
            parts += (text[place:low], look.paint(text[low:high], "match"))
            place = high
    parts.append(text[place:end])
    return "".join(parts)


def _foot(match: Match, look: Look) -> Iterator[str]:
    name = f"{short_id(match.session.session.id)}:{match.message.ordinal}"
    # Whole however long: a command that is cut cannot be pasted.
    command = clean_line(resume_command(match.resume) or "")
    yield INDENT + look.paint("  ".join(filter(None, (name, command))), "dim")
    others = {place.session for place in match.also_in} - {match.session.session.key}
    if others:
        yield INDENT + look.paint(f"also in {counted(len(others), 'other session')}", "dim")


def short_id(name: str) -> str:
    """Enough of an id to name it; `aj show` accepts any prefix that is unique."""
    return clean_line(name)[: 14 if name.startswith("agent-") else 8]


# --- what stands beside the answer, on stderr -----------------------------------------------------------


def status_lines(answer: Answer) -> Iterator[str]:
    for note in answer.notes:
        yield clean_line(note)
    mode = answer.used
    if answer.why:
        mode += f" ({answer.asked} asked: {clean_line(answer.why)})"
    if answer.matches:
        sessions = f"{answer.total.sessions:,}{'' if answer.total.exact else '+'}"
        noun = "session" if answer.total.sessions == 1 and answer.total.exact else "sessions"
        first, last = answer.matches[0].rank, answer.matches[-1].rank
        found = counted(answer.total.messages, "message")
        yield f"{first}–{last} of {found} in {sessions} {noun} · {mode} · {answer.took_ms:.1f} ms"
    else:
        messages = counted(answer.coverage.messages, "message")
        sessions = counted(answer.coverage.sessions, "session")
        yield f"nothing found in {messages} of {sessions} · {mode}"
    if answer.coverage.stale:
        yield "another aj is writing: this answer is from its last commit"
    if answer.coverage.behind:
        yield f"{counted(answer.coverage.behind, 'changed file')} not taken in yet: aj reindex"
    if answer.next:
        yield f"next page: --cursor {answer.next}"


# --- lists and whole sessions ---------------------------------------------------------------------------


def session_list_lines(sessions: Sequence[StoredSession], look: Look) -> Iterator[str]:
    for stored in sessions:
        derived = stored.derived
        at = derived.ended_at or derived.started_at
        name = look.paint(f"{short_id(stored.session.id):<8}", "bold")
        when = " · ".join(filter(None, (local(at), ago(at, look.now))))
        yield f"{name}  {_header(stored, when, look, LIST_INDENT)}"
        title = clean_line(derived.title) or "(no title)"
        facts = " · ".join(filter(None, (counted(derived.message_count, "message"), session_remarks(stored))))
        room = look.width - LIST_INDENT - columns(facts) - 3
        yield f"{'':{LIST_INDENT}}{cut(title, max(room, 20))} · {look.paint(facts, 'dim')}"


def session_head_lines(stored: StoredSession, command: str | None, look: Look) -> Iterator[str]:
    session, derived = stored.session, stored.derived
    yield look.paint(cut(clean_line(derived.title) or "(no title)", look.width), "title")
    yield _header(stored, local(derived.started_at), look, 0)
    counts = [counted(derived.message_count, "message"), counted(derived.tool_call_count, "tool call")]
    if derived.error_count:
        counts.append(f"{derived.error_count} failed")
    yield " · ".join(filter(None, (*counts, session_remarks(stored))))
    rows = (
        ("id", session.key),
        ("folder", session.workspace),
        ("file", session.origin.path),
        ("resume", command),
    )
    for name, value in rows:
        if value:
            yield look.paint(f"{name:<7}", "dim") + clean_line(value)


def transcript_lines(
    messages: Sequence[StoredMessage],
    look: Look,
    *,
    whole: frozenset[int] | None,
    tools: bool = True,
    thinking: bool = False,
) -> Iterator[str]:
    """`whole`: the ordinals that are printed uncut; None prints all so."""
    for stored in messages:
        message = stored.message
        uncut = whole is None or stored.ordinal in whole
        body = list(message_lines(message, look, indent=INDENT, whole=uncut, tools=tools, thinking=thinking))
        if not body:
            continue
        facts = [str(message.role), local(message.at), clean_line(message.model or "")]
        facts += [word for word, holds in _flags(stored) if holds]
        yield ""
        yield look.paint(label(stored), "bold") + "  " + look.paint(" · ".join(filter(None, facts)), "dim")
        yield from body


def _flags(stored: StoredMessage) -> Iterator[tuple[str, bool]]:
    message = stored.message
    yield "written by the agent", message.is_meta
    yield "side chain", message.is_sidechain
    yield "summary of earlier messages", message.is_compaction
    yield "error", message.is_error
    yield "no longer in its file", stored.vanished


def error_lines(message: str, hint: str) -> Iterator[str]:
    """Every line of the hint begins a line of its own: it may hold a pointer below a query."""
    yield from f"aj: {clean_text(message)}".split("\n")
    if hint:
        yield from clean_text(hint).split("\n")
