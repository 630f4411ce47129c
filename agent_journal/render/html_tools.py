"""One tool use as a fold: a line that says what was done, and inside it what went in and what came out.

Nothing of a log enters but through html_text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from difflib import unified_diff
from typing import Any

from msgspec import structs

from agent_journal.render.html_code import language_of
from agent_journal.render.html_text import code, difference, prose, safe, safe_line, verbatim
from agent_journal.render.message import as_text, call_gist, spelled
from agent_journal.session import ToolCall, ToolType

ABOUT_CHARS = 160
SHORT_CHARS = 90  # an argument that stands beside its name
DIFF_LINES = 300  # difflib takes cubic time at worst; longer edits are shown as all out, all in
_PATCH = re.compile(r"\A(?:diff --git |\*\*\* Begin Patch|--- \S)|^@@ -\d", re.MULTILINE)
_LOOKED_AT = 4000  # characters that tell what kind of text it is
_JSON = re.compile(r"\A\s*[\[{].*[\]}]\s*\Z", re.DOTALL)
_EDITS = (("old_string", "new_string"), ("old_str", "new_str"), ("oldText", "newText"))


def tool(call: ToolCall, cwd: str | None) -> Iterator[str]:
    failed = call.success is False
    about = call_gist(structs.replace(call, name="", success=None), cwd, ABOUT_CHARS)
    name = safe_line(call.name) or "tool"
    mark = '<span class="mark bad">failed</span>' if failed else ""
    if call.success is None and call.result is None:
        mark = '<span class="mark">no result</span>'
    yield f'<details class="fold tool {call.type}{" failed" if failed else ""}">'
    yield f'<summary><b>{name}</b> <span class="about">{safe_line(about)}</span>{mark}</summary>'
    yield from _input(call)
    yield from _output(call)
    yield "</details>"


# --- what went in ---------------------------------------------------------------------------------------


def _input(call: ToolCall) -> Iterator[str]:
    given = call.arguments
    if isinstance(given, dict):
        yield from _arguments(call, dict(given))
    elif isinstance(given, str):
        yield _command(given) if call.type is ToolType.SHELL else _text(given)
    elif given is not None:
        yield as_json(given)


def _arguments(call: ToolCall, left: dict[str, Any]) -> Iterator[str]:
    """What has a form of its own first, then the rest by name."""
    language = language_of(call.paths[0]) if call.paths else ""
    for name, draw in _FORMS.items():
        text = as_text(left.get(name))
        if text.strip():
            del left[name]
            yield draw(text, language)
    for old, new in _edits(left):
        yield difference(_changed(old, new))
    for name in ("todos", "plan"):
        if tasks := _tasks(left.get(name)):
            del left[name]
            yield tasks
    yield from _named(left)


_FORMS: dict[str, Callable[[str, str], str]] = {
    "command": lambda text, _: _command(text),
    "cmd": lambda text, _: _command(text),
    "content": code,
    "file_text": code,
    "new_source": code,
    "patch": lambda text, _: _text(text),
    "plan": lambda text, _: prose(text),
    "prompt": lambda text, _: prose(text, breaks=True),
}


def _edits(left: dict[str, Any]) -> Iterator[tuple[str, str]]:
    several = left.get("edits")
    if isinstance(several, list) and several and all(isinstance(edit, dict) for edit in several):
        found = [pair for edit in several for pair in _edits(dict(edit))]
        if len(found) == len(several):
            del left["edits"]
            yield from found
    for old, new in _EDITS:
        if isinstance(left.get(old), str) and isinstance(left.get(new), str):
            yield left.pop(old), left.pop(new)


def _changed(old: str, new: str) -> str:
    before, after = old.split("\n"), new.split("\n")
    if len(before) + len(after) > DIFF_LINES:
        return "\n".join([f"-{line}" for line in before] + [f"+{line}" for line in after])
    lines = list(unified_diff(before, after, lineterm="", n=3))[2:]
    if sum(line.startswith("@@") for line in lines) == 1:
        del lines[0]  # the place within the edit says nothing about the place within the file
    return "\n".join(lines)


_DONE = {"completed": "☑", "done": "☑", "in_progress": "▸", "cancelled": "☒"}


def _tasks(value: Any) -> str:
    if not isinstance(value, list) or not value:
        return ""
    lines = []
    for task in value:
        name = task.get("content") or task.get("step") or task.get("description") if isinstance(task, dict) else None
        if not isinstance(name, str):
            return ""
        lines.append(f"{_DONE.get(str(task.get('status')), '☐')} {name}")
    return verbatim("\n".join(lines), "tasks")


def _named(left: Mapping[str, Any]) -> Iterator[str]:
    short = {name: value for name, value in left.items() if _is_short(value)}
    if short:
        rows = (f"<dt>{safe_line(str(k))}</dt><dd>{safe_line(spelled(v))}</dd>" for k, v in short.items())
        yield f'<dl class="named">{"".join(rows)}</dl>'
    for name, value in left.items():
        if name not in short:
            yield f'<p class="label">{safe_line(str(name))}</p>'
            yield _text(value) if isinstance(value, str) else as_json(value)


def _is_short(value: Any) -> bool:
    if isinstance(value, str):
        return len(value) <= SHORT_CHARS and "\n" not in value
    return value is None or isinstance(value, (bool, int, float)) or value in ([], {})


def as_json(value: Any) -> str:
    for indent in (2, None):  # without an indent the encoder is not recursive Python
        try:
            return code(json.dumps(value, ensure_ascii=False, indent=indent, default=str), "json")
        except RecursionError:
            continue
    return verbatim("(nested too deeply to be written)")


def _command(text: str) -> str:
    return code(text, "bash", "command")


def _text(text: str) -> str:
    return difference(text) if _PATCH.search(text[:_LOOKED_AT]) else verbatim(text)


# --- what came out --------------------------------------------------------------------------------------


def _output(call: ToolCall) -> Iterator[str]:
    facts = [f"{safe_line(name)} {safe_line(spelled(v))}" for name, v in call.details.items() if v and _is_short(v)]
    if call.agent_session:
        facts.append(f'sub-agent session <code class="whole">{safe(call.agent_session)}</code>')
    if facts:
        yield f'<p class="label">{" · ".join(facts)}</p>'
    result = call.result or ""
    if not result.strip():
        if call.result is not None:
            yield '<p class="label">no output</p>'
        return
    if call.agent_session:
        yield prose(result)
    elif _JSON.match(result):
        yield code(result, "json")
    else:
        yield _text(result)
