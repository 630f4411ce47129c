"""From scored documents to the order people see. Values in, values out: opens nothing.

A session in which much of the query is found is likelier the one meant than a session with one lucky message;
and one session must not fill the page.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from msgspec import Struct

PER_SESSION = 3  # matches of one session that count in full
LATER_TURN = 0.9  # what its further matches then count
SESSION_SHARE = 0.1  # how much the rest of a session's matches may lift its best one
SESSION_DEPTH = 2  # matches of a session that count for it


class Candidate(Struct, frozen=True):
    message: int
    session: int
    score: float


def ranked(candidates: Sequence[Candidate]) -> list[Candidate]:
    """The same candidates, best first, with scores that include what their sessions add."""
    lifted = _lifted(candidates)
    lifted.sort(key=lambda c: (-c.score, c.message))
    return _spread(lifted)


def with_latest(best_first: Sequence[Candidate], latest: Mapping[int, int]) -> list[Candidate]:
    """The same order, but that some messages come no later than at a given place, with the score that stood there."""
    order = list(best_first)
    for message, place in sorted(latest.items(), key=lambda pair: pair[1]):
        at = next((at for at, c in enumerate(order) if c.message == message), 0)
        if at >= place:
            found = order.pop(at)
            order.insert(place - 1, Candidate(message, found.session, order[place - 1].score))
    return order


def _lifted(candidates: Sequence[Candidate]) -> list[Candidate]:
    scores: dict[int, list[float]] = {}
    for c in candidates:
        scores.setdefault(c.session, []).append(c.score)
    lift: dict[int, float] = {}
    for session, found in scores.items():
        found.sort(reverse=True)
        rest = sum(score / found[0] for score in found[1 : 1 + SESSION_DEPTH]) if found[0] > 0 else 0.0
        lift[session] = 1.0 + SESSION_SHARE * math.log1p(rest)
    return [Candidate(c.message, c.session, c.score * lift[c.session]) for c in candidates]


def _spread(best_first: Sequence[Candidate]) -> list[Candidate]:
    """After every PER_SESSION matches, a session's next ones count for less: others that fit nearly as well come
    first, those that hardly fit do not."""
    seen: dict[int, int] = {}
    spread: list[tuple[float, Candidate]] = []
    for c in best_first:
        turn = seen.get(c.session, 0) // PER_SESSION
        seen[c.session] = seen.get(c.session, 0) + 1
        spread.append((c.score * LATER_TURN**turn, c))
    spread.sort(key=lambda pair: -pair[0])
    return [Candidate(c.message, c.session, score) for score, c in spread]
