"""Qwen Code: session logs and sub-agents' logs below ~/.qwen/projects, and the Gemini-style chats of its first
versions below ~/.qwen/tmp.

Never writes to Qwen's folders. How its own logs are read is in qwen_log.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from agent_journal.connectors.base import (
    Discovery,
    FileStat,
    Reading,
    Source,
    entries,
    given_folder,
    is_folder,
    mapping,
    readable,
    resumed,
    stat_of,
    string,
)
from agent_journal.connectors.google_files import CHAT, CHATS, HISTORY, find, folders
from agent_journal.session import Resume, Session

AGENT = "qwen"
SESSION, SUB_AGENT = "session", "subagent"  # kinds of Source beside Gemini's
PROJECTS, ARCHIVE, SUB_AGENTS = "projects", "archive", "subagents"
META = ".meta.json"


class Qwen:
    agent = AGENT
    name = "Qwen Code"
    aliases: tuple[str, ...] = ("qwen-code",)
    config_key = "qwen"
    env = "AJ_QWEN_PATH"
    parser_version = 1
    in_projects: tuple[str, ...] = ()

    def roots(self, environ: Mapping[str, str], home: Path) -> list[Path]:
        """What was written before the runtime folder moved is still in the home."""
        own = given_folder(environ, "QWEN_HOME", home) or home / ".qwen"
        runtime = given_folder(environ, "QWEN_RUNTIME_DIR", home) or _configured(own, home)
        return list(dict.fromkeys((runtime or own, own)))

    def discover(self, root: Path) -> Discovery:
        return _find(root)

    def parse(self, source: Source) -> Reading:
        from agent_journal.connectors.google_chats import read_chat, read_history
        from agent_journal.connectors.qwen_log import read_log

        return {CHAT: read_chat, HISTORY: read_history}.get(source.kind, read_log)(source)

    def resume(self, session: Session) -> Resume | None:
        """What the first versions wrote is not read by later ones."""
        return None if session.origin.path.endswith(".json") else resumed(session, "qwen", "--resume", "{}")


def _configured(own: Path, home: Path) -> Path | None:
    if stat_of(own / "settings.json") is None:
        return None
    from agent_journal.connectors.jsonl import sidecar

    settings = sidecar(own / "settings.json", Reading())  # it may hold comments: no JSON then
    folder = string(mapping(settings.get("advanced")), "runtimeOutputDir") or string(settings, "runtimeOutputDir")
    return given_folder({"folder": folder}, "folder", home) if folder else None


# Where sessions are.


def _find(root: Path) -> Discovery:
    """Sources of a home such as ~/.qwen, its projects, one project's folder, or one file."""
    discovery = Discovery()
    if single := stat_of(root):
        if root.suffix != ".jsonl":
            return find(root, AGENT)
        kind = SUB_AGENT if root.parent.parent.name == SUB_AGENTS else SESSION
        discovery.sources.append(_source(single, kind, discovery))
        return discovery
    is_home = root.name == ".qwen" or is_folder(root / PROJECTS) or is_folder(root / "tmp")
    if root.name == "tmp" or is_folder(root / "tmp"):
        discovery.extend(find(root, AGENT))
    if root.name != "tmp":
        for project in _projects(root / PROJECTS if is_home else root, discovery):
            _project(project, discovery)
    return discovery


def _projects(root: Path, discovery: Discovery) -> list[Path]:
    if root.name == CHATS:
        return [root.parent]
    if is_folder(root / CHATS) or is_folder(root / SUB_AGENTS):
        return [root]
    return folders(root, discovery)


def _project(project: Path, discovery: Discovery) -> None:
    chats = project / CHATS
    logs = {log.path.name: log for log in _logs(chats, discovery)}
    for log in _logs(chats / ARCHIVE, discovery):
        kept = logs.setdefault(log.path.name, log)
        if kept is not log:
            discovery.passed.append((log.path, f"the same session as {readable(str(kept.path))}"))
    discovery.sources += [_source(log, SESSION, discovery) for log in logs.values()]
    for folder in folders(project / SUB_AGENTS, discovery):
        discovery.sources += [_source(log, SUB_AGENT, discovery) for log in _logs(folder, discovery)]


def _logs(folder: Path, discovery: Discovery) -> Iterator[FileStat]:
    for entry in entries(folder, discovery):
        path = Path(entry.path)
        if path.suffix == ".jsonl" and (found := stat_of(path)):
            yield found
        elif not is_folder(path) and not entry.name.endswith(META):
            discovery.passed.append((path, "not a session log"))


def _source(log: FileStat, kind: str, discovery: Discovery) -> Source:
    """A session is read with what its sub-agents' sidecars tell of the calls that started them."""
    if kind == SUB_AGENT:
        sidecars = [log.path.with_name(log.path.stem + META)]
    else:
        project = next((p.parent for p in log.path.parents[:2] if p.name == CHATS), None)
        agents = entries(project / SUB_AGENTS / log.path.stem, discovery) if project else []
        sidecars = [Path(e.path) for e in agents if e.name.endswith(META)]
    return Source(AGENT, log.path, (log, *(s for p in sidecars if (s := stat_of(p)))), kind)
