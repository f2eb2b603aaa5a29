"""System tables: the catalog as `information_schema.ins_…`, from which SHOW takes its rows. Needs no Spark."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from functools import partial
from typing import Any, Final, NamedTuple

from headrace.context import Context
from headrace.jobs.registry import is_known, kind_of
from headrace.model.access import ADMINISTRATOR, Grant, Privilege
from headrace.model.job_parts import part_ids, snodes_of, whole_id
from headrace.model.jobs import DesiredState, JobCounters, JobDefinition, JobRecord
from headrace.model.ledger import HISTORY
from headrace.model.masking import masked
from headrace.model.quarantine import QuarantinedRow, QuarantineRequest
from headrace.model.statements import Select
from headrace.model.tables import Table
from headrace.model.time import Precision
from headrace.runtime.activity import (
    NO_ACTIVITY,
    SLOW_BATCH,
    SLOW_BATCH_HINT,
    ReportedActivity,
    current_lag_ms,
    read_present,
    reported_activity,
)
from headrace.runtime.supervision import stale_after_ms
from headrace.service import function_tables, lineage_table, stream_tables
from headrace.service.results import BIGINT, BOOL, DOUBLE, INSTANT, INT, STRING, CatalogRows, ColumnOf, Type, read_columns
from headrace.service.visible_rows import reads_source, visible, visible_jobs
from headrace.sql import to_sql
from headrace.sql.tdengine.words import LEXICAL_RULES
from headrace.sql.tokens import TokenType, tokenize
from headrace.streams.kind import STREAM

SAMPLE_COLUMNS: Final[dict[str, Type]] = {
    "time": INSTANT,
    "rows_behind": BIGINT,
    "lag_ms": BIGINT,
    "event_lag_ms": BIGINT,
    "batches": BIGINT,
    "batch_ms": DOUBLE,
    "read_ms": DOUBLE,
    "compute_ms": DOUBLE,
    "checkpoint_ms": DOUBLE,
    "write_ms": DOUBLE,
    "record_ms": DOUBLE,
    "rows_in_s": DOUBLE,
    "rows_out_s": DOUBLE,
    "state_windows": BIGINT,
    "state_bytes": BIGINT,
    "quarantined": BIGINT,
}
TAG_COLUMNS: Final = ("table_name", "db_name", "stable_name", "tag_name", "tag_type", "tag_value")
COUNTERS: Final = tuple(field.name for field in fields(JobCounters) if field.name.startswith("rows_"))
SCHEMA: Final = "information_schema"
Row = tuple[Any, ...]


def databases(context: Context) -> CatalogRows:
    """Return a row for each database."""
    rows = [
        (database.name, database.precision.value, database.timezone, dict(database.options).get("keep"))
        for database in context.catalog.databases.all()
    ]
    return build_rows(rows, name=STRING, precision=STRING, timezone=STRING, keep=STRING)


def all_tables(context: Context) -> Iterator[Table]:
    for database in context.catalog.databases.all():
        yield from context.catalog.tables.all(database.name)


def stables(context: Context) -> CatalogRows:
    rows = [
        (table.name, table.database, len(table.columns), len(table.tags), table.comment)
        for table in all_tables(context)
        if table.tags
    ]
    return build_rows(rows, stable_name=STRING, db_name=STRING, columns=INT, tags=INT, table_comment=STRING)


def tables(context: Context) -> CatalogRows:
    """Return a row for each plain table and each subtable."""
    rows: list[Row] = []
    ttls = {database.name: context.catalog.expirations.days(database.name) for database in context.catalog.databases.all()}
    for table in all_tables(context):
        stable, kind = (table.name, "CHILD_TABLE") if table.tags else (None, "NORMAL_TABLE")
        comment = None if table.tags else table.comment
        kind = f"VIRTUAL_{kind}" if table.is_virtual else f"EXTERNAL_{kind}" if table.external is not None else kind
        for subtable in context.catalog.subtables.all(table.database, table.name):
            ttl = ttls.get(table.database, {}).get(subtable.name, 0)
            rows.append((subtable.name, table.database, len(table.columns), stable, subtable.uid, ttl, kind, comment))
    types = {"table_name": STRING, "db_name": STRING, "columns": INT, "stable_name": STRING, "uid": BIGINT, "ttl": INT}
    return CatalogRows({**types, "type": STRING, "table_comment": STRING}, rows)


def tags(context: Context) -> CatalogRows:
    """Return a row for each tag of each subtable."""
    rows = [row for table in all_tables(context) if table.tags for row in tag_rows(context, table)]
    return CatalogRows(dict.fromkeys(TAG_COLUMNS, STRING), rows)


def tag_rows(context: Context, table: Table, subtable: str | None = None) -> Iterator[Row]:
    """Yield a row for each tag of each subtable, or of one subtable."""
    for values in context.tables.tags.read(table).to_pylist():
        name = values[table.series_key]
        if subtable in (None, name):
            for tag in table.tags:
                value = values[tag.name]
                yield name, table.database, table.name, tag.name, str(tag.type), None if value is None else str(value)


def columns(context: Context) -> CatalogRows:
    """Return a row for each column of each table."""
    rows = [
        (table.name, table.database, position, column.name, str(column.type))
        for table in all_tables(context)
        for position, column in enumerate(table.columns)
    ]
    return build_rows(rows, table_name=STRING, db_name=STRING, position=INT, col_name=STRING, col_type=STRING)


def jobs(context: Context) -> CatalogRows:
    """Return a row for each job, by kind and name."""
    state, histories = read_present(context), context.catalog.executions.histories()
    activity = reported_activity(state, stale_after_ms(context.settings))
    rows = [
        (
            job.name,
            job.database or None,
            job.kind,
            job.owner,
            state_word(record),
            None if record.reason is None else str(record.reason),
            snodes_of(record),
            current_lag_ms(record, activity.get(job.id), histories.get(job.id), state.now),
            record.progress.counters.rows_out,
            job.created,
            job.id,
        )
        for record in sorted(visible_jobs(context, state.jobs.values()), key=kind_and_name)
        for job in (record.definition,)
        if record.desired is not DesiredState.DROPPED
    ]
    types = {"job_name": STRING, "db_name": STRING, "kind": STRING, "owner": STRING, "status": STRING, "message": STRING}
    types |= {"snode": STRING, "lag_ms": BIGINT, "rows_out": BIGINT, "create_time": INSTANT, "job_id": STRING}
    return CatalogRows(types, rows)


def kind_and_name(record: JobRecord) -> tuple[str, str]:
    return record.definition.kind, str(record.definition)


def job_versions(context: Context) -> CatalogRows:
    """Return the versions of each job's statement, oldest first."""
    definitions = {record.definition.id: record.definition for record in visible_jobs(context, context.catalog.jobs.all())}
    rows = [
        (job.name, job.database or None, job.kind, one.number, one.time, one.user_name, masked(one.sql), job.id)
        for one in context.catalog.job_versions.all()
        if (job := definitions.get(one.job_id)) is not None
    ]
    types = {"job_name": STRING, "db_name": STRING, "kind": STRING, "version": INT, "time": INSTANT, "user_name": STRING}
    return CatalogRows({**types, "sql": STRING, "job_id": STRING}, rows)


def state_word(record: JobRecord) -> str:
    kind = record.definition.kind
    return kind_of(kind).state_word(record.state) if is_known(kind) else record.state.value


@dataclass(frozen=True, slots=True)
class StreamProgress:
    """A stream at an instant, in epoch ms."""

    record: JobRecord
    activity: ReportedActivity
    now: int
    closed_until: int | None
    rows_history: int | None


PROGRESS_COLUMNS: Final[dict[str, ColumnOf[StreamProgress]]] = {
    "stream_name": (STRING, lambda stream: stream.record.definition.name),
    "db_name": (STRING, lambda stream: stream.record.definition.database),
    "create_time": (INSTANT, lambda stream: stream.record.definition.created),
    "stream_id": (STRING, lambda stream: stream.record.definition.id),
    "sql": (STRING, lambda stream: masked(stream.record.definition.sql)),
    "status": (STRING, lambda stream: stream.record.state.value),
    "source_db": (STRING, lambda stream: stream.record.definition.source.database),
    "source_table": (STRING, lambda stream: stream.record.definition.source.name),
    "target_db": (STRING, lambda stream: stream.record.definition.target and stream.record.definition.target.database),
    "target_table": (STRING, lambda stream: stream.record.definition.target and stream.record.definition.target.name),
    "snode": (STRING, lambda stream: snodes_of(stream.record)),
    "message": (STRING, lambda stream: status_message(stream.record, stream.activity)),
    "lag_ms": (BIGINT, lambda stream: current_lag_ms(stream.record, stream.activity, None, stream.now)),
    "closed_until": (INSTANT, lambda stream: stream.closed_until),
    **{name: (BIGINT, partial(lambda name, stream: getattr(stream.record.progress.counters, name), name)) for name in COUNTERS},
    "updated": (INSTANT, lambda stream: stream.record.progress.updated),
    "rows_history": (BIGINT, lambda stream: stream.rows_history),
    "batch_ms": (BIGINT, lambda stream: stream.activity.batch_ms),
}


def stream_progress(context: Context) -> CatalogRows:
    """Return a row for each stream, with its state, lag and counters."""
    state = read_present(context)
    activity = reported_activity(state, stale_after_ms(context.settings))
    records = [record for record in visible_jobs(context, state.jobs.values()) if record.definition.kind == STREAM]
    rows = (
        StreamProgress(record, activity.get(record.definition.id, NO_ACTIVITY), state.now, *read_extent(context, record))
        for record in records
    )
    return read_columns(PROGRESS_COLUMNS, rows)


def read_extent(context: Context, record: JobRecord) -> tuple[int | None, int | None]:
    """Return the instant by which all windows that end are closed, and the stored rows that were read for the history, if any."""
    has_history = record.progress.boundary is not None
    rows = context.catalog.ledger.summary(record.definition.id, HISTORY).rows_done if has_history else None
    return read_closed_until(context, record), rows


def read_closed_until(context: Context, record: JobRecord) -> int | None:
    """Return the instant by which all windows that end are closed and written, in epoch ms; None if there is none yet."""
    watermark, source = record.progress.watermark, record.definition.source
    if watermark is None or not source.database:
        return None
    return watermark * 1000 // context.catalog.databases.get(source.database).precision.ticks_per_second


class HeldRow(NamedTuple):
    """A row in quarantine of a stream, whose time is in ticks of a precision."""

    stream: JobDefinition
    row: QuarantinedRow
    precision: Precision


QUARANTINE_COLUMNS: Final[dict[str, ColumnOf[HeldRow]]] = {
    "stream_name": (STRING, lambda held: held.stream.name),
    "db_name": (STRING, lambda held: held.stream.database),
    "table_name": (STRING, lambda held: held.row.key.series),
    "row_time": (INSTANT, lambda held: held.row.key.time * 1000 // held.precision.ticks_per_second),
    "reason": (STRING, lambda held: held.row.code.value),
    "message": (STRING, lambda held: held.row.message),
    "row": (STRING, lambda held: json.dumps(held.row.values, ensure_ascii=False)),
    "since": (INSTANT, lambda held: held.row.since),
    "replay": (BOOL, lambda held: held.row.requested is QuarantineRequest.REPLAY),
}


def stream_quarantine(context: Context) -> CatalogRows:
    """Return the rows in quarantine of all streams whose source the user may read, oldest first."""
    permissions = context.permissions()
    held = [
        HeldRow(record.definition, row, precision)
        for record in stream_tables.stream_records(context)
        if reads_source(permissions, record.definition)
        for precision in (context.catalog.databases.get(record.definition.source.database).precision,)
        for id in part_ids(record.definition)
        for row in context.catalog.quarantine.rows(id)
        if row.dropped is None
    ]
    return read_columns(QUARANTINE_COLUMNS, held)


def stream_metrics(context: Context) -> CatalogRows:
    """Return the samples of all streams, of each part of one, oldest first."""
    definitions = {record.definition.id: record.definition for record in stream_tables.stream_records(context)}
    rows = [
        (job.name, job.database, *(getattr(sample, name) for name in SAMPLE_COLUMNS))
        for sample in context.catalog.stream_metrics.all()
        if (job := definitions.get(whole_id(sample.job_id))) is not None
    ]
    return build_rows(rows, stream_name=STRING, db_name=STRING, **SAMPLE_COLUMNS)


def status_message(record: JobRecord, activity: ReportedActivity) -> str | None:
    """Return why a stream is stopped, else that its micro-batch is slow, in one line."""
    if (reason := record.reason) is not None:
        return f"[{reason.code}] {reason.message} ({reason.hint})"
    if record.desired is DesiredState.PAUSED and activity.batch_ms is not None:
        return "the micro-batch in flight ends first"
    return None if activity.slow_batch is None else f"[{SLOW_BATCH}] {activity.slow_batch} ({SLOW_BATCH_HINT})"


def users(context: Context) -> CatalogRows:
    """Return a row for each user, as far as the user may know of them."""
    permissions = context.permissions()
    stored = [user for user in context.catalog.access.users() if user.name != ADMINISTRATOR]
    rows = [(ADMINISTRATOR, 1, 1, 1, None), *((user.name, 0, int(user.is_enabled), 1, user.created) for user in stored)]
    seen = [row for row in rows if permissions.allows(Privilege.MANAGE_USER) or row[0] == permissions.user]
    return build_rows(seen, name=STRING, super=INT, enable=INT, sysinfo=INT, create_time=INSTANT)


def user_privileges(context: Context) -> CatalogRows:
    """Return a row for each privilege of each user, those of the other language included, as far as the user may know of them."""
    permissions, access = context.permissions(), context.catalog.access
    names = [user.name for user in access.users() if user.name != ADMINISTRATOR]
    seen = [name for name in names if permissions.allows(Privilege.MANAGE_USER) or name == permissions.user]
    grants = [(name, role, grant) for name in seen for role, grant in access.owner_permissions(name).grants]
    rows = [(name, *privilege_row(grant), role) for name, role, grant in grants]
    return build_rows(
        rows, user_name=STRING, privilege=STRING, db_name=STRING, table_name=STRING, condition=STRING, role_name=STRING
    )


def audit_log(context: Context) -> CatalogRows:
    """Return what users did and were refused, the newest first. Only the administrator sees it."""
    entries = context.catalog.audit_log.entries() if context.permissions().is_administrator else []
    rows = [(one.time, one.user, one.address, one.action, one.statement, one.is_allowed, one.reason) for one in entries]
    types = {"time": INSTANT, "user_name": STRING, "address": STRING, "action": STRING, "statement": STRING}
    return CatalogRows({**types, "allowed": BOOL, "reason": STRING}, rows)


def privilege_row(grant: Grant) -> Row:
    """Return privilege, database, table and condition; a path of a tree is in the column of the table."""
    if not grant.privilege.is_on_tables:
        return grant.privilege.value.lower(), "", grant.target, ""
    database, _, table = grant.target.partition(".")
    return grant.privilege.value.removesuffix("_TABLE").lower(), database, "" if table == "*" else table, grant.condition


def build_rows(rows: list[Row], /, **types: Type) -> CatalogRows:
    return CatalogRows(types, rows)


RELATIONS: Final[dict[str, Callable[[Context], CatalogRows]]] = {
    "ins_databases": visible(databases),
    "ins_stables": visible(stables),
    "ins_tables": visible(tables),
    "ins_tags": visible(tags),
    "ins_columns": visible(columns),
    "ins_functions": function_tables.functions,
    "ins_jobs": jobs,
    "ins_job_versions": job_versions,
    "ins_lineage": lineage_table.lineage,
    "ins_streams": stream_tables.streams,
    "ins_stream_tasks": stream_tables.stream_tasks,
    "ins_stream_progress": stream_progress,
    "ins_stream_quarantine": stream_quarantine,
    "ins_stream_metrics": stream_metrics,
    "ins_users": users,
    "ins_user_privileges": user_privileges,
    "ins_audit_log": audit_log,
}


def duckdb_sql(statement: Select) -> str:
    """Write a query over system tables for DuckDB: its quotes, and without the schema, since DuckDB has one of that name."""
    text, position, last, parts = to_sql(statement), 0, "", []
    for token in tokenize(text, LEXICAL_RULES):
        raw = text[token.start : token.end]
        parts.append(text[position : token.start])
        if token.kind is TokenType.STRING:
            parts.append("'" + LEXICAL_RULES.unquote(raw).replace("'", "''") + "'")
        elif token.kind is TokenType.QUOTED:
            parts.append('"' + LEXICAL_RULES.name(raw).replace('"', '""') + '"')
        elif SCHEMA not in (raw, last):
            parts.append(raw)
        position, last = token.end, raw
    return "".join(parts)
