"""The mutable state of a session, as stages see it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.queries.running import RunningQueries
    from headrace.runtime.context import Context


@dataclass(slots=True)
class SessionState:
    """A session's context, dialect, user and current database, and whether its statements may read files of this machine.

    Only `database` changes, by USE. `queries` has the running queries of the snode that the session is in.
    """

    context: Context
    dialect: str
    database: str | None
    user: str
    reads_files: bool = True
    queries: RunningQueries | None = None
