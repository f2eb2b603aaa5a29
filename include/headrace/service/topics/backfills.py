"""Backfills of a range of a stream or of a continuous query, which no statement expresses."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field

from headrace.errors import ProgrammingError
from headrace.model.instants import parse_instant
from headrace.model.jobs import JobDefinition
from headrace.model.progress import Progress, no_progress
from headrace.model.time import Precision
from headrace.service.describing import format_instant
from headrace.service.names import database_of, parse_name
from headrace.service.results import Result
from headrace.service.rights import Action, Right, job_securable
from headrace.service.stage import Stage
from headrace.service.state import PlanningContext, SessionState
from headrace.service.topics.continuous_queries import find_query
from headrace.streams.kind import STREAM


@dataclass(frozen=True, slots=True)
class Backfill(Stage):
    """Recompute the closed windows that start in `[start, end)`, in ticks of the source; None is open."""

    definition: JobDefinition
    start: int | None
    end: int | None
    chunk_rows: int | None
    progress: Progress = field(default=no_progress, compare=False)

    @property
    def required(self) -> tuple[Right, ...]:
        return (Right(Action.OPERATE, job_securable(self.definition)),)

    def describe(self) -> list[str]:
        stream = self.definition
        start = "from the first row" if self.start is None else f"from {self.start}"
        end = "up to those still open" if self.end is None else f"before {self.end}"
        return [f"compute windows of stream {stream.database}.{stream.name} again, {start}, {end}, on Spark in this process"]

    def apply(self, session: SessionState) -> Result:
        """Backfill in this process; `affected` is the number of chunks."""
        from headrace.history.backfill import recompute

        run, rows = f"manual-{uuid.uuid4().hex[:12]}", self.chunk_rows
        chunks = recompute(session.context, self.definition.id, run, self.start, self.end, progress=self.progress, rows=rows)
        return Result(affected=len(chunks))


@dataclass(frozen=True, slots=True)
class BackfillQuery(Stage):
    """Execute a continuous query again for all ranges that overlap `[start, end)`, in epoch milliseconds; None is open.

    `executions` is their number when it was planned.
    """

    definition: JobDefinition
    start: int | None
    end: int | None
    executions: int
    progress: Progress = field(default=no_progress, compare=False)

    @property
    def required(self) -> tuple[Right, ...]:
        return (Right(Action.OPERATE, job_securable(self.definition)),)

    def describe(self) -> list[str]:
        start = "from its first one" if self.start is None else f"from {format_instant(self.start)}"
        end = "to now" if self.end is None else f"before {format_instant(self.end)}"
        head = (
            f"compute {self.executions} interval{'' if self.executions == 1 else 's'} of continuous query {self.definition} again"
        )
        return [f"{head}, {start}, {end}, in this process; the rows of each are replaced"]

    def apply(self, session: SessionState) -> Result:
        """Backfill in this process; `affected` is the number of executions."""
        from headrace.catalog.processes import process_identity
        from headrace.queries.executions import recompute

        holder = f"backfill {process_identity()} {uuid.uuid4().hex[:12]}"
        executions = recompute(session.context, self.definition, self.start, self.end, holder, self.progress)
        return Result(affected=len(executions))


def plan_backfill(
    session: PlanningContext,
    stream: str,
    start: str | None,
    end: str | None,
    *,
    rows: int | None = None,
    progress: Progress = no_progress,
) -> list[Stage]:
    """Plan to recompute the closed windows that start in `[start, end)`; None is open."""
    definition = stream_definition(session, stream)
    database = session.context.catalog.databases.get(definition.source.database)
    first, last = parse_range(start, end, database.timezone, database.precision)
    return [Backfill(definition, first, last, rows, progress)]


def plan_query_backfill(
    session: PlanningContext, name: str, start: str | None, end: str | None, *, progress: Progress = no_progress
) -> list[Stage]:
    """Plan to execute a continuous query again for all ranges that overlap `[start, end)`; None is open."""
    from headrace.queries.executions import recomputed_instants

    definition = find_query(name, session.context).definition
    first, last = parse_query_range(definition, start, end, session)
    instants = recomputed_instants(definition.schedule, first, last, session.context.clock.now())
    return [BackfillQuery(definition, first, last, len(instants), progress)]


def parse_query_range(
    definition: JobDefinition, start: str | None, end: str | None, session: PlanningContext
) -> tuple[int | None, int | None]:
    """Parse the ends of a range of a continuous query to epoch milliseconds; None is open."""
    details = definition.continuous_query
    timezone = session.context.settings.timezone if details is None else details.timezone
    return parse_range(start, end, timezone, Precision.MILLISECOND)


def stream_definition(session: PlanningContext, stream: str) -> JobDefinition:
    name = parse_name(stream)
    return session.context.catalog.jobs.get(database_of(name, session), name.name, STREAM).definition


def parse_range(start: str | None, end: str | None, timezone: str, precision: Precision) -> tuple[int | None, int | None]:
    """Parse the ends of a range to ticks; None is open.

    Raises:
        ProgrammingError: An end is no instant, or the range is empty.
    """
    first, last = (None if text is None else parse_tick(text, timezone, precision) for text in (start, end))
    if first is not None and last is not None and first >= last:
        raise ProgrammingError(
            f"the range from {start} to {end} is empty", hint="the end is exclusive and must lie after the start"
        )
    return first, last


def parse_tick(text: str, timezone: str, precision: Precision) -> int:
    """Parse an instant to ticks: text in a time zone, or an epoch number."""
    tick = int(text) if text.isdigit() else parse_instant(text, timezone, precision)
    if tick is None:
        raise ProgrammingError(f"{text!r} is not a timestamp", hint="write it as '2024-05-01 12:00:00', or as an epoch number")
    return tick
