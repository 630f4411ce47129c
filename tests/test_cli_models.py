"""`aj models` through a real process: what it prints, and what it leaves on disk."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import tiny_model
from process import Aj

from agent_journal.index import model

CONFIG = "~/.agent-journal/config.toml"
SHELF = "~/.agent-journal/models"
ANEW = "the next `aj reindex` embeds with it what it has not embedded; until then the old vectors keep answering"
OWN = model.bundled()
HERE = {OWN.card.name} if OWN else set()
KNOWN = [card for card in model.known() if card.name not in HERE]


@pytest.fixture
def aj(tmp_path: Path) -> Aj:
    tiny_model.write(tmp_path / "tiny", pooled=False)
    return Aj(tmp_path)


def listed(aj: Aj) -> list[str]:
    """The list, without the models of the manifest."""
    ran = aj("models", "list")
    assert (ran.code, ran.err) == (0, "")
    names = {card.name for card in model.known()}
    return [line for line in ran.lines if line[2:].split(" ")[0] not in names]


def squeezed(lines: list[str]) -> list[str]:
    return [" ".join(line.split()) for line in lines]


def test_list_shows_every_kind_and_marks_the_one_in_use(aj: Aj) -> None:
    tiny_model.write(aj.home / ".chats" / "models" / "mine")
    (tiny_model.write(aj.home / ".chats" / "models" / "half") / "model.onnx").write_bytes(b"no")
    assert aj("models", "add", "tiny").code == 0
    assert squeezed(listed(aj)) == [
        f"tiny installed 8 dimensions, 32 tokens, 1.4 kB, {SHELF}/tiny",
        "half unusable ~/.chats/models/half/model.onnx is not an ONNX file",
        "mine model path 8 dimensions, 32 tokens, 1.6 kB, ~/.chats/models/mine",
    ]
    assert aj("models", "use", "mine").code == 0
    assert [line for line in aj("models", "list").lines if line.startswith("*")] == [
        line for line in listed(aj) if "mine" in line
    ]


def test_bundled_model_is_listed_first_and_in_use(aj: Aj) -> None:
    if OWN is None:
        pytest.skip("this checkout has no bundled model")
    assert squeezed(aj("models", "list").lines)[0].startswith(f"* {OWN.card.name} bundled 384 dimensions, 512 tokens, ")


def test_known_model_that_is_not_here_is_listed_as_such(aj: Aj) -> None:
    lines = squeezed(aj("models", "list").lines)
    assert lines[-len(KNOWN) :] == [
        f"{card.name} known {card.dimensions} dimensions, {card.tokens} tokens, not on this machine, {card.licence}"
        for card in KNOWN
    ]


def test_list_in_json_has_the_same_keys_for_every_kind(aj: Aj) -> None:
    tiny_model.write(aj.home / ".chats" / "models" / "mine")
    ran = aj("models", "list", "--json")
    assert (ran.code, ran.err, set(ran.object)) == (0, "", {"schema_version", "models"})
    [mine] = [entry for entry in ran.object["models"] if entry["name"] == "mine"]
    assert mine == {
        "name": "mine",
        "origin": "model_path",
        "in_use": False,
        "dimensions": 8,
        "tokens": 32,
        "bytes": mine["bytes"],
        "folder": "~/.chats/models/mine",
        "licence": "",
        "source": "~/.chats/models/mine",
        "problem": "",
    }
    assert {tuple(entry) for entry in ran.object["models"]} == {tuple(mine)}


def test_model_that_is_asked_for_and_not_there_is_listed_as_missing(aj: Aj) -> None:
    (aj.home / ".agent-journal").mkdir()
    (aj.home / ".agent-journal" / "config.toml").write_text('[index.vector]\nmodel = "lost"\n')
    assert squeezed(listed(aj)) == ["* lost missing index.vector.model names it, and it is not here"]


def test_setting_a_model_that_is_not_there_is_remarked_and_done(aj: Aj) -> None:
    ran = aj("config", "set", "index.vector.model", "lost")
    assert (ran.code, ran.err) == (0, "aj: no model is called lost; aj models list shows what there is\n")
    aj("models", "add", "tiny")
    assert aj("config", "set", "index.vector.model", "tiny").err == ""


def test_add_says_what_it_found_and_what_to_do_next(aj: Aj) -> None:
    ran = aj("models", "add", "tiny", "--name", "small.v2")
    assert (ran.code, ran.err) == (0, "")
    assert ran.lines == [
        f"added small.v2 to {SHELF}/small.v2",
        "  model.onnx, mean pooling, 8 dimensions, 32 tokens",
        "to search with it: aj models use small.v2",
    ]


def test_add_in_json_is_the_card(aj: Aj) -> None:
    ran = aj("models", "add", "tiny", "--json")
    sums = ran.object["model"]["sha256"]
    assert (ran.code, ran.err) == (0, "")
    assert ran.object["model"] == {
        "name": "tiny",
        "dimensions": 8,
        "tokens": 32,
        "pooling": "mean",
        "model": "model.onnx",
        "tokenizer": "tokenizer.json",
        "output": "last_hidden_state",
        "query_prefix": "",
        "text_prefix": "",
        "licence": "",
        "source": "~/tiny",
        "sha256": sums,
        "origin": "installed",
        "folder": f"{SHELF}/tiny",
    }
    assert sorted(sums) == ["model.onnx", "tokenizer.json"]


@pytest.mark.parametrize(
    ("arguments", "lines"),
    [
        (
            ["add", "nothing"],
            ["aj: nothing: there is no such folder", "name the folder that holds the ONNX file and tokenizer.json"],
        ),
        (
            ["add", "tiny", "--name", "../up"],
            [
                "aj: '../up' cannot be a model's name",
                "letters, digits, - and _, with dots between them, at most 64: aj models add PATH",
                "--name NAME",
            ],
        ),
        (["verify", "lost"], ["aj: no model is called lost"]),
        (["use", "lost"], ["aj: no model is called lost"]),
        (["remove", "lost"], ["aj: no model is called lost"]),
        (["remove", "bundled"], ["aj: bundled came with aj and is not removed"]),
    ],
)
def test_wrong_request_is_a_sentence_and_changes_nothing(aj: Aj, arguments: list[str], lines: list[str]) -> None:
    ran = aj("models", *arguments)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.splitlines()[: len(lines)] == lines
    assert not (aj.home / ".agent-journal").exists()


def test_errors_in_json_have_their_kind(aj: Aj) -> None:
    assert aj("models", "add", "nothing", "--json").error["kind"] == "bad_model"
    assert aj("models", "use", "nothing", "--json").error["kind"] == "no_such_model"


def test_use_of_what_is_in_use_writes_nothing(aj: Aj) -> None:
    if OWN is None:
        pytest.skip("this checkout has no bundled model")
    assert aj("models", "use", "bundled").lines == [f"{OWN.card.name} is in use already"]
    assert not (aj.home / ".agent-journal" / "config.toml").exists()


def test_use_sets_one_key_and_bundled_takes_it_back(aj: Aj) -> None:
    aj("models", "add", "tiny")
    file = aj.home / ".agent-journal" / "config.toml"
    file.write_text("# mine\n[search]\nmax_results = 5\n")
    ran = aj("models", "use", "Tiny")
    assert (ran.code, ran.lines, ran.err) == (0, [f"tiny is in use now (index.vector.model in {CONFIG})", ANEW], "")
    assert file.read_text() == '# mine\n[search]\nmax_results = 5\n\n[index.vector]\nmodel = "tiny"\n'
    assert aj("models", "use", "tiny").lines == ["tiny is in use already"]
    if OWN is None:
        return
    ran = aj("models", "use", "bundled", "--json")
    assert {key: ran.object[key] for key in ("before", "after", "path")} == {
        "before": "tiny",
        "after": OWN.card.name,
        "path": CONFIG,
    }
    assert file.read_text().endswith('[index.vector]\nmodel = ""\n')


def test_use_tries_a_folder_that_nobody_tried(aj: Aj) -> None:
    folder = tiny_model.write(aj.home / ".chats" / "models" / "mixed")
    tiny_model.tokenizer([*tiny_model.WORDS, "surplus"]).save(str(folder / "tokenizer.json"))
    ran = aj("models", "use", "mixed")
    assert (ran.code, ran.out) == (2, "")
    assert not (aj.home / ".agent-journal").exists()


def test_model_in_use_or_of_the_user_is_not_removed(aj: Aj) -> None:
    aj("models", "add", "tiny")
    aj("models", "use", "tiny")
    tiny_model.write(aj.home / ".chats" / "models" / "mine")
    assert aj("models", "remove", "TINY").err.splitlines() == [
        "aj: TINY is in use",
        "choose another one first: aj models use bundled",
    ]
    ran = aj("models", "remove", "mine")
    assert " ".join(ran.err.split()) == (
        "aj: mine lies in ~/.chats/models/mine where aj did not put it delete the folder yourself"
    )
    assert len(listed(aj)) == 2


def test_remove_deletes_what_was_added(aj: Aj) -> None:
    aj("models", "add", "tiny")
    ran = aj("models", "remove", "tiny")
    assert (ran.code, ran.out, ran.err) == (0, "removed tiny\n", "")
    assert list((aj.home / ".agent-journal" / "models").iterdir()) == []


def test_verify_names_the_file_that_changed_and_exits_2(aj: Aj) -> None:
    aj("models", "add", "tiny")
    good = aj("models", "verify", "tiny")
    assert (good.code, good.out) == (0, "tiny: 2 files as they were\n")
    file = aj.home / ".agent-journal" / "models" / "tiny" / "model.onnx"
    file.write_bytes(file.read_bytes() + b"\0")
    bad = aj("models", "verify")
    assert (bad.code, bad.err) == (2, "")
    [line] = [line for line in bad.lines if line.startswith("tiny: ")]
    assert line.startswith(f"tiny: {SHELF}/tiny/model.onnx has changed: its sha256 is ")
    [verdict] = aj("models", "verify", "tiny", "--json").object["models"]
    assert verdict == {"name": "tiny", "files": 2, "problems": [line.removeprefix("tiny: ")]}


def test_folder_without_sums_has_nothing_to_compare(aj: Aj) -> None:
    tiny_model.write(aj.home / ".chats" / "models" / "mine")
    ran = aj("models", "verify", "mine")
    assert (ran.code, ran.out, ran.err) == (0, "mine: no sums to compare with\n", "")


def test_names_from_cards_cannot_recolour_the_terminal(aj: Aj) -> None:
    folder = aj.home / ".chats" / "models" / "evil"
    folder.mkdir(parents=True)
    (folder / "model.toml").write_text(f"name = {json.dumps('evil')}\npooling = {json.dumps(chr(27) + '[31m')}\n")
    ran = aj("models", "list")
    assert "\x1b" not in ran.out
    assert any(line.split()[:2] == ["evil", "unusable"] for line in ran.lines)
