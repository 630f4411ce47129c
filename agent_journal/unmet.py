"""Why an answer is empty, where its filters are the reason, and which words may be misspelt: sentences for the user."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence
from itertools import islice

from agent_journal.lookup import Lookup
from agent_journal.query import EITHER, And, Filter, Group, Node, Not, Or, Query, Word, format

GUESSABLE = ("project", "tool", "home", "branch", "model")  # fields whose values are names, and few
OF_PARTS = ("project", "model")  # a part of the name is enough for them
MOST_NAMED = 3  # filters that nothing fits
# Words another is looked for: which of 300,000 that begin alike are most frequent takes the index 0.2 s to tell, and
# a query of many words that nothing has is of another language, or was pasted.
MOST_GUESSED = 6
LEAST_GUESS = 4  # letters: to shorter words too many are near
LIKENESS = 0.85  # of a word to the one that was meant: recieve and receive have 0.86, travel and traversal 0.8
LONGEST_GUESS = 100  # characters: what is longer was no name
SHOWN = 80  # characters of a filter inside a sentence


def unmet(lookup: Lookup) -> tuple[str, ...]:
    """Each filter that nothing fits, or all of them if nothing fits them together; else words that may be misspelt."""
    required = list(dict.fromkeys(_required(lookup.query.root)))
    unfit = [item for item in required if lookup.any_that_fits(item) is None]
    if unfit:
        return tuple(f"nothing has {_shown(item)}{_guess(lookup, item)}" for item in unfit[:MOST_NAMED])
    together = _without_words(lookup.query.root)
    if not isinstance(together, (And, Group, Or)) or lookup.any_that_fits(together) is not None:
        return misspelt(lookup)
    verb = "fits" if _has_alternatives(together, required) else "has all of"
    return (f"no message {verb} {_shown(together)}",)


def misspelt(lookup: Lookup) -> tuple[str, ...]:
    """Words that stand nowhere, with one that does. Said below other answers, too: the rest was found without them."""
    guessable = (word for word in lookup.unheard if LEAST_GUESS <= len(word) <= LONGEST_GUESS)
    told = ((word, _meant(lookup, word)) for word in islice(guessable, MOST_GUESSED))
    return tuple(islice((f"nothing has {word}; did you mean {meant}?" for word, meant in told if meant), MOST_NAMED))


def _required(node: Node | None) -> Iterator[Filter]:
    if isinstance(node, (And, Or, Group)):
        for item in node.items:
            yield from _required(item)
    elif isinstance(node, Filter):
        yield node


def _without_words(node: Node | None) -> Node | None:
    """What the filters ask for. None where they ask for nothing."""
    if isinstance(node, Filter):
        return node
    if isinstance(node, Not):
        return node if _without_words(node.item) == node.item else None
    if not isinstance(node, (And, Or, Group)):
        return None
    kept = [item for item in map(_without_words, node.items) if item is not None]
    if not kept or (isinstance(node, Or) and len(kept) < len(node.items)):
        return None
    return kept[0] if len(kept) == 1 else type(node)(tuple(kept))


def _has_alternatives(node: Node, required: Sequence[Filter]) -> bool:
    fields = [item.field for item in required if item.field in EITHER]
    return _holds_or(node) or len(set(fields)) < len(fields)


def _holds_or(node: Node) -> bool:
    return isinstance(node, Or) or (isinstance(node, (And, Group)) and any(map(_holds_or, node.items)))


def _shown(node: Node) -> str:
    text = format(Query("", node))
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 1]}…"


def _meant(lookup: Lookup, word: str) -> str | None:
    """The closest word that begins alike; before others one of the same letters, two of which change places."""
    known = [value for value in lookup.values("text", word[0].lower()) if value.isalpha()]
    near = [value for value in known if sorted(value) == sorted(word.lower())]
    near += difflib.get_close_matches(word.lower(), known, cutoff=LIKENESS)
    return next((value for value in near if lookup.any_that_fits(Word(value)) is not None), None)


def _guess(lookup: Lookup, item: Filter) -> str:
    """The closest value there is."""
    if item.field not in GUESSABLE or len(item.value) > LONGEST_GUESS:
        return ""
    known = lookup.values(item.field)
    if item.field in OF_PARTS:
        known += [part for name in known for part in re.split(r"[^a-z0-9.]+", name) if len(part) > 1]
    for value in difflib.get_close_matches(item.value.lower(), dict.fromkeys(known)):
        near = Filter(item.field, value)
        if (message := lookup.any_that_fits(near)) is not None:  # or only what was removed had it
            return f"; did you mean {_shown(Filter(item.field, lookup.as_written(message, near)))}?"
    return ""
