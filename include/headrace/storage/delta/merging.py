"""Upserts and deletes of existing keys, as one merge of delta-rs."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, DeltaTable
from deltalake.table import TableMerger

from headrace.model.tables import Table, TableKind
from headrace.storage.delta.commits import Commit, WriteMetrics
from headrace.storage.delta.committing import commit_once
from headrace.storage.delta.keys import quote_identifier, subtable_condition, time_condition
from headrace.storage.delta.pruning import Bounds, time_bounds

# A longer list of names costs more than the pruning saves.
MAX_NAMES_IN_PREDICATE: Final = 64
OPERATION: Final = "__operation"
UPSERT: Final = 0
DELETE: Final = 1


RowSource: TypeAlias = "pa.Table | pa.RecordBatchReader"


@dataclass(frozen=True, slots=True)
class MergeScope:
    """Times and subtables of keys that exist, so that only files that may hold them are read. `names` None: any subtable."""

    times: Bounds
    names: tuple[str, ...] | None = None


def merge_scope(keys: pa.Table, table: Table) -> MergeScope:
    names: list[str] = pc.unique(keys[table.series_key]).to_pylist()
    return MergeScope(time_bounds(keys, table.timestamp.name), tuple(names) if len(names) <= MAX_NAMES_IN_PREDICATE else None)


def upsert(
    delta: DeltaTable,
    table: Table,
    schema: pa.Schema,
    rows: RowSource,
    scope: MergeScope,
    update_columns: Collection[str],
    commit: Commit | None,
) -> WriteMetrics:
    """Update existing keys in the `update_columns` columns, and insert the others. In a tree NULL changes nothing."""
    changing = [name for name in _value_columns(table, schema) if name in update_columns]
    # Writing an existing key is an update even if the table has no other columns.
    new_value = _source_or_stored if table.kind is TableKind.TREE else _source_column
    updates = {quote_identifier(name): new_value(name) for name in changing or [table.series_key]}

    def merge(properties: CommitProperties) -> dict[str, Any]:
        merger = _merger(delta, table, schema, rows, scope, properties)
        return merger.when_matched_update(updates).when_not_matched_insert(_insert_values(schema)).execute()

    return _metrics(delta, commit_once(delta, commit, merge))


def replace(
    delta: DeltaTable, table: Table, schema: pa.Schema, rows: RowSource, scope: MergeScope, commit: Commit | None
) -> WriteMetrics:
    """Upsert or delete marked rows in one commit; rows that would not change are left out."""
    values = _value_columns(table, schema)
    operation = _source_column(OPERATION)
    differs = " OR ".join(f"(t.{quote_identifier(name)} IS DISTINCT FROM {_source_column(name)})" for name in values)
    updates = {quote_identifier(name): _source_column(name) for name in values}

    def merge(properties: CommitProperties) -> dict[str, Any]:
        merger = _merger(delta, table, schema, rows, scope, properties).when_matched_delete(f"{operation} = {DELETE}")
        if values:
            merger = merger.when_matched_update(updates, predicate=f"{operation} = {UPSERT} AND ({differs})")
        return merger.when_not_matched_insert(_insert_values(schema), predicate=f"{operation} = {UPSERT}").execute()

    return _metrics(delta, commit_once(delta, commit, merge))


def mark_operations(upserts: pa.Table, deletes: pa.Table) -> pa.Table:
    parts = [mark_operation(upserts, UPSERT), mark_operation(deletes, DELETE)]
    return pa.concat_tables(parts, promote_options="default")


def mark_operation(rows: pa.Table, operation: int) -> pa.Table:
    return rows.append_column(OPERATION, pa.array([operation] * rows.num_rows, pa.int8()))


def operations_schema(schema: pa.Schema) -> pa.Schema:
    return schema.append(pa.field(OPERATION, pa.int8()))


def _value_columns(table: Table, schema: pa.Schema) -> list[str]:
    return [name for name in schema.names if name not in table.primary_key]


def _source_column(name: str) -> str:
    return f"s.{quote_identifier(name)}"


def _source_or_stored(name: str) -> str:
    return f"coalesce({_source_column(name)}, t.{quote_identifier(name)})"


def _insert_values(schema: pa.Schema) -> dict[str, str]:
    return {quote_identifier(name): _source_column(name) for name in schema.names}


def _merger(
    delta: DeltaTable, table: Table, schema: pa.Schema, rows: RowSource, scope: MergeScope, properties: CommitProperties
) -> TableMerger:
    conditions = [f"t.{quote_identifier(name)} = {_source_column(name)}" for name in table.primary_key]
    conditions.append(time_condition(schema, table.timestamp.name, scope.times, "t."))
    if scope.names is not None:
        conditions.append(subtable_condition(scope.names, table.series_key, "t."))
    return delta.merge(rows, " AND ".join(conditions), source_alias="s", target_alias="t", commit_properties=properties)


def _metrics(delta: DeltaTable, metrics: dict[str, Any]) -> WriteMetrics:
    return WriteMetrics(
        delta.version(),
        inserted=int(metrics["num_target_rows_inserted"]),
        updated=int(metrics["num_target_rows_updated"]),
        deleted=int(metrics["num_target_rows_deleted"]),
    )
