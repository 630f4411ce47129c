"""Options that several commands share, each defined once. Imports nothing that reads a journal."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from agent_journal.query import Query
    from agent_journal.redaction import Redactor


Mode = StrEnum("Mode", ["hybrid", "lexical", "semantic"])
Sort = StrEnum("Sort", ["relevance", "recent"])


def commands(**facts: Any) -> typer.Typer:
    """A group of commands. The tracebacks that typer makes pretty print the values of variables: a user's text."""
    return typer.Typer(pretty_exceptions_enable=False, rich_markup_mode=None, no_args_is_help=True, **facts)


def _option(name: str, metavar: str, about: str) -> Any:
    return typer.Option(name, metavar=metavar, help=about, show_default=False)


# No help on arguments: a click with help texts of its own for them (8.5 has) drops typer's. The text explains.
Words = Annotated[list[str] | None, typer.Argument(metavar="[QUERY]...", show_default=False)]
Limit = Annotated[
    int | None, typer.Option("--limit", "-n", min=1, max=10_000, metavar="N", help="Most results on a page.")
]
Cursor = Annotated[str | None, _option("--cursor", "CURSOR", "Continue after the page that gave it.")]
Context = Annotated[
    int | None,
    typer.Option("--context", "-C", min=0, max=1000, metavar="N", help="Messages before and after."),
]
Full = Annotated[bool, typer.Option("--full", help="Whole messages, nothing cut.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON object (docs/json.md).")]
Ndjson = Annotated[bool, typer.Option("--ndjson", help="One JSON object a line.")]
Redact = Annotated[
    bool | None,
    typer.Option(
        "--redact/--no-redact", help="Replace secrets; usual with --json (docs/redaction.md).", show_default=False
    ),
]
NoRefresh = Annotated[bool, typer.Option("--no-refresh", help="Do not look for changed sessions first.")]

Several = list[str] | None


@dataclass(frozen=True, slots=True)
class Filters:
    """The filters of the query language as options. `filtered` puts them on a command."""

    agent: Annotated[Several, _option("--agent", "AGENT", "Only this agent (see aj agents); repeatable.")] = None
    home: Annotated[Several, _option("--home", "NAME", "Only sessions of this home: local, or one of [homes].")] = None
    project: Annotated[Several, _option("--project", "NAME", "Only this project; repeatable.")] = None
    dir: Annotated[Several, _option("--dir", "PATH", "Only sessions in or below this folder.")] = None
    here: Annotated[bool, typer.Option("--here", help="Only sessions in or below the current folder.")] = False
    branch: Annotated[Several, _option("--branch", "NAME", "Only this git branch.")] = None
    role: Annotated[Several, _option("--role", "ROLE", "user, assistant, system or tool.")] = None
    tool: Annotated[Several, _option("--tool", "NAME", "Only messages that use this tool.")] = None
    file: Annotated[Several, _option("--file", "PATH", "Only messages whose tools name this file.")] = None
    model: Annotated[Several, _option("--model", "NAME", "Only answers of this model.")] = None
    place: Annotated[
        Several, _option("--in", "PLACE", "Where to look: text, thinking, tool_input, tool_result, title.")
    ] = None
    since: Annotated[str | None, _option("--since", "WHEN", "From then on: 2026-03-01, 3d, 2w, yesterday.")] = None
    until: Annotated[str | None, _option("--until", "WHEN", "Up to then.")] = None
    errors: Annotated[bool, typer.Option("--errors", help="Only messages with a failed tool call.")] = False
    no_subagents: Annotated[bool, typer.Option("--no-subagents", help="Leave out sessions of sub-agents.")] = False
    exclude_session: Annotated[
        Several, _option("--exclude-session", "SESSION", "Leave out this session; repeatable.")
    ] = None

    def __iter__(self) -> Iterator[tuple[str, str, bool]]:
        """Field of the query language, value, and whether it is negated."""
        for option, name in _FIELD_OF.items():
            given = getattr(self, option)
            for value in [given] if isinstance(given, str) else given or ():
                yield name, value, option == "exclude_session"
        if self.here:
            yield "dir", str(Path.cwd()), False
        if self.errors:
            yield "is", "error", False
        if self.no_subagents:
            yield "is", "subagent", True


_FLAGS = {"here", "errors", "no_subagents"}
_OTHER_NAMES = {"place": "in", "exclude_session": "session"}
_FIELD_OF = {f.name: _OTHER_NAMES.get(f.name, f.name) for f in fields(Filters) if f.name not in _FLAGS}


def filtered(command: Callable[..., int]) -> Callable[..., int]:
    """Replace a command's parameter `filters` by one option for each of its fields."""
    own = inspect.signature(command, eval_str=True).parameters
    options = inspect.signature(Filters, eval_str=True).parameters

    @functools.wraps(command)
    def with_options(**given: Any) -> int:
        filters = Filters(**{name: given.pop(name) for name in options})
        return command(filters=filters, **given)

    shown: list[inspect.Parameter] = []
    for name, parameter in own.items():
        shown += options.values() if name == "filters" else [parameter]
    keyword = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in shown]
    with_options.__signature__ = inspect.Signature(keyword)  # type: ignore[attr-defined]
    with_options.__annotations__ = {p.name: p.annotation for p in keyword}
    return with_options


_NUMBER = r"(\d+(?:\.\d+)?)"
_TIME = re.compile(rf"{_NUMBER}|(?=.)(?:{_NUMBER}\s*h)?\s*(?:{_NUMBER}\s*m)?\s*(?:{_NUMBER}\s*s)?")
_SECONDS = (1, 3600, 60, 1)  # of each number


def seconds_of(text: str) -> float:
    found = _TIME.fullmatch(text.strip().lower())
    if found is None:
        raise typer.BadParameter(f"{text!r} is no time: give 90s, 5m or 1h30m", param_hint="--budget")
    return sum(float(number or 0) * unit for number, unit in zip(found.groups(), _SECONDS, strict=True))


def asked(words: list[str] | None, filters: Filters) -> Query:
    """The query that was typed, with the options as if they stood in it."""
    from agent_journal.query import parse

    query = parse(" ".join(words or ()))
    for name, value, negated in filters:
        query = query.with_filter(name, value, negated=negated)
    return query


def redacting(wanted: bool | None, *, machine: bool) -> Redactor | None:
    """What goes to another program is redacted unless told otherwise; what a person reads only if told."""
    if not (machine if wanted is None else wanted):
        return None
    from agent_journal.redaction import Redactor

    return Redactor()
