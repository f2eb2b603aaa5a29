"""`ins_streams` and `ins_stream_tasks` with the columns of TDengine. Values that Headrace has no counterpart of are constants."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from headrace.context import Context
from headrace.errors import Error
from headrace.model.job_parts import part_number, parts_of
from headrace.model.jobs import DesiredState, JobCounters, JobDefinition, JobRecord, JobState
from headrace.model.masking import masked
from headrace.model.positions import Offsets, SourceId
from headrace.model.snodes import Heartbeat
from headrace.model.statements import CreateStream
from headrace.model.streams import TriggerMode
from headrace.runtime.activity import read_present
from headrace.runtime.supervision import Snapshot
from headrace.service.results import BIGINT, INSTANT, INT, STRING, CatalogRows, ColumnOf, read_columns
from headrace.service.visible_rows import visible_jobs
from headrace.sql import parse
from headrace.streams.kind import STREAM

FIRST_DNODE: Final = 1
STATUSES: Final = {
    JobState.CREATED: "init",
    JobState.FILLING: "init",
    JobState.RUNNING: "ready",
    JobState.PAUSED: "paused",
    JobState.STOPPED: "failed",
}
TRIGGERS: Final = {mode: mode.value.replace("_", " ").lower() for mode in TriggerMode} | {TriggerMode.CONTINUOUS_WINDOW_CLOSE: ""}
"""Names of trigger modes. TDengine leaves that of CONTINUOUS_WINDOW_CLOSE empty."""


@dataclass(frozen=True, slots=True)
class RecordedStream:
    """A stream with its statement, None if it cannot be parsed, and its watermark delay in ticks of the source."""

    record: JobRecord
    statement: CreateStream | None
    watermark: int | None

    @property
    def job(self) -> JobDefinition:
        return self.record.definition


STREAM_COLUMNS: Final[dict[str, ColumnOf[RecordedStream]]] = {
    "stream_name": (STRING, lambda stream: stream.job.name),
    "create_time": (INSTANT, lambda stream: stream.job.created),
    "stream_id": (STRING, lambda stream: hexadecimal(stream.job.id)),
    "history_id": (STRING, lambda stream: history_id(stream.record)),
    "sql": (STRING, lambda stream: masked(stream.job.sql)),
    "status": (STRING, lambda stream: status(stream.record)),
    "source_db": (STRING, lambda stream: stream.job.source.database),
    "target_db": (STRING, lambda stream: stream.job.target and stream.job.target.database),
    "target_table": (STRING, lambda stream: stream.job.target and stream.job.target.name),
    "watermark": (BIGINT, lambda stream: stream.watermark),
    "trigger": (STRING, lambda stream: stream.statement and TRIGGERS[stream.statement.options.trigger]),
    "sink_quota": (STRING, lambda _: "0"),
    # A checkpoint belongs to each micro-batch, so there is no interval between checkpoints.
    "checkpoint_interval": (STRING, lambda _: "0 sec"),
    "checkpoint_backup": (STRING, lambda _: "none"),
    "history_scan_idle": (STRING, lambda _: "0a"),
    "message": (STRING, lambda stream: message(stream.record)),
}


@dataclass(frozen=True, slots=True)
class Task:
    """A stream's task; with `source`, the part of it that reads one of several sources."""

    record: JobRecord
    state: Snapshot
    dnodes: dict[str, int]
    source: SourceId | None = None

    @property
    def id(self) -> str:
        id_ = self.record.definition.id
        is_only = self.source is None and part_number(id_) == 0
        return hexadecimal(id_ if is_only else hashlib.sha256(f"{id_} {self.source}".encode()).hexdigest())

    @property
    def epoch(self) -> int | None:
        lease = self.state.leases.get(self.record.definition.snode)
        return None if lease is None else lease.epoch

    def rows(self, count: Callable[[JobCounters], int]) -> str | None:
        """Return a number of rows, which only whole tasks have."""
        return None if self.source is not None else f"{count(self.record.progress.counters)} rows"

    def version(self, whole: int | None, by_source: Offsets | None) -> int | None:
        """Return a version: of a source, or of the whole stream, if it has one source."""
        if self.source is not None:
            return (by_source or {}).get(self.source)
        return whole if len(self.record.definition.source_ids) == 1 else None

    def at_position(self, value: int | None) -> int | None:
        return value if self.record.progress.position is not None else None


TASK_COLUMNS: Final[dict[str, ColumnOf[Task]]] = {
    "stream_name": (STRING, lambda task: task.record.definition.name),
    "task_id": (STRING, lambda task: task.id),
    "node_type": (STRING, lambda _: "snode"),
    "node_id": (INT, lambda task: task.dnodes.get(task.record.definition.snode, FIRST_DNODE)),
    "level": (STRING, lambda task: "agg" if task.source is None else "source"),
    "status": (STRING, lambda task: status(task.record)),
    "stage": (BIGINT, lambda task: task.epoch),
    "in_queue": (STRING, lambda task: task.rows(lambda counters: counters.rows_pending)),
    "process_total": (STRING, lambda task: task.rows(lambda counters: counters.rows_in - counters.rows_pending)),
    "process_throughput": (STRING, lambda _: None),
    "out_total": (STRING, lambda task: task.rows(lambda counters: counters.rows_out)),
    "out_throughput": (STRING, lambda _: None),
    "info": (STRING, lambda task: message(task.record) if task.source is None else task.source),
    "start_time": (INSTANT, lambda task: started(task.state.beats.get(task.record.definition.snode))),
    "start_id": (BIGINT, lambda task: task.at_position(0)),
    "start_ver": (BIGINT, lambda task: task.version(task.record.boundary_version, task.record.progress.boundary)),
    "checkpoint_time": (INSTANT, lambda task: task.at_position(task.record.progress.updated)),
    "checkpoint_id": (BIGINT, lambda task: task.record.progress.position and task.record.progress.position.batch),
    "checkpoint_ver": (BIGINT, lambda task: task.version(task.record.source_version, task.record.offsets)),
    "checkpoint_size": (STRING, lambda _: None),
    "checkpoint_backup": (STRING, lambda _: "none"),
    "extra_info": (STRING, lambda _: None),
    "history_task_id": (STRING, lambda task: history_id(task.record)),
    "history_task_status": (STRING, lambda task: status(task.record) if task.record.state is JobState.FILLING else None),
    "notify_event_stat": (STRING, lambda _: None),
}


def streams(context: Context) -> CatalogRows:
    """Return a row for each stream."""
    return read_columns(
        STREAM_COLUMNS, (recorded_stream(context, record) for record in present_streams(context, read_present(context)))
    )


def recorded_stream(context: Context, record: JobRecord) -> RecordedStream:
    statement = recorded_statement(record.definition)
    if statement is None:
        return RecordedStream(record, None, None)
    precision = context.catalog.databases.get(record.definition.source.database).precision
    return RecordedStream(record, statement, statement.options.watermark.ticks(precision))


def stream_tasks(context: Context) -> CatalogRows:
    """Return a row for each stream: one task of its snode reads the source, computes the windows and writes the target.

    A stream with PARTITIONS has a task for each part, one over a virtual table with several origins also a row for each origin that
    it reads, which `info` names.
    """
    state = read_present(context)
    dnodes = {member.name: member.dnode for member in context.catalog.members.all()}

    def tasks(record: JobRecord) -> list[Task]:
        sources = record.definition.source_ids
        reading = [Task(record, state, dnodes, source) for source in sources if len(sources) > 1]
        return [*reading, *(Task(part, state, dnodes) for part in parts_of(record))]

    return read_columns(TASK_COLUMNS, (task for record in present_streams(context, state) for task in tasks(record)))


def present_streams(context: Context, state: Snapshot) -> list[JobRecord]:
    """Return the streams of a snapshot that the user may know of, without those that are being dropped."""
    streams = [record for record in state.jobs.values() if record.definition.kind == STREAM]
    return [record for record in visible_jobs(context, streams) if record.desired is not DesiredState.DROPPED]


def stream_records(context: Context) -> list[JobRecord]:
    """Return the streams that the user may know of by database and name, without those that are being dropped."""
    records = visible_jobs(context, context.catalog.jobs.all(kind=STREAM))
    return [record for record in records if record.desired is not DesiredState.DROPPED]


def recorded_statement(definition: JobDefinition) -> CreateStream | None:
    """Return the statement of a stream; None if it cannot be parsed."""
    try:
        statement = parse(definition.sql, definition.dialect)
    except Error:
        return None
    return statement if isinstance(statement, CreateStream) else None


def hexadecimal(id_: str) -> str:
    """Return an id in the form of TDengine: 64 bits in hexadecimal."""
    return f"0x{id_[:16]}"


def history_id(record: JobRecord) -> str | None:
    """Return the id of the task that fills the history; None if there is none."""
    return hexadecimal(record.definition.id[::-1]) if record.progress.boundary is not None else None


def status(record: JobRecord) -> str:
    """Return a stream's state in the words of TDengine."""
    if record.desired is DesiredState.PAUSED and record.state is not JobState.STOPPED:
        return STATUSES[JobState.PAUSED]
    if record.reason is not None and record.reason.transient and record.state is JobState.STOPPED:
        return "recover"
    return STATUSES[record.state]


def message(record: JobRecord) -> str:
    """Return why a stream is stopped; empty if it is not."""
    return "" if record.reason is None else str(record.reason)


def started(beat: Heartbeat | None) -> int | None:
    """Return when a driver started, in epoch milliseconds; None if it never ran."""
    return None if beat is None else beat.detail.get("started")
