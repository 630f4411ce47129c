"""Which embedder and which vectors answer, and why not others: a fallback is named here. Ranks nothing."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from agent_journal.config import Config
from agent_journal.config_keys import VECTORS_OFF
from agent_journal.errors import BadModel, NoSuchModel
from agent_journal.index.embed import Embedder, OnnxEmbedder, load_embedder
from agent_journal.index.embedding import Embedding
from agent_journal.index.lock import writing
from agent_journal.index.meaning import Embedded, Meaning
from agent_journal.index.model import available, find
from agent_journal.index.report import EmbeddingReport
from agent_journal.index.store import Store
from agent_journal.index.sync import Progress
from agent_journal.index.vector_file import PRECISIONS
from agent_journal.index.vectors_kept import FOLDER, NOTHING_YET, folder_of, kept_marks

OTHERS_ONLY = "the vectors are of other settings or of another state of the journal, or damaged: aj reindex"


class Semantics(Struct, frozen=True):
    embedder: Embedder | None
    meaning: Meaning | None
    why: str = ""  # why there are none, or not those of the model that was chosen


def embedded(config: Config) -> Embedded:
    thinking = config.vector.thinking and config.index.thinking  # what is not searchable is not found by meaning either
    return Embedded(thinking, config.vector.tool_input, config.vector.tool_output, config.index.exclude)


def opened(store: Store, config: Config, folders: Sequence[Path]) -> Semantics:
    """For asking. While the vectors of a newly chosen model are being made, the old ones answer."""
    loaded = load_embedder(config.vector, folders)
    if loaded.embedder is None:
        return Semantics(None, None, loaded.why)
    meaning, _ = _opened(store, config, loaded.embedder.mark, loaded.embedder.dimensions)
    if meaning is not None and meaning.state.complete:
        return Semantics(loaded.embedder, meaning, loaded.why)
    older = _older(store, config, folders, loaded.embedder)
    if older is not None and (meaning is None or older[1].messages > meaning.messages):
        unready = loaded.embedder.name
        if older[0].mark == loaded.embedder.mark:
            unready += f" in {config.index.vector_precision}"
        return Semantics(*older, loaded.why or f"{unready} is not through yet: aj reindex")
    if meaning is None or not meaning.messages:
        made = meaning is None or meaning.vectors.count  # by other settings, or before the file was damaged
        return Semantics(None, None, loaded.why or (OTHERS_ONLY if made else NOTHING_YET))
    return Semantics(loaded.embedder, meaning, loaded.why)


def examined(store: Store, config: Config, folders: Sequence[Path]) -> tuple[bool, str, float]:
    """(Whether nothing is wrong, what there is, the share of messages that is embedded.) Reads every vector."""
    if not config.vector.enabled:
        return True, f"none: {VECTORS_OFF}", 0.0
    loaded = load_embedder(config.vector, folders)
    if loaded.embedder is None:
        return False, loaded.why, 0.0
    embedder, total = loaded.embedder, store.counts()[1]
    if folder_of(store, embedder.mark, config.index.vector_precision).name not in kept_marks(store):
        return not loaded.why, loaded.why or f"nothing is embedded by {embedder.name} yet: aj reindex", 0.0
    meaning, why = _opened(store, config, embedder.mark, embedder.dimensions)
    if meaning is None or why:
        return False, f"{why}: aj reindex makes them anew", 0.0
    if damage := meaning.vectors.check():
        return False, f"{damage}: aj reindex --full makes them anew", 0.0
    waiting = max(total - meaning.messages, 0)
    said = f"{meaning.vectors.count:,} texts of {meaning.messages:,} messages, {embedder.name}"
    said += f"; {loaded.why}" if loaded.why else ""
    said += f"; {waiting:,} more: aj reindex" if waiting else ""
    return not loaded.why, said, meaning.messages / total if total else 0.0


def _older(store: Store, config: Config, folders: Sequence[Path], chosen: Embedder) -> tuple[Embedder, Meaning] | None:
    """Vectors of another model, or of the same in another precision."""
    kept = kept_marks(store)
    for model in available(folders):
        with suppress(BadModel):
            for precision in PRECISIONS:
                own = model.mark == chosen.mark
                if (own and precision == config.index.vector_precision) or f"{model.mark}-{precision}" not in kept:
                    continue
                embedder = chosen if own else OnnxEmbedder(model, config.vector.threads)
                meaning, _ = _opened(store, config, embedder.mark, embedder.dimensions, precision)
                if meaning is not None and meaning.messages:
                    return embedder, meaning
    return None


def _opened(
    store: Store, config: Config, mark: str, dimensions: int, precision: str = ""
) -> tuple[Meaning | None, str]:
    return Meaning.open(store, mark, dimensions, precision or config.index.vector_precision, embedded(config))


def embed(
    store: Store,
    config: Config,
    folders: Sequence[Path],
    progress: Progress | None,
    budget_seconds: float | None,
    *,
    check: bool = False,
) -> tuple[EmbeddingReport, str, str]:
    """(What was embedded, by which embedder, and what to say of it.) Searches go on beside it: its lock is its own.

    `check`: read every vector that is there, and make them anew if they are damaged.
    """
    if _is_done(store, config, folders, check):
        return EmbeddingReport(), "", ""
    loaded = load_embedder(config.vector, folders)
    if loaded.embedder is None:
        return EmbeddingReport(), "", loaded.why
    embedder, precision = loaded.embedder, config.index.vector_precision
    Store.make_folder(store.folder / FOLDER)
    with writing(store.folder / FOLDER, 0.0):
        meaning, _ = _opened(store, config, embedder.mark, embedder.dimensions)
        if meaning is None or (check and meaning.vectors.check()):
            meaning = Meaning.create(store, embedder.mark, embedder.dimensions, precision, embedded(config))
        shown = (lambda done, total: progress("embedding", done, total, "")) if progress else None
        report = Embedding(meaning, store, embedder).run(shown, budget_seconds)
        if meaning.state.complete and not loaded.why:
            _forget_others(store, folder_of(store, embedder.mark, precision))
    refused = f"{embedder.name} cannot embed {report.refused:,} of the texts: found by words alone"
    return report, embedder.name, loaded.why or (refused if report.refused else "")


def _is_done(store: Store, config: Config, folders: Sequence[Path], check: bool) -> bool:
    """Whether nothing waits for vectors, nor other vectors for their end: then no model is loaded, which takes longer
    than all the rest."""
    if not config.vector.enabled or not store.counts()[1]:
        return True
    if len(kept_marks(store)) > 1:
        return False
    try:
        model = find(config.vector.model, folders)
        meaning, _ = _opened(store, config, model.mark, model.card.dimensions)
    except (BadModel, NoSuchModel):
        return False  # what stands in for it, and why, is load_embedder's to say
    if meaning is None or not meaning.state.complete or meaning.state.reached < store.seq:
        return False
    return not (check and meaning.vectors.check())


def _forget_others(store: Store, kept: Path) -> None:
    """Vectors of models that are no longer used: they can be made again, and are large. Not while something stands in
    for the model that was chosen: it may come back."""
    for name in kept_marks(store):
        if name != kept.name:
            shutil.rmtree(kept.parent / name, ignore_errors=True)
