"""Codex's tools: a call and its output, joined by id however far apart, and how it ended. Opens no file."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from datetime import datetime
from typing import Any

from msgspec import structs

from agent_journal.connectors.base import items, mapping, string
from agent_journal.connectors.blocks import Place, Stamp, kind_name, patched_paths, result_text, tool_call
from agent_journal.connectors.codex_parts import HEADER_CHARS
from agent_journal.connectors.jsonl import parsed
from agent_journal.session import Block, ToolCall

_EXIT = re.compile(r"^(?:Exit code:|Process exited with code) (-?\d{1,10})$", re.M)
_FAILED = re.compile(r"aborted by user|failed|\w+ (?:verification )?failed")
_ENDS = {"completed": True, "failed": False, "declined": False}  # the status of an item; in progress tells nothing
CALL_NAMES = {
    "local_shell_call": "local_shell", "web_search_call": "web_search", "tool_search_call": "tool_search",
    "image_generation_call": "image_generation",
}  # fmt: skip


class Calls:
    """Where each call stands, so that what comes later can be written there."""

    def __init__(self, skipped: Counter[str], key_of: Callable[[str], str]) -> None:
        self.left: set[str] = set()  # calls of a history that is not kept
        self._skipped = skipped
        self._key_of = key_of
        self._places: dict[str, Place] = {}
        self._verdicts: dict[str, tuple[bool, Any]] = {}

    def put(self, call: ToolCall, blocks: list[Block]) -> None:
        blocks.append(call)
        if call.id:
            self._places[call.id] = Place(blocks, len(blocks) - 1)
            self._judge(call.id)

    def is_left(self, call_id: str) -> bool:
        return call_id in self.left and call_id not in self._places

    def answer(self, fields: dict[str, Any], at: datetime | None) -> list[Block]:
        """Join an output to its call; one whose call was never seen is returned, to be a message of its own."""
        call_id, lone = string(fields, "call_id") or "", list[Block]()
        place = self._places.get(call_id) or Place(lone, 0)
        if place.blocks is lone:
            self.put(ToolCall(call_id, "unknown", at=at), lone)
        text, success, details = call_result(fields, self._skipped)
        spawned = string(_json_object(text), "agent_id") if place.call.name.endswith("spawn_agent") else None
        place.fill(
            result=text,
            success=place.call.success if success is None else success,
            result_uuid=string(fields, "id"),
            result_at=at,
            details=details,
            agent_session=self._key_of(spawned) if spawned else None,
        )
        self._judge(call_id)
        return lone

    def hear(self, fields: dict[str, Any]) -> None:
        """How a command ended, from its event: surer than what the output says in words."""
        call_id, code, done = string(fields, "call_id", "id"), fields.get("exit_code"), fields.get("success")
        status = fields.get("status")
        if isinstance(code, int) and not isinstance(code, bool):
            done = code == 0
        elif isinstance(status, str) and status in _ENDS:
            done = _ENDS[status]
        elif isinstance(fields.get("result"), dict):
            done = "Ok" in fields["result"]
        if call_id and isinstance(done, bool):
            self._verdicts[call_id] = done, code
            self._judge(call_id)

    def _judge(self, call_id: str) -> None:
        if call_id not in self._verdicts or call_id not in self._places:
            return
        (done, code), place = self._verdicts[call_id], self._places[call_id]
        details = place.call.details | ({"exit_code": code} if isinstance(code, int) and abs(code) < 2**32 else {})
        place.fill(success=done, details=details)


def call_of(fields: dict[str, Any], at: datetime | None) -> ToolCall:
    name = CALL_NAMES.get(kind_name(fields.get("type"))) or string(fields, "name") or "unknown"
    if space := string(fields, "namespace"):
        name = f"{space}__{name.removeprefix('_')}"
    success = False if fields.get("status") in ("failed", "incomplete") else None
    stamp = Stamp(string(fields, "id"), None, at)
    call = tool_call(string(fields, "call_id", "id"), name, _arguments(fields), stamp, success=success)
    paths = dict.fromkeys((*call.paths, *patched_paths(_script(call.arguments))))
    return structs.replace(call, paths=tuple(paths))


def _arguments(fields: dict[str, Any]) -> Any:
    """JSON in a string, the plain input of a custom tool, or what a built-in tool was asked to do."""
    given = next((fields[k] for k in ("arguments", "input", "action", "revised_prompt") if fields.get(k)), None)
    return parsed(given) if "arguments" in fields else given


def _script(arguments: Any) -> str:
    """Where a patch may stand: the input itself, or a command line."""
    given = next((v for k in ("cmd", "command", "input", "patch") if (v := mapping(arguments).get(k))), arguments)
    return "\n".join(t for t in (given if isinstance(given, list) else [given]) if isinstance(t, str))


def _json_object(text: str) -> dict[str, Any]:
    return mapping(parsed(text)) if text.startswith("{") else {}


def call_result(fields: dict[str, Any], skipped: Counter[str]) -> tuple[str, bool | None, dict[str, Any]]:
    """(text, success, details) of an output: text, parts, an object, or an object written as text."""
    output = fields.get("output")
    if fields.get("type") == "tool_search_output":
        return "\n".join(_tool_names(fields.get("tools"))), None, {}
    told = mapping(output) or (_json_object(output) if isinstance(output, str) else {})
    if isinstance(told.get("output"), str) and isinstance(told.get("metadata"), dict):
        output, code = told["output"], told["metadata"].get("exit_code")
    else:
        output = told.get("content", output) if isinstance(output, dict) else output
        code = None
    text = result_text(output, skipped)
    if code is None and (found := _EXIT.search(text[:HEADER_CHARS].partition("\nOutput:\n")[0])):
        code = int(found[1])
    if isinstance(code, int) and abs(code) < 2**32:
        return text, code == 0, {"exit_code": code}
    if isinstance(told.get("success"), bool):
        return text, told["success"], {}
    return text, False if _FAILED.match(text) else None, {}


def _tool_names(tools: Any, space: str = "") -> list[str]:
    found = []
    for tool in map(mapping, items(tools)):
        name = space + (string(tool, "name") or "unknown")
        inner = items(tool.get("tools"))
        found += _tool_names(inner, f"{name}__") if inner and not space else [name]
    return found
