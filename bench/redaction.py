"""What redaction costs and finds, beside detect-secrets where that is installed.

    python bench/redaction.py [--home DIR] [--journal DIR] [--runs 3]

Over the sessions of --home (else ../shared/data/home; a journal of it goes to a temporary folder, or is taken from
--journal), and over made secrets of every shape, alone and inside texts of those sessions.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from measure import MB, Unusable, aj, environment, guarded, run, succeeded, table, wrapped

if TYPE_CHECKING:
    from agent_journal.session import Account

ROOT = Path(__file__).resolve().parents[1]
HOME = ROOT.parent / "shared" / "data" / "home"
SAMPLE = MB // 2  # characters that detect-secrets is given: it is slow
CASES = 20  # times every shape is made, each time another secret
NOTES = """\
MB: text that was read, UTF-8. Speed: by CPU time, the best of {runs} runs, sessions already in memory. detect-secrets \
reads a file of {sample} MB of the same texts with its own settings; it tells the line and not always the place, so \
whatever it reports of a made secret counts. For us one is found if it is gone; in place: put between two halves of a \
text of the sessions."""


@contextmanager
def sessions(home: Path, journal: Path | None) -> Iterator[list[Account]]:
    from agent_journal.index.store import Store
    from agent_journal.session import Account

    with tempfile.TemporaryDirectory() as folder:
        if journal is None:
            journal = Path(folder)
            succeeded(run([aj(), "reindex", "--no-vectors"], environment(home, {"AJ_HOME": folder})))
        store = next(filter(None, map(Store.open, (journal, journal / "index"))), None)
        if store is None:
            raise Unusable(f"there is no journal in {journal}")
        with store:
            yield [
                Account(one.session, one.derived, tuple(m.message for m in held), tuple(m.ordinal for m in held))
                for one in store.newest_sessions(1_000_000, 0, None)[1]
                for held in [store.messages(one.row)]
            ]


def texts(accounts: Sequence[Account]) -> list[str]:
    """Every string that a Redactor reads of them."""
    from agent_journal.redaction import Redactor

    read: list[str] = []

    class Reader(Redactor):
        def text(self, text: str) -> str:
            read.append(text)
            return text

    reader = Reader()
    for account in accounts:
        reader.account(account)
    return read


# --- the two ways ------------------------------------------------------------------------------------------------


def redacted(accounts: Sequence[Account], runs: int) -> tuple[float, Counter[str]]:
    """(Seconds of CPU, places replaced by kind.)"""
    from agent_journal.redaction import Redactor

    best = float("inf")
    for _ in range(runs):
        redactor, started = Redactor(), time.process_time()
        for account in accounts:
            redactor.account(account)
        best = min(best, time.process_time() - started)
    return best, redactor.counts


def is_gone(text: str, secret: str) -> bool:
    from agent_journal.redaction import Redactor

    return secret not in Redactor().text(text)


class DetectSecrets:
    """The library as its command line uses it: on a file, with the plugins and filters of its own choice."""

    def __init__(self) -> None:
        from detect_secrets import settings
        from detect_secrets.core import scan

        self.settings, self.scan = settings.default_settings, scan.scan_file

    def found(self, text: str) -> list[str]:
        """The kinds of what it reports."""
        with tempfile.NamedTemporaryFile("w", encoding="utf-8", suffix=".txt") as file, self.settings():
            file.write(text)
            file.flush()
            return [one.type for one in self.scan(file.name)]


def detect_secrets() -> DetectSecrets | None:
    try:
        return DetectSecrets()
    except ImportError:
        return None


# --- tables ------------------------------------------------------------------------------------------------------


def cost(accounts: Sequence[Account], other: DetectSecrets | None, runs: int) -> None:
    all_texts = texts(accounts)
    size = sum(len(text.encode("utf-8", "replace")) for text in all_texts)
    seconds, counts = redacted(accounts, runs)
    print(f"{len(accounts)} sessions, {len(all_texts)} texts, {size / MB:.1f} MB\n")
    rows = [["agent-journal", _kinds(counts), f"{size / MB:.1f}", f"{size / MB / seconds:.1f}"]]
    if other:
        sample = "\n".join(random.Random(1).sample(all_texts, len(all_texts)))[:SAMPLE]
        started = time.process_time()
        found = Counter(other.found(sample))
        rate = len(sample.encode("utf-8", "replace")) / MB / (time.process_time() - started)
        rows.append(["detect-secrets", _kinds(found), f"{SAMPLE / MB:.1f}", f"{rate:.2f}"])
    print(table(["", "found, by kind", "MB read", "MB/s"], rows, (), words=2))


def _kinds(counts: Counter[str]) -> str:
    return ", ".join(f"{count} {kind}" for kind, count in counts.most_common()) or "none"


def recall(accounts: Sequence[Account], other: DetectSecrets | None) -> None:
    sys.path.insert(0, str(ROOT / "tests"))
    from made_secrets import INNOCENT, made

    chance = random.Random(1)
    places = [text for text in texts(accounts) if 200 < len(text) < 5000]
    tally: dict[str, list[int]] = {}
    for seed in range(CASES):
        for case in made(seed):
            place = chance.choice(places)
            cut = place.find("\n", len(place) // 2) + 1
            row = tally.setdefault(case.kind, [0, 0, 0, 0, 0])
            row[0] += 1
            row[1] += is_gone(case.text, case.secret)
            row[2] += is_gone(f"{place[:cut]}\n{case.text}\n{place[cut:]}", case.secret)
            if other and seed == 0:
                row[3] += 1
                row[4] += bool(other.found(case.text))
    rows = [_recall_row(kind, row, other) for kind, row in sorted(tally.items())]
    rows.append(_recall_row("all", [sum(column) for column in zip(*tally.values(), strict=True)], other))
    print(table(["made secrets", "made", "found", "in place", "detect-secrets"], rows, (), words=1))
    print(f"\n{len(INNOCENT)} texts that only look so: {sum(is_gone(text, text) for text in INNOCENT)} changed", end="")
    print(f", {sum(bool(other.found(text)) for text in INNOCENT)} reported by detect-secrets" if other else "")


def _recall_row(kind: str, row: Sequence[int], other: DetectSecrets | None) -> list[str]:
    made, alone, placed, asked, theirs = row
    return [kind, str(made), str(alone), str(placed), f"{theirs} of {asked}" if other else "—"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--home", type=Path, default=HOME)
    parser.add_argument("--journal", type=Path)
    parser.add_argument("--runs", type=int, default=3)
    given = parser.parse_args()
    other = detect_secrets()
    with sessions(given.home, given.journal) as accounts:
        cost(accounts, other, given.runs)
        print()
        recall(accounts, other)
    print("\n" + wrapped(NOTES.format(runs=given.runs, sample=SAMPLE / MB)))
    if other is None:
        print("\ndetect-secrets is not installed: no figures for it.")


if __name__ == "__main__":
    sys.exit(guarded(main))
