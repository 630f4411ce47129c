"""What an ONNX file says about itself: its outputs, and the files its weights lie in.

Reads the few protobuf fields it needs (https://onnx.ai/onnx/repo-docs/IR.html) and skips the weights, so that listing
models costs milliseconds and neither onnx nor onnxruntime. Judges nothing: whether a graph runs, only running it tells.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from agent_journal.errors import BadModel, unreadable_model

Span = tuple[int, int]  # begin and end of a field's bytes

# Field numbers of onnx.proto, by message.
MODEL_GRAPH = 7
GRAPH_NODE, GRAPH_INITIALIZER, GRAPH_OUTPUT, NODE_ATTRIBUTE = 1, 5, 12, 5
ATTRIBUTE_TENSORS, ATTRIBUTE_GRAPHS = (5, 10), (6, 11)  # one, several
VALUE_NAME, VALUE_TYPE, TYPE_TENSOR, TENSOR_SHAPE, SHAPE_DIMENSION, DIMENSION_VALUE = 1, 2, 1, 2, 1, 1
TENSOR_EXTERNAL, ENTRY_KEY, ENTRY_VALUE = 13, 1, 2

_FIXED = {1: 8, 5: 4}  # bytes of a field, by wire type
_BYTES, _VARINT = 2, 0


class Output(Struct, frozen=True):
    name: str
    shape: tuple[int, ...]  # 0 where the length is not fixed; () where nothing is said


class Graph(Struct, frozen=True):
    outputs: tuple[Output, ...]
    weights: tuple[str, ...]  # files beside this one that hold weights, as the graph names them


def glance(path: Path) -> Graph:
    """Raises BadModel for bytes that are not ONNX."""
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            graph = next((span for _, span in _fields(data, (0, len(data)), MODEL_GRAPH)), None)
            found = None if graph is None else _graph(data, graph)
    except (ValueError, IndexError, RecursionError) as error:  # an empty file cannot be mapped: ValueError
        raise BadModel(f"{path} is not an ONNX file") from error
    except OSError as error:
        raise unreadable_model(path, error) from error
    if found is None or not found.outputs:
        raise BadModel(f"{path} is not an ONNX file")
    return found


def _graph(data: mmap.mmap, graph: Span) -> Graph:
    outputs = [_output(data, span) for _, span in _fields(data, graph, GRAPH_OUTPUT)]
    weights = dict.fromkeys(name for tensor in _tensors(data, graph) for name in _locations(data, tensor))
    return Graph(tuple(outputs), tuple(weights))


def _tensors(data: mmap.mmap, graph: Span) -> Iterator[Span]:
    """Those of its nodes too: constants, and the branches of a condition, which are graphs."""
    yield from (span for _, span in _fields(data, graph, GRAPH_INITIALIZER))
    for _, node in _fields(data, graph, GRAPH_NODE):
        for _, attribute in _fields(data, node, NODE_ATTRIBUTE):
            for number, span in _fields(data, attribute):
                if number in ATTRIBUTE_TENSORS:
                    yield span
                elif number in ATTRIBUTE_GRAPHS:
                    yield from _tensors(data, span)


def _output(data: mmap.mmap, span: Span) -> Output:
    name = "".join(_text(data, name) for _, name in _fields(data, span, VALUE_NAME))
    inner = [span]
    for number in (VALUE_TYPE, TYPE_TENSOR, TENSOR_SHAPE, SHAPE_DIMENSION):
        inner = [below for above in inner for _, below in _fields(data, above, number)]
    return Output(name, tuple(_length(data, dimension) for dimension in inner))


def _length(data: mmap.mmap, dimension: Span) -> int:
    begin, end = dimension
    if begin == end or data[begin] != DIMENSION_VALUE << 3:
        return 0  # a name such as "batch"
    return _varint(data, begin + 1)[0]


def _locations(data: mmap.mmap, tensor: Span) -> Iterator[str]:
    for _, entry in _fields(data, tensor, TENSOR_EXTERNAL):
        pair = {number: _text(data, span) for number, span in _fields(data, entry)}
        if pair.get(ENTRY_KEY) == "location":
            yield pair.get(ENTRY_VALUE, "")


def _fields(data: mmap.mmap, span: Span, wanted: int | None = None) -> Iterator[tuple[int, Span]]:
    """The message's fields with bytes of their own; numbers are passed over."""
    place, end = span
    while place < end:
        tag, place = _varint(data, place)
        number, wire = tag >> 3, tag & 7
        if wire == _VARINT:
            _, place = _varint(data, place)
            continue
        if wire == _BYTES:
            length, place = _varint(data, place)
        else:
            length = _FIXED.get(wire, end)  # an unknown wire type runs past the end
        if not number or place + length > end:
            raise ValueError("not a protobuf message")
        if wire == _BYTES and wanted in (None, number):
            yield number, (place, place + length)
        place += length


def _varint(data: mmap.mmap, place: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        byte = data[place]
        place += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, place
    raise ValueError("not a protobuf message")


def _text(data: mmap.mmap, span: Span) -> str:
    return data[span[0] : span[1]].decode("utf-8")
