"""What unified NDJSON has no place for: `extensions.agent_journal` of a message. Nothing of ours stands elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from msgspec import UNSET, Struct, UnsetType

from agent_journal.session import Attachment, Role, ToolType, Usage

OURS = "agent_journal"  # the key below `extensions`
STATED = "stated_times"  # in Session.extensions: what another program wrote and its messages do not tell
UNKNOWN = "unknown_fields"  # of a later version's file: kept, and written again where they stood
Stamp = tuple[str | None, str | None, datetime | None]  # uuid, parent_uuid, time


class ToolFacts(Struct, frozen=True, omit_defaults=True):
    """Of a tool_use, beside its id, name and input."""

    type: ToolType | None = None  # None: what its name says
    paths: tuple[str, ...] = ()
    agent_session: str | None = None
    details: dict[str, Any] = {}
    arguments: Any = UNSET  # where they are no object, as `input` has to be
    success: bool | UnsetType | None = UNSET  # where the result's is_error does not tell
    answered: Stamp | None = None  # the record of a result of which nothing else is known


class Facts(Struct, frozen=True, omit_defaults=True):
    """`extensions.agent_journal` of a message."""

    part: bool = False  # goes on with the message before it
    role: Role | None = None
    at: Stamp | None = None  # of the whole message, where its first record has another
    stamps: tuple[Stamp, ...] = ()  # of each block, where it is not the record's
    tools: tuple[ToolFacts, ...] = ()
    calls: tuple[int, ...] = ()  # which of the message's tools these results answer, where their ids do not tell
    attachments: tuple[tuple[int, Attachment], ...] = ()  # with their places among the blocks
    model: str | None = None  # of what is no answer of an assistant
    stop_reason: str | None = None
    stop_sequence: str | None = None
    usage: Usage | None = None
    api_id: str | None = None
    is_sidechain: bool = False
    is_compaction: bool = False
    is_error: bool = False


RESERVED = frozenset((OURS, UNKNOWN, STATED))  # names below `extensions` that no file may set


def with_unknown(known: dict[str, Any], extensions: Mapping[str, Any]) -> dict[str, Any]:
    """With the fields of a later version; they never stand for ours."""
    unknown = extensions.get(UNKNOWN)
    return known | {n: v for n, v in unknown.items() if n not in known} if isinstance(unknown, dict) else known
