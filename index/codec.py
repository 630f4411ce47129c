"""How values become rows: msgpack, zstd above a few hundred bytes, and the hashes that tell what changed.

Opens no database.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import zstandard

from agent_journal.session import Derived, Message, Session

COMPRESS_ABOVE = 200  # bytes; below it zstd's frame costs more than it saves
_LEVEL = 3
_RAW, _ZSTD, _LEARNT, _NAMED = b"\x00", b"\x01", b"\x02", b"\x03"
DICTIONARY_BYTES = 64 * 1024
_FRAME_HEADER = 1 + 18  # bytes at most, with the tag
PROMPT_CHARS = 50_000  # beyond this two prompts are told apart no better; 60 MB of words took 500 MB to split
SAMPLE_BYTES = 20_000  # of one message; more of it teaches nothing new
# What reading back a damaged body raises.
DAMAGE = (zstandard.ZstdError, msgspec.MsgspecError, UnicodeDecodeError)
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


class Bodies:
    """Message bodies, compressed with what earlier messages taught: most are too short to be compressed alone.

    On 65,000 synthetic messages a dictionary halves their bytes and their time; on real ones it saves a quarter.
    """

    def __init__(self, dictionary: bytes | None, *, named: bool = True) -> None:
        """`named`: bodies name their dictionary, so that one that was replaced is never taken for its successor.
        Journals of the first versions have bodies that do not."""
        self.learnt = dictionary is not None
        self._tag = (_NAMED if named else _LEARNT) if self.learnt else b""
        self._number = 0
        if dictionary is None:
            return
        shared = zstandard.ZstdCompressionDict(dictionary)
        self._number = shared.dict_id()
        self._compress = zstandard.ZstdCompressor(
            level=_LEVEL, dict_data=shared, write_content_size=True, write_checksum=False, write_dict_id=named
        ).compress
        self._decompress = zstandard.ZstdDecompressor(dict_data=shared).decompress

    def stored(self, packed: bytes) -> bytes:
        return self._tag + self._compress(packed) if self.learnt else stored(packed)

    def loaded(self, body: bytes) -> bytes:
        if body[:1] not in (_LEARNT, _NAMED):
            return loaded(body)
        if not self.readable(body):
            raise zstandard.ZstdError("a message was written with another dictionary")
        return self._decompress(body[1:])

    def message(self, body: bytes) -> Message:
        return _message(self.loaded(body))

    def readable(self, body: bytes) -> bool:
        """False for a body written with a dictionary that was learnt, or replaced, after this one was looked up."""
        tag = body[:1]
        if tag not in (_LEARNT, _NAMED):
            return True
        if tag != self._tag:
            return False
        return tag == _LEARNT or zstandard.get_frame_parameters(body[1:_FRAME_HEADER]).dict_id == self._number


def dictionary_of(samples: Iterable[Message]) -> bytes | None:
    """What these messages have in common, or nothing if they are too few or too alike to tell."""
    packed: list[bytes | bytearray | memoryview[int]] = [_pack(message)[:SAMPLE_BYTES] for message in samples]
    try:
        return zstandard.train_dictionary(DICTIONARY_BYTES, packed).as_bytes()
    except zstandard.ZstdError:
        return None


def pack(value: Message | Session | Derived) -> bytes:
    return _pack(value)


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
    return hash64(" ".join(message.text[:PROMPT_CHARS].split()).encode("utf-8", "replace"))


def microseconds(moment: datetime | None) -> int | None:
    return None if moment is None else (moment - _EPOCH) // timedelta(microseconds=1)


def moment(us: object) -> datetime | None:
    """None, too, for what no calendar has: a journal may be damaged."""
    try:
        return _EPOCH + timedelta(microseconds=us) if isinstance(us, int) else None
    except OverflowError:
        return None


def path_value(path: str) -> str | bytes:
    """A path as SQLite can keep it: a name that is no text is kept as its bytes."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return os.fsencode(path)
    return path


def path_text(value: Any) -> Any:
    return os.fsdecode(value) if isinstance(value, bytes) else value
