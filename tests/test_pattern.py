"""Patterns for places of sessions: they name what Python's glob names, and never lead around in circles."""

from __future__ import annotations

import glob
import os
import time
from pathlib import Path
from typing import Any

import pytest
from journals import Home
from logs import SESSION

from agent_journal.connectors.base import Discovery
from agent_journal.index import pattern


def named(home: Path, text: str) -> list[Path]:
    return pattern.matching(home, Path(text).parts, Discovery())


@pytest.mark.parametrize(
    "text", ["*", "*/*", "**", "**/*", "**/*.md", "a/**/c.md", "a/*/c.md", "**/b/**/c.md", "?/.h/[cd].md", "x/*", "a/b"]
)
def test_a_pattern_names_what_glob_names(tmp_path: Path, text: str) -> None:
    for file in ("a/b/c.md", "a/.h/d.md", "a/c.md", "e/b/f/c.md", "top.md"):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text("")
    expected = {tmp_path / name for name in glob.glob(text, root_dir=tmp_path, recursive=True, include_hidden=True)}
    assert set(named(tmp_path, text)) | {tmp_path} == expected | {tmp_path}


def test_links_that_lead_back_do_not_lead_around_for_ever(tmp_path: Path) -> None:
    """Four links to the folder they lie in are 4 to the power of 40 folders to Python's glob."""
    folder = tmp_path / "projects" / "shop"
    folder.mkdir(parents=True)
    for number in range(4):
        (folder / f"link{number}").symlink_to(folder)
    (folder / ".aider.chat.history.md").write_text("")
    assert named(tmp_path, "projects/**/.aider.chat.history.md") == [folder / ".aider.chat.history.md"]


def test_a_pattern_over_too_many_folders_is_given_up_and_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pattern, "SECONDS", 0.0)
    (tmp_path / "a").mkdir()
    discovery, started = Discovery(), time.monotonic()
    pattern.matching(tmp_path, ("**", "x.md"), discovery)
    assert [path for path, _ in discovery.unlisted] == [tmp_path / "**" / "x.md"]
    assert time.monotonic() - started < 1


def test_a_link_that_cannot_be_read_costs_no_agent_its_sessions(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """/proc/<pid>/exe of a program of the system's, named by `/*/*/*`, ended every command."""

    real = os.path.realpath

    def realpath(path: Any, **options: Any) -> str:
        if str(path).endswith("exe"):
            raise FileNotFoundError(2, "No such file or directory", str(path))
        return str(real(path, **options))

    home.claude({"type": "user", "uuid": "u1", "message": {"role": "user", "content": "a heron"}}, name=SESSION)
    home.configure(f'[storage.sources]\ncodex = "{home.path}/exe"\n')
    monkeypatch.setattr(os.path, "realpath", realpath)
    assert home.reindex().messages_new == 1
