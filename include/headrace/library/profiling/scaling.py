"""Functions that give a value for each value of a series: scaled values and moving averages."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Final

import numpy as np
import pyarrow as pa

from headrace.library.series import NO_POINTS, Points, SeriesFunction, Times, Values, make_points, mean, read_columns
from headrace.udf import ParameterError, Parameters, Validator

MODES: Final = ("batch", "stream")


class Scaling(SeriesFunction, ABC):
    """A function `(x - offset) / divisor`.

    With `compute` = `batch`, which is the default, offset and divisor are those of all finite values, and the others give no point.
    With `stream` they are attributes, and each row is scaled as it comes.
    """

    offset: float
    divisor: float

    def validate(self, validator: Validator) -> None:
        """Check the input and the mode."""
        super().validate(validator)
        mode = validator.get_parameters().get_string_or_default("compute", "batch").lower()
        message = 'Parameter "compute" is illegal. Please use "batch" (for default) or "stream".'
        validator.validate(lambda: mode in MODES, message)

    def read_attributes(self, parameters: Parameters) -> None:
        """Read the mode, and what it needs."""
        self.is_stream = parameters.get_string_or_default("compute", "batch").lower() == "stream"
        if self.is_stream:
            self.read_scale(parameters)

    def transform_batch(self, batch: pa.RecordBatch) -> pa.RecordBatch | None:
        """Scale the rows of a stream, and keep those of a batch."""
        if not self.is_stream:
            return super().transform_batch(batch)
        times, (values,) = read_columns(batch)
        return make_points(times, self.scale(values))

    def compute(self, times: Times, values: Values) -> Points:
        """Return all finite values, scaled."""
        is_finite = np.isfinite(values)
        times, values = times[is_finite], values[is_finite]
        if not len(values):
            return NO_POINTS
        self.set_scale(values)
        return times, self.scale(values)

    def scale(self, values: Values) -> Values:
        """Return scaled values."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return (values - self.offset) / self.divisor

    @abstractmethod
    def read_scale(self, parameters: Parameters) -> None:
        """Set offset and divisor to those of the attributes."""

    @abstractmethod
    def set_scale(self, values: Values) -> None:
        """Set offset and divisor to those of values."""


class MinMax(Scaling):
    """Values scaled to the range from 0 to 1: `(x - min) / (max - min)`. A stream has the attributes `min` and `max`."""

    def read_scale(self, parameters: Parameters) -> None:
        """Read the range."""
        low, high = require_number(parameters, "min"), require_number(parameters, "max")
        if low >= high:
            raise ParameterError("parameter $min$ should be smaller than $max$.")
        self.offset, self.divisor = low, high - low

    def set_scale(self, values: Values) -> None:
        """Set the range to that of values."""
        self.offset, self.divisor = values.min(), values.max() - values.min()

    def compute(self, times: Times, values: Values) -> Points:
        """Return all finite values, scaled, unless they are all the same."""
        points = super().compute(times, values)
        return points if points is NO_POINTS or self.divisor > 0 else NO_POINTS


class ZScore(Scaling):
    """Distances from the mean in standard deviations: `(x - avg) / sd`. A stream has the attributes `avg` and `sd`.

    The standard deviation is that of a population.
    """

    def validate(self, validator: Validator) -> None:
        """Check the input, the mode, and the standard deviation."""
        super().validate(validator)
        deviation = validator.get_parameters().get_double_or_default("sd", 1.0)
        validator.validate(lambda: deviation > 0, 'Parameter "sd" is illegal. It should be larger than 0.')

    def read_scale(self, parameters: Parameters) -> None:
        """Read mean and standard deviation."""
        self.offset, self.divisor = require_number(parameters, "avg"), require_number(parameters, "sd")

    def set_scale(self, values: Values) -> None:
        """Set mean and standard deviation to those of values."""
        self.offset = mean(values)
        self.divisor = math.sqrt(mean((values - self.offset) ** 2))


def require_number(parameters: Parameters, key: str) -> float:
    """Return an attribute that is a number. Raise `ParameterError` if it is missing."""
    value = parameters.get_double(key)
    if value is None:
        raise ParameterError(f'attribute "{key}" is required but was not provided.')
    return value


class MovingAverage(SeriesFunction):
    """The change of the moving average of the last `window` finite values, by default of 10.

    IoTDB's function starts each sum with the value that leaves the window, not with the sum of the one before. So it gives
    `x[i] / window` for the first full window, and after a special value, and `(x[i] - x[i - window]) / window` otherwise, which is
    by how much the average changes. For an average, use `avg` and `GROUP BY`.
    """

    def read_attributes(self, parameters: Parameters) -> None:
        """Read the size of the window."""
        self.window = parameters.get_int_or_default("window", 10)
        if self.window <= 0:
            raise ParameterError("Window size should be larger than 0.")

    def compute(self, times: Times, values: Values) -> Points:
        """Return a point for each full window."""
        positions = np.flatnonzero(np.isfinite(values))
        first, finite = self.window - 1, values[positions]
        leaving = np.zeros(len(finite))
        leaving[self.window :] = finite[: -self.window]
        leaving[1:][np.diff(positions) > 1] = 0
        return times[positions][first:], ((finite - leaving) / self.window)[first:]
