"""Giving messages their vectors: each text once, the newest first, broken off and resumed at any moment."""

from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import replace

import logs
import numpy as np
import pytest
from conversations import add_tiny, talk, vectors_folder, vectors_of, with_tiny
from journals import LONGEST, Home, hits, killed_after
from process import two_sessions

from agent_journal.index.report import EmbeddingReport, SyncReport


@pytest.fixture
def tiny(home: Home) -> Home:
    return with_tiny(home)


def done(report: SyncReport) -> tuple[int, int, int]:
    """(messages, texts that were embedded for them, messages left)"""
    return report.embedding.messages, report.embedding.texts, report.embedding.left


# --- each text once -------------------------------------------------------------------------------------


def test_equal_texts_are_embedded_once(tiny: Home) -> None:
    talk(tiny, "one", "the parser drops nested quotes", "rename the module")
    talk(tiny, "two", "the parser drops nested quotes", "lentil soup recipe")
    report = tiny.reindex()
    assert report.embedder == "tiny"
    # Each session's title is its first words: no text of its own.
    assert done(report) == (4, 3, 0)
    assert len(vectors_of(tiny)) == 3


def test_the_same_words_after_another_request_mean_something_else(tiny: Home) -> None:
    for name, asked in {"one": "rename the module", "two": "lentil soup recipe"}.items():
        home = {"sessionId": name}
        tiny.claude(
            logs.user(f"{name}-u", asked, **home),
            logs.assistant(f"{name}-a", logs.text("fetch the token"), **home),
            name=name,
        )
    assert done(tiny.reindex()) == (4, 4, 0)


def test_a_session_that_was_forked_costs_no_embedding(tiny: Home) -> None:
    texts = ["the parser drops nested quotes", "rename the module"]
    talk(tiny, "one", *texts)
    tiny.reindex()
    records = [logs.user(f"one-{n}", text, sessionId="fork") for n, text in enumerate(texts)]
    tiny.claude(*records, name="fork")
    assert done(tiny.reindex()) == (2, 0, 0)


def test_growth_embeds_only_what_is_new(tiny: Home) -> None:
    talk(tiny, "one", "the parser drops nested quotes")
    assert done(tiny.reindex()) == (1, 1, 0)
    before = vectors_of(tiny)
    talk(tiny, "one", "the parser drops nested quotes", "login token", "clear the cache")
    assert done(tiny.reindex())[1:] == (2, 0)
    after = vectors_of(tiny)
    assert len(after) == 3
    assert all(np.array_equal(after[digest], vector) for digest, vector in before.items())


def test_a_text_that_the_model_cannot_embed_costs_no_other_text_its_vector(home: Home) -> None:
    add_tiny(home, "spoilt", spoilt="lentil")
    home.configure('[index.vector]\nmodel = "spoilt"')
    spoilt = Home(home.path, home.variables, vectors=True)
    talk(spoilt, "one", "the parser drops nested quotes", "rename the module", "lentil soup recipe")
    report = spoilt.reindex()
    assert (done(report), report.embedding.refused) == ((3, 3, 0), 1)
    assert report.notes == ("spoilt cannot embed 1 of the texts: found by words alone",)
    assert sorted(bool(vector.any()) for vector in vectors_of(spoilt).values()) == [False, True, True]
    assert done(spoilt.reindex()) == (0, 0, 0)
    assert spoilt.search("lentil", mode="hybrid").total.messages == 1


def test_a_second_reindex_embeds_nothing_and_touches_no_file(tiny: Home) -> None:
    talk(tiny, "one", "the parser drops nested quotes")
    tiny.reindex()
    before = {p.name: p.stat().st_mtime_ns for p in vectors_folder(tiny).iterdir()}
    report = tiny.reindex()
    assert (report.embedding, report.embedder, report.notes) == (EmbeddingReport(), "", ())
    assert {p.name: p.stat().st_mtime_ns for p in vectors_folder(tiny).iterdir()} == before


LOADED = (
    "import sys; from agent_journal.__main__ import main; code = main(sys.argv[1:])\n"
    "print(code, sorted({'numpy', 'onnxruntime', 'tokenizers'} & sys.modules.keys()), file=sys.stderr)"
)


def loaded(home: Home, *arguments: str) -> str:
    """(Exit code, which of the heavy libraries a real run imports.)"""
    ran = subprocess.run(
        [sys.executable, "-c", LOADED, *arguments],
        env=home.process_environ,
        capture_output=True,
        text=True,
        timeout=LONGEST,
    )
    return ran.stderr.splitlines()[-1]


def test_a_second_reindex_loads_no_model(home: Home) -> None:
    home = Home(home.path, vectors=True)
    assert "onnxruntime" not in loaded(home, "reindex")  # nothing there to be embedded
    talk(home, "one", "the parser drops nested quotes")
    assert loaded(home, "reindex") == "0 ['numpy', 'onnxruntime', 'tokenizers']"
    assert loaded(home, "reindex") == "0 ['numpy']"


def test_search_by_words_loads_neither_numpy_nor_a_model(home: Home) -> None:
    home = Home(home.path, vectors=True)
    talk(home, "one", "the parser drops nested quotes")
    home.reindex()
    assert loaded(home, "search", "parser", "--mode", "lexical") == "0 []"
    assert loaded(home, "search", "parser", "--sort", "recent") == "0 []"
    assert loaded(home, "search", "agent:claude") == "0 []"
    assert loaded(home, "search", "parser") == "0 ['numpy', 'onnxruntime', 'tokenizers']"
    home.configure("[index.vector]\nenabled = false\n")
    assert loaded(home, "search", "parser") == "0 []"


# --- not now --------------------------------------------------------------------------------------------


def test_without_vectors_nothing_is_embedded_and_answers_say_so(tiny: Home) -> None:
    talk(tiny, "one", "the parser drops nested quotes")
    assert done(tiny.reindex(vectors=False)) == (0, 0, 0)
    assert not (tiny.index / "vectors").exists()
    answer = tiny.search("parser")
    assert (answer.used, answer.why, answer.embedder) == ("lexical", "nothing is embedded yet: aj reindex", None)
    assert done(tiny.reindex()) == (1, 1, 0)


def test_switched_off_nothing_is_embedded_and_answers_say_so(home: Home) -> None:
    home = with_tiny(home, "enabled = false")
    talk(home, "one", "the parser drops nested quotes")
    report = home.reindex()
    assert (report.embedding, report.embedder, report.notes) == (EmbeddingReport(), "", ())
    assert not (home.index / "vectors").exists()
    answer = home.search("parser")
    assert (answer.used, answer.why, len(answer.matches)) == ("lexical", "index.vector.enabled is false", 1)


def test_a_budget_of_nothing_leaves_all_and_the_next_run_resumes(tiny: Home) -> None:
    talk(tiny, "one", *(f"login {n}" for n in range(100)))
    assert done(tiny.reindex(budget=0.0)) == (0, 0, 100)
    answer = tiny.search("login")
    assert (answer.used, answer.why) == ("lexical", "nothing is embedded yet: aj reindex")
    assert done(tiny.reindex(budget=600.0)) == (100, 100, 0)
    assert tiny.search("login").used == "hybrid"


def test_a_budget_is_said_with_what_is_left(home: Home) -> None:
    aj = replace(two_sessions(home.path), vectors=True)
    ran = aj("reindex", "--budget", "0s")
    assert (ran.code, "8 messages left to embed: aj reindex" in ran.out) == (0, True)
    ran = aj("reindex", "--budget", "1h", "--json")
    assert ran.object["embedding"] | {"seconds": 0} == {
        "messages": 8,
        "texts": 10,
        "left": 0,
        "seconds": 0,
        "refused": 0,
    }


@pytest.mark.parametrize(
    ("budget", "seconds"), [("90", 90), ("0s", 0), ("1.5m", 90), ("1h30m", 5400), ("1H 2m 3s", 3723), ("1h5s", 3605)]
)
def test_a_budget_is_hours_minutes_and_seconds(budget: str, seconds: float) -> None:
    code = f"from agent_journal.cli_options import seconds_of; print(seconds_of({budget!r}))"
    assert float(subprocess.check_output([sys.executable, "-c", code])) == seconds


@pytest.mark.parametrize("budget", ["", "soon", "5 parsecs", "-1s", "nan", "1h30", "30m1h", "h"])
def test_a_budget_that_is_no_time_is_refused(home: Home, budget: str) -> None:
    ended = home.aj("reindex", "--budget", budget)
    assert (ended.returncode, "--budget" in ended.stderr) == (2, True)


def test_the_newest_sessions_come_first(tiny: Home) -> None:
    for n in range(6):
        talk(tiny, f"s{n}", *(f"cache {n} {m}" for m in range(64)), timestamp=f"2026-03-0{n + 1}T09:00:00.000Z")
    seen: list[tuple[str, int, int]] = []

    class Enough(Exception):
        pass

    def stop(stage: str, at: int, total: int, what: str) -> None:
        if stage == "embedding":
            seen.append((stage, at, total))
            if at >= 128:
                raise Enough

    with pytest.raises(Enough):
        tiny.reindex(progress=stop)
    assert seen[-1] == ("embedding", 128, 384)
    answer = tiny.search("cache", mode="semantic", limit=500)
    assert {m.session.session.id for m in answer.matches} <= {"s5", "s4"}
    with tiny.journal() as journal:
        means = journal._means()
        assert means.meaning is not None
        placed = {journal.store.message(int(m)).session for m in means.meaning.places["message"]}
        assert {journal.store.session(row).session.id for row in placed} == {"s5", "s4"}
    # Broken off by whatever it was, what was done is kept.
    assert done(tiny.reindex()) == (256, 256, 0)


# --- what goes wrong ------------------------------------------------------------------------------------


def test_killed_while_embedding_it_goes_on_and_ends_as_if_nothing_happened(home: Home) -> None:
    """With the real model, on a few hundred messages, at moments that differ."""
    home = Home(home.path, vectors=True)
    for n in range(8):
        talk(home, f"s{n}", *(f"Message {m} of session {n} is about topic {m * n % 17}." for m in range(50)))
    kills = 0
    for delay in (0.0, 0.05, 0.15, 0.3):
        process = home.start("reindex")
        while not (home.index / "vectors").exists() and process.poll() is None:
            time.sleep(0.01)
        kills += process.poll() is None
        killed_after(process, delay)
        assert home.search("topic", limit=5).total.messages >= 400
    assert kills
    home.reindex()
    undisturbed = Home(home.path, {"AJ_HOME": str(home.path / "fresh")}, vectors=True)
    assert done(undisturbed.reindex()) == (400, 400, 0)
    assert vectors_of(home).keys() == vectors_of(undisturbed).keys()
    for query in ("which session talks about topic 5", "something else entirely"):
        assert hits(home.search(query, limit=50)) == hits(undisturbed.search(query, limit=50))


def test_nothing_is_written_outside_the_journal(home: Home) -> None:
    """Not even by the runtime of the models, which would keep an identifier of the machine and report to its makers."""
    home = Home(home.path, vectors=True)
    talk(home, "one", "the parser drops nested quotes")
    assert home.aj("reindex").returncode == 0
    assert home.aj("search", "parser").returncode == 0
    assert {path.name for path in home.path.iterdir()} == {".claude", ".agent-journal"}


def test_two_reindexes_at_once_embed_once(tiny: Home) -> None:
    for n in range(4):
        talk(tiny, f"s{n}", *(f"token {n} {m}" for m in range(200)))
    both = [tiny.start("reindex"), tiny.start("reindex")]
    ended = [(*process.communicate(timeout=LONGEST), process.returncode) for process in both]
    assert {code for _, _, code in ended} <= {0, 2}, ended  # 2: the other one was still reading
    assert 0 in {code for _, _, code in ended}
    tiny.reindex()
    assert len(vectors_of(tiny)) == 800


# --- another model --------------------------------------------------------------------------------------


def test_after_a_change_of_model_the_old_vectors_answer_until_the_new_ones_are_there(home: Home) -> None:
    home = Home(home.path, vectors=True)
    talk(home, "one", "The parser drops nested quotes", "A recipe for lentil soup")
    home.reindex()
    first = home.search("parser").embedder
    add_tiny(home)
    assert home.aj("models", "use", "tiny").returncode == 0
    answer = home.search("parser")
    assert (answer.used, answer.embedder, answer.why) == ("hybrid", first, "tiny is not through yet: aj reindex")
    assert done(home.reindex(budget=0.0)) == (0, 0, 2)
    assert home.search("parser").embedder == first
    assert done(home.reindex()) == (2, 2, 0)
    answer = home.search("parser")
    assert (answer.used, answer.embedder, answer.why) == ("hybrid", "tiny", "")
    assert vectors_folder(home).name.startswith("tiny-")


@pytest.mark.parametrize(("fallback", "used"), [("hash", "hybrid"), ("none", "lexical")])
def test_a_model_that_is_missing_is_named_and_what_stands_in_for_it(home: Home, fallback: str, used: str) -> None:
    home = with_tiny(home)
    talk(home, "one", "the parser drops nested quotes", "rename the module")
    home.reindex()
    (kept,) = (home.index / "vectors").glob("*/")
    home.configure(f'[index.vector]\nmodel = "absent"\nfallback = "{fallback}"\n')
    report = home.reindex()
    assert report.notes == ("no model is called absent",)
    assert (report.embedder, report.embedding.texts) == (("hash", 2) if fallback == "hash" else ("", 0))
    answer = home.search("parser")
    assert (answer.used, answer.why) == (used, "no model is called absent")
    assert answer.embedder == ("hash" if fallback == "hash" else None)
    by = "hybrid by a hash of the words" if fallback == "hash" else "lexical"
    assert f"{by}, no model is called absent" in home.aj("search", "parser").stderr
    assert len(answer.matches) == 1
    assert kept.exists()  # the model may come back
    home.configure('[index.vector]\nmodel = "tiny"\n')
    assert done(home.reindex()) == (0, 0, 0)
    assert home.search("parser").embedder == "tiny"
    assert list((home.index / "vectors").glob("*/")) == [kept]  # what stood in for it is of no more use


def test_hash_vectors_leave_the_order_of_words_alone(home: Home) -> None:
    home.configure('[index.vector]\nmodel = "absent"\n')
    home = Home(home.path, vectors=True)
    talk(home, "one", "the parser drops nested quotes", "parser and lexer", "the parsers of old", "quote me", "soup")
    talk(home, "two", "a nested parser", "quotes everywhere", "lentil", "nesting birds", "the cart", "drop it")
    home.reindex()
    for query in ("parser quotes", "nested", "the parser drops nested quotes", "parser -old", "quote OR cart"):
        by_words = [(m.session.session.id, m.message.ordinal) for m in home.search(query, mode="lexical").matches]
        both = home.search(query)
        found = [(m.session.session.id, m.message.ordinal) for m in both.matches]
        assert (both.used, found[: len(by_words)]) == ("hybrid", by_words)


def test_vectors_in_full_precision_are_twice_as_large_and_answer_the_same(home: Home) -> None:
    home = with_tiny(home)
    talk(home, "one", "the parser drops nested quotes", "lentil soup recipe", "login token", "rename the module")
    home.reindex()
    half = hits(home.search("soup recipe"))
    rows = vectors_of(home)
    home.configure('[index]\nvector_precision = "f32"\n[index.vector]\nmodel = "tiny"\n')
    for _ in range(2):  # before the change is noticed, and while it is under way
        answer = home.search("soup recipe")
        assert (answer.used, answer.embedder, answer.why) == (
            "hybrid",
            "tiny",
            "tiny in f32 is not through yet: aj reindex",
        )
        assert hits(answer) == half
        assert done(home.reindex(budget=0.0)) == (0, 0, 4)
    assert done(home.reindex()) == (4, 4, 0)
    assert vectors_folder(home).name.endswith("-f32")
    assert hits(home.search("soup recipe")) == half
    for digest, vector in vectors_of(home).items():
        assert np.allclose(vector, rows[digest], atol=1e-3)


# --- what is embedded -----------------------------------------------------------------------------------


def test_thoughts_and_what_tools_were_asked_are_embedded_unless_not_wanted_and_what_they_print_if_it_is(
    home: Home,
) -> None:
    home = with_tiny(home)
    call = logs.tool_use("t1", command="cat soup")
    home.claude(
        logs.user("u1", "rename the module"),
        logs.assistant("a1", logs.thinking("lentil soup"), logs.text("login token"), call),
        logs.user("u2", [logs.tool_result("t1", "nested quotes")]),
    )
    home.configure('[index]\nthinking = false\n[index.vector]\nmodel = "tiny"\ntool_input = false\n')
    assert done(home.reindex())[1:] == (2, 0)
    home.configure('[index.vector]\nmodel = "tiny"\nthinking = false\ntool_input = false\n')
    assert done(home.reindex())[1:] == (0, 0)
    home.configure('[index.vector]\nmodel = "tiny"\ntool_input = false\n')
    assert done(home.reindex())[1:] == (1, 0)
    home.configure('[index.vector]\nmodel = "tiny"\n')
    assert done(home.reindex())[1:] == (1, 0)
    home.configure('[index.vector]\nmodel = "tiny"\ntool_output = true\n')
    assert done(home.reindex())[1:] == (1, 0)


def test_what_a_program_injects_is_not_embedded(home: Home) -> None:
    home = with_tiny(home)
    talk(home, "one", "rename the module")
    home.claude(
        logs.user("m1", "Caveat: lentil soup", isMeta=True, sessionId="two"),
        logs.user("m2", "the login page", sessionId="two"),
        name="two",
    )
    home.reindex()
    assert len(vectors_of(home)) == 2


def test_an_excluded_session_is_not_embedded_and_not_found_by_meaning(home: Home) -> None:
    home = with_tiny(home)
    talk(home, "open", *(f"cache {n}" for n in range(30)))
    talk(home, "private", "lentil soup recipe", cwd="/home/ana/private")
    home.reindex()
    assert [m.session.session.id for m in home.search("soup lentil", mode="semantic").matches][:1] == ["private"]
    home.configure('[index]\nexclude = ["/home/ana/private/**", "/home/ana/private"]\n[index.vector]\nmodel = "tiny"\n')
    for step in ("before", "after"):
        answer = home.search("soup lentil", mode="semantic")
        assert (step, [m for m in answer.matches if m.session.session.id == "private"]) == (step, [])
        home.reindex()
