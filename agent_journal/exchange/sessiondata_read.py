"""SessionData -> a transcript. Takes what any producer writes; what only this program knows stands in `metadata`.

The plain reading of a message uses the public fields alone. The writer compares it with the true message and puts
what it would lose into `metadata`, so that the two cannot drift apart.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from functools import cache
from typing import Any

import msgspec
from msgspec import Struct, structs

from agent_journal.connectors.base import items, mapping, session_key, string
from agent_journal.connectors.jsonl import storable
from agent_journal.errors import BadExchange
from agent_journal.exchange.moments import moment, utc
from agent_journal.exchange.ndjson_facts import OURS
from agent_journal.render.markdown import FORMATTED, SUMMARY
from agent_journal.session import (
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
    Transcript,
    derive,
    tool_type,
)

# Agent -> provider id, for those that the format names; others keep their own. Of two agents the first is meant.
PROVIDERS = {
    "claude-code": "claude",
    "cursor-cli": "cursor",
    "cursor-ide": "cursor",
    "codex": "codex",
    "gemini": "gemini",
}
AGENTS = {provider: agent for agent, provider in reversed(PROVIDERS.items())}
NO_VERSION, NO_WORKSPACE = "unknown", "/"
# Keys of a message's metadata beside the fields of Message.
CONTINUES = "continues"  # a part of the message before it
BLOCKS = "blocks"  # by place: what the parts and the tool do not tell of our blocks
EMPTY = "empty"  # its content only says that there is none
CREATED, UPDATED = "createdAt", "updatedAt"  # in Session.extensions, where they are not the messages' own
MAX_DEPTH = 200  # of foreign JSON; storing it and writing it again must not end in a RecursionError
_MESSAGE_KEYS = frozenset(("id", "timestamp", "role", "model", "content", "tool", "pathHints", "metadata"))
# Where agents' tools leave what they print.
_PRINTED = ("stdout", "stderr", "output", "text", "result", "message", "error")


def read(value: Mapping[str, Any], origin: Origin) -> Transcript:
    """`origin` is where the file lies: it counts where the file does not say where the session came from."""
    exchanges = [mapping(one) for one in items(value.get("exchanges"))]
    ours = mapping(kept(mapping(exchanges[0].get("metadata")).get(OURS))) if exchanges else {}
    messages = tuple(message for one in exchanges for message in _messages(one, foreign=not ours))
    plain = plain_session(value, origin)
    session = structs.replace(plain, **_own_facts(plain, ours))
    if not ours:
        session = structs.replace(session, extensions=_times(value, session, messages))
    return Transcript(session, messages)


def _own_facts(plain: Session, ours: Mapping[str, Any]) -> dict[str, Any]:
    """What the file adds of the session; not that it is another agent's."""
    known = facts(Session, ours)
    agent = known.get("agent", plain.agent)
    if PROVIDERS.get(agent, agent) != PROVIDERS.get(plain.agent, plain.agent):
        agent = known["agent"] = plain.agent
    if not known.get("key", "").startswith(f"{agent}:"):
        known.pop("key", None)
    return known


def plain_session(value: Mapping[str, Any], origin: Origin) -> Session:
    own, provider = string(value, "sessionId"), mapping(value.get("provider"))
    name = string(provider, "id")
    if not own or not name:
        raise BadExchange("a SessionData value without a sessionId or a provider.id", "run `aj validate` on the file")
    agent, version, root = AGENTS.get(name, name), string(provider, "version"), string(value, "workspaceRoot")
    return Session(
        key=session_key(agent, own),
        id=own,
        agent=agent,
        origin=origin,
        slug=string(value, "slug"),
        workspace=None if root == NO_WORKSPACE else root,
        agent_version=None if version == NO_VERSION else version,
    )


def _times(value: Mapping[str, Any], session: Session, messages: tuple[Message, ...]) -> dict[str, Any]:
    """The times of the session, where its messages do not tell them."""
    derived = derive(session, messages)
    told = {CREATED: derived.started_at, UPDATED: derived.ended_at}
    given = {name: moment(value.get(name)) for name in told}
    return {name: msgspec.to_builtins(at) for name, at in given.items() if at and at != told[name]}


def _messages(exchange: Mapping[str, Any], *, foreign: bool) -> Iterator[Message]:
    """The exchange's messages, those joined that were one before they were written."""
    last: Message | None = None
    for value in map(mapping, items(exchange.get("messages"))):
        head, parts = _message(value, foreign=foreign)
        if last and mapping(value.get("metadata")).get(CONTINUES) is True:
            last = structs.replace(last, blocks=last.blocks + parts)
            continue
        if last:
            yield last
        elif foreign and (more := mapping(exchange.get("metadata"))):
            head = structs.replace(head, extensions={**head.extensions, "exchange": kept(more)})
        last = structs.replace(head, blocks=parts)
    if last:
        yield last


def _message(value: Mapping[str, Any], *, foreign: bool) -> tuple[Message, tuple[Block, ...]]:
    metadata = mapping(kept(value.get("metadata")))
    ours = {CONTINUES, BLOCKS, EMPTY}
    known = facts(Message, {name: fact for name, fact in metadata.items() if name not in ours})
    rest = {name: kept(fact) for name, fact in value.items() if name not in _MESSAGE_KEYS}
    rest |= {name: fact for name, fact in metadata.items() if name not in ours | known.keys()}
    if rest:
        known["extensions"] = {**known.get("extensions", {}), **rest}
    head = structs.replace(plain_message(value), **known)
    lost = mapping(metadata.get(BLOCKS))
    empty = metadata.get(EMPTY) is True
    made = [] if empty else [_restored(b, mapping(lost.get(str(n)))) for n, b in enumerate(plain_blocks(value, head))]
    if foreign:
        made = [_formatted(b, mapping(value.get("tool"))) if isinstance(b, ToolCall) else b for b in made]
    if not isinstance(value.get("tool"), dict):
        named = {b.name for b in made if isinstance(b, Attachment)}
        made += [
            Attachment("file", hint, **stamp(head)) for hint in _strings(value.get("pathHints")) if hint not in named
        ]
    return head, tuple(made)


def _restored(plain: Block, lost: Mapping[str, Any]) -> Block:
    if lost.get("block") != "attachment":
        return structs.replace(plain, **facts(type(plain), lost)) if lost else plain
    known = facts(Attachment, lost)
    return Attachment(**{"kind": "file", **stamp(plain), **known})


def _formatted(call: ToolCall, tool: Mapping[str, Any]) -> ToolCall:
    """With the way its producer shows it: ours is made anew whenever it is asked for."""
    given = {FORMATTED: string(tool, "formattedMarkdown"), SUMMARY: string(tool, "summary")}
    return structs.replace(call, details={**call.details, **{name: text for name, text in given.items() if text}})


# --- the plain reading ------------------------------------------------------------------------------------


def plain_message(value: Mapping[str, Any]) -> Message:
    """Without its blocks."""
    role = Role.USER if value.get("role") == "user" else Role.ASSISTANT
    at = moment(value.get("timestamp"))
    return Message(role, (), uuid=string(value, "id"), at=at, model=string(value, "model"))


def plain_blocks(value: Mapping[str, Any], head: Message) -> Iterator[Block]:
    """One for each part of the content, then the tool. Their stamps are the message's."""
    of_message = stamp(head)
    for part in map(mapping, items(value.get("content"))):
        text = part.get("text")
        if isinstance(text, str):
            yield (Thinking if part.get("type") == "thinking" else Text)(text, **of_message)
    tool = value.get("tool")
    if isinstance(tool, dict):
        call = plain_call(tool)
        yield structs.replace(call, paths=tuple(_strings(value.get("pathHints"))), **of_message)


def plain_call(tool: Mapping[str, Any]) -> ToolCall:
    name, arguments = string(tool, "name") or "unknown", kept(tool.get("input"))
    if isinstance(arguments, dict) and arguments.keys() == {"input"} and not isinstance(arguments["input"], dict):
        arguments = arguments["input"]  # what was no object had to become one
    known = [kind for kind in ToolType if kind == tool.get("type")]
    call = ToolCall(string(tool, "useId") or "", name, known[0] if known else tool_type(name), arguments)
    output = kept(tool.get("output"))
    return structs.replace(call, **_answer(output)) if isinstance(output, dict) else call


def _answer(output: dict[str, Any]) -> dict[str, Any]:
    rest = dict(output)
    if isinstance(rest.get("content"), str):
        result = rest.pop("content")
    else:
        printed = [rest.pop(name) for name in _PRINTED if isinstance(rest.get(name), str)]
        result = "\n".join(filter(None, printed)) if printed else None
    code = rest.get("exit_code")
    failed = rest.get("is_error") is True or (isinstance(code, int) and not isinstance(code, bool) and code != 0)
    if isinstance(rest.get("is_error"), bool):
        del rest["is_error"]
    return {"result": result, "success": not failed, "details": rest}


# --- values -----------------------------------------------------------------------------------------------


def stamp(of: Message | Block) -> dict[str, Any]:
    return {"uuid": of.uuid, "parent_uuid": of.parent_uuid, "at": of.at}


def facts(kind: type[Struct], given: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of `kind` that have a value fit for them."""
    found: dict[str, Any] = {}
    for name, value in given.items():
        if name in _types(kind):
            with suppress(msgspec.ValidationError):
                fact = msgspec.convert(value, _types(kind)[name])
                found[name] = utc(fact) if isinstance(fact, datetime) else fact
    return found


@cache
def _types(kind: type[Struct]) -> dict[str, Any]:
    return {field.name: field.type for field in structs.fields(kind)}


def kept(value: Any, depth: int = MAX_DEPTH) -> Any:
    """Foreign JSON fit to be stored: neither nested without end nor with integers of more than 64 bits."""
    if isinstance(value, (dict, list)):
        if depth == 0:
            return "[nested too deeply]"
        if isinstance(value, list):
            return [kept(inner, depth - 1) for inner in value]
        return {name: kept(inner, depth - 1) for name, inner in value.items()}
    return value if storable(value) else str(value)


def _strings(value: Any) -> list[str]:
    return [one for one in items(value) if isinstance(one, str) and one]
