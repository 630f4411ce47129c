"""`aj forget`, `aj backup` and `aj restore`: what leaves the journal, and the journal as a whole.

What cannot be undone is asked of a person on a terminal, and of nobody else.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agent_journal.cli_journal import named_session, opened, settings, shown_progress
from agent_journal.cli_options import Json
from agent_journal.cli_output import FOUND, NOTHING, put, put_facts, say
from agent_journal.render.clean import clean_line

if TYPE_CHECKING:
    from datetime import datetime

    from agent_journal.index.forget_plan import Plan
    from agent_journal.index.restore import Restored
    from agent_journal.search import Journal

LISTED, NAMED = 20, 5
ALL = -1  # no limit to SQLite

Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


def forget(
    sessions: Annotated[list[str] | None, typer.Argument(metavar="[SESSION]...", show_default=False)] = None,
    project: Annotated[
        str | None, typer.Option("--project", metavar="NAME", help="Sessions of this project alone.")
    ] = None,
    before: Annotated[
        str | None, typer.Option("--before", metavar="WHEN", help="Sessions that ended before then: 2026-03-01, 26w.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be forgotten; change nothing.")] = False,
    yes: Yes = False,
    undo: Annotated[bool, typer.Option("--undo", help="Let these sessions in again.")] = False,
    everything: Annotated[bool, typer.Option("--all", help="With --undo: all that was forgotten.")] = False,
    list_: Annotated[bool, typer.Option("--list", help="List what was forgotten.")] = False,
    json: Json = False,
) -> int:
    """Remove sessions from the journal, for good.

    SESSION is an id, the beginning of one, a slug, or the number of a hit of the last search. Their sub-agents go with
    them. Nothing of them is left in the journal, its word index and its vectors, and they are not taken in again. The
    agents' own files are not touched. With several conditions, sessions must fit all of them. --project takes a whole
    name, in which * stands for anything.

    \b
    Example:
      aj forget --project shop --before 2025-01-01 --dry-run
    """
    with opened() as journal:
        if list_:
            return _put_forgotten(journal, json)
        if undo:
            return _let_all_in(journal, json) if everything else _let_in(journal, sessions or [], json)
        if everything:
            raise typer.BadParameter("goes with --undo only", param_hint="--all")
        if not (sessions or project or before):
            raise typer.BadParameter("say what to forget: a session, --project or --before", param_hint="SESSION")
        plan = _planned(journal, sessions or [], project, before)
        if dry_run or not plan.sessions:
            _put_plan(plan, _strangers(journal, project), json, done=False)
            return FOUND if plan.sessions else NOTHING
        if not yes:
            _check_can_ask("forget", json)
            _put_plan(plan, [], json, done=False)
            if not _confirmed(f"Forget {_them(plan)} for good?"):
                say(["nothing was forgotten"])
                return NOTHING
        left = _forget(journal, plan)
        _put_plan(plan, left, json, done=True)
    return FOUND


def _planned(journal: Journal, sessions: Sequence[str], project: str | None, before: str | None) -> Plan:
    from agent_journal.index.forget_plan import chosen

    named = {_whole(journal, name) for name in sessions} if sessions else None
    fits = _project(project) if project else None
    return chosen(journal.store, named, fits, _moment(before) if before else None)


def _whole(journal: Journal, name: str) -> str:
    stored, ordinal = named_session(journal, name)
    if ordinal is not None and ":" in name:
        raise typer.BadParameter(f"{name} is one message; only whole sessions are forgotten", param_hint="SESSION")
    return stored.session.key


def _project(name: str) -> Callable[[str], bool]:
    """The whole name, as `aj sessions` shows it; in a search a word of it will do, but this is for good."""
    import re

    pattern = re.compile(".*".join(map(re.escape, clean_line(name).lower().split("*"))))
    return lambda project: bool(project) and pattern.fullmatch(clean_line(project).lower()) is not None


def _strangers(journal: Journal, name: str | None) -> list[str]:
    """That no project has this name, and which have one like it."""
    if not name:
        return []
    import difflib

    fits, sought = _project(name), name.lower().strip("*…")
    counts = Counter(s.derived.project for s in journal.store.newest_sessions(ALL)[1] if s.derived.project)
    if any(map(fits, counts)):
        return []
    spelled = difflib.get_close_matches(sought, map(str.lower, counts), LISTED)
    near = Counter({p: count for p, count in counts.items() if sought in p.lower() or p.lower() in spelled})
    return [f"no project is called {name}; " + (f"there are {_by_project(near)}" if near else "see `aj sessions`")]


def _projects(plan: Plan) -> Counter[str]:
    return Counter(session.derived.project for session in plan.sessions)


def _by_project(counts: Counter[str]) -> str:
    """web (12), web-admin (1): how many sessions each has."""
    from agent_journal.render.style import counted

    first = sorted(counts.items(), key=lambda each: (-each[1], each[0].lower()))[:LISTED]
    named = [f"{clean_line(project) or 'no project'} ({count:,})" for project, count in first]
    rest = len(counts) - len(named)
    return ", ".join([*named, *[f"and {counted(rest, 'more', 'more')}"] * bool(rest)])


def _them(plan: Plan) -> str:
    counts = _projects(plan)
    return "them" if len(counts) < 2 else f"the sessions of {_by_project(counts)}"


def _moment(text: str) -> datetime:
    from agent_journal.dates import local_now, moment
    from agent_journal.errors import BadQuery

    try:
        return moment(text, local_now(), end=False)
    except BadQuery as error:
        raise BadQuery(f"--before {text} — {error.message}") from error


def _forget(journal: Journal, plan: Plan) -> list[str]:
    from agent_journal.index.forget import forget
    from agent_journal.index.restore import kept_aside

    with shown_progress() as progress:
        left = [*forget(journal.store, journal.config, plan, progress)]
    left += [f"{path} was set aside by a restore, and is as it was" for path in kept_aside(journal.folder)]
    return left


def _put_plan(plan: Plan, left: Sequence[str], json: bool, *, done: bool) -> None:
    if json:
        from agent_journal.render.machine import listed_session

        put_facts(
            forgotten=done,
            sessions=[{"key": s.session.key} if done else listed_session(s, None) for s in plan.sessions],
            messages=plan.messages,
            also_in=[{"session": key, "messages": count} for key, count in plan.also_in],
            files=list(plan.files),
            notes=list(left),
        )
        return
    from agent_journal.render.sessions import session_list_lines
    from agent_journal.render.style import counted, look_at

    if not plan.sessions:
        say(map(clean_line, left or ["no session fits"]))
        return
    count = f"{counted(len(plan.sessions), 'session')} with {counted(plan.messages, 'message')}"
    if done:
        put([f"forgot {count}"])
    else:
        put(session_list_lines(plan.sessions[:LISTED], look_at(sys.stdout)))
        put([f"… and {len(plan.sessions) - LISTED:,} more (--json lists all)"] * (len(plan.sessions) > LISTED))
        put([count])
        put([f"projects: {_by_project(_projects(plan))}"] * (len(_projects(plan)) > 1))
        put(map(clean_line, _warnings(plan)))
    say(map(clean_line, left))


def _warnings(plan: Plan) -> Iterator[str]:
    """What stays, for a user who thinks that everything goes."""
    from agent_journal.render.style import counted

    for key, count in plan.also_in[:NAMED]:
        yield f"{counted(count, 'message')} of them also in {key}, which stays"
    if len(plan.also_in) > NAMED:
        yield f"… and in {counted(len(plan.also_in) - NAMED, 'more session')}"
    for path in plan.files[:NAMED]:
        yield f"the agent's own file stays: {path}"
    if len(plan.files) > NAMED:
        yield f"… and {counted(len(plan.files) - NAMED, 'more file')}"
    yield "earlier backups and exports hold what they hold"


def _check_can_ask(command: str, json: bool = False) -> None:
    if json or not sys.stdin.isatty():
        raise typer.BadParameter(f"aj {command} asks on a terminal only; elsewhere say --yes", param_hint="--yes")


def _confirmed(question: str) -> bool:
    sys.stdout.flush()
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _let_in(journal: Journal, names: Sequence[str], json: bool) -> int:
    from agent_journal.index.forget import let_in

    if not names:
        raise typer.BadParameter("say which: a key of aj forget --list", param_hint="SESSION")
    keys = let_in(journal.store, names)
    if json:
        put_facts(let_in=keys)
    else:
        put(f"{key} comes back with the next aj reindex, if its file still exists" for key in keys)
    return FOUND


def _let_all_in(journal: Journal, json: bool) -> int:
    from agent_journal.index.forgotten import Forgotten

    if keys := [entry.key for entry in Forgotten(journal.store).entries()]:
        return _let_in(journal, keys, json)
    if json:
        put_facts(let_in=[])
    else:
        say(["nothing is forgotten"])
    return NOTHING


def _put_forgotten(journal: Journal, json: bool) -> int:
    from agent_journal.index.forgotten import Forgotten
    from agent_journal.render.machine import utc
    from agent_journal.render.style import counted, local

    entries = Forgotten(journal.store).entries()
    if json:
        put_facts(forgotten=[{"key": e.key, "at": utc(e.at), "sub_agents": e.with_it} for e in entries])
    for entry in [] if json else entries:
        more = f" and {counted(entry.with_it, 'sub-agent')}" if entry.with_it else ""
        put([f"{local(entry.at)}  {clean_line(entry.key)}{more}"])
    if not entries and not json:
        say(["nothing is forgotten"])
    return FOUND if entries else NOTHING


def backup(
    file: Annotated[Path | None, typer.Argument(metavar="[FILE]", show_default=False)] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there.")] = False,
    json: Json = False,
) -> int:
    """Write the journal to one file.

    Others may read and write the journal meanwhile. In it are journal.db and config.toml, whole and not redacted: keep
    it as you keep the journal. FILE is agent-journal_DATE_TIME.tar.gz in the current folder if it is not given, or in
    FILE if that is a folder.

    \b
    Example:
      aj backup ~/backups/journal.tar.gz
    """
    from agent_journal.config import config_path
    from agent_journal.dates import local_now
    from agent_journal.index.backup import backup, default_name

    target = file or Path()
    target = (target / default_name(local_now()) if target.is_dir() else target).absolute()
    with opened() as journal, shown_progress() as progress:
        manifest = backup(journal.store, config_path(os.environ), target, force=force, progress=progress)
    size = target.stat().st_size
    if json:
        import msgspec

        put_facts(file=str(target), bytes=size, **msgspec.to_builtins(manifest))
        return FOUND
    from agent_journal.render.style import counted, sized

    contents = f"{counted(manifest.sessions, 'session')}, {counted(manifest.messages, 'message')}, {sized(size)}"
    put([f"{clean_line(str(target))}: {contents}"])
    say(["nothing in it is redacted: keep it as you keep the journal"])
    return FOUND


def restore(
    file: Annotated[Path, typer.Argument(metavar="FILE")],
    replace: Annotated[
        bool, typer.Option("--replace", help="Put it in place of the journal, which is kept under another name.")
    ] = False,
    yes: Yes = False,
    json: Json = False,
) -> int:
    """Make a backup the journal.

    FILE is what aj backup wrote. It is checked whole before anything is changed. The word index is made anew;
    config.toml is restored only where there is none.

    \b
    Example:
      aj restore ~/backups/journal.tar.gz
    """
    from agent_journal.dates import local_now
    from agent_journal.index.restore import restore
    from agent_journal.index.store import DATABASE

    config = settings()
    if replace and not yes and (config.storage.index_path / DATABASE).exists():
        _check_can_ask("restore --replace", json)
        if not _confirmed(f"Put {file} in place of the journal in {config.storage.index_path}?"):
            say(["nothing was restored"])
            return NOTHING
    with shown_progress() as progress:
        restored = restore(file, config, replace=replace, now=local_now(), progress=progress)
    notes = [*_restored_config(restored), *restored.notes]
    _put_restored(restored, notes, json)
    return FOUND


def _restored_config(restored: Restored) -> Iterator[str]:
    from agent_journal.config import config_path
    from agent_journal.connectors.registry import SOURCE_KEYS
    from agent_journal.index.restore import put_config

    if restored.config is not None:
        yield put_config(restored.config, config_path(os.environ), os.environ, SOURCE_KEYS)


def _put_restored(restored: Restored, notes: Sequence[str], json: bool) -> None:
    manifest, aside = restored.manifest, restored.set_aside
    if json:
        import msgspec

        put_facts(set_aside=str(aside) if aside else None, notes=list(notes), **msgspec.to_builtins(manifest))
        return
    from agent_journal.render.style import counted, local

    contents = f"{counted(manifest.sessions, 'session')} and {counted(manifest.messages, 'message')}"
    put([f"restored {contents}, as of {local(manifest.created)}"])
    put([f"the journal that was there is kept: {clean_line(str(aside))}"] if aside else [])
    put(["found by words now; by meaning after `aj reindex`"])
    say(map(clean_line, notes))
