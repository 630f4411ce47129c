"""Writes docs/cli.md from the commands' own help: `python docs/generate.py`. A test holds the two together."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click
import typer

from agent_journal.cli import app

PAGE = Path(__file__).with_name("cli.md")
WIDTH = 80
HEAD = "# The commands of aj\n\nMade from `--help` by `python docs/generate.py`; change the help, not this page.\n"


def sections(command: click.Command, name: str, parent: click.Context | None = None) -> Iterator[str]:
    context = click.Context(
        command, info_name=name, parent=parent, max_content_width=WIDTH, terminal_width=WIDTH,
        help_option_names=["-h", "--help"],
    )  # fmt: skip
    yield f"\n## {context.command_path}\n\n```\n{command.get_help(context)}\n```\n"
    if isinstance(command, click.Group):
        for inner, subcommand in command.commands.items():
            yield from sections(subcommand, inner, context)


def reference() -> str:
    return HEAD + "".join(sections(typer.main.get_command(app), "aj"))


if __name__ == "__main__":
    PAGE.write_text(reference(), encoding="utf-8")
