"""SpecStory: Markdown transcripts in .specstory/history of a project, written from other agents' sessions.

A second telling of a session. Only reads them; how is in specstory_pages.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

from agent_journal.connectors import projects
from agent_journal.connectors.base import Discovery, Reading, Source, entries, is_plain_id, stat_of
from agent_journal.session import Resume, Session

AGENT = "specstory"
FOLDER = ".specstory"

TIME = r"\d{4}-\d\d-\d\d[ _T]\d\d[:-]\d\d[:-]\d\d(?:Z|[+-]\d\d:?\d\d)?"
NAME = rf"({TIME})(?:-(.+))?"  # of a file: when the session began, and its first words

# What continues the session that SpecStory told, by the name it gives the agent.
_RESUME = {
    "Claude Code": ("claude", "--resume"),
    "Codex CLI": ("codex", "resume"),
    "Cursor CLI": ("cursor-agent", "--resume"),
    "Factory Droid CLI": ("droid", "--resume"),
}


class SpecStory:
    agent = AGENT
    name = "SpecStory"
    aliases: tuple[str, ...] = ()
    config_key = "specstory"
    env = "AJ_SPECSTORY_PATH"
    parser_version = 1
    in_projects: tuple[str, ...] = (f"{FOLDER}/history",)

    def roots(self, environ: Mapping[str, str], home: Path) -> list[Path]:
        return projects.places(home)

    def discover(self, root: Path) -> Discovery:
        discovery = Discovery()
        if stat_of(root):
            _add(_tellings(root), discovery)
        elif FOLDER in (root.name, root.parent.name):
            _add_folder(root if root.name == "history" else root / "history", discovery)
        else:
            for folder, inside in projects.folders(root, discovery):
                if any(e.name == FOLDER for e in inside):
                    _add_folder(folder / FOLDER / "history", discovery)
        return discovery

    def parse(self, source: Source) -> Reading:
        from agent_journal.connectors.specstory_pages import read

        return read(source)

    def resume(self, session: Session) -> Resume | None:
        command = _RESUME.get(session.extensions.get("provider", ""))
        return Resume((*command, session.id), session.workspace) if command and is_plain_id(session.id) else None


def _add_folder(folder: Path, discovery: Discovery) -> None:
    by_time: dict[str, list[Path]] = defaultdict(list)
    for entry in entries(folder, discovery):
        path = Path(entry.path)
        if path.suffix == ".md" and stat_of(path):
            by_time[_began(entry.name)].append(path)
        else:
            discovery.passed.append((path, "not a Markdown file"))
    for paths in by_time.values():
        _add(paths, discovery)


def _began(name: str) -> str:
    named = re.match(NAME, name)
    return named[1] if named else name


def _tellings(path: Path) -> list[Path]:
    """A page with the others of its session, as its folder would give them."""
    began = _began(path.name)
    names = [e.name for e in entries(path.parent, Discovery()) if e.name.startswith(began) and e.name.endswith(".md")]
    return list(dict.fromkeys((path, *(path.with_name(n) for n in names if _began(n) == began))))


def _add(paths: list[Path], discovery: Discovery) -> None:
    """SpecStory may write a session first as <time>.md and later, once it has words, as <time>-<words>.md."""
    files = [found for path in paths if (found := stat_of(path))]
    files.sort(key=lambda f: (-len(f.path.name), f.path))
    if files:
        discovery.sources.append(Source(AGENT, files[0].path, tuple(files)))
