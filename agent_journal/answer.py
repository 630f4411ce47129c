"""What a search returns. Values only, so that a renderer needs neither the index nor the query engine."""

from __future__ import annotations

from msgspec import Struct

from agent_journal.query import Query
from agent_journal.session import Resume, StoredMessage, StoredSession


class Snippet(Struct, frozen=True):
    text: str  # one line: white space folded, control characters removed
    highlights: tuple[tuple[int, int], ...]  # character ranges in text


class Place(Struct, frozen=True):
    """Another session that holds a copy of the matched message."""

    session: str  # key
    ordinal: int


class Parts(Struct, frozen=True):
    """What a score is made of: words, meaning and session add up to it."""

    words: float = 0.0
    meaning: float = 0.0  # what stands around the message counts in
    cosine: float | None = None  # of the message's nearest piece, where meaning brought it in; not added
    # What other matches of its session add or, where they come first, take away; and what brings the best by one kind
    # of evidence onto the first page.
    session: float = 0.0


class Match(Struct, frozen=True):
    rank: int  # 1-based over all pages
    score: float
    found_by: tuple[str, ...]  # "lexical", "semantic"
    where: str  # user | assistant | system | tool | thinking | tool_input | tool_result | title
    snippet: Snippet
    session: StoredSession
    message: StoredMessage
    before: tuple[StoredMessage, ...]
    after: tuple[StoredMessage, ...]
    also_in: tuple[Place, ...] = ()
    resume: Resume | None = None
    parts: Parts = Parts()


class Coverage(Struct, frozen=True):
    """What the answer was drawn from."""

    sessions: int
    messages: int
    embedded: float  # share of messages that have vectors, 0 to 1
    behind: int  # sources changed on disk and not yet taken in
    stale: bool  # another process was writing: this is its last commit


class Totals(Struct, frozen=True):
    messages: int  # always exact: the sum of `words` and `meaning`
    sessions: int
    exact: bool  # whether `sessions` is
    words: int  # messages that fit by their words, or by filters where no word was asked for
    meaning: int  # further ones that meaning alone brought in: the nearest, of which there are always some


class Answer(Struct, frozen=True):
    query: Query
    asked: str
    used: str
    why: str  # why `used` differs from `asked`; "" if it does not
    embedder: str | None
    coverage: Coverage
    total: Totals
    took_ms: float
    matches: tuple[Match, ...]
    next: str | None  # cursor of the next page
    notes: tuple[str, ...] = ()  # sentences the user should see: rebuilt index, partial first run
