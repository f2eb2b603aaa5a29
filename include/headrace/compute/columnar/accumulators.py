"""Partial aggregates over numbered groups (cells): one array element per cell, updated batch by batch with NumPy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.compute.columnar.expressions import Values, evaluate, infer_type
from headrace.compute.nodes import NULL, TIME, Column, Node, Operation, UnsupportedError, Value, columns_of

Array = np.ndarray[Any, Any]


class Accumulator(Protocol):
    """One partial aggregate of every cell."""

    def update(self, cells: Array, columns: Mapping[str, Values]) -> None:
        """Add rows; `cells` has the cell of each."""

    def result(self) -> pa.Array:
        """Return the partial of each cell."""


@dataclass(slots=True)
class Count:
    """`count(x)`: values that are not NULL."""

    value: Node
    size: int
    counts: Array = field(init=False)

    def __post_init__(self) -> None:
        self.counts = np.zeros(self.size, np.int64)

    def update(self, cells: Array, columns: Mapping[str, Values]) -> None:
        """Count the values of a batch."""
        if not isinstance(self.value, Value):
            cells, _ = present(cells, evaluate(self.value, columns))
        span, own = span_of(cells)
        self.counts[span] += np.bincount(own)

    def result(self) -> pa.Array:
        """Return the counts."""
        return pa.array(self.counts)


@dataclass(slots=True)
class Sum:
    """`sum(x)` of DOUBLE; NULL without values."""

    value: Node
    size: int
    sums: Array = field(init=False)
    seen: Array = field(init=False)

    def __post_init__(self) -> None:
        self.sums = np.zeros(self.size)
        self.seen = np.zeros(self.size, np.bool_)

    def update(self, cells: Array, columns: Mapping[str, Values]) -> None:
        """Add the values of a batch."""
        cells, values = present(cells, evaluate(self.value, columns))
        span, own = span_of(cells)
        self.sums[span] += np.bincount(own, weights=values)
        self.seen[cells] = True

    def result(self) -> pa.Array:
        """Return the sums."""
        return pa.array(self.sums, mask=~self.seen)


@dataclass(slots=True)
class Moments:
    """The mean of a DOUBLE, or its sum of squared deviations; 0 without values. Batches are merged pairwise."""

    value: Node
    size: int
    is_mean: bool
    counts: Array = field(init=False)
    means: Array = field(init=False)
    squares: Array = field(init=False)

    def __post_init__(self) -> None:
        self.counts, self.means, self.squares = np.zeros(self.size), np.zeros(self.size), np.zeros(self.size)

    def update(self, cells: Array, columns: Mapping[str, Values]) -> None:
        """Add the values of a batch."""
        cells, values = present(cells, evaluate(self.value, columns))
        span, own = span_of(cells)
        counts = np.bincount(own).astype(np.float64)
        changed, before, mean = counts > 0, self.counts[span], self.means[span]
        with np.errstate(all="ignore"):
            means = np.bincount(own, weights=values) / np.maximum(counts, 1)
            squares = np.bincount(own, weights=(values - means[own]) ** 2)
            totals = before + counts
            delta, share = means - mean, counts / np.maximum(totals, 1)
            merged = squares + delta**2 * before * share
            is_first = before == 0
            self.squares[span] = np.where(changed, np.where(is_first, squares, self.squares[span] + merged), self.squares[span])
            self.means[span] = np.where(changed, np.where(is_first, means, mean + delta * share), mean)
        self.counts[span] = totals

    def result(self) -> pa.Array:
        """Return the means or the sums of squares."""
        return pa.array(self.means if self.is_mean else self.squares)


@dataclass(slots=True)
class Extreme:
    """`min(x)` or `max(x)`; NULL without values. The minimum of floating-point numbers is NaN only if there is no number."""

    value: Node
    size: int
    type: pa.DataType
    is_max: bool
    extremes: Array = field(init=False)
    seen: Array = field(init=False)
    numbers: Array = field(init=False)

    def __post_init__(self) -> None:
        dtype = self.type.to_pandas_dtype()
        if pa.types.is_floating(self.type):
            worst: Any = np.inf
        else:
            worst = np.iinfo(dtype).min if self.is_max else np.iinfo(dtype).max
        self.extremes = np.full(self.size, worst, dtype)
        self.seen, self.numbers = np.zeros(self.size, np.bool_), np.zeros(self.size, np.bool_)

    def update(self, cells: Array, columns: Mapping[str, Values]) -> None:
        """Compare the values of a batch."""
        cells, values = present(cells, evaluate(self.value, columns))
        self.seen[cells] = True
        if pa.types.is_floating(self.type):
            is_number = ~np.isnan(values)
            cells, values = cells[is_number], values[is_number]
        self.numbers[cells] = True
        (np.maximum if self.is_max else np.minimum).at(self.extremes, cells, values)

    def result(self) -> pa.Array:
        """Return the extremes."""
        if pa.types.is_floating(self.type):
            self.extremes[self.seen & ~self.numbers] = np.nan
        return pa.array(self.extremes, self.type, mask=~self.seen)


@dataclass(slots=True)
class ValueAtExtreme:
    """`min_by(x, instant)` or `max_by(x, instant)`; the instants of a cell are distinct. NULL without an instant."""

    value: Node
    order: Node
    size: int
    type: pa.DataType
    is_max: bool
    best: Array = field(init=False)
    values: Array = field(init=False)
    is_null: Array = field(init=False)

    def __post_init__(self) -> None:
        bounds = np.iinfo(np.int64)
        self.best = np.full(self.size, bounds.min if self.is_max else bounds.max, np.int64)
        self.values = np.zeros(self.size, object if self.type == pa.string() else self.type.to_pandas_dtype())
        self.is_null = np.ones(self.size, np.bool_)

    def update(self, cells: Array, columns: Mapping[str, Values]) -> None:
        """Replace the values of cells for which the batch has a better instant."""
        orders = evaluate(self.order, columns)
        values = to_array(evaluate(self.value, columns), len(cells)).filter(pc.is_valid(orders))
        cells, instants = present(cells, orders)
        before = self.best[cells]
        (np.maximum if self.is_max else np.minimum).at(self.best, cells, instants)
        chosen = (instants == self.best[cells]) & ((instants != before) | self.is_null[cells])
        cells, values = cells[chosen], values.filter(pa.array(chosen))
        self.is_null[cells] = pc.is_null(values).to_numpy(zero_copy_only=False)
        filled = values if self.type == pa.string() else pc.fill_null(values, zero(self.type))
        self.values[cells] = filled.to_numpy(zero_copy_only=False)

    def result(self) -> pa.Array:
        """Return the values."""
        return pa.array(self.values, self.type, mask=self.is_null, from_pandas=False)


def span_of(cells: Array) -> tuple[slice, Array]:
    """Return the range from the first to the last of some cells, and their numbers within it.

    A batch of rows sorted by device has cells of few devices, so that an update need not touch all cells.
    """
    if not len(cells):
        return slice(0, 0), cells
    first, last = int(cells.min()), int(cells.max())
    return slice(first, last + 1), cells - first


def zero(type_: pa.DataType) -> pa.Scalar:
    """Return a value of a type that takes the place of NULL."""
    return pa.scalar(False) if pa.types.is_boolean(type_) else pa.scalar(0, type_)


def to_array(values: Values, length: int) -> pa.Array:
    """Return values as one array; a scalar is repeated."""
    if isinstance(values, pa.Scalar):
        return pa.repeat(values, length)
    return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values


def present(cells: Array, values: Values) -> tuple[Array, Array]:
    """Return the cells and values of the rows whose value is not NULL."""
    array = to_array(values, len(cells))
    if array.null_count:
        is_valid = array.is_valid()
        cells, array = cells[is_valid.to_numpy(zero_copy_only=False)], array.filter(is_valid)
    return cells, array.to_numpy(zero_copy_only=False)


@dataclass(frozen=True, slots=True)
class AccumulatorRule:
    """The type of a partial aggregate, and the maker of its accumulator, given the number of cells."""

    type: pa.DataType
    make: Callable[[int], Accumulator]


def accumulator_rule(node: Node, types: Mapping[str, pa.DataType]) -> AccumulatorRule:
    """Return how an aggregate is accumulated.

    Raises:
        UnsupportedError: The aggregate is not supported for these types.
    """
    match node:
        case Operation(name="count", operands=(value,)) if value != NULL:
            infer_type(value, types)
            return AccumulatorRule(pa.int64(), lambda size: Count(value, size))
        case Operation(name="sum", operands=(value,)) if infer_type(value, types) == pa.float64():
            return AccumulatorRule(pa.float64(), lambda size: Sum(value, size))
        case Operation(name="mean" | "squares" as name, operands=(value,)) if infer_type(value, types) == pa.float64():
            return AccumulatorRule(pa.float64(), lambda size: Moments(value, size, name == "mean"))
        case Operation(name="min" | "max" as name, operands=(value,)):
            type_ = infer_type(value, types)
            if pa.types.is_integer(type_) or (pa.types.is_floating(type_) and name == "min"):
                return AccumulatorRule(type_, lambda size: Extreme(value, size, type_, name == "max"))
        case Operation(name="min_by" | "max_by" as name, operands=(value, order)) if infer_type(order, types) == pa.int64():
            type_ = infer_type(value, types)
            if type_ in SELECTED and is_instant(order):
                return AccumulatorRule(type_, lambda size: ValueAtExtreme(value, order, size, type_, name == "max_by"))
    raise UnsupportedError(str(node))


def aggregate_input(node: Node) -> Node:
    """Return the input of an aggregate that decides whether a row counts: the only one, or the order of the selected row."""
    match node:
        case Operation(operands=(*_, value)):
            return value
    raise UnsupportedError(str(node))


SELECTED: Final = (pa.bool_(), pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.string())


def is_instant(node: Node) -> bool:
    """Return whether an order is the instant of the row, or NULL; no two rows of a cell then have the same."""
    match node:
        case Column() | Operation(name="unix_millis" | "unix_micros", operands=(Column(),)):
            (name,) = columns_of(node)
            return name == TIME
        case Operation(name="if", operands=(_, Value(value=None), instant)):
            return is_instant(instant)
        case _:
            return False
