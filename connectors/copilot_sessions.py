"""Copilot CLI's files -> transcripts: a session and its sub-agents, of either format.

What an event means is in copilot_events.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agent_journal.connectors.base import (
    Reading,
    Source,
    count_blank,
    file_time,
    prompted,
    readable,
    session_key,
    timestamp,
)
from agent_journal.connectors.copilot_draft import CONVERSATION, MAIN, SubAgent
from agent_journal.connectors.copilot_events import Log
from agent_journal.connectors.copilot_facts import workspace_yaml
from agent_journal.connectors.copilot_files import AGENT, LEGACY, WORKSPACE, legacy_name, log_of, session_name
from agent_journal.connectors.copilot_legacy import Legacy, legacy_session
from agent_journal.connectors.jsonl import json_object, records
from agent_journal.errors import UnreadableSource
from agent_journal.session import Origin, Session, Transcript

_SIDECAR_FACTS = ("git_root", "repository", "host_type", "client_name", "user_named")
_SUB_AGENT_FACTS = (
    ("agentName", "agent_type"),
    ("agentDescription", "description"),
    ("outcome", "outcome"),
    ("error", "error"),
)


def read(source: Source) -> Reading:
    reading = Reading()
    if source.kind == LEGACY:
        _read_legacy(source, reading)
    else:
        _read_events(source, reading)
    return reading


# Event logs.


def _read_events(source: Source, reading: Reading) -> None:
    path = log_of(source).path
    log = Log(reading.skipped, session_name(path))
    for _, record in records(path, reading):
        log.take(record)
    if not log.has_import:
        _read_beginning(source, log, reading)
    speakers = [(agent, sub) for agent, sub in log.agents() if _speaks(log, agent, reading)]
    for agent, sub in speakers:
        sub.link(session_key(AGENT, agent, log.session_id))
    sidecar = _sidecar(source, reading)
    for legacy in log.imported:
        _add_legacy(legacy, legacy.id or log.session_id, source, reading)
    if _speaks(log, MAIN, reading):
        reading.transcripts.append(_main_transcript(log, sidecar, source))
    for agent, sub in speakers:
        reading.transcripts.append(_agent_transcript(log, agent, sub, sidecar, source))


def _read_beginning(source: Source, log: Log, reading: Reading) -> None:
    """A session of the old format that goes on under the same id: the log may not repeat its beginning."""
    for file in source.files[1:]:
        if file.path.suffix != ".json":
            continue
        try:
            legacy = legacy_session(_legacy_fields(file.path), reading.skipped)
        except UnreadableSource as error:
            reading.bad_line(0, error.message)
            continue
        log.drafts[:0] = log.adopted(legacy)
        log.facts.trusted_folder = log.facts.trusted_folder or legacy.folder


def _speaks(log: Log, agent: str, reading: Reading) -> bool:
    """Whether anybody said anything. Every launch leaves a log, most often of a start and an end."""
    roles = [d.role for d in log.drafts if d.agent == agent]
    if CONVERSATION.isdisjoint(roles):
        count_blank(roles, reading.skipped)
        return False
    return True


def _sidecar(source: Source, reading: Reading) -> dict[str, str]:
    path = next((f.path for f in source.files if f.path.name == WORKSPACE), None)
    if path is None:
        return {}
    try:
        return workspace_yaml(path)
    except OSError as error:
        reading.bad_line(0, f"{readable(str(path))}: {error.strerror or error}")
        return {}


def _main_transcript(log: Log, sidecar: Mapping[str, str], source: Source) -> Transcript:
    facts, messages = log.facts, log.messages(MAIN)
    parent = facts.parent_session_id if facts.parent_session_id != log.session_id else None
    session = Session(
        key=session_key(AGENT, log.session_id),
        id=log.session_id,
        agent=AGENT,
        origin=_origin(source),
        title=sidecar.get("name") or sidecar.get("summary") or facts.title,
        summary=facts.summary or sidecar.get("summary"),
        workspace=facts.workspace(sidecar),
        git_branch=facts.last_branch or sidecar.get("branch"),
        agent_version=facts.version,
        parent_session_id=parent,
        parent_key=session_key(AGENT, parent) if parent and facts.parent_is_local else None,
        usage=facts.usage,
        extensions={key: sidecar[key] for key in _SIDECAR_FACTS if key in sidecar}
        | facts.extensions
        | file_time(messages, source.files[0]),
    )
    return Transcript(session, messages)


def _agent_transcript(log: Log, agent: str, sub: SubAgent, sidecar: Mapping[str, str], source: Source) -> Transcript:
    facts, messages = log.facts, log.messages(agent)
    described = {ours: sub.facts[key] for key, ours in _SUB_AGENT_FACTS if key in sub.facts}
    session = Session(
        key=session_key(AGENT, agent, log.session_id),
        id=f"agent-{agent}",
        agent=AGENT,
        origin=_origin(source),
        title=sub.title or prompted(messages),
        workspace=facts.workspace(sidecar),
        git_branch=facts.last_branch or sidecar.get("branch"),
        agent_version=facts.version,
        is_agent_session=True,
        parent_session_id=log.session_id,
        parent_key=session_key(AGENT, log.session_id),
        agent_id=agent,
        extensions=described | file_time(messages, source.files[0]),
    )
    return Transcript(session, messages)


def _origin(source: Source) -> Origin:
    path = source.path if source.kind == LEGACY else log_of(source).path
    return Origin(path=readable(str(path)), home=source.home)


# The old format.


def _read_legacy(source: Source, reading: Reading) -> None:
    fields = _legacy_fields(source.path)
    legacy = legacy_session(fields, reading.skipped)
    named = legacy_name(readable(source.path.name))
    name = named[0] if named else readable(source.path.stem)
    _add_legacy(legacy, legacy.id or name, source, reading)


def _legacy_fields(path: Path) -> dict[str, Any]:
    """Adds the start that the file's name tells, where the session itself does not."""
    fields = json_object(path)
    named = legacy_name(path.name)
    if named and timestamp(fields.get("startTime")) is None:
        return fields | {"startTime": named[1]}
    return fields


def _add_legacy(legacy: Legacy, session_id: str, source: Source, reading: Reading) -> None:
    """Second-hand, because the session may go on in an event log of the same id, and that one has it whole."""
    roles = [m.role for m in legacy.messages]
    if CONVERSATION.isdisjoint(roles):
        count_blank(roles, reading.skipped)
        return
    times = {} if legacy.timed else {"times": "only the session's start is known"}
    session = Session(
        key=session_key(AGENT, session_id),
        id=session_id,
        agent=AGENT,
        origin=_origin(source),
        workspace=legacy.folder,
        extensions=times | file_time(legacy.messages, source.files[0]),
    )
    reading.transcripts.append(Transcript(session, legacy.messages, second_hand=True))
