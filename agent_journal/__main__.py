"""The way in. Imports nothing before an interrupt can be answered, and gives closed streams somewhere to go."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    # A closed stream is None to Python; whatever is written to it is nobody's.
    sys.stdout = sys.stdout or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    sys.stderr = sys.stderr or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    try:
        from agent_journal.process import run

        return run(argv)
    except KeyboardInterrupt:
        sys.stderr.write("aj: interrupted\n")
        return 130


if __name__ == "__main__":
    sys.exit(main())
