"""The line that shows why a message was found, and what is marked in it: by real searches."""

from __future__ import annotations

import time

import pytest
from searched import said

from agent_journal.search import Journal


@pytest.mark.parametrize(("query", "marked"), [('"修复 truncate"', "修复 truncate"), ("滚动布局", "滚动布局")])
def test_the_snippet_shows_all_of_what_was_asked_in_chinese_and_not_a_pair_of_it(
    journal: Journal, query: str, marked: str
) -> None:
    said(journal, f"布局, 修复, truncate. {'filler ' * 100} 修复 truncate 的滚动布局 {'filler ' * 100}")
    (match,) = journal.search(query).matches
    assert [match.snippet.text[a:b] for a, b in match.snippet.highlights] == [marked]


def test_the_snippet_shows_the_match_deep_in_a_long_message_on_one_line(journal: Journal) -> None:
    words = "filler text that says nothing. " * 400
    said(journal, f"{words}\n\nThe connection\tpool was\n\nexhausted.\n\n{words}")
    (match,) = journal.search("connection pool exhausted").matches
    marked = [match.snippet.text[a:b] for a, b in match.snippet.highlights]
    assert marked == ["connection", "pool", "exhausted"]
    assert "The connection pool was exhausted. filler" in match.snippet.text
    assert match.snippet.text.startswith("…")
    assert match.snippet.text.endswith("…")
    assert len(match.snippet.text) < 260


@pytest.mark.parametrize("word", ["كِتَاب", "தமிழ்", "שָׁלוֹם", "हिन्दी"])
def test_word_with_vowel_signs_is_marked(journal: Journal, word: str) -> None:
    """To the word index some of them are letters, to Python's patterns none is."""
    said(journal, f"one {word} two")
    (match,) = journal.search(word).matches
    ((start, end),) = match.snippet.highlights
    assert word.startswith(match.snippet.text[start:end])
    assert end - start >= len(word) - 1


@pytest.mark.parametrize(("word", "run"), [("a", "a" * 300_000), ("story", "Stork" * 60_000), ("a~", "ab" * 150_000)])
def test_text_without_spaces_beside_a_match_takes_no_time(journal: Journal, word: str, run: str) -> None:
    """Each place in it at which a word might begin was read to its end: of 1 MB half an hour."""
    said(journal, f"{run} {word.rstrip('~')}")
    began = time.process_time()
    (match,) = journal.search(word).matches
    assert time.process_time() - began < 5
    assert match.snippet.highlights


def test_highlights_mark_forms_of_a_word_but_not_words_that_only_contain_it(journal: Journal) -> None:
    said(journal, "import the port, ports and porting; reportPort")
    (match,) = journal.search("port").matches
    assert [match.snippet.text[a:b] for a, b in match.snippet.highlights] == ["port", "ports", "porting", "Port"]


@pytest.mark.parametrize(
    ("word", "marked"),
    [
        ("istanbul", "İstanbul"),
        ("İSTANBUL", "İstanbul"),
        ("İstanbu*", "İstanbul"),
        ("RESUME", "Résumé"),
        ("STRASSE", "Strasse"),
        ("σοφός", "ΣΟΦΌΣ"),
        ("σοφοσ", "ΣΟΦΌΣ"),
        ("ежик", "Ёжик"),
    ],
)
def test_words_are_found_and_marked_whatever_their_case_and_accents(journal: Journal, word: str, marked: str) -> None:
    """Lower case of İ is two letters: what stood behind it would have been marked one place off."""
    said(journal, "İİİ İstanbul, Résumé; Strasse. ΣΟΦΌΣ Ёжик")
    (match,) = journal.search(word).matches
    assert [match.snippet.text[a:b] for a, b in match.snippet.highlights] == [marked]
