"""Columns of rows as Arrow arrays of one chunk, and expressions over them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.compute.columnar.expressions import Values, evaluate
from headrace.compute.columnar.runs import Bools, Int64s, to_numpy
from headrace.compute.nodes import Column, Node, columns_of

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
