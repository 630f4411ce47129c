"""Many sessions as one page: a chart of days, and a list, newest first, that filters as one types."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from itertools import groupby
from urllib.parse import quote

from msgspec import Struct

from agent_journal.render.html_page import CLOSING, THEME_BUTTON, amount, moment, opening
from agent_journal.render.html_text import safe, safe_line
from agent_journal.render.progress import duration
from agent_journal.render.style import counted
from agent_journal.session import Derived, Session
from agent_journal.statistics import Tally

_NEVER = datetime.min.replace(tzinfo=UTC)


class Entry(Struct, frozen=True):
    file: str  # of the session's page, seen from the index
    session: Session
    derived: Derived


def index_page(entries: Sequence[Entry], days: Sequence[Tally], *, theme: str) -> Iterator[str]:
    newest = sorted(entries, key=_when, reverse=True)
    yield from opening(f"{counted(len(entries), 'session')} · agent-journal", theme, "index")
    yield '<div class="bar"><search><input id="filter" type="search" autocomplete="off" spellcheck="false"'
    yield ' placeholder="Filter by title, project, branch" aria-label="Filter">'
    yield from _choices("agent", [entry.session.agent for entry in entries])
    yield from _choices("project", [entry.derived.project for entry in entries])
    if any(entry.session.is_agent_session for entry in entries):
        yield '<label><input id="subs" type="checkbox" checked> sub-agents</label>'
    yield f'<output id="count" for="filter"></output></search>{THEME_BUTTON}</div>\n<main>\n'
    yield '<header class="head"><h1>Sessions</h1>'
    yield f'<p class="facts">{" · ".join(f"<span>{fact}</span>" for fact in _totals(entries, days))}</p></header>\n'
    yield from _chart(days)
    for month, group in groupby(newest, key=lambda entry: _when(entry).strftime("%Y-%m")):
        yield from _month(month, list(group))
    if not entries:
        yield '<p class="nothing">There are no sessions here.</p>\n'
    yield f"</main>\n{CLOSING}"


def _when(entry: Entry) -> datetime:
    return entry.derived.ended_at or _NEVER


def _choices(name: str, values: Sequence[str]) -> Iterator[str]:
    """Compared with the text of the rows, which was cleaned in the same way."""
    yield f'<select id="{name}" aria-label="{name.capitalize()}"><option value="">every {name}</option>'
    for value in sorted(filter(None, set(values)), key=str.lower):
        yield f"<option>{safe_line(value)}</option>"
    yield "</select>"


def _totals(entries: Sequence[Entry], days: Sequence[Tally]) -> Iterator[str]:
    """Turns and calls as `aj stats` counts them: what several sessions hold, once."""
    yield counted(len(entries), "session")
    yield counted(sum(day.turns for day in days), "turn")
    yield counted(sum(day.tool_calls for day in days), "tool call")
    yield counted(len({entry.session.agent for entry in entries}), "agent")
    yield counted(len({entry.derived.project for entry in entries if entry.derived.project}), "project")


def _month(month: str, entries: Sequence[Entry]) -> Iterator[str]:
    first = _when(entries[0])
    name = f"{first:%B %Y}" if first != _NEVER else "Without a time"
    yield f'<section class="month"><h2 id="t{month}">{name} <small>{len(entries):,}</small></h2>\n'
    for entry in entries:
        yield _row(entry)
    yield "</section>\n"


def _row(entry: Entry) -> str:
    session, derived = entry.session, entry.derived
    facts = [counted(derived.turn_count, "turn")]
    if derived.duration_seconds >= 1:
        facts.append(duration(derived.duration_seconds))
    if derived.error_count:
        facts.append(f'<span class="bad">{derived.error_count:,} failed</span>')
    sub = '<span class="mark">sub-agent</span> ' if session.is_agent_session else ""
    branch = f' <i class="branch">{safe_line(session.git_branch)}</i>' if session.git_branch else ""
    return (
        f'<a class="row" href="{safe(quote(entry.file))}"><b>{sub}{safe_line(derived.title) or "(no title)"}</b>'
        f'<span class="who"><i class="agent">{safe_line(session.agent)}</i> '
        f'<i class="project">{safe_line(derived.project)}</i>{branch}</span>'
        f'<span class="much">{" · ".join(facts)}</span>{moment(derived.ended_at)}</a>\n'
    )


# --- the chart ------------------------------------------------------------------------------------------

BARS = 120  # more are too thin to point at
HEIGHT = 100
LABELS = 6


class _Bar(Struct):
    first: date
    last: date
    sessions: int = 0
    turns: int = 0
    tokens: int = 0


def _chart(days: Sequence[Tally]) -> Iterator[str]:
    bars = _bars(days)
    if len(bars) < 2:
        return
    highest = max(bar.sessions for bar in bars) or 1
    yield f'<figure class="chart"><figcaption>Sessions a {_span(bars[0])} · at most {highest:,}</figcaption>'
    yield f'<svg viewBox="0 0 {len(bars)} {HEIGHT}" preserveAspectRatio="none" role="img" aria-label="Sessions by day">'
    for place, bar in enumerate(bars):
        if bar.sessions:
            height = max(2, round(HEIGHT * bar.sessions / highest))
            yield f'<a href="#t{bar.last:%Y-%m}"><rect x="{place}.1" y="0" width="0.8" height="{HEIGHT}" class="room"/>'
            yield f'<rect x="{place}.1" y="{HEIGHT - height}" width="0.8" height="{height}"/>'
            yield f"<title>{_told(bar)}</title></a>"
    yield '</svg><div class="axis">'
    shown = {round(step * (len(bars) - 1) / (LABELS - 1)) for step in range(LABELS)}
    yield "".join(f"<span>{bars[place].first:%d %b %Y}</span>" for place in sorted(shown))
    yield "</div></figure>\n"


def _bars(days: Sequence[Tally]) -> list[_Bar]:
    """A bar for every day, or for as many days as fit: also for those without a session."""
    dated = [(day, tally) for tally in days if (day := _day(tally.name))]
    if not dated:
        return []
    first, last = min(day for day, _ in dated), max(day for day, _ in dated)
    span = (last - first).days + 1
    width = next((w for w in (1, 7, 28) if span <= w * BARS), span // BARS + 1)
    starts = range(0, span, width)
    bars = [_Bar(first + timedelta(s), first + timedelta(min(s + width, span) - 1)) for s in starts]
    for day, tally in dated:
        bar = bars[(day - first).days // width]
        bar.sessions += tally.sessions
        bar.turns += tally.turns
        bar.tokens += tally.usage.total_tokens
    return bars


def _day(name: str) -> date | None:
    try:
        return date.fromisoformat(name)
    except ValueError:
        return None


def _span(bar: _Bar) -> str:
    days = (bar.last - bar.first).days + 1
    return {1: "day", 7: "week"}.get(days, f"{days} days")


def _told(bar: _Bar) -> str:
    when = f"{bar.first}" if bar.first == bar.last else f"{bar.first} to {bar.last}"
    facts = (counted(bar.sessions, "session"), counted(bar.turns, "turn"), f"{amount(bar.tokens)} tokens")
    return f"{when}: {', '.join(facts)}"
