"""The commands: options become calls, values become lines or JSON, results become exit codes.

Nothing heavy is imported before a command needs it: `aj --help` opens neither the store nor the word index.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from agent_journal.cli_config import config_app
from agent_journal.cli_exchange import export, import_, validate
from agent_journal.cli_journal import known_agent, named_session, opened, shown_progress
from agent_journal.cli_keeping import backup, forget, restore
from agent_journal.cli_models import models_app
from agent_journal.cli_options import (
    Context,
    Cursor,
    Filters,
    Full,
    Json,
    Limit,
    Mode,
    Ndjson,
    NoRefresh,
    Redact,
    Sort,
    Words,
    asked,
    commands,
    filtered,
    redacting,
    seconds_of,
)
from agent_journal.cli_output import FOUND, NOTHING, put, put_facts, put_object, put_rows, say, say_object
from agent_journal.cli_stats import stats

if TYPE_CHECKING:
    from agent_journal.search import Journal
    from agent_journal.session import StoredMessage, StoredSession

LISTED = 20
UNKNOWN_FOLDER = "its folder is not known: if it is not found here, run this in its project"

app = commands(name="aj", context_settings={"help_option_names": ["-h", "--help"]})
app.add_typer(config_app, name="config")
app.add_typer(models_app, name="models")


def _version(wanted: bool) -> None:
    if wanted:
        from agent_journal import __version__

        put([f"aj {__version__}"])
        raise typer.Exit


@app.callback()
def _aj(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Search the sessions of your AI coding agents.

    `aj WORDS…` is short for `aj search WORDS…`. Nothing leaves this machine.

    \b
    Example:
      aj parser drops nested quotes
    """


@app.command()
@filtered
def search(
    words: Words = None,
    *,
    filters: Filters,
    mode: Annotated[Mode | None, typer.Option("--mode", help="By words, by meaning, or both.")] = None,
    limit: Limit = None,
    cursor: Cursor = None,
    context: Context = None,
    full: Full = False,
    sort: Annotated[Sort, typer.Option("--sort", help="Best or newest first.")] = Sort.relevance,
    explain: Annotated[bool, typer.Option("--explain", help="What each score is made of.")] = False,
    redact: Redact = None,
    json: Json = False,
    ndjson: Ndjson = False,
    no_refresh: NoRefresh = False,
) -> int:
    """Find messages in every agent's sessions.

    Any word may match; more, closer and in order is better. Filters may stand in the query (agent:claude
    since:3d -draft "exact phrase") or be given as options. A query that starts with a dash goes after --.

    \b
    Example:
      aj search "connection refused" --agent claude-code --since 2w
    """
    query = asked(words, filters)
    if query.is_empty:
        raise typer.BadParameter("say what to search for: words, or a filter such as --agent", param_hint="QUERY")
    redactor = redacting(redact, machine=json or ndjson)
    with opened() as journal, shown_progress() as progress:
        answer = journal.search(
            query,
            mode=mode.value if mode else None,
            limit=limit,
            cursor=cursor,
            context=context,
            sort=sort.value,
            refresh=not no_refresh,
            redactor=redactor,
            progress=progress,
        )
        if not (json or ndjson):
            journal.remember(answer)  # a program's search must not change what `aj show 3` means to a person
        clip = None if full else journal.config.search.clip_chars
    if json or ndjson:
        from agent_journal.render import machine

        if ndjson:
            put_rows(machine.match_object(match, clip, explain) for match in answer.matches)
            say_object(machine.answer_facts(answer, redactor))
        else:
            put_object(machine.answer_object(answer, clip, explain, redactor))
        return FOUND if answer.matches else NOTHING
    from agent_journal.render.style import look_at
    from agent_journal.render.terminal import answer_lines, status_lines

    put(answer_lines(answer, look_at(sys.stdout), full=full, explain=explain))
    say(status_lines(answer, look_at(sys.stderr)))
    return FOUND if answer.matches else NOTHING


@app.command()
def reindex(
    full: Annotated[bool, typer.Option("--full", help="Read every file again, changed or not.")] = False,
    agent: Annotated[str | None, typer.Option("--agent", metavar="AGENT", help="Read only this agent's files.")] = None,
    no_vectors: Annotated[bool, typer.Option("--no-vectors", help="Words only: embed nothing.")] = False,
    budget: Annotated[
        str | None, typer.Option("--budget", metavar="TIME", help="Embed no longer than this: 90s, 5m, 2h.")
    ] = None,
    json: Json = False,
) -> int:
    """Take in what the agents wrote since the last time.

    Sessions whose files are gone stay in the journal. Search by words is complete first; then texts are embedded for
    search by meaning, newest first, whichever agent they are of. That may be broken off at any moment and goes on the
    next time.

    \b
    Example:
      aj reindex --agent copilot-cli --budget 5m
    """
    seconds = None if budget is None else seconds_of(budget)
    with opened() as journal, shown_progress() as progress:
        report = journal.reindex(
            full=full,
            agent=known_agent(agent) if agent else None,
            vectors=not no_vectors,
            budget=seconds,
            progress=progress,
        )
    if json:
        from agent_journal.render.machine import report_object

        put_object(report_object(report))
        return FOUND
    from agent_journal.render.report import sync_lines
    from agent_journal.render.style import look_at

    put(sync_lines(report, look_at(sys.stdout)))
    return FOUND


@app.command()
def show(
    session: Annotated[str, typer.Argument(metavar="SESSION[:N]")],
    context: Context = None,
    full: Full = False,
    tools: Annotated[bool, typer.Option("--tools/--no-tools", help="Tool calls and their results.")] = True,
    thinking: Annotated[bool, typer.Option("--thinking", help="Also what the model thought.")] = False,
    redact: Redact = None,
    json: Json = False,
) -> int:
    """Print a session, or one message and those around it.

    SESSION is an id, the beginning of one, or a slug; N is a message. A number alone is that hit of the last
    search. Long messages are cut, but for the one that was named; --full cuts none.

    \b
    Example:
      aj show 9f8e7d6c:12 --context 5
    """
    with opened() as journal:
        stored, ordinal = named_session(journal, session)
        messages = _chosen(journal, stored, ordinal, context)
        clip = None if full else journal.config.search.clip_chars
        command = journal.resume(stored)
    redactor = redacting(redact, machine=json)
    if redactor:
        stored, messages = redactor.conversation(stored, messages)
    named = frozenset([ordinal] if ordinal else [])
    if json:
        from agent_journal.render.machine import shown_object

        put_object(shown_object(stored, messages, command, clip, whole=named, tools=tools, redactor=redactor))
        return FOUND if messages else NOTHING
    from agent_journal.render.machine import resume_command
    from agent_journal.render.sessions import session_head_lines, transcript_lines
    from agent_journal.render.style import look_at

    look = look_at(sys.stdout)
    put(session_head_lines(stored, resume_command(command), look))
    put(transcript_lines(messages, look, whole=None if full else named, tools=tools, thinking=thinking))
    return FOUND if messages else NOTHING


@app.command()
@filtered
def sessions(
    words: Words = None,
    *,
    filters: Filters,
    limit: Limit = None,
    cursor: Cursor = None,
    json: Json = False,
    ndjson: Ndjson = False,
    redact: Redact = None,
    no_refresh: NoRefresh = False,
) -> int:
    """List sessions, newest first.

    \b
    Example:
      aj sessions --here --since 1w
    """
    query = asked(words, filters)
    from msgspec.structs import replace

    from agent_journal.search import Freshness

    with opened() as journal, shown_progress() as progress:
        fresh = Freshness() if no_refresh else journal.refresh(progress)
        page = journal.sessions(query, limit or LISTED, cursor=cursor)
    found = FOUND if page.sessions else NOTHING
    if redactor := redacting(redact, machine=json or ndjson):
        notes = tuple(map(redactor.text, page.notes))
        page = replace(page, sessions=tuple(map(redactor.session, page.sessions)), notes=notes)
    if json or ndjson:
        from agent_journal.render import machine

        listed = [machine.listed_session(stored, journal.resume(stored)) for stored in page.sessions]
        if ndjson:
            put_rows(listed)
            say_object(machine.sessions_facts(page, fresh, redactor))
        else:
            put_object(machine.sessions_object(page, fresh, listed, redactor))
        return found
    from agent_journal.render.sessions import session_list_lines
    from agent_journal.render.style import look_at
    from agent_journal.render.terminal import list_status_lines

    put(session_list_lines(page.sessions, look_at(sys.stdout)))
    say(list_status_lines(page, fresh, look_at(sys.stderr)))
    return found


@app.command()
def resume(
    session: Annotated[str, typer.Argument(metavar="SESSION")],
    print_: Annotated[bool, typer.Option("--print", help="Print the command instead of running it.")] = False,
    json: Json = False,
) -> int:
    """Continue a session in its own agent, in its own folder.

    SESSION is an id, the beginning of one, a slug, or the number of a hit of the last search. Aider cannot be told
    which of its sessions to go on with: it restores the chat history of the folder, all of it.

    \b
    Example:
      aj resume 3
    """
    from agent_journal.errors import CannotResume
    from agent_journal.render.machine import resume_command, resume_object

    with opened() as journal:
        stored, _ = named_session(journal, session)
        command = journal.resume(stored)
    if command is None:
        if stored.gone:
            raise CannotResume("its agent no longer has this session here", "the journal has it whole: aj show")
        raise CannotResume(f"{stored.session.agent} cannot continue a session from outside", "open it in the agent")
    if json:
        put_object(resume_object(stored, command))
        return FOUND
    if command.cwd is None:
        say([UNKNOWN_FOLDER])
    if print_:
        put([resume_command(command) or ""])
        return FOUND
    from agent_journal.resuming import become

    return become(command, stored.session.origin.home)


@app.command()
def agents(json: Json = False) -> int:
    """List the known agents and where they are looked for.

    \b
    Example:
      aj agents
    """
    from agent_journal.connectors.registry import CONNECTORS

    with opened() as journal:
        known = {agent.agent: agent for agent in journal.agents()}
    pairs = [(c, known[c.agent]) for c in CONNECTORS if c.agent in known]
    if json:
        from agent_journal.render.machine import agent_object

        put_facts(agents=[agent_object(c, a) for c, a in pairs])
        return FOUND
    from agent_journal.render.report import agent_lines
    from agent_journal.render.style import look_at

    look = look_at(sys.stdout)
    for place, (connector, agent) in enumerate(pairs):
        put([""] * bool(place))
        put(agent_lines(connector, agent, look))
    return FOUND


@app.command()
def doctor(json: Json = False) -> int:
    """Check the journal and name what was left out.

    For each agent: files found, indexed and skipped, with every reason. Exits 1 on a problem.

    \b
    Example:
      aj doctor
    """
    with opened() as journal:
        health = journal.doctor()
    if json:
        from agent_journal.render.machine import report_object

        put_object(report_object(health))
    else:
        from agent_journal.render.report import health_lines
        from agent_journal.render.style import look_at

        put(health_lines(health, look_at(sys.stdout)))
    return FOUND if health.ok else NOTHING


def _chosen(
    journal: Journal, stored: StoredSession, ordinal: int | None, context: int | None
) -> Sequence[StoredMessage]:
    if ordinal is None:
        return journal.messages(stored)
    around = journal.config.search.default_context if context is None else context
    messages = journal.messages(stored, max(ordinal - around, 1), ordinal + around)
    if not any(message.ordinal == ordinal for message in messages):
        from agent_journal.errors import NoSuchSession

        count = stored.derived.message_count
        raise NoSuchSession(f"that session has no message {ordinal}; its messages are 1 to {count}")
    return messages


# Commands that live in files of their own, in the order of --help.
app.command()(export)
app.command("import")(import_)
app.command()(validate)
app.command()(stats)
app.command()(forget)
app.command()(backup)
app.command()(restore)
