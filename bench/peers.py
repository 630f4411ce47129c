"""aj and the tools a user would pick instead, as data: how each is started and asked, where its index is.

Peers go into a scratch environment of their own, from whatever package index pip is configured for; they are
never dependencies. One that cannot be had is a row with a reason, not the end of the run.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from measure import Cost, Unusable, aj, environment, run, size, succeeded

TOP = 10
QUIET = {"AGENTSVIEW_TELEMETRY_ENABLED": "0", "AGENTSVIEW_DISABLE_UPDATE_CHECK": "1"}


@dataclass(frozen=True, slots=True)
class Tool:
    name: str
    index: tuple[str, ...]  # takes in everything that changed
    asks: Mapping[str, tuple[str, ...]]  # ways of asking; the query is the last argument
    sessions: Callable[[Any], list[str]]  # its JSON -> session ids, best first
    state: str  # the folder below HOME that it writes
    extra: Mapping[str, str] = field(default_factory=dict)
    stop: tuple[str, ...] = ()  # ends its daemon
    cold: bool = False  # the daemon is ended before every question


@dataclass(frozen=True, slots=True)
class Absent:
    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class Reply:
    cost: Cost
    sessions: list[str]
    error: str = ""


@dataclass(frozen=True, slots=True)
class Bench:
    """A tool in a home of its own."""

    tool: Tool
    home: Path

    @property
    def environ(self) -> dict[str, str]:
        return environment(self.home, self.tool.extra)

    def index(self) -> Cost:
        before, _ = self._daemon()
        cost = succeeded(run(self.tool.index, self.environ)).cost
        after, peak = self._daemon()
        masked = cost.masked and peak < cost.rss
        return Cost(cost.wall, cost.cpu + after - before, max(cost.rss, peak), masked)

    def ask(self, way: str, query: str) -> Reply:
        if self.tool.cold:
            self.stop()
        outcome = run([*self.tool.asks[way], query], self.environ)
        try:
            return Reply(outcome.cost, self.tool.sessions(json.loads(outcome.stdout)))
        except (ValueError, KeyError, TypeError):
            return Reply(outcome.cost, [], outcome.complaint)

    def index_bytes(self) -> int:
        return size(self.home / self.tool.state)

    def forget(self) -> None:
        self.stop()
        shutil.rmtree(self.home / self.tool.state, ignore_errors=True)

    def stop(self) -> None:
        if self.tool.stop:
            run(self.tool.stop, self.environ)  # that none was running is no failure

    def _daemon(self) -> tuple[float, int]:
        """(CPU seconds, peak bytes) so far of a daemon that detached itself; zero without /proc."""
        for record in (self.home / self.tool.state).glob("daemon.*.json"):
            process = Path("/proc", record.name.split(".")[1])
            with contextlib.suppress(OSError):
                ticks = (process / "stat").read_text().rpartition(")")[2].split()[11:15]  # own and children's
                peak = (process / "status").read_text().partition("VmHWM:")[2].split()[0]
                return sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK"), int(peak) * 1024
        return 0.0, 0


@contextlib.contextmanager
def bench(tool: Tool, home: Path) -> Iterator[Bench]:
    """No daemon outlives it."""
    placed = Bench(tool, home)
    try:
        yield placed
    finally:
        placed.stop()


# --- the tools -------------------------------------------------------------------------------------


def tools(peers: bool) -> Iterator[Tool | Absent]:
    yield _aj(str(aj()))
    for package, program, described in PEERS if peers else ():
        try:
            yield from described(str(_installed(package, program)))
        except Unusable as reason:
            yield Absent(package, str(reason))


def present(tool: Tool | Absent) -> Tool:
    if isinstance(tool, Absent):
        raise Unusable(tool.reason)
    return tool


def _aj(program: str) -> Tool:
    ask = (program, "search", "--json", "-n", str(TOP))
    return Tool(
        name="aj",
        index=(program, "reindex", "--no-vectors"),  # what the others make; embed.py tells what vectors cost
        asks={"no refresh": (*ask, "--no-refresh", "--"), "refresh": (*ask, "--")},
        sessions=lambda reply: [match["session"]["id"] for match in reply["matches"]],
        state=".agent-journal",
    )


def _fast_resume(program: str) -> Iterator[Tool]:
    ask = (program, "--json", "--limit", str(TOP))
    yield Tool(
        name="fast-resume",
        index=(*ask, "--", "index"),  # it has no command that only indexes
        asks={"no refresh": (*ask, "--no-refresh", "--"), "refresh": (*ask, "--")},
        sessions=lambda reply: [session["id"] for session in reply["sessions"]],
        state=".cache/fast-resume",
    )


def _agentsview(program: str) -> Iterator[Tool]:
    def sessions(reply: Any) -> list[str]:
        return [match["session_id"].rpartition(":")[2] for match in reply["matches"]]

    ask = (program, "session", "search", "--json", "--limit", str(TOP))
    words, content = (*ask, "--fts", "--"), (*ask, "--")
    stop = (program, "daemon", "stop")
    yield Tool(
        name="agentsview, no daemon",
        index=("env", "AGENTSVIEW_NO_DAEMON=1", program, "sync"),
        asks={"FTS, starts daemon": words},
        sessions=sessions,
        state=".agentsview",
        extra=QUIET,
        stop=stop,
        cold=True,
    )
    yield Tool(
        name="agentsview, daemon",
        index=(program, "sync"),
        asks={"FTS": words, "substring": content},
        sessions=sessions,
        state=".agentsview",
        extra=QUIET,
        stop=stop,
    )


Described = Callable[[str], Iterator[Tool]]
PEERS: Sequence[tuple[str, str, Described]] = (
    ("fast-resume", "fr", _fast_resume),
    ("agentsview", "agentsview", _agentsview),
)


def _installed(package: str, program: str) -> Path:
    """Installed once a machine and user; later runs find it."""
    folder = Path(tempfile.gettempdir(), f"aj-bench-peers-{os.getuid()}")
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.is_symlink() or folder.stat().st_uid != os.getuid():
        raise Unusable(f"{folder} belongs to somebody else: set TMPDIR to a folder of your own")
    found = folder / "bin" / program
    if found.exists():
        return found
    if not (folder / "bin" / "pip").exists():
        succeeded(run([sys.executable, "-m", "venv", str(folder)], os.environ))
    try:
        succeeded(run([str(folder / "bin" / "pip"), "install", "--quiet", package], os.environ))
    except Unusable as reason:
        raise Unusable(f"could not be installed: {reason}") from reason
    if not found.exists():
        raise Unusable(f"the package has no program named {program}")
    return found
