"""The work of Airflow's tasks for pipes: transferring large histories, and ranges that a user asks for again."""

from __future__ import annotations

from datetime import datetime

from headrace.context import Context
from headrace.model.ledger import Chunk, ChunkState
from headrace.model.pipes import NEXT_CHUNK
from headrace.pipes.history import HISTORY, is_for_tasks
from headrace.pipes.sources.options import Bound, TimeWindow
from headrace.pipes.transfer import can_transfer_in_chunks, plan_chunks
from headrace.runtime.airflow_tasks import AIRFLOW_RUN, EPOCH, BackfillRange, resume_cleared_stream, unfinished_run


def plan_history(context: Context, job_id: str) -> list[Chunk]:
    """Return the chunks of a pipe's history that tasks have to transfer; none if its snode does."""
    record = resume_cleared_stream(context, job_id)
    if NEXT_CHUNK not in (record.offsets or {}) or not can_transfer_in_chunks(context, record.definition):
        return []
    chunks = plan_chunks(context, job_id, HISTORY)
    if not is_for_tasks(context, chunks):
        return []
    return [chunk for chunk in chunks if chunk.state is not ChunkState.DONE]


def plan_range(context: Context, job_id: str, run_id: str, range_: BackfillRange) -> list[Chunk]:
    """Return the chunks of a range that a run transfers again, of those that are not done.

    The chunks are fixed when the run is first planned. If all are done, a user has cleared the task, and they are planned again.
    """
    run = unfinished_run(context, job_id, AIRFLOW_RUN.format(run_id=run_id))
    chunks = plan_chunks(context, job_id, run, window_of(range_))
    return [chunk for chunk in chunks if chunk.state is not ChunkState.DONE]


def window_of(range_: BackfillRange) -> TimeWindow:
    """Return a range, whose end is exclusive, as a window, whose ends are inclusive."""
    end = None if range_.end is None else Bound(nanoseconds(range_.end) - 1, is_written=True)
    return TimeWindow(None if range_.start is None else Bound(nanoseconds(range_.start), is_written=True), end)


def nanoseconds(instant: datetime) -> int:
    """Return an instant in nanoseconds since the epoch."""
    elapsed = instant - EPOCH
    return ((elapsed.days * 86_400 + elapsed.seconds) * 1_000_000 + elapsed.microseconds) * 1_000
