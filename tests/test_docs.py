"""What is written about the program is what it does."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from process import Aj, two_sessions

from agent_journal import config

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"


def page(name: str) -> str:
    return (ROOT / name).read_text("utf-8")


def test_command_reference_is_what_help_says() -> None:
    """In a process of its own, on a terminal of another width: the page must not depend on either."""
    code = "import sys; sys.path.insert(0, sys.argv[1]); import generate; sys.stdout.write(generate.reference())"
    ran = subprocess.run(
        [sys.executable, "-c", code, str(DOCS)],
        env={"COLUMNS": "50", "PYTHONUTF8": "1"},
        capture_output=True,
        check=True,
    )
    assert ran.stdout.decode() == page("docs/cli.md"), "run python docs/generate.py"


def test_example_configuration_is_the_defaults() -> None:
    assert page("config.example.toml") == config.example_text()


# --- the shapes of --json -------------------------------------------------------------------------------


def keys(value: Any) -> Any:
    """Names of an object and of what is in it, in order; lists by their first entry."""
    if isinstance(value, dict):
        return {name: keys(item) for name, item in value.items()}
    if isinstance(value, list):
        return [keys(item) for item in value[:1]]
    return None


@pytest.fixture(scope="module")
def aj(tmp_path_factory: pytest.TempPathFactory) -> Aj:
    found = two_sessions(tmp_path_factory.mktemp("docs") / "home")
    assert found("reindex").code == 0
    return found


def test_documented_answer_has_the_keys_of_a_real_one(aj: Aj) -> None:
    shown = re.search(r"## search\n```json\n(.*?)```", page("docs/json.md"), re.DOTALL)
    assert shown
    documented = keys(json.loads(shown[1]))
    found = keys(aj("search", "tokenizer", "in:text", "tool:Bash", "--json", "--context", "1").object)
    for shape in (documented, found):
        shape["query"]["filters"] = None
        (match,) = shape["matches"]
        assert list(match["message"]["tool_calls"][0].pop("arguments")) != []
        assert match.pop("also_in") in ([], [{"session": None, "ordinal": None}])
        match["context"] = {side: list(messages[0]) for side, messages in match["context"].items()}
        match["snippet"]["highlights"] = None
    assert in_order(documented) == in_order(found)


def in_order(value: Any) -> Any:
    """Dictionaries compare without order; here the order is part of the page."""
    if isinstance(value, dict):
        return [(name, in_order(item)) for name, item in value.items()]
    return [in_order(item) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize(
    ("command", "heading"),
    [
        (["sessions"], "sessions"),
        (["show", "5b0d2a6e"], "show"),
        (["reindex"], "reindex"),
        (["agents"], "agents"),
        (["doctor"], "doctor"),
        (["config", "show"], "config"),
        (["config", "path"], "config"),
        (["config", "get", "search.max_results"], "config"),
        (["config", "set", "search.max_results", "20"], "config"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_every_key_of_json_is_documented(aj: Aj, command: list[str], heading: str) -> None:
    section = re.search(rf"^## {heading}\n(.*?)(?=^## |\Z)", page("docs/json.md"), re.DOTALL | re.MULTILINE)
    assert section
    ran = aj(*command, "--json")
    found = ran.object
    names = set(found)
    for listed in ("agents", "sessions"):
        names |= set(found[listed][0]) if isinstance(found.get(listed), list) else set()
    as_in_search = set(re.findall(r'"(\w+)":', page("docs/json.md").partition("## sessions")[0]))
    named = set(re.findall(r'["`](\w+)["`]', section[1]))
    assert names - named - (as_in_search if heading in ("sessions", "show") else set()) == set()


def test_every_kind_of_error_is_documented() -> None:
    from agent_journal import errors

    trees = [errors.JournalError, *errors.JournalError.__subclasses__()]
    documented = set(re.findall(r"`(\w+)`", page("docs/json.md").partition("## Errors")[2].partition("## search")[0]))
    assert {tree.kind for tree in trees} - {"error"} - documented == set()


# --- commands quoted in prose ---------------------------------------------------------------------------


BLOCK = re.compile(r"```\w*\n(.*?)```", re.DOTALL)
RUN = re.compile(r"(?:^|&& )(?:\S*/)?(aj [^#\n|>&]*)", re.MULTILINE)  # a line of a block, or its last part
EXAMPLE = re.compile(r"Example:\n +(?:\w+=\w+ )?(aj .*)")


def quoted_commands() -> list[str]:
    """Every `aj …` in code spans and blocks, but for those with an ellipsis."""
    found: list[str] = EXAMPLE.findall(page("docs/cli.md"))
    for path in (ROOT / "README.md", *sorted(DOCS.glob("*.md"))):
        if path.name == "cli.md":
            continue
        text = path.read_text("utf-8")
        found += [line for block in BLOCK.findall(text) for line in RUN.findall(block)]
        found += re.findall(r"`(aj [^`]+)`", BLOCK.sub("", text))
    return sorted({command.strip() for command in found if "…" not in command})


def test_commands_are_found_in_every_page() -> None:
    assert {"aj show 3", "aj doctor", "aj reindex", "aj config edit"} <= set(quoted_commands())


@pytest.mark.parametrize("command", quoted_commands())
def test_every_quoted_command_is_understood(command: str) -> None:
    """Parsed by the program itself; not run, for some would change things."""
    code = (
        "import sys, click, typer; from agent_journal.cli import app\n"
        "from agent_journal.process import as_search, command_names\n"
        "group, words = typer.main.get_command(app), as_search(sys.argv[1:], command_names())\n"
        "context = group.make_context('aj', words)\n"
        "while isinstance(context.command, click.Group):\n"
        "    words = [*getattr(context, '_protected_args', ()), *context.args]\n"
        "    name, command, rest = context.command.resolve_command(context, words)\n"
        # A command's bare name, as prose has it, may lack its arguments.
        "    context = command.make_context(name, rest, parent=context, resilient_parsing=not rest)\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code, *shlex.split(command)[1:]], capture_output=True, text=True, check=False
    )
    assert (ran.returncode, ran.stderr if ran.returncode else "") == (0, "")
