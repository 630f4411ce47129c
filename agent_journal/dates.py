"""What people type for a time (2026-03, 3d, yesterday) as a moment in UTC.

Says nothing about how moments are shown, and never looks at the clock but in local_now().
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, tzinfo

from agent_journal.errors import BadQuery

WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
ACCEPTED = "use a date (2026-03-01), or 3h, 3d, 3w, yesterday"

_DAY = re.compile(r"(\d{4})(?:-(\d{1,2})(?:-(\d{1,2}))?)?", re.ASCII)
_TIME = re.compile(
    r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:[.,]\d{1,6})?)?(?:Z|[+-]\d\d(?::?\d\d)?)?", re.ASCII
)
_AGO = re.compile(r"(\d{1,6})(min|h|d|w|mo|y)", re.ASCII)
_MINUTES_OR_MONTHS = re.compile(r"\d{1,6}m", re.ASCII)


class SystemZone(tzinfo):
    """This machine's zone with its changes of summer time.

    `datetime.now().astimezone()` carries only today's offset, which is an hour off for half of the year's dates.
    """

    def utcoffset(self, at: datetime | None) -> timedelta | None:
        return None if at is None else at.replace(tzinfo=None).astimezone().utcoffset()

    def dst(self, at: datetime | None) -> timedelta | None:
        return None

    def tzname(self, at: datetime | None) -> str | None:
        return None if at is None else at.replace(tzinfo=None).astimezone().tzname()

    def fromutc(self, at: datetime) -> datetime:
        return at.replace(tzinfo=UTC).astimezone().replace(tzinfo=self)


def local_now() -> datetime:
    return datetime.now(SystemZone())


def moment(text: str, now: datetime, end: bool) -> datetime:
    """The moment a date word means, in UTC.

    A day, month or year is its first moment, or with `end` the first moment after it. Words without a zone are
    read in the zone of `now`.
    """
    if now.tzinfo is None:
        raise ValueError("now needs a time zone")
    word = text.strip()
    if _MINUTES_OR_MONTHS.fullmatch(word):
        raise BadQuery(f"{word} — say {word}in for minutes or {word}o for months")
    for meaning in (_calendar, _instant, _ago, _named_day):
        try:
            found = meaning(word, now, end)
            if found is not None:
                return found.astimezone(UTC)
        except (ValueError, OverflowError, OSError):  # 2026-13-45, or a moment outside the years 1 to 9999
            break
    raise BadQuery(f"{_shown(word)} — {ACCEPTED}")


def _calendar(word: str, now: datetime, end: bool) -> datetime | None:
    """2026, 2026-03 or 2026-03-01."""
    match = _DAY.fullmatch(word)
    if match is None:
        return None
    year, month, day = (int(part) if part else 0 for part in match.groups())
    given_month, given_day = match[2] is not None, match[3] is not None
    first = datetime(year, month if given_month else 1, day if given_day else 1, tzinfo=now.tzinfo)
    if not end:
        return first
    if given_day:
        return first + timedelta(days=1)
    return _months_later(first, 1 if given_month else 12)


def _instant(word: str, now: datetime, end: bool) -> datetime | None:
    """2026-03-01T12:30, with or without seconds and zone: the same moment as a start and as an end."""
    if not _TIME.fullmatch(word.upper()):
        return None
    found = datetime.fromisoformat(word.upper())
    return found.replace(tzinfo=now.tzinfo) if found.tzinfo is None else found


_Step = Callable[[datetime, int], datetime]

# Hours are counted by the clock of physics, days and longer by the one on the wall: 3d is the same time of day.
_BACK: dict[str, _Step] = {
    "min": lambda now, count: now.astimezone(UTC) - timedelta(minutes=count),
    "h": lambda now, count: now.astimezone(UTC) - timedelta(hours=count),
    "d": lambda now, count: now - timedelta(days=count),
    "w": lambda now, count: now - timedelta(weeks=count),
    "mo": lambda now, count: _months_later(now, -count),
    "y": lambda now, count: _months_later(now, -12 * count),
}


def _ago(word: str, now: datetime, end: bool) -> datetime | None:
    match = _AGO.fullmatch(word.lower())
    return _BACK[match[2]](now, int(match[1])) if match else None


def _named_day(word: str, now: datetime, end: bool) -> datetime | None:
    name = word.lower()
    if name in WEEKDAYS:
        back = (now.weekday() - WEEKDAYS.index(name)) % 7  # on a Monday, "monday" is today
    elif name in ("today", "yesterday"):
        back = int(name == "yesterday")
    else:
        return None
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0, fold=0)
    return midnight - timedelta(days=back - end)


def _months_later(at: datetime, months: int) -> datetime:
    """The same day of another month, or that month's last day."""
    year, month = divmod(at.year * 12 + at.month - 1 + months, 12)
    for day in range(at.day, 28, -1):
        try:
            return at.replace(year=year, month=month + 1, day=day)
        except ValueError:
            continue
    return at.replace(year=year, month=month + 1, day=min(at.day, 28))


def _shown(word: str) -> str:
    clipped = word if len(word) <= 40 else word[:39] + "…"
    return "".join(c if c.isprintable() else " " for c in clipped)


__all__ = ["ACCEPTED", "WEEKDAYS", "SystemZone", "local_now", "moment"]
