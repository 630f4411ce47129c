"""Where a conversation forked: `graph` of a session line. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import Any

from agent_journal.exchange.ndjson_facts import OURS


def graph_of(messages: Sequence[Mapping[str, Any]], sidechain: Set[str | None]) -> dict[str, Any] | None:
    """None for a session without forks. Messages as written, with their index."""
    first: dict[str, Mapping[str, Any]] = {}
    for message in messages:
        if uuid := message.get("uuid"):
            first.setdefault(uuid, message)
    children: dict[str, list[Mapping[str, Any]]] = {}
    for message in first.values():
        parent = message.get("parent_uuid")
        if parent in first and parent != message["uuid"] and _is_turn(message):
            children.setdefault(parent, []).append(message)
    forks = [(first[uuid], branches) for uuid, branches in children.items() if len(branches) > 1]
    if not forks:
        return None
    return {
        "is_linear": False,
        "fork_points": [
            {**_point(parent), "branches": [_point(branch) for branch in branches]}
            for parent, branches in sorted(forks, key=lambda fork: fork[0]["index"])
        ],
        "active_path": _path(first, sidechain),
    }


def _point(message: Mapping[str, Any]) -> dict[str, Any]:
    return {"uuid": message["uuid"], "index": message["index"]}


def _is_turn(message: Mapping[str, Any]) -> bool:
    """Parts of one answer and the results of its tools hang from it in several strands: nobody went back there."""
    ours = message.get("extensions", {}).get(OURS, {})
    results = [block for block in message["content"] if block["type"] == "tool_result"]
    return not ours.get("part") and not (results and len(results) == len(message["content"]))


def _path(first: Mapping[str, Mapping[str, Any]], sidechain: Set[str | None]) -> list[str]:
    """From the last message back to the first. Agents link through records that are no messages: there the nearest
    earlier message of the conversation goes on."""
    main = [m for m in first.values() if m["uuid"] not in sidechain]
    current = (main or list(first.values()))[-1]
    path = [current["uuid"]]
    seen = set(path)
    while True:
        parent = first.get(current.get("parent_uuid") or "")
        if parent is None and current.get("parent_uuid"):
            parent = next((m for m in reversed(main) if m["index"] < current["index"]), None)
        if parent is None or parent["uuid"] in seen:
            return path[::-1]
        current = parent
        seen.add(current["uuid"])
        path.append(current["uuid"])
