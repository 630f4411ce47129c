"""How a reading becomes rows: merged message by message. Ids and ordinals survive, nothing stored is lost."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import msgspec
from msgspec import Struct, structs

from agent_journal.index import codec, forgotten
from agent_journal.index.codec import path_value
from agent_journal.index.forgotten import Forgotten
from agent_journal.index.guard import guarded
from agent_journal.index.merge import completed, completed_message, grew_into, merged_message, merged_session
from agent_journal.index.said import Said
from agent_journal.index.store import CHOSEN, IMPORTED, Store
from agent_journal.session import Message, Role, Session, Transcript, derive

TOLD_LATER = ("title", "summary", "slug", "git_branch", "agent_version", "usage")  # facts that not every export has
MOST_COMPARED = 50  # messages of one moment that a changed one without an id may have been


class Merged(Struct):
    """What one source changed."""

    sessions_new: int = 0
    sessions_changed: int = 0
    messages_new: int = 0
    messages_changed: int = 0
    forgotten: int = 0  # sessions that the user had forgotten: left out

    def __iadd__(self, other: Merged) -> Merged:
        for name in Merged.__struct_fields__:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        return self


class _Owner(Struct, frozen=True):
    """The stored session that a transcript would join."""

    row: int
    source: int
    second_hand: bool
    source_gone: bool
    facts: bytes
    head: int | None


class _Row(Struct):
    identity: int
    id: int
    ordinal: int
    digest: int
    stamp: int
    prompt: int | None
    vanished: bool


class Intake:
    """Merges transcripts into the journal. The caller holds the write lock and the transaction."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.db = store.db
        self.forgotten = Forgotten(store)
        self.made: set[int] = set()  # sessions that are new in this run, and stay so when they are read again
        self.repeats = bool(store.number("SELECT count(*) FROM session WHERE second_hand"))  # there may be some
        self.written: dict[int, Message] = {}  # by id, as they stand now, until the caller clears it

    def admitted(
        self, source_path: str, transcripts: Sequence[Transcript]
    ) -> tuple[Sequence[Transcript], Mapping[str, int]]:
        """Without what the user had forgotten, and how much of it there was, by kind."""
        with guarded(self.store.path):
            if self.forgotten.empty:
                return transcripts, {}
            kept = [t for t in transcripts if not self._is_forgotten(t.session, source_path)]
            left_out = Counter({forgotten.KIND: len(transcripts) - len(kept)})
            for place, transcript in enumerate(kept):
                if transcript.second_hand and _only_prompts(transcript.messages):
                    facts = transcript.session
                    said = tuple(m for m in transcript.messages if not self.forgotten.holds_prompt(facts, m))
                    left_out[forgotten.PROMPT] += len(transcript.messages) - len(said)
                    kept[place] = structs.replace(transcript, messages=said)
        return kept, +left_out

    def _is_forgotten(self, session: Session, source_path: str) -> bool:
        """By its key, wherever the file lies now. A second file of the same id that was not forgotten stays."""
        copy = _copy_key(session.key, source_path)
        if self.forgotten.holds(session.key) and self._owner(copy) is None:
            return True
        return self.forgotten.holds(copy, *forgotten.above(session))

    def merge(self, source: int, source_path: str, transcripts: Sequence[Transcript]) -> Merged:
        transcripts, left_out = self.admitted(source_path, transcripts)
        merged = Merged(forgotten=left_out.get(forgotten.KIND, 0))
        with guarded(self.store.path):
            for transcript in transcripts:
                self._merge_one(source, source_path, transcript, merged)
        return merged

    # --- from an export ----------------------------------------------------------------------------------

    def import_source(self, kind: str, path: str) -> int:
        """The source of imported sessions. It counts as gone: a session's own file takes over from it."""
        row = self.db.execute(
            "INSERT INTO source (agent, home, path, fingerprint, parser_version, status, gone) "
            "VALUES (?, ?, ?, '', 0, 'read', 1) ON CONFLICT (agent, home, path) DO UPDATE SET gone = 1 RETURNING id",
            (kind, kind, path_value(path)),
        ).fetchone()
        return int(row[0])

    def add(self, source: int, source_path: str, transcripts: Sequence[Transcript]) -> Merged:
        """Merge what was exported once. A session that is here gets what it lacks, and keeps what it has: an export may
        be older, redacted or forged, and what an agent wrote may be nowhere else."""
        merged = Merged()
        for transcript in transcripts:
            owner = self._owner(transcript.session.key) or self._same_file(transcript.session)
            original, copy, _ = transcript.session.key.partition("~")
            if owner is None and copy and self.forgotten.holds(original):
                merged.forgotten += 1
            elif owner is None:
                merged += self.merge(source, source_path, [transcript])
            elif self._is_import(owner.source):
                self._fill(owner, transcript, merged, vanished=False)
            elif self._count(owner.row) < len(transcript.messages):
                self._fill(owner, transcript, merged, vanished=True)
        return merged

    def _same_file(self, session: Session) -> _Owner | None:
        """Not every export has our keys: the same id from the same file is the same session."""
        rows = self.db.execute("SELECT key, facts FROM session WHERE native_id = ?", (session.id,)).fetchall()
        for key, facts in rows:
            known = codec.session_of(facts)
            if (known.agent, known.origin.path) == (session.agent, session.origin.path):
                return self._owner(key)
        return None

    def _is_import(self, source: int) -> bool:
        return bool(self.store.number("SELECT agent = ? FROM source WHERE id = ?", (IMPORTED, source)))

    def _count(self, session: int) -> int:
        return self.store.number("SELECT count(*) FROM message WHERE session = ?", (session,))

    def _fill(self, owner: _Owner, transcript: Transcript, merged: Merged, *, vanished: bool) -> None:
        """Add messages that are missing; of those that came from an import before, let grow what has grown."""
        seq, rows = self.store.next_seq(), self._rows(owner.row)
        last = max((r.ordinal for r in rows.values()), default=0)
        before = merged.messages_new + merged.messages_changed
        planned = _planned(transcript.messages)
        said = Said(m.message for m in self.store.messages(owner.row)) if planned.keys() - rows.keys() else Said(())
        for message in (message for identity, (_, message) in planned.items() if identity in rows):
            said.take(message)
        for identity, (digest, message) in planned.items():
            if identity not in rows:
                if said.holds(message):
                    continue
                last += 1
                number = self._insert(owner.row, last, identity, digest, message, seq)
                self.db.execute("UPDATE message SET vanished = ? WHERE id = ?", (vanished, number))
                merged.messages_new += 1
            elif not vanished and _grown(old := self._body(rows[identity].id), message):
                self._update(rows[identity], completed_message(old, message), seq, merged)
        known = codec.session_of(owner.facts)
        session = known if vanished else completed(known, transcript.session, TOLD_LATER)
        if session == known and merged.messages_new + merged.messages_changed == before:
            return
        kept = [(m.id, m.message) for m in self.store.messages(owner.row)]
        self._write_session(owner.row, owner.source, session, False, owner, kept, seq)
        merged.sessions_changed += 1

    def _merge_one(self, source: int, source_path: str, transcript: Transcript, merged: Merged) -> None:
        owner, key = self._place(source, source_path, transcript)
        if owner is not None and transcript.second_hand and owner.source != source:
            return
        self.repeats |= transcript.second_hand
        session = structs.replace(transcript.session, key=key)
        messages = self._unheld(session, transcript) if transcript.second_hand else transcript.messages
        if owner is None and not messages:
            return
        seq = self.store.next_seq()
        row = owner.row if owner is not None else self._insert_session(source, session, transcript.second_hand)
        before = merged.messages_new + merged.messages_changed
        gives_way = self._echo_of(owner, session, transcript)
        kept, lost_some = self._merge_messages(row, messages, seq, merged, gives_way)
        if not kept:
            self.db.execute("DELETE FROM session WHERE id = ?", (row,))  # it all stands in transcripts now
            return
        if owner is not None and lost_some:
            session = merged_session(codec.session_of(owner.facts), session)
        facts_changed = self._write_session(row, source, session, transcript.second_hand, owner, kept, seq)
        if not transcript.second_hand:
            self._take_over(row, session, seq)
        if owner is None:
            merged.sessions_new += 1
            self.made.add(row)
        elif row not in self.made and (facts_changed or merged.messages_new + merged.messages_changed > before):
            merged.sessions_changed += 1

    # --- which session -----------------------------------------------------------------------------------

    def _place(self, source: int, source_path: str, transcript: Transcript) -> tuple[_Owner | None, str]:
        """The session to join and its key. A second live file with the same id is a session of its own."""
        key = transcript.session.key
        owner, copy = self._owner(key), _copy_key(key, source_path)
        if owner is None and self.forgotten.holds(key):
            return self._owner(copy), copy
        if owner is None or owner.source == source or transcript.second_hand:
            return owner, key
        own = self._owner(copy)
        if own is None and (owner.second_hand or owner.source_gone):
            return owner, key
        return own, copy

    def _owner(self, key: str) -> _Owner | None:
        row = self.db.execute(
            "SELECT s.id, s.source, s.second_hand, c.gone, s.facts, s.head FROM session s "
            "JOIN source c ON c.id = s.source WHERE s.key = ?",
            (key,),
        ).fetchone()
        return None if row is None else _Owner(row[0], row[1], bool(row[2]), bool(row[3]), row[4], row[5])

    # --- what is known second-hand -----------------------------------------------------------------------

    def _unheld(self, session: Session, transcript: Transcript) -> tuple[Message, ...]:
        """Prompts of the history that no transcript of the same workspace holds."""
        if not _only_prompts(transcript.messages):
            return transcript.messages
        return tuple(m for m in transcript.messages if not self._held(session, codec.prompt_of(m)))

    def _held(self, session: Session, prompt: int | None) -> bool:
        if prompt is None:
            return False
        found = self.db.execute(
            "SELECT 1 FROM message m JOIN session s ON s.id = m.session "
            "WHERE m.prompt = ? AND s.key != ? AND s.workspace IS ? AND NOT s.second_hand LIMIT 1",
            (prompt, session.key, session.workspace),
        )
        return found.fetchone() is not None

    def _echo_of(self, owner: _Owner | None, session: Session, transcript: Transcript) -> Callable[[_Row], bool]:
        """Tells the stored messages that only repeat, from the prompt history, what a transcript holds."""
        if transcript.second_hand:
            history = _only_prompts(transcript.messages)
            return lambda row: history and self._held(session, row.prompt)
        held = {codec.prompt_of(m) for m in transcript.messages} - {None}
        adopting = owner is not None and owner.second_hand
        return lambda row: row.prompt in held and (adopting or _is_echo(self._body(row.id)))

    def _take_over(self, session: int, facts: Session, seq: int) -> None:
        """Prompts that were known only from the history and stand in a transcript now: shown once, there."""
        if not self.repeats:
            return  # "continue" stands in thousands of sessions: each would be compared with all others
        prompts = self.db.execute(
            "SELECT DISTINCT prompt FROM message WHERE session = ? AND changed_seq = ? AND prompt IS NOT NULL",
            (session, seq),
        ).fetchall()
        if not prompts:
            return
        # From the few sessions to the prompt: all messages that say "continue" are many.
        found = self.db.execute(
            "SELECT s.key FROM session s WHERE s.second_hand AND s.workspace IS ? AND s.id != ? AND EXISTS ("
            f"SELECT 1 FROM message m WHERE m.prompt IN {CHOSEN} AND m.session = s.id)",
            (facts.workspace, session, json.dumps([prompt for (prompt,) in prompts])),
        ).fetchall()
        for (key,) in found:
            self._give_way(key, seq)

    def _give_way(self, key: str, seq: int) -> None:
        owner = self._owner(key)
        assert owner is not None
        facts = codec.session_of(owner.facts)
        rows = self.db.execute(
            "SELECT id, digest, prompt, body FROM message WHERE session = ? ORDER BY ordinal", (owner.row,)
        ).fetchall()
        messages = [(row[0], self.store.message_of(row[3])) for row in rows]
        if not _only_prompts([message for _, message in messages]):
            return
        held = {number for number, _, prompt, _ in rows if self._held(facts, prompt)}
        for number, digest, _, _ in rows:
            if number in held:
                self._delete(number, digest, seq)
        kept = [(number, message) for number, message in messages if number not in held]
        if kept:
            self._write_session(owner.row, owner.source, facts, True, owner, kept, seq)
        else:
            self.db.execute("DELETE FROM session WHERE id = ?", (owner.row,))

    # --- messages ----------------------------------------------------------------------------------------

    def _merge_messages(
        self, session: int, messages: Sequence[Message], seq: int, merged: Merged, gives_way: Callable[[_Row], bool]
    ) -> tuple[list[tuple[int, Message]], bool]:
        """All messages of the session with their ids, in order, and whether the source no longer holds some."""
        rows = self._rows(session)
        planned = _planned(messages)
        self._recognize(rows, planned)
        for row in [r for r in _unmatched(rows, planned) if gives_way(r)]:
            self._delete(row.id, row.digest, seq)
            del rows[row.identity]
        lost = _unmatched(rows, planned)
        kept: list[tuple[int, int, Message]] = []
        last = max((r.ordinal for r in rows.values()), default=0)
        for identity, (digest, message) in planned.items():
            old = rows.get(identity)
            if old is None:
                last += 1
                number = self._insert(session, last, identity, digest, message, seq)
                merged.messages_new += 1
                kept.append((last, number, message))
            else:
                message = self._update(old, message, seq, merged)
                kept.append((old.ordinal, old.id, message))
        for row in lost:
            if not row.vanished:
                self.db.execute("UPDATE message SET vanished = 1 WHERE id = ?", (row.id,))
            kept.append((row.ordinal, row.id, self._body(row.id)))
        if lost:
            kept.sort(key=lambda k: k[0])
        return [(number, message) for _, number, message in kept], bool(lost)

    def _rows(self, session: int) -> dict[int, _Row]:
        found = self.db.execute(
            "SELECT identity, id, ordinal, digest, stamp, prompt, vanished FROM message WHERE session = ?", (session,)
        )
        return {r[0]: _Row(r[0], r[1], r[2], r[3], r[4], r[5], bool(r[6])) for r in found}

    def _recognize(self, rows: dict[int, _Row], planned: Mapping[int, tuple[int, Message]]) -> None:
        """A message without an id of its own that grew is known by what it said before."""
        grown = [(i, m) for i, (_, m) in planned.items() if m.uuid is None and i not in rows]
        if not grown:
            return
        loose: dict[object, list[tuple[_Row, Message]]] = {}
        for row in _unmatched(rows, planned):
            body = self._body(row.id)
            loose.setdefault((body.role, body.at), []).append((row, body))
        for identity, message in grown:
            near = loose.get((message.role, message.at), [])
            found = next((pair for pair in near[:MOST_COMPARED] if grew_into(pair[1], message)), None)
            if found is not None:
                near.remove(found)
                row = rows.pop(found[0].identity)
                self.db.execute("UPDATE message SET identity = ? WHERE id = ?", (identity, row.id))
                row.identity = identity
                rows[identity] = row

    def _body(self, number: int) -> Message:
        return self.store.message_of(self.db.execute("SELECT body FROM message WHERE id = ?", (number,)).fetchone()[0])

    def _delete(self, number: int, digest: int, seq: int) -> None:
        self.written.pop(number, None)
        self.db.execute("DELETE FROM message WHERE id = ?", (number,))
        self.db.execute("INSERT INTO tombstone VALUES (?, ?)", (seq, number))
        # Its document may have stood for copies elsewhere: theirs has to be written again.
        self.db.execute("UPDATE message SET changed_seq = ? WHERE digest = ?", (seq, digest))

    def _insert(self, session: int, ordinal: int, identity: int, digest: int, message: Message, seq: int) -> int:
        packed = codec.pack(message)
        done = self.db.execute(
            "INSERT INTO message (session, ordinal, identity, digest, stamp, prompt, changed_seq, body) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (
                session, ordinal, identity, digest, codec.hash64(packed), codec.prompt_of(message), seq,
                self.store.bodies.stored(packed),
            ),
        )  # fmt: skip
        assert done.lastrowid is not None
        self.written[done.lastrowid] = message
        return done.lastrowid

    def _update(self, old: _Row, message: Message, seq: int, merged: Merged) -> Message:
        if old.vanished:
            self.db.execute("UPDATE message SET vanished = 0 WHERE id = ?", (old.id,))
        packed = codec.pack(message)
        if codec.hash64(packed) == old.stamp:
            return message
        message = merged_message(self._body(old.id), message)
        packed, digest = codec.pack(message), codec.digest_of(message)
        stamp = codec.hash64(packed)
        if stamp == old.stamp:
            return message
        if digest != old.digest:
            # It left a group of copies: the group's document has to be written again without it.
            self.db.execute("UPDATE message SET changed_seq = ? WHERE digest = ?", (seq, old.digest))
        self.db.execute(
            "UPDATE message SET digest = ?, stamp = ?, prompt = ?, changed_seq = ?, body = ? WHERE id = ?",
            (digest, stamp, codec.prompt_of(message), seq, self.store.bodies.stored(packed), old.id),
        )
        self.written[old.id] = message
        merged.messages_changed += 1
        return message

    # --- the session row ---------------------------------------------------------------------------------

    def _insert_session(self, source: int, session: Session, second_hand: bool) -> int:
        done = self.db.execute(
            "INSERT INTO session (key, native_id, agent, source, second_hand, is_agent, message_count, facts, derived) "
            "VALUES (?, ?, ?, ?, ?, ?, 0, x'', x'')",
            (session.key, session.id, session.agent, source, second_hand, session.is_agent_session),
        )
        assert done.lastrowid is not None
        return done.lastrowid

    def _write_session(
        self,
        row: int,
        source: int,
        session: Session,
        second_hand: bool,
        owner: _Owner | None,
        kept: list[tuple[int, Message]],
        seq: int,
    ) -> bool:
        derived = derive(session, (m for _, m in kept))
        head = next((number for number, m in kept if m.is_human), kept[0][0] if kept else None)
        facts, summary = codec.stored(codec.pack(session)), codec.stored(codec.pack(derived))
        old = self.db.execute("SELECT facts, derived FROM session WHERE id = ?", (row,)).fetchone()
        if owner is not None and owner.source == source and old == (facts, summary) and owner.head == head:
            return False
        self.db.execute(
            "UPDATE session SET native_id = ?, slug = ?, agent = ?, source = ?, second_hand = ?, workspace = ?, "
            "parent_key = ?, is_agent = ?, started_us = ?, ended_us = ?, message_count = ?, head = ?, facts = ?, "
            "derived = ? WHERE id = ?",
            (
                session.id, session.slug, session.agent, source, second_hand, session.workspace,
                session.parent_key, session.is_agent_session, codec.microseconds(derived.started_at),
                codec.microseconds(derived.ended_at), len(kept), head, facts, summary, row,
            ),
        )  # fmt: skip
        if owner is not None:
            self._touch(row, codec.session_of(owner.facts), session, {owner.head, head}, seq)
        return True

    def _touch(self, row: int, old: Session, new: Session, heads: set[int | None], seq: int) -> None:
        """Mark the documents whose session facts changed: all for the workspace, one for the title."""
        if (old.workspace, old.is_agent_session) != (new.workspace, new.is_agent_session):
            self.db.execute("UPDATE message SET changed_seq = ? WHERE session = ?", (seq, row))
            return
        if len(heads) == 1 and (old.title, old.summary, old.slug) == (new.title, new.summary, new.slug):
            return
        for head in heads - {None}:
            self.db.execute("UPDATE message SET changed_seq = ? WHERE id = ?", (seq, head))


def _grown(old: Message, new: Message) -> bool:
    """Whether a later export says more, and nothing else: a redacted one has other results."""
    results = {call.id: call.result for call in new.tool_calls}
    same = all(results.get(call.id) == call.result for call in old.tool_calls if call.result is not None)
    return same and grew_into(old, new)


def _copy_key(key: str, source_path: str) -> str:
    mark = hashlib.blake2b(source_path.encode("utf-8", "surrogateescape"), digest_size=3).hexdigest()
    return f"{key}~{mark}"


def _only_prompts(messages: Sequence[Message]) -> bool:
    """A history holds what people typed and nothing else; other second-hand sessions are conversations."""
    return all(m.role is Role.USER and _is_echo(m) for m in messages)


def _is_echo(message: Message) -> bool:
    """The prompt history knows no more of a message than its words, time and folder."""
    return message.uuid is None and message.agent_version is None and message.user_type is None


def _unmatched(rows: Mapping[int, _Row], planned: Mapping[int, object]) -> list[_Row]:
    return [row for identity, row in rows.items() if identity not in planned]


def _planned(messages: Sequence[Message]) -> dict[int, tuple[int, Message]]:
    """Identity -> (digest, message), in order."""
    taken: Counter[int] = Counter()
    planned: dict[int, tuple[int, Message]] = {}
    for message in messages:
        digest = codec.digest_of(message)
        planned[_identity(message, digest, taken)] = (digest, message)
    return planned


def _identity(message: Message, digest: int, taken: Counter[int]) -> int:
    """Matched by the agent's own id, else by content and place among equals."""
    first = codec.hash64(b"u" + message.uuid.encode("utf-8", "replace")) if message.uuid else digest
    taken[first] += 1
    if taken[first] == 1:
        return first
    return codec.hash64(msgspec.msgpack.encode((first, taken[first])))
