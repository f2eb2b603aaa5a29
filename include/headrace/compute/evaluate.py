"""`evaluate`: runs a plan over all rows of its sources."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import TYPE_CHECKING

from headrace.compute.columnar.device_groups import KEY, DeviceGroups, group_by_device
from headrace.compute.evaluation.asof import asof_join
from headrace.compute.evaluation.interp import POINT, POSITION, fill_gaps, interpolate
from headrace.compute.evaluation.kernel_windows import KernelWindows, aggregate_by_kernels
from headrace.compute.evaluation.ordering import (
    RANGE_PARTITION,
    RANK,
    apply_limit,
    limit_first,
    limits_before_select,
    order_result,
    sort_rows,
)
from headrace.compute.evaluation.series_arrow import add_series_functions
from headrace.compute.evaluation.series_calls import project_rows
from headrace.compute.evaluation.series_rows import add_empty_windows, regrouped_rows, series_rows
from headrace.compute.evaluation.surrogate_keys import NAME, build_surrogate_keys, decode_subtables, encode_subtables
from headrace.compute.frames import SparkRows
from headrace.compute.nodes import TIME, Column, Node, call, string_sql
from headrace.compute.plan import (
    WEND,
    WSTART,
    AnyPlan,
    JoinSource,
    Plan,
    PlanSource,
    Regrouped,
    UnionPlan,
)
from headrace.compute.plan_clauses import Key, Sort
from headrace.compute.plan_sources import OneRow, Scan, ScanUnion, SeriesRows
from headrace.compute.shares import ShareProvider, StatisticsProvider, TableStatistics
from headrace.compute.sql_text import at_present, named_sql, stored_outputs, to_sql, to_stored_type
from headrace.compute.types import spark_type, to_ticks
from headrace.compute.windows.fill import fill_rows
from headrace.compute.windows.ranges import RangeWindow, assign_windows, rows_in_windows, window_grid, within_range
from headrace.compute.windows.segments import finish_as_ticks, key_columns, prepare, to_segments, update_columns
from headrace.compute.windows.states import merge_runs
from headrace.storage.spark.functions import F

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    Reader = Callable[[Scan], DataFrame]


def evaluate(
    plan: AnyPlan,
    rows: DataFrame | Reader,
    *,
    ordered: bool = True,
    statistics: StatisticsProvider | None = None,
    shares: ShareProvider | None = None,
) -> DataFrame:
    """Return the result of a query: columns named and ordered as in the select list, in stored types.

    Args:
        plan: The bound query.
        rows: The data frame of the only table (physical columns, series key, joined tags), or a function that reads a `Scan`.
        ordered: Whether a result without ORDER BY is sorted by partition and time. Unsorted is faster for large results.
        statistics: Lets large tables use faster strategies with the same result. Their caches are freed with the returned
            data frame.
        shares: Lets Spark's tasks read the files of tables and compute windows by kernels, with the same result. A task raises
            `UnsupportedError` for a value that only Spark SQL handles; evaluate the plan without shares then.
    """
    read: Reader = rows if callable(rows) else lambda _: rows
    evaluator = Evaluator(read, ordered, statistics, shares)
    ticks = evaluator.evaluate(plan)
    columns = [f"{node} AS {name}" for name, node in stored_outputs(plan).items()]
    result = ticks.selectExpr(*columns).toDF(*(output.name for output in plan.outputs))
    for frame in evaluator.cached:
        weakref.finalize(result, frame.unpersist).atexit = False
    return result


def project(plan: Plan, rows: DataFrame) -> DataFrame:
    """Evaluate a query without windows and aggregates row by row: `p…`, `_ts` and `_series_key` if any, and `o…` as stored."""
    filtered = rows.where(to_sql(plan, plan.filter)) if plan.filter else rows
    outputs = {output.column: to_stored_type(output.node, output.type, plan.precision) for output in plan.outputs}
    return filtered.selectExpr(*named_sql(plan, plan.natural_columns | outputs))


@dataclass(frozen=True, slots=True)
class Evaluator:
    """Builds the data frame of a plan. Results have columns `o…` with instants as ticks.

    `within` is the plan with the windows that rows of series must lie in: a sub-query sees no others.
    """

    read: Reader
    ordered: bool
    statistics: StatisticsProvider | None = None
    shares: ShareProvider | None = None
    cached: list[DataFrame] = field(default_factory=list)
    within: Plan | None = None

    def evaluate(self, plan: AnyPlan) -> DataFrame:
        """Return the rows of a plan, sorted and limited."""
        if isinstance(plan, UnionPlan):
            return self._evaluate_union(plan)
        if limits_before_select(plan):
            return project_limited(plan, self._read(join_at_present(plan, plan.source)))
        by_kernels = aggregate_by_kernels(plan, self.shares) if plan.aggregated else None
        if by_kernels is not None:
            result, natural = finish_kernel_windows(plan, by_kernels)
        else:
            result, natural = self._evaluate_rows(plan)
        if plan.gap_fill is not None:
            result = fill_gaps(plan, plan.gap_fill, SparkRows(plan, result)).frame
            plan = replace(plan, order=replace(plan.order, sorts=(Sort(POSITION),)))
        return order_result(plan, result, natural, ordered=self.ordered)

    def _evaluate_rows(self, plan: Plan) -> tuple[DataFrame, list[str]]:
        plan = replace(plan, source=join_at_present(plan, plan.source))
        is_outer = isinstance(plan.window, RangeWindow) and isinstance(plan.source, Plan | Regrouped)
        rows = (replace(self, within=plan) if is_outer else self)._read(plan.source)
        if isinstance(plan.source, SeriesRows) and self.within is not None and isinstance(self.within.window, RangeWindow):
            rows = rows_in_windows(self.within, self.within.window, rows, str(to_ticks(Column("time"), plan.precision)))
        if isinstance(plan.window, RangeWindow) and isinstance(plan.source, SeriesRows):
            rows = within_range(plan, plan.window, rows, "time")
        if plan.interp is not None:
            points = interpolate(plan, plan.interp, SparkRows(plan, prepare(plan, rows)))
            return points.frame, [*key_columns(plan), POINT]
        if plan.aggregated:
            return self._aggregate(plan, rows)
        projected, natural = project_rows(plan, SparkRows(plan, rows), add_series_functions)
        return projected.frame, natural

    def _aggregate(self, plan: Plan, rows: DataFrame) -> tuple[DataFrame, list[str]]:
        """Return finished windows or groups, and their natural order."""
        windows, ranked = self._aggregate_windows(plan, rows)
        if ranked is None or plan.fill is not None:
            return finish_windows(plan, windows)
        ranks = [RANK if name == ranked.column else name for name in natural_order(plan)]
        return finish_as_ticks(plan, windows, [RANK, RANGE_PARTITION]), prefer_outputs(plan, ranks)

    def _aggregate_windows(self, plan: Plan, rows: DataFrame) -> tuple[DataFrame, Key | None]:
        """Aggregate source rows to one segment per window, by the fastest way for the size of the table.

        Also returns the key whose ranks the result has in column `RANK`, if it has them.
        """
        source, key = plan.source, plan.grouped_series
        if isinstance(source, SeriesRows) and isinstance(plan.window, RangeWindow | None):
            aligned = aggregate_by_device(plan, source, self.read)
            if aligned is not None:
                return self._add_empty_groups(plan, prepare(plan, rows), aligned), None
        statistics = self.statistics.size(source) if self.statistics is not None and isinstance(source, Scan) else None
        if statistics is None:
            prepared = prepare(plan, rows)
            return self._add_empty_groups(plan, prepared, aggregate_windows(plan, prepared)), None
        surrogates = build_surrogate_keys(rows.sparkSession, statistics.subtables) if key is not None else None
        if key is None or surrogates is None:
            prepared = prepare(plan, rows)
            return self._add_empty_groups(plan, prepared, self._aggregate_large(plan, prepared, statistics)), None
        encoded = encode_subtables(plan, key)
        prepared = prepare(encoded, rows)
        groups = decode_subtables(plan, key, self._aggregate_large(encoded, prepared, statistics), surrogates)
        return self._add_empty_groups(plan, prepared, groups, surrogates), key

    def _add_empty_groups(
        self, plan: Plan, prepared: DataFrame, groups: DataFrame, surrogates: DataFrame | None = None
    ) -> DataFrame:
        """Add the groups of subtables without rows if the query has them. `surrogates` provides their ranks."""
        if (series := plan.series_rows) is not None:
            return self._add_empty_windows(plan, series, prepared, groups)
        if plan.groups.empty_groups is None or self.statistics is None or not isinstance(plan.source, Scan):
            return groups
        subtables = groups.sparkSession.createDataFrame(self.statistics.subtables(plan.source))
        if surrogates is not None:
            subtables = subtables.join(F.broadcast(surrogates), F.col(plan.source.table.series_key) == F.col(NAME))
        return add_empty_groups(plan, groups, prepared, subtables)

    def _add_empty_windows(self, plan: Plan, source: SeriesRows, prepared: DataFrame, groups: DataFrame) -> DataFrame:
        if isinstance(plan.window, RangeWindow):
            windows = window_grid(plan, plan.window, prepared.sparkSession)
            return add_empty_windows(plan, source, groups, prepared, windows)
        if plan.window is None and plan.keys:
            return add_empty_windows(plan, source, groups, prepared, None)
        return groups

    def _aggregate_large(self, plan: Plan, prepared: DataFrame, statistics: TableStatistics) -> DataFrame:
        """Aggregate the prepared rows of a large table to one segment per window."""
        if (runs := merge_runs(plan, prepared, statistics.spacing)) is None:
            return aggregate_windows(plan, prepared)
        merged, cached = runs
        self.cached.append(cached)
        return merged

    def _read(self, source: PlanSource) -> DataFrame:
        match source:
            case Scan():
                return self.read(source)
            case ScanUnion(scans=scans, columns=columns):
                sides = [self._read_side(scan, pairs) for scan, pairs in zip(scans, columns, strict=True)]
                return reduce(lambda left, right: left.union(right), sides)
            case SeriesRows():
                return series_rows(source, self.read)
            case Regrouped(rows=rows, regrouping=regrouping):
                return regrouped_rows(regrouping, self._read(rows))
            case Plan() | UnionPlan():
                return replace(self, ordered=False).evaluate(source)
            case JoinSource():
                return self._join(source)
            case OneRow():
                from pyspark.sql import SparkSession

                return SparkSession.active().range(1)

    def _join(self, source: JoinSource) -> DataFrame:
        """Join two sources, with their columns renamed."""
        left = self._read_side(source.left, source.left_columns)
        right = self._read_side(source.right, source.right_columns)
        if source.asof is not None:
            return asof_join(source.asof, left, right)
        if source.condition is None:
            return left.crossJoin(right)
        return left.join(right, F.expr(str(source.condition)), source.kind.replace(" ", "_"))

    def _read_side(self, source: PlanSource, columns: Sequence[tuple[Node, str]]) -> DataFrame:
        """Read one of several sources with its columns renamed. A scan is restricted to the requested series."""
        rows = self._read(source)
        if isinstance(source, Scan) and source.condition is not None:
            rows = rows.where(str(source.condition))
        return rows.selectExpr(*(f"{sql} AS {name}" for sql, name in columns))

    def _evaluate_union(self, plan: UnionPlan) -> DataFrame:
        left, right = (self._evaluate_union_side(plan, side) for side in (plan.left, plan.right))
        rows = left.union(right)
        return apply_limit(sort_rows(rows if plan.all else rows.distinct(), plan.order.sorts, ()), plan.order)

    def _evaluate_union_side(self, plan: UnionPlan, side: AnyPlan) -> DataFrame:
        rows = replace(self, ordered=False).evaluate(side)
        pairs = zip(side.outputs, plan.outputs, strict=True)
        return rows.selectExpr(*(f"CAST({own.column} AS {spark_type(other.type)}) AS {other.column}" for own, other in pairs))


def join_at_present(plan: Plan, source: PlanSource) -> PlanSource:
    """Replace `NOW` in the conditions of joins by the plan's present."""
    if not isinstance(source, JoinSource):
        return source
    condition = None if source.condition is None else at_present(plan, source.condition)
    left, right = join_at_present(plan, source.left), join_at_present(plan, source.right)
    return replace(source, left=left, right=right, condition=condition)


def finish_windows(plan: Plan, windows: DataFrame) -> tuple[DataFrame, list[str]]:
    finished = finish_as_ticks(plan, windows)
    if plan.fill is not None:
        return fill_rows(plan, SparkRows(plan, finished)).frame, natural_order(plan)
    return finished, prefer_outputs(plan, natural_order(plan))


def finish_kernel_windows(plan: Plan, segments: KernelWindows) -> tuple[DataFrame, list[str]]:
    """Return finished windows, and their natural order; none if they are in it and only have to be returned."""
    finished, natural = finish_windows(plan, segments.windows)
    is_limited = plan.order.is_limited or plan.order.series_limit is not None
    is_final = segments.is_ordered and plan.fill is None and not plan.order.sorts and not is_limited
    return finished, [] if is_final else natural


def natural_order(plan: Plan) -> list[str]:
    return [*key_columns(plan), *([WSTART] if plan.window is not None else [])]


def prefer_outputs(plan: Plan, columns: Sequence[str]) -> list[str]:
    """Replace columns by equal columns of the select list, so that sorting does not carry them twice."""
    outputs = {output.node.name: output.column for output in reversed(plan.outputs) if isinstance(output.node, Column)}
    return [outputs.get(column, column) for column in columns]


def aggregate_windows(plan: Plan, prepared: DataFrame) -> DataFrame:
    """Aggregate all prepared rows to one segment per window, by the fastest way for many rows."""
    return to_segments(plan.one_pass, prepared) if plan.window is None else plan.window.aggregate(plan, prepared)


def project_limited(plan: Plan, rows: DataFrame) -> DataFrame:
    """Evaluate the select list of the rows within LIMIT and OFFSET only. Those of other rows may be invalid."""
    filtered = rows.where(to_sql(plan, plan.filter)) if plan.filter else rows
    natural = plan.natural_columns
    outputs = {output.column: output.node for output in (*plan.outputs, *plan.hidden)}
    keys = natural | {sort.column: outputs[sort.column] for sort in plan.order.sorts}
    keyed = filtered.selectExpr("*", *named_sql(plan, keys))
    limited = limit_first(plan, keyed, list(natural))
    selected = {output.column: Column(output.column) if output.column in keys else output.node for output in plan.outputs}
    for output, value in zip(plan.outputs, plan.gap_fill.values if plan.gap_fill is not None else (), strict=False):
        if value is not None:
            selected[output.column] = call("coalesce", selected[output.column], value)
    return limited.selectExpr(*named_sql(plan, selected))


def add_empty_groups(plan: Plan, groups: DataFrame, prepared: DataFrame, subtables: DataFrame) -> DataFrame:
    """Add the groups of `subtables` that `groups` lacks, with the partials of no rows, in their types over `prepared` rows.

    `subtables` has series key, tags and, if `groups` has them, ranks of every subtable.
    """
    keys = key_columns(plan)
    ranks = [column for column in (RANK, RANGE_PARTITION) if column in groups.columns]
    partials = [partial.column for partial in plan.partials]
    assert plan.groups.empty_groups is not None
    matching = subtables.where(to_sql(plan, plan.groups.empty_groups))
    expected = matching.selectExpr(*named_sql(plan, {f"e_{key.column}": key.node for key in plan.keys}), *ranks).distinct()
    expected = expected.withColumnsRenamed({column: f"e_{column}" for column in ranks})
    no_rows = prepared.where("false").agg(*update_columns(plan)).withColumnsRenamed({name: f"e_{name}" for name in partials})
    equal_keys = " AND ".join(f"{column} <=> e_{column}" for column in keys)
    marked = groups.withColumn("_has_rows", F.expr("true"))
    joined = marked.join(expected, F.expr(equal_keys), "full_outer").crossJoin(F.broadcast(no_rows))
    return joined.selectExpr(*(f"if(_has_rows, {name}, e_{name}) AS {name}" for name in (*keys, *ranks, *partials)))


def aggregate_by_device(plan: Plan, source: SeriesRows, read: Callable[[Scan], DataFrame]) -> DataFrame | None:
    """Return the partials of all windows that have rows; None if some depend on several devices or on all rows."""
    by_device = group_by_device(plan.one_pass) if all(aggregate.bounded for aggregate in plan.groups.aggregates) else None
    if by_device is None:
        return None
    own = by_device.plan
    assert isinstance(own.source, SeriesRows)
    rows = series_rows(own.source, read)
    if isinstance(own.window, RangeWindow):
        rows = within_range(own, own.window, rows, TIME)
    prepared = prepare(own, rows)
    empty = prepared.where("false").agg(*update_columns(own))
    ends: Sequence[str] = ()
    if isinstance(own.window, RangeWindow):
        prepared, ends = assign_windows(own, own.window, prepared), (WSTART, WEND)
    windows = prepared.groupBy(KEY, *ends).agg(*update_columns(own))
    return align_windows(by_device, source, windows, empty, ends)


def align_windows(
    by_device: DeviceGroups, source: SeriesRows, windows: DataFrame, empty: DataFrame, ends: Sequence[str]
) -> DataFrame:
    """Return windows with the partials of all devices, given those of each device, and those of no rows."""
    values = [
        F.expr(f"any_value(if({KEY} = {string_sql(source.devices[rank])}, {name}, NULL), true)").alias(column)
        for column, (name, rank) in by_device.targets.items()
    ]
    absent = empty.withColumnsRenamed({name: f"_{name}" for name in empty.columns})
    aligned = windows.groupBy(*ends).agg(*values).crossJoin(F.broadcast(absent))
    return aligned.selectExpr(
        *ends, *(f"coalesce({column}, _{name}) AS {column}" for column, (name, _) in by_device.targets.items())
    )
