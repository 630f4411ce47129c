"""The file of vectors: what is committed stays, whatever happens to the process or the file, and search is exact."""

from __future__ import annotations

import stat
import subprocess
import sys
import time
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from agent_journal.errors import JournalUnwritable
from agent_journal.index import vector_bits, vector_scan
from agent_journal.index.vector_file import HEADER_BYTES, SLOT_BYTES
from agent_journal.index.vectors import EXACT_ROWS, NAME, Vectors

MARK = "tiny-0123abcd"
F16_ERROR = 2e-3
NEVER = 10**9  # rows


def unit(count: int, dimensions: int, seed: int = 0) -> NDArray[np.float32]:
    drawn = np.random.default_rng(seed).standard_normal((count, dimensions), dtype=np.float32)
    scaled: NDArray[np.float32] = drawn / np.linalg.norm(drawn, axis=1, keepdims=True)
    return scaled


def numbered(count: int, first: int = 0) -> NDArray[np.uint64]:
    return np.arange(first, first + count, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)


def filled(folder: Path, vectors: NDArray[np.float32], precision: str = "f16", exact: int = EXACT_ROWS) -> Vectors:
    made = Vectors.create(folder, MARK, vectors.shape[1], precision, exact)
    assert made.append(numbered(len(vectors)), vectors) == 0
    made.commit()
    return made


def reader(folder: Path, dimensions: int = 8, precision: str = "f16", exact: int = EXACT_ROWS) -> Vectors:
    found, why = Vectors.open(folder, MARK, dimensions, precision, exact)
    assert (found is not None, why) == (True, "")
    assert found is not None
    return found


def content(vectors: Vectors) -> tuple[list[int], list[list[float]]]:
    """Every digest, and every vector as the cosines with the axes show it."""
    rows = np.arange(vectors.count)
    axes = np.eye(vectors.dimensions, dtype=np.float32)
    return vectors.digests.tolist(), np.array([vectors.cosines(axis, rows) for axis in axes]).T.tolist()


def expected(vectors: NDArray[np.float32], first: int = 0) -> tuple[list[int], list[list[float]]]:
    return numbered(len(vectors), first).tolist(), vectors.astype(np.float16).astype(np.float32).tolist()


def why_not(folder: Path, mark: str = MARK, dimensions: int = 8, precision: str = "f16") -> str:
    found, why = Vectors.open(folder, mark, dimensions, precision)
    assert found is None
    return why


# --- the file --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("precision", "error"), [("f16", F16_ERROR), ("f32", 1e-6)])
def test_what_was_committed_is_read_again(tmp_path: Path, precision: str, error: float) -> None:
    vectors = unit(100, 24)
    filled(tmp_path, vectors, precision)
    again = reader(tmp_path, 24, precision)
    assert (again.count, again.dimensions, again.check()) == (100, 24, "")
    assert again.digests.tolist() == numbered(100).tolist()
    query = unit(1, 24, seed=5)[0]
    assert np.allclose(again.cosines(query, np.arange(100)), vectors @ query, atol=error)


def test_several_commits_follow_each_other_and_an_empty_one_changes_nothing(tmp_path: Path) -> None:
    vectors = unit(30, 8)
    made = filled(tmp_path, vectors[:10])
    assert made.append(numbered(5, 10), vectors[10:15]) == 10
    assert made.append(numbered(0), vectors[:0]) == 15
    assert made.append(numbered(15, 15), vectors[15:]) == 15
    made.commit()
    before = (tmp_path / NAME).read_bytes()
    made.commit()
    assert content(made) == content(reader(tmp_path)) == expected(vectors)
    assert (tmp_path / NAME).read_bytes() == before
    assert made.check() == reader(tmp_path).check() == ""


def test_rows_are_seen_by_others_once_they_are_committed(tmp_path: Path) -> None:
    vectors = unit(20, 8)
    writer = filled(tmp_path, vectors[:10])
    other = reader(tmp_path)
    writer.append(numbered(10, 10), vectors[10:])
    assert (other.count, reader(tmp_path).count, writer.count) == (10, 10, 10)
    writer.commit()
    assert content(other) == expected(vectors[:10])  # as it was opened
    assert content(reader(tmp_path)) == content(writer) == expected(vectors)


def test_a_writer_that_looked_long_ago_appends_behind_what_others_wrote(tmp_path: Path) -> None:
    vectors = unit(20, 8)
    early = filled(tmp_path, vectors[:5])
    later = reader(tmp_path)
    later.append(numbered(5, 5), vectors[5:10])
    later.commit()
    assert early.append(numbered(10, 10), vectors[10:]) == 10
    early.commit()
    assert content(early) == expected(vectors)


def test_only_the_user_may_read_it(tmp_path: Path) -> None:
    folder = tmp_path / "index" / "vectors" / MARK
    made = filled(folder, unit(20, 8), exact=0)
    made.compact(np.arange(20) % 2 == 0)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in [*folder.iterdir(), folder, folder.parent]}
    assert modes == {NAME: 0o600, vector_bits.NAME: 0o600, MARK: 0o700, "vectors": 0o700}


def test_a_missing_file_is_said(tmp_path: Path) -> None:
    assert why_not(tmp_path / "nowhere") == "there are no vectors yet"


def test_vectors_of_another_kind_are_refused(tmp_path: Path) -> None:
    filled(tmp_path, unit(3, 8))
    assert why_not(tmp_path, mark="other-1") == f"the vectors are of another embedder ({MARK}, not other-1)"
    assert why_not(tmp_path, dimensions=12) == "the vectors have 8 dimensions, not 12"
    assert why_not(tmp_path, precision="f32") == "the vectors are f16, not f32"


def test_an_embedder_with_an_endless_name_is_known_again(tmp_path: Path) -> None:
    mark = "x" + "é" * 500
    made = Vectors.create(tmp_path, mark, 8, "f16")
    made.append(numbered(2), unit(2, 8))
    made.commit()
    assert Vectors.open(tmp_path, mark, 8, "f16")[1] == ""


def test_a_file_of_a_later_version_is_not_taken_for_damaged(tmp_path: Path) -> None:
    filled(tmp_path, unit(3, 8))
    path = tmp_path / NAME
    whole = bytearray(path.read_bytes())
    for start in (0, SLOT_BYTES):
        whole[start + 8] = 9
        sum_at = start + SLOT_BYTES - 4
        whole[sum_at : sum_at + 4] = zlib.crc32(whole[start:sum_at]).to_bytes(4, "little")
    path.write_bytes(whole)
    assert why_not(tmp_path) == "the vectors were written by another version of aj"


def test_a_file_cut_at_any_byte_keeps_its_whole_rows(tmp_path: Path) -> None:
    vectors, more = unit(6, 8), unit(2, 8, seed=9)
    filled(tmp_path, vectors)
    path = tmp_path / NAME
    whole = path.read_bytes()
    row = 8 + 8 * 2
    assert len(whole) == HEADER_BYTES + 6 * row
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        found, why = Vectors.open(tmp_path, MARK, 8, "f16")
        if size < HEADER_BYTES:
            assert (found, why) == (None, "the file of vectors is damaged: its header is cut short")
            continue
        kept = (size - HEADER_BYTES) // row
        assert found is not None
        assert why == found.check() == f"the file of vectors was cut short: {6 - kept} of 6 are lost"
        assert content(found) == expected(vectors[:kept])
        assert found.append(numbered(2, kept), more) == kept
        found.commit()
        again = reader(tmp_path)
        assert content(again) == expected(np.concatenate([vectors[:kept], more]), 0)
        assert again.check() == ""


def test_a_longer_file_is_cut_back_by_the_next_writer(tmp_path: Path) -> None:
    vectors = unit(12, 8)
    made = filled(tmp_path, vectors[:6])
    path = tmp_path / NAME
    size = path.stat().st_size
    for tail in (b"half a row", bytes(24 * 50)):
        path.write_bytes(path.read_bytes()[:size] + tail)
        assert content(reader(tmp_path)) == expected(vectors[:6])
    made.append(numbered(6, 6), vectors[6:])
    made.commit()
    assert path.stat().st_size == HEADER_BYTES + 12 * 24
    assert content(reader(tmp_path)) == expected(vectors)
    assert made.check() == ""


def test_one_copy_of_the_header_is_enough(tmp_path: Path) -> None:
    vectors = unit(6, 8)
    filled(tmp_path, vectors)
    path = tmp_path / NAME
    whole = path.read_bytes()
    for at in range(HEADER_BYTES):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x10]) + whole[at + 1 :])
        assert content(reader(tmp_path)) == expected(vectors)
    for at in range(SLOT_BYTES):
        hurt = bytearray(whole)
        hurt[at] ^= 0x10
        hurt[SLOT_BYTES + at] ^= 0x01
        path.write_bytes(hurt)
        assert why_not(tmp_path) == "the file of vectors is damaged: its header is wrong"


def test_a_header_half_written_leaves_the_commit_before(tmp_path: Path) -> None:
    vectors = unit(6, 8)
    made = filled(tmp_path, vectors[:3])
    path = tmp_path / NAME
    before = path.read_bytes()[:HEADER_BYTES]
    made.append(numbered(3, 3), vectors[3:])
    made.commit()
    after = path.read_bytes()
    for written in range(0, HEADER_BYTES + 1, 7):
        path.write_bytes(after[:written] + before[written:] + after[HEADER_BYTES:])
        assert content(reader(tmp_path)) in (expected(vectors[:3]), expected(vectors))


@given(st.binary(max_size=2 * HEADER_BYTES))
def test_any_bytes_open_or_say_why(tmp_path_factory: pytest.TempPathFactory, junk: bytes) -> None:
    folder = tmp_path_factory.getbasetemp() / "junk"
    folder.mkdir(exist_ok=True)
    (folder / NAME).write_bytes(junk)
    assert "damaged" in why_not(folder)


def test_a_flipped_bit_in_a_row_is_found_by_the_check(tmp_path: Path) -> None:
    filled(tmp_path, unit(6, 8))
    path = tmp_path / NAME
    whole = path.read_bytes()
    for at in range(HEADER_BYTES, len(whole)):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x04]) + whole[at + 1 :])
        assert reader(tmp_path).check() == "the vectors are damaged: their checksum is wrong"


def test_a_file_that_vanished_under_a_writer_is_said(tmp_path: Path) -> None:
    made = filled(tmp_path, unit(6, 8))
    (tmp_path / NAME).unlink()
    with pytest.raises(JournalUnwritable, match="there are no vectors yet"):
        made.append(numbered(1), unit(1, 8))
    assert made.count == 6


def test_a_folder_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file")
    with pytest.raises(JournalUnwritable, match="cannot be written"):
        Vectors.create(tmp_path / "taken" / MARK, MARK, 8, "f16")


CHILD = """
import sys
import time
import zlib
from pathlib import Path
import numpy as np
from agent_journal.errors import JournalUnwritable
from agent_journal.index.vectors import Vectors
vectors, why = Vectors.open(Path(sys.argv[1]), "tiny-0123abcd", 8, "f16", exact_rows=0)
assert vectors is not None, why
rows = np.full((100, 8), 0.5, np.float32)
"""


def child(folder: Path, program: str) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", CHILD + program, str(folder)], stdout=subprocess.PIPE, text=True)


@pytest.mark.skipif(sys.platform == "win32", reason="no limits there")
def test_a_full_disk_loses_nothing_that_was_committed(tmp_path: Path) -> None:
    vectors = unit(50, 8)
    filled(tmp_path, vectors)
    program = """
import resource
resource.setrlimit(resource.RLIMIT_FSIZE, (3000, 3000))
try:
    vectors.append(np.arange(100, dtype=np.uint64), rows)
except JournalUnwritable as error:
    print(error.kind)
vectors.append(np.arange(5, dtype=np.uint64), rows[:5])
vectors.commit()
"""
    with child(tmp_path, program) as run:
        assert run.communicate()[0] == "journal_unwritable\n"
    again = reader(tmp_path)
    assert again.digests.tolist() == [*numbered(50).tolist(), 0, 1, 2, 3, 4]
    assert again.check() == ""


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGKILL there")
def test_killed_while_appending_keeps_the_committed_rows(tmp_path: Path) -> None:
    vectors = unit(50, 8)
    filled(tmp_path, vectors)
    program = """
while True:
    vectors.append(np.arange(100, dtype=np.uint64), rows)
    print("appended", flush=True)
"""
    with child(tmp_path, program) as run:
        assert run.stdout is not None
        for _ in range(5):
            run.stdout.readline()
        run.kill()
    assert (tmp_path / NAME).stat().st_size >= HEADER_BYTES + 550 * 24
    again = reader(tmp_path)
    assert content(again) == expected(vectors)
    again.append(numbered(1, 50), vectors[:1])
    again.commit()
    assert (again.count, again.check()) == (51, "")


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGKILL there")
@pytest.mark.parametrize("delay", [0, 0.003, 0.007, 0.012, 0.02, 0.03])
def test_killed_while_committing_or_compacting_leaves_one_whole_state(tmp_path: Path, delay: float) -> None:
    filled(tmp_path, unit(50, 8), exact=0)
    program = """
while True:
    vectors.append(np.arange(100, dtype=np.uint64), rows)
    vectors.commit()
    vectors.compact(np.arange(vectors.count) < 50 + vectors.count // 2)
    print("done", flush=True)
"""
    with child(tmp_path, program) as run:
        assert run.stdout is not None
        run.stdout.readline()
        time.sleep(delay)
        run.kill()
    again = reader(tmp_path, exact=0)
    assert again.check() == ""
    assert again.digests[:50].tolist() == numbered(50).tolist()
    again.append(numbered(1, 50), unit(1, 8))
    again.commit()
    assert reader(tmp_path, exact=0).check() == ""


@pytest.mark.skipif(sys.platform == "win32", reason="a file that is mapped cannot be replaced there")
def test_a_reader_meets_only_whole_states_while_another_process_writes(tmp_path: Path) -> None:
    filled(tmp_path, unit(50, 8), exact=0)
    program = """
print("ready", flush=True)
while True:
    vectors.append(np.arange(100, dtype=np.uint64), rows)
    vectors.commit()
    if vectors.count > 1000:
        vectors.compact(np.arange(vectors.count) < 50)
"""
    with child(tmp_path, program) as run:
        assert run.stdout is not None
        run.stdout.readline()
        seen = set()
        for _ in range(300):
            found = reader(tmp_path, exact=0)
            seen.add(found.count)
            assert found.check() == ""
            assert found.digests[:50].tolist() == numbered(50).tolist()
        run.kill()
    assert len(seen) > 1
    assert {count % 100 for count in seen} == {50}


# --- compaction ------------------------------------------------------------------------------------


def test_compaction_keeps_every_digest_with_its_vector(tmp_path: Path) -> None:
    vectors = unit(41, 8)
    made, other = filled(tmp_path, vectors[:40]), reader(tmp_path)
    made.append(numbered(1, 40), vectors[40:])
    keep = np.arange(41) % 3 == 1
    moved = made.compact(keep)
    kept = np.flatnonzero(keep)
    assert moved.tolist() == [kept.tolist().index(row) if keep[row] else -1 for row in range(41)]
    digests, rows = expected(vectors)
    assert content(made) == ([digests[row] for row in kept], [rows[row] for row in kept])
    assert content(other) == expected(vectors[:40])  # still the file it has mapped
    assert content(reader(tmp_path)) == content(made)
    assert made.check() == ""


def test_compaction_of_nothing_and_of_everything(tmp_path: Path) -> None:
    vectors = unit(5, 8)
    made = filled(tmp_path, vectors)
    before = (tmp_path / NAME).read_bytes()
    assert made.compact(np.ones(5, np.bool_)).tolist() == [0, 1, 2, 3, 4]
    assert (tmp_path / NAME).read_bytes() == before
    assert made.compact(np.zeros(5, np.bool_)).tolist() == [-1] * 5
    assert (made.count, reader(tmp_path).count) == (0, 0)
    assert made.append(numbered(5), vectors) == 0
    made.commit()
    assert content(reader(tmp_path)) == expected(vectors)


def test_what_was_compacted_away_is_in_no_file(tmp_path: Path) -> None:
    made = filled(tmp_path, unit(300, 64), exact=0)
    row = made._stored.rows[7].tobytes()
    bits = vector_scan.signs(made._stored.rows["vector"][7:8]).tobytes()
    assert row in (tmp_path / NAME).read_bytes()
    assert bits in (tmp_path / vector_bits.NAME).read_bytes()
    made.compact(np.arange(300) != 7)
    files = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert (row in files, row[8:] in files, bits in files) == (False, False, False)


def test_a_compaction_that_died_leaves_nothing_behind_once_another_writes(tmp_path: Path) -> None:
    made = filled(tmp_path, unit(5, 8))
    (tmp_path / "vectors.bin.new").write_bytes(b"half of it")
    made.append(numbered(1, 5), unit(1, 8))
    made.commit()
    assert [path.name for path in tmp_path.iterdir()] == [NAME]


# --- search ----------------------------------------------------------------------------------------


def brute(vectors: NDArray[Any], query: NDArray[np.float32], k: int, mask: NDArray[np.bool_] | None) -> list[int]:
    scores = vectors.astype(np.float64) @ query.astype(vectors.dtype).astype(np.float64)
    rows = range(len(vectors)) if mask is None else np.flatnonzero(mask).tolist()
    return sorted(rows, key=lambda row: (-scores[row], row))[:k]


@settings(max_examples=60, deadline=None)
@given(
    count=st.integers(0, 60),
    dimensions=st.integers(1, 40),
    k=st.integers(0, 70),
    precision=st.sampled_from(["f16", "f32"]),
    exact=st.sampled_from([0, NEVER]),
    share=st.none() | st.floats(0, 1),
    seed=st.integers(0, 9),
)
def test_search_equals_comparing_everything(
    tmp_path_factory: pytest.TempPathFactory,
    count: int,
    dimensions: int,
    k: int,
    precision: str,
    exact: int,
    share: float | None,
    seed: int,
) -> None:
    folder = tmp_path_factory.getbasetemp() / "brute"
    # Eighths are exact in both precisions and so are their sums: equal cosines are really equal.
    chance = np.random.default_rng(seed)
    vectors = (chance.integers(-4, 5, (count, dimensions)) / 8).astype(np.float32)
    query = (chance.integers(-4, 5, dimensions) / 8).astype(np.float32)
    mask = None if share is None else chance.random(count) < share
    made = filled(folder, vectors, precision, exact)
    rows, cosines = made.search(query, k, mask)
    assert (str(rows.dtype), str(cosines.dtype)) == ("int64", "float32")
    assert rows.tolist() == brute(vectors, query, k, mask)
    assert cosines.tolist() == (vectors[rows] @ query).tolist() == made.cosines(query, rows).tolist()


@pytest.mark.parametrize("exact", [0, NEVER])
@pytest.mark.parametrize("share", [None, 0.02, 0.9])
def test_large_enough_to_scan_prefilter_and_mask(tmp_path: Path, exact: int, share: float | None) -> None:
    """9,000 rows: more than are fetched one by one, and more than the prefilter lets through."""
    vectors = unit(9000, 64)
    mask = None if share is None else np.random.default_rng(1).random(9000) < share
    made = filled(tmp_path, vectors, exact=exact)
    for seed in range(100, 105):
        query = unit(1, 64, seed)[0]
        rows, cosines = made.search(query, 10, mask)
        assert rows.tolist() == brute(vectors.astype(np.float16), query, 10, mask)
        assert np.allclose(cosines, vectors[rows] @ query, atol=F16_ERROR)


def test_equal_vectors_come_in_the_order_of_their_rows(tmp_path: Path) -> None:
    vectors = np.repeat(unit(3, 8), 50, axis=0)
    made = filled(tmp_path, vectors)
    assert made.search(vectors[60], 40)[0].tolist() == list(range(50, 90))
    assert made.search(vectors[60], 3, np.arange(150) >= 70)[0].tolist() == [70, 71, 72]


def test_what_is_no_vector_is_stored_as_nothing(tmp_path: Path) -> None:
    vectors = unit(4, 8)
    vectors[1, 3], vectors[2, 0] = np.nan, np.inf
    made = filled(tmp_path, vectors)
    assert made.cosines(vectors[0], np.arange(4)).tolist()[1:3] == [0.0, 0.0]
    assert made.search(np.full(8, np.nan, np.float32), 2)[1].tolist() == [0.0, 0.0]


def test_a_wrong_width_is_named(tmp_path: Path) -> None:
    made = filled(tmp_path, unit(4, 8))
    with pytest.raises(ValueError, match=r"a query of shape \(9,\) for vectors of 8 dimensions"):
        made.search(unit(1, 9)[0], 3)
    with pytest.raises(ValueError, match="not 8 wide"):
        made.append(numbered(2), unit(2, 9))
    with pytest.raises(ValueError, match="3 digests"):
        made.append(numbered(3), unit(2, 8))
    with pytest.raises(ValueError, match="there are 4"):
        made.compact(np.ones(3, np.bool_))


def test_without_the_library_the_answers_are_the_same() -> None:
    vectors = unit(500, 24).astype(np.float16)
    query = vectors[3]
    assert np.allclose(vector_scan.dots(query, vectors), vector_scan.numpy_dots(query, vectors), atol=1e-6)
    bits = vector_scan.signs(vectors)
    assert vector_scan.hamming(bits[3], bits).tolist() == vector_scan.numpy_hamming(bits[3], bits).tolist()


# --- the bits beside -------------------------------------------------------------------------------


def test_bits_are_kept_beside_once_there_are_many(tmp_path: Path) -> None:
    vectors = unit(30, 8)
    made = filled(tmp_path, vectors[:10], exact=20)
    bits = tmp_path / vector_bits.NAME
    assert not bits.exists()
    made.append(numbered(20, 10), vectors[10:])
    made.commit()
    assert vector_bits.known(tmp_path, made._stored.header) == 30
    assert bits.read_bytes()[64:] == vector_scan.signs(vectors.astype(np.float16)).tobytes()


def test_bits_of_a_run_that_died_are_not_taken_for_those_of_later_rows(tmp_path: Path) -> None:
    vectors = unit(40, 16)
    filled(tmp_path, vectors[:20], exact=0)
    before = (tmp_path / NAME).read_bytes()
    dead = reader(tmp_path, 16, exact=0)
    dead.append(numbered(10, 20), -vectors[20:30])
    dead.commit()
    (tmp_path / NAME).write_bytes(before)  # as if it had died between bits and header
    later = reader(tmp_path, 16, exact=NEVER)
    later.append(numbered(20, 20), vectors[20:])
    later.commit()
    assert later.check() == ""
    assert content(reader(tmp_path, 16, exact=0)) == expected(vectors)


def test_bits_cut_changed_or_gone_change_no_answer(tmp_path: Path) -> None:
    vectors = unit(40, 16)
    filled(tmp_path, vectors, exact=0)
    query = unit(1, 16, seed=3)[0]
    answer = reader(tmp_path, 16, exact=NEVER).search(query, 5)[0].tolist()
    path = tmp_path / vector_bits.NAME
    whole = path.read_bytes()
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        assert reader(tmp_path, 16, exact=0).search(query, 5)[0].tolist() == answer
    path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    assert reader(tmp_path, 16).check() == "the signs of the vectors are damaged: they are not those of the vectors"
    path.unlink()
    assert reader(tmp_path, 16, exact=0).search(query, 5)[0].tolist() == answer
