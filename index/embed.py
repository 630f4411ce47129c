"""Texts into vectors: by an ONNX model, else by hashing. `load_embedder` alone decides which, and says why.

Knows nothing of messages, chunks or files of vectors, and writes nothing. Only work on vectors imports this module:
numpy comes with it; onnxruntime and tokenizers come with the first model that is loaded.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import threading
import unicodedata
from collections.abc import Iterator, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from agent_journal.config_keys import VECTORS_OFF
from agent_journal.errors import BadModel, NoSuchModel, unreadable_model
from agent_journal.index.crew import Crew
from agent_journal.index.hashing import HashEmbedder
from agent_journal.index.model import Model, find
from agent_journal.index.watch import Watch

if TYPE_CHECKING:
    from tokenizers import Tokenizer

    from agent_journal.config_keys import Vector

LONGEST_INPUT = 512  # tokens; the memory of attention grows with the square, 8,192 tokens would take gigabytes
CHARS_A_TOKEN = 32  # hardly any token is longer: 1 MB need not be tokenized (0.5 s) to keep its beginning
LONGEST_RUN = 60.0  # seconds, for one text: even models of a gigabyte take a few; a graph may go round in circles
LONGEST_WORD = 64
LETTERS_A_PIECE = 3.5  # of a word that a tokenizer knows; scripts without spaces have about one
UNKNOWN = {"[UNK]", "<unk>"}  # the piece in place of what is in no vocabulary
ADD_AGAIN = "add the model again with `aj models add PATH`"
QUIET = 4  # onnxruntime: fatal only; what goes wrong is raised as well
# Without them, onnxruntime 1.31 keeps an identifier of the machine below ~/.cache/Microsoft once it is imported, and
# sends events from Linux and macOS too; its function to switch that off comes too late. It was renamed: two names.
# https://github.com/microsoft/onnxruntime/pull/27379
TELEMETRY_OFF = ("ORT_DISABLE_TELEMETRY", "ORT_TELEMETRY_DISABLED")

_INTEGERS = {"tensor(int64)": np.int64, "tensor(int32)": np.int32}
_SURROGATE = re.compile("[\ud800-\udfff]")


class Embedder(Protocol):
    """A text gives the same vector whatever stands beside it, and however many threads work."""

    @property
    def name(self) -> str: ...
    @property
    def mark(self) -> str: ...  # names the vectors on disk: another mark, other vectors
    @property
    def dimensions(self) -> int: ...
    @property
    def is_semantic(self) -> bool: ...

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """A row of length 1 for each text in the order given; zeros for a text without words."""

    def embed_query(self, text: str) -> NDArray[np.float32]: ...

    def knows(self, word: str) -> bool:
        """Whether it is a word to the model, and not a heap of letters."""

    def __hash__(self) -> int: ...


class Loaded(Struct, frozen=True):
    embedder: Embedder | None
    why: str  # "", or why it is not the model that was asked for


def load_embedder(settings: Vector, folders: Sequence[Path]) -> Loaded:
    if not settings.enabled:
        return Loaded(None, VECTORS_OFF)
    try:
        return Loaded(OnnxEmbedder(find(settings.model, folders), settings.threads), "")
    except (BadModel, NoSuchModel) as error:
        return Loaded(HashEmbedder() if settings.fallback == "hash" else None, error.message)


class OnnxEmbedder:
    """One text a run and a run a thread, each on one core of its own.

    Measured on two cores, texts of 90 tokens: 396 a second (MiniLM int8) and 257 (granite, block weights), against
    207 and 143 with two threads inside each run, and 305 and 230 for those in length-sorted batches of 8. Without
    padding and without texts beside it, a vector is the same to the last bit in every company.
    """

    is_semantic = True

    def __init__(self, model: Model, threads: int = 0) -> None:
        card = model.card
        self.name, self.mark = card.name, model.mark
        self._card = card
        self._tokens = min(card.tokens, LONGEST_INPUT)  # what lies beyond is not read
        self._file, self._words = model.folder / card.model, model.folder / card.tokenizer
        self._threads = threads or usable_cores()
        loading = _Loading(self._file)
        try:
            self._tokenizer = _tokenizer(model, self._tokens)
        finally:
            loading.join()
        self._session, self._errors = loading.session()
        self._options = loading.run_options
        self._watch = Watch(LONGEST_RUN)
        self._special = self._tokenizer.num_special_tokens_to_add(False)
        if self._tokens <= self._special:
            raise BadModel(f"{self._file} would read {self._tokens} tokens, of which {self._special} are no text")
        self._inputs = {given.name: _INTEGERS.get(given.type) for given in self._session.get_inputs()}
        self._output = card.output or self._session.get_outputs()[0].name
        found = len(self._probed())
        self.dimensions = card.dimensions or found
        if found != self.dimensions:
            raise BadModel(f"{self._file} makes vectors of {found} numbers; its card says {self.dimensions}", ADD_AGAIN)

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        rows = np.zeros((len(texts), self.dimensions), np.float32)
        prefix = self._card.text_prefix

        def fill(row: int) -> None:
            rows[row] = self._vector(texts[row], prefix)

        if self._threads == 1 or len(texts) < 2:
            for row in range(len(texts)):
                fill(row)
            return rows
        # Longest first: no thread is left alone with a long one at the end.
        self._crew.share_out(fill, sorted(range(len(texts)), key=lambda row: -len(texts[row])))
        return rows

    @cached_property
    def _crew(self) -> Crew:  # a query needs none
        return Crew(self._threads)

    def embed_query(self, text: str) -> NDArray[np.float32]:
        return self._vector(text, self._card.query_prefix)

    def knows(self, word: str) -> bool:
        """A word that a model has met often is one token or two; what it never met falls into letters."""
        if len(word) > LONGEST_WORD:
            return False
        with _tokenizing(self._words):
            pieces = self._tokenizer.encode(" " + _SURROGATE.sub("?", word), add_special_tokens=False).tokens
        wide = sum(unicodedata.east_asian_width(letter) in "WF" for letter in word)
        most = max(1, wide + (len(word) - wide) / LETTERS_A_PIECE)
        return 0 < len(pieces) <= most and UNKNOWN.isdisjoint(pieces)

    def _vector(self, text: str, prefix: str) -> NDArray[np.float32]:
        if not text.strip():
            return np.zeros(self.dimensions, np.float32)
        ids = self._ids(prefix + text)
        if len(ids) <= self._special:  # control characters and the like
            return np.zeros(self.dimensions, np.float32)
        vector = self._run(ids)
        if len(vector) != self.dimensions:
            raise BadModel(f"{self._file} makes vectors of different lengths")
        return vector

    def _ids(self, text: str) -> list[int]:
        beginning = text[: self._tokens * CHARS_A_TOKEN]
        if not beginning.isascii():
            beginning = _SURROGATE.sub("\ufffd", beginning)
        with _tokenizing(self._words):
            return self._tokenizer.encode(beginning).ids

    def _run(self, ids: list[int]) -> NDArray[np.float32]:
        try:
            output = self._output_of(ids)
        except self._errors as error:
            raise BadModel(f"{self._file} cannot be run: {_brief(error)}") from error
        pooled = _pooled(output, self._card.pooling)
        if pooled is None:
            raise BadModel(f"{self._file}: its output {self._output} holds no vectors of texts")
        length = float(np.sqrt(pooled @ pooled))
        if not np.isfinite(length):
            raise BadModel(f"{self._file} makes vectors that are not numbers")
        return pooled / np.float32(length) if length else pooled

    def _output_of(self, ids: list[int]) -> Any:
        feed, options = self._feed(ids), self._options()
        break_off = partial(setattr, options, "terminate", True)
        self._watch.begin(break_off)
        try:
            (output,) = self._session.run([self._output], feed, options)
        except self._errors as error:
            if not self._watch.end(break_off):
                raise BadModel(f"{self._file} takes longer than {LONGEST_RUN:g} seconds for one text") from error
            raise
        finally:
            self._watch.end(break_off)
        return output

    def _feed(self, ids: list[int]) -> dict[str, NDArray[Any]]:
        count = len(ids)
        known = {
            "input_ids": ids,
            "attention_mask": [1] * count,
            "token_type_ids": [0] * count,
            "position_ids": list(range(count)),
        }
        feed = {}
        for name, integer in self._inputs.items():
            if name not in known or integer is None:
                raise BadModel(f"{self._file} wants an input {name} that texts do not have")
            feed[name] = np.array([known[name]], integer)
        return feed

    def _probed(self) -> NDArray[np.float32]:
        """The vector of a word. The last token is tried too: the tokenizer of a larger model names tokens that this
        one has not, and some text would find that out much later."""
        with _silent():
            ids = self._ids("probe") or [0]
        vector = self._run(ids)
        last = self._tokenizer.get_vocab_size() - 1
        try:
            self._output_of([*ids[:-1], last, *ids[-1:]])
        except self._errors as error:
            raise BadModel(f"{self._words} is of another model: it has tokens that {self._file} has not") from error
        return vector


# --- the two libraries ----------------------------------------------------------------------------------


def usable_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _tokenizer(model: Model, tokens: int) -> Tokenizer:
    try:
        from tokenizers import Tokenizer
    except ImportError as error:
        raise _not_installed("tokenizers", error) from error
    path = model.folder / model.card.tokenizer
    try:
        content = path.read_bytes()
    except OSError as error:
        raise unreadable_model(path, error) from error
    # The weights cost too much to sum in every search; a tokenizer of a smaller model would never be noticed else.
    expected = model.card.sha256.get(model.card.tokenizer)
    if expected and hashlib.sha256(content).hexdigest() != expected:
        raise BadModel(f"{path} has changed since the model was added", ADD_AGAIN)
    try:
        with _silent(), _tokenizing(path):
            tokenizer = Tokenizer.from_buffer(content)
    except ValueError as error:
        raise BadModel(f"{path} is not a tokenizer: {error}") from error
    tokenizer.no_padding()
    tokenizer.enable_truncation(max_length=tokens)
    return tokenizer


@contextlib.contextmanager
def _tokenizing(path: Path) -> Iterator[None]:
    """tokenizers raises a plain Exception, and where its own code panics, a BaseException that cannot be imported."""
    try:
        yield
    except BaseException as error:
        if type(error) is not Exception and type(error).__name__ != "PanicException":
            raise
        raise BadModel(f"{path} cannot read a text: {error}") from error


class _Loading(threading.Thread):
    """The weights on their way into memory. That needs no Python, so the tokenizer is read meanwhile, which takes as
    long: an eighth of a cold search saved."""

    def __init__(self, path: Path) -> None:
        super().__init__(daemon=True)
        self._path = path
        self._runtime, self._errors = _runtime()
        self._session: Any = None
        self._failure: Exception | None = None
        if not path.is_file():
            raise BadModel(f"{path} is missing", ADD_AGAIN)
        self.start()

    def run(self) -> None:
        options = self._runtime.SessionOptions()
        options.log_severity_level = QUIET
        options.intra_op_num_threads = 1
        options.enable_mem_pattern = False  # one is kept for each length of text; the arena alone takes half of that
        try:
            self._session = self._runtime.InferenceSession(self._path, options, providers=["CPUExecutionProvider"])
        except self._errors as error:
            self._failure = error

    def run_options(self) -> Any:
        options = self._runtime.RunOptions()
        options.log_severity_level = QUIET
        return options

    def session(self) -> tuple[Any, tuple[type[Exception], ...]]:
        """The session, and what its runs may raise."""
        self.join()
        if self._failure is not None:
            raise BadModel(f"{self._path} cannot be loaded: {_brief(self._failure)}") from self._failure
        return self._session, self._errors


def _runtime() -> tuple[Any, tuple[type[Exception], ...]]:
    """onnxruntime, and what it may raise."""
    os.environ.update(dict.fromkeys(TELEMETRY_OFF, "1"))
    try:
        with _silent():
            import onnxruntime  # type: ignore[import-untyped]
            from onnxruntime.capi import onnxruntime_pybind11_state as state  # type: ignore[import-untyped]
    except ImportError as error:
        raise _not_installed("onnxruntime", error) from error
    own = (kind for kind in vars(state).values() if isinstance(kind, type) and issubclass(kind, Exception))
    errors: tuple[type[Exception], ...] = (*own, RuntimeError, ValueError, TypeError)
    onnxruntime.set_default_logger_severity(QUIET)
    onnxruntime.disable_telemetry_events()  # Windows reads no variable
    return onnxruntime, errors


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    """Importing onnxruntime warns of missing graphics cards, on descriptor 2 and deaf to its own settings:
    https://github.com/microsoft/onnxruntime/issues/27092. And a panic of tokenizers is printed there as it is raised.
    Not for work in threads: they share the descriptor."""
    try:
        kept = os.dup(2)
    except OSError:  # closed: nothing to be heard
        yield
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


def _not_installed(library: str, error: ImportError) -> BadModel:
    return BadModel(f"{library} cannot be imported: {error}", f"pip install {library}")


def _brief(error: Exception) -> str:
    """The first line, without onnxruntime's code: "[ONNXRuntimeError] : 7 : INVALID_PROTOBUF : Load model …"."""
    return re.sub(r"^\[ONNXRuntimeError\] : \d+ : \w+ : ", "", str(error)).split("\n")[0][:200]


def _pooled(output: Any, pooling: str) -> NDArray[np.float32] | None:
    if not isinstance(output, np.ndarray) or output.ndim != (2 if pooling == "none" else 3) or len(output) != 1:
        return None
    if pooling == "mean":
        return np.asarray(output[0].astype(np.float32).mean(axis=0), np.float32)
    return np.asarray(output[0] if pooling == "none" else output[0, 0], np.float32)
