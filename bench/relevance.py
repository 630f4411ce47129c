"""How well search answers real questions: hit@1, hit@10 and MRR@10, at session and message level, by kind and place.

    python bench/relevance.py [--home DIR] [--queries FILE] [--agents claude-code,copilot-cli] [--mode hybrid]
                              [--journal DIR] [--misses]

Asked by words, by meaning, by both, and by both without a model (hash). Reads ../shared/data unless told otherwise; the
journal goes to a temporary folder, or to --journal and stays there, so that the next run need not embed again.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from agent_journal.answer import Answer, Match
from agent_journal.config import Config, load
from agent_journal.connectors.registry import SOURCE_KEYS
from agent_journal.search import Journal
from agent_journal.session import Message

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"
TOP = 10
NO_MODEL = "no-such-model"
MODES = {"lexical": "words", "semantic": "meaning", "hybrid": "words and meaning", "hash": "hybrid, no model: hash"}


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


# --- what the modes have to say to each other ---------------------------------------------------------------


def hits(outcomes: Sequence[Outcome]) -> dict[str, int]:
    return {
        "session hit@1": sum(o.session_rank == 1 for o in outcomes),
        "session hit@10": sum(o.session_rank is not None for o in outcomes),
        "message hit@1": sum(o.message_rank == 1 for o in outcomes),
        "message hit@10": sum(o.message_rank is not None for o in outcomes),
    }


def summary(mode: str, outcomes: Sequence[Outcome]) -> str:
    shares = [f"{count / len(outcomes):.3f}".rjust(7) for count in hits(outcomes).values()]
    paraphrases = of_kind(outcomes, "paraphrase")
    hard = f"{hits(paraphrases)['session hit@10'] / len(paraphrases):.3f}" if paraphrases else "-"
    return f"{mode:<10}" + "".join(f"{share:>9}" for share in shares) + f"{hard:>13}"


def of_kind(outcomes: Sequence[Outcome], kind: str) -> list[Outcome]:
    return [o for o in outcomes if o.item["kind"] == kind]


def below(found: Mapping[str, list[Outcome]], mode: str) -> Iterator[str]:
    """Where a mode finds less than words alone."""
    for kind in dict.fromkeys(o.item["kind"] for o in found["lexical"]):
        words, both = hits(of_kind(found["lexical"], kind)), hits(of_kind(found[mode], kind))
        yield from (f"{kind} {level} {both[level]} < {words[level]}" for level in words if both[level] < words[level])


def compared(found: Mapping[str, list[Outcome]]) -> Iterator[str]:
    yield f"{'fractions':<10}{'session':>9}{'session':>9}{'message':>9}{'message':>9}{'paraphrase':>13}"
    yield f"{'':<10}{'hit@1':>9}{'hit@10':>9}{'hit@1':>9}{'hit@10':>9}{'ses. hit@10':>13}"
    yield from (summary(mode, outcomes) for mode, outcomes in found.items())
    for mode in ("hybrid", "hash"):
        if "lexical" in found and mode in found:
            less = "; ".join(below(found, mode))
            yield f"{mode} is not below lexical for any kind: {f'no ({less})' if less else 'yes'}"


# --- the run ------------------------------------------------------------------------------------------------


def without_model(config: Config) -> Config:
    return replace(config, vector=replace(config.vector, model=NO_MODEL, fallback="hash"))


def asked(home: Path, folder: Path, mode: str, items: Sequence[dict[str, Any]]) -> list[Outcome]:
    environ = {"HOME": str(home), "AJ_HOME": str(folder / "model")}
    config = load(environ, SOURCE_KEYS)
    if mode == "hash":  # in a folder of its own: once it is through, the model's vectors would be deleted
        environ["AJ_HOME"] = str(folder / "hash")
        shutil.copytree(folder / "model", folder / "hash", ignore=shutil.ignore_patterns("vectors"), dirs_exist_ok=True)
        config = without_model(load(environ, SOURCE_KEYS))
    way = "hybrid" if mode == "hash" else mode
    with Journal.open(config, environ) as journal:
        journal.reindex(vectors=mode != "lexical")
        answers = [journal.search(i["query"], mode=way, limit=TOP, context=0, refresh=False) for i in items]
    return list(map(outcome, items, answers))


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--home", type=Path, default=SHARED / "home")
    options.add_argument("--queries", type=Path, default=SHARED / "relevance" / "queries.jsonl")
    options.add_argument("--agents", default="", help="only questions about these (default: all)")
    options.add_argument("--mode", default="all", choices=[*MODES, "all"])
    options.add_argument("--journal", type=Path, help="keep the journal here")
    options.add_argument("--misses", action="store_true", help="also print what was not found")
    chosen = options.parse_args()
    if not chosen.queries.exists() or not chosen.home.exists():
        print(f"{chosen.queries} or {chosen.home} is not there", file=sys.stderr)
        return 2
    items = [json.loads(line) for line in chosen.queries.read_text("utf-8").splitlines() if line.strip()]
    items = [i for i in items if not chosen.agents or i["agent"] in chosen.agents.split(",")]
    found = {}
    with tempfile.TemporaryDirectory() as scratch:
        for mode in MODES if chosen.mode == "all" else [chosen.mode]:
            found[mode] = asked(chosen.home, chosen.journal or Path(scratch), mode, items)
            print(f"{mode}: {MODES[mode]}", *table(found[mode]), "", sep="\n", flush=True)
            if chosen.misses:
                print(*misses(found[mode]), "", sep="\n")
    print("\n".join(compared(found)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
