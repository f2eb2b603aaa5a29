"""`evaluate`: a plan over all rows of its sources."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import TYPE_CHECKING

from headrace.compute.evaluation.empty_groups import with_empty_groups
from headrace.compute.evaluation.interp import AT, interpolated
from headrace.compute.evaluation.ordering import RANK, SHARE, order_result, order_union
from headrace.compute.evaluation.surrogate_keys import NAME, decode_subtables, encode_subtables, surrogate_keys
from headrace.compute.plan import (
    KEYS,
    SERIES,
    TIES,
    TS,
    WEND,
    WSTART,
    AnyPlan,
    IntervalWindow,
    JoinSource,
    Key,
    Nothing,
    Plan,
    PlanSource,
    Scan,
    ScanUnion,
    SessionWindow,
    StateWindow,
    UnionPlan,
)
from headrace.compute.running import run, stored
from headrace.compute.statistics import StatisticsProvider, TableStatistics
from headrace.compute.types import spark_type
from headrace.compute.windows import intervals
from headrace.compute.windows.fill import fill_windows
from headrace.compute.windows.numbering import number_rows
from headrace.compute.windows.runs import merge_runs
from headrace.compute.windows.segments import (
    finished,
    joined,
    key_columns,
    merge,
    merges,
    prepare,
    segments,
    telling_columns,
    updates,
    with_following,
)
from headrace.errors import InternalError
from headrace.storage.spark.functions import F

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    Reader = Callable[[Scan], DataFrame]


def evaluate(
    plan: AnyPlan, rows: DataFrame | Reader, *, ordered: bool = True, statistics: StatisticsProvider | None = None
) -> DataFrame:
    """The result of a query: columns named and ordered as the select list, of stored types.

    `rows` is the one table's frame (physical columns, series key, tags joined), or a function that reads each `Scan` of the plan.
    Without ORDER BY rows come by partition and time when `ordered`, else as they fall, which is faster for large results.
    With `statistics` about the tables, large ones take faster ways to the same rows; what these cache is given up with the frame.
    """
    read: Reader = rows if callable(rows) else lambda _: rows
    evaluator = Evaluator(read, ordered, statistics)
    found = evaluator.result(plan)
    columns = [f"{stored(output.column, output.type, plan.precision)} AS {output.column}" for output in plan.outputs]
    result = found.selectExpr(*columns).toDF(*(output.name for output in plan.outputs))
    for frame in evaluator.cached:
        weakref.finalize(result, frame.unpersist).atexit = False
    return result


def project(plan: Plan, rows: DataFrame) -> DataFrame:
    """Of a query without window and aggregates: `p…`, `_ts`, `_series_key` where the source has them, and `o…` in stored types."""
    kept = rows.where(run(plan, plan.filter)) if plan.filter else rows
    columns = [f"{key.sql} AS {key.column}" for key in plan.keys]
    columns += [f"{sql} AS {name}" for name, sql in ((TS, plan.time), (SERIES, plan.series_key)) if sql]
    columns += [f"{stored(output.sql, output.type, plan.precision)} AS {output.column}" for output in plan.outputs]
    return kept.selectExpr(*(run(plan, column) for column in columns))


@dataclass(frozen=True, slots=True)
class Evaluator:
    """Builds the frame of a plan from the frames of its scans. Results have columns `o…` with instants as ticks."""

    read: Reader
    ordered: bool
    statistics: StatisticsProvider | None = None
    cached: list[DataFrame] = field(default_factory=list)

    def result(self, plan: AnyPlan) -> DataFrame:
        if isinstance(plan, UnionPlan):
            return self.union(plan)
        rows = self.source(plan.source)
        if plan.interp is not None:
            found, natural = interpolated(plan, plan.interp, prepare(plan, rows)), [*key_columns(plan), AT]
        elif plan.aggregated:
            found, natural = self.aggregated(plan, rows)
        else:
            found, natural = projected(plan, rows)
        return order_result(plan, found, natural, ordered=self.ordered)

    def aggregated(self, plan: Plan, rows: DataFrame) -> tuple[DataFrame, list[str]]:
        """Finished windows or groups, and their natural order."""
        made, ranked = self.windows(plan, rows)
        natural = [*key_columns(plan), *([WSTART] if plan.window is not None else [])]
        if plan.fill is not None and isinstance(plan.window, IntervalWindow):
            return fill_windows(plan, plan.fill, plan.window, finished(plan, made)), natural
        if ranked is None:
            return finished(plan, made), selected(plan, natural)
        ranks = [RANK if name == ranked.column else name for name in natural]
        return finished(plan, made, [RANK, SHARE]), selected(plan, ranks)

    def windows(self, plan: Plan, rows: DataFrame) -> tuple[DataFrame, Key | None]:
        """The rows of a source as one segment for each window, by the fastest way for as many as there are.

        And the key whose places in order stand beside it, where there is one.
        """
        source, key = plan.source, plan.grouped_series
        size = self.statistics.size(source) if self.statistics is not None and isinstance(source, Scan) else None
        if size is None:
            prepared = prepare(plan, rows)
            return self.completed(plan, prepared, whole(plan, prepared)), None
        known = surrogate_keys(rows.sparkSession, size.subtables) if key is not None else None
        if key is None or known is None:
            prepared = prepare(plan, rows)
            return self.completed(plan, prepared, self.many(plan, prepared, size)), None
        narrow = encode_subtables(plan, key)
        prepared = prepare(narrow, rows)
        return self.completed(plan, prepared, decode_subtables(plan, key, self.many(narrow, prepared, size), known), known), key

    def completed(self, plan: Plan, prepared: DataFrame, made: DataFrame, known: DataFrame | None = None) -> DataFrame:
        """The groups with those of subtables without rows, where the query has them; `known` ranks the subtables."""
        if plan.empty_groups is None or self.statistics is None or not isinstance(plan.source, Scan):
            return made
        subtables = made.sparkSession.createDataFrame(self.statistics.subtables(plan.source))
        if known is not None:
            subtables = subtables.join(F.broadcast(known), F.col(plan.source.table.series_key) == F.col(NAME))
        return with_empty_groups(plan, made, prepared, subtables)

    def many(self, plan: Plan, prepared: DataFrame, size: TableStatistics) -> DataFrame:
        """Many prepared rows as one segment for each window."""
        made = merge_runs(plan, prepared, size.spacing) if isinstance(plan.window, StateWindow) and plan.unique else None
        if made is None:
            return whole(plan, prepared)
        self.cached.append(made[1])
        return made[0]

    def source(self, source: PlanSource) -> DataFrame:
        match source:
            case Scan():
                return self.read(source)
            case ScanUnion(scans=scans, columns=columns):
                sides = [self.side_of(scan, pairs) for scan, pairs in zip(scans, columns, strict=True)]
                return reduce(lambda left, right: left.union(right), sides)
            case Plan() | UnionPlan():
                return replace(self, ordered=False).result(source)
            case JoinSource():
                return self.join(source)
            case Nothing():
                from pyspark.sql import SparkSession

                session = SparkSession.getActiveSession()
                if session is None:
                    raise InternalError("there is no Spark session")
                return session.range(1)

    def join(self, source: JoinSource) -> DataFrame:
        """Both sides with their columns renamed, joined."""
        left = self.side_of(source.left, source.left_columns)
        right = self.side_of(source.right, source.right_columns)
        if source.condition is None:
            return left.crossJoin(right)
        return left.join(right, F.expr(source.condition), source.kind.replace(" ", "_"))

    def side_of(self, source: PlanSource, columns: tuple[tuple[str, str], ...]) -> DataFrame:
        """Read one of several sources: of a scan only the series that are meant, columns renamed."""
        rows = self.source(source)
        if isinstance(source, Scan) and source.condition is not None:
            rows = rows.where(source.condition)
        return rows.selectExpr(*(f"{sql} AS {name}" for sql, name in columns))

    def union(self, plan: UnionPlan) -> DataFrame:
        """Both sides' columns by position, brought to the types of the whole."""
        sides = [self.side(plan, side) for side in (plan.left, plan.right)]
        found = sides[0].union(sides[1])
        return order_union(plan, found if plan.all else found.distinct())

    def side(self, plan: UnionPlan, side: AnyPlan) -> DataFrame:
        found = replace(self, ordered=False).result(side)
        pairs = zip(side.outputs, plan.outputs, strict=True)
        return found.selectExpr(*(f"CAST({own.column} AS {spark_type(of.type)}) AS {of.column}" for own, of in pairs))


def selected(plan: Plan, columns: Sequence[str]) -> list[str]:
    """Columns, each as the select list's column that holds the same: what is sorted need not have it twice."""
    outputs = {output.sql: output.column for output in reversed(plan.outputs)}
    return [outputs.get(column, column) for column in columns]


def whole(plan: Plan, prepared: DataFrame) -> DataFrame:
    """All prepared rows as one segment for each window, by the fastest way for many rows."""
    match plan.window:
        case None:
            return segments(plan.unmerged, prepared)
        case IntervalWindow() as window:
            sliding = window.slides and intervals.even(window)
            return panes(plan, window, prepared) if sliding else segments(plan.unmerged, prepared)
        case SessionWindow():
            return merge(plan, segments(plan, prepared))
        case ordered_window:
            keys = telling_columns(plan)
            numbered = number_rows(ordered_window, prepared, keys, unique=plan.unique)
            return with_following(plan, joined(plan, numbered, keys, updates(plan.unmerged), TS, TS))


def panes(plan: Plan, window: IntervalWindow, prepared: DataFrame) -> DataFrame:
    """Sliding windows in two steps: rows aggregated to the slide, then slides to windows."""
    keys, precision = telling_columns(plan), plan.precision
    placed = prepared.withColumn("_pane", F.expr(intervals.start(window, TS, precision)))
    found = placed.groupBy(*keys, "_pane").agg(*updates(plan))
    starts = f"explode({intervals.slides(window, '_pane', precision)}) AS {WSTART}"
    spread = found.selectExpr(*keys, *(partial.column for partial in plan.partials), starts)
    merged = spread.groupBy(*keys, WSTART).agg(*merges(plan))
    return with_following(plan, merged.withColumn(WEND, F.expr(intervals.end(window, WSTART, precision))))


def projected(plan: Plan, rows: DataFrame) -> tuple[DataFrame, list[str]]:
    """Rows that pass WHERE with keys, the select list and hidden columns; and their natural order."""
    kept = rows.where(run(plan, plan.filter)) if plan.filter else rows
    places = {name: sql for name, sql in ((TS, plan.time), (SERIES, plan.series_key)) if sql}
    columns = {key.column: key.sql for key in plan.keys} | places
    outputs = {output.column: output.sql for output in (*plan.outputs, *plan.hidden)}
    natural = list(columns)
    if plan.series:
        kept, columns, natural = with_series(plan, kept, columns)
    found = kept.selectExpr(*(run(plan, f"{sql} AS {column}") for column, sql in (columns | outputs).items()))
    # The rows of a sub-query keep the order they have.
    return found, [] if isinstance(plan.source, Plan | UnionPlan) and not plan.series else natural


def with_series(plan: Plan, rows: DataFrame, places: dict[str, str]) -> tuple[DataFrame, dict[str, str], list[str]]:
    """Rows beside the values of functions of neighbours; where keys and time now are; and the natural order."""
    own = {name: f"__{name}" for name in places}
    keys = ", ".join(own[key.column] for key in plan.keys) or "1"
    order = [own[name] for name in (TS, SERIES) if name in own] + ([plan.key] if plan.key else [])

    def settled(sql: str) -> str:
        return run(plan, sql.replace(KEYS, keys).replace(TIES, ", ".join(order)))

    found = rows.selectExpr("*", *(run(plan, f"{sql} AS {own[name]}") for name, sql in places.items()))
    before = [each.before for each in plan.series if each.before]
    found = found.where(settled(" AND ".join(before))) if before else found
    found = found.selectExpr("*", *(settled(f"{each.first} AS _{each.column}") for each in plan.series if each.first))
    found = found.selectExpr("*", *(settled(f"{each.value} AS {each.column}") for each in plan.series))
    keep = [each.keep for each in plan.series if each.keep]
    found = found.where(settled(" AND ".join(keep))) if keep else found
    found = found.selectExpr("*", *(settled(f"{each.order} AS {each.column}_order") for each in plan.series if each.order))
    natural = [key.column for key in plan.keys] + [f"{each.column}_order" for each in plan.series if each.order]
    moved = own | {f"{each.column}_order": f"{each.column}_order" for each in plan.series if each.order}
    return found, moved, [*natural, *(name for name in places if name not in natural)]
