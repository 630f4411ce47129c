"""Where Claude Code keeps its sessions: which files make one source. Looks at names and stats only."""

from __future__ import annotations

from pathlib import Path

from agent_journal.connectors.base import Discovery, FileStat, Source, entries, is_folder, stat_of, walk

AGENT = "claude-code"
SESSION, AGENTS, HISTORY = "session", "agents", "history"  # kinds of Source
PROMPTS = "history.jsonl"
FOLDER_DEPTH = 3  # projects / project / session, or sessions / date
SIDECAR_DEPTH = 8  # workflow runs nest their sub-agents
JOURNAL_REASON = "a workflow's journal, not a conversation"
_SESSION_PARTS = ("subagents", "tool-results", "remote-agents")


def find(root: Path) -> Discovery:
    """Sources of a config folder, its projects/, one project, or one file."""
    discovery = Discovery()
    if stat_of(root):
        _single_file(root, discovery)
        return discovery
    _history(root / PROMPTS, discovery)
    _folder(root / "projects" if _is_config(root) else root, discovery, FOLDER_DEPTH)
    return discovery


def _is_config(root: Path) -> bool:
    return root.name == ".claude" or is_folder(root / "projects") or stat_of(root / PROMPTS) is not None


def _history(path: Path, discovery: Discovery) -> None:
    found = stat_of(path)
    if found:
        discovery.sources.append(Source(AGENT, path, (found,), HISTORY, read_last=True))


def _single_file(path: Path, discovery: Discovery) -> None:
    found = stat_of(path)
    if found is None or path.suffix != ".jsonl":
        discovery.passed.append((path, "not a .jsonl file"))
    elif path.name == PROMPTS:
        _history(path, discovery)
    elif path.name == "journal.jsonl":
        discovery.passed.append((path, JOURNAL_REASON))
    else:
        _transcript(found, is_folder(path.with_suffix("")), discovery)


def _folder(folder: Path, discovery: Discovery, depth: int) -> None:
    """Transcripts here and in the folders below; a session's own folder goes with the session."""
    listed = [(Path(e.path), e.is_dir(follow_symlinks=False)) for e in entries(folder, discovery)]
    folders = {path.name: path for path, is_dir in listed if is_dir}
    transcripts: set[str] = set()
    for path, is_dir in listed:
        if is_dir:
            continue
        if reason := _not_a_transcript(path):
            discovery.passed.append((path, reason))
        elif path.name == PROMPTS:
            continue  # only beside projects/ is it Claude's, and there it was taken
        elif (found := stat_of(path)) is None:
            discovery.passed.append((path, "a broken link, or not a regular file"))
        else:
            _transcript(found, path.stem in folders, discovery)
            transcripts.add(path.stem)
    for path in folders.values():
        if path.suffix == ".jsonl":
            discovery.passed.append((path, "a folder named like a transcript"))
        elif path.name not in transcripts and not _orphans(path, discovery) and depth > 0:
            _folder(path, discovery, depth - 1)


def _not_a_transcript(path: Path) -> str | None:
    if path.suffix != ".jsonl":
        return "a link to a folder, not followed" if is_folder(path) else "not a .jsonl file"
    return JOURNAL_REASON if path.name == "journal.jsonl" else None


def _transcript(found: FileStat, has_folder: bool, discovery: Discovery) -> None:
    if found.path.name.startswith("agent-"):
        sidecar = stat_of(found.path.with_suffix(".meta.json"))
        files = (found, sidecar) if sidecar else (found,)
        discovery.sources.append(Source(AGENT, found.path, files, AGENTS))
        return
    sidecars: list[FileStat] = []
    if has_folder and not (own := found.path.with_suffix("")).is_symlink():
        sidecars = _sidecars(own, discovery)
    discovery.sources.append(Source(AGENT, found.path, (found, *sidecars), SESSION))


def _orphans(folder: Path, discovery: Discovery) -> bool:
    """Whether this is a session's folder; its sub-agents are a source even when the transcript is gone."""
    if not any(is_folder(folder / part) for part in _SESSION_PARTS):
        return False
    files = _sidecars(folder, discovery)
    agents = [f for f in files if is_agent_file(f.path)]
    if agents:
        others = (f for f in files if f is not agents[0])
        discovery.sources.append(Source(AGENT, agents[0].path, (agents[0], *others), AGENTS))
    elif files:
        discovery.passed.append((folder, "only leftovers of a session whose transcript is gone"))
    return True


def _sidecars(folder: Path, discovery: Discovery) -> list[FileStat]:
    """Everything that belongs to a session beside its transcript, by path."""
    found: list[FileStat] = []
    for entry in walk(folder / "subagents", discovery, SIDECAR_DEPTH):
        path = Path(entry.path)
        if not (is_agent_file(path) or entry.name.endswith(".meta.json")):
            journal = entry.name == "journal.jsonl"
            discovery.passed.append((path, JOURNAL_REASON if journal else "not a sub-agent's transcript"))
        elif (seen := stat_of(path)) is None:
            discovery.passed.append((path, "a broken link, or not a regular file"))
        else:
            found.append(seen)
    spilled = (stat_of(Path(e.path)) for e in walk(folder / "tool-results", discovery, 0))
    found += [seen for seen in spilled if seen]
    if is_folder(folder / "remote-agents"):
        discovery.passed.append((folder / "remote-agents", "descriptions of remote agents, no conversation"))
    return found


def is_agent_file(path: Path) -> bool:
    return path.name.startswith("agent-") and path.suffix == ".jsonl"
