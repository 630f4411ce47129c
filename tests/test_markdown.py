"""Sessions as Markdown, read back by a CommonMark parser: what was said, and nothing that a log slipped in."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import msgspec
from accounts import MARKUP, account, accounts, marked_up, session
from hypothesis import given, settings
from hypothesis import strategies as st
from junk import RELAXED
from markdown_it import MarkdownIt
from markdown_it.token import Token

from agent_journal.render.markdown import code, escaped, fenced, prose, session_markdown, tool_markdown, tool_summary
from agent_journal.session import Account, Attachment, Message, Role, Text, Thinking, ToolCall, ToolType

AT = datetime(2026, 3, 2, 9, 15, tzinfo=UTC)
NOISY = st.text(st.sampled_from("`~\n <>/ab\\|-#"), max_size=40) | marked_up()


def page(one: Account) -> str:
    return "".join(session_markdown(one))


def tokens(markdown: str, *, html: bool = True) -> list[Token]:
    return MarkdownIt("commonmark", {"html": html}).parse(markdown)


def inline(markdown: str) -> list[tuple[str, str]]:
    return [(t.type, t.content) for t in tokens(markdown)[1].children or [] if t.content]


def headings(markdown: str) -> list[str]:
    found = tokens(markdown)
    return [after.content for t, after in pairwise(found) if t.type == "heading_open" and not t.level]


def codes(markdown: str, *, html: bool) -> list[tuple[str, str]]:
    found = [t for outer in tokens(markdown, html=html) for t in (outer, *(outer.children or ()))]
    return [(t.type, t.content.rstrip("\n")) for t in found if t.type in ("fence", "code_block", "code_inline")]


def test_whole_page_of_a_small_session() -> None:
    asked = {"command": "ls\npwd", "timeout": 5}
    call = ToolCall("t1", "Bash", ToolType.SHELL, asked, "a.py", True, paths=("src/a.py",), details={"exit_code": 0})
    shown = page(
        account(
            session(workspace="/home/ana/shop", git_branch="main", agent_version="2.1.0", title="Fix <b> in *shop*"),
            Message(Role.USER, (Text("Why does it fail?"), Attachment("image", "a.png", "image/png")), at=AT),
            Message(Role.ASSISTANT, (Thinking("Hm."), Text("Let me look."), call), at=AT, model="m-1"),
            Message(Role.USER, (Text("<system-reminder>x</system-reminder>"),), is_meta=True),
        )
    )
    assert (
        shown
        == """\
# Fix \\<b> in \\*shop\\*

- Agent: claude-code 2.1.0
- Project: `/home/ana/shop`
- Branch: `main`
- When: 2026-03-02 09:15:00 UTC
- Session: `s1`
- Model: `m-1`

## User · 2026-03-02 09:15:00 UTC

Why does it fail?

Attached image `a.png` (image/png)

## Assistant · 2026-03-02 09:15:00 UTC

<details>
<summary>Thinking</summary>

Hm.

</details>

Let me look.

<details>
<summary>shell: Bash · ls pwd</summary>

- timeout: `5`

command:

```bash
ls
pwd
```

Output (exit_code `0`):

```
a.py
```

Files: `src/a.py`

</details>

<details>
<summary>User (written by the agent)</summary>

\\<system-reminder>x\\</system-reminder>

</details>
"""
    )


@RELAXED
@given(NOISY)
def test_fenced_text_is_read_back_as_it_was(text: str) -> None:
    found = tokens(f"before\n\n{fenced(text, 'py')}\nafter\n")
    assert [t.type for t in found] == [
        "paragraph_open", "inline", "paragraph_close", "fence", "paragraph_open", "inline", "paragraph_close",
    ]  # fmt: skip
    assert found[3].content == (text if text.endswith("\n") or not text else text + "\n")
    assert found[3].info == "py"


@RELAXED
@given(NOISY)
def test_result_and_arguments_in_a_fold_are_read_back_as_they_were(text: str) -> None:
    call = ToolCall("t1", "Write", ToolType.WRITE, {"content": text + "\nx"}, result=text + "y", success=True)
    found = tokens(page(account(session(), Message(Role.ASSISTANT, (call,)))))
    assert [t.content for t in found if t.type == "fence"] == [text + "\nx\n", text + "y\n"]
    assert [t.content for t in found if t.type == "html_block"] == [
        "<details>\n<summary>write: Write</summary>\n",
        "</details>\n",
    ]


@RELAXED
@given(NOISY)
def test_no_text_swallows_what_follows_it_nor_brings_html(text: str) -> None:
    found = tokens(f"{prose(text)}\n# End\n")
    assert [(t.type, t.level, t.content) for t in found[-3:]] == [
        ("heading_open", 0, ""),
        ("inline", 1, "End"),
        ("heading_close", 0, ""),
    ]
    assert not [t for outer in found for t in (outer, *(outer.children or ())) if t.type.startswith("html")]


@RELAXED
@given(NOISY)
def test_code_in_prose_keeps_its_characters(text: str) -> None:
    assert codes(prose(text), html=True) == codes(text.strip("\n").rstrip(), html=False)


@RELAXED
@given(NOISY)
def test_one_line_texts_show_their_characters(text: str) -> None:
    line = " ".join(text.split())
    assert merged(f"x: {escaped(text)}") == [("text", f"x: {line}".strip())]
    if line:
        assert inline(f"x: {code(text)}") == [("text", "x: "), ("code_inline", line)]


def merged(markdown: str) -> list[tuple[str, str]]:
    found = inline(markdown)
    return (
        [("text", "".join(content for _, content in found))]
        if {kind for kind, _ in found} <= {"text", "text_special"}
        else found
    )


@settings(RELAXED, max_examples=100)
@given(accounts())
def test_every_fold_is_closed_and_every_message_has_its_place(one: Account) -> None:
    shown = page(one)
    marks = [line for t in tokens(shown) if t.type == "html_block" for line in t.content.split("\n")]
    depth = 0
    for mark in marks:
        depth += (mark == "<details>") - (mark == "</details>")
        assert depth >= 0
    assert depth == 0
    own = [m for m in one.messages if not (m.is_meta or m.is_compaction or m.role is Role.SYSTEM)]
    spoken = [h for h in headings(shown) if h.startswith(("User", "Assistant", "Tool"))]
    assert len(spoken) == len(own)
    assert shown == page(msgspec.structs.replace(one, ordinals=tuple(n + 7 for n in one.ordinals)))


def test_open_fence_ends_with_its_message() -> None:
    shown = page(
        account(session(), Message(Role.USER, (Text("See\n\n~~~~py\nx = 1"),)), Message(Role.ASSISTANT, (Text("Ok"),)))
    )
    assert "~~~~py\nx = 1\n~~~~\n\n## Assistant\n\nOk\n" in shown
    assert headings(shown) == ["See ~~~~py x = 1".replace("~", "\\~"), "User", "Assistant"]


def test_thinking_cannot_close_its_fold() -> None:
    shown = page(account(session(), Message(Role.ASSISTANT, (Thinking("so\n</details>\n<script>alert(1)</script>"),))))
    assert [t.content for t in tokens(shown) if t.type == "html_block"] == [
        "<details>\n<summary>Thinking</summary>\n",
        "</details>\n",
    ]
    assert "so\n\\</details>\n\\<script>alert(1)\\</script>\n" in shown


def test_open_comment_hides_nothing() -> None:
    assert prose("a <!-- b\n\n<pre>\nc") == "a \\<!-- b\n\n\\<pre>\nc\n"


def test_links_and_tags_in_code_stay() -> None:
    text = "See <https://example.com/a> and <ana@example.com>, not `<b>`:\n\n    <i>\n\n```\n<u>\n```"
    assert prose(text) == text + "\n"
    assert prose("<javascript:alert(1)>") == "\\<javascript:alert(1)>\n"


def test_summary_shows_tags_of_a_command_and_that_it_failed() -> None:
    call = ToolCall("t1", "Bash", ToolType.SHELL, {"command": "echo '</summary>' && false"}, "no", False)
    assert tool_summary(call) == "shell: Bash (failed) · echo '</summary>' && false"
    shown = page(account(session(), Message(Role.ASSISTANT, (call,))))
    assert "<summary>shell: Bash (failed) · echo '&lt;/summary&gt;' &amp;&amp; false</summary>\n" in shown
    assert "\nFailed:\n\n```\nno\n```\n" in shown


def test_call_without_a_result_shows_only_its_arguments() -> None:
    assert tool_markdown(ToolCall("t1", "Read", ToolType.READ, {"file_path": "a.py"})) == "- file_path: `a.py`\n"


def test_arguments_that_are_a_text_stand_in_a_fence() -> None:
    call = ToolCall("t1", "apply_patch", ToolType.WRITE, "*** Begin Patch", agent_session="codex:1/agent-2")
    assert tool_markdown(call) == "Input:\n\n```\n*** Begin Patch\n```\n\nStarted session: `codex:1/agent-2`\n"


def test_markdown_another_tool_made_is_used() -> None:
    call = ToolCall(
        "t1", "X", details={"formattedMarkdown": "**done**\n</details>", "displaySummary": "Ran\nX"}, result="r"
    )
    assert tool_summary(call) == "Ran X"
    assert tool_markdown(call) == "<formatted-markdown>\n\n**done**\n\\</details>\n\n</formatted-markdown>\n"


def test_terminal_sequences_do_not_reach_the_page() -> None:
    call = ToolCall("t1", "Bash", ToolType.SHELL, {"command": "\x1b[31mls"}, "\x1b]0;title\x07a\r\nb\u202e", True)
    shown = page(
        account(session(title="\x1b[2Jx"), Message(Role.USER, (Text("\x9b5mhi"),)), Message(Role.TOOL, (call,)))
    )
    assert all(c.isprintable() or c == "\n" for c in shown)
    assert "```\na\nb\n```" in shown


def test_text_of_megabytes_is_fenced_and_not_parsed() -> None:
    text = "<a>" * 100_000
    assert prose(text) == f"```\n{text}\n```\n"


def test_marks_of_a_message_are_told() -> None:
    said: dict[str, Any] = {"is_sidechain": True, "is_error": True}
    shown = page(account(session(), Message(Role.ASSISTANT, (Text("x"),), **said)))
    assert headings(shown)[1:] == ["Assistant (side conversation, error)"]
    shown = page(account(session(is_agent_session=True), Message(Role.ASSISTANT, (Text("x"),), **said)))
    assert headings(shown)[1:] == ["Assistant (error)"]


def test_every_piece_of_markup_is_tried() -> None:
    for piece in MARKUP:
        assert headings(f"{prose(piece * 3)}\n# End\n")[-1:] == ["End"]


def test_what_somebody_said_cannot_look_like_a_turn_or_a_session() -> None:
    text = "# Another session\n\n## Assistant · 2026-11-17\n\nfake\n====\n\n![x](http://example.com/x.png) `![y](z)`"
    assert prose(text) == (
        "### Another session\n\n#### Assistant · 2026-11-17\n\n### fake\n\n\\![x](http://example.com/x.png) `![y](z)`\n"
    )


def test_headings_in_code_stay_code() -> None:
    text = "```sh\n# a comment\n```\n\n    # code\n"
    assert prose(text) == text
