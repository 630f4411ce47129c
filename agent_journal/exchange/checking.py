"""`aj validate`: what is wrong with a file of either format, and what is merely worth a remark.

Changes nothing, and takes nothing in.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from msgspec import Struct

from agent_journal.errors import BadExchange
from agent_journal.exchange import files, sessiondata_check
from agent_journal.exchange.ndjson_check import Check
from agent_journal.exchange.places import line_of
from agent_journal.render.style import counted

MOST_PROBLEMS = 10_000  # of one file: a few bytes of gzip hold millions


class Problem(Struct, frozen=True):
    line: int  # 0: the file as a whole
    text: str


class Report(Struct, frozen=True):
    path: Path
    format: str
    sessions: int
    problems: tuple[Problem, ...]
    remarks: tuple[str, ...]


def checked(paths: Iterable[Path], *, strict: bool = False) -> Iterator[Report]:
    """File after file; a folder stands for what is in it. Raises BadExchange for a file of neither format if it is the
    only one."""
    found = [file for path in paths for file in files.exchanged(path)]
    for path in found:
        try:
            yield _checked(path, strict)
        except BadExchange as error:
            if len(found) == 1:
                raise
            yield Report(path, "neither format", 0, (Problem(0, error.message.removeprefix(f"{path}: ")),), ())


def _checked(path: Path, strict: bool) -> Report:
    return (_session_data if files.is_session_data(path) else _lines)(path, strict)


def _session_data(path: Path, strict: bool) -> Report:
    text = files.text(path)
    value = files.parsed(path, text)
    found = sessiondata_check.problems(value, strict=strict)
    problems = [Problem(line_of(text, wrong.partition(": ")[0]), wrong) for wrong in found]
    return Report(path, "SessionData", 1, tuple(problems), _remarks(not value.get("exchanges"), 0))


def _lines(path: Path, strict: bool) -> Report:
    check, empty, untimed = Check(strict=strict), 0, 0
    problems: list[Problem] = []
    for line in files.lines(path):
        found = [Problem(line.number, text) for text in check.line(line)]
        problems += found
        if len(problems) > MOST_PROBLEMS:
            problems.append(Problem(line.number, "too many problems; the rest of the file is not checked"))
            break
        if not found and line.number > 1:
            empty += not line.value["messages"]
            untimed += _untimed(line.value["messages"])
    problems += [Problem(0, text) for text in check.end()]
    return Report(path, "NDJSON", check.sessions, tuple(problems), (*_remarks(empty, untimed), *_strangers(check)))


def _strangers(check: Check) -> tuple[str, ...]:
    told = ", ".join(f"{agent} ({count:,})" for agent, count in sorted(check.strangers.items()))
    return (f"agents that schema 1.0 does not name: {told}",) if told else ()


def _untimed(messages: list[dict[str, Any]]) -> int:
    return sum(message.get("timestamp") is None for message in messages)


def _remarks(empty: int, untimed: int) -> tuple[str, ...]:
    """Allowed by the formats, and yet not what one expects of a session."""
    told = (
        counted(empty, "empty session") if empty else "",
        f"{counted(untimed, 'message')} without a time" if untimed else "",
    )
    return tuple(remark for remark in told if remark)
