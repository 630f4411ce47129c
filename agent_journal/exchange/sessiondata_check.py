"""What is wrong with a SessionData value: against the JSON Schema, and against the rules that the format adds in words.

Never raises, whatever the value is, and changes nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

from agent_journal.exchange import schemas
from agent_journal.exchange.sessiondata_read import PROVIDERS

VERSION = "1.0"
_LOG = logging.getLogger("agent_journal")


def validate(value: Any) -> bool:
    """Whether nothing is wrong; what is, is logged."""
    found = problems(value)
    for problem in found:
        _LOG.warning("%s", problem)
    return not found


def problems(value: Any, *, strict: bool = False) -> list[str]:
    """`place: what is wrong`, each once. `strict`: no providers but those that the schema names."""
    provider = _at(_at(value, "provider"), "id")
    named = strict or (isinstance(provider, str) and provider in PROVIDERS.values())
    try:
        against = list(schemas.complaints(schemas.SESSION_DATA if named else schemas.SESSION_DATA_OPEN, value))
    except RecursionError:  # a complaint quotes the value
        against = ["the value: is nested too deeply"]
    return list(dict.fromkeys((*against, *_broken_rules(value))))


def version_problem(value: Any) -> str:
    version = _at(value, "schemaVersion")
    if not isinstance(version, str) or version == VERSION:
        return ""
    return f"schemaVersion: {version} is not understood; this program reads {VERSION}"


def _broken_rules(value: Any) -> Iterator[str]:
    """What the schema does not say: it allows empty texts, and knows no difference between the roles."""
    yield from _empty(value, "", "sessionId", "createdAt", "workspaceRoot")
    yield from _empty(_at(value, "provider"), "provider.", "id", "name", "version")
    seen: dict[str, int] = {}
    said: dict[str, str] = {}
    for number, exchange in enumerate(_items(value, "exchanges")):
        place = f"exchanges[{number}]"
        yield from _empty(exchange, f"{place}.", "exchangeId")
        name = _at(exchange, "exchangeId")
        if isinstance(name, str) and seen.setdefault(name, number) != number:
            yield f"{place}.exchangeId: {name!r} is that of exchanges[{seen[name]}] already"
        for place_of, message in enumerate(_items(exchange, "messages")):
            here = f"{place}.messages[{place_of}]"
            name = _at(message, "id")
            if isinstance(name, str) and said.setdefault(name, here) != here:
                yield f"{here}.id: {name!r} is that of {said[name]} already"
            yield from _broken_of_message(message, here)


def _broken_of_message(message: Any, place: str) -> Iterator[str]:
    yield from _empty(_at(message, "tool"), f"{place}.tool.", "name")
    role = _at(message, "role")
    if role == "user":
        if not _items(message, "content"):
            yield f"{place}.content: a message of the user needs some"
        for name in ("tool", "model"):
            if name in message:
                yield f"{place}.{name}: a message of the user has none"
    if role == "agent" and not any(_at(message, name) for name in ("content", "tool", "pathHints")):
        yield f"{place}: a message of the agent needs content, a tool or pathHints"


def _empty(value: Any, place: str, *names: str) -> Iterator[str]:
    for name in names:
        if _at(value, name) == "":
            yield f"{place}{name}: is empty"


def _at(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, dict) else None


def _items(value: Any, name: str) -> list[Any]:
    found = _at(value, name)
    return found if isinstance(found, list) else []
