"""Correlations of a series with itself, at a lag."""

from __future__ import annotations

import math
from typing import Final

import numpy as np
import numpy.typing as npt

from headrace.library.series import NO_POINTS, Points, SeriesFunction, Times, Values, mean
from headrace.library.steps import StepLimit
from headrace.udf import ParameterError, Parameters, Type

MAX_DIRECT_ROWS: Final = 4096
"""Sums of products are computed one by one up to this number of rows, and by a Fourier transform beyond."""


class Autocorrelation(SeriesFunction):
    """The autocorrelation at all lags, from `-(n - 1)` to `n - 1`, at times 0 to `2 * n - 2`.

    The sum of `x[i] * x[i + lag]` is divided by the number of products at a lag up to 0, and by `n` at a positive one. Special
    values count as 0.
    """

    def compute(self, times: Times, values: Values) -> Points:  # noqa: ARG002
        """Return a point for each lag."""
        n = len(values)
        sums = sum_products(zero_special(values))
        negative = sums[::-1] / np.arange(1, n + 1)
        return np.arange(max(2 * n - 1, 0)), np.concatenate([negative, sums[1:] / max(n, 1)])


class PartialAutocorrelation(SeriesFunction):
    """The partial autocorrelation at the lags 0 to `lag`, at the times of the first points.

    That is the last coefficient of an autoregressive model of each order, found by the Durbin-Levinson recursion from the
    autocovariances `sum((x[i] - mean) * (x[i + k] - mean)) / (n - k)`. Special values count as 0. The default of `lag` is
    `min(floor(10 * log10(n)), n - 1)`. The cost grows with the square of the lag.
    """

    def read_attributes(self, parameters: Parameters) -> None:
        """Read the largest lag."""
        self.lag = parameters.get_int_or_default("lag", -1)
        self.limit = StepLimit.of("pacf", parameters)

    def compute(self, times: Times, values: Values) -> Points:
        """Return a point for each lag, and none for less than two rows."""
        n = len(values)
        if n < 2:
            return NO_POINTS
        lag = self.lag if 0 <= self.lag < n else min(int(10 * math.log10(n)), n - 1)
        self.limit.add(lag**2, f"a lag of {lag}")
        values = zero_special(values)
        covariances = sum_products(values - mean(values))[: lag + 1] / (n - np.arange(lag + 1))
        return times[: lag + 1], [1.0, *find_reflections(covariances)]


def find_reflections(covariances: Values) -> list[float]:
    """Return the last coefficient of the autoregressive model of each order from 1 on, by the Durbin-Levinson recursion."""
    coefficients, variance, reflections = np.empty(0), covariances[0], []
    for order in range(1, len(covariances)):
        explained = coefficients @ covariances[order - 1 : 0 : -1]
        with np.errstate(divide="ignore", invalid="ignore"):
            reflection = (covariances[order] - explained) / variance
        coefficients = np.append(coefficients - reflection * coefficients[::-1], reflection)
        variance *= 1 - reflection**2
        reflections.append(float(reflection))
    return reflections


class LjungBox(SeriesFunction):
    """The Ljung-Box test for white noise: for each lag `k` up to `lag` its autocorrelation, and the p-value of the test.

    The autocorrelation `r[k] = sum(x[i] * x[i + k]) / n` is at the time `n + k`. The p-value at the time `k` is the probability
    that a chi-squared variable with `k` degrees of freedom exceeds `n * (n + 2) * sum(r[j] ** 2 / (n - j), j <= k)`. Special values
    count as 0. The default of `lag` is `n - 2`. Scale the series with `zscore` first, as the test expects.
    """

    def read_attributes(self, parameters: Parameters) -> None:
        """Read the largest lag."""
        self.lag = parameters.get_int_or_default("lag", 0)
        if self.lag < 0:
            raise ParameterError("Parameter $lag$ should be an positive integer, or '0' for default value.")

    def compute(self, times: Times, values: Values) -> Points:  # noqa: ARG002
        """Return two points for each lag."""
        from scipy.special import chdtrc

        n = len(values)
        lags = np.arange(1, (self.lag if 0 < self.lag < n else n - 2) + 1)
        if not len(lags):
            return NO_POINTS
        correlations = sum_products(zero_special(values))[lags] / n
        statistics = np.cumsum(correlations**2 / (n - lags) * n * (n + 2))
        points = np.stack([n + lags, lags], axis=1), np.stack([correlations, chdtrc(lags, statistics)], axis=1)
        return points[0].ravel(), points[1].ravel()


class Period(SeriesFunction):
    """The period of a series in rows, 0 if there is none.

    That is the median distance of the peaks of the autocorrelation (Pearson's, of the rows that overlap): peaks exceed 0.5, and are
    the largest within a window that is as long as the lag of the first one, at most 100. Special values repeat the one before.
    """

    output_data_type = Type.INT32

    def compute(self, times: Times, values: Values) -> Points:  # noqa: ARG002
        """Return the period at time 0."""
        values = repeat_last(values)
        if not len(values):
            return NO_POINTS
        peaks = find_peaks(correlate_overlaps(values))
        return [0], [int(np.median(np.diff(peaks))) if len(peaks) > 1 else 0]


MIN_PEAK: Final = 0.5
MIN_VARIANCE_RATIO: Final = 1e-13
MAX_WINDOW: Final = 100


def find_peaks(correlations: Values) -> npt.NDArray[np.int64]:
    """Return the lags of the peaks, the first of which is 0."""
    from scipy.ndimage import maximum_filter1d

    middle = correlations[1:-1]
    is_peak = (middle > correlations[:-2]) & (middle > correlations[2:]) & (middle > MIN_PEAK)
    first = np.flatnonzero(is_peak[: MAX_WINDOW - 1])
    window = int(first[0]) + 1 if len(first) else MAX_WINDOW
    x = np.nan_to_num(correlations, nan=-np.inf)
    # The window of lag i has window // 2 lags before it. The first of equal ones is the largest.
    before, after = window // 2, window - window // 2
    lags = np.arange(before, len(x) - after + 1)
    if not len(lags):
        return np.zeros(1, np.int64)
    largest = maximum_filter1d(x, window, mode="nearest")[lags]
    peaks = lags[(x[lags] > MIN_PEAK) & (x[lags] == largest)]
    is_first = [bool(np.argmax(x[lag - before : lag + 1]) == before) for lag in peaks]
    return np.concatenate([[0], peaks[np.array(is_first, bool)]])


def correlate_overlaps(values: Values) -> Values:
    """Return Pearson's correlation of the first and the last `n - k` values for each lag `k` from 0 to `n - 1`."""
    x = values - values.mean()
    n, products = np.arange(len(x), 0, -1), sum_products(x)
    first, last = np.cumsum(x)[::-1], np.cumsum(x[::-1])[::-1]
    first_squares, last_squares = np.cumsum(x**2)[::-1], np.cumsum(x[::-1] ** 2)[::-1]
    scale = spread(n, first, first_squares) * spread(n, last, last_squares)
    correlations: Values = (n * products - first * last) / np.where(scale > 0, scale, np.nan)
    return correlations


def spread(n: npt.NDArray[np.int64], sums: Values, squares: Values) -> Values:
    """Return n times the standard deviation of n values each, 0 if all but rounding errors cancels out."""
    variances = n * squares - sums**2
    return np.sqrt(np.where(variances > MIN_VARIANCE_RATIO * n * squares, variances, 0.0))


def sum_products(values: Values) -> Values:
    """Return `sum(x[i] * x[i + k])` for each lag `k` from 0 to `n - 1`."""
    n = len(values)
    if n <= MAX_DIRECT_ROWS:
        return np.correlate(values, values, "full")[n - 1 :] if n else values
    from scipy.fft import irfft, next_fast_len, rfft

    length = next_fast_len(2 * n - 1, real=True)
    sums: Values = irfft(np.abs(rfft(values, length)) ** 2, length)[:n]
    return sums


def zero_special(values: Values) -> Values:
    """Return values with 0 for those that are not finite."""
    return np.where(np.isfinite(values), values, 0.0)


def repeat_last(values: Values) -> Values:
    """Return values with the last finite one for those that are not, without those before the first one."""
    index = np.maximum.accumulate(np.where(np.isfinite(values), np.arange(len(values)), -1))
    return values[index[index >= 0]]
