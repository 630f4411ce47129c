"""What a search by vector costs, and what the one-bit prefilter misses of the exact answer.

    python bench/vectors.py [--rows 100000,500000,1000000] [--dimensions 384] [--precision f16] [--runs 5]

The vectors are made: clusters of unequal size, numbers of unequal weight, and a common lean, as models' are.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
from measure import MB, Unusable, guarded, table, wrapped
from numpy.typing import NDArray

from agent_journal.index.vector_scan import best, numpy_dots
from agent_journal.index.vectors import Vectors

MARK = "bench"
CENTRES = 2000
BATCH = 20_000
QUERIES = 100  # for the recall; the times are of the first
TOP = 50
NEVER = 10**12  # rows
NOTES = """\
Milliseconds for the top {top} of one query, best of {runs}, the file in memory; new: a process that opens the file \
and asks once, without its start and imports. Recall: how much of the exact top 10 the prefilter finds, the mean \
of {queries} queries."""
NEW_PROCESS = """
import sys, time
from pathlib import Path
import numpy as np
from agent_journal.index.vectors import Vectors
folder, dimensions, precision, exact = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
query = np.load(folder / "query.npy")
started = time.perf_counter()
vectors, why = Vectors.open(folder, "bench", dimensions, precision, exact)
assert vectors is not None, why
vectors.search(query, 50)
print(time.perf_counter() - started)
"""


class Clusters:
    """An endless supply of unit vectors, and of queries that are like them."""

    def __init__(self, dimensions: int) -> None:
        self.chance = np.random.default_rng(1)
        weights: NDArray[np.float32] = np.arange(1, dimensions + 1, dtype=np.float32) ** np.float32(-0.5)
        self.weights = weights / np.sqrt((weights**2).mean())
        self.mixing = np.linalg.qr(self.chance.standard_normal((dimensions, dimensions)))[0].astype(np.float32)
        self.centres = self._spread(CENTRES) + 0.3 * self.chance.standard_normal(dimensions, dtype=np.float32)
        shares = np.arange(1, CENTRES + 1) ** -0.7
        self.shares = shares / shares.sum()

    def _spread(self, count: int) -> NDArray[np.float32]:
        drawn = self.chance.standard_normal((count, len(self.weights)), dtype=np.float32)
        spread: NDArray[np.float32] = self.weights * drawn
        return spread

    def drawn(self, count: int) -> NDArray[np.float32]:
        near = self.chance.choice(CENTRES, count, p=self.shares)
        vectors = (self.centres[near] + self._spread(count)) @ self.mixing
        scaled: NDArray[np.float32] = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        return scaled


@dataclass(frozen=True, slots=True)
class Shape:
    dimensions: int
    precision: str
    runs: int


def grown(folder: Path, sizes: Sequence[int], shape: Shape, clusters: Clusters) -> Iterator[int]:
    """One file that grows to each size in turn; bits beside at every size."""
    made = Vectors.create(folder, MARK, shape.dimensions, shape.precision, exact_rows=0)
    for size in sorted(sizes):
        while made.count < size:
            count = min(BATCH, size - made.count)
            made.append(np.arange(count, dtype=np.uint64), clusters.drawn(count))
            made.commit()
        yield size


def opened(folder: Path, shape: Shape, exact_rows: int) -> Vectors:
    vectors, why = Vectors.open(folder, MARK, shape.dimensions, shape.precision, exact_rows)
    if vectors is None:
        raise Unusable(why)
    return vectors


def milliseconds(runs: int, ask: Callable[[], Any]) -> str:
    times = []
    for _ in range(runs):
        started = time.perf_counter()
        ask()
        times.append(time.perf_counter() - started)
    return f"{1000 * min(times):.1f}"


def new_process(folder: Path, shape: Shape, exact_rows: int) -> str:
    options = (str(folder), str(shape.dimensions), shape.precision, str(exact_rows))
    argv = [sys.executable, "-P", "-c", NEW_PROCESS, *options]  # -P: not the package as it stands in this folder
    seconds = [float(subprocess.run(argv, capture_output=True, check=True, text=True).stdout) for _ in range(3)]
    return f"{1000 * min(seconds):.1f}"


def row(folder: Path, shape: Shape, queries: NDArray[np.float32]) -> list[str]:
    exact, prefiltered = opened(folder, shape, NEVER), opened(folder, shape, 0)
    query, stored = queries[0], exact.vectors
    np.save(folder / "query.npy", query)
    found = [
        len(np.intersect1d(exact.search(each, 10)[0], prefiltered.search(each, 10)[0])) / min(10, exact.count)
        for each in queries
    ]
    return [
        f"{exact.count:,}",
        f"{stored.dtype.itemsize * stored.size / MB:.0f}",
        milliseconds(max(1, shape.runs // 2), lambda: best(numpy_dots(query.astype(stored.dtype), stored), TOP)),
        milliseconds(shape.runs, lambda: exact.search(query, TOP)),
        milliseconds(shape.runs, lambda: prefiltered.search(query, TOP)),
        new_process(folder, shape, NEVER),
        new_process(folder, shape, 0),
        f"{mean(found):.3f}",
    ]


def options() -> argparse.Namespace:
    layout = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=layout)
    parser.add_argument("--rows", default="100000,500000,1000000", help="sizes, with commas")
    parser.add_argument("--dimensions", type=int, default=384)
    parser.add_argument("--precision", choices=("f16", "f32"), default="f16")
    parser.add_argument("--runs", type=int, default=5)
    return parser.parse_args()


def main() -> None:
    chosen = options()
    sizes = [int(size) for size in chosen.rows.split(",") if size.strip().isdecimal()]
    if not sizes:
        raise Unusable(f"--rows {chosen.rows}: no number in it")
    shape, clusters = Shape(chosen.dimensions, chosen.precision, chosen.runs), Clusters(chosen.dimensions)
    queries = clusters.drawn(QUERIES)
    with tempfile.TemporaryDirectory(prefix="aj-bench-") as scratch:
        rows = [row(Path(scratch), shape, queries) for _ in grown(Path(scratch), sizes, shape, clusters)]
    heads = ("rows", "MB", "numpy", "exact", "one-bit", "exact, new", "one-bit, new", "recall@10")
    print(table(heads, rows, (), 0))
    print()
    print(wrapped(NOTES.format(top=TOP, runs=chosen.runs, queries=QUERIES)))


if __name__ == "__main__":
    sys.exit(guarded(main))
