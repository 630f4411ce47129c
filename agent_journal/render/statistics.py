"""Statistics for people and programs: tables, a chart of days, and the JSON object of docs/json.md.

Tables leave out columns rather than wrap: what is shown of a row depends on the width, what is counted does not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date
from typing import Any, NamedTuple, TextIO

from agent_journal.render.clean import clean_line
from agent_journal.render.machine import NOTICE, SCHEMA_VERSION
from agent_journal.render.style import Look, counted
from agent_journal.render.width import columns, cut, cut_start, listed
from agent_journal.statistics import Statistics, Tally

INDENT = "  "
GAP = "  "
UNNAMED = "(none)"
CHART_ROWS = 4
MOST_WEEKS = 26
MONTH = 4  # columns that a month's name needs


class Glyphs(NamedTuple):
    """What a chart is drawn with; a cell of a column is filled in as many steps as `steps` has."""

    steps: str
    wall: str
    corner: str
    floor: str


BLOCKS, ASCII = Glyphs("▁▂▃▄▅▆▇█", "│", "└", "─"), Glyphs(".:#", "|", "+", "-")


def glyphs_for(stream: TextIO) -> Glyphs:
    try:
        "".join(BLOCKS).encode(stream.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return ASCII
    return BLOCKS


# --- tables ----------------------------------------------------------------------------------------------


class Column(NamedTuple):
    head: str
    value: Callable[[Tally], str]
    dropped: int  # the highest goes first where the page is narrow; 0 stays


class Table(NamedTuple):
    name: str  # the field of Statistics, and of the JSON object
    head: str
    columns: tuple[Column, ...]
    fields: tuple[str, ...]  # of a row's JSON object
    least: int  # columns that its names need
    cut: Callable[[str, int], str] = cut


def _short(number: int) -> str:
    if abs(number) < 10_000:
        return f"{number:,}"
    unit, letter = next((u, c) for u, c in ((10**9, "G"), (10**6, "M"), (1000, "k")) if abs(number) >= u)
    return f"{number / unit:.1f}{letter}"


def _share(rate: float | None) -> str:
    return "-" if rate is None else f"{rate:.0%}"


def _span(seconds: float) -> str:
    minutes, hours, days = int(seconds // 60), int(seconds // 3600), int(seconds // 86_400)
    if days:
        return f"{days}d {hours % 24}h"
    if hours:
        return f"{hours}h {minutes % 60}m"
    return f"{minutes}m" if minutes else f"{int(seconds)}s" if seconds else "-"


_SESSIONS = Column("sessions", lambda t: f"{t.sessions + t.subagents:,}", 0)
_CALLS = Column("calls", lambda t: f"{t.tool_calls:,}", 4)
_FAILED = Column("failed", lambda t: f"{t.errors:,}", 6)
_TOKENS = (
    Column("in", lambda t: _short(t.usage.input_tokens), 1),
    Column("out", lambda t: _short(t.usage.output_tokens), 1),
    Column("cached", lambda t: _share(t.usage.cache_hit_rate), 5),
)
_WORK = (
    _SESSIONS,
    Column("turns", lambda t: f"{t.turns:,}", 3),
    Column("messages", lambda t: f"{t.messages:,}", 8),
    _CALLS,
    _FAILED,
    *_TOKENS,
    Column("time", lambda t: _span(t.seconds), 7),
)
_ANSWERS = (_SESSIONS, Column("answers", lambda t: f"{t.messages:,}", 3), _CALLS, _FAILED, *_TOKENS)
_USES = (Column("calls", _CALLS.value, 0), Column("failed", _FAILED.value, 0), _SESSIONS)

_FIELDS: Mapping[str, Callable[[Tally], Any]] = {
    "sessions": lambda t: t.sessions + t.subagents,
    "subagent_sessions": lambda t: t.subagents,
    "turn_count": lambda t: t.turns,
    "message_count": lambda t: t.messages,
    "tool_call_count": lambda t: t.tool_calls,
    "error_count": lambda t: t.errors,
    "has_errors": lambda t: t.errors > 0,
    "duration_seconds": lambda t: round(t.seconds, 3),
    "input_tokens": lambda t: t.usage.input_tokens,
    "output_tokens": lambda t: t.usage.output_tokens,
    "total_tokens": lambda t: t.usage.total_tokens,
    "cache_creation_tokens": lambda t: t.usage.cache_creation_tokens,
    "cache_read_tokens": lambda t: t.usage.cache_read_tokens,
    "cache_hit_rate": lambda t: None if (rate := t.usage.cache_hit_rate) is None else round(rate, 4),
}
_ALL_FIELDS = tuple(_FIELDS)
_USE_FIELDS = ("sessions", "subagent_sessions", "tool_call_count", "error_count", "has_errors")
_ANSWER_FIELDS = tuple(name for name in _ALL_FIELDS if name not in ("turn_count", "duration_seconds"))

# By what `--by` calls them.
TABLES = {
    "agent": Table("agents", "Agent", _WORK, _ALL_FIELDS, 11),
    "project": Table("projects", "Project", _WORK, _ALL_FIELDS, 12),
    "model": Table("models", "Model", _ANSWERS, _ANSWER_FIELDS, 26),
    "tool": Table("tools", "Tool", _USES, _USE_FIELDS, 24),
    "file": Table("files", "File", _USES, _USE_FIELDS, 24, cut_start),
    "day": Table("days", "Day", _WORK, _ALL_FIELDS, 10),
}


def _rows(table: Table, statistics: Statistics, limit: int) -> tuple[Sequence[Tally], int]:
    """(Those to show, how many more there are.) Of days the latest."""
    rows: tuple[Tally, ...] = getattr(statistics, table.name)
    shown = rows[-limit:] if table.name == "days" else rows[:limit]
    return shown, len(rows) - len(shown)


def table_lines(by: str, statistics: Statistics, limit: int, look: Look) -> Iterator[str]:
    table = TABLES[by]
    rows, more = _rows(table, statistics, limit)
    names = [clean_line(row.name) or UNNAMED for row in rows]
    longest = max(map(columns, [table.head, *names]))
    shown, widths = _fitting(table, rows, look.width - min(longest, table.least))
    width = min(longest, look.width - sum(widths) - len(GAP) * len(widths))
    heads = [f"{column.head:>{size}}" for column, size in zip(shown, widths, strict=True)]
    yield look.paint(GAP.join([f"{table.head:<{width}}", *heads]), "title")
    for name, row in zip(names, rows, strict=True):
        name = table.cut(name, width)
        cells = [f"{column.value(row):>{size}}" for column, size in zip(shown, widths, strict=True)]
        yield GAP.join([name + " " * (width - columns(name)), *cells])
    if more:
        yield look.paint(f"{more:,} more: --by {by} --limit {len(rows) + more}", "dim")


def _fitting(table: Table, rows: Sequence[Tally], width: int) -> tuple[list[Column], list[int]]:
    """(Columns that fit beside the names, how wide each is.)"""
    widths = {c: max(len(c.head), *(len(c.value(row)) for row in rows)) for c in table.columns}
    shown = list(table.columns)
    while sum(widths[c] + len(GAP) for c in shown) > width and any(c.dropped for c in shown):
        shown.remove(max(shown, key=lambda c: c.dropped))
    return shown, [widths[c] for c in shown]


# --- pages -----------------------------------------------------------------------------------------------


def overview_lines(statistics: Statistics, limit: int, look: Look, glyphs: Glyphs) -> Iterator[str]:
    yield from total_lines(statistics, look)
    for by, table in TABLES.items():
        if by != "day" and getattr(statistics, table.name):
            yield ""
            yield from table_lines(by, statistics, limit, look)
    if statistics.days:
        yield ""
        yield from chart_lines(statistics.days, look, glyphs)


def total_lines(statistics: Statistics, look: Look) -> Iterator[str]:
    total, usage = statistics.total, statistics.total.usage
    yield look.paint("Total", "title")
    work = [f"{counted(total.sessions + total.subagents, 'session')} ({total.subagents:,} of sub-agents)"]
    work += [counted(total.turns, "human turn"), counted(total.messages, "message")]
    work += [f"{counted(total.tool_calls, 'tool call')} ({total.errors:,} failed)"]
    tokens = [f"{usage.input_tokens:,} tokens in", f"{usage.output_tokens:,} out"]
    if usage.cache_hit_rate is not None:
        cached = f"{usage.cache_read_tokens:,} read from caches"
        tokens.append(f"{cached} ({usage.cache_hit_rate:.1%} hits)")
    time = [f"{_span(total.seconds)} of wall time, first to last message of each session"]
    if statistics.days:
        time.append(f"{statistics.days[0].name} to {statistics.days[-1].name}")
    for facts in (work, tokens, time):
        yield from listed(facts, look.width, INDENT)


# --- the chart -------------------------------------------------------------------------------------------


def chart_lines(days: Sequence[Tally], look: Look, glyphs: Glyphs) -> Iterator[str]:
    """Messages of the last weeks, a column a day, whole weeks from their Monday on."""
    counts = {date.fromisoformat(day.name).toordinal(): day.messages for day in days}
    weeks = min(MOST_WEEKS, (look.width - len(f"{max(counts.values()):,}") - 2) // 7)
    last = max(counts)
    start = max(_monday(last) - 7 * (weeks - 1), _monday(min(counts)))
    shown = [counts.get(day, 0) for day in range(start, last + 1)]
    most = max(*shown, 1)
    label = len(f"{most:,}")
    yield look.paint(f"Messages a day, {date.fromordinal(start)} to {date.fromordinal(last)}", "title")
    steps = [-(-count * CHART_ROWS * len(glyphs.steps) // most) for count in shown]
    for row in reversed(range(CHART_ROWS)):
        cells = "".join(_cell(step - row * len(glyphs.steps), glyphs.steps) for step in steps).rstrip()
        head = f"{most:,}" if row == CHART_ROWS - 1 else ""
        yield f"{head:>{label}} {glyphs.wall}{look.paint(cells, 'agent')}"
    yield f"{'0':>{label}} {glyphs.corner}{glyphs.floor * len(shown)}"
    yield " " * (label + 2) + _months(start, len(shown))


def _monday(ordinal: int) -> int:
    """The first day of the calendar was a Monday."""
    return ordinal - (ordinal - 1) % 7


def _cell(step: int, steps: str) -> str:
    return " " if step <= 0 else steps[min(step, len(steps)) - 1]


def _months(start: int, length: int) -> str:
    """Names below the first day shown and the first of each month, where the next one leaves room."""
    places = [n for n in range(length) if n == 0 or date.fromordinal(start + n).day == 1]
    line = ""
    for place, following in zip(places, [*places[1:], length + MONTH], strict=True):
        if following - place >= MONTH:
            line = f"{line:<{place}}{date.fromordinal(start + place):%b}"
    return line


# --- for programs ----------------------------------------------------------------------------------------


def statistics_object(statistics: Statistics, by: str | None, limit: int) -> dict[str, Any]:
    """All tables or one, each with at most `limit` rows; `more` says how many are left out."""
    days = statistics.days
    shape: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "notice": NOTICE,
        "total": _row_object(statistics.total, _ALL_FIELDS)
        | {"first_day": days[0].name if days else None, "last_day": days[-1].name if days else None},
    }
    more: dict[str, int] = {}
    for name, table in TABLES.items():
        if by in (None, name):
            rows, left = _rows(table, statistics, limit)
            shape[table.name] = [{"name": row.name} | _row_object(row, table.fields) for row in rows]
            more |= {table.name: left} if left else {}
    return shape | {"more": more}


def _row_object(row: Tally, fields: Sequence[str]) -> dict[str, Any]:
    return {name: _FIELDS[name](row) for name in fields}
