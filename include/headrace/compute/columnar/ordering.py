"""The last steps of a query over Arrow tables, as `compute.evaluation.ordering` takes them with data frames."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.compute.columnar.arrays import refuse
from headrace.compute.columnar.columns import decoded, ticks, to_arrays
from headrace.compute.columnar.frames import ArrowRows
from headrace.compute.columnar.partials import is_ordered
from headrace.compute.columnar.runs import Int64s, combined, is_fixed, ranks, stable_order, to_numpy
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
    columns = to_arrays(rows.select(list(dict.fromkeys(item.column for item in items))))
    numbers = combined([key for item in items for key in sort_keys(columns[item.column], item)], rows.num_rows)
    return rows if (numbers[1:] >= numbers[:-1]).all() else rows.take(pa.array(stable_order(numbers)))


def sort_keys(values: pa.Array, item: Sort) -> Iterator[Int64s]:
    """Yield numbers in the order of an item of ORDER BY: where NULL is, the values, and the signs of zeros."""
    if pa.types.is_timestamp(values.type):
        values = values.cast(pa.int64())
    refuse(not is_ordered(decoded(values.slice(0, 0)).type), "an order of such values")
    if values.null_count:
        is_null = to_numpy(values.is_null()).astype(np.int64)
        yield -is_null if item.nulls_first else is_null
    numbers = [ticks(values) if is_fixed(values.type) and not values.null_count else ranks(values)]
    if item.orders_zeros:
        numbers.append(
            to_numpy(pc.fill_null(pc.greater(pc.atan2(pc.cast(values, pa.float64()), -1.0), 0.0), False)).astype(np.int64)
        )
    # Unlike the negative, the complement of the least number is a number.
    yield from (~number if item.descending else number for number in numbers)


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
