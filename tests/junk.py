"""Wrong values in valid records: what a connector must survive."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from agent_journal.connectors.base import Reading
from agent_journal.session import Transcript, derive

RELAXED = settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])


def junk(*keys: str) -> st.SearchStrategy[Any]:
    """Any JSON, with objects that have some of these keys."""
    return st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats(allow_nan=False)
        | st.text(max_size=8)
        | st.sampled_from(keys),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(keys), inner, max_size=3),
        max_leaves=6,
    )


def places_in(value: Any, above: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [above, *(place for key, one in inner for place in places_in(one, (*above, key)))]


def with_value(value: Any, place: tuple[Any, ...], wrong: Any) -> Any:
    if not place:
        return wrong
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[place[0]] = with_value(value[place[0]], place[1:], wrong)
    return copy


def spoiled(value: Any, data: st.DataObject, wrong: st.SearchStrategy[Any]) -> Any:
    """The same JSON with one to four places changed."""
    for _ in range(data.draw(st.integers(1, 4))):
        value = with_value(value, data.draw(st.sampled_from(places_in(value))), data.draw(wrong))
    return value


def spoiled_lines(lines: list[Any], data: st.DataObject, wrong: st.SearchStrategy[Any]) -> list[Any]:
    """The same of records; what replaces all of them is one record."""
    spoilt = spoiled(lines, data, wrong)
    return spoilt if isinstance(spoilt, list) else [spoilt]


def assert_storable(reading: Reading) -> None:
    """Whatever was read can be written, and read again as it was."""
    for transcript in reading.transcripts:
        derive(transcript.session, transcript.messages)
        assert msgspec.msgpack.decode(msgspec.msgpack.encode(transcript), type=Transcript) == transcript
