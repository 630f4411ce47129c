"""What the user has settled: defaults, above them config.toml, above that the environment (then flags).

Reading never writes. A wrong key or value is refused by name and line, never skipped: a setting that silently
does nothing is worse than none. Agents are not known here; their keys and variables are passed in.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Any

from agent_journal import config_file
from agent_journal.errors import BadConfig

Value = bool | int | str | tuple[str, ...]

# Accepted below [storage.sources] whether or not a connector reads them, with the paths of the first design.
NAMED_AGENTS: Mapping[str, str] = MappingProxyType(
    {
        "copilot_cli": "~/.copilot-cli/sessions",
        "claude_code": "~/.claude/projects",
        "cursor": "~/.cursor/conversations",
        "aider": "**/.aider.chat.history.md",
    }
)
NO_AGENTS: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Storage:
    index_path: Path
    roots: tuple[str, ...] = ()
    sources: Mapping[str, tuple[str, ...]] = field(
        default_factory=dict
    )  # every known agent, most of them empty
    only: bool = False
    replaced: frozenset[str] = frozenset()  # agents whose sources the environment gave

    def discovers(self, agent_key: str) -> bool:
        """Whether the agent's usual places are looked at beside its configured sources."""
        return not self.only and agent_key not in self.replaced


@dataclass(frozen=True, slots=True)
class Index:
    writer_memory_mb: int = 64
    vector_precision: str = "f16"
    thinking: bool = True
    tool_output_chars: int = 20_000
    exclude: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Vector:
    enabled: bool = True
    model_path: Path = Path("~/.chats/models")  # load() expands it
    fallback: str = "hash"


@dataclass(frozen=True, slots=True)
class Search:
    default_mode: str = "hybrid"
    default_context: int = 3
    max_results: int = 20
    clip_chars: int = 600


@dataclass(frozen=True, slots=True)
class Export:
    default_format: str = "html"
    html_theme: str = "dark"
    include_tool_calls: bool = True


@dataclass(frozen=True, slots=True)
class Config:
    storage: Storage
    index: Index = Index()
    vector: Vector = Vector()
    search: Search = Search()
    export: Export = Export()
    origins: Mapping[str, str] = field(
        default_factory=dict
    )  # dotted key -> who set it; defaults are left out


class Kind(StrEnum):
    FLAG = "true or false"
    NUMBER = "a whole number"
    CHOICE = "one of"
    PATH = "a path"
    PATTERNS = "a path, a glob or a list of them"


@dataclass(frozen=True, slots=True)
class Setting:
    key: str  # dotted, as in the file
    kind: Kind
    help: str
    choices: tuple[str, ...] = ()
    at_least: int = 0
    at_most: int = 0
    because: str = ""  # why a number has bounds

    @property
    def default(self) -> Value:
        return _value_of(_DEFAULTS, self.key)

    @property
    def type(self) -> str:
        if self.kind is Kind.NUMBER:
            return f"a whole number from {self.at_least} to {self.at_most}"
        return f"one of {', '.join(self.choices)}" if self.kind is Kind.CHOICE else self.kind.value


_SETTINGS = (
    Setting("storage.index_path", Kind.PATH, "The journal and both search indexes, one for all agents."),
    Setting(
        "storage.roots",
        Kind.PATTERNS,
        "Folders in which relative globs are looked for; [] means the workspaces of other sessions.",
    ),
    Setting(
        "storage.sources.only",
        Kind.FLAG,
        "true reads only the sources named here; false adds them to those found by themselves.",
    ),
    Setting(
        "index.writer_memory_mb",
        Kind.NUMBER,
        "Memory of the lexical index's writer, in MB; more makes a first run faster.",
        at_least=15,  # tantivy refuses below 15,000,000 bytes and above 4,293,967,295
        at_most=4095,
        because="tantivy needs 15 MB and takes at most 4095 MB",
    ),
    Setting(
        "index.vector_precision",
        Kind.CHOICE,
        "f16 halves the size of the vectors; f32 keeps every bit.",
        choices=("f16", "f32"),
    ),
    Setting("index.thinking", Kind.FLAG, "Makes the model's thinking searchable; it stays on this machine."),
    Setting(
        "index.tool_output_chars",
        Kind.NUMBER,
        "Characters of a tool's result that are searchable, half from each end; the store keeps all.",
        at_most=10_000_000,
    ),
    Setting(
        "index.exclude",
        Kind.PATTERNS,
        'Workspaces or files that are never read, e.g. ["~/private/**"].',
    ),
    Setting("index.vector.enabled", Kind.FLAG, "Search by meaning, beside search by words."),
    Setting("index.vector.model_path", Kind.PATH, "Where ONNX models are kept, beside the bundled one."),
    Setting(
        "index.vector.fallback",
        Kind.CHOICE,
        "Without a model: hash makes vectors from the words alone, none turns search by meaning off.",
        choices=("hash", "none"),
    ),
    Setting(
        "search.default_mode",
        Kind.CHOICE,
        "hybrid fuses lexical (words) and semantic (meaning).",
        choices=("hybrid", "lexical", "semantic"),
    ),
    Setting(
        "search.default_context", Kind.NUMBER, "Messages shown before and after each match.", at_most=1000
    ),
    Setting("search.max_results", Kind.NUMBER, "Matches on a page.", at_least=1, at_most=10_000),
    Setting(
        "search.clip_chars",
        Kind.NUMBER,
        "Characters of a message in --json output; a reader pays for each.",
        at_least=40,
        at_most=1_000_000,
    ),
    Setting(
        "export.default_format",
        Kind.CHOICE,
        "What `aj export` writes when no format is asked for.",
        choices=("html", "markdown", "ndjson", "sessiondata"),
    ),
    Setting(
        "export.html_theme",
        Kind.CHOICE,
        "auto follows the reader's system.",
        choices=("dark", "light", "auto"),
    ),
    Setting("export.include_tool_calls", Kind.FLAG, "Tool calls and their results, beside what was said."),
)
_TABLES = {
    "storage": "Where the journal is kept and where sessions are found.",
    "storage.sources": "Sessions in unusual places: a path, a glob or a list, for any agent of `aj agents`.",
    "index": "What is searchable and what it costs.",
    "index.vector": "Search by meaning.",
    "search": "How `aj search` answers when not told otherwise.",
    "export": "How `aj export` writes when not told otherwise.",
}
_OLD_NAMES = {"index.lucene_ram_buffer_mb": "index.writer_memory_mb"}
_DEFAULTS = Config(Storage(Path("~/.agent-journal/index")))


def keys(agents: Iterable[str] = ()) -> list[Setting]:
    """Every setting in the order of the example file, with a source for each agent known or passed in."""
    sources = [
        Setting(
            f"storage.sources.{key}", Kind.PATTERNS, f"Where {key} sessions are, beside the usual places."
        )
        for key in dict.fromkeys((*NAMED_AGENTS, *agents))
    ]
    place = next(i for i, s in enumerate(_SETTINGS) if s.key == "storage.sources.only")
    return [*_SETTINGS[:place], *sources, *_SETTINGS[place:]]


# --- where things are -----------------------------------------------------------------------------------


def journal_home(environ: Mapping[str, str] = os.environ) -> Path:
    given = environ.get("AJ_HOME")
    return _from_here(given, "AJ_HOME", environ) if given else home_folder(environ) / ".agent-journal"


def config_path(environ: Mapping[str, str] = os.environ) -> Path:
    return journal_home(environ) / "config.toml"


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


class _Refused(ValueError):
    """Why a value cannot be taken; the caller adds where it stands."""


def load(environ: Mapping[str, str] = os.environ, agents: Mapping[str, str] = NO_AGENTS) -> Config:
    """`agents`: key below [storage.sources] -> environment variable that replaces it.

    Raises BadConfig with the file, line and key.
    """
    settings = {s.key: s for s in keys(agents)}
    values: dict[str, Any] = {s.key: _placed(s, s.default, Path(), environ) for s in settings.values()}
    origins: dict[str, str] = {}
    values["storage.index_path"] = str(journal_home(environ) / "index")
    if environ.get("AJ_HOME"):
        origins["storage.index_path"] = "environment AJ_HOME"
    document = config_file.read(config_path(environ))
    if document is not None:
        for key, value in _file_values(document, settings):
            values[key] = _placed(settings[key], value, document.path.parent, environ)
            origins[key] = "file"
    replaced = set()
    for key, variable, value in _environment_values(environ, agents):
        values[key] = value
        origins[key] = f"environment {variable}"
        replaced.add(key.rpartition(".")[2])
    return _built(values, frozenset(replaced & agents.keys()), origins)


def _built(values: Mapping[str, Any], replaced: frozenset[str], origins: Mapping[str, str]) -> Config:
    tables: dict[str, dict[str, Any]] = {table: {} for table in _TABLES}
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
        origins,
    )


def _placed(setting: Setting, value: Value, folder: Path, environ: Mapping[str, str]) -> Value:
    """`~` expanded. A relative path starts at the config file's folder: one journal, wherever `aj` is called."""
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


def _file_values(
    document: config_file.Document, settings: Mapping[str, Setting]
) -> Iterator[tuple[str, Value]]:
    written: dict[str, str] = {}
    for name, value in _flat(document, document.data, (), settings):
        key = _OLD_NAMES.get(name, name)
        setting = settings[key]
        try:
            if key in written:
                old, new = sorted((written[key], name), key=lambda n: n not in _OLD_NAMES)
                raise _Refused(f"{old} is the old name of {new}; keep one of them")
            yield key, _CHECKS[setting.kind](setting, name, value)
        except _Refused as error:
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
        key = ".".join(path)
        if "." not in name and key in _TABLES:
            if not isinstance(value, dict):
                raise _at(document, path, f"{key} must be a table, [{key}], not {_shown(value)}")
            yield from _flat(document, value, path, settings)
        elif "." not in name and (key in settings or key in _OLD_NAMES):
            yield key, value
        elif isinstance(value, dict):
            raise _at(document, path, _unknown_table(path))
        else:
            raise _at(document, path, _unknown_key(path, settings))


def _at(document: config_file.Document, path: tuple[str, ...], reason: str) -> BadConfig:
    return BadConfig(f"{document.path}, line {document.line_of(path)}: {reason}")


# --- what is wrong, and what would be right -------------------------------------------------------------


def _near(word: str, words: Iterable[str], likeness: float = 0.6) -> str | None:
    import difflib

    return next(iter(difflib.get_close_matches(word, list(words), 1, likeness)), None)


def _dotted(path: tuple[str, ...]) -> str:
    return ".".join(name if re.fullmatch(r"[\w-]+", name) else json.dumps(name) for name in path)


def _unknown_key(path: tuple[str, ...], settings: Iterable[str]) -> str:
    """The nearest key of the same table, else of the others, else what the table holds."""
    table, name = ".".join(path[:-1]), path[-1]
    here: dict[str, str] = {}
    elsewhere: dict[str, str] = {}
    for key in settings:
        above, _, leaf = key.rpartition(".")
        (here if above == table else elsewhere)[leaf] = key
    words = name.replace("-", "_").rpartition(".")[2].lower()
    if near := _near(words, here):
        return f"unknown key {_dotted(path)}; did you mean {here[near]}?"
    if near := _near(words, elsewhere, 0.8):
        return f"unknown key {_dotted(path)}; did you mean {elsewhere[near]}?"
    holds = f"[{table}] has {', '.join(here)}" if here else f"the tables are {_table_names()}"
    return f"unknown key {_dotted(path)}; {holds}"


def _unknown_table(path: tuple[str, ...]) -> str:
    leaves = {table.rpartition(".")[2]: table for table in _TABLES}
    near = _near(path[-1].lower(), leaves)
    right = f"did you mean [{leaves[near]}]?" if near else f"the tables are {_table_names()}"
    return f"unknown table [{_dotted(path)}]; {right}"


def _table_names() -> str:
    return ", ".join(f"[{table}]" for table in _TABLES)


_SHOWN_CHARS = 60


def _shown(value: object) -> str:
    if isinstance(value, (bool, int, float, str)):
        text = json.dumps(value, ensure_ascii=False)
        return text if len(text) <= _SHOWN_CHARS else text[:_SHOWN_CHARS] + "…"
    if isinstance(value, dict):
        return "a table"
    return "a list" if isinstance(value, list) else "a date or time"


def _mistyped(setting: Setting, name: str, value: object) -> _Refused:
    return _Refused(f"{name} must be {setting.type}, not {_shown(value)}")


def _flag(setting: Setting, name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise _mistyped(setting, name, value)
    return value


def _number(setting: Setting, name: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise _mistyped(setting, name, value)
    if not setting.at_least <= value <= setting.at_most:
        reason = f": {setting.because}" if setting.because else ""
        raise _Refused(f"{_mistyped(setting, name, value)}{reason}")
    return value


def _choice(setting: Setting, name: str, value: object) -> str:
    if not isinstance(value, str):
        raise _mistyped(setting, name, value)
    if value not in setting.choices:
        near = _near(value.lower(), setting.choices)
        raise _Refused(f"{_mistyped(setting, name, value)}" + (f'; did you mean "{near}"?' if near else ""))
    return value


def _path(setting: Setting, name: str, value: object) -> str:
    if not isinstance(value, str):
        raise _mistyped(setting, name, value)
    if not value.strip() or "\0" in value:
        raise _Refused(
            f"{name} must be {setting.type}, not {'empty' if not value.strip() else _shown(value)}"
        )
    return value


def _patterns(setting: Setting, name: str, value: object) -> tuple[str, ...]:
    if not isinstance(value, (str, list)):
        raise _mistyped(setting, name, value)
    listed = [value] if isinstance(value, str) else value
    for item in listed:
        if not isinstance(item, str):
            raise _Refused(f"{name} must be {setting.type}, not a list with {_shown(item)} in it")
        _path(setting, name, item)
    return tuple(listed)


_CHECKS: dict[Kind, Callable[[Setting, str, object], Value]] = {
    Kind.FLAG: _flag,
    Kind.NUMBER: _number,
    Kind.CHOICE: _choice,
    Kind.PATH: _path,
    Kind.PATTERNS: _patterns,
}


# --- one key at a time, for `aj config` -----------------------------------------------------------------


def get_value(config: Config, key: str) -> Value:
    """The effective value of a dotted key; paths as text."""
    return _value_of(config, _setting(key, config.storage.sources).key)


def _value_of(config: Config, key: str) -> Value:
    table, _, name = key.rpartition(".")
    if table == "storage.sources":
        return config.storage.only if name == "only" else config.storage.sources.get(name, ())
    value: Value | Path = getattr(getattr(config, table.rpartition(".")[2]), name)
    return value.as_posix() if isinstance(value, Path) else value


def _setting(key: str, agents: Iterable[str]) -> Setting:
    settings = {s.key: s for s in keys(agents)}
    found = settings.get(_OLD_NAMES.get(key, key))
    if found is not None:
        return found
    if key in _TABLES:
        inside = ", ".join(k for k in settings if k.rpartition(".")[0] == key)
        raise BadConfig(f"{key} is a table; its keys are {inside}")
    raise BadConfig(_unknown_key(tuple(key.split(".")), settings))


def dump(config: Config) -> dict[str, Any]:
    """The effective values, nested as in the file."""
    whole: dict[str, Any] = {}
    for setting in keys(config.storage.sources):
        *tables, name = setting.key.split(".")
        place = whole
        for table in tables:
            place = place.setdefault(table, {})
        place[name] = _written(_value_of(config, setting.key))
    return whole


def origins(config: Config) -> dict[str, str]:
    """Who set each dotted key: "default", "file", "environment AJ_INDEX_PATH"."""
    return {s.key: config.origins.get(s.key, "default") for s in keys(config.storage.sources)}


def _written(value: Value) -> bool | int | str | list[str]:
    return list(value) if isinstance(value, tuple) else value


def set_value(path: Path, key: str, text: str, agents: Iterable[str] = ()) -> Value:
    """Set one key of the file, made if missing. Writes nothing unless key, value and file are all good."""
    setting = _setting(key, agents)
    try:
        value = _CHECKS[setting.kind](setting, key, _READERS[setting.kind](text))
        text.encode()  # a shell may pass bytes that are no text
    except UnicodeEncodeError as error:
        raise BadConfig(f"{key} must be valid Unicode") from error
    except _Refused as error:
        raise BadConfig(str(error)) from error
    document = config_file.read(path) or config_file.Document(path, "", {})
    place = _place_of(setting.key, document.data)
    written = _written(value)
    if place[:2] == ("storage", "sources") and isinstance(written, list) and len(written) == 1:
        written = written[0]
    config_file.write(path, document.bytes_of(config_file.with_value(document, place, written)))
    return value


def _place_of(key: str, data: Mapping[str, Any]) -> tuple[str, ...]:
    """Where the file has the key: below its old name if it uses that, for both at once are refused."""
    for old, new in _OLD_NAMES.items():
        table, _, name = old.rpartition(".")
        held = data.get(table)
        if new == key and isinstance(held, dict) and name in held and new.rpartition(".")[2] not in held:
            return tuple(old.split("."))
    return tuple(key.split("."))


def _flag_text(text: str) -> object:
    return {"true": True, "false": False}.get(text.strip().lower(), text)


def _number_text(text: str) -> object:
    return int(text) if re.fullmatch(r"\s*[+-]?[0-9]{1,18}\s*", text) else text


def _plain_text(text: str) -> object:
    """Quotes may be left out; where they are kept, they are TOML's."""
    if len(text) < 2 or text[0] not in "\"'" or text[0] != text[-1]:
        return text
    return _toml_value(text, text)


def _list_text(text: str) -> object:
    if text.lstrip().startswith("["):
        value = _toml_value(text, None)
        if value is None:
            raise _Refused(f'{_shown(text)} is not a TOML list; write ["one", "two"]')
        return value
    return [_plain_text(item.strip()) for item in text.split(",") if item.strip()]


def _toml_value(text: str, otherwise: object) -> object:
    import tomllib

    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):
        return otherwise


_READERS: dict[Kind, Callable[[str], object]] = {
    Kind.FLAG: _flag_text,
    Kind.NUMBER: _number_text,
    Kind.CHOICE: _plain_text,
    Kind.PATH: _plain_text,
    Kind.PATTERNS: _list_text,
}


# --- the example ----------------------------------------------------------------------------------------

_PREFACE = """\
# The settings of aj: ~/.agent-journal/config.toml (AJ_HOME moves the folder).
# Lines like #name = value show defaults (below [storage.sources], examples): remove the # to change one.
# `aj config show` prints what is in force and where it comes from. In paths, ~ is your home folder.
# Above this file: AJ_INDEX_PATH, one variable for each agent (AJ_CLAUDE_PATH, AJ_COPILOT_PATH), and flags.
"""


def example_text() -> str:
    """Every setting with its default, commented out: an old file must not hold back a later default."""
    parts = [_PREFACE]
    for table, purpose in _TABLES.items():
        parts.append(f"\n# {purpose}\n[{table}]\n")
        parts += [_example(s) for s in keys() if s.key.rpartition(".")[0] == table]
    return "".join(parts)


def _example(setting: Setting) -> str:
    name = setting.key.rpartition(".")[2]
    value = config_file.literal(NAMED_AGENTS.get(name) or _written(setting.default))
    about = f" ({', '.join(setting.choices)})" if setting.choices else ""
    return f"# {setting.help}{about}\n#{name} = {value}\n"


def init(path: Path) -> None:
    """Write the example where there is no file yet."""
    config_file.write_new(path, example_text().encode())
