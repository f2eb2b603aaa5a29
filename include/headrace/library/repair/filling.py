"""Values for those that are missing."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

import numpy as np
import numpy.typing as npt

from headrace.library.repair.speeds import RepairFunction, find_speed_limits, find_speeds, find_window_ends
from headrace.library.series import Points, Times, Values, interpolate
from headrace.udf import ParameterError, Parameters

MAX_ERROR_RATIO: Final = 1e-4
MAX_ITERATIONS: Final = 10_000
MAX_BLOCK_VALUES: Final = 1 << 22

Rows = npt.NDArray[np.intp]


class ValueFill(RepairFunction):
    """Values for NaN and infinite ones, by one of several methods.

    `method` is one of these:

    - `linear` (the default): the line between the values before and after, by number of rows; the first value before it, and the
      last value after it. As in IoTDB, the value after also fills the rows that follow the first row of the series.
    - `previous`: the value before; none before the first value.
    - `mean`: the mean of all values.
    - `ar`: an autoregressive model of order 1, `x[i] = theta * x[i-1] + e` with `theta = sum(x[i-1] * x[i]) / sum(x[i-1] ** 2)` and
      the mean error `e`. The first row gets the mean.
    - `screen`: the median of the values that the next ones within five intervals allow at normal speeds (see `valuerepair`),
      within the range that the value before allows.
    - `likelihood`: values whose speeds change least, found by up to 10000 steps from those of linear interpolation; none before
      the first and after the last value.
    """

    def read_attributes(self, parameters: Parameters) -> None:
        """Read the method."""
        method = parameters.get_string_or_default("method", "linear").lower()
        if method not in METHODS:
            raise ParameterError("Illegal method")
        self.fill = METHODS[method]

    def compute(self, times: Times, values: Values) -> Points:
        """Return all points, with the values that were missing."""
        values = np.where(np.isfinite(values), values, np.nan)
        if np.isnan(values).any():
            values = self.fill(times, values)
        return times, self.round_to_type(values)


def fill_linear(times: Times, values: Values) -> Values:  # noqa: ARG001
    """Fill by the line between the values before and after, by number of rows."""
    rows = np.arange(len(values))
    present = np.flatnonzero(~np.isnan(values))
    if not len(present):
        return values
    filled = np.interp(rows, present, values[present])
    if present[0] == 0 and len(present) > 1:
        filled[1 : present[1]] = values[present[1]]
    return filled


def fill_previous(times: Times, values: Values) -> Values:  # noqa: ARG001
    """Fill by the value before."""
    return values[np.maximum.accumulate(np.where(np.isnan(values), 0, np.arange(len(values))))]


def fill_mean(times: Times, values: Values) -> Values:  # noqa: ARG001
    """Fill by the mean."""
    return np.where(np.isnan(values), find_mean(values), values)


def find_mean(values: Values) -> float:
    """Return the mean of the values that are not NaN. Raise `ParameterError` if all are."""
    if np.isnan(values).all():
        raise ParameterError("All values are NaN")
    return float(np.nanmean(values))


def fill_autoregressive(times: Times, values: Values) -> Values:  # noqa: ARG001
    """Fill by an autoregressive model of order 1."""
    mean, x = find_mean(values), np.nan_to_num(values)
    squares = float(x[:-1] @ x[:-1])
    theta = float(x[:-1] @ x[1:]) / squares if squares else np.nan
    errors = values[1:] - theta * values[:-1]
    if not abs(theta) < 1 or np.isnan(errors).all():
        raise ParameterError("Cannot fit AR(1) model. Please try another method.")
    error = float(np.nanmean(errors))
    started = values.copy()
    started[0] = mean if np.isnan(values[0]) else values[0]
    rows = np.arange(len(values))
    last = np.maximum.accumulate(np.where(np.isnan(started), 0, rows))
    decay = theta ** (rows - last)
    return decay * started[last] + error * (1 - decay) / (1 - theta)


def fill_by_speed(times: Times, values: Values) -> Values:
    """Fill by what the next values and the value before allow at normal speeds. Without two values in a row there are none."""
    if np.isnan(find_speeds(times, values)).all():
        return values
    limits = find_speed_limits(times, values)
    missing = np.flatnonzero(np.isnan(values))
    middles = find_middles_ahead(times, values, missing, limits)
    steps = (times[missing] - times[missing - 1]).tolist()
    filled = values.copy()
    for index, middle, step in zip(missing.tolist(), middles.tolist(), steps, strict=True):
        previous = float(filled[index - 1]) if index else math.nan
        value = previous if math.isnan(middle) else middle
        bounds = previous + limits[0] * step, previous + limits[1] * step
        filled[index] = value if math.isnan(previous) else min(max(value, bounds[0]), bounds[1])
    return filled


def find_middles_ahead(times: Times, values: Values, rows: Rows, limits: tuple[float, float]) -> Values:
    """Return the middle of what the values in the windows of some rows allow there: each its lowest and highest. NaN for none."""
    sizes, middles = find_window_ends(times)[rows] - rows - 1, np.full(len(rows), np.nan)
    for size in np.unique(sizes[sizes > 0]).tolist():
        selected = np.flatnonzero(sizes == size)
        for block in np.array_split(selected, len(selected) * size // MAX_BLOCK_VALUES + 1):
            ahead = rows[block, None] + np.arange(1, size + 1)
            distances, following = times[ahead] - times[rows[block], None], values[ahead]
            bounds = np.sort(np.concatenate([following - speed * distances for speed in limits], axis=1), axis=1)
            number = np.count_nonzero(~np.isnan(following), axis=1)
            middle = np.take_along_axis(bounds, np.minimum(number, size)[:, None], axis=1)[:, 0]
            middles[block] = np.where(number > 0, middle, np.nan)
    return middles


def fill_likely(times: Times, values: Values) -> Values:
    """Fill by values whose speeds change least: the sum of the squares of the changes is minimized, value by value."""
    present = np.flatnonzero(~np.isnan(values))
    if len(present) < 2:
        return values
    inside = slice(present[0], present[-1] + 1)
    filled, t = interpolate(times[inside], values[inside]), times[inside].astype(np.float64)
    gaps = np.flatnonzero(np.isnan(values[inside]))
    for _ in range(MAX_ITERATIONS):
        updated = minimize_speed_changes(t, filled, gaps)
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.max(np.abs(updated - filled[gaps]) / filled[gaps], initial=0)
        filled[gaps] = updated
        if not ratio > MAX_ERROR_RATIO:
            break
    return np.concatenate([values[: present[0]], filled, values[present[-1] + 1 :]])


def minimize_speed_changes(t: Values, x: Values, gaps: npt.NDArray[np.intp]) -> Values:
    """Return, for each gap, the value that minimizes the squares of the changes of speed at it, before it and after it.

    As in IoTDB, the distance to the point before the one before is negative, so the change before is not quite that of the speed.
    """
    before, after = t[gaps] - t[gaps - 1], t[gaps + 1] - t[gaps]
    both = before + after
    square = (both / (before * after)) ** 2
    linear = -2 * both / (before * after) * (x[gaps - 1] / before + x[gaps + 1] / after)
    for near, far, step in ((gaps - 1, gaps - 2, before), (gaps + 1, gaps + 2, after)):
        has_far = (far >= 0) & (far < len(x))
        far = far.clip(0, len(x) - 1)
        further = np.where(has_far, t[far] - t[near], 1)
        change = 2 * x[far] / (further * step) - 2 * (further + step) * x[near] / (further * step**2)
        square = square + has_far / step**2
        linear = linear + has_far * change
    return -linear / (2 * square)


METHODS: Final[dict[str, Callable[[Times, Values], Values]]] = {
    "ar": fill_autoregressive,
    "likelihood": fill_likely,
    "linear": fill_linear,
    "mean": fill_mean,
    "previous": fill_previous,
    "screen": fill_by_speed,
}
