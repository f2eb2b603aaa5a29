"""Means and variances of sliding windows, at a cost that does not depend on the size of the windows."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from headrace.library.series import Values

Flags = npt.NDArray[np.bool_]


class SlidingWindows:
    """All windows of `size` consecutive values: n - size + 1 windows for n values.

    The values are cut into blocks of `size`, so that each window is the tail of a block and the head of the next one. Sums run over
    the tails and heads only, and over differences from the center of a block: nothing is lost where values are large and change
    little, or before and after an extreme value. Arrays have a row for each block, and a column for each offset in it.
    """

    def __init__(self, values: Values, size: int) -> None:
        """Cut at least `size` values into blocks."""
        blocks = np.pad(values, (0, size - len(values) % size), mode="edge").reshape(-1, size)
        self._number = len(values) - size + 1
        self._head_counts = np.arange(size)
        self._centers = find_centers(blocks)
        self._shifts = np.diff(self._centers, axis=0)
        self._values = blocks - self._centers
        self._tails, self._heads = sum_tails_and_heads(self._values)
        self._sums = self._tails + self._heads + self._head_counts * self._shifts

    def means(self) -> Values:
        """Return the mean of each window."""
        return (self._centers[:-1] + self._sums / len(self._head_counts)).ravel()[: self._number]

    def cross_products(self, other: SlidingWindows) -> Values:
        """Return Σ (x - mean(x)) (y - mean(y)) of each window, for the values x and those of `other`, y."""
        tails, heads = sum_tails_and_heads(self._values * other._values)
        heads += self._shifts * other._heads + other._shifts * self._heads
        heads += self._head_counts * (self._shifts * other._shifts)
        products = tails + heads - self._sums * other._sums / len(self._head_counts)
        return products.ravel()[: self._number]


def find_centers(blocks: Values) -> Values:
    """Return a value in the middle of each block: the median of its first, middle and last one."""
    size = blocks.shape[1]
    return np.sort(blocks[:, [0, size // 2, size - 1]], axis=1)[:, 1:2]


def sum_tails_and_heads(blocks: Values) -> tuple[Values, Values]:
    """Return for each window the sum of its values in the block in which it begins, and of those in the next block."""
    tails = blocks[:-1, ::-1].cumsum(axis=1)[:, ::-1]
    heads = np.zeros_like(tails)
    np.cumsum(blocks[1:, :-1], axis=1, out=heads[:, 1:])
    return tails, heads


def any_in_windows(flags: Flags, size: int) -> Flags:
    """Return for each window of `size` flags whether any is set."""
    count = np.concatenate([[0], flags.cumsum()])
    any_set: Flags = count[size:] != count[:-size]
    return any_set
