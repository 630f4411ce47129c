"""What is on disk now, beside what the journal knows. Looks at names and stats only; opens and writes nothing."""

from __future__ import annotations

import contextlib
import glob
import hashlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from agent_journal.config import Config
from agent_journal.connectors.base import Connector, Discovery, Source
from agent_journal.index.exclusion import excluded
from agent_journal.index.pattern import matching
from agent_journal.index.store import Known, Store
from agent_journal.session import LOCAL


class Scan(Struct):
    found: dict[str, Discovery]  # by agent
    roots: dict[str, list[Path]]
    changed: list[tuple[Connector, Source]]
    gone: list[int]  # source rows whose file is no longer there
    back: list[int]  # rows marked gone whose file is there, unchanged
    afresh: bool = False  # nothing is known to be as it was read


class Look(Struct, frozen=True):
    """Where and how to look."""

    config: Config
    environ: Mapping[str, str]
    home: Path
    # Files that lie among a person's projects are slow to look for: a search only looks at those it knows.
    quick: bool = False
    full: bool = False  # call everything changed


def scan(store: Store | None, connectors: Sequence[Connector], look: Look) -> Scan:
    known = store.known() if store is not None else {}
    thorough = not look.quick and any(c.in_projects for c in connectors)
    projects = store.workspaces() if store is not None and thorough else []
    result = Scan({}, {}, [], [], [], look.full)
    seen: set[tuple[str, str, str]] = set()
    for connector in connectors:
        discovery, roots = _discovered(connector, look, known, projects)
        result.found[connector.agent], result.roots[connector.agent] = discovery, roots
        for source in _excluding(discovery, look.config.index.exclude):
            key = (source.agent, source.home, str(source.path))
            if key in seen:
                continue
            seen.add(key)
            row = known.get(key)
            if look.full or row is None or not _as_known(row, connector, source, look.config):
                result.changed.append((connector, source))
            elif row.gone:
                result.back.append(row.id)
    agents = {c.agent for c in connectors}
    for key, row in known.items():
        if key[0] in agents and key not in seen and not row.gone and _is_gone(key[2]):
            result.gone.append(row.id)
    result.changed.sort(key=_newest_first)
    return result


def _discovered(
    connector: Connector, look: Look, known: Mapping[tuple[str, str, str], Known], projects: Sequence[Path]
) -> tuple[Discovery, list[Path]]:
    discovery, every = Discovery(), []
    for label, home in _homes(look).items():
        if look.quick and connector.in_projects:
            roots = [Path(path) for agent, at, path in known if (agent, at) == (connector.agent, label)]
        elif label == LOCAL:
            roots = _local_roots(connector, look, projects, discovery)
        else:  # settings and environment are about the local home; of another only the usual places count
            roots = connector.roots({}, home) if look.config.storage.discovers(connector.config_key) else []
        every += roots
        found = Discovery()
        for root in roots:
            try:
                found.extend(connector.discover(root))
            except OSError as error:
                found.unlisted.append((root, error.strerror or str(error)))
        if label != LOCAL:
            found.sources = [replace(source, home=label) for source in found.sources]
        discovery.extend(found)
    return discovery, every


def _homes(look: Look) -> dict[str, Path]:
    """One home under two names would be two copies of every session: the first name has it."""
    every = {LOCAL: look.home, **look.config.homes}
    first: dict[str, str] = {}
    for label, home in every.items():
        first.setdefault(os.path.realpath(home), label)
    return {label: every[label] for label in first.values()}


def place_notes(look: Look) -> tuple[str, ...]:
    """Each of [homes] that is read under another name, and each place somebody named that is not there."""
    read = {os.path.realpath(home): label for label, home in _homes(look).items()}
    notes = []
    for label, home in look.config.homes.items():
        if (name := read[os.path.realpath(home)]) != label:
            notes.append(f"homes.{label} is the same folder as {name}, and read as {name}")
        elif _is_gone(str(home)):
            notes.append(f"homes.{label}: there is no folder {home}")
    for agent, places in look.config.storage.sources.items():
        key = f"storage.sources.{agent}"
        _, _, variable = look.config.origins.get(key, "").partition("environment ")
        lost = [place for place in places if not glob.has_magic(place) and _is_gone(place)]
        notes += [f"{variable or key}: there is nothing at {place}" for place in lost]
    return tuple(notes)


def _local_roots(connector: Connector, look: Look, projects: Sequence[Path], discovery: Discovery) -> list[Path]:
    """The agent's own places and what the configuration adds, or only the latter."""
    storage = look.config.storage
    folders = [Path(root) for root in storage.roots]
    roots: list[Path] = []
    if storage.discovers(connector.config_key):
        roots += map(_absolute, connector.roots(look.environ, look.home))
        roots += folders if connector.in_projects else []
        # A session names its folder; nothing below it is looked through, for a log may name any folder.
        roots += [p for folder in projects for name in connector.in_projects if (p := folder / name).exists()]
    for value in storage.sources.get(connector.config_key, ()):
        roots += _named(value, folders, connector, discovery)
    # One folder under two names would be two copies of every session.
    return _outermost(list({_real(root): root for root in reversed(roots)}.values())[::-1], connector)


def _absolute(root: Path) -> Path:
    """CODEX_HOME=here is meant from where aj was called: from elsewhere the same files would be others."""
    try:
        return root.absolute()
    except OSError:  # called from a folder that is gone
        return root


def _real(root: Path) -> str:
    try:
        return os.path.realpath(root)
    except (OSError, ValueError):  # a link that may be seen and not read, as some below /proc; a NUL
        return str(root)


def _named(value: str, folders: Sequence[Path], connector: Connector, discovery: Discovery) -> list[Path]:
    if not glob.has_magic(value):
        return [Path(value)]
    path = Path(value)
    if path.is_absolute():
        return matching(Path(path.anchor), path.parts[1:], discovery)
    if connector.in_projects:
        return list(folders)  # the connector itself looks for its files below them, within bounds
    return [found for folder in folders for found in matching(folder, path.parts, discovery)]


def _outermost(roots: list[Path], connector: Connector) -> list[Path]:
    """Without folders below another root, where a connector looks below its roots anyway."""
    if not connector.in_projects:
        return roots
    return [r for r in roots if not any(other != r and r.is_relative_to(other) for other in roots)]


def _as_known(row: Known, connector: Connector, source: Source, config: Config) -> bool:
    """Whether nothing happened to a source since it was read with this outcome."""
    fingerprint, now = row.fingerprint, source.fingerprint
    if row.parser_version != connector.parser_version:
        return False
    if fingerprint == now or not fingerprint.startswith(now):
        return fingerprint == now
    return fingerprint[len(now) :] in (exclusion_mark(config), failure_mark(source))


def exclusion_mark(config: Config) -> str:
    """Added where something was kept out: read again when other patterns keep other things out."""
    patterns = "\0".join(config.index.exclude).encode("utf-8", "surrogateescape")
    return "-" + hashlib.blake2b(patterns, digest_size=4).hexdigest()


def failure_mark(source: Source) -> str:
    """Added where a file could not be read: read again when its permissions change, which its mtime does not tell."""
    changed = 0
    for file in source.files:
        with contextlib.suppress(OSError, ValueError):
            changed = max(changed, file.path.stat().st_ctime_ns)
    return f"!{changed}"


def _is_gone(path: str) -> bool:
    """Missing for certain. A folder that may not be entered hides its files, it does not delete them."""
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except (OSError, ValueError):
        return False
    return False


def _newest_first(item: tuple[Connector, Source]) -> tuple[bool, int, str]:
    """The prompt history last: what it repeats is then already known."""
    _, source = item
    return source.read_last, -source.newest_ns, str(source.path)


def _excluding(discovery: Discovery, patterns: Sequence[str]) -> list[Source]:
    kept = []
    for source in discovery.sources:
        if patterns and excluded(str(source.path), patterns):
            discovery.passed.append((source.path, "excluded by index.exclude"))
        else:
            kept.append(source)
    return kept
