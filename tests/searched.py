"""Sessions written into a journal's home, and what a search finds of them."""

from __future__ import annotations

from logs import Record, transcript_path, user, write

from agent_journal.answer import Answer
from agent_journal.search import Journal


def session(journal: Journal, name: str, *records: Record) -> None:
    write(transcript_path(journal.home, name), *(r | {"sessionId": name} for r in records))


def texts(answer: Answer) -> list[str]:
    return [m.message.message.text for m in answer.matches]


def found(journal: Journal, query: str) -> list[str]:
    return texts(journal.search(query, limit=50))


def said(journal: Journal, *messages: str) -> None:
    """Each message in a session of its own, oldest first."""
    for number, words in enumerate(messages):
        session(journal, f"s{number}", user(f"u{number}", words, timestamp=f"2026-03-0{number + 1}T09:00:00Z"))
