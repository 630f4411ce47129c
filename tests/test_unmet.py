"""What an empty answer says of its filters, and any answer of words that are misspelt."""

from __future__ import annotations

import pytest
from logs import assistant, tool_use, user
from made_secrets import made
from msgspec import structs
from searched import session

from agent_journal import lookup
from agent_journal.redaction import Redactor
from agent_journal.search import Journal


@pytest.fixture
def shops(journal: Journal) -> Journal:
    """A web shop with a failing `Bash` on a branch, and notes of what a person said."""
    shop = {"cwd": "/home/ana/Web-Shop", "gitBranch": "fix/Login"}
    called = assistant("a1", tool_use("t1", "Bash", command="make"), message={"model": "claude-opus-4-6"}, **shop)
    session(journal, "shop", user("u1", "mend the login", **shop), called)
    session(journal, "notes", user("u2", "a list", cwd="/home/ana/notes", gitBranch="main"))
    journal.reindex()
    return journal


@pytest.mark.parametrize(
    ("query", "notes"),
    [
        ("login tool:Bsh", ("nothing has tool:Bsh; did you mean tool:Bash?",)),
        ("project:webshop", ("nothing has project:webshop; did you mean project:Web-Shop?",)),
        ("project:ntes model:opsu", (
            "nothing has project:ntes; did you mean project:notes?",
            "nothing has model:opsu; did you mean model:opus?",
        )),
        ("branch:fix/logn", ("nothing has branch:fix/logn; did you mean branch:fix/Login?",)),
        ("home:locl", ("nothing has home:locl; did you mean home:local?",)),
        ("home:zzz", ("nothing has home:zzz",)),
        ("file:cart.py login", ("nothing has file:cart.py",)),
        ("login -tool:Bsh (tool:Bash OR project:ntes) file:x", (
            "nothing has project:ntes; did you mean project:notes?",
            "nothing has file:x",
        )),
        ("project:notes tool:Bash", ("no message has all of project:notes tool:Bash",)),
        ("x project:notes -branch:main", ("no message has all of project:notes -branch:main",)),
        ("project:notes AND (tool:Bash OR model:opus)", (
            "no message fits project:notes AND (tool:Bash OR model:opus)",
        )),
        ("unheard project:notes", ()),
        ("unheard", ()),
        ("unheard OR tool:Bash project:notes", ()),
    ],
)  # fmt: skip
def test_an_empty_answer_says_which_filter_leaves_nothing(shops: Journal, query: str, notes: tuple[str, ...]) -> None:
    answer = shops.search(query, refresh=False)
    assert (answer.total.messages, answer.notes) == (0, notes)


@pytest.mark.parametrize(
    ("query", "notes"),
    [
        ("logni?", ("nothing has logni; did you mean login?",)),
        ("Logni unheard -lsit", ("nothing has Logni; did you mean login?",)),
        ("mend AND logni", ("nothing has logni; did you mean login?",)),
        ("logni project:ntes", ("nothing has project:ntes; did you mean project:notes?",)),
        ("logni*", ()),
        ("lsi", ()),
    ],
)  # fmt: skip
def test_an_empty_answer_names_the_word_that_a_misspelt_one_is_near_to(
    shops: Journal, query: str, notes: tuple[str, ...]
) -> None:
    answer = shops.search(query, refresh=False)
    assert (answer.total.messages, answer.notes) == (0, notes)


def test_an_answer_without_a_misspelt_word_says_so(shops: Journal) -> None:
    answer = shops.search("mend teh logni", refresh=False)
    assert (answer.total.messages, answer.notes) == (1, ("nothing has logni; did you mean login?",))
    assert shops.search("mend the login x0gni", refresh=False).notes == ()


def test_of_many_words_that_nothing_has_few_are_compared_with_others(
    shops: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each takes up to 0.2 s in a large journal: 200 of them took half a minute."""
    looked: list[str] = []
    values = lookup.Lookup.values

    def counted(self: lookup.Lookup, field: str, beginning: str = "") -> list[str]:
        looked.append(beginning)
        return values(self, field, beginning)

    monkeypatch.setattr(lookup.Lookup, "values", counted)
    letters = "abcdefghijklmnopqrst"
    answer = shops.search(" ".join(f"qq{a}{b}zz" for a in letters for b in letters[:9]), refresh=False)
    assert (answer.total.messages, answer.notes) == (0, ())
    assert 0 < len(looked) < 10


def test_an_empty_list_and_empty_statistics_say_so_too(shops: Journal) -> None:
    notes = ("nothing has tool:Bsh; did you mean tool:Bash?",)
    assert (shops.sessions("tool:Bsh").notes, shops.statistics("tool:Bsh").notes) == (notes, notes)


def test_an_answer_says_nothing_of_its_filters(shops: Journal) -> None:
    assert shops.search("tool:Bsh OR login", refresh=False).notes == ()


def test_no_value_is_proposed_that_is_kept_out(shops: Journal) -> None:
    shops.close()
    index = structs.replace(shops.config.index, exclude=("/home/ana/Web-Shop",))
    kept_out = structs.replace(shops.config, index=index)
    with Journal.open(kept_out, shops.environ) as opened:
        opened.reindex()
        assert opened.search("project:web-shp", refresh=False).notes == ("nothing has project:web-shp",)


def test_a_secret_in_a_proposed_value_is_replaced_for_programs(journal: Journal) -> None:
    (secret, *_) = [one.secret for one in made() if one.kind.startswith("github")]
    session(journal, "a", user("u1", "x", gitBranch=f"fix/{secret}"))
    query = f"branch:{secret}"
    assert journal.search(query).notes == (f"nothing has {query}; did you mean branch:fix/{secret}?",)
    (note,) = journal.search(query, redactor=Redactor()).notes
    assert secret not in note
