"""A folder as sentence-transformers writes it, read as a card: which file is the graph, how to pool, how much fits.

Only reads, runs nothing and knows nothing of where models are kept. What it cannot tell it refuses with a sentence:
a guess would give vectors that look right and find nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct

from agent_journal.errors import BadModel, unreadable_model
from agent_journal.index.onnx_file import Graph, Output, glance

TOKENIZER = "tokenizer.json"
MODEL = "model.onnx"
QUANTIZED = ("model_qint8", "model_quantized", "model_int8")  # how exporters begin the names of smaller, faster files
USUAL_TOKENS = 512
LENGTHY_TOKENS = 1_000_000  # tokenizers without a limit say 10^30
SETTINGS_BYTES, TOKENIZER_BYTES = 1 << 20, 1 << 26  # at most; the largest vocabularies of 2025 take 35 MB
OFFSET_POSITIONS = frozenset({"roberta", "xlm-roberta", "camembert", "mpnet"})  # positions begin behind the padding's
OFFSET = 2
# Alone, a 2-d output holds sentences; beside tokens, BERT's pooler_output was trained for something else.
SENTENCES = ("sentence_embedding", "embedding", "embeddings", "sentence_embeddings", "text_embeds")
TOKENS = ("last_hidden_state", "token_embeddings")
Pooling = Literal["none", "mean", "cls"]
POOLINGS: Mapping[str, Pooling] = {"pooling_mode_mean_tokens": "mean", "pooling_mode_cls_token": "cls"}


class Card(Struct, frozen=True):
    """How a model is used. Without a default: what every card must say."""

    name: str
    dimensions: int  # 0 in the card of a folder that does not say it
    tokens: int  # the longest input, the special tokens included
    pooling: Pooling  # none: the graph pools by itself
    model: str  # file names, relative to the folder, with slashes
    tokenizer: str
    output: str = ""  # of the graph; "" is its first
    query_prefix: str = ""
    text_prefix: str = ""
    licence: str = ""
    source: str = ""
    sha256: dict[str, str] = {}  # file -> hex


class Found(Struct, frozen=True):
    card: Card  # without sums
    weights: tuple[str, ...]  # further files, named as the graph names them, beside it


def holds_model(folder: Path) -> bool:
    return (folder / TOKENIZER).is_file() and bool(_graphs(folder))


def look(folder: Path) -> Found:
    """Raises BadModel with what is missing or not understood."""
    if not folder.is_dir():
        raise BadModel(
            f"{folder} is a file; a model is a folder" if folder.exists() else f"{folder}: there is no such folder",
            "name the folder that holds the ONNX file and tokenizer.json",
        )
    graphs = _graphs(folder)
    if not graphs:
        raise BadModel(f"{folder} has no ONNX file", "a model needs model.onnx (or onnx/model.onnx) and tokenizer.json")
    chosen = _chosen(folder, graphs)
    for path in (chosen, chosen.parent, folder / TOKENIZER):
        if path != folder and path.is_symlink():
            raise _link(path)
    if not (folder / TOKENIZER).is_file():
        raise BadModel(f"{folder} has no tokenizer.json", "models without it cannot be used")
    _settings(folder, TOKENIZER, TOKENIZER_BYTES, msgspec.json.Decoder(dict[str, msgspec.Raw]).decode)  # looked at only
    graph = glance(chosen)
    output = _output(chosen, graph)
    pooling: Pooling = "none" if len(output.shape) == 2 else _pooling(folder)
    query, text = _prefixes(_settings(folder, "config_sentence_transformers.json"))
    card = Card(
        name=folder.name,
        dimensions=output.shape[-1] or _dimensions(folder),
        tokens=_tokens(folder),
        pooling=pooling,
        model=chosen.relative_to(folder).as_posix(),
        tokenizer=TOKENIZER,
        output=output.name,
        query_prefix=query,
        text_prefix=text,
        source=str(folder),
    )
    try:
        msgspec.json.encode(card)
    except UnicodeEncodeError as error:  # JSON may escape half a character, and a file's name be any bytes
        raise BadModel(f"{folder}: a name or a prompt in it is not text") from error
    return Found(card, _weights(chosen, graph))


# --- the graph ------------------------------------------------------------------------------------------


def _graphs(folder: Path) -> list[Path]:
    try:
        return sorted(
            path
            for pattern in ("*.onnx", "onnx/*.onnx")
            for path in folder.glob(pattern)
            if not path.name.startswith(".") and (path.is_file() or path.is_symlink())
        )
    except OSError as error:
        raise unreadable_model(folder, error) from error


def _chosen(folder: Path, graphs: list[Path]) -> Path:
    if len(graphs) == 1:
        return graphs[0]
    for beginning in QUANTIZED:
        if smaller := [path for path in graphs if path.name.startswith(beginning)]:
            return smaller[0]
    if whole := [path for path in graphs if path.name == MODEL]:
        return whole[0]
    names = ", ".join(path.relative_to(folder).as_posix() for path in graphs)
    raise BadModel(f"{folder} has several ONNX files ({names})", f"keep one of them, or name the one to use {MODEL}")


def _link(path: Path) -> BadModel:
    """A link may leave the folder: what is copied must be what the user pointed at."""
    return BadModel(f"{path} is a link; links are not followed", "copy the folder with its files, e.g. cp -rL")


def _weights(chosen: Path, graph: Graph) -> tuple[str, ...]:
    for name in graph.weights:
        path = chosen.parent / name
        try:
            if not name or "/" in name or "\\" in name or name.startswith(".") or path.is_symlink():
                raise BadModel(f"{chosen} keeps its weights in {name!r}, which is no file beside it")
            if not path.is_file():
                raise BadModel(f"{chosen} keeps its weights in {name}, which is missing")
        except OSError as error:  # too long a name
            raise unreadable_model(path, error) from error
    return graph.weights


def _output(chosen: Path, graph: Graph) -> Output:
    """The sentence's vector if the graph makes one, else the tokens'."""
    named = {output.name: output for output in graph.outputs}
    whole = [o for o in graph.outputs if len(o.shape) == 2 and o.name != "pooler_output"]
    tokens = [o for o in graph.outputs if len(o.shape) == 3]
    preferred = [named[name] for name in (*SENTENCES, *TOKENS) if name in named and len(named[name].shape) in (2, 3)]
    if found := (*preferred, *tokens, *whole):
        return found[0]
    shapes = ", ".join(f"{o.name} with {len(o.shape)} axes" for o in graph.outputs)
    raise BadModel(f"{chosen} makes no vectors of texts: its outputs are {shapes}")


# --- the settings beside it -----------------------------------------------------------------------------


def _settings(
    folder: Path, name: str, limit: int = SETTINGS_BYTES, decode: Callable[[bytes], Any] = json.loads
) -> Mapping[str, Any]:
    """{} where there is no such file."""
    path = folder / name
    if path.is_symlink() or path.parent.is_symlink():
        raise _link(path)
    try:
        if not path.is_file():
            return {}
        if path.stat().st_size > limit:
            raise BadModel(f"{path} is too large to be settings")
        found = decode(path.read_bytes())
    except OSError as error:
        raise unreadable_model(path, error) from error
    except msgspec.ValidationError as error:
        raise BadModel(f"{path} is not a JSON object") from error
    except (ValueError, RecursionError) as error:
        raise BadModel(f"{path} is not JSON") from error
    if not isinstance(found, dict):
        raise BadModel(f"{path} is not a JSON object")
    return found


def _pooling(folder: Path) -> Pooling:
    settings = _settings(folder, "1_Pooling/config.json")
    modes = sorted(name for name, on in settings.items() if name.startswith("pooling_mode_") and on is True)
    if [name for name in modes if name not in POOLINGS] or len(modes) > 1:
        raise BadModel(f"{folder} pools by {', '.join(modes)}; mean and cls are known")
    if (folder / "2_Dense").exists():
        raise BadModel(
            f"{folder} has a further layer, 2_Dense, that its ONNX file leaves out",
            "export the model with its pooling and layers inside the ONNX file",
        )
    return POOLINGS[modes[0]] if modes else "mean"


def _dimensions(folder: Path) -> int:
    found = _settings(folder, "1_Pooling/config.json").get("word_embedding_dimension")
    return _count(found) or _count(_settings(folder, "config.json").get("hidden_size"))


def _tokens(folder: Path) -> int:
    if given := _count(_settings(folder, "sentence_bert_config.json").get("max_seq_length")):
        return given
    if given := _count(_settings(folder, "tokenizer_config.json").get("model_max_length")):
        return given
    config = _settings(folder, "config.json")
    positions = _count(config.get("max_position_embeddings"))
    return positions - OFFSET * (config.get("model_type") in OFFSET_POSITIONS) if positions > OFFSET else USUAL_TOKENS


def _count(value: object) -> int:
    """0 for what is no number, or stands for no limit."""
    return value if type(value) is int and 0 < value < LENGTHY_TOKENS else 0


def _prefixes(settings: Mapping[str, Any]) -> tuple[str, str]:
    given = settings.get("prompts")
    prompts = {k: v for k, v in given.items() if isinstance(v, str)} if isinstance(given, dict) else {}
    usual = prompts.get(str(settings.get("default_prompt_name")), "")
    return prompts.get("query", usual), prompts.get("document") or prompts.get("passage") or usual
