from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_journal.dates import ACCEPTED, SystemZone, local_now, moment
from agent_journal.errors import BadQuery

NOW = datetime(2026, 3, 12, 9, 30, tzinfo=timezone(timedelta(hours=2)))


@pytest.fixture
def berlin() -> Iterator[None]:
    """The process's own zone, which changes to summer time on 2026-03-29 at 02:00."""
    before = os.environ.get("TZ")
    os.environ["TZ"] = "CET-1CEST,M3.5.0,M10.5.0/3"
    time.tzset()
    yield
    if before is None:
        del os.environ["TZ"]
    else:
        os.environ["TZ"] = before
    time.tzset()


@pytest.mark.parametrize(
    ("word", "start", "end"),
    [
        ("2026-03-01", "2026-02-28T22:00", "2026-03-01T22:00"),
        ("2026-3-1", "2026-02-28T22:00", "2026-03-01T22:00"),
        ("2024-02-29", "2024-02-28T22:00", "2024-02-29T22:00"),
        ("2026-03", "2026-02-28T22:00", "2026-03-31T22:00"),
        ("2025-12", "2025-11-30T22:00", "2025-12-31T22:00"),
        ("2026", "2025-12-31T22:00", "2026-12-31T22:00"),
        ("today", "2026-03-11T22:00", "2026-03-12T22:00"),
        ("Yesterday ", "2026-03-10T22:00", "2026-03-11T22:00"),
        ("5h", "2026-03-12T02:30", "2026-03-12T02:30"),
        ("3d", "2026-03-09T07:30", "2026-03-09T07:30"),
        ("2W", "2026-02-26T07:30", "2026-02-26T07:30"),
        ("1y", "2025-03-12T07:30", "2025-03-12T07:30"),
        ("last-week", "2026-03-01T22:00", "2026-03-08T22:00"),
        ("lastweek", "2026-03-01T22:00", "2026-03-08T22:00"),
        ("Last Month", "2026-01-31T22:00", "2026-02-28T22:00"),
        ("last_year", "2024-12-31T22:00", "2025-12-31T22:00"),
        ("0d", "2026-03-12T07:30", "2026-03-12T07:30"),
        ("2026-03-01T14:30", "2026-03-01T12:30", "2026-03-01T12:30"),
        ("2026-03-01 14:30:15", "2026-03-01T12:30:15", "2026-03-01T12:30:15"),
        ("2026-03-01t14:30z", "2026-03-01T14:30", "2026-03-01T14:30"),
        ("2026-03-01T14:30-05:00", "2026-03-01T19:30", "2026-03-01T19:30"),
    ],
)
def test_dates_are_read_in_the_zone_of_now(word: str, start: str, end: str) -> None:
    expected = [datetime.fromisoformat(at).replace(tzinfo=UTC) for at in (start, end)]
    assert [moment(word, NOW, end=False), moment(word, NOW, end=True)] == expected


@pytest.mark.parametrize(
    "word",
    [
        *(
            "",
            "3x",
            "d",
            "-3d",
            "3 d",
            "٣d",
            "999999w",
            "tomorrow",
            "9999y",
            "last-day",
            "12:30",
            "26-03-01",
            "20260301",
            "0000",
        ),
        *(
            "2026-13",
            "2026-00-01",
            "2026-02-30",
            "2026-03-01-02",
            "2026-03-01T25:00",
            "9999-12-31T23:00-23:00",
        ),
    ],
)
def test_what_is_no_date_is_refused_with_what_is(word: str) -> None:
    with pytest.raises(BadQuery) as caught:
        moment(word, NOW, end=False)
    assert caught.value.message == ACCEPTED


def test_a_year_before_a_leap_day_is_the_day_before_march() -> None:
    leap_day = datetime(2024, 2, 29, 9, 30, tzinfo=UTC)
    assert [moment(word, leap_day, end=False) for word in ("1y", "4y")] == [
        datetime(2023, 2, 28, 9, 30, tzinfo=UTC),
        datetime(2020, 2, 29, 9, 30, tzinfo=UTC),
    ]


def test_the_end_of_the_last_year_is_refused_not_a_crash() -> None:
    with pytest.raises(BadQuery):
        moment("9999", NOW, end=True)


@given(st.text(max_size=30), st.booleans())
def test_any_text_is_a_moment_or_a_bad_query(text: str, end: bool) -> None:
    with contextlib.suppress(BadQuery):
        assert moment(text, NOW, end).tzinfo is UTC


@given(st.datetimes(datetime(1971, 1, 1), datetime(9000, 1, 1)))
def test_a_written_moment_is_read_back(at: datetime) -> None:
    assert moment(at.replace(tzinfo=NOW.tzinfo).isoformat(), NOW, end=False) == at.replace(tzinfo=NOW.tzinfo)


@pytest.mark.usefixtures("berlin")
def test_a_day_of_summer_begins_at_summer_midnight_though_asked_in_winter() -> None:
    winter = datetime(2026, 1, 10, 12, 0, tzinfo=SystemZone())
    assert moment("2026-07-01", winter, end=False) == datetime(2026, 6, 30, 22, 0, tzinfo=UTC)
    assert moment("2026-01-01", winter, end=False) == datetime(2025, 12, 31, 23, 0, tzinfo=UTC)


@pytest.mark.usefixtures("berlin")
def test_days_keep_the_time_of_day_over_a_clock_change_and_hours_do_not() -> None:
    after_change = datetime(2026, 3, 29, 12, 0, tzinfo=SystemZone())
    assert moment("1d", after_change, end=False) == datetime(2026, 3, 28, 11, 0, tzinfo=UTC)
    assert moment("24h", after_change, end=False) == datetime(2026, 3, 28, 10, 0, tzinfo=UTC)


@pytest.mark.usefixtures("berlin")
def test_local_now_is_now_in_this_machines_zone() -> None:
    now = local_now()
    assert abs(now - datetime.now(UTC)) < timedelta(minutes=1)
    assert now.utcoffset() == datetime.now().astimezone().utcoffset()
