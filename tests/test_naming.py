"""What is printed to name a message opens that message, also where ids of sessions hold colons themselves."""

from __future__ import annotations

import json
from pathlib import Path

from process import Aj


def aider(home: Path) -> None:
    """Two sessions of one morning: their ids are the times they began."""
    runs = []
    for start, count in (("2026-06-09 13:05:00", 1), ("2026-06-09 14:16:00", 9)):
        said = (f"#### question {n}  \n\nanswer {n} at {start[11:13]}\n\n" for n in range(1, count + 1))
        runs.append(f"\n# aider chat started at {start}\n\n" + "".join(said))
    path = home / "projects" / "shop" / ".aider.chat.history.md"
    path.parent.mkdir(parents=True)
    path.write_text("".join(runs))


def qwen(home: Path, *more: str) -> None:
    """A session and its sub-agents, whose ids are the session's, a colon and 2b."""
    project = home / ".qwen" / "projects" / "-shop"
    written = {f"subagents/s-12345678/agent-{name}": ("look", "seen") for name in ("2b", *more)}
    for file, texts in ({"chats/s-12345678": ("ask", "reply")} | written).items():
        path = project / f"{file}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        shared = {"sessionId": "s-12345678", "timestamp": "2026-06-01T10:00:00.000Z", "cwd": "/shop"}
        turns = zip(("user", "assistant"), texts, strict=True)
        lines = [shared | {"uuid": t, "type": kind, "message": {"parts": [{"text": t}]}} for kind, t in turns]
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def test_the_name_of_a_hit_opens_the_hit(tmp_path: Path) -> None:
    aider(tmp_path)
    qwen(tmp_path)
    aj = Aj(tmp_path)
    aj("reindex")
    for words, name in (
        ('"answer 8 at 14"', "2026-06-09 14:16:00:16"),
        ("reply", "s-123456:2"),
        ("seen", "s-12345678:2b:2"),
    ):
        (hit,) = aj("search", words, "--mode", "lexical", "--json", "-C", "0").object["matches"]
        shown = aj("show", name, "-C", "0", "--json").object["messages"]
        assert name in aj("search", words, "--mode", "lexical").out
        assert [m["text"] for m in shown] == [hit["message"]["text"]]
    whole = aj("show", "s-12345678:2", "-C", "0", "--json").object  # also the beginning of the sub-agent's id
    assert [m["text"] for m in whole["messages"]] == ["reply"]


def test_an_id_with_a_space_is_shown_whole_and_may_be_typed_in_part(tmp_path: Path) -> None:
    aider(tmp_path)
    aj = Aj(tmp_path)
    aj("reindex")
    assert [line[:21] for line in aj("sessions").lines[::2]] == ["2026-06-09 14:16:00  ", "2026-06-09 13:05:00  "]
    typed = [aj("show", name, "-C", "0", "--json").object for name in ("2026-06-09 14:16", "2026-06-09 14:16:00:16")]
    assert typed[0]["messages"] == typed[1]["messages"]


def test_a_whole_id_is_never_taken_for_a_message_of_another_session(tmp_path: Path) -> None:
    aider(tmp_path)
    aj = Aj(tmp_path)
    aj("reindex")
    shown = aj("show", "2026-06-09 14:16:00", "--json").object
    assert (shown["session"]["id"], len(shown["messages"])) == ("2026-06-09 14:16:00", 18)


def test_the_beginning_of_an_id_names_the_session_however_many_sub_agents_it_has(tmp_path: Path) -> None:
    qwen(tmp_path, "3c", "4d", "5e", "6f", "7a")
    aj = Aj(tmp_path)
    aj("reindex")
    shown = [aj("show", name, "--json").object["session"]["id"] for name in ("s-123456", "qwen:s-1")]
    assert shown == ["s-12345678"] * 2
    # So that is all of it that is printed. A sub-agent needs as much of its own as tells it from the others.
    names = {line.split()[0] for line in aj("sessions").lines[::2]}
    assert names == {"s-123456", *(f"s-12345678:{letter}" for letter in ("2b", "3c", "4d", "5e", "6f", "7a"))}
    assert "s-123456:2" in aj("search", "reply", "--mode", "lexical").out
