"""What every page has: the policy, style and script that stand in the file itself, and times and numbers as HTML.

Style and script are allowed by their hashes alone, so nothing that stands in a log can run or restyle a page.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from datetime import datetime
from functools import cache
from hashlib import sha256
from importlib.resources import files

from agent_journal.render.html_text import safe_line

THEMES = ("auto", "light", "dark")
# A browser that is given no icon asks the server for one.
_ICON = (
    "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E"
    "%3Crect x='2' y='1' width='12' height='14' rx='2' fill='%233b6ea8'/%3E"
    "%3Cpath d='M5 5h6M5 8h6M5 11h4' stroke='%23fff' stroke-width='1.4'/%3E%3C/svg%3E"
)


@cache
def _part(name: str) -> tuple[str, str]:
    """(text, its hash as a policy names it)"""
    text = files("agent_journal.render").joinpath(name).read_text("utf-8")
    return text, f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


def opening(title: str, theme: str, kind: str) -> Iterator[str]:
    """All before the page's own elements. `kind`: session or index."""
    style, style_hash = _part("page.css")
    script, script_hash = _part("page.js")
    policy = (
        f"default-src 'none'; style-src {style_hash}; script-src {script_hash}; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    yield f'<!DOCTYPE html>\n<html lang="en" data-theme="{theme if theme in THEMES else "auto"}">\n<head>\n'
    yield '<meta charset="utf-8">\n'
    yield f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
    yield '<meta name="referrer" content="no-referrer">\n<meta name="robots" content="noindex">\n'
    yield f'<title>{safe_line(title)}</title>\n<link rel="icon" href="{_ICON}">\n'
    yield f"<style>{style}</style>\n<script>{script}</script>\n</head>\n"
    yield f'<body class="{kind}">\n'


CLOSING = "</body>\n</html>\n"
THEME_BUTTON = '<button id="theme" type="button" title="Theme: auto, light or dark">Theme</button>'


def moment(at: datetime | None, kind: str = "moment") -> str:
    """UTC as it stands; the script writes it in the reader's own time. `kind` tells the script how much of it."""
    if at is None:
        return ""
    shown = f"{at:%H:%M} UTC" if kind == "clock" else f"{at:%Y-%m-%d %H:%M} UTC"
    return f'<time class="{kind}" datetime="{at.isoformat(timespec="seconds")}">{shown}</time>'


def amount(number: int) -> str:
    """`950`, `12.3k`, `4.5M`."""
    if number < 1000:
        return str(number)
    unit, letter = (1_000_000, "M") if number >= 999_950 else (1000, "k")
    return f"{number / unit:,.1f}".removesuffix(".0") + letter
