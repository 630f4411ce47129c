"""How a text is embedded: cleaned, and cut into overlapping pieces that fit a model. Pure."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator

VERSION = 3  # raised when other pieces would come out: messages are then cut anew, and only new pieces embedded
# A few sentences: on real sessions pieces of 450 characters found 58 of 71 by vectors alone, pieces of 900 found 54.
CHUNK_CHARS = 450
OVERLAP_CHARS = 80  # a thought cut in two stands whole in one of its pieces
MOST_CHUNKS = 80  # of one message: a pasted dump is found by its words
CODE_CHARS = 400  # of a fenced block: its first lines say what it is
LONGEST_RUN = 60  # characters without a space: hashes, encoded files, long URLs
LEAST_CHARS = 3  # below it there is nothing to mean

_FENCE = re.compile(r"^[ \t]*(`{3,}+|~{3,}+)[^\n]*\n(.*?)(?:^[ \t]*\1[ \t]*$|\Z)", re.MULTILINE | re.DOTALL)
_TAG = re.compile(r"</?[a-zA-Z][\w:-]{0,40}(?:\s[^<>]{0,200})?/?>")
_MARKUP = re.compile(r"[*_]{2,}|^[ \t]*(?:#{1,6}|>|[-*+•])[ \t]+|[|│┃]+|[-=─━]{4,}|`+", re.MULTILINE)
_RUN = re.compile(rf"\S{{{LONGEST_RUN + 1},}}")
_BLANK = re.compile(r"\s+")
_BREAK = re.compile(r"(?<=[.!?:;])\s+|\n+")


def digest_of(chunk: str) -> int:
    """64 bits: one text is embedded once, wherever and however often it stands."""
    return int.from_bytes(hashlib.blake2b(chunk.encode("utf-8", "replace"), digest_size=8).digest(), "little")


def chunks(text: str) -> list[str]:
    """The pieces of a text, in order; none where there is nothing to mean."""
    found: list[str] = []
    piece = ""
    for sentence in _sentences(text[: 4 * MOST_CHUNKS * CHUNK_CHARS]):
        if piece and len(piece) + 1 + len(sentence) > CHUNK_CHARS:
            found.append(piece)
            if len(found) == MOST_CHUNKS:
                return found
            piece = _tail(piece)
        piece = f"{piece} {sentence}" if piece else sentence
    if len(piece) >= LEAST_CHARS and not (found and piece == _tail(found[-1])):
        found.append(piece)
    return found


def _sentences(text: str) -> Iterator[str]:
    cleaned = _MARKUP.sub(" ", _TAG.sub(" ", _FENCE.sub(_shortened, text)))
    for part in _BREAK.split(_RUN.sub(lambda run: run.group()[:LONGEST_RUN], cleaned)):
        words = _BLANK.sub(" ", part).strip()
        for start in range(0, len(words), CHUNK_CHARS - OVERLAP_CHARS):
            yield words[start : start + CHUNK_CHARS - OVERLAP_CHARS]


def _shortened(fence: re.Match[str]) -> str:
    code = fence.group(2)
    lines = code if len(code) <= CODE_CHARS else code[:CODE_CHARS].rpartition("\n")[0] or code[:CODE_CHARS]
    return f"\n{lines}\n"


def _tail(piece: str) -> str:
    """The end of a piece, from a word's beginning: the next one begins with it."""
    return piece[-OVERLAP_CHARS:].partition(" ")[2]
