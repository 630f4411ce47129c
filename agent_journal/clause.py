"""Clauses of the word index that say nothing of words: how they are joined, and what limits them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import tantivy
from tantivy import Occur
from tantivy import Query as Clause

from agent_journal.index.document import SCHEMA


def all_of(clauses: Iterable[Clause]) -> Clause:
    return Clause.boolean_query([(Occur.Must, c) for c in clauses])


def any_of(clauses: Sequence[Clause]) -> Clause:
    return clauses[0] if len(clauses) == 1 else Clause.boolean_query([(Occur.Should, c) for c in clauses])


def unscored(clause: Clause) -> Clause:
    return Clause.const_score_query(clause, 0.0)


def among_sessions(sessions: Sequence[int]) -> Clause:
    return _numbered("session", sessions)


def _numbered(field: str, numbers: Sequence[int]) -> Clause:
    return Clause.term_set_query(SCHEMA, field, list(numbers)) if numbers else Clause.empty_query()


def among(clause: Clause, messages: Sequence[int]) -> Clause:
    return all_of([clause, unscored(_numbered("id", messages))])


def seen_by(clause: Clause, seq: int) -> Clause:
    """Only what the index held when it had reached this change: later pages continue the first."""
    bound = Clause.range_query(SCHEMA, "seq", tantivy.FieldType.Unsigned, upper_bound=seq)
    return all_of([clause, unscored(bound)])


def alone(clause: Clause) -> Clause:
    """Only messages that stand in one session."""
    return all_of([clause, unscored(Clause.term_query(SCHEMA, "is", "alone"))])
