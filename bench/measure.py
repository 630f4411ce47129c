"""What the benchmarks share: homes to run in, processes measured from outside, and plain tables.

Nothing here touches the agents' own files: every tool works in a copy of the home, and keeps its state there.
Imports stay few, because a child's peak memory cannot be read below that of the process which starts it.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import stat
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

GENERATOR = Path(__file__).resolve().parents[1].parent / "shared" / "tools" / "gen_corpus.py"
NOT_SOURCES = ("needles.json", "manifest.json")  # the generator's own, beside the sessions
WIDTH = 100
MB = 1_000_000

Absence = tuple[str, str]  # a tool, and in words why it has no numbers


class Unusable(Exception):
    """A sentence for the user: why a benchmark, or one row of it, cannot run."""


@dataclass(frozen=True, slots=True)
class Cost:
    wall: float  # seconds
    cpu: float  # seconds, user and system, of the process and of the children it waited for
    rss: int  # bytes, of the largest single process among them
    masked: bool = False  # true if rss is only an upper bound: it was below that of the measuring process


@dataclass(frozen=True, slots=True)
class Outcome:
    cost: Cost
    code: int
    stdout: str
    stderr: str

    @property
    def complaint(self) -> str:
        lines = (self.stderr or self.stdout).strip().splitlines()
        return lines[-1] if lines else f"exit code {self.code} and no word"


def environment(home: Path, extra: Mapping[str, str]) -> dict[str, str]:
    """Only what a program needs: no AJ_*, XDG_* or agent's variable may lead outside the copy."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "LC_ALL", "TMPDIR") if name in os.environ}
    return {**kept, "HOME": str(home), **extra}


def run(argv: Sequence[str | Path], environ: Mapping[str, str]) -> Outcome:
    """One process, from start to exit."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        started = time.perf_counter()
        try:
            child = subprocess.Popen(argv, env=environ, stdin=subprocess.DEVNULL, stdout=out, stderr=err)
        except OSError as error:
            raise Unusable(f"{argv[0]} does not start: {error.strerror}") from error
        _, status, used = os.wait4(child.pid, 0)
        wall = time.perf_counter() - started
        child.returncode = os.waitstatus_to_exitcode(status)
        texts = [os.pread(file.fileno(), 1 << 30, 0).decode("utf-8", "replace") for file in (out, err)]
    peak, own = rss_bytes(used), rss_bytes(resource.getrusage(resource.RUSAGE_SELF))
    cost = Cost(wall, used.ru_utime + used.ru_stime, peak, peak <= own)
    return Outcome(cost, child.returncode, texts[0], texts[1])


def rss_bytes(used: resource.struct_rusage) -> int:
    return used.ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def succeeded(outcome: Outcome) -> Outcome:
    if outcome.code:
        raise Unusable(outcome.complaint)
    return outcome


def aj() -> Path:
    """The `aj` of the Python that runs the benchmark."""
    found = Path(sys.executable).parent / "aj"
    if not found.exists():
        raise Unusable(f"there is no aj beside {sys.executable}: install the project there first")
    return found


# --- homes -----------------------------------------------------------------------------------------


def options(description: str | None) -> argparse.ArgumentParser:
    layout = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=description, formatter_class=layout)
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--home", type=Path, help="a home with sessions; it is copied, never written to")
    which.add_argument("--sessions", type=_count, default=2000, help="make a home of so many (default 2000)")
    parser.add_argument("--agents", default="claude,copilot", help="whose sessions to make")
    parser.add_argument("--peers", action="store_true", help="also run fast-resume and agentsview")
    parser.add_argument("--runs", type=_count, default=3, help="the best of so many is shown (default 3)")
    return parser


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError("a whole number from 1")
    return int(text)


@contextmanager
def corpus(chosen: argparse.Namespace) -> Iterator[tuple[Path, Path]]:
    """(scratch folder, the home to copy from); both are gone afterwards unless the home was given."""
    with tempfile.TemporaryDirectory(prefix="aj-bench-") as folder:
        scratch = Path(folder)
        if chosen.home is None:
            yield scratch, _generated(scratch / "corpus", chosen.sessions, chosen.agents)
        elif chosen.home.is_dir():
            yield scratch, _narrowed(chosen.home.resolve(), scratch / "corpus")
        else:
            raise Unusable(f"{chosen.home} is not a folder")


def _generated(home: Path, sessions: int, agents: str) -> Path:
    if not GENERATOR.exists():
        raise Unusable(f"{GENERATOR} is not there, so no home can be made: give one with --home")
    size_and_kind = ("--sessions", str(sessions), "--agents", agents)
    home.mkdir()
    succeeded(run([sys.executable, GENERATOR, "--home", home, *size_and_kind], environment(home, {})))
    return home


def _narrowed(given: Path, home: Path) -> Path:
    """Only the folders aj reads: a real home holds far more, and all tools should see the same."""
    environ = environment(given, {"AJ_HOME": str(home.with_name("no-journal"))})
    listed = json.loads(succeeded(run([aj(), "agents", "--json"], environ)).stdout)
    for agent in listed["agents"]:
        for root in (Path(each["path"]) for each in agent["roots"] if each["exists"]):
            if root.is_relative_to(given):
                copied(root, home / root.relative_to(given))
    for name in NOT_SOURCES:
        if (given / name).exists():
            shutil.copy(given / name, home / name)
    if not home.exists():
        raise Unusable(f"aj knows no agent's folder below {given}")
    return home


def copied(source: Path, target: Path) -> Path:
    shutil.copytree(source, target, symlinks=True, dirs_exist_ok=True)
    for folder, _, names in os.walk(target):
        for path in (Path(folder), *(Path(folder, name) for name in names)):
            if not path.is_symlink():
                path.chmod(path.stat().st_mode | stat.S_IRUSR | stat.S_IWUSR | (stat.S_IXUSR if path.is_dir() else 0))
    return target


def size(path: Path) -> int:
    if path.is_file():
        return path.stat().st_size
    return sum(each.lstat().st_size for each in path.rglob("*") if each.is_file() and each.name not in NOT_SOURCES)


def held_back(home: Path, pieces: int) -> tuple[Path, list[bytes]]:
    """Cuts the newest session short, so that it can grow again by its own lines, one piece a time."""
    for path in sorted(home.rglob("*.jsonl"), key=lambda each: each.stat().st_mtime, reverse=True):
        lines = path.read_bytes().splitlines(keepends=True)
        share = min(5, len(lines) // (2 * pieces))
        if share:
            kept = len(lines) - share * pieces
            path.write_bytes(b"".join(lines[:kept]))
            return path, [b"".join(lines[at : at + share]) for at in range(kept, len(lines), share)]
    raise Unusable("no JSONL session is long enough to be cut and grown")


# --- tables ----------------------------------------------------------------------------------------


def table(heads: Sequence[str], rows: Sequence[Sequence[str]], absent: Sequence[Absence], words: int) -> str:
    """The first columns are words, the others numbers; what has no numbers stands below, with its reason."""
    widths = [max(len(row[column]) for row in [heads, *rows]) for column in range(len(heads))]
    widths[0] = max(widths[0], *(len(name) for name, _ in absent), 0)
    sides = ["<"] * words + [">"] * (len(heads) - words)
    lines = ["  ".join(map(format, row, map("{}{}".format, sides, widths))).rstrip() for row in [heads, *rows]]
    reasons = [wrapped(f"{name:<{widths[0]}}  {reason}") for name, reason in absent]
    return "\n".join([lines[0], "-" * max(map(len, lines)), *lines[1:], *reasons])


def wrapped(text: str) -> str:
    return textwrap.fill(text, WIDTH, subsequent_indent="    ")


def guarded(main: Callable[[], Any]) -> int:
    try:
        main()
        sys.stdout.flush()
    except BrokenPipeError:  # `| head` has seen enough; nor may the flush at exit complain
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except Unusable as reason:
        print(f"{Path(sys.argv[0]).name}: {reason}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    return 0
