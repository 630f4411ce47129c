"""The order of candidates, as values."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from agent_journal.ranking import LATER_TURN, PER_SESSION, Candidate, ranked, with_latest

candidates = st.lists(
    st.builds(Candidate, st.integers(1, 10_000), st.integers(1, 20), st.floats(0, 100)),
    unique_by=lambda c: c.message,
    max_size=200,
)


@given(candidates)
def test_nothing_is_lost_or_made_up(found: list[Candidate]) -> None:
    assert sorted((c.message, c.session) for c in ranked(found)) == sorted((c.message, c.session) for c in found)


@given(candidates)
def test_the_order_does_not_depend_on_the_order_of_arrival(found: list[Candidate]) -> None:
    assert ranked(found) == ranked(found[::-1])


def test_after_its_share_a_session_lets_others_by_that_fit_nearly_as_well() -> None:
    talkative = [Candidate(number, 1, 10.0) for number in range(1, PER_SESSION + 3)]
    nearly = ranked(talkative)[0].score * (1 + LATER_TURN) / 2
    order = ranked([*talkative, Candidate(50, 2, nearly), Candidate(60, 3, 0.1)])
    assert [c.session for c in order] == [1] * PER_SESSION + [2, 1, 1, 3]


def test_what_must_not_come_late_comes_in_time_and_the_others_keep_their_order() -> None:
    order = [Candidate(number, number, 10.0 - number) for number in range(1, 8)]
    found = with_latest(order, {7: 3, 6: 2, 1: 5, 99: 1})
    assert [(c.message, c.score) for c in found] == [(1, 9), (6, 8), (7, 8), (2, 8), (3, 7), (4, 6), (5, 5)]


@given(candidates, st.dictionaries(st.integers(1, 10_000), st.integers(1, 10), max_size=4))
def test_whatever_comes_in_time_nothing_is_lost_and_scores_still_fall(
    found: list[Candidate], latest: dict[int, int]
) -> None:
    before = ranked(found)
    after = with_latest(before, latest)
    assert sorted(c.message for c in after) == sorted(c.message for c in before)
    assert all(a.score >= b.score for a, b in itertools.pairwise(after))


def test_a_session_with_more_matches_comes_before_an_equal_one_with_fewer() -> None:
    order = ranked([Candidate(1, 1, 5.0), Candidate(2, 2, 5.0), Candidate(3, 2, 4.0)])
    assert [c.message for c in order] == [2, 1, 3] or [c.message for c in order] == [2, 3, 1]
