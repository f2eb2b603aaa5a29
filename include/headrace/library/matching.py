"""Data matching: how alike two series are, and where a series looks like a pattern."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.library.convolution import convolve
from headrace.library.patterns import DtwMatch, PatternMatch
from headrace.library.series import (
    Points,
    SeriesFunction,
    Times,
    Values,
    mean,
    one_point,
    read_columns,
    validate_inputs,
)
from headrace.library.steps import StepLimit
from headrace.udf import UDAF, UDTF, Parameters, PointCollector, Type, UDTFConfigurations, Validator

STEPS_PER_PAIR: Final = 2


@dataclass(slots=True)
class Moments:
    """Means of pairs of values, and sums of products of their differences from the means."""

    count: int = 0
    mean_x: float = 0.0
    mean_y: float = 0.0
    xx: float = 0.0
    xy: float = 0.0
    yy: float = 0.0

    def add(self, x: Values, y: Values) -> None:
        """Add pairs."""
        if not len(x):
            return
        mean_x, mean_y = mean(x), mean(y)
        dx, dy = x - mean_x, y - mean_y
        total = self.count + len(x)
        shift_x, shift_y, weight = mean_x - self.mean_x, mean_y - self.mean_y, self.count * len(x) / total
        self.xx += float(dx @ dx + weight * shift_x * shift_x)
        self.xy += float(dx @ dy + weight * shift_x * shift_y)
        self.yy += float(dy @ dy + weight * shift_y * shift_y)
        self.mean_x += shift_x * len(x) / total
        self.mean_y += shift_y * len(x) / total
        self.count = total


class PairStatistic(UDTF, ABC):
    """A number for two series, at time 0. Rows with a NULL or a value that is not finite are left out."""

    def validate(self, validator: Validator) -> None:
        """Require two numeric inputs."""
        validate_inputs(validator, 2)

    def before_start(self, parameters: Parameters, configurations: UDTFConfigurations) -> None:  # noqa: ARG002
        """Begin without pairs."""
        self._moments = Moments()
        configurations.set_output_data_type(Type.DOUBLE)

    def transform_batch(self, batch: pa.RecordBatch) -> None:
        """Add the pairs."""
        _, (x, y) = read_columns(batch)
        is_finite = np.isfinite(x) & np.isfinite(y)
        self._moments.add(x[is_finite], y[is_finite])

    def terminate(self, collector: PointCollector) -> None:
        """Add the number."""
        collector.put_double(0, self.compute(self._moments))

    @abstractmethod
    def compute(self, moments: Moments) -> float:
        """Return the number for all pairs, NaN for none."""


class Covariance(PairStatistic):
    """The covariance of two series: Σ (x - mean(x)) (y - mean(y)) / n. NaN without pairs."""

    def compute(self, moments: Moments) -> float:
        """Return the covariance."""
        return moments.xy / moments.count if moments.count else np.nan


class PearsonCorrelation(PairStatistic):
    """The correlation of two series: cov(x, y) / (σ(x) σ(y)), from -1 to 1. NaN without pairs, and if a series does not vary."""

    def compute(self, moments: Moments) -> float:
        """Return the correlation."""
        scale = (moments.xx * moments.yy) ** 0.5
        return moments.xy / scale if scale else np.nan


class DynamicTimeWarping(SeriesFunction):
    """The distance of two series if time may stretch, at time 0.

    It is the least Σ |xᵢ - yⱼ| over all paths of steps (i + 1, j), (i, j + 1) or (i + 1, j + 1) from the first values to the last.
    A NULL is 0, as in IoTDB; rows with a value that is not finite are left out. For n points the cost is n².
    """

    number_of_inputs = 2

    def read_attributes(self, parameters: Parameters) -> None:
        """Read the limit."""
        self._limit = StepLimit.of("dtw", parameters)

    def compute_rows(self, rows: pa.RecordBatch) -> Points:
        """Take NULL for 0."""
        columns = [pc.fill_null(column, 0) for column in rows.columns]
        return super().compute_rows(pa.RecordBatch.from_arrays(columns, rows.schema.names))

    def compute(self, times: Times, *values: Any) -> Points:  # noqa: ARG002
        """Return the distance."""
        x, y = values
        is_finite = np.isfinite(x) & np.isfinite(y)
        self._limit.add(STEPS_PER_PAIR * is_finite.sum() ** 2, f"{is_finite.sum()} points")
        return one_point(warped_distance(x[is_finite], y[is_finite]))


class SymmetricPattern(UDTF):
    """Windows that end as they begin: (last - first)², at the time of the first point, if it is not above a threshold.

    A window of several points of which one is not finite has no value.

    This is what IoTDB 1.3.4 computes, although it is meant to compare all points of a window with their mirror images.

    Attributes:
        window: The number of points of a window, 10 by default.
        threshold: The largest value to return; by default there is none.
    """

    def validate(self, validator: Validator) -> None:
        """Require one numeric input, a positive window, and a threshold that is not negative."""
        validate_inputs(validator)
        parameters = validator.get_parameters()
        window = parameters.get_int_or_default("window", 10)
        threshold = parameters.get_double_or_default("threshold", np.inf)
        validator.validate(lambda window: window > 0, "window has to be a positive integer.", window)
        validator.validate(lambda threshold: threshold >= 0, "threshold has to be non-negative.", threshold)

    def before_start(self, parameters: Parameters, configurations: UDTFConfigurations) -> None:
        """Read the attributes."""
        self._window = parameters.get_int_or_default("window", 10)
        self._threshold = parameters.get_double_or_default("threshold", np.inf)
        self._last_rows: list[pa.RecordBatch] = []
        configurations.set_output_data_type(Type.DOUBLE)

    def transform_batch(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the points of the windows that end in these rows."""
        rows = pa.concat_batches([*self._last_rows, batch])
        count = max(rows.num_rows - self._window + 1, 0)
        self._last_rows = [rows.slice(count)]
        times, (values,) = read_columns(rows)
        squares = (values[self._window - 1 :] - values[:count]) ** 2 if self._window > 1 else np.zeros(count)
        specials = np.cumsum(np.concatenate([[0], ~np.isfinite(values) & (self._window > 1)]))
        squares[specials[self._window :] > specials[:count]] = np.nan
        points = pa.RecordBatch.from_arrays([pa.array(times[:count]), pa.array(squares)], ["time", "value"])
        return points.filter(pa.array(squares <= self._threshold))


class CrossCorrelation(SeriesFunction):
    """The mean product of two series shifted against each other, at the times 0, 1, …, 2n - 2 for n points.

    The point at time s - 1 is Σ x(i) y(n - s + i) / s for the first s values of x and the last of y, with s ≤ n; the point at time
    n - 1 + s is Σ x(s + i) y(i) / n. A value that is not finite counts as 0, and a row with a NULL as 0 for both series. The cost
    is n · log n.
    """

    number_of_inputs = 2

    def compute_rows(self, rows: pa.RecordBatch) -> Points:
        """Take NULL for both inputs if it is there for one."""
        time, x, y = rows.columns
        is_pair = pc.and_(x.is_valid(), y.is_valid())
        columns = [time, *(pc.if_else(is_pair, column, None) for column in (x, y))]
        return super().compute_rows(pa.RecordBatch.from_arrays(columns, rows.schema.names))

    def compute(self, times: Times, *values: Any) -> Points:  # noqa: ARG002
        """Return the mean products."""
        x, y = (np.where(np.isfinite(series), series, 0) for series in values)
        count = len(x)
        divisors = np.minimum(np.arange(1, 2 * count), count)
        return np.arange(len(divisors)), convolve(x, y[::-1]) / divisors if count else []


def warped_distance(x: Values, y: Values) -> float:
    """Return the distance of two series of the same length.

    The cells (i, j) with the same i + j depend only on those of the two sums before, so that they are computed together. The arrays
    have the distance to the cell (i, j) at i + 1.
    """
    count = len(x)
    if not count:
        return 0.0
    reversed_y = y[::-1]
    before, last, current = (np.full(count + 1, np.inf) for _ in range(3))
    last[1] = abs(x[0] - y[0])
    for cells in range(1, 2 * count - 1):
        low, high = max(cells - count + 1, 0), min(cells, count - 1) + 1
        nearest = np.minimum(last[low + 1 : high + 1], last[low:high])
        np.minimum(nearest, before[low:high], out=nearest)
        offset = count - 1 - cells
        costs = np.abs(x[low:high] - reversed_y[offset + low : offset + high])
        np.add(nearest, costs, out=current[low + 1 : high + 1])
        before, last, current = last, current, before
    return float(last[count])


FUNCTIONS: Final[dict[str, type[UDTF] | type[UDAF]]] = {
    "UDAFCov": Covariance,
    "UDAFDtw": DynamicTimeWarping,
    "UDAFPearson": PearsonCorrelation,
    "UDTFPtnSym": SymmetricPattern,
    "UDTFXCorr": CrossCorrelation,
    "UDAFDTWMatch": DtwMatch,
    "UDAFPatternMatch": PatternMatch,
}
