"""Who a Codex session is, and which of its records are its own.

A fork or a sub-agent begins with a copy of its parent's whole history, stamped with the time of the fork. While the
parent's own file is there, the copy is left out; where it is not, the copy is all there is of it, and kept.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any

from agent_journal.connectors.base import mapping, session_key, string, timestamp
from agent_journal.connectors.codex import AGENT
from agent_journal.connectors.codex_parts import uuid7_time

IMPORTED = "external-import-turn-"  # Codex's copy of another agent's session, which has a connector of its own
COPYING = timedelta(seconds=1)  # writing thousands of lines of history takes 40 ms; nobody types as fast

ParentTurns = Callable[[str], frozenset[str] | None]  # ids of the turns in a session's file; None: no such file


class Lineage:
    def __init__(self, name: str, parent_turns: ParentTurns) -> None:
        self.id = name  # until the first session_meta tells it
        self.meta: dict[str, Any] = {}
        self.start: datetime | None = None
        self.copying = False
        self.copied_at: datetime | None = None  # when the turn that is being copied began
        self._named_parent: str | None = None
        self._owned = self._imported = self._met = False
        self._find_turns = parent_turns

    @property
    def is_sub_agent(self) -> bool:
        return "subagent" in mapping(self.meta.get("source")) or self.meta.get("thread_source") == "subagent"

    @property
    def is_internal(self) -> bool:
        return "internal" in mapping(self.meta.get("source"))

    @property
    def spawn(self) -> dict[str, Any]:
        return mapping(mapping(mapping(self.meta.get("source")).get("subagent")).get("thread_spawn"))

    @property
    def parent(self) -> str | None:
        spawner = string(self.meta, "parent_thread_id") or string(self.spawn, "parent_thread_id")
        inherited = string(mapping(self.meta.get("history_base")), "thread_id")  # its lines stand in that file alone
        found = (spawner if self.is_sub_agent else None) or string(self.meta, "forked_from_id") or inherited
        found = found or self._named_parent
        return found if found != self.id else None

    @property
    def root(self) -> str:
        """The session that a tree of sub-agents began with: their keys are qualified by it."""
        if not self.is_sub_agent:
            return self.id
        told = string(self.meta, "session_id")
        return told if told and told != self.id else self.parent or self.id

    def key_of(self, session_id: str) -> str:
        """The key of a session in the same tree."""
        return session_key(AGENT, session_id, None if session_id == self.root else self.root)

    @property
    def agent_type(self) -> str | None:
        """The role that a sub-agent was given, or what it is for: review, compact, …"""
        purpose = mapping(self.meta.get("source")).get("subagent")
        told = string(self.meta, "agent_role", "agent_type") or string(self.spawn, "agent_role", "agent_type")
        return told or (purpose if isinstance(purpose, str) else string(mapping(purpose), "other"))

    @cached_property
    def _parent_turns(self) -> frozenset[str] | None:
        return self._find_turns(self.parent) if self.parent else None

    def take_meta(self, fields: dict[str, Any]) -> bool:
        """False for what is not the first: a copy of the parent's."""
        given = string(fields, "id")
        if not self._met:
            self._met, self.meta = True, fields
            self.id, self.start = given or self.id, timestamp(fields.get("timestamp"))
            return True
        if given and given != self.id and not self._owned:
            self._named_parent, self.copying = self._named_parent or given, True
        return False

    def begin_turn(self, turn: str | None, at: datetime | None) -> None:
        self._imported = turn is not None and turn.startswith(IMPORTED)
        if self._owned or self._imported:
            return
        self.copying = self.parent is not None and self._is_copied(turn, at)
        self.copied_at = uuid7_time(turn) if turn and self.copying else None
        self._owned = not self.copying

    def _is_copied(self, turn: str | None, at: datetime | None) -> bool:
        """Ids of today tell when they were made: a turn older than the session is its parent's."""
        if turn is None:  # no version that has no ids of turns spawns agents: only people fork
            return self.copying and not (at and self.start and at - self.start > COPYING)
        ours, theirs = uuid7_time(self.id), uuid7_time(turn)
        if ours and theirs:
            return theirs < ours
        return turn in (self._parent_turns or ())

    def left_because(self, record: Mapping[str, Any]) -> str:
        if self._imported:
            return "imported from another agent"
        first, ordinal = self.meta.get("subagent_history_start_ordinal"), record.get("ordinal")
        before = isinstance(first, int) and isinstance(ordinal, int) and ordinal < first
        return "copied from the parent" if before or (self.copying and self._parent_turns is not None) else ""
