"""Clusters of the windows of a series."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

import numpy as np
import numpy.typing as npt
from scipy import fft

from headrace.library.series import Points, SeriesFunction, Times, Values
from headrace.library.steps import StepLimit
from headrace.udf import ParameterError, Parameters, Type, Validator

Labels = npt.NDArray[np.int64]

MIN_NORM: Final = 1e-9
SHAPE_STEPS: Final = 4
NUDGE: Final = 1e-4
"""How far a cluster that became empty begins from the largest one, so that they may part."""
METHODS: Final = ("kmeans", "kshape", "medoidshape")
OUTPUTS: Final = ("label", "centroid")


class Clusters(SeriesFunction):
    """Clusters of the windows of `l` points that follow each other: the number of its cluster at the first time of each window.

    `kmeans` assigns windows to the nearest mean. `kshape` takes 1 - max(NCC) for the distance, where NCC is the correlation of two
    windows shifted against each other, and the main direction of its windows for the center of a cluster. `medoidshape` takes k
    windows for centers, one after another: the one of a random sample by which the NCC of all windows gains most. The first k
    windows are the first centers. Values that are not finite are left out, and so are the points after the last whole window.

    Attributes:
        l: The points of a window; required.
        k: The number of clusters, at least 2; required. The series must have as many windows.
        method: `kmeans` (default), `kshape` or `medoidshape`.
        norm: Whether to bring windows to mean 0 and standard deviation 1, `true` by default.
        maxiter: The most iterations, 200 by default.
        output: `label` (default), or `centroid` for the centers one after another, at the times 0, 1, 2, ….
        sample_rate: The share of windows that `medoidshape` looks at for each center, 0.3 by default.

    For n points the cost of an iteration is n · k, for `kshape` n · k · log l + k · l³.
    """

    def validate(self, validator: Validator) -> None:
        """Require one numeric input, the sizes, and valid choices."""
        super().validate(validator)
        validator.validate_required_attribute("l").validate_required_attribute("k")
        parameters = validator.get_parameters()
        method, output = (
            parameters.get_string_or_default(*choice).lower() for choice in (("method", "kmeans"), ("output", "label"))
        )
        rate = parameters.get_double_or_default("sample_rate", 0.3)
        for is_valid, problem in (
            (parameters.get_int_or_default("l", 0) > 0, "l must be a positive integer."),
            (parameters.get_int_or_default("k", 0) >= 2, "k must be at least 2."),
            (method in METHODS, f"method must be one of: {', '.join(METHODS)}."),
            (parameters.get_int_or_default("maxiter", 200) >= 1, "maxiter must be a positive integer."),
            (output in OUTPUTS, "output must be label or centroid."),
            (0 < rate <= 1, "sample_rate must be in (0, 1]."),
        ):
            validator.validate(bool, f"Parameter {problem}", is_valid)

    def choose_output_data_type(self, parameters: Parameters) -> Type:  # noqa: ARG002
        """Return INT32 for labels, DOUBLE for centers."""
        return Type.DOUBLE if self._returns_centers else Type.INT32

    def read_attributes(self, parameters: Parameters) -> None:
        """Read the attributes."""
        self._length, self._count = parameters.get_int_or_default("l", 1), parameters.get_int_or_default("k", 2)
        self._method = parameters.get_string_or_default("method", "kmeans").lower()
        self._normalizes = parameters.get_boolean_or_default("norm", default=True)
        self._iterations = parameters.get_int_or_default("maxiter", 200)
        self._returns_centers = parameters.get_string_or_default("output", "label").lower() == "centroid"
        self._sample_rate = parameters.get_double_or_default("sample_rate", 0.3)
        self._limit = StepLimit.of("cluster", parameters)

    def compute(self, times: Times, values: Values) -> Points:
        """Return the labels or the centers."""
        is_finite = np.isfinite(values)
        times, values = times[is_finite], values[is_finite]
        number = len(values) // self._length
        if number < self._count:
            raise ParameterError(f"{self._count} clusters need as many windows of {self._length} points; the series has {number}")
        windows = values[: number * self._length].reshape(number, self._length)
        labels, centers = self._cluster(normalize(windows) if self._normalizes else windows)
        if self._returns_centers:
            return np.arange(centers.size), centers.ravel()
        return times[: number * self._length : self._length], labels

    def _cluster(self, windows: Values) -> tuple[Labels, Values]:
        if self._method == "kmeans":
            return find_means(windows, self._count, self._iterations, self._limit)
        if self._method == "kshape":
            scale = normalize if self._normalizes else to_unit_length
            cost = self._count * (SHAPE_STEPS * windows.size * np.log2(2 * self._length) + self._length**3)
            return iterate(
                windows,
                self._count,
                self._iterations,
                shape_distances,
                lambda members: scale(main_direction(members)),
                self._limit,
                cost,
            )
        self._limit.add(self._count**2 * len(windows), f"{len(windows)} windows with {self._count} clusters")
        medoids = choose_medoids(windows, self._count, self._iterations, self._sample_rate, self._limit)
        return shape_distances(windows, medoids).argmin(axis=1), medoids


def find_means(windows: Values, count: int, iterations: int, limit: StepLimit) -> tuple[Labels, Values]:
    """Return the labels and centers of `kmeans`."""
    from scipy.spatial.distance import cdist

    nudge = np.where(np.arange(windows.shape[1]) == 0, NUDGE, -NUDGE)
    distances = partial(cdist, metric="sqeuclidean")
    return iterate(windows, count, iterations, distances, lambda members: members.mean(axis=0), limit, count * windows.size, nudge)


def iterate(
    windows: Values,
    count: int,
    iterations: int,
    find_distances: Callable[[Values, Values], Values],
    find_center: Callable[[Values], Values],
    limit: StepLimit,
    cost: float,
    nudge: Values | float = 0.0,
) -> tuple[Labels, Values]:
    """Return labels and centers: assign windows to the nearest center and move the centers, until no window changes its cluster.

    `cost` are the steps of one iteration.
    """
    labels, centers = np.full(len(windows), -1), windows[:count]
    for number in range(1, iterations + 1):
        limit.add(cost, f"{number} iterations over {len(windows)} windows with {count} clusters")
        last_labels, labels = labels, find_distances(windows, centers).argmin(axis=1)
        sizes = np.bincount(labels, minlength=count)
        replacement = centers[sizes.argmax()] + nudge
        members = [windows[labels == label] for label in range(count)]
        centers = np.stack([find_center(part) if len(part) else replacement for part in members])
        if np.array_equal(labels, last_labels):
            break
    return labels, centers


def shape_distances(windows: Values, centers: Values) -> Values:
    """Return 1 - max(NCC) of each window and center."""
    size = fft.next_fast_len(2 * windows.shape[1] - 1, real=True)
    spectra = fft.rfft(windows, size)
    norms = np.linalg.norm(windows, axis=1)
    distances = np.empty((len(windows), len(centers)))
    for index, center in enumerate(centers):
        products = fft.irfft(spectra * fft.rfft(center, size).conj(), size)
        scale = norms * np.linalg.norm(center)
        largest = np.concatenate([products[:, : len(center)], products[:, size - len(center) + 1 :]], axis=1).max(axis=1)
        distances[:, index] = 1 - np.where(scale < MIN_NORM, 0.0, largest / np.maximum(scale, MIN_NORM))
    return distances


def main_direction(members: Values) -> Values:
    """Return the direction in which windows extend most, to the side on which most of them are."""
    if len(members) == 1:
        only: Values = members[0]
        return only
    _, directions = np.linalg.eigh(members.T @ members)
    direction: Values = directions[:, -1]
    if (members @ direction).sum() < 0:
        direction = -direction
    return direction


def choose_medoids(windows: Values, count: int, iterations: int, rate: float, limit: StepLimit) -> Values:
    """Return windows for centers: each is the one of a sample by which the NCC of means and nearest centers gains most."""
    labels, means = find_means(windows, min(2 * count, len(windows)), iterations, limit)
    similarity = 1 - shape_distances(windows, means)
    sizes, best = np.bincount(labels, minlength=len(means)), np.full(len(means), -np.inf)
    generator, chosen = np.random.default_rng(0), np.zeros(0, np.int64)
    for _ in range(count):
        pool = np.setdiff1d(np.arange(len(windows)), chosen)
        sample = generator.permutation(pool)[: max(int(rate * len(windows)), 1)]
        gains = np.maximum(similarity[sample], best) @ sizes
        chosen = np.append(chosen, sample[gains.argmax()])
        best = np.maximum(best, similarity[chosen[-1]])
    return windows[chosen]


def normalize(windows: Values) -> Values:
    """Return windows with mean 0 and standard deviation 1; a window that does not vary is 0."""
    centered = windows - windows.mean(axis=-1, keepdims=True)
    deviations = np.sqrt((centered**2).mean(axis=-1, keepdims=True))
    normalized: Values = np.where(deviations < MIN_NORM, 0.0, centered / np.maximum(deviations, MIN_NORM))
    return normalized


def to_unit_length(direction: Values) -> Values:
    """Return a direction of length 1, or 0 if it has none."""
    norm = float(np.linalg.norm(direction))
    return np.zeros_like(direction) if norm < MIN_NORM else direction / norm
