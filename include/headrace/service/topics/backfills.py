"""Backfills of a range of a stream or of a continuous query, which no statement expresses."""

from __future__ import annotations

import uuid

from headrace.errors import ProgrammingError
from headrace.model.instants import parse_instant
from headrace.model.jobs import JobDefinition
from headrace.model.progress import Progress, no_progress
from headrace.model.time import Precision
from headrace.service.describing import format_instant
from headrace.service.names import database_of, parse_name
from headrace.service.results import Result
from headrace.service.rights import Action, on_job
from headrace.service.stage import PlanningContext, SessionState, Stage
from headrace.service.topics.continuous_queries import find_query
from headrace.streams.kind import STREAM


def plan_backfill(
    session: PlanningContext,
    stream: str | None,
    cq: str | None = None,
    start: str | None = None,
    end: str | None = None,
    *,
    rows: int | None = None,
    progress: Progress = no_progress,
) -> list[Stage]:
    """Plan to recompute the range `[start, end)`, None being open, of a stream in chunks of some rows, or of a continuous query."""
    if cq is not None:
        return plan_query_backfill(session, cq, start, end, progress)
    return plan_stream_backfill(session, stream or "", start, end, rows, progress)


def plan_stream_backfill(
    session: PlanningContext, stream: str, start: str | None, end: str | None, rows: int | None, progress: Progress
) -> list[Stage]:
    """Plan to recompute the closed windows that start in `[start, end)`; None is open."""
    definition = stream_definition(session, stream)
    database = session.context.catalog.databases.get(definition.source.database)
    first, last = parse_range(start, end, database.timezone, database.precision)

    def apply(session: SessionState) -> Result:
        """Backfill in this process; `affected` is the number of chunks."""
        from headrace.history.backfill import recompute

        run = f"manual-{uuid.uuid4().hex[:12]}"
        return Result(affected=len(recompute(session.context, definition.id, run, first, last, progress=progress, rows=rows)))

    begin = "from the first row" if first is None else f"from {first}"
    until = "up to those still open" if last is None else f"before {last}"
    described = f"compute windows of stream {definition} again, {begin}, {until}, on Spark in this process"
    return [Stage(on_job(Action.OPERATE, definition), lambda: [described], apply)]


def plan_query_backfill(session: PlanningContext, name: str, start: str | None, end: str | None, progress: Progress) -> list[Stage]:
    """Plan to execute a continuous query again for all ranges that overlap `[start, end)`; None is open."""
    from headrace.queries.executions import recomputed_instants

    definition = find_query(name, session.context).definition
    first, last = parse_query_range(definition, start, end, session)
    count = len(recomputed_instants(definition.schedule, first, last, session.context.clock.now()))

    def apply(session: SessionState) -> Result:
        """Backfill in this process; `affected` is the number of executions."""
        from headrace.catalog.processes import process_identity
        from headrace.queries.executions import recompute

        holder = f"backfill {process_identity()} {uuid.uuid4().hex[:12]}"
        return Result(affected=len(recompute(session.context, definition, first, last, holder, progress)))

    head = f"compute {count} interval{'' if count == 1 else 's'} of continuous query {definition} again"
    begin = "from its first one" if first is None else f"from {format_instant(first)}"
    until = "to now" if last is None else f"before {format_instant(last)}"
    described = f"{head}, {begin}, {until}, in this process; the rows of each are replaced"
    return [Stage(on_job(Action.OPERATE, definition), lambda: [described], apply)]


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
