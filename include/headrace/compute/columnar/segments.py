"""`SegmentKernel`: what `compute.windows.segments` does with data frames, for Arrow tables in this process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.compute.columnar.arrays import refuse
from headrace.compute.columnar.columns import (
    Arrays,
    as_array,
    decoded,
    evaluate_all,
    filter_rows,
    flags,
    is_range,
    plain,
    take,
    ticks,
    to_arrays,
)
from headrace.compute.columnar.expressions import evaluate, type_of
from headrace.compute.columnar.partials import Reducer, is_ordered, reducer
from headrace.compute.columnar.runs import (
    Array,
    Bools,
    Groups,
    Int64s,
    Runs,
    codes,
    combined,
    marks,
    numbered_densely,
    order_of,
    ranks,
    segment_order,
    stable_order,
)
from headrace.compute.nodes import Node, columns_of
from headrace.compute.plan import KEY, SERIES_KEY, STATE, TS, WEND, WSTART, Plan
from headrace.compute.sql_text import at_present
from headrace.compute.windows.segments import attributes, key_columns, prepared_columns

if TYPE_CHECKING:
    from headrace.compute.windows.kind import Grid

BIGINT = pa.int64()
MIN_RUN: Final = 2
"""If rows of a window come in shorter runs than this, on average, they are brought together before their segments are made."""


@dataclass(frozen=True)
class SegmentKernel:
    """The segments of a plan.

    `prepared` has the columns of prepared rows, `rows` the partials of one row, `schema` the columns of segments. `grid` is None
    for windows that depend on rows.
    """

    plan: Plan
    filter: Node | None
    prepared: Mapping[str, Node]
    rows: Mapping[str, Node]
    reducers: Mapping[str, Reducer]
    grid: Grid | None
    schema: pa.Schema = field(compare=False)

    @classmethod
    def compile(cls, plan: Plan, types: Mapping[str, pa.DataType]) -> SegmentKernel:
        """Compile the kernel of a plan, whose window is made of segments if it has one, over columns of these types.

        Raise `UnsupportedError` if kernels cannot evaluate a part of the plan.
        """
        filter_ = at_present(plan, plan.filter) if plan.filter else None
        refuse(filter_ is not None and type_of(filter_, types) != pa.bool_(), "WHERE")
        prepared = {name: at_present(plan, node) for name, node in prepared_columns(plan).items()}
        prepared_types = {name: type_of(node, types) for name, node in prepared.items()}
        # Other values are compared or ordered differently than in Spark.
        refuse(not all(is_ordered(prepared_types[name]) for name in key_columns(plan)), "keys of this type")
        refuse(plan.window is not None and prepared_types.get(TS) != BIGINT, "windows without time")
        grid = None if plan.window is None else plan.window.grid(plan)
        partials = attributes(plan) | {partial.column: partial for partial in plan.partials}
        rows = {name: at_present(plan, partial.row) for name, partial in partials.items() if partial.row is not None}
        refuse(len(rows) < len(partials), "partials of many rows")
        row_types = prepared_types | ({WSTART: BIGINT} if grid else {})
        partial_types = {name: type_of(node, row_types) for name, node in rows.items()}
        reducers = {name: reducer(partial.merge, partial_types) for name, partial in partials.items()}
        ends = {} if plan.window is None else {WSTART: BIGINT, WEND: BIGINT}
        schema = pa.schema(list(({name: prepared_types[name] for name in key_columns(plan)} | ends | partial_types).items()))
        used = {name for node in rows.values() for name in columns_of(node)} | set(schema.names) | {TS, STATE, *tie_breakers(plan)}
        prepared = {name: node for name, node in prepared.items() if name in used}
        return cls(plan, filter_, prepared, rows, reducers, grid, schema)

    @property
    def columns(self) -> list[str]:
        """The columns of the source that it reads."""
        nodes = [*self.prepared.values(), *([self.filter] if self.filter is not None else [])]
        return list(dict.fromkeys(name for node in nodes for name in columns_of(node)))

    def segments(self, rows: pa.Table) -> pa.Table:
        """Return the windows of rows as far as these rows go: segments that are merged as `merge` would.

        Rows may be in any order. Groups that are each in one piece and in the order of time are not sorted.
        """
        prepared, size = self.prepare(rows)
        if size == 0:
            return self.schema.empty_table()
        if self.grid is not None or self.plan.window is None:
            return self._keyed_segments(prepared, size)
        order = order_of(self._key_codes(prepared), ticks(prepared[TS]), self._ties(prepared))
        segments = self._segments_at(prepared if order is None else take(prepared, order), size, None)
        return self._merge_sorted(segments, Runs.of(marks(self._key_codes(segments), size)))

    def row_segments(self, rows: pa.Table) -> pa.Table:
        """Return the segments of rows, one for each window that a row lies in."""
        prepared, size = self.prepare(rows)
        if not size:
            return self.schema.empty_table()
        if self.grid is None:
            return self._table(self._segments_at(prepared, size, None))
        rows, starts = self.grid.assign(ticks(prepared[TS]))
        segments = self._segments_at(prepared if rows is None else take(prepared, rows), len(starts), starts)
        return self._table(segments | {WEND: pa.array(self.grid.lasts(starts))})

    def merge(self, segments: pa.Table, apart: Bools | None = None) -> pa.Table:
        """Merge the segments of each window into one, in the order of groups and time.

        Segments in the mask `apart` are complete runs of a state: two of them are never merged.
        """
        if segments.num_rows == 0:
            return self.schema.empty_table()
        columns = to_arrays(segments)
        if self.grid is not None or self.plan.window is None:
            return self._merge_equal(columns, [ticks(columns[WSTART])] if self.grid is not None else [], segments.num_rows)
        groups = combined(self._key_codes(columns), segments.num_rows)
        order = segment_order(groups, ticks(columns[WSTART]), ticks(columns[WEND]))
        group_runs = Runs.of(marks([groups[order]], segments.num_rows))
        return self._merge_sorted(take(columns, order), group_runs, None if apart is None else apart[order])

    def merge_numbered(self, segments: pa.Table, number: Int64s) -> pa.Table:
        """Merge segments that have the same group and window number into one."""
        if segments.num_rows == 0:
            return self.schema.empty_table()
        return self._merge_equal(to_arrays(segments), [number], segments.num_rows)

    def _merge_equal(self, columns: Arrays, numbers: Sequence[Array], size: int) -> pa.Table:
        ids = combined([*self._key_codes(columns), *numbers], size)
        order = np.argsort(ids, kind="stable")
        return self._aggregate(take(columns, order), Runs.of(marks([ids[order]], size)))

    def prepare(self, rows: pa.Table) -> tuple[Arrays, int]:
        """Return prepared rows, and how many pass WHERE."""
        columns = to_arrays(rows.select(self.columns))
        size = rows.num_rows
        if self.filter is not None:
            columns, size = filter_rows(columns, size, evaluate(self.filter, plain(self.filter, columns)))
        prepared = evaluate_all(self.prepared, columns, size)
        for name in key_columns(self.plan):
            if pa.types.is_floating(prepared[name].type):
                # A sum with 0.0 turns -0.0 into 0.0, as Spark does with what it groups by.
                prepared[name] = pc.add(prepared[name], pa.scalar(0.0, prepared[name].type))
        if self.plan.ignores_null and prepared[STATE].null_count:
            prepared, size = filter_rows(prepared, size, prepared[STATE].is_valid())
        return prepared, size

    def passing(self, rows: pa.Table) -> Bools:
        """Return a mask of the rows that have segments: that pass WHERE, and have a state."""
        columns = to_arrays(rows.select(self.columns))
        mask = np.ones(rows.num_rows, np.bool_)
        if self.filter is not None:
            condition = as_array(evaluate(self.filter, plain(self.filter, columns)), rows.num_rows)
            mask &= flags(pc.fill_null(condition, False))
        if self.plan.ignores_null:
            state = self.prepared[STATE]
            mask &= flags(as_array(evaluate(state, plain(state, columns)), rows.num_rows).is_valid())
        return mask

    def groups(self, rows: pa.Table) -> pa.Table:
        """Return the keys of the rows that pass WHERE."""
        prepared, size = self.prepare(rows)
        keys = self.schema.names[: len(self.plan.keys)]
        return pa.table([decoded(prepared[name]) for name in keys], names=keys) if size else self.schema.empty_table().select(keys)

    def _keyed_segments(self, prepared: Arrays, size: int) -> pa.Table:
        """Return one segment for each group and window of INTERVAL."""
        keys, rows = self._key_codes(prepared), None
        starts: Int64s | None = None
        if self.grid is not None:
            rows, starts = self.grid.assign(ticks(prepared[TS]))
            keys = [*(keys if rows is None else [key[rows] for key in keys]), starts]
            size = len(starts)
            if not size:
                return self.schema.empty_table()
        groups: Groups = Runs.of(marks(keys, size))
        is_mixed = groups.count > size // MIN_RUN
        if is_mixed and (scattered := numbered_densely(numbers := combined(keys, size))) is not None:
            groups = scattered
        elif is_mixed:
            order = stable_order(numbers)
            rows = order if rows is None else rows[order]
            starts = None if starts is None else starts[order]
            groups = Runs.of(marks([numbers[order]], size))
        segments = self._segments_at(prepared if rows is None else take(prepared, rows), size, starts)
        merged = self._aggregate(segments, groups)
        if is_mixed:
            return merged
        numbers = combined([key[groups.starts] for key in keys], groups.count)
        return merged if (numbers[1:] > numbers[:-1]).all() else self.merge(merged)

    def _segments_at(self, prepared: Arrays, size: int, starts: Int64s | None) -> Arrays:
        position: Arrays = {}
        if self.grid is not None and starts is not None:
            position = {WSTART: pa.array(starts)}
        elif self.plan.window is not None:
            position = {WSTART: prepared[TS], WEND: prepared[TS]}
        return prepared | position | evaluate_all(self.rows, prepared | position, size)

    def _merge_sorted(self, columns: Arrays, groups: Runs, apart: Bools | None = None) -> pa.Table:
        numbered = self.plan.kind.number(columns, groups, apart)
        if not len(numbered.index):
            return self.schema.empty_table()
        size = groups.rows
        chosen = columns if len(numbered.index) == size and is_range(numbered.index) else take(columns, numbered.index)
        windows_of = Runs.of(marks([groups.of_row[numbered.index], numbered.window], len(numbered.index)))
        return self._aggregate({**chosen, **numbered.columns}, windows_of)

    def _aggregate(self, columns: Arrays, runs: Groups) -> pa.Table:
        """Return one segment for each group of segments, which are runs unless there is a grid."""
        first = pa.array(runs.starts)
        result = {name: columns[name].take(first) for name in key_columns(self.plan)}
        if self.grid is not None:
            starts = columns[WSTART].take(first)
            result |= {WSTART: starts, WEND: pa.array(self.grid.lasts(ticks(starts)))}
        elif self.plan.window is not None:
            result[WSTART] = pa.array(np.minimum.reduceat(ticks(columns[WSTART]), runs.starts))
            result[WEND] = pa.array(np.maximum.reduceat(ticks(columns[WEND]), runs.starts))
        return self._table(result | {name: rule.reduce(columns, runs) for name, rule in self.reducers.items()})

    def _table(self, columns: Arrays) -> pa.Table:
        """Return segments in the columns of `schema`."""
        return pa.table([decoded(columns[name]) for name in self.schema.names], schema=self.schema)

    def _key_codes(self, columns: Arrays) -> list[Array]:
        return [codes(columns[name]) for name in key_columns(self.plan)]

    def _ties(self, prepared: Arrays) -> list[Int64s]:
        return [ranks(decoded(prepared[name])) for name in tie_breakers(self.plan) if name in prepared]


def tie_breakers(plan: Plan) -> tuple[str, ...]:
    """Return the columns that order rows of a group with equal instants, for windows to which order matters."""
    return (SERIES_KEY, KEY) if plan.depends_on_order and not plan.groups.unique else ()
