"""Sessions out and in: `aj export`, `aj import`, `aj validate`.

Asks and reports; how sessions leave is exporting's to say, how they come in importing's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agent_journal.cli_journal import hit_or_name, opened, shown_progress
from agent_journal.cli_options import Filters, Json, asked, filtered
from agent_journal.cli_output import FAILED, FOUND, NOTHING, put, put_facts, say
from agent_journal.render.clean import clean_line

if TYPE_CHECKING:
    from agent_journal.exchange.checking import Problem
    from agent_journal.exporting import Exported
    from agent_journal.importing import Imported

PROBLEMS_SHOWN = 20


Format = StrEnum("Format", ["html", "markdown", "ndjson", "sessiondata"])
Theme = StrEnum("Theme", ["dark", "light", "auto"])
Order = StrEnum("Order", ["started", "workspace", "source"])
Schema = StrEnum("Schema", {"newest": "1.1", "strict": "1.0"})


@filtered
def export(
    names: Annotated[list[str] | None, typer.Argument(metavar="[SESSION|WORKSPACE]...", show_default=False)] = None,
    *,
    query: Annotated[
        str, typer.Option("--query", metavar="QUERY", help="Sessions with a message that fits; any word may match.")
    ] = "",
    filters: Filters,
    everything: Annotated[bool, typer.Option("--all", help="Every session of the journal.")] = False,
    formats: Annotated[
        list[Format] | None,
        typer.Option("--format", "-f", help="Repeatable; else by name, else export.default_format."),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Short for --format ndjson.")] = False,
    source: Annotated[bool, typer.Option("--source", help="The agents' own files, as they are.")] = False,
    output: Annotated[
        str | None, typer.Option("--output", "-o", metavar="PATH", help="A file, a folder, or - for stdout.")
    ] = None,
    gzip: Annotated[bool, typer.Option("--gzip", help="Compressed; a name that ends in .gz says so, too.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace files that are there.")] = False,
    tools: Annotated[
        bool | None, typer.Option("--tools/--no-tools", help="Tool calls; the setting export.include_tool_calls.")
    ] = None,
    thinking: Annotated[bool, typer.Option("--thinking/--no-thinking", help="What models thought.")] = True,
    redact: Annotated[bool, typer.Option("--redact/--no-redact", help="Replace secrets (docs/redaction.md).")] = True,
    sort: Annotated[Order, typer.Option("--sort", help="In which order.")] = Order.started,
    theme: Annotated[Theme | None, typer.Option("--theme", help="Of HTML; the setting export.html_theme.")] = None,
    schema: Annotated[Schema, typer.Option("--schema", help="Of NDJSON; 1.0 has no thinking.")] = Schema.newest,
    strict: Annotated[bool, typer.Option("--strict", help="Refuse agents that the format does not name.")] = False,
    all_homes: Annotated[bool, typer.Option("--ah", help="All homes, which is usual.")] = False,
    all_workspaces: Annotated[bool, typer.Option("--aw", help="All workspaces: --all.")] = False,
) -> int:
    """Write sessions to files: HTML, Markdown, NDJSON or SessionData.

    What is named is a session, also by the number of a hit of the last search, else a workspace. Secrets are replaced
    unless --no-redact. HTML, Markdown and SessionData are a file a session; NDJSON is one file.

    \b
    Example:
      aj export --project shop --since 2w --format html -o shop-pages/
    """
    from agent_journal import exporting
    from agent_journal.render.style import counted

    found = asked([query], filters)
    everything = everything or all_workspaces or all_homes
    if not (names or everything) and found.is_empty:
        choice = "a session, a workspace, --query, a filter such as --project, or --all"
        raise typer.BadParameter(f"say what to export: {choice}")
    settled = _formats(formats, output, json=json, source=source)
    with opened() as journal, shown_progress() as progress:
        chosen = [hit_or_name(journal, name) for name in names or ()]
        rows = exporting.chosen(journal, chosen, found, sort.value)
        if not rows:
            say(["nothing to export: no session fits"])
            return NOTHING
        subagents = 0
        if filters.no_subagents:
            unfiltered = asked([query], replace(filters, no_subagents=False))
            subagents = len(exporting.chosen(journal, chosen, unfiltered)) - len(rows)
        settings = journal.config.export
        wanted = exporting.Wanted(
            formats=settled or (() if source else (settings.default_format,)),
            source=source,
            tools=settings.include_tool_calls if tools is None else tools,
            thinking=thinking,
            redact=redact,
            theme=theme.value if theme else settings.html_theme,
            schema=schema.value,
            strict=strict,
            gzip=gzip or bool(output and output.endswith(".gz")),
            force=force,
        )
        done = exporting.export(journal, rows, wanted, output, progress)
    say(_export_lines(done))
    if subagents:
        say([f"left out: {counted(subagents, 'session')} of sub-agents"])
    return FOUND


# A file's name says its format, where nothing else does.
_BY_NAME = {".html": "html", ".md": "markdown", ".ndjson": "ndjson", ".jsonl": "ndjson", ".json": "sessiondata"}


def _formats(given: list[Format] | None, target: str | None, *, json: bool, source: bool) -> tuple[str, ...]:
    """What was asked for or the target's name says; nothing where the setting is left to decide. Both must agree, or
    a file's name would be a lie."""
    chosen = tuple(dict.fromkeys([f.value for f in given or ()] + ["ndjson"] * json))
    suffix = _suffix(target)
    named = _BY_NAME.get(suffix)
    if suffix == ".json" and chosen == ("ndjson",):  # lines of JSON: no lie
        return chosen
    if named and len(chosen) == 1 and named != chosen[0]:
        says = f"the name of {target} says {named}, but {chosen[0]} is asked for"
        raise typer.BadParameter(f"{says}: leave out one, or change it", param_hint="--output")
    if suffix and not (named or chosen or source):
        known = ", ".join(_BY_NAME)
        says = f"no format has names in {suffix}; known are {known}"
        raise typer.BadParameter(f"{says}: give --format too, or for a folder {target}/", param_hint="--output")
    return chosen or ((named,) if named else ())


def _suffix(target: str | None) -> str:
    """Of a file that is to be written; "" of a folder."""
    if target is None or target.endswith(("/", "\\")):
        return ""
    path = Path(target)
    with suppress(OSError, RuntimeError):  # what is no place to write to is said where it is written
        if path.expanduser().is_dir():
            return ""
    return Path(path.name.removesuffix(".gz")).suffix.lower()


def _export_lines(done: Exported) -> Iterator[str]:
    from agent_journal.render.style import counted, sized

    what = counted(done.sessions, "session")
    if done.messages or not done.copies:  # nobody counts those of a file that is only copied
        what += f", {counted(done.messages, 'message')}"
    if len(done.files) == 1:
        yield f"{what} → {clean_line(str(done.files[0]))} ({sized(done.bytes)})"
    elif done.files:
        folder = clean_line(str(_common(done)))
        yield f"{what} → {folder} ({len(done.files):,} files, {sized(done.bytes)})"
    else:
        yield what
    if done.redacted:
        yield f"redacted: {_counted(done.redacted)}"
    if done.left_out:
        yield f"left out: {_counted(done.left_out)}"
    for name, agents in done.strangers.items():
        told = ", ".join(f"{agent} ({count:,})" for agent, count in agents.items())
        yield f"under their own names, which {name} does not list: {told}"
    if done.copies:
        as_is = "as it is" if done.copies.files == 1 else "as they are"
        yield f"{counted(done.copies.files, 'file')} of the agents copied {as_is}: not redacted"
        if done.copies.gone:
            yield f"{counted(done.copies.gone, 'source')} no longer there to copy"


def _common(done: Exported) -> Path:
    import os

    return Path(os.path.commonpath([path.parent for path in done.files]))


def _counted(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {what}" for what, count in sorted(counts.items(), key=lambda c: (-c[1], c[0])))


def import_(
    files: Annotated[list[Path], typer.Argument(metavar="FILE|FOLDER...")],
    json: Json = False,
) -> int:
    """Take exported sessions into the journal: NDJSON or SessionData, compressed or not.

    A folder stands for the exports in it. What is there already stays. A record that cannot be read is named and left
    out; exits 2 if there was one.

    \b
    Example:
      aj import export_20260301_093000.ndjson
    """
    from agent_journal.importing import import_files

    done: list[Imported] = []
    with opened() as journal, shown_progress() as progress:
        for one in import_files(journal, files, progress):
            done.append(one)
            if not json:
                _put_imported(one)
    if json:
        _put_reports(done)
    elif len(done) > 1:
        put([_imported(done)])
    if any(one.messages_new for one in done) and not json:
        put(["found by words now; by meaning after `aj reindex`"])
    return FAILED if any(one.problems for one in done) else FOUND


def _put_imported(done: Imported) -> None:
    put([f"{done.path.name}: {_imported([done])}"])
    say(_problem_lines(done.path, done.problems))


def _put_reports(reports: Sequence[object]) -> None:
    from msgspec import to_builtins

    put_facts(files=to_builtins(reports, enc_hook=str))


def _imported(done: Sequence[Imported]) -> str:
    from agent_journal.render.style import counted

    def sum_of(name: str) -> int:
        return sum(getattr(one, name) for one in done)

    left_out = {"forgotten": "forgotten", "excluded": "by index.exclude", "empty": "empty"}
    same = sum_of("sessions") - sum(map(sum_of, ("sessions_new", "sessions_changed", *left_out)))
    parts = [
        f"{sum_of('sessions_new'):,} new",
        f"{sum_of('sessions_changed'):,} changed" if sum_of("sessions_changed") else "",
        f"{same:,} there already" if same else "",
        *(f"{sum_of(name):,} left out: {why}" for name, why in left_out.items() if sum_of(name)),
    ]
    told = ", ".join(part for part in parts if part)
    return f"{counted(sum_of('sessions'), 'session')}: {told} · {counted(sum_of('messages_new'), 'new message')}"


def _problem_lines(path: Path, problems: Sequence[Problem]) -> Iterator[str]:
    for problem in problems[:PROBLEMS_SHOWN]:
        place = f"{path}:{problem.line}" if problem.line else f"{path}"
        yield clean_line(f"{place}: {problem.text}")
    if len(problems) > PROBLEMS_SHOWN:
        yield f"… and {len(problems) - PROBLEMS_SHOWN:,} more"


def validate(
    files: Annotated[list[Path], typer.Argument(metavar="FILE|FOLDER...")],
    strict: Annotated[bool, typer.Option("--strict", help="Only agents that the format names.")] = False,
    json: Json = False,
) -> int:
    """Check files of NDJSON or SessionData against their schema, line by line.

    A folder stands for the exports in it. Exits 2 if something is wrong.

    \b
    Example:
      aj validate export_20260301_093000.ndjson
    """
    from agent_journal.exchange.checking import checked
    from agent_journal.render.style import counted

    reports = []
    for report in checked(files, strict=strict):
        reports.append(report)
        if not json:
            put(_problem_lines(report.path, report.problems))
            verdict = counted(len(report.problems), "problem") if report.problems else "valid"
            put([f"{clean_line(str(report.path))}: {report.format}, {counted(report.sessions, 'session')}: {verdict}"])
            put(f"  {remark}" for remark in report.remarks)
    if json:
        _put_reports(reports)
    return FAILED if any(report.problems for report in reports) else FOUND
