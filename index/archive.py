"""The file that a backup is: a gzipped tar of manifest.json, config.toml and journal.db, in this order.

Nothing in an archive is trusted. Its headers are read one by one instead of by tarfile, which takes links, foreign
names and headers of any size; here three names are known, everything else is refused, and sizes are what was read.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import tarfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import BinaryIO

import msgspec
from msgspec import Struct

from agent_journal.errors import BadBackup
from agent_journal.index.store import DATABASE
from agent_journal.index.sync import Progress
from agent_journal.workplace import private

FORMAT = 1
KIND = "agent-journal backup"
MANIFEST, CONFIG = "manifest.json", "config.toml"
LEVEL = 1  # of gzip: most of a journal is compressed already
CHUNK = 2**20
MOST_MANIFEST, MOST_CONFIG = 64 * 2**10, 2**20  # bytes
_BLOCK = tarfile.BLOCKSIZE


class File(Struct, frozen=True):
    bytes: int
    sha256: str


class Manifest(Struct, frozen=True):
    """What stands first in the archive."""

    kind: str
    format: int
    journal: str  # its id
    created: datetime
    sessions: int
    messages: int
    aj: str  # the version that wrote it
    files: dict[str, File]


def described(path: Path) -> File:
    with path.open("rb") as file:
        return File(path.stat().st_size, hashlib.file_digest(file, "sha256").hexdigest())


# --- writing ---------------------------------------------------------------------------------------------


def write(path: Path, manifest: Manifest, database: Path, others: Mapping[str, bytes], progress: Progress) -> None:
    listed = msgspec.json.format(msgspec.json.encode(manifest), indent=2)
    moment, size = int(manifest.created.timestamp()), manifest.files[DATABASE].bytes
    with open(path, "xb", opener=private) as raw:
        with (
            gzip.GzipFile("", "wb", LEVEL, raw) as packed,
            tarfile.open(fileobj=packed, mode="w|", format=tarfile.GNU_FORMAT) as tar,
        ):
            for name, content in ({MANIFEST: listed} | dict(others)).items():
                tar.addfile(_member(name, len(content), moment), io.BytesIO(content))
            with database.open("rb") as file:
                tar.addfile(_member(DATABASE, size, moment), _Watched(file, size, progress))
        raw.flush()
        os.fsync(raw.fileno())


def _member(name: str, size: int, moment: int) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.size, member.mtime, member.mode = size, moment, 0o600
    return member


class _Watched(io.RawIOBase):
    """A file that tells how far it was read."""

    def __init__(self, file: BinaryIO, size: int, progress: Progress) -> None:
        self.file, self.size, self.progress = file, size, progress

    def read(self, size: int = -1) -> bytes:
        self.progress("packing", self.file.tell(), self.size, "")
        return self.file.read(size)


# --- reading ---------------------------------------------------------------------------------------------


class Archive:
    def __init__(self, path: Path, unpacked: BinaryIO) -> None:
        self.path = path
        self._file = unpacked
        self.manifest = self._manifest()

    def refused(self, why: str = "") -> BadBackup:
        return BadBackup(f"{self.path} is damaged: {why}" if why else f"{self.path} is no backup of a journal")

    def _manifest(self) -> Manifest:
        member = self._next()
        if member is None or member.name != MANIFEST or member.size > MOST_MANIFEST:
            raise self.refused()
        content = b"".join(self._chunks(member.size))
        try:
            found = msgspec.json.decode(content, type=dict[str, object])
            if found.get("kind") != KIND:
                raise self.refused()
            if found.get("format") != FORMAT:
                raise BadBackup(f"{self.path} was written by another version of aj ({found.get('aj')})", "use that one")
            manifest = msgspec.convert(found, Manifest)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise self.refused("its list of contents cannot be read") from error
        listed = manifest.files
        if DATABASE not in listed or not listed.keys() <= {DATABASE, CONFIG}:
            raise self.refused("its list of contents names other files than a journal has")
        if CONFIG in listed and listed[CONFIG].bytes > MOST_CONFIG:
            raise self.refused("its config.toml is too large")
        return manifest

    def contents(self) -> Iterator[tuple[str, Iterator[bytes]]]:
        """Each file after the manifest, to be read to its end before the next. Raises if it is not as listed."""
        missing = dict(self.manifest.files)
        while (member := self._next()) is not None:
            expected = missing.pop(member.name, None)
            if expected is None or member.size != expected.bytes:
                raise self.refused("it holds something else than it lists")
            yield member.name, self._checked(expected)
        if missing:
            raise self.refused(f"{', '.join(sorted(missing))} is missing")

    def _checked(self, expected: File) -> Iterator[bytes]:
        digest = hashlib.sha256()
        for chunk in self._chunks(expected.bytes):
            digest.update(chunk)
            yield chunk
        if digest.hexdigest() != expected.sha256:
            raise self.refused("its checksum is wrong")

    def _next(self) -> tarfile.TarInfo | None:
        block = self._file.read(_BLOCK)
        if block == bytes(_BLOCK):
            return None
        member = tarfile.TarInfo.frombuf(block, "utf-8", "strict")  # an empty block raises, as any other
        if member.type not in (tarfile.REGTYPE, tarfile.AREGTYPE) or member.size < 0:
            raise self.refused("it holds something else than files")
        return member

    def _chunks(self, size: int) -> Iterator[bytes]:
        left = size
        while left:
            chunk = self._file.read(min(CHUNK, left))
            if not chunk:
                raise EOFError
            left -= len(chunk)
            yield chunk
        self._file.read(-size % _BLOCK)


@contextmanager
def reading(path: Path) -> Iterator[Archive]:
    try:
        if path.exists() and not (path.is_file() or path.is_dir()):  # a pipe would be waited for
            raise BadBackup(f"{path} is no ordinary file", "save what a pipe brings first")
        with path.open("rb") as file, gzip.GzipFile(fileobj=file) as unpacked:
            yield Archive(path, unpacked)  # type: ignore[arg-type]  # typeshed: not a BinaryIO, though it reads as one
    except (tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile, UnicodeDecodeError) as error:
        raise BadBackup(f"{path} is no backup of a journal, or is cut short or damaged") from error
    except OSError as error:
        raise BadBackup(f"{path} cannot be read ({error.strerror or error})") from error
