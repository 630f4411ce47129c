"""Builders of Aider histories: each method appends the bytes that Aider's own writer would."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from agent_journal.connectors.aider import HISTORY, Aider
from agent_journal.connectors.base import Reading

START = "2026-06-09 14:01:00"


class History:
    def __init__(self) -> None:
        self.text = ""

    def run(self, started: str = START) -> History:
        self.text += f"\n# aider chat started at {started}\n\n"
        return self

    def launch(self, started: str = START) -> History:
        return self.run(started).notice(
            "/usr/bin/aider --model sonnet --openai-api-key=sk-123",
            "Aider v0.86.1",
            "Main model: anthropic/claude-sonnet-4 with diff edit format, infinite output",
            "Weak model: anthropic/claude-3-5-haiku",
            "Git repo: .git with 42 files",
            "Repo-map: using 4096 tokens, auto refresh",
        )

    def notice(self, *lines: str) -> History:
        self.text += "".join(f"> {line}  \n" for line in lines)
        return self

    def user(self, said: str) -> History:
        self.text += "\n#### " + "  \n#### ".join(said.split("\n")) + "  \n"
        return self

    def reply(self, said: str) -> History:
        self.text += f"\n{said.strip()}\n\n"
        return self

    def write(self, folder: Path) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / HISTORY
        path.write_text(self.text, encoding="utf-8")
        return path


def shop() -> History:
    """A conversation with an edit, a command and its output."""
    made = History().launch().user("add a retry to the webhook\nwith backoff")
    made.reply(
        "I'll add exponential backoff.\n\nsrc/webhook.py\n```python\n<<<<<<< SEARCH\n=======\n>>>>>>> REPLACE\n```"
    )
    made.notice(
        "Tokens: 3.2k sent, 210 received. Cost: $0.01 message, $0.03 session.",
        "Applied edit to src/webhook.py",
        "Commit 1a2b3c4 feat: add webhook retry",
        "You can use /undo to undo and discard each aider commit.",
    )
    return made.user("/run pytest -q").notice("42 passed", "Add command output to the chat? (Y)es/(N)o [Yes]: n")


def home(folder: Path) -> None:
    shop().write(folder / "projects" / "shop")
    History().launch("2026-06-10 09:00:00").user("why is the cart empty?").reply("The session expired.").write(
        folder / "projects" / "cart"
    )


def read(path: Path) -> Reading:
    (source,) = Aider().discover(path).sources
    return Aider().parse(source)


def at(local: str = START) -> datetime:
    return datetime.fromisoformat(local).astimezone(UTC)
