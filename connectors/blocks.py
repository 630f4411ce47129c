"""Anthropic-style content blocks -> our Block values. Pure: opens no file, knows no agent's record layout.

Bytes of images and documents, signatures and encoded data never pass; an unknown block is counted by type.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from agent_journal.connectors.base import count, items, mapping, string
from agent_journal.connectors.jsonl import storable, without_base64
from agent_journal.session import Attachment, Block, Text, Thinking, ToolCall, Usage, tool_type

MAX_DEPTH = 100  # deeper JSON is no tool's arguments, and writing it again would end in a RecursionError
KIND_CHARS = 60  # a kind comes from a log and is shown to people

# Arguments that name a file or folder, in the spellings of the agents that write these blocks.
_PATH_KEYS = (
    "file_path", "filePath", "notebook_path", "path", "paths", "file", "files", "filename", "target_file",
    "absolute_path", "relative_workspace_path", "edits", "targetFile", "relativeWorkspacePath",
)  # fmt: skip
_PATH_CHARS = 1024
_MEDIA_CHARS = 100
_NOT_A_PATH = frozenset("*?\n\r\t\0<>|")  # a glob is a question, not a file


class Stamp(NamedTuple):
    """The record a block came from."""

    uuid: str | None = None
    parent_uuid: str | None = None
    at: datetime | None = None


class Place(NamedTuple):
    """Where a call stands among its message's blocks: its result may come much later."""

    blocks: list[Block]
    at: int

    @property
    def call(self) -> ToolCall:
        found = self.blocks[self.at]
        assert isinstance(found, ToolCall)
        return found

    def fill(self, **facts: Any) -> None:
        self.blocks[self.at] = replace(self.call, **facts)


def contents(value: Any) -> Sequence[Any]:
    """`content` as blocks: it may be a string, one block, or a list whose strings are texts."""
    if isinstance(value, str):
        return ({"type": "text", "text": value},)
    if isinstance(value, dict):
        return (value,)
    return [{"type": "text", "text": v} if isinstance(v, str) else v for v in items(value)]


def is_result(raw: Any) -> bool:
    """tool_result, and what the provider's own tools answer: web_search_tool_result, mcp_tool_result, …"""
    if not isinstance(raw, dict):
        return False
    kind = raw.get("type")
    return isinstance(kind, str) and kind.endswith("tool_result")


def is_failure(raw: dict[str, Any]) -> bool:
    """The provider's own tools have no is_error: their content is then an error block."""
    kind = mapping(raw.get("content")).get("type")
    return raw.get("is_error") is True or (isinstance(kind, str) and kind.endswith("_error"))


def is_call(raw: Any) -> bool:
    return isinstance(raw, dict) and raw.get("type") in ("tool_use", "server_tool_use", "mcp_tool_use")


def block(raw: Any, stamp: Stamp, skipped: Counter[str]) -> Block | None:
    """One block that is not a result; None when it holds nothing to keep, which is counted."""
    kind = raw.get("type") if isinstance(raw, dict) else None
    make = _MAKERS.get(kind) if isinstance(kind, str) else None
    if make is None:
        skipped[f"block/{kind_name(kind)}"] += 1
        return None
    made = make(raw, stamp)
    if made is None:
        skipped[f"block/empty {kind}"] += 1
    return made


def kind_name(kind: Any) -> str:
    return kind[:KIND_CHARS] if isinstance(kind, str) and kind else "untyped"


def _text(raw: dict[str, Any], stamp: Stamp) -> Block | None:
    text = string(raw, "text")
    return Text(text, *stamp) if text and text.strip() else None


def _thinking(raw: dict[str, Any], stamp: Stamp) -> Block | None:
    text = string(raw, "thinking", "text")
    return Thinking(text, *stamp) if text and text.strip() else None


def _attachment(raw: dict[str, Any], stamp: Stamp) -> Block | None:
    source = mapping(raw.get("source"))
    name = string(raw, "title", "name", "filename") or string(source, "path", "url", "file_id")
    media = string(source, "media_type", "mediaType") or string(raw, "media_type", "mimeType")
    return attachment(kind_name(raw.get("type")), name, media, stamp)


def attachment(kind: str, name: str | None, media: str | None, stamp: Stamp, text: str = "") -> Attachment:
    """A name may be the file itself, as data: that is never kept."""
    name = "" if name is None or name.startswith("data:") else name[:_PATH_CHARS]
    return Attachment(kind[:KIND_CHARS], name, (media or "")[:_MEDIA_CHARS], text, *stamp)


def _call(raw: dict[str, Any], stamp: Stamp) -> Block | None:
    return tool_call(string(raw, "id"), string(raw, "name"), raw.get("input"), stamp)


def tool_call(call_id: str | None, name: str | None, arguments: Any, stamp: Stamp, **more: Any) -> ToolCall:
    """`more`: fields of a ToolCall, also instead of what follows from the name and the arguments."""
    name, kept = name or "unknown", kept_json(arguments)
    facts = {"type": tool_type(name), "arguments": kept, "paths": tool_paths(kept), **stamp._asdict(), **more}
    return ToolCall(call_id or "", name, **facts)


def numbered(blocks: Sequence[Block]) -> tuple[Block, ...]:
    """Calls without an id get one from their place among the message's calls: none is taken for another then."""
    made: list[Block] = []
    calls = 0
    for one in blocks:
        if isinstance(one, ToolCall):
            calls += 1
            one = one if one.id else replace(one, id=f"#{calls}")
        made.append(one)
    return tuple(made)


_MAKERS: Mapping[str, Callable[[dict[str, Any], Stamp], Block | None]] = {
    "text": _text,
    "thinking": _thinking,
    "image": _attachment,
    "document": _attachment,
    "tool_use": _call,
    "server_tool_use": _call,
    "mcp_tool_use": _call,
}


def result_text(value: Any, skipped: Counter[str]) -> str:
    """A result as text: a string, or its text blocks by line, with a mark where an image stood."""
    if isinstance(value, str):
        return value
    return "\n".join(part for raw in contents(value) if (part := _result_part(raw, skipped)))


def _result_part(raw: Any, skipped: Counter[str]) -> str:
    fields = mapping(raw)
    kind = kind_name(fields.get("type"))
    if text := string(fields, "text"):
        return text
    if kind in ("image", "document"):
        return f"[{kind}]"
    if kind == "tool_reference":
        return string(fields, "tool_name", "name") or ""
    if kind == "web_search_result":
        return " ".join(filter(None, (string(fields, "title"), string(fields, "url"))))
    if kind.endswith("_error"):
        return f"{kind}: {string(fields, 'error_code', 'message') or ''}"
    if kind != "text":
        skipped[f"block/{kind}"] += 1
    return ""


def tool_paths(arguments: Any) -> tuple[str, ...]:
    """The files a call names, in order, once each."""
    return tuple(dict.fromkeys(_named_paths(arguments))) if isinstance(arguments, dict) else ()


def _named_paths(arguments: dict[str, Any]) -> Iterator[str]:
    for key in _PATH_KEYS:
        value = arguments.get(key)
        if value is None:
            continue
        for one in value if isinstance(value, list) else (value,):
            if isinstance(one, dict):
                one = string(one, "file_path", "filePath", "path")
            if isinstance(one, str) and _is_path(one):
                yield one


def _is_path(text: str) -> bool:
    return 0 < len(text) <= _PATH_CHARS and "://" not in text and _NOT_A_PATH.isdisjoint(text)


_PATCHED = re.compile(r"^\*\*\* (?:(?:Add|Update|Delete) File|Move to): (.+?)\s*$", re.MULTILINE)


def patched_paths(patch: str) -> tuple[str, ...]:
    """The files that a patch in OpenAI's notation names, once each."""
    return tuple(dict.fromkeys(_PATCHED.findall(patch)))


def json_text(value: Any) -> str:
    return msgspec.json.encode(kept_json(value)).decode()


def kept_json(value: Any) -> Any:
    """Foreign JSON fit to be stored: no encoded files, no nesting that cannot be written again."""
    return without_base64(value) if _nests_within(value, MAX_DEPTH) else "[nested too deeply]"


def _nests_within(value: Any, depth: int) -> bool:
    level: list[Any] = [value]
    while level:
        if depth < 0:
            return False
        depth -= 1
        inner: list[Any] = []
        for one in level:
            if isinstance(one, dict):
                inner += [v for v in one.values() if isinstance(v, (dict, list))]
            elif isinstance(one, list):
                inner += [v for v in one if isinstance(v, (dict, list))]
        level = inner
    return True


def small(value: Any, limit: int) -> bool:
    """Whether a fact is worth keeping beside a message: not empty, and at most `limit` bytes as stored."""
    if value is None or value in ("", [], {}):
        return False
    if isinstance(value, (bool, int, float)):
        return storable(value)
    if isinstance(value, str):
        return len(value) <= limit
    try:
        return _nests_within(value, MAX_DEPTH) and len(msgspec.msgpack.encode(value)) <= limit
    except OverflowError:  # an integer of more than 64 bits somewhere inside
        return False


def usage_of(value: Any) -> Usage | None:
    if not isinstance(value, dict) or not value:
        return None
    creation = mapping(value.get("cache_creation"))
    return Usage(
        input_tokens=count(value.get("input_tokens")),
        output_tokens=count(value.get("output_tokens")),
        cache_creation_tokens=count(value.get("cache_creation_input_tokens")),
        cache_read_tokens=count(value.get("cache_read_input_tokens")),
        cache_creation_5m_tokens=count(creation.get("ephemeral_5m_input_tokens")),
        cache_creation_1h_tokens=count(creation.get("ephemeral_1h_input_tokens")),
        service_tier=string(value, "service_tier"),
    )
