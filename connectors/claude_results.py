"""What stands beside a tool result: small facts of `toolUseResult`, and output that was spilled to a file.

`toolUseResult` repeats the result's text, often several times over; only what the text does not say is kept.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

from agent_journal.connectors.base import stat_of
from agent_journal.connectors.blocks import contents, kept_json, small
from agent_journal.connectors.jsonl import parsed, storable

FACT_CHARS = 300
STDERR_CHARS = 16_384
STRUCTURED_BYTES = 8192
MAX_SPILLED_BYTES = 32 * 2**20

# Text that the result or the arguments hold already.
_REPEATED = frozenset("stdout stderr content oldString newString originalFile prompt plan result".split())
# Flags worth a place only when they are set.
_QUIET = frozenset(
    "isImage noOutputExpected userModified replaceAll truncated isAsync isAgent verificationNudgeNeeded "
    "canReadOutputFile persistent".split()
)
_STRUCTURED = ("oldTodos", "newTodos", "answers", "statusChange", "gitOperation", "toolStats")
_EXIT_CODE = re.compile(r"(?:Error: )?Exit code (\d{1,9})\b")
_SAVED = re.compile(r"Full output saved to: (.+)")


def outcome_details(outcome: Any, text: str) -> dict[str, Any]:
    """`outcome` may be an object, a list or the text of an error."""
    details: dict[str, Any] = {}
    said = outcome if isinstance(outcome, str) else text
    if exit_code := _EXIT_CODE.match(said[:40]):
        details["exit_code"] = int(exit_code[1])
    if isinstance(outcome, str):
        error = outcome.removeprefix("Error: ").strip()
        if error and len(error) <= FACT_CHARS and error not in text:
            details["error"] = error
    elif isinstance(outcome, dict):
        details.update({k: v for k, v in outcome.items() if _is_fact(k, v)})
        details.update({k: outcome[k] for k in _STRUCTURED if small(outcome.get(k), STRUCTURED_BYTES)})
        stderr = outcome.get("stderr")
        if isinstance(stderr, str) and stderr.strip() and stderr.strip() not in text:
            details["stderr"] = stderr[:STDERR_CHARS]
    return details


def _is_fact(key: str, value: Any) -> bool:
    if key in _REPEATED or value is None or value == "":
        return False
    if isinstance(value, (bool, int, float)):
        return storable(value) and (value is not False or key not in _QUIET)
    return isinstance(value, str) and len(value) <= FACT_CHARS


def spilled_output(session_folder: Path) -> Callable[[str], str]:
    """A reader of results that this session keeps in files of its own."""
    folder = session_folder / "tool-results"

    def full_text(text: str) -> str:
        if not text.startswith("<persisted-output>"):
            return text
        saved = _SAVED.search(text[:4096])
        name = _spilled_name(saved[1].strip()) if saved and not session_folder.is_symlink() else None
        whole = contained_text(folder, name, MAX_SPILLED_BYTES) if name else None
        if whole is None:
            return text
        return _unwrapped(whole) if name and name.endswith(".json") else whole

    return full_text


def _spilled_name(logged: str) -> str | None:
    """The file's own name. Homes are copied and renamed, so only the last folder's name must be right."""
    path = PureWindowsPath(logged) if "\\" in logged else PurePosixPath(logged)
    return path.name if path.parent.name == "tool-results" else None


def _unwrapped(text: str) -> str:
    """Results of MCP tools are spilled as a JSON list of blocks."""
    value = contents(kept_json(parsed(text)))
    parts = [raw["text"] for raw in value if isinstance(raw, dict) and isinstance(raw.get("text"), str)]
    return "\n".join(parts) or text


def contained_text(folder: Path, name: str, limit: int) -> str | None:
    """The text of a file that really lies in this folder: a name from a log or a link may lead out."""
    if name in ("", ".", "..") or "/" in name or "\\" in name or "\0" in name:
        return None
    path = folder / name
    try:
        if folder.is_symlink() or path.resolve(strict=True) != folder.resolve(strict=True) / name:
            return None
        found = stat_of(path)
        if found is None or found.size > limit:
            return None
        with path.open("rb") as file:
            return file.read(limit).decode("utf-8", "replace")
    except (OSError, RuntimeError):  # RuntimeError: a loop of links, before Python 3.13
        return None
