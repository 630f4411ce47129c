"""What a run did, in all and by agent. Values; reads and writes nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from msgspec import Struct

from agent_journal.connectors.base import Connector, Reading, Source, readable
from agent_journal.index.intake import Merged
from agent_journal.index.scan import Scan


class AgentReport(Struct, frozen=True):
    agent: str
    name: str
    roots: tuple[str, ...]
    sources: int
    read: int
    empty: int
    failed: int
    bad_lines: int
    skipped: dict[str, int]
    passed: tuple[tuple[str, str], ...]
    unlisted: tuple[tuple[str, str], ...]
    failures: tuple[tuple[str, str], ...]


class EmbeddingReport(Struct, frozen=True):
    messages: int = 0  # that have their vectors now
    texts: int = 0  # that were embedded for it; equal ones once
    left: int = 0  # messages
    seconds: float = 0.0
    refused: int = 0  # texts that the model cannot embed


class SyncReport(Struct, frozen=True):
    agents: tuple[AgentReport, ...]
    sources_seen: int
    sources_read: int
    sources_failed: int
    sessions_new: int
    sessions_changed: int
    messages_new: int
    messages_changed: int
    bad_lines: int
    gone: int  # sources that vanished since the last run
    left: int  # changed sources that did not fit the time budget
    seconds: float
    notes: tuple[str, ...] = ()
    embedder: str = ""  # "" where nothing was to be embedded
    embedding: EmbeddingReport = EmbeddingReport()


def sync_report(
    agents: tuple[AgentReport, ...], found: Scan, merged: Merged, done: int, seconds: float, notes: tuple[str, ...]
) -> SyncReport:
    return SyncReport(
        agents=agents,
        sources_seen=sum(a.sources for a in agents),
        sources_read=done,
        sources_failed=sum(a.failed for a in agents),
        sessions_new=merged.sessions_new,
        sessions_changed=merged.sessions_changed,
        messages_new=merged.messages_new,
        messages_changed=merged.messages_changed,
        bad_lines=sum(a.bad_lines for a in agents),
        gone=len(found.gone),
        left=len(found.changed) - done,
        seconds=seconds,
        notes=notes,
    )


def agent_report(connector: Connector, found: Scan, readings: Sequence[tuple[Source, str, Reading]]) -> AgentReport:
    """`readings`: each source that was read, with its failure or ""."""
    discovery = found.found[connector.agent]
    skipped: Counter[str] = Counter()
    for _, _, reading in readings:
        skipped.update(reading.skipped)
    failures = [(readable(str(s.path)), readable(failure)) for s, failure, _ in readings if failure]
    return AgentReport(
        agent=connector.agent,
        name=connector.name,
        roots=tuple(readable(str(r)) for r in found.roots[connector.agent]),
        sources=len(discovery.sources),
        read=len(readings) - len(failures),
        empty=sum(not r.lines for _, failure, r in readings if not failure),
        failed=len(failures),
        bad_lines=sum(r.bad_line_count for _, _, r in readings),
        skipped=dict(skipped),
        passed=tuple((readable(str(p)), why) for p, why in discovery.passed),
        unlisted=tuple((readable(str(p)), why) for p, why in discovery.unlisted),
        failures=tuple(failures),
    )
