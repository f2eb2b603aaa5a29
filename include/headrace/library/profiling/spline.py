"""Akima's spline through the values of a series."""

from __future__ import annotations

from typing import Final

import numpy as np

from headrace.library.series import NO_POINTS, Points, SeriesFunction, Times, Values
from headrace.udf import ParameterError, Parameters, Validator

MIN_VALUES: Final = 5
MAX_POINTS: Final = 50_000_000


class Spline(SeriesFunction):
    """`points` points of Akima's spline through the finite values, at regular times from the first to the last value.

    The slope at a value is the mean of the slopes `d` to its neighbors, weighted by how much the slopes change on the other side:
    `(w[i+1] * d[i-1] + w[i-1] * d[i]) / (w[i+1] + w[i-1])` with `w[i] = abs(d[i] - d[i-1])`. The two at each end are those of the
    parabola through three values. Series of less than five values, and less than two `points`, give nothing.
    """

    def validate(self, validator: Validator) -> None:
        """Check the input, and that the number of points is an attribute."""
        super().validate(validator)
        validator.validate_required_attribute("points")

    def read_attributes(self, parameters: Parameters) -> None:
        """Read the number of points."""
        self.points = parameters.get_int_or_default("points", 0)
        if self.points > MAX_POINTS:
            raise ParameterError(f"points has to be at most {MAX_POINTS}")

    def compute(self, times: Times, values: Values) -> Points:
        """Return the points."""
        from scipy.interpolate import CubicHermiteSpline

        is_finite = np.isfinite(values)
        times, values = times[is_finite], values[is_finite]
        if len(values) < MIN_VALUES or self.points < 2:
            return NO_POINTS
        x = (times - times[0]).astype(np.float64)
        steps = np.arange(self.points)
        moments = np.floor((x[0] * (self.points - 1 - steps) + x[-1] * steps) / (self.points - 1) + 0.5)
        return times[0] + moments.astype(np.int64), CubicHermiteSpline(x, values, find_slopes(x, values))(moments)


def find_slopes(x: Values, y: Values) -> Values:
    """Return the slope at each value."""
    d = np.diff(y) / np.diff(x)
    w = np.abs(np.diff(d))
    left, right = w[2:], w[:-2]
    steps = np.diff(x)[1:-1]
    weights = np.where(left + right == 0, [steps[1:], steps[:-1]], [left, right])
    inner = (weights[0] * d[1:-2] + weights[1] * d[2:-1]) / weights.sum(axis=0)
    ends = [
        parabola_slope(x[part], y[part], at)
        for part, at in ((slice(3), 0), (slice(3), 1), (slice(-3, None), 1), (slice(-3, None), 2))
    ]
    return np.concatenate([ends[:2], inner, ends[2:]])


def parabola_slope(x: Values, y: Values, at: int) -> float:
    """Return the slope at one of three points of the parabola through them."""
    t1, t2 = x[1] - x[0], x[2] - x[0]
    a = (y[2] - y[0] - t2 / t1 * (y[1] - y[0])) / (t2 * t2 - t1 * t2)
    b = (y[1] - y[0] - a * t1 * t1) / t1
    return float(2 * a * (x[at] - x[0]) + b)
