"""The Cursor editor's state databases -> transcripts.

One database holds all chats of a machine and may be gigabytes long: chats are read one by one, and their messages
("bubbles") by key, one at a time. What the editor keeps beside them (diffs, checkpoints, context) is never read.
Whether a chat changed is told by its document, by how many bytes its bubbles take, and by what other chats and
workspaces say of it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path, PureWindowsPath
from typing import Any
from urllib.parse import unquote, urlsplit

from msgspec import structs

from agent_journal.connectors import database
from agent_journal.connectors.base import (
    Discovery,
    Part,
    Reading,
    Source,
    database_files,
    entries,
    items,
    mapping,
    mark_of,
    readable,
    session_key,
    string,
)
from agent_journal.connectors.cursor_bubbles import message_of, model_of, moment, timed
from agent_journal.connectors.cursor_ide import AGENT, DATABASE, WORKSPACES
from agent_journal.connectors.jsonl import MAX_LINE_BYTES, decoded, parsed, sidecar, too_long
from agent_journal.errors import UnreadableSource
from agent_journal.session import Message, Origin, Role, Session, Text, Transcript

GLOBAL = "globalStorage"
_CHATS, _PROMPTS = "workbench.panel.aichat.view.aichat.chatdata", "aiService.prompts"
BESIDE = "beside the chats"  # the name of a part; not of a chat, some of which have none
_PANE, _VIEW = "workbench.panel.composerChatViewPane", "workbench.panel.aichat.view."
_STARTED = re.compile(rb'"sub(?:agentC|C)omposerIds"\s*:\s*\[\s*"')  # in the document of a chat that started others


def sessions(source: Source) -> Generator[Part, None, None]:
    with database.reading(source.path) as db:
        state = _State(db, source)
        yield from state.composers()
        yield from state.old_lists()
        yield state.rest()


@dataclass
class _State:
    """One state database: tables of keys and values."""

    db: database.Database
    source: Source
    reading: Reading = field(default_factory=Reading)  # of the part that is read now
    beside: Reading = field(default_factory=Reading)  # what no chat is to blame for
    bubbles_read: int = 0  # of the chat that is read now
    bubbles_placed: int = 0  # of all chats

    @property
    def is_global(self) -> bool:
        return self.source.path.parent.name == GLOBAL

    @cached_property
    def tables(self) -> frozenset[str]:
        """Either may be missing, and so may both in a file that only has the name."""
        names = ("ItemTable", "cursorDiskKV")
        return frozenset(name for name in names if {"key", "value"} <= database.columns(self.db, name))

    def values(self, table: str, first: str, behind: str) -> Iterator[tuple[str, Any]]:
        """Keys from the first up to the one behind the last, with their JSON: a range, because tables are long."""
        if table not in self.tables:
            return
        for key, value, length in self._raw(table, "value", first, behind):
            if length is None:
                self.reading.skipped["deleted"] += 1
            elif value is None:
                self.reading.bad_line(0, f"{str(key)[:60]}: {too_long()}")
            elif (json := self._json(str(key), value)) is not None:
                yield str(key), json

    def _raw(self, table: str, value: str, first: str, behind: str) -> Iterator[tuple[str, Any, int | None]]:
        """(key, value unless it is too long, its length) of each; `value` is SQL."""
        size = database.length("value")
        kept = f"CASE WHEN {size} <= ? THEN {value} END"
        query = f"SELECT key, {kept}, {size} FROM {table} WHERE key >= ? AND key < ? ORDER BY key"
        return self.db.execute(query, (MAX_LINE_BYTES, first, behind))

    def value(self, table: str, key: str) -> Any:
        return next((value for _, value in self.values(table, key, key + "\0")), None)

    def _json(self, key: str, value: Any) -> Any:
        try:
            return decoded(value if isinstance(value, bytes) else str(value))
        except ValueError as error:
            self.reading.bad_line(0, f"{key[:60]}: {error}")
            return None

    def header(self, composer: str) -> dict[str, Any]:
        """What versions since 3 keep of a chat in a table of its own."""
        wanted = ("isSubagent", "value")
        for row in database.rows(self.db, "composerHeaders", wanted, "WHERE composerId = ?", composer):
            return mapping(self._json(composer, row.get("value") or "{}")) | {"isSubagent": row.get("isSubagent")}
        return {}

    @cached_property
    def own_folder(self) -> str | None:
        """Of a workspace's database, which stands beside the name of its folder."""
        return _folder(self.source.path.parent, self.beside)

    @cached_property
    def folders(self) -> dict[str, str]:
        """Chat -> workspace, as the workspaces' own databases tell; it counts where a chat does not tell itself."""
        found: dict[str, str] = {}
        storage = self.source.path.parent.parent / WORKSPACES
        for entry in entries(storage, Discovery()) if self.is_global else []:
            path = Path(entry.path, DATABASE)
            files = database_files(path) if entry.is_dir(follow_symlinks=False) else ()
            folder = _folder(path.parent, self.beside) if files else None
            if folder is None:
                continue
            try:
                with database.reading(path) as db:
                    named = _State(db, Source(AGENT, path, files), self.beside).shown_composers()
                    found |= {composer: folder for composer in named if composer not in found}
            except UnreadableSource as error:
                self.beside.bad_line(0, error.message)
        return found

    def shown_composers(self) -> Iterator[str]:
        """Chats that this workspace lists, has open, or had open last."""
        listed = mapping(self.value("ItemTable", "composer.composerData"))
        for one in items(listed.get("allComposers")):
            yield string(mapping(one), "composerId") or ""
        for key in ("selectedComposerIds", "lastFocusedComposerIds"):
            yield from (one for one in items(listed.get(key)) if isinstance(one, str))
        for key, panes in self.values("ItemTable", _PANE, _PANE[:-1] + "f"):
            if not key.endswith(".hidden"):
                yield from (name.removeprefix(_VIEW) for name in mapping(panes) if name.startswith(_VIEW))

    # --- the parts ---------------------------------------------------------------------------------------

    def composers(self) -> Iterator[Part]:
        if "cursorDiskKV" not in self.tables:
            return
        documents, parents = self._documents()
        headers = self._headers()
        size = f"SELECT count(*), total({database.length('value')}) FROM cursorDiskKV WHERE key >= ? AND key < ?"
        for name, (document, length) in documents.items():
            count, bubbles = self.db.execute(size, (f"bubbleId:{name}:", f"bubbleId:{name};")).fetchone()
            self.bubbles_placed += count
            parent = parents.get(name)
            told = (document, headers.get(name), count, bubbles, parent, self.own_folder, self.folders.get(name))
            read = partial(self._read, partial(self._composer, name, count, parent))
            yield Part(name, mark_of(*told), partial(int, length + bubbles), read)

    def _documents(self) -> tuple[dict[str, tuple[str, int]], dict[str, str]]:
        """(chat -> the mark of its document and how long that is, chat -> the one that started it)"""
        marks: dict[str, tuple[str, int]] = {}
        parents: dict[str, str] = {}
        for key, value, length in self._raw("cursorDiskKV", "CAST(value AS BLOB)", "composerData:", "composerData;"):
            name = key.partition(":")[2]
            marks[name] = mark_of(value, length), length or 0
            for child in _children(value) if value and _STARTED.search(value) else ():
                parents.setdefault(child, name)
        return marks, parents

    def _headers(self) -> dict[Any, str]:
        held = database.columns(self.db, "composerHeaders")
        if "composerId" not in held:
            return {}
        told: dict[Any, str] = {}
        for row in database.rows(self.db, "composerHeaders", ("composerId", "isSubagent", "value")):
            name = row["composerId"]
            told[name] = mark_of(told.get(name), row.get("isSubagent"), row.get("value"))
        return told

    def _read(self, fill: Callable[[], None]) -> Reading:
        self.reading, self.bubbles_read = Reading(), 0
        with self.db.one_session():
            fill()
        self.reading.skipped = +self.reading.skipped  # without the kinds that were not there
        return self.reading

    def _composer(self, name: str, bubbles: int, parent: str | None) -> None:
        for _, fields in self.values("cursorDiskKV", f"composerData:{name}", f"composerData:{name}\0"):
            made = _Composer(self, name, mapping(fields)).transcripts()
            self.reading.transcripts += [_below(one, parent) for one in made]
        self.reading.skipped["bubble/of no chat"] += max(bubbles - self.bubbles_read, 0)

    def old_lists(self) -> Iterator[Part]:
        """Each is one value."""
        for key, fill in ((_CHATS, self._chats), (_PROMPTS, self._prompts)):
            found = self._raw("ItemTable", "value", key, key + "\0") if "ItemTable" in self.tables else ()
            for _, value, length in found:
                folders = self.folders if key == _CHATS else None
                mark = mark_of(value, length, self.own_folder, folders)
                yield Part(key, mark, partial(int, length or 0), partial(self._read, fill))

    def _chats(self) -> None:
        """The chat panel of 2024, which knows only when a chat was last used."""
        for raw in items(mapping(self.value("ItemTable", _CHATS)).get("tabs")):
            tab = mapping(raw)
            fields = {
                "conversation": tab.get("bubbles"),
                "name": tab.get("chatTitle"),
                "createdAt": tab.get("lastSendTime"),
            }
            if name := string(tab, "tabId"):
                self.reading.transcripts += _Composer(self, name, fields).transcripts()
            else:
                self.reading.skipped["chat without an id"] += 1

    def _prompts(self) -> None:
        """Prompts of a workspace, without answers or times: all that is left of chats that were deleted."""
        texts = [string(mapping(one), "text") for one in items(self.value("ItemTable", _PROMPTS))]
        messages = tuple(Message(Role.USER, (Text(text),)) for text in texts if text and text.strip())
        self.reading.skipped["prompt/empty"] += len(texts) - len(messages)
        if messages:
            name = f"prompts/{readable(self.source.path.parent.name)}"
            self.reading.transcripts.append(Transcript(self.session(name, self.own_folder), messages, second_hand=True))

    def rest(self) -> Part:
        """What belongs to no chat. It was counted with the marks, so nothing is left to be read."""
        query = "SELECT count(*) FROM cursorDiskKV WHERE key >= 'bubbleId:' AND key < 'bubbleId;'"
        every = self.db.execute(query).fetchone()[0] if "cursorDiskKV" in self.tables else 0
        skipped = Counter({"bubble/of no chat": max(every - self.bubbles_placed, 0)}) + self.beside.skipped
        reading = structs.replace(self.beside, skipped=skipped)
        return Part(BESIDE, mark_of(sorted(skipped.items()), reading.bad_lines), int, lambda: reading)

    def session(self, name: str, workspace: str | None, **more: Any) -> Session:
        origin = Origin(path=readable(str(self.source.path)), home=self.source.home)
        return Session(session_key(AGENT, name), name, AGENT, origin, workspace=workspace, **more)


def _folder(place: Path, reading: Reading) -> str | None:
    return _uri_path(string(sidecar(place / "workspace.json", reading), "folder", "workspace"))


def _uri_path(uri: str | None) -> str | None:
    """The folder a file: or vscode-remote: address names, as its own system writes it."""
    try:
        path = unquote(urlsplit(uri or "").path)
    except ValueError:  # brackets that are no address
        return None
    if path[:1] == "/" and path[2:3] == ":":
        return str(PureWindowsPath(path[1].upper() + path[2:]))
    return path or None


def _below(transcript: Transcript, parent: str | None) -> Transcript:
    session = transcript.session
    if parent is None or parent == session.id:
        return transcript
    return structs.replace(
        transcript,
        session=structs.replace(
            session,
            key=session_key(AGENT, session.id, parent),
            id=f"agent-{session.id}",
            is_agent_session=True,
            parent_session_id=parent,
            parent_key=session_key(AGENT, parent),
            agent_id=session.id,
        ),
    )


# One chat.


def _children(document: bytes) -> Iterator[str]:
    try:
        fields = mapping(decoded(document))
    except ValueError:
        return
    for key in ("subagentComposerIds", "subComposerIds"):
        yield from (child for child in items(fields.get(key)) if isinstance(child, str))


def _with_times(messages: Iterator[Message]) -> Iterator[Message]:
    """Versions that wrote no time of a prompt wrote that of its answer, which was begun at once."""
    waiting: Message | None = None
    for message in messages:
        if waiting is not None:
            yield timed(waiting, message.at) if message.at and message.role is Role.ASSISTANT else waiting
        waiting = message if message.role is Role.USER and message.at is None else None
        if waiting is None:
            yield message
    if waiting is not None:
        yield waiting


_TOOL = 15  # the capability whose bubbles are tool calls


@dataclass
class _Composer:
    state: _State
    id: str
    fields: dict[str, Any]
    told_folder: str | None = None  # by a bubble

    def transcripts(self) -> list[Transcript]:
        """One, or none for a chat in which nothing was said."""
        skipped = self.state.reading.skipped
        if self.fields.get("isDraft") is True:
            skipped["draft"] += 1
            return []
        messages = tuple(_with_times(self._messages()))
        if not messages:
            skipped["blank session"] += 1
            return []
        header = self.state.header(self.id)
        subordinate = header.get("isSubagent") == 1 or self.fields.get("isBestOfNSubcomposer") is True
        session = self.state.session(
            self.id,
            self._workspace(header),
            title=string(self.fields, "name", "subtitle") or string(header, "name", "subtitle"),
            git_branch=string(self.fields, "createdOnBranch"),
            is_agent_session=subordinate or self.id.startswith("task-"),
        )
        return [Transcript(session, messages, second_hand=not self.state.is_global)]

    def _workspace(self, header: dict[str, Any]) -> str | None:
        for fields in (header, self.fields):
            for outer, inner in (("workspaceIdentifier", None), ("agentLocation", "environment")):
                place = mapping(fields.get(outer))
                uri = mapping((mapping(place.get(inner)) if inner else place).get("uri"))
                if path := string(uri, "fsPath", "path"):
                    return path
            for repository in items(fields.get("trackedGitRepos"))[:1]:
                if path := string(mapping(repository), "repoPath"):
                    return path
        return self.state.own_folder or self.state.folders.get(self.id) or self.told_folder

    def _messages(self) -> Iterator[Message]:
        model, tools = model_of(self.fields.get("modelConfig")), self._old_tools()
        started = moment(self.fields.get("createdAt"))
        for name, bubble in self._bubbles():
            self.state.reading.lines += 1
            told = string(bubble, "workspaceProjectDir") or next(iter(items(bubble.get("workspaceUris"))), None)
            if self.told_folder is None and isinstance(told, str):
                self.told_folder = _uri_path(told) if "://" in told else told
            tool = mapping(tools.get(name or ""))
            if message := message_of(bubble, name, tool, started, self.state.reading.skipped):
                started = None
                answers = message.role is Role.ASSISTANT and message.model is None
                yield structs.replace(message, model=model) if answers else message

    def _bubbles(self) -> Iterator[tuple[str | None, dict[str, Any]]]:
        """In their order: inline in the first versions, then in a map, then in rows of their own."""
        for raw in items(self.fields.get("conversation")):
            yield string(mapping(raw), "bubbleId", "id"), mapping(raw)
        held = mapping(self.fields.get("conversationMap"))
        headers = items(self.fields.get("fullConversationHeadersOnly"))
        names = [string(mapping(h), "bubbleId") for h in headers] or list(held)
        once = dict.fromkeys(names)  # a large bubble, read as often as it is listed, would fill memory
        self.state.reading.skipped["bubble/listed again"] += len(names) - len(once)
        for name in once:
            bubble = held.get(name or "")
            if bubble is None and name:
                bubble = self.state.value("cursorDiskKV", f"bubbleId:{self.id}:{name}")
                self.state.bubbles_read += bubble is not None
            if isinstance(bubble, dict):
                yield name, bubble
            else:
                self.state.reading.skipped["bubble/missing"] += 1

    def _old_tools(self) -> dict[str, Any]:
        """Tool calls as the first versions kept them: beside the bubbles."""
        found: dict[str, Any] = {}
        for raw in items(self.fields.get("capabilities")):
            kept = mapping(mapping(raw).get("data")).get("bubbleDataMap")
            if mapping(raw).get("type") == _TOOL:
                found |= mapping(parsed(kept))
        return found
