"""Samples of a series."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.library.series import NUMERIC, Points, RowsFunction, Times, Values, read_columns
from headrace.udf import ParameterError, Parameters, Type, Validator

METHODS: Final = ("reservoir", "isometric", "triangle")


class Sample(RowsFunction):
    """A sample of `k` points, by default 1; all points if there are not more.

    Methods are `reservoir`, which is the default: each point is equally likely; `isometric`: the points at the indices
    `floor(i * n / k)`; `triangle`: the points that keep the shape of the line, by Largest-Triangle-Three-Buckets.
    """

    input_data_types = tuple(Type)
    output_data_type = None

    def validate(self, validator: Validator) -> None:
        """Check the input: triangles need numbers."""
        super().validate(validator)
        if validator.get_parameters().get_string_or_default("method", "").lower() == "triangle":
            validator.validate_input_series_data_type(0, *NUMERIC)

    def read_attributes(self, parameters: Parameters) -> None:
        """Read the size of the sample and the method."""
        self.k = parameters.get_int_or_default("k", 1)
        self.method = parameters.get_string_or_default("method", "reservoir").lower()
        if self.k <= 0:
            raise ParameterError("k should be a positive integer.")
        if self.method not in METHODS:
            raise ParameterError("Illegal sampling method.")

    def compute_rows(self, rows: pa.RecordBatch) -> Points:
        """Return the points of the sample in order of time."""
        if self.k < rows.num_rows:
            rows = rows.take(pa.array(self.choose_rows(rows)))
        return rows["time"], rows["x0"]

    def choose_rows(self, rows: pa.RecordBatch) -> npt.NDArray[np.int64]:
        """Return the indices of the sample."""
        n, k = int(rows.num_rows), self.k
        if self.method == "reservoir":
            chosen = np.random.default_rng().choice(n, k, replace=False)
            return np.asarray(np.sort(chosen), np.int64)
        if self.method == "isometric":
            return np.asarray(np.arange(k) * n // k, np.int64)
        if k <= 2:
            return np.array([0, n - 1][:k])
        times, (values,) = read_columns(rows)
        return np.concatenate([[0], choose_triangles(times, values, k - 2), [n - 1]])


def choose_triangles(times: Times, values: Values, number: int) -> npt.NDArray[np.int64]:
    """Return the index of the point in each bucket of the middle points that makes the largest triangle with its neighbors.

    The neighbors are the first point of the bucket before, and the middle between the first and last point of the bucket after.
    """
    t = (times - times[0]).astype(np.float64)
    size, larger = divmod(len(times) - 2, number)
    sizes = np.full(number, size)
    sizes[:larger] += 1
    starts = 1 + np.cumsum(sizes) - sizes
    firsts = np.append(starts, len(t) - 1)
    lasts = np.append(firsts[1:] - 1, len(t) - 1)
    center_t, center_v = t[firsts] + np.trunc((t[lasts] - t[firsts]) / 2), values[firsts] + (values[lasts] - values[firsts]) / 2
    left = np.repeat(np.append(0, starts[:-1]), sizes)
    right_t, right_v = np.repeat(center_t[1:], sizes), np.repeat(center_v[1:], sizes)
    middle_t, middle_v = t[1:-1], values[1:-1]
    areas = np.abs(t[left] * (middle_v - right_v) + middle_t * (right_v - values[left]) + right_t * (values[left] - middle_v))
    # NaN is the largest area. The first of equal ones counts.
    areas = np.nan_to_num(areas, nan=np.inf)
    is_largest = areas == np.repeat(np.maximum.reduceat(areas, starts - 1), sizes)
    indices = np.flatnonzero(is_largest) + 1
    return np.asarray(indices[np.searchsorted(indices, starts)], np.int64)
