"""Codex's files -> transcripts: rollouts of every form, the prompt history, and what other files tell of a session.

What a record means is in codex_log.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from functools import lru_cache
from pathlib import Path
from typing import Any

from agent_journal.connectors.base import (
    Discovery,
    FileStat,
    Reading,
    Source,
    count_blank,
    entries,
    file_time,
    items,
    mapping,
    prompted,
    readable,
    session_key,
    stat_of,
    string,
    timestamp,
)
from agent_journal.connectors.codex import AGENT, FOLDERS, NAME
from agent_journal.connectors.codex_lineage import Lineage
from agent_journal.connectors.codex_log import Log
from agent_journal.connectors.codex_parts import uuid7_time
from agent_journal.connectors.jsonl import json_object, no_object, records
from agent_journal.errors import UnreadableSource
from agent_journal.session import Message, Origin, Role, Session, Text, Transcript

INDEX = "session_index.jsonl"


def read(source: Source) -> Reading:
    reading = Reading()
    if source.kind == "history":
        _read_history(source, reading)
        return reading
    name = readable(source.path.name)
    named = NAME.fullmatch(name)
    lineage = Lineage(named[1] if named else name, lambda parent: _turns_of(source.path, parent))
    log = Log(reading.skipped, lineage)
    for record in _records(source.path, reading):
        log.take(record)
    messages = log.messages()
    if _is_session(log, messages, reading):
        title = _index_name(source.path, lineage.id) or log.title
        reading.transcripts.append(Transcript(_session(log, messages, title, source), messages))
    return reading


def _records(path: Path, reading: Reading) -> Iterator[dict[str, Any]]:
    if path.suffix != ".json":
        yield from (record for _, record in records(path, reading))
        return
    whole = json_object(path)  # the TypeScript CLI: one document
    if not isinstance(whole.get("items"), list):
        raise UnreadableSource(f"{readable(str(path))}: not a session of Codex")
    session = mapping(whole.get("session"))
    for record in ({"id": "", "timestamp": None} | session, *items(whole.get("items"))):
        reading.lines += 1
        if isinstance(record, dict):
            yield record
        else:
            reading.bad_line(reading.lines, no_object(record))


def _is_session(log: Log, messages: tuple[Message, ...], reading: Reading) -> bool:
    """Whether anybody said anything: every launch leaves a file, and Codex watches itself in sessions of its own."""
    if log.lineage.is_internal:
        reason = "internal session"
    elif all(m.is_meta or m.role is Role.SYSTEM for m in messages):
        reason = "blank session"
    else:
        return True
    count_blank((m.role for m in messages), reading.skipped, reason)
    return False


def _session(log: Log, messages: tuple[Message, ...], title: str | None, source: Source) -> Session:
    lineage, path = log.lineage, readable(str(source.path))
    named = NAME.fullmatch(readable(source.path.name))
    again = named[1].partition("_")[1:] if named else ()  # a thread taken back goes on in a second file
    parent = lineage.parent
    if lineage.is_sub_agent and title is None:
        title = prompted(m for m in messages if "copied_from" not in m.extensions)
    times = {} if log.timed or lineage.start is None else {"times": "only the session's start is known"}
    told = (string(facts, "agent_nickname", "agent_path") for facts in (lineage.meta, lineage.spawn))
    agent = next(filter(None, told), lineage.id)
    return Session(
        key=lineage.key_of(lineage.id) + "".join(again),
        id=lineage.id,
        agent=AGENT,
        origin=Origin(path=path, home=source.home),
        title=title,
        workspace=log.workspace,
        git_branch=string(mapping(lineage.meta.get("git")), "branch"),
        agent_version=string(lineage.meta, "cli_version"),
        is_agent_session=lineage.is_sub_agent,
        parent_session_id=parent,
        parent_key=(lineage.key_of(parent) if lineage.is_sub_agent else session_key(AGENT, parent)) if parent else None,
        agent_id=agent if lineage.is_sub_agent else None,
        usage=log.usage,
        extensions=times
        | ({"agent_type": lineage.agent_type} if lineage.is_sub_agent and lineage.agent_type else {})
        | file_time(messages, source.files[0]),
    )


def _index_name(path: Path, session_id: str) -> str | None:
    """The name a person gave the session, last entry first. Not part of the fingerprint: the file changes with every
    session that gets a name, and the rollout of a session that is open tells its name itself."""
    home = _home_of(path)
    index = stat_of(home / INDEX) if home else None
    return _names(index).get(session_id) if index else None


@lru_cache(maxsize=4)  # a home has one for all its sessions
def _names(index: FileStat) -> Mapping[str, str]:
    names: dict[str, str] = {}
    with suppress(UnreadableSource):
        for _, record in records(index.path, Reading()):
            session_id, name = string(record, "id"), string(record, "thread_name")
            if session_id and name:
                names[session_id] = name
    return names


def _read_history(source: Source, reading: Reading) -> None:
    """Prompts by session: shown only where the rollout is gone, or was never written."""
    said: dict[str, list[Message]] = {}
    for _, record in records(source.path, reading):
        session_id, text, at = string(record, "session_id"), string(record, "text"), timestamp(record.get("ts"))
        if session_id is None or text is None:
            reading.skipped["history/untyped"] += 1
            continue
        said.setdefault(session_id, []).append(Message(Role.USER, (Text(text, at=at),), at=at))
    origin = Origin(path=readable(str(source.path)), home=source.home)
    for session_id, prompts in said.items():
        facts = file_time(prompts, source.files[0])
        session = Session(session_key(AGENT, session_id), session_id, AGENT, origin, extensions=facts)
        reading.transcripts.append(Transcript(session, tuple(prompts), second_hand=True))


# Other files.


def _home_of(path: Path) -> Path | None:
    """The folder of Codex that a rollout lies in."""
    return next((p.parent for p in path.parents if p.name in FOLDERS), None)


def _turns_of(path: Path, session_id: str) -> frozenset[str] | None:
    """Ids of the turns in another session's file; None if there is no such file that can be read."""
    file = next(_rollouts_of(path, session_id), None)
    found = stat_of(file) if file else None
    return _turns_in(found) if found else None


@lru_cache(maxsize=32)  # a session may have hundreds of sub-agents
def _turns_in(file: FileStat) -> frozenset[str] | None:
    try:
        turns = (string(mapping(r.get("payload")), "turn_id") for _, r in records(file.path, Reading()))
        return frozenset(filter(None, turns))
    except UnreadableSource:
        return None


def _days_around(moment: datetime | None) -> Iterator[datetime]:
    """The day itself first. An id may tell of the last day there is."""
    if moment is None:
        return
    for days in (0, -1, 1):
        with suppress(OverflowError):
            yield moment + timedelta(days=days)


def _rollouts_of(path: Path, session_id: str) -> Iterator[Path]:
    """By name, in the folders of the days around the time that the id tells: the whole tree is too large a walk."""
    folders, home, made = [path.parent], _home_of(path), uuid7_time(session_id)
    if home is not None:
        folders += [home / "sessions" / f"{d:%Y}" / f"{d:%m}" / f"{d:%d}" for d in _days_around(made)]
        folders += [home / name for name in FOLDERS]
    for folder in dict.fromkeys(folders):
        for entry in entries(folder, Discovery()):
            named = NAME.fullmatch(readable(entry.name))
            if named and named[1].partition("_")[0] == session_id and entry.name != path.name:
                yield Path(entry.path)
