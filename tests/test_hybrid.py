"""Search by meaning, end to end: the bundled model where meaning matters, a tiny one where only paths through do."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import logs
import pytest
import tiny_model
from conversations import PARAPHRASES, TALKS, hold, talk, with_tiny
from journals import Home
from msgspec import structs
from process import Aj, two_sessions

from agent_journal import semantics
from agent_journal.answer import Answer, Totals
from agent_journal.hybrid import GUESSED, UNREAD
from agent_journal.index import model
from agent_journal.query import parse
from agent_journal.render.style import Look
from agent_journal.render.terminal import status_lines

needs_model = pytest.mark.skipif(model.bundled() is None, reason="this checkout has no bundled model")


@pytest.fixture(scope="module")
def talks(tmp_path_factory: pytest.TempPathFactory) -> Home:
    """Read only: every test of this module shares it."""
    path = tmp_path_factory.mktemp("talks") / "home"
    path.mkdir()
    home = Home(path, vectors=True)
    hold(home)
    home.reindex()
    return home


@pytest.fixture
def tiny(home: Home) -> Home:
    return with_tiny(home)


def sessions(answer: Answer) -> list[str]:
    return [m.session.session.id for m in answer.matches]


def texts(answer: Answer) -> list[str]:
    return [m.message.message.text for m in answer.matches]


# --- what words cannot find -----------------------------------------------------------------------------


@needs_model
@pytest.mark.parametrize(("query", "meant"), PARAPHRASES.items(), ids=list(PARAPHRASES.values()))
def test_a_paraphrase_without_a_word_in_common_is_found_by_meaning_only(talks: Home, query: str, meant: str) -> None:
    assert sessions(talks.search(query, mode="lexical")) == []
    for mode in ("hybrid", "semantic"):
        answer = talks.search(query, mode=mode)
        best = answer.matches[0]
        assert (answer.used, answer.why, answer.coverage.embedded) == (mode, "", 1.0)
        assert (best.session.session.id, best.found_by) == (meant, ("semantic",))
        assert best.snippet.text[:20] in " ".join(TALKS[meant])
        assert best.parts.words == 0
        assert best.parts.cosine is not None
        assert 0 < best.parts.cosine <= 1
        assert best.parts.meaning > 0


SMALL = (
    "We removed Redis because the broker kept losing jobs after a restart",
    "The parser fails on nested brackets, I will add a depth counter",
    "Please translate the invoice template into German",
    "The login page shows a blank screen in Safari on the first load",
    "Compress images before upload to save bandwidth",
    "Add a test for the date helper around midnight",
    "The build is slow because eslint runs twice in the pipeline",
    "Rename the customer column to account everywhere",
    "Our docker image is 2 GB, use the slim base",
    "The scheduler drifts by an hour when summer time begins",
)


@needs_model
def test_in_a_journal_of_one_short_session_a_text_can_stand_out(home: Home) -> None:
    """Ten messages: what was meant had a large share in what was usual, and stayed below the floor."""
    home = Home(home.path, vectors=True)
    talk(home, "first", *SMALL)
    home.reindex()
    for question in ("why did we get rid of the message queue", "why did we drop the queue"):
        assert texts(home.search(question))[:1] == [SMALL[0]]
    for nonsense in ("recipe for lasagna", "banana volcano waltz", "zxqv blorp"):
        assert texts(home.search(nonsense, mode="semantic")) == []


@needs_model
def test_what_a_fifth_of_a_journal_is_about_is_found(home: Home) -> None:
    home = Home(home.path, vectors=True)
    for n in range(20):
        talk(home, f"talk{n}", *(f"{text}, as seen in case {n} of {n * 7}" for text in SMALL[:5]))
    home.reindex()
    found = texts(home.search("why did we drop the queue", mode="semantic"))
    assert found
    assert all(text.startswith(SMALL[0][:20]) for text in found[:10])


@needs_model
def test_what_both_find_says_so(talks: Home) -> None:
    best = talks.search("lentil soup recipe").matches[0]
    assert (best.session.session.id, best.found_by) == ("soup", ("lexical", "semantic"))
    assert best.parts.words > 0
    assert best.snippet.text[slice(*best.snippet.highlights[0])] == "recipe"


@needs_model
@pytest.mark.parametrize("query", ["zxqv blorp", "qqqzzz", "xkjq wvvz pqqx", "\u2603\u2603"])
def test_nonsense_finds_nothing(talks: Home, query: str) -> None:
    for mode in ("hybrid", "semantic", "lexical"):
        answer = talks.search(query, mode=mode)
        assert (answer.matches, answer.total.messages) == ((), 0)


@needs_model
def test_nonsense_exits_1(talks: Home) -> None:
    ended = talks.aj("search", "zxqv blorp")
    assert (ended.returncode, ended.stdout) == (1, "")
    own = model.bundled()
    assert own is not None
    assert ended.stderr.splitlines() == [
        f"{own.card.name} knows too few of these words",
        "nothing found in 37 messages of 13 sessions · hybrid",
    ]


@needs_model
def test_a_language_that_the_model_never_learnt_is_said_where_nothing_is_found(talks: Home) -> None:
    own = model.bundled()
    assert own is not None
    answer = talks.search("почему мы убрали очередь", mode="semantic")
    assert (answer.matches, answer.notes) == ((), (f"{own.card.name} knows too few of these words",))
    assert talks.search("почему мы убрали очередь", mode="lexical").notes == ()


@needs_model
def test_a_snippet_of_a_long_message_shows_the_piece_that_was_meant(home: Home) -> None:
    home = Home(home.path, vectors=True)
    hold(home)
    filler = " ".join(f"Row {n} of the ledger was copied to the archive without any change." for n in range(40))
    talk(home, "long", f"{filler} My grandmother's cat fell asleep in the laundry basket. {filler}")
    home.reindex()
    best = home.search("a kitten napping among the clothes").matches[0]
    assert (best.session.session.id, best.found_by) == ("long", ("semantic",))
    assert "grandmother" in best.snippet.text


@needs_model
def test_what_was_asked_of_a_tool_and_what_was_thought_is_found_by_its_meaning_and_named_so(home: Home) -> None:
    home = Home(home.path, vectors=True)
    hold(home)
    commit = logs.tool_use("t1", command="git commit -m 'Compress images before they are uploaded'")
    thought = logs.thinking("My grandmother's cat fell asleep in the laundry basket.")
    home.claude(logs.user("u1", "go on"), logs.assistant("a1", thought, commit))
    home.reindex()
    queries = ("shrink photos prior to sending", "a kitten napping among the clothes")
    found = [home.search(query).matches[0] for query in queries]
    assert [(m.message.message.uuid, m.where) for m in found] == [("a1", "tool_input"), ("a1", "thinking")]


@needs_model
def test_a_slip_takes_no_weight_from_the_words_that_are_there(talks: Home) -> None:
    """`conection refused` put "Committed successfully" first, by its meaning alone."""
    for query in ("castle qwlrkz", "kernle kernel", "conection kernel"):
        parts = talks.search(query).matches[0].parts
        assert parts.words > parts.meaning


@needs_model
def test_beside_words_a_model_brings_in_nothing_for_a_query_without_a_word_that_it_knows(home: Home) -> None:
    """A day found 200 messages that scored 0."""
    home = Home(home.path, vectors=True)
    hold(home)
    talk(home, "numbers", "room 2026", "gate 02", "seat 15")
    home.reindex()
    answers = {mode: home.search("2026-02-15", mode=mode) for mode in ("hybrid", "semantic")}
    assert {mode: texts(answer) for mode, answer in answers.items()} == {
        "hybrid": [],
        "semantic": ["room 2026", "gate 02", "seat 15"],
    }
    unread, by_chance = (note.format("granite-embedding-30m-english") for note in (UNREAD, GUESSED))
    assert {mode: answer.notes for mode, answer in answers.items()} == {"hybrid": (unread,), "semantic": (by_chance,)}


@needs_model
def test_names_of_code_are_no_words_to_a_model(home: Home) -> None:
    """`validateSyncFields SyncRequest` put messages about checks of other requests before the one with both names."""
    home = Home(home.path, vectors=True)
    talk(home, "names", "validateSyncFields(SyncRequest) is called twice", "each field of a request is checked first")
    home.reindex()
    (match,) = home.search("validateSyncFields sync_request").matches
    assert (match.message.message.text[:18], match.parts.meaning) == ("validateSyncFields", 0.0)


# --- filters hold ---------------------------------------------------------------------------------------


QUERY = "how to cook a legume dish"


@needs_model
@pytest.mark.parametrize(
    ("narrowed", "found"),
    [
        (QUERY, True),
        (f"{QUERY} agent:claude", True),
        (f"{QUERY} agent:copilot", False),
        (f"{QUERY} since:2026-03-01", True),
        (f"{QUERY} since:2026-04-01", False),
        (f"{QUERY} until:2026-03-01", False),
        (f"{QUERY} -cumin", False),
        (f"{QUERY} -docker", True),
        (f'{QUERY} "lentil soup"', True),
        (f'{QUERY} "container image"', False),
        (f"{QUERY} session:soup", True),
        (f"{QUERY} session:docker", False),
        (f"{QUERY} -session:soup", False),
        (f"{QUERY} role:user", True),
        (f"{QUERY} role:system", False),
        (f"{QUERY} project:shop", True),
        (f"{QUERY} project:other", False),
        (f"{QUERY} in:thinking", False),
        (f"{QUERY} is:error", False),
    ],
)
@pytest.mark.parametrize("mode", ["hybrid", "semantic"])
def test_filters_and_quotes_hold_for_what_meaning_finds(talks: Home, mode: str, narrowed: str, found: bool) -> None:
    answer = talks.search(narrowed, mode=mode)
    assert ("soup" in sessions(answer)) == found


@needs_model
def test_a_quoted_phrase_is_in_everything_that_is_found(talks: Home) -> None:
    for mode in ("hybrid", "semantic"):
        answer = talks.search('slow storage "orders table"', mode=mode)
        assert sessions(answer)[0] == "database"
        assert all("orders table" in text for text in texts(answer))


@needs_model
def test_only_filters_or_patterns_are_answered_by_words(talks: Home) -> None:
    why = "only filters, names or patterns were asked for"
    for query in ("agent:claude", "recip*", "recipi~ agent:claude"):
        answer = talks.search(query)
        assert (answer.used, answer.why, bool(answer.matches)) == ("lexical", why, True)


@needs_model
def test_where_in_leaves_out_what_was_said_words_answer(talks: Home) -> None:
    why = "in: leaves out what was said, and the rest is searched by words"
    for place in ("thinking", "tool", "title"):
        typed = parse(f"soup in:{place}")
        for query in (typed, typed.with_filter("agent", "claude"), parse(f"(soup in:{place}) AND agent:claude")):
            answer = talks.search(query)
            assert (answer.used, answer.why) == ("lexical", why)
    assert talks.search("soup in:user").used == "hybrid"
    assert talks.search(parse("soup").with_filter("in", "title")).used == "lexical"
    assert talks.search("soup OR (soup in:title)").used == "hybrid"


@pytest.mark.parametrize("query", ["soup in:thinking", "soup in:title", "recip*", "soop~ agent:claude"])
def test_no_model_is_loaded_for_what_words_alone_answer(
    tiny: Home, monkeypatch: pytest.MonkeyPatch, query: str
) -> None:
    hold(tiny, "soup")
    tiny.reindex()
    loaded: list[object] = []
    monkeypatch.setattr(semantics, "opened", lambda *_: loaded.append(query))
    assert (tiny.search(query).used, loaded) == ("lexical", [])


@needs_model
def test_a_title_found_by_meaning_is_shown_without_the_slug_behind_it(home: Home) -> None:
    """Behind "Do it" there is nothing to be found by."""
    home = Home(home.path, home.variables, vectors=True)
    hold(home, "css", "login")
    titled = {"type": "custom-title", "customTitle": "Lentil soup recipe", "sessionId": "s"}
    home.claude(logs.user("s1", "Do it", sessionId="s", slug="calm-jumping-otter"), titled, name="s")
    home.reindex()
    match = home.search("cooking a legume dish").matches[0]
    assert (match.where, match.snippet.text) == ("title", "Lentil soup recipe")


@needs_model
def test_by_date_is_by_words(talks: Home) -> None:
    answer = talks.search("soup", sort="recent")
    assert (answer.used, answer.why, sessions(answer)) == ("lexical", "sorted by date", ["soup"])


def test_a_query_that_the_model_cannot_read_is_answered_by_words(home: Home) -> None:
    file = tiny_model.write(home.path / ".chats" / "models" / "fragile") / "tokenizer.json"
    endless = {"type": "Split", "pattern": {"Regex": "(a+)+$"}, "behavior": "Isolated", "invert": False}
    file.write_text(json.dumps(json.loads(file.read_text()) | {"pre_tokenizer": endless}))
    home.configure('[index.vector]\nmodel = "fragile"\n')
    home = Home(home.path, home.variables, vectors=True)
    talk(home, "one", "the parser drops nested quotes")
    home.reindex()
    assert (home.search("parser").used, home.search("parser").embedder) == ("hybrid", "fragile")
    answer = home.search(f"parser {'a' * 40}b")
    assert (answer.used, len(answer.matches)) == ("lexical", 1)
    assert answer.why.startswith(f"{file} cannot read a text: ")


def test_emoji_and_signs_alone_say_why_they_find_nothing(tiny: Home) -> None:
    for query in ("\N{PARTY POPPER}", "-> !!!"):
        answer = tiny.search(query)
        why = "no letter or digit was asked for, and signs are not searched"
        assert (answer.used, answer.why, answer.matches) == ("lexical", why, ())


@pytest.mark.parametrize("mode", ["hybrid", "semantic", "lexical"])
def test_words_meaning_and_session_add_up_to_the_score(tiny: Home, mode: str) -> None:
    talk(tiny, "filler", *(f"cache {n}" for n in range(40)))
    talk(tiny, "one", "lentil soup recipe")
    talk(tiny, "two", "a soup")
    talk(tiny, "many", "soup of lentil", "recipe of soup")
    tiny.reindex()
    found = {m.message.message.text: m for m in tiny.search("lentil soup recipe", mode=mode, limit=100).matches}
    scores = {text: m.score for text, m in found.items()}
    assert {t: m.parts.words + m.parts.meaning + m.parts.session for t, m in found.items()} == pytest.approx(scores)
    alone = [found[text].parts for text in ("lentil soup recipe", "a soup") if text in found]
    assert [parts.session for parts in alone] == pytest.approx([0] * len(alone), abs=1e-9)
    assert (alone[0].words > 0, alone[0].meaning > 0) == (mode != "semantic", mode != "lexical")


def test_what_meaning_brought_in_is_counted_apart(tiny: Home) -> None:
    talk(tiny, "words", *(f"parser {n}" for n in range(12)))
    talk(tiny, "others", *(f"cache {n}" for n in range(90)))
    talk(tiny, "near", *(f"soup {n}" for n in range(9)))
    tiny.reindex()
    total = tiny.search("soup parser", mode="hybrid").total
    by_words = tiny.search("soup parser", mode="lexical").total
    assert (by_words.messages, by_words.words, by_words.meaning) == (21, 21, 0)
    assert (total.words, total.words + total.meaning) == (21, total.messages)
    by_meaning = tiny.search("soup parser", mode="semantic").total
    assert (by_meaning.words, by_meaning.meaning) == (0, by_meaning.messages)


# --- pages ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["hybrid", "semantic", "lexical"])
@pytest.mark.parametrize("limit", [7, 100, 333])
def test_paging_to_the_end_shows_every_match_once(tiny: Home, mode: str, limit: int) -> None:
    """More matches by words than are ranked by both kinds of evidence."""
    for n in range(9):
        said = [f"the parser number {n} {m}" if m % 3 else f"soup {n} {m}" for m in range(70)]
        talk(tiny, f"s{n}", *said)
    talk(tiny, "other", *(f"lentil recipe {m}" for m in range(40)))
    tiny.reindex()
    shown, cursor, totals = [], None, set()
    with tiny.journal() as journal:
        while True:
            answer = journal.search("parser number", mode=mode, limit=limit, cursor=cursor, context=0)
            shown += answer.matches
            totals.add((answer.total.messages, answer.total.sessions))
            cursor = answer.next
            if cursor is None:
                break
            assert len(answer.matches) == limit
    assert [m.rank for m in shown] == list(range(1, len(shown) + 1))
    places = [(m.session.session.key, m.message.ordinal) for m in shown]
    assert len(set(places)) == len(places)
    assert {count for count, _ in totals} == {len(shown)}
    assert {count for _, count in totals} == {len({key for key, _ in places})}
    if mode != "semantic":
        assert len(shown) >= 9 * 46
        assert {m.found_by[:1] for m in shown if "parser" in m.message.message.text} == {("lexical",)}


def test_a_page_goes_on_where_the_last_one_ended_after_new_messages_came(tiny: Home) -> None:
    talk(tiny, "one", *(f"soup {n}" for n in range(30)))
    tiny.reindex()
    with tiny.journal() as journal:
        first = journal.search("soup", limit=20)
    talk(tiny, "two", *(f"soup of the day {n}" for n in range(30)))
    tiny.reindex()
    with tiny.journal() as journal:
        second = journal.search("soup", limit=20, cursor=first.next)
    places = [(m.session.session.id, m.message.ordinal) for m in (*first.matches, *second.matches)]
    assert len(set(places)) == len(places) == 30
    assert {session for session, _ in places} == {"one"}


# --- copies, deletions ----------------------------------------------------------------------------------


def test_a_message_that_was_copied_by_a_fork_is_found_once(tiny: Home) -> None:
    talk(tiny, "filler", *(f"cache {n}" for n in range(40)))
    records = [logs.user("same", "lentil soup recipe")]
    tiny.claude(*(r | {"sessionId": "one"} for r in records), name="one")
    tiny.claude(*(r | {"sessionId": "two"} for r in records), logs.user("more", "login", sessionId="two"), name="two")
    tiny.reindex()
    for mode in ("semantic", "hybrid"):
        answer = tiny.search("soup recipe lentil", mode=mode)
        (found,) = [m for m in answer.matches if m.message.message.text == "lentil soup recipe"]
        assert len(found.also_in) == 1


def test_a_session_whose_file_is_gone_is_still_found_by_meaning(tiny: Home) -> None:
    talk(tiny, "filler", *(f"cache {n}" for n in range(40)))
    path = talk(tiny, "gone", "lentil soup recipe")
    tiny.reindex()
    path.unlink()
    tiny.reindex()
    best = tiny.search("recipe soup lentil", mode="semantic").matches[0]
    assert (best.session.session.id, best.session.gone) == ("gone", True)


def test_a_message_that_was_rewritten_is_found_as_it_is_now(tiny: Home) -> None:
    talk(tiny, "filler", *(f"cache {n}" for n in range(40)))
    talk(tiny, "one", "lentil soup recipe", "cart")
    tiny.reindex()
    talk(tiny, "one", "nested quotes tokenizer", "cart")
    tiny.reindex()
    best = tiny.search("quotes nested tokenizer recipe soup lentil", mode="semantic").matches[0]
    assert best.message.message.text == "nested quotes tokenizer\n\nlentil soup recipe"  # the journal forgets nothing
    assert best.parts.cosine == pytest.approx(1, abs=0.01)


def test_messages_that_came_after_the_last_reindex_are_found_by_words(tiny: Home) -> None:
    talk(tiny, "one", *(f"cache {n}" for n in range(10)))
    tiny.reindex()
    talk(tiny, "two", "the ferry to Skye")
    answer = tiny.search("ferry")
    assert (sessions(answer)[0], answer.used) == ("two", "hybrid")
    assert answer.coverage.embedded == pytest.approx(10 / 11)


# --- what is printed ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def aj(tmp_path_factory: pytest.TempPathFactory) -> Aj:
    found = replace(two_sessions(tmp_path_factory.mktemp("printed") / "home"), vectors=True)
    assert found("reindex").code == 0
    return found


@needs_model
def test_explain_says_what_a_score_is_made_of(aj: Aj) -> None:
    ran = aj("search", "nested quotes", "--explain", "--context", "0")
    explained = [line for line in ran.lines if line.startswith("    score ")]
    heads = [line for line in ran.lines if line.startswith("  > ")]
    assert (ran.code, len(explained)) == (0, len(heads))
    assert all(": words " in line and ", meaning " in line for line in explained)
    for score, *parts in (re.findall(r"(?:score|words|meaning|session) ([+-]?[0-9.]+)", line) for line in explained):
        assert sum(map(float, parts)) == pytest.approx(float(score), abs=0.25)  # each is rounded
    assert not [line for line in aj("search", "nested quotes").lines if line.startswith("    score ")]


@needs_model
def test_explain_in_json(aj: Aj) -> None:
    best = aj("search", "nested quotes", "--explain", "--json").object["matches"][0]
    parts = best["score_parts"]
    assert set(parts) == {"words", "meaning", "session", "cosine"}
    assert parts["words"] + parts["meaning"] + parts["session"] == pytest.approx(best["score"], abs=0.001)
    assert parts["words"] > 0
    assert parts["cosine"] is None or -1 <= parts["cosine"] <= 1
    assert "score_parts" not in aj("search", "nested quotes", "--json").object["matches"][0]
    (row, *_) = aj("search", "nested quotes", "--explain", "--ndjson").lines
    assert json.loads(row)["score_parts"] == parts


@needs_model
def test_the_answer_names_its_mode_and_model(aj: Aj) -> None:
    found = aj("search", "nested quotes", "--json").object
    own = model.bundled()
    assert own is not None
    assert found["mode"] == {"asked": "hybrid", "used": "hybrid", "why": ""}
    assert (found["embedder"], found["index"]["embedded"]) == (own.card.name, 1.0)
    found = aj("search", "nested quotes", "--mode", "lexical", "--json").object
    assert (found["mode"]["used"], found["embedder"], found["index"]["embedded"]) == ("lexical", None, 0.0)


@needs_model
def test_a_part_that_is_not_embedded_is_said(tmp_path: Path) -> None:
    aj = replace(two_sessions(tmp_path / "home"), vectors=True)
    aj("reindex")
    logs.write(
        logs.transcript_path(aj.home, "later"),
        *(logs.user(f"l{n}", f"And the till number {n}?", sessionId="later") for n in range(8)),
    )
    ran = aj("search", "nested quotes")
    assert "hybrid, 50% embedded: aj reindex" in " ".join(ran.err.split())


@pytest.mark.parametrize(
    ("total", "line"),
    [
        (Totals(12, 3, True, 12, 0), "1 of 12 messages in 3 sessions · hybrid · 5.0 ms"),
        (
            Totals(210, 34, True, 12, 198),
            "1 of 210 in 34 sessions · 12 messages with these words and the 198 nearest in meaning · hybrid · 5.0 ms",
        ),
        (
            Totals(120, 34, False, 1, 119),
            "1 of 120 in at least 34 sessions · "
            "1 message with these words and the 119 nearest in meaning · hybrid · 5.0 ms",
        ),
        (
            Totals(198, 1, True, 0, 198),
            "1 of 198 messages in 1 session · none with these words, these are nearest in meaning · hybrid · 5.0 ms",
        ),
    ],
)
def test_a_page_says_how_many_were_brought_in_by_meaning_alone(tiny: Home, total: Totals, line: str) -> None:
    talk(tiny, "one", "the ferry to Skye")
    tiny.reindex()
    found = structs.replace(tiny.search("ferry"), total=total, took_ms=5.0)
    assert next(status_lines(found, Look(width=200))) == line


def test_an_answer_by_other_vectors_than_those_of_the_chosen_model_says_by_which(tiny: Home) -> None:
    talk(tiny, "one", "the ferry to Skye")
    tiny.reindex()
    total = Totals(3, 1, True, 1, 2)
    by_tiny = structs.replace(tiny.search("ferry"), total=total, took_ms=5.0, why="no model is called lost")
    by_hash = structs.replace(by_tiny, embedder="hash")
    by_words = structs.replace(by_tiny, embedder=None, used="lexical", total=Totals(1, 1, True, 1, 0))
    head = "1 of 3 in 1 session · 1 message with these words and the 2"
    assert [next(status_lines(answer, Look(width=200))) for answer in (by_tiny, by_hash, by_words)] == [
        f"{head} nearest in meaning · hybrid by tiny, no model is called lost · 5.0 ms",
        f"{head} with words like these · hybrid by a hash of the words, no model is called lost · 5.0 ms",
        "1 of 1 message in 1 session · lexical, no model is called lost · 5.0 ms",
    ]
