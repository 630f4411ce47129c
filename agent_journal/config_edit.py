"""One key at a time, for `aj config`: show it, set it in the file, write the example.

Writes nothing unless key, value and file are all good.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from agent_journal import config_file
from agent_journal.config_keys import (
    HOMES,
    NAME_OF_A_HOME,
    NAMED_AGENTS,
    OLD_NAMES,
    TABLES,
    Config,
    Kind,
    Refused,
    Setting,
    Value,
    accepted,
    home_setting,
    keys,
    shown,
    unknown_key,
    value_of,
)
from agent_journal.errors import BadConfig

_HOW_HOME = f"to set one: aj config set {HOMES}.NAME PATH"


def get_value(config: Config, key: str) -> Value:
    """The effective value of a dotted key; paths as text."""
    if key == HOMES:
        named = ", ".join(f"{HOMES}.{label}" for label in config.homes)
        raise BadConfig(f"{HOMES} is a table; its keys are {named}" if named else f"no other home is set; {_HOW_HOME}")
    setting = _setting(key, config.storage.sources)
    if setting.key not in {s.key for s in _settings(config)}:
        raise BadConfig(f"no {setting.key} is set; the homes are {', '.join(('local', *config.homes))}")
    return value_of(config, setting.key)


def _settings(config: Config) -> list[Setting]:
    homes = (home_setting(f"{HOMES}.{label}") for label in config.homes)
    return [*keys(config.storage.sources), *(h for h in homes if h is not None)]


def dump(config: Config) -> dict[str, Any]:
    """The effective values, nested as in the file."""
    whole: dict[str, Any] = {}
    for setting in _settings(config):
        *tables, name = setting.key.split(".")
        place = whole
        for table in tables:
            place = place.setdefault(table, {})
        place[name] = _in_toml(value_of(config, setting.key))
    return whole


def origins(config: Config) -> dict[str, str]:
    """Who set each dotted key: "default", "file", "environment AJ_INDEX_PATH"."""
    return {s.key: config.origins.get(s.key, "default") for s in _settings(config)}


def set_value(path: Path, key: str, text: str, agents: Iterable[str] = ()) -> Value:
    """Set one key of the file, made if missing."""
    setting = _setting(key, agents)
    try:
        text.encode()  # a shell may pass bytes that are no text
        value = accepted(setting, _READERS[setting.kind](text), key)
    except UnicodeEncodeError as error:
        raise BadConfig(f"{key} must be valid Unicode") from error
    except Refused as error:
        raise BadConfig(str(error)) from error
    document = config_file.read(path) or config_file.Document(path, "", {})
    place, written = _place_of(setting.key, document.data), _in_toml(value)
    if place[:2] == ("storage", "sources") and isinstance(written, list) and len(written) == 1:
        written = written[0]
    config_file.write(path, document.bytes_of(config_file.with_value(document, place, written)))
    return value


def _setting(key: str, agents: Iterable[str]) -> Setting:
    settings = {s.key: s for s in keys(agents)}
    found = settings.get(OLD_NAMES.get(key, key)) or home_setting(key)
    if found is not None:
        return found
    if key == HOMES:
        raise BadConfig(f"{HOMES} is a table, and each of its keys is a name of yours; {_HOW_HOME}")
    if key in TABLES:
        inside = ", ".join(k for k in settings if k.rpartition(".")[0] == key)
        raise BadConfig(f"{key} is a table; its keys are {inside}")
    if key.startswith(f"{HOMES}."):
        raise BadConfig(f"{key}: {NAME_OF_A_HOME}")
    raise BadConfig(unknown_key(tuple(key.split(".")), settings))


def _place_of(key: str, data: Mapping[str, Any]) -> tuple[str, ...]:
    """Where the file has the key: below its old name if it uses that, for both at once are refused."""
    for old, new in OLD_NAMES.items():
        table, _, name = old.rpartition(".")
        held = data.get(table)
        if new == key and isinstance(held, dict) and name in held and new.rpartition(".")[2] not in held:
            return tuple(old.split("."))
    return tuple(key.split("."))


def _in_toml(value: Value) -> bool | int | str | list[str]:
    return list(value) if isinstance(value, tuple) else value


# --- text from the command line, by kind; what cannot be read is passed on to be refused -----------------


def _flag(text: str) -> object:
    return {"true": True, "false": False}.get(text.strip().lower(), text)


def _number(text: str) -> object:
    return int(text) if re.fullmatch(r"\s*[+-]?[0-9]{1,18}\s*", text) else text


def _list(text: str) -> object:
    """a,b or as in TOML."""
    if not text.lstrip().startswith("["):
        return [item.strip() for item in text.split(",") if item.strip()]
    import tomllib

    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError) as error:
        raise Refused(f'{shown(text)} is not a TOML list; write ["one", "two"]') from error


_READERS: Mapping[Kind, Callable[[str], object]] = {
    Kind.FLAG: _flag,
    Kind.NUMBER: _number,
    Kind.CHOICE: str,
    Kind.TEXT: str,
    Kind.PATH: str,
    Kind.PATTERNS: _list,
}


# --- the example ----------------------------------------------------------------------------------------

_PREFACE = """\
# The settings of aj: ~/.agent-journal/config.toml (AJ_HOME moves the folder).
# Lines like #name = value show defaults (below [storage.sources], examples): remove the # to change one.
# `aj config show` prints what is in force and where it comes from. In paths, ~ is your home folder.
# Above this file: AJ_INDEX_PATH, one variable for each agent (AJ_CLAUDE_PATH, AJ_COPILOT_PATH: its sessions are
# then looked for there alone), and flags.
"""


_HOMES_EXAMPLE = """\
# A Windows home seen from WSL, or a WSL home seen from Windows, is told by its path; `--home laptop` filters by it.
#laptop = "/mnt/c/Users/me"
"""


def example_text() -> str:
    """Every setting with its default, commented out: an old file must not hold back a later default."""
    parts = [_PREFACE]
    for table, purpose in TABLES.items():
        parts.append(f"\n# {purpose}\n[{table}]\n")
        parts += [_example(s) for s in keys() if s.key.rpartition(".")[0] == table]
        parts += [_HOMES_EXAMPLE] if table == HOMES else []
    return "".join(parts)


def _example(setting: Setting) -> str:
    name = setting.key.rpartition(".")[2]
    value = config_file.literal(NAMED_AGENTS.get(name) or _in_toml(setting.default))
    about = f" ({', '.join(setting.choices)})" if setting.choices else ""
    return f"# {setting.help}{about}\n#{name} = {value}\n"


def init(path: Path) -> None:
    """Write the example where there is no file yet."""
    config_file.write_new(path, example_text().encode())
