"""Fields of single Copilot CLI events -> our values: attachments, calls, results. Knows no other event."""

from __future__ import annotations

from collections import Counter
from typing import Any

from agent_journal.connectors.base import items, mapping, string
from agent_journal.connectors.blocks import (
    Stamp,
    attachment,
    kept_json,
    kind_name,
    patched_paths,
    result_text,
    small,
    tool_paths,
)
from agent_journal.session import Attachment, ToolType, tool_type

TRANSFORMED_CHARS = 4000  # a prompt with injected context is kept beside the raw one up to here
SELECTION_CHARS = 2000
DETAIL_CHARS = 200
FACT_CHARS = 2000

# Of some forty telemetry fields, those that say how the call went.
_TELLING = frozenset({
    "exit_code", "exitCode", "is_timeout", "shell_status", "shell_error_category", "linesAdded",
    "linesRemoved", "durationMs", "duration_ms", "largeOutputHandled", "largeOutputOriginalSizeBytes",
    "executionMode", "url", "interrupted",
})  # fmt: skip
_PROMPT_FACTS = (("agentMode", "agent_mode"), ("source", "source"), ("delivery", "delivery"))
_CALL_FACTS = (
    ("intentionSummary", "intention"),
    ("toolTitle", "title"),
    ("mcpServerName", "mcp_server"),
    ("mcpToolName", "mcp_tool"),
)
_SUB_AGENT_FACTS = ("agentName", "agentDisplayName", "agentDescription", "description", "model")


def attached(raw: Any, stamp: Stamp, skipped: Counter[str]) -> Attachment | None:
    fields = mapping(raw)
    selection = fields.get("selection")
    text = string(fields, "text") or (selection if isinstance(selection, str) else string(mapping(selection), "text"))
    name = string(fields, "path", "filePath", "displayName", "title", "url", "name")
    if not (text or name or "type" in fields):
        skipped["attachment/empty"] += 1
        return None
    media = string(fields, "mimeType", "mediaType")
    return attachment(kind_name(fields.get("type")), name, media, stamp, (text or "")[:SELECTION_CHARS])


def is_meta_prompt(data: dict[str, Any], text: str) -> bool:
    source = string(data, "source") or ""
    return (
        source.startswith(("skill-", "agent-"))
        or data.get("isAutopilotContinuation") is True
        or text.startswith("<skill-context")
    )


def prompt_facts(data: dict[str, Any], text: str) -> dict[str, Any]:
    facts: dict[str, Any] = {name: value[:DETAIL_CHARS] for key, name in _PROMPT_FACTS if (value := string(data, key))}
    transformed = string(data, "transformedContent")
    if transformed and transformed != text:
        facts["transformed"] = transformed[:TRANSFORMED_CHARS]
    return facts


def call_facts(record: dict[str, Any], name: str | None) -> dict[str, Any]:
    """Fields of a ToolCall that this record tells; what it is silent about is left out."""
    facts: dict[str, Any] = {}
    details = {ours: value[:DETAIL_CHARS] for key, ours in _CALL_FACTS if (value := string(record, key))}
    if details:
        facts["details"] = details
    if name:
        kind = tool_type(name)
        foreign = kind is ToolType.UNKNOWN and "mcp_server" in details
        facts |= {"name": name, "type": ToolType.GENERIC if foreign else kind}
    arguments = record.get("arguments")
    if arguments is not None:
        kept = kept_json(arguments)
        facts |= {"arguments": kept, "paths": patched_paths(kept) if isinstance(kept, str) else tool_paths(kept)}
    return facts


def result_facts(data: dict[str, Any], stamp: Stamp, skipped: Counter[str]) -> dict[str, Any]:
    error = data.get("error")
    failure = error if isinstance(error, str) else string(mapping(error), "message") or ""
    text = _result(data.get("result"), skipped)
    if failure and failure not in text:
        text = f"{text}\n{failure}" if text else failure
    success = data.get("success")
    if not isinstance(success, bool):
        success = False if error else True if data.get("result") is not None else None
    details = _telemetry(mapping(data.get("toolTelemetry")))
    if code := string(mapping(error), "code"):
        details["error_code"] = code[:DETAIL_CHARS]
    return {"result": text, "success": success, "result_uuid": stamp.uuid, "result_at": stamp.at, "details": details}


def _result(result: Any, skipped: Counter[str]) -> str:
    """`content` is what the model saw; the others serve where it is empty."""
    if not isinstance(result, dict):
        return result_text(result, skipped)
    if binary := items(result.get("binaryResultsForLlm")):
        skipped["block/binary result"] += len(binary)
    for key in ("content", "detailedContent", "contents"):
        if text := result_text(result.get(key), skipped):
            return text
    return ""


def _telemetry(telemetry: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for part in (telemetry, mapping(telemetry.get("properties")), mapping(telemetry.get("metrics"))):
        for key in sorted(_TELLING & part.keys()):
            if isinstance(part[key], (str, bool, int, float)) and small(part[key], DETAIL_CHARS):
                found[key] = part[key]
    return found


def sub_agent_facts(data: dict[str, Any]) -> dict[str, Any]:
    return {key: value[:FACT_CHARS] for key in _SUB_AGENT_FACTS if (value := string(data, key))}
