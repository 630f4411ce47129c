"""Query text -> Query: what was asked, as a tree. Pure: opens nothing, knows no index and no agent.

Precedence, tightest first: NOT and -, things side by side, AND, OR. docs/query.md explains it with examples.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from agent_journal.dates import local_now
from agent_journal.errors import BadQuery
from agent_journal.query_tokens import (
    FIELDS,
    MAX_WORDS,
    Filter,
    Phrase,
    Token,
    Word,
    misplaced,
    quoted,
    too_many_words,
    tokens,
    understood,
    written_filter,
    written_word,
)

MAX_CHARS = 10_000
MAX_DEPTH = 50  # parentheses; keeps the recursion below, and in those who walk the tree, far from Python's limit

# Written twice side by side these mean either; any other field narrows each time.
EITHER = frozenset(FIELDS) - {"is", "since", "until"}


@dataclass(frozen=True, slots=True)
class Not:
    item: Node


@dataclass(frozen=True, slots=True)
class And:
    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Or:
    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Group:
    """Things side by side: phrases, filters and parentheses are required, what is negated is excluded, and of
    the bare words any may match; filters of one EITHER field are alternatives."""

    items: tuple[Node, ...]

    @property
    def words_only_rank(self) -> bool:
        """Whether the bare words may all be missing: a phrase or parenthesis beside them already asks for text."""
        return any(not isinstance(item, Word) and asks_for_text(item) for item in self.items)


Node = Word | Phrase | Filter | Not | And | Or | Group


def asks_for_text(node: Node) -> bool:
    """Whether nothing can match this without a word or phrase in it."""
    if isinstance(node, (Word, Phrase)):
        return True
    if isinstance(node, Or):
        return all(asks_for_text(item) for item in node.items)
    if isinstance(node, (And, Group)):
        return any(asks_for_text(item) for item in node.items)
    return False


@dataclass(frozen=True, slots=True)
class Query:
    text: str  # in NFC; the places of words and filters count its characters
    root: Node | None
    added: tuple[Filter | Not, ...] = ()  # by with_filter; then they are the last item of root

    @property
    def is_empty(self) -> bool:
        return self.root is None

    def words(self) -> list[Word | Phrase]:
        """What to highlight: words and phrases in order, without excluded ones."""
        return [leaf for leaf in _wanted(self.root) if isinstance(leaf, (Word, Phrase))]

    def filters(self) -> dict[str, list[str]]:
        """Filters to show, by field, alternatives included; an excluded value is below "-agent"."""
        shown: dict[str, list[str]] = {}
        for leaf in _wanted(self.root):
            if isinstance(leaf, Filter):
                shown.setdefault(leaf.field, []).append(leaf.value)
            elif isinstance(leaf, Not) and isinstance(leaf.item, Filter):
                shown.setdefault("-" + leaf.item.field, []).append(leaf.item.value)
        return shown

    def with_filter(self, field: str, value: str, *, negated: bool = False, now: datetime | None = None) -> Query:
        """The query narrowed by an option. Options stand side by side, so the same one twice means either."""
        if field not in FIELDS:
            raise ValueError(f"{field} is not one of {', '.join(FIELDS)}")
        clean = _normal(value).strip()
        if not clean:
            raise BadQuery(f"{field}: needs a value")
        clean, at = understood(field, clean, now or local_now())
        option = Filter(field, clean, at=at)
        added = (*self.added, Not(option) if negated else option)
        options: Node = added[0] if len(added) == 1 else Group(added)
        typed = self._typed()
        return replace(self, root=options if typed is None else _joined(And, (typed, options)), added=added)

    def _typed(self) -> Node | None:
        """The root without what with_filter added."""
        if not self.added:
            return self.root
        if not isinstance(self.root, And):
            return None
        items = self.root.items[:-1]
        return items[0] if len(items) == 1 else And(items)


def _wanted(node: Node | None) -> Iterator[Node]:
    """Leaves in order; a Not is a leaf."""
    if isinstance(node, (And, Or, Group)):
        for item in node.items:
            yield from _wanted(item)
    elif node is not None:
        yield node


def parse(text: str, now: datetime | None = None) -> Query:
    """Raises BadQuery, and nothing else, for text that cannot be meant. `now` is aware; its zone is the local one."""
    text = _checked(text)
    found = _nested(list(tokens(text, now or local_now())), text)
    return Query(text, _Parser(found).alternatives())


def plain(text: str) -> Query:
    """The text as mere words: no character of it is syntax."""
    text = _checked(text)
    words = tuple(Word(m[0], start=m.start(), end=m.end()) for m in re.finditer(r"\S+", text))
    if len(words) > MAX_WORDS:
        raise too_many_words()
    return Query(text, _side_by_side(words))


def format(query: Query | Node | None) -> str:
    """The canonical text, with every precedence shown by parentheses: parse(format(q)).root == q.root."""
    node = query.root if isinstance(query, Query) else query
    if node is None:
        return ""
    if isinstance(node, (And, Or, Group)):
        return _JOINTS[type(node)].join(_enclosed(item) for item in node.items)
    return _enclosed(node)


_JOINTS: dict[type[Node], str] = {And: " AND ", Or: " OR ", Group: " "}


def _enclosed(node: Node) -> str:
    if isinstance(node, Word):
        return written_word(node)
    if isinstance(node, Phrase):
        return quoted(node.text)
    if isinstance(node, Filter):
        return written_filter(node)
    if isinstance(node, Not):
        return _negated(node.item)
    return f"({format(node)})"


def _negated(item: Node) -> str:
    """With a dash, but for words where it would be read as another one: NOT --dry-run, NOT ->."""
    dash = not isinstance(item, Word) or (item.text[0] != "-" and any(c.isalnum() for c in item.text))
    return f"{'-' if dash else 'NOT '}{_enclosed(item)}"


_LONE_SURROGATE = re.compile("[\ud800-\udfff]")  # from an argument that is not UTF-8; no index can hold one


def _normal(text: str) -> str:
    return unicodedata.normalize("NFC", _LONE_SURROGATE.sub("\ufffd", text))


def _checked(text: str) -> str:
    # Twice: the first spares the normalizing, and normalizing may lengthen.
    if len(text) > MAX_CHARS or len(text := _normal(text)) > MAX_CHARS:
        raise BadQuery(f"the query is longer than {MAX_CHARS:,} characters — keep the words that matter")
    return text


def _nested(found: Sequence[Token], text: str) -> list[Token]:
    """The tokens with parentheses that match and hold something; others were text."""
    kept: list[Token | None] = list(found)
    open_at: list[int] = []
    pairs: list[tuple[int, int]] = []
    for i, token in enumerate(found):
        if token.kind == "(":
            open_at.append(i)
        elif token.kind == ")" and open_at:
            pairs.append((open_at.pop(), i))
        elif token.kind == ")":
            kept[i] = None
    for i in open_at:
        kept[i] = None
    leaves_before = [0]
    for token in found:
        leaves_before.append(leaves_before[-1] + (token.leaf is not None))
    for opening, closing in pairs:
        if leaves_before[opening] == leaves_before[closing]:
            kept[opening] = kept[closing] = None
    nested = [token for token in kept if token is not None]
    depth = 0
    for token in nested:
        depth += (token.kind == "(") - (token.kind == ")")
        if depth > MAX_DEPTH:
            raise misplaced(
                f"parentheses are nested deeper than {MAX_DEPTH} — write it flatter", text, token.start, token.end
            )
    return nested


class _Parser:
    """Recursive descent over tokens whose parentheses match. An operator without something on both sides is a word."""

    def __init__(self, found: Sequence[Token]) -> None:
        self.found = found
        self.place = 0

    def alternatives(self) -> Node | None:
        if self.kind() == "":
            return None
        items = [self.conjunction()]
        while self.joins("OR"):
            items.append(self.conjunction())
        return _joined(Or, items)

    def conjunction(self) -> Node:
        items = [self.group()]
        while self.joins("AND"):
            items.append(self.group())
        return _joined(And, items)

    def group(self) -> Node:
        items = [self.operand()]
        while self.kind() not in ("", ")") and not self.at_joint():
            items.append(self.operand())
        return _side_by_side(items)

    def operand(self) -> Node:
        negated = False
        while self.kind() == "NOT" and self.kind(1) not in ("", ")"):
            negated = not negated
            self.place += 1
        token = self.found[self.place]
        self.place += 1
        item: Node | None = token.leaf
        if token.kind == "(":
            item = self.alternatives()
            self.place += 1
        assert item is not None  # _nested leaves no empty parentheses
        return _opposite(item) if negated != token.negated else item

    def kind(self, ahead: int = 0) -> str:
        """"" at the end."""
        place = self.place + ahead
        return self.found[place].kind if place < len(self.found) else ""

    def at_joint(self) -> bool:
        return self.kind() in ("AND", "OR") and self.kind(1) not in ("", ")")

    def joins(self, operator: str) -> bool:
        if self.kind() != operator or not self.at_joint():
            return False
        self.place += 1
        return True


def _opposite(item: Node) -> Node:
    return item.item if isinstance(item, Not) else Not(item)


def _joined(kind: type[And] | type[Or], items: Sequence[Node]) -> Node:
    """One node; a AND (b AND c) is a AND b AND c."""
    if len(items) == 1:
        return items[0]
    return kind(tuple(part for item in items for part in (item.items if isinstance(item, kind) else (item,))))


def _side_by_side(items: Sequence[Node]) -> Node:
    return items[0] if len(items) == 1 else Group(tuple(items))


__all__ = [
    "EITHER", "FIELDS", "MAX_CHARS", "MAX_DEPTH", "MAX_WORDS", "And", "Filter", "Group", "Node", "Not", "Or",
    "Phrase", "Query", "Word", "asks_for_text", "format", "parse", "plain",
]
