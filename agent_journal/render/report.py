"""What `aj reindex`, `aj doctor` and `aj agents` say: counts with names, every problem with its reason."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent_journal.render.clean import clean_line
from agent_journal.render.style import Look, ago, counted, local, sized

if TYPE_CHECKING:
    from agent_journal.connectors.base import Connector
    from agent_journal.index.sync import AgentReport, SyncReport

NAMED = 20  # problems that are listed one by one; --json has all of them


def sync_lines(report: SyncReport, look: Look) -> Iterator[str]:
    for agent in report.agents:
        yield from _synced_agent(agent, look)
    changed = [
        f"{counted(report.sessions_new, 'new session')}, {report.sessions_changed:,} changed",
        f"{counted(report.messages_new, 'new message')}, {report.messages_changed:,} changed",
    ]
    if report.gone:
        changed.append(f"{counted(report.gone, 'source')} gone (kept in the journal)")
    if report.left:
        changed.append(f"{counted(report.left, 'file')} left for the next run")
    changed.append(f"{report.seconds:.1f} s")
    yield " · ".join(changed)
    for note in report.notes:
        yield clean_line(note)


def _synced_agent(agent: AgentReport, look: Look) -> Iterator[str]:
    facts = [counted(agent.sources, "file"), f"{agent.read:,} read"]
    facts += _troubles(agent.failed, agent.bad_lines)
    yield f"{look.paint(clean_line(agent.name), 'title')}: {', '.join(facts)}"
    yield from _reasons((*agent.unlisted, *agent.failures), look)


def _troubles(failed: int, bad_lines: int) -> list[str]:
    return [f"{failed:,} failed"] * bool(failed) + [counted(bad_lines, "bad line")] * bool(bad_lines)


def _reasons(problems: Sequence[tuple[str, str]], look: Look) -> Iterator[str]:
    for path, reason in problems[:NAMED]:
        yield f"  {look.paint('!', 'bad')} {clean_line(path)}: {clean_line(reason)}"
    if len(problems) > NAMED:
        yield f"  … and {len(problems) - NAMED} more (--json lists all)"


def health_lines(health: Any, look: Look) -> Iterator[str]:
    for agent in health.agents:
        yield from _agent_health(agent, look)
    yield ""
    yield f"{look.paint('Journal', 'title')}  {clean_line(str(health.journal_path))}"
    sizes = f"{sized(health.journal_bytes)}, word index {sized(health.lexical_bytes)}"
    yield f"  {counted(health.sessions, 'session')}, {counted(health.messages, 'message')} · {sizes}"
    if health.behind:
        yield f"  {counted(health.behind, 'changed file')} not taken in yet: aj reindex"
    for name, fine, sentence in health.checks:
        mark = look.paint("ok", "good") if fine else look.paint("problem", "bad")
        yield f"  {mark}: {clean_line(name)}" + (f": {clean_line(sentence)}" if sentence else "")


def _agent_health(agent: Any, look: Look) -> Iterator[str]:
    roots = ", ".join(clean_line(str(root)) for root in agent.roots)
    yield f"{look.paint(clean_line(agent.name), 'title')}  {roots}"
    facts = [
        f"{agent.files_found:,} files found",
        f"{agent.indexed:,} indexed",
        f"{agent.empty:,} without messages",
    ]
    facts += _troubles(agent.failed, agent.bad_lines)
    if agent.gone:
        facts.append(f"{agent.gone:,} gone (kept in the journal)")
    yield f"  {', '.join(facts)}"
    newest = f", newest {local(agent.newest)}" if agent.newest else ""
    yield f"  {counted(agent.sessions, 'session')}, {counted(agent.messages, 'message')}{newest}"
    if agent.skipped:
        yield f"  records left out by kind: {_kinds(agent.skipped)}"
    if agent.passed:
        yield f"  {counted(len(agent.passed), 'file')} passed over: {_kinds(_by_reason(agent.passed))}"
    yield from _reasons(agent.problems, look)


def _kinds(counts: Mapping[str, int]) -> str:
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{clean_line(kind)} {count:,}" for kind, count in ordered)


def _by_reason(passed: Sequence[tuple[str, str]]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for _, reason in passed:
        counts[reason] = counts.get(reason, 0) + 1
    return counts


def agent_lines(connector: Connector, agent: Any, look: Look) -> Iterator[str]:
    """One connector with what the journal knows of it."""
    yield f"{look.paint(clean_line(connector.name), 'title')} ({connector.agent})"
    for root in agent.roots:
        yield f"  {clean_line(str(root))}" + ("" if Path(root).exists() else "  (not there)")
    newest = agent.newest
    when = f", newest {local(newest)}" if newest else ""
    passed = ago(newest, look.now)
    yield f"  {counted(agent.sessions, 'session')}{when}{f' ({passed})' if passed else ''}"
    yield f"  elsewhere: {connector.env}=PATH or aj config set storage.sources.{connector.config_key} PATH"
