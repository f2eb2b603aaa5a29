"""What the catalog knows, as tables: `information_schema.ins_…`, from which SHOW takes its rows. No Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import pyarrow as pa

from headrace.model.streams import StreamRecord
from headrace.model.tables import TBNAME, Table
from headrace.runtime.context import Context
from headrace.service.results import INSTANT, Rows

SCHEMA: Final = "information_schema"
Row = tuple[Any, ...]


def databases(context: Context) -> Rows:
    rows = [(each.name, each.precision.value, each.timezone) for each in context.catalog.databases.all()]
    return build(rows, name=pa.string(), precision=pa.string(), timezone=pa.string())


def all_tables(context: Context) -> Iterator[Table]:
    for database in context.catalog.databases.all():
        yield from context.catalog.tables.all(database.name)


def stables(context: Context) -> Rows:
    rows = [(each.name, each.database, len(each.columns), len(each.tags)) for each in all_tables(context) if each.tags]
    return build(rows, stable_name=pa.string(), db_name=pa.string(), columns=pa.int32(), tags=pa.int32())


def tables(context: Context) -> Rows:
    rows: list[Row] = []
    for table in all_tables(context):
        stable, kind = (table.name, "CHILD_TABLE") if table.tags else (None, "NORMAL_TABLE")
        for subtable in context.catalog.subtables.all(table.database, table.name):
            rows.append((subtable.name, table.database, len(table.columns), stable, subtable.uid, kind))
    return build(
        rows,
        table_name=pa.string(),
        db_name=pa.string(),
        columns=pa.int32(),
        stable_name=pa.string(),
        uid=pa.int64(),
        type=pa.string(),
    )


def tags(context: Context) -> Rows:
    rows = [row for table in all_tables(context) if table.tags for row in tag_rows(context, table)]
    return build(
        rows,
        table_name=pa.string(),
        db_name=pa.string(),
        stable_name=pa.string(),
        tag_name=pa.string(),
        tag_type=pa.string(),
        tag_value=pa.string(),
    )


def tag_rows(context: Context, table: Table, subtable: str | None = None) -> Iterator[Row]:
    """A row for each tag of each subtable, or of one."""
    for values in context.tables.read_tags(table).to_pylist():
        if subtable in (None, values[TBNAME]):
            for tag in table.tags:
                value = values[tag.name]
                yield values[TBNAME], table.database, table.name, tag.name, str(tag.type), None if value is None else str(value)


def columns(context: Context) -> Rows:
    rows = [
        (table.name, table.database, place, column.name, str(column.type))
        for table in all_tables(context)
        for place, column in enumerate(table.columns)
    ]
    return build(rows, table_name=pa.string(), db_name=pa.string(), position=pa.int32(), col_name=pa.string(), col_type=pa.string())


def streams(context: Context) -> Rows:
    rows = [stream_row(record) for record in context.catalog.streams.all()]
    return build(
        rows,
        stream_name=pa.string(),
        db_name=pa.string(),
        create_time=INSTANT,
        stream_id=pa.string(),
        sql=pa.string(),
        status=pa.string(),
        source_db=pa.string(),
        source_table=pa.string(),
        target_db=pa.string(),
        target_table=pa.string(),
        snode=pa.string(),
        message=pa.string(),
        lag_ms=pa.int64(),
        rows_in=pa.int64(),
        rows_used=pa.int64(),
        rows_filtered=pa.int64(),
        rows_expired=pa.int64(),
        rows_pending=pa.int64(),
        rows_out=pa.int64(),
        updated=INSTANT,
    )


def stream_row(record: StreamRecord) -> Row:
    definition, progress, counters = record.definition, record.progress, record.progress.counters
    return (
        definition.name,
        definition.database,
        definition.created,
        definition.id,
        definition.sql,
        record.state.value,
        definition.source_database,
        definition.source_table,
        definition.target_database,
        definition.target_table,
        definition.snode,
        message_of(record),
        progress.lag_ms,
        counters.rows_in,
        counters.rows_used,
        counters.rows_filtered,
        counters.rows_expired,
        counters.rows_pending,
        counters.rows_out,
        progress.updated,
    )


def message_of(record: StreamRecord) -> str | None:
    """Why a stream is stopped, in one line."""
    reason = record.reason
    return None if reason is None else f"[{reason.code}] {reason.message} ({reason.hint})"


def build(rows: list[Row], /, **types: pa.DataType) -> Rows:
    """Rows with a column for each type."""
    return Rows(types, rows)


RELATIONS: Final[dict[str, Callable[[Context], Rows]]] = {
    "ins_databases": databases,
    "ins_stables": stables,
    "ins_tables": tables,
    "ins_tags": tags,
    "ins_columns": columns,
    "ins_streams": streams,
}
