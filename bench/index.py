"""What indexing costs: a full index, a run with nothing new, a run after one session grew.

python bench/index.py [--home DIR | --sessions N --agents claude,copilot] [--peers] [--runs 3]
"""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from measure import (
    MB,
    Absence,
    Cost,
    Unusable,
    copied,
    corpus,
    guarded,
    held_back,
    options,
    size,
    table,
    wrapped,
)
from peers import Bench, Tool, bench, present, tools

HEADS = ("tool", "what", "wall s", "CPU s", "peak RSS MB", "index MB", "index/source")
NOTES = """\
Wall is the best of {runs} runs, the other columns are of that run. CPU counts children that were waited \
for; RSS is the largest single process (<n: below that of the measuring process).
The session that grows gets back its own last lines, up to five a run.
{peers}"""
PEER_NOTES = """\
fast-resume has no command that only indexes: its rows contain one query. It indexes user and assistant \
text only.
agentsview's daemon rows add the daemon's CPU and its peak RSS since it started; its full index includes \
that start."""


def rows(tool: Tool, home: Path, source: int, runs: int) -> Iterator[tuple[str, ...]]:
    path, pieces = held_back(home, runs)
    with bench(tool, home) as placed:

        def grow() -> None:
            with path.open("ab") as file:
                file.write(pieces.pop(0))

        yield row(placed, "full index", cheapest(placed, runs, placed.forget), source)
        yield row(placed, "nothing changed", cheapest(placed, runs, lambda: None))
        yield row(placed, "one file grew", cheapest(placed, runs, grow))


def cheapest(placed: Bench, runs: int, prepared: Callable[[], None]) -> Cost:
    costs = []
    for _ in range(runs):
        prepared()
        costs.append(placed.index())
    return min(costs, key=lambda cost: cost.wall)


def row(placed: Bench, what: str, cost: Cost, source: int = 0) -> tuple[str, ...]:
    held = placed.index_bytes()
    sizes = (f"{held / MB:.1f}", f"{held / source:.2f}") if source else ("", "")
    rss = f"{'<' if cost.masked else ''}{cost.rss / MB:.0f}"
    return placed.tool.name, what, f"{cost.wall:.2f}", f"{cost.cpu:.2f}", rss, *sizes


def measured(tool: Tool, scratch: Path, home: Path, runs: int) -> list[tuple[str, ...]]:
    print(f"running {tool.name} …", file=sys.stderr)
    copy = copied(home, scratch / "home")
    try:
        return list(rows(tool, copy, size(home), runs))
    finally:
        shutil.rmtree(copy)


def compare(chosen: argparse.Namespace) -> None:
    found: list[tuple[str, ...]] = []
    absent: list[Absence] = []
    with corpus(chosen) as (scratch, home):
        for tool in tools(chosen.peers):
            try:
                found += measured(present(tool), scratch, home, chosen.runs)
            except Unusable as reason:
                absent.append((tool.name, str(reason)))
        what = chosen.home or f"{chosen.sessions} made sessions of {chosen.agents}"
        print(f"{what}: {size(home) / MB:.1f} MB\n")
    print(table(HEADS, found, absent, words=2))
    notes = NOTES.format(runs=chosen.runs, peers=PEER_NOTES if chosen.peers else "").strip()
    print("", *map(wrapped, notes.splitlines()), sep="\n")


if __name__ == "__main__":
    sys.exit(guarded(lambda: compare(options(__doc__).parse_args())))
