"""Journal -> NDJSON -> another journal -> NDJSON: the same bytes, whatever the sessions; and on real ones."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

from accounts import accounts
from hypothesis import given, settings
from hypothesis import strategies as st
from journals import Home

from agent_journal import exporting
from agent_journal.exchange.files import lines
from agent_journal.exchange.ndjson_check import Check
from agent_journal.importing import import_files
from agent_journal.search import Journal
from agent_journal.session import Account, Transcript

PLAIN = exporting.Wanted(formats=("ndjson",), redact=False)


def filled(journal: Journal, told: Sequence[Account]) -> None:
    """As if an agent's connector had read them."""
    from agent_journal.index.intake import Intake

    with journal.taking_in() as (store, follow):
        intake = Intake(store)
        with store.transaction():
            for number, account in enumerate(told):
                source = intake.import_source("test", f"/logs/{number}")
                intake.merge(source, f"/logs/{number}", [Transcript(account.session, account.messages)])
        follow()


def exported(journal: Journal, file: Path, *formats: str) -> None:
    rows = exporting.chosen(journal)
    wanted = exporting.Wanted(formats=formats or PLAIN.formats, redact=False)
    exporting.export(journal, rows, wanted, str(file))


@given(st.lists(accounts(), min_size=1, max_size=4))
@settings(max_examples=20, deadline=None)
def test_the_second_journal_exports_the_same_bytes(told: list[Account]) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        homes = [Home(folder / "one"), Home(folder / "two")]
        for home in homes:
            home.path.mkdir()
        with homes[0].journal() as first, homes[1].journal() as second:
            filled(first, told)
            if not exporting.chosen(first):
                return  # sessions without messages are not kept
            exported(first, folder / "a.ndjson")
            (done,) = import_files(second, [folder / "a.ndjson"])
            assert done.problems == ()
            exported(second, folder / "b.ndjson")
            one, two = ((folder / name).read_bytes().splitlines()[1:] for name in ("a.ndjson", "b.ndjson"))
            assert two == one
            exported(first, folder / "a", "markdown")
            exported(second, folder / "b", "markdown")
            pages = [{p.name: p.read_bytes() for p in (folder / side).iterdir()} for side in "ab"]
            assert pages[0] == pages[1]


def test_real_sessions_are_valid_and_go_out_and_in_unchanged(beginnings: Path, tmp_path: Path) -> None:
    one = Home(beginnings, {"AJ_HOME": str(tmp_path / "one")})
    two = Home(beginnings, {"AJ_HOME": str(tmp_path / "two")})
    with one.journal() as first, two.journal() as second:
        first.reindex()
        exported(first, tmp_path / "a.ndjson")
        check = Check()
        wrong = [problem for line in lines(tmp_path / "a.ndjson") for problem in check.line(line)]
        assert (wrong, list(check.end())) == ([], [])
        assert [done.problems for done in import_files(second, [tmp_path / "a.ndjson"])] == [()]
        exported(second, tmp_path / "b.ndjson")
    first_lines, second_lines = ((tmp_path / name).read_bytes().splitlines()[1:] for name in ("a.ndjson", "b.ndjson"))
    assert len(first_lines) > 200
    assert second_lines == first_lines
