"""An answer as a page for people: one block a match, the messages around it, how to open and resume it.

Lines go out without their line ends. Whatever came from a log is cleaned before it is measured or painted.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from agent_journal.render.clean import clean_line, clean_span, clean_text
from agent_journal.render.machine import resume_command
from agent_journal.render.message import gist, label, message_lines
from agent_journal.render.sessions import NONE_FOUND, head_of, session_remarks, title_of
from agent_journal.render.style import Look, ago, counted, local
from agent_journal.render.width import columns, cut, flowed, sentence, wrap_spans

if TYPE_CHECKING:
    from agent_journal.answer import Answer, Match, Snippet
    from agent_journal.search import Freshness, SessionList
    from agent_journal.session import StoredMessage

INDENT = "    "
SNIPPET_LINES = 4
LEAST_SHOWN = 0.05  # of a score, which is shown to one digit
HASH = "hash"  # the embedder that knows words only
WHOLE = 0.995  # below it, how much is embedded is worth a word


def answer_lines(answer: Answer, look: Look, *, full: bool = False, explain: bool = False) -> Iterator[str]:
    shown: dict[str, int] = {}  # session -> the first hit of it on this page
    for place, match in enumerate(answer.matches):
        if place:
            yield ""
        first = shown.setdefault(match.session.session.key, match.rank)
        yield from match_lines(match, look, first=None if first == match.rank else first, full=full)
        if explain:
            yield INDENT + look.paint(_explained(match), "dim")


def match_lines(match: Match, look: Look, *, first: int | None, full: bool) -> Iterator[str]:
    """`first`: an earlier hit on the page that already says what this session is."""
    rank = look.paint(f"{match.rank:>2}  ", "bold")
    at = match.message.message.at or match.session.derived.started_at
    when = " · ".join(filter(None, (local(at), ago(at, look.now))))
    in_title = match.where == "title" and not full and _is_headed(match)
    if first is not None:
        named = " · ".join(filter(None, (f"same session as {first}", when, _name(match))))
        yield rank + look.paint(cut(named, look.width - len(INDENT)), "dim")
    else:
        yield rank + head_of(match.session, when, look, len(INDENT))
        yield from _title_lines(match, look, in_title)
    width = max(len(label(m)) for m in (*match.before, match.message, *match.after))
    yield from _around(match.before, look, full, width)
    yield f"  {look.paint('>', 'match')} {label(match.message):<{width}}  {_matched_in(match)}"
    if full:
        yield from message_lines(match.message.message, look, indent=INDENT * 2, whole=True)
    elif in_title and first is None:
        yield INDENT * 2 + cut(gist(match.message.message), look.width - len(INDENT) * 2)
    else:
        yield from _snippet_lines(match.snippet, look)
    yield from _around(match.after, look, full, width)
    if first is None:
        yield from _foot(match, look)


def _explained(match: Match) -> str:
    parts = match.parts
    cosine = f" (cosine {parts.cosine:.3f})" if parts.cosine is not None else ""
    session = f", session {parts.session:+.1f}" if abs(parts.session) >= LEAST_SHOWN else ""
    return f"score {match.score:.1f}: words {parts.words:.1f}, meaning {parts.meaning:.1f}{cosine}{session}"


def _name(match: Match) -> str:
    """What `aj show` takes."""
    return shlex.quote(f"{clean_line(match.session.handle)}:{match.message.ordinal}")


def _is_headed(match: Match) -> bool:
    """Whether the heading is what was found: a session is found by its slug and its summary, too."""
    found = " ".join(match.snippet.text.strip("…").split())
    return found in " ".join(match.session.derived.title.split())


def _title_lines(match: Match, look: Look, in_title: bool) -> Iterator[str]:
    room = look.width - len(INDENT)
    if in_title:
        text, ranges = _cleaned(match.snippet)
        yield INDENT + _painted(cut(text, room), 0, room, ranges, look)
    else:
        yield INDENT + look.paint(cut(title_of(match.session), room), "title")
    if remarks := session_remarks(match.session):
        yield INDENT + cut(remarks, room)


def _matched_in(match: Match) -> str:
    role = str(match.message.message.role)
    where = match.where.replace("_", " ")
    text = role if where == role else f"{role}, in {where}"
    if match.message.vanished:
        text += ", no longer in its file"
    return clean_line(text)


def _around(messages: Sequence[StoredMessage], look: Look, full: bool, width: int) -> Iterator[str]:
    for stored in messages:
        head = f"{INDENT}{label(stored):<{width}}  "
        if full:
            yield look.paint(head + str(stored.message.role), "dim")
            yield from message_lines(stored.message, look, indent=INDENT * 2, whole=True)
        else:
            yield look.paint(head + cut(gist(stored.message), look.width - columns(head)), "dim")


def _snippet_lines(snippet: Snippet, look: Look) -> Iterator[str]:
    text, ranges = _cleaned(snippet)
    indent = INDENT * 2
    spans = list(wrap_spans(text, look.width - len(indent)))
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
    # Whole however long: a command that is cut cannot be pasted.
    command = resume_command(match.resume)
    yield INDENT + look.paint("  ".join(filter(None, (_name(match), command))), "dim")
    others = {place.session for place in match.also_in} - {match.session.session.key}
    if others:
        yield INDENT + look.paint(f"also in {counted(len(others), 'other session')}", "dim")


# --- what stands beside the answer, on stderr -----------------------------------------------------------


def status_lines(answer: Answer, look: Look) -> Iterator[str]:
    yield from _notes(answer.notes, look)
    coverage = answer.coverage
    mode = answer.used
    if answer.why:  # other vectors than those of the model that was chosen are named
        by = "a hash of the words" if answer.embedder == HASH else answer.embedder
        mode += f" by {clean_line(by)}" if by else ""
        mode += f", {clean_line(answer.why)}"
    if answer.embedder and coverage.embedded < WHOLE:
        mode += f", {coverage.embedded:.0%} embedded: aj reindex"
    if answer.matches:
        first, last = answer.matches[0].rank, answer.matches[-1].rank
        sessions = counted(answer.total.sessions, "session")
        more = "" if answer.total.exact else "at least "
        ranks = f"{first:,}" if first == last else f"{first:,}–{last:,}"
        found, by_what = _found(answer)
        facts = [f"{ranks} of {found} in {more}{sessions}", *by_what, mode, f"{answer.took_ms:.1f} ms"]
    elif not (coverage.sessions or coverage.behind or coverage.stale):
        facts = [NONE_FOUND]  # to embed them would not help
    else:
        messages, sessions = counted(coverage.messages, "message"), counted(coverage.sessions, "session")
        facts = [f"nothing found in {messages} of {sessions}", mode]
    for line in flowed(facts, look.width):  # a reason may be longer than a line
        yield from sentence(line, look.width)
    yield from _freshness(coverage.behind, coverage.stale)
    if answer.matches:
        hints = [f"open a hit: aj show {answer.matches[0].rank}"]
        yield from flowed([*hints, *next_page(answer.next)], look.width)


def _found(answer: Answer) -> tuple[str, list[str]]:
    """(How many, by what if meaning brought some in.) Something is always nearest: it may be far."""
    total = answer.total
    if not total.meaning:
        return counted(total.messages, "message"), []
    by_hash = answer.embedder == HASH
    near = "with words like these" if by_hash else "nearest in meaning"
    if not total.words:
        alone = near if by_hash or answer.used == "semantic" else f"none with these words, these are {near}"
        return counted(total.messages, "message"), [alone]
    words = f"{counted(total.words, 'message')} with these words"
    return f"{total.messages:,}", [f"{words} and the {total.meaning:,} {near}"]


def list_status_lines(page: SessionList, fresh: Freshness, look: Look) -> Iterator[str]:
    yield from _notes((*fresh.notes, *page.notes), look)
    shown = len(page.sessions)
    facts = [f"{shown:,} of {counted(page.total, 'session')}", *next_page(page.next)] if shown else ["no session fits"]
    yield from flowed(facts, look.width)
    yield from _freshness(fresh.behind, fresh.stale)


def freshness_lines(fresh: Freshness, notes: Sequence[str], look: Look) -> Iterator[str]:
    """What stands below an answer of another kind."""
    yield from _notes((*fresh.notes, *notes), look)
    yield from _freshness(fresh.behind, fresh.stale)


def _notes(notes: Sequence[str], look: Look) -> Iterator[str]:
    for note in notes:
        yield from sentence(clean_line(note), look.width)


def _freshness(behind: int, stale: bool) -> Iterator[str]:
    if stale:
        yield "another aj is writing: this answer is from its last commit"
    if behind:
        yield f"{counted(behind, 'changed file')} not taken in yet: aj reindex"


def next_page(cursor: str | None) -> list[str]:
    return [f"next page: --cursor {cursor}"] if cursor else []


def error_lines(message: str, hint: str, width: int) -> Iterator[str]:
    """A hint of several lines may point at a place: kept as it is."""
    yield from sentence(f"aj: {clean_line(message)}", width)
    lines = clean_text(hint).split("\n") if hint else []
    yield from lines if len(lines) > 1 else sentence(clean_line(hint), width)
