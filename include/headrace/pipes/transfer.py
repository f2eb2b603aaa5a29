"""Transferring stored rows in chunks, each by a process of its own: large histories, and ranges that a user wants again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

from headrace.context import Context
from headrace.errors import Error, LimitError, NotSupportedError
from headrace.history.chunks import MAX_CHUNKS
from headrace.model.jobs import JobDefinition, JobRecord
from headrace.model.ledger import Chunk, ChunkState
from headrace.model.pipes import NEXT_CHUNK, PipeStage
from headrace.model.positions import Offsets
from headrace.model.run_reports import chunk_report, reported
from headrace.pipes.events import Event
from headrace.pipes.feeds import Feeds
from headrace.pipes.history import ALL_TIME, HISTORY
from headrace.pipes.inclusion import DELETE, INSERT, included
from headrace.pipes.plugins import Delivery, PipeContext, Sink
from headrace.pipes.shared import Shared
from headrace.pipes.sources.change_source import ChangeSource
from headrace.pipes.sources.options import TimeWindow
from headrace.pipes.stages import stage_of
from headrace.streams.owners import running_as_owner

CHUNK_WAIT_MS: Final = 3_600_000
STATELESS: Final = "do-nothing-processor"


def can_transfer_in_chunks(context: Context, definition: JobDefinition) -> bool:
    """Return whether the rows of a pipe can be transferred in any order, and twice.

    That takes a pipe without a processor and without statements, which come before the rows, and an idempotent sink.
    """
    source, processor, sink = (stage_of(context, definition, stage) for stage in PipeStage)
    has_tables = source.plugin.begin is not None
    has_statements = has_tables and not included(source.attributes) <= {INSERT, DELETE}
    return has_tables and not has_statements and processor.plugin.name == STATELESS and sink.plugin.is_idempotent


def plan_chunks(context: Context, job_id: str, run: str = HISTORY, again: TimeWindow = ALL_TIME) -> list[Chunk]:
    """Divide the history of a pipe, or a range of what its source has now, into chunks. A run that has been planned keeps them.

    Args:
        context: The environment.
        job_id: The pipe.
        run: `HISTORY`, or the name of a run that transfers rows again.
        again: The times to transfer.

    Raises:
        NotFoundError: There is no such pipe.
        LimitError: A range is of more tables than a run may have chunks.
        NotSupportedError: Its rows have to be transferred in order, by the snode.
    """
    record = context.catalog.jobs.by_id(job_id)
    _check(context, record.definition)
    with open_source(context, record.definition) as source:
        chunks = source.history.plan(run, _versions(record, run), again, MAX_CHUNKS)
    if run != HISTORY and len(chunks) > MAX_CHUNKS:
        raise LimitError(
            f"the range has {len(chunks)} chunks, at least one for each table, more than the maximum of {MAX_CHUNKS}",
            hint="create several pipes, each of some databases",
        )
    return chunks


def transfer_chunk(context: Context, job_id: str, run: str, number: int, wait_ms: int = CHUNK_WAIT_MS) -> Chunk:
    """Transfer one chunk, and return it as recorded afterwards (DONE). Only one process works on a chunk: others wait.

    Raises:
        NotFoundError: There is no such pipe, run or chunk.
        OperationalError: The receiver or the storage failed; a later try may succeed.
        PermissionDeniedError: The owner of the pipe has lost a right; the pipe is STOPPED.
    """
    record, ledger = context.catalog.jobs.by_id(job_id), context.catalog.ledger
    with context.catalog.lock(f"chunk.{job_id}.{run}.{number}", wait_ms):
        # We hold the chunk's lock, so any existing claim belongs to a dead process.
        chunk = ledger.claim(job_id, run, number, abandoned_ms=0)
        if chunk.state is not ChunkState.DONE:
            try:
                start = chunk_report(record.definition, chunk)
                with reported(context.reports, start), running_as_owner(context, record.definition):
                    _transfer(context, record, chunk)
            except Exception as error:
                with suppress(Error):  # the original error matters more than a failure to record it
                    ledger.fail(job_id, run, number, str(error))
                raise
            ledger.finish(job_id, run, number, chunk.rows)
        return next(recorded for recorded in ledger.chunks(job_id, run) if recorded.number == number)


def _transfer(context: Context, record: JobRecord, chunk: Chunk) -> None:
    with open_source(context, record.definition) as source, open_sink(context, record.definition) as sink:
        name = f"{chunk.job_id}/{chunk.run}/{chunk.number}"
        for event, is_last in with_last(source.history.events(chunk, _versions(record, chunk.run))):
            # Only the last part marks the chunk as delivered: a chunk is read in parts that may differ at the next try.
            sink.transfer(Delivery(name, 1, [event], is_same=True, is_last=is_last))


def with_last(events: Iterable[Event]) -> Iterator[tuple[Event, bool]]:
    """Yield events with whether each is the last one."""
    following = iter(events)
    event = next(following, None)
    while event is not None:
        after = next(following, None)
        yield event, after is None
        event = after


def _versions(record: JobRecord, run: str) -> Offsets | None:
    """Return the versions to read: those that end the history, or for another run the newest ones."""
    offsets = record.offsets or {}
    return offsets if run == HISTORY and NEXT_CHUNK in offsets else None


def _check(context: Context, definition: JobDefinition) -> None:
    if not can_transfer_in_chunks(context, definition):
        raise NotSupportedError(
            f"the rows of pipe {definition.name} cannot be transferred again in any order",
            hint="that needs do-nothing-processor and a sink that may get rows twice, such as iotdb-thrift-sink or delta-sink",
        )


@contextmanager
def open_source(context: Context, definition: JobDefinition) -> Iterator[ChangeSource]:
    """Provide the source of a pipe, which reads tables."""
    shared = Shared(Feeds(context))
    shared.feeds.refresh()
    stage = stage_of(context, definition, PipeStage.SOURCE)
    source: ChangeSource = stage.create(PipeContext(context, definition.id, definition.name, definition.owner, shared))
    try:
        yield source
    finally:
        source.close()


@contextmanager
def open_sink(context: Context, definition: JobDefinition) -> Iterator[Sink]:
    """Provide the connected sink of a pipe."""
    stage = stage_of(context, definition, PipeStage.SINK)
    sink: Sink = stage.create(PipeContext(context, definition.id, definition.name, definition.owner))
    try:
        sink.handshake()
        yield sink
    finally:
        sink.close()
