"""Codex CLI: rollouts below ~/.codex/sessions and ~/.codex/archived_sessions, plain, compressed and of older forms.

Never writes to Codex's folders. Its state database is a cache of the rollouts and is not opened.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from agent_journal.connectors.base import (
    Discovery,
    FileStat,
    Reading,
    Source,
    given_folder,
    is_folder,
    is_plain_id,
    readable,
    stat_of,
    walk,
)
from agent_journal.session import Resume, Session

AGENT = "codex"
HISTORY = "history.jsonl"
FOLDERS = ("sessions", "archived_sessions")  # a session that is in both is read where it is live
DEPTH = 4  # sessions/2026/05/04, and one to spare
# rollout-<local time>-<thread id>[_<rollout id>].jsonl[.zst]; the first versions wrote rollout-<date>-<id>.json
NAME = re.compile(r"rollout-(?:\d{4}-\d\d-\d\d(?:T\d\d-\d\d-\d\d)?-)?(.+?)\.(?:jsonl(?:\.zst)?|json)")


class Codex:
    agent = AGENT
    name = "Codex CLI"
    aliases: tuple[str, ...] = ("codex-cli",)
    config_key = "codex"
    env = "AJ_CODEX_PATH"
    parser_version = 1
    in_projects: tuple[str, ...] = ()

    def roots(self, environ: Mapping[str, str], home: Path) -> list[Path]:
        """Codex itself refuses a CODEX_HOME that is no folder."""
        given = given_folder(environ, "CODEX_HOME", home)
        return [given if given and is_folder(given) else home / ".codex"]

    def discover(self, root: Path) -> Discovery:
        found = Discovery()
        if (single := stat_of(root)) is not None:
            found.sources.append(_history(single) if root.name == HISTORY else Source(AGENT, root, (single,)))
            return found
        folders = [root / name for name in FOLDERS if is_folder(root / name)]
        taken: dict[str, Path] = {}
        for folder in folders or [root]:
            for entry in walk(folder, found, DEPTH):
                _consider(Path(entry.path), taken, bool(folders), found)
        if folders and (history := stat_of(root / HISTORY)):
            found.sources.append(_history(history))
        return found

    def parse(self, source: Source) -> Reading:
        from agent_journal.connectors.codex_sessions import read

        return read(source)

    def resume(self, session: Session) -> Resume | None:
        """Prompts without a rollout cannot be resumed."""
        if session.origin.path.endswith(HISTORY) or not is_plain_id(session.id):
            return None
        return Resume(("codex", "resume", session.id), session.workspace)


def _history(found: FileStat) -> Source:
    return Source(AGENT, found.path, (found,), "history", read_last=True)


def _consider(path: Path, taken: dict[str, Path], inside: bool, found: Discovery) -> None:
    """Names sort so that a plain file comes before its compressed copy, and live folders before the archive."""
    if not NAME.fullmatch(readable(path.name)):
        if inside:
            found.passed.append((path, "not a session"))
        return
    first = taken.setdefault(path.name.removesuffix(".zst"), path)
    if first is not path:
        found.passed.append((path, f"the same session as {readable(str(first))}"))
    elif stat := stat_of(path):
        found.sources.append(Source(AGENT, path, (stat,)))
    else:
        found.passed.append((path, "not a file"))
