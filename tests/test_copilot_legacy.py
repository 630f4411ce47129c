"""Copilot CLI's first format, in files of its own and imported into event logs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from copilot_logs import FIXTURES, Events, at, read, source_of

from agent_journal.connectors.copilot_cli import CopilotCli
from agent_journal.connectors.copilot_files import LEGACY
from agent_journal.errors import UnreadableSource
from agent_journal.session import Attachment, Role


def test_legacy_session_is_read_from_its_timeline() -> None:
    reading = read(FIXTURES / "history-session-state")
    (transcript,) = reading.transcripts
    assert (transcript.session.key, transcript.session.workspace) == ("copilot-cli:9a1b", "/home/ana/shop")
    assert [(m.role, m.uuid, m.text, m.is_meta) for m in transcript.messages] == [
        (Role.USER, "t1", "fix the cart", False),
        (Role.ASSISTANT, "t2", "", False),
        (Role.ASSISTANT, "t4", "", False),
        (Role.ASSISTANT, "t5", "Done.", False),
        (Role.SYSTEM, "t6", "Connection lost", True),
    ]
    calls = [(c.id, c.result, c.success, c.details) for m in transcript.messages for c in m.tool_calls]
    assert calls == [
        ("call_1", "cart.ts", True, {"intention": "List files"}),
        ("call_2", "", False, {"error_code": "rejected"}),
    ]
    assert reading.skipped == {"legacy/info": 1, "legacy/chat beside a timeline": 3}


def test_legacy_chat_serves_where_there_is_no_timeline(tmp_path: Path) -> None:
    whole = json.loads((FIXTURES / "history-session-state" / "session_9a1b_1759276800000.json").read_text())
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    whole["chatMessages"].append({"role": "user", "content": [{"type": "text", "text": "and this"}, image]})
    path = tmp_path / "session_9a1b_1759276800000.json"
    path.write_text(json.dumps(whole | {"timeline": [], "startTime": None}))
    (transcript,) = read(tmp_path).transcripts
    start = at("2025-10-01T00:00:00")
    assert [(m.role, m.text, m.at) for m in transcript.messages] == [
        (Role.USER, "fix the cart", start),
        (Role.ASSISTANT, "", start),
        (Role.USER, "and this", start),
    ]
    (call,) = transcript.messages[1].tool_calls
    assert (call.arguments, call.result) == ({"command": "ls"}, "cart.ts")
    assert transcript.messages[2].blocks[1] == Attachment("image", at=start)


def test_imported_legacy_session_of_the_same_id_comes_first(tmp_path: Path) -> None:
    old = {"sessionId": "9a", "timeline": [{"id": "t1", "type": "user", "text": "hi"}]}
    log = Events().add("session.import_legacy", legacySession=old, sourceFile="/x.json").start("9a").says("back")
    log.write(tmp_path, "9a")
    (transcript,) = read(tmp_path).transcripts
    assert [(m.uuid, m.text) for m in transcript.messages] == [("t1", "hi"), ("e3", "back")]
    assert transcript.session.extensions["imported_from"] == "/x.json"


def test_imported_legacy_session_of_another_id_is_the_parent(tmp_path: Path) -> None:
    old = {"sessionId": "9a", "timeline": [{"id": "t1", "type": "user", "text": "hi"}]}
    Events().start("new").add("session.import_legacy", legacySession=old).says("back").write(tmp_path, "new")
    first, second = read(tmp_path).transcripts
    assert (first.session.key, first.second_hand, len(first.messages)) == ("copilot-cli:9a", True, 1)
    assert (second.session.parent_key, second.second_hand, len(second.messages)) == ("copilot-cli:9a", False, 1)


def test_legacy_file_that_is_half_written_is_unreadable_for_now(tmp_path: Path) -> None:
    path = tmp_path / "session_a_1759276800000.json"
    for text in ('{"sessionId": "a", "timeline": [', "[]", ""):
        path.write_text(text)
        with pytest.raises(UnreadableSource):
            CopilotCli().parse(source_of(path, LEGACY))
