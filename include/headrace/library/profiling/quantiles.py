"""Quantiles of the finite values of a series.

IoTDB's functions estimate a quantile by a sketch if the attribute `error` is positive. These here find it exactly in any case, in
linear time; `error` only chooses the definition of a quantile between two values.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.library.profiling.median_deviation import estimate_median_deviation
from headrace.library.series import NO_POINTS, Points, RowsFunction, Values, one_point
from headrace.udf import ParameterError, Parameters


class QuantileFunction(RowsFunction, ABC):
    """A function of the finite values in the type of the input, at least one."""

    rank = 0.5

    def read_attributes(self, parameters: Parameters) -> None:
        """Read the rank and the error."""
        self.error = parameters.get_double_or_default("error", 0)
        if not 0 <= self.error < 1:
            raise ParameterError("error has to be greater than or equal to 0 and less than 1.")

    def compute_rows(self, rows: pa.RecordBatch) -> Points:
        """Return the points of the function, and none if there is no finite value."""
        times, values = (rows[name].to_numpy(zero_copy_only=False) for name in ("time", "x0"))
        is_finite = np.isfinite(values)
        return self.compute_finite(times[is_finite], values[is_finite]) if is_finite.any() else NO_POINTS

    @abstractmethod
    def compute_finite(self, times: npt.NDArray[np.int64], values: npt.NDArray[Any]) -> Points:
        """Return the points of the function."""


class Median(QuantileFunction):
    """The median: the value in the middle, or the mean of the two in the middle. With `error`, the lower of the two.

    The sum of two FLOAT values is a FLOAT, as in IoTDB's function.
    """

    def compute_finite(self, times: npt.NDArray[np.int64], values: npt.NDArray[Any]) -> Points:  # noqa: ARG002
        """Return the median at time 0."""
        return one_point(find_lower_quantile(values, 0.5) if self.error else find_median(values))


class MedianDeviation(QuantileFunction):
    """The median of the distances from the median: `median(abs(x - median(x)))`.

    With `error`, both medians are estimated from a histogram whose buckets have that relative width, as IoTDB's function does.
    """

    def compute_finite(self, times: npt.NDArray[np.int64], values: npt.NDArray[Any]) -> Points:  # noqa: ARG002
        """Return the deviation at time 0."""
        numbers = values.astype(np.float64)
        estimate = estimate_median_deviation(numbers, self.error) if self.error else None
        return one_point(find_median_deviation(numbers) if estimate is None else estimate)


class RankFunction(QuantileFunction):
    """A function that finds the value of a rank, in the type of the input."""

    output_data_type = None

    def read_attributes(self, parameters: Parameters) -> None:
        """Read the rank and the error."""
        super().read_attributes(parameters)
        self.rank = parameters.get_double_or_default("rank", 0.5)
        if not 0 < self.rank <= 1:
            raise ParameterError("rank has to be greater than 0 and less than or equal to 1.")


class Percentile(RankFunction):
    """The value at `rank`, by default 0.5: that at the index `ceil(n * rank)`, from 0, of the sorted values.

    It is at the last time that has this value. With `error`, it is that at the index `floor((n - 1) * rank)`, at time 0.
    """

    def compute_finite(self, times: npt.NDArray[np.int64], values: npt.NDArray[Any]) -> Points:
        """Return the value."""
        if self.error:
            return [0], [find_lower_quantile(values, self.rank)]
        value = find_sorted(values, math.ceil(len(values) * self.rank))
        return [times[np.flatnonzero(values == value)[-1]]], [value]


class Quantile(RankFunction):
    """The smallest value that is not exceeded by a share of at least `rank`, by default 0.5.

    That is the value at the index `floor(n * rank) - 1`, from 0, of the sorted values. `K`, the size of IoTDB's sketch, has no
    effect.
    """

    def read_attributes(self, parameters: Parameters) -> None:
        """Read the rank, and check the size of the sketch."""
        super().read_attributes(parameters)
        if parameters.get_int_or_default("K", 800) < 100:
            raise ParameterError("Size K has to be greater or equal than 100.")

    def compute_finite(self, times: npt.NDArray[np.int64], values: npt.NDArray[Any]) -> Points:  # noqa: ARG002
        """Return the value at time 0."""
        return [0], [find_sorted(values, int(self.rank * len(values)) - 1)]


def find_sorted(values: npt.NDArray[Any], index: int) -> Any:
    """Return the value at an index of the sorted values, or the first or last for an index beyond."""
    index = min(max(index, 0), len(values) - 1)
    return np.partition(values, index)[index]


def find_lower_quantile(values: npt.NDArray[Any], rank: float) -> Any:
    """Return the value at a rank, or the lower one of the two around it."""
    return find_sorted(values, int(rank * (len(values) - 1)))


def find_median(values: npt.NDArray[Any]) -> float:
    """Return the value in the middle, or the mean of the two there."""
    low, high = (len(values) - 1) // 2, len(values) // 2
    ordered = np.partition(values, (low, high))
    if low == high:
        return float(ordered[low])
    with np.errstate(over="ignore"):
        return float(np.add(ordered[low], ordered[high], dtype=np.float32 if values.dtype == np.float32 else np.float64)) / 2


def find_median_deviation(values: Values) -> float:
    """Return the median of the distances from the median."""
    return float(np.median(np.abs(values - np.median(values))))
