"""Upserts and deletes of rows whose keys exist, as one merge of delta-rs."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from deltalake.table import TableMerger

from headrace.model.tables import TBNAME, Table
from headrace.storage.commits import Commit, Written, properties
from headrace.storage.keys import among, quoted, within
from headrace.storage.pruning import bounds_of

# Beyond so many names a list of them costs more than it spares.
MOST_NAMES: Final = 64
OPERATION: Final = "__operation"
UPSERT: Final = 0
DELETE: Final = 1


def upsert(
    delta: DeltaTable,
    table: Table,
    schema: pa.Schema,
    rows: pa.Table,
    known: pa.Table,
    given: Collection[str] | None,
    commit: Commit | None,
) -> Written:
    """Rows of which some keys are `known`: those are updated in the columns given (None: all), the others inserted."""
    changing = [name for name in _values(table, schema) if given is None or name in given]
    merger = _merger(delta, table, schema, rows, known, commit)
    # A table of keys alone still has its rows written anew: a write of a known key is an update, whatever it changes.
    updates = {quoted(name): _source(name) for name in changing or [TBNAME]}
    merger = merger.when_matched_update(updates).when_not_matched_insert(_all(schema))
    return _executed(merger, delta)


def replace(
    delta: DeltaTable, table: Table, schema: pa.Schema, upserts: pa.Table, deletes: pa.Table, known: pa.Table, commit: Commit | None
) -> Written:
    """Upserts (whole rows) and deletes (of known keys) in one commit; rows that would not change are left alone."""
    rows = pa.concat_tables([_marked(upserts, UPSERT), _marked(deletes, DELETE)], promote_options="default")
    merger = _merger(delta, table, schema, rows, known, commit)
    values = _values(table, schema)
    operation = _source(OPERATION)
    merger = merger.when_matched_delete(f"{operation} = {DELETE}")
    if values:
        differs = " OR ".join(f"(t.{quoted(name)} IS DISTINCT FROM {_source(name)})" for name in values)
        merger = merger.when_matched_update(
            {quoted(name): _source(name) for name in values}, predicate=f"{operation} = {UPSERT} AND ({differs})"
        )
    return _executed(merger.when_not_matched_insert(_all(schema), predicate=f"{operation} = {UPSERT}"), delta)


def _marked(rows: pa.Table, operation: int) -> pa.Table:
    return rows.append_column(OPERATION, pa.array([operation] * rows.num_rows, pa.int8()))


def _values(table: Table, schema: pa.Schema) -> list[str]:
    return [name for name in schema.names if name not in table.primary_key]


def _source(name: str) -> str:
    return f"s.{quoted(name)}"


def _all(schema: pa.Schema) -> dict[str, str]:
    return {quoted(name): _source(name) for name in schema.names}


def _merger(
    delta: DeltaTable, table: Table, schema: pa.Schema, rows: pa.Table, known: pa.Table, commit: Commit | None
) -> TableMerger:
    return delta.merge(
        rows,
        _predicate(table, schema, known),
        source_alias="s",
        target_alias="t",
        commit_properties=properties(commit),
    )


def _predicate(table: Table, schema: pa.Schema, known: pa.Table) -> str:
    """Equal keys, and where those that are known lie: only files that may hold them are read."""
    conditions = [f"t.{quoted(name)} = {_source(name)}" for name in table.primary_key]
    time = table.timestamp.name
    conditions.append(within(schema, time, bounds_of(known, time), "t."))
    names: Sequence[str] = pc.unique(known[TBNAME]).to_pylist()
    if len(names) <= MOST_NAMES:
        conditions.append(among(names, "t."))
    return " AND ".join(conditions)


def _executed(merger: TableMerger, delta: DeltaTable) -> Written:
    metrics: dict[str, Any] = merger.execute()
    return Written(
        delta.version(),
        inserted=int(metrics["num_target_rows_inserted"]),
        updated=int(metrics["num_target_rows_updated"]),
        deleted=int(metrics["num_target_rows_deleted"]),
    )
