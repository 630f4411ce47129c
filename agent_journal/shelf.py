"""The models a user can choose from: what is there, which is in use, and the rules for adding, choosing, removing.

Knows the configuration and the folders of models; prints nothing and embeds nothing but a trial.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from agent_journal.config import Config, config_path, model_folders, set_value
from agent_journal.errors import BadModel, NoSuchModel
from agent_journal.index import model
from agent_journal.index.model import Model
from agent_journal.index.model_folder import Card
from agent_journal.index.trial import vector_length

KEY = "index.vector.model"


class Entry(Struct, frozen=True):
    name: str
    origin: str  # as of Model; "known" is in the manifest but not here, "unusable" is here, "missing" is only asked for
    in_use: bool = False
    dimensions: int = 0
    tokens: int = 0
    bytes: int = 0
    folder: str = ""
    licence: str = ""
    source: str = ""
    problem: str = ""


class Verdict(Struct, frozen=True):
    name: str
    files: int  # compared with their sums
    problems: Sequence[str]


class Shelf:
    def __init__(self, config: Config, environ: Mapping[str, str] = os.environ) -> None:
        self.config = config
        self.folders = model_folders(config, environ)
        self.file = config_path(environ)

    @cached_property
    def in_use(self) -> str:
        """The name that is asked for; "" if it is the bundled model's and there is none."""
        asked, own = self.config.vector.model, model.bundled()
        if not model.means_bundled(asked):
            return asked
        return own.card.name if own else ""

    def entries(self) -> list[Entry]:
        found = [self._entry(one) for one in model.surveyed(self.folders)]
        names = {entry.name.casefold() for entry in found}
        found += [_described(card, "known") for card in model.known() if card.name.casefold() not in names]
        if self.in_use and self.in_use.casefold() not in names:
            found.append(Entry(self.in_use, "missing", in_use=True, problem=f"{KEY} names it, and it is not here"))
        return found

    def _entry(self, found: Model | model.Unusable) -> Entry:
        if isinstance(found, model.Unusable):
            return Entry(found.name, "unusable", self._is_used(found.name), problem=found.why)
        entry = _described(found.card, found.origin)
        in_use = self._is_used(entry.name)
        return replace(entry, in_use=in_use, bytes=model.size(found), folder=str(found.folder))

    def _is_used(self, name: str) -> bool:
        return bool(self.in_use) and name.casefold() == self.in_use.casefold()

    def add(self, path: Path, name: str = "") -> Model:
        return model.add(path, self.folders[0], name, check=vector_length)

    def use(self, name: str, agents: Mapping[str, str]) -> Model:
        """Set the model in config.toml. One that nobody tried yet is tried first."""
        chosen = model.find(name, self.folders)
        if chosen.origin == "model_path":
            vector_length(chosen)
        named = "" if chosen.origin == "bundled" else chosen.card.name
        if named != self.config.vector.model:  # or choosing what is in use would write a file
            set_value(self.file, KEY, named, agents)
        return chosen

    def remove(self, name: str) -> None:
        if model.means_bundled(name):
            raise BadModel(f"{name} came with aj and is not removed", f"to do without it: aj config set {KEY} NAME")
        if self._is_used(name):
            raise BadModel(f"{name} is in use", "choose another one first: aj models use bundled")
        try:
            model.remove(name, self.folders[0])
        except NoSuchModel:
            lying = model.find(name, self.folders)
            raise BadModel(
                f"{name} lies in {lying.folder} where aj did not put it", "delete the folder yourself"
            ) from None

    def verdicts(self, name: str = "") -> list[Verdict]:
        if name:
            return [_verdict(model.find(name, self.folders))]
        return [
            _verdict(found) if isinstance(found, Model) else Verdict(found.name, 0, [found.why])
            for found in model.surveyed(self.folders)
        ]


def _described(card: Card, origin: str) -> Entry:
    return Entry(
        card.name,
        origin,
        dimensions=card.dimensions,
        tokens=card.tokens,
        licence=card.licence,
        source=card.source,
    )


def _verdict(found: Model) -> Verdict:
    return Verdict(found.card.name, len(found.card.sha256), model.verify(found))
