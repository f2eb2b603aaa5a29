"""`SegmentKernel`: what `compute.windows.segments` does with data frames, for Arrow tables in this process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

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
from headrace.compute.columnar.lists import COMPARED
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
    running_maximum,
    stable_order,
    to_numpy,
)
from headrace.compute.columnar.window_ranges import RangeGrid, window_range
from headrace.compute.nodes import Node, UnsupportedError, columns_of
from headrace.compute.plan import FIRST_ROW, IS_END, IS_START, KEY, ROW_COUNT, SERIES_KEY, STATE, TS, WEND, WSTART, Plan
from headrace.compute.sql_text import at_present
from headrace.compute.types import is_text
from headrace.compute.window_plans import (
    CountWindow,
    EventWindow,
    IntervalWindow,
    RangeWindow,
    RunWindow,
    SessionWindow,
    StateWindow,
)
from headrace.compute.windows.row_runs import window_numbers
from headrace.compute.windows.segments import ATTRIBUTES, key_columns, prepared_columns
from headrace.model.calendar_windows import CalendarGrid
from headrace.model.types import TypeKind
from headrace.model.windows import WindowGrid, copies

MAX_WINDOWS: Final = 1_000_000
"""Windows of a range, for which there are arrays."""
NO_ROW: Final = -1
"""The first row of a segment that is a row, not yet a window."""


@dataclass(frozen=True, slots=True)
class Numbered:
    """Segments of windows, in the order of groups and time.

    Attributes:
        index: The segments, which may be in several windows or in none.
        window: The window of each; different from its neighbor's if the windows are of one group and differ.
    """

    index: Int64s
    window: Int64s


def number_sessions(start: Int64s, end: Int64s, groups: Runs, gap: int) -> Numbered:
    """Number sessions: a segment further than the gap from all earlier ones of its group starts one."""
    index = np.arange(len(start))
    breaks = np.zeros(len(start), np.bool_)
    breaks[groups.starts] = True
    breaks[1:] |= start[1:] > running_maximum(end, groups)[:-1] + gap
    return Numbered(index, np.cumsum(breaks))


def number_states(states: Array, groups: Runs, apart: Bools | None) -> Numbered:
    """Number runs of equal states. Two neighbors that are both `apart` are never of one run."""
    breaks = marks([states], len(states))
    breaks[groups.starts] = True
    if apart is not None:
        breaks[1:] |= apart[1:] & apart[:-1]
    return Numbered(np.arange(len(states)), np.cumsum(breaks))


def number_events(is_start: Bools, is_end: Bools, groups: Runs) -> Numbered:
    """Number event windows. A segment is in one if there is a START since the last END before it."""
    rows = np.arange(len(is_start))
    before_group = groups.start_of_row - 1
    opened = np.maximum(np.maximum.accumulate(np.where(is_start, rows, -1)), before_group)
    closed = np.concatenate(([-1], np.maximum.accumulate(np.where(is_end, rows, -1))[:-1]))
    closed = np.maximum(closed, before_group)
    index = np.flatnonzero(opened > closed)
    return Numbered(index, closed[index])


def number_counts(first: Int64s, count: Int64s, groups: Runs, window: CountWindow) -> Numbered:
    """Number windows of a fixed number of rows. New rows, with the first row `NO_ROW`, continue the count of carried windows."""
    is_row = first == NO_ROW
    carried = np.maximum.reduceat(np.where(is_row, 0, first + count), groups.starts)
    new_rows = np.cumsum(np.where(is_row, count, 0))
    before_group = (new_rows - np.where(is_row, count, 0))[groups.starts]
    position = carried[groups.of_row] + new_rows - before_group[groups.of_row] - count
    position = np.where(is_row, position, first)
    latest = position // window.sliding
    earliest = np.where(is_row & (position >= window.count), (position - window.count) // window.sliding + 1, 0)
    earliest = np.where(is_row, earliest, latest)
    if window.sliding == window.count:
        return Numbered(np.arange(len(first)), latest)
    index, offset = copies(latest - earliest + 1)
    # A row is in several windows, so that those of a group have to be brought together.
    group, number = groups.of_row[index], earliest[index] + offset
    order = np.lexsort((number, group))
    return Numbered(index[order], number[order])


def number_runs(window: RunWindow, states: pa.Array, groups: Runs) -> Numbered:
    """Number the rows of windows of consecutive rows, as `compute.windows.row_runs` does."""
    index = np.arange(len(states))
    match window.kind:
        case "count":
            number = (index - groups.start_of_row) // window.size
            return sized(Numbered(index, number), groups, "=", window.size)
        case "condition":
            is_inside = flags(pc.fill_null(states, False))
            number = np.cumsum(~is_inside)
            inside = Numbered(index[is_inside], number[is_inside])
            return inside if window.keep is None else sized(inside, groups, *window.keep)
    if window.delta == 0 or is_text(window.control.type) or window.control.type.kind is TypeKind.BOOL:
        return number_states(ranks(states), groups, None)
    ends = np.append(groups.starts[1:], groups.rows)
    parts = [window_numbers(states.slice(start, end - start), window.delta) for start, end in zip(groups.starts, ends, strict=True)]
    return Numbered(index, np.concatenate(parts))


def sized(numbered: Numbered, groups: Runs, sign: str, size: int) -> Numbered:
    """Return the windows whose number of rows is `size`, or less or more by `sign`."""
    if not len(numbered.index):
        return numbered
    windows = Runs.of(marks([groups.of_row[numbered.index], numbered.window], len(numbered.index)))
    is_kept = COMPARED[sign](windows.lengths, size)[windows.of_row]
    return Numbered(numbered.index[is_kept], numbered.window[is_kept])


BIGINT = pa.int64()
MIN_RUN: Final = 2
"""If rows of a window come in shorter runs than this, on average, they are brought together before their segments are made."""


@dataclass(frozen=True)
class SegmentKernel:
    """The segments of a plan that reads columns of `types`.

    `prepared` has the columns of prepared rows, `rows` the partials of one row, `schema` the columns of segments. `grid` is None
    for windows that depend on rows.
    """

    plan: Plan
    types: Mapping[str, pa.DataType]
    filter: Node | None
    prepared: Mapping[str, Node]
    rows: Mapping[str, Node]
    reducers: Mapping[str, Reducer]
    grid: WindowGrid | CalendarGrid | RangeGrid | None
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
        check_types(plan, prepared_types)
        grid = grid_of(plan)
        partials = {partial.column: partial for partial in plan.partials}
        rows = {name: at_present(plan, partial.row) for name, partial in partials.items() if partial.row is not None}
        refuse(len(rows) < len(partials), "partials of many rows")
        row_types = prepared_types | ({WSTART: BIGINT} if grid else {})
        partial_types = {name: type_of(node, row_types) for name, node in rows.items()}
        reducers = {name: reducer(partial.merge, partial_types) for name, partial in partials.items()}
        schema = segment_schema(plan, prepared_types, partial_types)
        used = {name for node in rows.values() for name in columns_of(node)} | set(schema.names) | {TS, STATE, *tie_breakers(plan)}
        prepared = {name: node for name, node in prepared.items() if name in used}
        return cls(plan, types, filter_, prepared, rows, reducers, grid, schema)

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
        segments = self._to_segments(prepared if order is None else take(prepared, order), size)
        return self._merge_sorted(segments, Runs.of(marks(self._key_codes(segments), size)))

    def row_segments(self, rows: pa.Table) -> pa.Table:
        """Return the segments of rows, one for each window that a row lies in."""
        prepared, size = self.prepare(rows)
        if not size:
            return self.schema.empty_table()
        segments = self._to_segments(prepared, size)
        return self._table(segments if self.grid is None else segments | {WEND: pa.array(self.grid.lasts(ticks(segments[WSTART])))})

    def merge(self, segments: pa.Table, apart: Bools | None = None) -> pa.Table:
        """Merge the segments of each window into one, in the order of groups and time.

        Segments in the mask `apart` are complete runs of a state: two of them are never merged.
        """
        if segments.num_rows == 0:
            return self.schema.empty_table()
        columns = to_arrays(segments)
        keys, size = self._key_codes(columns), segments.num_rows
        if self.grid is not None or self.plan.window is None:
            numbers = combined([*keys, *([ticks(columns[WSTART])] if self.grid is not None else [])], size)
            order = np.argsort(numbers, kind="stable")
            return self._aggregate(take(columns, order), Runs.of(marks([numbers[order]], size)))
        groups = combined(keys, size)
        order = np.lexsort((ticks(columns[WEND]), ticks(columns[WSTART]), groups))
        group_runs = Runs.of(marks([groups[order]], size))
        return self._merge_sorted(take(columns, order), group_runs, None if apart is None else apart[order])

    def merge_numbered(self, segments: pa.Table, number: Int64s) -> pa.Table:
        """Merge segments that have the same group and window number into one."""
        if segments.num_rows == 0:
            return self.schema.empty_table()
        columns = to_arrays(segments)
        ids = combined([*self._key_codes(columns), number], segments.num_rows)
        order = np.argsort(ids, kind="stable")
        return self._aggregate(take(columns, order), Runs.of(marks([ids[order]], len(ids))), number[order])

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
        if ignores_null_states(self.plan) and prepared[STATE].null_count:
            prepared, size = filter_rows(prepared, size, prepared[STATE].is_valid())
        return prepared, size

    def passing(self, rows: pa.Table) -> Bools:
        """Return a mask of the rows that have segments: that pass WHERE, and have a state."""
        columns = to_arrays(rows.select(self.columns))
        mask = np.ones(rows.num_rows, np.bool_)
        if self.filter is not None:
            condition = as_array(evaluate(self.filter, plain(self.filter, columns)), rows.num_rows)
            mask &= flags(pc.fill_null(condition, False))
        if isinstance(self.plan.window, StateWindow):
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

    def _to_segments(self, prepared: Arrays, size: int) -> Arrays:
        if self.grid is None:
            return self._segments_at(prepared, size, None)
        rows, starts = self.grid.assign(ticks(prepared[TS]))
        return self._segments_at(prepared if rows is None else take(prepared, rows), len(starts), starts)

    def _segments_at(self, prepared: Arrays, size: int, starts: Int64s | None) -> Arrays:
        position: Arrays = {}
        if self.grid is not None and starts is not None:
            position = {WSTART: pa.array(starts)}
        elif self.plan.window is not None:
            position = {WSTART: prepared[TS], WEND: prepared[TS]}
        if isinstance(self.plan.window, CountWindow):
            position |= {FIRST_ROW: pa.nulls(size, BIGINT), ROW_COUNT: pa.array(np.ones(size, np.int64))}
        return prepared | position | evaluate_all(self.rows, prepared | position, size)

    def _merge_sorted(self, columns: Arrays, groups: Runs, apart: Bools | None = None) -> pa.Table:
        numbered = self._number(columns, groups, apart)
        if not len(numbered.index):
            return self.schema.empty_table()
        size = groups.rows
        chosen = columns if len(numbered.index) == size and is_range(numbered.index) else take(columns, numbered.index)
        windows_of = Runs.of(marks([groups.of_row[numbered.index], numbered.window], len(numbered.index)))
        return self._aggregate(chosen, windows_of, numbered.window)

    def _number(self, columns: Arrays, groups: Runs, apart: Bools | None) -> Numbered:
        """Return which windows segments belong to that are in the order of groups and time."""
        match self.plan.window:
            case SessionWindow(gap=gap):
                return number_sessions(ticks(columns[WSTART]), ticks(columns[WEND]), groups, gap)
            case StateWindow():
                return number_states(codes(columns[STATE]), groups, apart)
            case EventWindow():
                return number_events(flags(columns[IS_START]), flags(columns[IS_END]), groups)
            case RunWindow() as window:
                return number_runs(window, columns[STATE], groups)
            case CountWindow() as window:
                first = to_numpy(pc.fill_null(columns[FIRST_ROW], NO_ROW))
                return number_counts(first, ticks(columns[ROW_COUNT]), groups, window)
        raise UnsupportedError("window")

    def _aggregate(self, columns: Arrays, runs: Groups, number: Int64s | None = None) -> pa.Table:
        """Return one segment for each group of segments, which are runs unless there is a grid."""
        return self._table(self._reduce(columns, runs, number))

    def _reduce(self, columns: Arrays, runs: Groups, number: Int64s | None = None) -> Arrays:
        first = pa.array(runs.starts)
        result = {name: columns[name].take(first) for name in key_columns(self.plan)}
        if self.grid is not None:
            starts = columns[WSTART].take(first)
            result |= {WSTART: starts, WEND: pa.array(self.grid.lasts(ticks(starts)))}
        elif self.plan.window is not None:
            result[WSTART] = pa.array(np.minimum.reduceat(ticks(columns[WSTART]), runs.starts))
            result[WEND] = pa.array(np.maximum.reduceat(ticks(columns[WEND]), runs.starts))
        match self.plan.window:
            case StateWindow():
                result[STATE] = columns[STATE].take(first)
            case EventWindow():
                result |= {name: pa.array(np.logical_or.reduceat(flags(columns[name]), runs.starts)) for name in (IS_START, IS_END)}
            case CountWindow(sliding=sliding):
                assert number is not None
                result[FIRST_ROW] = pa.array(number[runs.starts] * sliding)
                result[ROW_COUNT] = pa.array(np.add.reduceat(ticks(columns[ROW_COUNT]), runs.starts))
        return result | {name: rule.reduce(columns, runs) for name, rule in self.reducers.items()}

    def _table(self, columns: Arrays) -> pa.Table:
        """Return segments in the columns of `schema`."""
        return pa.table([decoded(columns[name]) for name in self.schema.names], schema=self.schema)

    def _key_codes(self, columns: Arrays) -> list[Array]:
        return [codes(columns[name]) for name in key_columns(self.plan)]

    def _ties(self, prepared: Arrays) -> list[Int64s]:
        return [ranks(decoded(prepared[name])) for name in tie_breakers(self.plan) if name in prepared]


def grid_of(plan: Plan) -> WindowGrid | CalendarGrid | RangeGrid | None:
    """Return the windows that depend on instants alone; None for other windows."""
    match plan.window:
        case IntervalWindow() as window:
            return window.sequence(plan.precision)
        case RangeWindow() as window:
            return RangeGrid(window_range(plan, window, MAX_WINDOWS))
    return None


def ignores_null_states(plan: Plan) -> bool:
    """Return whether rows whose state is NULL are in no window."""
    return isinstance(plan.window, StateWindow) or (isinstance(plan.window, RunWindow) and plan.window.ignore_null)


def tie_breakers(plan: Plan) -> tuple[str, ...]:
    """Return the columns that order rows of a group with equal instants, for windows to which order matters."""
    depends_on_order = isinstance(plan.window, StateWindow | EventWindow | CountWindow)
    return (SERIES_KEY, KEY) if depends_on_order and not plan.groups.unique else ()


def check_types(plan: Plan, types: Mapping[str, pa.DataType]) -> None:
    """Raise `UnsupportedError` for what is compared or ordered differently than in Spark."""
    refuse(not all(is_ordered(types[name]) for name in key_columns(plan)), "keys of this type")
    is_state = isinstance(plan.window, StateWindow)
    refuse(is_state and (pa.types.is_floating(types[STATE]) or not is_ordered(types[STATE])), "states of this type")
    refuse(plan.window is not None and types.get(TS) != BIGINT, "windows without time")


def segment_schema(plan: Plan, prepared: Mapping[str, pa.DataType], partials: Mapping[str, pa.DataType]) -> pa.Schema:
    fields = {name: prepared[name] for name in key_columns(plan)}
    if plan.window is not None:
        fields |= {WSTART: BIGINT, WEND: BIGINT}
    fields |= {name: prepared.get(name, BIGINT) for name in ATTRIBUTES.get(type(plan.window), ())}
    return pa.schema([pa.field(name, type_) for name, type_ in (fields | dict(partials)).items()])
