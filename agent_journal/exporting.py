"""Sessions out of the journal, in every format: chosen, pared, redacted, written. One session in memory at a time.

Changes nothing in the journal.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

from msgspec import Struct, structs

from agent_journal.dates import local_now
from agent_journal.errors import CannotExport, NoSuchSession
from agent_journal.exchange import ndjson
from agent_journal.index.sync import Progress
from agent_journal.outputs import HtmlPages, Lines, Output, Pages, Render, Stream, html_page, markdown, session_data
from agent_journal.query import Query
from agent_journal.redaction import Redactor
from agent_journal.search import Journal
from agent_journal.session import Account, Block, Session, Thinking, ToolCall
from agent_journal.source_copies import Copies, copied
from agent_journal.staging import Staging, packed, staged
from agent_journal.statistics import Tally

SUFFIX = {"html": ".html", "markdown": ".md", "ndjson": ".ndjson", "sessiondata": ".json"}
SORTS = {"started": "started_us, native_id", "workspace": "workspace, started_us, native_id", "source": "agent, key"}
SUFFIXES = frozenset((*SUFFIX.values(), ".jsonl", ".gz"))
STREAMS = frozenset(("ndjson", "markdown"))  # that hold several sessions in one file
RENDER: Mapping[str, Render] = {"markdown": markdown, "sessiondata": session_data}  # those that need no setting
STDOUT = "-"


class Wanted(Struct, frozen=True):
    """How sessions are written."""

    formats: tuple[str, ...]
    source: bool = False  # raw copies of the agents' files, too
    tools: bool = True
    thinking: bool = True
    redact: bool = True
    theme: str = "auto"
    schema: str = ndjson.VERSION
    strict: bool = False  # refuse agents that the format does not name
    gzip: bool = False
    force: bool = False


class Exported(Struct, frozen=True):
    sessions: int
    messages: int
    files: tuple[Path, ...]
    bytes: int
    left_out: dict[str, int]
    redacted: dict[str, int]
    copies: Copies | None = None
    strangers: dict[str, dict[str, int]] = {}  # format -> agents it does not name -> their sessions


# --- what is chosen -------------------------------------------------------------------------------------


def chosen(journal: Journal, names: Sequence[str] = (), query: Query | None = None, sort: str = "started") -> list[int]:
    """Rows of the sessions that are named, or that fit the query; a name is a session's, else a workspace's."""
    rows = journal.session_rows(query)
    if names:
        allowed = None if rows is None else set(rows)
        named = [row for name in names for row in _named(journal, name)]
        rows = [row for row in dict.fromkeys(named) if allowed is None or row in allowed]
    return journal.store.ordered_sessions(SORTS[sort], rows)


def _named(journal: Journal, name: str) -> list[int]:
    try:
        return [journal.session(name).row]
    except NoSuchSession:
        if rows := journal.store.workspace_sessions(name):
            return rows
        raise


# --- what is left of a session --------------------------------------------------------------------------


def account_of(journal: Journal, row: int) -> Account:
    stored = journal.store.session(row)
    messages = journal.messages(stored)
    said, ordinals = tuple(m.message for m in messages), tuple(m.ordinal for m in messages)
    return Account(stored.session, stored.derived, said, ordinals, journal.resume(stored) is not None)


def pared(account: Account, wanted: Wanted, left_out: Counter[str]) -> Account:
    """Without what was not asked for. A message of which nothing is left goes with it."""
    if wanted.tools and wanted.thinking:
        return account
    kept = []
    for ordinal, message in zip(account.ordinals, account.messages, strict=True):
        blocks = tuple(b for b in message.blocks if _is_wanted(b, wanted, left_out))
        if blocks or not message.blocks:
            kept.append((ordinal, structs.replace(message, blocks=blocks)))
        else:
            left_out["messages of which nothing else is left"] += 1
    return structs.replace(account, messages=tuple(m for _, m in kept), ordinals=tuple(o for o, _ in kept))


def _is_wanted(block: Block, wanted: Wanted, left_out: Counter[str]) -> bool:
    if isinstance(block, ToolCall) and not wanted.tools:
        left_out["tool calls"] += 1
        return False
    if isinstance(block, Thinking) and not wanted.thinking:
        left_out["thinking blocks"] += 1
        return False
    return True


# --- the run --------------------------------------------------------------------------------------------


def export(
    journal: Journal, rows: Sequence[int], wanted: Wanted, target: str | None, progress: Progress | None = None
) -> Exported:
    """Write these sessions. `target`: a file, a folder, `-` for stdout, or None for a name made of the time."""
    if wanted.gzip and "html" in wanted.formats:
        raise CannotExport("a browser does not open compressed pages", "leave out --gzip, or choose another format")
    with journal.store.snapshot():
        there = set(journal.store.ordered_sessions("id", rows))  # one may have been forgotten since it was chosen
        rows = [row for row in rows if row in there]
        if not rows:
            raise CannotExport("no session was chosen", "see `aj sessions`")
        strangers = _strangers(journal, rows, wanted)
        run = _Run(journal, rows, wanted, progress)
        done = run.to_stdout() if target == STDOUT else run.to_files(target)
        return structs.replace(done, strangers=strangers)


def _strangers(journal: Journal, rows: Sequence[int], wanted: Wanted) -> dict[str, dict[str, int]]:
    from agent_journal.exchange.sessiondata import PROVIDERS

    known = {"ndjson": ndjson.AGENTS, "sessiondata": PROVIDERS.keys()}
    if known.keys().isdisjoint(wanted.formats):
        return {}
    agents = Counter(journal.store.facts(row)[0].agent for row in rows)
    unnamed = {
        name: {agent: count for agent, count in sorted(agents.items()) if agent not in known[name]}
        for name in wanted.formats
        if name in known
    }
    found = {name: strangers for name, strangers in unnamed.items() if strangers}
    if wanted.strict and found:
        name, strangers = next(iter(found.items()))
        told = ", ".join(f"{agent} ({count})" for agent, count in strangers.items())
        raise CannotExport(
            f"{name} names only {', '.join(sorted(known[name]))}, not {told}",
            "leave out --strict to write them under their own names, or choose with --agent",
        )
    return found


class _Run:
    def __init__(self, journal: Journal, rows: Sequence[int], wanted: Wanted, progress: Progress | None) -> None:
        self.journal, self.rows, self.wanted = journal, rows, wanted
        self.progress = progress or (lambda *_: None)
        self.at = datetime.now(UTC)
        self.left_out: Counter[str] = Counter()
        self.redactor = Redactor() if wanted.redact else None
        self.messages = 0

    def to_stdout(self) -> Exported:
        if len(self.wanted.formats) != 1 or self.wanted.source:
            raise CannotExport("stdout takes one format", "give a folder with -o")
        (name,) = self.wanted.formats
        self._one_file(name, "stdout")
        with packed(sys.stdout.buffer, self.wanted.gzip) as stream:
            self._write([self._stream(name, stream)])
        sys.stdout.buffer.flush()
        return self._done((), 0, None)

    def to_files(self, target: str | None) -> Exported:
        try:
            folder, file = self._place(target)
        except (OSError, RuntimeError) as error:  # a name that is too long, the home of a user who does not exist
            raise CannotExport(f"{target}: no place to write to ({error})", "give another name with -o") from error
        with staged(folder, force=self.wanted.force) as staging, ExitStack() as open_files:
            outputs = [self._output(name, staging, file, open_files) for name in self.wanted.formats]
            if outputs:
                self._write(outputs)
            open_files.close()
            copies = (
                copied(self.journal.store.read_from(self.rows), staging, self.journal.home)
                if self.wanted.source
                else None
            )
            files = staging.commit()
        return self._done(tuple(files), sum(staging.files.values()), copies)

    def _place(self, target: str | None) -> tuple[Path, str | None]:
        """(the folder, the name of the one file in it). None: each output finds its names."""
        alone = len(self.wanted.formats) == 1 and not self.wanted.source
        single = alone and (self.wanted.formats[0] in STREAMS or len(self.rows) == 1)
        lines = self._name + self._suffix("ndjson") if self.wanted.formats == ("ndjson",) else None
        if target is None:
            return (
                (Path.cwd(), lines)
                if single and self.wanted.formats != ("markdown",)
                else (Path.cwd() / self._name, None)
            )
        path = Path(target).expanduser().absolute()
        if target.endswith(("/", "\\")) or path.is_dir():
            return path, lines
        if alone and path.suffix in SUFFIXES:
            self._one_file(self.wanted.formats[0], str(path))
            return path.parent, path.name + (".gz" if self.wanted.gzip and path.suffix != ".gz" else "")
        if path.suffix in SUFFIXES:
            raise CannotExport(
                f"{path.name} is the name of one file, and there will be several", "give a folder with -o"
            )
        return (path.parent, path.name) if single and path.suffix else (path, None)

    @property
    def _name(self) -> str:
        return f"export_{self.at.astimezone(local_now().tzinfo):%Y%m%d_%H%M%S}"

    def _one_file(self, name: str, place: str) -> None:
        if name in ("html", "sessiondata") and len(self.rows) > 1:
            raise CannotExport(
                f"{len(self.rows)} sessions do not fit into {place}: {name} is a file a session",
                "give a folder with -o",
            )

    def _suffix(self, name: str) -> str:
        return SUFFIX[name] + (".gz" if self.wanted.gzip and name != "html" else "")

    def _output(self, name: str, staging: Staging, file: str | None, open_files: ExitStack) -> Output:
        if file is None and name == "ndjson":
            file = self._name + self._suffix(name)
        if file is not None:
            return self._stream(name, open_files.enter_context(staging.opened(file)))
        if name == "html" and len(self.rows) > 1:
            return HtmlPages(staging, self.wanted.theme, self._days)
        if name == "html":
            return Pages(staging, ".html", self._page)
        return Pages(staging, self._suffix(name), RENDER[name])

    def _stream(self, name: str, stream: IO[bytes]) -> Output:
        if name == "ndjson":
            sessions = map(self.redactor.announced, self._sessions()) if self.redactor else self._sessions()
            header = ndjson.header(sessions, self.at, self.wanted.schema)
            return Lines(stream, header, self.wanted.schema, self.left_out)
        if name == "html":
            return Stream(stream, self._page)
        return Stream(stream, RENDER[name])

    def _page(self, account: Account) -> Iterator[str]:
        return html_page(account, self.wanted.theme)

    def _sessions(self) -> Iterator[Session]:
        return (self.journal.store.facts(row)[0] for row in self.rows)

    def _days(self) -> Sequence[Tally]:
        from agent_journal.tallying import tallied

        return tallied(self.journal.store, list(self.rows)).days

    def _write(self, outputs: Sequence[Output]) -> None:
        for number, row in enumerate(self.rows):
            account = pared(account_of(self.journal, row), self.wanted, self.left_out)
            if self.redactor is not None:
                account = self.redactor.account(account)
            self.messages += len(account.messages)
            self.progress("exporting", number, len(self.rows), account.derived.title)
            for output in outputs:
                output.add(account)
        for output in outputs:
            output.finish()

    def _done(self, files: tuple[Path, ...], size: int, copies: Copies | None) -> Exported:
        redacted = dict(self.redactor.counts) if self.redactor else {}
        left_out = {what: count for what, count in self.left_out.items() if count}
        return Exported(len(self.rows), self.messages, files, size, left_out, redacted, copies)
