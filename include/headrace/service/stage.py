"""What a stage is: one effect of a statement, which needs rights, can be described, and is applied to a session."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from headrace.service.results import Result
from headrace.service.rights import Right

if TYPE_CHECKING:
    from headrace.compute import AnyPlan
    from headrace.context import Context
    from headrace.model.access import Principal
    from headrace.queries.running import RunningQueries


class PlanningContext(Protocol):
    """What a planner may read of a `SessionState`. Planners change nothing."""

    @property
    def context(self) -> Context: ...

    @property
    def database(self) -> str | None: ...

    @property
    def reads_files(self) -> bool: ...

    @property
    def dialect(self) -> str: ...


@dataclass(slots=True, eq=False)
class SessionState:
    """A session's context, dialect, principal and current database, and whether its statements may read files of this machine.

    `database` changes by USE, and `principal` with a new password of its own. `queries` has the running queries of the snode that
    the session is in. Of the result of a query, at least the first `max_rows` are returned; None for all.
    """

    context: Context
    dialect: str
    database: str | None
    principal: Principal
    reads_files: bool = True
    queries: RunningQueries | None = None
    max_rows: int | None = None

    def allows(self, rights: Sequence[Right]) -> bool:  # noqa: ARG002
        """Return whether the user has some rights."""
        return True

    @property
    def user(self) -> str:
        """The name under which the session acts."""
        return self.principal.name

    def record_owner(self) -> str:
        """Return the owner of what the session creates, as whom it runs."""
        return self.context.catalog.access.trust(self.user) if self.principal.is_trusted else self.user


@dataclass(frozen=True, slots=True)
class Stage:
    """One effect of a statement. EXPLAIN describes the very stages that are applied.

    Attributes:
        required: The rights that the user must have.
        describe: Returns the lines of EXPLAIN.
        apply: Does it, and returns the result, if it has one, which is the statement's if the stage is the last. The only way to
            change anything.
        is_query: Whether it returns rows of tables, which a live snode reads faster than a session that starts Spark.
        is_limited: Whether it runs with the limits of queries, and can be killed as one, though it needs no Spark.
        plan: The plan of a query that EXPLAIN ANALYZE can run.
        replaces: Whether it computes a stream again, for which the command line needs a confirmation.
        loses: Returns what is lost beside what the statement names, such as the rows of a table; the command line then asks.
        is_audited: Whether the audit log records it also if it is allowed.
    """

    required: tuple[Right, ...]
    describe: Callable[[], list[str]]
    apply: Callable[[SessionState], Result | None]
    is_query: bool = False
    is_limited: bool = False
    plan: AnyPlan | None = None
    replaces: bool = False
    loses: Callable[[], list[str]] = list
    is_audited: bool = False


def required_rights(stages: Iterable[Stage]) -> tuple[Right, ...]:
    """Collect the distinct rights that stages require, in the order of first use."""
    return tuple(dict.fromkeys(right for stage in stages for right in stage.required))


def describe_all(stages: Sequence[Stage], session: SessionState) -> list[str]:
    """Return lines that describe stages, and last the rights that they need. Who lacks one of these only learns which they are."""
    required = required_rights(stages)
    lines = [line for stage in stages for line in stage.describe()] if session.allows(required) else []
    rights = [str(right) for right in required]
    return [*lines, f"needs the right to {', '.join(rights)}"] if rights else lines
