"""The unified model: what every agent's session becomes. Values only; no I/O.

A message is an ordered list of blocks as they came. Agents stream one message as several records and
answer a tool call many lines later; each block therefore keeps the uuid, parent and time of the record
it came from, so that merging loses nothing and the tree of records can be rebuilt.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import datetime
from enum import StrEnum
from pathlib import PurePosixPath, PureWindowsPath
from typing import Any

from msgspec import Struct


class Role(StrEnum):
    USER = "user"
    ASSISTANT = "assistant"
    SYSTEM = "system"
    TOOL = "tool"  # only a result whose call was never seen; others live in their ToolCall


class ToolType(StrEnum):
    WRITE = "write"
    READ = "read"
    SEARCH = "search"
    SHELL = "shell"
    TASK = "task"
    GENERIC = "generic"
    UNKNOWN = "unknown"


class Usage(Struct, frozen=True, omit_defaults=True):
    """Tokens of one model answer, or of a whole session where the agent reports only that."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_creation_tokens: int = 0
    cache_read_tokens: int = 0
    cache_creation_5m_tokens: int = 0
    cache_creation_1h_tokens: int = 0
    service_tier: str | None = None

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cache_creation_tokens + other.cache_creation_tokens,
            self.cache_read_tokens + other.cache_read_tokens,
            self.cache_creation_5m_tokens + other.cache_creation_5m_tokens,
            self.cache_creation_1h_tokens + other.cache_creation_1h_tokens,
            self.service_tier or other.service_tier,
        )

    @property
    def total_tokens(self) -> int:
        return self.input_tokens + self.output_tokens

    @property
    def cache_hit_rate(self) -> float | None:
        """None where no cache was told of."""
        seen = self.cache_read_tokens + self.cache_creation_tokens
        return self.cache_read_tokens / seen if seen else None


class Text(Struct, frozen=True, omit_defaults=True, tag_field="block", tag="text"):
    text: str
    uuid: str | None = None
    parent_uuid: str | None = None
    at: datetime | None = None


class Thinking(Struct, frozen=True, omit_defaults=True, tag_field="block", tag="thinking"):
    text: str
    uuid: str | None = None
    parent_uuid: str | None = None
    at: datetime | None = None


class Attachment(Struct, frozen=True, omit_defaults=True, tag_field="block", tag="attachment"):
    """An image, document or file reference. Its bytes are never kept."""

    kind: str  # "image", "document", "file", ...
    name: str = ""  # path or display name
    media_type: str = ""
    text: str = ""  # a quoted selection, if short
    uuid: str | None = None
    parent_uuid: str | None = None
    at: datetime | None = None


class ToolCall(Struct, frozen=True, omit_defaults=True, tag_field="block", tag="tool"):
    """One use of a tool with its answer, joined by id however far apart the two records were."""

    id: str
    name: str
    type: ToolType = ToolType.UNKNOWN
    arguments: Any = None  # JSON as the agent wrote it: an object, or a string for custom tools
    result: str | None = None
    success: bool | None = None  # None: no result was seen
    result_uuid: str | None = None
    result_parent_uuid: str | None = None
    result_at: datetime | None = None
    paths: tuple[str, ...] = ()  # files it names; absolute or relative to the workspace; never expanded globs
    agent_session: str | None = None  # key of the sub-agent session it started
    details: dict[str, Any] = {}  # small facts beside the result: exit code, interrupted, duration, url
    uuid: str | None = None
    parent_uuid: str | None = None
    at: datetime | None = None


Block = Text | Thinking | Attachment | ToolCall


class Message(Struct, frozen=True, omit_defaults=True):
    role: Role
    blocks: tuple[Block, ...]
    uuid: str | None = None  # the agent's own id of the first record; None where it has none
    parent_uuid: str | None = None
    at: datetime | None = None  # aware, UTC
    model: str | None = None
    api_id: str | None = None  # the model provider's message id: tokens are counted once per api_id
    request_id: str | None = None
    stop_reason: str | None = None
    stop_sequence: str | None = None
    usage: Usage | None = None
    cwd: str | None = None
    git_branch: str | None = None
    agent_version: str | None = None
    user_type: str | None = None
    is_meta: bool = False  # written by the agent or a hook, not said by a person or the model
    is_sidechain: bool = False
    is_compaction: bool = False  # a summary that stands for earlier messages
    is_error: bool = False  # the agent's own error message (API error, abort)
    extensions: dict[str, Any] = {}  # agent-specific facts that fit nowhere else

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        return tuple(b for b in self.blocks if isinstance(b, ToolCall))

    @property
    def text(self) -> str:
        return "\n\n".join(b.text for b in self.blocks if isinstance(b, Text) and b.text)

    @property
    def thinking(self) -> str:
        return "\n\n".join(b.text for b in self.blocks if isinstance(b, Thinking) and b.text)

    @property
    def is_human(self) -> bool:
        """A turn of the person: what turn_count counts and titles are made from."""
        return self.role is Role.USER and not self.is_meta and not self.is_sidechain and bool(self.text.strip())


LOCAL = "local"  # the home of whoever asks


class Origin(Struct, frozen=True, omit_defaults=True):
    """Where a session was read, and on which machine."""

    path: str
    type: str = "local"  # local | wsl | windows | remote
    host: str | None = None
    home: str = LOCAL  # label of the home directory


class Session(Struct, frozen=True, omit_defaults=True):
    """Facts a connector knows of a session. What follows from its messages is in Derived."""

    key: str  # names it among those of all agents: see connectors.base.session_key
    id: str  # the agent's own id
    agent: str
    origin: Origin
    title: str | None = None  # given by agent or user; Derived.title falls back to summary and first prompt
    summary: str | None = None
    slug: str | None = None
    workspace: str | None = None
    workspace_encoded: str | None = None
    git_branch: str | None = None
    agent_version: str | None = None
    is_agent_session: bool = False
    parent_session_id: str | None = None
    parent_key: str | None = None
    agent_id: str | None = None
    usage: Usage | None = None  # the agent's own totals, where it gives them; else summed from messages
    extensions: dict[str, Any] = {}


class Derived(Struct, frozen=True):
    """What follows from a session's messages; computed here and nowhere else."""

    title: str
    project: str
    started_at: datetime | None
    ended_at: datetime | None
    message_count: int
    turn_count: int  # human turns
    user_record_count: int  # every message with role user, whoever wrote it
    tool_call_count: int
    error_count: int  # tool calls that failed
    usage: Usage

    @property
    def duration_seconds(self) -> float:
        if self.started_at is None or self.ended_at is None:
            return 0.0
        return (self.ended_at - self.started_at).total_seconds()


class Transcript(Struct, frozen=True):
    """One session as a connector read it."""

    session: Session
    messages: tuple[Message, ...]
    # Known only second-hand (prompt history, progress echoed in the parent): gives way to a session of
    # its own file, and never replaces one.
    second_hand: bool = False


TITLE_CHARS = 80
TIME_OF_FILE = "time_of_file"  # in Session.extensions: when its file was written, where no message tells a time


def project_name(workspace: str | None) -> str:
    """The last component of the path, of either operating system."""
    if not workspace:
        return ""
    if "\\" in workspace and "/" not in workspace:
        return PureWindowsPath(workspace).name
    return PurePosixPath(workspace).name


def shortened(text: str, limit: int = TITLE_CHARS) -> str:
    """One line, cut at a word."""
    line = " ".join(text.lstrip()[: limit * 8].split())
    if len(line) <= limit:
        return line
    head = line[: limit - 1]
    cut = head.rfind(" ")
    return (head[:cut] if cut > limit // 2 else head) + "…"


_MARKUP = re.compile(r"<(/?)[A-Za-z][\w-]*[^<>]{0,200}>")


def prompt_title(text: str) -> str:
    """A title made of a prompt: markup and Markdown heading marks removed, cut at a word."""
    return shortened(_MARKUP.sub(" ", text.lstrip()[: TITLE_CHARS * 16]).strip().lstrip("#>*- "))


def usage_once(messages: Iterable[Message]) -> Iterator[Usage]:
    """One Usage per model answer: agents repeat it on every record of a streamed message."""
    best: dict[str, Usage] = {}
    for message in messages:
        usage = message.usage
        if usage is None:
            continue
        if message.api_id is None:
            yield usage
            continue
        kept = best.get(message.api_id)
        if kept is None or usage.output_tokens > kept.output_tokens:
            best[message.api_id] = usage
    yield from best.values()


def derive(session: Session, messages: Iterable[Message]) -> Derived:
    seen = list(messages)
    times = [m.at for m in seen if m.at is not None]
    calls = [c for m in seen for c in m.tool_calls]
    human = [m for m in seen if m.is_human]
    title = session.title or session.summary or ""
    if not title:
        title = next(filter(None, (prompt_title(m.text) for m in human)), "")
    total = Usage()
    for usage in usage_once(seen):
        total = total + usage
    return Derived(
        title=shortened(title),
        project=project_name(session.workspace),
        started_at=min(times, default=None),
        ended_at=max(times, default=None),
        message_count=len(seen),
        turn_count=len(human),
        user_record_count=sum(m.role is Role.USER for m in seen),
        tool_call_count=len(calls),
        error_count=sum(c.success is False for c in calls),
        usage=session.usage or total,
    )


# What kind of thing a tool does, by the names today's agents use. Compared in lower case without "_" and "-".
_TOOL_TYPES = {
    ToolType.WRITE: "write edit multiedit notebookedit createfile create strreplaceeditor strreplace applypatch "
    "replace writefile editfile insert patch searchreplace multistrreplace delete deletefile editfilev2",
    ToolType.READ: "read cat viewfile view readfile readmanyfiles notebookread open listdirectory ls "
    "listdir readfilev2",
    ToolType.SEARCH: "grep glob find websearch webfetch search ripgrep rg toolsearch fetch codesearch "
    "searchfilecontent googlewebsearch grepsearch codebasesearch filesearch globfilesearch",
    ToolType.SHELL: "bash execute runcommand shell powershell runshellcommand localshell execcommand "
    "shellcommand exec bashoutput killshell readbash writebash stopbash writestdin runterminalcmd "
    "runterminalcommandv2",
    ToolType.TASK: "todowrite todoread taskmanager task agent taskcreate taskupdate tasklist taskget "
    "taskoutput taskstop writetodos spawnagent waitagent updatetodo updateplan sql taskv2",
    ToolType.GENERIC: "exitplanmode enterplanmode askuserquestion askuser skill slashcommand reportintent "
    "listmcpresources readmcpresource sendmessage",
}
_TYPE_OF = {name: kind for kind, names in _TOOL_TYPES.items() for name in names.split()}


def tool_type(name: str) -> ToolType:
    known = _TYPE_OF.get(name.lower().replace("_", "").replace("-", ""))
    if known:
        return known
    return ToolType.GENERIC if name.startswith("mcp__") else ToolType.UNKNOWN


class StoredSession(Struct, frozen=True):
    """A session as the journal holds it."""

    row: int
    session: Session
    derived: Derived
    gone: bool  # its source is no longer on disk; the journal's copy is whole
    handle: str  # the shortest text that names it and no other


class StoredMessage(Struct, frozen=True):
    """A message as the journal holds it."""

    id: int  # survives every re-parse
    session: int  # StoredSession.row
    ordinal: int  # 1-based, in file order, never renumbered
    message: Message
    vanished: bool  # stored earlier, no longer in its source


class Account(Struct, frozen=True):
    """A session as it is given away: what is left of it after paring and redaction."""

    session: Session
    derived: Derived  # of the whole session, whatever was left out of the messages
    messages: tuple[Message, ...]
    ordinals: tuple[int, ...]  # of the messages, as `aj show` counts them
    resumable: bool = False  # its agent can go on with it, here


class Resume(Struct, frozen=True):
    """The command that continues a session in its own agent."""

    argv: tuple[str, ...]
    cwd: str | None = None
