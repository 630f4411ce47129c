"""The embedding models of this machine: the bundled one, those added, those lying below `index.vector.model_path`.

A model is a folder and a card that says how to use it. Nothing here embeds (see embed.py) or reaches for a network, and
neither numpy nor onnxruntime is imported: listing models must not cost what loading one costs.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import asdict, replace

from agent_journal.errors import BadModel, NoSuchModel, unwritable
from agent_journal.index import model_folder

CARD = "model.toml"
MANIFEST = "manifest.toml"
BUNDLED = "bundled"  # what users may call the bundled model, whatever its name is
RESERVED = frozenset({BUNDLED, "hash", "none"})
NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_-]|\.(?=[A-Za-z0-9])){0,63}")

SAMPLES, SAMPLE_BYTES = 64, 4096
COPY_BYTES = 1 << 20

Origin = Literal["bundled", "installed", "model_path"]


class Card(Struct, frozen=True):
    """How a model is used. Without a default: what every card must say."""

    name: str
    dimensions: int
    tokens: int  # the longest input, the special tokens included
    pooling: model_folder.Pooling  # none: the graph pools by itself
    batch: int  # 1: one text a run, because vectors would depend on the texts beside them
    model: str  # file names, relative to the folder
    tokenizer: str
    output: str = ""  # of the graph; "" is its first
    query_prefix: str = ""
    text_prefix: str = ""
    licence: str = ""
    source: str = ""
    sha256: dict[str, str] = {}  # file -> hex


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


def available(folders: Sequence[Path]) -> list[Model]:
    """Every usable model: the bundled one, then by folder and name. Of two with one name the first is meant."""
    return [model for model in surveyed(folders) if isinstance(model, Model)]


def surveyed(folders: Sequence[Path]) -> list[Model | Unusable]:
    """As available(), with those that cannot be used in their places."""
    own = bundled()
    found: dict[str, Model | Unusable] = {own.card.name.casefold(): own} if own else {}
    for place in dict.fromkeys(folders):
        for folder in (place, *_inner_folders(place)):
            if _looks_like_model(folder):
                found.setdefault(folder.name.casefold(), _tried(folder))
    return list(found.values())


def find(name: str, folders: Sequence[Path]) -> Model:
    """The model of that name; "" and "bundled" mean the bundled one. BadModel if there is one that cannot be used."""
    own = bundled()
    if own and name.casefold() in ("", BUNDLED, own.card.name.casefold()):
        return own
    if name.casefold() in ("", BUNDLED):
        raise NoSuchModel("no model came with this installation", "add one with `aj models add PATH`")
    for place in dict.fromkeys(folders):
        for folder in (place, *_inner_folders(place)):
            if folder.name.casefold() == name.casefold() and _looks_like_model(folder):
                return _read(folder)
    names = ", ".join(model.card.name for model in available(folders))
    raise NoSuchModel(
        f"no model is called {name}", f"there is {names}" if names else "add one with `aj models add PATH`"
    )


def _own_folder() -> Path:
    from agent_journal import models

    return Path(models.__path__[0])


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
    if file.is_file():
        card = _converted(_toml(file), file)
        if card.name != folder.name:
            raise BadModel(f"{file} names the model {card.name}, its folder {folder.name}", "call both the same")
        return Model(card, folder, "installed")
    found = model_folder.look(folder)
    if not found.dimensions:
        raise BadModel(f"{folder} does not say how long its vectors are", f"`aj models add {folder}` finds it out")
    return Model(_card(folder.name, found, found.dimensions, {}, str(folder)), folder, "model_path")


def _card(name: str, found: model_folder.Found, dimensions: int, sums: dict[str, str], source: str) -> Card:
    return Card(
        name=name,
        dimensions=dimensions,
        tokens=found.tokens,
        pooling=found.pooling,
        batch=found.batch,
        model=found.model,
        tokenizer=model_folder.TOKENIZER,
        output=found.output,
        query_prefix=found.query_prefix,
        text_prefix=found.text_prefix,
        source=source,
        sha256=sums,
    )


def _toml(file: Path) -> dict[str, Any]:
    import tomllib

    try:
        return tomllib.loads(file.read_text("utf-8"))
    except OSError as error:
        raise BadModel(f"{file} cannot be read: {error.strerror or error}") from error
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
    if not NAME.fullmatch(card.name) or min(card.dimensions, card.tokens, card.batch) < 1:
        raise BadModel(f"{file}: name, dimensions, tokens or batch make no sense")
    return card


# --- checking -------------------------------------------------------------------------------------------


def verify(model: Model) -> list[str]:
    """What differs from the sums on the card, a sentence each. A card without sums has nothing to differ from."""
    wrong = []
    for name, expected in model.card.sha256.items():
        path = model.folder / name
        try:
            actual = _sum(path)
        except OSError as error:
            wrong.append(f"{path} cannot be read: {error.strerror or error}")
            continue
        if actual != expected:
            wrong.append(f"{path} has changed: its sha256 is {actual}, not {expected}")
    return wrong


def size(model: Model) -> int:
    """Bytes of its files, without those that are missing."""
    files = {model.card.model, model.card.tokenizer, *model.card.sha256}
    return sum((model.folder / name).stat().st_size for name in files if (model.folder / name).is_file())


def _sum(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


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
        raise BadModel(f"{path} cannot be read: {error.strerror or error}") from error
    return digest.hexdigest()


# --- adding and removing --------------------------------------------------------------------------------


Check = Callable[[Model], int]  # runs the model: the length of its vectors, or BadModel


def add(path: Path, into: Path, name: str = "", *, check: Check) -> Model:
    """Copy a model that passed its check into the folder of models. It stands there whole, or not at all."""
    found = model_folder.look(path)
    name = _free_name(name or path.resolve().name, into)
    card = _card(name, found, found.dimensions, {}, str(path.resolve()))
    card = replace(card, dimensions=check(Model(card, path, "model_path")), model=Path(found.model).name)
    graph = path / found.model
    files = (graph, *(graph.parent / weights for weights in found.weights), path / model_folder.TOKENIZER)
    try:
        for missing in [folder for folder in (*reversed(into.parents), into) if not folder.exists()]:
            missing.mkdir(mode=0o700, exist_ok=True)
        new = into / f".{name}.{os.getpid()}.{time.time_ns()}"
        with _undone(new):
            new.mkdir(mode=0o700)
            card = replace(card, sha256={file.name: _copy(file, new / file.name) for file in files})
            _write(new / CARD, _as_toml(card))
            new.rename(into / name)
    except OSError as error:
        raise unwritable(into, error) from error
    return Model(card, into / name, "installed")


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


def _free_name(name: str, into: Path) -> str:
    if not NAME.fullmatch(name) or name.casefold() in RESERVED:
        raise BadModel(
            f"{name!r} cannot be a model's name",
            "letters, digits, - and _, with dots between them, at most 64: aj models add PATH --name NAME",
        )
    own = bundled()
    taken = {folder.name.casefold() for folder in _inner_folders(into)} | ({own.card.name.casefold()} if own else set())
    if name.casefold() in taken:
        raise BadModel(
            f"there is a model called {name} already",
            f"remove it with `aj models remove {name}`, or give another --name",
        )
    return name


@contextlib.contextmanager
def _undone(folder: Path) -> Iterator[None]:
    """Whatever stops the work, Ctrl-C too, leaves no half model behind."""
    try:
        yield
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _copy(source: Path, target: Path) -> str:
    """Returns the sum of what was written: a source that changes meanwhile must not pass for another."""
    digest = hashlib.sha256()
    try:
        reading = source.open("rb")
    except OSError as error:
        raise BadModel(f"{source} cannot be read: {error.strerror or error}") from error
    with reading, open(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        while piece := reading.read(COPY_BYTES):
            digest.update(piece)
            file.write(piece)
        file.flush()
        os.fsync(file.fileno())
    return digest.hexdigest()


def _write(path: Path, text: str) -> None:
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def _as_toml(card: Card) -> str:
    import tomlkit

    return tomlkit.dumps({name: value for name, value in asdict(card).items() if value != ""})
