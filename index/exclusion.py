"""What `index.exclude` keeps out: patterns of workspaces and files. Pure: looks at names only."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Sequence
from pathlib import Path

from agent_journal.session import Session


def is_private(session: Session, patterns: Sequence[str]) -> bool:
    """Whether a session is about an excluded workspace, or was read from an excluded file."""
    where = session.workspace
    if where and any(below(where, pattern) for pattern in patterns):
        return True
    return excluded(session.origin.path, patterns)


def excluded(path: str, patterns: Sequence[str]) -> bool:
    """A pattern names a file or folder, and everything below it."""
    return any(below(path, pattern) or _in_encoded(path, pattern) for pattern in patterns)


def below(path: str, pattern: str) -> bool:
    """~/private, ~/private/ and ~/private/** all mean the folder and what is in it."""
    pattern = _folder(pattern)
    return fnmatch.fnmatchcase(path, pattern) or fnmatch.fnmatchcase(path, f"{pattern}/*")


def _folder(pattern: str) -> str:
    return re.sub(r"(/\*{0,2})+$", "", pattern) or pattern


def _in_encoded(path: str, pattern: str) -> bool:
    """Claude names a folder after the workspace, with dashes. Only the whole name tells: a-b may be a/b or a-b, and
    what lies below is decided by the workspace that the session itself names."""
    encoded = "".join(c if c.isalnum() or c in "*?" else "-" for c in _folder(pattern))
    return bool(encoded.strip("-*?")) and any(fnmatch.fnmatchcase(part, encoded) for part in Path(path).parts)
