"""The local outlier factor."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.lib.stride_tricks import sliding_window_view

from headrace.library.series import NUMERIC, Values, read_columns
from headrace.library.steps import StepLimit
from headrace.udf import (
    UDTF,
    ParameterError,
    Parameters,
    PointCollector,
    RowWindow,
    SlidingSizeWindowAccessStrategy,
    Type,
    UDTFConfigurations,
    Validator,
)

STEPS_PER_PAIR: Final = 4
MAX_DISTANCES_AT_ONCE: Final = 200_000


class LocalOutlierFactor(UDTF):
    """How crowded it is around each point, compared with the average of a window: the lower, the lonelier, as in IoTDB.

    With S(x) = Σ max(|o - x|, distance of x to its k-th neighbor) over all points o of the window, the factor of x is
    Σ S(o) / (k · S(x)). Several inputs are the coordinates of a point; a NULL is 0, as in IoTDB. Rows with a value that is not
    finite are left out.

    Attributes:
        k: The number of neighbors, 3 by default. Windows with k points or fewer have no factors.
        window: The points of a window, 10000 by default.
        method: `default`, or `series`, which compares subsequences: those of 5 values in windows of 10000 points; with `window`
            set, subsequences and windows have the same size, and there is nothing to compare.

    For n points the cost is n · (k + log window) for one input, and n · window for several and for `series`.
    """

    def validate(self, validator: Validator) -> None:
        """Require numeric inputs."""
        for index in range(max(validator.get_parameters().get_child_expressions_size(), 1)):
            validator.validate_input_series_data_type(index, *NUMERIC)

    def before_start(self, parameters: Parameters, configurations: UDTFConfigurations) -> None:
        """Read and check the attributes."""
        self._k = parameters.get_int_or_default("k", 3)
        self._method = parameters.get_string_or_default("method", "default")
        self._length = parameters.get_int_or_default("window", 5)
        window = parameters.get_int_or_default("window", 10_000)
        if self._k < 1:
            raise ParameterError("k should be larger than 0.")
        self._limit = StepLimit.of("lof", parameters)
        configurations.set_access_strategy(SlidingSizeWindowAccessStrategy(window))
        configurations.set_output_data_type(Type.DOUBLE)

    def transform(self, row: RowWindow, collector: PointCollector) -> None:
        """Add the factors of the points of a window."""
        columns = [row.batch["time"], *(pc.fill_null(column, 0) for column in row.batch.columns[1:])]
        times, coordinates = read_columns(pa.RecordBatch.from_arrays(columns, row.batch.schema.names))
        points = np.stack(coordinates, axis=1)
        is_finite = np.isfinite(points).all(axis=1)
        times, points = times[is_finite], points[is_finite]
        if self._method == "series":
            if len(points) < self._length:
                return
            points = sliding_window_view(points[:, 0], self._length)
        elif self._method != "default":
            return
        if points.shape[1] > 1:
            self._limit.add(STEPS_PER_PAIR * len(points) ** 2, f"windows of {len(points)} points")
        if len(points) > self._k:
            collector.put_batch(times[: len(points)], outlier_factors(points, self._k))


def outlier_factors(points: Values, k: int) -> Values:
    """Return the factor of each point, one a row. There are more than k points."""
    sums = reachability_on_line(points[:, 0], k) if points.shape[1] == 1 else reachability(points, k)
    with np.errstate(divide="ignore", invalid="ignore"):
        factors: Values = sums.sum() / sums / k
    return factors


def reachability(points: Values, k: int) -> Values:
    """Return S of each point."""
    from scipy.spatial import KDTree
    from scipy.spatial.distance import cdist

    nearest = KDTree(points).query(points, k + 1)[0][:, k:]
    sums = np.empty(len(points))
    rows = max(MAX_DISTANCES_AT_ONCE // len(points), 1)
    for first in range(0, len(points), rows):
        distances = cdist(points[first : first + rows], points)
        sums[first : first + rows] = np.maximum(distances, nearest[first : first + rows], out=distances).sum(axis=1)
    return sums


def reachability_on_line(values: Values, k: int) -> Values:
    """Return S of each value: in order, neighbors are adjacent, and sums of distances follow from sums of values."""
    order = np.argsort(values)
    ordered = values[order] - values.mean()
    nearest = np.full(len(values), np.inf)
    for before in range(k + 1):
        inner = slice(before, len(values) - k + before)
        left, right = ordered[: len(values) - k], ordered[k:]
        nearest[inner] = np.minimum(nearest[inner], np.maximum(ordered[inner] - left, right - ordered[inner]))
    first, last = np.searchsorted(ordered, ordered - nearest, "left"), np.searchsorted(ordered, ordered + nearest, "right")
    sums_before = np.concatenate([[0.0], ordered.cumsum()])
    lower = first * ordered - sums_before[first]
    upper = sums_before[-1] - sums_before[last] - (len(values) - last) * ordered
    sums = np.empty(len(values))
    sums[order] = lower + upper + (last - first) * nearest
    return sums
