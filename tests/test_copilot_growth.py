"""Copilot CLI's logs cut anywhere, real ones, and ones with anything in any field."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from copilot_logs import FIXTURES, SESSION, Events, full_log, parse_text, read, source_of
from hypothesis import given
from hypothesis import strategies as st
from junk import RELAXED, assert_storable, junk, places_in, spoiled_lines, with_value

from agent_journal.connectors.base import Reading
from agent_journal.connectors.copilot_cli import CopilotCli
from agent_journal.connectors.copilot_files import LEGACY
from agent_journal.errors import UnreadableSource
from agent_journal.session import Message, Text, Thinking, derive

REAL = Path(__file__).parents[1].parent / "shared" / "data" / "home" / ".copilot"

# Growth: looking backwards only.


def identity(message: Message) -> tuple[Any, ...]:
    return message.role, message.uuid, message.parent_uuid, message.at, message.cwd, message.is_meta


def places(message: Message) -> list[tuple[Any, ...]]:
    return [(type(b), b.uuid, b.parent_uuid, getattr(b, "text", None), getattr(b, "id", None)) for b in message.blocks]


def assert_prefix(cut: Reading, whole: Reading) -> None:
    """Every message of the cut log is one of the whole log, in its place; later events only added to it."""
    complete = {t.session.key: t.messages for t in whole.transcripts}
    for transcript in cut.transcripts:
        for early, late in zip(transcript.messages, complete[transcript.session.key], strict=False):
            assert identity(early) == identity(late)
            assert places(early) == places(late)[: len(early.blocks)]
        assert len(transcript.messages) <= len(complete[transcript.session.key])


def test_log_cut_at_any_byte_is_a_prefix_of_the_whole(tmp_path: Path) -> None:
    written = (FIXTURES / "session-state" / SESSION / "events.jsonl").read_bytes()
    for data in (written, full_log().text.encode()):
        whole = parse_text(tmp_path / SESSION / "events.jsonl", data)
        for end in range(0, len(data), 7):
            assert_prefix(parse_text(tmp_path / SESSION / "events.jsonl", data[:end]), whole)


@pytest.mark.skipif(not REAL.is_dir(), reason="no sample of real sessions beside the repository")
def test_real_log_cut_anywhere_is_a_prefix_of_the_whole(tmp_path: Path) -> None:
    sources = CopilotCli().discover(REAL).sources
    assert len(sources) >= 8
    for source in sources:
        data = source.path.read_bytes()
        whole = CopilotCli().parse(source)
        path = tmp_path / source.path.parent.name / "events.jsonl"
        step = max(1, len(data) // 40)
        for end in range(0, len(data), step):
            assert_prefix(parse_text(path, data[:end]), whole)


@pytest.mark.skipif(not REAL.is_dir(), reason="no sample of real sessions beside the repository")
def test_real_logs_lose_no_prompt_answer_thought_or_result() -> None:
    for source in CopilotCli().discover(REAL).sources:
        reading = CopilotCli().parse(source)
        messages = [m for t in reading.transcripts for m in t.messages]
        kept = {b.text for m in messages for b in m.blocks if isinstance(b, Text | Thinking)}
        calls = [c for m in messages for c in m.tool_calls]
        for line in source.path.read_text().splitlines():
            record = json.loads(line)
            data = record["data"]
            if record["type"] in ("user.message", "assistant.message", "system.notification"):
                assert {t for t in (data["content"], data.get("reasoningText")) if t} <= kept
            if record["type"] == "tool.execution_complete":
                said = (data.get("result") or data["error"]).get("content") or data["error"]["message"]
                assert (data["toolCallId"], said) in [(c.id, c.result) for c in calls]
        assert reading.bad_line_count == 0
        for transcript in reading.transcripts:
            assert derive(transcript.session, transcript.messages).message_count == len(transcript.messages)


# Wrong types: whatever a field holds, a log is read or called unreadable.

WRONG = junk("type", "text", "content", "message", "path", "usage", "e1", "call_1")
EVERY_LINE = [
    *map(json.loads, full_log().lines),
    *map(json.loads, (FIXTURES / "session-state" / SESSION / "events.jsonl").read_text().splitlines()),
]
OLD = json.loads((FIXTURES / "history-session-state" / "session_9a1b_1759276800000.json").read_text())


@RELAXED
@given(data=st.data())
def test_wrong_types_in_any_field_never_stop_a_run(tmp_path: Path, data: st.DataObject) -> None:
    lines = "\n".join(map(json.dumps, spoiled_lines(EVERY_LINE, data, WRONG)))
    assert_storable(parse_text(tmp_path / "s" / "events.jsonl", lines.encode()))


@RELAXED
@given(data=st.data())
def test_wrong_types_in_any_legacy_field_never_stop_a_run(tmp_path: Path, data: st.DataObject) -> None:
    whole = OLD | ({"timeline": []} if data.draw(st.booleans()) else {})
    path = data.draw(st.sampled_from(places_in(whole)))
    file = tmp_path / "session_9a1b_1759276800000.json"
    file.write_text(json.dumps(with_value(whole, path, data.draw(WRONG))))
    try:
        assert_storable(CopilotCli().parse(source_of(file, LEGACY)))
    except UnreadableSource:
        assert path == ()


@RELAXED
@given(st.binary(max_size=300))
def test_any_bytes_in_workspace_yaml_are_harmless(tmp_path: Path, yaml: bytes) -> None:
    path = Events().start().user("hi").write(tmp_path)
    path.with_name("workspace.yaml").write_bytes(yaml)
    (transcript,) = read(tmp_path).transcripts
    (transcript.session.title or "").encode()
