"""Upserts and deletes of rows whose keys exist, as one merge of delta-rs."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from deltalake.table import TableMerger

from headrace.model.tables import Table
from headrace.storage.commits import Commit, Written, properties
from headrace.storage.keys import among, quoted, within
from headrace.storage.pruning import Bounds, bounds_of

# Beyond so many names a list of them costs more than it spares.
MOST_NAMES: Final = 64
OPERATION: Final = "__operation"
UPSERT: Final = 0
DELETE: Final = 1


Rows: TypeAlias = "pa.Table | pa.RecordBatchReader"


@dataclass(frozen=True, slots=True)
class Scope:
    """Where keys lie that exist already: only files that may hold them are read. `names` None: in any subtable."""

    times: Bounds
    names: tuple[str, ...] | None = None


def scope_of(known: pa.Table, table: Table) -> Scope:
    """The scope of some keys, of which there is at least one."""
    names: list[str] = pc.unique(known[table.series_key]).to_pylist()
    return Scope(bounds_of(known, table.timestamp.name), tuple(names) if len(names) <= MOST_NAMES else None)


def upsert(
    delta: DeltaTable,
    table: Table,
    schema: pa.Schema,
    rows: Rows,
    scope: Scope,
    given: Collection[str] | None,
    commit: Commit | None,
) -> Written:
    """Keys that exist are updated in the columns given (None: all), the others inserted."""
    changing = [name for name in _values(table, schema) if given is None or name in given]
    merger = _merger(delta, table, schema, rows, scope, commit)
    # A table of keys alone still has its rows written anew: a write of a known key is an update, whatever it changes.
    updates = {quoted(name): _source(name) for name in changing or [table.series_key]}
    return _executed(merger.when_matched_update(updates).when_not_matched_insert(_all(schema)), delta)


def replace(delta: DeltaTable, table: Table, schema: pa.Schema, rows: Rows, scope: Scope, commit: Commit | None) -> Written:
    """Marked rows upserted as a whole, or deleted, in one commit; rows that would not change are left alone."""
    merger = _merger(delta, table, schema, rows, scope, commit)
    values = _values(table, schema)
    operation = _source(OPERATION)
    merger = merger.when_matched_delete(f"{operation} = {DELETE}")
    if values:
        differs = " OR ".join(f"(t.{quoted(name)} IS DISTINCT FROM {_source(name)})" for name in values)
        merger = merger.when_matched_update(
            {quoted(name): _source(name) for name in values}, predicate=f"{operation} = {UPSERT} AND ({differs})"
        )
    return _executed(merger.when_not_matched_insert(_all(schema), predicate=f"{operation} = {UPSERT}"), delta)


def marked(upserts: pa.Table, deletes: pa.Table) -> pa.Table:
    """Rows to be upserted and keys to be deleted, as `replace` takes them."""
    parts = [mark(upserts, UPSERT), mark(deletes, DELETE)]
    return pa.concat_tables(parts, promote_options="default")


def mark(rows: pa.Table, operation: int) -> pa.Table:
    return rows.append_column(OPERATION, pa.array([operation] * rows.num_rows, pa.int8()))


def marked_schema(schema: pa.Schema) -> pa.Schema:
    """Columns of marked rows."""
    return schema.append(pa.field(OPERATION, pa.int8()))


def _values(table: Table, schema: pa.Schema) -> list[str]:
    return [name for name in schema.names if name not in table.primary_key]


def _source(name: str) -> str:
    return f"s.{quoted(name)}"


def _all(schema: pa.Schema) -> dict[str, str]:
    return {quoted(name): _source(name) for name in schema.names}


def _merger(delta: DeltaTable, table: Table, schema: pa.Schema, rows: Rows, scope: Scope, commit: Commit | None) -> TableMerger:
    conditions = [f"t.{quoted(name)} = {_source(name)}" for name in table.primary_key]
    conditions.append(within(schema, table.timestamp.name, scope.times, "t."))
    if scope.names is not None:
        conditions.append(among(scope.names, table.series_key, "t."))
    return delta.merge(rows, " AND ".join(conditions), source_alias="s", target_alias="t", commit_properties=properties(commit))


def _executed(merger: TableMerger, delta: DeltaTable) -> Written:
    metrics: dict[str, Any] = merger.execute()
    return Written(
        delta.version(),
        inserted=int(metrics["num_target_rows_inserted"]),
        updated=int(metrics["num_target_rows_updated"]),
        deleted=int(metrics["num_target_rows_deleted"]),
    )
