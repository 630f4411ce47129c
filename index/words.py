"""How text becomes words: accents folded, identifiers split, CJK in pairs. One definition for indexing and asking.

tantivy does the splitting and stemming; what it has no filter for (camelCase, CJK) is done to the text before.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

import tantivy

EXACT = "exact"  # words as written, lower case, accents folded
STEMMED = "stemmed"  # identifiers split at capitals, English stems
LONGEST_WORD = 120  # bytes; longer runs are hashes and encoded files

_CJK = (  # compiled when first met: that takes a millisecond, which most searches need not pay
    "[\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029\u3031-\u3035\u3038-\u303c\u3040-\u30ff\u3130-\u318f"
    "\u31a0-\u31bf\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003134f]+"
)
_ACCENTED = "[\u0130\u0370-\u052f\u1f00-\u1fff]"  # tantivy makes two letters of \u0130: i and a dot
_COLOUR = r"\x1b\[[0-?]*[ -/]*[@-~]"
# It begins with what is rare: every text goes through it, and the engine then skips from capital to capital.
_HUMP = re.compile(r"[A-Z](?:(?<=[a-z0-9][A-Z])|(?<=[A-Z][A-Z])(?=[a-z]))")


@lru_cache(maxsize=1)
def _analyzers() -> dict[str, tantivy.TextAnalyzer]:
    def base() -> tantivy.TextAnalyzerBuilder:
        return (
            tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.simple())
            .filter(tantivy.Filter.remove_long(LONGEST_WORD))
            .filter(tantivy.Filter.lowercase())
            .filter(tantivy.Filter.ascii_fold())
        )

    return {EXACT: base().build(), STEMMED: base().filter(tantivy.Filter.stemmer("english")).build()}


def register(index: tantivy.Index) -> None:
    for name, analyzer in _analyzers().items():
        index.register_tokenizer(name, analyzer)


def colourless(text: str) -> str:
    """Without a terminal's colours, of which the end would belong to the word behind it. Places stay the same."""
    return re.sub(_COLOUR, lambda code: " " * len(code[0]), text) if "\x1b" in text else text


def prepared(text: str) -> str:
    """Text for the exact field. Pure ASCII passes untouched: Python knows that without looking."""
    text = colourless(text)
    if text.isascii():
        return text
    return re.sub(_CJK, _pairs, without_accents(unicodedata.normalize("NFC", text)))


def without_accents(text: str) -> str:
    """Greek and Cyrillic letters, which tantivy's own folding leaves as they are; a character for each."""
    return text.translate(_folds()) if re.search(_ACCENTED, text) else text


@lru_cache(maxsize=1)
def _folds() -> dict[int, str]:
    found = {"ς": "σ"}  # a capital at the end of a word does not tell which of them it is
    for letter in map(chr, (0x130, *range(0x370, 0x530), *range(0x1F00, 0x2000))):
        parts = unicodedata.normalize("NFD", letter)
        if len(parts) > 1 and all("\u0300" <= mark <= "\u036f" for mark in parts[1:]):
            found[letter] = parts[0]
    return str.maketrans(found)


def split(text: str) -> str:
    """Prepared text for the stemmed field: parseHttpHeader as parse Http Header."""
    return _HUMP.sub(r" \g<0>", text)


def _pairs(run: re.Match[str]) -> str:
    """Overlapping pairs, and the last character alone so that a single character finds its place."""
    text = run.group()
    return " " + " ".join(text[i : i + 2] for i in range(len(text))) + " "


_ENDING = re.compile(r"['’](?:s|t|re|ve|ll|d|m)$", re.IGNORECASE)
_HASH = re.compile(r"(?=\D*\d)(?=\d*[a-f])[0-9a-f]{7,40}")
_HYPHENED = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)+")


def bare(word: str) -> str:
    """Without a possessive or a contraction: teammate's is about a teammate. As a word it would be two."""
    return _ENDING.sub("", word.rstrip("?!.,;:")) or word


def is_hyphened(word: str) -> bool:
    """laptop-only, end-to-end: words of a language, not a name; any of them may stand alone."""
    return _HYPHENED.fullmatch(word) is not None


def is_name(word: str) -> bool:
    """parseHttpHeader, parse_http_header: of code. What its parts mean is not what it is."""
    return "_" in word or _HUMP.search(word) is not None


def is_hash(word: str) -> bool:
    """A commit's name, or the beginning of one."""
    return _HASH.fullmatch(word) is not None


def asked_words(text: str) -> list[str]:
    """The words of a query as written. A run of CJK at the end asks for its pairs only: it may go on."""
    text = colourless(text)
    if text.isascii():
        return _analyzers()[EXACT].analyze(text)
    normal = without_accents(unicodedata.normalize("NFC", text))
    return _analyzers()[EXACT].analyze(re.sub(_CJK, _asked_pairs, normal))


def _asked_pairs(run: re.Match[str]) -> str:
    text, more = run.group(), any(map(str.isalnum, run.string[run.end() :]))
    # Before another word the run ends in the message, too, and there its last character stands alone: see `_pairs`.
    pairs = " ".join(text[i : i + 2] for i in range(len(text) if more else len(text) - 1))
    return f" {pairs or text} "


def runs(text: str) -> list[str]:
    """The words of a text with CJK in one piece, apart from the letters beside it."""
    return re.findall(r"[^\W_]+", re.sub(_CJK, r" \g<0> ", text))


def stems(text: str) -> list[str]:
    return _analyzers()[STEMMED].analyze(split(prepared(text)))


def has_cjk(text: str) -> bool:
    return not text.isascii() and re.search(_CJK, text) is not None


# Words that carry no topic. They still count inside phrases; alone they would match every message.
STOPWORDS = frozenset(
    "a an and any are as at be been but by can could did do does for from had has have he her his how i if in into is "
    "it its just may me might my no nor not of on or our shall she should so some than that the their them then there "
    "these they this those to too us very was we were what when where which while who whom why will with would you "
    "your again about am being both during each few further here more most only other own same such until".split()
)
