"""Where output goes: the answer to stdout, everything else to stderr, the result as an exit code."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

FOUND, NOTHING, FAILED, INTERRUPTED = 0, 1, 2, 130


def put(lines: Iterable[str]) -> None:
    for line in lines:
        sys.stdout.write(f"{line}\n")


def put_object(value: Any) -> None:
    """JSON is UTF-8 whatever the terminal's encoding."""
    from agent_journal.render.machine import encode

    sys.stdout.flush()
    sys.stdout.buffer.write(encode(value) + b"\n")
    sys.stdout.buffer.flush()


def put_facts(**facts: Any) -> None:
    """The object of a command that has no renderer of its own for programs."""
    from agent_journal.render.machine import SCHEMA_VERSION

    put_object({"schema_version": SCHEMA_VERSION, **facts})


def put_rows(values: Iterable[Any]) -> None:
    """Each as soon as it is known: a reader may stop after the first."""
    for value in values:
        put_object(value)


def say_object(value: Any) -> None:
    """What a reader of rows needs beside them."""
    from agent_journal.render.machine import encode

    sys.stderr.write(encode(value).decode() + "\n")


def say(lines: Iterable[str]) -> None:
    sys.stdout.flush()  # so that a status below an answer stays below it
    for line in lines:
        sys.stderr.write(f"{line}\n")
