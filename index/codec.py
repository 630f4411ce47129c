"""How values become rows: msgpack, zstd above a few hundred bytes, and the hashes that tell what changed."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime, timedelta

import msgspec
import zstandard

from agent_journal.session import Derived, Message, Session

COMPRESS_ABOVE = 200  # bytes; below it zstd's frame costs more than it saves
_LEVEL = 3
_RAW, _ZSTD = b"\x00", b"\x01"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_pack = msgspec.msgpack.Encoder().encode
_message = msgspec.msgpack.Decoder(Message).decode
_session = msgspec.msgpack.Decoder(Session).decode
_derived = msgspec.msgpack.Decoder(Derived).decode
_compress = zstandard.ZstdCompressor(level=_LEVEL, write_content_size=True, write_checksum=False).compress
_decompress = zstandard.ZstdDecompressor().decompress


def hash64(data: bytes) -> int:
    """A signed 64-bit integer, as SQLite keeps it. A clash among ten million messages: 1 in 400,000."""
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "big", signed=True)


def stored(packed: bytes) -> bytes:
    if len(packed) <= COMPRESS_ABOVE:
        return _RAW + packed
    return _ZSTD + _compress(packed)


def loaded(body: bytes) -> bytes:
    return _decompress(body[1:]) if body[:1] == _ZSTD else body[1:]


def pack(value: Message | Session | Derived) -> bytes:
    return _pack(value)


def message_of(body: bytes) -> Message:
    return _message(loaded(body))


def session_of(body: bytes) -> Session:
    return _session(loaded(body))


def derived_of(body: bytes) -> Derived:
    return _derived(loaded(body))


def digest_of(message: Message) -> int:
    """What was said, by whom and when: equal in a fork's copy, whatever session it lies in."""
    return hash64(_pack((message.role, message.uuid, message.at, message.blocks)))


def prompt_of(message: Message) -> int | None:
    """The words of a person, whatever their spacing: tells whether a transcript holds a prompt of the history."""
    if not message.is_human:
        return None
    return hash64(" ".join(message.text.split()).encode("utf-8", "replace"))


def microseconds(moment: datetime | None) -> int | None:
    return None if moment is None else (moment - _EPOCH) // timedelta(microseconds=1)


def moment(us: object) -> datetime | None:
    return _EPOCH + timedelta(microseconds=us) if isinstance(us, int) else None
