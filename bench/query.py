"""What a question costs and whether it is answered: needles in the top 10 by place, and times cold and warm.

    python bench/query.py [--home DIR | --sessions N --agents claude,copilot] [--peers] [--runs 3]

A home without needles.json is asked a few fixed questions, for their time only.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import quantiles

from measure import MB, Absence, Unusable, copied, corpus, guarded, options, size, table, wrapped
from peers import TOP, Bench, Reply, Tool, bench, present, tools

from agent_journal.config import load
from agent_journal.connectors.registry import SOURCE_KEYS
from agent_journal.search import Journal

FIXED = ("failing test", "merge conflict", "why does the build fail", "README.md", "connection refused")
COLD = 5  # questions asked of a daemon that must start each time: a start and a stop take seconds
PHRASE = "natural"  # the kind of needle whose words are also scattered over other sessions
NOTES = """\
Needles: the planted phrase, typed without quotes, finds its session among the first {top} results. A \
result of aj and of agentsview is a message, one of fast-resume a session. Every tool is asked as it \
comes: agentsview then leaves out sessions of one turn.
Times: a new process per question, every question {runs} times; warm library: one open journal in this process."""


@dataclass(frozen=True, slots=True)
class Needle:
    query: str
    session: str = ""
    where: str = ""
    kind: str = ""


@dataclass(frozen=True, slots=True)
class Asked:
    """One tool, one way of asking it, every needle."""

    name: str
    ranks: tuple[int | None, ...]  # in the order of the needles; None: not among the first
    seconds: tuple[float, ...]
    errors: tuple[str, ...] = ()


@dataclass(slots=True)
class Findings:
    asked: list[Asked] = field(default_factory=list)
    timed: list[tuple[str, ...]] = field(default_factory=list)
    absent: list[Absence] = field(default_factory=list)


def needles(home: Path) -> list[Needle]:
    planted = home / "needles.json"
    if not planted.exists():
        return [Needle(query) for query in FIXED]
    return [
        Needle(each["query"], each["session"], each["where"], each["kind"])
        for each in json.loads(planted.read_text("utf-8"))
    ]


def asked(placed: Bench, way: str, wanted: Sequence[Needle], runs: int) -> Asked:
    passes = [[placed.ask(way, needle.query) for needle in wanted] for _ in range(runs)]
    ranks = tuple(rank(reply, needle) for reply, needle in zip(passes[0], wanted, strict=True))
    replies = [reply for one in passes for reply in one]
    return Asked(
        name=f"{placed.tool.name}, {way}",
        ranks=ranks,
        seconds=tuple(reply.cost.wall for reply in replies),
        errors=tuple(reply.error for reply in replies if reply.error),
    )


def rank(reply: Reply, needle: Needle) -> int | None:
    first = reply.sessions[:TOP]
    return first.index(needle.session) + 1 if needle.session in first else None


def warm(placed: Bench, wanted: Sequence[Needle], runs: int) -> tuple[float, ...]:
    seconds = []
    with Journal.open(load(placed.environ, SOURCE_KEYS), placed.environ) as journal:
        for turn in range(runs + 1):
            for needle in wanted:
                started = time.perf_counter()
                journal.search(needle.query, refresh=False)
                if turn:  # the first turn warms up
                    seconds.append(time.perf_counter() - started)
    return tuple(seconds)


# --- tables ----------------------------------------------------------------------------------------


def timing(name: str, seconds: Sequence[float]) -> tuple[str, ...]:
    cuts = quantiles(seconds, n=20, method="inclusive")
    return name, *(f"{1000 * value:.1f}" for value in (min(seconds), cuts[9], cuts[18])), str(len(seconds))


def places(wanted: Sequence[Needle], columns: Sequence[Asked]) -> list[tuple[str, ...]]:
    def found(where: str | None) -> tuple[str, ...]:
        chosen = [at for at, needle in enumerate(wanted) if needle.session and where in (None, needle.where)]
        cells = (f"{sum(one.ranks[at] is not None for at in chosen)} of {len(chosen)}" for one in columns)
        return (where or "all", *(cells if chosen else [""] * len(columns)))

    rows = [found(where) for where in dict.fromkeys(needle.where for needle in wanted if needle.where)]
    rows.append(found(None))
    for at, needle in enumerate(wanted):
        if needle.kind == PHRASE:
            rows.append(("rank of exact phrase", *(str(one.ranks[at] or "-") for one in columns)))
    return rows


# --- the run ---------------------------------------------------------------------------------------


def measure(tool: Tool, home: Path, wanted: Sequence[Needle], runs: int, findings: Findings) -> None:
    with bench(tool, home) as placed:
        placed.index()
        for way in tool.asks:
            one = asked(placed, way, wanted[:COLD] if tool.cold else wanted, runs)
            findings.timed.append(timing(one.name, one.seconds))
            if not (tool.cold or way == "refresh"):  # the same answers, asked another way
                findings.asked.append(one)
        if tool.name == "aj":
            findings.timed.append(timing("aj, warm library", warm(placed, wanted, runs)))


def compare(chosen: argparse.Namespace) -> None:
    findings = Findings()
    with corpus(chosen) as (scratch, home):
        wanted = needles(home)
        for tool in tools(chosen.peers):
            print(f"running {tool.name} …", file=sys.stderr)
            copy = copied(home, scratch / "home")
            try:
                measure(present(tool), copy, wanted, chosen.runs, findings)
            except Unusable as reason:
                findings.absent.append((tool.name, str(reason)))
            finally:
                shutil.rmtree(copy)
        what = chosen.home or f"{chosen.sessions} made sessions of {chosen.agents}"
        print(f"{what}: {size(home) / MB:.1f} MB, {len(wanted)} questions")
    shown(findings, wanted, chosen.runs)


def shown(findings: Findings, wanted: Sequence[Needle], runs: int) -> None:
    heads = ["needles in the top 10", *(one.name.removesuffix(", no refresh") for one in findings.asked)]
    print("", table(heads, places(wanted, findings.asked), findings.absent, words=1), sep="\n")
    heads = ["time, ms", "best", "median", "p95", "n"]
    print("", table(heads, findings.timed, findings.absent, words=1), "", sep="\n")
    for one in findings.asked:
        if one.errors:
            print(wrapped(f"{one.name}: {len(one.errors)} questions ended in an error: {one.errors[0]}"))
    for note in NOTES.format(top=TOP, runs=runs).splitlines():
        print(wrapped(note))


if __name__ == "__main__":
    sys.exit(guarded(lambda: compare(options(__doc__).parse_args())))
