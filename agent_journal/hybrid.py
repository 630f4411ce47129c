"""One query against the vectors, and its answer joined with that of the word index.

Opens and loads nothing (see semantics.py), and what each kind of evidence is worth is fusion.py's to say.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from agent_journal.answer import Parts, Snippet
from agent_journal.background import background
from agent_journal.compose import WEIGHTS
from agent_journal.fusion import LATEST_BY_MEANING, LATEST_BY_WORDS, fused, shares, words_first_within
from agent_journal.index import document, embedding, words
from agent_journal.index.embed import Embedder
from agent_journal.index.meaning import Meaning
from agent_journal.lookup import BLOCK, SESSION_CAP, Found, Lookup, where
from agent_journal.paging import Page
from agent_journal.query import Phrase, Word
from agent_journal.ranking import Candidate, ranked, with_latest
from agent_journal.session import StoredMessage, StoredSession
from agent_journal.snippet import best_place

NEAREST = 300  # pieces of text that are looked at
MOST_NEAR = 200  # messages that meaning alone may bring in
BEST = 10  # messages by their words that are asked whether they hold all of them
FLOOR = 2.0  # deviations above the usual; nearer ones than that exist for every query
# Of that, where there are few texts: the nearest of 13,000 to any question lies higher than the nearest of ten. Of 20
# questions of five talks of ten messages 18 then find theirs, not 15; one in seven about soup finds something, too.
LENIENCE = 0.7
KNOWN_SHARE = 0.5  # of the query's words must be words: to nonsense everything is equally near, and something nearest
UNREAD = "{} knows too few of these words"
GUESSED = "none of these words is one to {}: what is near to them may be so by chance"
NO_TEXTS = np.empty((0, 0), np.float32)
MASKABLE = 20_000  # messages a filter may leave to be marked before the search; above, hits are filtered as they come


def understood(lookup: Lookup, embedder: Embedder) -> bool:
    topical = _topical(lookup)
    known = [text for text in topical if lookup.holds(text) or embedder.knows(text)]
    return len(known) >= max(1, KNOWN_SHARE * len(topical)) and max(map(len, topical), default=0) > 1


def familiar(lookup: Lookup, embedder: Embedder) -> float:
    """The share of the query that is words to the model: names of code and other languages are not."""
    topical = _topical(lookup)
    known = [text for text in topical if not words.is_name(text) and embedder.knows(text)]
    return len(known) / len(topical) if topical else 1.0


def _topical(lookup: Lookup) -> list[str]:
    parts = [part for w in lookup.query.words() for part in w.text.split()]
    every = [part for part in parts if any(map(str.isalnum, part))]
    return [word for word in map(words.bare, every) if word.lower() not in words.STOPWORDS] or every


class Hybrid:
    def __init__(self, lookup: Lookup, meaning: Meaning, embedder: Embedder, mode: str) -> None:
        self.lookup = lookup
        self.meaning = meaning
        self.embedder = embedder
        self.mode = mode
        self.shares: tuple[Mapping[int, float], Mapping[int, float]] = ({}, {})  # of the score: by words, by meaning
        self.vector = meaning.distinct(embedder.embed_query(lookup.question))

    def page(self, page: Page, limit: int) -> Found:
        """The head of the answer is ranked by both kinds of evidence; below it, the word index goes on alone."""
        seq = page.seq or self.lookup.lexical.reached
        near, cosines, strengths = self._near(seq)
        by_words, total = ([], 0) if self.mode == "semantic" else self.lookup.best(seq)
        sessions = {c.message: c.session for c in (*by_words, *near)}
        points = {c.message: c.score for c in by_words}
        extra = [c for c in near if c.message not in points]
        if self.mode != "semantic":
            scored = self.lookup.scored([c.message for c in extra], seq)
            points |= {c.message: c.score for c in scored}
            extra = [c for c in extra if c.message not in points]
        strengths |= self._strengths([m for m in sessions if m not in strengths])
        head = self._ranked(points, strengths, sessions)
        candidates = head[page.offset : page.offset + limit]
        if len(candidates) < limit and total > BLOCK:
            candidates += self._below(max(0, page.offset - len(head)), limit - len(candidates), head, seq)
        # Without those below the head: what words gave them is all they have.
        parts = {c.message: self._parts(c, cosines) for c in candidates if c.message in sessions}
        return self._found(candidates, total, extra, parts, seq)

    def _parts(self, c: Candidate, cosines: Mapping[int, float]) -> Parts:
        words, meaning = (share.get(c.message, 0.0) for share in self.shares)
        return Parts(words, meaning, cosines.get(c.message), c.score - words - meaning)

    def _ranked(
        self, points: Mapping[int, float], strengths: Mapping[int, float], sessions: Mapping[int, int]
    ) -> list[Candidate]:
        def of(scores: Mapping[int, float]) -> list[Candidate]:
            return ranked([Candidate(m, sessions[m], score) for m, score in scores.items()])

        if not self.embedder.is_semantic:  # words that look alike come after words that are the same
            strengths = {m: s for m, s in strengths.items() if m not in points}
        self.shares = (points, strengths)
        if self.mode == "semantic" or not self.embedder.is_semantic:
            return of(points) + of(strengths)
        best = sorted(points, key=lambda m: -points[m])[:BEST]
        there = [text for text in _topical(self.lookup) if self.lookup.holds(text)]
        held = len(there) if self.lookup.holding(best) else 0
        self.shares = shares(points, strengths, self._rarity(), familiar(self.lookup, self.embedder), held)
        scores = fused(*self.shares, sessions)
        if held == 1:  # who asks for one word that is there wants every message that holds it first
            return of({m: scores[m] for m in points}) + of({m: s for m, s in scores.items() if m not in points})
        latest = {c.message: place for c, place in zip(of(strengths), LATEST_BY_MEANING, strict=False)}
        latest |= {c.message: place for c, place in zip(of(points), LATEST_BY_WORDS, strict=False)}
        return with_latest(of(words_first_within(scores, self.shares[0], sessions)), latest)

    def _rarity(self) -> float:
        """Of all the query's words together. One that is nowhere asks for nothing that words could hold."""
        asked = [w.text for w in self.lookup.query.words() if isinstance(w, Word)]
        topical = [text for text in asked if words.bare(text).lower() not in words.STOPWORDS] or asked
        stems = [stem for text in topical for stem in words.stems(words.bare(text)) if len(stem) > 1]
        return sum(map(self.lookup.rarity, filter(self.lookup.knows, stems)))

    def _near(self, seq: int) -> tuple[list[Candidate], dict[int, float], dict[int, float]]:
        """Messages that meaning brings in, with their cosines and strengths."""
        mask = self._mask(seq)
        smallness = self.meaning.smallness if self.embedder.is_semantic else 0.0
        floor = FLOOR - LENIENCE * smallness
        self.usual = self.meaning.usual(self.vector, mask, background(self.embedder) if smallness else NO_TEXTS)
        if not self._has_a_say():
            return [], {}, {}
        pieces, available = NEAREST, self.meaning.vectors.count if mask is None else int(mask.sum())
        while True:
            messages, cosines = self.meaning.nearest(self.vector, pieces, mask)
            near = self.usual.strength(cosines) >= floor
            places = {c.message: c for c in self.lookup.allowed(messages[near].tolist(), seq)}
            if len(places) >= MOST_NEAR or not near.all() or pieces >= available:
                break
            pieces *= 4  # a filter that was too wide to be marked let few pass
        nearness = dict(zip(messages.tolist(), map(float, cosines), strict=True))
        kept = [int(m) for m in messages if int(m) in places][:MOST_NEAR]
        return [places[m] for m in kept], {m: nearness[m] for m in kept}, self._strengths(kept)

    def _has_a_say(self) -> bool:
        """Beside words, a model that knows none of them would bring in what it gives no point for."""
        strict = self.mode != "semantic" and self.embedder.is_semantic
        return not (strict and not familiar(self.lookup, self.embedder)) and understood(self.lookup, self.embedder)

    def doubt(self, *, empty: bool) -> str:
        """Why nothing is near to what is no word to the model, as nonsense; or why what is near may not be meant."""
        if not self.embedder.is_semantic:
            return ""
        if empty:
            return "" if self._has_a_say() else UNREAD.format(self.embedder.name)
        guessed = self.mode == "semantic" and not familiar(self.lookup, self.embedder)
        return GUESSED.format(self.embedder.name) if guessed else ""

    def _mask(self, seq: int) -> NDArray[np.bool_] | None:
        if not self.lookup.query.filters() and not any(isinstance(w, Phrase) for w in self.lookup.query.words()):
            return None
        within = self.lookup.within(MASKABLE, seq)
        return None if within is None else self.meaning.rows_of(np.array(within, np.int64))

    def _strengths(self, messages: Sequence[int]) -> dict[int, float]:
        found = self.meaning.strengths(self.vector, np.array(messages, np.int64), self.usual)
        return dict(zip(messages, map(float, found), strict=True))

    def _below(self, offset: int, wanted: int, head: Sequence[Candidate], seq: int) -> list[Candidate]:
        """Further matches by words alone, without those that the head has already."""
        shown = {c.message for c in head}
        further = (c for c in self.lookup.tail(seq) if c.message not in shown)
        return list(islice(further, offset, offset + wanted))

    def _found(
        self, candidates: list[Candidate], total: int, extra: Sequence[Candidate], parts: Mapping[int, Parts], seq: int
    ) -> Found:
        sessions, exact = self.lookup.session_rows(seq) if total else ([], True)
        every = {*sessions, *(c.session for c in extra)}
        few = exact and len(every) <= SESSION_CAP
        return Found(candidates, total + len(extra), len(every), few, parts, by_meaning=len(extra))

    # --- why ---------------------------------------------------------------------------------------------

    def excerpt(self, message: StoredMessage, session: StoredSession) -> tuple[str, Snippet]:
        """The piece that brought the message in, and where it stands: there may be no word of the query in it."""
        pieces = embedding.pieces(message, session, self.lookup.store, self.meaning.options)
        best = self.meaning.best_piece(self.vector, message.id)
        place, text = pieces[best][:2] if best < len(pieces) else ("text", message.message.text)
        parts = document.names(document.titled(session)) if place == "title" else [text]
        found = best_place([(place, part) for part in parts], self.lookup.terms, WEIGHTS)
        return where(place, message.message.role.value), found[1] if found else Snippet("", ())
