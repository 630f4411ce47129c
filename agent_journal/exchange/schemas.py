"""The JSON Schemas that are shipped, and what a value has against one. Imports jsonschema only when asked."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from jsonschema import Draft202012Validator

NDJSON = "unified-ndjson-1.schema.json"
SESSION_DATA = "session-data-v1.schema.json"
SESSION_DATA_OPEN = "session-data-open.schema.json"
MOST_SHOWN = 160  # characters of a complaint: it quotes the value


def complaints(schema: str, value: Any) -> Iterator[str]:
    """`place: what is wrong`, in the order of the value."""
    found = sorted(_validator(schema).iter_errors(value), key=lambda e: [str(step) for step in e.absolute_path])
    for error in found:
        yield f"{place(error.absolute_path) or 'the value'}: {_short(error.message)}"


def place(path: Any) -> str:
    """messages[3].role"""
    steps = [f"[{step}]" if isinstance(step, int) else f".{step}" for step in path]
    return "".join(steps).removeprefix(".")


def _short(text: str) -> str:
    return text if len(text) <= MOST_SHOWN else f"{text[: MOST_SHOWN // 2]}…{text[-MOST_SHOWN // 2 :]}"


@cache
def _validator(schema: str) -> Draft202012Validator:
    from jsonschema import Draft202012Validator, FormatChecker

    formats = FormatChecker(formats=())
    formats.checks("date-time")(_is_moment)
    text = files("agent_journal.exchange").joinpath(schema).read_bytes()
    return Draft202012Validator(msgspec.json.decode(text), format_checker=formats)


def _is_moment(value: object) -> bool:
    """RFC 3339: a date, a time and a zone."""
    if not isinstance(value, str):
        return True
    try:
        return msgspec.convert(value, datetime).tzinfo is not None
    except msgspec.ValidationError:
        return False
