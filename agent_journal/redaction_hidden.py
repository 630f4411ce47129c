"""What a screen does not show: a terminal's colours, and characters without width, before a key or within it.

Whoever shows the text takes them out (render.clean), and the key would stand there whole. Knows no secret.
"""

from __future__ import annotations

import re
from bisect import bisect_right

from agent_journal.redaction_keys import Found

_COLOUR = r"[0-?]*+[ -/]*+[@-~]"
_UNTIL_END = r"[^\x07\x1b\x90\x98\x9c-\x9f]{0,4096}+(?:\x07|\x1b\\|\x9c)"
_HIDDEN = re.compile(  # led by one set of characters: that is fast
    "[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\u00ad\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\U000e0000-\U000e0fff\ud800-\udfff]"
    rf"(?:(?<=\x1b)(?:\[{_COLOUR}|[\]PX^_]{_UNTIL_END}|[ -/]*+[0-~])"
    rf"|(?<=\x9b){_COLOUR}|(?<=[\x9d\x90\x98\x9e\x9f]){_UNTIL_END})?+"
)
_WITHIN = re.compile(rf"[A-Za-z0-9](?:{_HIDDEN.pattern})++[A-Za-z0-9]")


def shown(text: str) -> str:
    """Without what a screen does not show."""
    return _HIDDEN.sub("", text) if _HIDDEN.search(text) else text


def put_back(found: list[Found], text: str) -> list[Found]:
    """Found in `shown(text)`: where it stands in the text itself."""
    # For each hidden piece: its place in what is shown, and how far everything from there on moves.
    places, moves, moved = [-1], [0], 0
    for piece in _HIDDEN.finditer(text):
        places.append(piece.start() - moved)
        moved += piece.end() - piece.start()
        moves.append(moved)

    def original(place: int) -> int:
        return place + moves[bisect_right(places, place) - 1]

    return [Found(original(one.start), original(one.end - 1) + 1, one.kind) for one in found]


def blanked(text: str) -> str | None:
    """With blanks for what is not shown, every character in its place; None where none of it stands within a word."""
    return _HIDDEN.sub(lambda piece: " " * len(piece[0]), text) if _WITHIN.search(text) else None
