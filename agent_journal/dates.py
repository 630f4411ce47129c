"""What people type for a time (2026-03, 3d, yesterday) as a moment in UTC.

And moments in local time. Never looks at the clock but in local_now().
"""

from __future__ import annotations

import os
import re
from datetime import UTC, datetime, timedelta, tzinfo

from agent_journal.errors import BadConfig, BadQuery

ACCEPTED = (
    "use a date (2026-03-01, 2026-03, 2026-03-01T14:30), or 5h, 3d, 2w, 1y, today, yesterday, last-week, last-month"
)

_CALENDAR = re.compile(r"(\d{4})(?:-(\d{1,2}))?(?:-(\d{1,2}))?", re.ASCII)
_AGO = re.compile(r"(\d{1,6})([hdwy])", re.ASCII)
_NAMED = {"today": 0, "yesterday": 1}  # days back
_LAST = re.compile(r"last[ _-]?(week|month|year)")


class SystemZone(tzinfo):
    """This machine's zone with its changes of summer time.

    `datetime.now().astimezone()` carries today's offset only: an hour off for half of the year's dates.
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
    try:
        return datetime.now(SystemZone())
    except ValueError as error:  # TZ=UTC+99: a day and more from UTC
        given = os.environ.get("TZ", "")
        raise BadConfig(f"TZ={given} is no time zone", "set TZ to one such as Europe/Paris, or unset it") from error


def in_local_time(at: datetime) -> datetime:
    """As it is where there is none: of the first and last hours of the calendar."""
    try:
        return at.astimezone()
    except (OverflowError, ValueError, OSError):
        return at


def moment(text: str, now: datetime, end: bool) -> datetime:
    """The moment a date word means. What names no zone is read in that of `now`, which must have one.

    A day, week, month or year is its first moment, or with `end` the first moment after it.
    """
    word = text.strip().lower()
    try:
        if match := _CALENDAR.fullmatch(word):
            found = _calendar(match, now.tzinfo, end)
        elif match := _AGO.fullmatch(word):
            found = _ago(int(match[1]), match[2], now)
        elif word in _NAMED:
            found = _midnight(now) - timedelta(days=_NAMED[word] - end)
        elif match := _LAST.fullmatch(word):
            found = _last(match[1], _midnight(now), end)
        else:
            found = _instant(word, now.tzinfo)
        return found.astimezone(UTC)
    except (ValueError, OverflowError, OSError) as error:  # 2026-13-45, or outside the years 1 to 9999
        raise BadQuery(ACCEPTED) from error


def _calendar(match: re.Match[str], zone: tzinfo | None, end: bool) -> datetime:
    year, month, day = (int(part) if part else None for part in match.groups())
    assert year is not None
    first = datetime(year, 1 if month is None else month, 1 if day is None else day, tzinfo=zone)
    if not end:
        return first
    if day is not None:
        return first + timedelta(days=1)
    if month is None or month == 12:
        return first.replace(year=year + 1, month=1)
    return first.replace(month=month + 1)


def _ago(count: int, unit: str, now: datetime) -> datetime:
    """Hours are counted as they pass, days by the clock on the wall: 3d ago is the same time of day."""
    if unit == "h":
        return now.astimezone(UTC) - timedelta(hours=count)
    if unit == "y":
        return _years_before(now, count)
    return now - timedelta(days=count * (7 if unit == "w" else 1))


def _years_before(now: datetime, count: int) -> datetime:
    try:
        return now.replace(year=now.year - count)
    except ValueError:  # the 29th of February, or before the year 1: refused again
        return now.replace(year=now.year - count, day=28)


def _midnight(now: datetime) -> datetime:
    return now.replace(hour=0, minute=0, second=0, microsecond=0, fold=0)


def _last(unit: str, today: datetime, end: bool) -> datetime:
    """The one before this: weeks begin on Monday."""
    if unit == "week":
        return today - timedelta(days=today.weekday() + 7 * (not end))
    if unit == "year":
        return today.replace(year=today.year - (not end), month=1, day=1)
    this = today.replace(day=1)
    return this if end else (this - timedelta(days=1)).replace(day=1)


def _instant(word: str, zone: tzinfo | None) -> datetime:
    """2026-03-01T14:30, with or without seconds and zone."""
    if ":" not in word:
        raise ValueError("fromisoformat would also take 20260301, as an instant")
    found = datetime.fromisoformat(word.upper())
    return found.replace(tzinfo=zone) if found.tzinfo is None else found
