"""A sentence encoder of a few words, as an ONNX folder: small enough to make in a test, real enough to embed with.

Each word has a row of a table; a text is the mean of its words' rows. Texts that share words are near each other.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.normalizers import Lowercase
from tokenizers.pre_tokenizers import Whitespace

WORDS = "the parser drops nested quotes tokenizer cart rename module cache login token soup lentil recipe".split()
DIMENSIONS = 8


def tokenizer(words: list[str]) -> Tokenizer:
    made = Tokenizer(WordLevel({word: place for place, word in enumerate(["[PAD]", "[UNK]", *words])}, "[UNK]"))
    made.normalizer = Lowercase()
    made.pre_tokenizer = Whitespace()
    return made


def graph(words: int, dimensions: int, seed: int, pooled: bool) -> onnx.ModelProto:
    """(input_ids, attention_mask) -> vectors: of texts, of length 1, if `pooled`; else of tokens."""
    table = np.random.default_rng(seed).standard_normal((words, dimensions)).astype(np.float32)
    nodes = [helper.make_node("Gather", ["table", "input_ids"], ["tokens" if pooled else "last_hidden_state"])]
    shape: list[str | int] = ["batch", dimensions] if pooled else ["batch", "tokens", dimensions]
    if pooled:
        nodes += [
            helper.make_node("Cast", ["attention_mask"], ["mask"], to=TensorProto.FLOAT),
            helper.make_node("Unsqueeze", ["mask", "last"], ["weights"]),
            helper.make_node("Mul", ["tokens", "weights"], ["kept"]),
            helper.make_node("ReduceSum", ["kept", "first"], ["sum"], keepdims=0),
            helper.make_node("ReduceL2", ["sum", "first"], ["length"], keepdims=1),
            helper.make_node("Div", ["sum", "length"], ["embedding"]),
        ]
    inputs = [
        helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "tokens"])
        for name in ("input_ids", "attention_mask")
    ]
    outputs = [helper.make_tensor_value_info("embedding" if pooled else "last_hidden_state", TensorProto.FLOAT, shape)]
    constants = [
        numpy_helper.from_array(table, "table"),
        numpy_helper.from_array(np.array([1], np.int64), "first"),
        numpy_helper.from_array(np.array([2], np.int64), "last"),
    ]
    made = helper.make_graph(nodes, "tiny", inputs, outputs, constants)
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def write(
    folder: Path, *, words: list[str] = WORDS, dimensions: int = DIMENSIONS, seed: int = 1, pooled: bool = True
) -> Path:
    """The folder, with model.onnx and tokenizer.json; without a card, as users have it."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.onnx").write_bytes(graph(len(words) + 2, dimensions, seed, pooled).SerializeToString())
    tokenizer(words).save(str(folder / "tokenizer.json"))
    (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 32}))
    return folder


def spoil(folder: Path, word: str) -> None:
    """No text with this word has a vector any more, as where half precision overflows."""
    made = onnx.load(folder / "model.onnx")
    (table,) = (one for one in made.graph.initializer if one.name == "table")
    rows = numpy_helper.to_array(table).copy()
    rows[WORDS.index(word) + 2] = np.nan
    table.CopyFrom(numpy_helper.from_array(rows, "table"))
    (folder / "model.onnx").write_bytes(made.SerializeToString())


def circle(folder: Path) -> None:
    """The graph never ends."""
    made = onnx.load(folder / "model.onnx")
    values = [
        helper.make_tensor_value_info(name, kind, shape)
        for name, kind, shape in (
            ("turn", TensorProto.INT64, []), ("on", TensorProto.BOOL, []), ("before", TensorProto.FLOAT, None),
            ("again", TensorProto.BOOL, []), ("after", TensorProto.FLOAT, None),
        )
    ]  # fmt: skip
    nodes = [helper.make_node("Identity", ["on"], ["again"]), helper.make_node("Identity", ["before"], ["after"])]
    body = helper.make_graph(nodes, "body", values[:3], values[3:])
    made.graph.initializer.append(numpy_helper.from_array(np.array(True), "yes"))
    made.graph.node.append(helper.make_node("Loop", ["", "yes", "embedding"], ["never"], body=body))
    made.graph.output[0].name = "never"
    (folder / "model.onnx").write_bytes(made.SerializeToString())
