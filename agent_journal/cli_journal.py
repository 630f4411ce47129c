"""From what was typed to what is meant: the journal that a command opens, and the session that a word names."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from agent_journal.config import Config
    from agent_journal.render.progress import Progress
    from agent_journal.search import Journal
    from agent_journal.session import StoredSession

ORDINAL_DIGITS = 18  # what is longer is no message's number, and Python refuses to read thousands of digits
HIT_DIGITS = 4  # `aj show 3` is a hit, `aj show 31415926` the beginning of a session's id


def settings() -> Config:
    from agent_journal.config import load
    from agent_journal.connectors.registry import SOURCE_KEYS

    return load(os.environ, SOURCE_KEYS)


def opened() -> Journal:
    from agent_journal.search import Journal

    return Journal.open(settings())


def shown_progress() -> Progress:
    from agent_journal.render.progress import Progress
    from agent_journal.render.style import look_at

    return Progress(sys.stderr, width=look_at(sys.stderr).width)


def known_agent(name: str) -> str:
    from agent_journal.connectors.registry import BY_NAME, CONNECTORS

    if name not in BY_NAME:
        known = ", ".join(c.agent for c in CONNECTORS)
        raise typer.BadParameter(f"no agent is called {name}; known are {known}", param_hint="--agent")
    return BY_NAME[name].agent


def named_session(journal: Journal, name: str) -> tuple[StoredSession, int | None]:
    """The session, and the message if one was named: `3`, `9f8e7d6c`, `9f8e7d6c:12`, `3:12`."""
    from agent_journal.errors import NoSuchSession

    if hit := _hit(journal, name):
        return journal.session(hit[0]), hit[1]
    head, _, tail = name.rpartition(":")
    if not (head and _is_number(tail, ORDINAL_DIGITS)):
        return journal.session(name), None
    if hit := _hit(journal, head):
        return journal.session(hit[0]), int(tail)
    whole = None
    with suppress(NoSuchSession):
        whole = journal.session(name)
    if whole and name in (whole.session.key, whole.session.id, whole.session.slug):
        return whole, None  # a key whose id is all digits
    try:
        return journal.session(head), int(tail)
    except NoSuchSession:
        if whole is None:
            raise
        return whole, None  # the beginning of an id that holds a colon


def _is_number(text: str, most_digits: int) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= most_digits


def hit_or_name(journal: Journal, name: str) -> str:
    """A session's key for the number of a hit; any other name as it is."""
    hit = _hit(journal, name)
    return hit[0] if hit else name


def _hit(journal: Journal, name: str) -> tuple[str, int] | None:
    """(session key, message) of a hit of the last search; None for a name that is no number of one."""
    return journal.recall(int(name)) if _is_number(name, HIT_DIGITS) and journal.exists else None
