from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterable
from html.parser import HTMLParser
from typing import Any

import pytest
from html_accounts import ANSWER, ATTACKS, MARKDOWN_ATTACKS, START, account, assistant, hostile, long, user, usual
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_journal.render.html import Entry, index_page, session_page
from agent_journal.render.html_code import highlighted, language_of
from agent_journal.render.html_text import PROSE_CHARS, code, difference, prose
from agent_journal.render.html_tools import tool
from agent_journal.session import Account, Attachment, Text, Thinking, ToolCall, ToolType, Usage
from agent_journal.statistics import Tally

VOID = {"meta", "link", "input", "br", "hr", "rect"}
TAGS = VOID | set(
    "html head title style script body div main nav article section header search button output dialog details summary "
    "h1 h2 h3 h4 h5 h6 p pre code span b i a ol ul li dl dt dd time ins del s em strong blockquote "
    "table thead tbody tr th td kbd select option label small figure figcaption svg".split()
)
ATTRIBUTES = set(
    "lang data-theme charset http-equiv content name rel href class id type title for placeholder autocomplete "
    "spellcheck aria-label aria-pressed datetime start value checked role viewbox preserveaspectratio "
    "x y width height".split()
)
# Written by us: none holds a log's text.
IDS = re.compile(
    r"m\d+|t\d{1,4}-\d\d|menu|find|count|back|on|only|folds|theme|keys|prompts|help|close|filter|agent|project|subs"
)
TARGETS = re.compile(
    r"#[mt][\d-]+|https?://.+|mailto:.+|index\.html|data:image/svg\+xml,[^<>\"]+|s%22\.html|s\d*\.html", re.DOTALL
)
ILL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


class Checked(HTMLParser):
    """A page that closes what it opens and holds nothing but what we write."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.words: list[str] = []
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.feed(page)
        self.close()
        assert self.open == []
        self.text = "".join(self.words)
        page.encode()
        assert not ILL.search(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        assert tag in TAGS, tag
        assert set(found) <= ATTRIBUTES, (tag, found)
        assert len(found) == len(attrs)
        assert IDS.fullmatch(found.get("id", "count")), found
        assert TARGETS.fullmatch(found.get("href", "#m1")), found
        assert re.fullmatch(r"[\w -]*", found.get("class", "")), found
        assert (
            tag != "a"
            or not found["href"].startswith(("http", "mailto"))
            or found["rel"] == "noopener noreferrer nofollow"
        )
        assert tag not in ("a", "summary") or "a" not in self.open
        self.elements.append((tag, found))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] not in ("script", "style", "title"):
            self.words.append(data)

    def handle_comment(self, data: str) -> None:
        raise AssertionError(data)

    def classes(self, tag: str) -> list[str]:
        return [attributes.get("class", "") for name, attributes in self.elements if name == tag]


def page_of(shown: Account, theme: str = "auto", index: str | None = "index.html") -> str:
    return "".join(session_page(shown, theme=theme, index=index))


def test_page_holds_each_message_with_its_number_and_marks() -> None:
    page = Checked(page_of(usual()))
    assert page.classes("article") == [
        "message user quiet",
        "message user human",
        "message assistant",
        "message assistant same",
        "message assistant same",
        "message assistant side",
        "message system quiet",
        "message user quiet",
        "message user human",
        "message assistant error",
    ]
    assert [a["href"] for tag, a in page.elements if a.get("class") == "no"] == [f"#m{n}" for n in range(1, 11)]
    for words in ("written by the agent", "sub-agent", "summary of earlier messages", "error"):
        assert words in page.text


def test_head_says_what_when_how_much_and_how_to_open_it() -> None:
    text = Checked(page_of(usual())).text
    for words in (
        "Why the sum fails",
        "claude-code · shop · fix/sum · 2026-03-01 09:30 UTC · 24h 02m",
        "3 turns · 10 messages · 4 tool calls · 1 failed · 1.2k tokens in, 34 out, 2.5M from cache",
        "claude-opus-4-5",
        "aj show claude-code:abc",
        "aj resume claude-code:abc",
    ):
        assert words in text, words


def test_prompts_are_listed_without_what_the_agent_wrote() -> None:
    page = page_of(usual())
    listed = re.findall(r'<li><a href="#(m\d+)">(.*?)</a></li>', page)
    assert listed == [("m2", "Why does the sum fail? It did not yesterday."), ("m9", "Thanks. And here?")]


def test_ordinals_of_the_account_are_the_permalinks() -> None:
    shown = usual()
    part = Account(shown.session, shown.derived, shown.messages[1:3], (17, 40))
    assert re.findall(r'<article id="(\w+)"', page_of(part)) == ["m17", "m40"]


def test_tool_calls_that_were_left_out_are_said() -> None:
    shown = usual()
    without = tuple(m for m in shown.messages if not m.tool_calls)
    part = Account(shown.session, shown.derived, without, tuple(range(1, len(without) + 1)))
    assert "4 tool calls (0 shown)" in Checked(page_of(part)).text


def test_message_without_anything_left_to_show_is_no_empty_box() -> None:
    assert "<article" not in page_of(account(assistant(Text("  ")), assistant()))


def test_session_without_messages_says_so() -> None:
    assert "This session has no messages." in Checked(page_of(account())).text


def test_policy_allows_only_the_style_and_script_of_the_page() -> None:
    page = page_of(usual())
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', page)
    assert policy
    rules = policy[1].split("; ")
    assert [re.sub(r"sha256-[\w+/=]{44}", "HASH", rule) for rule in rules] == [
        "default-src 'none'",
        "style-src 'HASH'",
        "script-src 'HASH'",
        "img-src data:",
        "base-uri 'none'",
        "form-action 'none'",
    ]
    assert page.count("<script") == page.count("</script") == page.count("<style") == page.count("</style") == 1


@pytest.mark.parametrize(
    ("asked", "written"), [("dark", "dark"), ("light", "light"), ("auto", "auto"), ('"><x', "auto")]
)
def test_theme_is_one_of_three(asked: str, written: str) -> None:
    assert f'<html lang="en" data-theme="{written}">' in page_of(usual(), asked)


def test_page_without_an_index_links_to_none() -> None:
    assert 'class="home"' not in page_of(usual(), index=None)


def test_attacks_in_every_field_stay_words() -> None:
    page = Checked(page_of(hostile()))
    assert page.text.count("window.hacked") > 100
    for attack in ATTACKS[:13]:
        assert attack in page.text, attack
    assert "⟨U+202E⟩gnp.exe⟨U+202C⟩ ⟨U+2066⟩isolated⟨U+2069⟩ ⟨U+200B⟩zero⟨U+FEFF⟩ red ␀␇⟨U+009B⟩" in page.text
    assert "�� lone � surrogates" in page.text


def test_page_never_names_an_image_to_fetch() -> None:
    assert "<img" not in page_of(hostile())


# --- Markdown -------------------------------------------------------------------------------------------


def test_markdown_becomes_elements() -> None:
    assert prose(ANSWER).startswith(
        '<div class="prose"><p>The test fails because <code>total</code> starts at <strong>1'
    )
    for part in (
        '<a href="https://example.org/a?b=1&amp;c=2" rel="noopener noreferrer nofollow">the docs</a>',
        "<h4>What I changed</h4>",
        '<td class="right">3</td>',
        '<i class="k">def</i> <i class="f">total</i>',
        "<s>an error</s>",
    ):
        assert part in prose(ANSWER), part


def test_line_ends_of_a_prompt_are_kept() -> None:
    assert prose("a\nb", breaks=True) == '<div class="prose"><p>a<br>\nb</p>\n</div>'
    assert prose("a\nb") == '<div class="prose"><p>a\nb</p>\n</div>'


@pytest.mark.parametrize("attack", MARKDOWN_ATTACKS)
def test_links_lead_to_the_web_or_nowhere(attack: str) -> None:
    links = re.findall(r'href="([^"]*)"', prose(attack))
    assert all(link.startswith(("https://evil.example/", "https://example.org/")) for link in links), links


def test_link_to_a_file_is_words_with_its_target_beside() -> None:
    assert prose("[sum.py](/shop/sum.py:12)") == (
        '<div class="prose"><p><span class="ref" title="/shop/sum.py:12">sum.py</span></p>\n</div>'
    )


def test_bare_address_is_a_link_without_the_full_stop() -> None:
    assert 'href="https://example.org/a_b?c=d&amp;e=f"' in prose("See https://example.org/a_b?c=d&e=f.")


def test_words_nested_too_deeply_are_shown_as_they_stand() -> None:
    assert prose(">" * 60 + " deep") == f'<pre class="plain">{"&gt;" * 60} deep</pre>'


def test_pasted_file_is_shown_as_it_stands() -> None:
    assert prose("*a* " * PROSE_CHARS).startswith('<pre class="plain">*a* *a* ')


@pytest.mark.parametrize(
    "unit", ["[", "![", "*a_", "**a *b ", "> ", "- ", "`a``", "<a ", "&", "[a](", "|a\n|-\n", "[\n"]
)
def test_hostile_markdown_of_any_length_ends(unit: str) -> None:
    """Eight times as long takes about eight times the time; quadratic, it would be 64 times, and minutes at most."""
    times = []
    for length in (PROSE_CHARS // 32, PROSE_CHARS // 4):
        started = time.process_time()
        assert prose(unit * (length // len(unit)))
        times.append(time.process_time() - started)
    assert times[1] < 24 * max(times[0], 0.02)


def test_code_of_an_unknown_language_is_plain() -> None:
    assert code("<a>", "nonsense") == '<pre class="code"><code>&lt;a&gt;</code></pre>'


@pytest.mark.parametrize("text", ["x = 1\n" * 5000, "x" * 2000, "a" + "\n" * 200], ids=["long", "wide", "empty"])
def test_code_that_could_be_slow_is_not_coloured(text: str) -> None:
    assert highlighted(text, "python") == text


def test_language_is_known_by_the_file_name() -> None:
    assert [language_of(p) for p in ("/a/b.py", "C:\\x\\App.TSX", "Makefile", "a.bin", "")] == [
        "py",
        "tsx",
        "makefile",
        "",
        "",
    ]


# --- tools ----------------------------------------------------------------------------------------------


def drawn(call: ToolCall) -> str:
    return "".join(tool(call, "/shop"))


def test_edit_is_shown_as_a_difference() -> None:
    edit = ToolCall(
        "1", "Edit", ToolType.WRITE, {"file_path": "/shop/a.py", "old_string": "a\nb", "new_string": "a\nc"}, "", True
    )
    assert '<pre class="diff"><span> a</span><del>-b</del><ins>+c</ins></pre>' in drawn(edit)
    assert '<summary><b>Edit</b> <span class="about">a.py</span></summary>' in drawn(edit)


def test_several_edits_are_several_differences() -> None:
    edits = [{"old_string": "a", "new_string": "b"}, {"old_string": "c", "new_string": "d"}]
    assert drawn(ToolCall("1", "MultiEdit", arguments={"edits": edits})).count('<pre class="diff">') == 2


def test_long_edit_is_all_out_and_all_in() -> None:
    lines = "x\n" * 400
    shown = drawn(ToolCall("1", "Edit", arguments={"old_string": lines, "new_string": lines + "y"}))
    assert shown.count("<del>") == shown.count("<ins>") == 1


def test_patch_is_shown_as_a_difference() -> None:
    patch = "*** Begin Patch\n*** Update File: a\n@@\n-old\n+new\n*** End Patch"
    shown = drawn(ToolCall("1", "apply_patch", arguments=patch))
    assert "<del>-old</del><ins>+new</ins>" in shown
    assert difference("--- a\n+++ b\n@@ -1 +1 @@\n-x").startswith(
        '<pre class="diff"><b>--- a\n+++ b\n@@ -1 +1 @@</b><del>-x'
    )


def test_failed_and_unanswered_calls_are_marked() -> None:
    assert '<span class="mark bad">failed</span>' in drawn(ToolCall("1", "Bash", result="", success=False))
    assert '<span class="mark">no result</span>' in drawn(ToolCall("1", "Bash"))
    assert "no output" in drawn(ToolCall("1", "Bash", result="", success=True))


def test_command_of_several_words_is_one_line() -> None:
    assert "git status" in drawn(ToolCall("1", "shell", ToolType.SHELL, {"command": ["git", "status"]}))


def test_endlessly_nested_arguments_are_not_the_end_of_the_page() -> None:
    deep: Any = 1
    for _ in range(5000):
        deep = [deep]
    assert "nested too deeply" in drawn(ToolCall("1", "x", arguments={"a": deep}))


# --- anything at all ------------------------------------------------------------------------------------

MARKS = "``` ~~~ ` > - 1. # | |-| [ ]( ) * ** _ ~~ < & \" ' \\ http:// <http://a.b> - [ ] + @@ -1".split(" ")
PIECES = st.sampled_from([*ATTACKS, *MARKDOWN_ATTACKS[:-1], *MARKS, "\n", "\n\n", "    ", "\t", "\r"])
WORDS = st.one_of(st.text(st.characters(exclude_categories=()), max_size=40), st.lists(PIECES, max_size=8).map("".join))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=6,
)
NAMES = st.sampled_from(
    ["command", "content", "file_path", "old_string", "new_string", "edits", "todos", "plan", "prompt"]
)
CALLS = st.builds(
    ToolCall,
    id=WORDS,
    name=WORDS,
    type=st.sampled_from(ToolType),
    arguments=VALUES | st.dictionaries(NAMES, VALUES, max_size=4),
    result=st.none() | WORDS,
    success=st.none() | st.booleans(),
    paths=st.lists(WORDS, max_size=1).map(tuple),
    agent_session=st.none() | WORDS,
    details=st.dictionaries(WORDS, VALUES, max_size=2),
)
BLOCKS = st.one_of(
    st.builds(Text, WORDS), st.builds(Thinking, WORDS), st.builds(Attachment, WORDS, WORDS, WORDS, WORDS), CALLS
)


@settings(max_examples=80, deadline=None)
@given(st.lists(BLOCKS, max_size=4), WORDS, st.booleans())
def test_no_text_breaks_out_of_its_place(blocks: list[Any], name: str, from_user: bool) -> None:
    message = user(*blocks, cwd=name) if from_user else assistant(*blocks, model=name, cwd=name)
    Checked(page_of(account(message, title=name, git_branch=name, workspace=name, agent=name, id=name, key=name)))


@settings(max_examples=100, deadline=None)
@given(st.text("xyz <>&\"'\n+-@*`_[]()#!:~", max_size=60))
def test_no_word_is_lost(text: str) -> None:
    page = Checked(prose(text))
    attributes = [value for _, found in page.elements for name, value in found.items() if name in ("href", "title")]
    shown = Counter("".join([page.text, *attributes]))
    assert {letter: shown[letter] - text.count(letter) for letter in "xyz"} == dict.fromkeys("xyz", 0)


# --- the index ------------------------------------------------------------------------------------------


def entries(accounts: Iterable[Account]) -> list[Entry]:
    return [Entry(f"s{n}.html", shown.session, shown.derived) for n, shown in enumerate(accounts)]


def test_index_lists_sessions_newest_first_by_month() -> None:
    shown = [
        account(user("old", minute=0), title="Old"),
        account(user("new", minute=60 * 24 * 40), title="New", git_branch="dev", workspace="/w/shop"),
        account(title="Timeless", is_agent_session=True),
    ]
    page = "".join(index_page(entries(shown), [Tally("2026-03-01", turns=2)], theme="light"))
    checked = Checked(page)
    assert re.findall(r'class="row" href="(.*?)"', page) == ["s1.html", "s0.html", "s2.html"]
    assert re.findall(r"<h2 id=.*?>(.*?) <small>", page) == ["April 2026", "March 2026", "Without a time"]
    assert "3 sessions · 2 turns · 0 tool calls · 1 agent · 1 project" in checked.text
    assert "<option>shop</option>" in page
    assert 'id="subs"' in page


def test_index_of_attacks_stays_words() -> None:
    shown = hostile()
    page = "".join(index_page([Entry('s".html', shown.session, shown.derived)], [Tally(ATTACKS[3], 1)], theme="dark"))
    assert ATTACKS[3] in Checked(page).text


def test_index_without_sessions_says_so() -> None:
    assert "There are no sessions here." in Checked("".join(index_page([], [], theme="auto"))).text


def test_chart_has_a_bar_for_each_day_with_a_session() -> None:
    days = [Tally("2026-03-01", 4, 9, usage=Usage(1000, 500)), Tally("2026-03-04", 1, 1), Tally("no day", 7)]
    page = "".join(index_page([], days, theme="auto"))
    Checked(page)
    assert 'viewBox="0 0 4 100"' in page
    assert re.findall(r"<title>(2026.*?)</title>", page) == [
        "2026-03-01: 4 sessions, 9 turns, 1.5k tokens",
        "2026-03-04: 1 session, 1 turn, 0 tokens",
    ]


def test_chart_of_years_has_bars_one_can_point_at() -> None:
    days = [Tally(f"{year}-{month:02}-01", 1) for year in range(2016, 2027) for month in range(1, 13)]
    page = "".join(index_page([], days, theme="auto"))
    assert int(re.findall(r'viewBox="0 0 (\d+) 100"', page)[0]) <= 144


def test_times_stand_in_utc_with_their_iso_form() -> None:
    assert f'<time class="moment" datetime="{START.isoformat()}">2026-03-01 09:30 UTC</time>' in page_of(usual())


def test_long_session_is_written_piece_by_piece() -> None:
    assert max(map(len, session_page(long(100), theme="auto", index=None))) < 40_000
