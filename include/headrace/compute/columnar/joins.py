"""Joins of two Arrow tables: equal keys are matched by numbers, and any other part of the condition is evaluated over the pairs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from headrace.compute.columnar.arrays import refuse
from headrace.compute.columnar.columns import decoded, evaluate_all, refuse_bytes, to_arrays
from headrace.compute.columnar.frames import conjuncts
from headrace.compute.columnar.over import array_of
from headrace.compute.columnar.partials import is_ordered
from headrace.compute.columnar.runs import Bools, Int64s, combined, ranks, to_numpy
from headrace.compute.nodes import Node, Operation, both, columns_of
from headrace.compute.plan import AsofMatch
from headrace.model.windows import copies

MAX_PAIRS: Final = 5_000_000
"""Pairs of rows for which a condition is evaluated, at most."""


def join(left: pa.Table, right: pa.Table, condition: Node | None, kind: str) -> pa.Table:
    """Return the join of two tables, whose columns have different names. `kind` is as Spark SQL names it, in lower case.

    Raise `UnsupportedError` if there are too many pairs, or a condition that only Spark evaluates.
    """
    pairs = matches(left, right, condition)
    left_index, right_index = pairs
    if kind in ("left semi", "left anti"):
        has_match = np.isin(np.arange(left.num_rows), left_index)
        return left.filter(pa.array(has_match if kind == "left semi" else ~has_match))
    if kind in ("left", "full"):
        alone = np.setdiff1d(np.arange(left.num_rows), left_index)
        left_index, right_index = np.append(left_index, alone), np.append(right_index, np.full(len(alone), -1))
    if kind in ("right", "full"):
        alone = np.setdiff1d(np.arange(right.num_rows), pairs[1])
        left_index, right_index = np.append(left_index, np.full(len(alone), -1)), np.append(right_index, alone)
    return beside(left, left_index, right, right_index)


def asof_join(match: AsofMatch, left: pa.Table, right: pa.Table) -> pa.Table:
    """Return each row of the driving side with at most `limit` rows of the other, or NULL if there is none."""
    driving, others = (left, right) if match.driving == 0 else (right, left)
    pairs = [*match.keys, *([match.times] if match.operator == "=" else [])]
    keys, is_present = matched_keys(driving, others, pairs)
    groups = combined(keys, len(is_present))
    instants = np.concatenate([instants_of(node, rows) for node, rows in zip(match.times, (driving, others), strict=True)])
    places = combined([groups, instants], len(groups))
    size = driving.num_rows
    rows = np.flatnonzero(is_present[size:])
    order = ranks(array_of(match.order, to_arrays(others), others.num_rows))
    ordered = rows[np.lexsort((order[rows], places[size:][rows]))]
    start, end = (np.searchsorted(groups[size:][ordered], groups[:size], side) for side in ("left", "right"))
    before = np.searchsorted(places[size:][ordered], places[:size], "right" if match.operator in (">=", "<") else "left")
    if match.operator in (">", ">="):
        first, last = np.maximum(start, before - match.limit), before
    else:
        first = start if match.operator == "=" else before
        last = np.minimum(first + match.limit, end)
    counts = np.where(is_present[:size], np.maximum(last - first, 0), 0)
    refuse(int(counts.sum()) > MAX_PAIRS, "too many pairs of rows")
    row, within = copies(np.maximum(counts, 1))
    at = first[row] + within
    chosen = np.where(counts[row] > 0, ordered[np.minimum(at, max(len(ordered) - 1, 0))] if len(ordered) else -1, -1)
    return beside(driving, row, others, chosen)


def instants_of(node: Node, rows: pa.Table) -> Int64s:
    instants = array_of(node, to_arrays(rows), rows.num_rows)
    refuse(bool(instants.null_count), "an instant that is NULL")
    return to_numpy(instants).astype(np.int64)


def beside(left: pa.Table, left_index: Int64s, right: pa.Table, right_index: Int64s) -> pa.Table:
    """Return rows of two tables side by side, NULL for the position -1. Raise `UnsupportedError` if they are too large."""
    refuse_bytes(left, left_index)
    refuse_bytes(right, right_index)
    chosen = [table.take(pa.array(index, mask=index < 0)) for table, index in ((left, left_index), (right, right_index))]
    return pa.table([*chosen[0].columns, *chosen[1].columns], names=[*left.column_names, *right.column_names])


def matches(left: pa.Table, right: pa.Table, condition: Node | None) -> tuple[Int64s, Int64s]:
    """Return the positions of the pairs of rows that meet a condition; all pairs without one."""
    keys: list[tuple[Node, Node]] = []
    rest: list[Node] = []
    for part in () if condition is None else conjuncts(condition):
        pair = equal_sides(part, set(left.column_names), set(right.column_names))
        if pair is None:
            rest.append(part)
        else:
            keys.append(pair)
    left_index, right_index = equal_pairs(left, right, keys)
    if rest:
        columns = to_arrays(beside(left, left_index, right, right_index))
        mask = array_of(both(*rest), columns, len(left_index))
        is_met = to_numpy(mask.fill_null(False)).astype(np.bool_)
        left_index, right_index = left_index[is_met], right_index[is_met]
    return left_index, right_index


def equal_sides(part: Node, left: set[str], right: set[str]) -> tuple[Node, Node] | None:
    """Return the expressions over the left and the right side that a condition says are equal; None for any other condition."""
    match part:
        case Operation(name="=", operands=(first, second)):
            for own, other in ((first, second), (second, first)):
                own_columns, other_columns = set(columns_of(own)), set(columns_of(other))
                if own_columns and other_columns and own_columns <= left and other_columns <= right:
                    return own, other
    return None


def equal_pairs(left: pa.Table, right: pa.Table, keys: Sequence[tuple[Node, Node]]) -> tuple[Int64s, Int64s]:
    """Return the positions of the pairs of rows whose keys are equal; NULL equals nothing."""
    columns, is_present = matched_keys(left, right, keys)
    numbers = combined(columns, len(is_present))
    return pairs_of(numbers[: left.num_rows], numbers[left.num_rows :], is_present[: left.num_rows], is_present[left.num_rows :])


def matched_keys(left: pa.Table, right: pa.Table, keys: Sequence[tuple[Node, Node]]) -> tuple[list[Int64s], Bools]:
    """Return numbers of the keys of both sides' rows, one after the other, and which rows have all keys."""
    sides = [
        evaluate_all({str(number): pair[side] for number, pair in enumerate(keys)}, to_arrays(table), table.num_rows)
        for side, table in ((0, left), (1, right))
    ]
    columns, is_present = [], np.ones(left.num_rows + right.num_rows, np.bool_)
    for own, other in zip(*(list(side.values()) for side in sides), strict=True):
        first, second = decoded(own), decoded(other)
        refuse(first.type != second.type or not is_ordered(first.type), "keys of different types")
        values = pa.concat_arrays([first, second])
        columns.append(ranks(values))
        is_present &= to_numpy(values.is_valid()).astype(np.bool_)
    return columns, is_present


def pairs_of(left: Int64s, right: Int64s, has_left: Bools, has_right: Bools) -> tuple[Int64s, Int64s]:
    """Return the positions of the pairs of equal numbers, of those that are there."""
    rows = np.flatnonzero(has_right)
    order = rows[np.argsort(right[rows], kind="stable")]
    first, last = (np.searchsorted(right[order], left, side) for side in ("left", "right"))
    counts = np.where(has_left, last - first, 0)
    total = int(counts.sum())
    refuse(total > MAX_PAIRS, "too many pairs of rows")
    row, within = copies(counts)
    return row, order[first[row] + within]
