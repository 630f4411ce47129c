"""Files that appear whole or not at all: written under another name beside their place, then renamed."""

from __future__ import annotations

import gzip
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from agent_journal.errors import FULL_DISK, CannotExport
from agent_journal.workplace import private, workplace

PART = ".aj-export-"


@contextmanager
def staged(folder: Path, *, force: bool = False) -> Iterator[Staging]:
    standing = next(f for f in (folder, *folder.parents) if f.exists())
    try:
        with workplace(standing, PART) as part:
            yield Staging(folder, part, force=force)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise _failure(folder, error) from error


class Staging:
    """A folder's new files. Nothing is seen of them before `commit`, and nothing is left of them after a failure."""

    def __init__(self, folder: Path, part: Path, *, force: bool) -> None:
        self.folder, self.force = folder, force
        self.files: dict[str, int] = {}  # name below the folder -> bytes
        self._part = part  # where they are until then

    def place(self, name: str) -> Path:
        """Where to write a file that will have this name."""
        final = self.folder / name
        if ".." in final.relative_to(self.folder).parts or not final.is_relative_to(self.folder):
            raise CannotExport(f"{name}: the name leads out of {self.folder}")
        if os.path.lexists(final) and not (self.force and final.is_file()):
            raise CannotExport(f"{final} is there already", "give another name, or --force to replace a file")
        self.files[name] = 0
        path = self._part / name
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        return path

    @contextmanager
    def opened(self, name: str) -> Iterator[IO[bytes]]:
        path = self.place(name)
        with open(path, "xb", opener=private) as file, packed(file, name.endswith(".gz")) as stream:
            yield stream

    def commit(self) -> list[Path]:
        """Put everything in its place; the sizes are known from then on."""
        done = []
        for name in self.files:
            self.files[name] = (self._part / name).stat().st_size
            final = self.folder / name
            final.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            (self._part / name).replace(final)
            done.append(final)
        return done


@contextmanager
def packed(file: IO[bytes], compress: bool) -> Iterator[IO[bytes]]:
    """Written through gzip, or as it is."""
    if not compress:
        yield file
        return
    with gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0) as stream:  # equal content, equal bytes
        yield stream  # type: ignore[misc]


def _failure(place: Path, error: OSError) -> CannotExport:
    reason = error.strerror or str(error)
    if any(words in reason.lower() for words in FULL_DISK):
        return CannotExport(f"{place}: no space left on the disk", "free some space; nothing was written")
    return CannotExport(f"{place}: cannot be written ({reason})", "choose another place with -o; nothing was written")
