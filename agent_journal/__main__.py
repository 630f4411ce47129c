"""The way in. Imports nothing before an interrupt can be answered, and gives closed streams somewhere to go."""

from __future__ import annotations

import contextlib
import gc
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

# What is allocated on the way to an answer is needed until it is given: to look for garbage every 700 objects takes a
# twentieth of the time of an index, and finds none.
GARBAGE_AFTER = 100_000
INTERRUPTED = '{"error":{"kind":"interrupted","message":"interrupted","hint":""}}'


def aj() -> NoReturn:
    """The program. Everything of ours is closed when `main` returns, so the interpreter is left at once: to take down
    what was imported takes a tenth of a search."""
    code = main()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):  # a closed pipe was answered for in `main`
            stream.flush()
    os._exit(code)


def main(argv: Sequence[str] | None = None) -> int:
    gc.set_threshold(GARBAGE_AFTER)
    # A closed stream is None to Python; whatever is written to it is nobody's.
    sys.stdout = sys.stdout or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    sys.stderr = sys.stderr or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    try:
        from agent_journal.process import run

        return run(argv)
    except KeyboardInterrupt:  # before there was anything that could answer it
        arguments = sys.argv[1:] if argv is None else argv
        machine = not {"--json", "--ndjson"}.isdisjoint(arguments)
        sys.stderr.write(f"{INTERRUPTED if machine else 'aj: interrupted'}\n")
        return 130


if __name__ == "__main__":
    aj()
