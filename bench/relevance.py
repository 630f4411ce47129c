"""How well search answers real questions: hit@1, hit@10 and MRR@10, at session and message level, by kind and place.

    python bench/relevance.py [--home DIR] [--queries FILE] [--agents claude-code,copilot-cli] [--misses]

Reads ../shared/data unless told otherwise; the journal goes to a temporary folder.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent_journal.answer import Answer, Match
from agent_journal.config import load
from agent_journal.connectors.registry import SOURCE_KEYS
from agent_journal.query import parse
from agent_journal.search import Journal
from agent_journal.session import Message

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"
TOP = 10


@dataclass(frozen=True, slots=True)
class Outcome:
    item: dict[str, Any]
    session_rank: int | None
    message_rank: int | None


def texts(message: Message) -> str:
    parts = [message.text, message.thinking]
    for call in message.tool_calls:
        parts += leaves(call.arguments)
        parts.append(call.result or "")
    return "\n".join(parts)


def leaves(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for part in value.values():
            yield from leaves(part)
    elif isinstance(value, list):
        for part in value:
            yield from leaves(part)


def outcome(item: dict[str, Any], answer: Answer) -> Outcome:
    others = item.get("also", [])
    right = {item["session"], *(other["session"] for other in others)}
    golds = [*item["gold"], *(other["gold"] for other in others)]

    def in_session(match: Match) -> bool:
        ids = {match.session.session.id, match.session.session.parent_session_id}
        ids |= {place.session.partition(":")[2] for place in match.also_in}
        return bool(ids & right)

    def has_gold(match: Match) -> bool:
        return any(gold in texts(match.message.message) for gold in golds)

    return Outcome(item, _rank(answer, in_session), _rank(answer, has_gold))


def _rank(answer: Answer, right: Any) -> int | None:
    return next((m.rank for m in answer.matches[:TOP] if right(m)), None)


def row(name: str, outcomes: list[Outcome]) -> str:
    cells = [f"{name:<24}{len(outcomes):>4}"]
    for ranks in ([o.session_rank for o in outcomes], [o.message_rank for o in outcomes]):
        found = [r for r in ranks if r]
        first, ten = sum(r == 1 for r in found), len(found)
        mrr = sum(1 / r for r in found) / len(ranks)
        cells.append(f"{first:>6} {ten:>6}  {mrr:.3f} ")
    return " |".join(cells)


def table(outcomes: list[Outcome]) -> Iterator[str]:
    yield f"{'':<24}{'n':>4} |{'session':>8} level       |{'message':>8} level"
    yield f"{'':<24}{'':>4} |{'hit@1':>6} {'hit@10':>6} MRR@10 |{'hit@1':>6} {'hit@10':>6} MRR@10"
    for field in ("kind", "where"):
        for value in dict.fromkeys(o.item[field] for o in outcomes):
            yield row(f"{field} {value}", [o for o in outcomes if o.item[field] == value])
    yield row("all", outcomes)


def misses(outcomes: Iterable[Outcome]) -> Iterator[str]:
    for o in outcomes:
        if o.message_rank is None or o.session_rank is None:
            ranks = f"session {o.session_rank or '-'}, message {o.message_rank or '-'}"
            yield f"{o.item['id']} {o.item['kind']} in {o.item['where']}: {o.item['query']!r}: {ranks}"


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--home", type=Path, default=SHARED / "home")
    options.add_argument("--queries", type=Path, default=SHARED / "relevance" / "queries.jsonl")
    options.add_argument("--agents", default="claude-code,copilot-cli")
    options.add_argument("--misses", action="store_true", help="also print what was not found")
    chosen = options.parse_args()
    if not chosen.queries.exists() or not chosen.home.exists():
        print(f"{chosen.queries} or {chosen.home} is not there", file=sys.stderr)
        return 2
    items = [json.loads(line) for line in chosen.queries.read_text("utf-8").splitlines() if line.strip()]
    items = [i for i in items if i["agent"] in chosen.agents.split(",")]
    with tempfile.TemporaryDirectory() as folder:
        environ = {"HOME": str(chosen.home), "AJ_HOME": folder}
        with Journal.open(load(environ, SOURCE_KEYS), environ) as journal:
            journal.reindex()
            outcomes = [
                outcome(i, journal.search(parse(i["query"]), limit=TOP, context=0, refresh=False)) for i in items
            ]
    print("\n".join(table(outcomes)))
    if chosen.misses:
        print("\n".join(misses(outcomes)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
