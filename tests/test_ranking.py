"""The order of candidates, as values."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agent_journal.ranking import PER_SESSION, Candidate, ranked

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


@given(candidates)
def test_a_session_waits_for_the_others_after_its_share(found: list[Candidate]) -> None:
    seen: dict[int, int] = {}
    for c in ranked(found):
        seen[c.session] = seen.get(c.session, 0) + 1
        rounds = (seen[c.session] - 1) // PER_SESSION
        others = {o.session for o in found} - {c.session}
        want = {o: min(PER_SESSION * rounds, sum(x.session == o for x in found)) for o in others}
        assert all(seen.get(o, 0) >= n for o, n in want.items())


def test_a_session_with_more_matches_comes_before_an_equal_one_with_fewer() -> None:
    order = ranked([Candidate(1, 1, 5.0), Candidate(2, 2, 5.0), Candidate(3, 2, 4.0)])
    assert [c.message for c in order] == [2, 1, 3] or [c.message for c in order] == [2, 3, 1]
