"""How texts are cut before they are embedded."""

from __future__ import annotations

import time
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_journal.index.chunks import (
    CHUNK_CHARS,
    CODE_CHARS,
    LONGEST_RUN,
    MOST_CHUNKS,
    OVERLAP_CHARS,
    chunks,
    digest_of,
)

SENTENCE = "The parser drops nested quotes when a field ends in a comma."
MARKUP = st.sampled_from(
    ["```\n", "~~~~\n", "`", "<b>", "</", "<a href='x'>", "| a | b |\n", "---\n", "**", "# ", "> ", "- ", "\n\n", "\t"]
)
WORDS = st.text(st.characters(exclude_categories=[]), max_size=80) | st.just("x" * 500)
TEXTS = st.lists(MARKUP | WORDS | st.just(SENTENCE), max_size=60).map(" ".join)
# Letters and stops only: nothing of it is markup, and no run of it is too long.
PLAIN = st.lists(st.text("abcdefgäßж漢", min_size=1, max_size=LONGEST_RUN - 1), min_size=1, max_size=400)


def without_overlap(pieces: list[str]) -> str:
    """The pieces one after the other, each without what it repeats of the one before; without spaces."""
    joined = pieces[0]
    for before, piece in pairwise(pieces):
        repeated = before[-OVERLAP_CHARS:].partition(" ")[2]
        assert piece.startswith(repeated)
        joined += piece[len(repeated) :]
    return "".join(joined.split())


@given(TEXTS)
def test_pieces_of_any_text_fit_and_are_one_line(text: str) -> None:
    found = chunks(text)
    assert len(found) <= MOST_CHUNKS
    assert all(0 < len(piece) <= CHUNK_CHARS + OVERLAP_CHARS for piece in found)
    assert all(character == " " or not character.isspace() for piece in found for character in piece)


@given(TEXTS)
def test_a_text_is_cut_the_same_way_each_time(text: str) -> None:
    assert [digest_of(piece) for piece in chunks(text)] == [digest_of(piece) for piece in chunks(text)]


@given(PLAIN)
def test_pieces_hold_all_of_a_plain_text(words: list[str]) -> None:
    text = ". ".join(words)
    found = chunks(text)
    if len("".join(text.split())) < 3:
        return
    assert without_overlap(found) == "".join(text.split())


def test_one_sentence_is_one_piece() -> None:
    assert chunks(SENTENCE) == [SENTENCE]


def test_a_thought_that_is_cut_stands_in_the_next_piece_again() -> None:
    first, second, *_ = chunks(" ".join(f"Sentence number {n} says something." for n in range(40)))
    assert second.startswith(first[-OVERLAP_CHARS:].partition(" ")[2])
    assert first.endswith(".")


@pytest.mark.parametrize("text", ["", " \n\t ", "k", "----", "```\n```", "||||", "<br/>"])
def test_nothing_to_mean_is_no_piece(text: str) -> None:
    assert chunks(text) == []


def test_markup_is_no_part_of_what_is_meant() -> None:
    text = "# Heading\n\n* **Bold** item\n> quoted\n\n| a | b |\n|-----|-----|\n<b class='x'>tag</b>"
    assert chunks(text) == ["Heading Bold item quoted a b tag"]


def test_of_a_long_code_block_the_first_lines_are_kept() -> None:
    code = "\n".join(f"line_{n} = compute({n})" for n in range(200))
    (*_, last) = found = chunks(f"Look at this:\n```python\n{code}\n```\nIt is too slow.")
    assert sum(map(len, found)) < 2 * CODE_CHARS
    assert "line_0" in found[0]
    assert last.endswith("It is too slow.")
    assert not any("line_199" in piece for piece in found)


def test_a_fence_that_is_never_closed_costs_only_itself() -> None:
    assert chunks("Before.\n```\ncode") == ["Before. code"]


def test_an_encoded_file_is_not_embedded() -> None:
    (piece,) = chunks("See " + "QUJD" * 5000 + " there")
    assert piece == "See " + "QUJD" * (LONGEST_RUN // 4) + " there"


def test_a_pasted_dump_has_a_limit() -> None:
    assert len(chunks("An entry of a log that never ends. " * 100_000)) == MOST_CHUNKS


def test_half_a_surrogate_pair_has_a_digest() -> None:
    (piece,) = chunks("broken \ud83d character")
    assert 0 <= digest_of(piece) < 2**64


ODD = ["`", "~", "<", "|", "<a ", "```\n", "~~~`", " ", "\n", " \n", "-", "*", "# ", "> ", "a", ". ", "_", "\t", "</"]


@pytest.mark.parametrize("part", ODD, ids=repr)
def test_a_megabyte_of_odd_input_takes_no_time(part: str) -> None:
    """Twice as much must not take four times as long: the part that is looked at is done in a moment."""
    text = part * (2**20 // len(part))
    started = time.process_time()
    chunks(text)
    chunks(f"{text}\n```\n{text}")
    assert time.process_time() - started < 2
