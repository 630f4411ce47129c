"""Claude Code's files -> transcripts: a session, its sub-agents, and files that hold several sessions.

What a record means is in claude_records.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from agent_journal.connectors.base import (
    Reading,
    Source,
    file_time,
    mapping,
    prompted,
    readable,
    session_key,
    stat_of,
    string,
)
from agent_journal.connectors.blocks import small
from agent_journal.connectors.claude_facts import Facts
from agent_journal.connectors.claude_files import AGENT, AGENTS, HISTORY, is_agent_file
from agent_journal.connectors.claude_history import encoded, read_history
from agent_journal.connectors.claude_records import Conversation
from agent_journal.connectors.claude_results import spilled_output
from agent_journal.connectors.jsonl import records, sidecar
from agent_journal.errors import UnreadableSource
from agent_journal.session import Message, Origin, Session, ToolCall, Transcript, prompt_title

DESCRIPTION_BYTES = 2048  # of a sub-agent's task: a longer one is its prompt
# Files that people laid out by hand: by date as session-<id>.jsonl, by project as YYYY-MM-DD-<id>.jsonl.
_HAND_LAID = re.compile(r"session-.+|\d{4}-\d\d-\d\d-.+")


def read(source: Source) -> Reading:
    if source.kind == HISTORY:
        return read_history(source, AGENT)
    reading = Reading()
    files = _agent_files(source)
    calls: dict[str, ToolCall] = {}
    if source.kind != AGENTS and _HAND_LAID.fullmatch(source.path.stem):
        _read_hand_laid(source, reading)
    elif source.kind != AGENTS:
        calls = _read_main(source, reading, frozenset(_agent_id(f) for f in files))
    _read_agents(files, source, reading, calls, required=source.kind == AGENTS and len(files) == 1)
    return reading


def _agent_files(source: Source) -> list[Path]:
    return [f.path for f in source.files if is_agent_file(f.path)]


def _agent_id(path: Path) -> str:
    return readable(path.stem.removeprefix("agent-"))


def _session_folder(path: Path) -> Path | None:
    """<project>/<session id> of a file somewhere below its subagents/."""
    for above in path.parents:
        if above.name == "subagents":
            return above.parent
    return None


def _read_main(source: Source, reading: Reading, own_agents: frozenset[str]) -> dict[str, ToolCall]:
    """Adds the transcript and what it echoes of sub-agents; returns the calls that started them."""
    own_id = readable(source.path.stem)
    conversation = Conversation(
        reading.skipped,
        lambda agent_id: agent_key(own_id, agent_id),
        spilled_output(source.path.with_suffix("")),
        own_agents,
    )
    for _, record in records(source.path, reading):
        conversation.add(record)
    project = readable(source.path.parent.name)
    return _finish_main(conversation, own_id, project, source, reading)


def _finish_main(
    conversation: Conversation, own_id: str, project: str | None, source: Source, reading: Reading
) -> dict[str, ToolCall]:
    messages = conversation.messages()
    calls = {c.agent_session: c for m in messages for c in m.tool_calls if c.agent_session}
    if conversation.turns and messages:
        reading.transcripts.append(_main_transcript(conversation, messages, own_id, project, source))
    else:
        conversation.facts.summary(conversation.uuids, reading.skipped)
    for agent_id, echo in conversation.echoes.items():
        for kind, times in echo.skipped.items():
            if kind.startswith("block/"):  # its records are parts of ours and already counted
                reading.skipped[kind] += times
        described = _described(calls.get(agent_key(own_id, agent_id)))
        one = _agent_transcript(echo, agent_id, own_id, project, source.path, source, described)
        if one:
            reading.transcripts.append(Transcript(one.session, one.messages, second_hand=True))
    return calls


def agent_key(parent_id: str | None, agent_id: str) -> str:
    return session_key(AGENT, agent_id if parent_id else f"agent-{agent_id}", parent_id)


def _main_transcript(
    conversation: Conversation, messages: tuple[Message, ...], own_id: str, project: str | None, source: Source
) -> Transcript:
    facts = conversation.facts
    parent = facts.parent(own_id)
    session = Session(
        key=session_key(AGENT, own_id),
        id=own_id,
        agent=AGENT,
        origin=Origin(path=readable(str(source.path)), home=source.home),
        title=facts.title() or _unspoken_prompt(facts, messages),
        summary=facts.summary(conversation.uuids, conversation.skipped),
        slug=facts.slug,
        workspace=facts.folder(),
        workspace_encoded=project,
        git_branch=facts.git_branch,
        agent_version=facts.agent_version,
        is_agent_session=all(m.is_sidechain for m in messages),
        parent_session_id=parent,
        parent_key=session_key(AGENT, parent) if parent else None,
        extensions=facts.all_extensions() | file_time(messages, source.files[0]),
    )
    return Transcript(session, messages)


def _unspoken_prompt(facts: Facts, messages: Iterable[Message]) -> str | None:
    """The last prompt titles a session that has no summary and no prompt of its own to be named by."""
    if facts.summaries or any(m.is_human for m in messages):
        return None
    return prompt_title(facts.last_prompt or "") or None


def _read_hand_laid(source: Source, reading: Reading) -> None:
    """A file that someone laid out by date or project may hold several sessions, each under its own id."""
    sessions: dict[str, Conversation] = {}
    homeless: list[dict[str, Any]] = []  # records before the first that names a session: they are its own
    current: str | None = None
    for _, record in records(source.path, reading):
        current = string(record, "sessionId") or current
        if current is None:
            homeless.append(record)
            continue
        conversation = _conversation_of(current, sessions, reading)
        while homeless:
            conversation.add(homeless.pop(0))
        conversation.add(record)
    for record in homeless:
        _conversation_of(readable(source.path.stem), sessions, reading).add(record)
    for session_id, conversation in sessions.items():
        folder = conversation.facts.folder()
        _finish_main(conversation, session_id, encoded(folder) if folder else None, source, reading)


def _conversation_of(session_id: str, sessions: dict[str, Conversation], reading: Reading) -> Conversation:
    if session_id not in sessions:
        sessions[session_id] = Conversation(reading.skipped, lambda agent_id: agent_key(session_id, agent_id))
    return sessions[session_id]


def _read_agents(
    files: list[Path], source: Source, reading: Reading, calls: Mapping[str, ToolCall], required: bool
) -> None:
    """Adds one transcript per sub-agent file; one that cannot be read does not take the others with it."""
    for path in files:
        try:
            _read_agent(path, source, reading, calls)
        except UnreadableSource as error:
            if required:
                raise
            reading.bad_line(0, error.message)


def _read_agent(path: Path, source: Source, reading: Reading, calls: Mapping[str, ToolCall]) -> None:
    folder = _session_folder(path)
    parent = readable(folder.name) if folder else None
    conversation = Conversation(
        reading.skipped,
        lambda agent_id: agent_key(parent or next(iter(conversation.facts.session_ids), None), agent_id),
        spilled_output(folder or path.with_suffix("")),
    )
    for _, record in records(path, reading):
        conversation.add(record)
    parent = parent or next(iter(conversation.facts.session_ids), None)
    agent_id = _agent_id(path)
    described = _described(calls.get(agent_key(parent, agent_id))) | _meta(path, reading)
    project = readable((folder or path).parent.name)
    transcript = _agent_transcript(conversation, agent_id, parent, project, path, source, described)
    if transcript:
        reading.transcripts.append(transcript)


def _agent_transcript(
    conversation: Conversation,
    agent_id: str,
    parent: str | None,
    project: str | None,
    path: Path,
    source: Source,
    described: dict[str, Any],
) -> Transcript | None:
    messages = conversation.messages()
    facts = conversation.facts
    summary = facts.summary(conversation.uuids, conversation.skipped)
    if not conversation.turns or not messages:
        return None
    session = Session(
        key=agent_key(parent, agent_id),
        id=f"agent-{agent_id}",
        agent=AGENT,
        origin=Origin(path=readable(str(path)), home=source.home),
        title=facts.title() or described.get("description") or prompted(messages),
        summary=summary,
        slug=facts.slug,
        workspace=facts.folder(),
        workspace_encoded=project,
        git_branch=facts.git_branch,
        agent_version=facts.agent_version,
        is_agent_session=True,
        parent_session_id=parent,
        parent_key=session_key(AGENT, parent) if parent else None,
        agent_id=agent_id,
        extensions=facts.all_extensions() | described | file_time(messages, stat_of(path) or source.files[0]),
    )
    return Transcript(session, messages)


def _described(call: ToolCall | None) -> dict[str, Any]:
    """What the call that started a sub-agent says of it."""
    arguments = mapping(call.arguments) if call else {}
    named = {"agent_type": string(arguments, "subagent_type"), "description": string(arguments, "description")}
    return {key: value for key, value in named.items() if value and small(value, DESCRIPTION_BYTES)}


def _meta(path: Path, reading: Reading) -> dict[str, Any]:
    fields = sidecar(path.with_suffix(".meta.json"), reading)
    names = (("agentType", "agent_type"), ("description", "description"), ("worktreePath", "worktree_path"))
    return {name: text for key, name in names if (text := string(fields, key)) and small(text, DESCRIPTION_BYTES)}
