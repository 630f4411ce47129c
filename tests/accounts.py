"""Accounts of sessions, made up: every kind of block, missing facts, streamed records, results that never came.

Whatever gives a session away is tested with these: `accounts()` for hypothesis, `account()` for one of one's own.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from hypothesis import strategies as st

from agent_journal.session import (
    Account,
    Attachment,
    Block,
    Message,
    Origin,
    Role,
    Session,
    Text,
    Thinking,
    ToolCall,
    ToolType,
    Usage,
    derive,
)

AGENTS = ("claude-code", "codex", "gemini", "cursor-cli", "cursor-ide", "copilot-cli", "aider")
MARKUP = (
    "```", "~~~", "````", "`", "<details>", "</details>", "<summary>", "</summary>", "<!--", "<script>", "\n", "\n\n",
    "    ", "> ", "- ", "# ", "|", "[a]: <b>", "<https://example.com>", "\\", "é", "漢字", "word", " ", "***", "]]>",
    "&lt;",
)  # fmt: skip


def account(session: Session, *messages: Message) -> Account:
    return Account(session, derive(session, messages), messages, tuple(range(1, len(messages) + 1)))


def session(**facts: Any) -> Session:
    given = {"key": "claude-code:s1", "id": "s1", "agent": "claude-code", "origin": Origin("/logs/s1.jsonl")}
    return Session(**(given | facts))


def marked_up() -> st.SearchStrategy[str]:
    """Texts that mean something to Markdown and HTML."""
    return st.lists(st.sampled_from(MARKUP), max_size=12).map("".join)


def texts() -> st.SearchStrategy[str]:
    return st.text(st.characters(exclude_categories=["Cs"]), max_size=20) | marked_up()


def names() -> st.SearchStrategy[str]:
    return st.text("abcdefghijklmnopqrstuvwxyz0123456789-_é", min_size=1, max_size=8)


def json_values() -> st.SearchStrategy[Any]:
    plain = st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | texts()
    return st.recursive(
        plain | st.floats(allow_nan=False, allow_infinity=False),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts(), inner, max_size=3),
        max_leaves=5,
    )


def json_objects() -> st.SearchStrategy[dict[str, Any]]:
    telling = st.sampled_from(("command", "file_path", "content", "input", "exit_code", "is_error", "stdout"))
    return st.dictionaries(telling | texts(), json_values(), max_size=3)


def moments() -> st.SearchStrategy[datetime]:
    return st.datetimes(datetime(2020, 1, 1), datetime(2030, 1, 1), timezones=st.just(UTC))


def usages() -> st.SearchStrategy[Usage]:
    count = st.integers(0, 2**40)
    return st.builds(Usage, count, count, count, count, count, count, st.none() | names())


def _stamp() -> dict[str, st.SearchStrategy[Any]]:
    return {
        "uuid": st.none() | names(),
        "parent_uuid": st.none() | names(),
        "at": st.none() | moments(),
    }


def tool_calls() -> st.SearchStrategy[ToolCall]:
    paths = st.lists(names() | st.sampled_from(("src/**/*.py", "/home/ana/shop/a b.py", "x?")), max_size=2).map(tuple)
    return st.builds(
        ToolCall,
        id=names() | st.just(""),
        name=names() | st.sampled_from(("Bash", "Edit", "mcp__x__y")),
        type=st.sampled_from(ToolType),
        arguments=st.none() | texts() | json_objects() | json_values(),
        result=st.none() | texts(),
        success=st.none() | st.booleans(),
        result_uuid=st.none() | names(),
        result_parent_uuid=st.none() | names(),
        result_at=st.none() | moments(),
        paths=paths,
        agent_session=st.none() | names(),
        details=json_objects(),
        **_stamp(),
    )


def blocks() -> st.SearchStrategy[Block]:
    return st.one_of(
        st.builds(Text, texts(), **_stamp()),
        st.builds(Thinking, texts(), **_stamp()),
        st.builds(Attachment, st.sampled_from(("image", "file")), names() | st.just(""), texts(), texts(), **_stamp()),
        tool_calls(),
    )


def messages() -> st.SearchStrategy[Message]:
    known = st.none() | names()
    return st.builds(
        Message,
        role=st.sampled_from(Role),
        blocks=st.lists(blocks(), max_size=4).map(tuple),
        **_stamp(),
        model=known,
        api_id=known,
        request_id=known,
        stop_reason=known,
        stop_sequence=known,
        usage=st.none() | usages(),
        cwd=known,
        git_branch=known,
        agent_version=known,
        user_type=known,
        is_meta=st.booleans(),
        is_sidechain=st.booleans(),
        is_compaction=st.booleans(),
        is_error=st.booleans(),
        extensions=json_objects(),
    )


@st.composite
def sessions(draw: st.DrawFn) -> Session:
    known = st.none() | texts()
    agent, own = draw(st.sampled_from(AGENTS)), draw(names())
    parent = draw(st.none() | names())
    return Session(
        key=f"{agent}:{parent}/agent-{own}" if parent else f"{agent}:{own}",
        id=own,
        agent=agent,
        origin=draw(st.builds(Origin, texts(), st.sampled_from(("local", "wsl", "remote")), known, names())),
        title=draw(known),
        summary=draw(known),
        slug=draw(known | st.sampled_from(("fix-login-bug", "..", "a/b"))),
        workspace=draw(known | st.just("/home/ana/shop")),
        workspace_encoded=draw(known),
        git_branch=draw(known),
        agent_version=draw(known | st.just("unknown")),
        is_agent_session=parent is not None,
        parent_session_id=parent,
        parent_key=f"{agent}:{parent}" if parent else None,
        agent_id=own if parent else None,
        usage=draw(st.none() | usages()),
        extensions=draw(json_objects()),
    )


def accounts() -> st.SearchStrategy[Account]:
    return st.builds(lambda one, said: account(one, *said), sessions(), st.lists(messages(), max_size=5))
