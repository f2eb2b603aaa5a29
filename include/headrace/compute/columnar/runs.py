"""Runs of equal neighbors, and the order of rows by group and time, as NumPy arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Array = npt.NDArray[Any]
Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

MAX_NUMBER: Final = 2**62
"""Numbers up to this can be added without overflow."""
MAX_INT64: Final = np.iinfo(np.int64).max
MAX_GAPS: Final = 4
"""Unsorted rows are sorted only if the numbers of their groups span more than this many times the rows."""
MAX_ASCENDING_PIECES: Final = 16
"""So few pieces that are in order are merged sooner than sorted by radix."""


@dataclass(frozen=True)
class Runs:
    """Consecutive rows that belong together: the first row of each run, and the number of all rows."""

    starts: Int64s
    rows: int

    @classmethod
    def of(cls, marks: Bools) -> Runs:
        """Return the runs that begin at the marked rows; the first row has to be marked."""
        return cls(np.flatnonzero(marks), len(marks))

    @property
    def count(self) -> int:
        """The number of runs."""
        return len(self.starts)

    @cached_property
    def lengths(self) -> Int64s:
        """The number of rows of each run."""
        return np.diff(self.starts, append=self.rows)

    @cached_property
    def of_row(self) -> Int64s:
        """The run of each row."""
        return np.repeat(np.arange(len(self.starts)), self.lengths)

    @cached_property
    def start_of_row(self) -> Int64s:
        return np.repeat(self.starts, self.lengths)

    def fold(self, operator: np.ufunc, values: Array) -> Array:
        """Return the values of each run, combined by an operator; DOUBLE is added up one after the other, from 0, as in Spark."""
        if operator is np.add and values.dtype == np.float64:
            return np.bincount(self.of_row, values, len(self.starts))
        return np.asarray(operator.reduceat(values, self.starts))


@dataclass(frozen=True)
class Scattered:
    """Rows in any order, with the numbers of their groups in `of_row`, of which none is empty, and the groups' `lengths`.

    To sort them takes several times as long as to fold them where they are.
    """

    of_row: Int64s
    lengths: Int64s

    @property
    def count(self) -> int:
        return len(self.lengths)

    @cached_property
    def starts(self) -> Int64s:
        """The first row of each group."""
        result = np.empty(self.count, np.int64)
        result[self.of_row[::-1]] = np.arange(len(self.of_row))[::-1]
        return result

    def fold(self, operator: np.ufunc, values: Array) -> Array:
        """Return the values of each group, combined by an operator that gives the same for a value and itself, or is addition."""
        result = np.zeros(self.count, values.dtype) if operator is np.add else values[self.starts]
        with np.errstate(all="ignore"):
            operator.at(result, self.of_row, values)
        return result


Groups = Runs | Scattered


def numbered_densely(numbers: Int64s) -> Scattered | None:
    """Return the groups of rows with equal numbers, in the order of these; None if they are too far apart for an array over all."""
    low, high = int(numbers.min()), int(numbers.max())
    if high - low > MAX_GAPS * len(numbers):
        return None
    lengths = np.bincount(numbers - low)
    present = np.flatnonzero(lengths)
    if len(present) == len(lengths):
        return Scattered(numbers - low, lengths)
    return Scattered((np.cumsum(lengths > 0) - 1)[numbers - low], lengths[present])


def codes(column: pa.Array) -> Array:
    """Return numbers that are equal where values are equal; NULL equals NULL."""
    if isinstance(column, pa.DictionaryArray):
        indices = column.indices
        return to_numpy(pc.fill_null(indices, len(column.dictionary)) if indices.null_count else indices)
    if column.null_count == 0 and is_fixed(column.type):
        return to_numpy(column)
    return to_numpy(column.dictionary_encode(null_encoding="encode").indices)


def is_fixed(type_: pa.DataType) -> bool:
    return bool(pa.types.is_integer(type_) or pa.types.is_boolean(type_))


def to_numpy(column: pa.Array) -> Array:
    """Return a column as a NumPy array."""
    return np.asarray(column.to_numpy(zero_copy_only=False))


def marks(columns: Sequence[Array], rows: int) -> Bools:
    """Return a mask of the rows that differ from the row before in any column; the first row is marked."""
    result = np.zeros(rows, np.bool_)
    result[:1] = True
    for column in columns:
        result[1:] |= column[1:] != column[:-1]
    return result


def combined(columns: Sequence[Array], rows: int) -> Int64s:
    """Return numbers that are equal where all columns are equal. Numbers of the same columns have the order of these."""
    result, limit = np.zeros(rows, np.int64), 1
    for column in columns:
        numbers, span = from_zero(column)
        if limit * span > MAX_NUMBER:
            result, limit = renumbered(result)
            numbers, span = renumbered(numbers)
        result = numbers if limit == 1 else result * span + numbers
        limit *= span
    return result


def from_zero(values: Array) -> tuple[Int64s, int]:
    """Return numbers from 0 in the order of integers, and their limit."""
    if not len(values):
        return values.astype(np.int64), 1
    low, high = int(values.min()), int(values.max())
    if high - low >= MAX_NUMBER or high > MAX_INT64:
        return renumbered(values)
    return values.astype(np.int64) - low, high - low + 1


def renumbered(values: Array) -> tuple[Int64s, int]:
    distinct, numbers = np.unique(values, return_inverse=True)
    return numbers.astype(np.int64), max(1, len(distinct))


def stable_order(numbers: Int64s) -> Int64s:
    """Return the order of numbers, equal ones as they come. NumPy sorts 16 bits by radix, and more of them in any order slowly."""
    low, high = (int(numbers.min()), int(numbers.max())) if len(numbers) else (0, 0)
    if (limit := high - low) >= 2**32 or np.count_nonzero(numbers[1:] < numbers[:-1]) <= MAX_ASCENDING_PIECES:
        return np.argsort(numbers, kind="stable")
    digits = numbers - low
    order = np.argsort(digits.astype(np.uint16), kind="stable")
    return order if limit < 2**16 else order[np.argsort((digits[order] >> 16).astype(np.uint16), kind="stable")]


def order_of(keys: Sequence[Array], instants: Int64s, ties: Sequence[Array] = ()) -> Int64s | None:
    """Return the order of rows by group, time and then `ties`; None if each group is in one piece and in order already."""
    is_new = marks(keys, len(instants))
    pieces = Runs.of(is_new)
    piece_groups = combined([key[pieces.starts] for key in keys], len(pieces.starts))
    is_whole = len(np.unique(piece_groups)) == len(piece_groups)
    if is_whole and are_ordered(instants, is_new, strictly=bool(ties)):
        return None
    groups = np.repeat(piece_groups, pieces.lengths)
    order = np.argsort(groups, kind="stable")
    if are_ordered(instants[order], marks([groups[order]], len(order)), strictly=bool(ties)):
        return order
    return np.lexsort((*reversed(ties), instants, groups))


def segment_order(groups: Int64s, starts: Int64s, ends: Int64s) -> Int64s:
    """Return the order of segments by group, start and end, equal ones as they come.

    Those of a group mostly come in order: then groups alone are sorted, which takes a fraction of the time.
    """
    order = stable_order(groups)
    if are_ordered(starts[order], marks([groups[order]], len(order)), strictly=True):
        return order
    return np.lexsort((ends, starts, groups))


def are_ordered(instants: Int64s, is_new: Bools, *, strictly: bool) -> bool:
    """Return whether instants ascend within each group; `is_new` marks the first row of a group."""
    later = instants[1:] > instants[:-1] if strictly else instants[1:] >= instants[:-1]
    return bool((later | is_new[1:]).all())


def running_maximum(values: Int64s, groups: Runs) -> Int64s:
    """Return the largest value so far of each group."""
    if not len(values):
        return values
    low, distinct = int(values.min()), None
    shifted, span = values - low, int(values.max()) - low + 1
    if span * groups.count >= MAX_NUMBER:
        distinct, shifted = np.unique(values, return_inverse=True)
        span = len(distinct)
    before = groups.of_row * span
    largest = np.maximum.accumulate(shifted + before) - before
    return np.asarray(largest + low if distinct is None else distinct[largest])


def ranks(column: pa.Array) -> Int64s:
    """Return numbers in the order of Spark: NULL has -1, NaN is greatest; a struct is ordered by its fields."""
    if pa.types.is_struct(column.type):
        return struct_ranks(column)
    if is_fixed(column.type) or pa.types.is_floating(column.type):
        values = to_numpy(pc.fill_null(column, False if pa.types.is_boolean(column.type) else 0))
        result = np.unique(values, return_inverse=True)[1].astype(np.int64)
    else:
        encoded = column if isinstance(column, pa.DictionaryArray) else column.dictionary_encode()
        position = np.empty(len(encoded.dictionary), np.int64)
        position[to_numpy(pc.sort_indices(encoded.dictionary))] = np.arange(len(position))
        indices = to_numpy(pc.fill_null(encoded.indices, 0))
        result = position[indices] if len(position) else np.zeros(len(column), np.int64)
    return with_nulls(result, column)


def struct_ranks(column: pa.Array) -> Int64s:
    """Return numbers in the order of the fields of a struct; NULL has -1."""
    fields = [ranks(pc.struct_field(column, number)) for number in range(column.type.num_fields)]
    order = np.lexsort(tuple(reversed(fields)))
    result = np.empty(len(column), np.int64)
    result[order] = np.cumsum(marks([field[order] for field in fields], len(column)))
    return with_nulls(result, column)


def with_nulls(values: Int64s, column: pa.Array) -> Int64s:
    """Return values, -1 where the column is NULL."""
    return values if column.null_count == 0 else np.where(to_numpy(column.is_valid()), values, -1)
