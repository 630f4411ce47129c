"""The process: arguments in, exit code out. The only place that turns any error into a sentence.

A closed pipe ends quietly; a traceback is shown only to those who ask (AJ_DEBUG=1), for it may quote a log.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from collections.abc import Iterator, Sequence
from copy import copy

import click
import typer
from typer.models import CommandInfo, TyperInfo

from agent_journal.cli import app
from agent_journal.cli_output import FAILED, FOUND, INTERRUPTED
from agent_journal.errors import JournalError

DASH_HINT = "A query that starts with a dash goes after --: aj search -- --dry-run"
_REASONS = {
    errno.ENOSPC: ("the disk is full", "Free some space, or move the journal (storage.index_path)."),
    errno.EACCES: ("no permission", "Check who may read and write that path."),
    errno.EROFS: ("the file system is read-only", "Move the journal (storage.index_path) or set AJ_HOME."),
}


def run(argv: Sequence[str] | None = None) -> int:
    arguments = list(sys.argv[1:] if argv is None else argv)
    _keep_odd_characters_harmless()
    try:
        code = _run(arguments)
        sys.stdout.flush()
        sys.stderr.flush()
        return code
    except BrokenPipeError:
        _discard_output()
        return FOUND
    except KeyboardInterrupt:
        return _interrupted(arguments)
    except click.UsageError as error:
        if type(error).__name__ == "NoArgsIsHelpError":  # a group without its command; click < 8.2 has no such error
            sys.stdout.write(f"{error.format_message()}\n")
            return FOUND
        return _fail(arguments, "usage", error.format_message(), _usage_hint(error, arguments))
    except click.Abort:
        return _interrupted(arguments)
    except JournalError as error:
        return _fail(arguments, error.kind, error.message, error.hint)
    except OSError as error:
        path = f": {os.fsdecode(error.filename)}" if isinstance(error.filename, (str, bytes)) else ""
        if error.errno in _REASONS:
            _discard_output()
            reason, hint = _REASONS[error.errno]
            return _fail(arguments, "unwritable", f"{reason}{path}", hint)
        if path and error.strerror:  # a name that is too long, a loop of links: the system's own words are a sentence
            return _fail(arguments, "bad_path", f"{error.strerror.lower()}{path}", "Give another path.")
        return _unexpected(arguments, error)
    except Exception as error:  # noqa: BLE001 - the last resort: a sentence instead of a traceback
        return _unexpected(arguments, error)


def _run(arguments: list[str]) -> int:
    if "_AJ_COMPLETE" in os.environ:
        return int(_program().main(prog_name="aj", standalone_mode=False) or FOUND)
    names = command_names()
    meant = as_search(arguments, names)
    if meant == ["search", *arguments] and not _for_machines(arguments):
        sys.stderr.write(_slip_notice(arguments, names))
    command = _program(only=meant[0] if meant[0] in names else None)
    # Not command.main(): that has its own ideas about closed pipes and interrupts.
    try:
        with command.make_context("aj", meant) as context:
            return int(command.invoke(context) or FOUND)
    except click.exceptions.Exit as ended:
        return int(ended.exit_code)


def command_names() -> list[str]:
    return [name for name, _ in _commands()]


def _commands() -> Iterator[tuple[str, CommandInfo | TyperInfo]]:
    every: list[CommandInfo | TyperInfo] = [*app.registered_commands, *app.registered_groups]
    for info in every:
        yield str(info.name or getattr(info.callback, "__name__", "")), info


def _program(only: str | None = None) -> click.Group:
    """All of it, or with one command: to make the options of all twenty takes a fifth of the time of a search."""
    program = copy(app)
    if only is not None:
        chosen = [info for name, info in _commands() if name == only]
        program.registered_commands = [info for info in chosen if isinstance(info, CommandInfo)]
        program.registered_groups = [info for info in chosen if isinstance(info, TyperInfo)]
    command = typer.main.get_command(program)
    assert isinstance(command, click.Group)
    return command


def as_search(arguments: list[str], names: Sequence[str]) -> list[str]:
    """`aj words…` searches, unless the first word is a command's name; `aj help` is `aj --help`."""
    if not arguments:
        return ["--help"]
    if arguments[0] == "help" and (len(arguments) == 1 or arguments[1:] in [[name] for name in names]):
        return [*arguments[1:], "--help"]
    if arguments[0].startswith("-") and arguments[0] in _own_options():
        return arguments
    first = next((a for a in arguments if a == "--" or not a.startswith("-") or a == "-"), None)
    if first is None or first in names:
        return arguments
    return ["search", *arguments]


def _own_options() -> set[str]:
    return {"-h", "--help", *(option for parameter in _program("").params for option in parameter.opts)}


def _slip_notice(arguments: list[str], names: Sequence[str]) -> str:
    """For a search that may have been meant for a command: its first word is nearly that command's name."""
    first = next((a for a in arguments if a == "--" or not a.startswith("-")), "")
    meant = next((name for name in names if _is_one_slip(first, name)), None)
    return f"aj: searching for these words; did you mean aj {meant}?\n" if meant else ""


def _is_one_slip(word: str, name: str) -> bool:
    """Whether one letter too many, too few or another, or two letters exchanged, lie between them."""
    if len(word) != len(name):
        short, long = sorted((word, name), key=len)
        return any(long[:place] + long[place + 1 :] == short for place in range(len(long)))
    unlike = [place for place, (a, b) in enumerate(zip(word, name, strict=True)) if a != b]
    exchanged = len(unlike) == 2 and unlike[1] == unlike[0] + 1 and sorted(word) == sorted(name)
    return len(unlike) == 1 or exchanged


def _usage_hint(error: click.UsageError, arguments: list[str]) -> str:
    path = error.ctx.command_path if error.ctx else "aj"
    # `-not` is read as `-n ot`: then the complaint is about a number.
    mistaken = isinstance(error, click.NoSuchOption) or any(
        len(a) > 2 and a[0] == "-" and a[1].isalpha() for a in arguments
    )
    if mistaken and path in ("aj", "aj search", "aj sessions") and "--" not in arguments:
        return DASH_HINT
    return f"See {path} --help"


def _interrupted(arguments: Sequence[str]) -> int:
    hint = "what is done is kept; `aj reindex` goes on" if "reindex" in arguments[:1] else ""
    return _fail(arguments, "interrupted", "interrupted", hint, INTERRUPTED)


def _fail(arguments: Sequence[str], kind: str, message: str, hint: str = "", code: int = FAILED) -> int:
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()
    try:
        if _for_machines(arguments):
            from agent_journal.render.machine import encode, problem_object

            sys.stderr.write(encode(problem_object(kind, message, hint)).decode() + "\n")
        else:
            from agent_journal.render.style import look_at
            from agent_journal.render.terminal import error_lines

            sys.stderr.writelines(f"{line}\n" for line in error_lines(message, hint, look_at(sys.stderr).width))
        sys.stderr.flush()
    except BrokenPipeError:
        _discard_output()
    return code


def _for_machines(arguments: Sequence[str]) -> bool:
    options = arguments[: arguments.index("--")] if "--" in arguments else arguments
    return "--json" in options or "--ndjson" in options


def _unexpected(arguments: Sequence[str], error: Exception) -> int:
    """Its text is left out: it may quote a session."""
    if os.environ.get("AJ_DEBUG") == "1":
        raise error
    message = f"something unexpected went wrong ({type(error).__name__})"
    return _fail(arguments, "unexpected", message, "AJ_DEBUG=1 shows where.")


def _keep_odd_characters_harmless() -> None:
    """A terminal that cannot show a character shows a question mark, rather than ending the program."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="replace")


def _discard_output() -> None:
    """Python flushes again at exit and would complain there: let it flush into nothing."""
    nothing = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
            continue
        with contextlib.suppress(OSError, ValueError):
            os.dup2(nothing, stream.fileno())
