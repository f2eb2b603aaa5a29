"""The processor that keeps a row if enough time has passed since the last kept one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from headrace.pipes.attributes import PipeAttributes, pipe_error
from headrace.pipes.events import DeviceRows
from headrace.pipes.plugins import PipeContext, Processor
from headrace.pipes.processors.grouping import Array, Flags, Integers, Segments, group_by_device, times_of
from headrace.pipes.processors.jumps import (
    BLOCK,
    FIRST_SEARCH,
    MIN_LANES,
    DifferingPoints,
    by_length,
    count_longer,
    follow,
    search,
)
from headrace.pipes.processors.sampling import SamplingProcessor, check_down_sampling, check_keys, fingerprint_of
from headrace.pipes.processors.series import ColumnState

NAME: Final = "tumbling-time-sampling-processor"
NAMESPACE: Final = "tumbling-time."
INTERVAL: Final = "tumbling-time.interval-seconds"
DEFAULT_SECONDS: Final = 60
MIN_UNIFORM_ROWS: Final = 64
"""From this many rows with values of the same columns on, they are followed together."""

Matrix = npt.NDArray[np.bool_]


class TumblingTimeProcessor(SamplingProcessor):
    """Keeps a row, whole, if one of its series has no sample within an interval before.

    A series is due if it has no sample, or if its last one is at least the interval away. A row is kept if it has a value of a
    series that is due; that series, and those of the columns after it that have a value, take the row as their last sample.
    """

    def __init__(self, seconds: int) -> None:
        """Create the processor without state."""
        super().__init__({"is_sampled": np.bool_, "time": np.int64}, fingerprint_of(NAME, {"seconds": seconds}))
        self._seconds = seconds

    def sample(self, data: DeviceRows) -> DeviceRows:
        """Return the rows that are kept."""
        segments, names = group_by_device(data.rows), list(data.columns)
        if not names or not len(segments.rows):
            return data.with_rows(data.rows.slice(0, 0))
        states = [self._states.column(data.columns[name], data.rows.column(name).type) for name in names]
        slots = [state.find(segments.devices) for state in states]
        flags = [pc.is_valid(data.rows.column(name)).to_numpy(zero_copy_only=False)[segments.rows] for name in names]
        interval = self._seconds * data.precision.ticks_per_second
        sampler = Sampler(times_of(data.rows)[segments.rows], np.column_stack(flags), interval, last_samples(states, slots))
        kept = sampler.run(segments.starts)
        self._remember(segments, states, slots, sampler.last)
        chosen = np.zeros(len(segments.rows), np.bool_)
        chosen[segments.rows] = kept
        return data.with_rows(data.rows.filter(chosen) if not chosen.all() else data.rows)

    def _remember(self, segments: Segments, states: Sequence[ColumnState], slots: Sequence[Integers], last: LastSamples) -> None:
        for column, (state, before) in enumerate(zip(states, slots, strict=True)):
            exists = np.flatnonzero(last.exist[:, column])
            devices = segments.devices if len(exists) == len(segments.devices) else [segments.devices[at] for at in exists.tolist()]
            kept_slots = state.ensure(devices, before[exists])
            state["is_sampled"][kept_slots], state["time"][kept_slots] = True, last.times[exists, column]


@dataclass(slots=True)
class LastSamples:
    """The last samples of series: a row for each device, a column for each column.

    Attributes:
        exist: Whether there is one.
        times: Its time.
    """

    exist: Matrix
    times: npt.NDArray[np.int64]


def last_samples(states: Sequence[ColumnState], slots: Sequence[Integers]) -> LastSamples:
    """Return the last samples of devices, by their slots in the state of each column; -1 for none."""
    pairs = list(zip(states, slots, strict=True))
    exist = [(device_slots >= 0) & state["is_sampled"][device_slots] for state, device_slots in pairs]
    return LastSamples(np.column_stack(exist), np.column_stack([state["time"][device_slots] for state, device_slots in pairs]))


class Sampler:
    """The rows of some devices, of which some are kept."""

    def __init__(self, times: Integers, has_value: Matrix, interval: int, last: LastSamples) -> None:
        """Take rows, by device.

        Args:
            times: The time of each.
            has_value: Which of its columns have a value.
            interval: The least number of ticks between samples.
            last: The last sample of each column of each device.
        """
        self._times, self._has_value, self._interval, self.last = times, has_value, interval, last
        self._kept = np.zeros(len(times), np.bool_)
        self._changes: Integers | None = None

    def run(self, starts: Integers) -> Flags:
        """Return which rows are kept; `last` has the last samples then."""
        order = np.argsort(starts[:-1] - starts[1:], kind="stable")
        firsts, ends = by_length(starts)
        negative_lengths, step = firsts - ends, 0
        while (count := count_longer(negative_lengths, step)) >= MIN_LANES:
            self._step(order[:count], firsts[:count] + step)
            step += 1
        for lane in range(count):
            self._follow(int(order[lane]), int(firsts[lane]) + step, int(ends[lane]))
        return self._kept

    def _step(self, devices: Integers, rows: Integers) -> None:
        """Advance devices by one row each."""
        has_value, times = self._has_value[rows], self._times[rows]
        last = self.last.times[devices]
        is_due = has_value & (~self.last.exist[devices] | (np.abs(times[:, None] - last) >= self._interval))
        taken = np.logical_or.accumulate(is_due, axis=1) & has_value
        self._kept[rows] = is_due.any(axis=1)
        self.last.exist[devices] |= taken
        self.last.times[devices] = np.where(taken, times[:, None], last)

    def _follow(self, device: int, start: int, end: int) -> None:
        """Advance one device by its rows from `start` to `end`."""
        row: int | None = start
        while row is not None and row < end:
            row = self._find_due(device, row, end)
            if row is None:
                return
            self._step(np.array([device]), np.array([row]))
            row += 1
            stop = min(self._end_of_pattern(row), end)
            if stop - row >= MIN_UNIFORM_ROWS and self._are_together(device, row):
                self._follow_uniform(device, row, stop)
                row = stop

    def _find_due(self, device: int, start: int, end: int) -> int | None:
        """Return the first row from `start` on that has a value of a series that is due."""
        size = FIRST_SEARCH
        exist, last = self.last.exist[device], self.last.times[device]
        while start < end:
            stop = min(start + size, end)
            is_due = self._has_value[start:stop] & (~exist | (np.abs(self._times[start:stop, None] - last) >= self._interval))
            hits = is_due.any(axis=1)
            if hits.any():
                return start + int(hits.argmax())
            start, size = stop, min(2 * size, BLOCK)
        return None

    def _end_of_pattern(self, row: int) -> int:
        """Return the first row after one that has values of other columns."""
        if self._changes is None:
            differ = (self._has_value[1:] != self._has_value[:-1]).any(axis=1)
            self._changes = np.append(np.flatnonzero(differ) + 1, len(self._has_value))
        following = int(np.searchsorted(self._changes, row, side="right"))
        return int(self._changes[min(following, len(self._changes) - 1)])

    def _are_together(self, device: int, row: int) -> bool:
        """Return whether the columns that a row has were last sampled together: they are due together then."""
        pattern = self._has_value[row]
        last: Array = self.last.times[device][pattern]
        return bool(self.last.exist[device][pattern].all() and (last == last[0]).all())

    def _follow_uniform(self, device: int, start: int, end: int) -> None:
        times, pattern = self._times, self._has_value[start]
        last = int(self.last.times[device][pattern][0])

        def is_due(first: Integers, second: Integers) -> Flags:
            before = last if np.isscalar(first) and first == -1 else times[first]
            due: Flags = np.abs(times[second] - before) >= self._interval
            return due

        chain = follow(search(-1, start, end, is_due), end, DifferingPoints(is_due))
        if chain:
            self._kept[np.array(chain)] = True
            self.last.times[device][pattern] = times[chain[-1]]


def read_seconds(attributes: PipeAttributes) -> int:
    """Return the interval; raise `ProgrammingError` if it is not positive."""
    check_down_sampling(attributes)
    check_keys(attributes, NAMESPACE, [INTERVAL])
    seconds = attributes.integer(INTERVAL, default=DEFAULT_SECONDS)
    if seconds <= 0:
        raise pipe_error(f"The value of {INTERVAL} must be greater than 0, but got {seconds}.")
    return seconds


def validate(attributes: PipeAttributes) -> None:
    """Check the parameters."""
    read_seconds(attributes)


def create(attributes: PipeAttributes, _: PipeContext) -> Processor:
    """Return the processor."""
    return TumblingTimeProcessor(read_seconds(attributes))
