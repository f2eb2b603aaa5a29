"""Distributions of values: histograms, distinct values, skewness and spread."""

from __future__ import annotations

import sys
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.library.series import (
    NO_POINTS,
    NUMERIC,
    Points,
    RowsFunction,
    SeriesFunction,
    Times,
    Values,
    mean,
    one_point,
    read_columns,
)
from headrace.udf import ParameterError, Parameters, PointCollector, Type

MAX_BUCKETS: Final = 1_000_000


class Histogram(RowsFunction):
    """How many values are in each of `count` buckets of the same width from `min` to `max`, at times 0, 1, ….

    Bucket `i` has the values from `min + i * (max - min) / count` on. Smaller and larger values are in the first and last bucket;
    special values are in none. By default there is one bucket for all numbers.
    """

    output_data_type = Type.INT32

    def read_attributes(self, parameters: Parameters) -> None:
        """Read the buckets."""
        self.count = parameters.get_int_or_default("count", 1)
        self.low = parameters.get_double_or_default("min", -sys.float_info.max)
        high = parameters.get_double_or_default("max", sys.float_info.max)
        if self.count <= 0:
            raise ParameterError("parameter $count$ should be larger than 0")
        if self.count > MAX_BUCKETS:
            raise ParameterError(f"parameter $count$ should be at most {MAX_BUCKETS}")
        if self.low > high:
            raise ParameterError("parameter $end$ should be larger than or equal to $start$")
        self.width = high / self.count - self.low / self.count
        self.buckets = np.zeros(self.count, np.int64)

    def transform_batch(self, batch: pa.RecordBatch) -> None:
        """Count the values of a batch."""
        _, (values,) = read_columns(batch)
        with np.errstate(divide="ignore", invalid="ignore"):
            index = np.floor((values[np.isfinite(values)] - self.low) / self.width)
        index = np.nan_to_num(index, nan=0, posinf=self.count, neginf=0).clip(0, self.count - 1)
        self.buckets += np.bincount(index.astype(np.int64), minlength=self.count)

    def terminate(self, collector: PointCollector) -> None:
        """Add the buckets."""
        collector.put_batch(np.arange(self.count), self.buckets)


class Distinct(RowsFunction):
    """The distinct values, at times 0, 1, …: numbers in ascending order, texts in the order of a hash table, as in IoTDB."""

    input_data_types = (*NUMERIC, Type.TEXT, Type.BOOLEAN, Type.STRING)
    output_data_type = None

    def transform_batch(self, batch: pa.RecordBatch) -> None:
        """Keep the distinct values of a batch."""
        self._batches.append(pa.RecordBatch.from_arrays([pc.unique(batch["x0"])], ["x0"]))

    def compute_rows(self, rows: pa.RecordBatch) -> Points:
        """Return the distinct values of all batches."""
        if pa.types.is_string(rows["x0"].type):
            texts = order_by_hash(pc.unique(rows["x0"]).to_pylist())
            return range(len(texts)), texts
        numbers = np.unique(rows["x0"].to_numpy(zero_copy_only=False))
        return range(len(numbers)), numbers


def order_by_hash(texts: list[str]) -> list[str]:
    """Return different texts in the order of a Java HashSet into which they are put in this order."""
    capacity = 16
    while len(texts) > capacity * 3 // 4:
        capacity *= 2
    return sorted(texts, key=lambda text: spread_hash(text) % capacity)


def spread_hash(text: str) -> int:
    """Return the hash code of a text as a hash table of Java uses it: `sum(31 ** (n - 1 - i) * c[i])` over UTF-16 units."""
    code = 0
    for unit in np.frombuffer(text.encode("utf-16-le"), np.uint16).tolist():
        code = (31 * code + unit) & 0xFFFFFFFF
    return code ^ code >> 16


class Skew(SeriesFunction):
    """The skewness of the finite values: `mean((x - mean(x)) ** 3) / std(x) ** 3`, NaN if they are all the same."""

    def compute(self, times: Times, values: Values) -> Points:  # noqa: ARG002
        """Return the skewness at time 0."""
        finite = values[np.isfinite(values)]
        if not len(finite):
            return one_point(np.nan)
        deviations = finite - mean(finite)
        squares = deviations * deviations
        with np.errstate(divide="ignore", invalid="ignore"):
            return one_point(float(np.mean(squares * deviations) / np.mean(squares) ** 1.5))


class Spread(RowsFunction):
    """The difference of the largest and the smallest finite value, in the type of the input."""

    output_data_type = None

    def transform_batch(self, batch: pa.RecordBatch) -> None:
        """Keep the smallest and the largest value of a batch."""
        values = batch["x0"].filter(pc.is_finite(batch["x0"]))
        if len(values):
            extremes = pc.min_max(values)
            both = pa.array([extremes["min"].as_py(), extremes["max"].as_py()], values.type)
            self._batches.append(pa.RecordBatch.from_arrays([both], ["x0"]))

    def compute_rows(self, rows: pa.RecordBatch) -> Points:
        """Return the difference at time 0, and no point for no value."""
        if not rows.num_rows:
            return NO_POINTS
        extremes, type_ = pc.min_max(rows["x0"]), rows["x0"].type
        spread = extremes["max"].as_py() - extremes["min"].as_py()
        try:
            return [0], pa.array([spread], type_)
        except (pa.ArrowInvalid, OverflowError):
            raise ParameterError(f"the spread {spread} is out of range for {type_}: cast the series to DOUBLE") from None
