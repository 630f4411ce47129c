"""The bounded line reader: nothing in a file stops it, nothing is left out unnamed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from agent_journal.connectors import jsonl
from agent_journal.connectors.base import Reading, timestamp
from agent_journal.connectors.jsonl import document, records, without_base64
from agent_journal.errors import UnreadableSource

Numbered = list[tuple[int, dict[str, Any]]]


def lines_of(tmp_path: Path, data: bytes) -> tuple[Numbered, Reading]:
    path = tmp_path / "log.jsonl"
    path.write_bytes(data)
    reading = Reading()
    return list(records(path, reading)), reading


def test_records_come_with_their_line_numbers_and_blank_lines_are_nothing(tmp_path: Path) -> None:
    found, reading = lines_of(tmp_path, b'{"a":1}\n\n  \r\n{"b":2}\r\n')
    assert found == [(1, {"a": 1}), (4, {"b": 2})]
    assert (reading.lines, reading.bad_line_count, reading.unfinished) == (2, 0, False)


def test_last_line_without_newline_is_read_when_it_is_whole(tmp_path: Path) -> None:
    found, reading = lines_of(tmp_path, b'{"a":1}\n{"b":2}')
    assert found == [(1, {"a": 1}), (2, {"b": 2})]
    assert not reading.unfinished


@pytest.mark.parametrize("half", [b'{"b":', b"{", b'{"b":"caf\xc3', b'{"b":2}{"c'])
def test_half_written_last_line_waits_for_the_next_run_and_is_no_error(tmp_path: Path, half: bytes) -> None:
    found, reading = lines_of(tmp_path, b'{"a":1}\n' + half)
    assert found[0] == (1, {"a": 1})
    assert (reading.unfinished, reading.bad_line_count) == (True, 0)


def test_two_records_on_one_line_are_both_read(tmp_path: Path) -> None:
    found, reading = lines_of(tmp_path, b'{"a":1}{"b":2} {"c":3}\n{"d":4}\n')
    assert found == [(1, {"a": 1}), (1, {"b": 2}), (1, {"c": 3}), (2, {"d": 4})]
    assert reading.bad_line_count == 0


def test_record_written_behind_half_a_record_after_a_crash_is_rescued(tmp_path: Path) -> None:
    whole = {"type": "user", "message": {"content": [{"type": "text", "text": 'says {"type": 1}'}]}}
    half = b'{"type":"user","message":{"content":[{"type":"text","text":"hel'
    found, reading = lines_of(tmp_path, half + json.dumps(whole).encode() + b"\n")
    assert found == [(1, whole)]
    assert reading.bad_line_count == 1


def test_what_may_be_rescued_is_not_looked_for_without_end(tmp_path: Path) -> None:
    nested = b'{"x":bad' + b'{"a":' * 100 + b'"' + b"x" * 3_000_000 + b'"!{"whole":1}\n'
    found, reading = lines_of(tmp_path, nested + b'{"b":2}\n')
    assert (found, reading.bad_line_count) == ([(2, {"b": 2})], 1)


def test_malformed_line_is_named_and_the_next_one_is_read(tmp_path: Path) -> None:
    found, reading = lines_of(tmp_path, b'not json\n[1,2]\n"text"\n{"a":1}\n')
    assert found == [(4, {"a": 1})]
    assert reading.bad_lines == [
        (1, "not JSON: Expecting value at character 1"),
        (2, "a JSON list, not an object"),
        (3, "a JSON str, not an object"),
    ]


def test_only_the_first_bad_lines_are_named_but_all_are_counted(tmp_path: Path) -> None:
    _, reading = lines_of(tmp_path, b"x\n" * 100)
    assert (len(reading.bad_lines), reading.bad_line_count) == (Reading.MAX_NAMED, 100)


def test_bytes_that_are_not_utf8_are_replaced(tmp_path: Path) -> None:
    found, _ = lines_of(tmp_path, b'{"a":"caf\xe9"}\n')
    assert found == [(1, {"a": "caf�"})]


def test_lone_surrogates_nan_and_huge_integers_can_be_stored_afterwards(tmp_path: Path) -> None:
    found, _ = lines_of(tmp_path, b'{"a":"\\ud83d","b":NaN,"c":-Infinity,"d":99999999999999999999999}\n')
    assert found == [(1, {"a": "?", "b": "nan", "c": "-inf", "d": "99999999999999999999999"})]


def test_control_characters_inside_a_string_do_not_lose_the_record(tmp_path: Path) -> None:
    found, _ = lines_of(tmp_path, b'{"a":"tab\there"}\n')
    assert found == [(1, {"a": "tab\there"})]


def test_run_of_nul_bytes_is_one_bad_line_and_nuls_around_a_record_are_ignored(tmp_path: Path) -> None:
    found, reading = lines_of(tmp_path, b"\0" * 4096 + b'\n\0\0{"a":1}\0\n')
    assert found == [(2, {"a": 1})]
    assert reading.bad_lines == [(1, "only NUL bytes")]


def test_byte_order_mark_is_not_part_of_the_first_record(tmp_path: Path) -> None:
    assert lines_of(tmp_path, b'\xef\xbb\xbf{"a":1}\n')[0] == [(1, {"a": 1})]


def test_nesting_beyond_any_sense_is_a_bad_line(tmp_path: Path) -> None:
    found, reading = lines_of(tmp_path, b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b'}\n{"b":2}\n')
    assert found == [(2, {"b": 2})]
    assert reading.bad_lines == [(1, "nested too deeply")]


def test_line_of_60_mb_is_read(tmp_path: Path) -> None:
    found, reading = lines_of(tmp_path, b'{"data":"' + b"A" * 60 * 2**20 + b'"}\n{"b":2}\n')
    assert [(n, sorted(r)) for n, r in found] == [(1, ["data"]), (2, ["b"])]
    assert reading.bad_line_count == 0


@pytest.mark.parametrize("beyond", [0, 1, 5000])
def test_over_long_line_is_skipped_whole_and_the_next_one_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, beyond: int
) -> None:
    monkeypatch.setattr(jsonl, "MAX_LINE_BYTES", 2**20)
    monkeypatch.setattr(jsonl, "_CHUNK", 1000)
    found, reading = lines_of(tmp_path, b"x" * (2**20 + beyond) + b'\n{"b":2}\n')
    assert found == [(2, {"b": 2})]
    assert reading.bad_lines == [(1, "longer than 1 MB")]


@pytest.mark.parametrize("kind", ["missing", "folder", "loop", "nul"])
def test_what_cannot_be_opened_is_an_unreadable_source(tmp_path: Path, kind: str) -> None:
    path = tmp_path / ("a\0b" if kind == "nul" else "log.jsonl")
    if kind == "folder":
        path.mkdir()
    if kind == "loop":
        path.symlink_to(path)
    with pytest.raises(UnreadableSource):
        list(records(path, Reading()))
    with pytest.raises(UnreadableSource):
        document(path)


def test_document_is_read_leniently_or_is_unreadable(tmp_path: Path) -> None:
    path = tmp_path / "session.json"
    path.write_bytes(b'\xef\xbb\xbf{"a":"caf\xe9"}\n\0')
    assert document(path) == {"a": "caf�"}
    path.write_bytes(b'{"a":')
    with pytest.raises(UnreadableSource, match="not JSON"):
        document(path)


def test_encoded_files_are_replaced_by_their_length() -> None:
    image = "A" * 5000
    assert without_base64({"source": {"data": image}, "x": [{"url": "data:image/png;base64,AAAA"}]}) == {
        "source": {"data": "[5000 characters of encoded data]"},
        "x": [{"url": "[26 characters of encoded data]"}],
    }
    prose = {"data": "many words " * 1000, "text": image, "n": 2**70}
    assert without_base64(prose) == prose | {"n": str(2**70)}


@given(st.binary(max_size=300))
def test_no_bytes_raise(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    lines_of(tmp_path_factory.getbasetemp(), b'{"a":1}\n' + data + b'\n{"z":1}\n')


@given(st.lists(st.dictionaries(st.text(), st.text() | st.integers() | st.none())), st.data())
def test_beginning_of_a_file_gives_the_beginning_of_its_records(
    tmp_path_factory: pytest.TempPathFactory, values: list[dict[str, Any]], data: st.DataObject
) -> None:
    whole = b"".join(json.dumps(v, ensure_ascii=True).encode() + b"\n" for v in values)
    cut = data.draw(st.integers(0, len(whole)))
    folder = tmp_path_factory.getbasetemp()
    some, reading = lines_of(folder, whole[:cut])
    assert some == lines_of(folder, whole)[0][: len(some)]
    assert reading.bad_line_count == 0


@pytest.mark.parametrize(
    ("value", "iso"),
    [
        ("2026-03-02T09:15:00.120Z", "2026-03-02T09:15:00.120000+00:00"),
        ("2026-03-02T10:15:00+01:00", "2026-03-02T09:15:00+00:00"),
        ("2026-03-02T09:15:00", "2026-03-02T09:15:00+00:00"),
        (" 2026-03-02 09:15:00 ", "2026-03-02T09:15:00+00:00"),
        ("2026-03-02T09:15:00.123456789Z", "2026-03-02T09:15:00.123456+00:00"),
        (1772442900, "2026-03-02T09:15:00+00:00"),
        (1772442900.5, "2026-03-02T09:15:00.500000+00:00"),
        (1772442900120, "2026-03-02T09:15:00.120000+00:00"),
        ("1772442900120", "2026-03-02T09:15:00.120000+00:00"),
    ],
)
def test_timestamps_of_every_shape_become_utc(value: object, iso: str) -> None:
    found = timestamp(value)
    assert found is not None
    assert found.isoformat() == iso


@pytest.mark.parametrize(
    "value",
    [None, True, "", "soon", "2026-13-45", 0, -5, float("nan"), float("inf"), 1e300, 10**400, [], {}, "9" * 400,
     "0001-01-01T00:00:00+23:00"],
)  # fmt: skip
def test_what_is_no_time_is_none(value: object) -> None:
    assert timestamp(value) is None


def test_blank_lines_without_end_are_cut_off_too(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl.zst"
    path.write_bytes(zstandard.compress(b'{"a":1}\n' + b"\n" * 2**22))
    reading = Reading()
    assert list(records(path, reading)) == [(1, {"a": 1})]
    assert [reason for _, reason in reading.bad_lines] == [
        "more than 300 times what the file holds; the rest is left out"
    ]
