"""Integrals of a series by the trapezoidal rule."""

from __future__ import annotations

import numpy as np

from headrace.library.series import Points, SeriesFunction, Times, Values, one_point, parse_duration
from headrace.udf import ParameterError, Parameters


class Integral(SeriesFunction):
    """The area below a series: `sum((x[i] + x[i+1]) / 2 * (t[i+1] - t[i])) / unit`, without special values.

    `unit` is the unit of time, by default `1s`. The integral of less than two values is 0.
    """

    def read_attributes(self, parameters: Parameters) -> None:
        """Read the unit."""
        self.unit = parse_duration(parameters.get_string_or_default("unit", "1s"), parameters)
        if self.unit <= 0:
            raise ParameterError("unit has to be a positive duration, such as 1s or 1h")

    def compute(self, times: Times, values: Values) -> Points:
        """Return the integral at time 0."""
        return one_point(integrate(times, values) / self.unit)


class IntegralAverage(SeriesFunction):
    """The time-weighted average of a series: its integral by the time from the first point to the last finite value.

    That of a single value is the value, and that of no value is 0.
    """

    def compute(self, times: Times, values: Values) -> Points:
        """Return the average at time 0."""
        finite = np.flatnonzero(np.isfinite(values))
        if not len(finite):
            return one_point(0)
        duration = times[finite[-1]] - times[0]
        return one_point(integrate(times, values) / duration if duration else values[0])


def integrate(times: Times, values: Values) -> float:
    """Return the integral of the finite values over ticks."""
    is_finite = np.isfinite(values)
    return float(np.trapezoid(values[is_finite], times[is_finite]))
