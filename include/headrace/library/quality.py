"""Data quality: how much of a series is missing, redundant, late or implausible.

All functions give one value between 0 and 1 for each window of more than 10 rows, at the time of its first row. The attribute
`window` is a number of rows or a duration; without it, the series is one window. Texts have no quality.

The normal interval of a window is the median of its intervals. An interval of half of it or less is redundant, and one of twice
of it or more lacks points, which may follow too closely within the next ten: those are late.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Final

import numpy as np

from headrace.library.series import NUMERIC, Times, Values, interpolate, parse_duration, read_columns
from headrace.library.sliding import Flags
from headrace.udf import (
    UDTF,
    ParameterError,
    Parameters,
    PointCollector,
    RowWindow,
    SlidingSizeWindowAccessStrategy,
    SlidingTimeWindowAccessStrategy,
    Type,
    UDTFConfigurations,
    Validator,
)

MIN_ROWS: Final = 11
LOOKAHEAD_ROWS: Final = 10
MAX_REDUNDANT_RATIO: Final = 0.5
MIN_GAP_RATIO: Final = 2.0
MAX_GAP_RATIO: Final = 9.0
"""A longer gap is downtime."""
MAX_ROWS: Final = 2**31 - 1


class QualityFunction(UDTF, ABC):
    """A function that scores windows."""

    def validate(self, validator: Validator) -> None:
        """Require one input, of any type."""
        validator.validate_input_series_number(1)

    def before_start(self, parameters: Parameters, configurations: UDTFConfigurations) -> None:
        """Declare the windows."""
        self.downtime = parameters.get_boolean_or_default("downtime", default=True)
        self._is_numeric = parameters.get_data_type(0) in NUMERIC
        window = parameters.get_string_or_default("window", str(MAX_ROWS))
        if duration := parse_duration(window, parameters):
            configurations.set_access_strategy(SlidingTimeWindowAccessStrategy(duration, skips_empty=True))
        else:
            rows = parameters.get_int_or_default("window", MAX_ROWS)
            configurations.set_access_strategy(SlidingSizeWindowAccessStrategy(rows))
        configurations.set_output_data_type(Type.DOUBLE)

    def transform(self, window: RowWindow, collector: PointCollector) -> None:
        """Add the score of a window."""
        if not self._is_numeric or len(window) < MIN_ROWS:
            return
        times, (values,) = read_columns(window.batch)
        if not (np.diff(times) > 0).all():
            raise ParameterError("two rows have the same time; rate the rows of one series, such as those of PARTITION BY tbname")
        score = self.score(times, values)
        if not math.isnan(score):
            collector.put(int(times[0]), score)

    @abstractmethod
    def score(self, times: Times, values: Values) -> float:
        """Return the score of a window, NaN for none."""


class Completeness(QualityFunction):
    """The share of points that are there.

    `1 - (missing + special) / (rows + missing)`, where special values are NaN and infinite. A gap of more than 9 normal intervals
    is a time without operation, in which nothing is missing, unless `downtime` is false.
    """

    def score(self, times: Times, values: Values) -> float:
        """Return the completeness of a window."""
        missing = find_time_errors(times, self.downtime).missing
        special = np.count_nonzero(~np.isfinite(values))
        return 1 - (missing + special) / (len(times) + missing)


class Consistency(QualityFunction):
    """The share of points that do not follow the one before too closely: `1 - redundant / rows`."""

    def score(self, times: Times, values: Values) -> float:  # noqa: ARG002
        """Return the consistency of a window."""
        return 1 - find_time_errors(times).redundant / len(times)


class Timeliness(QualityFunction):
    """The share of points that are on time: `1 - late / rows`."""

    def score(self, times: Times, values: Values) -> float:  # noqa: ARG002
        """Return the timeliness of a window."""
        return 1 - find_time_errors(times).late / len(times)


class Validity(QualityFunction):
    """The share of values that are plausible.

    `1 - (outliers of the values + of their differences + of their speeds + of the differences of speeds) / (4 * rows)`, where an
    outlier is more than 3 standard deviations from the median, and a standard deviation is 1.4826 times the median distance from
    the median. Special values are interpolated first.
    """

    def score(self, times: Times, values: Values) -> float:
        """Return the validity of a window, NaN if it has less than two finite values."""
        values = interpolate(times, values)
        if np.isnan(values[0]):
            return math.nan
        differences = np.diff(values)
        speeds = differences / np.diff(times)
        outliers = sum(map(count_outliers, (values, differences, speeds, np.diff(speeds))))
        return 1 - outliers / 4 / len(values)


def count_outliers(values: Values) -> int:
    """Return how many values are more than three standard deviations from the median."""
    distances = values.copy()
    np.abs(np.subtract(distances, np.median(distances, overwrite_input=True), out=distances), out=distances)
    return int(np.count_nonzero(distances > 3 * (1.4826 * np.median(distances, overwrite_input=True))))


@dataclass(slots=True)
class TimeErrors:
    """What is wrong with the times of a window, in points."""

    missing: int = 0
    redundant: int = 0
    late: int = 0


def find_time_errors(times: Times, downtime: bool = True) -> TimeErrors:
    """Count the points that are missing, redundant or late.

    Only points that follow too closely, and gaps with one of them ahead, are checked one after another: they change which points
    follow each other. All other gaps are counted at once.
    """
    intervals = np.diff(times)
    normal = float(np.median(intervals))
    ratios = intervals / normal
    is_short = ratios <= MAX_REDUNDANT_RATIO
    is_gap = (ratios >= MIN_GAP_RATIO) & ((ratios <= MAX_GAP_RATIO) | (not downtime))
    is_checked = is_short | (is_gap & has_short_ahead(is_short))
    errors, ticks, checked = TimeErrors(), np.ascontiguousarray(times).data, 0
    for start in np.flatnonzero(is_checked).tolist():
        if start >= checked:
            checked = check_points(ticks, start, normal, downtime, errors)
            is_gap[start:checked] = False
    errors.missing += int(np.floor(ratios[is_gap] - 0.5).sum())
    return errors


def has_short_ahead(is_short: Flags) -> Flags:
    """Return for each interval whether a short one follows between the points that are compared with its end."""
    counts = np.concatenate([[0], np.cumsum(is_short)])
    first = np.minimum(np.arange(1, len(counts)), len(counts) - 1)
    has_short: Flags = counts[np.minimum(first + LOOKAHEAD_ROWS - 2, len(counts) - 1)] > counts[first]
    return has_short


def check_points(ticks: memoryview[int], start: int, normal: float, downtime: bool, errors: TimeErrors) -> int:
    """Count the errors from a point on, until no late point is ahead. Return the index of the next point to check."""
    end = min(start + LOOKAHEAD_ROWS, len(ticks))
    ahead = list(range(start, end))
    while len(ahead) > 1:
        ratio = (ticks[ahead[1]] - ticks[ahead[0]]) / normal
        if ratio <= MAX_REDUNDANT_RATIO:
            del ahead[1]
            errors.redundant += 1
        elif ratio >= MIN_GAP_RATIO and (ratio <= MAX_GAP_RATIO or not downtime):
            lacking = math.floor(ratio - 0.5)
            late = take_late_points(ticks, ahead, normal, lacking)
            errors.late += late
            errors.missing += lacking - late
        del ahead[0]
        refilled = min(end + LOOKAHEAD_ROWS - len(ahead), len(ticks))
        ahead += range(end, refilled)
        end = refilled
        if ahead and end - ahead[0] == len(ahead):
            return ahead[0]
    return end


def take_late_points(ticks: memoryview[int], ahead: list[int], normal: float, lacking: int) -> int:
    """Remove points that follow too closely, up to the next gap and to as many as a gap lacks. Return their number."""
    late, index = 0, 2
    while index < len(ahead) and late < lacking:
        ratio = (ticks[ahead[index]] - ticks[ahead[index - 1]]) / normal
        if ratio >= MIN_GAP_RATIO:
            break
        if ratio <= MAX_REDUNDANT_RATIO:
            del ahead[index]
            late += 1
        else:
            index += 1
    return late


FUNCTIONS: Final = {
    "UDTFCompleteness": Completeness,
    "UDTFConsistency": Consistency,
    "UDTFTimeliness": Timeliness,
    "UDTFValidity": Validity,
}
"""The functions by the class names of IoTDB's library."""
