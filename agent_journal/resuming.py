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
from agent_journal.session import LOCAL, Resume


def checked(resume: Resume) -> str:
    """The program to run. Raises CannotResume with what is missing: the folder or the program."""
    if resume.cwd and not (Path(resume.cwd).is_absolute() and Path(resume.cwd).is_dir()):
        raise CannotResume(
            f"the session's folder is gone: {resume.cwd}",
            "make it again, or run the command of `aj resume --print` where the project is now",
        )
    program = shutil.which(resume.argv[0], path=_absolute_path())
    if program is None:
        raise CannotResume(
            f"{resume.argv[0]} is not installed, or not on the PATH", "`aj resume --print` shows the command"
        )
    return program


def _absolute_path() -> str:
    """PATH without relative entries: in the session's folder they would name programs of that folder."""
    entries = os.environ.get("PATH", os.defpath).split(os.pathsep)
    return os.pathsep.join(entry for entry in entries if Path(entry).is_absolute())


def become(resume: Resume, home: str = LOCAL) -> int:
    """Run the agent in place of this process; where the system cannot, wait for it and return its exit code."""
    if home != LOCAL:  # run here, the agent would look for the session in its own files
        raise CannotResume(f"the session is of the home {home}", "`aj resume --print` shows the command to run there")
    program = checked(resume)
    if resume.cwd:
        os.chdir(resume.cwd)
    if sys.platform == "win32":
        return subprocess.call([program, *resume.argv[1:]])
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(program, resume.argv)
