"""`LocalPlan`: runs a plan over series of trees with Arrow in this process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.compute.columnar.arrays import Values, refuse
from headrace.compute.columnar.cells import Aggregation
from headrace.compute.columnar.columns import call_types, value_type
from headrace.compute.columnar.expressions import evaluate, type_of
from headrace.compute.columnar.ordering import limit, plain, sort_rows
from headrace.compute.columnar.rows import (
    RowReader,
    Rows,
    SeriesReader,
    aligned_rows,
    apply_filter,
    bounded,
    mask_of,
    source_types,
    time_limits,
    to_integers,
)
from headrace.compute.columnar.runs import stable_order
from headrace.compute.columnar.series_calls import add_calls
from headrace.compute.nodes import TIME, Column, Node, columns_of, substitute
from headrace.compute.plan import WSTART, Plan
from headrace.compute.plan_clauses import Output
from headrace.compute.plan_sources import SeriesRows
from headrace.compute.sql_text import at_present, to_stored_type
from headrace.compute.terms import ColumnRole
from headrace.compute.window_plans import RangeWindow
from headrace.compute.windows.group_calls import call_groups
from headrace.model.types import DataType, TypeKind
from headrace.storage.types import arrow_type


class LocalPlan:
    """A plan of which every part is supported. Raises `UnsupportedError` if a part is not supported."""

    def __init__(self, plan: Plan) -> None:
        check_shape(plan)
        assert isinstance(plan.source, SeriesRows)
        self.plan = plan
        self.source = plan.source
        self.types = source_types(plan.source, plan.precision)
        self.where = at_present(plan, plan.filter) if plan.filter else None
        refuse(self.where is not None and type_of(self.where, self.types) != pa.bool_(), "WHERE")
        self.aggregation = Aggregation(plan, plan.source, self.types, self.where) if plan.aggregated else None
        self.nodes: dict[str, Node] = {}
        self.cells: dict[str, tuple[Node, int]] = {}
        self._check_outputs()

    def _check_outputs(self) -> None:
        types = dict(self.types)
        if self.aggregation is not None:
            types = self.aggregation.column_types() | {call.column: type_ for call, type_ in call_types(self.plan).items()}
        for call in self.plan.series.arrow_calls:
            for node in call.inputs:
                type_of(at_present(self.plan, node), types)
            types[call.column] = value_type(call.type, self.plan.precision)
        types |= {name: pa.string() for name in self._device_columns()}
        shared: dict[tuple[Node, DataType], Node] = {}
        for output in (*self.plan.outputs, *self.plan.hidden):
            if not self._share(output, shared):
                self.nodes[output.column] = stored_node(self.plan, output, types, {})
        if self.plan.groups.having is not None:
            type_of(at_present(self.plan, self.plan.groups.having), types)

    def _share(self, output: Output, shared: dict[tuple[Node, DataType], Node]) -> bool:
        """Set the expression over the cells of all devices that an output is a slice of; return False if there is none.

        Devices mostly have the same few expressions, which are checked and evaluated once for all of them. HAVING keeps some of the
        groups, so that outputs are no slices.
        """
        if self.aggregation is None or self.plan.groups.having is not None:
            return False
        node = at_present(self.plan, output.node)
        if (over_cells := self.aggregation.over_cells(node)) is None:
            return False
        names, device = over_cells
        key = (substitute(node, names), output.type)
        if key not in shared:
            shared[key] = stored_node(self.plan, output, self.aggregation.cell_types(), names)
        self.cells[output.column] = (shared[key], device)
        return True

    def _device_columns(self) -> list[str]:
        keys, series = [key.column for key in self.plan.keys], self.plan.identity.series_column
        return keys if self.plan.aggregated or series is None else [*keys, series]

    def run(self, rows: RowReader, max_rows: int, max_result_rows: int | None) -> pa.Table:
        """Return the result, or raise `UnsupportedError` if it takes too many rows or values, or Spark would refuse a value."""
        max_kept = None if max_result_rows is None else max_result_rows * len(self.types)
        reader = SeriesReader(self.source, rows, *time_limits(self.plan), max_kept)
        refuse(reader.count() > max_rows, "too many rows")
        refuse(
            max_result_rows is not None and self.aggregation is not None and self.aggregation.count > max_result_rows,
            "too many groups",
        )
        groups = self._groups(self.aggregation, reader) if self.aggregation is not None else self._projection(reader)
        limited = limit(self.plan.order, groups if is_natural(self.plan) else sort_rows(groups, self.plan.order.sorts, ()))
        refuse(max_result_rows is not None and limited.num_rows > max_result_rows, "too many result rows")
        outputs = [plain(limited.column(output.column)) for output in self.plan.outputs]
        return pa.Table.from_arrays(outputs, names=[output.name for output in self.plan.outputs])

    def _groups(self, aggregation: Aggregation, reader: SeriesReader) -> pa.Table:
        columns = aggregation.run(reader)
        called = call_groups(self.plan.groups.calls, columns)
        columns |= {call.column: called[call.column].cast(type_) for call, type_ in call_types(self.plan).items()}
        rows = Rows(np.zeros(aggregation.count, np.int64), columns)
        if self.plan.groups.having is not None:
            condition = evaluate(at_present(self.plan, self.plan.groups.having), columns)
            rows = rows.filter(mask_of(condition, aggregation.count))
        return self._select(rows, aggregation)

    def _projection(self, reader: SeriesReader) -> pa.Table:
        if self.source.aligned and len(self.source.devices) > 1:
            early = self.where if self.where is not None and set(columns_of(self.where)) == {TIME} else None
            aligned = apply_filter(aligned_rows(reader, self.types, early), self.where)
            return self._select_calls([aligned]) if self.plan.series.arrow_calls else self._select(aligned)
        if self.plan.series.arrow_calls:
            filtered_rows = (apply_filter(rows, self.where) for rows in reader.named(self.types))
            return self._select_calls([self._no_rows(), *bounded(filtered_rows, reader.max_values)])
        parts, times, devices = [], [], []
        for filtered in bounded((apply_filter(rows, self.where) for rows in reader.named(self.types)), reader.max_values):
            devices.append(filtered.devices)
            times.append(to_integers(filtered.columns[TIME]))
            parts.append(self._select(self._with_devices(filtered)))
        if not parts:
            return self._select(self._with_devices(self._no_rows()))
        order = row_order(np.concatenate(devices), np.concatenate(times))
        table = unify(pa.concat_tables(parts))
        return table if order is None else table.take(pa.array(order))

    def _no_rows(self) -> Rows:
        return Rows(np.empty(0, np.int64), {name: pa.array([], type_) for name, type_ in self.types.items()})

    def _select_calls(self, parts: Sequence[Rows]) -> pa.Table:
        """Evaluate the select list of rows with the points of functions over whole series, without rows that have no point."""
        table = self._select(self._with_devices(add_calls(self.plan, parts)))
        values = [table[output.column].is_valid() for output in self.plan.outputs if output.role is None]
        return table.filter(reduce(pc.or_, values)) if values and self.plan.is_sparse else table

    def _with_devices(self, rows: Rows) -> Rows:
        names = self._device_columns()
        if not names:
            return rows
        names_of_devices = pa.array(self.source.devices, pa.string())
        paths = pa.DictionaryArray.from_arrays(pa.array(rows.devices.astype(np.int32)), names_of_devices)
        return Rows(rows.devices, {**rows.columns, **dict.fromkeys(names, paths)})

    def _select(self, rows: Rows, aggregation: Aggregation | None = None) -> pa.Table:
        """Evaluate the select list and the hidden columns of ORDER BY, in stored types.

        With an aggregation, whose groups are the rows, what devices have in common is evaluated once for all of them.
        """
        arrays: dict[str, Values] = {}
        shared: dict[int, Values] = {}
        for output in (*self.plan.outputs, *self.plan.hidden):
            if aggregation is not None and output.column in self.cells:
                node, device = self.cells[output.column]
                if id(node) not in shared:
                    shared[id(node)] = evaluate(node, aggregation.cells)
                values = shared[id(node)].slice(device * aggregation.windows, aggregation.windows)
            elif isinstance(node := self.nodes[output.column], Column):
                values = rows.columns[node.name]
            else:
                values = evaluate(with_plain_text(node, rows), rows.columns)
            arrays[output.column] = pa.repeat(values, len(rows.devices)) if isinstance(values, pa.Scalar) else values
        return pa.table(arrays)


def check_shape(plan: Plan) -> None:
    """Raise `UnsupportedError` for clauses that only Spark evaluates."""
    source = plan.source
    refuse(not isinstance(source, SeriesRows) or not source.stored or source.slots > 1, "source")
    refuse(plan.window is not None and not isinstance(plan.window, RangeWindow), "window")
    refuse(plan.series.calls or plan.fill or plan.gap_fill or plan.interp or plan.identity.key, "clause")
    refuse(
        plan.order.distinct or plan.order.series_limit is not None or any(key.role is not ColumnRole.SERIES for key in plan.keys),
        "clause",
    )
    refuse(any(aggregate.many for aggregate in plan.groups.aggregates), "aggregate")
    refuse(bool(plan.lists), "lists of values")


def stored_node(plan: Plan, output: Output, types: Mapping[str, pa.DataType], names: Mapping[str, Node]) -> Node:
    node, target = substitute(at_present(plan, output.node), names), arrow_type(output.type, plan.precision)
    if output.type.kind is not TypeKind.TIMESTAMP and type_of(node, types) == target:
        return node
    node = to_stored_type(node, output.type, plan.precision)
    refuse(type_of(node, types) != target, output.name)
    return node


def with_plain_text(node: Node, rows: Rows) -> Node:
    """Return an expression; raise `UnsupportedError` if it computes with the dictionary of devices."""
    refuse(any(pa.types.is_dictionary(rows.columns[name].type) for name in columns_of(node)), "expression of devices")
    return node


def unify(table: pa.Table) -> pa.Table:
    """Return a table whose dictionaries are the same in all chunks, with one chunk for each column."""
    return table.unify_dictionaries().combine_chunks()


def row_order(devices: Any, times: Any) -> Any:
    """Return the positions of rows in the order of devices and time; None if they are in order."""
    if len(devices) < 2:
        return None
    if (times[1:] < times[:-1]).any():
        by_time = np.argsort(times, kind="stable")
        return by_time[stable_order(devices[by_time])]
    return stable_order(devices) if (devices[1:] < devices[:-1]).any() else None


def is_natural(plan: Plan) -> bool:
    """Return whether ORDER BY is by device and time, or by time alone without devices."""
    outputs: Mapping[str, Output] = {output.column: output for output in plan.outputs}
    if any(item.descending or item.column not in outputs for item in plan.order.sorts):
        return False
    sorted_by: Sequence[str] = [sort_kind(outputs[item.column]) for item in plan.order.sorts]
    return sorted_by == (["device", "time"] if plan.keys else ["time"])[: len(sorted_by)]


def sort_kind(output: Output) -> str:
    """Return what an output sorts by: `device`, `time`, or nothing of the two."""
    if output.role is ColumnRole.SERIES:
        return "device"
    return "time" if output.role is ColumnRole.TIME or output.node == Column(WSTART) else ""
