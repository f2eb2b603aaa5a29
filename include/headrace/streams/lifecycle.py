"""What happens to a stream as a whole: begin, activate after a history, skip, forget."""

from __future__ import annotations

from headrace.compute.plan import IntervalWindow, SessionWindow
from headrace.model.positions import Offsets, Position
from headrace.model.streams import StreamProgress
from headrace.model.time import Precision
from headrace.streams.context import Context
from headrace.streams.define import StreamPlan
from headrace.streams.restore import rebuild
from headrace.streams.runner import state_store
from headrace.streams.state import State


def prepare_target(context: Context, plan: StreamPlan) -> bool:
    """Create the target where it does not exist; True when it was created."""
    if plan.target_exists:
        return False
    context.tables.create(plan.target, plan.target_database)
    return context.catalog.tables.create(plan.target, if_not_exists=True)


def begin(context: Context, plan: StreamPlan) -> StreamProgress:
    """Start a recorded stream without history: at the source's present version, with an empty state. Records the progress.

    Windows of INTERVAL and SESSION that may have rows from before are read from the source when the stream first touches them, so
    that they are whole: a stream's windows are what the query gives. For the others a stream begins with its first row.
    """
    position = Position(0, source_offsets(context, plan))
    whole = isinstance(plan.query.window, IntervalWindow | SessionWindow)
    return record(context, plan, State(position, floor=newest_stored(context, plan) if whole else None), None)


def source_offsets(context: Context, plan: StreamPlan) -> Offsets:
    """Return the present offsets of a stream's sources."""
    return {plan.source_id: context.tables.version(plan.source)}


def newest_stored(context: Context, plan: StreamPlan) -> int | None:
    """The largest instant of the source, in ticks, or a later one; None where it is empty."""
    bounds = context.tables.bounds(plan.source)
    if bounds is None:
        return None
    return bounds.high // 1000 if plan.query.precision is Precision.MILLISECOND else bounds.high


def activate(context: Context, plan: StreamPlan, boundary: Offsets) -> StreamProgress:
    """Go live after a history whose rows up to the offsets `boundary` are in the target. Records the progress.

    A driver that finds no state at the boundary does the same by itself, so that activation can do without Spark.
    """
    return record(context, plan, rebuild(context, plan, Position(0, boundary)), boundary)


def skip(context: Context, plan: StreamPlan) -> None:
    """Leave out the commits that the stream has not handled by now (`RESUME STREAM … IGNORE UNTREATED`).

    Whoever runs the stream goes there between two micro-batches, so that no state in memory overrules it. What was left out is not
    read again, unless a window is recalculated for another reason.
    """
    context.catalog.streams.skip(plan.id, source_offsets(context, plan))


def record(context: Context, plan: StreamPlan, state: State, boundary: Offsets | None) -> StreamProgress:
    """Store the first state of a stream, and the progress that goes with it."""
    state_store(context, plan.id).write(state, state.position.batch)
    progress = StreamProgress(
        position=state.position,
        boundary=boundary,
        frontier=state.frontier(plan.watermark),
        updated=context.clock.now(),
        counters=state.counters,
    )
    context.catalog.streams.set_progress(plan.id, progress, context.epoch or None)
    return progress


def forget(context: Context, stream_id: str) -> None:
    """Remove a dropped stream's state and undelivered messages; the target keeps its rows."""
    state_store(context, stream_id).clear()
    context.tables.outbox(stream_id).drop()
