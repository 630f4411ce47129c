"""Where the next page begins, as a short text that only continues the search it came from."""

from __future__ import annotations

import base64
import binascii
import hashlib

from msgspec import Struct

from agent_journal.errors import BadQuery

FARTHEST = 10_000_000  # an offset costs memory; nobody pages so far


class Page(Struct, frozen=True):
    offset: int = 0
    seq: int | None = None  # the change the index had reached on the first page


def written(page: Page, question: str) -> str:
    text = f"{page.offset}.{page.seq or 0}.{_mark(question)}"
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def read(cursor: str | None, question: str) -> Page:
    if not cursor:
        return Page()
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        offset, seq, mark = base64.b64decode(padded, altchars=b"-_", validate=True).decode("ascii").split(".")
        page = Page(int(offset), int(seq) or None)
        if not (0 <= page.offset <= FARTHEST and 0 <= int(seq) < 2**62):
            raise ValueError(offset)
    except (binascii.Error, ValueError) as error:
        raise BadQuery("that is not a cursor", "use the `next` of an earlier answer, or leave it out") from error
    if mark != _mark(question):
        raise BadQuery("that cursor belongs to another search", "repeat the search it came from, with the same filters")
    return page


def _mark(question: str) -> str:
    return hashlib.blake2b(question.encode("utf-8", "replace"), digest_size=5).hexdigest()
