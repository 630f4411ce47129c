"""Words from a log as HTML: escaped text, Markdown and highlighted code. The only way a log's text enters a page.

It refuses raw HTML, images, and links to anything but the web and mail; no style attribute is ever written, for the
page's Content-Security-Policy forbids them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, MutableMapping, Sequence
from functools import cache
from html import escape
from itertools import groupby
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markdown_it.utils import OptionsDict

from agent_journal.render.clean import shown_text
from agent_journal.render.html_code import highlighted, is_language

# Hostile brackets cost 0.3 s for 50 kB at 20 levels, 2 s at 100; what people write is below 10.
DEEPEST = 20
PROSE_CHARS = 200_000  # longer is a pasted file, not prose
_WEB = re.compile(r"(?:https?://|mailto:)", re.IGNORECASE)
_URL = re.compile(r"https?://[^\s<>\"'`()\[\]{}|\\^⟨⟩]*[^\s<>\"'`()\[\]{}|\\^⟨⟩.,;:!?*_~…]", re.IGNORECASE)
_REL = 'rel="noopener noreferrer nofollow"'


def safe(text: str) -> str:
    """Several lines, or an attribute's value."""
    return escape(shown_text(text))


def safe_line(text: str) -> str:
    return escape(" ".join(shown_text(text).split()))


def verbatim(text: str, kind: str = "") -> str:
    """Text exactly as it stands."""
    return f'<pre class="{kind or "plain"}">{safe(text)}</pre>'


def code(text: str, language: str, kind: str = "code") -> str:
    return f'<pre class="{kind}"><code>{highlighted(shown_text(text), language)}</code></pre>'


def prose(text: str, *, breaks: bool = False) -> str:
    """Markdown. `breaks`: a line end is a line end, as people mean it in a prompt."""
    text = shown_text(text).strip("\n")
    if len(text) <= PROSE_CHARS:
        reader = _reader(breaks)
        env: dict[str, Any] = {}
        try:
            tokens = reader.parse(text, env)
            # The reader leaves out what is nested deeper than its limit.
            if all(token.level < DEEPEST - 1 for token in tokens):
                rendered: str = reader.renderer.render(tokens, reader.options, env)
                return f'<div class="prose">{rendered}</div>'
        except (ValueError, LookupError, TypeError, RecursionError):
            pass  # shown as it stands
    return verbatim(text)


@cache
def _reader(breaks: bool) -> MarkdownIt:
    options = {"html": False, "xhtmlOut": False, "breaks": breaks, "maxNesting": DEEPEST}
    reader = MarkdownIt("commonmark", options, renderer_cls=_Page).enable(["table", "strikethrough"])
    # A line of a pasted log, such as "[main]: started", reads as the target of a link and would vanish.
    reader.disable("reference")
    # Where a link may lead is decided when it is written; one that leads nowhere still shows its text.
    reader.validateLink = lambda url: True  # type: ignore[method-assign]
    return reader


Env = MutableMapping[str, Any]


class _Page(RendererHTML):
    """A method for each token that is not written as markdown-it would."""

    def text(self, tokens: Sequence[Token], place: int, options: OptionsDict, env: Env) -> str:
        content = tokens[place].content
        return escape(content) if env.get("link") else "".join(_with_links(content))

    def link_open(self, tokens: Sequence[Token], place: int, options: OptionsDict, env: Env) -> str:
        target, title = (str(tokens[place].attrGet(name) or "") for name in ("href", "title"))
        env["link"] = "a" if _WEB.match(target) else "span"
        if env["link"] == "a":
            hint = f' title="{escape(title)}"' if title else ""
            return f'<a href="{escape(target)}"{hint} {_REL}>'
        return f'<span class="ref" title="{escape(f"{target} {title}".strip())}">'

    def link_close(self, tokens: Sequence[Token], place: int, options: OptionsDict, env: Env) -> str:
        return f"</{env.pop('link', 'span')}>"

    def image(self, tokens: Sequence[Token], place: int, options: OptionsDict, env: Env) -> str:
        token = tokens[place]
        target = str(token.attrGet("src") or "")
        name = f"image: {self.renderInlineAsText(token.children, options, env) or target}"
        if env.get("link") or not _WEB.match(target):
            return f'<span class="ref" title="{escape(target)}">[{escape(name)}]</span>'
        return f'<a href="{escape(target)}" {_REL}>[{escape(name)}]</a>'

    def fence(self, tokens: Sequence[Token], place: int, options: OptionsDict, env: Env) -> str:
        token = tokens[place]
        language = token.info.strip()
        # What is no language is often a file and its lines.
        label = "" if not language or is_language(language) else f'<p class="label">{escape(language)}</p>'
        return label + code(token.content, language.split()[0] if language else "")

    def code_block(self, tokens: Sequence[Token], place: int, options: OptionsDict, env: Env) -> str:
        return code(tokens[place].content, "")

    def heading_open(self, tokens: Sequence[Token], place: int, options: OptionsDict, env: Env) -> str:
        return f"<{_lower(tokens[place].tag)}>"

    def heading_close(self, tokens: Sequence[Token], place: int, options: OptionsDict, env: Env) -> str:
        return f"</{_lower(tokens[place].tag)}>\n"

    def table_open(self, tokens: Sequence[Token], place: int, options: OptionsDict, env: Env) -> str:
        return '<div class="wide"><table>\n'

    def table_close(self, tokens: Sequence[Token], place: int, options: OptionsDict, env: Env) -> str:
        return "</table></div>\n"

    def th_open(self, tokens: Sequence[Token], place: int, options: OptionsDict, env: Env) -> str:
        token = tokens[place]
        side = str(token.attrGet("style") or "").rpartition(":")[2]
        return f'<{token.tag} class="{side}">' if side in ("right", "center") else f"<{token.tag}>"

    td_open = th_open


def _lower(tag: str) -> str:
    """A message's headings stand below the page's own."""
    return f"h{min(int(tag[1]) + 2, 6)}"


def _with_links(text: str) -> Iterator[str]:
    place = 0
    for found in _URL.finditer(text):
        yield escape(text[place : found.start()])
        url = escape(found[0])
        yield f'<a href="{url}" {_REL}>{url}</a>'
        place = found.end()
    yield escape(text[place:])


# --- differences ----------------------------------------------------------------------------------------

_SIDES = {"+": "ins", "-": "del"}


def difference(text: str) -> str:
    """Lines that begin with + and - marked as such, in one element a run."""
    lines = shown_text(text).strip("\n").split("\n")
    parts = []
    for side, run in groupby(lines, key=_side):
        body = escape("\n".join(run))
        parts.append(f"<{side}>{body}</{side}>")
    return f'<pre class="diff">{"".join(parts)}</pre>'


def _side(line: str) -> str:
    if line.startswith(("+++", "---", "@@", "***", "diff ", "index ")):
        return "b"
    return _SIDES.get(line[:1], "span")
