"""What Copilot CLI's bookkeeping events and workspace.yaml tell of a session as a whole, and which folder,
branch and model are in force while messages are read. Makes no messages.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent_journal.connectors.base import count, mapping, string
from agent_journal.connectors.blocks import kept_json, small
from agent_journal.session import Usage

FACT_BYTES = 8192  # metrics of a dozen models; what is longer is a log of its own
INFO_CHARS = 300
MAX_INFOS = 10
WORKSPACE_BYTES = 65536  # a dozen scalars

_TRUSTED = re.compile(r"Folder (.+?) has been added")
_CONTEXT = (
    ("gitRoot", "git_root"),
    ("repository", "repository"),
    ("hostType", "host_type"),
    ("headCommit", "head_commit"),
)
_START = (
    ("producer", "producer"),
    ("version", "log_version"),
    ("startTime", "start_time"),
    ("vscodeVersion", "vscode_version"),
    ("remoteSteerable", "remote_steerable"),
)
_SHUTDOWN = (
    ("modelMetrics", "model_metrics"),
    ("codeChanges", "code_changes"),
    ("totalPremiumRequests", "premium_requests"),
    ("totalApiDurationMs", "api_duration_ms"),
    ("totalNanoAiu", "total_nano_aiu"),
    ("shutdownType", "shutdown_type"),
)


@dataclass(slots=True)
class Facts:
    session_id: str | None = None
    version: str | None = None
    title: str | None = None
    summary: str | None = None
    parent_session_id: str | None = None
    parent_is_local: bool = False
    usage: Usage | None = None
    extensions: dict[str, Any] = field(default_factory=dict)
    # In force where the reader is:
    cwd: str | None = None
    branch: str | None = None
    model: str | None = None
    # For the session:
    start_cwd: str | None = None
    later_cwd: str | None = None
    last_branch: str | None = None
    trusted_folder: str | None = None

    def take(self, kind: str, data: Mapping[str, Any]) -> bool | None:
        """True: told all it holds; False: noted, and counted as skipped; None: not one of its events."""
        handler = _HANDLERS.get(kind)
        return None if handler is None else handler(self, data)

    @staticmethod
    def knows(kind: str) -> bool:
        return kind in _HANDLERS

    def workspace(self, sidecar: Mapping[str, str]) -> str | None:
        return self.start_cwd or self.later_cwd or sidecar.get("cwd") or self.trusted_folder

    def _start(self, data: Mapping[str, Any]) -> bool:
        self.session_id = self.session_id or string(data, "sessionId")
        self.version = string(data, "copilotVersion") or self.version
        self.model = string(data, "selectedModel") or self.model
        if spawner := string(data, "detachedFromSpawningParentSessionId"):
            self.parent_session_id, self.parent_is_local = spawner, True
        for key, name in _START:
            if small(data.get(key), INFO_CHARS) and isinstance(data[key], (str, bool, int)):
                self.extensions[name] = data[key]
        self._enter(mapping(data.get("context")))
        self.start_cwd = self.start_cwd or self.cwd
        return True

    def _resume(self, data: Mapping[str, Any]) -> bool:
        self.version = string(data, "copilotVersion") or self.version
        self.model = string(data, "selectedModel") or self.model
        self._enter(mapping(data.get("context")))
        self.extensions["resumes"] = self.extensions.get("resumes", 0) + 1
        return True

    def _enter(self, context: Mapping[str, Any]) -> bool:
        cwd = string(context, "cwd")
        if cwd and cwd != self.cwd:
            self.cwd = self.later_cwd = cwd
            self.branch = None  # another folder without a branch is no repository
        if branch := string(context, "branch"):
            self.branch = self.last_branch = branch
        for key, name in _CONTEXT:
            if value := string(context, key):
                self.extensions[name] = value
        return True

    def _model_change(self, data: Mapping[str, Any]) -> bool:
        self.model = string(data, "newModel") or self.model
        return True

    def _title(self, data: Mapping[str, Any]) -> bool:
        self.title = string(data, "title") or self.title
        return True

    def _task_complete(self, data: Mapping[str, Any]) -> bool:
        self.summary = string(data, "summary") or self.summary
        return True

    def _handoff(self, data: Mapping[str, Any]) -> bool:
        self.parent_session_id = self.parent_session_id or string(data, "remoteSessionId")
        self.summary = self.summary or string(data, "summary")
        return False

    def _info(self, data: Mapping[str, Any]) -> bool:
        kind, message = string(data, "infoType") or "info", string(data, "message") or ""
        if kind == "folder_trust":
            self.trusted_folder = self.trusted_folder or trusted_folder(message)
        infos = self.extensions.setdefault("info", {})
        if message and (kind in infos or len(infos) < MAX_INFOS):
            infos[kind[:INFO_CHARS]] = message[:INFO_CHARS]
        return False

    def _truncation(self, data: Mapping[str, Any]) -> bool:
        if small(dict(data), FACT_BYTES):
            self.extensions["truncation"] = kept_json(dict(data))
        return False

    def _system_prompt(self, data: Mapping[str, Any]) -> bool:
        prompt = data.get("content")
        if isinstance(prompt, str):
            self.extensions.setdefault("system_prompt_chars", len(prompt))
        return False

    def _shutdown(self, data: Mapping[str, Any]) -> bool:
        for key, name in _SHUTDOWN:
            if small(data.get(key), FACT_BYTES):
                self.extensions[name] = kept_json(data[key])
        for metrics in mapping(data.get("modelMetrics")).values():
            self._spend(mapping(mapping(metrics).get("usage")))
        return True

    def _spend(self, usage: Mapping[str, Any]) -> None:
        """Each run ends in a shutdown with its own counts. Its input includes cached tokens, ours not."""
        read, written = count(usage.get("cacheReadTokens")), count(usage.get("cacheWriteTokens"))
        run = Usage(
            input_tokens=max(0, count(usage.get("inputTokens")) - read - written),
            output_tokens=count(usage.get("outputTokens")),
            cache_creation_tokens=written,
            cache_read_tokens=read,
        )
        if run != Usage():  # providers that report nothing are written as zeros, which would hide the messages' own
            self.usage = run if self.usage is None else self.usage + run


_HANDLERS: Mapping[str, Callable[[Facts, Mapping[str, Any]], bool]] = {
    "session.start": Facts._start,
    "session.resume": Facts._resume,
    "session.context_changed": Facts._enter,
    "session.model_change": Facts._model_change,
    "session.title_changed": Facts._title,
    "session.task_complete": Facts._task_complete,
    "session.handoff": Facts._handoff,
    "session.info": Facts._info,
    "session.truncation": Facts._truncation,
    "session.shutdown": Facts._shutdown,
    "system.message": Facts._system_prompt,
}


def trusted_folder(message: str) -> str | None:
    found = _TRUSTED.search(message)
    return found[1].strip("\"'` ") or None if found else None


_FIELD = re.compile(r"([A-Za-z_][\w-]*):(?:[ \t]+(.*))?$")
_BLOCK_SCALAR = re.compile(r"[|>][-+0-9]*\s*(#.*)?$")


def workspace_yaml(path: Path) -> dict[str, str]:
    """The scalars of a workspace.yaml, read by line; what is odd is left out. Raises OSError."""
    with path.open("rb") as file:
        lines = file.read(WORKSPACE_BYTES).decode("utf-8", "replace").splitlines()
    found: dict[str, list[str]] = {}
    inside: list[str] | None = None
    for line in lines:
        head = _FIELD.match(line)
        if head:
            inside = found.setdefault(head[1], [(head[2] or "").strip()])
        elif inside is not None and line[:1] in (" ", "\t"):
            inside.append(line.strip())
        elif line.strip():
            inside = None
    scalars = {key: _scalar(parts) for key, parts in found.items()}
    return {key: value for key, value in scalars.items() if value}


def _scalar(parts: list[str]) -> str:
    first, rest = parts[0], [p for p in parts[1:] if p]
    if _BLOCK_SCALAR.match(first):
        return ("\n" if first.startswith("|") else " ").join(rest)
    text = " ".join([first, *rest])
    if text[:1] in ('"', "'"):
        return _quoted(text)
    text = text.split(" #")[0].strip()
    return (
        ""
        if text.startswith("#") or text in ("~", "null", "Null", "NULL") or text[:1] in ("[", "{", "&", "*")
        else text
    )


def _quoted(text: str) -> str:
    mark, end = text[0], text.rfind(text[0])
    inner = text[1:end] if end > 0 else text[1:]
    if mark == "'":
        return inner.replace("''", "'")
    try:
        value = json.loads(f'"{inner}"', strict=False)
    except ValueError:
        return inner
    return str(value).encode("utf-8", "replace").decode("utf-8")
