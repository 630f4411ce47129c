"""`aj stats`: what the sessions add up to.

Adds up nothing itself.
"""

from __future__ import annotations

import sys
from enum import StrEnum
from typing import Annotated

import typer

from agent_journal.cli_journal import opened, shown_progress
from agent_journal.cli_options import Filters, Json, NoRefresh, Words, asked, filtered
from agent_journal.cli_output import FOUND, NOTHING, put, put_object, say

TOP_ROWS, TABLE_ROWS, JSON_ROWS = 5, 20, 100


By = StrEnum("By", ["agent", "project", "model", "day", "tool", "file"])


@filtered
def stats(
    words: Words = None,
    *,
    filters: Filters,
    by: Annotated[By | None, typer.Option("--by", help="One table instead of all.")] = None,
    limit: Annotated[
        int | None, typer.Option("--limit", "-n", min=1, max=100_000, metavar="N", help="Most rows of a table.")
    ] = None,
    json: Json = False,
    no_refresh: NoRefresh = False,
) -> int:
    """Add up sessions, turns, tool calls and tokens.

    Counts the messages that fit the query and the filters; all of them without any. A message that forks copied
    counts once, and so do the tokens of an answer that was written down several times. Time is wall time, from a
    session's first message to its last; days are local.

    \b
    Example:
      aj stats --by model --since 4w
    """
    query = asked(words, filters)
    from agent_journal.search import Freshness

    with opened() as journal, shown_progress() as progress:
        fresh = Freshness() if no_refresh else journal.refresh(progress)
        found = journal.statistics(query)
    code = FOUND if found.total.messages else NOTHING
    from agent_journal.render import statistics as render

    if json:
        shape = render.statistics_object(found, by, limit or JSON_ROWS)
        notes = [*fresh.notes, *found.notes]
        put_object(shape | {"behind": fresh.behind, "stale": fresh.stale, "notes": notes})
        return code
    from agent_journal.render.style import look_at
    from agent_journal.render.terminal import freshness_lines

    look, glyphs = look_at(sys.stdout), render.glyphs_for(sys.stdout)
    if code == NOTHING:
        say(["no message fits"])
    elif by is None:
        put(render.overview_lines(found, limit or TOP_ROWS, look, glyphs))
    else:
        put(render.table_lines(by, found, limit or TABLE_ROWS, look))
    if by is By.day and code == FOUND:
        put(["", *render.chart_lines(found.days, look, glyphs)])
    say(freshness_lines(fresh, found.notes, look_at(sys.stderr)))
    return code
