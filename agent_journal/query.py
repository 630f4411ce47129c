"""Query text -> Query: what was asked, as a tree. Pure: opens nothing, knows no index and no agent.

Precedence, tightest first: NOT and -, things side by side, AND, OR. docs/query.md explains it with examples.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

from msgspec import Struct, structs

from agent_journal.dates import local_now
from agent_journal.errors import BadQuery
from agent_journal.query_tokens import FIELDS, Filter, Phrase, Token, Word, filter_of, tokens, written

MAX_CHARS = 10_000
MAX_WORDS = 200
MAX_DEPTH = 50  # of parentheses: keeps every walk of the tree far from Python's recursion limit

# Written twice side by side these mean either; is, since and until narrow each time.
EITHER = frozenset(FIELDS) - {"is", "since", "until"}


class Not(Struct, frozen=True):
    item: Node


class And(Struct, frozen=True):
    items: tuple[Node, ...]


class Or(Struct, frozen=True):
    items: tuple[Node, ...]


class Group(Struct, frozen=True):
    """Things side by side: phrases, filters and parentheses are required, what is negated is excluded, and
    of the bare words any may match; filters of one EITHER field are alternatives."""

    items: tuple[Node, ...]

    @property
    def words_only_rank(self) -> bool:
        """Whether the bare words may all be missing: something required beside them asks for text already."""
        return any(not isinstance(item, Word) and asks_for_text(item) for item in self.items)


Node = Word | Phrase | Filter | Not | And | Or | Group


def asks_for_text(node: Node) -> bool:
    """Whether nothing can match this without a word or phrase in it."""
    if isinstance(node, Or):
        return all(asks_for_text(item) for item in node.items)
    if isinstance(node, (And, Group)):
        return any(asks_for_text(item) for item in node.items)
    return isinstance(node, (Word, Phrase))


class Query(Struct, frozen=True):
    text: str  # as typed, in NFC
    typed: Node | None
    options: tuple[Filter | Not, ...] = ()

    @property
    def root(self) -> Node | None:
        if not self.options:
            return self.typed
        options = _one(Group, self.options)
        return options if self.typed is None else _one(And, (self.typed, options))

    @property
    def is_empty(self) -> bool:
        return self.root is None

    def words(self) -> list[Word | Phrase]:
        """What to highlight: words and phrases in order, without excluded ones."""
        return [leaf for leaf in _leaves(self.root) if isinstance(leaf, (Word, Phrase))]

    def filters(self) -> dict[str, list[str]]:
        """Filters to show, by field, alternatives included; an excluded value is below "-agent"."""
        shown: dict[str, list[str]] = {}
        for leaf in _leaves(self.root):
            if isinstance(leaf, Filter):
                shown.setdefault(leaf.field, []).append(leaf.value)
            elif isinstance(leaf, Not) and isinstance(leaf.item, Filter):
                shown.setdefault("-" + leaf.item.field, []).append(leaf.item.value)
        return shown

    def with_filter(self, field: str, value: str, *, negated: bool = False, now: datetime | None = None) -> Query:
        """The query narrowed by an option. Options stand side by side: the same one twice means either."""
        option = filter_of(field, _normal(value), now or local_now())
        return structs.replace(self, options=(*self.options, Not(option) if negated else option))


def _leaves(node: Node | None) -> Iterator[Node]:
    """Leaves in order; a Not is a leaf."""
    if isinstance(node, (And, Or, Group)):
        for item in node.items:
            yield from _leaves(item)
    elif node is not None:
        yield node


def parse(text: str, now: datetime | None = None) -> Query:
    """Raises BadQuery, and nothing else, for text that cannot be meant. Dates are in the zone of `now`."""
    # Twice: the first spares the normalizing, and normalizing may lengthen.
    if len(text) > MAX_CHARS or len(text := _normal(text)) > MAX_CHARS:
        raise BadQuery(f"the query is longer than {MAX_CHARS:,} characters — keep the words that matter")
    found = _matched(tokens(text, now or local_now()))
    if sum(token.leaf is not None for token in found) > MAX_WORDS:
        raise BadQuery(f"the query has more than {MAX_WORDS} words — keep the ones that matter")
    return Query(text, _Parser(found).alternatives() if found else None)


_LONE_SURROGATE = re.compile("[\ud800-\udfff]")  # from an argument that is not UTF-8; no index can hold one


def _normal(text: str) -> str:
    return unicodedata.normalize("NFC", _LONE_SURROGATE.sub("\ufffd", text))


def _matched(found: Iterable[Token]) -> list[Token]:
    """Without parentheses that are never closed, close nothing or hold nothing: those were text."""
    kept: list[Token] = []
    open_at: list[int] = []
    for token in found:
        if token.kind == "(":
            open_at.append(len(kept))
        elif token.kind == ")":
            if not open_at:
                continue
            if open_at.pop() == len(kept) - 1:
                kept.pop()
                continue
        if len(open_at) > MAX_DEPTH:
            raise BadQuery(f"parentheses are nested deeper than {MAX_DEPTH} — write it flatter")
        kept.append(token)
    for place in reversed(open_at):
        del kept[place]
    return kept


class _Parser:
    """Recursive descent over tokens whose parentheses match. An operator that joins nothing is a word."""

    def __init__(self, found: Sequence[Token]) -> None:
        self.found = found
        self.place = 0

    def alternatives(self) -> Node:
        items = [self.conjunction()]
        while self.joins("OR"):
            items.append(self.conjunction())
        return _one(Or, items)

    def conjunction(self) -> Node:
        items = [self.group()]
        while self.joins("AND"):
            items.append(self.group())
        return _one(And, items)

    def group(self) -> Node:
        items = [self.operand()]
        while not (self.ends() or self.joins_at("AND") or self.joins_at("OR")):
            items.append(self.operand())
        return _one(Group, items)

    def operand(self) -> Node:
        negated = False
        while self.joins_at("NOT"):
            negated = not negated
            self.place += 1
        token = self.found[self.place]
        self.place += 1
        item: Node | None = token.leaf
        if item is None:  # "(": _matched leaves something inside, and its end
            item = self.alternatives()
            self.place += 1
        if negated == token.negated:
            return item
        return item.item if isinstance(item, Not) else Not(item)

    def ends(self, ahead: int = 0) -> bool:
        place = self.place + ahead
        return place >= len(self.found) or self.found[place].kind == ")"

    def joins_at(self, operator: str) -> bool:
        return not self.ends() and self.found[self.place].kind == operator and not self.ends(1)

    def joins(self, operator: str) -> bool:
        if not self.joins_at(operator):
            return False
        self.place += 1
        return True


def _one(kind: type[And] | type[Or] | type[Group], items: Sequence[Node]) -> Node:
    """One node; a AND (b AND c) is a AND b AND c, but a (b c) asks for more than a b c."""
    if len(items) == 1:
        return items[0]
    if kind is not Group:
        items = [part for item in items for part in (item.items if isinstance(item, kind) else (item,))]
    return kind(tuple(items))


_JOINTS: dict[type[Node], str] = {And: " AND ", Or: " OR ", Group: " "}


def format(query: Query) -> str:
    """The canonical text, with every precedence shown by parentheses: parse(format(q)).root == q.root."""
    return "" if query.root is None else _written(query.root)


def _written(node: Node) -> str:
    if isinstance(node, (And, Or, Group)):
        return _JOINTS[type(node)].join(_operand(item) for item in node.items)
    return _operand(node)


def _operand(node: Node, negated: bool = False) -> str:
    if isinstance(node, Not):
        return _operand(node.item, negated=True)
    if isinstance(node, (Word, Phrase, Filter)):
        return written(node, negated)
    inside = _written(node)
    gap = " " * ("(" in inside.split()[-1])  # a last word like f(x would take our parenthesis for its own
    return f"{'-' * negated}({inside}{gap})"


__all__ = [
    "EITHER",
    "FIELDS",
    "MAX_CHARS",
    "MAX_DEPTH",
    "MAX_WORDS",
    "And",
    "Filter",
    "Group",
    "Node",
    "Not",
    "Or",
    "Phrase",
    "Query",
    "Word",
    "asks_for_text",
    "format",
    "parse",
]
