"""The rows that windows are computed from: those that the source stores, and the last ones before a window."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.compute import Plan
from headrace.compute.nodes import Column, bigint_sql, columns_of
from headrace.compute.plan import uses_neighbors
from headrace.compute.types import to_ticks as node_to_ticks
from headrace.context import Context
from headrace.model.positions import Offsets
from headrace.storage import Bounds
from headrace.storage.row_matching import row_ids
from headrace.storage.values.scalars import stored_units_per_tick
from headrace.streams.definition.define import StreamPlan
from headrace.streams.sources.stored import count_rows, scan_source, stored_times
from headrace.streams.sources.tags import with_tags
from headrace.streams.state.rebuild import source_rows
from headrace.streams.windows.change_batch import Bools, Int64s, to_numpy, to_ticks

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def stored_rows(context: Context, plan: StreamPlan, low: int | None, high: int | None, offsets: Offsets) -> pa.Table:
    """Return the rows that the source has in a range of ticks, as of offsets, with the columns that the query reads."""
    key = () if context.set_aside is None else plan.source.primary_key
    rows = stored_columns(context, plan, low, high, offsets, list(dict.fromkeys((*plan.stored_columns, *key))))
    return with_tags(context.tables, plan.source, rows, plan.scan.tags).select(list(plan.scan.columns))


def stored_source_rows(context: Context, plan: StreamPlan, low: int, high: int | None, offsets: Offsets) -> pa.Table:
    """Return the rows that the source has in a range of ticks, as of offsets, with all columns of the table."""
    columns = dict.fromkeys([plan.source.series_key, *(column.name for column in plan.source.columns)])
    return stored_columns(context, plan, low, high, offsets, list(columns))


def stored_columns(
    context: Context, plan: StreamPlan, low: int | None, high: int | None, offsets: Offsets, columns: list[str]
) -> pa.Table:
    bounds = Bounds.of_ticks(low, high, plan.query.precision)
    return scan_source(context, plan, offsets, columns, series=plan.source_series, bounds=bounds)


def stored_pieces(context: Context, plan: StreamPlan, high: int, offsets: Offsets) -> Iterator[pa.Table]:
    """Yield the rows that the source has up to an instant, in ranges of time with about as many as the driver should read."""
    bounds = stored_times(context, plan)
    first = high + 1 if bounds is None else bounds.low // stored_units_per_tick(plan.query.precision)
    pieces = count_rows(context, plan.sources) // max(1, context.settings.driver_rows) + 1
    step = max(1, -(-(high + 1 - first) // pieces))
    for low in range(first, high + 1, step):
        yield stored_rows(context, plan, low, min(low + step - 1, high), offsets)


def stored_frame(context: Context, plan: StreamPlan, low: int, high: int, offsets: Offsets) -> DataFrame:
    """Return what `stored_rows` does as a DataFrame, for more rows than the driver should read."""
    time = node_to_ticks(Column(plan.source.timestamp.name), plan.query.precision)
    return source_rows(context, plan, offsets).where(f"{time} BETWEEN {bigint_sql(low)} AND {bigint_sql(high)}")


def needs_rows_before(plan: Plan) -> bool:
    """Return True if a result depends on rows before its window: with time-weighted functions, and between the rows of INTERP."""
    return plan.interp is not None or uses_neighbors(plan)


def last_rows(plan: StreamPlan, rows: pa.Table, before: int) -> pa.Table:
    """Return the rows before an instant that later windows may need: of each group the last, and the last with each value.

    The rows pass WHERE, and have the columns that the query reads; `before` is in ticks.
    """
    ts = to_ticks(rows[plan.source.timestamp.name], plan.query.precision)
    (group,) = row_ids([rows], group_columns(plan, rows))
    is_before = ts < before
    validity = [to_numpy(pc.is_valid(rows[name])).astype(np.bool_) for name in rows.column_names]
    conditions = [np.ones(len(ts), np.bool_), np.logical_and.reduce(validity), *validity]
    kept = [last_of_each(group, ts, is_before & condition) for condition in conditions]
    return rows.take(pa.array(np.unique(np.concatenate(kept))))


def group_columns(plan: StreamPlan, rows: pa.Table) -> list[str]:
    """Return the columns that tell groups apart: the series key, and the columns in PARTITION BY."""
    in_keys = {name for key in plan.query.keys for name in columns_of(key.node)}
    used = [name for name in rows.column_names if name in in_keys]
    return list(dict.fromkeys([plan.source.series_key, *used]))


def last_of_each(group: Int64s, ts: Int64s, selected: Bools) -> Int64s:
    rows = np.flatnonzero(selected)
    order = rows[np.lexsort((rows, ts[rows], group[rows]))]
    is_last = np.concatenate((group[order][1:] != group[order][:-1], [True])) if len(order) else np.empty(0, np.bool_)
    return np.asarray(order[is_last])
