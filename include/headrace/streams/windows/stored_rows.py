"""The stored rows from which components are evaluated again: which stretches of the source that takes, and as of which write."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.model.time import Precision
from headrace.storage import Bounds
from headrace.streams.context import Context
from headrace.streams.definition.define import StreamPlan
from headrace.streams.sources.tags import with_tags
from headrace.streams.windows.changes import CHANGE, VERSION, ChangeBatch, Changes, Int64s, to_numpy
from headrace.streams.windows.retention import subtable_key
from headrace.streams.windows.versioned_rows import FROM, TO, with_versions

MAX_RANGES: Final = 32
"""Stretches read apart; beyond so many the nearest are read as one."""

MAX_INT64: Final = 2**63 - 1

Ranges = list[tuple[int, int]]
"""Ranges of ticks, inclusive, apart and in order."""


@dataclass(frozen=True)
class VersionedRows:
    """Stored rows, and the first and last version in which each was what it is."""

    rows: pa.Table
    first: Int64s
    last: Int64s


def stored_rows(context: Context, plan: StreamPlan, batch: ChangeBatch, changes: Changes, ranges: Ranges) -> VersionedRows:
    """What the source had, at any write of a batch, within ranges of time."""
    names = affected_subtables(plan, batch)
    bounds = [stored_bounds(low, high, plan.query.precision) for low, high in ranges]
    columns = [name for name in plan.query.scans[0].columns if not plan.source.is_tag(name)]
    rows = context.tables.scan(
        plan.source,
        plan.source_database,
        columns=columns,
        filter=inside(plan, bounds) if len(bounds) > 1 else None,
        version=changes.last,
        tbnames=names,
        bounds=Bounds(bounds[0].low, bounds[-1].high),
    )
    changed = changes.rows.filter(inside(plan, bounds))
    if names is not None:
        changed = changed.filter(pc.field(plan.source.series_key).isin(names))
    tagged = with_tags(context.tables, plan.source, rows, plan.query.scans[0].tags)
    found = with_versions(tagged, changed.select([*tagged.column_names, CHANGE, VERSION]), plan.source.primary_key)
    first, last = (to_numpy(found[name]).astype(np.int64) for name in (FROM, TO))
    return VersionedRows(found.select(batch.rows.column_names), first, last)


def affected_subtables(plan: StreamPlan, batch: ChangeBatch) -> list[str] | None:
    """The subtables that rows of affected windows can come from; None for all."""
    if plan.source_subtable is not None:
        return [plan.source_subtable]
    if subtable_key(plan) is None:
        return None
    return [str(name) for name in batch.series.unique().to_pylist()]


def coalesce_ranges(low: Int64s, high: Int64s) -> Ranges:
    """Few ranges that hold all of these."""
    order = np.argsort(low, kind="stable")
    low, high = low[order], np.maximum.accumulate(high[order])
    gaps = low[1:] - high[:-1]
    cuts = np.flatnonzero(gaps > 1)
    if len(cuts) >= MAX_RANGES:
        widest = np.argsort(gaps[cuts], kind="stable")[-(MAX_RANGES - 1) :]
        cuts = np.sort(cuts[widest])
    firsts, lasts = np.concatenate(([0], cuts + 1)), np.concatenate((cuts, [len(low) - 1]))
    return [(int(low[first]), int(high[last])) for first, last in zip(firsts, lasts, strict=True)]


def covered(ranges: Ranges, by: Ranges) -> bool:
    """Whether every range lies within one of the others."""
    return all(any(low <= first and last <= high for low, high in by) for first, last in ranges)


def stored_bounds(low: int, high: int, precision: Precision) -> Bounds:
    """A range of ticks in the unit in which timestamps are stored."""
    if precision is not Precision.MILLISECOND:
        return Bounds(low, high)
    return Bounds(max(low * 1000, -MAX_INT64), min(high * 1000 + 999, MAX_INT64))


def inside(plan: StreamPlan, bounds: list[Bounds]) -> pc.Expression:
    """The condition that a stored row lies in one of some ranges."""
    return reduce(or_, (within(plan, one) for one in bounds))


def within(plan: StreamPlan, bounds: Bounds) -> pc.Expression:
    name = plan.source.timestamp.name
    type_ = pa.int64() if plan.query.precision is Precision.NANOSECOND else pa.timestamp("us", tz="UTC")
    low, high = (pa.scalar(value, pa.int64()).cast(type_) for value in (bounds.low, bounds.high))
    return (pc.field(name) >= low) & (pc.field(name) <= high)
