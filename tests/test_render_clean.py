"""Nothing from a log reaches a terminal as a command to it."""

from __future__ import annotations

import io
import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_journal.render.clean import clean_line, clean_span, clean_text
from agent_journal.render.message import call_gist, message_lines
from agent_journal.render.progress import Progress, duration, progress_line
from agent_journal.render.style import Look, sized
from agent_journal.render.width import columns, cut, cut_start, flowed, wrap, wrap_spans
from agent_journal.session import Message, Role, ToolCall

HIDING = {
    "\u200b",
    "\u200e",
    "\u200f",
    "\ufeff",
    "\u00ad",
    *map(chr, range(0x202A, 0x202F)),
    *map(chr, range(0x2066, 0x206A)),
}
_ANY_TEXT = st.text(
    st.characters(exclude_categories=()) | st.sampled_from("\x1b[]0;31mH\x07\x9b\x9d\r\n\t\u202e\ud800")
)


@given(_ANY_TEXT)
def test_cleaned_text_never_holds_a_control_character(text: str) -> None:
    for cleaned, allowed in ((clean_text(text), "\n\t"), (clean_line(text), ""), (clean_span(text), "")):
        held = {c for c in cleaned if c not in allowed}
        assert {c for c in held if unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp")} == set()
        assert held & HIDING == set()
        cleaned.encode()


@given(st.text(st.characters(categories=("L", "N", "P", "S"))))
def test_plain_words_are_left_as_they_are(text: str) -> None:
    assert clean_text(text) == text


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;owned\x07title", "title"),
        ("\x1b]8;;http://evil\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x9b31mred", "red"),
        ("\x1b]0;never ended, keeps what follows", "0;never ended, keeps what follows"),
        ("over\rwritten", "over written"),
        ("back\x08space", "backspace"),
        ("abc\u202egnp.exe", "abcgnp.exe"),
        ("a\ud800b", "ab"),
        ("a\x00b\x7fc", "abc"),
        ("two\n\n  lines\u2028three", "two lines three"),
        ("tag\U000e0041\U000e0042ged", "tagged"),
        ("👩\u200d💻", "👩\u200d💻"),
    ],
)
def test_line_loses_what_could_act_on_a_terminal(text: str, cleaned: str) -> None:
    assert clean_line(text) == cleaned


def test_text_keeps_line_feeds_and_tabs() -> None:
    assert clean_text("a\r\n\tb\rc\x0bd") == "a\n\tb\nc\nd"


def test_wide_characters_count_two_columns_and_accents_none() -> None:
    assert [columns(t) for t in ("abc", "日本", "e\u0301", "ｆ", "👍")] == [3, 4, 1, 2, 2]


def test_cut_never_splits_a_wide_character() -> None:
    assert [cut("日本語です", width) for width in (10, 9, 8, 2, 1)] == ["日本語です", "日本語で…", "日本語…", "…", "…"]


def test_wrap_breaks_at_spaces_and_inside_words_that_are_too_long() -> None:
    assert wrap("one two three\n\n\tindented\nabcdefghijklmno", 9) == [
        "one two", "three", "", "", "    indented"[4:], "abcdefghi", "jklmno",
    ]  # fmt: skip


@given(st.text(), st.integers(2, 30))
def test_wrapped_pieces_fit_and_lose_nothing_but_spaces(text: str, width: int) -> None:
    line = clean_line(text)
    pieces = [line[a:b] for a, b in wrap_spans(line, width)]
    assert all(columns(piece) <= width for piece in pieces)
    assert "".join(pieces).replace(" ", "") == line.replace(" ", "")


def test_progress_draws_one_line_and_erases_it() -> None:
    times = iter([0.0, 0.05, 2.0])
    stream = io.StringIO()
    with Progress(stream, width=70, clock=lambda: next(times), enabled=True) as progress:
        progress("reading", 0, 100, "a.jsonl")
        progress("reading", 1, 100, "too soon")
        progress("reading", 50, 100, "b\x1b[2J.jsonl")
    assert stream.getvalue() == (
        "\rreading  [....................] 0/100  a.jsonl\x1b[K"
        "\rreading  [##########..........] 50/100  25/s  2s left  b.jsonl\x1b[K"
        "\r\x1b[K"
    )


def test_progress_says_nothing_where_there_is_no_terminal() -> None:
    stream = io.StringIO()
    with Progress(stream) as progress:
        progress("reading", 1, 2, "x")
    assert stream.getvalue() == ""


def test_progress_without_a_total_shows_the_count() -> None:
    assert progress_line("looking", 7, 0, "", 0.0) == "looking  7"


def test_durations_and_sizes_read_as_people_say_them() -> None:
    assert [duration(s) for s in (0.4, 59, 200, 3900)] == ["0s", "59s", "3m 20s", "1h 05m"]
    assert [sized(n) for n in (0, 999, 1000, 12_345_678, 5 * 10**12)] == [
        "0 B",
        "999 B",
        "1.0 kB",
        "12.3 MB",
        "5000.0 GB",
    ]


# Marks of Arabic, Syriac, Kaithi and other scripts, and the joiners that make emoji: seen, and harmless.
SHOWN_FORMATS = re.compile(
    "[\u0600-\u0605\u06dd\u070f\u0890\u0891\u08e2\u200c\u200d\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001d17a]"
)
_SEQUENCES = st.sampled_from(
    [
        "\x1b[",
        "\x1b]8;;",
        "\x1b]52;c;",
        "\x1bP",
        "\x1b\\",
        "\x07",
        "\x9b",
        "\x9d",
        "\x9c",
        "31m",
        "2J",
        "?25l",
        "\x1b(0",
        "\x1bc",
    ]
)


@given(st.lists(_SEQUENCES | st.text(st.characters(exclude_categories=()), max_size=3)).map("".join))
def test_no_escape_or_format_character_survives_whatever_surrounds_it(text: str) -> None:
    for cleaned in (clean_text(text), clean_line(text), clean_span(text)):
        acting = {c for c in cleaned if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp")} - {"\n", "\t"}
        assert {c for c in acting if not SHOWN_FORMATS.match(c)} == set()


@given(st.text(), st.integers(1, 20))
def test_cut_texts_fit_from_either_end(text: str, width: int) -> None:
    line = clean_line(text)
    assert max(columns(cut(line, width)), columns(cut_start(line, width))) <= width


def test_start_of_a_path_is_cut_and_its_name_kept() -> None:
    assert [cut_start("src/deep/name.py", width) for width in (16, 9, 1)] == ["src/deep/name.py", "…/name.py", "…"]


def test_parts_flow_into_lines_that_fit_and_are_never_broken() -> None:
    assert list(flowed(["one", "two", "three", "a-very-long-part", "end"], 12)) == [
        "one · two",
        "three",
        "a-very-long-part",
        "end",
    ]
    assert list(flowed(["a", "b", "c"], 3, " ")) == ["a b", "c"]
    assert list(flowed([], 10)) == []


def drawn(text: str, width: int = 24, **how: bool) -> list[str]:
    call = ToolCall("t", "Bash", arguments={"command": "ls"}, result=text)
    return list(message_lines(Message(Role.ASSISTANT, (call,)), Look(width), indent="", whole=how.get("whole", False)))


def test_long_result_says_how_many_of_its_lines_are_left_out() -> None:
    assert drawn("1\n2\n3\n4\n5") == ["[Bash ls]", "  | 1", "  | 2", "  | 3", "  | … 2 more lines"]


def test_one_line_more_than_fits_is_shown_instead_of_counted() -> None:
    assert drawn("1\n2\n3\n4") == ["[Bash ls]", "  | 1", "  | 2", "  | 3", "  | 4"]


def test_one_endless_line_is_cut_too() -> None:
    assert drawn("x" * 200) == ["[Bash ls]", *["  | " + "x" * 20] * 3, "  | … 1 more line"]


def test_whole_message_names_its_arguments() -> None:
    assert drawn("1\n2\n3\n4\n5", whole=True) == ["[Bash]", "  command: ls", *(f"  | {n}" for n in range(1, 6))]


@pytest.mark.parametrize(
    ("agent", "arguments", "gist"),
    [
        ("Cursor", {"targetFile": "/home/ana/shop/auth.ts"}, "auth.ts"),
        ("OpenCode", {"filePath": "/home/ana/shop/auth.ts", "offset": 3}, "auth.ts"),
        ("Gemini", {"dir_path": "src/cart"}, "src/cart"),
        ("Aider", {"hash": "1a2b3c4", "message": "feat: add retry"}, "feat: add retry"),
        ("none", {"plan": []}, ""),
    ],
)
def test_the_line_of_a_call_tells_what_it_is_about_in_the_words_of_every_agent(
    agent: str, arguments: dict[str, object], gist: str
) -> None:
    told = call_gist(ToolCall("c1", "tool", arguments=arguments), "/home/ana/shop")
    assert told == f"tool {gist}".rstrip(), agent
