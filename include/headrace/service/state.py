"""The state of a session, as planners and stages see it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from headrace.context import Context
    from headrace.queries.running import RunningQueries


class PlanningContext(Protocol):
    """What a planner may read of the session. Planners change nothing."""

    @property
    def context(self) -> Context:
        """The catalog, tables and settings in use."""

    @property
    def database(self) -> str | None:
        """The current database."""

    @property
    def reads_files(self) -> bool:
        """Whether statements may read files of this machine."""

    @property
    def dialect(self) -> str:
        """The language of statements."""


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
