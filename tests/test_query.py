from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agent_journal.errors import BadQuery
from agent_journal.query import (
    FIELDS,
    MAX_CHARS,
    MAX_DEPTH,
    MAX_WORDS,
    And,
    Filter,
    Group,
    Node,
    Not,
    Or,
    Phrase,
    Query,
    Word,
    format,
    parse,
)

NOW = datetime(2026, 3, 12, 9, 30, tzinfo=timezone(timedelta(hours=2)))
A, B, C, D = Word("a"), Word("b"), Word("c"), Word("d")


def root(text: str) -> Node | None:
    return parse(text, NOW).root


def group(*items: Node) -> Group:
    return Group(items)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", None),
        (" \t\n", None),
        ("a", A),
        ("a b", group(A, B)),
        ('"a b"', Phrase("a b")),
        ('" a b "c', group(Phrase("a b"), C)),
        ("-a", Not(A)),
        ("NOT a", Not(A)),
        ("a -b", group(A, Not(B))),
        ('-"a b" -agent:x', group(Not(Phrase("a b")), Not(Filter("agent", "x")))),
        ("-(a OR b)", Not(Or((A, B)))),
        ("NOT(a OR b)", Not(Or((A, B)))),
        ("NOT -a", A),
        ("NOT NOT a", A),
        ("-(NOT a)", A),
        ("a AND b", And((A, B))),
        ("a OR b", Or((A, B))),
        ("pars*", Word("pars", prefix=True)),
        ("pars**", Word("pars", prefix=True)),
        ("parsr~", Word("parsr", fuzzy=True)),
        ("*", None),
        ("a *", A),
        ("agent:claude", Filter("agent", "claude")),
        ("AGENT:Claude", Filter("agent", "Claude")),
        ('project:"my shop"', Filter("project", "my shop")),
        ("(agent:a)", Filter("agent", "a")),
        ("role:User", Filter("role", "user")),
        ("in:output in:INPUT", group(Filter("in", "tool_result"), Filter("in", "tool_input"))),
        ("since:2026-03-01", Filter("since", "2026-03-01", datetime(2026, 2, 28, 22, tzinfo=UTC))),
        ("until:2026-03-01", Filter("until", "2026-03-01", datetime(2026, 3, 1, 22, tzinfo=UTC))),
        (
            'since:"2026-03-01 08:00"',
            Filter("since", "2026-03-01 08:00", datetime(2026, 3, 1, 6, tzinfo=UTC)),
        ),
    ],
)
def test_each_piece_of_the_language(text: str, expected: Node | None) -> None:
    assert root(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a b AND c", And((group(A, B), C))),
        ("a OR b c", Or((A, group(B, C)))),
        ("a AND b OR c AND d", Or((And((A, B)), And((C, D))))),
        ("a AND (b OR c)", And((A, Or((B, C))))),
        ("NOT a b", group(Not(A), B)),
        ("a AND NOT b", And((A, Not(B)))),
        ("a AND (b AND c)", And((A, B, C))),
        ("(a OR b) OR c", Or((A, B, C))),
        ("a (b c)", group(A, group(B, C))),
        ("((a b))", group(A, B)),
    ],
)
def test_not_binds_tighter_than_side_by_side_then_and_then_or(text: str, expected: Node) -> None:
    assert root(text) == expected


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("how do I fix this and not break it", "how do I fix this and not break it"),
        ("a or b", "a or b"),
        ("a (b c", "a b c"),
        ("a) b", "a b"),
        ("a () b", "a b"),
        (":-( a", ":-( a"),
        ('say "a b', 'say "a b'),
        ('5" screen', '5" screen'),
        ("AND a", "AND a"),
        ("a OR", "a OR"),
        ("NOT", "NOT"),
        ("git commit --dry-run", "git commit --dry-run"),
        ("a -> b - c", "a -> b - c"),
        ("well-known", "well-known"),
        ("std::vector http://x.y/z file:///home", "std::vector http://x.y/z file:///home"),
        ("error: x note:y TODO: z", "error: x note:y TODO: z"),
        ("File: x", "File: x"),
        ("parse(x) f(a, b)", "parse(x) f(a, b"),
        ("foo.*bar C:\\new", "foo.*bar C:\\new"),
        ("\\AND \\-x \\agent:y \\\\z", "AND -x agent:y \\z"),
        ("~/work ~ /*", "~/work ~ /*"),
        ("日本語 naïve", "日本語 naïve"),
    ],
)
def test_what_only_looks_like_syntax_is_text(text: str, words: str) -> None:
    found = root(text)
    items = found.items if isinstance(found, Group) else (found,)
    assert items == tuple(Word(word) for word in words.split())


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("before:2026-01 login", "until:2026-01 login"),
        ("after:3d", "since:3d"),
        ("after:yesterday -before:today", "since:yesterday -until:today"),
        ("from:user", "role:user"),
        ("repo:shop", "project:shop"),
        ('workspace:"my shop"', 'project:"my shop"'),
        ("repo:shop*", "project:shop*"),
        ("(path:src/cart.py OR path:*.toml)", "file:src/cart.py OR file:*.toml"),
        ("has:error", "is:error"),
    ],
)
def test_what_other_programs_call_a_filter_is_that_filter(text: str, meant: str) -> None:
    assert root(text) == root(meant)


@pytest.mark.parametrize(
    "text",
    [
        *("before:lunch", "after:all", "from:ana", "from:", "before:", "has:errors:", "has:many", "before::x"),
        *("workspace:^", "workspace:^1.2", "repo:ana/shop", "repo:a,b", "path://x", "path:/bin:/usr/bin"),
        *("Path:src/cart.py", "FROM:user", "path:", "path:/", "path:str,", "fatal:", "error:foo", "std::vector"),
        *("http://x", "x:before:2026", "after:foo(1d)"),
    ],
)
def test_what_only_looks_like_such_a_filter_is_text(text: str) -> None:
    assert root(text) == Word(text)


def test_a_guessed_filter_behind_a_backslash_is_a_word() -> None:
    assert root("\\has:error") == Word("has:error")
    assert format(parse("\\has:error", NOW)) == "\\has:error"


def test_query_text_is_composed_and_holds_no_lone_surrogates() -> None:
    found = parse("re\u0301sume\u0301 \udcff", NOW)
    assert (found.text, found.root) == ("résumé \ufffd", group(Word("résumé"), Word("\ufffd")))


DATES = "use a date (2026-03-01, 2026-03, 2026-03-01T14:30), or 5h, 3d, 2w, 1y, today, yesterday, last-week, last-month"
TOO_LONG = "the query is longer than 10,000 characters — keep the words that matter"
QUOTE_IT = "to search for it as text, put it in quotes"


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        (
            "x agnet:claude y",
            "agnet: is not a filter — did you mean agent:?",
            f"x agnet:claude y\n  ^^^^^^\n{QUOTE_IT}",
        ),
        (
            "-Projct:api",
            "Projct: is not a filter — did you mean project:?",
            f"-Projct:api\n ^^^^^^^\n{QUOTE_IT}",
        ),
        (
            "日本 files:x",
            "files: is not a filter — did you mean file:?",
            f"日本 files:x\n     ^^^^^^\n{QUOTE_IT}",
        ),
        (
            "a (role:human)",
            "role:human — use user, assistant, system or tool",
            "a (role:human)\n   ^^^^^^^^^^",
        ),
        ("is:red", "is:red — use error, subagent, meta, gone or sidechain", "is:red\n^^^^^^"),
        (
            "in:body",
            "in:body — use user, assistant, text, thinking, tool_input, tool_result, tool or title",
            "in:body\n^^^^^^^",
        ),
        ("since:3x", f"since:3x — {DATES}", "since:3x\n^^^^^^^^"),
        ("until:2026-13 b", f"until:2026-13 — {DATES}", "until:2026-13 b\n^^^^^^^^^^^^^"),
        (
            "agent: claude",
            "agent: needs a value right after the colon — agent:claude",
            "agent: claude\n^^^^^^",
        ),
        ('file:""', "file: needs a value right after the colon — file:parser.py", 'file:""\n^^^^^^^'),
        ('dir:"a b', "dir: the quote is not closed", 'dir:"a b\n    ^^^^'),
        ("a p*", "p* — write at least 2 letters before the *", "a p*\n  ^^"),
        (
            "x" * 50 + " role:" + "y" * 100,
            f"role:{'y' * 39}… — use user, assistant, system or tool",
            f"…{'x' * 29} role:{'y' * 85}…\n{' ' * 31}{'^' * 60}",
        ),
        ("is:a\x1b[31m", "is:a [31m — use error, subagent, meta, gone or sidechain", "is:a [31m\n^^^^^^^^^"),
        ("a " * (MAX_WORDS + 1), "the query has more than 200 words — keep the ones that matter", ""),
        ("a" * (MAX_CHARS + 1), TOO_LONG, ""),
        ("\u0344" * (MAX_CHARS // 2 + 1), TOO_LONG, ""),  # twice as long once normalized
        ("(" * 51 + "a" + ")" * 51, "parentheses are nested deeper than 50 — write it flatter", ""),
    ],
)
def test_mistakes_are_pointed_at(text: str, message: str, hint: str) -> None:
    with pytest.raises(BadQuery) as caught:
        parse(text, NOW)
    assert (caught.value.message, caught.value.hint) == (message, hint)


def test_limits_themselves_are_allowed() -> None:
    deep = "(" * MAX_DEPTH + "a" + ")" * MAX_DEPTH
    assert [root(deep), root("a " * MAX_WORDS), root("a" * MAX_CHARS)] == [
        A,
        group(*[A] * MAX_WORDS),
        Word("a" * MAX_CHARS),
    ]


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("a   b", "a b"),
        ("a AND b OR c", "(a AND b) OR c"),
        ("NOT (a  b)", "-(a b)"),
        ("NOT --dry-run", "NOT --dry-run"),
        ("in:OUTPUT", "in:tool_result"),
        ('agent:"claude"', "agent:claude"),
        ('dir:"my shop"', 'dir:"my shop"'),
        ("AND a", "\\AND a"),
        ("(b f(x ) a", "(b f(x ) a"),
    ],
)
def test_canonical_text(text: str, canonical: str) -> None:
    assert format(parse(text, NOW)) == canonical


# --- what is asked for, and options ---------------------------------------------------------------------


def test_words_to_highlight_leave_out_what_is_excluded() -> None:
    found = parse('a -b "c d" OR (pars* NOT x) agent:y', NOW)
    assert found.words() == [A, Phrase("c d"), Word("pars", prefix=True)]


def test_filters_are_shown_by_field() -> None:
    found = parse("x agent:a (agent:b OR is:error) -tool:Bash", NOW).with_filter("role", "user", now=NOW)
    assert found.filters() == {"agent": ["a", "b"], "is": ["error"], "-tool": ["Bash"], "role": ["user"]}


@pytest.mark.parametrize(
    ("text", "rank_only"),
    [
        ("a agent:x", False),
        ("a (agent:x OR agent:y)", False),
        ("a -b", False),
        ("a (agent:x OR b)", False),
        ('a "b c"', True),
        ("a (b OR c)", True),
        ("a (b agent:x)", True),
    ],
)
def test_bare_words_may_be_missing_only_beside_other_text(text: str, rank_only: bool) -> None:
    found = root(text)
    assert isinstance(found, Group)
    assert found.words_only_rank is rank_only


def test_options_narrow_the_whole_query_and_stand_side_by_side() -> None:
    found = parse("a OR b", NOW).with_filter("agent", "x", now=NOW)
    assert found.root == And((Or((A, B)), Filter("agent", "x")))
    found = found.with_filter("agent", " y ", now=NOW).with_filter("is", "subagent", negated=True, now=NOW)
    options = group(Filter("agent", "x"), Filter("agent", "y"), Not(Filter("is", "subagent")))
    assert (found.text, found.root) == ("a OR b", And((Or((A, B)), options)))


def test_options_alone_are_a_query() -> None:
    empty = parse("", NOW)
    found = empty.with_filter("since", "today", now=NOW)
    assert found.root == Filter("since", "today", datetime(2026, 3, 11, 22, tzinfo=UTC))
    assert (empty.is_empty, found.is_empty) == (True, False)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("role", "human", "role:human — use user, assistant, system or tool"),
        ("since", "3x", f"since:3x — {DATES}"),
        ("agent", " ", "agent: needs a value right after the colon — agent:claude"),
    ],
)
def test_options_are_refused_as_filters_are(field: str, value: str, message: str) -> None:
    with pytest.raises(BadQuery) as caught:
        parse("a", NOW).with_filter(field, value, now=NOW)
    assert caught.value.message == message


# --- any text -------------------------------------------------------------------------------------------

PIECES = st.sampled_from(
    [
        *('"', "(", ")", "-", "--", " ", " ", "\\", "*", "~", ":", "//", ".", "AND", "OR", "NOT", "a", "bc"),
        *("agent:", "role:user", "in:", "since:3d", "x::y", "file:", "agnet:", "é", "\u0301", "日", "\u3000"),
    ]
)
TEXTS = st.lists(PIECES, max_size=25).map("".join) | st.text(max_size=60)


@given(TEXTS)
@example('-"a (b')
@example('dir:a("b ("c")')
@example('"a"-b "c')
def test_any_text_is_a_query_that_reads_back_the_same_or_a_bad_query(text: str) -> None:
    try:
        found = parse(text, NOW)
    except BadQuery:
        return
    assert parse(format(found), NOW).root == found.root


BARE = st.text("ab-*~\\(:./\"'日é", min_size=1, max_size=6).filter(
    lambda text: not any(c.isalnum() for c in text) or text[-1] not in "*~"
)
VALUES = st.text("ab ():/.*日", min_size=1, max_size=6).map(str.strip).filter(bool)
LEAVES: st.SearchStrategy[Node] = st.one_of(
    BARE.map(Word),
    st.sampled_from(["AND", "OR", "NOT", "agent:x", "agnet:x", "-x"]).map(Word),
    st.builds(Word, st.sampled_from(["ab", "--ab", "(ab", "AND"]), st.just(True)),
    VALUES.map(Phrase),
    st.builds(Filter, st.sampled_from(["agent", "project", "dir", "file"]), VALUES),
    st.sampled_from(["user", "tool"]).map(lambda value: Filter("role", value)),
)


def _joined(kind: type[And] | type[Or] | type[Group], items: list[Node]) -> Node:
    flat: list[Node] = []
    for item in items:
        flat += item.items if isinstance(item, kind) and not isinstance(item, Group) else [item]
    return kind(tuple(flat))


TREES: st.SearchStrategy[Node] = st.recursive(
    LEAVES,
    lambda nodes: st.one_of(
        nodes.filter(lambda node: not isinstance(node, Not)).map(Not),
        st.builds(_joined, st.sampled_from([And, Or, Group]), st.lists(nodes, min_size=2, max_size=4)),
    ),
    max_leaves=12,
)


@given(TREES)
def test_any_tree_is_written_so_that_it_reads_back_the_same(tree: Node) -> None:
    assert parse(format(Query("", tree)), NOW).root == tree


def test_every_field_has_a_value_that_is_accepted() -> None:
    examples = {"role": "user", "in": "title", "is": "error", "since": "3d", "until": "3d"}
    for name in FIELDS:
        assert parse(f"{name}:{examples.get(name, 'x')}", NOW).filters() == {name: [examples.get(name, "x")]}
