"""Points that stand out: the greatest or least, with ties broken like the server's queue; and outliers of buckets of equal size."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import numpy.typing as npt

Values = npt.NDArray[Any]
BLOCK: Final = 4096


def top_indexes(values: Values, count: int, *, greatest: bool) -> npt.NDArray[np.int64]:
    """Return the indexes of the `count` greatest or least values, ascending.

    A value beyond the queue's head replaces it; other values are skipped a block at a time.
    """
    queue = PriorityQueue(values, greatest)
    for index in range(min(count, len(values))):
        queue.add(index)
    index = count
    while (
        next_index := next_beyond(values, index, values[queue.indexes[0]] if queue.indexes else None, greatest=greatest)
    ) is not None:
        queue.replace_head(next_index)
        index = next_index + 1
    return np.sort(np.array(queue.indexes, dtype=np.int64))


def next_beyond(values: Values, start: int, head: Any, *, greatest: bool) -> int | None:
    """Return the first index from `start` whose value is beyond the head. NaN never is."""
    for first in range(start, len(values), BLOCK):
        block = values[first : first + BLOCK]
        beyond = np.flatnonzero(block > head if greatest else block < head)
        if len(beyond):
            return first + int(beyond[0])
    return None


class PriorityQueue:
    """A binary heap of indexes, sifted like Java's. NaN sorts after all other numbers."""

    def __init__(self, values: Values, greatest: bool) -> None:
        self.values = values
        self.greatest = greatest
        self.indexes: list[int] = []

    def before(self, left: int, right: int) -> bool:
        first, second = self.values[left], self.values[right]
        is_before = first < second if self.greatest else first > second
        return bool(is_before or (first == first and second != second))

    def add(self, index: int) -> None:
        """Append an index and move it up while it sorts before its parent."""
        indexes, position = self.indexes, len(self.indexes)
        indexes.append(index)
        while position > 0 and self.before(index, indexes[(position - 1) // 2]):
            indexes[position] = indexes[(position - 1) // 2]
            position = (position - 1) // 2
        indexes[position] = index

    def replace_head(self, index: int) -> None:
        """Remove the head, then add an index, in the server's order of steps."""
        last = self.indexes.pop()
        if self.indexes:
            self._sift_down(last)
        self.add(index)

    def _sift_down(self, index: int) -> None:
        """Put an index at the head and move it down while a child sorts before it."""
        indexes, position, size = self.indexes, 0, len(self.indexes)
        while position < size // 2:
            child = 2 * position + 1
            if child + 1 < size and self.before(indexes[child + 1], indexes[child]):
                child += 1
            if not self.before(indexes[child], index):
                break
            indexes[position], position = indexes[child], child
        indexes[position] = index


Array = npt.NDArray[Any]
Places = npt.NDArray[np.int64]
Score = Callable[[Array, Array], Array]


def from_mean(_: Array, values: Array) -> Array:
    return np.asarray(np.abs(values - values.mean(axis=1, keepdims=True)))


def from_line(times: Array, values: Array) -> Array:
    start, end = slice(0, 1), slice(-1, None)
    rise, run = values[:, start] - values[:, end], times[:, end] - times[:, start]
    constant = times[:, start] * values[:, end] - times[:, end] * values[:, start]
    return np.asarray(np.abs(rise * times + run * values + constant) / np.sqrt(rise * rise + run * run))[:, 1:-1]


def by_angle(times: Array, values: Array) -> Array:
    x, y = np.diff(times, axis=1), np.diff(values, axis=1)
    lengths = np.sqrt(x * x + y * y)
    return np.asarray((x[:, :-1] * x[:, 1:] + y[:, :-1] * y[:, 1:]) / (lengths[:, :-1] * lengths[:, 1:]))


def from_neighbors(times: Array, values: Array) -> Array:
    steps = np.abs(np.diff(times, axis=1)) + np.abs(np.diff(values, axis=1))
    return np.asarray(steps[:, :-1] + steps[:, 1:])


OUTLIERS: Final[dict[str, Score]] = {"avg": from_mean, "stendis": from_line, "cos": by_angle, "prenextdis": from_neighbors}


def outlier_indexes(times: Array, values: Array, size: int, name: str, number: int) -> Places:
    """Return the indexes of `number` points of each bucket; the last bucket may be short."""
    full_length = len(times) // size * size
    places = [np.empty(0, np.int64)]
    for first, last, length in ((0, full_length, size), (full_length, len(times), len(times) - full_length)):
        if last > first:
            block = [array[first:last].astype(float).reshape(-1, length) for array in (times, values)]
            places.append(first + bucket_indexes(block[0], block[1], name, number))
    return np.concatenate(places)


def bucket_indexes(times: Array, values: Array, name: str, number: int) -> Places:
    """Return the indexes of the outliers in a matrix with one bucket per row."""
    count, length = times.shape
    offsets = (np.arange(count) * length)[:, None]
    if length <= number + 2 and (name != "avg" or length <= number):
        return np.asarray(offsets + small_bucket_outliers(length, number)).ravel()
    with np.errstate(invalid="ignore", divide="ignore"):
        scores = OUTLIERS[name](times, values)
    inner = 0 if name == "avg" else 1
    best = best_indexes(scores, number, greatest=name != "cos")
    return np.asarray(offsets + inner + best).ravel()


def small_bucket_outliers(length: int, number: int) -> Places:
    """Return the outliers of a bucket with at most two points more than requested; with two more, the inner points."""
    if length <= number:
        return np.arange(length)
    return np.arange(number) if length == number + 1 else np.arange(1, length - 1)


def best_indexes(scores: Array, number: int, *, greatest: bool) -> Places:
    """Return the indexes of the best scores of each bucket, ascending. Ties are broken like in the server's queue."""
    ranked = -scores if greatest else scores
    order = np.argsort(ranked, axis=1, kind="stable")
    ordered = np.take_along_axis(ranked, order, axis=1)
    best: Places = np.sort(order[:, :number], axis=1)
    tied = np.isnan(ordered).any(axis=1)
    if scores.shape[1] > number:
        tied |= ordered[:, number - 1] == ordered[:, number]
    for bucket in np.flatnonzero(tied):
        best[bucket] = top_indexes(scores[bucket], number, greatest=greatest)
    return best
