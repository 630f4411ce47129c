"""The hits of the last search, so that `aj show 3` opens hit 3.

Of no consequence: what cannot be written is not worth a word, and what cannot be read is no hit.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from agent_journal.errors import NoSuchSession

NAME = "last_search.json"
Hit = tuple[str, int]  # session key, ordinal


def remember(folder: Path, hits: Mapping[int, Hit]) -> None:
    """By rank. A later page joins those before it; after a search without hits there are none."""
    file = folder / NAME
    try:
        kept = _kept(file) if min(hits, default=1) > 1 else {}
        if file.exists() and not file.is_file():  # a pipe would be waited for
            return
        file.touch(mode=0o600)
        file.write_text(json.dumps({**kept, **{str(rank): hit for rank, hit in hits.items()}}), "utf-8")
    except OSError:
        return


def recall(folder: Path, rank: int) -> Hit:
    hit = _kept(folder / NAME).get(str(rank))
    if hit is None:
        raise NoSuchSession(f"the last search has no hit {rank}", "search again, or give a session's id")
    return hit


def _kept(file: Path) -> dict[str, Hit]:
    try:
        found = json.loads(file.read_text("utf-8") if file.is_file() else "{}")
        return {str(rank): (str(key), int(ordinal)) for rank, (key, ordinal) in found.items()}
    except (OSError, ValueError, TypeError, AttributeError, OverflowError, RecursionError):
        return {}
