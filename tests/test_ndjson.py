"""Unified NDJSON: what the format's own document shows, and that nothing is lost on the way out and back."""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
from accounts import account, accounts, session
from hypothesis import given, settings
from process import Aj

from agent_journal.exchange import ndjson, schemas
from agent_journal.session import (
    Account,
    Attachment,
    Message,
    Origin,
    Role,
    Text,
    Thinking,
    ToolCall,
    ToolType,
    Transcript,
    Usage,
    derive,
)

AT = datetime(2025, 12, 27, 9, 0, tzinfo=UTC)
LATER = datetime(2025, 12, 27, 9, 0, 5, tzinfo=UTC)
SECOND = (
    '{"type":"session","session":{"id":"c7e6fbcb","agent":"claude-code","workspace":"/home/user/myproject",'
    '"workspace_encoded":"-home-user-myproject","started_at":"2025-12-27T09:00:00Z","ended_at":"2025-12-27T09:15:00Z",'
    '"source":{"type":"local","host":null,"path":"/home/user/.claude/projects/-home-user-myproject/c7e6fbcb.jsonl"},'
    '"is_agent_session":false,"parent_session_id":null,"agent_id":null},"messages":[{"index":1,"uuid":"msg-001",'
    '"parent_uuid":null,"role":"user","timestamp":"2025-12-27T09:00:00Z","content":[{"type":"text",'
    '"text":"List files"}],"metadata":{"cwd":"/home/user/myproject"}},{"index":2,"uuid":"msg-002",'
    '"parent_uuid":"msg-001","role":"assistant","timestamp":"2025-12-27T09:00:05Z","content":[{"type":"text",'
    '"text":"I\'ll list the files."},{"type":"tool_use","tool_id":"tool_001","tool_name":"Bash","input":'
    '{"command":"ls -la"}}],"metadata":{"model":{"name":"claude-sonnet-4-5-20250929","stop_reason":"tool_use"}}}]}'
)
THIRD = (
    '{"type":"session","session":{"id":"d8f7ghij","agent":"claude-code","workspace":"/home/user/myproject",'
    '"workspace_encoded":"-home-user-myproject","started_at":"2025-12-27T10:00:00Z","ended_at":"2025-12-27T10:30:00Z",'
    '"source":{"type":"wsl","host":"ubuntu","path":"/home/user/.claude/projects/-home-user-myproject/d8f7ghij.jsonl"},'
    '"is_agent_session":false,"parent_session_id":null,"agent_id":null},"messages":[{"index":1,"uuid":"msg-003",'
    '"parent_uuid":null,"role":"user","timestamp":"2025-12-27T10:00:00Z","content":[{"type":"text","text":"Hello"}]}]}'
)


def through_json(value: Any) -> Any:
    return msgspec.json.decode(msgspec.json.encode(value))


def line(given: Account, version: str = ndjson.VERSION) -> Any:
    return through_json(ndjson.session_line(given, version))


def retold(given: Transcript) -> Account:
    return account(given.session, *given.messages)


# --- there and back -------------------------------------------------------------------------------------


@given(accounts())
@settings(max_examples=100, deadline=None)
def test_what_is_written_and_read_again_is_the_same_to_the_last_field(told: Account) -> None:
    written = line(told)
    read = ndjson.read_session(written)
    assert read.messages == told.messages
    assert read.session == told.session
    assert line(retold(read)) == written


@given(accounts())
@settings(max_examples=60, deadline=None)
def test_every_line_fits_the_schema_that_is_shipped(told: Account) -> None:
    for version in (ndjson.VERSION, ndjson.STRICT):
        assert list(schemas.complaints(schemas.NDJSON, line(told, version))) == []
    header = through_json(ndjson.header([told.session], AT))
    assert list(schemas.complaints(schemas.NDJSON, header)) == []


# --- the document's examples ----------------------------------------------------------------------------


def test_the_header_has_exactly_the_documents_fields() -> None:
    sessions = [
        session(agent="claude-code", workspace="/home/user/myproject"),
        session(agent="codex", workspace="/srv/other-project", origin=Origin("/x", "wsl", "ubuntu", "wsl_ubuntu")),
        session(agent="gemini", workspace=None, origin=Origin("/y", "remote", "vm01", "remote_vm01")),
    ]
    assert through_json(ndjson.header(sessions, datetime(2025, 12, 27, 10, 30, 0, 5, tzinfo=UTC))) == {
        "type": "header",
        "schema_version": "1.1",
        "export_timestamp": "2025-12-27T10:30:00Z",
        "agent_types": ["claude-code", "codex", "gemini"],
        "homes": ["local", "remote_vm01", "wsl_ubuntu"],
        "workspaces": ["myproject", "other-project"],
        "session_count": 3,
    }


HEADER = {
    "type": "header",
    "schema_version": "1.0",
    "export_timestamp": "2025-12-27T10:30:00Z",
    "agent_types": ["claude-code", "codex", "gemini"],
    "homes": ["local", "wsl_ubuntu", "remote_vm01"],
    "workspaces": ["myproject", "other-project"],
    "session_count": 42,
}
SESSION = {
    "id": "abc123-def456",
    "agent": "claude-code",
    "workspace": "/home/user/myproject",
    "workspace_encoded": "-home-user-myproject",
    "started_at": "2025-12-27T09:00:00Z",
    "ended_at": "2025-12-27T10:30:00Z",
    "source": {
        "type": "local",
        "host": None,
        "path": "/home/user/.claude/projects/-home-user-myproject/abc123.jsonl",
    },
    "is_agent_session": False,
    "parent_session_id": None,
    "agent_id": None,
}
METADATA = {
    "cwd": "/home/user/myproject",
    "git_branch": "main",
    "agent_version": "1.0.29",
    "user_type": "external",
    "is_meta": False,
    "model": {"name": "claude-sonnet-4-5-20250929", "stop_reason": "end_turn", "stop_sequence": None},
    "token_usage": {
        "input_tokens": 1500,
        "output_tokens": 350,
        "cache_creation_tokens": 0,
        "cache_read_tokens": 1200,
    },
    "request_id": "req_abc123",
}
BLOCKS = [
    {"type": "text", "text": "Hello, how can I help?"},
    {
        "type": "tool_use",
        "tool_id": "tool_abc123",
        "tool_name": "Bash",
        "input": {"command": "ls -la", "description": "List files"},
    },
    {
        "type": "tool_result",
        "tool_id": "tool_abc123",
        "tool_name": "Bash",
        "output": "total 128\ndrwxr-xr-x ...",
        "is_error": False,
    },
]
GRAPH = {
    "is_linear": False,
    "fork_points": [
        {
            "uuid": "msg-uuid-5",
            "index": 5,
            "branches": [{"uuid": "msg-uuid-6a", "index": 6}, {"uuid": "msg-uuid-6b", "index": 7}],
        }
    ],
    "active_path": ["msg-uuid-1", "msg-uuid-2", "msg-uuid-10"],
}


def record(index: int, uuid: str, parent: str | None, role: str, at: str, **fields: Any) -> dict[str, Any]:
    known = {"index": index, "uuid": uuid, "parent_uuid": parent, "role": role, "timestamp": at}
    return known | {"content": [{"type": "text", "text": uuid}]} | fields


def test_the_documents_header_is_accepted_and_written_as_it_stands() -> None:
    assert list(schemas.complaints(schemas.NDJSON, HEADER)) == []
    assert through_json(ndjson.read_header(HEADER)) == HEADER
    homes = [Origin("/x"), Origin("/x", "wsl", "ubuntu", "wsl_ubuntu"), Origin("/x", "remote", "vm01", "remote_vm01")]
    agents, places = ("claude-code", "codex", "gemini"), ("/srv/myproject", "/srv/other-project")
    sessions = [
        session(agent=agents[n % 3], origin=homes[n % 3], workspace=places[n % 2], id=f"{n}") for n in range(42)
    ]
    written = through_json(ndjson.header(sessions, datetime(2025, 12, 27, 10, 30, tzinfo=UTC), "1.0"))
    assert written == HEADER | {"homes": ["local", "remote_vm01", "wsl_ubuntu"]}  # sorted


def test_the_documents_session_metadata_and_blocks_are_accepted_and_written_as_they_stand() -> None:
    said, called, result = BLOCKS
    given = {
        "type": "session",
        "session": SESSION,
        "messages": [
            record(1, "msg-uuid-122", None, "user", SESSION["started_at"], metadata={"cwd": "/home/user/myproject"}),
            record(
                2, "msg-uuid-123", "msg-uuid-122", "assistant", "2025-12-27T09:00:05Z",
                content=[said, called], metadata=METADATA,
            ),
            record(3, "msg-uuid-124", "msg-uuid-123", "user", SESSION["ended_at"], content=[result]),
        ],
    }  # fmt: skip
    assert list(schemas.complaints(schemas.NDJSON, given)) == []
    written = line(retold(ndjson.read_session(given)))
    assert written["messages"][1]["metadata"] == {k: v for k, v in METADATA.items() if k != "is_meta"}
    written["messages"][1]["metadata"]["is_meta"] = False  # what is not so is left out
    assert written == given


def test_the_documents_graph_is_accepted_and_that_of_such_a_session_is_written() -> None:
    """Its path is an excerpt: that of a session names every message of the last branch."""
    links = [(f"msg-uuid-{n}", f"msg-uuid-{n - 1}" if n > 1 else None) for n in range(1, 6)]
    links += [("msg-uuid-6a", "msg-uuid-5"), ("msg-uuid-6b", "msg-uuid-5"), ("msg-uuid-10", "msg-uuid-6b")]
    messages = [
        record(n, uuid, parent, "user", f"2025-12-27T09:00:{n:02}Z") for n, (uuid, parent) in enumerate(links, start=1)
    ]
    facts = SESSION | {"started_at": "2025-12-27T09:00:01Z", "ended_at": "2025-12-27T09:00:08Z"}
    given = {"type": "session", "session": facts, "messages": messages, "graph": GRAPH}
    assert list(schemas.complaints(schemas.NDJSON, given)) == []
    path = [f"msg-uuid-{n}" for n in ("1", "2", "3", "4", "5", "6b", "10")]
    assert line(retold(ndjson.read_session(given))) == given | {"graph": GRAPH | {"active_path": path}}


def test_a_file_of_the_documents_examples_is_valid_and_comes_in(tmp_path: Path) -> None:
    said = record(1, "msg-uuid-123", "msg-uuid-122", "assistant", "2025-12-27T09:00:00Z", metadata=METADATA)
    result = record(2, "msg-uuid-124", "msg-uuid-123", "user", "2025-12-27T10:30:00Z", content=BLOCKS[2:])
    messages = [said | {"content": BLOCKS[:2]}, result]
    session_line = {"type": "session", "session": SESSION, "messages": messages, "graph": GRAPH}
    lines = (HEADER | {"session_count": 1}, session_line)
    (tmp_path / "export.ndjson").write_text("".join(json.dumps(value) + "\n" for value in lines))
    aj = Aj(tmp_path)
    assert aj("validate", "--strict", "export.ndjson").lines == ["export.ndjson: NDJSON, 1 session: valid"]
    assert aj("import", "export.ndjson").lines[0] == "export.ndjson: 1 session: 1 new · 1 new message"
    assert aj("search", "drwxr-xr-x", "--json").object["matches"][0]["session"]["id"] == "abc123-def456"


def test_the_documents_complete_example_is_read_as_it_means() -> None:
    read = ndjson.read_session(json.loads(SECOND))
    facts = read.session
    assert (facts.key, facts.id, facts.agent) == ("claude-code:c7e6fbcb", "c7e6fbcb", "claude-code")
    assert (facts.workspace, facts.workspace_encoded) == ("/home/user/myproject", "-home-user-myproject")
    assert facts.origin == Origin("/home/user/.claude/projects/-home-user-myproject/c7e6fbcb.jsonl")
    first = {"uuid": "msg-001", "parent_uuid": None, "at": AT}
    second = {"uuid": "msg-002", "parent_uuid": "msg-001", "at": LATER}
    assert read.messages == (
        Message(Role.USER, (Text("List files", **first),), **first, cwd="/home/user/myproject"),
        Message(
            Role.ASSISTANT,
            (
                Text("I'll list the files.", **second),
                ToolCall("tool_001", "Bash", ToolType.SHELL, {"command": "ls -la"}, **second),
            ),
            **second,
            model="claude-sonnet-4-5-20250929",
            stop_reason="tool_use",
        ),
    )


def test_the_documents_complete_example_is_written_as_it_stands() -> None:
    for text in (SECOND, THIRD):
        given = json.loads(text)
        assert list(schemas.complaints(schemas.NDJSON, given)) == []
        written = line(retold(ndjson.read_session(given)))
        for message in written["messages"]:
            message.get("metadata", {}).get("model", {}).pop("stop_sequence", None)  # ours is always there
        assert written == given


def test_a_session_of_another_machine_keeps_its_label() -> None:
    read = ndjson.read_session(json.loads(THIRD))
    assert read.session.origin.home == "wsl_ubuntu"
    assert read.session.origin.host == "ubuntu"


# --- field by field -------------------------------------------------------------------------------------


def call(**facts: Any) -> ToolCall:
    given = {"id": "t1", "name": "Bash", "type": ToolType.SHELL, "arguments": {"command": "ls"}}
    return ToolCall(**(given | facts))


def messages_of(*messages: Message) -> Any:
    return line(account(session(), *messages))["messages"]


def test_a_result_is_a_message_of_the_user_with_the_tools_name() -> None:
    said = Message(
        Role.ASSISTANT,
        (call(result="a\nb", success=False, result_uuid="u2", result_parent_uuid="u1", result_at=LATER, uuid="u1"),),
        uuid="u1",
    )
    assert messages_of(said)[1] == {
        "index": 2,
        "uuid": "u2",
        "parent_uuid": "u1",
        "role": "user",
        "timestamp": "2025-12-27T09:00:05Z",
        "content": [{"type": "tool_result", "tool_id": "t1", "tool_name": "Bash", "output": "a\nb", "is_error": True}],
    }


def test_metadata_has_the_documents_names_and_tokens_stand_once() -> None:
    said = Message(
        Role.ASSISTANT,
        (Text("one", uuid="u1"), Text("two", uuid="u2", parent_uuid="u1")),
        uuid="u1",
        model="opus",
        stop_reason="end_turn",
        usage=Usage(1500, 350, 10, 1200),
        request_id="req_abc123",
        cwd="/home/user/myproject",
        git_branch="main",
        agent_version="1.0.29",
        user_type="external",
        is_meta=True,
    )
    first, second = messages_of(said)
    place = {
        "cwd": "/home/user/myproject",
        "git_branch": "main",
        "agent_version": "1.0.29",
        "user_type": "external",
        "is_meta": True,
        "model": {"name": "opus", "stop_reason": "end_turn", "stop_sequence": None},
    }
    usage = {"input_tokens": 1500, "output_tokens": 350, "cache_creation_tokens": 10, "cache_read_tokens": 1200}
    assert first["metadata"] == {**place, "token_usage": usage, "request_id": "req_abc123"}
    assert second["metadata"] == place
    assert [m["uuid"] for m in (first, second)] == ["u1", "u2"]


def test_thinking_is_a_block_of_1_1_and_left_out_and_counted_by_1_0() -> None:
    told = account(session(title="A title"), Message(Role.ASSISTANT, (Thinking("hm"), Text("yes"))))
    left_out: Counter[str] = Counter()
    assert line(told)["messages"][0]["content"] == [
        {"type": "thinking", "text": "hm"},
        {"type": "text", "text": "yes"},
    ]
    strict = ndjson.session_line(told, ndjson.STRICT, left_out)
    assert strict["messages"][0]["content"] == [{"type": "text", "text": "yes"}]
    assert "extensions" not in strict["session"]
    assert left_out == {"thinking blocks": 1, "extensions": 1}


def test_what_the_format_has_no_place_for_stands_in_extensions() -> None:
    shown = Message(
        Role.USER,
        (Text("look", uuid="u1"), Attachment("image", "shot.png", uuid="u1")),
        uuid="u1",
        extensions={"todos": [{"content": "test"}]},
    )
    (written,) = messages_of(shown)
    assert written["extensions"] == {
        "todos": [{"content": "test"}],
        "agent_journal": {"attachments": [[1, {"block": "attachment", "kind": "image", "name": "shot.png"}]]},
    }


def test_a_session_without_workspace_or_times_says_what_is_made_up() -> None:
    told = account(session(workspace=None, extensions={"time_of_file": "2025-12-27T09:00:00Z"}), Message(Role.USER, ()))
    written = line(told)["session"]
    assert {name: written[name] for name in ("workspace", "workspace_encoded", "started_at", "ended_at")} == {
        "workspace": "",
        "workspace_encoded": "",
        "started_at": "2025-12-27T09:00:00Z",
        "ended_at": "2025-12-27T09:00:00Z",
    }
    assert written["extensions"] == {
        "time_of_file": "2025-12-27T09:00:00Z",
        "agent_journal": {"implied": ["workspace", "workspace_encoded", "started_at", "ended_at"]},
    }


# --- forks ----------------------------------------------------------------------------------------------


def said(uuid: str, parent: str | None, text: str = "x", role: Role = Role.USER) -> Message:
    stamp = {"uuid": uuid, "parent_uuid": parent}
    return Message(role, (Text(text, **stamp),), **stamp)


def test_a_conversation_without_forks_has_no_graph() -> None:
    told = account(session(), said("a", None), said("b", "a"), said("c", "b"))
    assert "graph" not in line(told)


def test_going_back_is_a_fork_with_the_last_branch_active() -> None:
    told = account(session(), said("a", None), said("b", "a"), said("c1", "b"), said("c2", "b"), said("d", "c2"))
    assert line(told)["graph"] == {
        "is_linear": False,
        "fork_points": [
            {"uuid": "b", "index": 2, "branches": [{"uuid": "c1", "index": 3}, {"uuid": "c2", "index": 4}]}
        ],
        "active_path": ["a", "b", "c2", "d"],
    }


def test_parallel_tools_are_no_fork() -> None:
    answer = Message(
        Role.ASSISTANT,
        (
            call(uuid="b", parent_uuid="a", result="1", success=True, result_uuid="r1", result_parent_uuid="b"),
            call(
                id="t2", uuid="c", parent_uuid="b", result="2", success=True, result_uuid="r2", result_parent_uuid="c"
            ),
        ),
        uuid="b",
        parent_uuid="a",
    )
    told = account(session(), said("a", None), answer, said("d", "r2"))
    assert "graph" not in line(told)


def test_links_in_a_circle_end() -> None:
    told = account(session(), said("a", "c"), said("b", "a"), said("c", "a"), said("d", "c"))
    assert line(told)["graph"]["active_path"] == ["a", "c", "d"]


# --- other programs' files ------------------------------------------------------------------------------


def test_a_later_1_x_is_read_and_its_unknown_fields_stand_there_again() -> None:
    given = json.loads(THIRD)
    given["session"]["mood"] = {"level": 3}
    given["messages"][0]["reactions"] = ["+1"]
    read = ndjson.read_session(given)
    written = line(retold(read))
    assert written["session"]["mood"] == {"level": 3}
    assert written["messages"][0]["reactions"] == ["+1"]


def test_a_result_without_its_call_is_kept_as_a_tools_own_message() -> None:
    given = json.loads(THIRD)
    result = {"type": "tool_result", "tool_id": "t9", "tool_name": "Read", "output": "text", "is_error": False}
    given["messages"].append({"index": 2, "role": "user", "content": [result]})
    lone = ndjson.read_session(given).messages[1]
    assert (lone.role, lone.blocks) == (
        Role.TOOL,
        (ToolCall("t9", "Read", ToolType.READ, result="text", success=True),),
    )


def test_results_far_from_their_calls_find_them() -> None:
    given = json.loads(SECOND)
    result = {"type": "tool_result", "tool_id": "tool_001", "tool_name": "Bash", "output": "x", "is_error": False}
    given["messages"] += [
        {"index": 3, "role": "assistant", "content": [{"type": "text", "text": "meanwhile"}]},
        {"index": 4, "role": "user", "content": [result]},
    ]
    read = ndjson.read_session(given)
    assert [m.text for m in read.messages] == ["List files", "I'll list the files.", "meanwhile"]
    assert read.messages[1].tool_calls[0].result == "x"


def test_derived_facts_survive() -> None:
    told = account(
        session(summary="What was done"),
        Message(Role.USER, (Text("hello"),), at=AT),
        Message(Role.ASSISTANT, (), at=LATER),
    )
    read = ndjson.read_session(line(told))
    assert derive(read.session, read.messages) == told.derived
