"""Columns of rows as Arrow arrays of one chunk, expressions over them, and the kernels of select lists in stored types."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.compute.columnar.expressions import Values, evaluate, infer_type
from headrace.compute.columnar.runs import Bools, Int64s, to_numpy
from headrace.compute.nodes import Column, Node, UnsupportedError, columns_of
from headrace.compute.plan import Plan
from headrace.compute.sql_text import at_present, to_stored_type

Arrays = dict[str, pa.Array]


def to_arrays(rows: pa.Table) -> Arrays:
    combined = rows.unify_dictionaries().combine_chunks()
    return {name: whole(combined.column(name)) for name in combined.column_names}


def whole(column: pa.ChunkedArray) -> pa.Array:
    """Return a column that has at most one chunk."""
    return column.chunk(0) if column.num_chunks else pa.array([], column.type)


def evaluate_all(nodes: Mapping[str, Node], columns: Mapping[str, Values], size: int) -> Arrays:
    """Return the values of expressions. A column that is taken as it is keeps its dictionary."""
    results: dict[Node, pa.Array] = {}
    for node in nodes.values():
        if node not in results:
            results[node] = as_array(evaluate(node, plain(node, columns)), size)
    return {name: results[node] for name, node in nodes.items()}


def plain(node: Node, columns: Mapping[str, Values]) -> Mapping[str, Values]:
    """Return columns with the dictionaries decoded that an expression computes with."""
    if isinstance(node, Column):
        return columns
    encoded = [name for name in columns_of(node) if isinstance(columns[name], pa.DictionaryArray)]
    return columns if not encoded else {**columns} | {name: columns[name].dictionary_decode() for name in encoded}


def as_array(values: Values, size: int) -> pa.Array:
    """Return values as one array; a scalar is repeated."""
    if isinstance(values, pa.Scalar):
        return pa.repeat(values, size)
    return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values


def filter_rows(columns: Arrays, size: int, condition: Values) -> tuple[Arrays, int]:
    """Return the rows for which a condition is true, and how many they are."""
    mask = pc.fill_null(as_array(condition, size), False)
    kept = int(pc.sum(mask).as_py() or 0)
    return (columns, size) if kept == size else ({name: values.filter(mask) for name, values in columns.items()}, kept)


def take(columns: Arrays, index: Int64s) -> Arrays:
    """Return some rows."""
    indexes = pa.array(index)
    return {name: values.take(indexes) for name, values in columns.items()}


def decoded(column: pa.Array) -> pa.Array:
    """Return a column without a dictionary."""
    return column.dictionary_decode() if isinstance(column, pa.DictionaryArray) else column


def is_range(index: Int64s) -> bool:
    return bool((index == np.arange(len(index))).all())


def ticks(column: pa.Array) -> Int64s:
    """Return a column of BIGINT without NULL."""
    return to_numpy(column).astype(np.int64, copy=False)


def flags(column: pa.Array) -> Bools:
    """Return a column of BOOLEAN without NULL."""
    return to_numpy(column).astype(np.bool_, copy=False)


@dataclass(frozen=True)
class OutputKernel:
    """Expressions by the names of their columns, and the types of these."""

    nodes: Mapping[str, Node]
    types: Mapping[str, pa.DataType]

    @classmethod
    def compile(cls, expressions: Mapping[str, Node], windows: pa.Schema) -> OutputKernel:
        """Compile expressions over these columns. Raises `UnsupportedError` if kernels cannot evaluate one of them."""
        types = {field.name: field.type for field in windows}
        return cls(expressions, {name: infer_type(node, types) for name, node in expressions.items()})

    def append_to(self, windows: pa.Table) -> pa.Table:
        """Return windows with the columns of the expressions. Raises `UnsupportedError` if Spark would refuse a value."""
        values = evaluate_all(self.nodes, to_arrays(windows), windows.num_rows)
        for name, column in values.items():
            windows = windows.append_column(pa.field(name, self.types[name]), column)
        return windows


@dataclass(frozen=True)
class ProjectionKernel:
    """A query without windows and aggregates: its keys, time, series key and select list, for the rows that pass WHERE."""

    filter: Node | None
    nodes: Mapping[str, Node]

    @classmethod
    def compile(cls, plan: Plan, types: Mapping[str, pa.DataType]) -> ProjectionKernel:
        """Compile a plan over columns of these types. Raises `UnsupportedError` if kernels cannot evaluate it row by row."""
        if plan.series.calls or plan.series.arrow_calls:
            raise UnsupportedError("functions of neighboring rows")
        filter_ = at_present(plan, plan.filter) if plan.filter else None
        outputs = {output.column: to_stored_type(output.node, output.type, plan.precision) for output in plan.outputs}
        columns = plan.natural_columns | outputs
        nodes = {name: at_present(plan, node) for name, node in columns.items()}
        for node in (*nodes.values(), *([filter_] if filter_ is not None else [])):
            infer_type(node, types)
        return cls(filter_, nodes)

    def project(self, rows: pa.Table) -> pa.Table:
        """Return the results of the rows that pass WHERE, in order. Raise `UnsupportedError` if Spark would refuse a value."""
        nodes = [*self.nodes.values(), *([self.filter] if self.filter is not None else [])]
        columns: Arrays = to_arrays(rows.select(list(dict.fromkeys(name for node in nodes for name in columns_of(node)))))
        size = rows.num_rows
        if self.filter is not None:
            columns, size = filter_rows(columns, size, evaluate(self.filter, plain(self.filter, columns)))
        return pa.table({name: decoded(values) for name, values in evaluate_all(self.nodes, columns, size).items()})
