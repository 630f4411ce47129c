"""Journals to test with: a HOME in a temporary folder, the agents' files in it, and everything that is stored."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import logs
from msgspec import structs

from agent_journal.answer import Answer
from agent_journal.config import Config, load
from agent_journal.connectors.registry import SOURCE_KEYS
from agent_journal.index.report import SyncReport
from agent_journal.index.store import DATABASE
from agent_journal.query import Query
from agent_journal.search import Journal
from agent_journal.session import Derived, Message, Session

SHARED_HOME = Path(__file__).parents[1].parent / "shared" / "data" / "home"

LONGEST = 300  # seconds that a process may take on a machine with much else to do

# (id, ordinal, message, vanished) of each message.
Stored = tuple[int, int, Message, bool]


@dataclass(frozen=True)
class Home:
    """A person's home folder with a journal in it."""

    path: Path
    variables: dict[str, str] = field(default_factory=dict)
    vectors: bool = False  # as a user's journal has them; embedding takes longer than most tests do

    @property
    def environ(self) -> dict[str, str]:
        return {"HOME": str(self.path), "AJ_HOME": str(self.path / ".agent-journal")} | self.variables

    @property
    def index(self) -> Path:
        return Path(self.environ["AJ_HOME"]) / "index"

    @property
    def database(self) -> Path:
        return self.index / DATABASE

    @contextmanager
    def journal(self) -> Iterator[Journal]:
        config = load(self.environ, SOURCE_KEYS)
        with Journal.open(config if self.vectors else words_only(config), self.environ) as journal:
            yield journal

    def configure(self, text: str) -> None:
        file = self.path / ".agent-journal" / "config.toml"
        file.parent.mkdir(exist_ok=True, mode=0o700)
        file.write_text(text)

    # --- the agents' files -------------------------------------------------------------------------------

    def claude_path(self, name: str = logs.SESSION, project: str = logs.PROJECT) -> Path:
        return self.path / ".claude" / "projects" / project / f"{name}.jsonl"

    def claude(self, *records: Mapping[str, Any], name: str = logs.SESSION, project: str = logs.PROJECT) -> Path:
        return logs.write(self.claude_path(name, project), *records)

    def copilot_path(self, name: str) -> Path:
        return self.path / ".copilot" / "session-state" / name / "events.jsonl"

    def history(self, *records: Mapping[str, Any]) -> Path:
        return logs.write(self.path / ".claude" / "history.jsonl", *records)

    # --- one step each -----------------------------------------------------------------------------------

    def reindex(self, **options: Any) -> SyncReport:
        with self.journal() as journal:
            return journal.reindex(**options)

    def search(self, query: Query | str, **options: Any) -> Answer:
        with self.journal() as journal:
            return journal.search(query, **options)

    def stored(self) -> dict[str, list[Stored]]:
        with self.journal() as journal:
            return stored(journal)

    def aj(self, *arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
        """The real program, to its end."""
        return subprocess.run(
            self.command(*arguments),
            env=self.process_environ,
            capture_output=True,
            text=True,
            timeout=LONGEST,
            **options,
        )

    def start(self, *arguments: str, **options: Any) -> subprocess.Popen[str]:
        """The real program, still running."""
        pipe = subprocess.PIPE
        return subprocess.Popen(
            self.command(*arguments), env=self.process_environ, stdout=pipe, stderr=pipe, text=True, **options
        )

    def command(self, *arguments: str) -> list[str]:
        words_only = ["--no-vectors"] * (arguments[:1] == ("reindex",) and not self.vectors)
        return [sys.executable, "-m", "agent_journal", *arguments, *words_only]

    @property
    def process_environ(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("AJ_", "CLAUDE", "COPILOT"))}
        return kept | self.environ


def words_only(config: Config) -> Config:
    return structs.replace(config, vector=structs.replace(config.vector, enabled=False))


def stored(journal: Journal) -> dict[str, list[Stored]]:
    """Every message by its session's key."""
    _, sessions = journal.store.newest_sessions(100_000)
    return {
        s.session.key: [(m.id, m.ordinal, m.message, m.vanished) for m in journal.messages(s)]
        for s in sorted(sessions, key=lambda s: s.session.key)
    }


def facts(journal: Journal) -> dict[str, tuple[Session, Derived, bool]]:
    """Every session by its key, without what depends on the order of reading."""
    _, sessions = journal.store.newest_sessions(100_000)
    return {s.session.key: (s.session, s.derived, s.gone) for s in sorted(sessions, key=lambda s: s.session.key)}


def without_ids(found: dict[str, list[Stored]]) -> dict[str, list[tuple[int, Message, bool]]]:
    return {key: [(ordinal, message, gone) for _, ordinal, message, gone in rows] for key, rows in found.items()}


def ids(found: dict[str, list[Stored]]) -> dict[tuple[str, int], int]:
    return {(key, ordinal): number for key, rows in found.items() for number, ordinal, _, _ in rows}


def contents(journal: Journal) -> tuple[dict[str, Any], dict[str, Any]]:
    """Everything stored that two journals of the same files must have in common."""
    return facts(journal), without_ids(stored(journal))


def hits(answer: Answer) -> list[tuple[str, int, str, tuple[tuple[str, int], ...]]]:
    """What was found, in an order that does not depend on scores that tie."""
    return sorted(
        (m.session.session.key, m.message.ordinal, m.snippet.text, tuple((p.session, p.ordinal) for p in m.also_in))
        for m in answer.matches
    )


def cut_short(home: Path, copy: Path, size: int = 100_000) -> Path:
    """Of every file that is read line by line its first lines, of the others all."""
    for path in home.rglob("*"):
        if path.is_file():
            target = copy / path.relative_to(home)
            target.parent.mkdir(parents=True, exist_ok=True)
            data = path.read_bytes()
            end = data.rfind(b"\n", 0, size) + 1 if path.suffix in (".jsonl", ".md") and len(data) > size else len(data)
            target.write_bytes(data[: end or len(data)])
    return copy


def killed_after(process: subprocess.Popen[str], seconds: float) -> None:
    time.sleep(seconds)
    process.kill()
    process.communicate()


def tree(folder: Path) -> dict[str, tuple[int, int, bytes]]:
    """Every file below a folder: mode, modification time, content."""
    return {
        str(path.relative_to(folder)): (path.stat().st_mode, path.stat().st_mtime_ns, path.read_bytes())
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
