"""Keys that say themselves what they are (`ghp_…`): the prefixes that services give theirs, and what follows them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain
from typing import NamedTuple


class Found(NamedTuple):
    start: int
    end: int
    kind: str


# Kind, prefixes, what follows.
# Lengths are the least that cannot be anything else, not those the service gives out today: services lengthen their
# keys, and a title or an excerpt may hold only the first half of one.

_ANY, _HEX, _WIDE = r"[A-Za-z0-9]{16,300}", r"[0-9a-fA-F]{20,100}", r"[\w-]{16,400}"
_KEYS = (
    ("anthropic-key", "sk-ant-", r"[\w-]{12,300}"),
    ("openai-key", "sk-proj- sk-svcacct- sk-admin- sk-None-", r"[\w-]{16,300}"),
    ("api-key", "sk-or-v1- sk-lf- pplx- gsk_ xai- r8_ tvly- lsv2_pt_ lsv2_sk_ csk- nvapi- fw_ jina_", _WIDE),
    ("openai-key", "sk-", _ANY),
    ("aws-key", "AKIA ASIA ABIA ACCA", r"[A-Z0-9]{12,16}"),
    ("aws-key", "ABSK", r"[A-Za-z0-9+/]{60,300}={0,2}"),
    ("google-key", "AIza", r"[\w-]{20,60}"),
    ("google-key", "ya29. GOCSPX-", r"[\w.-]{16,400}"),
    ("github-token", "ghp_ gho_ ghu_ ghs_ ghr_", r"[A-Za-z0-9_.-]{16,400}"),
    ("github-token", "github_pat_", r"\w{16,255}"),
    (
        "gitlab-token",
        "glpat- gldt- glrt- glptt- glcbt- glsoat- glimt- glft- glagent- gloas- GR1348941",
        r"[\w.-]{16,300}",
    ),
    (
        "slack-token",
        "xoxb- xoxp- xoxa- xoxr- xoxs- xoxo- xoxc- xoxd- xoxe- xoxe.xoxb- xoxe.xoxp- xapp-",
        r"[\w%-]{12,400}",
    ),
    ("stripe-key", "sk_live_ sk_test_ rk_live_ rk_test_ whsec_", r"[A-Za-z0-9+/=]{12,250}"),
    ("npm-token", "npm_", r"[A-Za-z0-9]{20,80}"),
    ("pypi-token", "pypi-AgE pypi-AgENd", r"[\w-]{16,1000}"),
    ("huggingface-token", "hf_ api_org_", r"[A-Za-z0-9]{20,60}"),
    ("sendgrid-key", "SG.", r"[\w-]{16,30}\.[\w-]{16,60}"),
    ("cloud-token", "dop_v1_ doo_v1_ dor_v1_ dapi rubygems_ sntryu_ pul-", _HEX),
    ("cloud-token", "shpat_ shpss_ shpca_ shppa_ glsa_ sbp_ sb_secret_ dckr_pat_ figd_ lin_api_ ntn_ nfp_", _WIDE),
    (
        "cloud-token",
        "sntrys_ hvs. hvb. dp.pt. dp.st. pscale_tkn_ pscale_pw_ tskey- PMAK- NRAK- fm2_ fo1_",
        r"[\w.+/=-]{20,800}",
    ),
    ("cloud-token", "xkeysib- ATATT3 ATCTT3 AGE-SECRET-KEY-1 ops_eyJ", r"[\w=.-]{20,1500}"),
)


def _trie(words: list[str]) -> str:
    """All the words as one expression that looks at a character once; three times as fast as `one|two|three`."""
    branches: dict[str, list[str]] = {}
    for word in words:
        branches.setdefault(word[:1], []).append(word[1:])
    ended = branches.pop("", None)
    parts = [re.escape(first) + _trie(rest) for first, rest in sorted(branches.items())]
    inner = parts[0] if len(parts) == 1 and not ended else f"(?:{'|'.join(parts)})" if parts else ""
    return f"{inner}?" if ended and parts else inner


_BY_PREFIX = {prefix: (kind, re.compile(tail, re.ASCII)) for kind, words, tail in _KEYS for prefix in words.split()}
_FIRST, _SECOND, _THIRD = ("".join(sorted({re.escape(prefix[n]) for prefix in _BY_PREFIX})) for n in range(3))
_TRIE = f"(?=[{_FIRST}][{_SECOND}][{_THIRD}])({_trie(list(_BY_PREFIX))})"
# A character or a colour written out ends in a letter or a digit, and a key may begin right there: `%20ghp_…`.
_WRITTEN = r"%[0-9A-Fa-f]{2}", r"\\u[0-9A-Fa-f]{4}", r"\\x[0-9A-Fa-f]{2}", r"\\[0-7]{3}", r"\\[abefv]", r"[\[;\d][mK]"
ESCAPED = "|".join(f"(?<={one})" for one in _WRITTEN)
_AFTER_SIGN = r"(?:[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}|x[0-9A-Fa-f]{2}|[0-7]{3}|[abefv]|[\d;]{0,20}[mK])"
# Led by a set of characters, which is looked for at twice the speed of `(?<![A-Za-z0-9])`.
_PREFIX = re.compile(rf"[^A-Za-z0-9](?:(?={_TRIE})|(?<=[%\\\[])(?={_AFTER_SIGN}{_TRIE}))")
_AT_START = re.compile(_TRIE)
_LEAST_VARIED = 5  # fewer different characters are `ghp_xxxxxxxxxxxx` of some manual


def prefixed(text: str) -> Iterator[Found]:
    passed, first = 0, _AT_START.match(text)
    for match in chain((first,) if first else (), _PREFIX.finditer(text)):
        start, end = match.span(match.lastindex or 0)
        if start < passed:
            continue
        kind, tail = _BY_PREFIX[text[start:end]]
        rest = tail.match(text, end)
        if rest and len(set(rest[0])) >= _LEAST_VARIED and (kind != "openai-key" or is_keyish(rest[0])):
            passed = rest.end()
            yield Found(start, passed, kind)


def is_keyish(text: str) -> bool:
    """`sk-` also begins class names and slugs."""
    return any(c.isdigit() for c in text) and any(c.isalpha() for c in text)
