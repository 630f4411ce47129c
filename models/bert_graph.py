"""A BERT-like sentence encoder as one ONNX graph: (input_ids, attention_mask) -> pooled vectors of length 1.

Written from plain arrays with numpy and onnx; no torch, no exporter. The same arrays give the same bytes. Only for
building the bundled model: nothing the program does at run time imports this.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

Floats = NDArray[np.float32]
OPSET, IR_VERSION = 20, 9  # the oldest with Gelu; onnxruntime 1.17 and later read both
MICROSOFT = "com.microsoft"  # onnxruntime's own operators
MASKED = np.float32(-1e4)  # far below any score; softmax makes it nought
WEIGHT_MAX = 127
# Processors without VNNI add two products of 8 bits in 16 and cut what is too large. Reckoned over granite's layers on
# four texts: at 127 that adds an error of 1.2 % of a layer's output, at 95 of 0.04 %, at 63 none can occur. The cosine
# to the exact vectors is the same .998 for 95 as for 127.
DYNAMIC_WEIGHT_MAX = 95


@dataclass(frozen=True, slots=True)
class Encoder:
    """Weights by name: word, position, type, norm.w, norm.b and, for each layer i, i.{qkv,out,up,down}.{w,b} and
    i.{out,down}.norm.{w,b}. Matrices are (from, to)."""

    weights: Mapping[str, Floats]
    layers: int
    heads: int
    epsilon: float
    pooling: str  # "mean" or "cls"


@dataclass(slots=True)
class Writer:
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    constants: dict[str, onnx.TensorProto] = field(default_factory=dict)

    def constant(self, name: str, value: object) -> str:
        array = np.array(value, order="C")
        self.constants.setdefault(name, numpy_helper.from_array(array, name))
        return name

    def integers(self, *values: int) -> str:
        return self.constant("int_" + "_".join(map(str, values)), np.array(values, np.int64))

    def apply(self, operator: str, *inputs: str, domain: str = "", **attributes: Any) -> str:
        output = f"{operator}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, list(inputs), [output], output, domain=domain, **attributes))
        return output


# A linear layer in some precision: (writer, name, input, matrix (from, to), bias) -> output.
Linear = Callable[[Writer, str, str, Floats, Floats], str]


def dynamic_int8(writer: Writer, name: str, x: str, matrix: Floats, bias: Floats) -> str:
    """Weights and activations in 8 bits, one scale for each output and one for the whole input: the fastest, but the
    vectors depend on what else is in the batch, and one large channel leaves the others no bits."""
    scales, values = quantized(matrix.T, DYNAMIC_WEIGHT_MAX)
    return writer.apply(
        "DynamicQuantizeMatMul",
        x,
        writer.constant(f"{name}.w", values.T),
        writer.constant(f"{name}.s", scales[:, 0]),
        "",
        writer.constant(f"{name}.b", bias),
        domain=MICROSOFT,
    )


def block_int8(block: int, accuracy_level: int) -> Linear:
    """Weights in 8 bits, a scale for each `block` of inputs of each output; every row of the input by itself, so a
    text's vector is the same in any batch. Accuracy level 4 lets the activations be 8 bits too, by row and block."""

    def linear(writer: Writer, name: str, x: str, matrix: Floats, bias: Floats) -> str:
        inputs, outputs = matrix.shape
        blocks = matrix.T.reshape(outputs, inputs // block, block)
        scales, values = quantized(blocks)
        return writer.apply(
            "MatMulNBits",
            x,
            writer.constant(f"{name}.w", (values.astype(np.int16) + 128).astype(np.uint8)),
            writer.constant(f"{name}.s", scales.reshape(outputs, -1)),
            "",
            "",
            writer.constant(f"{name}.b", bias),
            domain=MICROSOFT,
            K=inputs,
            N=outputs,
            bits=8,
            block_size=block,
            accuracy_level=accuracy_level,
        )

    return linear


def either(names: frozenset[str], these: Linear, others: Linear) -> Linear:
    """Some layers, such as "3.down", in another precision than the rest."""

    def linear(writer: Writer, name: str, x: str, matrix: Floats, bias: Floats) -> str:
        return (these if name in names else others)(writer, name, x, matrix, bias)

    return linear


def quantized(values: Floats, most: int = WEIGHT_MAX) -> tuple[Floats, NDArray[np.int8]]:
    """(scales, integers): symmetric, a scale for each run of the last axis."""
    scales = np.maximum(np.abs(values).max(axis=-1, keepdims=True), 1e-12) / np.float32(most)
    return scales.astype(np.float32), np.round(values / scales).astype(np.int8)


# --- the graph ------------------------------------------------------------------------------------------


def sentence_encoder(encoder: Encoder, linear: Linear, word_block: int) -> onnx.ModelProto:
    """`word_block`: numbers of a word's vector that share a scale."""
    writer = Writer()
    hidden = encoder.weights["word"].shape[1]
    mask = writer.apply("Cast", "attention_mask", to=TensorProto.FLOAT)
    hole = writer.apply("Sub", writer.constant("one", np.float32(1)), mask)
    bias = writer.apply("Mul", hole, writer.constant("masked", MASKED))
    bias = writer.apply("Unsqueeze", bias, writer.integers(1, 2))
    x = _embedded(writer, encoder, word_block)
    for layer in range(encoder.layers):
        only_first = encoder.pooling == "cls" and layer == encoder.layers - 1
        x = _layer(writer, encoder, linear, layer, x, bias, only_first)
    if encoder.pooling == "cls":
        pooled = writer.apply("Squeeze", x, writer.integers(1))
    else:  # the sum: its length is divided away below
        weighted = writer.apply("Mul", x, writer.apply("Unsqueeze", mask, writer.integers(2)))
        pooled = writer.apply("ReduceSum", weighted, writer.integers(1), keepdims=0)
    length = writer.apply("ReduceL2", pooled, writer.integers(1), keepdims=1)
    writer.nodes.append(helper.make_node("Div", [pooled, length], ["embedding"], "embedding"))
    return _model(writer, hidden)


def _embedded(writer: Writer, encoder: Encoder, word_block: int) -> str:
    weights = encoder.weights
    words = _words(writer, weights["word"], word_block)
    places = writer.constant("position", weights["position"] + weights["type"][0])
    shape = writer.apply("Shape", "input_ids", start=1)
    places = writer.apply("Slice", places, writer.integers(0), shape, writer.integers(0))
    return _norm(writer, encoder, writer.apply("Add", words, places), "norm")


def _words(writer: Writer, table: Floats, block: int) -> str:
    words, hidden = table.shape
    scales, values = quantized(table.reshape(words, hidden // block, block))
    found = writer.apply("Gather", writer.constant("word", values), "input_ids")
    scale = writer.apply("Gather", writer.constant("word.s", scales), "input_ids")
    scaled = writer.apply("Mul", writer.apply("Cast", found, to=TensorProto.FLOAT), scale)
    return writer.apply("Reshape", scaled, writer.integers(0, 0, hidden))


def _norm(writer: Writer, encoder: Encoder, x: str, name: str) -> str:
    scale, shift = (writer.constant(f"{name}.{part}", encoder.weights[f"{name}.{part}"]) for part in "wb")
    return writer.apply("LayerNormalization", x, scale, shift, axis=-1, epsilon=encoder.epsilon)


def _layer(writer: Writer, encoder: Encoder, linear: Linear, layer: int, x: str, bias: str, only_first: bool) -> str:
    """`only_first`: the last layer of a model that pools by its first token makes nothing of the others."""

    def dense(name: str, x: str) -> str:
        name = f"{layer}.{name}"
        return linear(writer, name, x, encoder.weights[f"{name}.w"], encoder.weights[f"{name}.b"])

    attended, x = _attention(writer, encoder, linear, layer, x, bias, only_first)
    x = _norm(writer, encoder, writer.apply("Add", dense("out", attended), x), f"{layer}.out.norm")
    wide = writer.apply("Gelu", dense("up", x))
    return _norm(writer, encoder, writer.apply("Add", dense("down", wide), x), f"{layer}.down.norm")


def _attention(
    writer: Writer, encoder: Encoder, linear: Linear, layer: int, x: str, bias: str, only_first: bool
) -> tuple[str, str]:
    """What was attended to, and the input of the tokens that go on."""
    matrix, shift = encoder.weights[f"{layer}.qkv.w"], encoder.weights[f"{layer}.qkv.b"]
    hidden = matrix.shape[0]
    size = hidden // encoder.heads
    scale = np.repeat(np.array([size**-0.5, 1, 1], np.float32), hidden)  # of scores, folded into the queries
    matrix, shift = matrix * scale, shift * scale

    def heads(name: str, x: str, first: int, last: int) -> list[str]:
        columns = slice(first * hidden, last * hidden)
        made = linear(writer, f"{layer}.{name}", x, np.ascontiguousarray(matrix[:, columns]), shift[columns])
        shaped = writer.apply("Reshape", made, writer.integers(0, 0, last - first, encoder.heads, size))
        parts = writer.apply("Transpose", shaped, perm=[2, 0, 3, 1, 4])
        picks = [writer.constant(f"pick_{part}", np.array(part, np.int64)) for part in range(last - first)]
        return [writer.apply("Gather", parts, pick, axis=0) for pick in picks]

    if only_first:
        keys, values = heads("kv", x, 1, 3)
        x = writer.apply("Slice", x, writer.integers(0), writer.integers(1), writer.integers(1))
        [queries] = heads("q", x, 0, 1)
    else:
        queries, keys, values = heads("qkv", x, 0, 3)
    scores = writer.apply("MatMul", queries, writer.apply("Transpose", keys, perm=[0, 1, 3, 2]))
    shares = writer.apply("Softmax", writer.apply("Add", scores, bias), axis=-1)
    mixed = writer.apply("Transpose", writer.apply("MatMul", shares, values), perm=[0, 2, 1, 3])
    return writer.apply("Reshape", mixed, writer.integers(0, 0, hidden)), x


def _model(writer: Writer, hidden: int) -> onnx.ModelProto:
    inputs = [
        helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "tokens"])
        for name in ("input_ids", "attention_mask")
    ]
    outputs = [helper.make_tensor_value_info("embedding", TensorProto.FLOAT, ["batch", hidden])]
    graph = helper.make_graph(writer.nodes, "sentence_encoder", inputs, outputs, list(writer.constants.values()))
    domains = [helper.make_opsetid("", OPSET), helper.make_opsetid(MICROSOFT, 1)]
    return helper.make_model(graph, opset_imports=domains, ir_version=IR_VERSION, producer_name="agent-journal")
