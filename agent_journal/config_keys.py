"""The settings there are: their values, kinds, defaults and help, and what each accepts.

Reads no file and no environment (see config.py). Agents are not known here; their keys are passed in.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType

from msgspec import Struct

Value = bool | int | str | tuple[str, ...]

# Accepted below [storage.sources] whether or not a connector reads them; the example shows these paths.
NAMED_AGENTS: Mapping[str, str] = MappingProxyType(
    {
        "copilot_cli": "~/.copilot-cli/sessions",
        "claude_code": "~/.claude/projects",
        "cursor": "~/.cursor/conversations",
        "aider": "**/.aider.chat.history.md",
    }
)


class Storage(Struct, frozen=True):
    index_path: Path
    roots: tuple[str, ...] = ()
    sources: Mapping[str, tuple[str, ...]] = {}  # every known agent, most empty
    only: bool = False
    replaced: frozenset[str] = frozenset()  # agents whose sources the environment gave

    def discovers(self, agent_key: str) -> bool:
        """Whether the agent's usual places are looked at beside its configured sources."""
        return not self.only and agent_key not in self.replaced


class Index(Struct, frozen=True):
    writer_memory_mb: int = 64
    vector_precision: str = "f16"
    thinking: bool = True
    tool_output_chars: int = 20_000
    exclude: tuple[str, ...] = ()


class Vector(Struct, frozen=True):
    enabled: bool = True
    model: str = ""  # a name of `aj models list`; "" is the bundled one
    model_path: Path = Path("~/.chats/models")  # load() expands it
    threads: int = 0  # 0: one for each core
    thinking: bool = True
    tool_input: bool = True
    tool_output: bool = False
    fallback: str = "hash"


class Search(Struct, frozen=True):
    default_mode: str = "hybrid"
    default_context: int = 3
    max_results: int = 20
    clip_chars: int = 600


class Export(Struct, frozen=True):
    default_format: str = "html"
    html_theme: str = "dark"
    include_tool_calls: bool = True


class Config(Struct, frozen=True):
    storage: Storage
    index: Index = Index()
    vector: Vector = Vector()
    search: Search = Search()
    export: Export = Export()
    homes: Mapping[str, Path] = {}  # label -> another home folder to look into
    origins: Mapping[str, str] = {}  # dotted key -> who set it, but for defaults


DEFAULTS = Config(Storage(Path("~/.agent-journal/index")))


def value_of(config: Config, key: str) -> Value:
    """Of a dotted key that exists; paths as text."""
    table, _, name = key.rpartition(".")
    if table == HOMES:
        return config.homes[name].as_posix()
    if table == "storage.sources":
        return config.storage.only if name == "only" else config.storage.sources.get(name, ())
    value: Value | Path = getattr(getattr(config, table.rpartition(".")[2]), name)
    return value.as_posix() if isinstance(value, Path) else value


class Kind(StrEnum):
    FLAG = "true or false"
    NUMBER = "a whole number"
    CHOICE = "one of"
    TEXT = "a text"
    PATH = "a path"
    PATTERNS = "a path, a glob or a list of them"


class Setting(Struct, frozen=True):
    key: str  # dotted, as in the file
    kind: Kind
    help: str
    choices: tuple[str, ...] = ()
    at_least: int = 0
    at_most: int = 0

    @property
    def default(self) -> Value:
        return value_of(DEFAULTS, self.key)

    @property
    def type(self) -> str:
        if self.kind is Kind.NUMBER:
            return f"a whole number from {self.at_least} to {self.at_most}"
        return f"one of {', '.join(self.choices)}" if self.kind is Kind.CHOICE else self.kind.value


VECTORS_OFF = "index.vector.enabled is false"  # the reason that answers give
HOMES = "homes"  # the one table whose keys are the user's own
TABLES = {
    "storage": "Where the journal is kept and where sessions are found.",
    "storage.sources": "Sessions in unusual places: a path, a glob or a list, for any agent of `aj agents`.",
    HOMES: "Other home folders whose sessions are yours too: a name of your choice = a path.",
    "index": "What is searchable and what it costs.",
    "index.vector": "Search by meaning: the model that turns texts into vectors. All of it runs on this machine.",
    "search": "How `aj search` answers when not told otherwise.",
    "export": "How `aj export` writes when not told otherwise.",
}
OLD_NAMES = {"index.lucene_ram_buffer_mb": "index.writer_memory_mb"}

_SETTINGS = (
    Setting("storage.index_path", Kind.PATH, "The journal and its search index, one for all agents."),
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
    ),
    Setting(
        "index.vector_precision",
        Kind.CHOICE,
        "f16 halves the size of the vectors; f32 keeps every bit.",
        ("f16", "f32"),
    ),
    Setting("index.thinking", Kind.FLAG, "Makes the model's thinking searchable; it stays on this machine."),
    Setting(
        "index.tool_output_chars",
        Kind.NUMBER,
        "Characters of a tool's result that are searchable, two thirds from the beginning; the store keeps all.",
        at_most=10_000_000,
    ),
    Setting("index.exclude", Kind.PATTERNS, 'Workspaces or files that are never read, e.g. ["~/private/**"].'),
    Setting("index.vector.enabled", Kind.FLAG, "Search by meaning, beside search by words."),
    Setting("index.vector.model", Kind.TEXT, 'The model, by a name of `aj models list`; "" is the bundled one.'),
    Setting("index.vector.model_path", Kind.PATH, "Searched for models as well, beside those of `aj models add`."),
    Setting(
        "index.vector.threads",
        Kind.NUMBER,
        "Cores that embedding may use at once; 0 is all of them.",
        at_most=256,
    ),
    Setting("index.vector.thinking", Kind.FLAG, "Embed what models thought, too, where that is searchable at all."),
    Setting("index.vector.tool_input", Kind.FLAG, "Embed what tools were asked, the beginning of it, too."),
    Setting("index.vector.tool_output", Kind.FLAG, "Embed the beginning and end of what tools printed, too."),
    Setting(
        "index.vector.fallback",
        Kind.CHOICE,
        "Without a model: hash makes vectors from the words alone, none turns search by meaning off.",
        ("hash", "none"),
    ),
    Setting(
        "search.default_mode",
        Kind.CHOICE,
        "hybrid fuses lexical (words) and semantic (meaning).",
        ("hybrid", "lexical", "semantic"),
    ),
    Setting("search.default_context", Kind.NUMBER, "Messages shown before and after each match.", at_most=1000),
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
        "What is written when no format is asked for.",
        ("html", "markdown", "ndjson", "sessiondata"),
    ),
    Setting("export.html_theme", Kind.CHOICE, "auto follows the reader's system.", ("dark", "light", "auto")),
    Setting("export.include_tool_calls", Kind.FLAG, "Tool calls and their results, beside what was said."),
)


def keys(agents: Iterable[str] = ()) -> list[Setting]:
    """Every setting in the order of the example file, with a source for each agent known or passed in."""
    sources = [
        Setting(f"storage.sources.{key}", Kind.PATTERNS, f"Where {key} sessions are, beside the usual places.")
        for key in dict.fromkeys((*NAMED_AGENTS, *agents))
    ]
    place = next(i for i, s in enumerate(_SETTINGS) if s.key == "storage.sources.only")
    return [*_SETTINGS[:place], *sources, *_SETTINGS[place:]]


NAME_OF_A_HOME = "a home's name is of small letters, digits, - and _, and not local"


def home_setting(key: str) -> Setting | None:
    """The setting of a key below [homes]. `local` is the home of whoever asks."""
    table, _, label = key.rpartition(".")
    if table != HOMES or not re.fullmatch(r"[a-z0-9_-]+", label) or label == "local":
        return None
    return Setting(key, Kind.PATH, "Another home folder.")


# --- what each accepts ----------------------------------------------------------------------------------


class Refused(ValueError):
    """Why a value cannot be taken; the caller adds where it stands."""


def accepted(setting: Setting, value: object, name: str) -> Value:
    """The value, checked; `name` is what the user called the setting."""
    taken = _TAKEN[setting.kind](setting, value)
    if taken is None:
        raise Refused(f"{name} must be {setting.type}, not {shown(value)}")
    return taken


def _flag(setting: Setting, value: object) -> bool | None:
    return value if isinstance(value, bool) else None


def _number(setting: Setting, value: object) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if setting.at_least <= value <= setting.at_most else None


def _choice(setting: Setting, value: object) -> str | None:
    return value if isinstance(value, str) and value in setting.choices else None


def _text(setting: Setting, value: object) -> str | None:
    return value if isinstance(value, str) and "\0" not in value else None


def _path(setting: Setting, value: object) -> str | None:
    return value if isinstance(value, str) and value.strip() and "\0" not in value else None


def _patterns(setting: Setting, value: object) -> tuple[str, ...] | None:
    paths = [_path(setting, item) for item in (value if isinstance(value, list) else [value])]
    good = tuple(path for path in paths if path is not None)
    return good if len(good) == len(paths) else None


_TAKEN: Mapping[Kind, Callable[[Setting, object], Value | None]] = {
    Kind.FLAG: _flag,
    Kind.NUMBER: _number,
    Kind.CHOICE: _choice,
    Kind.TEXT: _text,
    Kind.PATH: _path,
    Kind.PATTERNS: _patterns,
}

_SHOWN_CHARS = 60


def shown(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _SHOWN_CHARS else text[:_SHOWN_CHARS] + "…"


# --- the nearest right name -----------------------------------------------------------------------------


def unknown_key(path: tuple[str, ...], settings: Iterable[str]) -> str:
    """The nearest key of the same table, else of the others, else what the table holds."""
    table, name = ".".join(path[:-1]), path[-1]
    here: dict[str, str] = {}
    elsewhere: dict[str, str] = {}
    for key in settings:
        above, _, leaf = key.rpartition(".")
        (here if above == table else elsewhere)[leaf] = key
    word = name.replace("-", "_").rpartition(".")[2].lower()
    if near := _near(word, here, 0.6) or _near(word, elsewhere, 0.9):
        return f"unknown key {_dotted(path)}; did you mean {near}?"
    holds = f"[{table}] has {', '.join(here)}" if here else _the_tables()
    return f"unknown key {_dotted(path)}; {holds}"


def unknown_table(path: tuple[str, ...]) -> str:
    near = _near(path[-1].lower(), {table.rpartition(".")[2]: table for table in TABLES}, 0.6)
    return f"unknown table [{_dotted(path)}]; " + (f"did you mean [{near}]?" if near else _the_tables())


def _near(word: str, names: Mapping[str, str], likeness: float) -> str | None:
    import difflib  # here: only a mistake needs it

    return next((names[name] for name in difflib.get_close_matches(word, names, 1, likeness)), None)


def _dotted(path: tuple[str, ...]) -> str:
    return ".".join(name if re.fullmatch(r"[\w-]+", name) else json.dumps(name) for name in path)


def _the_tables() -> str:
    return f"the tables are {', '.join(f'[{table}]' for table in TABLES)}"
