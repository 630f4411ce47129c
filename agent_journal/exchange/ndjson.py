"""Unified NDJSON: a header line, then a line for each session. Written and read one session at a time. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct, structs, to_builtins

from agent_journal.connectors.base import session_key
from agent_journal.exchange.moments import EPOCH, moment, utc
from agent_journal.exchange.ndjson_facts import OURS, RESERVED, STATED, UNKNOWN, with_unknown
from agent_journal.exchange.ndjson_graph import graph_of
from agent_journal.exchange.ndjson_join import joined
from agent_journal.exchange.ndjson_split import split
from agent_journal.session import TIME_OF_FILE, Account, Message, Origin, Session, Transcript, Usage, project_name

VERSION = "1.1"  # 1.0 with thinking blocks and `extensions`
STRICT = "1.0"
AGENTS = frozenset({"claude-code", "codex", "gemini"})  # those the format names; others keep their own ids


class Facts(Struct, frozen=True, omit_defaults=True):
    """`extensions.agent_journal` of a session."""

    key: str = ""  # "" where its ids tell it
    title: str | None = None
    summary: str | None = None
    slug: str | None = None
    git_branch: str | None = None
    agent_version: str | None = None
    parent_key: str | None = None
    usage: Usage | None = None
    home: str = ""  # "" where the source's type and host tell it
    implied: tuple[str, ...] = ()  # fields that the format requires and the session does not have


# --- out ------------------------------------------------------------------------------------------------


def header(sessions: Iterable[Session], at: datetime, version: str = VERSION) -> dict[str, Any]:
    agents, homes, workspaces, count = set(), set(), set(), 0
    for session in sessions:
        count += 1
        agents.add(session.agent)
        homes.add(session.origin.home)
        workspaces.add(project_name(session.workspace))
    return {
        "type": "header",
        "schema_version": version,
        "export_timestamp": at.astimezone(UTC).replace(microsecond=0),
        "agent_types": sorted(agents),
        "homes": sorted(homes),
        "workspaces": sorted(workspaces - {""}),
        "session_count": count,
    }


def session_line(account: Account, version: str = VERSION, left_out: Counter[str] | None = None) -> dict[str, Any]:
    """`left_out` counts what 1.0 has no place for."""
    records = [record for message in account.messages for record in split(message)]
    if version == STRICT:
        records = [_strict(record, Counter() if left_out is None else left_out) for record in records]
    messages = [{"index": index, **record} for index, record in enumerate(records, start=1)]
    session = _session(account, _times(records, account.messages))
    if version == STRICT and session.pop("extensions", None) and left_out is not None:
        left_out["extensions"] += 1
    line = {"type": "session", "session": session, "messages": messages}
    graph = graph_of(messages, {m.uuid for m in account.messages if m.is_sidechain})
    return line if graph is None else {**line, "graph": graph}


def _session(account: Account, times: Sequence[datetime]) -> dict[str, Any]:
    session, derived = account.session, account.derived
    stated = given if isinstance(given := session.extensions.get(STATED), dict) else {}
    fallback = moment(session.extensions.get(TIME_OF_FILE)) or EPOCH
    facts = Facts(
        key="" if session.key == _key(session) else session.key,
        title=session.title,
        summary=session.summary,
        slug=session.slug,
        git_branch=session.git_branch,
        agent_version=session.agent_version,
        parent_key=session.parent_key,
        usage=session.usage,
        home="" if session.origin.home == _home(session.origin) else session.origin.home,
        implied=_implied(account, times),
    )
    own = {name: value for name, value in session.extensions.items() if name not in (UNKNOWN, STATED)}
    ours = to_builtins(facts, builtin_types=(datetime,))
    extensions = {**own, **({OURS: ours} if ours else {})}
    known = {
        "id": session.id,
        "agent": session.agent,
        "workspace": session.workspace or "",
        "workspace_encoded": encoded(session.workspace or "")
        if session.workspace_encoded is None
        else session.workspace_encoded,
        "started_at": stated.get("started_at") or min(times, default=derived.started_at or fallback),
        "ended_at": stated.get("ended_at") or max(times, default=derived.ended_at or fallback),
        "source": {"type": session.origin.type, "host": session.origin.host, "path": session.origin.path},
        "is_agent_session": session.is_agent_session,
        "parent_session_id": session.parent_session_id,
        "agent_id": session.agent_id,
        **({"extensions": extensions} if extensions else {}),
    }
    return with_unknown(known, session.extensions)


def _times(records: Iterable[Mapping[str, Any]], messages: Iterable[Message]) -> list[datetime]:
    """Of a line's own messages, among them the results of tools; else of ours, where only the whole has a time."""
    found = [moment(at) if isinstance(at, str) else utc(at) for r in records if (at := r.get("timestamp"))]
    return [at for at in found if at] or [m.at for m in messages if m.at]


def _implied(account: Account, times: Sequence[datetime]) -> tuple[str, ...]:
    session = account.session
    given = {
        "workspace": session.workspace,
        "workspace_encoded": session.workspace_encoded,
        "started_at": account.derived.started_at or min(times, default=None),
        "ended_at": account.derived.ended_at or max(times, default=None),
    }
    return tuple(name for name, value in given.items() if value is None)


def encoded(workspace: str) -> str:
    """A path as the name of a folder, the way Claude Code does it."""
    return re.sub(r"[^A-Za-z0-9]", "-", workspace)


def _home(origin: Origin) -> str:
    """The usual label: local, wsl_ubuntu, remote_vm01."""
    return f"{origin.type}_{origin.host}" if origin.host else origin.type


def _strict(record: dict[str, Any], left_out: Counter[str]) -> dict[str, Any]:
    content = [block for block in record["content"] if block["type"] != "thinking"]
    left_out["thinking blocks"] += len(record["content"]) - len(content)
    left_out["extensions"] += "extensions" in record
    return {name: value for name, value in {**record, "content": content}.items() if name != "extensions"}


# --- in -------------------------------------------------------------------------------------------------


class Header(Struct, frozen=True):
    type: str
    schema_version: str
    export_timestamp: datetime
    agent_types: tuple[str, ...]
    homes: tuple[str, ...]
    workspaces: tuple[str, ...]
    session_count: int


class _Source(Struct, frozen=True):
    type: Literal["local", "wsl", "windows", "remote"]
    path: str
    host: str | None = None


class _Session(Struct, frozen=True):
    id: Annotated[str, Meta(min_length=1)]
    agent: Annotated[str, Meta(min_length=1)]
    source: _Source
    workspace: str
    workspace_encoded: str
    started_at: datetime
    ended_at: datetime
    is_agent_session: bool
    parent_session_id: str | None = None
    agent_id: str | None = None
    extensions: dict[str, Any] = {}


class _Line(Struct, frozen=True):
    session: dict[str, Any]
    messages: list[dict[str, Any]]


_FIELDS = frozenset(_Session.__struct_fields__)


def read_header(value: Any) -> Header:
    """Raises msgspec.ValidationError, which names the place."""
    return msgspec.convert(value, Header)


def key_of_line(value: Any) -> str:
    """Of a line that the schema has nothing against."""
    found = msgspec.convert(value["session"], _Session)
    ours = found.extensions.get(OURS)
    key = str(ours.get("key", "")) if isinstance(ours, dict) else ""
    return key if _is_own(key, found) else _key(found)


def read_session(value: Any) -> Transcript:
    """Raises msgspec.ValidationError, which names the place."""
    line = msgspec.convert(value, _Line)
    found = msgspec.convert(line.session, _Session)
    facts = msgspec.convert(found.extensions.get(OURS, {}), Facts)
    extensions = {name: kept for name, kept in found.extensions.items() if name not in RESERVED}
    if unknown := {name: kept for name, kept in line.session.items() if name not in _FIELDS}:
        extensions[UNKNOWN] = unknown
    messages = tuple(joined(line.messages))
    if stated := _stated(found, _times(line.messages, messages), facts):
        extensions[STATED] = stated
    origin = Origin(found.source.path, found.source.type, found.source.host)
    session = Session(
        key=facts.key if _is_own(facts.key, found) else _key(found),
        id=found.id,
        agent=found.agent,
        origin=structs.replace(origin, home=facts.home or _home(origin)),
        title=facts.title,
        summary=facts.summary,
        slug=facts.slug,
        workspace=None if "workspace" in facts.implied else found.workspace,
        workspace_encoded=None if "workspace_encoded" in facts.implied else found.workspace_encoded,
        git_branch=facts.git_branch,
        agent_version=facts.agent_version,
        is_agent_session=found.is_agent_session,
        parent_session_id=found.parent_session_id,
        parent_key=facts.parent_key,
        agent_id=found.agent_id,
        usage=facts.usage,
        extensions=extensions,
    )
    return Transcript(session, messages)


def _is_own(key: str, found: _Session) -> bool:
    """A file may qualify its session's key, but not name another session."""
    return key.startswith(f"{found.agent}:") and key.partition("~")[0].endswith(found.id)


def _stated(found: _Session, times: Sequence[datetime], facts: Facts) -> dict[str, str]:
    """Those of the first and last message, says the format; another program may mean something else."""
    told = {"started_at": min(times, default=None), "ended_at": max(times, default=None)}
    given = {"started_at": utc(found.started_at), "ended_at": utc(found.ended_at)}
    return {
        name: at.isoformat().replace("+00:00", "Z")
        for name, at in given.items()
        if at is not None and at != told[name] and name not in facts.implied
    }


def _key(session: Session | _Session) -> str:
    """The usual key."""
    parent = session.parent_session_id if session.is_agent_session else None
    own = session.id.removeprefix("agent-") if parent else session.id
    return session_key(session.agent, own, parent or None)
