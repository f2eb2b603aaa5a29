"""`TableEvaluator`: runs a plan over few rows of tables with Arrow in this process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

import numpy as np
import pyarrow as pa

from headrace.compute.columnar.arrays import arrow_type as arrow_type_of
from headrace.compute.columnar.arrays import refuse
from headrace.compute.columnar.columns import Arrays, OutputKernel, as_array, call_types, evaluate_all, to_arrays
from headrace.compute.columnar.frames import ArrowRows, passing, to_table
from headrace.compute.columnar.joins import asof_join, join
from headrace.compute.columnar.ordering import distinct, limit, numbers_of, order_result, sort_rows
from headrace.compute.columnar.over import array_of
from headrace.compute.columnar.rows import time_limits
from headrace.compute.columnar.runs import to_numpy
from headrace.compute.columnar.segments import SegmentKernel
from headrace.compute.columnar.series_calls import INSTANT
from headrace.compute.columnar.series_tables import MAX_COPIES, empty_windows, regrouped, series_table
from headrace.compute.columnar.window_ranges import RangeGrid, window_range
from headrace.compute.evaluation.interp import POINT, POSITION, fill_gaps, interpolate
from headrace.compute.evaluation.series_arrow import evaluator, input_name
from headrace.compute.evaluation.series_calls import passing_rows, project_rows
from headrace.compute.nodes import (
    FALSE,
    TIME,
    TRUE,
    Column,
    Node,
    Operation,
    Over,
    UnsupportedError,
    bigint,
    both,
    call,
    columns_of,
)
from headrace.compute.plan import IS_END, WEND, WSTART, AnyPlan, JoinSource, Plan, PlanSource, Regrouped, UnionPlan, uses_neighbors
from headrace.compute.plan_clauses import Sort
from headrace.compute.plan_sources import Scan, ScanUnion, SeriesRows
from headrace.compute.sql_text import at_present, stored_outputs
from headrace.compute.types import from_ticks, spark_type, to_ticks
from headrace.compute.window_plans import EventWindow, IntervalWindow, RangeWindow, StateWindow
from headrace.compute.windows.fill import fill_rows
from headrace.compute.windows.segments import key_columns, prepared_columns
from headrace.storage.types import arrow_type, row_types

KEPT: Final = "_kept"
LEFT_ROWS: Final[tuple[tuple[Node, str], ...]] = ((TRUE, "\x00left"),)
RIGHT_ROWS: Final[tuple[tuple[Node, str], ...]] = ((TRUE, "\x00right"),)
"""What is read of a source of which no column is: a table of Arrow without columns has no rows."""
Series = tuple[str, ...] | None
MAX_ROWS: Final = 1_000_000
"""Rows that are read at most. They are in memory as a whole, and Spark has started by the time that more are evaluated."""


class TableReader(Protocol):
    """Reads scans: of all rows from `first` to `last` (ticks, inclusive; None for no limit) those of some series, None for all.

    More rows than asked for may be returned.
    """

    def row_count(self, scan: Scan, first: int | None, last: int | None, series: Series = None) -> int:
        """Return the greatest number of rows that `rows` may return, without reading any."""

    def rows(self, scan: Scan, first: int | None, last: int | None, series: Series = None) -> pa.Table:
        """Return the columns of a scan in stored types, in no order; texts may be dictionary-encoded."""

    def subtables(self, scan: Scan) -> pa.Table:
        """Return series key and tags of every subtable of a scan's table."""


class NoRows:
    """Reads tables as if they were empty, to find out whether a plan can be evaluated."""

    def row_count(self, scan: Scan, first: int | None, last: int | None, series: Series = None) -> int:  # noqa: ARG002
        """Return 0."""
        return 0

    def rows(self, scan: Scan, first: int | None, last: int | None, series: Series = None) -> pa.Table:  # noqa: ARG002
        """Return no rows."""
        return empty(scan, scan.columns)

    def subtables(self, scan: Scan) -> pa.Table:
        """Return no subtables."""
        return empty(scan, [scan.table.series_key, *(tag.name for tag in scan.table.tags)])


def empty(scan: Scan, columns: Sequence[str]) -> pa.Table:
    types = row_types(scan.table, scan.database.precision)
    return pa.schema([(name, types[name]) for name in columns]).empty_table()


def check_tables(plan: AnyPlan) -> None:
    """Raise `UnsupportedError` if only Spark evaluates a plan."""
    stored_columns(plan, TableEvaluator(NoRows(), [0]).evaluate(plan))


def evaluate_tables(plan: AnyPlan, reader: TableReader, max_rows: int) -> pa.Table:
    """Return the result of a plan that `check_tables` accepts: columns named and ordered as in the select list, in stored types.

    Raise `UnsupportedError` if it reads more than `max_rows` rows, or Spark would refuse a value.
    """
    rows = stored_columns(plan, TableEvaluator(reader, [min(max_rows, MAX_ROWS)]).evaluate(plan))
    return pa.Table.from_arrays(rows.columns, names=[output.name for output in plan.outputs])


def stored_columns(plan: AnyPlan, rows: pa.Table) -> pa.Table:
    arrays = evaluate_all(stored_outputs(plan), to_arrays(rows), rows.num_rows)
    for output in plan.outputs:
        refuse(arrays[output.column].type != arrow_type(output.type, plan.precision), output.name)
    return pa.table(arrays)


@dataclass(frozen=True, slots=True)
class TableEvaluator:
    """Evaluates plans. Results have columns `o…` with instants as ticks.

    `rows_left` is how many rows may still be read. Rows of series must lie in the windows of `within`.
    """

    reader: TableReader
    rows_left: list[int]
    within: Plan | None = None

    def evaluate(self, plan: AnyPlan) -> pa.Table:
        """Return the rows of a plan, sorted and limited."""
        if isinstance(plan, UnionPlan):
            return self._union(plan)
        result, natural = self._evaluate_rows(plan, self._read(plan, plan.source))
        if plan.gap_fill is not None:
            result = fill_gaps(plan, plan.gap_fill, ArrowRows(plan, result)).table
            plan = replace(plan, order=replace(plan.order, sorts=(Sort(POSITION),)))
        return order_result(plan, result, natural)

    def _evaluate_rows(self, plan: Plan, rows: pa.Table) -> tuple[pa.Table, list[str]]:
        if plan.interp is not None:
            prepared = passing_rows(plan, ArrowRows(plan, rows)).select(prepared_columns(plan))
            return interpolate(plan, plan.interp, prepared).table, [*key_columns(plan), POINT]
        if not plan.aggregated:
            projected, natural = project_rows(plan, ArrowRows(plan, rows), add_series_functions)
            return projected.table, natural
        groups = self.aggregate(plan, rows)
        if plan.fill is not None:
            groups = fill_rows(plan, ArrowRows(plan, groups)).table
        return groups, [*key_columns(plan), *([WSTART] if plan.window is not None else [])]

    def _read(self, plan: Plan, source: PlanSource) -> pa.Table:
        match source:
            case Scan():
                return self._scan(source, *plan.range)
            case ScanUnion(scans=scans, columns=columns):
                return concatenated(
                    [self._side(plan, scan, pairs or LEFT_ROWS) for scan, pairs in zip(scans, columns, strict=True)]
                )
            case SeriesRows():
                return self._series(plan, source)
            case Regrouped(rows=rows, regrouping=regrouping):
                return regrouped(regrouping, self._inner(plan)._read(plan, rows))
            case Plan() | UnionPlan():
                return self._inner(plan).evaluate(source)
            case JoinSource(left=left, right=right):
                left_columns, right_columns = source.left_columns or LEFT_ROWS, source.right_columns or RIGHT_ROWS
                sides = self._side(plan, left, left_columns), self._side(plan, right, right_columns)
                if source.asof is not None:
                    return asof_join(source.asof, *sides)
                return join(*sides, None if source.condition is None else at_present(plan, source.condition), source.kind)
        raise UnsupportedError("source")

    def _inner(self, plan: Plan) -> TableEvaluator:
        """Return the evaluator of what a plan reads."""
        return replace(self, within=plan) if isinstance(plan.window, RangeWindow) else self

    def _series(self, plan: Plan, source: SeriesRows) -> pa.Table:
        first, last = time_limits(plan)
        series = source.devices if not source.groups and not any(source.projections) else None
        rows = series_table(source, lambda scan: self._scan(scan, first, last, series))
        if self.within is None:
            return rows
        window = self.within.window
        assert isinstance(window, RangeWindow)
        grid = RangeGrid(window_range(self.within, window, MAX_ROWS))
        ticks = array_of(to_ticks(Column(TIME), plan.precision), to_arrays(rows), rows.num_rows)
        return rows.take(pa.array(np.unique(grid.assign(to_numpy(ticks))[0])))

    def _scan(self, scan: Scan, first: int | None = None, last: int | None = None, series: Series = None) -> pa.Table:
        self.rows_left[0] -= self.reader.row_count(scan, first, last, series)
        refuse(self.rows_left[0] < 0, "too many rows")
        return self.reader.rows(scan, first, last, series)

    def _side(self, plan: Plan, source: PlanSource, columns: Sequence[tuple[Node, str]]) -> pa.Table:
        """Read one of several sources with its columns renamed. A scan is restricted to the requested series."""
        rows = self._scan(source) if isinstance(source, Scan) else self._read(plan, source)
        arrays, size = to_arrays(rows), rows.num_rows
        if isinstance(source, Scan) and source.condition is not None:
            arrays, size = passing(arrays, size, at_present(plan, source.condition))
        return to_table(evaluate_all({name: at_present(plan, node) for node, name in columns}, arrays, size))

    def aggregate(self, plan: Plan, rows: pa.Table) -> pa.Table:
        """Return finished windows or groups: keys, ends, and the select list."""
        refuse(any(aggregate.many for aggregate in plan.groups.aggregates), "aggregate")
        if uses_neighbors(plan):
            rows, plan = with_neighbors(plan, rows)
        if isinstance(plan.window, IntervalWindow):
            copies = rows.num_rows * plan.window.max_windows_per_instant(plan.precision)
            refuse(copies > MAX_COPIES, "too many windows of each row")
        kernel = SegmentKernel.compile(plan, types_of(rows))
        groups = kernel.segments(rows)
        if not plan.keys and plan.window is None and not groups.num_rows:
            groups = pa.Table.from_pylist([partials_of_no_rows(plan)], kernel.schema)
        elif (series := plan.series_rows) is not None and (plan.window is None or isinstance(kernel.grid, RangeGrid)):
            ends = (kernel.grid.range.starts, kernel.grid.range.lasts) if isinstance(kernel.grid, RangeGrid) else None
            groups = with_empty(plan, groups, *empty_windows(plan, series, ends))
        elif plan.groups.empty_groups is not None and isinstance(plan.source, Scan):
            groups = with_empty(plan, groups, *self._subtables(plan, plan.groups.empty_groups, plan.source))
        outputs = {output.column: at_present(plan, output.node) for output in (*plan.outputs, *plan.hidden)}
        kernel_of_outputs = OutputKernel.compile({**outputs, KEPT: has_passed(plan)}, groups.schema, call_types(plan))
        finished = kernel_of_outputs.append_to(groups)
        return finished.filter(finished[KEPT])

    def _subtables(self, plan: Plan, condition: Node, scan: Scan) -> tuple[Arrays, int]:
        """Return the keys of the groups that subtables have even without rows, and their number."""
        subtables = self.reader.subtables(scan)
        columns, size = passing(to_arrays(subtables), subtables.num_rows, at_present(plan, condition))
        return evaluate_all({key.column: at_present(plan, key.node) for key in plan.keys}, columns, size), size

    def _union(self, plan: UnionPlan) -> pa.Table:
        sides = []
        for side in (plan.left, plan.right):
            rows = self.evaluate(side)
            pairs = zip(side.outputs, plan.outputs, strict=True)
            nodes = {other.column: Column(own.column).cast(spark_type(other.type)) for own, other in pairs}
            sides.append(to_table(evaluate_all(nodes, to_arrays(rows), rows.num_rows)))
        rows = concatenated(sides)
        return limit(plan.order, sort_rows(rows if plan.all else distinct(rows), plan.order.sorts, ()))


def add_series_functions(plan: Plan, rows: ArrowRows) -> ArrowRows:
    """Return rows with the points of functions over whole series; instants that only a function has are further rows."""
    assert plan.identity.time is not None
    keys = [plan.identity.series_column] if plan.identity.series_column else []
    (time,), calls = columns_of(plan.identity.time), plan.series.arrow_calls
    kept: dict[str, Node] = {name: Column(name) for name in rows.columns if name != time}
    timed = rows.select({**kept, INSTANT: plan.identity.time}).table
    values = [pa.field(call.column, arrow_type_of(spark_type(call.type))) for call in calls]
    schema = pa.schema([*timed.schema, *values])
    if not timed.num_rows:
        joined = schema.empty_table()
    else:
        inputs = {input_name(call, number): node for call in calls for number, node in enumerate(call.inputs)}
        prepared = rows.select({**kept, INSTANT: plan.identity.time, **inputs}).table
        batches = sort_rows(prepared, (), [*keys, INSTANT]).combine_chunks().to_batches()
        joined = pa.Table.from_batches(evaluator(calls, keys, schema)(iter(batches)), schema)
    instant = Column(INSTANT)
    restored = from_ticks(instant, plan.precision) if isinstance(plan.source, SeriesRows) else instant
    names = [name for name in joined.column_names if name != INSTANT]
    return ArrowRows(plan, joined).select({**{name: Column(name) for name in names}, time: restored})


def with_neighbors(plan: Plan, rows: pa.Table) -> tuple[pa.Table, Plan]:
    """Return the rows that pass WHERE with arguments that depend on those next to them, and the plan over these."""
    arguments = {argument.column: argument.node for argument in plan.arguments if isinstance(argument.node, Over)}
    columns = [replace(one, node=Column(one.column)) if one.column in arguments else one for one in plan.arguments]
    return passing_rows(plan, ArrowRows(plan, rows)).extend(arguments).table, replace(plan, filter=None, arguments=tuple(columns))


def has_passed(plan: Plan) -> Node:
    """Return the condition for windows and groups to be in the result: HAVING, a row that ends them, and a least length."""
    conditions = [at_present(plan, plan.groups.having)] if plan.groups.having is not None else []
    length = Column(WEND) - Column(WSTART)
    match plan.window:
        case EventWindow(true_for=minimum):
            conditions += [Column(IS_END), *([length >= bigint(minimum)] if minimum else [])]
        case StateWindow(true_for=int(minimum)):
            conditions.append(length >= bigint(minimum))
    return call("coalesce", both(*conditions), FALSE) if conditions else TRUE


def with_empty(plan: Plan, groups: pa.Table, expected: Arrays, size: int) -> pa.Table:
    """Return groups with those that are expected, by keys and ends, and have no rows."""
    names, no_rows = list(expected), partials_of_no_rows(plan)
    values = {name: as_array(pa.scalar(value, groups.schema.field(name).type), size) for name, value in no_rows.items()}
    candidates = to_table(expected | values).cast(groups.schema)
    numbers = numbers_of(pa.concat_tables([groups, candidates]).select(names), names)
    is_missing = ~np.isin(numbers[groups.num_rows :], numbers[: groups.num_rows])
    first = np.unique(numbers[groups.num_rows :], return_index=True)[1]
    return pa.concat_tables([groups, candidates.take(pa.array(np.sort(first[is_missing[first]])))])


def partials_of_no_rows(plan: Plan) -> dict[str, Any]:
    """Return the partial aggregates of no rows."""
    return {partial.column: of_no_rows(partial.update) for partial in plan.partials}


def of_no_rows(update: Node) -> Any:
    """Return what an aggregate function of Spark gives for no rows."""
    match update:
        case Operation(name="cast", operands=(operand,)):
            return of_no_rows(operand)
        case Operation(name="count"):
            return 0
        case Operation(name="mean" | "squares"):
            return 0.0
        case Operation(name="collect_list"):
            return []
        case Operation(name="sum" | "min" | "max" | "min_by" | "max_by"):
            return None
    raise UnsupportedError(str(update))


def types_of(rows: pa.Table) -> Mapping[str, pa.DataType]:
    """Return the types of columns; dictionaries count as the texts in them."""
    return {name: rows.schema.field(name).type for name in rows.column_names} | {
        field.name: field.type.value_type for field in rows.schema if pa.types.is_dictionary(field.type)
    }


def concatenated(tables: Sequence[pa.Table]) -> pa.Table:
    """Return the rows of all tables, whose columns have the same types."""
    refuse(any(table.schema.types != tables[0].schema.types for table in tables), "sources of different types")
    return pa.concat_tables(tables)
