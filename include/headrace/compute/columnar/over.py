"""Functions over the rows around a row (`Over`), for rows that are all in memory, with the values that Spark has.

Rows are sorted by group and order; what a function gives there goes back to the places of the rows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.compute.columnar.arrays import refuse
from headrace.compute.columnar.columns import Arrays, as_array, decoded, plain
from headrace.compute.columnar.expressions import evaluate
from headrace.compute.columnar.numbers import MAX_PRECISION
from headrace.compute.columnar.partials import MAX_SUM, is_ordered
from headrace.compute.columnar.runs import Bools, Int64s, Runs, combined, marks, ranks, running_maximum, to_numpy
from headrace.compute.nodes import Column, Node, Operation, Over, PythonCall, UnsupportedError
from headrace.compute.windows.numbering import BEFORE_CURRENT_ROW, FROM_CURRENT_ROW, THROUGH_CURRENT_ROW

LAST_ROWS: Final = re.compile(r"ROWS BETWEEN (\d+) PRECEDING AND CURRENT ROW")
MAX_STEPS: Final = 100_000_000
NULL_LAST: Final = np.iinfo(np.int64).max
NO_ROW: Final = -1


def with_values(nodes: Mapping[str, Node], columns: Arrays, size: int) -> tuple[dict[str, Node], Arrays]:
    """Return expressions that read what their functions over other rows give as columns, and the columns with these.

    Raise `UnsupportedError` for a function that only Spark computes.
    """
    names: dict[Over, str] = {}

    def without(node: Node) -> Node:
        match node:
            case Over():
                return Column(names.setdefault(node, f"\x00over{len(names)}"))
            case Operation(name=name, operands=operands, type=type_):
                return Operation(name, tuple(map(without, operands)), type_)
            case PythonCall(operands=operands) if operands:
                return PythonCall(node.name, tuple(map(without, operands)), node.type, node.apply)
        return node

    replaced = {name: without(node) for name, node in nodes.items()}
    return replaced, columns | {name: values_over(over, columns, size) for over, name in names.items()}


def is_by_row(node: Node) -> bool:
    """Return whether the value of an expression depends on no other row."""
    match node:
        case Over():
            return False
        case Operation(operands=operands) | PythonCall(operands=operands):
            return all(map(is_by_row, operands))
    return True


def array_of(node: Node, columns: Arrays, size: int) -> pa.Array:
    return decoded(as_array(evaluate(node, plain(node, columns)), size))


def values_over(over: Over, columns: Arrays, size: int) -> pa.Array:
    """Return what a function gives for each row."""
    groups = combined([ranks(ordered(array_of(key, columns, size))) for key in over.keys], size)
    order = np.lexsort((*reversed([places(key, columns, size) for key in over.order]), groups))
    name, operands = function_of(over)
    arrays = [array_of(operand, columns, size).take(pa.array(order)) for operand in operands[:1]]
    function = FUNCTIONS.get((name, frame_of(over)))
    if function is None:
        raise UnsupportedError(name)
    rows = SortedRows(Runs.of(marks([groups[order]], size)), over.frame, over.ignores_nulls)
    values = function(rows, *arrays)
    inverse = np.empty(size, np.int64)
    inverse[order] = np.arange(size)
    return values.take(pa.array(inverse))


def ordered(values: pa.Array) -> pa.Array:
    refuse(not is_ordered(values.type), "an order of such values")
    return values


def places(key: Node, columns: Arrays, size: int) -> Int64s:
    """Return numbers in the order of an item of ORDER BY; NULL is first in ascending order, and last in descending order."""
    match key:
        case Operation(name="nulls first" | "nulls last" as nulls, operands=(operand,)):
            numbers = places(operand, columns, size)
            is_null = places(bare(operand), columns, size) == NO_ROW
            return np.where(is_null, -NULL_LAST if nulls == "nulls first" else NULL_LAST, numbers)
        case Operation(name="desc", operands=(operand,)):
            return -places(operand, columns, size)
        case Operation(name="asc", operands=(operand,)):
            return places(operand, columns, size)
    values = array_of(key, columns, size)
    return np.zeros(size, np.int64) if pa.types.is_null(values.type) else ranks(ordered(values))


def bare(key: Node) -> Node:
    match key:
        case Operation(name="asc" | "desc", operands=(operand,)):
            return operand
    return key


def function_of(over: Over) -> tuple[str, tuple[Node, ...]]:
    """Return name and operands of a function."""
    match over.function:
        case Operation(name=name, operands=operands):
            return name, operands
    raise UnsupportedError(str(over.function))


def frame_of(over: Over) -> str:
    """Return which rows a function sees: `all`, `through` the row, `before` or `from` it, the `last` few, or those `beside` it."""
    if function_of(over)[0] in ("lag", "lead", "row_number"):
        return "beside"
    if not over.order:
        return "all"
    frames = {THROUGH_CURRENT_ROW: "through", BEFORE_CURRENT_ROW: "before", FROM_CURRENT_ROW: "from"}
    return frames.get(over.frame, "last" if LAST_ROWS.fullmatch(over.frame) else "")


@dataclass(frozen=True)
class SortedRows:
    """Rows in the order of groups, and of time in each."""

    groups: Runs
    frame: str
    ignores_nulls: bool

    @property
    def positions(self) -> Int64s:
        return np.arange(self.groups.rows)

    def take(self, values: pa.Array, index: Int64s) -> pa.Array:
        """Return values of other rows; NULL for those outside of the row's group."""
        is_inside = (index >= 0) & (index < self.groups.rows)
        near = np.where(is_inside, index, 0)
        is_inside &= self.groups.of_row[near] == self.groups.of_row if self.groups.rows else is_inside
        return values.take(pa.array(near, mask=~is_inside))

    def latest(self, is_valid: Bools) -> Int64s:
        """Return the last of some rows up to each row; `NO_ROW` if there is none."""
        return np.maximum.accumulate(np.where(is_valid, self.positions, NO_ROW)) if self.groups.rows else self.positions

    def earliest(self, is_valid: Bools) -> Int64s:
        """Return the first of some rows from each row on; the number of rows if there is none."""
        rows = self.groups.rows
        found = np.where(is_valid, self.positions, rows)[::-1]
        return np.minimum.accumulate(found)[::-1] if rows else self.positions


def validity(values: pa.Array) -> Bools:
    return to_numpy(values.is_valid()).astype(np.bool_)


def row_number(rows: SortedRows) -> pa.Array:
    return pa.array((rows.positions - rows.groups.start_of_row + 1).astype(np.int32))


def lag(rows: SortedRows, values: pa.Array) -> pa.Array:
    if not rows.ignores_nulls:
        return rows.take(values, rows.positions - 1)
    return rows.take(values, shifted(rows.latest(validity(values)), 1, NO_ROW))


def lead(rows: SortedRows, values: pa.Array) -> pa.Array:
    if not rows.ignores_nulls:
        return rows.take(values, rows.positions + 1)
    return rows.take(values, shifted(rows.earliest(validity(values)), -1, rows.groups.rows))


def shifted(index: Int64s, by: int, missing: int) -> Int64s:
    result = np.full(len(index), missing, np.int64)
    if by > 0:
        result[by:] = index[:-by]
    else:
        result[:by] = index[-by:]
    return result


def last_before(rows: SortedRows, values: pa.Array) -> pa.Array:
    return rows.take(values, shifted(rows.latest(validity(values)), 1, NO_ROW))


def last_through(rows: SortedRows, values: pa.Array) -> pa.Array:
    return rows.take(values, rows.latest(validity(values)))


def first_from(rows: SortedRows, values: pa.Array) -> pa.Array:
    return rows.take(values, rows.earliest(validity(values)))


def count_through(rows: SortedRows, values: pa.Array) -> pa.Array:
    counts = np.concatenate(([0], np.cumsum(validity(values))))
    return pa.array(counts[1:] - counts[rows.groups.start_of_row])


def count_all(rows: SortedRows, values: pa.Array) -> pa.Array:
    counts = rows.groups.fold(np.add, validity(values).astype(np.int64)) if rows.groups.rows else np.empty(0, np.int64)
    return pa.array(counts[rows.groups.of_row])


def sum_through(rows: SortedRows, values: pa.Array) -> pa.Array:
    """Return running sums, NULL before the first value: of DOUBLE one after the other, of integers exactly."""
    seen = to_numpy(count_through(rows, values)) > 0
    if pa.types.is_floating(values.type):
        numbers = to_numpy(pc.fill_null(values, 0.0).cast(pa.float64()))
        with np.errstate(all="ignore"):
            parts = [np.cumsum(part) for part in np.split(numbers, rows.groups.starts[1:])]
        return pa.array(np.concatenate(parts) + 0.0, mask=~seen)
    refuse(not pa.types.is_integer(values.type) and not pa.types.is_decimal(values.type), "a sum of such values")
    is_decimal = pa.types.is_decimal(values.type)
    refuse(is_decimal and values.type.scale != 0, "a sum of fractions")
    present = pc.fill_null(values, pa.scalar(0).cast(values.type))
    total = pc.sum(pc.abs(pc.cast(present, pa.float64()))).as_py() or 0.0
    is_large = total >= MAX_SUM
    refuse(is_large and not is_decimal, "a large sum")
    numbers = np.array([int(value) for value in present.to_pylist()], object) if is_large else to_numpy(present.cast(pa.int64()))
    totals = np.cumsum(np.concatenate(([0], numbers)).astype(object if is_large else np.int64))
    sums = totals[1:] - totals[:-1][rows.groups.start_of_row]
    type_ = pa.decimal128(min(values.type.precision + 10, MAX_PRECISION), 0) if is_decimal else pa.int64()
    return pa.array(list(map(Decimal, sums)), type_, mask=~seen) if is_large else pa.array(sums, mask=~seen).cast(type_)


def mean_of_last(rows: SortedRows, values: pa.Array) -> pa.Array:
    """Return the means of a row and those before it in the frame, added up from the first one on."""
    match = LAST_ROWS.fullmatch(rows.frame)
    assert match is not None
    size, before = rows.groups.rows, int(match[1])
    refuse(size * (before + 1) > MAX_STEPS or values.type != pa.float64(), "a long mean")
    numbers, is_valid = to_numpy(pc.fill_null(values, 0.0)), validity(values)
    total, count = np.zeros(size), np.zeros(size, np.int64)
    with np.errstate(all="ignore"):
        for back in range(before, -1, -1):
            at = rows.positions - back
            is_inside = at >= rows.groups.start_of_row
            at = np.where(is_inside, at, 0)
            is_inside &= is_valid[at]
            total = np.where(is_inside, total + numbers[at], total)
            count += is_inside
        return pa.array(total / np.maximum(count, 1), mask=count == 0)


def extreme_through(rows: SortedRows, values: pa.Array, sign: int = 1) -> pa.Array:
    """Return the greatest value up to each row; the least one for the sign -1."""
    numbers = ranks(ordered(values))
    is_valid = numbers >= 0
    worst = -len(numbers) - 1
    best = running_maximum(np.where(is_valid, sign * numbers, worst), rows.groups)
    return values.take(representatives(numbers, sign * best, best == worst))


def extreme_all(rows: SortedRows, values: pa.Array, sign: int = 1) -> pa.Array:
    numbers = ranks(ordered(values))
    worst = -len(numbers) - 1
    if not len(numbers):
        return values
    best = rows.groups.fold(np.maximum, np.where(numbers >= 0, sign * numbers, worst))[rows.groups.of_row]
    return values.take(representatives(numbers, sign * best, best == worst))


def representatives(numbers: Int64s, wanted: Int64s, is_missing: Bools) -> pa.Array:
    """Return for each wanted rank a row that has it."""
    row_of = np.zeros(int(numbers.max(initial=0)) + 1, np.int64)
    row_of[numbers[numbers >= 0]] = np.flatnonzero(numbers >= 0)
    return pa.array(row_of[np.where(is_missing, 0, wanted)], mask=is_missing)


FUNCTIONS: Final[dict[tuple[str, str], Callable[..., pa.Array]]] = {
    ("row_number", "beside"): row_number,
    ("lag", "beside"): lag,
    ("lead", "beside"): lead,
    ("last", "before"): last_before,
    ("last", "through"): last_through,
    ("first", "from"): first_from,
    ("count", "through"): count_through,
    ("count", "all"): count_all,
    ("sum", "through"): sum_through,
    ("avg", "last"): mean_of_last,
    ("max", "through"): extreme_through,
    ("max", "all"): extreme_all,
    ("min", "all"): lambda rows, values: extreme_all(rows, values, -1),
}
"""What computes a function, by its name and the rows that it sees."""
