"""Where exported sessions go: a stream of lines, one file after the other, or a file a session with an index."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import IO, TYPE_CHECKING, Any, Protocol

import msgspec

from agent_journal.exchange import ndjson
from agent_journal.session import Account
from agent_journal.staging import Staging
from agent_journal.statistics import Tally

if TYPE_CHECKING:
    from agent_journal.render.html_index import Entry

NAME_CHARS = 60
INDEX = "index.html"
Render = Callable[[Account], Iterator[str]]


class Output(Protocol):
    """One format of one export."""

    def add(self, account: Account) -> None: ...

    def finish(self) -> None: ...


class Lines:
    """Unified NDJSON: one stream for all sessions."""

    def __init__(self, stream: IO[bytes], header: dict[str, Any], schema: str, left_out: Counter[str]) -> None:
        self.stream, self.schema, self.left_out = stream, schema, left_out
        self._put(header)

    def _put(self, value: object) -> None:
        self.stream.write(msgspec.json.encode(value) + b"\n")

    def add(self, account: Account) -> None:
        self._put(ndjson.session_line(account, self.schema, self.left_out))

    def finish(self) -> None:
        self.stream.flush()


class Stream:
    """Sessions one after the other in one file: Markdown, or a single page or object."""

    def __init__(self, stream: IO[bytes], render: Render) -> None:
        self.stream, self.render, self.first = stream, render, True

    def add(self, account: Account) -> None:
        if not self.first:
            self.stream.write(b"\n---\n\n")
        self.first = False
        for piece in self.render(account):
            self.stream.write(piece.encode("utf-8", "replace"))

    def finish(self) -> None:
        self.stream.flush()


class Pages:
    """A file a session."""

    def __init__(self, staging: Staging, suffix: str, render: Render) -> None:
        self.staging, self.suffix, self.render = staging, suffix, render
        self.names: set[str] = set()

    def add(self, account: Account) -> None:
        self.write(self.named(account), self.render(account))

    def named(self, account: Account) -> str:
        stem = file_stem(account)
        number = 1
        while (name := f"{stem}{f'-{number}' if number > 1 else ''}{self.suffix}").lower() in self.names:
            number += 1
        self.names.add(name.lower())
        return name

    def write(self, name: str, pieces: Iterator[str]) -> None:
        with self.staging.opened(name) as file:
            for piece in pieces:
                file.write(piece.encode("utf-8", "replace"))

    def finish(self) -> None:
        pass


class HtmlPages(Pages):
    """Pages that link to an index, which is written last."""

    def __init__(self, staging: Staging, theme: str, days: Callable[[], Sequence[Tally]]) -> None:
        super().__init__(staging, ".html", lambda account: html_page(account, theme, INDEX))
        self.names.add(INDEX)
        self.theme, self.days = theme, days
        self.entries: list[Entry] = []

    def add(self, account: Account) -> None:
        from agent_journal.render.html import Entry

        name = self.named(account)
        self.write(name, self.render(account))
        self.entries.append(Entry(name, account.session, account.derived))

    def finish(self) -> None:
        from agent_journal.render.html import index_page

        self.write(INDEX, index_page(self.entries, self.days(), theme=self.theme))


def html_page(account: Account, theme: str, index: str | None = None) -> Iterator[str]:
    from agent_journal.render.html import session_page

    return session_page(account, theme=theme, index=index)


def markdown(account: Account) -> Iterator[str]:
    from agent_journal.render.markdown import session_markdown

    return session_markdown(account)


def session_data(account: Account) -> Iterator[str]:
    from agent_journal.connectors.registry import CONNECTORS
    from agent_journal.exchange.sessiondata import written

    value = written(account, {c.agent: c.name for c in CONNECTORS})
    yield msgspec.json.format(msgspec.json.encode(value), indent=2).decode() + "\n"


def file_stem(account: Account) -> str:
    """2026-03-01-fix-login-bug-9f8e7d6c: sorts by day, says what it is, safe in any file system."""
    day = account.derived.started_at.strftime("%Y-%m-%d") if account.derived.started_at else ""
    title = re.sub(r"[^a-z0-9]+", "-", account.derived.title.lower()).strip("-")[:NAME_CHARS].strip("-")
    own = found[0] if (found := re.match(r"[0-9a-f]{8}\b", account.session.id)) else _mark(account.session.key)
    return "-".join(part for part in (day, title, own) if part) or "session"


def _mark(key: str) -> str:
    """For sessions whose id is a date or a word."""
    return hashlib.blake2b(key.encode("utf-8", "replace"), digest_size=4).hexdigest()
