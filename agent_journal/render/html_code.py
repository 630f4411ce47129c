"""Code in colour: Pygments' tokens under eight class names, for languages whose lexers stay quick whatever they read.

It refuses to guess a language.
"""

from __future__ import annotations

import re
from functools import cache
from html import escape
from itertools import groupby
from pathlib import PurePosixPath

from pygments.lexer import Lexer
from pygments.lexers import get_lexer_by_name
from pygments.token import Comment, Keyword, Literal, Name, Number, String, _TokenType

# Many lexers take quadratic time for text that is not of their language. At this size, with the two shapes below left
# alone, the worst of the list takes 1.5 s and usual code 20 ms.
CODE_CHARS = 20_000
_UNLIKE_CODE = re.compile(r"[^\n]{1000}|\s{100}")

# Left out for their worst case: groovy, hcl, markdown, rst. Java and C# are read as C++ for the same reason: their
# own lexers take 12 s for 12 kB of one-word lines.
_LEXERS = {
    name: lexer
    for lexer, names in {
        "bash": "sh bash zsh shell fish",
        "batch": "bat cmd",
        "c": "c h",
        "clojure": "clojure clj cljs edn",
        "cmake": "cmake",
        "console": "console shell-session",
        "cpp": "cpp c++ cc cxx hpp hh java csharp c# cs",
        "css": "css",
        "dart": "dart",
        "diff": "diff patch",
        "docker": "docker dockerfile",
        "elixir": "elixir ex exs",
        "elm": "elm",
        "erlang": "erlang erl",
        "fsharp": "fsharp fs",
        "go": "go golang",
        "graphql": "graphql gql",
        "haskell": "haskell hs",
        "html": "html htm",
        "ini": "ini cfg conf properties env dotenv editorconfig",
        "javascript": "javascript js mjs cjs",
        "json": "json jsonc json5 jsonl ndjson",
        "jsx": "jsx",
        "julia": "julia jl",
        "kotlin": "kotlin kt kts",
        "lua": "lua",
        "make": "make makefile mk",
        "nginx": "nginx",
        "nim": "nim",
        "objective-c": "objective-c objc",
        "ocaml": "ocaml ml mli",
        "perl": "perl pl pm",
        "php": "php",
        "powershell": "powershell ps1 pwsh",
        "protobuf": "protobuf proto",
        "pytb": "pytb",
        "python": "python py python3 pyi",
        "r": "r",
        "ruby": "ruby rb",
        "rust": "rust rs",
        "scala": "scala",
        "scss": "scss less",
        "sql": "sql sqlite postgres postgresql mysql",
        "swift": "swift",
        "toml": "toml",
        "tsx": "tsx",
        "typescript": "typescript ts mts cts",
        "vue": "vue svelte",
        "xml": "xml svg xsl plist",
        "yaml": "yaml yml",
        "zig": "zig",
    }.items()
    for name in names.split()
}
_CLASSES = {
    Comment: "c",
    Keyword: "k",
    Name.Attribute: "a",
    Name.Builtin: "b",
    Name.Class: "f",
    Name.Decorator: "a",
    Name.Function: "f",
    Name.Tag: "k",
    Name.Variable: "v",
    Literal: "s",
    Number: "n",
    String: "s",
}


def is_language(name: str) -> bool:
    return name.lower() in _LEXERS


def language_of(path: str) -> str:
    """By the file's name; empty for a language that is not coloured."""
    name = PurePosixPath(path.replace("\\", "/")).name.lower()
    ending = name.rpartition(".")[2]
    return ending if ending in _LEXERS else ""


def highlighted(text: str, language: str) -> str:
    """Escaped HTML of a text that has no harmful characters left."""
    lexer = _lexer(language.lower().strip("{}."))
    if lexer is None or len(text) > CODE_CHARS or _UNLIKE_CODE.search(text):
        return escape(text)
    parts = []
    for kind, tokens in groupby(lexer.get_tokens(text), key=lambda token: _class(token[0])):
        run = escape("".join(value for _, value in tokens))
        parts.append(f'<i class="{kind}">{run}</i>' if kind else run)
    return "".join(parts)


def _lexer(language: str) -> Lexer | None:
    return _loaded(_LEXERS[language]) if language in _LEXERS else None


@cache
def _loaded(name: str) -> Lexer:
    return get_lexer_by_name(name, stripnl=False)


@cache
def _class(kind: _TokenType) -> str:
    step: _TokenType | None = kind
    while step is not None and step not in _CLASSES:
        step = step.parent
    return "" if step is None else _CLASSES[step]
