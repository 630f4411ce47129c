"""Texts into vectors: the same in any company and by any number of threads; what cannot embed says why."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
import tiny_model
from journals import LONGEST
from msgspec.structs import replace
from onnx import TensorProto, helper, numpy_helper
from tokenizers import Tokenizer
from tokenizers.models import WordPiece
from tokenizers.pre_tokenizers import Whitespace
from tokenizers.processors import TemplateProcessing

from agent_journal.config_keys import Vector
from agent_journal.errors import BadModel
from agent_journal.index import embed
from agent_journal.index.embed import Embedder, OnnxEmbedder, load_embedder
from agent_journal.index.hashing import HashEmbedder
from agent_journal.index.model import Model, bundled
from agent_journal.index.model_folder import Card

TEXTS = ["the parser drops nested quotes", "a recipe for lentil soup", "rename the module", "", "soup", "login " * 50]


def tiny(folder: Path, **changes: object) -> Model:
    """The tiny model below `folder`, with a card that fits it but for `changes`."""
    place = folder / "tiny"
    if not place.exists():
        tiny_model.write(place)
    card = Card("tiny", tiny_model.DIMENSIONS, 32, "none", "model.onnx", "tokenizer.json")
    return Model(replace(card, **changes), place, "installed")


def changed(model: Model, change: Callable[[onnx.GraphProto], None]) -> Model:
    path = model.folder / model.card.model
    graph = onnx.load(path)
    change(graph.graph)
    onnx.save(graph, path)
    return model


def expected(model: Model, text: str) -> np.ndarray:
    """The mean of the words' rows, computed beside the graph."""
    table = numpy_helper.to_array(onnx.load(model.folder / model.card.model).graph.initializer[0])
    words = ["[PAD]", "[UNK]", *tiny_model.WORDS]
    total = sum(table[words.index(word)] for word in text.split())
    return total / np.linalg.norm(total)


def refusal(model: Model) -> str:
    with pytest.raises(BadModel) as caught:
        OnnxEmbedder(model, 2).embed(TEXTS)
    return caught.value.message


def run_python(code: str, *arguments: str, **environment: str) -> tuple[str, str]:
    ran = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env={**os.environ, "PYTHONUTF8": "1", **environment},
        capture_output=True,
        text=True,
        timeout=LONGEST,
        check=True,
    )
    return ran.stdout, ran.stderr


# --- a model that works ---------------------------------------------------------------------------------


def test_rows_stand_in_the_order_of_the_texts(tmp_path: Path) -> None:
    model = tiny(tmp_path)
    texts = [" ".join(tiny_model.WORDS[: 1 + (7 * n) % 15]) for n in range(60)]
    rows = OnnxEmbedder(model, 3).embed(texts)
    assert rows.dtype == np.float32
    assert np.allclose(rows, [expected(model, text) for text in texts], atol=1e-6)


def test_a_text_has_one_vector_in_any_company_and_with_any_number_of_threads(tmp_path: Path) -> None:
    model = tiny(tmp_path)
    alone = np.stack([OnnxEmbedder(model, 1).embed([text])[0] for text in TEXTS])
    assert np.array_equal(OnnxEmbedder(model, 1).embed(TEXTS), alone)
    assert np.array_equal(OnnxEmbedder(model, 4).embed(TEXTS[::-1])[::-1], alone)
    assert np.array_equal(OnnxEmbedder(model, 0).embed_query(TEXTS[0]), alone[0])


@pytest.mark.parametrize("pooling", ["mean", "cls"])
def test_a_graph_that_gives_tokens_is_pooled_as_its_card_says(tmp_path: Path, pooling: str) -> None:
    tiny_model.write(tmp_path / "tiny", pooled=False)
    model = tiny(tmp_path, pooling=pooling)
    first = "parser" if pooling == "cls" else "parser drops quotes"
    assert np.allclose(OnnxEmbedder(model).embed_query("parser drops quotes"), expected(model, first), atol=1e-6)


def test_prefixes_stand_before_texts_and_queries(tmp_path: Path) -> None:
    model = tiny(tmp_path, text_prefix="soup ", query_prefix="recipe ")
    embedder = OnnxEmbedder(model)
    assert np.allclose(embedder.embed(["login"])[0], expected(model, "soup login"), atol=1e-6)
    assert np.allclose(embedder.embed_query("login"), expected(model, "recipe login"), atol=1e-6)
    assert not embedder.embed([""]).any()


def test_what_lies_beyond_the_models_length_is_not_read(tmp_path: Path) -> None:
    model = tiny(tmp_path, tokens=4)
    assert np.allclose(
        OnnxEmbedder(model).embed_query("parser drops nested quotes soup soup"),
        expected(model, "parser drops nested quotes"),
        atol=1e-6,
    )


def test_a_card_may_leave_the_length_of_vectors_to_the_graph(tmp_path: Path) -> None:
    assert OnnxEmbedder(tiny(tmp_path, dimensions=0)).dimensions == tiny_model.DIMENSIONS


INTERRUPTED = """
import random, signal, sys
from pathlib import Path
from agent_journal.index.embed import OnnxEmbedder
from agent_journal.index.model import Model
from agent_journal.index.model_folder import Card

def stop(*_):
    raise KeyboardInterrupt

signal.signal(signal.SIGALRM, stop)
card = Card("tiny", 8, 32, "none", "model.onnx", "tokenizer.json")
embedder, stops = OnnxEmbedder(Model(card, Path(sys.argv[1]), "installed"), 2), 0
for turn in range(1000):
    try:
        signal.setitimer(signal.ITIMER_REAL, random.Random(turn).uniform(0.0001, 0.004))
        embedder.embed(["soup recipe"] * 64)
        signal.setitimer(signal.ITIMER_REAL, 0)
    except KeyboardInterrupt:
        stops += 1
print(stops > 100)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="has no timer that interrupts")
def test_an_interruption_at_any_moment_ends_the_work_of_every_thread(tmp_path: Path) -> None:
    """It met the lock of a future now and then: both sides waited for ever, or the lock was given back twice."""
    command = [sys.executable, "-c", INTERRUPTED, str(tiny(tmp_path).folder)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=LONGEST)
    assert ended.stdout == "True\n", ended.stderr


def test_no_texts_give_no_rows(tmp_path: Path) -> None:
    assert OnnxEmbedder(tiny(tmp_path)).embed([]).shape == (0, tiny_model.DIMENSIONS)
    assert HashEmbedder().embed([]).shape == (0, 384)


def test_half_precision_output_becomes_single(tmp_path: Path) -> None:
    def halved(graph: onnx.GraphProto) -> None:
        graph.node.append(helper.make_node("Cast", ["embedding"], ["half"], to=TensorProto.FLOAT16))
        graph.output[0].CopyFrom(helper.make_tensor_value_info("half", TensorProto.FLOAT16, ["batch", 8]))

    model = changed(tiny(tmp_path), halved)
    row = OnnxEmbedder(model).embed_query("parser drops")
    assert row.dtype == np.float32
    assert abs(float(np.linalg.norm(row)) - 1) < 1e-6
    assert np.allclose(row, expected(model, "parser drops"), atol=1e-3)


def test_inputs_are_given_as_the_graph_asks(tmp_path: Path) -> None:
    """token_type_ids as 32-bit numbers, added to the vector: zeros change nothing."""

    def typed(graph: onnx.GraphProto) -> None:
        graph.input.append(helper.make_tensor_value_info("token_type_ids", TensorProto.INT32, ["batch", "tokens"]))
        graph.node.append(helper.make_node("Cast", ["token_type_ids"], ["types"], to=TensorProto.FLOAT))
        graph.node.append(helper.make_node("ReduceSum", ["types", "first"], ["type"], keepdims=1))
        graph.node.append(helper.make_node("Add", ["embedding", "type"], ["both"]))
        graph.output[0].name = "both"

    model = changed(tiny(tmp_path), typed)
    assert np.allclose(OnnxEmbedder(model).embed_query("soup"), expected(model, "soup"), atol=1e-6)


HOSTILE = {
    "empty": "",
    "white space": " \t\n ",
    "lone surrogates": "parser \ud800 drops \udfff quotes",
    "control characters": "parser\x00\x1b[31m drops\x07\u202e quotes",
    "a megabyte": "parser drops quotes " * 52_000,
    "a megabyte without a space": "x" * 1_000_000,
    "many scripts": "日本語 العربية हिन्दी 한국어 🙂‍🙂 e\u0301",
}


@pytest.mark.parametrize("kind", ["onnx", "hash"])
def test_any_text_has_a_vector_of_length_one_or_zeros(tmp_path: Path, kind: str) -> None:
    embedder: Embedder = HashEmbedder() if kind == "hash" else OnnxEmbedder(tiny(tmp_path))
    lengths = np.linalg.norm(embedder.embed(list(HOSTILE.values())), axis=1)
    assert dict(zip(HOSTILE, lengths.round(5).tolist(), strict=True)) == dict.fromkeys(HOSTILE, 1.0) | {
        "empty": 0.0,
        "white space": 0.0,
    }


# --- models that do not work ----------------------------------------------------------------------------


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    model = tiny(tmp_path)
    assert refusal(Model(replace(model.card, tokenizer="no.json"), model.folder, "installed")).startswith(
        f"{model.folder / 'no.json'} cannot be read"
    )
    (model.folder / "model.onnx").unlink()
    assert refusal(model).startswith(f"{model.folder / 'model.onnx'} cannot be read")
    summed = tiny(tmp_path, sha256={"model.onnx": "0"})
    assert refusal(summed) == f"{model.folder / 'model.onnx'} is missing"


def test_a_model_cut_anywhere_is_refused_in_a_sentence(tmp_path: Path) -> None:
    model = tiny(tmp_path)
    path = model.folder / "model.onnx"
    whole = path.read_bytes()
    for length in (0, 1, 2, 10, 50, *range(100, len(whole), 97), len(whole) - 1):
        path.write_bytes(whole[:length])
        assert str(path) in refusal(model), length


def test_bytes_that_are_no_model_are_refused_in_a_sentence(tmp_path: Path) -> None:
    model = tiny(tmp_path)
    for content in (b"\x00" * 4096, b"version https://git-lfs.github.com/spec/v1\n", os.urandom(20_000)):
        (model.folder / "model.onnx").write_bytes(content)
        assert str(model.folder / "model.onnx") in refusal(model)


@pytest.mark.parametrize(
    "content", [b"", b"{}", b"[1, 2]", b"\xff\xfe", b'{"version": "1.0", "model": {"type": "none"}}']
)
def test_a_tokenizer_that_is_none_is_refused_in_a_sentence(tmp_path: Path, content: bytes) -> None:
    model = tiny(tmp_path)
    (model.folder / "tokenizer.json").write_bytes(content)
    assert refusal(model).startswith(f"{model.folder / 'tokenizer.json'} is not a tokenizer: ")


def test_the_tokenizer_of_a_larger_model_is_noticed_before_the_first_text(tmp_path: Path) -> None:
    model = tiny(tmp_path)
    tiny_model.tokenizer([*tiny_model.WORDS, "another"]).save(str(model.folder / "tokenizer.json"))
    with pytest.raises(
        BadModel, match=r"tokenizer\.json is of another model: it has tokens that .*model\.onnx has not"
    ):
        OnnxEmbedder(model)


def test_the_tokenizer_of_a_smaller_model_is_noticed_by_its_sum(tmp_path: Path) -> None:
    model = tiny(tmp_path)
    path = model.folder / "tokenizer.json"
    model = tiny(tmp_path, sha256={"tokenizer.json": hashlib.sha256(path.read_bytes()).hexdigest()})
    OnnxEmbedder(model)
    tiny_model.tokenizer(tiny_model.WORDS[::-1]).save(str(path))
    assert refusal(model) == f"{path} has changed since the model was added"


def test_a_tokenizer_without_a_place_for_unknown_words_is_named(tmp_path: Path) -> None:
    model = tiny(tmp_path)
    path = model.folder / "tokenizer.json"
    path.write_text(path.read_text().replace('"unk_token": "[UNK]"', '"unk_token": "[NONE]"'))
    assert refusal(model).startswith(f"{path} cannot read a text: ")


PANICS = {  # of the library's own code: while loading, with every text, and with one
    "normalizer": {"type": "Precompiled", "precompiled_charsmap": "AAAA"},
    "pre_tokenizer": {"type": "FixedLength", "length": 0},
    "post_processor": {
        "type": "TemplateProcessing",
        "single": [{"SpecialToken": {"id": "[X]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 0}}],
        "special_tokens": {},
    },
}


def with_tokenizer(model: Model, **changes: object) -> Path:
    path = model.folder / "tokenizer.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    return path


@pytest.mark.parametrize("part", PANICS)
def test_a_tokenizer_that_panics_is_refused_in_a_sentence(
    tmp_path: Path, part: str, capfd: pytest.CaptureFixture[str]
) -> None:
    model = tiny(tmp_path)
    path = with_tokenizer(model, **{part: PANICS[part]})
    assert refusal(model).startswith(f"{path} cannot read a text: ")
    assert capfd.readouterr().err == ""


def test_a_tokenizer_that_panics_with_one_text_only_is_named(tmp_path: Path) -> None:
    model = tiny(tmp_path)
    endless = {"type": "Split", "pattern": {"Regex": "(a+)+$"}, "behavior": "Isolated", "invert": False}
    path = with_tokenizer(model, pre_tokenizer=endless)
    embedder = OnnxEmbedder(model, 2)
    text = "a" * 40 + "b"
    for ask in (embedder.embed_query, embedder.knows, lambda text: embedder.embed([text, "soup"])):
        with pytest.raises(BadModel) as caught:
            ask(text)
        assert caught.value.message.startswith(f"{path} cannot read a text: ")


def test_a_character_is_a_word_to_a_model_of_chinese(tmp_path: Path) -> None:
    """Questions in Chinese were searched by words alone, whatever model was added for them."""
    model = tiny(tmp_path)
    learnt = {"[PAD]": 0, "[UNK]": 1, "滚": 2, "##动": 3, "par": 4, "##ser": 5, "p": 6, "##a": 7, "##r": 8, "##s": 9}
    written = Tokenizer(WordPiece(learnt, unk_token="[UNK]", continuing_subword_prefix="##"))
    written.pre_tokenizer = Whitespace()
    written.save(str(model.folder / "tokenizer.json"))
    embedder = OnnxEmbedder(model, 1)
    known = {word: embedder.knows(word) for word in ("滚动", "滚位", "par", "pars", "cart")}
    assert known == {"滚动": True, "滚位": False, "par": True, "pars": False, "cart": False}


def test_vectors_of_another_length_than_the_card_says_are_refused(tmp_path: Path) -> None:
    model = tiny(tmp_path, dimensions=9)
    assert refusal(model) == f"{model.folder / 'model.onnx'} makes vectors of 8 numbers; its card says 9"


def test_a_card_that_leaves_no_room_for_text_is_refused(tmp_path: Path) -> None:
    model = tiny(tmp_path, tokens=2)
    wrapped = tiny_model.tokenizer(tiny_model.WORDS)
    wrapped.post_processor = TemplateProcessing("[PAD] $A [PAD]", None, [("[PAD]", 0)])
    wrapped.save(str(model.folder / "tokenizer.json"))
    assert refusal(model) == f"{model.folder / 'model.onnx'} would read 2 tokens, of which 2 are no text"


def test_an_output_that_holds_no_vectors_is_refused(tmp_path: Path) -> None:
    assert refusal(tiny(tmp_path, pooling="mean")).endswith("its output embedding holds no vectors of texts")
    assert "cannot be run" in refusal(tiny(tmp_path, output="absent"))


def test_an_input_nobody_can_give_is_refused(tmp_path: Path) -> None:
    def asking(graph: onnx.GraphProto) -> None:
        graph.input.append(helper.make_tensor_value_info("pixels", TensorProto.FLOAT, [1]))

    assert refusal(changed(tiny(tmp_path), asking)).endswith("wants an input pixels that texts do not have")


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("word", ["[UNK]", "soup"])  # noticed on loading, and in a thread
def test_vectors_that_are_not_numbers_are_refused(tmp_path: Path, value: float, word: str) -> None:
    def spoilt(graph: onnx.GraphProto) -> None:
        table = numpy_helper.to_array(graph.initializer[0]).copy()
        table[["[PAD]", "[UNK]", *tiny_model.WORDS].index(word)] = value
        graph.initializer[0].CopyFrom(numpy_helper.from_array(table, "table"))

    model = changed(tiny(tmp_path), spoilt)
    assert refusal(model) == f"{model.folder / 'model.onnx'} makes vectors that are not numbers"


def test_a_graph_that_never_ends_is_broken_off_in_silence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(embed, "LONGEST_RUN", 0.2)
    model = tiny(tmp_path)
    tiny_model.circle(model.folder)
    model = replace(model, card=replace(model.card, output="never"))
    assert refusal(model) == f"{model.folder / 'model.onnx'} takes longer than 0.2 seconds for one text"
    assert capfd.readouterr() == ("", "")


def test_onnxruntime_says_nothing_on_stderr(tmp_path: Path) -> None:
    model = tiny(tmp_path, dimensions=0)
    (model.folder / "bad.onnx").write_bytes((model.folder / "model.onnx").read_bytes()[:300])
    code = (
        "import sys; from pathlib import Path\n"
        "from agent_journal.errors import BadModel\n"
        "from agent_journal.index.embed import OnnxEmbedder\n"
        "from agent_journal.index.model import Model\n"
        "from agent_journal.index.model_folder import Card\n"
        "for file, pooling in ('bad.onnx', 'none'), ('model.onnx', 'mean'), ('model.onnx', 'none'):\n"
        "    card = Card('tiny', 0, 32, pooling, file, 'tokenizer.json')\n"
        "    try: print(OnnxEmbedder(Model(card, Path(sys.argv[1]), 'installed')).embed(['soup', 'cart']).shape)\n"
        "    except BadModel as error: print(type(error).__name__)\n"
    )
    assert run_python(code, str(model.folder)) == ("BadModel\nBadModel\n(2, 8)\n", "")


# --- which embedder -------------------------------------------------------------------------------------


def test_switched_off_means_no_embedder(tmp_path: Path) -> None:
    loaded = load_embedder(Vector(enabled=False), [tmp_path])
    assert (loaded.embedder, loaded.why) == (None, "index.vector.enabled is false")


def test_the_model_asked_for_is_loaded(tmp_path: Path) -> None:
    model = tiny(tmp_path)
    loaded = load_embedder(Vector(model="tiny", threads=1), [tmp_path])
    assert loaded.embedder is not None
    assert (loaded.embedder.name, loaded.why, loaded.embedder.is_semantic) == ("tiny", "", True)
    assert loaded.embedder.dimensions == 8
    assert np.allclose(loaded.embedder.embed_query("soup"), expected(model, "soup"), atol=1e-6)


@pytest.mark.parametrize("fallback", ["hash", "none"])
def test_a_model_that_is_not_there_is_a_sentence_and_the_fallback(tmp_path: Path, fallback: str) -> None:
    loaded = load_embedder(Vector(model="absent", fallback=fallback), [tmp_path])
    assert (loaded.embedder.mark if loaded.embedder else None) == {"hash": "hash-384-1", "none": None}[fallback]
    assert loaded.why == "no model is called absent"


def test_a_broken_model_is_a_sentence_and_the_fallback(tmp_path: Path) -> None:
    path = tiny(tmp_path).folder / "model.onnx"
    path.write_bytes(path.read_bytes()[:-40])
    loaded = load_embedder(Vector(model="tiny"), [tmp_path])
    assert loaded.embedder is not None
    assert (loaded.embedder.name, str(path) in loaded.why) == ("hash", True)


@pytest.mark.parametrize("library", ["onnxruntime", "tokenizers"])
def test_a_library_that_is_not_installed_is_a_sentence_and_the_fallback(
    tmp_path: Path, library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny(tmp_path)
    monkeypatch.setitem(sys.modules, library, None)
    loaded = load_embedder(Vector(model="tiny", fallback="none"), [tmp_path])
    assert loaded.embedder is None
    assert loaded.why.startswith(f"{library} cannot be imported: ")


# --- hashing --------------------------------------------------------------------------------------------

SENTENCE = "We removed Redis because parseHttpHeader lost jobs; naïve retries failed"
NUMBERS = (
    "import sys; from agent_journal.index.hashing import HashEmbedder; v = HashEmbedder().embed_query(sys.argv[1]);"
)


def test_hashing_gives_the_same_numbers_everywhere() -> None:
    vector = HashEmbedder().embed_query(SENTENCE)
    numbers = [-0.324205, 0.271362, 0.180238, 0.067937, -0.089672, 0.062866]
    assert np.allclose(vector[[107, 211, 234, 1, 2, 7]], numbers, atol=1e-6)
    assert np.count_nonzero(vector) == 137
    code = f"{NUMBERS} print(v.tobytes().hex())"
    for seed in ("0", "1", "4242"):
        assert run_python(code, SENTENCE, PYTHONHASHSEED=seed) == (vector.tobytes().hex() + "\n", "")


def test_hashing_finds_the_words_in_other_forms() -> None:
    embedder = HashEmbedder()
    query = embedder.embed_query("parsing of http headers")
    texts = ["def parseHttpHeader(line):", "PARSE_HTTP_HEADERS = 1", "the header parser for HTTP", "a soup of lentils"]
    *near, far = embedder.embed(texts) @ query
    assert min(near) > 0.3 > 0.1 > far


def test_hashing_folds_accents_and_finds_parts_of_cjk() -> None:
    embedder = HashEmbedder()
    assert np.array_equal(embedder.embed_query("Résumé"), embedder.embed_query("resume"))
    assert np.array_equal(embedder.embed_query("re\u0301sume\u0301"), embedder.embed_query("resume"))
    near, far = embedder.embed(["昨日東京へ行きました", "昨日大阪へ行きました"]) @ embedder.embed_query("東京")
    assert near > 0.2 > far


def test_hashing_names_its_width_and_is_not_meaning() -> None:
    embedder = HashEmbedder()
    assert (embedder.name, embedder.mark, embedder.dimensions) == ("hash", "hash-384-1", 384)
    assert not embedder.is_semantic
    assert embedder.embed(["a text"]).shape == (1, 384)


# --- the model in the box -------------------------------------------------------------------------------

# asked, nearer, farther
CERTAIN = [
    ("why did we drop the queue", "we removed Redis because it lost jobs", "the button is blue now"),
    ("speed up slow tests", "the suite takes 9 minutes, so we run it on four workers", "added a privacy policy page"),
    ("login fails after password reset", "users cannot sign in once they changed their credentials", "use tabs here"),
    ("memory leak", "the process grows until the kernel kills it", "the logo is too large on small screens"),
    ("how do we store dates", "timestamps are kept in UTC and shown in local time", "the cat sleeps on the sofa"),
]


@pytest.fixture(scope="module")
def boxed() -> Embedder:
    model = bundled()
    if model is None:
        pytest.skip("no model is bundled with this installation")
    return OnnxEmbedder(model)


@pytest.mark.parametrize(("asked", "nearer", "farther"), CERTAIN)
def test_the_bundled_model_knows_what_is_meant(boxed: Embedder, asked: str, nearer: str, farther: str) -> None:
    near, far = boxed.embed([nearer, farther]) @ boxed.embed_query(asked)
    assert near > far + 0.05


@pytest.mark.parametrize("word", ["parser", "的", "滚动位置", "エラー", "오류", "ngettext", "qwlrkz"])
def test_the_bundled_model_tells_its_words_from_heaps_of_letters(boxed: Embedder, word: str) -> None:
    assert boxed.knows(word) == (word == "parser")


def test_the_bundled_model_gives_a_text_one_vector_in_any_company(boxed: Embedder) -> None:
    texts = [text * n for row in CERTAIN for n, text in enumerate(row, 1)] + list(HOSTILE.values())
    together = boxed.embed(texts)
    assert together.shape == (len(texts), boxed.dimensions)
    assert np.array_equal(together, np.concatenate([boxed.embed([text]) for text in texts]))
    assert set(np.linalg.norm(together, axis=1).round(4).tolist()) == {0.0, 1.0}


def test_the_bundled_model_is_what_is_used_without_being_asked(boxed: Embedder, tmp_path: Path) -> None:
    loaded = load_embedder(Vector(), [tmp_path])
    assert loaded.embedder is not None
    assert (loaded.embedder.mark, loaded.why) == (boxed.mark, "")
