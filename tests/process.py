"""`aj` as users run it: a process of its own, with its own home, on two short sessions written by hand."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import copilot_logs
import logs
from journals import LONGEST

CLAUDE = logs.SESSION
COPILOT = copilot_logs.SESSION


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()

    @property
    def object(self) -> Any:
        return json.loads(self.out)

    @property
    def error(self) -> Any:
        return json.loads(self.err)["error"]


@dataclass(frozen=True)
class Aj:
    """A home folder and how to run `aj` in it. The folder's own path reads `~` in what was printed."""

    home: Path
    variables: Mapping[str, str] = field(default_factory=dict)
    vectors: bool = False  # as users have them; embedding takes longer than most tests do

    @property
    def environment(self) -> dict[str, str]:
        kept = {name: os.environ[name] for name in ("PATH", "SYSTEMROOT") if name in os.environ}
        own = {"HOME": str(self.home), "TZ": "UTC", "COLUMNS": "80", "PYTHONUTF8": "1"}
        return kept | own | dict(self.variables)

    def start(self, *arguments: str, **options: Any) -> subprocess.Popen[bytes]:
        words_only = ["--no-vectors"] * (arguments[:1] == ("reindex",) and not self.vectors)
        command = [sys.executable, "-m", "agent_journal", *arguments, *words_only]
        return subprocess.Popen(command, env=self.environment, cwd=options.pop("cwd", self.home), **options)

    def __call__(self, *arguments: str, cwd: Path | None = None) -> Ran:
        pipe = subprocess.PIPE
        with self.start(
            *arguments, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, cwd=cwd or self.home
        ) as process:
            out, err = process.communicate(timeout=LONGEST)
        return Ran(process.returncode, *(text.decode().replace(str(self.home), "~") for text in (out, err)))

    def having(self, **variables: str) -> Aj:
        return Aj(self.home, dict(self.variables) | variables, self.vectors)


def write_claude(home: Path, name: str = CLAUDE, **fields: Any) -> Path:
    """A person asks, the model looks, thinks, fails once and mends it."""
    at = [{"timestamp": f"2025-03-02T09:15:{second:02}.000Z"} | fields for second in range(10)]
    grep = logs.tool_use("t1", "Bash", command="grep -n quote src/cart.py", description="Find quotes")
    edit = logs.tool_use("t2", "Edit", file_path="/home/ana/shop/src/cart.py", old_string="a", new_string="b\nc")
    return logs.write(
        logs.transcript_path(home, name),
        logs.user("u1", "Why does the cart parser drop nested quotes?", **at[0]),
        logs.assistant("a1", logs.text("I will look at the tokenizer."), grep, parent="u1", **at[1]),
        logs.user("r1", [logs.tool_result("t1", "12: quote\n13: quote\n14: quote\n15: quote\n16: end")], "a1", **at[2]),
        logs.assistant(
            "a2",
            logs.thinking("The tokenizer stops at the first quote."),
            logs.text("The tokenizer ends a field at the first quote, so nested quotes are dropped."),
            parent="r1",
            **at[3],
        ),
        logs.user("u2", "Please mend it.", "a2", **at[4]),
        logs.assistant("a3", edit, parent="u2", **at[5]),
        logs.user("r2", [logs.tool_result("t2", "String to replace not found", is_error=True)], "a3", **at[6]),
        logs.assistant("a4", logs.text("Done: nested quotes survive now."), parent="r2", **at[7]),
    )


def write_copilot(home: Path) -> Path:
    log = copilot_logs.Events().start()
    log.user("Rename the parser module").says("Renamed parser.py to reader.py.")
    path = home / ".copilot" / "session-state" / COPILOT / "events.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(log.text.replace("2026-04-01", "2025-04-01"), encoding="utf-8")
    return path


def two_sessions(home: Path) -> Aj:
    home.mkdir(parents=True, exist_ok=True)
    write_claude(home)
    write_copilot(home)
    return Aj(home)


def lines(text: str) -> list[str]:
    """Without what differs from run to run: milliseconds, seconds, sizes, cursors."""
    text = re.sub(r"\b\d+\.\d ms", "N ms", text)
    text = re.sub(r"\b\d+\.\d s$", "N s", text, flags=re.MULTILINE)
    text = re.sub(r"\d+\.\d kB", "N kB", text)
    return re.sub(r"--cursor \S+", "--cursor C", text).splitlines()
