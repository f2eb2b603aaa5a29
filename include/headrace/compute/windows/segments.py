"""Evaluation of windows step by step: rows to segments, segments of one window merged, windows to results.

`evaluate` composes the steps over all rows. A stream applies them to new rows and the segments it carries:
`finish(plan, merge(plan, carried ∪ to_segments(plan, prepare(plan, rows), by_row=True)))`. Small batches are fastest in one
partition (`coalesce(1)` on the rows, and on the union), because nothing is shuffled then. What differs by the kind of window is in
`kind.WindowPlan`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from headrace.compute.nodes import TRUE, Node
from headrace.compute.plan import KEY, SERIES_KEY, STATE, TS, WEND, WSTART, Plan
from headrace.compute.plan_clauses import Partial
from headrace.compute.sql_text import named_sql, stored_outputs, to_sql
from headrace.compute.windows.group_calls import add_group_calls
from headrace.compute.windows.numbering import WINDOW_NUMBER, OrderedRows
from headrace.storage.spark.functions import F

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def prepare(plan: Plan, rows: DataFrame) -> DataFrame:
    """Return the source rows (physical columns, series key, joined tags) that pass WHERE as prepared rows."""
    filtered = rows.where(to_sql(plan, plan.filter)) if plan.filter else rows
    prepared = filtered.selectExpr(*named_sql(plan, prepared_columns(plan)))
    return prepared.where(f"{STATE} IS NOT NULL") if plan.ignores_null else prepared


def prepared_columns(plan: Plan) -> dict[str, Node]:
    columns = {key.column: key.node for key in plan.keys} | plan.identity.columns
    columns |= {argument.column: argument.node for argument in plan.arguments}
    return columns if plan.window is None else columns | plan.window.row_columns


def attributes(plan: Plan) -> dict[str, Partial]:
    """Return what segments have besides keys, ends and partial aggregates."""
    return {} if plan.window is None else {attribute.column: attribute for attribute in plan.window.attributes}


def window_columns(plan: Plan) -> tuple[str, ...]:
    """Return the columns of segments, which are needed to merge further rows into them."""
    ends = () if plan.window is None else (WSTART, WEND)
    return (*key_columns(plan), *ends, *attributes(plan), *(partial.column for partial in plan.partials))


def to_segments(plan: Plan, prepared: DataFrame, *, by_row: bool = False) -> DataFrame:
    """Convert prepared rows to segments.

    With `by_row`, each row becomes a segment if the partials allow it and `merge` does the aggregation, which is faster for small
    batches. Otherwise rows of one window are aggregated as far as one hash aggregation can.
    """
    if plan.window is None:
        return segments_at(plan, prepared, (), by_row=by_row)
    return plan.window.to_segments(plan, prepared, by_row=by_row)


def segments_at(plan: Plan, prepared: DataFrame, positions: Sequence[str], *, by_row: bool) -> DataFrame:
    """Return the segments of windows that rows are in by the columns `positions`."""
    by_column = {name: name for name in positions}
    if by_row and all(partial.row for partial in plan.partials):
        return rows_as_segments(plan, prepared, by_column)
    return group_rows(plan, prepared, by_column)


def time_bucket(gap: int) -> str:
    """Return the time bucket of a row. Rows in one bucket as wide as the gap are always in one session."""
    return f"({TS} - pmod({TS}, {max(gap, 1)}L))"


def rows_as_segments(plan: Plan, prepared: DataFrame, positions: Mapping[str, str]) -> DataFrame:
    partials = {partial.column: partial.row or partial.update for partial in (*attributes(plan).values(), *plan.partials)}
    placed = (f"{sql} AS {column}" for column, sql in positions.items())
    return prepared.selectExpr(*key_columns(plan), *placed, *named_sql(plan, partials))


def group_rows(plan: Plan, prepared: DataFrame, groupings: Mapping[str, str], *, span: bool = False) -> DataFrame:
    """Hash-aggregate prepared rows by keys and `groupings`. With `span`, also return the first and last instant."""
    ends = [F.min(TS).alias(WSTART), F.max(TS).alias(WEND)] if span else []
    grouped = prepared.groupBy(*base_key_columns(plan), *(F.expr(sql).alias(name) for name, sql in groupings.items()))
    aggregates = [*ends, *update_columns(plan)]
    return add_derived_keys(plan, grouped.agg(*aggregates) if aggregates else grouped.agg(F.count("*").alias("_any")))


def point_segments(plan: Plan, prepared: DataFrame) -> DataFrame:
    """Return the segments of single rows, or of those at one instant if the partials need more than a row."""
    if all(partial.row for partial in plan.partials):
        return rows_as_segments(plan, prepared, {WSTART: TS, WEND: TS})
    own_columns = {} if plan.window is None else plan.window.row_columns
    values = [column for column in (*own_columns, SERIES_KEY, KEY) if column in prepared.columns]
    by_instant = prepared.groupBy(*key_columns(plan), TS, *values).agg(*update_columns(plan))
    own = {name: attribute.row or attribute.update for name, attribute in attributes(plan).items()}
    columns = [f"{TS} AS {WSTART}", f"{TS} AS {WEND}", *named_sql(plan, own)]
    return by_instant.selectExpr(*key_columns(plan), *columns, *(partial.column for partial in plan.partials))


def merge(plan: Plan, parts: DataFrame, apart: str | None = None) -> DataFrame:
    """Merge the segments of each window into one. Idempotent.

    `apart` is a condition for segments that are complete runs of a state. Two such segments are never merged.
    """
    keys, window = key_columns(plan), plan.window
    if window is None or window.is_fixed:
        return parts.groupBy(*keys, *(() if window is None else (WSTART, WEND))).agg(*merge_columns(plan))
    numbered = window.number_sql(OrderedRows(parts, keys, (WSTART, WEND), apart))
    return aggregate_numbered(plan, numbered, keys, merge_columns(plan), WSTART, WEND)


def aggregate_numbered(
    plan: Plan, numbered: DataFrame, keys: Sequence[str], aggregates: Sequence[Column], first: str, last: str
) -> DataFrame:
    """Aggregate numbered rows or segments, which extend from instant `first` to `last`, to one segment per window number."""
    ends = [F.min(first).alias(WSTART), F.max(last).alias(WEND)]
    own = [F.expr(str(attribute.merge)).alias(name) for name, attribute in attributes(plan).items()]
    return numbered.groupBy(*keys, WINDOW_NUMBER).agg(*ends, *own, *aggregates).drop(WINDOW_NUMBER)


def finish(plan: Plan, windows: DataFrame) -> DataFrame:
    """Return finished windows (`p…`, `_wstart`, `_wend` in ticks, `o…` as stored) without those that lack END or are too short."""
    columns = [*key_columns(plan), *([WSTART, WEND] if plan.window is not None else [])]
    return finish_as_ticks(plan, windows).selectExpr(*columns, *named_sql(plan, stored_outputs(plan)))


def finish_as_ticks(plan: Plan, windows: DataFrame, extra_columns: Sequence[str] = ()) -> DataFrame:
    """Return finished windows with instants as ticks, including hidden columns of ORDER BY and `extra_columns`."""
    conditions = [to_sql(plan, condition) for condition in result_conditions(plan)]
    called = add_group_calls(plan.groups.calls, windows)
    kept = called.where(" AND ".join(conditions)) if conditions else called
    columns = [*key_columns(plan), *extra_columns, *([WSTART, WEND] if plan.window is not None else [])]
    outputs = {output.column: output.node for output in (*plan.outputs, *plan.hidden)}
    return kept.selectExpr(*columns, *named_sql(plan, outputs))


def result_conditions(plan: Plan) -> list[Node]:
    """Return the conditions for windows and groups to be in the result: HAVING, a row that ends them, and a least length."""
    conditions = (plan.groups.having, None if plan.window is None else plan.window.condition)
    return [condition for condition in conditions if condition is not None and condition != TRUE]


def key_columns(plan: Plan) -> list[str]:
    """Return the columns of the keys."""
    return [key.column for key in plan.keys]


def base_key_columns(plan: Plan) -> list[str]:
    """Return the columns of the keys that are not derived from another, which suffice to group rows and are cheaper to hash."""
    return [key.column for key in plan.keys if not key.is_derived]


def add_derived_keys(plan: Plan, rows: DataFrame) -> DataFrame:
    derived = named_sql(plan, {key.column: key.node for key in plan.keys if key.is_derived})
    if not derived:
        return rows
    series, name = plan.grouped_series, plan.identity.series_column
    assert series is not None
    assert name is not None
    return rows.withColumn(name, F.col(series.column)).selectExpr("*", *derived).drop(name)


def update_columns(plan: Plan) -> list[Column]:
    """Return the partials as aggregates over prepared rows."""
    return [F.expr(to_sql(plan, partial.update)).alias(partial.column) for partial in plan.partials]


def merge_columns(plan: Plan) -> list[Column]:
    """Return the partials as aggregates over segments."""
    return [F.expr(to_sql(plan, partial.merge)).alias(partial.column) for partial in plan.partials]
