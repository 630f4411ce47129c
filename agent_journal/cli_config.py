"""`aj config`: what is in force, who set it, and changing one key without touching the rest of the file."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agent_journal.cli_journal import settings
from agent_journal.cli_options import Json, commands
from agent_journal.cli_output import FOUND, put, put_facts, say
from agent_journal.render.clean import clean_line

if TYPE_CHECKING:
    from agent_journal.config import Config, Value

config_app = commands(help="Show and change the settings (config.toml).")

MODEL = "index.vector.model"

Key = Annotated[str, typer.Argument(metavar="KEY")]


def _path() -> Path:
    from agent_journal.config import config_path

    return config_path(os.environ)


def _shown(value: Value) -> str:
    from agent_journal import config_file

    return clean_line(config_file.literal(list(value) if isinstance(value, tuple) else value))


@config_app.command("show")
def show(json: Json = False) -> int:
    """Print every setting in force, and who set it.

    A setting without a remark has its default.

    \b
    Example:
      aj config show
    """
    from agent_journal import config

    loaded = settings()
    origins = config.origins(loaded)
    if json:
        put_facts(path=str(_path()), config=config.dump(loaded), origins=origins)
        return FOUND
    for key, origin in origins.items():
        by = "" if origin == "default" else f"  # {clean_line(origin)}"
        put([f"{key} = {_shown(config.get_value(loaded, key))}{by}"])
    return FOUND


@config_app.command("path")
def path(json: Json = False) -> int:
    """Print where config.toml is, or would be.

    \b
    Example:
      aj config path
    """
    if json:
        put_facts(path=str(_path()), exists=_path().exists())
    else:
        put([clean_line(str(_path()))])
    return FOUND


@config_app.command("init")
def init(json: Json = False) -> int:
    """Write a config.toml with every setting explained.

    All are commented out, with their defaults. An existing file is never overwritten.

    \b
    Example:
      aj config init
    """
    from agent_journal import config

    config.init(_path())
    if json:
        put_facts(path=str(_path()))
    else:
        put([f"wrote {clean_line(str(_path()))}"])
    return FOUND


@config_app.command("get")
def get(key: Key, json: Json = False) -> int:
    """Print one setting; a list, one entry a line.

    \b
    Example:
      aj config get search.max_results
    """
    from agent_journal import config

    loaded = settings()
    value = config.get_value(loaded, key)
    if json:
        put_facts(key=key, value=value, origin=config.origins(loaded).get(key, "default"))
    elif isinstance(value, tuple):
        put(clean_line(item) for item in value)
    else:
        put([clean_line(value) if isinstance(value, str) else _shown(value)])
    return FOUND


@config_app.command("set")
def assign(
    key: Key,
    value: Annotated[str, typer.Argument(metavar="VALUE")],
    json: Json = False,
) -> int:
    """Change one setting in config.toml.

    Comments and other keys stay as they are. A list is written a,b or as in TOML. What else is wrong in the file is
    named, and does not hinder.

    \b
    Example:
      aj config set search.max_results 30
    """
    from agent_journal import config

    before = _value_before(key)
    after, loaded, problem = _changed(key, value)
    origin = config.origins(loaded).get(key, "") if loaded else "file"
    if json:
        put_facts(key=key, before=before, after=after, origin=origin, path=str(_path()))
    else:
        was = "" if before is None else f" (was {_shown(before)})"
        put([f"{key} = {_shown(after)}{was} in {clean_line(str(_path()))}"])
    if origin.startswith("environment") and not json:
        say([f"aj: the {origin} is set and still wins over the file"])
    say([f"aj: still wrong: {clean_line(problem)}"] * bool(problem))
    if key == MODEL and loaded:
        say(_without_model(loaded))
    return FOUND


def _without_model(config: Config) -> Iterator[str]:
    """It may come later; a slip would only be met by the next search."""
    from agent_journal.errors import BadModel, NoSuchModel
    from agent_journal.index.model import find
    from agent_journal.render.clean import clean_line
    from agent_journal.shelf import Shelf

    try:
        find(config.vector.model, Shelf(config).folders)
    except (BadModel, NoSuchModel) as error:
        yield f"aj: {clean_line(error.message)}; aj models list shows what there is"


def _changed(key: str, value: str) -> tuple[Value, Config | None, str]:
    """The new value and what is then in force, or what was wrong before and still is. A file that was good and would
    be no more is left as it was."""
    from agent_journal import config, config_file
    from agent_journal.connectors.registry import SOURCE_KEYS
    from agent_journal.errors import BadConfig

    file = _path()
    before = file.read_bytes() if file.is_file() else None
    was_good = not _problem()
    after = config.set_value(file, key, value, SOURCE_KEYS)
    try:
        return after, settings(), ""
    except BadConfig as error:
        if not was_good:
            return after, None, error.message
        if before is not None:
            config_file.write(file, before)
        raise


def _problem() -> str:
    from agent_journal.errors import BadConfig

    try:
        settings()
    except BadConfig as error:
        return error.message
    return ""


def _value_before(key: str) -> Value | None:
    """None where the file cannot be understood: set_value then says why."""
    from agent_journal import config
    from agent_journal.errors import BadConfig

    try:
        return config.get_value(settings(), key)
    except BadConfig:
        return None


@config_app.command("edit")
def edit() -> int:
    """Open config.toml in $VISUAL or $EDITOR, then check it.

    \b
    Example:
      EDITOR=nano aj config edit
    """
    from agent_journal import config
    from agent_journal.errors import BadConfig

    file = _path()
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR")
    if not editor:
        raise BadConfig("no editor is known: neither VISUAL nor EDITOR is set", f"Edit {file} yourself.")
    if not file.exists():
        config.init(file)
    try:
        done = subprocess.run([*shlex.split(editor), str(file)], check=False)
    except (OSError, ValueError) as error:
        raise BadConfig(f"the editor {editor} cannot be started: {error}", f"Edit {file} yourself.") from error
    if done.returncode:
        raise BadConfig(f"the editor {editor} ended with code {done.returncode}")
    settings()
    put([f"{clean_line(str(file))} is good"])
    return FOUND
