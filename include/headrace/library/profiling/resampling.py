"""Series with a point at regular times."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

import numpy as np
import numpy.typing as npt

from headrace.library.series import NO_POINTS, Points, SeriesFunction, Times, Values, parse_duration
from headrace.udf import ParameterError, Parameters, Validator

AGGREGATES: Final = ("mean", "max", "min", "first", "last", "median")
INTERPOLATIONS: Final = ("nan", "ffill", "bfill", "linear")
MAX_POINTS: Final = 50_000_000


class Resample(SeriesFunction):
    """A point at each multiple of `every`, from `start` or the first point, to before `end` or to the last point.

    Several values from one such time to the next are aggregated by `aggr`: `mean` (the default), `max`, `min`, `first`, `last` or
    `median`; a single one stays at its own time. A time without a value is NaN or interpolated as `interp` says: `nan` (the
    default), `ffill` by the value before, `bfill` by the value after, `linear` by the line through both, also beyond the first and
    the last one. NaN values are left out. `start` and `end` are `yyyy-MM-dd HH:mm:ss` in UTC.
    """

    def validate(self, validator: Validator) -> None:
        """Check the input, and that the interval is an attribute."""
        super().validate(validator)
        validator.validate_required_attribute("every")

    def read_attributes(self, parameters: Parameters) -> None:
        """Read the interval, the methods, and the range."""
        self.every = parse_duration(parameters.get_string_or_default("every", ""), parameters)
        self.aggregate = parameters.get_string_or_default("aggr", "mean").lower()
        self.interpolation = parameters.get_string_or_default("interp", "nan").lower()
        self.start, self.end = read_moment(parameters, "start"), read_moment(parameters, "end")
        if self.every <= 0:
            raise ParameterError("gap should be a time period whose unit is ms, s, m, h, d.")
        if self.aggregate not in AGGREGATES:
            raise ParameterError("aggr should be min, max, mean, median, first, last.")
        if self.interpolation not in INTERPOLATIONS:
            raise ParameterError("interp should be nan, ffill, bfill, linear.")

    def compute(self, times: Times, values: Values) -> Points:
        """Return the points, and none if there are values in less than two intervals."""
        is_used = ~np.isnan(values)
        is_used &= times >= self.start if self.start is not None else True
        is_used &= times < self.end if self.end is not None else True
        times, values = times[is_used], values[is_used]
        if not len(times):
            return NO_POINTS
        start = int(times[0]) if self.start is None else self.start
        known_times, known_values = aggregate(times, values, start, self.every, self.aggregate)
        end = int(times[-1]) + 1 if self.end is None else self.end
        if (end - start) // self.every > MAX_POINTS:
            raise ParameterError(f"every has to be longer: a series is resampled to at most {MAX_POINTS} points")
        if len(known_times) < 2:
            return NO_POINTS
        grid = np.arange(start, end, self.every)
        return grid, interpolate_at(grid, known_times, known_values, self.interpolation)


def read_moment(parameters: Parameters, key: str) -> int | None:
    """Return an attribute that is a time in UTC, in ticks, or None if it is missing."""
    text = parameters.get_string(key)
    if text is None:
        return None
    try:
        moment = datetime.strptime(text, "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC)
    except ValueError:
        raise ParameterError(f"{key} should conform to the format yyyy-MM-dd HH:mm:ss.") from None
    return int(moment.timestamp()) * parameters.ticks_per_second


def aggregate(times: Times, values: Values, start: int, every: int, method: str) -> tuple[Times, Values]:
    """Return a point for each interval that has values: a single value as it is, several aggregated at its start."""
    interval = (times - start) // every
    firsts = np.flatnonzero(np.diff(interval, prepend=-1))
    counts = np.diff(np.append(firsts, len(times)))
    moments = np.where(counts == 1, times[firsts], start + interval[firsts] * every)
    if method == "mean":
        return moments, np.add.reduceat(values, firsts) / counts
    if method in {"min", "max"}:
        return moments, (np.minimum if method == "min" else np.maximum).reduceat(values, firsts)
    if method == "median":
        ordered = values[np.lexsort((values, interval))]
        return moments, (ordered[firsts + (counts - 1) // 2] + ordered[firsts + counts // 2]) / 2
    return moments, values[firsts if method == "first" else firsts + counts - 1]


def interpolate_at(grid: Times, times: Times, values: Values, method: str) -> Values:
    """Return the values at the times of a grid: those of points, and interpolated ones between at least two points."""
    after = np.searchsorted(times, grid).clip(1, len(times) - 1)
    before = after - 1
    filled = fill_between(grid, times[before], values[before], times[after], values[after], method)
    filled = np.where(grid == times[before], values[before], filled)
    return np.where(grid == times[after], values[after], filled)


def fill_between(grid: Times, t0: Times, x0: Values, t1: Times, x1: Values, method: str) -> npt.NDArray[np.float64]:
    """Return the values at the times of a grid from the points before and after."""
    if method == "linear":
        line: Values = (x0 * (t1 - grid) + x1 * (grid - t0)) / (t1 - t0)
        return line
    if method == "ffill":
        return np.where(grid >= t1, x1, np.where(grid >= t0, x0, np.nan))
    if method == "bfill":
        return np.where(grid <= t0, x0, np.where(grid <= t1, x1, np.nan))
    return np.full(len(grid), np.nan)
