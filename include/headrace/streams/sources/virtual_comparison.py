"""Compares the rows of a virtual table before and after changes of its origins.

Rows of origins that have not changed are the same before and after, so they are looked up once, and only where they are needed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.compute import Scan
from headrace.model.tables import ColumnReference, Table, TableId
from headrace.storage.delta.change_columns import COMMIT_VERSION, changes_schema
from headrace.storage.delta.log import CHANGE_TYPE
from headrace.storage.row_matching import anti_join, match_rows, row_ids
from headrace.streams.sources.virtual_rows import align, stored_columns

OLD_VALUES = ["delete", "update_preimage"]
ONLY_VERSION = 0
"""The version of all changes of a micro-batch."""

FindRows = Callable[[Table, pa.Table], pa.Table]
"""Returns the stored rows of an origin that have some keys: series and timestamp. It may return others too."""


@dataclass(frozen=True, slots=True)
class OriginChanges:
    """The rows of one stored table that a micro-batch changes, before and after it."""

    before: pa.Table
    after: pa.Table


@dataclass(frozen=True)
class VirtualComparison:
    """Turns changes of the origins of a virtual table into those of its rows. `tables` are the origins."""

    scan: Scan
    tables: Mapping[TableId, Table]

    @property
    def references(self) -> tuple[ColumnReference, ...]:
        return tuple(self.scan.references_read)

    @property
    def key(self) -> list[str]:
        """The columns that identify a row of the virtual table."""
        return [self.scan.table.series_key, self.scan.table.timestamp.name]

    @property
    def has_single_sources(self) -> bool:
        """Whether all columns of each series come from one series of one origin, so that its rows need no others."""
        sources: dict[str, set[tuple[TableId, str]]] = {}
        for one in self.references:
            sources.setdefault(one.series, set()).add((one.origin, one.origin_series))
        return all(len(origins) == 1 for origins in sources.values())

    def series_of(self, origin: TableId) -> list[str]:
        """Return the series of an origin that are read."""
        return sorted({reference.origin_series for reference in self.references if reference.origin == origin})

    def own_changes(self, table: Table, changes: pa.Table) -> pa.Table:
        columns = stored_columns(table, self.references)
        own = pc.is_in(changes[table.series_key], pa.array(self.series_of(table.id), pa.string()))
        return changes.filter(own).select([*columns, CHANGE_TYPE, COMMIT_VERSION])

    def compare(self, own_changes: Mapping[TableId, pa.Table], find_rows: FindRows) -> pa.Table:
        """Return the changes of the virtual rows at all instants that the own changes of origins touch."""
        changes = {origin: first_and_last(self.tables[origin], rows) for origin, rows in own_changes.items()}
        both = {origin: pa.concat_tables([change.before, change.after]) for origin, change in changes.items()}
        touched = align(self.scan, both, self.tables, self.references).select(self.key)
        unchanged = {
            origin: self._unchanged_rows(table, touched, both.get(origin), find_rows) for origin, table in self.tables.items()
        }
        before = self._align(unchanged, {origin: change.before for origin, change in changes.items()})
        after = self._align(unchanged, {origin: change.after for origin, change in changes.items()})
        return difference(before, after, self.key)

    def _align(self, unchanged: Mapping[TableId, pa.Table], changed: Mapping[TableId, pa.Table]) -> pa.Table:
        parts = {
            origin: pa.concat_tables([rows, changed[origin]]) if origin in changed else rows for origin, rows in unchanged.items()
        }
        return align(self.scan, parts, self.tables, self.references)

    def _unchanged_rows(self, table: Table, touched: pa.Table, changed: pa.Table | None, find_rows: FindRows) -> pa.Table:
        key = [table.series_key, table.timestamp.name]
        wanted = self._stored_keys(table, touched)
        if changed is not None:
            wanted = anti_join(wanted, changed.select(key), key)
        rows = find_rows(table, wanted)
        return rows.filter(pa.array(match_rows(rows, wanted, key) >= 0))

    def _stored_keys(self, table: Table, touched: pa.Table) -> pa.Table:
        """Return the series and instants of an origin that touched virtual rows are made of, each once."""
        series_key, timestamp = self.key
        pairs = sorted({(one.series, one.origin_series) for one in self.references if one.origin == table.id})
        keys = [touched.slice(0, 0).rename_columns([table.series_key, table.timestamp.name])]
        for series, stored in pairs:
            times = touched.filter(pc.equal(touched[series_key], series))[timestamp]
            names = pa.repeat(pa.scalar(stored), len(times))
            keys.append(pa.table([names, times], keys[0].schema.names))
        return pa.concat_tables(keys).group_by(keys[0].schema.names).aggregate([])


def first_and_last(table: Table, changes: pa.Table) -> OriginChanges:
    (ids,) = row_ids([changes], [table.series_key, table.timestamp.name])
    is_old = np.asarray(pc.is_in(changes[CHANGE_TYPE], pa.array(OLD_VALUES)))
    order = np.lexsort((~is_old, np.asarray(changes[COMMIT_VERSION]), ids))
    starts = np.flatnonzero(np.diff(ids[order], prepend=-1))
    ends = np.append(starts[1:], len(order)) - 1 if len(starts) else starts
    first, last = order[starts], order[ends]
    rows = changes.drop_columns([CHANGE_TYPE, COMMIT_VERSION])
    return OriginChanges(rows.take(pa.array(first[is_old[first]])), rows.take(pa.array(last[~is_old[last]])))


def difference(before: pa.Table, after: pa.Table, key: list[str]) -> pa.Table:
    """Return the changes that turn rows into others, as a change feed has them."""
    index = match_rows(after, before, key)
    is_in_both = index >= 0
    kept_before, kept_after = before.take(pa.array(index[is_in_both])), after.filter(pa.array(is_in_both))
    is_updated = pa.array(~are_equal(kept_before, kept_after))
    is_deleted = np.ones(before.num_rows, np.bool_)
    is_deleted[index[is_in_both]] = False
    kinds = {
        "insert": after.filter(pa.array(~is_in_both)),
        "delete": before.filter(pa.array(is_deleted)),
        "update_preimage": kept_before.filter(is_updated),
        "update_postimage": kept_after.filter(is_updated),
    }
    schema = changes_schema(after.schema)
    return pa.concat_tables([as_changes(rows, kind, schema) for kind, rows in kinds.items()])


def are_equal(rows: pa.Table, others: pa.Table) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Return for each row whether it equals the other row at its place; NULL equals NULL."""
    equal = np.ones(rows.num_rows, np.bool_)
    for one, other in zip(rows.columns, others.columns, strict=True):
        same = pc.fill_null(pc.equal(one, other), False)
        equal &= np.asarray(pc.or_(same, pc.and_(pc.is_null(one), pc.is_null(other))))
    return equal


def as_changes(rows: pa.Table, kind: str, schema: pa.Schema) -> pa.Table:
    count = rows.num_rows
    bookkeeping = [pa.repeat(pa.scalar(kind), count), pa.repeat(pa.scalar(ONLY_VERSION, pa.int64()), count)]
    return pa.table([*rows.columns, *bookkeeping], names=schema.names).cast(schema)
