"""Claude Code's history.jsonl: the prompts of all projects, and all that is left of deleted transcripts.

Opens nothing but the history and the pastes that lie beside it.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from agent_journal.connectors.base import Reading, Source, mapping, readable, session_key, string, timestamp
from agent_journal.connectors.blocks import Stamp, attachment
from agent_journal.connectors.claude_results import contained_text
from agent_journal.connectors.jsonl import records
from agent_journal.session import Block, Message, Origin, Role, Session, Text, Transcript

ENCODED_CHARS = 200
MAX_PASTE_BYTES = 4 * 2**20
_PASTE_HASH = re.compile(r"[0-9a-f]{16}")
_COMMAND = re.compile(r"/[A-Za-z][\w:-]*(?:\s|$)")  # "/clear", not "/home/ana is full"


def encoded(workspace: str) -> str:
    """A folder as Claude Code names it below projects/; lossy. It counts UTF-16 units, and ends a longer name
    than 200 with a hash that differs between its builds, which is left out here."""
    return re.sub(r"[^A-Za-z0-9]", lambda c: "--" if c[0] > "\uffff" else "-", workspace)[:ENCODED_CHARS]


def read_history(source: Source, agent: str) -> Reading:
    """One second-hand transcript per session, and per project for lines older than session ids."""
    reading = Reading()
    pastes = source.path.parent / "paste-cache"
    prompts: dict[str, list[Message]] = {}
    projects: dict[str, str | None] = {}
    for _, record in records(source.path, reading):
        blocks = _prompt(record, pastes)
        if not blocks:
            reading.skipped["history/empty"] += 1
            continue
        project = string(record, "project")
        session_id = string(record, "sessionId") or f"history/{encoded(project or '') or 'unknown'}"
        projects[session_id] = projects.get(session_id) or project
        prompts.setdefault(session_id, []).append(_message(record, blocks, project))
    for session_id, messages in prompts.items():
        workspace = projects[session_id]
        session = Session(
            key=session_key(agent, session_id),
            id=session_id,
            agent=agent,
            origin=Origin(path=readable(str(source.path)), home=source.home),
            workspace=workspace,
            workspace_encoded=encoded(workspace) if workspace else None,
        )
        reading.transcripts.append(Transcript(session, tuple(messages), second_hand=True))
    return reading


def _message(record: dict[str, Any], blocks: tuple[Block, ...], project: str | None) -> Message:
    first = blocks[0]
    return Message(
        role=Role.USER,
        blocks=blocks,
        at=timestamp(record.get("timestamp")),
        cwd=project,
        is_meta=isinstance(first, Text) and _COMMAND.match(first.text) is not None,
    )


def _prompt(record: dict[str, Any], pastes: Path) -> tuple[Block, ...]:
    at = timestamp(record.get("timestamp"))
    texts = [string(record, "display") or ""]
    attached: list[Block] = []
    for paste in mapping(record.get("pastedContents")).values():
        fields = mapping(paste)
        kind = string(fields, "type") or "text"
        if kind == "text":
            texts.append(_pasted(fields, pastes))
        else:
            name = string(fields, "filename", "sourcePath")
            attached.append(attachment(kind, name, string(fields, "mediaType"), Stamp(at=at)))
    text = "\n\n".join(t for t in texts if t.strip())
    return (Text(text, at=at), *attached) if text else tuple(attached)


def _pasted(paste: dict[str, Any], pastes: Path) -> str:
    """Short pastes stand inline, long ones in a file named by their hash."""
    if inline := string(paste, "content"):
        return inline
    digest = string(paste, "contentHash") or ""
    if not _PASTE_HASH.fullmatch(digest):
        return ""
    return contained_text(pastes, f"{digest}.txt", MAX_PASTE_BYTES) or ""
