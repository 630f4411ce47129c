"""Which embedder and which vectors an answer is drawn from, and why not others. A fallback is chosen here and shown."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from agent_journal.config import Config
from agent_journal.errors import BadModel, NoSuchModel
from agent_journal.index.embed import Embedder, OnnxEmbedder, load_embedder
from agent_journal.index.embedding import Embedding
from agent_journal.index.lock import writing
from agent_journal.index.meaning import Embedded, Meaning, folder_of, kept_marks
from agent_journal.index.model import available, find
from agent_journal.index.store import Store
from agent_journal.index.sync import EmbeddingReport, Progress

NOTHING_YET = "nothing is embedded yet: aj reindex"


class Semantics(Struct, frozen=True):
    embedder: Embedder | None
    meaning: Meaning | None
    why: str = ""  # why there are none, or not those of the model that was chosen


def embedded(config: Config) -> Embedded:
    return Embedded(config.vector.thinking, config.vector.tool_output, config.index.exclude)


def opened(store: Store, config: Config, folders: Sequence[Path]) -> Semantics:
    """For asking. While the vectors of a newly chosen model are being made, the old ones answer."""
    if config.vector.enabled and not kept_marks(store):
        return Semantics(None, None, NOTHING_YET)
    loaded = load_embedder(config.vector, folders)
    if loaded.embedder is None:
        return Semantics(None, None, loaded.why)
    meaning = _meaning(store, config, loaded.embedder)
    if meaning is not None and meaning.state.complete:
        return Semantics(loaded.embedder, meaning, loaded.why)
    older = _older(store, config, folders, loaded.embedder.mark)
    if older is not None and (meaning is None or older.meaning.messages > meaning.messages):
        return Semantics(older.embedder, older.meaning, f"{loaded.embedder.name} is not through yet: aj reindex")
    if meaning is None or not meaning.messages:
        return Semantics(None, None, loaded.why or NOTHING_YET)
    return Semantics(loaded.embedder, meaning, loaded.why)


class _Older(Struct, frozen=True):
    embedder: Embedder
    meaning: Meaning


def _older(store: Store, config: Config, folders: Sequence[Path], but: str) -> _Older | None:
    kept = set(kept_marks(store))
    for model in available(folders):
        if model.mark == but or f"{model.mark}-{config.index.vector_precision}" not in kept:
            continue
        with suppress(BadModel):
            embedder = OnnxEmbedder(model, config.vector.threads)
            meaning = _meaning(store, config, embedder)
            if meaning is not None and meaning.messages:
                return _Older(embedder, meaning)
    return None


def _meaning(store: Store, config: Config, embedder: Embedder) -> Meaning | None:
    precision = config.index.vector_precision
    return Meaning.open(store, embedder.mark, embedder.dimensions, precision, embedded(config))[0]


def embed(
    store: Store, config: Config, folders: Sequence[Path], progress: Progress | None, budget_seconds: float | None
) -> tuple[EmbeddingReport, str, str]:
    """(What was embedded, by which embedder, and what to say of it.) Searches go on beside it: it has a lock of its own."""
    if _is_done(store, config, folders):
        return EmbeddingReport(), "", ""
    loaded = load_embedder(config.vector, folders)
    if loaded.embedder is None:
        return EmbeddingReport(), "", loaded.why
    embedder, options, precision = loaded.embedder, embedded(config), config.index.vector_precision
    Store.make_folder(store.folder / "vectors")
    with writing(store.folder / "vectors", 0.0):
        meaning, _ = Meaning.open(store, embedder.mark, embedder.dimensions, precision, options)
        if meaning is None:
            meaning = Meaning.create(store, embedder.mark, embedder.dimensions, precision, options)
        work = Embedding(meaning, store, embedder, options)
        shown = (lambda done, total: progress("embedding", done, total, "")) if progress else None
        report = work.run(shown, budget_seconds)
        if meaning.state.complete:
            _forget_others(store, folder_of(store, embedder.mark, precision))
    return report, embedder.name, loaded.why


def _is_done(store: Store, config: Config, folders: Sequence[Path]) -> bool:
    """Whether nothing waits for vectors: then no model is loaded, which takes longer than all the rest."""
    if not config.vector.enabled or not store.counts()[1]:
        return True
    try:
        model = find(config.vector.model, folders)
    except (BadModel, NoSuchModel):
        return False  # what stands in for it, and why, is load_embedder's to say
    precision = config.index.vector_precision
    meaning, _ = Meaning.open(store, model.mark, model.card.dimensions, precision, embedded(config))
    return meaning is not None and meaning.state.complete and meaning.state.reached >= store.seq


def _forget_others(store: Store, kept: Path) -> None:
    """Vectors of models that are no longer used: they can be made again, and are large."""
    for name in kept_marks(store):
        if name != kept.name:
            shutil.rmtree(kept.parent / name, ignore_errors=True)
