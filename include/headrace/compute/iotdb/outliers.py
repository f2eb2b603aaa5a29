"""Outliers of buckets of equal size, by four measures. All full buckets are computed at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from headrace.compute.iotdb.java_heap import top_indexes

Array = npt.NDArray[Any]
Places = npt.NDArray[np.int64]
Score = Callable[[Array, Array], Array]


def from_mean(_: Array, values: Array) -> Array:
    return np.asarray(np.abs(values - values.mean(axis=1, keepdims=True)))


def from_line(times: Array, values: Array) -> Array:
    """Return the distance of inner points from the line through the first and the last point."""
    start, end = slice(0, 1), slice(-1, None)
    rise, run = values[:, start] - values[:, end], times[:, end] - times[:, start]
    constant = times[:, start] * values[:, end] - times[:, end] * values[:, start]
    return np.asarray(np.abs(rise * times + run * values + constant) / np.sqrt(rise * rise + run * run))[:, 1:-1]


def by_angle(times: Array, values: Array) -> Array:
    """Return the cosine of the angle at inner points."""
    x, y = np.diff(times, axis=1), np.diff(values, axis=1)
    lengths = np.sqrt(x * x + y * y)
    return np.asarray((x[:, :-1] * x[:, 1:] + y[:, :-1] * y[:, 1:]) / (lengths[:, :-1] * lengths[:, 1:]))


def from_neighbors(times: Array, values: Array) -> Array:
    """Return the distance of inner points from both neighbors, in time and value."""
    steps = np.abs(np.diff(times, axis=1)) + np.abs(np.diff(values, axis=1))
    return np.asarray(steps[:, :-1] + steps[:, 1:])


OUTLIERS: Final[dict[str, Score]] = {
    "avg": from_mean,
    "stendis": from_line,
    "cos": by_angle,
    "prenextdis": from_neighbors,
}


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
