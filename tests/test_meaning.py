"""Files that say which message has which vectors: lost, cut or damaged, they cost answers nothing but their meaning."""

from __future__ import annotations

import json
import shutil
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from conversations import talk, vectors_folder, vectors_of, with_tiny
from hypothesis import given
from hypothesis import strategies as st
from journals import Home, hits

from agent_journal.errors import JournalUnwritable
from agent_journal.index.meaning import NOTHING, PLACE, Embedded, Meaning, State, _Index, _read
from agent_journal.index.report import EmbeddingReport
from agent_journal.index.vectors import Vectors

FILES = ("vectors.bin", "places.bin")
CUTS = (0, 1, 7, 100, 511, 512, 513, 1023, 1024, 1025, 1040, 1500)


@pytest.fixture
def tiny(home: Home) -> Home:
    home = with_tiny(home)
    talk(home, "one", "the parser drops nested quotes", "rename the module", "login token", "cache")
    talk(home, "two", "lentil soup recipe", "cart", *(f"tokenizer {n}" for n in range(60)))
    home.reindex()
    return home


def opened(home: Home) -> Meaning:
    with home.journal() as journal:
        meaning = journal._means().meaning
        assert meaning is not None
        return meaning


def vectors_check(home: Home) -> tuple[bool, str]:
    """What the doctor says of the vectors."""
    with home.journal() as journal:
        return next((fine, said) for name, fine, said in journal.doctor().checks if name == "vectors")


def damaged_anywhere(home: Home, name: str, damages: list[bytes | None]) -> None:
    """After each damage a search answers by words at least, and the next reindex mends it all."""
    file = vectors_folder(home) / name
    whole, known = file.read_bytes(), vectors_of(home).keys()
    healthy = hits(home.search("soup recipe"))
    by_words = hits(home.search("soup recipe", mode="lexical"))
    for damage in damages:
        file.unlink() if damage is None else file.write_bytes(damage)
        answer = home.search("soup recipe")
        assert {hit[:2] for hit in by_words} <= {hit[:2] for hit in hits(answer)}
        if damage != whole:
            assert answer.why or answer.coverage.embedded < 1, "nobody was told"
        assert home.reindex().notes == ()
        assert hits(home.search("soup recipe")) == healthy
        assert home.search("soup recipe").coverage.embedded == 1
        assert vectors_of(home).keys() == known
        whole = file.read_bytes()


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_was_cut_is_mended_by_the_next_reindex(tiny: Home, name: str) -> None:
    whole = (vectors_folder(tiny) / name).read_bytes()
    damaged_anywhere(tiny, name, [whole[:cut] for cut in (*CUTS, len(whole) - 1) if cut < len(whole)])


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_is_gone_or_garbage_is_made_anew(tiny: Home, name: str) -> None:
    garbage = [None, b"", b"\0" * 5000, b"{}\n", b"[1]\n", b'{"journal": 3}\n', bytes(range(256)) * 20, b"\n" * 3000]
    damaged_anywhere(tiny, name, garbage)


def test_places_of_another_journal_cost_no_vector(tiny: Home) -> None:
    """As after journal.db was lost and made anew: pieces are known by their text."""
    for file in tiny.index.glob("journal.db*"):
        file.unlink()
    report = tiny.reindex()
    assert (report.embedding.messages, report.embedding.texts, report.embedding.left) == (66, 0, 0)


def test_a_folder_that_was_deleted_is_made_anew(tiny: Home) -> None:
    known = vectors_of(tiny).keys()
    shutil.rmtree(tiny.index / "vectors")
    answer = tiny.search("soup")
    assert (answer.used, answer.why, len(answer.matches)) == ("lexical", "nothing is embedded yet: aj reindex", 1)
    assert tiny.reindex().embedding.texts == len(known)
    assert vectors_of(tiny).keys() == known


def test_half_a_file_beside_the_whole_one_is_no_matter(tiny: Home) -> None:
    (vectors_folder(tiny) / "places.bin.new").write_bytes(b"{")
    (vectors_folder(tiny) / "vectors.bin.new").write_bytes(b"AJ")
    assert tiny.reindex().embedding == EmbeddingReport()
    talk(tiny, "three", "quotes module")
    assert tiny.reindex().embedding.texts == 1


def test_files_are_for_their_owner_alone(tiny: Home) -> None:
    folder = vectors_folder(tiny)
    assert {(p.stat().st_mode & 0o777) for p in folder.iterdir()} == {0o600}
    assert (folder.stat().st_mode & 0o777, folder.parent.stat().st_mode & 0o777) == (0o700, 0o700)


def test_no_text_of_a_message_stands_in_the_files(tiny: Home) -> None:
    for file in vectors_folder(tiny).iterdir():
        assert b"lentil" not in file.read_bytes()


def test_head_of_places_says_how_far_they_reach(tiny: Home) -> None:
    head, _, content = (vectors_folder(tiny) / "places.bin").read_bytes().partition(b"\n")
    facts = json.loads(head)
    with tiny.journal() as journal:
        assert (facts["complete"], facts["reached"], facts["journal"]) == (
            True,
            journal.store.seq,
            journal.store.journal_id,
        )
    assert len(content) == facts["count"] * PLACE.itemsize


# --- asking ---------------------------------------------------------------------------------------------


def test_nearest_messages_come_once_each_and_best_first(tiny: Home) -> None:
    meaning = opened(tiny)
    query = np.asarray(meaning.vectors.vectors[3], np.float32)
    messages, cosines = meaning.nearest(query, 10, None)
    assert len(set(messages.tolist())) == len(messages) >= 10
    assert cosines[0] == pytest.approx(1, abs=1e-2)
    assert list(cosines) == sorted(cosines, reverse=True)


def test_a_mask_leaves_only_what_it_marks(tiny: Home) -> None:
    meaning = opened(tiny)
    query = np.asarray(meaning.vectors.vectors[0], np.float32)
    chosen = np.unique(meaning.places["message"])[5:9].astype(np.int64)
    messages, _ = meaning.nearest(query, 100, meaning.rows_of(chosen))
    assert set(messages.tolist()) == set(chosen.tolist())


def test_a_mask_without_any_row_finds_nothing(tiny: Home) -> None:
    meaning = opened(tiny)
    none = np.zeros(meaning.vectors.count, np.bool_)
    messages, cosines = meaning.nearest(np.ones(8, np.float32), 5, none)
    assert (len(messages), len(cosines)) == (0, 0)


def test_a_text_that_says_what_all_texts_say_is_not_the_nearest_to_every_question(tmp_path: Path) -> None:
    vectors = Vectors.create(tmp_path, "m", 3, "f32")
    usual, general, telling = [0.91, 0.41, 0.0], [1.0, 0.0, 0.0], [0.8, 0.0, 0.6]
    rows = np.array([general, telling, *[usual] * 5000], np.float32)
    vectors.append(np.arange(len(rows), dtype=np.uint64), rows)
    vectors.commit()
    meaning = Meaning(tmp_path, vectors, Embedded(), np.empty(0, PLACE), State("journal", "", 0))
    query = np.array([0.95, 0.0, 0.31], np.float32)
    assert vectors.search(query, 1)[0].tolist() == [0]
    assert vectors.search(meaning.distinct(query), 1)[0].tolist() == [1]


def test_without_any_vector_a_query_stays_as_it_is(tmp_path: Path) -> None:
    meaning = Meaning(
        tmp_path, Vectors.create(tmp_path, "m", 2, "f32"), Embedded(), np.empty(0, PLACE), State("", "", 0)
    )
    assert meaning.distinct(np.array([0.6, 0.8], np.float32)).tolist() == pytest.approx([0.6, 0.8])


def test_what_is_usual_in_a_small_journal_is_told_by_other_texts(tmp_path: Path) -> None:
    """All of three messages are about what was asked: that makes none of them usual. Nor is one of the others, by
    chance, a measure for all."""
    vectors = Vectors.create(tmp_path, "m", 2, "f32")
    vectors.append(np.arange(3, dtype=np.uint64), np.array([[0.9, 0], [0.92, 0], [0.94, 0]], np.float32))
    vectors.commit()
    meaning = Meaning(tmp_path, vectors, Embedded(), np.empty(0, PLACE), State("", "", 0))
    others = np.array([[0.4, 0], [0.45, 0], [0.5, 0], [0.6, 0], [0.95, 0]], np.float32)
    usual = meaning.usual(np.array([1, 0], np.float32), None, others)
    assert usual.mean == pytest.approx(0.5, abs=0.01)
    assert usual.strength(np.array([0.5, 0.9], np.float32)).tolist() == pytest.approx([0.0, 6.7], abs=0.1)


def test_a_message_that_is_not_there_has_no_strength(tiny: Home) -> None:
    meaning = opened(tiny)
    query = np.asarray(meaning.vectors.vectors[0], np.float32)
    found = meaning.strengths(query, np.array([0, 10**6], np.int64), meaning.usual(query, None, query[None]))
    assert found.tolist() == [0.0, 0.0]


def test_what_is_embedded_is_part_of_what_the_places_are_for() -> None:
    flags, hidden = (False, True), ((), ("/a",), ("/b",))
    marks = {Embedded(*chosen).mark for chosen in product(flags, flags, flags, hidden)}
    assert len(marks) == 24


@given(st.lists(st.tuples(st.integers(1, 12), st.booleans()), max_size=20))
def test_neighbours_speak_in_the_same_session(spoken: list[tuple[int, bool]]) -> None:
    """Against a plain loop: the nearest message with words before and after, never across sessions."""
    rows = [(n, session, 1, n if speaks else NOTHING) for n, (session, speaks) in enumerate(sorted(spoken), 1)]
    index = _Index.of(np.array(rows, PLACE))

    def neighbour(at: int, step: int) -> int:
        found = at + step
        while 0 <= found < len(rows) and rows[found][1] == rows[at][1]:
            if rows[found][3] != NOTHING:
                return found
            found += step
        return -1

    assert index.before.tolist() == [*(neighbour(at, -1) for at in range(len(rows))), -1]
    assert index.after.tolist() == [*(neighbour(at, 1) for at in range(len(rows))), -1]


def test_no_places_at_all_have_an_index() -> None:
    index = _Index.of(np.empty(0, PLACE))
    assert index.position(np.array([1, 2], np.int64)).tolist() == [-1, -1]


@pytest.mark.parametrize("name", FILES)
def test_a_folder_in_place_of_a_file_is_to_be_removed(tiny: Home, name: str) -> None:
    file = vectors_folder(tiny) / name
    file.unlink()
    file.mkdir()
    assert len(tiny.search("soup").matches) == 1
    assert vectors_check(tiny) == (False, f"{file} is a folder; remove it: aj reindex makes them anew")
    with pytest.raises(JournalUnwritable) as caught:
        tiny.reindex()
    assert (caught.value.message, caught.value.hint) == (
        f"{file} is a folder",
        "remove it and run `aj reindex`; nothing is lost",
    )
    file.rmdir()
    tiny.reindex()
    assert vectors_check(tiny) == (True, "64 texts of 66 messages, tiny")


@pytest.mark.parametrize("damage", [None, b"", b"\0" * 5000, b"{}\n"])
def test_places_that_are_lost_are_a_problem_until_the_next_reindex(tiny: Home, damage: bytes | None) -> None:
    file = vectors_folder(tiny) / "places.bin"
    file.unlink() if damage is None else file.write_bytes(damage)
    assert vectors_check(tiny) == (False, "the places of the vectors are lost: aj reindex makes them anew")
    assert tiny.reindex().embedding.texts == 0
    assert vectors_check(tiny)[0]


def test_a_flipped_bit_in_the_head_of_places_leaves_no_message_without_its_vectors(tiny: Home) -> None:
    """It said that the places reach further than the journal: what came later was never embedded."""
    file = vectors_folder(tiny) / "places.bin"
    whole, known = file.read_bytes(), _read(file)[0]
    head = whole.partition(b"\n")[0]
    reached = head.index(b'"reached":') + len(b'"reached":')
    flipped = bytearray(whole)
    flipped[reached] ^= 8  # a digit becomes 8 or 9, or a colon
    talk(tiny, "three", "quotes module")
    for damage in (bytes(flipped), whole.replace(b'"reached":', b'"reached":9', 1)):
        file.write_bytes(damage)
        assert tiny.reindex().embedding.left == 0
        assert tiny.search("soup").coverage.embedded == 1
    for place in range(8 * len(head)):
        damaged = bytearray(whole)
        damaged[place // 8] ^= 1 << place % 8
        file.write_bytes(damaged)
        assert _read(file)[0] in (None, known)


def test_an_index_folder_with_a_file_in_place_of_vectors_still_answers(tiny: Home, tmp_path: Path) -> None:
    folder = tiny.index / "vectors"
    folder.rename(tmp_path / "away")
    folder.write_bytes(b"")
    answer = tiny.search("soup")
    assert (answer.used, len(answer.matches)) == ("lexical", 1)
