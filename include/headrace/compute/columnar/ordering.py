"""The last steps of a query over Arrow tables, as `compute.evaluation.ordering` takes them with data frames."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.compute.columnar.arrays import refuse
from headrace.compute.columnar.columns import decoded, to_arrays
from headrace.compute.columnar.frames import ArrowRows
from headrace.compute.columnar.partials import is_ordered
from headrace.compute.columnar.runs import Int64s, combined, ranks
from headrace.compute.evaluation.ordering import limit_partitions
from headrace.compute.plan import Plan
from headrace.compute.plan_clauses import ResultOrder, Sort


def order_result(plan: Plan, rows: pa.Table, natural: Sequence[str]) -> pa.Table:
    """Return the columns of the select list, sorted and limited. `natural` is the order by partition and time.

    Raise `UnsupportedError` for values without an order.
    """
    outputs, order = [output.column for output in plan.outputs], plan.order
    if order.distinct:
        return limit(order, sort_rows(distinct(rows.select(outputs)), order.sorts, outputs))
    keys = [key.column for key in plan.keys]
    rows = sort_rows(limit_series(order, rows, keys), order.sorts, natural)
    if order.partitioned and not order.sorts and order.limit is not None:
        return limit_partitions(plan, ArrowRows(plan, rows), natural).table.select(outputs)
    return limit(order, rows).select(outputs)


def sort_rows(rows: pa.Table, sorts: Sequence[Sort], natural: Sequence[str]) -> pa.Table:
    """Sort rows by ORDER BY, then by their natural order."""
    items = [*sorts, *(Sort(name) for name in natural)]
    if rows.num_rows < 2 or not items:
        return rows
    keys: dict[str, Any] = {}
    order: list[tuple[str, str]] = []
    for number, item in enumerate(items):
        values = plain(rows.column(item.column))
        refuse(not is_ordered(values.type) and not pa.types.is_timestamp(values.type), "an order of such values")
        direction = "descending" if item.descending else "ascending"
        keys[f"n{number}"] = pc.cast(pc.is_null(values), pa.int8())
        order.append((f"n{number}", "descending" if item.nulls_first else "ascending"))
        if pa.types.is_floating(values.type):
            keys[f"f{number}"] = pc.cast(pc.fill_null(pc.is_nan(values), False), pa.int8())
            order.append((f"f{number}", direction))
        keys[f"v{number}"] = values
        order.append((f"v{number}", direction))
        if item.orders_zeros:
            keys[f"z{number}"] = pc.cast(pc.greater(pc.atan2(pc.cast(values, pa.float64()), -1.0), 0.0), pa.int8())
            order.append((f"z{number}", direction))
    return rows.take(pc.sort_indices(pa.table(keys), order))


def plain(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return values without a dictionary."""
    return values.cast(pa.string()) if pa.types.is_dictionary(values.type) else values


def limit(order: ResultOrder, rows: pa.Table) -> pa.Table:
    """Apply LIMIT and OFFSET."""
    return rows.slice(order.offset or 0, order.limit)


def distinct(rows: pa.Table) -> pa.Table:
    """Return the first of equal rows. NULL equals NULL, NaN equals NaN, and -0.0 becomes 0.0, as in Spark."""
    columns = [pc.add(column, 0.0) if pa.types.is_floating(column.type) else column for column in rows.columns]
    normal = pa.table(columns, schema=rows.schema)
    return normal.take(pa.array(np.sort(np.unique(numbers_of(normal, normal.column_names), return_index=True)[1])))


def limit_series(order: ResultOrder, rows: pa.Table, keys: Sequence[str]) -> pa.Table:
    """Apply SLIMIT and SOFFSET: keep some of the partitions, in the order of their keys."""
    if order.series_limit is None or not keys:
        return rows
    ranked = np.unique(numbers_of(rows, keys), return_inverse=True)[1].astype(np.int64)
    first = order.series_offset or 0
    return rows.filter(pa.array((ranked >= first) & (ranked < first + order.series_limit)))


def numbers_of(rows: pa.Table, columns: Sequence[str]) -> Int64s:
    """Return numbers that are equal where all of the columns are, and in the order of these."""
    arrays = [decoded(array) for array in to_arrays(rows.select(list(columns))).values()]
    refuse(not all(is_ordered(array.type) for array in arrays), "a group of such values")
    return combined([ranks(array) for array in arrays], rows.num_rows)
