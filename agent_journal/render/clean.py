"""Text from logs made harmless for a terminal. Every string that was not written here passes through it.

It refuses to judge meaning: words stay, whatever can move the cursor, recolour, reorder or hide text goes.
"""

from __future__ import annotations

import re
from collections.abc import Callable

_SEQUENCE = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor movement
    # OSC, DCS, SOS, PM, APC with their terminator. Without one only the introducer goes (below): an
    # unfinished sequence must not swallow the rest of a message.
    r"|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x90\x98\x9c-\x9f]{0,4096}(?:\x07|\x1b\\|\x9c)"
    r"|\x1b[ -/]*[0-~]"
)
_BREAK = re.compile("\r\n|[\r\x0b\x0c\x85\u2028\u2029]")
_HARMFUL = re.compile(
    "[\x00-\x08\x0e-\x1f\x7f-\x9f"
    "\u00ad\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    # Tags and supplementary variation selectors: invisible alphabets.
    "\U000e0000-\U000e0fff"
    "\ud800-\udfff]"
)
_SPACE = re.compile(r"\s+")


def clean_text(text: str) -> str:
    """Several lines: line feeds and tabs stay, other line ends become line feeds."""
    return text if text.isprintable() else _harmless(text, "\n")


def shown_text(text: str) -> str:
    """As clean_text, but for a page that cannot be harmed: what would hide or reorder text is named where it stood."""
    return text if text.isprintable() else _harmless(text, "\n", _named)


def _harmless(text: str, line_end: str, instead: str | Callable[[re.Match[str]], str] = "") -> str:
    return _HARMFUL.sub(instead, _BREAK.sub(line_end, _SEQUENCE.sub("", text)))


def _named(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code < 0x20:
        return chr(0x2400 + code)  # the picture of a control character
    return "\ufffd" if 0xD800 <= code <= 0xDFFF else f"⟨U+{code:04X}⟩"


def clean_line(text: str) -> str:
    """One line: every run of white space is one space."""
    return clean_span(text).strip()


def clean_span(text: str) -> str:
    """A piece of a line: as clean_line, but keeps the spaces at its ends so that pieces can be joined."""
    return _SPACE.sub(" ", text if text.isprintable() else _harmless(text, " "))
