"""Claude Code files cut anywhere, and records with wrong types everywhere: order never changes, nothing raises."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from junk import RELAXED, assert_storable, places_in, spoiled_lines, with_value
from logs import (
    agent_progress,
    assistant,
    chain,
    lines,
    queued,
    read_bytes,
    source,
    system,
    text,
    thinking,
    tool_result,
    tool_use,
    user,
)

from agent_journal.connectors.base import FileStat, Source
from agent_journal.connectors.claude_code import ClaudeCode
from agent_journal.session import Message

HOME = Path(__file__).parents[1].parent / "shared" / "data" / "home" / ".claude"

# One of every kind, with a result before its call and an answer in parts.
RECORDS: list[dict[str, Any]] = [
    {"type": "summary", "summary": "S", "leafUuid": "u1"},
    user("u1", "Why?", thinkingMetadata={"level": "high"}, todos=[{"content": "x"}], slug="calm-otter"),
    assistant("a1", thinking("hm"), id="m1", out=1, parent="u1", requestId="r"),
    user("r1", [tool_result("t1", [text("early")])], parent="a2", toolUseResult={"stdout": "early", "agentId": "x"}),
    assistant("a2", tool_use("t1", "Task", file_path="/a"), id="m1", out=9, parent="a1"),
    agent_progress("p1", "g1", "t1", user("g1", "look"), assistant("g2", text("found"))),
    queued("q1", [text("also")], origin={"kind": "human"}),
    user("r9", [tool_result("t9", "lone", is_error=True), text("and words")]),
    system("s1", "compact_boundary", "Conversation compacted", compactMetadata={"trigger": "auto"}),
    user("c1", "This session is being continued", isCompactSummary=True),
    assistant("e1", text("API Error"), isApiErrorMessage=True, message={"model": "<synthetic>"}),
    {"type": "custom-title", "customTitle": "T"},
    {"type": "ai-title", "aiTitle": "A"},
    {"type": "tag", "tag": "billing"},
    {"type": "pr-link", "prNumber": 42, "prUrl": "https://example.test"},
    {"type": "relocated", "relocatedCwd": "/b"},
    {"type": "last-prompt", "lastPrompt": "also"},
    {"type": "file-history-snapshot", "snapshot": {"trackedFileBackups": {"a": {}}}},
    {"type": "queue-operation", "operation": "enqueue", "content": "<task-notification>"},
    chain("system", "s2", None, subtype="api_error", level="error", error={"error": {"message": "busy"}}),
    user("w1", "Warmup", isSidechain=True),
    assistant("a9", {"type": "image", "source": {"data": "AAAA", "media_type": "image/png"}}, text("end")),
]


def identity(message: Message) -> tuple[str | None, str]:
    return message.uuid, message.role


def orders(path: Path) -> dict[str, list[tuple[str | None, str]]]:
    found = path.stat()
    whole = Source("claude-code", path, (FileStat(path, found.st_size, found.st_mtime_ns),), "session")
    return {t.session.key: [identity(m) for m in t.messages] for t in ClaudeCode().parse(whole).transcripts}


def assert_cuts_are_beginnings(data: bytes, cuts: Iterator[int] | list[int], path: Path) -> None:
    path.write_bytes(data)
    whole = orders(path)
    for cut in cuts:
        path.write_bytes(data[:cut])
        for key, found in orders(path).items():
            assert found == whole[key][: len(found)], f"cut at byte {cut}"


def test_every_cut_of_a_small_file_gives_the_beginning_of_the_whole(tmp_path: Path) -> None:
    data = lines(RECORDS)
    assert_cuts_are_beginnings(data, list(range(0, len(data), 7)), tmp_path / "s.jsonl")


@settings(RELAXED, max_examples=60)
@given(st.permutations(RECORDS), st.data())
def test_cuts_of_records_in_any_order_give_the_beginning(
    tmp_path: Path, records: list[dict[str, Any]], data: st.DataObject
) -> None:
    whole = lines(records)
    cut = data.draw(st.integers(0, len(whole)))
    assert_cuts_are_beginnings(whole, [cut], tmp_path / "s.jsonl")


def real_files() -> list[Path]:
    """The largest first; those above 2 MB take too long to cut again and again."""
    found = sorted(HOME.glob("projects/**/*.jsonl"), key=lambda p: -p.stat().st_size)
    return [p for p in found if p.stat().st_size < 2_000_000]


@pytest.mark.skipif(not HOME.is_dir(), reason="no shared data")
def test_real_files_cut_at_lines_and_inside_them_give_the_beginning(tmp_path: Path) -> None:
    for path in islice(real_files(), 0, None, 4):
        data = path.read_bytes()
        ends = [i + 1 for i, byte in enumerate(data) if byte == 10]
        step = max(1, len(ends) // 12)
        cuts = ends[::step] + [end - 5 for end in ends[step // 2 :: step]]
        assert_cuts_are_beginnings(data, cuts, tmp_path / path.name)


@pytest.mark.skipif(not HOME.is_dir(), reason="no shared data")
def test_real_files_with_early_results_cut_at_every_line_give_the_beginning(tmp_path: Path) -> None:
    for stem in ("4a07cdcd", "88db7fea", "4746b2b9"):  # Claude wrote results before their calls in these
        for path in HOME.glob(f"projects/*/{stem}*.jsonl"):
            data = path.read_bytes()
            ends = [i + 1 for i, byte in enumerate(data) if byte == 10]
            assert_cuts_are_beginnings(data, ends[:160], tmp_path / path.name)


def test_message_texts_only_grow_with_the_file(tmp_path: Path) -> None:
    whole = read_bytes(tmp_path, lines(RECORDS)).transcripts[0].messages
    for count in range(len(RECORDS)):
        reading = read_bytes(tmp_path, lines(RECORDS[:count]))
        for some, full in zip(reading.transcripts[0].messages if reading.transcripts else (), whole, strict=False):
            assert full.text.startswith(some.text)
            assert [c.id for c in full.tool_calls][: len(some.tool_calls)] == [c.id for c in some.tool_calls]


def test_image_of_60_mb_in_one_line_is_named_and_the_rest_is_read(tmp_path: Path) -> None:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "A" * 60 * 2**20}}
    reading = read_bytes(tmp_path, lines([user("1", [text("see"), image]), assistant("2", text("seen"))]))
    assert [(m.text, len(m.blocks)) for m in reading.transcripts[0].messages] == [("see", 2), ("seen", 1)]
    assert len(msgspec.msgpack.encode(reading.transcripts)) < 5000


def test_damaged_lines_keep_everything_around_them(tmp_path: Path) -> None:
    first, second, third, last = (lines([user(str(n), f"prompt {n}")]) for n in range(1, 5))
    data = first + b"\0" * 512 + b"\n" + second.rstrip() + third + b'{"type":"user"\n' + b"\xff\xfe\n" + last[:-30]
    reading = read_bytes(tmp_path, data)
    assert [m.text for m in reading.transcripts[0].messages] == ["prompt 1", "prompt 2", "prompt 3"]
    assert [number for number, _ in reading.bad_lines] == [2, 4, 5]
    assert reading.unfinished


# Wrong types in every field.

ODD = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.just(10**30),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from(["../../x", "t1", "m1", "u1", "<command-name>", "<persisted-output>\nFull output saved to: /x"]),
    st.just([]),
    st.just({}),
    st.lists(st.none() | st.integers() | st.text(max_size=3) | st.just({"type": "text"}), max_size=3),
    st.dictionaries(st.sampled_from(["type", "text", "content", "id", "x"]), st.integers() | st.none(), max_size=3),
)


PLACES = [place for place in places_in(RECORDS) if len(place) > 1]


@RELAXED
@given(data=st.data())
def test_wrong_type_in_any_field_never_raises_and_all_can_be_stored(tmp_path: Path, data: st.DataObject) -> None:
    assert_storable(read_bytes(tmp_path, lines(spoiled_lines(RECORDS, data, ODD))))


@RELAXED
@given(
    st.lists(st.dictionaries(st.sampled_from(["display", "pastedContents", "timestamp", "project", "sessionId"]), ODD))
)
def test_history_of_wrong_types_never_raises(tmp_path: Path, records: list[dict[str, Any]]) -> None:
    path = tmp_path / "history.jsonl"
    path.write_bytes(lines(records))
    assert_storable(ClaudeCode().parse(source(path)))


@pytest.mark.parametrize("way", PLACES[::3], ids=lambda way: ".".join(map(str, way)))
def test_every_field_may_be_of_every_type(tmp_path: Path, way: tuple[Any, ...]) -> None:
    for odd in (None, True, -1, 10**30, 1.5, "x", [], {}, [None, 1, "x", {}], {"type": None}):
        assert_storable(read_bytes(tmp_path, lines(with_value(RECORDS, way, odd))))


# Texts made to be slow.


@pytest.mark.parametrize(
    "content",
    [
        "<system-reminder></system-reminder>" * 50_000,
        "<command-name>" * 100_000,
        "<ide_selection>" + " \n" * 500_000 + "</ide_selection>",
        [text(f"{n}") for n in range(30_000)],
        [tool_result(f"t{n}") for n in range(10_000)],
    ],
    ids=["reminders", "commands", "selection", "texts", "results"],
)
def test_hostile_content_takes_time_in_proportion(tmp_path: Path, content: Any) -> None:
    records = [user("1", content), assistant("2", *(content if isinstance(content, list) else [text(content)]))]
    records += [chain("progress", f"p{n}", f"p{n - 1}", data={}) for n in range(5000)]
    records += [user(f"u{n}", "x", parent="p4999") for n in range(2000)]
    assert read_bytes(tmp_path, lines(records)).transcripts
