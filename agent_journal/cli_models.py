"""`aj models`: the embedding models of this machine. Copies and checks folders; it has no way to a network."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agent_journal.cli_journal import settings
from agent_journal.cli_options import Json, commands
from agent_journal.cli_output import FAILED, FOUND, put, put_facts
from agent_journal.render.clean import clean_line

if TYPE_CHECKING:
    from msgspec import Struct

    from agent_journal.shelf import Entry, Shelf, Verdict

models_app = commands(help="List, add, choose, check and remove the models that search by meaning uses.")

Name = Annotated[str, typer.Argument(metavar="NAME", help="A name of `aj models list`.")]

REEMBEDS = "the next `aj reindex` embeds with it what it has not embedded; until then the old vectors keep answering"


def _shelf() -> Shelf:
    from agent_journal.shelf import Shelf

    return Shelf(settings())


def _members(value: Struct) -> dict[str, object]:
    from msgspec.structs import asdict

    return asdict(value)


@models_app.command("list")
def listing(json: Json = False) -> int:
    """List the models: bundled, added, and found in index.vector.model_path.

    The one in use is marked *. Models that cannot be used are listed with the reason. A known model is one that is not
    on this machine; docs/models.md says how to get it.

    \b
    Example:
      aj models list
    """
    entries = _shelf().entries()
    if json:
        put_facts(models=[_members(entry) for entry in entries])
    elif entries:
        width = max(len(entry.name) for entry in entries)
        put(_entry_line(entry, width) for entry in entries)
    else:
        put(["no models; add one with aj models add PATH"])
    return FOUND


def _entry_line(entry: Entry, width: int) -> str:
    from agent_journal.render.style import sized

    head = f"{'*' if entry.in_use else ' '} {clean_line(entry.name):<{width}}  {entry.origin.replace('_', ' '):<10}"
    facts = [entry.problem] if entry.problem else [f"{entry.dimensions} dimensions", f"{entry.tokens} tokens"]
    facts += ["not on this machine"] if entry.origin == "known" else []
    facts += [sized(entry.bytes)] if entry.bytes else []
    facts += [entry.licence] if entry.licence else []
    facts += [entry.folder] if entry.origin in ("installed", "model_path") else []
    return f"{head}  {clean_line(', '.join(facts))}"


@models_app.command("add")
def add(
    path: Annotated[Path, typer.Argument(metavar="PATH", help="A folder with an ONNX file and tokenizer.json.")],
    name: Annotated[
        str, typer.Option("--name", metavar="NAME", help="What to call it; the folder's name if not given.")
    ] = "",
    json: Json = False,
) -> int:
    """Copy a model from a folder on this machine.

    Any folder of the sentence-transformers kind with an ONNX file: pooling, length and prompts are read from the files
    beside it. It is tried on a few texts first, and nothing is kept of a folder that fails.

    \b
    Example:
      aj models add ~/Downloads/bge-small-en-v1.5
    """
    added = _shelf().add(path, name)
    card = added.card
    if json:
        put_facts(model={**_members(card), "origin": added.origin, "folder": str(added.folder)})
        return FOUND
    pools = "pools by itself" if card.pooling == "none" else f"{card.pooling} pooling"
    facts = (card.model, pools, f"{card.dimensions} dimensions", f"{card.tokens} tokens")
    put(
        [
            f"added {card.name} to {clean_line(str(added.folder))}",
            f"  {clean_line(', '.join(facts))}",
            f"to search with it: aj models use {card.name}",
        ]
    )
    return FOUND


@models_app.command("use")
def use(name: Name, json: Json = False) -> int:
    """Choose the model (index.vector.model in config.toml).

    `bundled` is the one that came with aj. Vectors of the model used so far are kept until the next `aj reindex` has
    made new ones.

    \b
    Example:
      aj models use bundled
    """
    from agent_journal.connectors.registry import SOURCE_KEYS

    shelf = _shelf()
    before = shelf.in_use
    chosen = shelf.use(name, SOURCE_KEYS).card.name
    if json:
        put_facts(before=before, after=chosen, path=str(shelf.file))
    elif chosen == before:
        put([f"{chosen} is in use already"])
    else:
        put([f"{chosen} is in use now (index.vector.model in {clean_line(str(shelf.file))})", REEMBEDS])
    return FOUND


@models_app.command("remove")
def remove(name: Name, json: Json = False) -> int:
    """Delete a model that was added; not the bundled one, nor the one in use.

    \b
    Example:
      aj models remove bge-small-en-v1.5
    """
    _shelf().remove(name)
    if json:
        put_facts(removed=name)
    else:
        put([f"removed {name}"])
    return FOUND


@models_app.command("verify")
def verify(
    name: Annotated[str, typer.Argument(metavar="[NAME]", help="A name of `aj models list`; all if not given.")] = "",
    json: Json = False,
) -> int:
    """Compare the models' files with their sha256 sums. Exits 2 if one differs.

    \b
    Example:
      aj models verify
    """
    verdicts = _shelf().verdicts(name)
    if json:
        put_facts(models=[_members(verdict) for verdict in verdicts])
    else:
        put(line for verdict in verdicts for line in _verdict_lines(verdict))
    return FAILED if any(verdict.problems for verdict in verdicts) else FOUND


def _verdict_lines(verdict: Verdict) -> list[str]:
    from agent_journal.render.style import counted

    if verdict.problems:
        return [f"{clean_line(verdict.name)}: {clean_line(problem)}" for problem in verdict.problems]
    good = f"{counted(verdict.files, 'file')} as they were" if verdict.files else "no sums to compare with"
    return [f"{clean_line(verdict.name)}: {good}"]
