"""What a Claude Code transcript says of its session beside the conversation: titles, folder, branch, links.

Collects; decides nothing about messages.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from agent_journal.connectors.base import mapping, string
from agent_journal.connectors.blocks import small

MAX_TRACKED = 500  # names of edited files kept per session
FACT_BYTES = 4096
LINK_BYTES = 2048  # a longer one is no address


class Facts:
    """Facts of one session, taken record by record in file order."""

    def __init__(self) -> None:
        self.workspace: str | None = None
        self.relocated: str | None = None
        self.any_cwd: str | None = None
        self.git_branch: str | None = None
        self.agent_version: str | None = None
        self.slug: str | None = None
        self.session_ids: dict[str, None] = {}  # in order of appearance
        self.custom_title: str | None = None
        self.ai_title: str | None = None
        self.last_prompt: str | None = None
        self.summaries: list[tuple[str | None, str]] = []  # (leafUuid, summary)
        self.extensions: dict[str, Any] = {}
        self.tracked: dict[str, None] = {}

    def see(self, record: dict[str, Any], is_turn: bool) -> None:
        """The fields every record of the chain repeats."""
        if cwd := string(record, "cwd"):
            self.any_cwd = self.any_cwd or cwd
            if is_turn and self.workspace is None:
                self.workspace = cwd
        self.git_branch = string(record, "gitBranch") or self.git_branch
        self.agent_version = string(record, "version") or self.agent_version
        self.slug = self.slug or string(record, "slug")
        if session_id := string(record, "sessionId"):
            self.session_ids[session_id] = None
        for key, name in _CHAIN_EXTENSIONS:
            if key in record and small(record[key], FACT_BYTES):
                self.extensions.setdefault(name, record[key])

    def take(self, kind: str, record: dict[str, Any]) -> bool:
        """Whether the record was of use as a fact."""
        taker = _TAKERS.get(kind)
        return taker is not None and taker(self, record)

    def title(self) -> str | None:
        return self.custom_title or self.ai_title

    def folder(self) -> str | None:
        return self.relocated or self.workspace or self.any_cwd

    def summary(self, uuids: set[str], skipped: Counter[str]) -> str | None:
        """Old versions wrote summaries of other sessions here: one must name a record of this file."""
        matching = [text for leaf, text in self.summaries if leaf in uuids]
        unnamed = [text for leaf, text in self.summaries if leaf is None]
        foreign = len(self.summaries) - len(matching) - len(unnamed)
        if foreign:
            skipped["summary"] += foreign
        return (matching or unnamed)[-1] if matching or unnamed else None

    def parent(self, own_id: str) -> str | None:
        """The session this one continues: old resumes copied records under their old id, forks say so."""
        foreign = next((s for s in self.session_ids if s != own_id), None)
        forked = string(mapping(self.extensions.get("forked_from")), "sessionId")
        return foreign or (forked if forked != own_id else None)

    def all_extensions(self) -> dict[str, Any]:
        if not self.tracked:
            return dict(self.extensions)
        return {**self.extensions, "tracked_files": list(self.tracked)}


_CHAIN_EXTENSIONS = (
    ("entrypoint", "entrypoint"),
    ("sessionKind", "session_kind"),
    ("forkedFrom", "forked_from"),
    ("teamName", "team_name"),
)


def _custom_title(facts: Facts, record: dict[str, Any]) -> bool:
    title = record.get("customTitle")
    if not isinstance(title, str):
        return False
    facts.custom_title = title.strip() or None  # an empty one takes the user's title away
    return True


def _ai_title(facts: Facts, record: dict[str, Any]) -> bool:
    title = (string(record, "aiTitle") or "").strip()
    facts.ai_title = title or facts.ai_title
    return bool(title)


def _summary(facts: Facts, record: dict[str, Any]) -> bool:
    text = string(record, "summary")
    leaf = record.get("leafUuid")
    if not text or not (leaf is None or isinstance(leaf, str)):
        return False
    facts.summaries.append((leaf, text))
    return True


def _relocated(facts: Facts, record: dict[str, Any]) -> bool:
    cwd = string(record, "relocatedCwd")
    facts.relocated = cwd or facts.relocated
    return cwd is not None


def _pull_request(facts: Facts, record: dict[str, Any]) -> bool:
    keys = (("prNumber", "number"), ("prUrl", "url"), ("prRepository", "repository"))
    link = {
        name: record[key]
        for key, name in keys
        if isinstance(record.get(key), (str, int)) and small(record[key], LINK_BYTES)
    }
    if not link:
        return False
    links = facts.extensions.setdefault("pr_links", [])
    if link not in links:
        links.append(link)
    return True


def _snapshot(facts: Facts, record: dict[str, Any]) -> bool:
    for path in mapping(mapping(record.get("snapshot")).get("trackedFileBackups")):
        if len(facts.tracked) < MAX_TRACKED:
            facts.tracked[path] = None
    return True


def _last_prompt(facts: Facts, record: dict[str, Any]) -> bool:
    facts.last_prompt = string(record, "lastPrompt") or facts.last_prompt
    return True


def _latest(key: str, name: str) -> Callable[[Facts, dict[str, Any]], bool]:
    """The last record of its kind holds; an empty value takes the fact away."""

    def take(facts: Facts, record: dict[str, Any]) -> bool:
        value = record.get(key)
        if value is None or value == "":
            facts.extensions.pop(name, None)
            return key in record
        if not small(value, FACT_BYTES):
            return False
        facts.extensions[name] = value
        return True

    return take


_TAKERS: Mapping[str, Callable[[Facts, dict[str, Any]], bool]] = {
    "custom-title": _custom_title,
    "ai-title": _ai_title,
    "summary": _summary,
    "relocated": _relocated,
    "pr-link": _pull_request,
    "file-history-snapshot": _snapshot,
    "last-prompt": _last_prompt,
    "tag": _latest("tag", "tag"),
    "agent-name": _latest("agentName", "agent_name"),
    "agent-setting": _latest("agentSetting", "agent_setting"),
    "agent-color": _latest("agentColor", "agent_color"),
    "mode": _latest("mode", "mode"),
    "permission-mode": _latest("permissionMode", "permission_mode"),
    "worktree-state": _latest("worktreeSession", "worktree"),
}
