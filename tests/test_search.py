"""What a search finds and in which order, through the library on real files."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from logs import agent_progress, assistant, text, thinking, tool_result, tool_use, transcript_path, user, write
from searched import found, said, session, texts

from agent_journal import lookup
from agent_journal.answer import Place
from agent_journal.config import load
from agent_journal.connectors.registry import SOURCE_KEYS
from agent_journal.errors import BadQuery, NoJournal, NoSuchSession
from agent_journal.index import sync
from agent_journal.render.style import Look
from agent_journal.render.terminal import match_lines
from agent_journal.search import Journal

# --- order ----------------------------------------------------------------------------------------------


def test_the_exact_phrase_comes_before_the_same_words_scattered(journal: Journal) -> None:
    said(
        journal,
        "pool of connection objects; the exhausted worker waits",
        "the connection pool exhausted message came back",
        "connection, connection, connection",
        "exhausted after the pool was drained, no connection left in the pool at all",
    )
    assert found(journal, "connection pool exhausted")[0] == "the connection pool exhausted message came back"


def test_a_pasted_error_line_is_found_in_the_long_output_that_holds_it(journal: Journal) -> None:
    output = "step done without a word of it\n" * 300 + "fatal: not a git repository\n" + "and so on it went\n" * 300
    said(journal, "fatal git repository", "a fatal git, repository and all: fatal git repository", "not a repository")
    session(journal, "out", assistant("a", tool_use("t1", command="make")), user("r", [tool_result("t1", output)]))
    best = journal.search("fatal: not a git repository").matches[0]
    assert (best.session.session.id, best.where) == ("out", "tool_result")


def test_the_rare_part_of_an_identifier_is_asked_for_and_its_numbers_are_not(journal: Journal) -> None:
    said(journal, "numpy goes into the requirements", *(f"step 1 of {n}, then 2, then 1 again" for n in range(2, 8)))
    for number in range(60):
        session(journal, f"f{number}", user(f"f{number}", f"the heron of day {number} waits"))
    assert found(journal, "numpy>=1.2") == ["numpy goes into the requirements"]


COMMIT = "0381a524da4c363a02ecd2ee720d8b641b187af9"


@pytest.mark.parametrize("asked", ["0381a52", "0381a524da4c", COMMIT])
@pytest.mark.parametrize("written", ["0381a52", COMMIT])
def test_a_commit_is_found_by_any_length_of_its_name(journal: Journal, asked: str, written: str) -> None:
    said(journal, f"reverted in {written}", "reverted in 0381b524", "the facade of 1234567 houses")
    assert found(journal, asked) == [f"reverted in {written}"]


def test_a_message_with_all_words_comes_before_a_short_one_that_repeats_one(journal: Journal) -> None:
    long = "we looked at the tokenizer first and then at the parser, where after much reading the bug turned out to be"
    said(journal, "bug", "a bug, a bug, a bug", long, "log a bug")
    assert found(journal, "parser bug")[0] == long


def test_what_people_said_comes_before_what_a_tool_printed(journal: Journal) -> None:
    session(
        journal,
        "a",
        user("u1", "why does the migration fail"),
        assistant("a1", tool_use("t1", command="ls")),
        user("u2", [tool_result("t1", "the migration fail log")]),
    )
    answer = journal.search("migration fail")
    assert [(m.where, m.message.ordinal) for m in answer.matches] == [("user", 1), ("tool_result", 2)]


def test_one_session_does_not_fill_the_page(journal: Journal) -> None:
    session(journal, "talkative", *(user(f"u{n}", f"deadlock number {n}") for n in range(6)))
    session(journal, "quiet", user("q1", "another deadlock, elsewhere"))
    keys = [m.session.session.key for m in journal.search("deadlock").matches]
    assert keys == ["claude-code:talkative"] * 3 + ["claude-code:quiet"] + ["claude-code:talkative"] * 3


def test_sort_recent_is_newest_first_whatever_the_score(journal: Journal) -> None:
    said(journal, "cache cache cache", "one cache", "the cache is cold and everything else is warm")
    assert texts(journal.search("cache", sort="recent")) == [
        "the cache is cold and everything else is warm",
        "one cache",
        "cache cache cache",
    ]


def test_filters_alone_list_the_newest_first(journal: Journal) -> None:
    said(journal, "old", "newer", "newest")
    assert found(journal, "role:user") == ["newest", "newer", "old"]


# --- words ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "text_found"),
    [
        ("parsing", "the parser parses what was parsed"),
        ("parser's", "the parser parses what was parsed"),
        ("parser?", "the parser parses what was parsed"),
        ("header-only", "call parse_http_header there"),
        ("cafe resume", "naïve café résumé"),
        ("CAFÉ", "naïve café résumé"),
        ("cafe\u0301", "naïve café résumé"),  # decomposed: e and a combining accent
        ("parse_http_header", "call parseHttpHeader here"),
        ("parseHttpHeader", "call parse_http_header there"),
        ("header", "call parseHttpHeader here"),
        ("axis", "flip getXAxis now"),
        ("hydra_worker.py", "look at src/zanzibar/hydra_worker.py please"),
        ("src/zanzibar", "look at src/zanzibar/hydra_worker.py please"),
        ("--dry-run", "run it with --dry-run first"),
        ("ERR_XK4417", "got ERR_XK4417_ZETA again"),
        ("移行", "データベース移行の手順"),
        ("データベース移行", "データベース移行の手順"),
        ("手", "データベース移行の手順"),
        ("миграция", "Миграция базы данных"),
        ("deplo*", "redeploy after deployment"),
        ("conection~", "connection refused"),
    ],
)
def test_words_are_found_however_they_are_written(journal: Journal, query: str, text_found: str) -> None:
    said(
        journal,
        "the parser parses what was parsed",
        "naïve café résumé",
        "call parseHttpHeader here",
        "call parse_http_header there",
        "flip getXAxis now",
        "look at src/zanzibar/hydra_worker.py please",
        "run it with --dry-run first",
        "got ERR_XK4417_ZETA again",
    )
    more = ["データベース移行の手順", "Миграция базы данных", "redeploy after deployment", "connection refused"]
    for number, words in enumerate(more):
        session(journal, f"m{number}", user(f"m{number}", words))
    matches = journal.search(query if query[0] != "-" else f'"{query}"').matches
    assert text_found in [m.message.message.text for m in matches[:2]]
    shown = next(m.snippet for m in matches if m.message.message.text == text_found)
    assert shown.highlights, f"nothing marked in {shown.text!r}"


def test_a_quoted_phrase_does_not_match_scattered_words(journal: Journal) -> None:
    said(journal, "the build is red", "red is the build")
    assert found(journal, '"build is red"') == ["the build is red"]


def test_every_place_is_searched_and_named(journal: Journal) -> None:
    session(
        journal,
        "a",
        user("u1", "apricot"),
        assistant("a1", thinking("bilberry"), text("cherry"), tool_use("t1", command="grep damson")),
        user("u2", [tool_result("t1", "elderberry")]),
        {"type": "custom-title", "customTitle": "figs", "sessionId": "a"},
    )
    wheres = [
        journal.search(word).matches[0].where
        for word in ("apricot", "bilberry", "cherry", "damson", "elderberry", "figs")
    ]
    assert wheres == ["user", "thinking", "assistant", "tool_input", "tool_result", "title"]


@pytest.mark.parametrize("word", ["damson", "elderberry", "figs", '"damson elderberry"', "\x1b[31mfigs"])
def test_words_in_colours_are_found_and_the_colours_are_not_shown(journal: Journal, word: str) -> None:
    """FAILED behind ESC[31m was indexed as 31mFAILED."""
    listed = "\x1b[0m\x1b[01;34mdamson\x1b[39;49m\x1b[0m  \x1b[32melderberry\x1b[0m figs"
    session(journal, "a", assistant("a1", tool_use("t1")), user("u1", [tool_result("t1", listed)]))
    (match,) = journal.search(word).matches
    marked = [match.snippet.text[start:end] for start, end in match.snippet.highlights]
    assert (match.snippet.text.split(), marked) == (
        ["damson", "elderberry", "figs"],
        [{'"damson elderberry"': "damson elderberry", "\x1b[31mfigs": "figs"}.get(word, word)],
    )


@pytest.mark.parametrize(
    ("query", "heading", "below"),
    [("cart", "Fix the cart", "hello"), ("otter", "Fix the cart", "calm jumping otter")],
)
def test_a_hit_in_a_title_is_headed_by_the_title_alone_and_one_by_slug_shows_the_slug(
    journal: Journal, query: str, heading: str, below: str
) -> None:
    titled = {"type": "custom-title", "customTitle": "Fix the cart", "sessionId": "a"}
    session(journal, "a", user("u1", "hello", slug="calm-jumping-otter"), titled)
    match = journal.search(query).matches[0]
    lines = [line.strip() for line in match_lines(match, Look(80), first=None, full=False)]
    assert (match.where, lines[1], lines[3]) == ("title", heading, below)


def test_thinking_can_be_kept_out_of_the_index(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path), "AJ_HOME": str(tmp_path / "aj")}
    (tmp_path / "aj").mkdir()
    (tmp_path / "aj" / "config.toml").write_text("[index]\nthinking = false\n")
    with Journal.open(load(environ, SOURCE_KEYS), environ) as journal:
        session(journal, "a", user("u1", "hello"), assistant("a1", thinking("secret plan"), text("hi")))
        assert found(journal, "secret plan") == []


def test_the_middle_of_a_long_tool_result_is_not_searched_but_its_ends_are_and_all_is_kept(journal: Journal) -> None:
    long = "firstword " + "x " * 20_000 + "middleword " + "y " * 20_000 + " lastword"
    session(journal, "a", assistant("a1", tool_use("t1")), user("u1", [tool_result("t1", long)]))
    counts = [journal.search(w).total.messages for w in ("firstword", "middleword", "lastword")]
    kept = journal.messages(journal.session("a"))[0].message.tool_calls[0].result
    assert (counts, kept) == ([1, 0, 1], long)


# --- totals, pages, copies ------------------------------------------------------------------------------


def test_pages_hold_every_match_once_and_totals_are_exact(journal: Journal) -> None:
    for number in range(7):
        records = [user(f"u{number}-{n}", f"needle {number} {n}") for n in range(70)]
        session(journal, f"s{number}", *records)
    pages, cursor = [], None
    while True:
        answer = journal.search("needle", limit=150, cursor=cursor)
        pages.append([(m.rank, m.message.id) for m in answer.matches])
        assert (answer.total.messages, answer.total.sessions, answer.total.exact) == (490, 7, True)
        cursor = answer.next
        if cursor is None:
            break
    ranks = [rank for page in pages for rank, _ in page]
    assert ranks == list(range(1, 491))
    assert len({number for page in pages for _, number in page}) == 490


def test_more_sessions_than_are_counted_are_marked_as_at_least_so_many(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    said(journal, *(f"needle number {n}" for n in range(6)))
    totals = []
    for cap in (6, 5):
        monkeypatch.setattr(lookup, "SESSION_CAP", cap)
        total = journal.search("needle").total
        totals.append((total.messages, total.sessions, total.exact))
    assert totals == [(6, 6, True), (6, 5, False)]


def test_a_page_goes_on_where_the_last_ended_though_new_sessions_came_in_between(journal: Journal) -> None:
    said(journal, *(f"needle number {n}" for n in range(6)))
    first = journal.search("needle", limit=3)
    session(journal, "new", user("n1", "needle needle needle"))
    second = journal.search("needle", limit=3, cursor=first.next)
    assert sorted(texts(first) + texts(second)) == [f"needle number {n}" for n in range(6)]


def test_a_page_goes_on_after_the_word_index_was_rebuilt(journal: Journal) -> None:
    said(journal, *(f"needle number {n}" for n in range(6)))
    first = journal.search("needle", limit=3)
    journal.close()
    shutil.rmtree(journal.folder / "lexical")
    second = journal.search("needle", limit=3, cursor=first.next)
    assert sorted(texts(first) + texts(second)) == [f"needle number {n}" for n in range(6)]


def test_a_cursor_of_another_search_is_refused(journal: Journal) -> None:
    said(journal, "needle one", "needle two")
    cursor = journal.search("needle", limit=1).next
    with pytest.raises(BadQuery, match="belongs to another search"):
        journal.search("other", cursor=cursor)
    with pytest.raises(BadQuery, match="not a cursor"):
        journal.search("needle", cursor="zzz!")


def test_a_message_that_a_fork_copied_is_one_hit_that_names_both(journal: Journal) -> None:
    shared = [user("u1", "the needle"), assistant("a1", text("found it"))]
    session(journal, "first", *shared)
    session(journal, "second", *shared, user("u2", "and on", timestamp="2026-03-03T00:00:00Z"))
    answer = journal.search("needle")
    assert [(m.session.session.id, m.also_in) for m in answer.matches] == [("first", (Place("claude-code:second", 1),))]
    assert answer.total.messages == 1
    only = journal.search("needle session:second")
    assert [m.session.session.id for m in only.matches] == ["second"]


def test_context_is_the_messages_around_in_the_same_session(journal: Journal) -> None:
    session(journal, "a", *(user(f"u{n}", f"line {n}" if n != 5 else "needle") for n in range(10)))
    (match,) = journal.search("needle", context=2).matches
    around = [[m.message.text for m in side] for side in (match.before, match.after)]
    assert around == [["line 3", "line 4"], ["line 6", "line 7"]]


@pytest.mark.parametrize(
    "phrase", ["修复 truncate", "修复 `truncate` 在", "问题修复 truncate", "truncate 在 flex", "在flex", "修复 截断"]
)
def test_a_phrase_may_go_from_one_script_to_another(journal: Journal, phrase: str) -> None:
    said(
        journal,
        "PR: 问题修复 truncate 在 flex 容器中失效",
        "修复，截断",
        "truncate 修复",
        "复 truncate, 修 truncate",
        "修复截断",
    )
    assert len(found(journal, f'"{phrase}"')) == 1


# --- names and the empty journal ------------------------------------------------------------------------


def test_a_home_without_agents_answers_nothing(journal: Journal) -> None:
    answer = journal.search("anything")
    assert (answer.matches, answer.total.messages, answer.coverage.sessions) == ((), 0, 0)


def test_without_refresh_a_missing_journal_is_a_sentence(journal: Journal) -> None:
    with pytest.raises(NoJournal, match="there is no journal in"):
        journal.search("x", refresh=False)


def test_a_session_is_named_by_key_id_prefix_or_slug(journal: Journal) -> None:
    session(journal, "9f8e7d6c-1111", user("u1", "one", slug="brave-otter"))
    session(journal, "9f8e0000-2222", user("u2", "two"))
    journal.reindex()
    named = [
        journal.session(name).session.id
        for name in ("claude-code:9f8e7d6c-1111", "9f8e7d6c-1111", "9f8e7", "brave-otter")
    ]
    assert named == ["9f8e7d6c-1111"] * 4
    with pytest.raises(NoSuchSession, match="'9f8e' fits several sessions"):
        journal.session("9f8e")
    with pytest.raises(NoSuchSession, match="no session is called"):
        journal.session("%")


def test_an_unknown_agent_is_refused_with_the_known_ones(journal: Journal) -> None:
    said(journal, "x")
    with pytest.raises(BadQuery) as caught:
        journal.search("agent:emacs x")
    assert caught.value.message == (
        "agent:emacs — known agents: aider, claude-code (claude), codex (codex-cli), copilot-cli (copilot), "
        "cursor-cli (cursor, cursor-agent), cursor-ide (cursor-editor), gemini (gemini-cli), kilo, opencode, "
        "qwen (qwen-code), specstory"
    )


@pytest.mark.parametrize(("typed", "meant"), [("cluade", "claude"), ("Codx", "codex"), ("coplot", "copilot")])
def test_an_agent_that_is_misspelt_is_refused_with_the_closest_name(journal: Journal, typed: str, meant: str) -> None:
    said(journal, "x")
    with pytest.raises(BadQuery, match=rf"agent:{typed} — did you mean agent:{meant}\? known agents: aider, claude"):
        journal.search(f"agent:{typed} x")


def test_sessions_are_listed_newest_first_and_by_query(journal: Journal) -> None:
    said(journal, "alpha", "beta", "alpha again")
    journal.reindex()
    everything = journal.sessions(limit=2)
    rest = journal.sessions(limit=2, cursor=everything.next)
    ids = [[s.session.id for s in page.sessions] for page in (everything, rest, journal.sessions("alpha"))]
    assert (everything.total, ids) == (3, [["s2", "s1"], ["s0"], ["s2", "s0"]])


def test_hits_of_the_last_search_are_remembered_by_rank(journal: Journal) -> None:
    said(journal, "needle a", "needle b needle")
    answer = journal.search("needle")
    journal.remember(answer)
    recalled = [journal.recall(m.rank) for m in answer.matches]
    assert recalled == [(m.session.session.key, m.message.ordinal) for m in answer.matches]
    with pytest.raises(NoSuchSession, match="the last search has no hit 9"):
        journal.recall(9)


def test_a_search_without_hits_leaves_none_of_the_search_before(journal: Journal) -> None:
    said(journal, "needle")
    journal.remember(journal.search("needle"))
    journal.remember(journal.search("nothingofthekind"))
    with pytest.raises(NoSuchSession, match="the last search has no hit 1"):
        journal.recall(1)


# --- filters, folders and settings ------------------------------------------------------------------------


def test_in_holds_for_its_own_side_of_or(journal: Journal) -> None:
    said(journal, "the parser", "hello there")
    assert found(journal, "(hello in:title) OR parser") == ["the parser"]
    assert sorted(found(journal, "(hello in:text) OR parser")) == ["hello there", "the parser"]


def test_a_place_that_is_excluded_is_not_searched_but_its_messages_are(journal: Journal) -> None:
    session(journal, "a", assistant("a1", thinking("heron"), text("egret")))
    assert [journal.search(q).total.messages for q in ("heron", "heron -in:thinking", "egret -in:thinking")] == [
        1,
        0,
        1,
    ]


def test_an_excluded_session_does_not_hide_what_also_stands_in_another(journal: Journal) -> None:
    shared = [user("u1", "the needle")]
    session(journal, "first", *shared)
    session(journal, "second", *shared, user("u2", "and on", timestamp="2026-03-03T00:00:00Z"))
    left = [[m.session.session.id for m in journal.search(f"needle -session:{s}").matches] for s in ("first", "second")]
    assert left == [["second"], ["first"]]
    assert [s.session.id for s in journal.sessions("session:first").sessions] == ["first"]


def test_a_folder_is_meant_as_it_is_typed_in_a_shell(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    shop = journal.home / "shop"
    shop.mkdir(parents=True)
    (journal.home / "link").symlink_to(shop)
    session(journal, "a", user("u1", "needle", cwd=str(shop)))
    monkeypatch.chdir(journal.home)
    monkeypatch.setenv("HOME", str(journal.home))
    for folder in ("~/shop", "shop", ".", f"{journal.home}/shop/", "link", "shop/../shop"):
        assert found(journal, f"needle dir:{folder}") == ["needle"], folder
    assert found(journal, "needle dir:~/till") == []


@pytest.mark.parametrize("pattern", ["project:" + "x" * 400, "file:" + "*a" * 40, "model:" + "y*" * 300])
def test_a_pattern_too_long_for_the_engine_is_refused_and_nothing_is_rebuilt(journal: Journal, pattern: str) -> None:
    said(journal, "x")
    with pytest.raises(BadQuery, match="a pattern has at most 150 characters and 8 stars"):
        journal.search(pattern)
    assert journal.search("x").notes == ()


def test_index_settings_take_effect_on_an_index_that_exists(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path), "AJ_HOME": str(tmp_path / "aj")}
    talk = [assistant("a1", thinking("secret plan"), tool_use("t1")), user("u1", [tool_result("t1", "long output")])]
    totals = []
    for settings in ("", "thinking = false", "tool_output_chars = 0", ""):
        (tmp_path / "aj").mkdir(exist_ok=True)
        (tmp_path / "aj" / "config.toml").write_text(f"[index]\n{settings}\n")
        with Journal.open(load(environ, SOURCE_KEYS), environ) as journal:
            session(journal, "a", *talk)
            totals.append([journal.search(word).total.messages for word in ("secret", "output")])
    assert totals == [[1, 1], [0, 1], [1, 0], [1, 1]]


def test_a_large_active_session_does_not_hold_up_a_small_new_one(journal: Journal) -> None:
    said(journal, "first")
    journal.reindex()
    session(journal, "small", user("s1", "a small heron"))
    session(journal, "large", *(user(f"l{n}", "x" * 1000) for n in range(6000)))
    answer = journal.search("heron")
    assert (texts(answer), answer.coverage.behind) == (["a small heron"], 1)


def test_a_session_told_by_two_sources_in_two_batches_is_one_hit(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sync, "BATCH_BYTES", 1)
    folder = transcript_path(journal.home, "parent").parent
    echo = agent_progress("p1", "a7", "t1", assistant("x1", text("the egret"), isSidechain=True, agentId="a7"))
    call = assistant("a1", tool_use("t1", "Task", description="look", prompt="look"))
    session(journal, "parent", user("u1", "go"), call, echo)
    write(
        folder / "agent-a7.jsonl",
        assistant("x1", text("the egret"), isSidechain=True, agentId="a7", sessionId="parent"),
        user("x2", "more of the egret", isSidechain=True, agentId="a7", sessionId="parent"),
    )
    journal.reindex()
    assert sorted(found(journal, "egret")) == ["more of the egret", "the egret"]


def test_a_session_whose_file_is_gone_offers_no_command_to_resume_it(journal: Journal) -> None:
    session(journal, "a", user("u1", "needle"))
    journal.reindex()
    resumes = [journal.search("needle").matches[0].resume is not None]
    transcript_path(journal.home, "a").unlink()
    resumes.append(journal.search("needle").matches[0].resume is not None)
    assert resumes == [True, False]


def test_every_printed_name_opens_its_session(journal: Journal) -> None:
    for name in ("9f8e7d6c-1111", "9f8e7d6c-2222", "short", "9f8e7d6c"):
        session(journal, name, user(f"u-{name}", "needle"))
    journal.reindex()
    for match in journal.search("needle").matches:
        assert journal.session(match.session.handle).session.id == match.session.session.id
