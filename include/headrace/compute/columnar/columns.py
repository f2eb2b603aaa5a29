"""Columns of rows as Arrow arrays of one chunk, expressions over them, and the kernels of select lists in stored types."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.compute.columnar.arrays import Values, refuse
from headrace.compute.columnar.expressions import evaluate, type_of
from headrace.compute.columnar.runs import Bools, Int64s, to_numpy
from headrace.compute.nodes import Column, Node, columns_of
from headrace.compute.plan import Plan
from headrace.compute.plan_clauses import GroupCall
from headrace.compute.sql_text import at_present, to_stored_type
from headrace.compute.windows.group_calls import call_groups
from headrace.model.time import Precision
from headrace.model.types import DataType, TypeKind
from headrace.storage.types import arrow_type

Arrays = dict[str, pa.Array]
MAX_BYTES: Final = 1 << 28
"""Memory that copies of rows may take; Spark computes more in parts."""


def to_arrays(rows: pa.Table) -> Arrays:
    combined = rows.unify_dictionaries().combine_chunks()
    return {name: whole(combined.column(name)) for name in combined.column_names}


def whole(column: pa.ChunkedArray) -> pa.Array:
    """Return a column that has at most one chunk; raise `UnsupportedError` if it is too long for one."""
    refuse(column.num_chunks > 1, "a column of several arrays")
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
        return pa.repeat(values, size) if size else pa.array([], values.type)  # Arrow does not repeat a list no times
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


def refuse_bytes(rows: pa.Table, index: Int64s) -> None:
    """Raise `UnsupportedError` if the rows at some positions, of which -1 is none, take too much memory."""
    size, present = 0.0, index[index >= 0]
    for column in rows.columns:
        if pa.types.is_string(column.type) or pa.types.is_binary(column.type):
            size += float(to_numpy(pc.fill_null(pc.binary_length(column), 0)).astype(np.float64)[present].sum())
        else:
            size += len(present) * column.nbytes / max(len(column), 1)
    refuse(size > MAX_BYTES, "rows of too many bytes")


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
    """Expressions by the names of their columns, the types of these, and the calls that they refer to."""

    nodes: Mapping[str, Node]
    types: Mapping[str, pa.DataType]
    calls: Mapping[GroupCall, pa.DataType] = field(default_factory=dict)

    @classmethod
    def compile(
        cls, expressions: Mapping[str, Node], windows: pa.Schema, calls: Mapping[GroupCall, pa.DataType] | None = None
    ) -> OutputKernel:
        """Compile expressions over these columns and calls, which come with the types of their values.

        Raises `UnsupportedError` if kernels cannot evaluate one of them.
        """
        calls = calls or {}
        types = {column.name: column.type for column in windows} | {call.column: type_ for call, type_ in calls.items()}
        return cls(expressions, {name: type_of(node, types) for name, node in expressions.items()}, calls)

    def append_to(self, windows: pa.Table) -> pa.Table:
        """Return windows with the columns of the expressions; states have taken the place of rows that calls have seen.

        Raises `UnsupportedError` if Spark would refuse a value.
        """
        columns = to_arrays(windows)
        called = call_groups(list(self.calls), columns)
        typed = {call.column: called[call.column].cast(type_) for call, type_ in self.calls.items()}
        values = evaluate_all(self.nodes, columns | called | typed, windows.num_rows)
        kept = [called.get(name, column) for name, column in zip(windows.column_names, windows.columns, strict=True)]
        schema = pa.schema([*windows.schema, *(pa.field(name, self.types[name]) for name in values)])
        return pa.table([*kept, *values.values()], schema=schema)


def call_types(plan: Plan) -> dict[GroupCall, pa.DataType]:
    """Return the types of the values of calls."""
    return {call: value_type(call.rule.type, plan.precision) for call in plan.groups.calls}


def value_type(type_: DataType, precision: Precision) -> pa.DataType:
    """Return the type of the values of a call. Timestamps are ticks."""
    return pa.int64() if type_.kind is TypeKind.TIMESTAMP else arrow_type(type_, precision)


@dataclass(frozen=True)
class ProjectionKernel:
    """A query without windows and aggregates: its keys, time, series key and select list, for the rows that pass WHERE."""

    filter: Node | None
    nodes: Mapping[str, Node]

    @classmethod
    def compile(cls, plan: Plan, types: Mapping[str, pa.DataType]) -> ProjectionKernel:
        """Compile a plan over columns of these types. Raises `UnsupportedError` if kernels cannot evaluate it row by row."""
        refuse(plan.series.calls or plan.series.arrow_calls, "functions of neighboring rows")
        filter_ = at_present(plan, plan.filter) if plan.filter else None
        outputs = {output.column: to_stored_type(output.node, output.type, plan.precision) for output in plan.outputs}
        columns = plan.natural_columns | outputs
        nodes = {name: at_present(plan, node) for name, node in columns.items()}
        for node in (*nodes.values(), *([filter_] if filter_ is not None else [])):
            type_of(node, types)
        return cls(filter_, nodes)

    def project(self, rows: pa.Table) -> pa.Table:
        """Return the results of the rows that pass WHERE, in order. Raise `UnsupportedError` if Spark would refuse a value."""
        nodes = [*self.nodes.values(), *([self.filter] if self.filter is not None else [])]
        columns: Arrays = to_arrays(rows.select(list(dict.fromkeys(name for node in nodes for name in columns_of(node)))))
        size = rows.num_rows
        if self.filter is not None:
            columns, size = filter_rows(columns, size, evaluate(self.filter, plain(self.filter, columns)))
        return pa.table({name: decoded(values) for name, values in evaluate_all(self.nodes, columns, size).items()})
