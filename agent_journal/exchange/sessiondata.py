"""SessionData, a session in exchanges: a turn of the person and what the agent did about it. Written here; pure.

The format has one tool a message, and no roles but user and agent. A message of ours becomes several of its messages
where it used several tools; what the format has no field for goes into `metadata`, told apart by sessiondata_read.py.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from msgspec import Struct, structs, to_builtins

from agent_journal.exchange.moments import EPOCH, moment
from agent_journal.exchange.ndjson_facts import OURS
from agent_journal.exchange.sessiondata_check import VERSION, problems, validate
from agent_journal.exchange.sessiondata_read import (
    BLOCKS,
    CONTINUES,
    CREATED,
    EMPTY,
    NO_VERSION,
    NO_WORKSPACE,
    PROVIDERS,
    UPDATED,
    plain_blocks,
    plain_message,
    plain_session,
    read,
    stamp,
)
from agent_journal.render.markdown import tool_markdown, tool_summary
from agent_journal.session import (
    TIME_OF_FILE,
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
)

__all__ = ["PROVIDERS", "problems", "read", "validate", "written"]

NAMES = {"claude": "Claude Code", "cursor": "Cursor CLI", "codex": "Codex CLI", "gemini": "Gemini CLI"}
NOTHING_SAID = "(no text)"
SLUG_CHARS = 50
_SAFE = re.compile(r"\w(?:[\w.-]{0,78}\w)?")
_GLOB = re.compile(r"[*?]")
_NOTHING = object()


def written(account: Account, names: Mapping[str, str] | None = None) -> dict[str, Any]:
    """`names`: how the agents that the format does not know are called, by agent."""
    session = account.session
    top: dict[str, Any] = {
        "schemaVersion": VERSION,
        "provider": _provider(session, names or {}),
        "sessionId": session.id or session.key,
        "createdAt": to_builtins(_created(account)),
        "workspaceRoot": session.workspace or NO_WORKSPACE,
        "exchanges": list(_exchanges(account.messages)),
    }
    if updated := moment(session.extensions.get(UPDATED)) or account.derived.ended_at:
        top["updatedAt"] = to_builtins(updated)
    if slug := _slug(account):
        top["slug"] = slug
    if top["exchanges"]:
        facts = _lost(plain_session(top, Origin("")), session)
        top["exchanges"][0]["metadata"] = {OURS: facts}
    return top


def _provider(session: Session, names: Mapping[str, str]) -> dict[str, str]:
    provider = PROVIDERS.get(session.agent, session.agent)
    name = NAMES.get(provider) or names.get(session.agent) or session.agent.replace("-", " ").title()
    return {"id": provider, "name": name, "version": session.agent_version or NO_VERSION}


def _created(account: Account) -> datetime:
    known = account.session.extensions
    found = (moment(known.get(CREATED)), account.derived.started_at, moment(known.get(TIME_OF_FILE)), EPOCH)
    return next(filter(None, found))


def _slug(account: Account) -> str:
    """The agent's own where a file can have that name, else the title's words."""
    given = account.session.slug or ""
    if _SAFE.fullmatch(given):
        return given
    words = unicodedata.normalize("NFKC", account.derived.title).lower()
    return re.sub(r"[\W_]+", "-", words)[: SLUG_CHARS + 1].strip("-")[:SLUG_CHARS].strip("-")


def _exchanges(messages: Sequence[Message]) -> Iterator[dict[str, Any]]:
    """A new one with every turn of the person; told by what came before, so that none changes when a session grows."""
    turns: list[list[dict[str, Any]]] = []
    used: set[str] = set()
    for message in messages:
        if message.is_human or not turns:
            turns.append([])
        turns[-1] += _message(message, used)
    for number, turn in enumerate(turns, start=1):
        times = [at for one in turn if (at := moment(one.get("timestamp")))]
        span = {"startTime": to_builtins(min(times)), "endTime": to_builtins(max(times))} if times else {}
        yield {"exchangeId": f"ex_{number:03}", **span, "messages": turn}


def _message(message: Message, used: set[str]) -> Iterator[dict[str, Any]]:
    head = structs.replace(message, blocks=())
    for number, blocks in enumerate(_parts(message.blocks)):
        if number:
            head = Message(message.role, (), model=message.model, **stamp(blocks[0]))
        value = _part(head, blocks, used)
        if number:
            value["metadata"] = {CONTINUES: True, **value.get("metadata", {})}
        yield value


def _parts(blocks: Sequence[Block]) -> list[Sequence[Block]]:
    """Each ends with a tool, but for the last."""
    ends = [place + 1 for place, block in enumerate(blocks) if isinstance(block, ToolCall)]
    starts = [0, *ends]
    parts = [blocks[start:end] for start, end in zip(starts, [*ends, len(blocks)], strict=True)]
    return [part for part in parts if part] or [()]


def _part(head: Message, blocks: Sequence[Block], used: set[str]) -> dict[str, Any]:
    call = blocks[-1] if blocks and isinstance(blocks[-1], ToolCall) else None
    value: dict[str, Any] = {"role": "user" if head.role is Role.USER and call is None else "agent"}
    if head.uuid:
        value["id"] = _unused(head.uuid, used)
    if head.at:
        value["timestamp"] = to_builtins(head.at)
    if head.model and value["role"] == "agent":
        value["model"] = head.model
    content = [_content(block) for block in blocks if not isinstance(block, ToolCall)]
    if content or call is None:
        value["content"] = content or [{"type": "text", "text": NOTHING_SAID}]
    if call:
        value["tool"] = _tool(call)
    files = call.paths if call else [b.name for b in blocks if isinstance(b, Attachment) and b.kind == "file"]
    if hints := [path for path in dict.fromkeys(files) if path and not _GLOB.search(path)]:
        value["pathHints"] = hints
    metadata = _lost(plain_message(value), head)
    if not blocks:
        metadata[EMPTY] = True
    elif lost := _lost_of_blocks(value, head, blocks):
        metadata[BLOCKS] = lost
    return {**value, "metadata": metadata} if metadata else value


def _unused(uuid: str, used: set[str]) -> str:
    """An id may be met again: of a record that used two tools, or in a fork."""
    name, again = uuid, 1
    while name in used:
        again += 1
        name = f"{uuid}#{again}"
    used.add(name)
    return name


def _content(block: Text | Thinking | Attachment) -> dict[str, str]:
    if isinstance(block, Attachment):
        return {"type": "text", "text": f"[{block.kind}: {block.name}]" if block.name else f"[{block.kind}]"}
    return {"type": "thinking" if isinstance(block, Thinking) else "text", "text": block.text}


def _tool(call: ToolCall) -> dict[str, Any]:
    tool: dict[str, Any] = {"name": call.name or "unknown", "type": str(call.type)}
    if call.id:
        tool["useId"] = call.id
    if call.arguments is not None:
        tool["input"] = call.arguments if isinstance(call.arguments, dict) else {"input": call.arguments}
    if call.result is not None or call.success is not None or call.details:
        result = {} if call.result is None else {"content": call.result}
        failed = {"is_error": True} if call.success is False and "is_error" not in call.details else {}
        tool["output"] = {**result, **failed, **call.details}
    return {**tool, "summary": tool_summary(call), "formattedMarkdown": tool_markdown(call)}


def _lost(plain: Struct, true: Struct) -> dict[str, Any]:
    """The fields that are not as a plain reading has them, as JSON."""
    facts = {name: getattr(true, name) for name in true.__struct_fields__}
    lost = {name: fact for name, fact in facts.items() if getattr(plain, name, _NOTHING) != fact}
    return {name: to_builtins(list(fact) if isinstance(fact, tuple) else fact) for name, fact in lost.items()}


def _lost_of_blocks(value: dict[str, Any], head: Message, blocks: Sequence[Block]) -> dict[str, Any]:
    lost: dict[str, Any] = {}
    for place, (plain, true) in enumerate(zip(plain_blocks(value, head), blocks, strict=True)):
        kind = {"block": "attachment"} if isinstance(true, Attachment) else {}
        if missing := {**kind, **_lost(plain, true)}:
            lost[str(place)] = missing
    return lost
