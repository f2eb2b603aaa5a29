"""The life cycle of a stream: create, activate after a backfill, skip commits, delete the state."""

from __future__ import annotations

from contextlib import suppress

from headrace.context import Context
from headrace.errors import ExistsError, InvalidStreamError, NotFoundError
from headrace.model.failpoints import failpoint
from headrace.model.job_parts import part_id, part_ids, part_number
from headrace.model.jobs import DesiredState, JobDefinition, JobProgress, JobRecord, JobState
from headrace.model.positions import Offsets, Position
from headrace.model.tables import Table
from headrace.streams.definition.define import StreamPlan
from headrace.streams.quarantine.stored_rows import without_quarantine
from headrace.streams.runner import state_store
from headrace.streams.sinks.hidden_columns import add_hidden_columns, created_table
from headrace.streams.sources.source_tables import latest_offsets
from headrace.streams.sources.stored import max_stored_time
from headrace.streams.state.checkpoints import StreamState
from headrace.streams.state.rebuild import rebuild


def create(context: Context, plan: StreamPlan, definition: JobDefinition, *, if_not_exists: bool = False) -> bool:
    """Create a stream and its target; return False if a stream of the name exists and `if_not_exists`.

    One transaction of the catalog records the stream, its starting position and its target. What is written before that transaction
    is invisible without it: an empty Delta table, which the next table of that name replaces, and the checkpoint of a stream that
    does not exist. So a crash at any point leaves either a complete stream or none, and the statement can be repeated.
    """
    target = plan.target
    with context.catalog.lock(f"ddl {target.database}.{target.name}"):
        try:
            new_target = prepare_target(context, plan)
            progress = initial_progress(context, plan)
            failpoint("streams.create.prepared")
            created = context.catalog.jobs.create(
                definition,
                if_not_exists=if_not_exists,
                target=new_target,
                state=JobState.FILLING if plan.options.fill_history else JobState.CREATED,
                progress=progress,
            )
            failpoint("streams.create.recorded")
        except (ExistsError, InvalidStreamError, NotFoundError):  # after other errors the commit may have happened
            forget(context, *part_ids(definition))
            raise
        if not created:
            forget(context, *part_ids(definition))
        return created


def replace_stream(context: Context, plan: StreamPlan, definition: JobDefinition, replaced: JobRecord) -> None:
    """Replace a stream by one that computes its target again from the stored rows.

    One transaction of the catalog exchanges the streams. From then on the backfill of the new one replaces the target's rows, chunk
    by chunk, and continues after a crash; before its first chunk it makes later commits of the old stream fail.
    """
    target, old = plan.target, replaced.definition
    with context.catalog.lock(f"ddl {target.database}.{target.name}"):
        new_target = prepare_target(context, plan)
        progress = JobProgress(boundary=latest_offsets(context, plan.sources), updated=context.clock.now())
        failpoint("streams.replace.prepared")
        context.catalog.jobs.replace(old.id, definition, desired=replaced.desired, target=new_target, progress=progress)
        failpoint("streams.replace.recorded")
    context.catalog.events.record("job", definition.id, "REBUILDING", f"in place of the stream with the id {old.id}")
    retire(context, old)
    forget(context, *part_ids(old))


def drop(context: Context, definition: JobDefinition) -> None:
    """Drop a stream, whose target keeps its rows. Repeating it completes what was interrupted.

    Its record goes last: until then a driver knows that it was dropped, and another stream cannot take its target, to which it
    could still commit. The first part of a stream takes the others along.
    """
    if part_number(definition.id) and not context.catalog.jobs.parts_of(definition.id):
        return
    context.catalog.jobs.set_desired(definition.id, DesiredState.DROPPED)
    failpoint("streams.drop.requested")
    retire(context, definition)
    failpoint("streams.drop.retired")
    forget(context, *part_ids(definition))
    failpoint("streams.drop.forgotten")
    context.catalog.jobs.drop(definition.id)


def retire(context: Context, definition: JobDefinition) -> None:
    """Make all later commits of a stream to its target fail: those of its drivers, even a frozen one, and of its backfills."""
    target = definition.target
    table = None if target is None else context.catalog.tables.find(target.database, target.name)
    if table is not None:
        with suppress(NotFoundError):  # the table's files are gone
            for id in part_ids(definition):
                context.tables.writer.retire(table, id)


def prepare_target(context: Context, plan: StreamPlan) -> Table | None:
    """Create the target's files, and return it for the catalog; of one that exists, complete the columns, and return None.

    If the catalog has a table of a new target's name by now, no files are created: recording the stream fails.
    """
    if plan.target_exists:
        add_hidden_columns(context, plan)
        return None
    if context.catalog.tables.find(plan.target.database, plan.target.name) is None:
        context.tables.create(created_table(plan), plan.target_database)
    failpoint("streams.create.target")
    return plan.target


def initial_progress(context: Context, plan: StreamPlan) -> JobProgress:
    """Return the starting position of a new stream: the source's present version.

    With FILL_HISTORY it is the boundary of the backfill. Without, the first checkpoint is written too, for each part.
    """
    if plan.options.fill_history:
        return JobProgress(boundary=latest_offsets(context, plan.sources), updated=context.clock.now())
    state = initial_state(context, plan)
    for number in range(plan.options.partitions):
        state_store(context, part_id(plan.id, number)).write(state, state.position.batch)
    return progress_of(context, plan, state, None)


def initial_state(context: Context, plan: StreamPlan) -> StreamState:
    """Return the state of a stream that starts after the source's present version.

    Windows of INTERVAL and SESSION that may have earlier rows are read from the source when the stream first touches them, so that
    the stream's windows are complete. For other windows a stream starts with its first row.
    """
    position = Position(0, latest_offsets(context, plan.sources))
    if plan.is_closed_by_clock:
        return StreamState(position, wake_at=context.clock.now())
    has_complete_windows = plan.query.window is not None and not plan.query.depends_on_order
    evicted_through = max_stored_time(context, plan) if has_complete_windows else None
    return StreamState(position, evicted_through=evicted_through, tags_version=plan.tags_version)


def activate(context: Context, plan: StreamPlan, boundary: Offsets) -> JobProgress:
    """Start the live stream after a backfill up to the offsets `boundary`, and record its progress.

    A driver that finds no checkpoint at the boundary does the same, so activation does not need Spark.
    """
    state = rebuild(without_quarantine(context, plan.id), plan, Position(0, boundary))
    return record_state(context, plan, state, boundary)


def skip(context: Context, plan: StreamPlan) -> None:
    """Skip the commits that the stream has not handled yet (`RESUME STREAM … IGNORE UNTREATED`).

    The stream's driver moves to the new offsets between two micro-batches, so no state in memory overrides them. Skipped rows are
    read again only if their window is recalculated for another reason.
    """
    context.catalog.jobs.skip(plan.id, latest_offsets(context, plan.sources))


def record_state(context: Context, plan: StreamPlan, state: StreamState, boundary: Offsets | None) -> JobProgress:
    state_store(context, plan.id).write(state, state.position.batch)
    progress = progress_of(context, plan, state, boundary)
    context.catalog.jobs.set_progress(plan.id, progress, context.epoch or None)
    return progress


def progress_of(context: Context, plan: StreamPlan, state: StreamState, boundary: Offsets | None) -> JobProgress:
    return JobProgress(
        position=state.position,
        boundary=boundary,
        watermark=state.closed_until(plan.watermark),
        updated=context.clock.now(),
        counters=state.counters,
    )


def forget(context: Context, *job_ids: str) -> None:
    """Delete the state and undelivered messages of a dropped stream, or of its parts. The target keeps its rows."""
    for id in job_ids:
        state_store(context, id).clear()
        context.tables.outbox(id).drop()
