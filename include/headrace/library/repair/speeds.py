"""Speeds of change, and the limits of normal ones."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from headrace.library.series import SeriesFunction, Times, Values
from headrace.udf import Parameters, Type

DEVIATION_FACTOR: Final = 1.4826
"""The standard deviation of a normal distribution by its median distance from the median."""
WINDOW_INTERVALS: Final = 5


class RepairFunction(SeriesFunction):
    """A function that repairs the numbers of a series, in the type of the input."""

    def choose_output_data_type(self, parameters: Parameters) -> Type:
        """Return the type of the input."""
        self.data_type = parameters.get_data_type(0)
        return self.data_type

    def round_to_type(self, values: Values) -> npt.NDArray[np.generic]:
        """Return values as integers if the type is one: the nearest ones, 0 for NaN."""
        if self.data_type not in {Type.INT32, Type.INT64}:
            return values
        return np.floor(np.nan_to_num(values) + 0.5).astype(np.int64)


def find_deviation(values: Values) -> float:
    """Return a robust standard deviation, without NaN: that of the median distance from the median."""
    return find_median_and_deviation(values)[1]


def find_median_and_deviation(values: Values) -> tuple[float, float]:
    """Return the median, and the standard deviation of the median distance from it. NaN are left out."""
    numbers = values[~np.isnan(values)]
    median = np.median(numbers, overwrite_input=True)
    np.abs(np.subtract(numbers, median, out=numbers), out=numbers)
    return float(median), DEVIATION_FACTOR * float(np.median(numbers, overwrite_input=True))


def find_speeds(times: Times, values: Values) -> Values:
    """Return the changes of values by tick, from each point to the next."""
    speeds: Values = np.diff(values) / np.diff(times)
    return speeds


def find_speed_limits(times: Times, values: Values) -> tuple[float, float]:
    """Return the lowest and the highest speed that are normal: the median, and three standard deviations to both sides."""
    middle, deviation = find_median_and_deviation(find_speeds(times, values))
    return middle - 3 * deviation, middle + 3 * deviation


def find_window_ends(times: Times) -> npt.NDArray[np.intp]:
    """Return the index after the last point of the window of each point, which is five median intervals long."""
    length = WINDOW_INTERVALS * float(np.median(np.diff(times)))
    return np.asarray(np.searchsorted(times, times + length, side="right"), np.intp)
