"""Reading the stored rows from which windows are recalculated, in the ranges and as of the writes that are needed."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.context import Context
from headrace.model.time import Precision
from headrace.storage import Bounds
from headrace.storage.row_matching import row_ids
from headrace.streams.definition.define import StreamPlan
from headrace.streams.sources.stored import scan_source
from headrace.streams.sources.tags import with_tags
from headrace.streams.windows.change_batch import CHANGE, VERSION, Bools, ChangeBatch, Changes, Int64s, to_numpy
from headrace.streams.windows.retention import subtable_key

MAX_RANGES: Final = 32
"""Ranges to read separately; if there are more, the closest are merged."""

Ranges = list[tuple[int, int]]
"""Disjoint ranges of ticks, both ends inclusive, in order."""
FROM = "_from"
TO = "_to"
OLD_VALUES: Final = ("delete", "update_preimage")
ALL_VERSIONS = (np.iinfo(np.int64).min, np.iinfo(np.int64).max)


@dataclass(frozen=True)
class VersionedRows:
    """Stored rows, and the first and last version in which each had its value."""

    rows: pa.Table
    first: Int64s
    last: Int64s

    @property
    def is_changed(self) -> Bools:
        """A mask of the rows that had this value only before or after some write."""
        return np.asarray((self.first != ALL_VERSIONS[0]) | (self.last != ALL_VERSIONS[1]))

    @classmethod
    def unchanged(cls, rows: pa.Table) -> VersionedRows:
        return cls(rows, *(np.full(rows.num_rows, version) for version in ALL_VERSIONS))


def read_stored_rows(context: Context, plan: StreamPlan, batch: ChangeBatch, changes: Changes, ranges: Ranges) -> VersionedRows:
    """Return the rows that the source had, at any write of a batch, within ranges of time."""
    names = affected_subtables(plan, batch)
    bounds = [Bounds.of_ticks(low, high, plan.query.precision) for low, high in ranges]
    is_needed = in_ranges(plan.source.timestamp.name, plan.query.precision, bounds)
    rows = scan_source(
        context,
        plan,
        changes.offsets,
        plan.stored_columns,
        filter=is_needed if len(bounds) > 1 else None,
        series=names,
        bounds=Bounds(bounds[0].low, bounds[-1].high),
    )
    changed = changes.matching(is_needed if names is None else is_needed & pc.field(plan.source.series_key).isin(names))
    tagged = with_tags(context.tables, plan.source, rows, plan.query.scans[0].tags)
    if changes.earlier_tags is not None:
        tagged = changes.earlier_tags.restore(tagged)
    changed = changed.select([*tagged.column_names, CHANGE, VERSION])
    if plan.source.external is None:
        versioned = with_versions(tagged, changed, plan.source.primary_key)
    else:
        versioned = copies_with_versions(tagged, changed)
    first, last = (to_numpy(versioned[name]).astype(np.int64) for name in (FROM, TO))
    return VersionedRows(versioned.select(batch.rows.column_names), first, last)


def affected_subtables(plan: StreamPlan, batch: ChangeBatch) -> list[str] | None:
    """Return the subtables that rows of affected windows can come from; None for all."""
    if plan.source_subtable is not None or subtable_key(plan) is None:
        return plan.source_series
    return [str(name) for name in batch.series.unique().to_pylist()]


def coalesce_ranges(low: Int64s, high: Int64s) -> Ranges:
    """Merge ranges, closest first, down to at most MAX_RANGES."""
    order = np.argsort(low, kind="stable")
    low, high = low[order], np.maximum.accumulate(high[order])
    gaps = low[1:] - high[:-1]
    cuts = np.flatnonzero(gaps > 1)
    if len(cuts) >= MAX_RANGES:
        widest = np.argsort(gaps[cuts], kind="stable")[-(MAX_RANGES - 1) :]
        cuts = np.sort(cuts[widest])
    firsts, lasts = np.concatenate(([0], cuts + 1)), np.concatenate((cuts, [len(low) - 1]))
    return [(int(low[first]), int(high[last])) for first, last in zip(firsts, lasts, strict=True)]


def is_covered(ranges: Ranges, others: Ranges) -> bool:
    return all(any(low <= first and last <= high for low, high in others) for first, last in ranges)


def in_ranges(time: str, precision: Precision, bounds: list[Bounds]) -> pc.Expression:
    """Return the condition that the time of a stored row lies in one of some ranges."""
    field, type_ = pc.field(time), pa.int64() if precision is Precision.NANOSECOND else pa.timestamp("us", tz="UTC")
    ends = [[pa.scalar(value, pa.int64()).cast(type_) for value in (one.low, one.high)] for one in bounds]
    return reduce(or_, ((field >= low) & (field <= high) for low, high in ends))


def with_versions(stored: pa.Table, changed: pa.Table, key: tuple[str, ...]) -> pa.Table:
    """Return the stored rows that the batch did not change, and each value of the changed ones, with `_from` and `_to`."""
    untouched = stored
    if changed.num_rows and stored.num_rows:
        untouched = stored.join(changed.select(list(key)).group_by(list(key)).aggregate([]), list(key), join_type="left anti")
    first, last = ALL_VERSIONS
    ranges = {FROM: pa.repeat(pa.scalar(first), untouched.num_rows), TO: pa.repeat(pa.scalar(last), untouched.num_rows)}
    for name, values in ranges.items():
        untouched = untouched.append_column(name, values)
    names = [*stored.column_names, FROM, TO]
    return pa.concat_tables([untouched.select(names), row_values(changed, key).select(names)], promote_options="permissive")


def copies_with_versions(stored: pa.Table, changed: pa.Table) -> pa.Table:
    """Return what `with_versions` does of a table whose keys are not unique: each copy of equal rows separately.

    Copies do not differ, so each deleted one is taken for the oldest that there is.
    """
    names, (first, last) = stored.column_names, ALL_VERSIONS
    rows = pa.concat_tables([stored, changed.select(names)], promote_options="permissive")
    (row_id,) = row_ids([rows], names)
    is_deleted = to_numpy(pc.is_in(changed[CHANGE], pa.array(OLD_VALUES))).astype(np.bool_)
    version, changed_id = to_numpy(changed[VERSION]).astype(np.int64), row_id[stored.num_rows :]
    count = int(row_id.max(initial=-1)) + 1
    inserted, deleted = (np.bincount(changed_id[mask], minlength=count) for mask in (~is_deleted, is_deleted))
    before = np.bincount(row_id[: stored.num_rows], minlength=count) - inserted + deleted
    copies = before + inserted
    starts = np.cumsum(copies) - copies
    since, until = np.full(int(copies.sum()), first), np.full(int(copies.sum()), last)
    for mask, offset, ends, shift in ((~is_deleted, before, since, 0), (is_deleted, np.zeros_like(before), until, -1)):
        order = np.lexsort((version[mask], changed_id[mask]))
        own = changed_id[mask][order]
        rank = np.arange(len(own)) - np.searchsorted(own, own)
        ends[starts[own] + offset[own] + rank] = version[mask][order] + shift
    _, representative = np.unique(row_id, return_index=True)
    versioned = rows.take(pa.array(np.repeat(representative, copies)))
    versioned = versioned.append_column(FROM, pa.array(since)).append_column(TO, pa.array(until))
    return versioned.filter(pa.array(since <= until))


def row_values(changed: pa.Table, key: tuple[str, ...]) -> pa.Table:
    """Return each value that a batch's rows had before, between and after its changes, with the versions in which they had it."""
    is_old_value = to_numpy(pc.is_in(changed[CHANGE], pa.array(OLD_VALUES))).astype(np.bool_)
    version = to_numpy(changed[VERSION]).astype(np.int64)
    codes = [distinct_codes(changed[name]) for name in key]
    order = np.lexsort((~is_old_value, version, *codes))
    first, last = lifetimes(is_old_value[order], version[order], [one[order] for one in codes])
    rows = changed.take(pa.array(order)).append_column(FROM, pa.array(first)).append_column(TO, pa.array(last))
    return rows.filter(pa.array(first <= last))


def lifetimes(is_old_value: Bools, version: Int64s, codes: list[Int64s]) -> tuple[Int64s, Int64s]:
    """Return the first and last version of each row's value. Rows must be ordered by key and write.

    A new value lasts until the key's next write. The old value of the key's first write in the batch lasted until that write.
    Further old values are the new values of earlier writes: these copies get an empty range, which ends before it begins.
    """
    count = len(version)
    if count == 0:
        return version, version
    first, last = ALL_VERSIONS
    is_same_key = np.ones(count - 1, np.bool_)
    for codes_of_column in codes:
        is_same_key &= codes_of_column[1:] == codes_of_column[:-1]
    old_from = np.concatenate(([first], np.where(is_same_key, last, first)))
    new_until = np.concatenate((np.where(is_same_key, version[1:] - 1, last), [last]))
    return np.where(is_old_value, old_from, version), np.where(is_old_value, version - 1, new_until)


def distinct_codes(column: pa.ChunkedArray) -> Int64s:
    return to_numpy(pc.index_in(column, pc.unique(column))).astype(np.int64)
