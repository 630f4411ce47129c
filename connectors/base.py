"""What a connector is: it finds sources by names and stats only, and turns one source into transcripts.

The incremental loop, the decision to go on after a failure, and everything that is written live elsewhere.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from msgspec import Struct, field

from agent_journal.session import LOCAL, TIME_OF_FILE, Message, Resume, Role, Session, Transcript, prompt_title


class FileStat(Struct, frozen=True):
    path: Path
    size: int
    mtime_ns: int


class Source(Struct, frozen=True):
    """The unit a connector reads: a transcript with its sidecars."""

    agent: str
    path: Path  # the file a user would name
    files: tuple[FileStat, ...]  # everything whose change means reading again; path's own stat first
    kind: str = ""  # which of its formats the connector will read; private to it
    read_last: bool = False  # repeats what other sources tell better: read when those are known
    shared: bool = False  # holds many sessions: its connector is Sharing, and each is read when it changed
    home: str = LOCAL

    @property
    def fingerprint(self) -> str:
        seen = "\n".join(f"{f.path}\0{f.size}\0{f.mtime_ns}" for f in self.files)
        return hashlib.blake2b(seen.encode("utf-8", "surrogateescape"), digest_size=12).hexdigest()

    @property
    def newest_ns(self) -> int:
        return max((f.mtime_ns for f in self.files), default=0)

    @property
    def size(self) -> int:
        return sum(f.size for f in self.files)


class Discovery(Struct):
    """What a look at the disk found. Nothing below an `unlisted` root or folder may be called gone."""

    sources: list[Source] = []
    passed: list[tuple[Path, str]] = []  # seen, not a session: path and reason
    unlisted: list[tuple[Path, str]] = []  # not readable: path and the system's reason

    def extend(self, other: Discovery) -> None:
        self.sources += other.sources
        self.passed += other.passed
        self.unlisted += other.unlisted


class Reading(Struct):
    """What reading one source yielded, and what it left out, by kind: nothing is dropped unnamed."""

    transcripts: list[Transcript] = []
    skipped: Counter[str] = field(default_factory=Counter)  # by kind of record: "progress/hook_progress"
    bad_lines: list[tuple[int, str]] = []  # 1-based number, reason; the first MAX_NAMED
    bad_line_count: int = 0
    lines: int = 0
    unfinished: bool = False  # the last line is still being written

    MAX_NAMED = 20

    def bad_line(self, number: int, reason: str) -> None:
        self.bad_line_count += 1
        if len(self.bad_lines) < self.MAX_NAMED:
            self.bad_lines.append((number, reason))

    def join(self, other: Reading) -> None:
        self.transcripts += other.transcripts
        self.skipped.update(other.skipped)
        self.bad_lines += other.bad_lines[: self.MAX_NAMED - len(self.bad_lines)]
        self.bad_line_count += other.bad_line_count
        self.lines += other.lines


class Part(Struct, frozen=True):
    """A session of a source that holds many; what such a source has besides is a part, too."""

    name: str  # the same in every reading
    mark: str  # of all that its reading depends on: where this is the same, so is what would be read
    # Until the next part is asked for. Both raise UnreadableSource, for this part alone.
    size: Callable[[], int]  # bytes to be read, about
    read: Callable[[], Reading]


class Connector(Protocol):
    """One agent. Instances hold no state: every call may come from a different run."""

    agent: str  # canonical id: "claude-code"
    name: str  # display name: "Claude Code"
    aliases: tuple[str, ...]  # what else users may type after agent:
    config_key: str  # key below [storage.sources]
    env: str  # variable that overrides where to look
    parser_version: int  # raised when the same file would now be read differently
    in_projects: tuple[str, ...]  # what it leaves in projects, where looking for it is slow; empty for most

    def roots(self, environ: Mapping[str, str], home: Path) -> list[Path]:
        """Where this agent keeps sessions on this machine; paths that may not exist."""
        ...

    def discover(self, root: Path) -> Discovery:
        """Sources below a root, a folder of sessions, or one file. Stat only: opens nothing."""
        ...

    def parse(self, source: Source) -> Reading:
        """Read one source whole. Raises UnreadableSource and nothing else."""
        ...

    def resume(self, session: Session) -> Resume | None: ...


@runtime_checkable
class Sharing(Connector, Protocol):
    """An agent that keeps many sessions in one file, which may be larger than memory and changes with each of them."""

    def sessions(self, source: Source) -> Generator[Part, None, None]:
        """All of a shared source, to be read one by one; telling marks costs little beside reading. Raises
        UnreadableSource and nothing else."""
        ...


def whole(parts: Iterable[Part]) -> Reading:
    reading = Reading()
    for part in parts:
        reading.join(part.read())
    return reading


def mark_of(*facts: object) -> str:
    """Facts are what a database or JSON holds."""
    mark = hashlib.blake2b(digest_size=12)
    for fact in facts:
        told = fact if isinstance(fact, bytes) else repr(fact).encode("utf-8", "surrogatepass")
        mark.update(b"%d:" % len(told))
        mark.update(told)
    return mark.hexdigest()


def stat_of(path: Path) -> FileStat | None:
    """The stat of a regular file, or None: missing, broken link, link loop, folder, device."""
    try:
        found = path.stat()
    except (OSError, ValueError):
        return None
    if not stat.S_ISREG(found.st_mode):
        return None
    return FileStat(path, found.st_size, found.st_mtime_ns)


DATABASE_LOGS = ("-wal", "-journal")


def database_files(path: Path) -> tuple[FileStat, ...]:
    """The stats whose change means that a SQLite database changed; its own first, nothing if it is not there."""
    own = stat_of(path)
    if own is None:
        return ()
    beside = (stat_of(path.with_name(path.name + suffix)) for suffix in DATABASE_LOGS)
    return (own, *(found for found in beside if found is not None))


def is_folder(path: Path) -> bool:
    """Whether this is a folder or a link to one; False where it cannot be told (Path.is_dir may raise)."""
    try:
        return stat.S_ISDIR(path.stat().st_mode)
    except (OSError, ValueError):
        return False


def readable(name: str) -> str:
    """A file name as text that can be written: not all names are UTF-8."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def file_time(messages: Iterable[Message], found: FileStat) -> dict[str, Any]:
    """Extensions of a session whose records tell no time: they leave only the file's own, marked as such."""
    if any(m.at for m in messages):
        return {}
    at = timestamp(found.mtime_ns // 10**9)
    return {TIME_OF_FILE: at.isoformat()} if at else {}


def prompted(messages: Iterable[Message]) -> str | None:
    """Nobody titles a sub-agent: what it was asked does."""
    asked = (prompt_title(m.text) for m in messages if m.role is Role.USER and not m.is_meta)
    return next(filter(None, asked), None)


def count_blank(roles: Iterable[Role], skipped: Counter[str], reason: str = "blank session") -> None:
    """A session in which nobody said anything, and every message that is left out with it."""
    skipped[reason] += 1
    skipped.update(f"{reason}/{role.value} message" for role in roles)


def session_key(agent: str, own: str, parent: str | None = None) -> str:
    """A sub-agent's is qualified by its parent's id: its own may be short."""
    return f"{agent}:{own}" if parent is None else f"{agent}:{parent}/agent-{own}"


def given_folder(environ: Mapping[str, str], variable: str, home: Path) -> Path | None:
    """A folder that an agent's own environment variable names; ~ is the home that is looked at."""
    given = environ.get(variable)
    if not given:
        return None
    return home / given[2:] if given.startswith("~/") else Path(given)


_WSL = r"[\\\\/]{2}wsl(?:\$|\.localhost)[\\\\/]([^\\\\/]+)"
_WINDOWS = r"/mnt/[a-z]/|/cygdrive/[a-z]/|[A-Za-z]:[\\\\/]"


def home_kind(path: str) -> tuple[str, str | None]:
    """(type, host) of another home on this machine: a WSL distribution seen from Windows, or Windows from WSL."""
    if found := re.match(_WSL, path, re.IGNORECASE):
        return "wsl", found[1]
    return ("windows" if re.match(_WINDOWS, path) and os.name != "nt" else "local"), None


def is_plain_id(name: str | None) -> bool:
    """Fit to stand in a command: anything else could be read as an option, a path or several words."""
    return name is not None and re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,199}", name) is not None


def resumed(session: Session, *argv: str) -> Resume | None:
    """The command, with the session's id for {}. A sub-agent cannot be resumed: its parent is."""
    session_id = session.parent_session_id if session.agent_id else session.id
    if session_id is None or not is_plain_id(session_id):
        return None
    return Resume(tuple(part.replace("{}", session_id) for part in argv), session.workspace)


def entries(folder: Path, discovery: Discovery) -> list[os.DirEntry[str]]:
    """A folder's entries by name; a folder that cannot be listed is reported, a missing one is empty."""
    try:
        with os.scandir(folder) as found:
            return sorted(found, key=lambda e: e.name)
    except (FileNotFoundError, NotADirectoryError):
        return []
    except ValueError:  # a name that holds a NUL
        return []
    except OSError as error:
        discovery.unlisted.append((folder, error.strerror or str(error)))
        return []


def walk(folder: Path, discovery: Discovery, depth: int) -> Iterator[os.DirEntry[str]]:
    """Files below a folder, at most `depth` folders down. Links to folders may loop and are left."""
    for entry in entries(folder, discovery):
        if entry.is_dir(follow_symlinks=False):
            if depth > 0:
                yield from walk(Path(entry.path), discovery, depth - 1)
        else:
            yield entry


EPOCH_MS_ABOVE = 100_000_000_000  # 1e11 s is the year 5138; 1e11 ms is 1973


def timestamp(value: Any) -> datetime | None:
    """ISO 8601 with or without zone (taken as UTC), epoch seconds or milliseconds; None for anything else."""
    if isinstance(value, bool) or value is None:
        return None
    try:
        if isinstance(value, (int, float)):
            return _from_epoch(float(value))
        if not isinstance(value, str):
            return None
        text = value.strip()
        if text.isdecimal():
            return _from_epoch(float(text))
        moment = datetime.fromisoformat(text)
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError, OSError):
        return None


def _from_epoch(number: float) -> datetime | None:
    if not number > 0:
        return None
    return datetime.fromtimestamp(number / 1000 if number > EPOCH_MS_ABOVE else number, UTC)


def string(record: Mapping[str, Any], *keys: str) -> str | None:
    """The first of these keys that holds a non-empty string."""
    for key in keys:
        value = record.get(key)
        if isinstance(value, str) and value:
            return value
    return None


def mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def items(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list) else ()


def count(value: Any) -> int:
    """A token count: a non-negative whole number, else 0."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return 0
    return int(value) if 0 <= value < 2**53 else 0
