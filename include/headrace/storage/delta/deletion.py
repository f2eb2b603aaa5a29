"""Deletion of rows, and of some values of trees, within ranges of time, each in one commit whose log entry has the ranges."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable

from headrace.model.tables import Database, Table
from headrace.storage.delta.commits import DELETED_RANGES, DROPS, WriteMetrics
from headrace.storage.delta.committing import commit_once
from headrace.storage.delta.keys import quote_identifier, subtable_condition, time_condition
from headrace.storage.delta.pruning import Bounds
from headrace.storage.types import rows_schema

NO_ROWS: Final = "false"
MAX_CLEARED_DEVICES: Final = 10_000
"""Devices whose values one commit deletes: delta-rs overflows its stack with a predicate of many more names."""
ALL_TICKS: Final = ((-(2**63), 2**63 - 1),)
ONE_ROW: Final = pa.Table.from_arrays([pa.nulls(1, pa.int8())], ["headrace one row"])
"""Not made of a list, for which Arrow imports pandas."""

Ranges = Sequence[tuple[int, int]]
"""Ranges of ticks, both ends inclusive."""


def delete_rows(delta: DeltaTable, predicate: str | None, ranges: Ranges | None, *, drops: bool = False) -> WriteMetrics:
    """Delete rows, all without a predicate, whose times are in the ranges; None for all times.

    With `drops` the log says that their subtables are dropped, whose rows stay in the results of streams.
    """
    if predicate == NO_ROWS:
        return WriteMetrics(delta.version())
    metadata = logged_ranges(ranges) | ({DROPS: "true"} if drops else {})
    metrics = commit_once(delta, None, lambda properties: delta.delete(predicate, commit_properties=properties), metadata=metadata)
    return WriteMetrics(delta.version(), deleted=int(metrics["num_deleted_rows"]))


def delete_predicate(
    table: Table, database: Database, tbnames: Collection[str] | None, ranges: Ranges | None, prefix: str = ""
) -> str | None:
    """Return the predicate of a delete: None for all rows, `NO_ROWS` for none. `prefix` precedes the names of columns."""
    if (tbnames is not None and not tbnames) or (ranges is not None and not ranges):
        return NO_ROWS
    conditions = [subtable_condition(sorted(tbnames), table.series_key, prefix)] if tbnames is not None else []
    if ranges is not None:
        schema, name = rows_schema(table, database), table.timestamp.name
        bounds = [Bounds.of_ticks(low, high, database.precision) for low, high in ranges]
        conditions.append(f"({' OR '.join(f'({time_condition(schema, name, one, prefix)})' for one in bounds)})")
    return " AND ".join(conditions) or None


@dataclass(frozen=True, slots=True)
class Clearing:
    """A deletion of the values of some columns, as SQL of delta-rs.

    Attributes:
        scope: The rows whose values are deleted.
        emptied: Those of them that have no other values.
        changed: Those of them that have a value to delete.
        updates: The assignments to the latter.
        ranges: The ranges of time of the scope.
    """

    scope: str
    emptied: str
    changed: str
    updates: dict[str, str]
    ranges: Ranges | None

    def apply(self, delta: DeltaTable) -> WriteMetrics:
        """Delete the values; rows without any are deleted too."""
        if self.scope == NO_ROWS:
            return WriteMetrics(delta.version())

        def merge(properties: CommitProperties) -> dict[str, Any]:
            merger = delta.merge(ONE_ROW, self.scope, source_alias="s", target_alias="t", commit_properties=properties)
            return merger.when_matched_delete(self.emptied).when_matched_update(self.updates, self.changed).execute()

        metrics = commit_once(delta, None, merge, metadata=logged_ranges(self.ranges))
        return WriteMetrics(
            delta.version(), updated=int(metrics["num_target_rows_updated"]), deleted=int(metrics["num_target_rows_deleted"])
        )


def parts_of(devices: Sequence[str]) -> Iterator[Sequence[str]]:
    """Yield the devices of each commit that deletes values."""
    return (devices[first : first + MAX_CLEARED_DEVICES] for first in range(0, len(devices), MAX_CLEARED_DEVICES))


def clearing(table: Table, database: Database, names: Sequence[str], devices: Sequence[str], ranges: Ranges | None) -> Clearing:
    """Return the deletion of the values of columns of some devices."""
    others = [column.name for column in table.columns[1:] if column.name not in names]
    scope = delete_predicate(table, database, devices, ranges, "t.")
    assert scope is not None, "devices are a condition"
    return Clearing(
        scope=scope,
        emptied=" AND ".join(f"t.{quote_identifier(name)} IS NULL" for name in others) or "true",
        changed=" OR ".join(f"t.{quote_identifier(name)} IS NOT NULL" for name in names),
        updates={quote_identifier(name): "NULL" for name in names},
        ranges=ranges,
    )


def logged_ranges(ranges: Ranges | None) -> dict[str, str]:
    """Return the fields of a log entry that hold the ranges of a deletion."""
    return {DELETED_RANGES: json.dumps(ALL_TICKS if ranges is None else [*ranges])}
