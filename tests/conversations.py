"""Conversations to find by meaning: each session is about one thing, in words that the others do not use."""

from __future__ import annotations

from pathlib import Path

import logs
import numpy as np
import tiny_model
from journals import Home
from numpy.typing import NDArray

from agent_journal.index import model, vector_file
from agent_journal.index.embed import OnnxEmbedder

TALKS = {
    "login": (
        "Users are thrown out of the website after a few minutes and must enter their password again",
        "The session cookie expired too early; its lifetime is one day now.",
    ),
    "database": (
        "Queries against the orders table became very slow since yesterday",
        "An index on customer_id was missing, so every query read the whole table.",
    ),
    "soup": (
        "Give me a recipe for lentil soup with cumin",
        "Fry onions, add red lentils, stock and cumin, and simmer for twenty minutes.",
    ),
    "docker": (
        "The container image is two gigabytes large",
        "A multi-stage build leaves the compiler out, and the image shrinks to ninety megabytes.",
    ),
    "css": (
        "Center the button inside the card",
        "I set display to flex and justified the content in the middle.",
    ),
    "git": (
        "I committed a secret key by accident, how do I purge it from the history?",
        "Rewrite the branch with filter-repo, then rotate the key at once.",
    ),
    "regex": (
        "Write a regular expression for postal codes in Germany",
        "Five digits between word boundaries will do.",
    ),
    "memory": (
        "The server's memory grows until the kernel kills it",
        "A cache without limit held every response; it evicts the oldest ones now.",
    ),
    "travel": (
        "Plan three days in Lisbon with children",
        "Start with the aquarium, then ride the old tram up to the castle.",
    ),
    "tests": (
        "The integration test passes alone and fails when the whole suite runs",
        "Two tests wrote to the same folder; each has its own temporary one now.",
    ),
    "chart": (
        "Draw sales per month as a bar chart",
        "The plot has one bar for each month and a line for last year.",
    ),
    "mail": (
        "Our newsletters land in the spam folder",
        "SPF and DKIM records were missing for the sending domain.",
    ),
}
# No word in common with the session that it is about.
PARAPHRASES = {
    "being logged off from a web page all the time": "login",
    "how to cook a legume dish": "soup",
    "sightseeing trip with family": "travel",
    "undo publishing credentials": "git",
}
PROSE = (
    "The garden needs water twice a week in summer. A train leaves the station every hour. Paint dries faster when the "
    "windows are open. The orchestra rehearses on Tuesdays. He repaired the old bicycle in the shed. Snow fell during "
    "the night. The museum shows maps of the coast. Her lecture was about the history of glass. Bread rises slowly in "
    "cold kitchens. The bridge was closed on Monday. Bees prefer blue flowers. The invoice is due at the end of March."
).split(". ")


def hold(home: Home, *names: str) -> None:
    """These conversations, or all; and some prose that is about nothing of the kind."""
    for name in names or TALKS:
        asked, answered = TALKS[name]
        home.claude(
            *(r | {"sessionId": name} for r in (logs.user("u", asked), logs.assistant("a", logs.text(answered)))),
            name=name,
        )
    prose = [logs.assistant(f"p{n}", logs.text(sentence)) | {"sessionId": "prose"} for n, sentence in enumerate(PROSE)]
    home.claude(logs.user("p", "Read this to me") | {"sessionId": "prose"}, *prose, name="prose")


def talk(home: Home, name: str, *texts: str, **fields: str) -> Path:
    """A session in which a user says these things, one after the other."""
    records = [logs.user(f"{name}-{n}", text, sessionId=name, **fields) for n, text in enumerate(texts)]
    return home.claude(*records, name=name)


def add_tiny(home: Home, name: str = "tiny", seed: int = 1, spoilt: str = "") -> model.Model:
    folder = tiny_model.write(home.path / "models" / name, seed=seed)
    if spoilt:
        tiny_model.spoil(folder, spoilt)
    return model.add(folder, home.path / ".agent-journal" / "models", check=lambda m: OnnxEmbedder(m, 1).dimensions)


def with_tiny(home: Home, *settings: str) -> Home:
    """The same home, with vectors, made by the tiny model."""
    add_tiny(home)
    home.configure("\n".join(["[index.vector]", 'model = "tiny"', *settings]))
    return Home(home.path, home.variables, vectors=True)


def vectors_folder(home: Home) -> Path:
    (folder,) = (Path(home.environ["AJ_HOME"]) / "index" / "vectors").glob("*/")
    return folder


def vectors_of(home: Home) -> dict[int, NDArray[np.float32]]:
    """What is committed, by digest."""
    file = vectors_folder(home) / "vectors.bin"
    with file.open("rb") as opened:
        header = vector_file._newest(opened.read(vector_file.HEADER_BYTES))
    rows = vector_file.load(file, header).rows
    found = {int(row["digest"]): row["vector"].astype(np.float32) for row in rows}
    assert len(found) == len(rows), "one text has two vectors"
    return found
