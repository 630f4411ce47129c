"""Vectors without a model: words, pairs of words and pieces of words, hashed to signed places of one fixed width.

Near means "shares words or parts of words", never "means the same": `is_semantic` is False, and a ranking must not
weigh these as it weighs a model's. The same text gives the same vector on every machine and in every process.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from hashlib import blake2b
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

VERSION = 1  # in the mark: raise it with any change below that changes a vector

# nDCG@10: LoCoMo .305, CoSQA .300; without the pieces .266 and .226, without the stems .295 and .291.
PAIR_WEIGHT = 0.25  # costs .002, and tells texts of the same words apart
STOPWORD_WEIGHT = 0.2  # +.015 on LoCoMo
LETTER_WEIGHT = 0.1  # a longer word is a rarer one: +.02 on LoCoMo, -.005 on CoSQA
LETTERS_COUNTED = 10
PIECES = (3, 4, 5)  # characters
LONGEST_WORD = 64  # what is longer is cut into several: a hash, an encoded file
DIMENSIONS = 384
CACHED_WORDS = 16_384  # about 700 bytes each

_WORD = re.compile(rf"[^\W_]{{1,{LONGEST_WORD}}}")
_HUMP = re.compile(r"([a-z0-9])([A-Z])|([A-Z])([A-Z][a-z])")
_HUMP_SPLIT = r"\1\3 \2\4"
_CJK = re.compile("[\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff]+")
_ENDINGS = ("ingly", "edly", "ing", "ed", "ies", "es", "s", "ly")
_SHORTEST_STEM = 3
# Its own list, not the lexical index's: vectors on disk must not change when that one does.
_STOPWORDS = frozenset(
    "a about again am an and any are as at be been being both but by can could did do does during each few for from "
    "further had has have he her here his how i if in into is it its just may me might more most my no nor not of on "
    "only or other our own same shall she should so some such than that the their them then there these they this "
    "those to too until us very was we were what when where which while who whom why will with would you your".split()
)

Sketch = tuple[NDArray[np.intp], NDArray[np.float64]]  # places and what is added there


class HashEmbedder:
    name = "hash"
    mark = f"hash-{DIMENSIONS}-{VERSION}"
    dimensions = DIMENSIONS
    is_semantic = False

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        rows = np.zeros((len(texts), DIMENSIONS), np.float32)
        for row, text in zip(rows, texts, strict=True):
            row[:] = self.embed_query(text)
        return rows

    def knows(self, word: str) -> bool:
        return False  # it has met no word before

    def embed_query(self, text: str) -> NDArray[np.float32]:
        words = _words(text)
        sketches = [(_word_sketch(word), _damped(n)) for word, n in Counter(words).items()]
        pairs = Counter(pairwise(_stem(word) for word in words if word not in _STOPWORDS))
        slots = [_slot(f"p{first} {second}") for first, second in pairs]
        places = [sketch[0] for sketch, _ in sketches]
        amounts = [sketch[1] * weight for sketch, weight in sketches]
        places.append(np.array([place for place, _ in slots], np.intp))
        amounts.append(
            np.array([s * PAIR_WEIGHT * _damped(n) for (_, s), n in zip(slots, pairs.values(), strict=True)])
        )
        whole = np.bincount(np.concatenate(places), np.concatenate(amounts), DIMENSIONS)
        length = math.sqrt(whole @ whole)
        return (whole / (length or 1.0)).astype(np.float32)


def _damped(count: int) -> float:
    return 1.0 + math.log(count)


def _words(text: str) -> list[str]:
    if not text.isascii():
        apart = unicodedata.normalize("NFKD", text)
        text = unicodedata.normalize("NFC", "".join(c for c in apart if not unicodedata.combining(c)))
        text = _CJK.sub(_in_pairs, text)
    return _WORD.findall(_HUMP.sub(_HUMP_SPLIT, text).lower())


def _in_pairs(run: re.Match[str]) -> str:
    """Overlapping: without spaces, nobody knows where its words end."""
    text = run.group()
    return f" {' '.join(text[i : i + 2] for i in range(max(len(text) - 1, 1)))} "


@lru_cache(CACHED_WORDS)
def _stem(word: str) -> str:
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= _SHORTEST_STEM:
            return word[: -len(ending)]
    return word


@lru_cache(CACHED_WORDS)
def _word_sketch(word: str) -> Sketch:
    """The word's stem and its pieces; all pieces of one size together weigh as much as the stem."""
    weight = STOPWORD_WEIGHT if word in _STOPWORDS else 1.0 + LETTER_WEIGHT * min(len(word), LETTERS_COUNTED)
    weights = {f"w{_stem(word)}": weight}
    edged = f"<{word}>"
    for size in PIECES:
        pieces = [edged[i : i + size] for i in range(len(edged) - size + 1)]
        for piece, count in Counter(pieces).items():
            weights[f"g{piece}"] = weight * count / math.sqrt(len(pieces))
    slots = [_slot(feature) for feature in weights]
    signed = [sign * amount for (_, sign), amount in zip(slots, weights.values(), strict=True)]
    return np.array([place for place, _ in slots], np.intp), np.array(signed)


def _slot(feature: str) -> tuple[int, float]:
    number = int.from_bytes(blake2b(feature.encode(), digest_size=8).digest(), "little")
    return number % DIMENSIONS, 1.0 if number >> 63 else -1.0
