"""What a secret looks like: keys, tokens and passwords in a text. Finds them; replaces nothing, keeps nothing.

Three looks at a text, each linear, each pattern with a bound on every repetition:
- a key that says itself what it is (`ghp_…`), by its prefix: redaction_keys;
- other shapes (a private key, a password in a URL), each behind a literal that most texts do not contain;
- a name such as `password` or `api_key`: what is given to it, or a random-looking word that follows on the same line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from math import log2
from typing import NamedTuple

from agent_journal.redaction_hidden import blanked, put_back, shown
from agent_journal.redaction_keys import ESCAPED, Found, is_keyish, prefixed

PLACEHOLDER = re.compile(r"REDACTED-[a-z]{1,30}(?:-[a-z]{1,30}){0,3}-\d{1,9}")


# --- other shapes: kind, a literal to begin with, the rest, what stands before -----------------------------------
# Looking for a pattern that begins with a literal is as fast as looking for the literal, so what stands before it is a
# column of its own. The secret is group 1; with a last column it is all of the match and what stands before.
# Possessive repetitions (`++`) never look back: that keeps hostile text from costing more than its length.

_EDGE = r"(?![A-Za-z0-9])"
_BASE64 = r"[A-Za-z0-9+/=]"
# Between the lines of a key: line ends, line numbers (grep's with the file's name), quotes, the marks of a diff, a
# quotation, a comment or `cat -A`, headers such as `DEK-Info: …`.
_GAP = (
    r"(?:[\s\\\"'+,>|→·#$*;]|//(?=[ \t])|<br ?/?>|(?<=\n)[\w./-]{1,100}+:\d{1,6}+:|\d{1,6}+[→:|\t ]"
    r"|[A-Z][A-Za-z-]{3,12}+: [^\n\\]{0,80}+){0,60}+"
)
# `BEGIN [RSA|EC|…] PRIVATE`, as it goes on after the base64 of `-----BEGIN `.
_ENCODED_PEM = (
    "B(?:QUklWQVRF|SU0EgUFJJVkFU|FQyBQUklWQVRF|EU0EgUFJJVkFU|PUEVOU1NIIFBSSVZB|FTkNSWVBURUQgUFJJ|QR1AgUFJJVkFU)"
)
_SHAPES = (
    (
        "private-key",
        "PRIVATE KEY",
        rf"(?: BLOCK)?-----{_GAP}({_BASE64}{{16,}}+(?:{_GAP}{_BASE64}{{16,}}+){{0,400}}+"
        rf"(?:{_GAP}{_BASE64}{{1,15}}+(?={_GAP}(?:-----END|$)))?)",
        None,
    ),
    # As Kubernetes, CI settings and `base64 key.pem` have it.
    (
        "private-key",
        "LS0tLS1CRUdJTi",
        rf"{_ENCODED_PEM}{_BASE64}{{8,}}+(?:[\s\\]{{1,8}}{_BASE64}{{40,}}+){{0,400}}+"
        rf"(?:[\s\\]{{1,8}}{_BASE64}{{1,39}}+(?![\w-]))?",
        "",
    ),
    ("url-password", "://", r"[^\s/:@\"'`<>\\]{0,200}+:([^\s/@\"'`<>\\]{1,200}+)@(?=[\w\[$<{%])", None),
    (
        "jwt",
        "eyJ",
        rf"(?:(?<![A-Za-z0-9-]eyJ)|{ESCAPED.replace(')', 'eyJ)')})"
        r"[\w-]{10,4000}+\.eyJ[\w-]{8,8000}+(?:\.[\w-]{0,2000}+)?",
        "",
    ),
    ("twilio-key", "SK", rf"[0-9a-f]{{32}}{_EDGE}", ""),
    # Before the dot: the base64 of a number of 17 to 19 digits.
    ("discord-token", ".", rf"[\w-]{{6}}\.[\w-]{{27,45}}+{_EDGE}", r"[MNO][\w-]{23,27}"),
    ("telegram-token", ":AA", rf"[\w-]{{31,34}}+{_EDGE}", r"\d{8,10}"),
    ("google-key", "1//0", r"[\w-]{30,200}", ""),
    ("azure-key", "Q~", rf"[\w~.-]{{31,34}}+{_EDGE}", r"[\w~.]{3}\d"),
    ("azure-key", "sig=", r"(?<=[?&;]sig=)([A-Za-z0-9%+/=_-]{20,120})", None),
    ("aws-signature", "X-Amz-", r"(?:Signature|Security-Token)=([A-Za-z0-9%+/=_-]{20,2000})", None),
    ("cloud-token", ".atlasv1.", r"[\w=-]{40,80}", r"[A-Za-z0-9]{14}"),
    ("slack-webhook", "hooks.slack.com/", r"(?:services|workflows|triggers)/([\w/+-]{16,120})", None),
    ("discord-webhook", "/api/webhooks/", r"(\d{10,25}/[\w-]{20,120})", None),
    ("teams-webhook", "/IncomingWebhook/", r"([0-9a-f]{16,64}/[0-9a-f-]{16,40})", None),
    ("password", "curl ", r"[^\n]{0,200}?(?:-u|--user)[ =]{1,3}\\{0,2}[\"']?[\w.@+-]{1,60}+:([^\s\"'\\]{3,200})", None),
    ("password", "redis-cli", r"[^\n]{0,200}? -a ?\\{0,2}[\"']?([^\s\"'\\]{3,200})", None),
    (
        "password-hash",
        "$",
        r"(2[abxy]\$\d\d\$[./A-Za-z0-9]{53}|(?:[156y]|apr1)\$[^\s$:\"']{1,60}+\$(?:[./A-Za-z0-9$]{22,130}+)"
        r"|argon2(?:id?|d)\$[\w$=,+/.-]{20,200})",
        None,
    ),
    # A port is no password: `docker run --name mysql -p3306:3306`.
    ("password", "mysql", r"[^\n]{0,200}? -p(?!\d{1,5}:)\\{0,2}[\"']?([^\s\"'\\]{3,200})", None),
    ("password", "login ", r"\S{1,100}+\s{1,4}password\s{1,4}(\S{3,200})", None),
    ("password", "sshpass -p", r" ?\\{0,2}[\"']?([^\s\"'\\]{3,200})", None),
)
_COMPILED = tuple(
    (kind, literal, re.compile(re.escape(literal) + rest, re.ASCII), head and re.compile(f"{head}$", re.ASCII))
    for kind, literal, rest, head in _SHAPES
)


def _shaped(text: str) -> Iterator[Found]:
    for kind, literal, pattern, head in _COMPILED:
        for match in pattern.finditer(text) if literal in text else ():
            start = match.start(0 if head is not None else 1)
            if head:
                before = head.search(text, max(0, start - 32), start)
                start = before.start() if before else -1
            if start >= 0 and not _VARIABLE.match(text, start):
                yield Found(start, match.end(pattern.groups), kind)


# --- names and what they are given ---------------------------------------------------------------------------

_WORD = re.compile(
    r"passw(?:or)?d|passphrase|pwd|_pass(?![a-z])|secret|token|credential|authorization|bearer|cookie|key"
)
_KINDS = {
    "secret": "secret",
    "token": "token",
    "credential": "secret",
    "key": "api-key",
    "cookie": "token",
    "bearer": "token",
}
_NAME_REST = re.compile(
    r"(?:s(?=[\"'\\]{0,3}[ \t]{0,2}=)|[_-]?(?:access[_-]?)?(?:key|token)(?:[_-]?base)?|[_-]?(?:value|string|hash)"
    r"|_?\d{1,3}|[_-](?:prod|production|dev|test|live|staging|main|old|new))?(?![A-Za-z0-9_])",
    re.ASCII | re.IGNORECASE,
)
_BEFORE_KEY = re.compile(
    r"(?:api|access|secret|private|encryption|encrypt|signing|auth|master|account|service|license|deploy|admin|app|client"
    r"|webhook|storage|subscription|consumer|jwt|ssh|hmac|aes|shared)[_-]?$",
    re.IGNORECASE,
)
_GIVEN = re.compile(
    r"(\\{0,4}[\"'`])?\]?(?:[ \t]{0,4}:[ \t]{0,2}[A-Za-z_][\w\[\]|.]{0,40}(?=[ \t]{0,4}=))?"
    r"(?:[ \t]{0,20}(?:=>|:=|={1,3}|:)[ \t]{0,20}|(?<=[\"'`])[ \t]?(,)[ \t]?|>(?=[^<\n]{1,200}+</))",
    re.ASCII,
)
# To the first quote that no backslash escapes, else to the first: `"C:\"`.
_QUOTED = re.compile(
    r"[rbfuRBFU]{0,2}(\\{0,4}[\"'`])((?:(?!\1)(?:[^\n\r\\]|\\.)){1,2000}+(?=\1)|(?:(?!\1)[^\n\r]){1,2000}+)\1"
)
_SLASH = r"\\(?!\\{0,3}[\s\"'])"  # one that escapes no quote
_BARE = re.compile(rf"(?:[^\s\"'`<>,;&|(){{}}\[\]\\]++|{_SLASH})++")
_ENV_VALUE = re.compile(rf"(?:[^\s\"'`<>&\\,;)]++|{_SLASH}|[,;)]++(?=[^\s\"'`<>&\\]|{_SLASH}))++")
_LONGEST = 2000
_LINE_END = re.compile(r"[ \t]{0,4}(?:[\r\n]|\\{0,4}[\"'`]|$)|[ \t]{1,20}(?:#|//)[ \t]")
_OPTION_VALUE = re.compile(r"[ \t]{1,4}(?=[^\s-])")
# `ENV DB_PASSWORD x` of a Dockerfile, and as Windows' and fish's shells have it.
_SETTER = re.compile(
    r"(?:^|[\s\"'`])(?:ENV|ARG|setx|setenv|set [ \t-]{0,3}[a-zA-Z]{1,4})[ \t]{1,4}\w{0,60}$", re.MULTILINE
)
_PROSE = re.compile(r"[ \t](?:is|was)(?::[ \t]{0,4}|[ \t]{1,4})", re.IGNORECASE)
# A name and, beside it, its value: `- name: DB_PASSWORD\n  value: x` of Kubernetes, `{"key": "…", "value": "…"}`,
# `<add key="Password" value="…"/>`, and Terraform's `variable "db_password" { default = "…"`.
_VALUE_BESIDE = re.compile(
    r"\\{0,4}[\"'`]?[ \t]{0,4}[,;{]?(?:\s|\\[nr]){1,40}+"
    r"\\{0,4}[\"'`]?(?:value|default)\\{0,4}[\"'`]?[ \t]{0,4}[:=][ \t]{0,4}",
    re.IGNORECASE,
)
_SCHEME = re.compile(r"(?:bearer|basic|token|apikey|digest)[ \t]{1,4}([\w.~+/=-]{6,4000})", re.ASCII | re.IGNORECASE)
_BEARER = re.compile(r"[ \t]{1,4}([\w.~+/=-]{16,4000})", re.ASCII)

# What stands where a secret would stand, but is none: references, types, and the manuals' blanks.
_VARIABLE = re.compile(
    r"\\{0,2}\$[A-Za-z_{(\[]|\$\d?$|%[(\w]{0,40}[%)s]|\{|<|\*{2}|#\{|@[\w.]++@?$|\.{2}|…|\[|\("
    r"|REDACTED-(?![a-z-]{1,120}+\d{1,9}+[^\s/@\"'`<>\\]{1,200}+@)"  # but a URL's password may only begin like one
)
_BLANK = re.compile(
    r"[_\W]*+(?:(?:enter|insert|example|sample|placeholder|dummy|fake|change[_-]?me|redacted|hidden)\b.*"
    r"|your[_-]?.*|null|none|nil|undefined|true|false|yes|no|string|str|text|number|int|bool|boolean|bytes"
    r"|any|object|required|optional|prompt|default|missing|empty|unset|invalid|valid|value|password|passwd|pwd|secret"
    r"|secrets|token|key|api[_-]?key|credentials?|env|test)[_\W]*$",
    re.IGNORECASE | re.DOTALL,
)
_CODE = re.compile(
    r"[\w$]{0,60}(?:\.[\w$]{1,60}){1,8}$|[\w$.]{1,100}[(\[]|[\w$.]{0,60}->|(?:self|this|process|os|env|config|settings)\."
    r"|[A-Za-z_]{1,60}[,)]|https?://",
    re.ASCII,
)
_PATH = re.compile(r"(?:~|\.{1,2}|[A-Za-z]:)?[/\\][\w./\\ -]{0,300}$")  # PWD is also the working folder
_WORDS_ALONE = re.compile(r"(?:[A-Za-z]{0,40}+\d{0,8}+[^A-Za-z0-9]{1,3}+){0,60}+[A-Za-z]{0,40}+\d{0,8}+$")
_PUBLIC = re.compile(r"pub(?:lic)?[ _-]?(?:key)?$")
_ENV_NAME = re.compile(r"[A-Z][A-Z0-9]{0,40}(?:_[A-Z0-9]{1,40}){1,9}$|--?[a-z]")
_IDENTIFIER = re.compile(r"(?:[A-Za-z]{0,80}+[-_.:/ ]{1,3}+){0,20}+[A-Za-z]{0,80}+\d{0,3}$")


def _named(text: str) -> Iterator[Found]:
    lowered = text.lower()
    if len(lowered) != len(text):  # İ becomes two characters: positions would be off
        lowered = re.sub("[A-Z]+", lambda match: match[0].lower(), text)
    passed = 0
    for match in _WORD.finditer(lowered):
        if match.start() < passed or _PUBLIC.search(lowered, max(0, match.start() - 12), match.start()):
            continue
        found = _LOOKS.get(match[0], _given)(text, match) or _near(text, match.end())
        if found:
            passed = found.end
            yield found


def _bearer(text: str, word: re.Match[str]) -> Found | None:
    match = _BEARER.match(text, word.end())
    if match is None:
        return _given(text, word)  # BEARER_TOKEN=
    fits = is_keyish(match[1]) and not _VARIABLE.match(match[1])
    return Found(match.start(1), match.end(1), "bearer-token") if fits else None


def _authorization(text: str, word: re.Match[str]) -> Found | None:
    given = _GIVEN.match(text, word.end())
    match = _SCHEME.match(text, _skipped_quote(text, given.end())) if given else None
    if match is None or _VARIABLE.match(match[1]) or _BLANK.match(match[1]):
        return None
    return Found(match.start(1), match.end(1), _scheme_kind(match[0]))


def _scheme_kind(header: str) -> str:
    return "basic-auth" if header[:5].lower() == "basic" else "bearer-token"


def _skipped_quote(text: str, at: int) -> int:
    while at < len(text) and text[at] in "\\\"'`":
        at += 1
    return at


def _given(text: str, word: re.Match[str]) -> Found | None:
    rest = _NAME_REST.match(text, word.end())
    if rest is None:
        return None
    shouted = text[word.start() : word.end()].isupper()
    if word[0] == "key" and not _is_keys_name(text, word.start(), shouted):
        return None
    kind = _KINDS.get(word[0], "password")
    beside = _VALUE_BESIDE.match(text, rest.end()) or _PROSE.match(text, rest.end())
    if beside:
        return _judged(text, beside.end(), kind, _BARE, tight=False)
    given = _GIVEN.match(text, rest.end())
    if given is None:
        return _option(text, word.start(), rest.end(), kind)
    tight = given[0] in ("=", ">")
    if given[2]:  # two things in a row, as in `setenv("TOKEN", "…")` but also in a list of names
        kind = "token" if kind == "password" else kind
    loud = (
        tight
        and shouted
        and (word[0] != "key" or bool(_BEFORE_KEY.search(text, max(0, word.start() - 16), word.start())))
    )
    return _judged(text, given.end(), kind, _ENV_VALUE if tight and shouted else _BARE, tight=tight, loud=loud)


def _option(text: str, start: int, end: int, kind: str) -> Found | None:
    """What follows the name after a blank alone: `--password x`, `ENV DB_PASSWORD x`."""
    given = _OPTION_VALUE.match(text, end)
    dashes = text.rfind("--", max(0, start - 24), start)
    is_option = dashes >= 0 and " " not in text[dashes:start]
    if given is None or not (is_option or _SETTER.search(text, max(0, start - 80), start)):
        return None
    found = _judged(text, given.end(), kind, _BARE, tight=True)
    # In prose a word follows: the --password option.
    return found if found and is_keyish(text[found.start : found.end]) else None


def _is_keys_name(text: str, at: int, shouted: bool) -> bool:
    """`api_key` and `STRIPE_KEY`, not `primary_key`."""
    return bool(_BEFORE_KEY.search(text, max(0, at - 16), at)) or (shouted and text[at - 1 : at] == "_")


_LOOKS = {"bearer": _bearer, "authorization": _authorization}


def _judged(
    text: str, start: int, kind: str, bare: re.Pattern[str], *, tight: bool, loud: bool = False
) -> Found | None:
    quoted = _QUOTED.match(text, start)
    if quoted:
        fits = " " not in quoted[2] and is_secret(kind, quoted[2], loud=loud)
        return Found(quoted.start(2), quoted.end(2), kind) if fits else None
    value = bare.match(text, start, start + _LONGEST)
    if value is None or _CODE.match(text, start, value.end() + 1) or not is_secret(kind, value[0], loud=loud):
        return None
    if tight or _looks_random(value[0]) or (_LINE_END.match(text, value.end()) and _is_no_name(kind, value[0])):
        return Found(value.start(), value.end(), kind)
    return None


def _is_no_name(kind: str, value: str) -> bool:
    """At the end of a line, as in YAML, it may still be a variable's name: `token = token_v2`."""
    digits = sum(c.isdigit() for c in value)
    return is_keyish(value) if kind == "password" else digits > 2 and len(value) >= 16


def is_secret(kind: str, value: str, *, loud: bool = False) -> bool:
    """Whether something named as a secret of this kind holds one. Of a password less is asked than of a key, and less
    of a key in a line like API_KEY=…, which is loud."""
    if _VARIABLE.match(value) or _BLANK.match(value) or "..." in value or "…" in value or "xxxx" in value:
        return False
    if len(set(value)) < 3 or _ENV_NAME.match(value):
        return False
    # A key in base64 may begin with a slash.
    if _PATH.match(value) and (kind == "password" or len(value) < 32 or _WORDS_ALONE.match(value)):
        return False
    if kind == "password":
        return len(value) >= 4
    if loud:
        return len(value) >= 8
    return len(value) >= 8 and not _IDENTIFIER.match(value) and not _CODE.match(value) and is_keyish(value)


def assigned(name: str, value: str) -> Found | None:
    """The secret in a value that stands under this name in an object."""
    words = list(_WORD.finditer(name.lower())) if len(name) < 100 else []
    if not words or len(value) > 4000:
        return None
    word = words[-1]
    if word[0] == "authorization":
        match = _SCHEME.match(value)
        return Found(match.start(1), match.end(1), _scheme_kind(value)) if match else None
    rest = _NAME_REST.match(name, word.end())
    if rest is None or rest.end() < len(name) or "\n" in value:
        return None
    if word[0] == "key" and not _is_keys_name(name, word.start(), name.isupper()):
        return None
    kind = _KINDS.get(word[0], "password")
    return Found(0, len(value), kind) if is_secret(kind, value) else None


# --- random words --------------------------------------------------------------------------------------------

_CANDIDATE = re.compile(r"[^\n]{0,40}?(?<![\w+/=.-])([A-Za-z0-9+/_-]{20,160}+={0,2}+)(?![\w+/=.-])", re.ASCII)
_KNOWN_ID = re.compile(r"(?:[a-z]{2,12}_){1,2}|sha\d{1,3}[-:]|AAAA[A-Z]|/|ssh-|[0-9a-fA-F-]{20,}$")
_LEAST_BITS = 3.7  # a character, by the frequencies within the word; English words in a row reach about 3.5
_LEAST_TURNS = 0.3  # changes between small, capital and digit a character: 0.6 in random letters, 0.15 in camelCase
_WORDISH = re.compile(r"[A-Za-z][a-z]{2,}")
_MOST_WORDISH, _LONGEST_RUN = 0.7, 10  # part of it in runs of small letters: 0.3 in random letters, 0.9 in names


def _near(text: str, start: int) -> Found | None:
    match = _CANDIDATE.match(text, start, start + 240)
    if match is None or _KNOWN_ID.match(match[1]) or not _looks_random(match[1]):
        return None
    if "REDACTED-" in match[0] or text[max(0, match.start(1) - 7) : match.start(1)].lower() in ("sha256:", "base64,"):
        return None
    return Found(match.start(1), match.end(1), "random-token")


def _looks_random(text: str) -> bool:
    classes = [1 if c.islower() else 2 if c.isupper() else 3 if c.isdigit() else 0 for c in text]
    if len(text) < 12 or not {1, 2, 3} <= set(classes):
        return False
    runs = [len(run) for run in _WORDISH.findall(text)]
    if sum(runs) > _MOST_WORDISH * len(text) or max(runs, default=0) > _LONGEST_RUN:
        return False
    turns = sum(a != b for a, b in pairwise(classes))
    frequencies = [text.count(c) / len(text) for c in set(text)]
    bits = -sum(f * log2(f) for f in frequencies)
    return turns >= _LEAST_TURNS * len(text) and bits >= min(_LEAST_BITS, 0.85 * log2(len(text)))


# --- secrets met elsewhere -----------------------------------------------------------------------------------


class Known(NamedTuple):
    """Secrets met elsewhere, found here without any sign beside them."""

    kinds: dict[str, str]
    pattern: re.Pattern[str]

    @classmethod
    def of(cls, kinds: dict[str, str]) -> Known:
        some = sorted(kinds, key=len, reverse=True)[:_MOST_KNOWN]
        return cls(kinds, re.compile(rf"(?:(?<![A-Za-z0-9])|{ESCAPED})(?:{'|'.join(map(re.escape, some))}){_EDGE}"))

    def found(self, text: str) -> Iterator[Found]:
        return (Found(m.start(), m.end(), self.kinds[m[0]]) for m in self.pattern.finditer(text))


_MOST_KNOWN = 200  # one expression of all of them is asked of every text


def is_telling(secret: str) -> bool:
    """Whether it can be nothing else wherever it stands: the password `postgres` is also a name."""
    return len(secret) >= 12 and is_keyish(secret)


def spelled(secret: str) -> str:
    """The same for a key with its line ends escaped or as they are."""
    return re.sub(r"(?<!\\)\\++[nrt]|\s", "", secret)


# --- all of them ---------------------------------------------------------------------------------------------


def _unescaped(text: str) -> str:
    """JSON within a string read as what it stands for, every character in its place."""
    if "\\" not in text:
        return text
    return text.replace("\\n", " \n").replace("\\r", " \r").replace("\\t", " \t")


def secrets(text: str, known: Known | None = None) -> list[Found]:
    """In order and apart: of two that overlap the longer one is kept, of equals the one whose kind is better known."""
    seen = shown(text)
    if seen is text:
        found = _found(text, known)
    else:
        found = put_back(_found(seen, known), text)
        if (apart := blanked(text)) is not None:  # it stands in a key, or between a word and a key
            found += _found(apart, known)
    return _apart(found, text) if found else []


def _found(text: str, known: Known | None) -> list[Found]:
    plain = _unescaped(text)
    return [*prefixed(plain), *_shaped(plain), *_named(plain), *(known.found(text) if known else ())]


def _apart(found: list[Found], text: str) -> list[Found]:
    done = PLACEHOLDER.finditer(text) if "REDACTED-" in text else iter(())
    last = next(done, None)
    apart: list[Found] = []
    for one in sorted(found, key=lambda f: (f.start, -f.end)):  # stable: better known kinds come first
        while last and last.end() <= one.start:
            last = next(done, None)
        if last and last.start() <= one.start and one.end <= last.end():
            continue
        if apart and one.start < apart[-1].end:
            apart[-1] = apart[-1]._replace(end=max(one.end, apart[-1].end))
        else:
            apart.append(one)
    return apart
