"""What a journal adds up to: sessions, turns, tokens, errors, by agent, project, model, day, tool and file. Pure sums.

Sessions come in one after the other, originals before their forks, and a message counts where it is met first. An
answer's tokens count once, however many records and sessions repeat them. Nothing is kept of a message but that.
"""

from __future__ import annotations

import ntpath
import posixpath
from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Iterator
from datetime import datetime

from msgspec import Struct

from agent_journal.dates import in_local_time
from agent_journal.session import Derived, Message, Session, Usage


class Tally(Struct, frozen=True):
    """One row of a table."""

    name: str  # an agent, project, model, tool or path, or a local day as 2026-03-01; "" where nothing told it
    sessions: int = 0
    turns: int = 0  # of people
    messages: int = 0
    tool_calls: int = 0
    errors: int = 0  # tool calls that failed
    seconds: float = 0.0  # from a session's first message to its last, whoever was waiting; without sub-agents
    usage: Usage = Usage()  # each model answer once, however many forks hold it
    subagents: int = 0  # sessions of sub-agents, which are not among `sessions`


class Statistics(Struct, frozen=True):
    """Tables with the largest row first; days in their order, those without a message left out."""

    total: Tally
    agents: tuple[Tally, ...] = ()
    projects: tuple[Tally, ...] = ()
    models: tuple[Tally, ...] = ()
    days: tuple[Tally, ...] = ()
    tools: tuple[Tally, ...] = ()
    files: tuple[Tally, ...] = ()
    notes: tuple[str, ...] = ()  # of the index that chose the messages


class _Row:
    """A tally while it grows."""

    __slots__ = ("errors", "messages", "seconds", "sessions", "subagents", "tool_calls", "turns", "usage")

    def __init__(self) -> None:
        self.sessions = self.subagents = self.turns = self.messages = self.tool_calls = self.errors = 0
        self.seconds = 0.0
        self.usage = Usage()

    def tally(self, name: str) -> Tally:
        return Tally(name, **{field: getattr(self, field) for field in self.__slots__})


Rows = tuple[_Row, ...]


class _Known:
    """Something that other sessions may repeat: who holds it counts, and for an answer the best told tokens."""

    __slots__ = ("rows", "session", "usage")

    def __init__(self, session: Visit) -> None:
        self.session = session.number
        self.usage: Usage | None = None
        self.rows: Rows = ()


class Counting:
    """`repeated`: digests that more than one message has; all others need not be remembered."""

    def __init__(self, repeated: Container[int]) -> None:
        self.repeated = repeated
        self.known: dict[int, _Known] = {}
        self.total = _Row()
        self.agents, self.projects, self.models, self.days, self.tools, self.files = (
            defaultdict[str, _Row](_Row) for _ in range(6)
        )
        self._visits = 0

    def visit(self, session: Session, derived: Derived) -> Visit:
        """The next session. Its end() must be called before another begins."""
        self._visits += 1
        return Visit(self, self._visits, session, derived)

    def statistics(self) -> Statistics:
        """Once, after the last session."""
        for known in self.known.values():
            _spend(known.usage, known.rows)
        return Statistics(
            self.total.tally("total"),
            _table(self.agents, lambda t: t.messages),
            _table(self.projects, lambda t: t.messages),
            _table(self.models, lambda t: t.usage.total_tokens),
            tuple(sorted(_tallies(self.days), key=lambda t: t.name)),
            _table(self.tools, lambda t: t.tool_calls),
            _table(self.files, lambda t: t.tool_calls),
        )


class Visit:
    """One session while it is counted."""

    def __init__(self, counting: Counting, number: int, session: Session, derived: Derived) -> None:
        self.number = number
        self._counting = counting
        self._session = session
        self._own: Rows = (counting.total, counting.agents[session.agent], counting.projects[derived.project])
        self._places: dict[tuple[str | None, str], Rows] = {}
        self._touched: set[_Row] = set(self._own)
        self._spans: dict[str, tuple[datetime, datetime]] = {}
        self._at = derived.started_at  # of the last message that had a time: one without is taken to be as old
        self._told: dict[str | int, Usage] = {}
        self._models: set[str] = set()
        self._new = 0

    def take(self, digest: int, message: Message) -> None:
        """The session's messages in their order. `digest`: equal in copies of one message."""
        self._at = message.at or self._at
        day = local_day(self._at)
        if message.model:
            self._models.add(message.model)
        place = self._place(message.model or ("" if message.usage else None), day)
        known = self._recognized(digest, message)
        is_new = known is None or known.session == self.number
        if message.usage:
            self._take_usage(message.usage, message.api_id, known, place, is_new)
        if is_new:
            self._count(message, place, day)

    def end(self, *, whole: bool = True) -> None:
        """`whole`: every message of the session was taken, not only those that fit a query."""
        if whole and self._new and self._session.usage is not None:
            self._take_totals(self._session.usage)
        for row in self._touched:
            if self._session.is_agent_session:
                row.subagents += 1
            else:
                row.sessions += 1
        if self._spans and not self._session.is_agent_session:  # those run while their session waits for them
            self._take_time()

    def _place(self, model: str | None, day: str) -> Rows:
        """The rows that a message counts in, tools and files apart."""
        found = self._places.get((model, day))
        if found is None:
            counting = self._counting
            days = (counting.days[day],) if day else ()
            models = () if model is None else (counting.models[model],)
            found = self._places[model, day] = (*self._own, *days, *models)
        return found

    def _recognized(self, digest: int, message: Message) -> _Known | None:
        """None for what no other session holds. A session that says a thing twice means it twice: agents without ids
        and exact times have equal digests there, and one answer's chunks have one api_id."""
        if message.api_id:
            key = hash((self._session.agent, message.api_id))  # old forks stamp their copies anew: other digests
        elif digest in self._counting.repeated:
            key = digest
        else:
            return None
        known = self._counting.known.get(key)
        if known is None:
            known = self._counting.known[key] = _Known(self)
        return known

    def _take_usage(self, usage: Usage, api_id: str | None, known: _Known | None, place: Rows, is_new: bool) -> None:
        if api_id is None or known is None:
            if is_new:
                _spend(usage, place)
        elif known.usage is None or usage.output_tokens > known.usage.output_tokens:
            known.usage, known.rows = usage, place
        if self._session.usage is not None:
            name = api_id or len(self._told)
            best = self._told.get(name)
            if best is None or usage.output_tokens > best.output_tokens:
                self._told[name] = usage

    def _take_totals(self, totals: Usage) -> None:
        """The agent's own totals win over its messages', as in `derive`, but not instead of them: only messages know
        their model and day, and which of them a fork has copied. So what the totals have more (or less) than this
        session's messages told is added as a rest. Its model is known if there was only one; its day is the last one,
        when it was told. Nothing is added for a session of copies alone: what it tells was told by the original."""
        model = next(iter(self._models)) if len(self._models) == 1 else ""
        rest = _less(totals, sum(self._told.values(), Usage()))
        if rest != Usage():
            _spend(rest, self._place(model, local_day(self._at)))

    def _take_time(self) -> None:
        for day, (first, last) in self._spans.items():
            self._counting.days[day].seconds += (last - first).total_seconds()
        first = min(span[0] for span in self._spans.values())
        last = max(span[1] for span in self._spans.values())
        for row in self._own:
            row.seconds += (last - first).total_seconds()

    def _count(self, message: Message, place: Rows, day: str) -> None:
        self._new += 1
        self._touched.update(place)
        # A sub-agent's prompts are written by a model.
        turn = message.is_human and not self._session.is_agent_session
        calls = message.tool_calls
        errors = sum(call.success is False for call in calls)
        for row in place:
            row.messages += 1
            row.turns += turn
            row.tool_calls += len(calls)
            row.errors += errors
        if message.at is not None:
            first, last = self._spans.get(day, (message.at, message.at))
            self._spans[day] = min(first, message.at), max(last, message.at)
        folder = message.cwd or self._session.workspace
        for call in calls:
            rows = [self._counting.tools[call.name]]
            rows += [self._counting.files[path] for path in {located(path, folder) for path in call.paths}]
            for row in rows:
                row.tool_calls += 1
                row.errors += call.success is False
            self._touched.update(rows)


def local_day(at: datetime | None) -> str:
    return in_local_time(at).date().isoformat() if at else ""


def located(path: str, folder: str | None) -> str:
    """One name for a file that tools call by several. Text alone: nothing is looked up on this machine."""
    if _is_windows(path):
        return ntpath.normpath(path)
    if not folder or path.startswith(("/", "~")):
        return posixpath.normpath(path)
    if _is_windows(folder):
        return ntpath.normpath(ntpath.join(folder, path))
    return posixpath.normpath(posixpath.join(folder, path))


def _is_windows(path: str) -> bool:
    return path.startswith("\\\\") or (path[1:3] in (":\\", ":/") and path[0].isalpha())


def _spend(usage: Usage | None, rows: Iterable[_Row]) -> None:
    if usage is not None:
        for row in rows:
            row.usage = row.usage + usage


def _less(total: Usage, part: Usage) -> Usage:
    return Usage(
        total.input_tokens - part.input_tokens,
        total.output_tokens - part.output_tokens,
        total.cache_creation_tokens - part.cache_creation_tokens,
        total.cache_read_tokens - part.cache_read_tokens,
    )


def _tallies(rows: dict[str, _Row]) -> Iterator[Tally]:
    """Without rows that only copies were met for."""
    for name, row in rows.items():
        if row.sessions or row.subagents or row.usage != Usage():
            yield row.tally(name)


def _table(rows: dict[str, _Row], weight: Callable[[Tally], int]) -> tuple[Tally, ...]:
    return tuple(sorted(_tallies(rows), key=lambda t: (-weight(t), -t.messages, t.name)))
