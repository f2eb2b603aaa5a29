"""Merging of partial aggregates over groups of segments, as `Partial.merge` declares it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.compute.columnar.arrays import arrow_type, refuse
from headrace.compute.columnar.runs import Bools, Groups, Int64s, ranks, stable_order, to_numpy
from headrace.compute.nodes import Column, Node, Operation, UnsupportedError

Columns = Mapping[str, pa.Array]
MAX_SUM: Final = float(2**62)
ORDERED: Final[tuple[Callable[[pa.DataType], bool], ...]] = (
    pa.types.is_integer,
    pa.types.is_floating,
    pa.types.is_boolean,
    pa.types.is_string,
    pa.types.is_binary,
    pa.types.is_date32,
    pa.types.is_decimal,
)


class Reducer(Protocol):
    """Merges one partial of the segments or rows of each group."""

    def reduce(self, columns: Columns, groups: Groups) -> pa.Array:
        """Return the partial of each group; there is at least one."""


@dataclass(frozen=True, slots=True)
class Sum:
    """`sum(x)` of BIGINT or DOUBLE; NULL without values."""

    column: str

    def reduce(self, columns: Columns, groups: Groups) -> pa.Array:
        """Add up the values of each group. Raises `UnsupportedError` if a sum may exceed BIGINT, which Spark reports."""
        column = columns[self.column]
        values = to_numpy(pc.fill_null(column, 0))
        refuse(
            pa.types.is_integer(column.type) and float(np.abs(values).max()) * int(groups.lengths.max()) >= MAX_SUM, "a large sum"
        )
        return pa.array(groups.fold(np.add, values), column.type, mask=missing(column, groups))


@dataclass(frozen=True, slots=True)
class DecimalSum:
    """`CAST(sum(x) AS DECIMAL(p, s))` of values of that type; NULL without values."""

    column: str

    def reduce(self, columns: Columns, groups: Groups) -> pa.Array:
        """Add up the values of each group. Raises `UnsupportedError` if a sum may have more digits, which Spark reports."""
        column = columns[self.column]
        limit = float(10 ** (column.type.precision - column.type.scale))
        largest = pc.max(pc.abs(column)).as_py()
        refuse(largest is not None and float(largest) * int(groups.lengths.max()) >= limit / 2, "a large sum")
        table = pa.table({"group": pa.array(groups.of_row), "value": column})
        sums = table.group_by("group", use_threads=False).aggregate([("value", "sum")]).sort_by("group")
        return sums["value_sum"].combine_chunks().cast(column.type)


@dataclass(frozen=True, slots=True)
class Extreme:
    """`min(x)` or `max(x)`; NULL without values. NaN is greater than any number."""

    column: str
    is_max: bool

    def reduce(self, columns: Columns, groups: Groups) -> pa.Array:
        """Return the least or greatest value of each group."""
        column = columns[self.column]
        numbers = column.cast(pa.uint8()) if pa.types.is_boolean(column.type) else column
        if not pa.types.is_integer(numbers.type) and not pa.types.is_floating(numbers.type):
            return Pick(self.column, self.column, self.is_max).reduce(columns, groups)
        values = to_numpy(pc.fill_null(numbers, self._worst(numbers.type)))
        # Unlike minimum, fmin passes over NaN.
        operator = np.maximum if self.is_max else np.fmin
        return pa.array(groups.fold(operator, values), numbers.type, mask=missing(column, groups)).cast(column.type)

    def _worst(self, type_: pa.DataType) -> pa.Scalar:
        """Return the value that all others win against."""
        if pa.types.is_floating(type_):
            return pa.scalar(-math.inf if self.is_max else math.nan, type_)
        limits = np.iinfo(type_.to_pandas_dtype())
        return pa.scalar(limits.min if self.is_max else limits.max, type_)


@dataclass(frozen=True, slots=True)
class Pick:
    """`min_by(x, order)` or `max_by(x, order)`; NULL if the order of all rows is NULL."""

    value: str
    order: str
    is_max: bool

    def reduce(self, columns: Columns, groups: Groups) -> pa.Array:
        """Return the value of the row of each group with the least or greatest order."""
        order, value = columns[self.order], columns[self.value]
        index = pick(order_numbers(order), valid(order), groups, self.is_max)
        return value.take(pa.array(index, mask=index < 0))


def order_numbers(order: pa.Array) -> Int64s:
    if pa.types.is_int64(order.type):
        return to_numpy(pc.fill_null(order, 0)).astype(np.int64)
    return ranks(order)


def pick(order: Int64s, is_valid: Bools | None, groups: Groups, is_max: bool) -> Int64s:
    """Return the row of each run with the least or greatest number, the first of several; -1 if no row is valid."""
    limits = np.iinfo(np.int64)
    numbers = order if is_valid is None else np.where(is_valid, order, limits.min if is_max else limits.max)
    best = groups.fold(np.maximum if is_max else np.minimum, numbers)
    hits = numbers == best[groups.of_row]
    if is_valid is not None:
        hits &= is_valid
    rows = np.flatnonzero(hits)[::-1]
    result = np.full(groups.count, -1)
    result[groups.of_row[rows]] = rows
    return result


def valid(column: pa.Array) -> Bools | None:
    """Return a mask of the values that are not NULL; None if there is no NULL."""
    return None if column.null_count == 0 else to_numpy(column.is_valid()).astype(np.bool_)


def missing(column: pa.Array, groups: Groups) -> Bools | None:
    """Return a mask of the groups that have only NULL; None if there is no NULL."""
    is_valid = valid(column)
    return None if is_valid is None else groups.fold(np.maximum, is_valid.astype(np.uint8)) == 0


@dataclass(frozen=True, slots=True)
class Moments:
    """The mean, or the sum of squared deviations, of counts `n`, means `m` and sums of squared deviations `q`."""

    count: str
    mean: str
    squares: str
    is_mean: bool

    def reduce(self, columns: Columns, groups: Groups) -> pa.Array:
        """Merge the moments of each group; 0 without values."""
        counts, means, squares = (to_numpy(columns[name]).astype(np.float64) for name in (self.count, self.mean, self.squares))
        # What has no values has arbitrary moments, and NaN times 0 is NaN.
        means = np.where(counts > 0, means, 0.0)
        total = groups.fold(np.add, counts)
        first = means[groups.starts]
        with np.errstate(all="ignore"):
            # Deviations from a value of the group itself keep the precision of means that are large.
            shifted = means - first[groups.of_row]
            mean = first + groups.fold(np.add, counts * shifted) / np.maximum(total, 1)
            if self.is_mean:
                return pa.array(np.where(total > 0, mean, 0.0))
            is_alone = (groups.fold(np.add, (counts > 0).astype(np.int64)) == 1)[groups.of_row]
            moved = np.where(is_alone, 0.0, counts * (means - mean[groups.of_row]) ** 2)
            deviations = np.where(counts > 0, squares + moved, 0.0)
        return pa.array(groups.fold(np.add, deviations))


@dataclass(frozen=True, slots=True)
class Concatenation:
    """`flatten(collect_list(x))` of lists without NULL."""

    column: str

    def reduce(self, columns: Columns, groups: Groups) -> pa.Array:
        """Return the elements of the lists of each group."""
        lists, members = columns[self.column], groups.of_row
        if (members[1:] < members[:-1]).any():
            order = stable_order(members)
            lists, members = lists.take(pa.array(order)), members[order]
        lengths = np.bincount(members, to_numpy(lists.value_lengths()), groups.count)
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
        return pa.ListArray.from_arrays(pa.array(offsets), lists.flatten(), lists.type)


@dataclass(frozen=True, slots=True)
class First:
    """`first(x)` of values that are equal in each group."""

    column: str

    def reduce(self, columns: Columns, groups: Groups) -> pa.Array:
        """Return the first value of each group."""
        return columns[self.column].take(pa.array(groups.starts))


def reducer(merge: Node, types: Mapping[str, pa.DataType]) -> Reducer:
    """Return how a partial is merged, as its `Partial.merge` says. Raises `UnsupportedError` if kernels cannot merge it."""
    match merge:
        case Operation("merged_mean" | "merged_squares" as name, (Column(count), Column(mean), Column(squares))):
            return Moments(count, mean, squares, name == "merged_mean")
        case Operation(name="first", operands=(Column(name=name),)) if is_ordered(types[name]) and not pa.types.is_floating(
            types[name]
        ):
            return First(name)
        case Operation(name="sum", operands=(Column(name=name),)) if types[name] in (pa.int64(), pa.float64()):
            return Sum(name)
        case Operation(name="cast", operands=(Operation(name="sum", operands=(Column(name=name),)),), type=type_):
            if pa.types.is_decimal(types[name]) and types[name] == arrow_type(type_):
                return DecimalSum(name)
        case Operation(name="min" | "max" as function, operands=(Column(name=name),)) if is_ordered(types[name]):
            return Extreme(name, function == "max")
        case Operation(name="min_by" | "max_by" as function, operands=(Column(name=value), Column(name=order))):
            if is_ordered(types[order]):
                return Pick(value, order, function == "max_by")
        case Operation(name="flatten", operands=(Operation(name="collect_list", operands=(Column(name=name),)),)):
            return Concatenation(name)
    raise UnsupportedError(str(merge))


def is_ordered(type_: pa.DataType) -> bool:
    """Return whether `ranks` orders values as Spark does."""
    if pa.types.is_struct(type_):
        return all(is_ordered(field.type) for field in type_)
    return any(is_type(type_) for is_type in ORDERED)
