"""Two kinds of evidence, added up; whatever the weights are."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from agent_journal.fusion import fused as added
from agent_journal.fusion import peak, shares, trust, words_first_within

POINTS = st.dictionaries(st.integers(1, 30), st.floats(0.01, 500), max_size=12)
STRENGTHS = st.dictionaries(st.integers(1, 30), st.floats(0, 12), max_size=12)
RARITY = st.floats(0, 200)
FAMILIAR = st.floats(0, 1)


def fused(
    words: dict[int, float], strengths: dict[int, float], rarity: float, familiar: float = 1.0
) -> dict[int, float]:
    every = {**words, **strengths}
    return added(*shares(words, strengths, rarity, familiar), {m: m for m in every})  # a session each


def order(scores: dict[int, float]) -> list[int]:
    return sorted(scores, key=lambda m: (-scores[m], m))


@given(POINTS, STRENGTHS, RARITY, FAMILIAR)
def test_whatever_either_found_has_a_score(
    words: dict[int, float], strengths: dict[int, float], rarity: float, familiar: float
) -> None:
    scores = fused(words, strengths, rarity, familiar)
    assert scores.keys() == words.keys() | strengths.keys()
    assert all(0 <= score < float("inf") for score in scores.values())


@given(POINTS, RARITY, FAMILIAR)
def test_words_alone_stay_in_their_order(words: dict[int, float], rarity: float, familiar: float) -> None:
    best = fused(words, {}, rarity, familiar)
    assert all(best[a] >= best[b] for a in words for b in words if words[a] >= words[b])


@given(STRENGTHS, RARITY)
def test_meaning_alone_stays_in_its_order(strengths: dict[int, float], rarity: float) -> None:
    best = fused({}, strengths, rarity)
    assert all(best[a] >= best[b] for a in strengths for b in strengths if strengths[a] >= strengths[b])


def test_of_two_with_the_same_words_the_nearer_comes_first() -> None:
    assert order(fused({1: 50.0, 2: 50.0}, {2: 3.0}, 20.0)) == [2, 1]


def test_of_two_equally_near_the_one_with_the_words_comes_first() -> None:
    assert order(fused({2: 50.0}, {1: 3.0, 2: 3.0}, 20.0)) == [2, 1]


def test_rare_words_that_stand_together_outweigh_meaning() -> None:
    """An error message that was pasted is looked for as it stands."""
    assert order(fused({1: 170.0, 2: 20.0}, {1: 0.0, 2: 5.0}, 40.0))[0] == 1


def test_stray_words_give_way_to_meaning() -> None:
    """A paraphrase: the best message holds little of what was asked."""
    assert order(fused({1: 12.0}, {2: 6.0}, 60.0))[0] == 2


@given(POINTS, STRENGTHS, RARITY)
def test_a_query_that_is_no_words_to_the_model_is_answered_by_words(
    words: dict[int, float], strengths: dict[int, float], rarity: float
) -> None:
    best = fused(words, strengths, rarity, familiar=0.0)
    assert all(best[a] >= best[b] for a in words for b in words if words[a] >= words[b])
    assert all(best[m] == 0 for m in strengths.keys() - words.keys())


def test_a_session_whose_messages_hold_the_words_and_the_meaning_comes_before_ones_with_either() -> None:
    words, meaning = {1: 10.0, 2: 10.0}, {3: 10.0, 4: 10.0}
    assert order(added(words, meaning, {1: 1, 2: 2, 3: 1, 4: 4})) == [3, 1, 2, 4]


@given(st.floats(0, 1000), st.floats(0, 1000), st.floats(0, 200))
def test_more_of_what_was_asked_is_trusted_more(one: float, other: float, rarity: float) -> None:
    low, high = sorted((one, other))
    assert 0 <= trust(low, rarity) <= trust(high, rarity)


@given(st.floats(0, 100), st.floats(0, 100))
def test_a_query_that_is_understood_better_counts_more(one: float, other: float) -> None:
    low, high = sorted((one, other))
    assert 0 < peak(low) <= peak(high) < 10


@given(POINTS, POINTS, st.data())
def test_inside_a_session_words_count_more_and_no_session_gains_or_loses(
    scores: dict[int, float], words: dict[int, float], data: st.DataObject
) -> None:
    sessions = {m: data.draw(st.integers(1, 3)) for m in scores}
    found = words_first_within(scores, words, sessions)

    def of(scores: dict[int, float], session: int) -> list[float]:
        return sorted(scores[m] for m in scores if sessions[m] == session)

    assert all(of(found, s) == of(scores, s) for s in sessions.values())
    for one, other in itertools.permutations(scores, 2):
        alike = sessions[one] == sessions[other] and words.get(one, 0.0) >= words.get(other, 0.0)
        if alike and scores[one] > scores[other]:
            assert found[one] >= found[other]


def test_inside_a_session_the_one_with_the_words_comes_before_one_a_little_nearer() -> None:
    scores = {1: 50.0, 2: 45.0, 3: 30.0, 4: 49.0}
    assert words_first_within(scores, {2: 20.0}, {1: 1, 2: 1, 3: 1, 4: 2}) == {2: 50.0, 1: 45.0, 3: 30.0, 4: 49.0}
