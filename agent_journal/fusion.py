"""Two kinds of evidence for one answer: words and meaning, added up. Values in, values out: opens nothing.

Words count as the word index scores them; meaning counts in deviations above what is usual for the query, so that no
model's own scale matters. Both weights read the query instead of being set by its kind:
- Rare words that stand together score high in absolute terms (an error message: 170), common ones do not (code
  questions: 60). Not dividing by the best score lets the first outweigh meaning and the second give way to it.
- Where the best message holds only little of what was asked, words mislead: their part is cut (paraphrases).
- A query that some text answers far better than all others is one that the model understands.
bench/README.md says what each gained, on which queries they were chosen, and on which they were checked.
"""

from __future__ import annotations

from collections.abc import Mapping

MEANING = 12.0  # points of the word index for one deviation
USUAL_PEAK = 4.0  # deviations of the best text, at which meaning counts in full
LEAST_PEAK, MOST_PEAK = 0.3, 2.0
FULL_COVER = 2.6  # best score over the words' rarity; real questions are above, paraphrases below
COVER_POWER = 2


def cover(best: float, rarity: float) -> float:
    """How much the words can be trusted: 1 where the best message holds what was asked."""
    return min(1.0, best / rarity / FULL_COVER) ** COVER_POWER if rarity > 0 else 1.0


def peak(strongest: float) -> float:
    return min(MOST_PEAK, max(LEAST_PEAK, strongest / USUAL_PEAK))


def fused(words: Mapping[int, float], strengths: Mapping[int, float], rarity: float, strongest: float) -> dict[int, float]:
    """Message -> score, over all of both."""
    trust = cover(max(words.values(), default=0.0), rarity)
    weight = MEANING * peak(strongest)
    return {m: trust * words.get(m, 0.0) + weight * strengths.get(m, 0.0) for m in {**words, **strengths}}
