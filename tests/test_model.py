"""Folders of models: what is read from them, what is refused, and that adding is all or nothing."""

from __future__ import annotations

import json
import os
import stat
import tomllib
from collections.abc import Callable
from pathlib import Path

import onnx
import pytest
import tiny_model
import tomlkit
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import asdict, replace
from onnx import TensorProto, external_data_helper, helper

from agent_journal import models
from agent_journal.errors import BadModel, JournalUnwritable, NoSuchModel
from agent_journal.index import model, model_folder, onnx_file, trial
from agent_journal.index.model import Model
from agent_journal.index.model_folder import Card


def never_run(_: Model) -> int:
    return tiny_model.DIMENSIONS


def settings(folder: Path, **files: object) -> None:
    for name, value in files.items():
        path = folder / name.replace("__", "/")
        path.parent.mkdir(exist_ok=True)
        path.with_suffix(".json").write_text(json.dumps(value))


def refused(folder: Path, name: str = "") -> tuple[str, str]:
    """What add() says, of a folder that leaves nothing behind."""
    into = folder.parent / "refused"
    with pytest.raises(BadModel) as caught:
        model.add(folder, into, name, check=never_run)
    assert not into.exists() or list(into.iterdir()) == []
    return caught.value.message.replace(str(folder), "FOLDER"), caught.value.hint


# --- what a folder says ---------------------------------------------------------------------------------


def test_added_model_has_a_card_and_private_copies_of_its_files(tmp_path: Path) -> None:
    folder = tiny_model.write(tmp_path / "tiny")
    added = model.add(folder, tmp_path / "home" / "models", check=trial.vector_length)
    sums = {name: added.card.sha256[name] for name in ("model.onnx", "tokenizer.json")}
    assert added == Model(
        Card(
            name="tiny",
            dimensions=8,
            tokens=32,
            pooling="none",
            model="model.onnx",
            tokenizer="tokenizer.json",
            output="embedding",
            source=str(folder),
            sha256=sums,
        ),
        tmp_path / "home" / "models" / "tiny",
        "installed",
    )
    assert model.available([tmp_path / "home" / "models"])[-1] == added
    assert model.find("TINY", [tmp_path / "home" / "models"]) == added
    assert model.verify(added) == []
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "home").rglob("*")}
    assert modes == {"models": 0o700, "tiny": 0o700, **dict.fromkeys([*sums, "model.toml"], 0o600)}
    assert (added.folder / "model.onnx").read_bytes() == (folder / "model.onnx").read_bytes()


def test_settings_of_sentence_transformers_are_read(tmp_path: Path) -> None:
    folder = tiny_model.write(tmp_path / "st", pooled=False)
    (folder / "sentence_bert_config.json").unlink()
    settings(
        folder,
        **{
            "1_Pooling__config": {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False},
            "config": {"max_position_embeddings": 514, "model_type": "xlm-roberta"},
            "config_sentence_transformers": {"prompts": {"query": "query: ", "passage": "passage: "}},
        },
    )
    found = model_folder.look(folder).card
    assert (found.pooling, found.tokens, found.query_prefix, found.text_prefix) == ("cls", 512, "query: ", "passage: ")
    settings(folder, tokenizer_config={"model_max_length": 128})
    assert model_folder.look(folder).card.tokens == 128
    settings(folder, tokenizer_config={"model_max_length": 10**30})
    assert model_folder.look(folder).card.tokens == 512


@pytest.mark.parametrize(
    ("names", "chosen"),
    [
        (["model.onnx", "onnx/model_qint8_avx512.onnx", "onnx/model_O3.onnx"], "onnx/model_qint8_avx512.onnx"),
        (["onnx/model.onnx", "onnx/model_quantized.onnx"], "onnx/model_quantized.onnx"),
        (["onnx/model.onnx", "onnx/model_fp16.onnx"], "onnx/model.onnx"),
        (["onnx/encoder.onnx"], "onnx/encoder.onnx"),
    ],
)
def test_of_several_graphs_the_small_one_is_taken(tmp_path: Path, names: list[str], chosen: str) -> None:
    folder = tiny_model.write(tmp_path / "several")
    graph = (folder / "model.onnx").read_bytes()
    (folder / "model.onnx").unlink()
    (folder / "onnx").mkdir()
    for name in names:
        (folder / name).write_bytes(graph)
    assert model_folder.look(folder).card.model == chosen
    added = model.add(folder, tmp_path / "into", check=never_run)
    assert added.card.model == Path(chosen).name
    assert {path.name for path in added.folder.iterdir()} == {"model.toml", "tokenizer.json", Path(chosen).name}


def test_weights_beside_the_graph_are_copied_with_it(tmp_path: Path) -> None:
    folder = tiny_model.write(tmp_path / "split")
    graph = onnx.load(folder / "model.onnx")
    external_data_helper.convert_model_to_external_data(graph, location="model.onnx_data", size_threshold=200)
    (folder / "model.onnx").unlink()
    onnx.save(graph, folder / "model.onnx")
    added = model.add(folder, tmp_path / "into", check=trial.vector_length)
    assert sorted(added.card.sha256) == ["model.onnx", "model.onnx_data", "tokenizer.json"]
    (folder / "model.onnx_data").unlink()
    assert refused(folder, "again")[0] == "FOLDER/model.onnx keeps its weights in model.onnx_data, which is missing"


def with_table_in(folder: Path, location: str, *, place: str = "initializer") -> Path:
    """The folder, with a graph that keeps its table in another file."""
    graph = onnx.load(folder / "model.onnx")
    table = onnx.TensorProto()
    table.CopyFrom(graph.graph.initializer.pop(0))
    external_data_helper.set_external_data(table, location)
    table.ClearField("raw_data")
    table.data_location = TensorProto.EXTERNAL
    constant = helper.make_node("Constant", [], ["table"])
    constant.attribute.append(onnx.AttributeProto(name="value", type=onnx.AttributeProto.TENSOR, t=table))
    if place == "initializer":
        graph.graph.initializer.append(table)
    elif place == "constant":
        graph.graph.node.insert(0, constant)
    else:
        output = [helper.make_tensor_value_info("table", TensorProto.FLOAT, None)]
        branch = helper.make_graph([constant], "branch", [], output)
        graph.graph.node.insert(0, helper.make_node("If", ["x"], ["table"], then_branch=branch, else_branch=branch))
    (folder / "model.onnx").write_bytes(graph.SerializeToString())
    return folder


@pytest.mark.parametrize("place", ["initializer", "constant", "branch"])
def test_weights_outside_the_folder_are_not_read(tmp_path: Path, place: str) -> None:
    folder = with_table_in(tiny_model.write(tmp_path / "escaping"), "../../secret", place=place)
    message, _ = refused(folder)
    assert message == "FOLDER/model.onnx keeps its weights in '../../secret', which is no file beside it"


def test_weights_of_too_long_a_name_are_refused_with_the_reason(tmp_path: Path) -> None:
    folder = with_table_in(tiny_model.write(tmp_path / "long"), "x" * 300)
    assert refused(folder)[0] == f"FOLDER/{'x' * 300} cannot be read: File name too long"


def test_pooler_output_beside_tokens_is_not_taken_for_the_sentence(tmp_path: Path) -> None:
    def output(name: str, *shape: str | int) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)

    folder = tiny_model.write(tmp_path / "bert", pooled=False)
    graph = onnx.load(folder / "model.onnx")
    graph.graph.output.insert(0, output("pooler_output", "batch", 8))
    (folder / "model.onnx").write_bytes(graph.SerializeToString())
    found = model_folder.look(folder).card
    assert (found.output, found.pooling) == ("last_hidden_state", "mean")
    graph.graph.output.append(output("sentence_embedding", "batch", 8))
    (folder / "model.onnx").write_bytes(graph.SerializeToString())
    found = model_folder.look(folder).card
    assert (found.output, found.pooling) == ("sentence_embedding", "none")


# --- what is refused ------------------------------------------------------------------------------------


def without(name: str) -> Callable[[Path], None]:
    return lambda folder: (folder / name).unlink()


def linked(name: str) -> Callable[[Path], None]:
    def link(folder: Path) -> None:
        (folder / name).rename(folder.parent / "elsewhere")
        (folder / name).symlink_to(folder.parent / "elsewhere")

    return link


def written(name: str, content: bytes) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(content)

    return write


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (without("model.onnx"), "FOLDER has no ONNX file"),
        (without("tokenizer.json"), "FOLDER has no tokenizer.json"),
        (linked("model.onnx"), "FOLDER/model.onnx is a link; links are not followed"),
        (linked("tokenizer.json"), "FOLDER/tokenizer.json is a link; links are not followed"),
        (written("model.onnx", b""), "FOLDER/model.onnx is not an ONNX file"),
        (written("model.onnx", b"GIF89a" * 99), "FOLDER/model.onnx is not an ONNX file"),
        (written("model.onnx", b"version https://git-lfs.github.com/\n"), "FOLDER/model.onnx is not an ONNX file"),
        (written("tokenizer.json", b"{"), "FOLDER/tokenizer.json is not JSON"),
        (written("tokenizer.json", b"[]"), "FOLDER/tokenizer.json is not a JSON object"),
        (written("sentence_bert_config.json", b"\xff"), "FOLDER/sentence_bert_config.json is not JSON"),
        (
            written("1_Pooling/config.json", b'{"pooling_mode_max_tokens": true}'),
            "FOLDER pools by pooling_mode_max_tokens; mean and cls are known",
        ),
        (
            written("config_sentence_transformers.json", b'{"prompts": {"query": "\\ud800"}}'),
            "FOLDER: a name or a prompt in it is not text",
        ),
        (
            written("2_Dense/config.json", b"{}"),
            "FOLDER has a further layer, 2_Dense, that its ONNX file leaves out",
        ),
    ],
)  # fmt: skip
def test_folder_that_is_no_model_is_refused_with_a_reason(
    tmp_path: Path, spoil: Callable[[Path], None], sentence: str
) -> None:
    folder = tiny_model.write(tmp_path / "folder", pooled=False)
    spoil(folder)
    assert refused(folder)[0] == sentence


def test_tokenizer_larger_than_any_is_not_read(tmp_path: Path) -> None:
    folder = tiny_model.write(tmp_path / "m")
    with (folder / "tokenizer.json").open("r+b") as file:
        file.truncate(65 * 2**20)  # as lists in lists it would take gigabytes
    with pytest.raises(BadModel, match="is too large"):
        model_folder.look(folder)


def test_file_or_nothing_in_place_of_a_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    hint = "name the folder that holds the ONNX file and tokenizer.json"
    assert refused(tmp_path / "file") == ("FOLDER is a file; a model is a folder", hint)
    assert refused(tmp_path / "nothing") == ("FOLDER: there is no such folder", hint)


@pytest.mark.parametrize(
    "name", ["../up", "a/b", "a\\b", ".hidden", "a..b", "end.", "x\ny", "\x1b[31m", "Bundled", "ü"]
)
def test_name_that_could_leave_the_folder_is_refused(tmp_path: Path, name: str) -> None:
    assert refused(tiny_model.write(tmp_path / "folder"), name)[0] == f"{name!r} cannot be a model's name"


def test_name_that_is_taken_is_refused_and_the_first_stays(tmp_path: Path) -> None:
    first = model.add(tiny_model.write(tmp_path / "tiny"), tmp_path / "into", check=never_run)
    with pytest.raises(BadModel) as caught:
        model.add(tiny_model.write(tmp_path / "other", seed=2), tmp_path / "into", "Tiny", check=never_run)
    assert caught.value.message == "there is a model called Tiny already"
    assert model.available([tmp_path / "into"])[-1] == first


@pytest.mark.parametrize("error", [BadModel("it gives no vectors"), KeyboardInterrupt()])
def test_model_that_fails_its_trial_leaves_nothing(tmp_path: Path, error: BaseException) -> None:
    def failing(_: Model) -> int:
        raise error

    with pytest.raises(type(error)):
        model.add(tiny_model.write(tmp_path / "tiny"), tmp_path / "into", check=failing)
    assert not (tmp_path / "into").exists()


def test_graph_that_cannot_run_fails_its_trial(tmp_path: Path) -> None:
    folder = tiny_model.write(tmp_path / "unknown")
    graph = onnx.load(folder / "model.onnx")
    graph.graph.node[0].op_type = "Transmogrify"
    (folder / "model.onnx").write_bytes(graph.SerializeToString())
    with pytest.raises(BadModel, match="cannot be loaded"):
        model.add(folder, tmp_path / "into", check=trial.vector_length)
    assert not (tmp_path / "into").exists()


def test_tokenizer_of_a_larger_vocabulary_fails_its_trial(tmp_path: Path) -> None:
    folder = tiny_model.write(tmp_path / "mixed")
    tiny_model.tokenizer([*tiny_model.WORDS, "surplus"]).save(str(folder / "tokenizer.json"))
    with pytest.raises(BadModel, match="is of another model"):
        model.add(folder, tmp_path / "into", check=trial.vector_length)


def test_model_without_differences_fails_its_trial(tmp_path: Path) -> None:
    folder = tiny_model.write(tmp_path / "wordless", words=["lonely"])
    with pytest.raises(BadModel, match="the same vector for different texts"):
        model.add(folder, tmp_path / "into", check=trial.vector_length)


def test_interrupted_copy_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupted)
    with pytest.raises(KeyboardInterrupt):
        model.add(tiny_model.write(tmp_path / "tiny"), tmp_path / "into", check=never_run)
    assert list((tmp_path / "into").iterdir()) == []


def test_what_a_killed_addition_left_goes_with_the_next_one_of_any_name(tmp_path: Path) -> None:
    """34 MB each, and nobody sees them: only an addition of the same name took them away."""
    into = tmp_path / "into"
    left = [into / name for name in (".other.a1b2c3d4", ".other.4711.1789000000000000000", ".git", ".new.e5f6a7b8")]
    for folder in left:
        folder.mkdir(parents=True)
        if folder.name != ".new.e5f6a7b8":  # this one is being made
            os.utime(folder, (0, 0))
    model.add(tiny_model.write(tmp_path / "tiny"), into, check=never_run)
    assert sorted(path.name for path in into.iterdir()) == [".git", ".new.e5f6a7b8", "tiny"]


def test_of_two_additions_of_one_name_the_later_is_told_that_it_is_taken(tmp_path: Path) -> None:
    """It was told that the journal cannot be written."""
    folder, into = tiny_model.write(tmp_path / "tiny"), tmp_path / "into"

    def overtaken(_: Model) -> int:
        model.add(folder, into, check=never_run)
        return tiny_model.DIMENSIONS

    with pytest.raises(BadModel) as caught:
        model.add(folder, into, check=overtaken)
    assert caught.value.message == "there is a model called tiny already"
    assert [path.name for path in into.iterdir()] == ["tiny"]


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="permissions do not bind root")
def test_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "into").mkdir(mode=0o500)
    with pytest.raises(JournalUnwritable):
        model.add(tiny_model.write(tmp_path / "tiny"), tmp_path / "into", check=never_run)


@given(st.binary(max_size=400))
def test_any_bytes_are_a_graph_or_refused(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = tmp_path_factory.mktemp("bytes") / "model.onnx"
    path.write_bytes(content)
    with pytest.raises(BadModel):
        onnx_file.glance(path)


@given(st.data())
def test_damaged_graph_raises_nothing_but_bad_model(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    whole = bytearray(tiny_model.graph(4, 2, 1, pooled=True).SerializeToString())
    for _ in range(3):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path_factory.mktemp("damaged") / "model.onnx"
    path.write_bytes(whole[: data.draw(st.integers(1, len(whole)))])
    try:
        onnx_file.glance(path)
    except BadModel as error:
        assert error.message == f"{path} is not an ONNX file"  # noqa: PT017 - either outcome is right


# --- finding, checking, removing ------------------------------------------------------------------------


def test_users_own_folder_is_a_model_without_being_added(tmp_path: Path) -> None:
    own = tiny_model.write(tmp_path / "mine" / "own", pooled=False)
    (tmp_path / "mine" / "notes").mkdir()
    tiny_model.write(tmp_path / "mine" / "half").joinpath("model.onnx").write_bytes(b"\0")
    [found] = [one for one in model.available([tmp_path / "mine"]) if one.origin != "bundled"]
    assert (found.folder, found.origin, found.card.sha256, found.card.pooling) == (own, "model_path", {}, "mean")
    assert model.verify(found) == []
    assert model.surveyed([tmp_path / "mine"])[-2:] == [
        model.Unusable("half", f"{tmp_path}/mine/half/model.onnx is not an ONNX file"),
        found,
    ]
    with pytest.raises(BadModel):
        model.find("half", [tmp_path / "mine"])


def test_folder_of_models_may_itself_be_one(tmp_path: Path) -> None:
    tiny_model.write(tmp_path / "single")
    assert model.find("single", [tmp_path / "single"]).folder == tmp_path / "single"


def test_unknown_name_is_answered_with_those_there_are(tmp_path: Path) -> None:
    tiny_model.write(tmp_path / "own")
    with pytest.raises(NoSuchModel) as caught:
        model.find("other", [tmp_path, tmp_path / "nowhere"])
    assert caught.value.message == "no model is called other"
    assert caught.value.hint.endswith("own")


def test_changed_and_missing_files_are_named(tmp_path: Path) -> None:
    added = model.add(tiny_model.write(tmp_path / "tiny"), tmp_path / "into", check=never_run)
    (added.folder / "model.onnx").write_bytes(b"other")
    (added.folder / "tokenizer.json").unlink()
    sums = added.card.sha256
    other = "d9298a10d1b0735837dc4bd85dac641b0f3cef27a47e5d53a54f2f3f5b2fcffa"
    assert model.verify(added) == [
        f"{added.folder}/model.onnx has changed: its sha256 is {other}, not {sums['model.onnx']}",
        f"{added.folder}/tokenizer.json cannot be read: No such file or directory",
    ]


def test_removed_model_is_gone_whole(tmp_path: Path) -> None:
    model.add(tiny_model.write(tmp_path / "tiny"), tmp_path / "into", check=never_run)
    model.remove("tiny", tmp_path / "into")
    assert list((tmp_path / "into").iterdir()) == []


def test_folder_that_was_not_added_is_not_removed(tmp_path: Path) -> None:
    tiny_model.write(tmp_path / "own")
    for name in ("own", "../own", ""):
        with pytest.raises(NoSuchModel):
            model.remove(name, tmp_path)
    assert (tmp_path / "own" / "model.onnx").is_file()


def test_damaged_card_is_refused_by_name(tmp_path: Path) -> None:
    added = model.add(tiny_model.write(tmp_path / "tiny"), tmp_path / "into", check=never_run)
    card = (added.folder / "model.toml").read_text()
    file = f"{added.folder}/model.toml"
    for text, sentence in [
        ("[", f"{file} is not valid TOML"),
        (card.replace("= 32", '= "32"'), f"{file}: Expected `int`, got `str` - at `$.tokens`"),
        (card.replace('model = "model', 'model = "../model'), f"{file}: ../model.onnx is outside the model's folder"),
        (card.replace('"tiny"', '"other"', 1), f"{file} names the model other, its folder tiny"),
        (card.replace("= 32", "= 0"), f"{file}: name, dimensions or tokens make no sense"),
    ]:
        (added.folder / "model.toml").write_text(text)
        with pytest.raises(BadModel) as caught:
            model.find("tiny", [tmp_path / "into"])
        assert caught.value.message == sentence


@pytest.mark.parametrize("name", ["", ".", "a\0b", "x" * 300, "pipe", "away", "loop", "inner"])
@pytest.mark.parametrize("part", ["model", "tokenizer", "sha256"])
def test_card_that_names_no_file_of_its_folder_is_refused(tmp_path: Path, part: str, name: str) -> None:
    folder = model.add(tiny_model.write(tmp_path / "tiny"), tmp_path / "into", check=never_run).folder
    os.mkfifo(folder / "pipe")
    (folder / "inner").mkdir()
    (folder / "away").symlink_to(tmp_path / "tiny" / "model.onnx")
    (folder / "loop").symlink_to(folder / "loop")
    card = tomlkit.parse((folder / "model.toml").read_text())
    card[part] = {name: "0"} if part == "sha256" else name
    (folder / "model.toml").write_text(tomlkit.dumps(card))
    sentence = f"{folder}/model.toml: {name!r} is no file of the model's folder"
    assert model.surveyed([tmp_path / "into"])[-1] == model.Unusable("tiny", sentence)


def test_folder_whose_name_can_be_no_models_is_skipped_with_the_reason(tmp_path: Path) -> None:
    names = ["a b", "hash", "x" * 65, "\x1b[31m"]
    for name in names:
        tiny_model.write(tmp_path / name)
    unusable = [one for one in model.surveyed([tmp_path]) if isinstance(one, model.Unusable)]
    assert unusable == [model.Unusable(name, f"{name!r} cannot be a model's name") for name in sorted(names)]


def test_pipe_in_place_of_a_graph_is_not_waited_for(tmp_path: Path) -> None:
    folder = tiny_model.write(tmp_path / "folder")
    (folder / "model.onnx").unlink()
    os.mkfifo(folder / "model.onnx")
    assert refused(folder)[0] == "FOLDER has no ONNX file"


def test_model_of_the_manifest_that_is_not_here_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    card = Card("bge-small", 384, 512, "cls", "model.onnx", "tokenizer.json")
    monkeypatch.setattr(model, "_own_folder", lambda: tmp_path)
    (tmp_path / "manifest.toml").write_text(tomlkit.dumps({"model": [asdict(card)]}))
    with pytest.raises(NoSuchModel) as caught:
        model.find("BGE-small", [])
    assert caught.value.message == "BGE-small is known, but not on this machine"
    assert caught.value.hint == "docs/models.md says how to get it; then `aj models add PATH`"


# --- the mark -------------------------------------------------------------------------------------------


def test_mark_changes_with_what_changes_a_vector_and_with_nothing_else(tmp_path: Path) -> None:
    card = Card("m", 8, 32, "mean", "model.onnx", "tokenizer.json", sha256={"model.onnx": "a", "tokenizer.json": "b"})
    mark = Model(card, tmp_path, "installed").mark
    assert mark.startswith("m-")
    assert len(mark) == len("m-") + 8
    same = replace(card, licence="MIT", source="x", sha256=dict(reversed(card.sha256.items())))
    assert Model(same, tmp_path / "moved", "bundled").mark == mark
    for change in (
        {"sha256": {"model.onnx": "a", "tokenizer.json": "c"}},
        {"pooling": "cls"},
        {"tokens": 33},
        {"query_prefix": "q"},
        {"text_prefix": "t"},
        {"output": "other"},
    ):
        assert Model(replace(card, **change), tmp_path, "installed").mark != mark


def test_mark_of_a_folder_without_sums_survives_a_copy_and_not_other_weights(tmp_path: Path) -> None:
    def mark(place: str, seed: int) -> str:
        return model.find("own", [tiny_model.write(tmp_path / place / "own", seed=seed).parent]).mark

    first, copy, other = mark("a", 1), mark("b", 1), mark("c", 2)
    assert first == copy != other


# --- the bundled one ------------------------------------------------------------------------------------


def test_the_manifest_leaves_nothing_of_a_model_to_be_guessed() -> None:
    cards = tomllib.loads((Path(models.__path__[0]) / model.MANIFEST).read_text("utf-8"))["model"]
    assert [set(card) for card in cards] == [set(Card.__struct_fields__)] * len(cards)
    assert all(card["licence"] and card["source"] and card["sha256"] for card in cards)
    assert [set(card["sha256"]) for card in cards] == [{card["model"], card["tokenizer"]} for card in cards]


def test_bundled_model_is_as_its_manifest_says() -> None:
    own = model.bundled()
    if own is None:
        pytest.skip("this checkout has no bundled model")
    assert model.verify(own) == []
    assert trial.vector_length(own) == own.card.dimensions
    assert {"LICENSE", "NOTICE"} <= {path.name for path in own.folder.iterdir()}
    found = model_folder.look(own.folder).card
    assert (found.pooling, found.output) == (own.card.pooling, own.card.output)
