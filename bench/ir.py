"""How well search ranks, against judged sets: nDCG@10 and recall@10 by words, by meaning and by both.

    python bench/ir.py [--data DIR] [--journal DIR] [--every N] [--choose]

Conversation (LoCoMo, asked within one conversation) and code (CoSQA) become sessions of Claude Code, and the journal is
asked as it is: one configuration for both. Reads ../shared/data/ir; neither set is shipped. The journals go to a
temporary folder, or to --journal and stay. --choose tries other weights of fusion, on every second query only.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import json
import math
import re
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import mean
from typing import Any
from unittest.mock import patch

from measure import Unusable, guarded, table

from agent_journal import fusion
from agent_journal.config import load
from agent_journal.connectors.registry import SOURCE_KEYS
from agent_journal.index.embed import OnnxEmbedder
from agent_journal.query import Query, parse
from agent_journal.search import Journal

DATA = Path(__file__).resolve().parents[2] / "shared" / "data" / "ir"
SETS = ("locomo", "cosqa")
MODES = ("lexical", "semantic", "hybrid")
TOP = 10
BEGIN = datetime(2025, 1, 1, tzinfo=UTC)
GRID: Mapping[str, tuple[float, ...]] = {
    "MEANING": (9.0, 12.0, 15.0, 18.0, 21.0),
    "FULL_COVER": (2.2, 2.6, 3.0),
    "USUAL_BEST": (75.0, 90.0, 110.0),
}
OPERATORS = re.compile(r'[":()*~]|(?<!\S)-')  # of the query language; these questions are plain text

Score = tuple[float, float]  # nDCG@10, recall@10


@dataclass(frozen=True, slots=True)
class Judged:
    name: str
    documents: Sequence[dict[str, Any]]
    queries: Sequence[dict[str, Any]]
    relevant: Mapping[str, frozenset[str]]  # query -> documents


def judged(folder: Path) -> Judged:
    files = [folder / name for name in ("corpus.jsonl", "queries.jsonl", "qrels.tsv")]
    if missing := [file for file in files if not file.exists()]:
        raise Unusable(f"{missing[0]} is not there")
    corpus, queries, pairs = (file.read_text("utf-8").splitlines() for file in files)
    relevant: dict[str, set[str]] = {}
    for query, document, score in (line.split("\t") for line in pairs[1:]):
        if int(score) > 0:
            relevant.setdefault(query, set()).add(document)
    asked = [q for q in map(json.loads, queries) if q["_id"] in relevant]
    return Judged(folder.name, list(map(json.loads, corpus)), asked, {q: frozenset(d) for q, d in relevant.items()})


# --- as sessions --------------------------------------------------------------------------------------------


def written(home: Path, found: Judged) -> None:
    """A conversation is a project, one of its days (conv-26/D1:3) a session; a function is a session of its own."""
    sessions: dict[tuple[str, str], list[str]] = {}
    for number, document in enumerate(found.documents):
        project = document.get("group", found.name)
        name = re.sub(r"\W", "-", document["_id"].split(":")[0])
        lines = sessions.setdefault((project, name), [])
        lines.append(json.dumps(record(document, project, name, len(lines), BEGIN + timedelta(minutes=number))))
    for (project, name), lines in sessions.items():
        file = home / ".claude" / "projects" / f"-ir-{project}" / f"{name}.jsonl"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("\n".join(lines) + "\n", "utf-8")


def record(document: Mapping[str, str], project: str, session: str, turn: int, at: datetime) -> dict[str, Any]:
    role = "assistant" if turn % 2 else "user"
    message = {"role": role, "id": document["_id"], "content": [{"type": "text", "text": document["text"]}]}
    return {
        "type": role,
        "uuid": document["_id"],
        "parentUuid": None,
        "sessionId": session,
        "timestamp": at.isoformat(),
        "cwd": f"/ir/{project}",
        "version": "2.1.100",
        "message": message,
    }


def opened(folder: Path, found: Judged) -> Journal:
    environ = {"HOME": str(folder / found.name), "AJ_HOME": str(folder / f"{found.name}-journal")}
    if not (folder / found.name).exists():
        written(folder / found.name, found)
    journal = Journal.open(load(environ, SOURCE_KEYS), environ)
    report = journal.reindex()
    sessions, messages = journal.store.counts()
    if messages != len(found.documents):
        raise Unusable(f"{found.name}: {messages} messages in the journal, {len(found.documents)} documents")
    print(f"{found.name}: {sessions} sessions, {messages} messages, {report.seconds:.0f} s", file=sys.stderr)
    return journal


# --- asked --------------------------------------------------------------------------------------------------


def question(query: Mapping[str, str]) -> Query:
    plain = parse(OPERATORS.sub(" ", query["text"]))
    return plain.with_filter("project", query["group"]) if "group" in query else plain


def score(journal: Journal, mode: str, query: Mapping[str, str], relevant: frozenset[str]) -> Score:
    answer = journal.search(question(query), mode=mode, limit=TOP, context=0, refresh=False)
    if answer.used != mode and answer.why:
        raise Unusable(f"{mode} was asked for, {answer.used} used: {answer.why}")
    ranks = [m.rank for m in answer.matches if m.message.message.uuid in relevant]
    ideal = sum(1 / math.log2(rank + 1) for rank in range(1, min(TOP, len(relevant)) + 1))
    return sum(1 / math.log2(rank + 1) for rank in ranks) / ideal, len(ranks) / len(relevant)


def scores(journal: Journal, found: Judged, mode: str, half: int, every: int = 1) -> list[Score]:
    return [score(journal, mode, q, found.relevant[q["_id"]]) for q in found.queries[half :: 2 * every]]


def shown(scored: Sequence[Score]) -> str:
    return f"{mean(s[0] for s in scored):.3f}/{mean(s[1] for s in scored):.3f}"


def rows(journals: Mapping[str, tuple[Journal, Judged]], every: int) -> Iterator[tuple[str, ...]]:
    for name, (journal, found) in journals.items():
        for mode in MODES:
            started = time.perf_counter()
            even, odd = (scores(journal, found, mode, half, every) for half in (0, 1))
            asked = len(even) + len(odd)
            took = 1000 * (time.perf_counter() - started) / asked
            yield name, mode, shown(even), shown(odd), shown([*even, *odd]), str(asked), f"{took:.1f}"


def chosen_weights(journals: Mapping[str, tuple[Journal, Judged]], every: int) -> None:
    """The best of the grid on the even half, by the mean of the sets' nDCG; then the odd half, which had no say."""
    if missing := [name for name in GRID if not hasattr(fusion, name)]:
        raise Unusable(f"agent_journal.fusion has no {', '.join(missing)}")
    product = tuple(getattr(fusion, name) for name in GRID)

    def with_weights(weights: Sequence[float], half: int, every: int = 1) -> list[list[Score]]:
        with patch.dict(vars(fusion), zip(GRID, weights, strict=True)):
            return [scores(journal, found, "hybrid", half, every) for journal, found in journals.values()]

    tried = {}
    for weights in itertools.product(*GRID.values()):
        found = with_weights(weights, 0, every)
        tried[weights] = mean(mean(s[0] for s in scored) for scored in found)
        print(*weights, f"{tried[weights]:.4f}", *map(shown, found), file=sys.stderr, flush=True)
    best = max(tried, key=lambda weights: tried[weights])
    print("", f"weights {', '.join(GRID)}; even half (chosen on), then odd half (checked on)", sep="\n")
    for label, weights in (("best of the grid", best), ("as shipped", product)):
        even, odd = ([shown(s) for s in with_weights(weights, half)] for half in (0, 1))
        print(f"{label:<17}", *weights, " even:", *even, " odd:", *odd)


def main() -> None:
    layout = argparse.RawDescriptionHelpFormatter
    options = argparse.ArgumentParser(description=__doc__, formatter_class=layout)
    options.add_argument("--data", type=Path, default=DATA)
    options.add_argument("--journal", type=Path, help="keep the journals here")
    options.add_argument("--every", type=int, default=1, metavar="N", help="only every Nth query of those asked")
    options.add_argument("--choose", action="store_true", help="try other weights of fusion; with --every 3: minutes")
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        found = [judged(chosen.data / name) for name in SETS]
        journals = {each.name: (opened(chosen.journal or Path(scratch), each), each) for each in found}
        # A vector depends on nothing but the text: embedding each question once is not what is measured here.
        with patch.object(OnnxEmbedder, "embed_query", functools.cache(OnnxEmbedder.embed_query)):
            heads = ["nDCG@10/recall@10", "mode", "even half", "odd half", "all", "queries", "ms/query"]
            print(table(heads, list(rows(journals, chosen.every)), (), words=2), flush=True)
            if chosen.choose:
                chosen_weights(journals, chosen.every)
        for journal, _ in journals.values():
            journal.close()


if __name__ == "__main__":
    sys.exit(guarded(main))
