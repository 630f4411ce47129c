"""Whether a model really embeds: a few texts through it, before it may stand among the others.

Says why not in a sentence. It judges no quality: only that vectors come out and that they differ.
"""

from __future__ import annotations

from agent_journal.errors import BadModel
from agent_journal.index.model import Model

TEXTS = ("the parser drops nested quotes", "a recipe for lentil soup", "x " * 2000, "日本語 and emoji 🙂")


def vector_length(model: Model) -> int:
    """The length of the model's vectors; raises BadModel when it gives none that could be searched."""
    import numpy as np

    from agent_journal.index.embed import OnnxEmbedder

    embedder = OnnxEmbedder(model, 0)
    vectors = embedder.embed(TEXTS)
    if vectors.ndim != 2 or len(vectors) != len(TEXTS):
        raise BadModel(f"{model.card.name} gives no vector for each text")
    if not np.isfinite(vectors).all():
        raise BadModel(f"{model.card.name} gives vectors that are no numbers")
    if np.allclose(vectors[0], vectors[1], atol=1e-4):
        raise BadModel(f"{model.card.name} gives the same vector for different texts")
    return int(vectors.shape[1])
