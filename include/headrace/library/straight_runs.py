"""Runs of points that lie on a straight line."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from headrace.library.series import Times, Values
from headrace.library.sliding import Flags, SlidingWindows, any_in_windows

MIN_R_SQUARED: Final = 0.9999
FIRST_LOOK_AHEAD: Final = 64
WINDOWS_AT_ONCE: Final = 20_000


def find_straight_runs(times: Times, values: Values, width: int) -> Iterator[tuple[int, int]]:
    """Yield the runs of points on a line, as `start` and `end`.

    Windows of `width` points follow each other until one is straight. It is extended to the run that contains it, but not beyond
    the second point of the window before. The next windows begin at its end.
    """
    if len(values) < width:
        return
    x = (times - times[0]).astype(np.float64)
    level_ends = np.append(np.flatnonzero(values[1:] != values[:-1]) + 1, len(values))
    windows = StraightWindows(x, values, width)
    end = 0
    while (first := windows.find(end)) is not None:
        limit = first if first == end else first - width + 1
        level = int(level_ends.searchsorted(first, "right"))
        if level_ends[level] >= first + width:
            start = max(int(level_ends[level - 1]) if level else 0, limit)
            end = int(level_ends[level])
        else:
            before = slice(limit, first + width)
            start = first + width - find_bend(x[before][::-1], values[before][::-1], width)
            end = start + find_bend(x[start:], values[start:], first + width - start)
        yield start, end


class StraightWindows:
    """The windows of `width` points that are straight."""

    def __init__(self, x: Values, y: Values, width: int) -> None:
        """Check all windows."""
        count = len(x) - width + 1
        parts = [slice(first, first + WINDOWS_AT_ONCE + width - 1) for first in range(0, count, WINDOWS_AT_ONCE)]
        straight = np.concatenate([find_straight_windows(x[part], y[part], width) for part in parts])
        rows = np.pad(straight, (0, -len(straight) % width)).reshape(-1, width)
        self._width, self._by_offset = width, [column.tobytes() for column in rows.T]

    def find(self, start: int) -> int | None:
        """Return the first straight window of those that begin at `start`, `start + width`, and so on."""
        row, offset = divmod(start, self._width)
        row = self._by_offset[offset].find(1, row)
        return None if row < 0 else row * self._width + offset


def find_straight_windows(x: Values, y: Values, width: int) -> Flags:
    """Return for each window of `width` points whether they are finite and lie on a line."""
    is_finite = np.isfinite(y)
    times, values = SlidingWindows(x, width), SlidingWindows(np.where(is_finite, y, 0.0), width)
    straight = is_straight(times.cross_products(times), values.cross_products(values), times.cross_products(values))
    straight &= ~any_in_windows(~is_finite, width)
    return straight | ~any_in_windows(y[1:] != y[:-1], width - 1)


def find_bend(x: Values, y: Values, count: int) -> int:
    """Return how many points lie on a line with the first `count` points."""
    size = FIRST_LOOK_AHEAD + 2 * count
    while True:
        bends = ~is_straight(*cross_products_of_prefixes(x[:size], y[:size]))[count:]
        if bends.any():
            return count + int(bends.argmax())
        if size >= len(x):
            return len(x)
        size *= 2


def cross_products_of_prefixes(x: Values, y: Values) -> tuple[Values, Values, Values]:
    """Return Σ (x - mean(x))², Σ (y - mean(y))² and Σ (x - mean(x)) (y - mean(y)) of the first 1, 2, … points."""
    x, y, count = x - x[0], y - y[0], np.arange(1, len(x) + 1)
    sum_x, sum_y = x.cumsum(), y.cumsum()
    pairs = ((x * x, sum_x * sum_x), (y * y, sum_y * sum_y), (x * y, sum_x * sum_y))
    xx, yy, xy = (products.cumsum() - product_of_sums / count for products, product_of_sums in pairs)
    return xx, yy, xy


def is_straight(xx: Values, yy: Values, xy: Values) -> Flags:
    """Return whether r² = xy² / (xx · yy) is at least 0.9999."""
    straight: Flags = xy * xy >= MIN_R_SQUARED * xx * yy
    return straight
