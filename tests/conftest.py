from __future__ import annotations

from pathlib import Path

import pytest
from journals import Home


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """An empty home folder, without agents and without a journal."""
    path = tmp_path / "home"
    path.mkdir()
    return Home(path)
