"""The processor that keeps the points between which a series is about a straight line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pyarrow as pa

from headrace.pipes.attributes import PipeAttributes
from headrace.pipes.events import DEVICE, TIME, DeviceRows
from headrace.pipes.plugins import PipeContext, Processor, Tables
from headrace.pipes.processors.changing_value import ChangingValueProcessor, plain
from headrace.pipes.processors.doors import Doors, Floats, Trend
from headrace.pipes.processors.grouping import Array, Flags, Integers, Segments, group_by_device, times_of
from headrace.pipes.processors.jumps import place_before, running_greatest
from headrace.pipes.processors.limits import Limits, read_limits
from headrace.pipes.processors.sampling import SamplingProcessor, comparable, is_number
from headrace.pipes.processors.series import PARAMETERS, VALUE, ColumnState

NAMESPACE: Final = "sdt."
NAME: Final = "sdt-sampling-processor"
FIELDS: Final = {
    "last_time": np.int64,
    "has_anchor": np.bool_,
    "anchor_time": np.int64,
    "anchor": VALUE,
    "upper": np.float64,
    "lower": np.float64,
    "has_held": np.bool_,
    "held_time": np.int64,
    "held": VALUE,
    "is_settled": np.bool_,
}
"""Fields of the state of a series; the held point is settled if it is not to be delivered, as it was corrected or deleted."""


class SwingingDoorProcessor(SamplingProcessor):
    """Delivers the points of numeric series between which all others lie on a straight line, but for a deviation.

    Whether a point is needed is known when the next one is there: until then it is held in the state. A point that is not later
    than all before it, and a value that is not finite, is delivered at once. Values that are no numbers are delivered when they
    change.
    """

    def __init__(self, limits: Limits) -> None:
        """Create the processor without state."""
        super().__init__(FIELDS, limits.fingerprint(NAME))
        self._limits = limits
        self._others = ChangingValueProcessor(replace(limits, deviation=0.0), limits.fingerprint(NAME))

    def sample(self, data: DeviceRows) -> DeviceRows:
        """Return the rows with the values that are delivered."""
        segments, times = group_by_device(data.rows), times_of(data.rows)
        return rows_from(data, times, {name: self._cells(data, name, segments, times) for name in data.columns})

    def _cells(self, data: DeviceRows, name: str, segments: Segments, times: Integers) -> Cells:
        column = data.rows.column(name)
        if not is_number(column.type):
            rows = np.flatnonzero(self._others.keep(data, name, segments, times))
            return Cells(rows, times[rows], column.take(pa.array(rows)).combine_chunks())
        segments = segments.with_values(column)
        values = plain(column.take(pa.array(segments.rows)))
        state = self._states.column(data.columns[name], values.type)
        return deliver(segments, times[segments.rows], values.cast(state.arrow), state, self._limits)

    def forget(self, data: DeviceRows) -> None:
        """Settle the held points that were deleted."""
        segments, times = group_by_device(data.rows), times_of(data.rows)
        for name, measurement in data.columns.items():
            column = data.rows.column(name)
            if is_number(column.type):
                filled = segments.with_values(column)
                state = self._states.column(measurement, plain(column).type)
                slots = np.repeat(state.find(filled.devices), filled.lengths)
                is_held = (slots >= 0) & state["has_held"][slots] & (state["held_time"][slots] == times[filled.rows])
                state["is_settled"][slots[is_held]] = True

    def state(self) -> Tables | None:
        """Return the states of all series."""
        return {**(self._others.state() or {}), **self._states.to_tables()}

    def restore(self, state: Tables) -> None:
        """Continue from a state. One that was kept under other parameters is discarded."""
        numbers = {name for name, table in state.items() if "anchor" in table.column_names}
        self._states.restore({name: table for name, table in state.items() if name in numbers or name == PARAMETERS})
        self._others.restore({name: table for name, table in state.items() if name not in numbers})


@dataclass(frozen=True, slots=True)
class Points:
    """Points of series, each after the anchor and the held point that its state has.

    Attributes:
        starts: Where the points of each series start, and at last the number of points.
        places: Where the points of the batch are.
        heads: The number of points from the state before those of each series.
        times: The time of each point.
        sources: The index of the value of each point: first come the anchors, then the held points, then the values of the batch.
    """

    starts: Integers
    places: Integers
    heads: Integers
    times: Integers
    sources: Integers


def deliver(segments: Segments, times: Integers, values: pa.Array, state: ColumnState, limits: Limits) -> Cells:
    """Advance the state of some series by their points, and return what is delivered.

    Args:
        segments: The rows of each series.
        times: Their times.
        values: Their values.
        state: The state of the column.
        limits: The limits.
    """
    slots = state.find(segments.devices)
    newest = running_greatest(times, segments.starts, np.where(slots >= 0, state["last_time"][slots], np.iinfo(np.int64).min))
    is_late = times <= newest.before
    on_time = select(segments, ~is_late)
    points, stored = with_stored(on_time, times[~is_late], slots, state)
    all_values = pa.concat_arrays([*stored, values.filter(pa.array(~is_late))])
    numbers = comparable(all_values).astype(np.float64)[points.sources]

    runs = split_runs(points, numbers, state, slots)
    trend = Trend(points.times, numbers, limits)
    trend.kept.points[runs.starts[:-1][runs.is_fresh]] = True
    trend.run(runs.begins, runs.starts[1:], runs.doors)
    finish_runs(trend, runs)
    is_settled = find_settled(points, segments.starts, times, is_late, state, slots)
    remember(state, state.ensure(segments.devices, slots), newest.last, points, runs, all_values, is_settled)

    kept = np.flatnonzero(trend.kept.points & ~(trend.kept.are_late & is_settled))
    row_of = np.full(len(points.times), -1, np.int64)
    row_of[points.places] = on_time.rows
    triggers = row_of[kept + trend.kept.are_late[kept]]
    late = np.flatnonzero(is_late)
    delivered = pa.concat_arrays([all_values.take(pa.array(points.sources[kept])), values.take(pa.array(late))])
    rows = np.concatenate((triggers, segments.rows[late]))
    return Cells(rows, np.concatenate((points.times[kept], times[late])), delivered)


def select(segments: Segments, chosen: Flags) -> Segments:
    """Return some rows of all series, which may have none left."""
    before = np.concatenate(([0], np.cumsum(chosen)))
    return Segments(segments.rows[chosen], before[segments.starts], segments.devices)


def with_stored(
    segments: Segments, times: Integers, slots: Integers, state: ColumnState
) -> tuple[Points, tuple[pa.Array, pa.Array]]:
    """Return the points of series after those that their states have, and the values of the latter."""
    is_known = slots >= 0
    has_anchor, has_held = is_known & state["has_anchor"][slots], is_known & state["has_held"][slots]
    heads = has_anchor.astype(np.int64) + has_held
    starts, places = place_before(segments.starts, heads)
    anchors, held = starts[:-1][has_anchor], starts[:-1][has_held] + 1
    moments, sources = np.empty(starts[-1], np.int64), np.empty(starts[-1], np.int64)
    moments[anchors], moments[held], moments[places] = (
        state["anchor_time"][slots[has_anchor]],
        state["held_time"][slots[has_held]],
        times,
    )
    sources[anchors], sources[held] = np.arange(len(anchors)), len(anchors) + np.arange(len(held))
    sources[places] = len(anchors) + len(held) + np.arange(len(times))
    stored = state.values("anchor", slots[has_anchor]), state.values("held", slots[has_held])
    return Points(starts, places, heads, moments, sources), stored


@dataclass(frozen=True, slots=True)
class Runs:
    """Runs of points with finite values, and single points without.

    Attributes:
        starts: Where each starts, and at last the number of points.
        begins: The first point of each after its anchor and its held point.
        is_fresh: Which ones begin with a point of this batch.
        is_last: Which ones are the last of their series.
        doors: The doors of each.
    """

    starts: Integers
    begins: Integers
    is_fresh: Flags
    is_last: Flags
    doors: Doors


def split_runs(points: Points, numbers: Floats, state: ColumnState, slots: Integers) -> Runs:
    """Split the points of each series at values that are not finite."""
    size = len(numbers)
    is_start = np.zeros(size + 1, np.bool_)
    is_start[points.starts] = True
    broken = np.flatnonzero(~np.isfinite(numbers))
    is_start[broken] = is_start[broken + 1] = True
    starts = np.flatnonzero(is_start)
    begins, count = starts[:-1] + 1, len(starts) - 1
    doors = Doors(starts[:-1].copy(), np.full(count, -np.inf), np.full(count, np.inf), np.full(count, -1, np.int64))

    has_points = np.diff(points.starts) > 0
    first_runs = np.searchsorted(starts, points.starts[:-1][has_points])
    heads, kept_slots = points.heads[has_points], slots[has_points]
    restored, holding = first_runs[heads > 0], first_runs[heads > 1]
    doors.upper[restored], doors.lower[restored] = state["upper"][kept_slots[heads > 0]], state["lower"][kept_slots[heads > 0]]
    doors.held[holding] = starts[holding] + 1
    begins[holding] += 1
    is_fresh, is_last = np.ones(count, np.bool_), np.zeros(count, np.bool_)
    is_fresh[restored] = False
    is_last[np.searchsorted(starts, points.starts[1:][has_points]) - 1] = True
    return Runs(starts, begins, is_fresh, is_last, doors)


def finish_runs(trend: Trend, runs: Runs) -> None:
    """Keep the held point of each run that is followed by a value that is not finite."""
    ends = runs.doors.held[~runs.is_last]
    ends = ends[ends >= 0]
    trend.kept.points[ends] = trend.kept.are_late[ends] = True


def find_settled(points: Points, starts: Integers, times: Integers, is_late: Flags, state: ColumnState, slots: Integers) -> Flags:
    """Return which points are not to be delivered if they are held: a later row with the same time was delivered meanwhile.

    Args:
        points: The points on time.
        starts: Where all points of the batch start for each series, and at last their number.
        times: The times of all points.
        is_late: Which of them are late.
        state: The state of the column.
        slots: The slots of the series; -1 for new ones.
    """
    is_settled = np.zeros(len(points.times), np.bool_)
    holding = points.heads > 1
    is_settled[points.starts[:-1][holding] + 1] = state["is_settled"][slots[holding]]
    series = np.repeat(np.arange(len(slots)), np.diff(starts))[is_late]
    on_time_before = np.concatenate(([0], np.cumsum(~is_late)))
    before = points.heads[series] + on_time_before[:-1][is_late] - on_time_before[starts[series]]
    latest = (points.starts[series] + before - 1)[before > 0]
    is_same = points.times[latest] == times[is_late][before > 0]
    is_settled[latest[is_same]] = True
    return is_settled


def remember(
    state: ColumnState, slots: Integers, newest: Integers, points: Points, runs: Runs, values: pa.Array, is_settled: Flags
) -> None:
    """Store the last run of each series."""
    state["last_time"][slots] = newest
    slots = slots[np.diff(points.starts) > 0]
    doors = runs.doors.select(runs.is_last)
    anchors, has_held = doors.anchors, doors.held >= 0
    anchor_values = values.take(pa.array(points.sources[anchors]))
    state["has_anchor"][slots] = np.isfinite(comparable(anchor_values).astype(np.float64))
    state["anchor_time"][slots] = points.times[anchors]
    state.put("anchor", slots, anchor_values)
    state["upper"][slots], state["lower"][slots] = doors.upper, doors.lower
    state["has_held"][slots] = has_held
    state["is_settled"][slots] = has_held & is_settled[doors.held]
    state["held_time"][slots[has_held]] = points.times[doors.held[has_held]]
    state.put("held", slots[has_held], values.take(pa.array(points.sources[doors.held[has_held]])))


def validate(attributes: PipeAttributes) -> None:
    """Check the parameters."""
    read_limits(attributes, NAMESPACE)


def create(attributes: PipeAttributes, _: PipeContext) -> Processor:
    """Return the processor."""
    return SwingingDoorProcessor(read_limits(attributes, NAMESPACE))


@dataclass(frozen=True, slots=True)
class Cells:
    """Values of a column that are delivered.

    Attributes:
        rows: The row with which each is delivered. A value of another row, which has another time, is delivered in a row before it.
        times: The time of each.
        values: The values.
    """

    rows: Integers
    times: Integers
    values: pa.Array


def rows_from(data: DeviceRows, times: Integers, columns: Mapping[str, Cells]) -> DeviceRows:
    """Return the rows that have the cells of some columns; those with the same time that are delivered together are one row."""
    rows = np.concatenate([cells.rows for cells in columns.values()] or [np.zeros(0, np.int64)])
    moments = np.concatenate([cells.times for cells in columns.values()] or [np.zeros(0, np.int64)])
    is_current = moments == times[rows]
    order = np.lexsort((moments, is_current, rows))
    sorted_rows, sorted_moments = rows[order], moments[order]
    is_first = np.ones(len(order), np.bool_)
    is_first[1:] = (sorted_rows[1:] != sorted_rows[:-1]) | (sorted_moments[1:] != sorted_moments[:-1])
    numbers = np.empty(len(order), np.int64)
    numbers[order] = np.cumsum(is_first) - 1

    taken = sorted_rows[is_first]
    table = {TIME: pa.array(sorted_moments[is_first]), DEVICE: data.rows.column(DEVICE).take(pa.array(taken))}
    start = 0
    for name, cells in columns.items():
        places = numbers[start : start + len(cells.rows)]
        table[name] = spread(cells.values, places, len(taken))
        start += len(cells.rows)
    return data.with_rows(pa.table(table).select(data.rows.column_names))


def spread(values: pa.Array, places: Array, size: int) -> pa.Array:
    """Return an array of some size with values at some places, and NULL elsewhere."""
    indices, is_null = np.zeros(size, np.int64), np.ones(size, np.bool_)
    indices[places], is_null[places] = np.arange(len(places)), False
    return values.take(pa.array(indices, mask=is_null))
