"""Whether a model really embeds: a few texts through it, before it may stand among the others.

Judges no quality: only that vectors come out and that they differ.
"""

from __future__ import annotations

from agent_journal.errors import BadModel
from agent_journal.index.model import Model

TEXTS = ("the parser drops nested quotes", "a recipe for lentil soup", "x " * 2000, "日本語 and emoji 🙂")


def vector_length(model: Model) -> int:
    """The length of the model's vectors; raises BadModel when it gives none that could be searched."""
    import numpy as np

    from agent_journal.index.embed import OnnxEmbedder

    vectors = OnnxEmbedder(model).embed(TEXTS)  # raises for what is no vector
    if np.allclose(vectors[0], vectors[1], atol=1e-4):
        raise BadModel(f"{model.card.name} gives the same vector for different texts")
    return int(vectors.shape[1])
