"""Times at a regular interval."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from headrace.library.repair.speeds import RepairFunction
from headrace.library.series import NUMERIC, Points, Times, Values, parse_duration
from headrace.library.steps import StepLimit
from headrace.udf import ParameterError, Parameters, Type, Validator

METHODS: Final = ("median", "mode", "cluster")
CLUSTERS: Final = 3
ADDITION_COST: Final = 100_000
"""The cost of adding or deleting a point, in ticks by which one may be moved instead."""
STEPS_PER_PAIR: Final = 100
MATCH, ADD, DELETE = 0, 1, 2


class TimestampRepair(RepairFunction):
    """Points at regular times: those of the series are moved, added as NaN (0 in an integer series) or deleted at the least cost.

    Moving costs the ticks of the distance, and adding or deleting 100000. The regular times are one `interval` apart, and have the
    most frequent remainder of the times by it. `interval` is a number of ticks or a duration; without it `method` says how it is
    found: `median` of the intervals (the default), `mode`, or `cluster`: the center of the largest of three clusters of intervals.

    The cost is the number of points times that of regular times, unless the times are regular.
    """

    input_data_types = NUMERIC

    def validate(self, validator: Validator) -> None:
        """Check the input and the method."""
        super().validate(validator)
        method = validator.get_parameters().get_string_or_default("method", "median").lower()
        validator.validate(lambda: method in METHODS, "Illegal method.")

    def read_attributes(self, parameters: Parameters) -> None:
        """Read the interval and the method."""
        self.limit = StepLimit.of("timestamprepair", parameters)
        self.method = parameters.get_string_or_default("method", "median").lower()
        text = parameters.get_string("interval")
        self.interval = None if text is None else parse_duration(text, parameters) or parameters.get_int("interval")
        if self.interval is not None and self.interval <= 0:
            raise ParameterError("Invalid time unit input. Supported units are ns, us, ms, s, m, h, d.")

    def compute(self, times: Times, values: Values) -> Points:
        """Return the points at regular times. A series of less than three points stays as it is."""
        values = np.where(np.isfinite(values), values, np.nan)
        if len(times) < 3:
            return times, self.truncate(values)
        interval = find_interval(times, self.method) if self.interval is None else self.interval
        regular = regular_times(times, interval)
        if len(regular) == len(times) and (np.asarray(regular, np.int64) == times).all():
            return times, self.truncate(values)
        self.limit.add(STEPS_PER_PAIR * len(regular) * len(times), f"{len(times)} points and {len(regular)} regular times")
        grid = np.asarray(regular, np.int64)
        repaired = np.full(len(grid), np.nan)
        for place, index in match_times(times, grid):
            repaired[place] = values[index]
        return grid, self.truncate(repaired)

    def truncate(self, values: Values) -> npt.NDArray[np.generic]:
        """Return values as integers if the type is one, 0 for NaN."""
        return np.nan_to_num(values).astype(np.int64) if self.data_type in {Type.INT32, Type.INT64} else values


def find_interval(times: Times, method: str) -> int:
    """Return the normal interval of at least three times, in ticks."""
    intervals = np.diff(times)
    if method == "median":
        # As in IoTDB, the last interval is left out, but not where the middle is.
        ordered, middle = np.sort(intervals[:-1]), len(intervals) // 2
        middle = min(middle, len(ordered) - 1)
        return int(ordered[middle] if len(intervals) % 2 else (ordered[max(middle - 1, 0)] + ordered[middle]) // 2)
    return find_mode(intervals) if method == "mode" else find_largest_cluster(intervals)


def find_mode(values: npt.NDArray[np.int64]) -> int:
    """Return the most frequent value, of several the one that comes first."""
    distinct, first, count = np.unique(values, return_index=True, return_counts=True)
    return int(distinct[np.lexsort((first, -count))[0]])


def find_largest_cluster(values: npt.NDArray[np.int64]) -> int:
    """Return the center of the largest of three clusters, by k-means in whole ticks."""
    low, high = int(values.min()), int(values.max())
    centers = np.array([low + i * (high - low) // (CLUSTERS + 1) for i in range(1, CLUSTERS + 1)])
    labels = np.full(len(values), -1)
    while True:
        nearest = np.abs(values[:, None] - centers).argmin(axis=1)
        counts = np.bincount(nearest, minlength=CLUSTERS)
        if (nearest == labels).all():
            return int(centers[counts.argmax()])
        labels = nearest
        sums = [values[labels == cluster].sum() for cluster in range(CLUSTERS)]
        centers = np.where(counts > 0, sums // np.maximum(counts, 1), centers)


def regular_times(times: Times, interval: int) -> range:
    """Return regular times from the first time or just before to the last one or just after. They may be very many."""
    remainder = find_mode(times % interval)
    first, last = int(times[0]), int(times[-1])
    start = first - (first - remainder) % interval
    number = -((start - last) // interval) + 1
    return range(start, start + number * interval, interval)


def match_times(times: Times, grid: Times) -> list[tuple[int, int]]:
    """Return which regular times take the values of which points, by their indices, so that the cost is least.

    `cost[j]` is that of the first `i` regular times and the first `j` points, `i` row by row. Deleting several points in a row is
    a running minimum, since each costs the same.
    """
    deletions = ADDITION_COST * np.arange(len(times) + 1)
    steps = np.empty((len(grid) + 1, len(times) + 1), np.int8)
    steps[0] = DELETE
    cost = deletions
    for i, moment in enumerate(grid, 1):
        moved, added = cost[:-1] + np.abs(times - moment), cost + ADDITION_COST
        best = np.append(added[0], np.minimum(added[1:], moved))
        row = np.minimum.accumulate(best - deletions) + deletions
        steps[i, 1:] = np.where(cost[1:] < row[:-1], ADD, DELETE)
        is_match = (moved < np.minimum(cost[1:], row[:-1]) + ADDITION_COST) | (times == moment)
        steps[i, 1:][is_match] = MATCH
        steps[i, 0] = ADD
        cost = row
    return trace(steps)


def trace(steps: npt.NDArray[np.int8]) -> list[tuple[int, int]]:
    """Return the matches of the least cost, from the last one to the first."""
    i, j = steps.shape[0] - 1, steps.shape[1] - 1
    matches = []
    while i and j:
        step = steps[i, j]
        if step == MATCH:
            matches.append((i - 1, j - 1))
        i -= step != DELETE
        j -= step != ADD
    return matches
