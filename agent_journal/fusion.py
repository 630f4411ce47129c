"""Two kinds of evidence for one answer: words and meaning, added up. Values in, values out: opens nothing.

Words count as the word index scores them; meaning counts in deviations above what is usual for the query, so that no
model's own scale matters. What each is worth is read from the query's own scores, not from its kind:
- Rare words that stand together score high in absolute terms (an error message: 170), common ones do not (a question
  for code: 60). The first outweigh meaning, the second give way to it; dividing by the best score would lose that.
- Where even the best message holds little of what was asked, as with a paraphrase, words mislead and count for less.
- A text that is far nearer than all others means that the model understands the query.
- Names of code and languages it never learnt are not words to a model: the more of them, the less it has to say.
bench/README.md says what each gained, and on which queries.
"""

from __future__ import annotations

from collections.abc import Mapping

MEANING = 15.0  # points of the word index for one deviation
USUAL_PEAK = 4.0  # deviations of the nearest text, at which meaning counts in full; by its square
LEAST_PEAK, MOST_PEAK = 0.3, 3.0
USUAL_BEST = 90.0  # points of the best message, at which words count in full
BEST_POWER = 1.6  # pasted lines and rare names score high, and are meant as they stand
FULL_COVER = 4.0  # best score over the rarity of what was asked; questions that share words are above, others below
COVER_POWER = 1.5  # words that hold half of it mislead more than half as often
STRENGTH_POWER = 1.2  # near the strongest counts for more than in proportion
WITHIN = 2.5  # times that words count more inside a session
# Of the best words and of the nearest text in a message's session: what was asked and what was found of it often stand
# in two messages.
SESSION_WORDS, SESSION_MEANING = 0.15, 0.1
# The best by one kind of evidence come no later than at these places: each kind fails on some queries, and the other
# must not hide that. Of 211 real questions 168 then have their message in the first ten, not 165.
LATEST_BY_WORDS, LATEST_BY_MEANING = (6,), (3, 5, 8, 10)

# A message that holds all the words is worth at least so often what the nearest one is worth by its meaning: who asks
# for one word or two wants to see them, and a rare one in a tool's output scores few points. Once for many words, not
# half, and a FULL_COVER of 4, not 3: of 130 real questions 89 have their session first, not 86.
HELD = {1: 4.0, 2: 2.0}
HELD_MANY = 1.0


def trust(best: float, rarity: float) -> float:
    """What words are worth, by the best score they reach."""
    cover = min(1.0, best / rarity / FULL_COVER) if rarity > 0 else 1.0
    return float(cover**COVER_POWER * (best / USUAL_BEST) ** BEST_POWER)


def peak(strongest: float) -> float:
    return min(MOST_PEAK, max(LEAST_PEAK, (strongest / USUAL_PEAK) ** 2))


def shares(
    words: Mapping[int, float], strengths: Mapping[int, float], rarity: float, familiar: float = 1.0, held: int = 0
) -> tuple[dict[int, float], dict[int, float]]:
    """(What words, what meaning adds to each message's score.) `familiar`: how much of the query the model knows, 0 to
    1. `held`: how many words were asked for, if a message holds them all."""
    best, strongest = max(words.values(), default=0.0), max(strengths.values(), default=0.0)
    said, meant = trust(best, rarity), MEANING * peak(strongest) * familiar
    if held and best > 0:
        said = max(said, HELD.get(held, HELD_MANY) * meant * strongest / best)
    near = {m: strongest * (x / strongest) ** STRENGTH_POWER for m, x in strengths.items() if x > 0}
    return {m: said * points for m, points in words.items()}, {m: meant * near.get(m, 0.0) for m in strengths}


def fused(words: Mapping[int, float], meaning: Mapping[int, float], sessions: Mapping[int, int]) -> dict[int, float]:
    """Message -> score, over all of both shares."""
    found = dict.fromkeys([*words, *meaning], 0.0)
    for share, weight in ((words, SESSION_WORDS), (meaning, SESSION_MEANING)):
        best: dict[int, float] = {}
        for m, score in share.items():
            best[sessions[m]] = max(best.get(sessions[m], 0.0), score)
        for m in found:
            found[m] += (1 - weight) * share.get(m, 0.0) + weight * best.get(sessions[m], 0.0)
    return found


def words_first_within(
    scores: Mapping[int, float], words: Mapping[int, float], sessions: Mapping[int, int]
) -> dict[int, float]:
    """The same scores, inside each session in the order that they had if words counted more.

    Which session comes first is decided by both kinds of evidence. Inside of one all messages are about the same, and
    nearness tells little: what was asked for word by word is likelier where the words are.
    """
    within = {m: score + (WITHIN - 1) * words.get(m, 0.0) for m, score in scores.items()}
    here: dict[int, list[int]] = {}
    for m in scores:
        here.setdefault(sessions[m], []).append(m)
    found: dict[int, float] = {}
    for messages in here.values():
        order = sorted(messages, key=lambda m: (-within[m], m))
        found.update(zip(order, sorted(map(scores.__getitem__, messages), reverse=True), strict=True))
    return found
