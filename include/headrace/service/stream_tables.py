"""`ins_streams` and `ins_stream_tasks` with the columns of TDengine. Values that Headrace has no counterpart of are constants."""

from __future__ import annotations

import hashlib
from typing import Final

from headrace.context import Context
from headrace.errors import Error
from headrace.model.jobs import DesiredState, JobDefinition, JobRecord, JobState
from headrace.model.notifications import masked
from headrace.model.positions import SourceId
from headrace.model.snodes import Heartbeat
from headrace.model.statements import CreateStream
from headrace.model.streams import TriggerMode
from headrace.runtime.supervision import Snapshot, read_snapshot
from headrace.service.results import BIGINT, INSTANT, INT, STRING, CatalogRows
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
STREAM_TYPES: Final = {
    "stream_name": STRING,
    "create_time": INSTANT,
    "stream_id": STRING,
    "history_id": STRING,
    "sql": STRING,
    "status": STRING,
    "source_db": STRING,
    "target_db": STRING,
    "target_table": STRING,
    "watermark": BIGINT,
    "trigger": STRING,
    "sink_quota": STRING,
    "checkpoint_interval": STRING,
    "checkpoint_backup": STRING,
    "history_scan_idle": STRING,
    "message": STRING,
}
TASK_TYPES: Final = {
    "stream_name": STRING,
    "task_id": STRING,
    "node_type": STRING,
    "node_id": INT,
    "level": STRING,
    "status": STRING,
    "stage": BIGINT,
    "in_queue": STRING,
    "process_total": STRING,
    "process_throughput": STRING,
    "out_total": STRING,
    "out_throughput": STRING,
    "info": STRING,
    "start_time": INSTANT,
    "start_id": BIGINT,
    "start_ver": BIGINT,
    "checkpoint_time": INSTANT,
    "checkpoint_id": BIGINT,
    "checkpoint_ver": BIGINT,
    "checkpoint_size": STRING,
    "checkpoint_backup": STRING,
    "extra_info": STRING,
    "history_task_id": STRING,
    "history_task_status": STRING,
    "notify_event_stat": STRING,
}
TASK_COLUMNS: Final = tuple(TASK_TYPES)
Row = tuple[object, ...]


def streams(context: Context) -> CatalogRows:
    """Return a row for each stream. A checkpoint belongs to each micro-batch, so there is no interval between checkpoints."""
    rows = []
    for record in stream_records(context):
        definition, statement = record.definition, recorded_statement(record.definition)
        watermark = None if statement is None else watermark_ticks(context, definition, statement)
        rows.append(
            (
                definition.name,
                definition.created,
                hexadecimal(definition.id),
                history_id(record),
                masked(definition.sql),
                status(record),
                definition.source.database,
                None if definition.target is None else definition.target.database,
                None if definition.target is None else definition.target.name,
                watermark,
                None if statement is None else TRIGGERS[statement.options.trigger],
                "0",
                "0 sec",
                "none",
                "0a",
                message(record),
            )
        )
    return CatalogRows(STREAM_TYPES, rows)


def stream_tasks(context: Context) -> CatalogRows:
    """Return a row for each stream: one task of its snode reads the source, computes the windows and writes the target.

    A stream over a virtual table with several origins also has a row for each origin that it reads.
    """
    state = read_snapshot(context.catalog, context.catalog.now())
    dnodes = {member.name: member.dnode for member in context.catalog.members.all()}
    rows = [row for record in stream_records(context) for row in task_rows(record, state, dnodes)]
    return CatalogRows(TASK_TYPES, rows)


def task_rows(record: JobRecord, state: Snapshot, dnodes: dict[str, int]) -> list[Row]:
    """Return the rows of a stream's tasks, values in the order of `stream_tasks`."""
    sources = record.definition.source_ids
    reading = [] if len(sources) == 1 else [source_row(record, source, state, dnodes) for source in sources]
    return [*reading, task_row(record, state, dnodes)]


def source_row(record: JobRecord, source: SourceId, state: Snapshot, dnodes: dict[str, int]) -> Row:
    """Return the row of the part of a task that reads one of several sources, which `info` names."""
    row = list(task_row(record, state, dnodes))
    boundary, offsets = record.progress.boundary or {}, record.offsets or {}
    names = ("task_id", "level", "in_queue", "process_total", "out_total", "info", "start_ver", "checkpoint_ver")
    task_id = hexadecimal(hashlib.sha256(f"{record.definition.id} {source}".encode()).hexdigest())
    values = (task_id, "source", None, None, None, source, boundary.get(source), offsets.get(source))
    for name, value in zip(names, values, strict=True):
        row[TASK_COLUMNS.index(name)] = value
    return tuple(row)


def task_row(record: JobRecord, state: Snapshot, dnodes: dict[str, int]) -> Row:
    """Return the row of a stream's task. It has no versions if there are several sources, which have them."""
    definition, progress, counters = record.definition, record.progress, record.progress.counters
    has_one_source = len(definition.source_ids) == 1
    lease, beat = state.leases.get(definition.snode), state.beats.get(definition.snode)
    position = progress.position
    return (
        definition.name,
        hexadecimal(definition.id),
        "snode",
        dnodes.get(definition.snode, FIRST_DNODE),
        "agg",
        status(record),
        None if lease is None else lease.epoch,
        f"{counters.rows_pending} rows",
        f"{counters.rows_in - counters.rows_pending} rows",
        None,
        f"{counters.rows_out} rows",
        None,
        message(record),
        started(beat),
        None if position is None else 0,
        record.boundary_version if has_one_source else None,
        progress.updated if position is not None else None,
        None if position is None else position.batch,
        record.source_version if has_one_source else None,
        None,
        "none",
        None,
        history_id(record),
        status(record) if record.state is JobState.FILLING else None,
        None,
    )


def stream_records(context: Context) -> list[JobRecord]:
    """Return the streams by database and name, without those that are being dropped."""
    records = context.catalog.jobs.all(kind=STREAM)
    return [record for record in records if record.desired is not DesiredState.DROPPED]


def recorded_statement(definition: JobDefinition) -> CreateStream | None:
    """Return the statement of a stream; None if it cannot be parsed."""
    try:
        statement = parse(definition.sql, definition.dialect)
    except Error:
        return None
    return statement if isinstance(statement, CreateStream) else None


def watermark_ticks(context: Context, definition: JobDefinition, statement: CreateStream) -> int:
    """Return the watermark delay in ticks of the source."""
    return statement.options.watermark.ticks(context.catalog.databases.get(definition.source.database).precision)


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
