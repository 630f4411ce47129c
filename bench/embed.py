"""What search by meaning costs: messages embedded a second, memory, the first query, and `aj search` in a new process.

    python bench/embed.py [--texts 400] [--runs 3] [--home DIR] [--journal DIR]

The product beside the plainest loops around onnxruntime for the same file, each in a process of its own. The journal of
--home (else ../shared/data/home) goes to a temporary folder, or to --journal and stays.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from measure import MB, Cost, Unusable, aj, environment, guarded, run, succeeded, table, wrapped

if TYPE_CHECKING:  # at run time only the children load them: see measure.py
    from agent_journal.index.model import Model

HOME = Path(__file__).resolve().parents[2] / "shared" / "data" / "home"
WORDS = (
    "the test fails because server returns an empty list when client sends two requests at once so we have to lock it"
)
LENGTHS = (40, 160)  # words, each a token: 100 on average, and unequal, or sorting by length would gain nothing
BATCH = 16
QUESTIONS = (
    "why does the build fail",
    "flaky test on the second run",
    "how did we decide where settings are kept",
    "connection refused",
    "merge conflict in the lock file",
    "make the first search faster",
    "README.md",
)
NOTES = """\
Texts of {low} to {high} tokens, {texts} of them; the best of {runs} runs, tokenizing included, loading not. Peak RSS \
is of the whole process. Cold: a new process from start to exit, in turns, {cold} questions each."""

Loop = Callable[[Sequence[str]], Any]


def texts(count: int) -> list[str]:
    chance = random.Random(1)
    return [" ".join(chance.choices(WORDS.split(), k=chance.randint(*LENGTHS))) for _ in range(count)]


# --- in a child: ways to embed ------------------------------------------------------------------------------


def product(model: Model) -> Loop:
    from agent_journal.index.embed import OnnxEmbedder

    return OnnxEmbedder(model).embed


def one_a_run(model: Model) -> Loop:
    """A thread per core, each running one text on one core."""
    from concurrent.futures import ThreadPoolExecutor

    import numpy as np

    tokenizer, session, cores = loaded(model, threads=1)

    def embed(given: Sequence[str]) -> None:
        def vector(ids: list[int]) -> Any:
            ones = np.ones((1, len(ids)), np.int64)
            return session.run(None, {"input_ids": np.array([ids]), "attention_mask": ones})

        encoded = sorted((each.ids for each in tokenizer.encode_batch(given)), key=len, reverse=True)
        with ThreadPoolExecutor(cores) as pool:
            list(pool.map(vector, encoded))

    return embed


def batches(model: Model) -> Loop:
    """Sorted by length and padded, all cores in one run."""
    import numpy as np

    tokenizer, session, _ = loaded(model, threads=0)

    def embed(given: Sequence[str]) -> None:
        encoded = sorted((each.ids for each in tokenizer.encode_batch(given)), key=len)
        for start in range(0, len(encoded), BATCH):
            batch = encoded[start : start + BATCH]
            ids = np.zeros((len(batch), len(batch[-1])), np.int64)
            mask = np.zeros_like(ids)
            for row, each in enumerate(batch):
                ids[row, : len(each)], mask[row, : len(each)] = each, 1
            session.run(None, {"input_ids": ids, "attention_mask": mask})

    return embed


def loaded(model: Model, threads: int) -> tuple[Any, Any, int]:
    import onnxruntime  # type: ignore[import-untyped]
    from tokenizers import Tokenizer

    from agent_journal.index.embed import usable_cores

    tokenizer = Tokenizer.from_file(str(model.folder / model.card.tokenizer))
    tokenizer.no_padding()
    tokenizer.enable_truncation(model.card.tokens)
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = threads or usable_cores()
    settings.add_session_config_entry("session.intra_op.allow_spinning", "0")
    session = onnxruntime.InferenceSession(model.folder / model.card.model, settings, ["CPUExecutionProvider"])
    return tokenizer, session, usable_cores()


WAYS: dict[str, tuple[str, Callable[[Model], Loop]]] = {
    "product": ("aj: OnnxEmbedder.embed", product),
    "one": ("onnxruntime, one text a run, a thread a core", one_a_run),
    "batches": (f"onnxruntime, sorted batches of {BATCH}", batches),
}


def child(way: str, count: int, runs: int) -> None:
    """Prints the seconds of each run; of one query, nothing."""
    from agent_journal.index.model import bundled

    model = bundled()
    if model is None:
        raise Unusable("this installation has no bundled model")
    if way == "query":
        from agent_journal.index.embed import OnnxEmbedder

        OnnxEmbedder(model).embed_query(QUESTIONS[0])
        return
    embed, given, seconds = WAYS[way][1](model), texts(count), []
    embed(given[:BATCH])  # the first allocates
    for _ in range(runs):
        started = time.perf_counter()
        embed(given)
        seconds.append(time.perf_counter() - started)
    print(json.dumps(seconds))


# --- from outside -------------------------------------------------------------------------------------------


def embedding(chosen: argparse.Namespace, environ: dict[str, str]) -> Iterator[tuple[str, ...]]:
    for way, (name, _) in WAYS.items():
        print(f"running {name} …", file=sys.stderr)
        size = ("--texts", str(chosen.texts), "--runs", str(chosen.runs))
        outcome = succeeded(run([sys.executable, __file__, "--child", way, *size], environ))
        best = min(json.loads(outcome.stdout))
        yield name, f"{chosen.texts / best:.0f}", f"{outcome.cost.rss / MB:.0f}"


def cold(environ: dict[str, str]) -> Iterator[tuple[str, ...]]:
    """In turns, so that a noisy minute falls on all of them."""
    query = [sys.executable, __file__, "--child", "query"]
    commands: dict[str, Callable[[str], list[str | Path]]] = {
        "load the model, embed one query": lambda _: [*query],
        "aj search --mode lexical": lambda text: [aj(), "search", text, "--mode", "lexical"],
        "aj search --mode hybrid": lambda text: [aj(), "search", text, "--mode", "hybrid"],
    }
    costs: dict[str, list[Cost]] = {name: [] for name in commands}
    for text in (QUESTIONS[0], *QUESTIONS):
        for name, command in commands.items():
            outcome = run(command(text), environ)
            if outcome.code not in (0, 1):  # 1: nothing found
                raise Unusable(outcome.complaint)
            costs[name].append(outcome.cost)
    for name, (_, *each) in costs.items():  # the first warmed the file cache
        walls = [1000 * cost.wall for cost in each]
        cpu, rss = median(1000 * cost.cpu for cost in each), max(cost.rss for cost in each)
        yield name, f"{min(walls):.0f}", f"{median(walls):.0f}", f"{cpu:.0f}", f"{rss / MB:.0f}"


def compare(chosen: argparse.Namespace) -> None:
    from agent_journal.index.embed import TELEMETRY_OFF

    with tempfile.TemporaryDirectory(prefix="aj-bench-") as scratch:
        quiet = dict.fromkeys(TELEMETRY_OFF, "1")  # of the plain loops: it would write below the home that is measured
        environ = environment(chosen.home, {"AJ_HOME": str(chosen.journal or Path(scratch)), **quiet})
        rows = list(embedding(chosen, environ))
        print(table(["embedding", "texts/s", "peak RSS MB"], rows, (), words=1), "", sep="\n", flush=True)
        print("running aj reindex …", file=sys.stderr)
        succeeded(run([aj(), "reindex"], environ))
        heads = ["cold, ms", "best", "median", "CPU", "peak RSS MB"]
        print(table(heads, list(cold(environ)), (), words=1), "", sep="\n")
    low, high = (2 + length for length in LENGTHS)  # the special tokens
    print(wrapped(NOTES.format(low=low, high=high, texts=chosen.texts, runs=chosen.runs, cold=len(QUESTIONS))))


def main() -> None:
    layout = argparse.RawDescriptionHelpFormatter
    options = argparse.ArgumentParser(description=__doc__, formatter_class=layout)
    options.add_argument("--texts", type=int, default=400)
    options.add_argument("--runs", type=int, default=3)
    options.add_argument("--home", type=Path, default=HOME)
    options.add_argument("--journal", type=Path, help="keep the journal here")
    options.add_argument("--child", choices=[*WAYS, "query"], help=argparse.SUPPRESS)
    chosen = options.parse_args()
    if chosen.child:
        child(chosen.child, chosen.texts, chosen.runs)
    elif not chosen.home.is_dir():
        raise Unusable(f"{chosen.home} is not a folder")
    else:
        compare(chosen)


if __name__ == "__main__":
    sys.exit(guarded(main))
