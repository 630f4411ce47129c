"""SessionData: every example of the format as it is written there, every rule, and the way out and in again."""

from __future__ import annotations

import json
import logging
from copy import deepcopy
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest
from accounts import account, accounts, session
from hypothesis import given, settings
from hypothesis import strategies as st
from junk import RELAXED, junk, places_in, with_value

from agent_journal.connectors.registry import CONNECTORS
from agent_journal.errors import BadExchange
from agent_journal.exchange import schemas
from agent_journal.exchange.sessiondata import problems, read, validate, written
from agent_journal.session import (
    Account,
    Attachment,
    Message,
    Origin,
    Role,
    Session,
    Text,
    Thinking,
    ToolCall,
    ToolType,
    Transcript,
    Usage,
    derive,
)

FILE = Origin("/imported.json")
AT = datetime(2025, 11, 13, 10, tzinfo=UTC)
MODEL = "claude-3-5-sonnet-20241022"

# --- the format's own examples -----------------------------------------------------------------------------

MINIMAL = {
    "schemaVersion": "1.0",
    "provider": {"id": "claude", "name": "Claude Code", "version": "1.0.0"},
    "sessionId": "30cc3569-a9d4-429e-981a-ab73e3ddee5f",
    "createdAt": "2025-10-24T10:00:00Z",
    "workspaceRoot": "/Users/alice/project",
    "exchanges": [],
}
USER = {
    "id": "u1",
    "timestamp": "2025-10-24T10:00:00Z",
    "role": "user",
    "content": [{"type": "text", "text": "Please create src/main.go"}],
}
AGENT_TEXT = {
    "id": "a1",
    "timestamp": "2025-10-24T10:00:10Z",
    "role": "agent",
    "model": "claude-3-5-sonnet-20241022",
    "content": [{"type": "text", "text": "I'll create the file with a basic Go program."}],
}
AGENT_THINKING = {
    "id": "a2",
    "timestamp": "2025-10-24T10:00:08Z",
    "role": "agent",
    "model": "claude-3-5-sonnet-20241022",
    "content": [{"type": "thinking", "text": "The user wants me to create a Go file. I should use the Write tool..."}],
}
AGENT_TOOL = {
    "id": "t1",
    "timestamp": "2025-10-24T10:00:12Z",
    "role": "agent",
    "model": "claude-3-5-sonnet-20241022",
    "tool": {
        "name": "Write",
        "type": "write",
        "useId": "tool_abc123",
        "input": {"file_path": "src/main.go", "content": "package main\n\nfunc main() {\n}"},
    },
    "pathHints": ["src/main.go"],
}
EXCHANGE = {
    "exchangeId": "ex_001",
    "startTime": "2025-10-24T10:00:00Z",
    "endTime": "2025-10-24T10:00:15Z",
    "messages": [
        {
            "id": "u1",
            "timestamp": "2025-10-24T10:00:00Z",
            "role": "user",
            "content": [{"type": "text", "text": "Create src/main.go with Hello World"}],
        },
        {
            "id": "a1",
            "timestamp": "2025-10-24T10:00:10Z",
            "role": "agent",
            "model": "claude-3-5-sonnet-20241022",
            "content": [{"type": "text", "text": "I'll create a simple Hello World program in Go."}],
        },
        {
            "id": "t1",
            "timestamp": "2025-10-24T10:00:15Z",
            "role": "agent",
            "model": "claude-3-5-sonnet-20241022",
            "tool": {
                "name": "Write",
                "type": "write",
                "useId": "tool_001",
                "input": {"file_path": "src/main.go"},
            },
            "pathHints": ["src/main.go"],
        },
    ],
}
FULL = {
    "schemaVersion": "1.0",
    "provider": {"id": "claude", "name": "Claude Code", "version": "1.0.0"},
    "sessionId": "sess-1234",
    "createdAt": "2025-11-13T10:00:00Z",
    "updatedAt": "2025-11-13T10:05:00Z",
    "slug": "create-go-hello-world",
    "workspaceRoot": "/home/alice/project",
    "exchanges": [
        {
            "exchangeId": "ex_001",
            "startTime": "2025-11-13T10:00:00Z",
            "endTime": "2025-11-13T10:00:15Z",
            "messages": [
                {
                    "id": "u1",
                    "timestamp": "2025-11-13T10:00:00Z",
                    "role": "user",
                    "content": [{"type": "text", "text": "Create src/main.go with Hello World"}],
                },
                {
                    "id": "a1",
                    "timestamp": "2025-11-13T10:00:10Z",
                    "role": "agent",
                    "model": "claude-3-5-sonnet-20241022",
                    "content": [{"type": "text", "text": "Creating the file now."}],
                    "tool": {
                        "name": "Write",
                        "type": "write",
                        "useId": "tool_001",
                        "input": {"file_path": "src/main.go"},
                    },
                    "pathHints": ["src/main.go"],
                },
            ],
        },
        {
            "exchangeId": "ex_002",
            "startTime": "2025-11-13T10:01:00Z",
            "endTime": "2025-11-13T10:01:20Z",
            "messages": [
                {
                    "id": "u2",
                    "timestamp": "2025-11-13T10:01:00Z",
                    "role": "user",
                    "content": [{"type": "text", "text": "Run the program"}],
                },
                {
                    "id": "t2",
                    "timestamp": "2025-11-13T10:01:10Z",
                    "role": "agent",
                    "model": "claude-3-5-sonnet-20241022",
                    "tool": {
                        "name": "Bash",
                        "type": "shell",
                        "useId": "tool_002",
                        "input": {"command": "go run src/main.go"},
                        "output": {"stdout": "Hello World\n", "exit_code": 0},
                    },
                },
                {
                    "id": "a2",
                    "timestamp": "2025-11-13T10:01:20Z",
                    "role": "agent",
                    "model": "claude-3-5-sonnet-20241022",
                    "content": [{"type": "text", "text": "The program ran successfully and printed 'Hello World'."}],
                },
            ],
        },
    ],
}


def with_messages(*messages: Any) -> dict[str, Any]:
    return {**MINIMAL, "exchanges": [{"exchangeId": "ex_001", "messages": list(messages)}]}


EXAMPLES: dict[str, dict[str, Any]] = {
    "minimal": MINIMAL,
    "user": with_messages(USER),
    "agent text": with_messages(AGENT_TEXT),
    "agent thinking": with_messages(AGENT_THINKING),
    "agent tool use": with_messages(AGENT_TOOL),
    "complete exchange": {**MINIMAL, "exchanges": [EXCHANGE]},
    "full": FULL,
}


def only(value: dict[str, Any]) -> Message:
    (message,) = read(value, FILE).messages
    return message


def clock(minute: int, second: int) -> datetime:
    return AT.replace(minute=minute, second=second)


def again(value: dict[str, Any]) -> dict[str, Any]:
    """Through a file, into a transcript, and written once more."""
    found = read(msgspec.json.decode(msgspec.json.encode(value)), FILE)
    return written(account(found.session, *found.messages))


@pytest.mark.parametrize("name", EXAMPLES)
def test_example_of_the_format_is_valid_and_survives_import(name: str) -> None:
    value = EXAMPLES[name]
    assert problems(value) == []
    assert validate(value) is True
    first = again(value)
    assert problems(first) == []
    assert again(first) == first


def test_minimal_example_is_read() -> None:
    expected = Session(
        key="claude-code:30cc3569-a9d4-429e-981a-ab73e3ddee5f",
        id="30cc3569-a9d4-429e-981a-ab73e3ddee5f",
        agent="claude-code",
        origin=FILE,
        workspace="/Users/alice/project",
        agent_version="1.0.0",
        extensions={"createdAt": "2025-10-24T10:00:00Z"},
    )
    assert read(MINIMAL, FILE) == Transcript(expected, ())
    assert again(MINIMAL) == MINIMAL


def test_example_messages_are_read() -> None:
    at = datetime(2025, 10, 24, 10, tzinfo=UTC)
    text = Text("Please create src/main.go", "u1", None, at)
    assert only(EXAMPLES["user"]) == Message(Role.USER, (text,), "u1", at=at)
    at = at.replace(second=10)
    said = Text("I'll create the file with a basic Go program.", "a1", None, at)
    assert only(EXAMPLES["agent text"]) == Message(Role.ASSISTANT, (said,), "a1", at=at, model=MODEL)
    at = at.replace(second=8)
    thought = Thinking("The user wants me to create a Go file. I should use the Write tool...", "a2", None, at)
    assert only(EXAMPLES["agent thinking"]) == Message(Role.ASSISTANT, (thought,), "a2", at=at, model=MODEL)
    at = at.replace(second=12)
    call = ToolCall(
        id="tool_abc123",
        name="Write",
        type=ToolType.WRITE,
        arguments={"file_path": "src/main.go", "content": "package main\n\nfunc main() {\n}"},
        paths=("src/main.go",),
        uuid="t1",
        at=at,
    )
    assert only(EXAMPLES["agent tool use"]) == Message(Role.ASSISTANT, (call,), "t1", at=at, model=MODEL)


def test_full_example_is_read() -> None:
    found = read(FULL, FILE)
    assert found.session == Session(
        key="claude-code:sess-1234",
        id="sess-1234",
        agent="claude-code",
        origin=FILE,
        slug="create-go-hello-world",
        workspace="/home/alice/project",
        agent_version="1.0.0",
        extensions={"updatedAt": "2025-11-13T10:05:00Z"},
    )
    assert [m.uuid for m in found.messages] == ["u1", "a1", "u2", "t2", "a2"]
    assert found.messages[3].tool_calls == (
        ToolCall(
            id="tool_002",
            name="Bash",
            type=ToolType.SHELL,
            arguments={"command": "go run src/main.go"},
            result="Hello World\n",
            success=True,
            details={"exit_code": 0},
            uuid="t2",
            at=clock(1, 10),
        ),
    )


def full_session() -> Account:
    """What Claude Code would have recorded of the full example."""
    wrote = ToolCall("tool_001", "Write", ToolType.WRITE, {"file_path": "src/main.go"}, paths=("src/main.go",))
    ran = ToolCall(
        "tool_002", "Bash", ToolType.SHELL, {"command": "go run src/main.go"}, "Hello World\n", True,
        details={"exit_code": 0},
    )  # fmt: skip
    asked, told = "Create src/main.go with Hello World", "The program ran successfully and printed 'Hello World'."
    return account(
        session(key="claude-code:sess-1234", id="sess-1234", agent_version="1.0.0", slug="create-go-hello-world",
                workspace="/home/alice/project"),
        Message(Role.USER, (Text(asked),), "u1", at=clock(0, 0)),
        Message(Role.ASSISTANT, (Text("Creating the file now."), wrote), "a1", at=clock(0, 10), model=MODEL),
        Message(Role.USER, (Text("Run the program"),), "u2", at=clock(1, 0)),
        Message(Role.ASSISTANT, (ran,), "t2", at=clock(1, 10), model=MODEL),
        Message(Role.ASSISTANT, (Text(told),), "a2", at=clock(1, 20), model=MODEL),
    )  # fmt: skip


def test_full_example_is_written() -> None:
    made = written(full_session())
    expected: dict[str, Any] = deepcopy(FULL)
    expected["updatedAt"] = "2025-11-13T10:01:20Z"  # its messages tell no later time
    expected["exchanges"][0]["endTime"] = "2025-11-13T10:00:10Z"
    expected["exchanges"][1]["messages"][1]["tool"]["output"] = {"content": "Hello World\n", "exit_code": 0}
    for exchange in made["exchanges"]:
        exchange.pop("metadata", None)
        for message in exchange["messages"]:
            message.pop("metadata", None)
            for name in ("summary", "formattedMarkdown"):
                message.get("tool", {}).pop(name, None)
    assert made == expected


# --- writing -------------------------------------------------------------------------------------------------


def messages_of(*messages: Message) -> list[dict[str, Any]]:
    made = written(account(session(), *messages))
    assert problems(made) == []
    return [message for exchange in made["exchanges"] for message in exchange["messages"]]


def test_several_tools_of_one_message_become_several_messages_in_order() -> None:
    first = ToolCall("c1", "Read", ToolType.READ, {"file_path": "a.py"}, "text", True, uuid="r1")
    second = ToolCall("c2", "Bash", ToolType.SHELL, "ls", "no", False, uuid="r1")
    made = messages_of(
        Message(Role.ASSISTANT, (Thinking("hm", "r1"), first, second, Text("done", "r2")), "r1", model="m", api_id="x")
    )
    assert made == [
        {
            "role": "agent",
            "id": "r1",
            "model": "m",
            "content": [{"type": "thinking", "text": "hm"}],
            "tool": {
                "name": "Read",
                "type": "read",
                "useId": "c1",
                "input": {"file_path": "a.py"},
                "output": {"content": "text"},
                "summary": "read: Read · a.py",
                "formattedMarkdown": "- file_path: `a.py`\n\nOutput:\n\n```\ntext\n```\n",
            },
            "metadata": {"api_id": "x"},
        },
        {
            "role": "agent",
            "id": "r1#2",
            "model": "m",
            "tool": {
                "name": "Bash",
                "type": "shell",
                "useId": "c2",
                "input": {"input": "ls"},
                "output": {"content": "no", "is_error": True},
                "summary": "shell: Bash (failed) · ls",
                "formattedMarkdown": "Input:\n\n```\nls\n```\n\nFailed:\n\n```\nno\n```\n",
            },
            "metadata": {"continues": True, "uuid": "r1"},
        },
        {
            "role": "agent",
            "id": "r2",
            "model": "m",
            "content": [{"type": "text", "text": "done"}],
            "metadata": {"continues": True},
        },
    ]


def test_result_stands_with_its_call_and_never_as_a_message_of_the_user() -> None:
    call = ToolCall("c1", "Bash", ToolType.SHELL, {"command": "ls"}, "a.py", True, result_uuid="u9")
    (made,) = messages_of(Message(Role.ASSISTANT, (call,)))
    assert (made["role"], made["tool"]["output"]) == ("agent", {"content": "a.py"})
    (orphan,) = messages_of(Message(Role.TOOL, (ToolCall("c1", "unknown", result="late"),)))
    assert (orphan["role"], orphan["tool"]["output"]) == ("agent", {"content": "late"})
    assert orphan["metadata"]["role"] == "tool"
    (shell,) = messages_of(Message(Role.USER, (call,)))  # a command that the person ran
    assert (shell["role"], shell["metadata"]["role"]) == ("agent", "user")


def test_notices_of_the_agent_are_folded_into_its_messages_and_marked() -> None:
    notice, reminder = messages_of(
        Message(Role.SYSTEM, (Text("Conversation compacted"),), is_compaction=True),
        Message(Role.USER, (Text("<system-reminder>"),), is_meta=True, model="m"),
    )
    assert (notice["role"], notice["metadata"]) == ("agent", {"role": "system", "is_compaction": True})
    assert reminder == {
        "role": "user",
        "content": [{"type": "text", "text": "<system-reminder>"}],
        "metadata": {"model": "m", "is_meta": True},
    }


def test_message_of_attachments_names_them() -> None:
    (made,) = messages_of(
        Message(Role.USER, (Attachment("image", "shot.png", "image/png"), Attachment("file", "src/a.py")))
    )
    assert made["content"] == [
        {"type": "text", "text": "[image: shot.png]"},
        {"type": "text", "text": "[file: src/a.py]"},
    ]
    assert made["pathHints"] == ["src/a.py"]


def test_message_of_nothing_still_says_so() -> None:
    for role in Role:
        (made,) = messages_of(Message(role, ()))
        assert made["content"] == [{"type": "text", "text": "(no text)"}]


def test_globs_are_no_path_hints() -> None:
    call = ToolCall("c1", "Glob", ToolType.SEARCH, {"pattern": "src/**/*.py"}, paths=("src/**/*.py", "app/[id]/a.ts"))
    (made,) = messages_of(Message(Role.ASSISTANT, (call,)))
    assert made["pathHints"] == ["app/[id]/a.ts"]
    assert made["tool"]["input"] == {"pattern": "src/**/*.py"}


def test_exchanges_begin_with_turns_of_the_person_and_never_change_when_the_session_grows() -> None:
    said = [
        Message(Role.SYSTEM, (Text("instructions"),)),
        Message(Role.USER, (Text("one"),), at=clock(0, 5)),
        Message(Role.ASSISTANT, (Text("answer"),), at=clock(0, 3)),
        Message(Role.USER, (Text("<reminder>"),), is_meta=True),
        Message(Role.USER, (Text("sub-agent"),), is_sidechain=True),
        Message(Role.USER, (Text("two"),)),
    ]
    grown = [written(account(session(title="t"), *said[:count]))["exchanges"] for count in range(len(said) + 1)]
    assert [[(e["exchangeId"], len(e["messages"])) for e in exchanges] for exchanges in grown] == [
        [],
        [("ex_001", 1)],
        [("ex_001", 1), ("ex_002", 1)],
        [("ex_001", 1), ("ex_002", 2)],
        [("ex_001", 1), ("ex_002", 3)],
        [("ex_001", 1), ("ex_002", 4)],
        [("ex_001", 1), ("ex_002", 4), ("ex_003", 1)],
    ]
    assert (grown[-1][1]["startTime"], grown[-1][1]["endTime"]) == ("2025-11-13T10:00:03Z", "2025-11-13T10:00:05Z")
    for before, after in pairwise(grown):
        shared = [m for e in before for m in e["messages"]]
        assert [m for e in after for m in e["messages"]][: len(shared)] == shared


def test_providers_by_the_formats_own_names_and_others_by_theirs() -> None:
    def provider(agent: str) -> tuple[str, str]:
        made = written(account(session(agent=agent, key=f"{agent}:s1")), {c.agent: c.name for c in CONNECTORS})
        assert problems(made) == []
        return made["provider"]["id"], made["provider"]["name"]

    assert {c.agent: provider(c.agent) for c in CONNECTORS} == {
        "claude-code": ("claude", "Claude Code"),
        "cursor-cli": ("cursor", "Cursor CLI"),
        "cursor-ide": ("cursor", "Cursor CLI"),
        **{
            c.agent: (c.agent, c.name) for c in CONNECTORS if c.agent not in ("claude-code", "cursor-cli", "cursor-ide")
        },
    }
    assert provider("codex") == ("codex", "Codex CLI")
    assert provider("gemini") == ("gemini", "Gemini CLI")
    assert written(account(session(agent="my-agent")))["provider"]["name"] == "My Agent"


def test_session_without_workspace_version_or_time() -> None:
    made = written(account(session(), Message(Role.USER, (Text("hi"),))))
    assert (made["workspaceRoot"], made["provider"]["version"]) == ("/", "unknown")
    assert (made["createdAt"], "updatedAt" in made) == ("1970-01-01T00:00:00Z", False)
    known = session(extensions={"time_of_file": "2026-03-02T09:15:00+00:00"})
    made = written(account(known, Message(Role.USER, (Text("hi"),))))
    assert made["createdAt"] == "2026-03-02T09:15:00Z"
    assert made["exchanges"][0]["metadata"]["agent_journal"]["extensions"] == known.extensions


@pytest.mark.parametrize(
    ("facts", "slug"),
    [
        ({"slug": "fix-login-bug"}, "fix-login-bug"),
        ({"slug": "../../etc/passwd", "title": "Fix: the Login/Bug!"}, "fix-the-login-bug"),
        ({"title": "修复登录"}, "修复登录"),
        ({"title": "/ ."}, None),
        ({"title": "word " * 40}, "word-word-word-word-word-word-word-word-word-word"),
    ],
)
def test_slug_is_the_name_of_a_file(facts: dict[str, str], slug: str | None) -> None:
    assert written(account(session(**facts))).get("slug") == slug


# --- out and in again ------------------------------------------------------------------------------------------


@settings(RELAXED, max_examples=100)
@given(accounts())
def test_every_session_comes_back_as_it_was(one: Account) -> None:
    made = written(one)
    assert problems(made) == []
    value = msgspec.json.decode(msgspec.json.encode(made))
    assert value == made
    found = read(value, FILE)
    assert found.messages == one.messages
    if one.messages:  # without an exchange there is no place for more than the format's own fields
        assert found.session == one.session
    assert written(account(found.session, *found.messages)) == made


def test_facts_of_a_message_are_named_in_its_metadata() -> None:
    (made,) = messages_of(
        Message(
            Role.ASSISTANT, (Text("x", "a1", "u1"),), "a1", "u1", cwd="/w", git_branch="main", usage=Usage(1, 2),
            request_id="req", is_sidechain=True, extensions={"permission_mode": "plan"},
        )
    )  # fmt: skip
    assert made["metadata"] == {
        "parent_uuid": "u1",
        "request_id": "req",
        "usage": {"input_tokens": 1, "output_tokens": 2},
        "cwd": "/w",
        "git_branch": "main",
        "is_sidechain": True,
        "extensions": {"permission_mode": "plan"},
    }


def test_what_another_producer_added_is_kept() -> None:
    value = with_messages(
        {**AGENT_TOOL, "latency": 3, "metadata": {"cwd": "/w", "usage": "much", "trace": [1]}},
        {"role": "agent", "pathHints": ["a.py"]},
    )
    value["exchanges"][0]["metadata"] = {"topic": "go"}
    value["exchanges"][0]["messages"][0]["tool"] = {
        **AGENT_TOOL["tool"],  # type: ignore[dict-item]
        "summary": "Wrote a file",
        "formattedMarkdown": "**Wrote**",
    }
    first, second = read(value, FILE).messages
    assert first.cwd == "/w"
    assert first.extensions == {"latency": 3, "usage": "much", "trace": [1], "exchange": {"topic": "go"}}
    assert first.tool_calls[0].details == {"formattedMarkdown": "**Wrote**", "displaySummary": "Wrote a file"}
    assert second.blocks == (Attachment("file", "a.py"),)
    made = again(value)
    assert made["exchanges"][0]["messages"][0]["tool"]["summary"] == "Wrote a file"
    assert again(made) == made


def test_file_cannot_claim_another_agents_session() -> None:
    made = written(account(session(), Message(Role.USER, (Text("hi"),))))
    made["exchanges"][0]["metadata"]["agent_journal"] |= {"key": "codex:other", "agent": "codex"}
    found = read(made, FILE).session
    assert (found.key, found.agent) == ("claude-code:s1", "claude-code")


def test_value_without_an_id_is_refused() -> None:
    for value in ({}, {**MINIMAL, "sessionId": ""}, {**MINIMAL, "provider": {}}):
        with pytest.raises(BadExchange):
            read(value, FILE)


def test_deep_nesting_and_huge_numbers_become_storable() -> None:
    deep: Any = []
    for _ in range(400):
        deep = [deep]
    value = with_messages({"role": "agent", "tool": {"name": "X", "type": "unknown", "input": {"a": deep, "n": 2**70}}})
    (call,) = only(value).tool_calls
    assert call.arguments["n"] == str(2**70)
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(call), type=ToolCall) == call


@RELAXED
@given(st.data())
def test_wrong_types_never_stop_the_check_nor_break_a_reading(data: st.DataObject) -> None:
    wrong = junk("role", "content", "tool", "metadata", "blocks", "user", "agent", "messages", "0", "extensions")
    value: Any = written(full_session())
    for _ in range(data.draw(st.integers(1, 4))):
        value = with_value(value, data.draw(st.sampled_from(places_in(value))), data.draw(wrong))
    assert validate(value) is (problems(value) == [])
    try:
        found = read(value if isinstance(value, dict) else {}, FILE)
    except BadExchange:
        return
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(found), type=Transcript) == found
    derive(found.session, found.messages)


# --- the rules -------------------------------------------------------------------------------------------------


def changed(place: str, wrong: Any) -> dict[str, Any]:
    """The full example with another value at `exchanges/0/exchangeId`; None takes the field away."""
    value: Any = deepcopy(FULL)
    *above, last = [int(step) if step.isdecimal() else step for step in place.split("/")]
    at = value
    for step in above:
        at = at[step]
    if wrong is None:
        del at[last]
    else:
        at[last] = wrong
    return value  # type: ignore[no-any-return]


FIRST, SECOND = "exchanges/0/messages/0", "exchanges/0/messages/1"


@pytest.mark.parametrize(
    ("place", "wrong", "found"),
    [
        ("schemaVersion", "2.0", ["schemaVersion: '1.0' was expected"]),
        ("provider/id", "", ["provider.id: is empty"]),
        ("provider/name", "", ["provider.name: is empty"]),
        ("provider/version", "", ["provider.version: is empty"]),
        ("provider/x", 1, ["provider: Additional properties are not allowed ('x' was unexpected)"]),
        ("sessionId", "", ["sessionId: is empty"]),
        ("sessionId", None, ["the value: 'sessionId' is a required property"]),
        ("createdAt", "", ["createdAt: '' is not a 'date-time'", "createdAt: is empty"]),
        ("createdAt", "yesterday", ["createdAt: 'yesterday' is not a 'date-time'"]),
        ("updatedAt", "2025-11-13T10:00:00", ["updatedAt: '2025-11-13T10:00:00' is not a 'date-time'"]),
        ("workspaceRoot", "", ["workspaceRoot: is empty"]),
        ("exchanges/0/exchangeId", "", ["exchanges[0].exchangeId: is empty"]),
        ("exchanges/1/exchangeId", "ex_001", ["exchanges[1].exchangeId: 'ex_001' is that of exchanges[0] already"]),
        (f"{FIRST}/role", "robot", ["exchanges[0].messages[0].role: 'robot' is not one of ['user', 'agent']"]),
        (f"{FIRST}/content", [], ["exchanges[0].messages[0].content: a message of the user needs some"]),
        (f"{FIRST}/content", None, ["exchanges[0].messages[0].content: a message of the user needs some"]),
        (f"{FIRST}/model", "m", ["exchanges[0].messages[0].model: a message of the user has none"]),
        (
            f"{FIRST}/tool",
            {"name": "X", "type": "read"},
            ["exchanges[0].messages[0].tool: a message of the user has none"],
        ),
        (
            f"{SECOND}",
            {"role": "agent", "model": "m"},
            ["exchanges[0].messages[1]: a message of the agent needs content, a tool or pathHints"],
        ),
        (
            f"{SECOND}/content/0/type",
            "image",
            ["exchanges[0].messages[1].content[0].type: 'image' is not one of ['text', 'thinking']"],
        ),
        (f"{SECOND}/tool/name", "", ["exchanges[0].messages[1].tool.name: is empty"]),
        (
            f"{SECOND}/tool/type",
            "x",
            [
                "exchanges[0].messages[1].tool.type: 'x' is not one of "
                "['write', 'read', 'search', 'shell', 'task', 'generic', 'unknown']"
            ],
        ),
    ],
)
def test_broken_rule_is_named_with_its_place(
    place: str, wrong: Any, found: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    value = changed(place, wrong)
    assert problems(value) == found
    with caplog.at_level(logging.WARNING, "agent_journal"):
        assert validate(value) is False
    assert [(r.levelname, r.getMessage()) for r in caplog.records] == [("WARNING", text) for text in found]


def test_agents_outside_the_schema_are_valid_unless_it_is_meant_strictly() -> None:
    value = changed("provider/id", "copilot-cli")
    assert problems(value) == []
    assert problems(value, strict=True) == [
        "provider.id: 'copilot-cli' is not one of ['claude', 'cursor', 'codex', 'gemini']"
    ]


def test_additions_are_welcome_where_the_schema_says_so_and_nowhere_else() -> None:
    assert problems(changed(f"{SECOND}/future", 1)) == []
    assert problems(changed(f"{SECOND}/tool/future", 1)) == []
    assert problems(changed("exchanges/0/metadata", {"future": 1})) == []
    assert problems(changed("future", 1)) == [
        "the value: Additional properties are not allowed ('future' was unexpected)"
    ]
    assert problems(changed("exchanges/0/future", 1)) == [
        "exchanges[0]: Additional properties are not allowed ('future' was unexpected)"
    ]


def test_anything_at_all_can_be_asked_about() -> None:
    deep: Any = {}
    for _ in range(900):
        deep = {"provider": deep}
    for value in (
        None,
        1,
        "x",
        [],
        {},
        {"provider": {"id": []}},
        {"exchanges": {"messages": 1}},
        {1: 2},
        object(),
        deep,
    ):
        assert problems(value) != []


def test_open_schema_differs_from_the_shipped_one_in_the_providers_only() -> None:
    folder = Path(schemas.__file__).parent
    strict, free = (
        json.loads((folder / name).read_text()) for name in (schemas.SESSION_DATA, schemas.SESSION_DATA_OPEN)
    )
    assert strict["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert strict["$id"] == "https://specstory.ai/schemas/session-data-v1.json"
    assert strict["properties"]["provider"]["properties"]["id"].pop("enum") == ["claude", "cursor", "codex", "gemini"]
    assert {**free, "$id": strict["$id"], "title": strict["title"]} == strict


def test_every_real_session_is_valid_and_comes_back_as_it_was(beginnings: Path) -> None:
    count = 0
    for connector in CONNECTORS:
        for root in connector.roots({}, beginnings):
            for source in connector.discover(root).sources:
                for transcript in connector.parse(source).transcripts:
                    made = written(account(transcript.session, *transcript.messages))
                    found = read(msgspec.json.decode(msgspec.json.encode(made)), FILE)
                    assert problems(made) == [], transcript.session.key
                    assert (found.session, found.messages) == (transcript.session, transcript.messages)
                    count += 1
    assert count > 200
