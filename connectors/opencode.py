"""OpenCode and Kilo Code: one SQLite database, the tree of JSON files before it, and exported sessions.

Nothing is written. How the three are read is in opencode_stores.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from pathlib import Path

from agent_journal.connectors.base import (
    Discovery,
    Part,
    Reading,
    Source,
    database_files,
    entries,
    given_folder,
    is_plain_id,
    stat_of,
    whole,
)
from agent_journal.session import Resume, Session

DATABASE, TREE, EXPORT = "database", "tree", "export"  # kinds of Source


class OpenCode:
    agent = "opencode"
    name = "OpenCode"
    aliases: tuple[str, ...] = ()
    config_key = "opencode"
    env = "AJ_OPENCODE_PATH"
    parser_version = 1
    in_projects: tuple[str, ...] = ()
    program = "opencode"  # also the name of its folder and of its database
    database_env = "OPENCODE_DB"

    def roots(self, environ: Mapping[str, str], home: Path) -> list[Path]:
        folder = (given_folder(environ, "XDG_DATA_HOME", home) or home / ".local" / "share") / self.program
        given = given_folder(environ, self.database_env, home)
        if given is None:
            return [folder]
        path = folder / given  # a name below the folder, or a path of its own
        return [folder] if path.parent == folder and self._is_database(path.name) else [folder, path]

    def discover(self, root: Path) -> Discovery:
        discovery = Discovery()
        if stat_of(root):
            self._add(root, discovery)
            return discovery
        stores = [root] if root.name == "storage" else [root / "storage"]
        for entry in entries(root, discovery):
            if self._is_database(entry.name):
                self._add(Path(entry.path), discovery)
        stores += [Path(e.path) / "storage" for e in entries(root / "project", discovery)]
        for store in stores:
            for folder in entries(store / "session", discovery):
                for entry in entries(Path(folder.path), discovery):
                    if entry.name.endswith(".json"):
                        self._add(Path(entry.path), discovery)
        return discovery

    def _is_database(self, name: str) -> bool:
        """Channels have databases of their own: opencode-dev.db."""
        return name.startswith(self.program) and name.endswith(".db")

    def _add(self, path: Path, discovery: Discovery) -> None:
        """A message's file is written again when its answer ends; to watch the parts, too, would be thousands."""
        if path.suffix != ".json":
            files, kind = database_files(path), DATABASE
        elif path.parent.parent.name == "session":
            beside = (stat_of(Path(e.path)) for e in entries(messages_of(path), discovery))
            own, kind = stat_of(path), TREE
            files = (own, *(f for f in beside if f)) if own else ()
        else:
            own, kind = stat_of(path), EXPORT
            files = (own,) if own else ()
        if files:
            # A database has all that was in files before it, and what was taken back since.
            shared = kind == DATABASE
            discovery.sources.append(Source(self.agent, path, files, kind, read_last=not shared, shared=shared))

    def parse(self, source: Source) -> Reading:
        from agent_journal.connectors.opencode_stores import read

        return whole(self.sessions(source)) if source.shared else read(source)

    def sessions(self, source: Source) -> Generator[Part, None, None]:
        from agent_journal.connectors.opencode_stores import sessions

        return sessions(source)

    def resume(self, session: Session) -> Resume | None:
        if not is_plain_id(session.id):
            return None
        return Resume((self.program, "--session", session.id), session.workspace)


class Kilo(OpenCode):
    """Kilo Code since 2026 stores what OpenCode does, under its own name."""

    agent = "kilo"
    name = "Kilo Code"
    config_key = "kilo"
    env = "AJ_KILO_PATH"
    program = "kilo"
    database_env = ""


def messages_of(path: Path) -> Path:
    """Beside the folder session, or in its first layout inside it."""
    store = path.parents[1] if path.parent.name == "info" else path.parents[2]
    return store / "message" / path.stem
