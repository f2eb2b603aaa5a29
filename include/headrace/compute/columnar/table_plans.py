"""`TableEvaluator`: runs a plan over few rows of tables with Arrow in this process."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Final, Protocol

import numpy as np
import pyarrow as pa

from headrace.compute.columnar.arrays import refuse
from headrace.compute.columnar.columns import Arrays, OutputKernel, as_array, call_types, decoded, evaluate_all, to_arrays
from headrace.compute.columnar.device_groups import group_by_device
from headrace.compute.columnar.frames import ArrowRows, gathered, passing, to_table
from headrace.compute.columnar.joins import asof_join, join
from headrace.compute.columnar.ordering import distinct, limit, numbers_of, order_result, sort_rows
from headrace.compute.columnar.over import array_of, is_by_row
from headrace.compute.columnar.runs import to_numpy
from headrace.compute.columnar.segments import SegmentKernel
from headrace.compute.columnar.series_calls import add_series_functions
from headrace.compute.columnar.series_tables import MAX_CELLS, MAX_COPIES, all_windows, empty, regrouped, series_batches
from headrace.compute.evaluation.interp import POINT, POSITION, fill_gaps, interpolate
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
    both,
    call,
)
from headrace.compute.plan import WSTART, AnyPlan, JoinSource, Plan, PlanSource, Regrouped, UnionPlan, uses_neighbors
from headrace.compute.plan_clauses import Sort
from headrace.compute.plan_sources import OneRow, Scan, ScanUnion, SeriesRows
from headrace.compute.sql_text import at_present, stored_outputs
from headrace.compute.types import spark_type, to_ticks
from headrace.compute.windows.fill import fill_rows
from headrace.compute.windows.ranges import RangeGrid, RangeWindow, time_limits
from headrace.compute.windows.segments import key_columns, prepared_columns, result_conditions
from headrace.model.types import TypeKind
from headrace.storage.types import arrow_type

KEPT: Final = "_kept"
LEFT_ROWS: Final[tuple[tuple[Node, str], ...]] = ((TRUE, "\x00left"),)
RIGHT_ROWS: Final[tuple[tuple[Node, str], ...]] = ((TRUE, "\x00right"),)
"""What is read of a source of which no column is: a table of Arrow without columns has no rows."""
Series = tuple[str, ...] | None
MAX_ROWS: Final = 1_000_000
"""Rows that are in memory as a whole at most. Spark has started by the time that more are evaluated."""
MIN_WAITING: Final = 1_000_000
"""Segments of batches that are merged together at least; more if there are more windows."""


class TableReader(Protocol):
    """Reads scans: of all rows from `first` to `last` (ticks, inclusive; None for no limit) those of some series, None for all.

    More rows than asked for may be returned.
    """

    def row_count(self, scan: Scan, first: int | None, last: int | None, series: Series = None) -> int:
        """Return the greatest number of rows that `batches` may return, without reading any."""

    def batches(self, scan: Scan, first: int | None, last: int | None, series: Series = None) -> Iterator[pa.Table]:
        """Yield at least one batch of the columns of a scan in stored types, in no order; texts may be dictionary-encoded."""

    def subtables(self, scan: Scan) -> pa.Table:
        """Return series key and tags of every subtable of a scan's table."""


class NoRows:
    """Reads tables as if they were empty, to find out whether a plan can be evaluated."""

    def row_count(self, scan: Scan, first: int | None, last: int | None, series: Series = None) -> int:  # noqa: ARG002
        """Return 0."""
        return 0

    def batches(self, scan: Scan, first: int | None, last: int | None, series: Series = None) -> Iterator[pa.Table]:  # noqa: ARG002
        """Yield no rows."""
        yield empty(scan)

    def subtables(self, scan: Scan) -> pa.Table:
        """Return no subtables."""
        return empty(scan, [scan.table.series_key, *(tag.name for tag in scan.table.tags)])


def check_tables(plan: AnyPlan) -> None:
    """Raise `UnsupportedError` if only Spark evaluates a plan."""
    stored_columns(plan, TableEvaluator(NoRows(), [0]).evaluate(plan))


def evaluate_tables(plan: AnyPlan, reader: TableReader, max_rows: int) -> pa.Table:
    """Return the result of a plan that `check_tables` accepts: columns named and ordered as in the select list, in stored types.

    Raise `UnsupportedError` if it reads more than `max_rows` rows, or Spark would refuse a value.
    """
    rows_left = max_rows if reads_batches(plan) else min(max_rows, MAX_ROWS)
    rows = stored_columns(plan, TableEvaluator(reader, [rows_left]).evaluate(plan))
    return pa.Table.from_arrays(rows.columns, names=[output.name for output in plan.outputs])


def stored_columns(plan: AnyPlan, rows: pa.Table) -> pa.Table:
    arrays, types = to_arrays(rows), {output.column: arrow_type(output.type, plan.precision) for output in plan.outputs}
    nodes = stored_outputs(plan)
    for output in plan.outputs:
        if output.type.kind is not TypeKind.TIMESTAMP and arrays[output.column].type == types[output.column]:
            nodes[output.column] = Column(output.column)
    stored = {name: decoded(values) for name, values in evaluate_all(nodes, arrays, rows.num_rows).items()}
    refuse(any(stored[name].type != type_ for name, type_ in types.items()), "an output of another type")
    return pa.table(stored)


def reads_batches(plan: AnyPlan) -> bool:
    """Return whether a plan aggregates or selects rows of series one by one, so that it has not all of them in memory."""
    if not isinstance(plan, Plan) or not isinstance(plan.source, SeriesRows) or plan.gap_fill is not None:
        return False
    if plan.aggregated:
        is_fixed = isinstance(plan.window, RangeWindow | None) and not uses_neighbors(plan)
        return is_fixed and not plan.lists and not plan.groups.calls
    return plan.interp is None and not plan.series.calls


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
        result, natural = self._evaluate_rows(plan)
        if plan.gap_fill is not None:
            result = fill_gaps(plan, plan.gap_fill, ArrowRows(plan, result)).table
            plan = replace(plan, order=replace(plan.order, sorts=(Sort(POSITION),)))
        return order_result(plan, result, natural)

    def _evaluate_rows(self, plan: Plan) -> tuple[pa.Table, list[str]]:
        if plan.interp is not None:
            prepared = passing_rows(plan, ArrowRows(plan, self._read(plan, plan.source))).select(prepared_columns(plan))
            return interpolate(plan, plan.interp, prepared).table, [*key_columns(plan), POINT]
        if not plan.aggregated:
            rows = ArrowRows(plan, self._read(plan, plan.source))
            projected, natural = project_rows(plan, rows, add_series_functions)
            return projected.table, natural
        groups = self._aggregate(plan)
        if plan.fill is not None:
            groups = fill_rows(plan, ArrowRows(plan, groups)).table
        return groups, [*key_columns(plan), *([WSTART] if plan.window is not None else [])]

    def _read(self, plan: Plan, source: PlanSource) -> pa.Table:
        match source:
            case Scan():
                return gathered(self._scan(source, *plan.range))
            case ScanUnion(scans=scans, columns=columns):
                return concatenated(
                    [self._side(plan, scan, pairs or LEFT_ROWS) for scan, pairs in zip(scans, columns, strict=True)]
                )
            case SeriesRows():
                batches = self._series(plan, source)
                if source is plan.source and plan.filter is not None and is_by_row(plan.filter):
                    return gathered(passing_rows(plan, ArrowRows(plan, rows)).table for rows in batches)
                return gathered(batches)
            case OneRow():
                return pa.table({"": [True]})
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

    def _series(self, plan: Plan, source: SeriesRows) -> Iterator[pa.Table]:
        first, last = time_limits(plan)
        series = source.devices if not source.groups and not any(source.projections) else None
        for rows in series_batches(source, lambda scan: self._scan(scan, first, last, series)):
            yield rows if self.within is None else self._within(self.within, rows)

    def _within(self, plan: Plan, rows: pa.Table) -> pa.Table:
        """Return the rows that lie in the windows of a plan."""
        grid = plan.kind.grid(plan)
        assert grid is not None
        ticks = array_of(to_ticks(Column(TIME), plan.precision), to_arrays(rows), rows.num_rows)
        inside, _ = grid.assign(to_numpy(ticks))
        return rows if inside is None else rows.take(pa.array(np.unique(inside)))

    def _scan(self, scan: Scan, first: int | None = None, last: int | None = None, series: Series = None) -> Iterator[pa.Table]:
        self.rows_left[0] -= self.reader.row_count(scan, first, last, series)
        refuse(self.rows_left[0] < 0, "too many rows")
        return self.reader.batches(scan, first, last, series)

    def _side(self, plan: Plan, source: PlanSource, columns: Sequence[tuple[Node, str]]) -> pa.Table:
        """Read one of several sources with its columns renamed. A scan is restricted to the requested series."""
        rows = gathered(self._scan(source)) if isinstance(source, Scan) else self._read(plan, source)
        arrays, size = to_arrays(rows), rows.num_rows
        if isinstance(source, Scan) and source.condition is not None:
            arrays, size = passing(arrays, size, at_present(plan, source.condition))
        return to_table(evaluate_all({name: at_present(plan, node) for node, name in columns}, arrays, size))

    def _aggregate(self, plan: Plan) -> pa.Table:
        if (by_device := group_by_device(plan)) is None:
            return self.aggregate(plan, self.batches(plan))
        groups = self.groups(by_device.plan, self.batches(by_device.plan))
        return finished(plan, *by_device.align(groups, outputs_of(plan)))

    def aggregate(self, plan: Plan, batches: Iterator[pa.Table]) -> pa.Table:
        """Return finished windows or groups of rows: keys, ends, and the select list."""
        return finished(plan, self.groups(plan, batches), {})

    def batches(self, plan: Plan) -> Iterator[pa.Table]:
        """Read the rows of a plan that aggregates them, in several batches if their windows can be merged."""
        is_fixed = isinstance(plan.window, RangeWindow | None) and not uses_neighbors(plan)
        if isinstance(plan.source, SeriesRows) and is_fixed:
            return self._series(plan, plan.source)
        return iter((self._read(plan, plan.source),))

    def groups(self, plan: Plan, batches: Iterator[pa.Table]) -> pa.Table:
        """Return windows or groups of rows, also those that have no rows: keys, ends, and partials."""
        refuse(any(aggregate.many for aggregate in plan.groups.aggregates), "aggregate")
        if uses_neighbors(plan):
            rows, plan = with_neighbors(plan, next(batches))
            batches = iter((rows,))
        first = next(batches)
        if plan.interval is not None:
            copies = first.num_rows * plan.interval.max_windows_per_instant(plan.precision)
            refuse(copies > MAX_COPIES, "too many windows of each row")
        kernel = SegmentKernel.compile(plan, types_of(first))
        groups = merged_segments(kernel, chain((first,), batches))
        if (series := plan.series_rows) is not None and (plan.window is None or isinstance(kernel.grid, RangeGrid)):
            windows, no_rows = kernel.grid if isinstance(kernel.grid, RangeGrid) else None, partials_of_no_rows(plan)
            return groups if isinstance(self.reader, NoRows) else all_windows(plan, series, windows, groups, no_rows)
        if not plan.keys and plan.window is None and not groups.num_rows:
            return pa.Table.from_pylist([partials_of_no_rows(plan)], kernel.schema)
        if plan.groups.empty_groups is not None and isinstance(plan.source, Scan):
            expected, size = self._subtables(plan, plan.groups.empty_groups, plan.source)
            return with_empty(groups, expected, size, partials_of_no_rows(plan))
        return groups

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


def outputs_of(plan: Plan) -> dict[str, Node]:
    return {output.column: at_present(plan, output.node) for output in (*plan.outputs, *plan.hidden)}


def finished(plan: Plan, groups: pa.Table, outputs: Mapping[str, pa.Array]) -> pa.Table:
    """Return the groups that have passed HAVING, with the select list, of which some outputs are given."""
    nodes = {name: node for name, node in outputs_of(plan).items() if name not in outputs} | {KEPT: has_passed(plan)}
    rows = OutputKernel.compile(nodes, groups.schema, call_types(plan)).append_to(groups)
    rows = pa.table([*rows.columns, *outputs.values()], names=[*rows.column_names, *outputs])
    return rows.filter(rows[KEPT])


def merged_segments(kernel: SegmentKernel, batches: Iterable[pa.Table]) -> pa.Table:
    """Return the segments of all batches, merged whenever there are many, so that the work for each batch stays the same."""
    parts, limit = [], MIN_WAITING
    for rows in batches:
        parts.append(kernel.segments(rows))
        if sum(part.num_rows for part in parts) > limit:
            parts = [kernel.merge(pa.concat_tables(parts))]
            refuse(parts[0].num_rows * len(kernel.schema) > MAX_CELLS, "too many windows")
            limit = 2 * parts[0].num_rows + MIN_WAITING
    return kernel.merge(pa.concat_tables(parts)) if len(parts) > 1 else parts[0]


def with_neighbors(plan: Plan, rows: pa.Table) -> tuple[pa.Table, Plan]:
    """Return the rows that pass WHERE with arguments that depend on those next to them, and the plan over these."""
    arguments = {argument.column: argument.node for argument in plan.arguments if isinstance(argument.node, Over)}
    columns = [replace(one, node=Column(one.column)) if one.column in arguments else one for one in plan.arguments]
    return passing_rows(plan, ArrowRows(plan, rows)).extend(arguments).table, replace(plan, filter=None, arguments=tuple(columns))


def has_passed(plan: Plan) -> Node:
    """Return the condition for windows and groups to be in the result."""
    conditions = [at_present(plan, condition) for condition in result_conditions(plan)]
    return call("coalesce", both(*conditions), FALSE) if conditions else TRUE


def with_empty(groups: pa.Table, expected: Arrays, size: int, no_rows: Mapping[str, Any]) -> pa.Table:
    """Return groups with those that are expected, by their keys, and have no rows."""
    names = list(expected)
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
