"""Secrets replaced by numbered placeholders, in a text or a whole session. What a secret is: redaction_rules.

A placeholder is of letters, digits and hyphens, so that JSON, Markdown, HTML, a shell line and a URL stay what they
were. It is numbered by first appearance and not hashed: a hash of a weak password can be guessed. The same secret has
the same placeholder wherever one Redactor meets it, and placeholders are never replaced again.

Rules of our own, not a library: detect-secrets 1.5 finds fewer of today's key shapes (bench/redaction.py has the
figures), takes seconds for a MB, reports lines and not places, and brings an HTTP client to verify keys with.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from msgspec import Struct, structs

from agent_journal.redaction_hidden import shown
from agent_journal.redaction_keys import Found
from agent_journal.redaction_rules import PLACEHOLDER, Known, assigned, is_telling, secrets, spelled
from agent_journal.session import (
    Account,
    Attachment,
    Block,
    Derived,
    Message,
    Session,
    StoredMessage,
    StoredSession,
    Text,
    Thinking,
    ToolCall,
    project_name,
)

T = TypeVar("T")
S = TypeVar("S", bound=Struct)

# A replacement can bring a name and a random word close enough for another look to find them; a few looks settle it.
_LOOKS = 10
# Folders, branches and tool names come with every message: more than half of all strings, and read only once.
_SHORT, _MOST_SHORT = 300, 20_000


class Redactor:
    """Remembers what it replaced: use one for all that leaves in one run."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()  # kind -> places replaced
        self._placeholders: dict[str, str] = {}
        self._numbers: Counter[str] = Counter()
        self._met: dict[str, str] = {}  # secret -> kind, of the account at hand
        self._known: Known | None = None
        self._clean: set[str] = set()

    def text(self, text: str) -> str:
        if text in self._clean and self._known is None:
            return text
        redacted = self._settled(text)
        if len(text) < _SHORT and redacted is text and len(self._clean) < _MOST_SHORT:
            self._clean.add(text)
        return redacted

    def _settled(self, text: str) -> str:
        for _ in range(_LOOKS):
            found = secrets(text, self._known)
            if not found:
                break
            text = self._replaced(text, found)
        return text

    def value(self, value: Any, name: str = "") -> Any:
        """JSON of any depth. A string under a name like `password` is judged by that name, too."""
        if isinstance(value, str):
            found = assigned(name, value) if name else None
            if found and not PLACEHOLDER.fullmatch(value, found.start, found.end):
                value = self._replaced(value, [found])
            return self.text(value)
        if isinstance(value, dict):
            return _same(value, {k: self.value(v, k if isinstance(k, str) else "") for k, v in value.items()})
        if isinstance(value, list | tuple):
            return _same(value, type(value)(self.value(v, name) for v in value))
        return value

    def account(self, account: Account) -> Account:
        """Ids, times, roles and models stay; every string that may carry what someone typed or a tool printed is read.

        Read twice if it holds secrets: a key that one place names as such may stand bare in another.
        """
        self._met.clear()
        workspace = account.session.workspace or ""
        account = self._read(account)
        if any(map(is_telling, self._met)):
            telling = {s: kind for s, kind in self._met.items() if is_telling(s)}
            folders = {self._as_folder(s): kind for s, kind in telling.items() if s in workspace}
            self._known = Known.of(telling | folders)
            account = self._read(account)
            self._known = None
        return account

    def conversation(
        self, session: StoredSession, messages: Sequence[StoredMessage]
    ) -> tuple[StoredSession, list[StoredMessage]]:
        """A session and some of its messages, as `account` reads them: together."""
        said, ordinals = tuple(m.message for m in messages), tuple(m.ordinal for m in messages)
        read = self.account(Account(session.session, session.derived, said, ordinals))
        shown = [_changed(m, message=one) for m, one in zip(messages, read.messages, strict=True)]
        return _changed(session, session=read.session, derived=read.derived), shown

    def message(self, stored: StoredMessage) -> StoredMessage:
        return _changed(stored, message=self._message(stored.message))

    def session(self, stored: StoredSession) -> StoredSession:
        return self.conversation(stored, ())[0]

    def announced(self, session: Session) -> Session:
        """Its workspace with the placeholders it will have. They are counted where the session itself is written."""
        counts = self.counts.copy()
        session = _changed(session, **self._texts(session, ("workspace",)))
        self.counts = counts
        return session

    def _read(self, account: Account) -> Account:
        session = self._session(account.session)
        return _changed(
            account,
            session=session,
            derived=self._derived(account.derived, session, account.session),
            messages=_same(account.messages, tuple(map(self._message, account.messages))),
        )

    def _derived(self, derived: Derived, session: Session, before: Session) -> Derived:
        # The project is a part of the workspace, whose secret is counted already.
        same = session.workspace is before.workspace
        project = self.text(derived.project) if same else project_name(session.workspace)
        return _changed(derived, title=self.text(derived.title), project=project)

    def _session(self, session: Session) -> Session:
        origin = _changed(session.origin, path=self.text(session.origin.path))
        names = ("title", "summary", "slug", "workspace", "workspace_encoded", "git_branch")
        return _changed(
            session, origin=origin, extensions=self.value(session.extensions), **self._texts(session, names)
        )

    def _message(self, message: Message) -> Message:
        return _changed(
            message,
            blocks=_same(message.blocks, tuple(_BLOCKS[type(b)](self, b) for b in message.blocks)),
            extensions=self.value(message.extensions),
            **self._texts(message, ("cwd", "git_branch", "stop_sequence")),
        )

    def _words(self, block: Text | Thinking) -> Block:
        return _changed(block, **self._texts(block, ("text",)))

    def _attachment(self, block: Attachment) -> Block:
        return _changed(block, **self._texts(block, ("text", "name")))

    def _tool(self, call: ToolCall) -> Block:
        return _changed(
            call,
            arguments=self.value(call.arguments),
            details=self.value(call.details),
            paths=self.value(call.paths),
            **self._texts(call, ("result",)),
        )

    def _texts(self, value: Any, names: tuple[str, ...]) -> dict[str, Any]:
        return {name: self.value(getattr(value, name)) for name in names}

    def _replaced(self, text: str, found: list[Found]) -> str:
        pieces, end = [], 0
        for one in found:
            pieces += [text[end : one.start], self._placeholder(text[one.start : one.end], one.kind)]
            end = one.end
        return "".join([*pieces, text[end:]])

    def _placeholder(self, secret: str, kind: str) -> str:
        secret = shown(secret)
        self.counts[kind] += 1
        self._met.setdefault(secret, kind)
        known = self._placeholders.get(spelled(secret))
        if known is None:
            self._numbers[kind] += 1
            known = self._placeholders[spelled(secret)] = f"REDACTED-{kind}-{self._numbers[kind]}"
        return known

    def _as_folder(self, secret: str) -> str:
        """As it stands in the name of a folder that an agent made of a workspace's path."""
        folder = re.sub(r"[^A-Za-z0-9]", "-", secret)
        self._placeholders.setdefault(folder, self._placeholders[spelled(secret)])
        return folder


_BLOCKS: dict[type[Block], Callable[[Redactor, Any], Block]] = {
    Text: Redactor._words,
    Thinking: Redactor._words,
    Attachment: Redactor._attachment,
    ToolCall: Redactor._tool,
}


def _changed(value: S, **fields: Any) -> S:
    """With these fields; itself if they are what it has, as nearly always."""
    if all(getattr(value, name) is field for name, field in fields.items()):
        return value
    return structs.replace(value, **fields)


def _same(old: T, new: T) -> T:
    """The old collection if the new one holds the very same things."""
    pairs = zip(*(v.values() if isinstance(v, dict) else v for v in (old, new)), strict=True)
    return old if all(a is b for a, b in pairs) else new
