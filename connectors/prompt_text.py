"""Which texts of a user record a person typed, and which Claude Code put there; SpecStory's pages repeat both.

Pure: opens no file.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from typing import Any

from agent_journal.connectors.blocks import Stamp, attachment, block
from agent_journal.session import Attachment, Block, Text

MOST_TAGS = 50  # each that is never closed is looked for to the end of the text
COMMAND_CHARS = 100_000  # matching tags in a longer text is not worth the time it can take
QUOTE_CHARS = 2000  # a longer selection is a file, which the agent reads for itself

# No person starts a prompt like this: the program wrote it, or echoes what it did.
_INJECTED = (
    "<local-command-stdout>",
    "<local-command-stderr>",
    "<local-command-caveat>",
    "Caveat: The messages below",
    "<bash-input>",
    "<bash-stdout>",
    "<bash-stderr>",
    "<system-reminder>",
    "<task-notification>",
    "[Request interrupted by user",
    "This session is being continued",
    "Stop hook feedback:",
    "<teammate-message",
    "<agent-message",
)
_COMMAND = ("<command-name>", "<command-message>", "<command-args>")
_COMMAND_PART = re.compile(r"<command-(name|message|args)>(.*?)</command-\1>", re.DOTALL)
_LEADING = re.compile(r"\s*<(system-reminder|ide_opened_file|ide_selection)>(.*?)</\1>\s*", re.DOTALL)
_IDE_FILE = re.compile(r"(?:opened the file|lines \d+ to \d+ from) (.+?)(?: in the IDE|:?\s*$|:\n)", re.MULTILINE)
_TASK = re.compile(r"<task-id>([^<]{1,200})</task-id>\s*<tool-use-id>([^<]{1,200})</tool-use-id>")


def is_injected(text: str) -> bool:
    return text.lstrip()[:40].startswith((*_INJECTED, *_COMMAND))


def readable_command(text: str) -> str:
    """`<command-name>/init</command-name>…` as a person would type it: `/init args`."""
    if not text.lstrip()[:20].startswith(_COMMAND):
        return text
    if len(text) > COMMAND_CHARS or text.count("<command-") > MOST_TAGS:
        return text
    parts = {m[1]: m[2].strip() for m in _COMMAND_PART.finditer(text)}
    name = parts.get("name") or parts.get("message")
    if not name:
        return text
    rest = _COMMAND_PART.sub("", text).strip()
    line = " ".join(filter(None, ("/" + name.lstrip("/"), parts.get("args"))))
    return f"{line}\n\n{rest}" if rest else line


def spoken(parts: Iterable[Any], stamp: Stamp, skipped: Counter[str]) -> tuple[list[Block], bool]:
    """The blocks of a user record, and whether all its text was put there by the program."""
    blocks: list[Block] = []
    injected = typed = False
    for raw in parts:
        made = block(raw, stamp, skipped)
        if not isinstance(made, Text):
            blocks += [made] if made is not None else []
            continue
        rest, before = _without_leading(made, stamp, skipped)
        blocks += before
        if rest is None:
            injected = True
            continue
        if is_injected(rest):
            injected = True
            rest = readable_command(rest)
        else:
            typed = True
        blocks.append(Text(rest, *stamp))
    return blocks, injected and not typed


def _without_leading(made: Text, stamp: Stamp, skipped: Counter[str]) -> tuple[str | None, list[Block]]:
    """Reminders before a prompt are counted and left out, what the editor showed becomes an attachment.

    A text of nothing but reminders is kept as it is: it is all its record says.
    """
    before: list[Block] = []
    place = reminders = 0
    while found := _LEADING.match(made.text, place):
        if found[1] == "system-reminder":
            reminders += 1
        else:
            before.append(_shown_in_editor(found[1], found[2].strip(), stamp))
        place = found.end()
    rest = made.text[place:]
    if not rest.strip() and not before:
        return made.text, []
    if reminders:
        skipped["block/system-reminder"] += reminders
    return rest if rest.strip() else None, before


def _shown_in_editor(tag: str, text: str, stamp: Stamp) -> Attachment:
    file = _IDE_FILE.search(text[:QUOTE_CHARS])
    kind = "file" if tag == "ide_opened_file" else "selection"
    return attachment(kind, file[1] if file else None, None, stamp, text[:QUOTE_CHARS])


def task_link(text: str) -> tuple[str, str] | None:
    """(agent id, tool call id) out of a notice that a background task ended."""
    if not text.startswith("<task-notification>"):
        return None
    found = _TASK.search(text[:2000])
    return (found[1].strip(), found[2].strip()) if found else None
