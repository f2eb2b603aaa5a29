"""What happens to a stream as a whole: create, activate after a history, skip, forget."""

from __future__ import annotations

from headrace.compute.plan import IntervalWindow, SessionWindow
from headrace.errors import ExistsError, InvalidStreamError, NotFoundError
from headrace.model.failpoints import failpoint
from headrace.model.jobs import JobDefinition, JobProgress, JobState
from headrace.model.positions import Offsets, Position
from headrace.model.tables import Table
from headrace.model.time import Precision
from headrace.streams.context import Context
from headrace.streams.definition.define import StreamPlan
from headrace.streams.runner import state_store
from headrace.streams.state.checkpoints import StreamState
from headrace.streams.state.rebuild import rebuild


def create(context: Context, plan: StreamPlan, definition: JobDefinition, *, if_not_exists: bool = False) -> bool:
    """Create a stream and its target; False when a stream of the name exists and `if_not_exists`.

    One transaction of the catalog records the stream, where it begins and its target. What is made before it is invisible without
    it: an empty Delta table, which the next table of that name replaces, and the files of a state that no stream has. So a crash
    at any point leaves either the whole stream or none, and the statement can be repeated.
    """
    target = plan.target
    with context.catalog.lock(f"ddl {target.database}.{target.name}"):
        try:
            made = None if plan.target_exists else create_target(context, plan)
            progress = first_progress(context, plan)
            failpoint("streams.create.prepared")
            created = context.catalog.jobs.create(
                definition,
                if_not_exists=if_not_exists,
                target=made,
                state=JobState.FILLING if plan.options.fill_history else JobState.CREATED,
                progress=progress,
            )
            failpoint("streams.create.recorded")
        except (ExistsError, InvalidStreamError, NotFoundError):  # others may come after the commit
            forget(context, plan.id)
            raise
        if not created:
            forget(context, plan.id)
        return created


def create_target(context: Context, plan: StreamPlan) -> Table:
    """Create the target's files. Those of a table that the catalog knows by now are left alone: recording the stream will fail."""
    tables = context.catalog.tables.all(plan.target.database)
    if not any(table.name == plan.target.name for table in tables):
        context.tables.create(plan.target, plan.target_database)
    failpoint("streams.create.target")
    return plan.target


def first_progress(context: Context, plan: StreamPlan) -> JobProgress:
    """Where a new stream begins: with the rows up to the source's present version as its history, or after that version.

    The state of a stream without history is written, too.
    """
    if plan.options.fill_history:
        return JobProgress(boundary=source_offsets(context, plan), updated=context.clock.now())
    state = first_state(context, plan)
    state_store(context, plan.id).write(state, state.position.batch)
    return progress_of(context, plan, state, None)


def first_state(context: Context, plan: StreamPlan) -> StreamState:
    """The state of a stream that begins after the source's present version.

    Windows of INTERVAL and SESSION that may have rows from before are read from the source when the stream first touches them, so
    that they are whole: a stream's windows are what the query gives. For the others a stream begins with its first row.
    """
    position = Position(0, source_offsets(context, plan))
    whole = isinstance(plan.query.window, IntervalWindow | SessionWindow)
    return StreamState(position, evicted_through=newest_stored(context, plan) if whole else None)


def source_offsets(context: Context, plan: StreamPlan) -> Offsets:
    """Return the present offsets of a stream's sources."""
    return {plan.source_id: context.tables.version(plan.source)}


def newest_stored(context: Context, plan: StreamPlan) -> int | None:
    """The largest instant of the source, in ticks, or a later one; None where it is empty."""
    bounds = context.tables.bounds(plan.source)
    if bounds is None:
        return None
    return bounds.high // 1000 if plan.query.precision is Precision.MILLISECOND else bounds.high


def activate(context: Context, plan: StreamPlan, boundary: Offsets) -> JobProgress:
    """Go live after a history whose rows up to the offsets `boundary` are in the target. Records the progress.

    A driver that finds no state at the boundary does the same by itself, so that activation can do without Spark.
    """
    return record(context, plan, rebuild(context, plan, Position(0, boundary)), boundary)


def skip(context: Context, plan: StreamPlan) -> None:
    """Leave out the commits that the stream has not handled by now (`RESUME STREAM … IGNORE UNTREATED`).

    Whoever runs the stream goes there between two micro-batches, so that no state in memory overrules it. What was left out is not
    read again, unless a window is recalculated for another reason.
    """
    context.catalog.jobs.skip(plan.id, source_offsets(context, plan))


def record(context: Context, plan: StreamPlan, state: StreamState, boundary: Offsets | None) -> JobProgress:
    """Store the first state of a stream, and the progress that goes with it."""
    state_store(context, plan.id).write(state, state.position.batch)
    progress = progress_of(context, plan, state, boundary)
    context.catalog.jobs.set_progress(plan.id, progress, context.epoch or None)
    return progress


def progress_of(context: Context, plan: StreamPlan, state: StreamState, boundary: Offsets | None) -> JobProgress:
    """What the catalog shows of a state."""
    return JobProgress(
        position=state.position,
        boundary=boundary,
        watermark=state.watermark(plan.watermark),
        updated=context.clock.now(),
        counters=state.counters,
    )


def forget(context: Context, job_id: str) -> None:
    """Remove a dropped stream's state and undelivered messages; the target keeps its rows."""
    state_store(context, job_id).clear()
    context.tables.outbox(job_id).drop()
