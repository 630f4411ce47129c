"""Which words of a Claude Code transcript a person said, and which the program put there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from logs import chain, messages, queued, read, system, text, transcript, user

from agent_journal.session import Attachment, Role, derive


@pytest.mark.parametrize(
    ("content", "shown"),
    [
        ("<command-name>/init</command-name><command-args>fast</command-args>", "/init fast"),
        ("<command-message>init</command-message>\n<command-name>/init</command-name>", "/init"),
        ("<local-command-stdout>ok</local-command-stdout>", "<local-command-stdout>ok</local-command-stdout>"),
        ("Caveat: The messages below were generated", "Caveat: The messages below were generated"),
        ("<bash-input>ls</bash-input>", "<bash-input>ls</bash-input>"),
        ("<system-reminder>be brief</system-reminder>", "<system-reminder>be brief</system-reminder>"),
        ("[Request interrupted by user for tool use]", "[Request interrupted by user for tool use]"),
        ("This session is being continued from", "This session is being continued from"),
        ("Stop hook feedback: no", "Stop hook feedback: no"),
        ('<teammate-message from="x">hi', '<teammate-message from="x">hi'),
        ("<task-notification>done</task-notification>", "<task-notification>done</task-notification>"),
    ],
)
def test_injected_user_text_is_kept_as_meta_and_titles_nothing(tmp_path: Path, content: str, shown: str) -> None:
    found = transcript(tmp_path, user("1", content), user("2", "real prompt"))
    assert [(m.text, m.is_meta) for m in found.messages] == [(shown, True), ("real prompt", False)]
    assert derive(found.session, found.messages).title == "real prompt"


@pytest.mark.parametrize(
    "fields", [{"isMeta": True}, {"isVisibleInTranscriptOnly": True}, {"origin": {"kind": "task-notification"}}]
)
def test_record_marked_as_injected_is_meta(tmp_path: Path, fields: dict[str, Any]) -> None:
    (found,) = messages(tmp_path, user("1", "Continue.", **fields))
    assert found.is_meta


def test_leading_reminders_are_stripped_and_what_the_editor_showed_is_attached(tmp_path: Path) -> None:
    shown = "<ide_opened_file>The user opened the file /a/cart.ts in the IDE.</ide_opened_file>"
    reading = read(tmp_path, user("1", f"<system-reminder>x</system-reminder>\n{shown}\nfix this"))
    (found,) = reading.transcripts[0].messages
    assert (found.text, found.is_meta) == ("fix this", False)
    assert [(b.kind, b.name) for b in found.blocks if isinstance(b, Attachment)] == [("file", "/a/cart.ts")]
    assert reading.skipped == {"block/system-reminder": 1}


def test_compaction_summary_is_a_system_message_below_the_boundarys_real_parent(tmp_path: Path) -> None:
    boundary = system("2", "compact_boundary", "Conversation compacted", logicalParentUuid="1")
    (_, mark, summary) = messages(
        tmp_path,
        user("1", "long talk"),
        boundary,
        user("3", "This session is being continued …", parent="2", isCompactSummary=True),
    )
    assert (mark.role, mark.is_meta, mark.is_compaction, mark.parent_uuid) == (Role.SYSTEM, True, False, "1")
    assert (summary.role, summary.is_meta, summary.is_compaction) == (Role.SYSTEM, True, True)


def test_system_records_are_meta_but_a_recap_is_to_be_read(tmp_path: Path) -> None:
    reading = read(
        tmp_path,
        user("0", "hi"),
        system("1", "local_command", "<command-name>/rename</command-name><command-args>cart bug</command-args>"),
        system("2", "away_summary", "You fixed the cart."),
        system("3", "turn_duration", None),
        chain("system", "4", None, subtype="api_error", level="error", error={"status": 529, "message": "busy"}),
    )
    found = reading.transcripts[0].messages[1:]
    assert [(m.text, m.is_meta, m.is_error) for m in found] == [
        ("/rename cart bug", True, False),
        ("You fixed the cart.", False, False),
        ("API error 529: busy", True, True),
    ]
    assert reading.skipped == {"system/turn_duration": 1}


def test_queued_command_is_a_prompt_unless_the_program_queued_it(tmp_path: Path) -> None:
    reading = read(
        tmp_path,
        user("0", "hi"),
        {"type": "queue-operation", "operation": "enqueue", "content": "also refunds"},
        queued("1", "also refunds", commandMode="prompt"),
        queued("2", [text("as blocks")], origin={"kind": "human"}),
        queued("3", "x", isMeta=True),
        queued("4", "y", commandMode="task-notification"),
        queued("5", "z", origin={"kind": "coordinator"}),
        chain("attachment", "6", None, attachment={"type": "skill_listing", "content": "…"}),
        {"type": "attachment", "attachment": {"type": "queued_command", "prompt": "without uuid"}},
    )
    found = reading.transcripts[0].messages[1:]
    assert [(m.role, m.text, m.is_meta) for m in found] == [
        (Role.USER, "also refunds", False),
        (Role.USER, "as blocks", False),
        (Role.USER, "x", True),
        (Role.USER, "y", True),
        (Role.USER, "z", True),
        (Role.USER, "without uuid", False),
    ]
    assert reading.skipped == {"queue-operation": 1, "attachment/skill_listing": 1}
