"""What the user has settled: defaults, above them config.toml, above that the environment (then flags).

Reading never writes. A wrong key or value is refused by name and line, never skipped: a setting that silently
does nothing is worse than none. Agents are not known here; their keys and variables are passed in.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from agent_journal import config_file
from agent_journal.config_edit import dump, example_text, get_value, init, origins, set_value
from agent_journal.config_keys import (
    HOMES,
    NAME_OF_A_HOME,
    OLD_NAMES,
    TABLES,
    Config,
    Export,
    Index,
    Kind,
    Refused,
    Search,
    Setting,
    Storage,
    Value,
    Vector,
    accepted,
    home_setting,
    keys,
    shown,
    unknown_key,
    unknown_table,
)
from agent_journal.errors import BadConfig

NO_AGENTS: Mapping[str, str] = MappingProxyType({})

# --- where things are -----------------------------------------------------------------------------------


def journal_home(environ: Mapping[str, str] = os.environ) -> Path:
    given = environ.get("AJ_HOME")
    return _from_here(given, "AJ_HOME", environ) if given else home_folder(environ) / ".agent-journal"


def config_path(environ: Mapping[str, str] = os.environ) -> Path:
    return journal_home(environ) / "config.toml"


def model_folders(config: Config, environ: Mapping[str, str] = os.environ) -> tuple[Path, Path]:
    """Where `aj models add` puts models, and where the user keeps their own."""
    return journal_home(environ) / "models", config.vector.model_path


def home_folder(environ: Mapping[str, str]) -> Path:
    given = environ.get("HOME") or environ.get("USERPROFILE")
    if given:
        return Path(given)
    try:
        return Path.home()
    except RuntimeError as error:
        raise BadConfig("no home folder is known; set HOME") from error


def _expanded(text: str, environ: Mapping[str, str]) -> str:
    if text == "~" or text.startswith(("~/", "~\\")):
        return str(home_folder(environ) / text[2:])
    if not text.startswith("~"):
        return text
    try:
        return str(Path(text).expanduser())
    except RuntimeError:  # no such user: the name of a file after all
        return text


def _from_here(text: str, variable: str, environ: Mapping[str, str]) -> Path:
    try:
        return Path(_expanded(text, environ)).absolute()
    except OSError as error:
        raise BadConfig(f"{variable} is a relative path, and the current folder is gone") from error


# --- reading --------------------------------------------------------------------------------------------


def load(environ: Mapping[str, str] = os.environ, agents: Mapping[str, str] = NO_AGENTS) -> Config:
    """`agents`: key below [storage.sources] -> environment variable that replaces it.

    Raises BadConfig with the file, line and key.
    """
    settings = {s.key: s for s in keys(agents)}
    values: dict[str, Any] = {s.key: _placed(s, s.default, Path(), environ) for s in settings.values()}
    set_by: dict[str, str] = {}
    values["storage.index_path"] = str(journal_home(environ) / "index")
    if environ.get("AJ_HOME"):
        set_by["storage.index_path"] = "environment AJ_HOME"
    document = config_file.read(config_path(environ))
    if document is not None:
        for key, value in _file_values(document, settings):
            setting = settings.get(key) or home_setting(key)
            assert setting is not None  # _file_values yields no others
            values[key] = _placed(setting, value, document.path.parent, environ)
            set_by[key] = "file"
    replaced = set()
    for key, variable, value in _environment_values(environ, agents):
        values[key] = value
        set_by[key] = f"environment {variable}"
        replaced.add(key.rpartition(".")[2])
    return _built(values, frozenset(replaced & agents.keys()), set_by)


def _built(values: Mapping[str, Any], replaced: frozenset[str], set_by: Mapping[str, str]) -> Config:
    tables: dict[str, dict[str, Any]] = {table: {} for table in TABLES}
    for key, value in values.items():
        table, _, name = key.rpartition(".")
        tables[table][name] = value
    only = tables["storage.sources"].pop("only")
    storage, vector = tables["storage"], tables["index.vector"]
    return Config(
        Storage(Path(storage["index_path"]), storage["roots"], tables["storage.sources"], only, replaced),
        Index(**tables["index"]),
        Vector(**(vector | {"model_path": Path(vector["model_path"])})),
        Search(**tables["search"]),
        Export(**tables["export"]),
        {label: Path(path) for label, path in tables[HOMES].items()},
        set_by,
    )


def _placed(setting: Setting, value: Value, folder: Path, environ: Mapping[str, str]) -> Value:
    """`~` expanded. A relative path starts at the file's folder: one journal, wherever `aj` is called."""
    if setting.kind is Kind.PATH and isinstance(value, str):
        return str(folder / _expanded(value, environ))
    if isinstance(value, tuple):
        return tuple(_expanded(item, environ) for item in value)
    return value


_GLOB_MARKS = re.compile(r"[*?\[]")


def _environment_values(
    environ: Mapping[str, str], agents: Mapping[str, str]
) -> Iterator[tuple[str, str, str | tuple[str, ...]]]:
    """(key, variable, value); an empty variable counts as unset."""
    if given := environ.get("AJ_INDEX_PATH"):
        yield "storage.index_path", "AJ_INDEX_PATH", str(_from_here(given, "AJ_INDEX_PATH", environ))
    for agent, variable in agents.items():
        sources = tuple(
            _expanded(item, environ) if _GLOB_MARKS.search(item) else str(_from_here(item, variable, environ))
            for item in environ.get(variable, "").split(os.pathsep)
            if item
        )
        if sources:
            yield f"storage.sources.{agent}", variable, sources


def _file_values(document: config_file.Document, settings: Mapping[str, Setting]) -> Iterator[tuple[str, Value]]:
    written: dict[str, str] = {}
    for name, value in _flat(document, document.data, (), settings):
        key = OLD_NAMES.get(name, name)
        try:
            if key in written:
                old = name if name in OLD_NAMES else written[key]
                raise Refused(f"{old} is the old name of {key}; keep one of them")
            setting = settings.get(key) or home_setting(key)
            assert setting is not None  # _flat yields no others
            yield key, accepted(setting, value, name)
        except Refused as error:
            raise _at(document, tuple(name.split(".")), str(error)) from error
        written[key] = name


def _flat(
    document: config_file.Document,
    table: Mapping[str, Any],
    above: tuple[str, ...],
    settings: Mapping[str, Setting],
) -> Iterator[tuple[str, Any]]:
    for name, value in table.items():
        path = (*above, name)
        key = "" if "." in name else ".".join(path)  # "a.b" in quotes is not a.b
        if key in TABLES:
            if not isinstance(value, dict):
                raise _at(document, path, f"{key} must be a table, [{key}], not {shown(value)}")
            yield from _flat(document, value, path, settings)
        elif key in settings or key in OLD_NAMES or home_setting(key):
            yield key, value
        elif above == (HOMES,):
            raise _at(document, path, f"{key}: {NAME_OF_A_HOME}")
        elif isinstance(value, dict):
            raise _at(document, path, unknown_table(path))
        else:
            raise _at(document, path, unknown_key(path, settings))


def _at(document: config_file.Document, path: tuple[str, ...], reason: str) -> BadConfig:
    return BadConfig(f"{document.path}, line {document.line_of(path)}: {reason}")


__all__ = [
    "Config",
    "Export",
    "Index",
    "Search",
    "Setting",
    "Storage",
    "Value",
    "Vector",
    "config_path",
    "dump",
    "example_text",
    "get_value",
    "home_folder",
    "init",
    "journal_home",
    "keys",
    "load",
    "model_folders",
    "origins",
    "set_value",
]
