"""Going on with a session in its own agent: this process becomes the agent, in the session's folder.

Only commands a connector built are run, never text from a log: a connector refuses ids that are not plain words.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from agent_journal.errors import CannotResume
from agent_journal.session import Resume


def check(resume: Resume) -> None:
    """Raises CannotResume with what is missing: the folder or the program."""
    if resume.cwd and not Path(resume.cwd).is_dir():
        raise CannotResume(
            f"the session's folder is gone: {resume.cwd}",
            "make it again, or run the command of `aj resume --print` where the project is now",
        )
    if shutil.which(resume.argv[0]) is None:
        raise CannotResume(
            f"{resume.argv[0]} is not installed, or not on the PATH", "`aj resume --print` shows the command"
        )


def become(resume: Resume) -> int:
    """Run the agent in place of this process; where the system cannot, wait for it and return its exit code."""
    check(resume)
    if resume.cwd:
        os.chdir(resume.cwd)
    if sys.platform == "win32":
        return subprocess.call(resume.argv)
    sys.stdout.flush()
    sys.stderr.flush()
    os.execvp(resume.argv[0], resume.argv)
