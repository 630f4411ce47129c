"""What `aj reindex`, `aj doctor` and `aj agents` say: counts with names, every problem with its reason."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from agent_journal.render.clean import clean_line
from agent_journal.render.sessions import NONE_FOUND
from agent_journal.render.style import Look, ago, counted, local, sized
from agent_journal.render.width import flowed, listed, sentence

if TYPE_CHECKING:
    from agent_journal.connectors.base import Connector
    from agent_journal.health import AgentHealth, Health
    from agent_journal.index.report import AgentReport, EmbeddingReport, SyncReport

NAMED = 20  # problems that are listed one by one; --json has all of them
INDENT = "  "


def sync_lines(report: SyncReport, look: Look) -> Iterator[str]:
    present = [a for a in report.agents if a.sources or a.unlisted or a.failures]
    width = max((len(clean_line(a.name)) for a in present), default=0)
    for agent in present:
        yield from _synced_agent(agent, look, width)
    if not present:
        yield NONE_FOUND
    facts = list(_change(report.sessions_new, report.sessions_changed, "session"))
    facts += _change(report.messages_new, report.messages_changed, "message")
    facts = facts or ["nothing new"]
    if report.gone:
        facts.append(f"{counted(report.gone, 'source')} gone (kept in the journal)")
    if report.left:
        facts.append(f"{counted(report.left, 'file')} left for the next run")
    facts += _embedded(report.embedding, report.embedder)
    yield from flowed([*facts, f"{report.seconds:.1f} s"], look.width)
    for note in report.notes:
        yield from sentence(clean_line(note), look.width)


def _embedded(done: EmbeddingReport, embedder: str) -> Iterator[str]:
    if done.messages:
        yield f"{counted(done.texts, 'text')} embedded by {clean_line(embedder)}"
    if done.left:
        yield f"{counted(done.left, 'message')} left to embed: aj reindex"


def _change(new: int, changed: int, noun: str) -> Iterator[str]:
    if new:
        yield counted(new, f"new {noun}")
    if changed:
        yield counted(changed, f"changed {noun}")


def _synced_agent(agent: AgentReport, look: Look, width: int) -> Iterator[str]:
    facts = [counted(agent.sources, "file"), f"{agent.read:,} read"]
    facts += _troubles(agent.failed, agent.bad_lines)
    yield f"{look.paint(f'{clean_line(agent.name):<{width}}', 'title')}  {', '.join(facts)}"
    yield from _reasons((*agent.unlisted, *agent.failures), look)


def _troubles(failed: int, bad_lines: int) -> list[str]:
    return [f"{failed:,} failed"] * bool(failed) + [counted(bad_lines, "bad line")] * bool(bad_lines)


def _reasons(problems: Sequence[tuple[str, str]], look: Look) -> Iterator[str]:
    """The path whole, for pasting; the reason below it where both do not fit."""
    for path, reason in problems[:NAMED]:
        mark, path, reason = look.paint("!", "bad"), clean_line(path), clean_line(reason)
        lines = [f"{path}:", *sentence(reason, look.width - 6)]
        if len(path) + len(reason) + 6 <= look.width:
            lines = [f"{path}: {reason}"]
        yield f"{INDENT}{mark} {lines[0]}"
        yield from (f"{INDENT * 3}{line}" for line in lines[1:])
    if len(problems) > NAMED:
        yield f"{INDENT}… and {counted(len(problems) - NAMED, 'more', 'more')} (--json lists all)"


def health_lines(health: Health, look: Look) -> Iterator[str]:
    absent = [clean_line(a.name) for a in health.agents if not _is_present(a)]
    for agent in filter(_is_present, health.agents):
        yield from _agent_health(agent, look)
        yield ""
    if absent:
        yield "Nothing found of"
        yield from listed(absent, look.width, INDENT)
        yield ""
    yield look.paint("Journal", "title")
    yield INDENT + clean_line(str(health.journal_path))
    contents = f"{counted(health.sessions, 'session')}, {counted(health.messages, 'message')}"
    sizes = f"{sized(health.journal_bytes)}, word index {sized(health.lexical_bytes)}"
    sizes += f", vectors {sized(health.vector_bytes)}" if health.vector_bytes else ""
    yield from (INDENT + line for line in flowed([contents, sizes], look.width - len(INDENT)))
    if health.behind:
        yield f"{INDENT}{counted(health.behind, 'changed file')} not taken in yet: aj reindex"
    for name, fine, finding in health.checks:
        mark = look.paint("ok", "good") if fine else look.paint("!", "bad")
        said = f"{clean_line(name)}: {clean_line(finding)}" if finding else clean_line(name)
        first, *rest = sentence(said, look.width - 6)
        yield f"{INDENT}{mark}{' ' * (3 - (2 if fine else 1))}{first}"
        yield from (f"{INDENT}   {line}" for line in rest)


def _is_present(agent: AgentHealth) -> bool:
    return bool(agent.files_found or agent.sessions or agent.gone or agent.problems or agent.passed)


def _agent_health(agent: AgentHealth, look: Look) -> Iterator[str]:
    yield look.paint(clean_line(agent.name), "title")
    yield from _root_lines(agent.roots)
    facts = [f"{counted(agent.files_found, 'file')} found", f"{agent.indexed:,} indexed"]
    if agent.empty:
        facts.append(f"{agent.empty:,} without messages")
    facts += _troubles(agent.failed, agent.bad_lines)
    if agent.gone:
        facts.append(f"{agent.gone:,} gone (kept in the journal)")
    if agent.unsought:
        facts.append(f"{agent.unsought:,} no longer looked for (kept in the journal)")
    yield from listed(facts, look.width, INDENT)
    yield from listed(_contents(agent, look), look.width, INDENT)
    if agent.skipped:
        yield f"{INDENT}records left out, by kind:"
        yield from listed(_kinds(agent.skipped), look.width, INDENT * 2)
    if agent.passed:
        yield f"{INDENT}{counted(len(agent.passed), 'file')} passed over:"
        for reason, paths in _by_reason(agent.passed).items():
            yield f"{INDENT * 2}{clean_line(reason)}: {len(paths):,}"
            yield from (f"{INDENT * 3}{clean_line(path)}" for path in paths[:NAMED])
            if len(paths) > NAMED:
                yield f"{INDENT * 3}… and {len(paths) - NAMED:,} more (--json lists all)"
    yield from _reasons(agent.problems, look)


def _contents(agent: AgentHealth, look: Look) -> list[str]:
    facts = [counted(agent.sessions, "session"), counted(agent.messages, "message")]
    if agent.newest:
        passed = ago(agent.newest, look.now)
        facts.append(f"newest {local(agent.newest)}{f' ({passed})' if passed else ''}")
    return facts


def _kinds(counts: Mapping[str, int]) -> list[str]:
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return [f"{clean_line(kind)} {count:,}" for kind, count in ordered]


def _by_reason(passed: Sequence[tuple[str, str]]) -> dict[str, list[str]]:
    paths: dict[str, list[str]] = {}
    for path, reason in passed:
        paths.setdefault(reason, []).append(path)
    return paths


def _root_lines(roots: Sequence[str]) -> Iterator[str]:
    for root in roots:
        yield f"{INDENT}{clean_line(str(root))}" + ("" if Path(root).exists() else "  (not there)")


def agent_lines(connector: Connector, agent: AgentHealth, look: Look) -> Iterator[str]:
    """One connector with what the journal knows of it."""
    names = ", ".join((connector.agent, *connector.aliases))
    yield f"{look.paint(clean_line(connector.name), 'title')}  {names}"
    yield from _root_lines(agent.roots)
    yield from listed(_contents(agent, look), look.width, INDENT)
    yield look.paint(f"{INDENT}elsewhere: aj config set storage.sources.{connector.config_key} PATH", "dim")
    yield look.paint(f"{INDENT}           or {connector.env}=PATH, for there alone", "dim")
