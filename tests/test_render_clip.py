"""What --json leaves out keeps its shape, fits, and is never left out silently."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_journal.render.clip import ARGUMENTS, Clip
from agent_journal.render.machine import around_object, encode, message_object
from agent_journal.session import Message, Role, StoredMessage, Text, Thinking, ToolCall

_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=20), inner, max_size=5),
    max_leaves=8,
)


def stored(*blocks: Any, cwd: str | None = None) -> StoredMessage:
    return StoredMessage(1, 1, 7, Message(Role.ASSISTANT, blocks, uuid="u", cwd=cwd), False)


@given(_JSON, st.integers(40, 400))
def test_cut_arguments_fit_and_say_whether_they_were_cut(arguments: Any, limit: int) -> None:
    clip = Clip(limit)
    kept = clip.arguments(arguments)
    if isinstance(kept, dict):
        size = sum(
            len(k) + len(v if isinstance(v, str) else json.dumps(v, ensure_ascii=False)) for k, v in kept.items()
        )
    else:
        size = len(kept if isinstance(kept, str) else json.dumps(kept, ensure_ascii=False))
    assert size <= limit // ARGUMENTS or not clip.clipped
    assert clip.clipped == (kept != arguments)
    assert isinstance(kept, dict) == isinstance(arguments, dict)


@given(_JSON)
def test_full_cuts_nothing(arguments: Any) -> None:
    clip = Clip(None)
    assert (clip.arguments(arguments), clip.text("x" * 9999), clip.clipped) == (arguments, "x" * 9999, False)


def test_the_most_telling_argument_is_kept_first() -> None:
    clip = Clip(100)
    assert clip.arguments({"content": "c" * 50, "file_path": "/a/b.py", "command": "ls"}) == {
        "command": "ls",
        "file_path": "/a/b.py",
    }
    assert clip.clipped


def test_message_is_cut_in_every_part_and_says_so() -> None:
    calls = [
        ToolCall(f"t{n}", "Bash", arguments={"command": "c" * 99}, result="r" * 99, success=True) for n in range(5)
    ]
    shape = message_object(stored(Thinking("t" * 99), Text("x" * 99), *calls), 60)
    assert (shape["text"], shape["thinking"]) == ("x" * 59 + "…", "t" * 14 + "…")
    assert shape["tool_calls"] == [
        {
            "id": f"t{n}",
            "name": "Bash",
            "type": "unknown",
            "arguments": {"command": "c" * 7 + "…"},
            "result": "r" * 9 + "…",
            "success": True,
        }
        for n in range(3)
    ]
    assert shape["clipped"]


def test_context_is_a_line_of_what_was_said_and_one_of_each_tool() -> None:
    read = ToolCall("t", "Read", arguments={"file_path": "/w/src/deep/name.py"}, success=False)
    shape = around_object(stored(Text("First.\n\nSecond."), read, cwd="/w"), 600)
    assert shape == {
        "ordinal": 7,
        "role": "assistant",
        "text": "First. Second.",
        "tools": ["Read (failed) src/deep/name.py"],
        "clipped": True,
    }
    assert around_object(stored(Text("Said.")), 600)["clipped"] is False
    assert around_object(stored(read), None) == message_object(stored(read), None)


@pytest.mark.parametrize("text", ["\x7f", "\x9b31m", "\u202e", "\u2028", "\ufeff", "\U000e0041", '"\\', "é日👍"])
def test_json_reads_back_what_was_said_and_holds_nothing_that_acts(text: str) -> None:
    written = encode({"text": text, text: [text]}).decode()
    assert json.loads(written) == {"text": text, text: [text]}
    assert written.isprintable()


@given(st.text(st.characters(exclude_categories=())))
def test_any_text_becomes_json_of_one_line(text: str) -> None:
    written = encode([text])
    assert b"\n" not in written
    assert len(json.loads(written)[0]) == len(text)
