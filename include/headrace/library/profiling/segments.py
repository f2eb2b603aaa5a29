"""Piecewise linear approximations of a series."""

from __future__ import annotations

import heapq

import numpy as np

from headrace.library.series import NO_POINTS, Points, SeriesFunction, Times, Values
from headrace.library.steps import StepLimit
from headrace.udf import ParameterError, Parameters


class Segment(SeriesFunction):
    """Lines that approximate the finite values, with a mean absolute error below `error`, by default 0.1.

    Bottom-up: from segments of two values on, those two neighbors are joined whose common line has the least error, while that is
    below `error`. Lines are fitted by least squares, with the same distance between all values. `output` is `first`, the default,
    for the beginning of each line, or `all` for the line at all times. The only `method` is `bottom-up`.

    Joining takes quadratic time at worst, which the limit of steps takes for the cost.
    """

    def read_attributes(self, parameters: Parameters) -> None:
        """Read the error and the output."""
        self.limit = StepLimit.of("segment", parameters)
        self.error = parameters.get_double_or_default("error", 0.1)
        self.output = parameters.get_string_or_default("output", "first").lower()
        if parameters.get_int_or_default("window", 10) <= 0:
            raise ParameterError("Window size should be a positive integer.")
        if self.error < 0:
            raise ParameterError("Error bound should be no less than 0.")
        if parameters.get_string_or_default("method", "bottom-up").lower() != "bottom-up":
            raise ParameterError("Method is illegal.")
        if self.output not in {"first", "all"}:
            raise ParameterError("Output type is invalid.")

    def compute(self, times: Times, values: Values) -> Points:
        """Return the beginning of each line, or all of it."""
        is_finite = np.isfinite(values)
        times, values = times[is_finite], values[is_finite]
        self.limit.add(len(values) ** 2, f"{len(values)} values")
        if not len(values):
            return NO_POINTS
        starts = join_segments(values, self.error)
        lines = [fit_line(part) for part in np.split(values, starts[1:])]
        if self.output == "first":
            return times[starts], [line[0] for line in lines]
        return times, np.concatenate(lines)


def join_segments(values: Values, max_error: float) -> list[int]:
    """Return the indices at which the segments start. The segment at a start ends at the next one."""
    if len(values) <= 3:
        return [0]
    starts = list(range(0, len(values) - 1, 2))
    ends = dict(zip(starts, [*starts[1:], len(values)], strict=True))
    previous = dict(zip(starts[1:], starts, strict=False))
    costs = {start: fit_error(values[start : ends[ends[start]]]) for start in starts[:-1]}
    heap = [(cost, start) for start, cost in costs.items()]
    heapq.heapify(heap)
    while heap and heap[0][0] < max_error:
        cost, start = heapq.heappop(heap)
        if costs.get(start) != cost:
            continue  # The segment has been joined, or has another neighbor by now.
        joined = ends[start]
        ends[start] = ends.pop(joined)
        costs.pop(joined, None)
        if ends[start] < len(values):
            previous[ends[start]] = start
        for changed in (start, previous.get(start)):
            if changed is None:
                continue
            if ends[changed] == len(values):
                costs.pop(changed, None)
                continue
            costs[changed] = fit_error(values[changed : ends[ends[changed]]])
            heapq.heappush(heap, (costs[changed], changed))
    return sorted(ends)


def fit_line(values: Values) -> Values:
    """Return the line of least squares through values at the same distance."""
    if len(values) <= 2:
        return values
    x = np.arange(len(values)) - (len(values) - 1) / 2
    slope = (x @ (values - values.mean())) / (x @ x)
    line: Values = slope * x + values.mean()
    return line


def fit_error(values: Values) -> float:
    """Return the mean absolute error of the line of least squares."""
    return float(np.abs(fit_line(values) - values).mean())
