"""Times as both formats have them: in UTC, read from text; and the one that stands where none is known."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def moment(value: Any) -> datetime | None:
    """None for what is no time."""
    try:
        return utc(msgspec.convert(value, datetime)) if isinstance(value, str) else None
    except msgspec.ValidationError:
        return None


def utc(at: datetime | None) -> datetime | None:
    """Times without a zone are UTC; one that no calendar has is none."""
    if at is None or at.tzinfo is UTC:
        return at
    try:
        return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
    except OverflowError:
        return None
