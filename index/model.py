"""The embedding models of this machine: the bundled one, those added, those lying below `index.vector.model_path`.

A model is a folder and a card that says how to use it. Nothing here embeds (see embed.py) or reaches for a network, and
neither numpy nor onnxruntime is imported: listing models must not cost what loading one costs.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import asdict, replace

from agent_journal.errors import BadModel, NoSuchModel, unreadable_model, unwritable
from agent_journal.index import model_folder
from agent_journal.index.model_folder import Card
from agent_journal.workplace import STALE_SECONDS, private, private_folder, workplace

CARD = "model.toml"
MANIFEST = "manifest.toml"
BUNDLED = "bundled"  # what users may call the bundled model, whatever its name is
RESERVED = frozenset({BUNDLED, "hash", "none"})
NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_-]|\.(?=[A-Za-z0-9])){0,63}")
# Folders in which a model is being made (workplace), or on its way out (remove).
LEFT = re.compile(rf"\.(?:{NAME.pattern})\.(?:\w{{8}}|\d+\.\d+)")

SAMPLES, SAMPLE_BYTES = 64, 4096
COPY_BYTES = 1 << 20

Origin = Literal["bundled", "installed", "model_path"]


class Model(Struct, frozen=True):
    card: Card
    folder: Path
    origin: Origin

    @property
    def mark(self) -> str:
        """Names what the vectors are made by: changes with everything that changes a vector, and with nothing else."""
        card = self.card
        sums = card.sha256 or {name: _sample(self.folder / name) for name in (card.model, card.tokenizer)}
        made_by = (sorted(sums.items()), card.output, card.pooling, card.tokens, card.query_prefix, card.text_prefix)
        return f"{card.name}-{hashlib.sha256(msgspec.json.encode(made_by)).hexdigest()[:8]}"


class Unusable(Struct, frozen=True):
    """A folder that looks like a model and is none."""

    name: str
    why: str


# --- finding --------------------------------------------------------------------------------------------


def known() -> list[Card]:
    """The cards of the manifest, whether or not their files came with this installation."""
    file = _own_folder() / MANIFEST
    if not file.is_file():
        return []
    cards = _toml(file).get("model", [])
    return [_converted(card, file) for card in cards] if isinstance(cards, list) else []


def bundled() -> Model | None:
    for card in known():
        folder = _own_folder() / card.name
        if (folder / card.model).is_file():
            return Model(card, folder, "bundled")
    return None


def means_bundled(name: str) -> bool:
    own = bundled()
    return name.casefold() in ("", BUNDLED) or (own is not None and name.casefold() == own.card.name.casefold())


def available(folders: Sequence[Path]) -> list[Model]:
    """Every usable model: the bundled one, then by folder and name. Of two with one name the first is meant."""
    return [model for model in surveyed(folders) if isinstance(model, Model)]


def surveyed(folders: Sequence[Path]) -> list[Model | Unusable]:
    """As available(), with those that cannot be used in their places."""
    own = bundled()
    found: dict[str, Model | Unusable] = {own.card.name.casefold(): own} if own else {}
    for folder in _places(folders):
        if _looks_like_model(folder):
            found.setdefault(folder.name.casefold(), _tried(folder))
    return list(found.values())


def find(name: str, folders: Sequence[Path]) -> Model:
    """The model of that name; "" and "bundled" mean the bundled one. BadModel if there is one that cannot be used."""
    if means_bundled(name):
        if own := bundled():
            return own
        raise NoSuchModel("no model came with this installation", "add one with `aj models add PATH`")
    for folder in _places(folders):
        if folder.name.casefold() == name.casefold() and _looks_like_model(folder):
            return _read(folder)
    if name.casefold() in (card.name.casefold() for card in known()):
        raise NoSuchModel(
            f"{name} is known, but not on this machine",
            "docs/models.md says how to get it; then `aj models add PATH`",
        )
    names = ", ".join(model.card.name for model in available(folders))
    raise NoSuchModel(
        f"no model is called {name}", f"there is {names}" if names else "add one with `aj models add PATH`"
    )


def _own_folder() -> Path:
    from agent_journal import models

    return Path(models.__path__[0])


def _places(folders: Sequence[Path]) -> Iterator[Path]:
    for place in dict.fromkeys(folders):
        yield place
        yield from _inner_folders(place)


def _inner_folders(place: Path) -> list[Path]:
    try:
        return sorted(path for path in place.iterdir() if path.is_dir() and not path.name.startswith("."))
    except OSError:
        return []


def _looks_like_model(folder: Path) -> bool:
    try:
        return (folder / CARD).is_file() or model_folder.holds_model(folder)
    except (OSError, BadModel):
        return False


def _tried(folder: Path) -> Model | Unusable:
    try:
        return _read(folder)
    except BadModel as error:
        return Unusable(folder.name, error.message)


def _read(folder: Path) -> Model:
    file = folder / CARD
    _check_name(folder.name)
    if file.is_file():
        card = _converted(_toml(file), file)
        if card.name != folder.name:
            raise BadModel(f"{file} names the model {card.name}, its folder {folder.name}", "call both the same")
        for name in (card.model, card.tokenizer, *card.sha256):
            if not _may_be_read(folder, name):
                raise BadModel(f"{file}: {name!r} is no file of the model's folder")
        return Model(card, folder, "installed")
    card = model_folder.look(folder).card
    if not card.dimensions:
        raise BadModel(f"{folder} does not say how long its vectors are", f"`aj models add {folder}` finds it out")
    return Model(card, folder, "model_path")


def _toml(file: Path) -> dict[str, Any]:
    import tomllib

    try:
        return tomllib.loads(file.read_text("utf-8"))
    except OSError as error:
        raise unreadable_model(file, error) from error
    except (ValueError, RecursionError) as error:
        raise BadModel(f"{file} is not valid TOML") from error


def _converted(value: object, file: Path) -> Card:
    try:
        card = msgspec.convert(value, Card)
    except msgspec.ValidationError as error:
        raise BadModel(f"{file}: {error}") from error
    for name in (card.model, card.tokenizer, *card.sha256):
        if Path(name).is_absolute() or ".." in Path(name).parts:
            raise BadModel(f"{file}: {name} is outside the model's folder")
    if not NAME.fullmatch(card.name) or min(card.dimensions, card.tokens) < 1:
        raise BadModel(f"{file}: name, dimensions or tokens make no sense")
    return card


def _may_be_read(folder: Path, name: str) -> bool:
    """Not through a link that leads elsewhere, and not a pipe, which would be waited for. A missing file may: opening
    it says so."""
    try:
        path = (folder / name).resolve()
        return path.is_relative_to(folder.resolve()) and (path.is_file() or not path.exists())
    except (OSError, ValueError, RuntimeError):  # too long; a NUL; a loop of links
        return False


# --- checking -------------------------------------------------------------------------------------------


def verify(model: Model) -> list[str]:
    """What differs from the sums on the card, a sentence each. A card without sums has nothing to differ from."""
    wrong = []
    for name, expected in model.card.sha256.items():
        path = model.folder / name
        try:
            with path.open("rb") as file:
                actual = hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as error:
            wrong.append(unreadable_model(path, error).message)
            continue
        if actual != expected:
            wrong.append(f"{path} has changed: its sha256 is {actual}, not {expected}")
    return wrong


def size(model: Model) -> int:
    """Bytes of its files, without those that are missing."""
    files = {model.card.model, model.card.tokenizer, *model.card.sha256}
    return sum((model.folder / name).stat().st_size for name in files if (model.folder / name).is_file())


def _sample(path: Path) -> str:
    """Of a file nobody summed: its size and some of its bytes. Other weights differ everywhere, and unlike the time of
    change these survive a copy; a whole sum would cost 0.1 s for each 100 MB in every search."""
    digest = hashlib.sha256()
    try:
        size = path.stat().st_size
        digest.update(str(size).encode())
        with path.open("rb") as file:
            for place in range(SAMPLES):
                file.seek(max(size - SAMPLE_BYTES, 0) * place // (SAMPLES - 1))
                digest.update(file.read(SAMPLE_BYTES))
    except OSError as error:
        raise unreadable_model(path, error) from error
    return digest.hexdigest()


# --- adding and removing --------------------------------------------------------------------------------


Check = Callable[[Model], int]  # runs the model: the length of its vectors, or BadModel


def add(path: Path, into: Path, name: str = "", *, check: Check) -> Model:
    """Copy a model that passed its check into the folder of models. It stands there whole, or not at all."""
    found = model_folder.look(path)
    graph = path / found.card.model
    name = _free_name(name or path.resolve().name, into)
    card = replace(found.card, name=name, source=str(path.resolve()))
    card = replace(card, dimensions=check(Model(card, path, "model_path")), model=graph.name)
    files = (graph, *(graph.parent / weights for weights in found.weights), path / model_folder.TOKENIZER)
    try:
        private_folder(into)
        _clear(into)
        with workplace(into, f".{name}.") as new:
            card = replace(card, sha256={file.name: _copy(file, new / file.name) for file in files})
            _write(new / CARD, [_as_toml(card).encode()])
            new.rename(into / name)
    except OSError as error:
        if error.errno in (errno.EEXIST, errno.ENOTEMPTY):  # another process was quicker
            raise _taken(name) from error
        raise unwritable(into, error) from error
    return Model(card, into / name, "installed")


def _clear(folder: Path) -> None:
    """What additions and removals left that were killed, of models of any name."""
    for path in folder.iterdir():
        if LEFT.fullmatch(path.name) and time.time() - path.lstat().st_mtime > STALE_SECONDS:
            shutil.rmtree(path, ignore_errors=True)


def remove(name: str, folder: Path) -> None:
    """Only what was added: a folder without a card is the user's own."""
    place = folder / name
    if not NAME.fullmatch(name) or not (place / CARD).is_file():
        raise NoSuchModel(f"no model called {name} was added", "`aj models list` shows where each model is")
    gone = folder / f".{name}.{os.getpid()}.{time.time_ns()}"
    try:
        place.rename(gone)  # first: half a model must never be found
        shutil.rmtree(gone)
    except OSError as error:
        raise unwritable(folder, error) from error


def _check_name(name: str) -> None:
    if not NAME.fullmatch(name) or name.casefold() in RESERVED:
        raise BadModel(
            f"{name!r} cannot be a model's name",
            "letters, digits, - and _, with dots between them, at most 64: aj models add PATH --name NAME",
        )


def _free_name(name: str, into: Path) -> str:
    _check_name(name)
    taken = {folder.name.casefold() for folder in _inner_folders(into)}
    if name.casefold() in taken or means_bundled(name):
        raise _taken(name)
    return name


def _taken(name: str) -> BadModel:
    return BadModel(
        f"there is a model called {name} already", f"remove it with `aj models remove {name}`, or give another --name"
    )


def _copy(source: Path, target: Path) -> str:
    try:
        reading = source.open("rb")
    except OSError as error:
        raise unreadable_model(source, error) from error
    with reading:
        return _write(target, iter(lambda: reading.read(COPY_BYTES), b""))


def _write(path: Path, pieces: Iterable[bytes]) -> str:
    """Returns the sum of what was written: a source that changes meanwhile must not pass for another."""
    digest = hashlib.sha256()
    with open(path, "xb", opener=private) as file:
        for piece in pieces:
            digest.update(piece)
            file.write(piece)
        file.flush()
        os.fsync(file.fileno())
    return digest.hexdigest()


def _as_toml(card: Card) -> str:
    import tomlkit

    return tomlkit.dumps({name: value for name, value in asdict(card).items() if value != ""})
