"""On which line of a JSON text a place stands: `exchanges[1].messages[0].tool.type`. Knows nothing of any schema."""

from __future__ import annotations

import json
import re

# A string, a sign that opens, closes or parts, or any other value.
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{},:]|[^\s\[\]{},:"]+', re.DOTALL)
_STEP = re.compile(r"\[(\d+)\]|([^.\[]+)")


def line_of(text: str, place: str) -> int:
    """The line where the value begins, or the nearest value above it that is there; 0 if the text is no JSON."""
    wanted = [int(number) if number else name for number, name in _STEP.findall(place)]
    found, path = 0, list[str | int]()
    key, keys = "", list[str]()
    for token in _TOKEN.finditer(text):
        sign = token[0]
        if sign in "]}":
            if not path:
                return found
            path.pop()
            key = keys.pop()
        elif sign == ":":
            path[-1] = json.loads(key, strict=False)
        elif sign == ",":
            last = path[-1]
            path[-1] = last + 1 if isinstance(last, int) else ""  # no value stands there before the next name
        else:
            if path == wanted[: len(path)]:
                found = text.count("\n", 0, token.start()) + 1
                if path == wanted:
                    return found
            if sign in "[{":
                keys.append(key)
                path.append(0 if sign == "[" else "")
            else:
                key = sign
    return found
