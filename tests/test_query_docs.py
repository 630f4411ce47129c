"""docs/query.md is true: its messages become session files and a journal, and each of its rows is asked."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from datetime import UTC, date, datetime, time
from pathlib import Path
from typing import Any

import logs
import pytest
from journals import words_only

from agent_journal.config import load
from agent_journal.connectors.registry import SOURCE_KEYS
from agent_journal.errors import BadQuery
from agent_journal.query import FIELDS, parse
from agent_journal.search import Journal

PAGE = (Path(__file__).parents[1] / "docs" / "query.md").read_text(encoding="utf-8")
MESSAGES: dict[str, dict[str, Any]] = tomllib.loads(PAGE.split("```toml\n")[1].split("```")[0])


def table(header: str) -> list[list[str]]:
    lines = PAGE.split(f"| {header} |\n")[1].splitlines()[1:]
    rows = lines[: next((i for i, line in enumerate(lines) if not line.startswith("|")), None)]
    return [[cell.strip() for cell in row.removeprefix("|").removesuffix("|").split("|")] for row in rows]


EXAMPLES = [(query.strip("`"), finds, misses) for query, finds, misses in table("query | finds | does not find")]


def names(cell: str) -> set[str]:
    return set(re.findall(r"\bm\d+\b", cell))


# --- the page's messages as agents write them -----------------------------------------------------------


def timestamp(of: date | str) -> str:
    """Noon on this machine's clock, so that the day is the same wherever the test runs."""
    at = datetime.combine(of, time(12)).astimezone(UTC) if isinstance(of, date) else datetime.now(UTC)
    return at.isoformat().replace("+00:00", "Z")


def write_claude(home: Path, name: str, facts: dict[str, Any]) -> None:
    cwd = f"/home/ana/{facts['project']}"
    session = f"session-of-{name}"
    common = {
        "cwd": cwd,
        "sessionId": session,
        "gitBranch": facts.get("branch", "main"),
        "timestamp": timestamp(facts["date"]),
        "isSidechain": "subagent" in facts,
    }
    blocks = [logs.thinking(facts["thinking"])] if "thinking" in facts else []
    blocks += [logs.text(facts["text"])] if "text" in facts else []
    blocks += [logs.tool_use("t1", facts["tool"], command=facts["input"])] if "tool" in facts else []
    if facts["role"] == "user":
        records = [logs.user(name, facts["text"], **common)]
    else:
        records = [logs.assistant(name, *blocks, message={"model": facts["model"]}, **common)]
    if "output" in facts:
        result = logs.tool_result("t1", facts["output"], is_error="failed" in facts)
        records.append(logs.user(f"{name}-result", [result], **common))
    if "title" in facts:
        records.append({"type": "ai-title", "aiTitle": facts["title"], "sessionId": session})
    folder = home / ".claude" / "projects" / cwd.replace("/", "-")
    if "subagent" in facts:
        folder = folder / session / "subagents"
    logs.write(folder / f"{'agent-' if 'subagent' in facts else ''}{session}.jsonl", *records)


def write_copilot(home: Path, name: str, facts: dict[str, Any]) -> None:
    context = {"cwd": f"/home/ana/{facts['project']}", "branch": facts.get("branch", "main")}
    start = {"sessionId": name, "copilotVersion": "1.0.63", "context": context}
    said: dict[str, Any] = {"content": facts["text"]}
    events: list[tuple[str, dict[str, Any]]] = [("session.start", start)]
    if facts["role"] == "user":
        events.append(("user.message", said))
    else:
        call = {"toolCallId": "t1", "name": facts["tool"], "arguments": {"path": facts["file"]}}
        events.append(("assistant.message", said | {"model": facts["model"], "toolRequests": [call]}))
        done = {"toolCallId": "t1", "success": True, "result": {"content": "ok"}}
        events.append(("tool.execution_complete", done))
    path = home / ".copilot" / "session-state" / name / "events.jsonl"
    path.parent.mkdir(parents=True)
    with path.open("w", encoding="utf-8") as file:
        for number, (kind, data) in enumerate(events, 1):
            record = {
                "type": kind,
                "id": f"{name}-{number}",
                "timestamp": timestamp(facts["date"]),
                "data": data,
            }
            file.write(json.dumps(record) + "\n")


WRITERS = {"claude": write_claude, "copilot": write_copilot}


@pytest.fixture(scope="module")
def journal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Journal]:
    home = tmp_path_factory.mktemp("home")
    for name, facts in MESSAGES.items():
        WRITERS[facts["agent"]](home, name, facts)
    environ = {"HOME": str(home), "AJ_HOME": str(home / "aj")}
    with Journal.open(words_only(load(environ, SOURCE_KEYS)), environ) as opened:
        opened.reindex()
        yield opened


def found(journal: Journal, query: str) -> set[str]:
    matches = journal.search(parse(query), refresh=False, limit=50).matches
    return {str(match.message.message.uuid).partition("-")[0] for match in matches}


# --- what the page says ---------------------------------------------------------------------------------


def test_the_journal_holds_the_messages_of_the_page_and_no_others(journal: Journal) -> None:
    answer = journal.search(parse(""), refresh=False, limit=50)
    assert (answer.coverage.sessions, answer.coverage.messages) == (len(MESSAGES), len(MESSAGES))


@pytest.mark.parametrize(("query", "finds", "misses"), EXAMPLES, ids=[query for query, _, _ in EXAMPLES])
def test_an_example_finds_what_the_page_says(journal: Journal, query: str, finds: str, misses: str) -> None:
    assert found(journal, query) == names(finds)
    assert names(misses) <= MESSAGES.keys() - names(finds)


def test_the_whole_path_comes_before_its_parts(journal: Journal) -> None:
    matches = journal.search(parse("src/http/header.py"), refresh=False).matches
    assert matches[0].message.message.uuid == "m7-2"


@pytest.mark.parametrize(("query", "answer"), table("query | answer"))
def test_a_mistake_is_answered_as_the_page_says(query: str, answer: str) -> None:
    with pytest.raises(BadQuery) as caught:
        parse(query.strip("`"))
    assert caught.value.message == answer


def test_every_filter_is_on_the_page() -> None:
    explained = " ".join(cell for cell, _ in table("filter | narrows to"))
    assert [name for name in FIELDS if f"`{name}:" not in explained] == []
