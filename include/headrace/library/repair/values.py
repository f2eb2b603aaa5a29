"""Values that change at normal speeds."""

from __future__ import annotations

import heapq
from typing import Final

import numpy as np
import numpy.typing as npt

from headrace.library.repair.speeds import RepairFunction, find_deviation, find_speed_limits, find_speeds, find_window_ends
from headrace.library.series import Points, Times, Values, interpolate
from headrace.library.steps import StepLimit
from headrace.udf import ParameterError, Parameters

METHODS: Final = ("screen", "lsgreedy")
MAX_BLOCK_VALUES: Final = 1 << 22
MIN_CHANGE: Final = 1e-12
STEPS_PER_REDUCTION: Final = 5000


class ValueRepair(RepairFunction):
    """Values that change at normal speeds. NaN and infinite values are interpolated first.

    With `method` = `screen`, the default, speeds stay between `minSpeed` and `maxSpeed`, by tick: by default the median speed
    without or with three standard deviations, which are 1.4826 times the median distance from the median. A value becomes the
    median of itself and of what the next values within five intervals allow, within what the repaired value before allows.

    With `lsgreedy`, changes of speed stay within three times `sigma` of `center` (0): the largest is reduced first, until none is
    larger. `sigma` is by default the standard deviation, found in the same way. A reduction costs 5000 steps; if many changes
    have to be reduced, their number grows with the third power of that of the rows.
    """

    def read_attributes(self, parameters: Parameters) -> None:
        """Read the method and its limits."""
        self.method = parameters.get_string_or_default("method", "screen").lower()
        self.low, self.high = parameters.get_double("minSpeed"), parameters.get_double("maxSpeed")
        self._limit = StepLimit.of("valuerepair", parameters)
        self.center, self.sigma = parameters.get_double_or_default("center", 0), parameters.get_double("sigma")
        if self.method not in METHODS:
            raise ParameterError("Illegal method.")
        if self.sigma is not None and self.sigma <= 0:
            raise ParameterError("Parameter $sigma$ should be larger than 0.")
        if self.low is not None and self.high is not None and self.low >= self.high:
            raise ParameterError("parameter $minSpeed$ should be smaller than $maxSpeed$.")

    def compute(self, times: Times, values: Values) -> Points:
        """Return all points, with repaired values. Raise `ParameterError` if less than two are finite."""
        if not len(values):
            return times, values
        values = interpolate(times, values)
        if np.isnan(values[0]) or len(values) < 2:
            raise ParameterError("At least two non-NaN values are needed")
        repaired = self.limit_speeds(times, values) if self.method == "screen" else self.limit_changes(times, values)
        return times, self.round_to_type(repaired)

    def limit_speeds(self, times: Times, values: Values) -> Values:
        """Return values whose speeds are within the limits."""
        low, high = find_speed_limits(times, values)
        low, high = low if self.low is None else self.low, high if self.high is None else self.high
        return follow(times, find_middles(times, values, low, high), low, high)

    def limit_changes(self, times: Times, values: Values) -> Values:
        """Return values whose speeds change within the limits."""
        if len(values) < 3:
            return values
        sigma = find_deviation(np.diff(find_speeds(times, values))) if self.sigma is None else self.sigma
        return reduce_changes(times, values, self.center, sigma, self._limit)


def find_middles(times: Times, values: Values, low: float, high: float) -> Values:
    """Return the median of each value and of those that the next ones in its window allow: each one's lowest and highest.

    That is the value itself if it is within all of these.
    """
    sizes = find_window_ends(times) - np.arange(len(times)) - 1
    is_exceeded = np.zeros(len(times), bool)
    for ahead in range(1, int(sizes.max()) + 1):
        distances, changes = times[ahead:] - times[:-ahead], values[ahead:] - values[:-ahead]
        is_beyond = (changes < low * distances) | (changes > high * distances)
        is_exceeded[:-ahead] |= is_beyond & (sizes[:-ahead] >= ahead)
    middles = values.copy()
    for size in np.unique(sizes[is_exceeded]).tolist():
        rows = np.flatnonzero((sizes == size) & is_exceeded)
        for block in np.array_split(rows, len(rows) * size // MAX_BLOCK_VALUES + 1):
            middles[block] = find_block_middles(times, values, block, size, (low, high))
    return middles


def find_block_middles(times: Times, values: Values, rows: npt.NDArray[np.intp], size: int, limits: tuple[float, float]) -> Values:
    """Return the medians of some rows, whose windows have the same size."""
    ahead = rows[:, None] + np.arange(1, size + 1)
    distances, following = times[ahead] - times[rows, None], values[ahead]
    candidates = [values[rows, None], *(following - speed * distances for speed in limits)]
    return np.partition(np.concatenate(candidates, axis=1), size, axis=1)[:, size]


def follow(times: Times, middles: Values, low: float, high: float) -> Values:
    """Return values that follow others within the limits of speed. Only where those exceed the limits, it goes value by value."""
    steps = np.diff(times)
    lowest, highest = low * steps, high * steps
    is_exceeded = (middles[1:] < middles[:-1] + lowest) | (middles[1:] > middles[:-1] + highest)
    repaired, done = middles.copy(), 0
    for start in (np.flatnonzero(is_exceeded) + 1).tolist():
        for index in range(max(start, done), len(middles)):
            previous = repaired[index - 1]
            value = max(previous + lowest[index - 1], min(previous + highest[index - 1], middles[index]))
            if value == middles[index]:
                break
            repaired[index], done = value, index + 1
    return repaired


def reduce_changes(times: Times, values: Values, center: float, sigma: float, limit: StepLimit) -> Values:
    """Return values whose speeds change by at most three sigma from the center, by reducing the largest change first."""
    x, t = values.tolist(), times.tolist()
    changes = [0.0, *np.diff(find_speeds(times, values)).tolist()]
    heap = [(-abs(change - center), row) for row, change in enumerate(changes) if row and abs(change - center) > 3 * sigma]
    heapq.heapify(heap)
    while heap:
        excess, row = heapq.heappop(heap)
        if -excess < max(MIN_CHANGE, 3 * sigma):
            break
        if -excess != abs(changes[row] - center):
            continue  # The change has changed since.
        limit.add(STEPS_PER_REDUCTION, "reducing changes of speed")
        reduction = -excess if sigma < MIN_CHANGE else max(sigma, -excess / 3)
        rise = reduction * ((t[row + 1] - t[row]) * (t[row] - t[row - 1]) / (t[row + 1] - t[row - 1]))
        x[row] += rise if changes[row] > center else -rise
        for near in range(max(1, row - 1), min(len(x) - 2, row + 1) + 1):
            speed, next_speed = (x[near] - x[near - 1]) / (t[near] - t[near - 1]), (x[near + 1] - x[near]) / (t[near + 1] - t[near])
            changes[near] = next_speed - speed
            if abs(changes[near] - center) > 3 * sigma:
                heapq.heappush(heap, (-abs(changes[near] - center), near))
    return np.array(x)
