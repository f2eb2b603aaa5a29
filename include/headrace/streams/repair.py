"""Evaluating windows again: which stretches of the source that takes, and their rows as they were at each write of a batch."""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.compute import Plan
from headrace.compute.plan import IntervalWindow
from headrace.model.tables import TBNAME
from headrace.model.time import Duration, Precision
from headrace.storage import Bounds
from headrace.streams.context import Context
from headrace.streams.define import StreamPlan
from headrace.streams.held import subtable_key
from headrace.streams.incoming import CHANGE, VERSION, Changes, Incoming, Int64s, Kind, array
from headrace.streams.judgement import Stored
from headrace.streams.sources import with_tags
from headrace.streams.state import State
from headrace.streams.versions import FROM, TO, with_versions

MOST_RANGES: Final = 32
"""Stretches read apart; beyond so many the nearest are read as one."""

LONGEST_MONTH: Final = Duration(31, "d")
DAY: Final = Duration(1, "d")


def stored_rows(context: Context, plan: StreamPlan, batch: Incoming, state: State, changes: Changes) -> Stored | None:
    """Rows from which the windows can be evaluated again that the batch may require it of; None where it can be of none."""
    times = batch.ts[(batch.kind != Kind.INPUT) | below_floor(plan.query, batch, state)]
    if len(times) == 0:
        return None
    ranges = stretches(plan.query, times)
    names = affected_subtables(plan, batch)
    bounds = [stored_bounds(low, high, plan.query.precision) for low, high in ranges]
    where = inside(plan, bounds)
    columns = [name for name in plan.query.scans[0].columns if not plan.source.is_tag(name)]
    rows = context.tables.scan(
        plan.source,
        plan.source_database,
        columns=columns,
        filter=where,
        version=changes.last,
        tbnames=names,
        bounds=Bounds(bounds[0].low, bounds[-1].high),
    )
    changed = in_bounds(changes.rows, plan, bounds)
    if names is not None:
        changed = changed.filter(pc.field(TBNAME).isin(names))
    tagged = with_tags(context.tables, plan.source, rows, plan.query.scans[0].tags)
    found = with_versions(tagged, changed.select([*tagged.column_names, CHANGE, VERSION]), plan.source.primary_key)
    first, last = (array(found[name]).astype(np.int64) for name in (FROM, TO))
    return Stored(found.select(batch.rows.column_names), first, last)


def below_floor(plan: Plan, batch: Incoming, state: State) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """New rows that may lie in a window that starts at or before the floor."""
    if state.floor is None:
        return np.zeros(len(batch.ts), np.bool_)
    return batch.ts <= state.floor + reach(plan)


def affected_subtables(plan: StreamPlan, batch: Incoming) -> list[str] | None:
    """The subtables that rows of affected windows can come from; None for all."""
    if plan.source_subtable is not None:
        return [plan.source_subtable]
    if subtable_key(plan) is None:
        return None
    return [str(name) for name in batch.rows[TBNAME].unique().to_pylist()]


def stretches(plan: Plan, times: Int64s) -> list[tuple[int, int]]:
    """Ranges of ticks, inclusive and apart, that hold all windows of these instants."""
    low, high = spans(plan, np.unique(times))
    high = np.maximum.accumulate(high)
    gaps = low[1:] - high[:-1]
    cuts = np.flatnonzero(gaps > 1)
    if len(cuts) >= MOST_RANGES:
        widest = np.argsort(gaps[cuts], kind="stable")[-(MOST_RANGES - 1) :]
        cuts = np.sort(cuts[widest])
    firsts, lasts = np.concatenate(([0], cuts + 1)), np.concatenate((cuts, [len(low) - 1]))
    return [(int(low[first]), int(high[last])) for first, last in zip(firsts, lasts, strict=True)]


def spans(plan: Plan, times: Int64s) -> tuple[Int64s, Int64s]:
    """For each instant, from the first to the last instant of the windows it lies in, or somewhat wider."""
    window = plan.window
    if not isinstance(window, IntervalWindow) or window.zone is not None or window.length.is_calendar:
        return times - reach(plan), times + reach(plan)
    length, step = window.length.ticks(plan.precision), window.sliding.ticks(plan.precision)
    latest = times - (times - window.offset.ticks(plan.precision)) % step
    earliest = latest - (latest - (times - length + 1)) // step * step
    return earliest, latest + length - 1


def reach(plan: Plan) -> int:
    """How far apart, in ticks, two instants of one window lie at most."""
    window = plan.window
    if not isinstance(window, IntervalWindow):
        raise NotImplementedError
    if not window.length.is_calendar:
        return window.length.ticks(plan.precision) + (DAY.ticks(plan.precision) if window.zone is not None else 0)
    return (window.length.months * LONGEST_MONTH.nanoseconds + DAY.nanoseconds) // plan.precision.nanoseconds


def stored_bounds(low: int, high: int, precision: Precision) -> Bounds:
    """A range of ticks in the unit in which timestamps are stored."""
    return Bounds(low * 1000, high * 1000 + 999) if precision is Precision.MILLISECOND else Bounds(low, high)


def inside(plan: StreamPlan, bounds: list[Bounds]) -> pc.Expression | None:
    """The condition that a stored row lies in one of some ranges; None where there is but one."""
    return reduce(or_, (within(plan, one) for one in bounds)) if len(bounds) > 1 else None


def within(plan: StreamPlan, bounds: Bounds) -> pc.Expression:
    name = plan.source.timestamp.name
    type_ = pa.int64() if plan.query.precision is Precision.NANOSECOND else pa.timestamp("us", tz="UTC")
    low, high = (pa.scalar(value, pa.int64()).cast(type_) for value in (bounds.low, bounds.high))
    return (pc.field(name) >= low) & (pc.field(name) <= high)


def in_bounds(rows: pa.Table, plan: StreamPlan, bounds: list[Bounds]) -> pa.Table:
    """Those rows whose instants lie in one of some ranges."""
    return rows.filter(reduce(or_, (within(plan, one) for one in bounds)))
