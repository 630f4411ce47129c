from __future__ import annotations

import fcntl
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from journals import SHARED_HOME, Home, cut_short, words_only

from agent_journal.config import load
from agent_journal.connectors.registry import SOURCE_KEYS
from agent_journal.search import Journal

# A shell has what it starts in the background ignore Ctrl-C, and so would every process that a test starts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """An empty home folder, without agents and without a journal."""
    path = tmp_path / "home"
    path.mkdir()
    return Home(path)


@pytest.fixture(scope="session")
def real(tmp_path_factory: pytest.TempPathFactory) -> Home:
    """All real sessions, indexed by the first process that asks, for all of them: only to be read."""
    if not SHARED_HOME.is_dir():
        pytest.skip("no shared data")
    base = tmp_path_factory.getbasetemp()
    folder = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    home = Home(SHARED_HOME, {"AJ_HOME": str(folder / "real")})
    with (folder / "real.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not home.database.exists():
            assert home.reindex().sources_failed == 0
    return home


@pytest.fixture
def beginnings(tmp_path: Path) -> Path:
    """A home with every real file, of the long ones only the first lines: all kinds of records, a fifth of the time."""
    if not SHARED_HOME.is_dir():
        pytest.skip("no shared data")
    return cut_short(SHARED_HOME, tmp_path / "beginnings")


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    environ = {"HOME": str(tmp_path / "home"), "AJ_HOME": str(tmp_path / "aj")}
    with Journal.open(words_only(load(environ, SOURCE_KEYS)), environ) as opened:
        yield opened
