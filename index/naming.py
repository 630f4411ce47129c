"""The session that a text names, and the shortest text that names a session. Reads columns, decodes no body."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from agent_journal.errors import NoSuchSession
from agent_journal.session import Session

if TYPE_CHECKING:
    from agent_journal.index.store import Store

AMBIGUOUS_SHOWN = 5
LONGEST_NAME = 500
LEAST_HANDLE = 8  # characters of an id that people can compare
_ENDS_LIKE_A_MESSAGE = re.compile(r":\d*$")  # SESSION:3 is the third message of SESSION


def row_of(store: Store, name: str) -> int:
    """By key, native id, slug, or a prefix of one that fits only one."""
    # Arguments that are not UTF-8 hold surrogates, which SQLite cannot take.
    plain = name.encode("utf-8", "replace").decode()
    if not name or len(name) > LONGEST_NAME or plain != name:
        raise NoSuchSession(f"no session is called {plain[:60]!r}", "see `aj sessions`")
    exact = store.rows("SELECT id, key FROM session WHERE key = ?1 OR native_id = ?1 OR slug = ?1", (name,))
    found = exact or _beginning(store, name)
    if not found:
        raise NoSuchSession(f"no session is called {name!r}", "see `aj sessions`")
    if len(found) > 1:
        keys = [str(key) for _, key in found[:AMBIGUOUS_SHOWN]]
        more = " …" if len(found) > AMBIGUOUS_SHOWN else ""
        raise NoSuchSession(f"{name!r} fits several sessions: {', '.join(keys)}{more}", "give more of the id")
    return int(str(found[0][0]))


def _beginning(store: Store, name: str) -> Sequence[Sequence[object]]:
    like = name.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_") + "%"
    found = store.rows(
        "SELECT id, key, is_agent FROM session "
        "WHERE native_id LIKE ?1 ESCAPE '\\' OR key LIKE ?1 ESCAPE '\\' "
        f"OR slug LIKE ?1 ESCAPE '\\' ORDER BY is_agent, ended_us DESC LIMIT {AMBIGUOUS_SHOWN + 1}",
        (like,),
    )
    # A session's own sub-agents, however many, share its prefix: it still names the session, which stands first.
    mains = [row for row in found if not row[2]]
    return [row[:2] for row in (mains if len(mains) == 1 else found)]


def handle(store: Store, session: Session) -> str:
    """A beginning of its id, else its key. An id with a space is a time, and cut short looks like a broken one."""
    # What sub-agents are called does not matter to a session that is none: see `_beginning`.
    ((below, same, above),) = store.rows(
        "SELECT "
        "(SELECT native_id FROM session WHERE native_id < ?1 AND is_agent <= ?2 ORDER BY native_id DESC LIMIT 1), "
        "(SELECT count(*) FROM session WHERE native_id = ?1), "
        "(SELECT native_id FROM session WHERE native_id > ?1 AND is_agent <= ?2 ORDER BY native_id LIMIT 1)",
        (session.id, session.is_agent_session),
    )
    if same != 1:
        return session.key
    if " " in session.id:
        return session.id
    needed = max([LEAST_HANDLE, *(_shared(session.id, str(other)) + 1 for other in (below, above) if other)])
    while needed < len(session.id) and _ENDS_LIKE_A_MESSAGE.search(session.id[:needed]):
        needed += 1
    return session.id[:needed]


def _shared(a: str, b: str) -> int:
    """How many characters two texts begin with alike."""
    pairs = zip(a, b, strict=False)
    return next((place for place, (x, y) in enumerate(pairs) if x != y), min(len(a), len(b)))
