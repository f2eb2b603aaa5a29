"""Models that are learned from a series."""

from __future__ import annotations

from typing import Final

import numpy as np

from headrace.library.clusters import Clusters
from headrace.library.series import Points, SeriesFunction, Times, Values
from headrace.library.steps import StepLimit
from headrace.udf import UDTF, ParameterError, Parameters

MAX_POINTS: Final = 100_000_000


class AutoregressiveModel(SeriesFunction):
    """Coefficients φ₁ … φₚ of the model xₜ = φ₁ xₜ₋₁ + … + φₚ xₜ₋ₚ, at the times 1 … p.

    They solve the Yule-Walker equations Σⱼ r(|i - j|) φⱼ = r(i) with r(i) = Σ xₜ xₜ₊ᵢ / (n - i). Gaps in the series are
    first filled by linear interpolation; its interval is that of most points, by majority vote. Points that are not finite count
    as gaps.

    Attributes:
        p: The order of the model, 1 by default. The series must have more points. For n points the cost is n · p + p².
    """

    def read_attributes(self, parameters: Parameters) -> None:
        """Read and check the order."""
        self._order = parameters.get_int_or_default("p", 1)
        if self._order < 1:
            raise ParameterError("p should be larger than 0.")
        self._limit = StepLimit.of("ar", parameters)

    def compute(self, times: Times, values: Values) -> Points:
        """Return the coefficients."""
        is_finite = np.isfinite(values)
        times, values = times[is_finite], values[is_finite]
        if len(times) <= self._order:
            raise ParameterError(
                f"a model of order {self._order} needs more than {self._order} points; the series has {len(times)}"
            )
        filled = fill_gaps(times, values)
        count = len(filled)
        self._limit.add(self._order * (count + self._order), f"{count} points and an order of {self._order}")
        covariances = np.array([filled[: count - lag] @ filled[lag:] / (count - lag) for lag in range(self._order + 1)])
        return np.arange(1, self._order + 1), solve_yule_walker(covariances)


def fill_gaps(times: Times, values: Values) -> Values:
    """Return the values with further ones where points are several intervals apart, on a line between them."""
    interval = most_frequent_interval(times)
    steps = np.maximum(np.diff(times) // interval, 1)
    count = int(steps.sum()) + 1
    if count > MAX_POINTS:
        raise ParameterError(f"with gaps of {interval} ticks filled, the series has {count} points, of at most {MAX_POINTS}")
    positions = np.concatenate([[0], np.cumsum(steps)])
    return np.interp(np.arange(count), positions, values)


def most_frequent_interval(times: Times) -> int:
    """Return the interval that wins a majority vote, in which the first one starts without a vote, as in IoTDB.

    Equal intervals in a row vote at once.
    """
    intervals = np.diff(times)
    starts = np.concatenate([[0], np.flatnonzero(np.diff(intervals)) + 1])
    lengths = np.diff(starts, append=len(intervals)).tolist()
    candidate, votes = int(intervals[0]), -1
    for interval, length in zip(intervals[starts].tolist(), lengths, strict=True):
        if interval == candidate:
            votes += length
        elif 0 < votes <= length:
            candidate, votes = interval, 1 + length - votes
        else:
            votes -= length
    return candidate


def solve_yule_walker(covariances: Values) -> Values:
    """Return the coefficients by Levinson's recursion; NaN if there are none, as for a series of zeros."""
    order = len(covariances) - 1
    coefficients = np.zeros(0)
    error = covariances[0]
    for lag in range(1, order + 1):
        with np.errstate(divide="ignore", invalid="ignore"):
            reflection = (covariances[lag] - coefficients @ covariances[lag - 1 : 0 : -1]) / error
        coefficients = np.append(coefficients - reflection * coefficients[::-1], reflection)
        error *= 1 - reflection * reflection
    return coefficients


FUNCTIONS: Final[dict[str, type[UDTF]]] = {"UDTFAR": AutoregressiveModel, "UDTFCluster": Clusters}
