"""OpenCode's records -> our values: a session's facts and its turns become one transcript. Pure: opens nothing.

Texts that the program put into a prompt (synthetic parts: contents of files, reminders) are counted and left out.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from agent_journal.connectors.base import Source, count, file_time, mapping, readable, session_key, string, timestamp
from agent_journal.connectors.blocks import Stamp, attachment, kind_name, numbered, result_text, tool_call
from agent_journal.connectors.opencode import DATABASE
from agent_journal.session import Block, Message, Origin, Role, Session, Text, Thinking, ToolCall, Transcript, Usage

Turn = tuple[dict[str, Any], list[dict[str, Any]]]  # a message and its parts, as the agent wrote them
KeyOf = Callable[[str], str]  # the key of a session that this one started

_NO_TITLE = re.compile(r"(?:New|Child) session - \d{4}-")  # kept free until the model has named the session
_ROLES = {"user": Role.USER, "assistant": Role.ASSISTANT, "tool": Role.TOOL}


def told(info: Mapping[str, Any], turns: Sequence[Turn], source: Source, skipped: Counter[str]) -> Transcript | None:
    agent, session_id = source.agent, string(info, "id") or readable(source.path.stem)
    key_of = partial(session_key, agent, parent=session_id)
    messages = tuple(m for turn in turns if (m := _message(turn, key_of, skipped)))
    if not any(m.role is Role.USER or m.role is Role.ASSISTANT for m in messages):
        skipped["blank session"] += 1
        return None
    parent, above = string(info, "parentID"), string(info, "grandparentID")
    title = string(info, "title")
    session = Session(
        key=session_key(agent, session_id, parent),
        id=session_id,
        agent=agent,
        origin=Origin(path=readable(str(source.path)), home=source.home),
        title=title if title and not _NO_TITLE.match(title) else None,
        slug=string(info, "slug"),
        workspace=_workspace(info, messages),
        agent_version=string(info, "version"),
        is_agent_session=parent is not None,
        parent_session_id=parent,
        parent_key=session_key(agent, parent, above) if parent else None,
        agent_id=session_id if parent else None,
        extensions=_facts(info) | file_time(messages, source.files[0]),
    )
    # On upgrade the files were imported into the database and left behind: it has the session, if both do.
    return Transcript(session, messages, second_hand=source.kind != DATABASE)


def _workspace(info: Mapping[str, Any], messages: Sequence[Message]) -> str | None:
    """Sessions outside a repository stand in "/": where the model worked says more."""
    folders = (string(info, "directory"), *(m.cwd for m in messages), string(info, "worktree"))
    return next((folder for folder in folders if folder and folder != "/"), string(info, "directory"))


def _facts(info: Mapping[str, Any]) -> dict[str, Any]:
    undone = string(mapping(info.get("revert")), "messageID")
    archived = timestamp(mapping(info.get("time")).get("archived"))
    return ({"undone_from": undone} if undone else {}) | ({"archived": True} if archived else {})


def _message(turn: Turn, key_of: KeyOf, skipped: Counter[str]) -> Message | None:
    said, parts = turn
    stamp = Stamp(string(said, "id"), string(said, "parentID"), timestamp(mapping(said.get("time")).get("created")))
    blocks = [b for part in parts if (b := _block(part, stamp, key_of, skipped))]
    failure = _failure(said.get("error"))
    if failure:
        blocks.append(Text(failure, *stamp))
    if not blocks:
        skipped["message/empty"] += 1
        return None
    role = _ROLES.get(string(said, "role") or "", Role.SYSTEM)
    return Message(
        role,
        numbered(blocks),
        uuid=stamp.uuid,
        parent_uuid=stamp.parent_uuid,
        at=stamp.at,
        model=string(said, "modelID"),  # a prompt only names the model that is to answer it
        stop_reason=string(said, "finish"),
        usage=_usage(said.get("tokens")),
        cwd=string(mapping(said.get("path")), "cwd"),
        is_meta=role is Role.SYSTEM,
        is_compaction=role is Role.ASSISTANT and said.get("summary") is True,
        is_error=failure is not None,
    )


def _failure(error: Any) -> str | None:
    fields = mapping(error)
    if not fields:
        return None
    why = string(mapping(fields.get("data")), "message") or string(fields, "message")
    return ": ".join(filter(None, (string(fields, "name"), why))) or "error"


def _usage(value: Any) -> Usage | None:
    """Of the whole message; its step-finish parts repeat it by step."""
    tokens, cache = mapping(value), mapping(mapping(value).get("cache"))
    if not tokens:
        return None
    return Usage(
        count(tokens.get("input")), count(tokens.get("output")), count(cache.get("write")), count(cache.get("read"))
    )


# Parts.


def _block(part: dict[str, Any], message: Stamp, key_of: KeyOf, skipped: Counter[str]) -> Block | None:
    kind = kind_name(part.get("type"))
    if kind == "text" and part.get("synthetic") is True:
        kind = "synthetic text"
    if kind == "tool":
        return _call(part, message, key_of, skipped)
    make = _MAKERS.get(kind)
    start = timestamp(mapping(part.get("time")).get("start"))
    made = make(part, Stamp(string(part, "id"), message.uuid, start or message.at)) if make else None
    if made is None:
        skipped[f"part/{kind}" if make is None else f"part/empty {kind}"] += 1
    return made


def _text(part: dict[str, Any], stamp: Stamp) -> Block | None:
    text = string(part, "text", "prompt", "description")
    return Text(text, *stamp) if text and text.strip() else None


def _thought(part: dict[str, Any], stamp: Stamp) -> Block | None:
    text = string(part, "text")
    return Thinking(text, *stamp) if text and text.strip() else None


def _attachment(part: dict[str, Any], stamp: Stamp) -> Block | None:
    name = string(part, "filename", "name") or string(mapping(part.get("source")), "path")
    return attachment(kind_name(part.get("type")), name or string(part, "url", "uri"), string(part, "mime"), stamp)


_MAKERS: Mapping[str, Callable[[dict[str, Any], Stamp], Block | None]] = {
    "text": _text,
    "reasoning": _thought,
    "file": _attachment,
    "agent": _attachment,
    "subtask": _text,  # what the user sent a sub-agent to do
}


def _call(part: dict[str, Any], message: Stamp, key_of: KeyOf, skipped: Counter[str]) -> ToolCall:
    name, state = string(part, "tool") or "unknown", mapping(part.get("state"))
    status, when, beside = state.get("status"), mapping(state.get("time")), mapping(state.get("metadata"))
    exit_code, child = beside.get("exit"), string(beside, "sessionId")
    result: str | None = None
    if status == "completed":
        result = result_text(state.get("output"), skipped)
    elif status == "error":
        result = string(state, "error") or ""
    # A call of a tool that does not exist is stored as a completed one, named invalid.
    failed = status == "error" or name == "invalid" or (name == "bash" and exit_code not in (0, None))
    return tool_call(
        string(part, "callID"),
        name,
        state.get("input"),
        Stamp(string(part, "id"), message.uuid, timestamp(when.get("start")) or message.at),
        result=result,
        success=None if result is None else not failed,
        result_at=timestamp(when.get("end")),
        agent_session=key_of(child) if child and name == "task" else None,
        details={"exit_code": exit_code} if isinstance(exit_code, int) and abs(exit_code) < 2**32 else {},
    )
