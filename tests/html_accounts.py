"""Accounts for pages: one like any other, one that attacks its reader, and one that is long."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from agent_journal.session import (
    Account,
    Attachment,
    Block,
    Message,
    Origin,
    Role,
    Session,
    Text,
    Thinking,
    ToolCall,
    ToolType,
    Usage,
    derive,
)

START = datetime(2026, 3, 1, 9, 30, tzinfo=UTC)


def account(*messages: Message, **facts: Any) -> Account:
    values = {"key": "claude-code:abc", "id": "abc", "agent": "claude-code", "origin": Origin("/logs/abc.jsonl")}
    session = Session(**{**values, **facts})
    return Account(session, derive(session, messages), messages, tuple(range(1, len(messages) + 1)), resumable=True)


def said(role: Role, *blocks: str | Block, minute: int = 0, **facts: Any) -> Message:
    parts = tuple(Text(block) if isinstance(block, str) else block for block in blocks)
    return Message(role, parts, at=START + timedelta(minutes=minute), **facts)


def user(*blocks: str | Block, **facts: Any) -> Message:
    return said(Role.USER, *blocks, **facts)


def assistant(*blocks: str | Block, **facts: Any) -> Message:
    return said(Role.ASSISTANT, *blocks, **facts)


ANSWER = """The test fails because `total` starts at **1**. See [the docs](https://example.org/a?b=1&c=2).

## What I changed

1. The start value
2. The name

| file | lines |
|:-----|------:|
| `sum.py` | 3 |

```python
def total(values):
    \"\"\"The sum.\"\"\"
    return sum(values)  # from nothing
```

> Quoted, with ~~an error~~ a correction. مرحبا بالعالم
"""


def usual() -> Account:
    edit = ToolCall(
        "t2",
        "Edit",
        ToolType.WRITE,
        {"file_path": "/shop/sum.py", "old_string": "a\ntotal = 1\nb", "new_string": "a\ntotal = 0\nb"},
        "ok",
        True,
        paths=("/shop/sum.py",),
    )
    failed = ToolCall("t1", "Bash", ToolType.SHELL, {"command": "pytest -q | tail"}, "1 failed", False)
    todo = ToolCall(
        "t3",
        "TodoWrite",
        ToolType.TASK,
        {"todos": [{"content": "mend", "status": "completed"}, {"content": "test", "status": "pending"}]},
    )
    fetched = ToolCall("t4", "mcp__shop__list", ToolType.GENERIC, {"ids": [1, 2]}, '{"items": [1, null, "x"]}', True)
    return account(
        user("<system-reminder>be kind</system-reminder>", is_meta=True),
        user("Why does the sum fail?\nIt did not yesterday."),
        assistant(
            Thinking("Perhaps the start value."),
            "Let me look.",
            failed,
            model="claude-opus-4-5",
            minute=1,
            usage=Usage(1200, 34, cache_read_tokens=2_500_000),
        ),
        assistant(edit, todo, model="claude-opus-4-5", minute=2),
        assistant(fetched, ANSWER, model="claude-opus-4-5", minute=3),
        assistant("From the side.", is_sidechain=True, minute=4),
        said(Role.SYSTEM, "The conversation was compacted.", minute=5),
        user("This session continues an earlier one.", is_compaction=True, minute=6),
        user("Thanks. And here?", Attachment("image", "shot.png", "image/png"), minute=1441),
        assistant("API Error: overloaded", is_error=True, minute=1442),
        title="Why the sum fails",
        workspace="/home/me/shop",
        git_branch="fix/sum",
    )


ATTACKS = (
    "<script>window.hacked = 1</script>",
    "</script><script>window.hacked = 1</script>",
    '<img src=x onerror="window.hacked = 1">',
    '--><img src=x onerror="window.hacked = 1">',
    ']]><svg onload="window.hacked = 1"></svg>',
    '<svg><script>window.hacked = 1</script></svg><a xlink:href="javascript:window.hacked=1">x</a>',
    '</details></article></main></body><iframe src="javascript:parent.hacked = 1"></iframe>',
    '"><b onmouseover="window.hacked = 1" style="position:fixed">',
    "' autofocus onfocus='window.hacked = 1",
    "</title></style><style>* { display: none }</style>",
    '<meta http-equiv="refresh" content="0; url=https://evil.example/">',
    '<base href="https://evil.example/"><link rel="stylesheet" href="https://evil.example/x.css">',
    '<form action="https://evil.example/"><input autofocus onfocus="window.hacked=1"></form>',
    "&lt;script&gt; &#x3c;script&#x3e; &amp;",
    "\ud800\udfff lone \udc80 surrogates",
    "\u202egnp.exe\u202c \u2066isolated\u2069 \u200bzero\ufeff \x1b[31mred\x1b[0m \x00\x07\x9b",
)
MARKDOWN_ATTACKS = (
    "[click](javascript:window.hacked=1)",
    "[click](JaVaScRiPt:window.hacked=1) [click](&#106;avascript:window.hacked=1) [click](\tjava\nscript:alert(1))",
    "[click](data:text/html,<script>window.hacked=1</script>) [file](file:///etc/passwd) [v](vbscript:x)",
    "![pixel](https://evil.example/pixel.png) ![x](javascript:window.hacked=1) ![y](data:image/svg+xml,<svg/>)",
    "[![inner](https://evil.example/i.png)](https://evil.example/o)",
    '<javascript:window.hacked=1> <https://example.org/?"onclick=window.hacked=1>',
    "[a]: javascript:window.hacked=1 'x\" onclick=\"window.hacked=1'\n\n[a]",
    '[t](https://example.org/"onmouseover="window.hacked=1 "title\\" onclick=\\"window.hacked=1")',
    '```"><script>window.hacked=1</script>\ncode\n```',
    "```html\n</code></pre><script>window.hacked=1</script>\n```",
    "| a | b |\n|:-:|--:|\n| <script>window.hacked=1</script> | `</td><script>window.hacked=1</script>` |",
    'https://example.org/"><script>window.hacked=1</script>',
    ">" * 60 + " deep",
    "[" * 3000 + "*_" * 500,
)


def hostile() -> Account:
    """The same attacks wherever a log's text can stand."""
    every = "\n\n".join(ATTACKS)
    messages = [user(attack) for attack in (*ATTACKS, *MARKDOWN_ATTACKS)]
    for attack in ATTACKS:
        call = ToolCall(
            attack,
            attack,
            ToolType.SHELL,
            {"command": attack, "file_path": attack, attack: attack, "deep": {attack: [attack]}},
            attack,
            False,
            paths=(attack,),
            agent_session=attack,
            details={attack: attack},
        )
        written = ToolCall(attack, attack, ToolType.WRITE, {"old_string": attack, "new_string": attack + "\n+"}, attack)
        custom = ToolCall(attack, attack, ToolType.GENERIC, attack, "{" + attack + "}", True)
        mine = (Thinking(attack), Attachment(attack, attack, attack, attack), call, written, custom)
        messages.append(assistant(*mine, model=attack, cwd=attack, git_branch=attack, uuid=attack))
    messages.append(user(every, is_meta=True))
    messages.append(assistant("```" + ATTACKS[7] + "\nx\n```", is_sidechain=True))
    attack = ATTACKS[3]
    return account(
        *messages,
        key=f"claude-code:{every}",
        id=every,
        agent=attack,
        title=ATTACKS[9] + attack,
        workspace=f"/x/{ATTACKS[7]}",
        git_branch=attack,
        parent_session_id=attack,
        is_agent_session=True,
    )


def long(messages: int = 1500) -> Account:
    """As much text a message as a real session has: about 5 kB with its tools."""
    output = "".join(f"{n:4} drwxr-xr-x  2 me me 4096 Mar  1 09:30 folder-{n}\n" for n in range(60))
    turns: list[Message] = []
    for n in range(messages):
        if n % 12 == 0:
            turns.append(user(f"Prompt {n}: and what about part {n}?", minute=n))
            continue
        call = ToolCall(f"t{n}", "Bash", ToolType.SHELL, {"command": f"ls -la part-{n} && echo done"}, output, True)
        turns.append(assistant(Thinking(f"Step {n}. " * 20), ANSWER if n % 4 == 0 else f"Step {n}.", call, minute=n))
    return account(*turns, title="A long one")
