"""The leaves of a query: words, phrases and filters, cut from the text and written back.

Knows nothing of precedence or trees (see query.py). What only looks like syntax is text.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from datetime import UTC, datetime

from msgspec import Struct

from agent_journal.dates import moment
from agent_journal.errors import BadQuery

# Each filter with a value that shows its use.
EXAMPLES = {
    "agent": "claude", "home": "laptop", "project": "api", "dir": "~/work/api", "branch": "main", "session": "3f2a",
    "role": "user", "tool": "Bash", "file": "parser.py", "model": "opus", "in": "thinking", "is": "error",
    "since": "3d", "until": "2026-03-01",
}  # fmt: skip
FIELDS = tuple(EXAMPLES)
CHOICES = {
    "role": ("user", "assistant", "system", "tool"),
    "in": ("user", "assistant", "text", "thinking", "tool_input", "tool_result", "tool", "title"),
    "is": ("error", "subagent", "meta", "gone", "sidechain"),
}
ALIASES = {("in", "input"): "tool_input", ("in", "output"): "tool_result"}
_NAME, _PATH = r"\w[\w .-]*\*?", r"(?=.*\w)[\w./~\\*@+ -]+"
# What other programs call a filter: which one it is, and a value that can be meant. With another it is text, as in
# "workspace:^" or PATH:/bin: people paste such things.
GUESSED = {
    "before": ("until", r".+"), "after": ("since", r".+"), "from": ("role", r".+"),
    "repo": ("project", _NAME), "workspace": ("project", _NAME), "path": ("file", _PATH), "has": ("is", "error"),
}  # fmt: skip
MIN_PREFIX_LETTERS = 2  # one letter before * would stand for a large part of all words


class Word(Struct, frozen=True):
    text: str
    prefix: bool = False
    fuzzy: bool = False


class Phrase(Struct, frozen=True):
    text: str


class Filter(Struct, frozen=True):
    field: str
    value: str  # as written; of role, in and is the canonical name
    at: datetime | None = None  # since: the first moment that passes; until: the first that does not. UTC


Leaf = Word | Phrase | Filter


class Token(Struct, frozen=True):
    kind: str  # "leaf", "AND", "OR", "NOT", "(", ")"
    leaf: Leaf | None = None  # None of a parenthesis; of an operator the word it is where it joins nothing
    negated: bool = False  # written with a dash before it


_TOKEN = re.compile(
    r"""\s*
    (?P<dash> (?<![^\s(]) - (?= \( | "[^"]*" | [^\s()"-]*\w ) )?    # not in a-b, --flag, ->, or alone
    (?: (?P<parenthesis> [()] )
      | "(?P<phrase> [^"]* )"
      | (?P<operator> AND | OR | NOT ) (?= [\s()] | $ )
      | (?P<filter> [A-Za-z_]+ ) : (?! : | // )                      # not std::vector, not file:///home
      | (?P<word> [^\s()] )
    )""",
    re.VERBOSE,
)


def tokens(text: str, now: datetime) -> Iterator[Token]:
    place = 0
    while match := _TOKEN.match(text, place):
        place, negated = match.end(), match["dash"] is not None
        if match["parenthesis"]:
            yield Token(match["parenthesis"], None, negated)
        elif match["operator"] and not negated:
            yield Token(match["operator"], Word(match["operator"]))
        else:
            leaf, place = _leaf(text, match, now)
            if leaf is not None:
                yield Token("leaf", leaf, negated)


def _leaf(text: str, match: re.Match[str], now: datetime) -> tuple[Leaf | None, int]:
    """The leaf that begins here and where it ends; None for what asks for nothing: "" and *."""
    if match["phrase"] is not None:
        phrase = match["phrase"].strip()
        return (Phrase(phrase) if phrase else None), match.end()
    if match["filter"] in GUESSED and (guessed := _guessed(text, match, now)):
        return guessed
    if match["filter"] and _is_filter(text, match):
        return _filter(text, match, now)
    start = match.start(match.lastgroup or 0)
    end = _run_end(text, start)
    try:
        return _word(text[start:end]), end
    except BadQuery as error:
        raise misplaced(error.message, text, start, end) from error


def _run_end(text: str, start: int) -> int:
    """Up to white space, or a parenthesis that was opened before: parse(x) stays whole."""
    depth = 0
    for place in range(start, len(text)):
        depth += (text[place] == "(") - (text[place] == ")")
        if depth < 0 or text[place].isspace():
            return place
    return len(text)


def _word(run: str) -> Word | None:
    """A backslash before it makes anything a word: \\AND, \\-x, \\agent:x."""
    if not run.strip("*"):
        return None
    text, mark = (run[1:] if run[0] == "\\" and len(run) > 1 else run), run[-1]
    if mark not in "*~" or not any(c.isalnum() for c in text):
        return Word(text)
    stem = text.rstrip(mark)
    if mark == "*" and sum(c.isalnum() for c in stem) < MIN_PREFIX_LETTERS:
        raise BadQuery(f"{_shown(text)} — write at least {MIN_PREFIX_LETTERS} letters before the *")
    return Word(stem, prefix=mark == "*", fuzzy=mark == "~")


def _is_filter(text: str, match: re.Match[str]) -> bool:
    """Raises for a filter misspelt. `File: x` is pasted text, `File:x` a filter."""
    name, value_follows = match["filter"], text[match.end() : match.end() + 1].strip(") \t\r\n") != ""
    if name in FIELDS or not value_follows:
        return name in FIELDS
    if name.lower() in FIELDS:
        return True
    import difflib  # here: most queries hold no unknown name with a colon

    near = difflib.get_close_matches(name.lower(), [f for f in FIELDS if len(f) > 2], 1, 0.8)
    if not near:
        return False
    reason = f"{name}: is not a filter — did you mean {near[0]}:?"
    advice = "to search for it as text, put it in quotes"
    raise misplaced(reason, text, match.start("filter"), match.end(), advice)


_QUOTED = re.compile(r'"([^"]*)"')


def _filter(text: str, match: re.Match[str], now: datetime) -> tuple[Filter, int]:
    name, start, value_start = match["filter"].lower(), match.start("filter"), match.end()
    quoted = _QUOTED.match(text, value_start)
    if quoted is None and text.startswith('"', value_start):
        raise misplaced(f"{name}: the quote is not closed", text, value_start, len(text))
    end = quoted.end() if quoted else _run_end(text, value_start)
    try:
        return filter_of(name, quoted[1] if quoted else text[value_start:end], now), end
    except BadQuery as error:
        raise misplaced(error.message, text, start, end) from error


def _guessed(text: str, match: re.Match[str], now: datetime) -> tuple[Filter, int] | None:
    name, fitting = GUESSED[match["filter"]]
    quoted = _QUOTED.match(text, match.end())
    end = quoted.end() if quoted else _run_end(text, match.end())
    value = quoted[1] if quoted else text[match.end() : end]
    if not re.fullmatch(fitting, value):
        return None
    try:
        return filter_of(name, value, now), end
    except BadQuery:
        return None


def filter_of(name: str, value: str, now: datetime) -> Filter:
    value = value.strip()
    if not value:
        raise BadQuery(f"{name}: needs a value right after the colon — {name}:{EXAMPLES[name]}")
    if name in ("since", "until"):
        try:
            return Filter(name, value, moment(value, now, end=name == "until"))
        except BadQuery as error:
            raise BadQuery(f"{name}:{_shown(value)} — {error.message}") from error
    choices = CHOICES.get(name)
    if choices is None:
        return Filter(name, value)
    chosen = ALIASES.get((name, value.lower()), value.lower())
    if chosen not in choices:
        raise BadQuery(f"{name}:{_shown(value)} — use {', '.join(choices[:-1])} or {choices[-1]}")
    return Filter(name, chosen)


# --- written back ---------------------------------------------------------------------------------------


def written(leaf: Leaf, negated: bool = False) -> str:
    if isinstance(leaf, Word):
        return _written_word(leaf, negated)
    dash = "-" * negated
    if isinstance(leaf, Phrase):
        return f'{dash}"{leaf.text}"'
    bare = _run_end(leaf.value, 0) == len(leaf.value) and not leaf.value.startswith(('"', ":", "//"))
    return f"{dash}{leaf.field}:{leaf.value}" if bare else f'{dash}{leaf.field}:"{leaf.value}"'


def _written_word(word: Word, negated: bool) -> str:
    """With a backslash, or NOT for a dash, where it would otherwise be read as something else."""
    plain = word.text + "*" * word.prefix + "~" * word.fuzzy
    if plain.startswith(('"', '-"')) or not _reads_as(plain, Token("leaf", word)):
        plain = "\\" + plain
    if not negated:
        return plain
    return f"-{plain}" if _reads_as(f"-{plain}", Token("leaf", word, negated=True)) else f"NOT {plain}"


def _reads_as(text: str, token: Token) -> bool:
    try:
        return list(tokens(text, datetime.now(UTC))) == [token]
    except BadQuery:
        return False


# --- mistakes, shown where they are ---------------------------------------------------------------------

_SHOWN_AROUND = 30  # characters of the query shown on either side of a mistake
_SHOWN_CHARS = 40  # of a value inside a sentence


def misplaced(message: str, text: str, start: int, end: int, advice: str = "") -> BadQuery:
    """The error whose hint is the query with carets below the place."""
    end = min(end, start + 2 * _SHOWN_AROUND)
    left, right = max(0, start - _SHOWN_AROUND), end + _SHOWN_AROUND
    before = ("…" if left else "") + _printable(text[left:start])
    marked, after = (
        _printable(text[start:end]),
        _printable(text[end:right]) + ("…" if right < len(text) else ""),
    )
    carets = " " * _cells(before) + "^" * max(1, _cells(marked))
    return BadQuery(message, "\n".join(filter(None, (before + marked + after, carets, advice))))


def _shown(text: str) -> str:
    return _printable(text if len(text) <= _SHOWN_CHARS else text[: _SHOWN_CHARS - 1] + "…")


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else " " for c in text)


def _cells(text: str) -> int:
    return sum(0 if unicodedata.combining(c) else 1 + (unicodedata.east_asian_width(c) in "WF") for c in text)
