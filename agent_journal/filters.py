"""Filters as clauses of the word index, and the same filters asked of a session's own facts. Knows no words."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

import tantivy
from msgspec import Struct
from tantivy import Query as Clause

from agent_journal.clause import all_of, among_sessions, any_of
from agent_journal.errors import BadQuery
from agent_journal.index.document import OF_SESSIONS, SCHEMA, milliseconds
from agent_journal.query import And, Filter, Group, Node, Not, Or
from agent_journal.session import Session

LONGEST_PATTERN, MOST_STARS = 150, 8

Roles = dict[str, str | None]  # place -> the role it is limited to

IN: dict[str, Roles] = {
    "user": {"text": "user"},
    "assistant": {"text": "assistant"},
    "text": {"text": None},
    "thinking": {"thinking": None},
    "tool_input": {"input": None},
    "tool_result": {"output": None},
    "tool": {"input": None, "output": None},
    "title": {"title": None},
}


class Resolver(Struct, frozen=True):
    """What only the journal and this machine know."""

    sessions_named: Callable[[str], list[int]]
    sessions_gone: Callable[[], list[int]]
    agents: Mapping[str, str]  # agent of each name that people may type
    folders: Callable[[str], Sequence[str]]  # absolute paths that a typed one means


def fits(item: Filter, resolver: Resolver) -> Clause:
    return _FITS.get(item.field, _by_term)(item, resolver)


def _by_term(item: Filter, _: Resolver) -> Clause:
    """branch, role, tool: the whole value, or a glob."""
    return _matching(item.field, item.value.lower())


def _by_agent(item: Filter, resolver: Resolver) -> Clause:
    agent = resolver.agents.get(item.value.lower())
    if agent is None:
        raise _unknown_agent(item.value, resolver.agents)
    return Clause.term_query(SCHEMA, "agent", agent)


def _by_project(item: Filter, _: Resolver) -> Clause:
    return Clause.regex_query(SCHEMA, "project", project_pattern(item.value))


def _by_model(item: Filter, _: Resolver) -> Clause:
    """Any part of the name: model:opus."""
    value = item.value.lower()
    return _matching("model", value if "*" in value else f"*{value}*")


def _by_dir(item: Filter, resolver: Resolver) -> Clause:
    """As written, and as the folder it means from here: ~, .., a link."""
    value = item.value.replace("\\", "/").rstrip("/") or "/"
    if "*" in value:
        return _matching("dir", value)
    return any_of([_matching("dir", path) for path in dict.fromkeys((value, *resolver.folders(value)))])


def _by_file(item: Filter, _: Resolver) -> Clause:
    """A file's name, the end of its path, or a glob of either."""
    return _matching("file", item.value.lower().replace("\\", "/").strip("/"))


def _by_in(item: Filter, _: Resolver) -> Clause:
    return any_of([_has(place, role) for place, role in IN[item.value].items()])


def _has(place: str, role: str | None) -> Clause:
    has = Clause.term_query(SCHEMA, "is", f"has {place}")
    return has if role is None else all_of([has, Clause.term_query(SCHEMA, "role", role)])


def _by_is(item: Filter, resolver: Resolver) -> Clause:
    if item.value == "gone":
        return among_sessions(resolver.sessions_gone())
    return Clause.term_query(SCHEMA, "is", item.value)


def _by_session(item: Filter, resolver: Resolver) -> Clause:
    return among_sessions(resolver.sessions_named(item.value))


def _since(item: Filter, _: Resolver) -> Clause:
    assert item.at is not None
    return Clause.range_query(SCHEMA, "at", tantivy.FieldType.Integer, lower_bound=milliseconds(item.at))


def _until(item: Filter, _: Resolver) -> Clause:
    assert item.at is not None
    bound = milliseconds(item.at)
    return Clause.range_query(SCHEMA, "at", tantivy.FieldType.Integer, upper_bound=bound, include_upper=False)


_FITS: Mapping[str, Callable[[Filter, Resolver], Clause]] = {
    "agent": _by_agent,
    "project": _by_project,
    "model": _by_model,
    "dir": _by_dir,
    "file": _by_file,
    "in": _by_in,
    "is": _by_is,
    "session": _by_session,
    "since": _since,
    "until": _until,
}


def _unknown_agent(name: str, agents: Mapping[str, str]) -> BadQuery:
    import difflib  # here: nearly every query names an agent that is known

    near = difflib.get_close_matches(name.lower(), agents, 1)
    guess = f"did you mean agent:{near[0]}? " if near else ""
    # A name of the settings such as claude_code, which differs in a sign alone, is accepted and not worth a word.
    others = {
        agent: [n for n, of in agents.items() if of == agent and n.replace("_", "-") != agent]
        for agent in sorted(set(agents.values()))
    }
    known = ", ".join(f"{agent} ({', '.join(names)})" if names else agent for agent, names in others.items())
    return BadQuery(f"agent:{name} — {guess}known agents: {known}")


def _matching(field: str, value: str) -> Clause:
    if "*" not in value:
        return Clause.term_query(SCHEMA, field, value)
    _check(field, value)
    return Clause.regex_query(SCHEMA, field, _starred(value))


def _starred(value: str) -> str:
    return ".*".join(re.escape(part) for part in value.split("*"))


def may_hold(node: Node | None, facts: Session, project: str, resolver: Resolver) -> bool:
    """Whether a session may hold what is asked for, by its own facts. What is asked of messages it may always hold."""
    if isinstance(node, Filter) and node.field in OF_SESSIONS:
        return _is_of(node, facts, project, resolver)
    if isinstance(node, Not):
        inner = node.item
        return not (
            isinstance(inner, Filter) and inner.field in OF_SESSIONS and _is_of(inner, facts, project, resolver)
        )
    if isinstance(node, Or):
        return any(may_hold(item, facts, project, resolver) for item in node.items)
    if isinstance(node, Group):
        either = {f: [i for i in node.items if isinstance(i, Filter) and i.field == f] for f in OF_SESSIONS}
        others = [i for i in node.items if not (isinstance(i, Filter) and i.field in OF_SESSIONS)]
        return all(any(_is_of(i, facts, project, resolver) for i in same) for same in either.values() if same) and all(
            may_hold(item, facts, project, resolver) for item in others
        )
    return not isinstance(node, And) or all(may_hold(item, facts, project, resolver) for item in node.items)


def _is_of(item: Filter, facts: Session, project: str, resolver: Resolver) -> bool:
    """As the fields of the word index have it."""
    if item.field == "agent":
        return resolver.agents.get(item.value.lower()) == facts.agent
    if item.field == "home":
        return re.fullmatch(_starred(item.value.lower()), facts.origin.home) is not None
    return re.fullmatch(project_pattern(item.value), project.lower()) is not None


def project_pattern(value: str) -> str:
    """The name in lower case, or whole words of it: project:shop finds shop and shop-admin."""
    value = value.lower()
    _check("project", value)
    if "*" in value:
        return _starred(value)
    return rf"(.*[^a-z0-9])?{re.escape(value)}([^a-z0-9].*)?"


def _check(field: str, value: str) -> None:
    """tantivy compiles a pattern into a table that must stay small."""
    if len(value.encode()) > LONGEST_PATTERN or value.count("*") > MOST_STARS:
        limits = f"at most {LONGEST_PATTERN} characters and {MOST_STARS} stars"
        raise BadQuery(f"{field}: {value[:40]}… — a pattern has {limits}")
