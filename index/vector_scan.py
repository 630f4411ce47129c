"""Comparing one query with many vectors: dot products and Hamming distances by SIMD, and the best of them.

Vectors are of unit length, so the dot product is the cosine. Nothing here reads or writes a file.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from agent_journal.index.vector_file import blocks

try:
    import simsimd
except ImportError:  # no wheel for this machine: slower, same answers
    simsimd = None  # type: ignore[assignment]

# These kernels add up in half precision and are off by 1e-3; those used without them widen to single first.
_COARSE_KERNELS = ("sapphire", "sve", "sve_f16")

Scores = NDArray[np.float64]
Row = NDArray[np.int64]

if simsimd is not None:
    for _name in _COARSE_KERNELS:
        simsimd.disable_capability(_name)


def dots(query: NDArray[Any], vectors: NDArray[Any]) -> Scores:
    """Of one query with every row; both of one precision. Rows may be apart (strided): they are not copied."""
    if not len(vectors):
        return np.empty(0)
    if simsimd is None:
        return numpy_dots(query, vectors)
    return np.asarray(simsimd.cdist(query[None], vectors, "dot"), np.float64).reshape(-1)


def numpy_dots(query: NDArray[Any], vectors: NDArray[Any]) -> Scores:
    asked = query.astype(np.float32)
    parts = [block.astype(np.float32, copy=False) @ asked for block in blocks(vectors)]
    return np.concatenate(parts).astype(np.float64)


def signs(vectors: NDArray[Any]) -> NDArray[np.uint8]:
    """One bit a number: is it negative? Read from the raw bits, because comparing half floats is 50 times slower."""
    width = vectors.dtype.itemsize
    raw = vectors.view(np.dtype(f"<u{width}"))
    return np.packbits(raw >= 1 << (8 * width - 1), axis=1)


def hamming(query: NDArray[np.uint8], bits: NDArray[np.uint8]) -> NDArray[Any]:
    if not len(bits):
        return np.empty(0)
    if simsimd is None:
        return numpy_hamming(query, bits)
    return np.asarray(simsimd.cdist(query[None], bits, "hamming", dtype="bin8")).reshape(-1)


def numpy_hamming(query: NDArray[np.uint8], bits: NDArray[np.uint8]) -> NDArray[Any]:
    ones = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1).sum(axis=1, dtype=np.uint16)
    return np.concatenate([ones[block ^ query].sum(axis=1) for block in blocks(bits)])


def nearest(distances: NDArray[Any], depth: int) -> Row:
    """The places of the `depth` smallest, in their own order."""
    if depth >= len(distances):
        return np.arange(len(distances), dtype=np.int64)
    return np.sort(np.argpartition(distances, depth)[:depth]).astype(np.int64)


def best(scores: Scores, k: int) -> Row:
    """The places of the k largest, largest first; equal ones in the order they stand."""
    k = max(0, min(k, len(scores)))
    if not k:
        return np.empty(0, np.int64)
    least = np.partition(scores, len(scores) - k)[len(scores) - k]
    places = np.flatnonzero(scores >= least)
    return places[np.argsort(-scores[places], kind="stable")[:k]].astype(np.int64)
