"""Anomaly detection: the points of a series that are unlike the others."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.lib.stride_tricks import sliding_window_view

from headrace.library.outlier_factor import LocalOutlierFactor
from headrace.library.series import Points, RowsFunction, SeriesFunction, Times, Values, read_columns, validate_inputs
from headrace.library.sliding import Flags, SlidingWindows, any_in_windows
from headrace.library.steps import StepLimit
from headrace.library.straight_runs import find_straight_runs
from headrace.udf import UDTF, ParameterError, Parameters, PointCollector, Type, UDTFConfigurations, Validator

STEPS_PER_NEIGHBOR: Final = 4
MAX_ROWS_AT_ONCE: Final = 1_000_000


class SeriesFilter(RowsFunction, ABC):
    """A function of a whole series that returns some of its points: a subclass defines `select`."""

    def compute_rows(self, rows: pa.RecordBatch) -> Points:
        """Return the points that `select` selects."""
        times, (values,) = read_columns(rows)
        selected = keep(rows, self.select(times, values))
        return selected["time"], selected["value"]

    @abstractmethod
    def select(self, times: Times, values: Values) -> Flags:
        """Return for each point whether the function returns it. The series may be empty."""


class InterquartileRange(SeriesFilter):
    """Points far outside of the quartiles: v < q1 - 1.5 iqr or v > q3 + 1.5 iqr, with iqr = q3 - q1.

    Attributes:
        compute: `batch` (default) takes the quartiles of the series, interpolated linearly; `stream` takes `q1` and `q3`.
        q1, q3: The quartiles, for `stream`.

    A series that contains NaN has no quartiles, and no outliers.
    """

    def validate(self, validator: Validator) -> None:
        """Require one numeric input, a method, and quartiles in order."""
        super().validate(validator)
        parameters = validator.get_parameters()
        validator.validate(
            lambda compute: compute in {"batch", "stream"},
            'Parameter "compute" is illegal. Please use "batch" (for default) or "stream".',
            parameters.get_string_or_default("compute", "batch").lower(),
        )
        validator.validate(
            lambda q1, q3: q1 < q3,
            "parameter $q1$ should be smaller than $q3$",
            parameters.get_double_or_default("q1", -1),
            parameters.get_double_or_default("q3", 1),
        )
        if parameters.get_string_or_default("compute", "batch").lower() == "stream":
            validator.validate_required_attribute("q1").validate_required_attribute("q3")

    def read_attributes(self, parameters: Parameters) -> None:
        """Read the quartiles, if they are passed."""
        self._streams = parameters.get_string_or_default("compute", "batch").lower() == "stream"
        self._quartiles = parameters.get_double_or_default("q1", -1), parameters.get_double_or_default("q3", 1)

    def transform_batch(self, batch: pa.RecordBatch) -> pa.RecordBatch | None:
        """Return outliers at once if the quartiles are passed; else keep the rows."""
        if not self._streams:
            return super().transform_batch(batch)
        _, (values,) = read_columns(batch)
        return keep(batch, is_beyond(values, *self._quartiles))

    def select(self, times: Times, values: Values) -> Flags:  # noqa: ARG002
        """Select the outliers."""
        if not len(values):
            return np.zeros(0, np.bool_)
        with np.errstate(invalid="ignore"):
            return is_beyond(values, *np.quantile(values, [0.25, 0.75]))


class KSigma(UDTF):
    """Points far from the mean of the points before them: |v - mean| > k · s, with the sample standard deviation s.

    Mean and s are those of the last `window` points, up to and including the point itself. The first `window` points share the
    mean and s of all of them, and so do all points of a shorter series. Points that are not finite are left out.

    Attributes:
        k: The number of standard deviations, 3 by default.
        window: The number of points, 10000 by default.
    """

    def validate(self, validator: Validator) -> None:
        """Require one numeric input, and positive attributes."""
        validate_inputs(validator)
        parameters = validator.get_parameters()
        window, k = parameters.get_int_or_default("window", 10), parameters.get_double_or_default("k", 3)
        validator.validate(lambda window: window > 0, "Window size should be larger than 0.", window)
        validator.validate(lambda k: k > 0, "Parameter k should be larger than 0.", k)

    def before_start(self, parameters: Parameters, configurations: UDTFConfigurations) -> None:
        """Read the attributes; the output has the type of the input."""
        self._k = parameters.get_double_or_default("k", 3)
        self._window = parameters.get_int_or_default("window", 10_000)
        self._rows: list[pa.RecordBatch] = []
        self._waiting = self._compared = 0
        configurations.set_output_data_type(parameters.get_data_type(0))

    def transform_batch(self, batch: pa.RecordBatch) -> pa.RecordBatch | None:
        """Return the outliers among the rows so far, once a window of further rows is there."""
        _, (values,) = read_columns(batch)
        self._rows.append(batch.filter(pa.array(np.isfinite(values))))
        self._waiting += self._rows[-1].num_rows
        return self._find_outliers() if self._waiting >= max(self._window, 2) else None

    def terminate(self, collector: PointCollector) -> None:
        """Add the outliers among the last rows."""
        if self._waiting + self._compared > 1:
            outliers = self._find_outliers()
            collector.put_batch(outliers["time"], outliers["value"])

    def _find_outliers(self) -> pa.RecordBatch:
        """Compare the rows that wait. The last window, less one row, is kept for those that follow."""
        rows = pa.concat_batches(self._rows)
        is_outlier = self._is_outlier(read_columns(rows)[1][0])
        is_outlier[: self._compared] = False
        first_kept = max(rows.num_rows - self._window + 1, 0)
        self._rows = [rows.slice(first_kept)]
        self._waiting, self._compared = 0, rows.num_rows - first_kept
        return keep(rows, is_outlier)

    def _is_outlier(self, values: Values) -> Flags:
        size = min(self._window, len(values))
        if size < 2:
            return np.zeros(len(values), np.bool_)
        windows = SlidingWindows(values, size)
        means, variances = windows.means(), windows.cross_products(windows) / (size - 1)
        limits = self._k * np.sqrt(np.maximum(variances, 0))
        limits[~any_in_windows(values[1:] != values[:-1], size - 1)] = np.inf
        first = np.abs(values[: size - 1] - means[0]) > limits[0]
        return np.concatenate([first, np.abs(values[size - 1 :] - means) > limits])


class MissingDetection(SeriesFunction):
    """Stretches that a straight line has replaced, as when missing data were interpolated: true for their points, else false.

    Windows of minlen / 2 points follow each other. One whose points lie on a line (r² > 0.9999, or all values are equal) is
    extended forwards, and backwards into the window before, as long as r² ≥ 0.9999 or the values stay equal. It counts if it has
    more than `minlen` points. A value that is not finite is on no line.

    Attributes:
        minlen: The number of points, 10 by default, which is the minimum.
    """

    output_data_type = Type.BOOLEAN

    def read_attributes(self, parameters: Parameters) -> None:
        """Read the length."""
        self._min_length = parameters.get_int_or_default("minlen", 10)
        if self._min_length < 10:
            raise ParameterError("minlen should be an integer greater than or equal to 10.")

    def compute(self, times: Times, values: Values) -> Points:
        """Return a flag for each point."""
        flags = np.zeros(len(values), np.bool_)
        for start, end in find_straight_runs(times, values, self._min_length // 2):
            flags[start:end] = end - start > self._min_length
        return times, flags


class DistanceOutlier(SeriesFilter):
    """Points with few others near by: fewer than k points of a window, the point included, are at most r away from it.

    Windows of `w` points begin every `s` points; a point is an outlier if it is one in any window. A window is looked at once a
    point follows it, as in IoTDB. For n points the cost is n · w / s · (k + log w).

    Attributes:
        r: The distance, 5 by default.
        k: The number of points, 3 by default.
        w, s: The size of a window (1000 by default), and the points from the beginning of one to that of the next (500).
    """

    def read_attributes(self, parameters: Parameters) -> None:
        """Read and check the attributes."""
        self._radius = parameters.get_double_or_default("r", 5)
        self._neighbors = parameters.get_int_or_default("k", 3)
        self._window = parameters.get_int_or_default("w", 1000)
        self._step = parameters.get_int_or_default("s", 500)
        if self._window < 1 or self._step < 1:
            raise ParameterError("w and s should be larger than 0.")
        self._limit = StepLimit.of("outlier", parameters)

    def select(self, times: Times, values: Values) -> Flags:  # noqa: ARG002
        """Select the outliers."""
        selected = np.zeros(len(values), np.bool_)
        if len(values) > self._window:
            windows = sliding_window_view(values[:-1], self._window)[:: self._step]
            steps = windows.size * (STEPS_PER_NEIGHBOR * min(max(self._neighbors, 0), self._window) + np.log2(self._window))
            self._limit.add(steps, f"{len(windows)} windows of {self._window} points with {self._neighbors} neighbors")
            rows = max(MAX_ROWS_AT_ONCE // self._window, 1)
            for first in range(0, len(windows), rows):
                row, column = np.nonzero(self._is_outlier(windows[first : first + rows]))
                selected[(first + row) * self._step + column] = True
        return selected

    def _is_outlier(self, windows: Values) -> Flags:
        """Return whether the points of windows, one a row, are outliers.

        In a sorted window the points near a point are neighbors: there are k of them if some k in a row, of which it is one, begin
        and end near it.
        """
        count, size = windows.shape
        crowded = np.zeros((count, size), np.bool_)
        order = np.argsort(windows, axis=1)
        ordered = np.take_along_axis(windows, order, axis=1)
        if self._neighbors <= 0:
            return crowded
        for before in range(min(self._neighbors, size)):
            after = self._neighbors - 1 - before
            if before + after < size:
                point = ordered[:, before : size - after]
                is_near = point - ordered[:, : size - before - after] <= self._radius
                is_near &= ordered[:, before + after :] - point <= self._radius
                crowded[:, before : size - after] |= is_near
        outlier = np.empty_like(crowded)
        np.put_along_axis(outlier, order, ~crowded, axis=1)
        return outlier


class OutOfRange(UDTF):
    """Points out of a range: v < lower_bound or v > upper_bound.

    Attributes:
        lower_bound, upper_bound: The range.
    """

    def validate(self, validator: Validator) -> None:
        """Require one numeric input, and both bounds."""
        validate_inputs(validator)
        validator.validate_required_attribute("lower_bound").validate_required_attribute("upper_bound")

    def before_start(self, parameters: Parameters, configurations: UDTFConfigurations) -> None:
        """Read the bounds; the output has the type of the input."""
        self._lower = parameters.get_double_or_default("lower_bound", 0)
        self._upper = parameters.get_double_or_default("upper_bound", 0)
        configurations.set_output_data_type(parameters.get_data_type(0))

    def transform_batch(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the points out of the range."""
        _, (values,) = read_columns(batch)
        return keep(batch, (values < self._lower) | (values > self._upper))


class TwoSidedFilter(SeriesFilter):
    """Points that agree with the points before or after them; the others are taken for anomalies.

    A point v is kept if |m - v| / (max(m, v) + 1) < threshold, where m is the sum of the `len` points before it, divided by `len`,
    or the same of the points after it. Only points within `len` seconds count. For n points the cost is n · len.

    Attributes:
        len: The number of points and of seconds, 5 by default.
        threshold: The relative difference, 0.4 by default.
    """

    output_data_type = None

    def read_attributes(self, parameters: Parameters) -> None:
        """Read and check the attributes."""
        self._length = parameters.get_double_or_default("len", 5)
        self._threshold = parameters.get_double_or_default("threshold", 0.4)
        self._ticks = self._length * parameters.ticks_per_second
        if self._length <= 0:
            raise ParameterError("len should be larger than 0.")
        self._limit = StepLimit.of("twosidedfilter", parameters)

    def select(self, times: Times, values: Values) -> Flags:
        """Select the points that agree with their neighbors."""
        before, after = np.zeros_like(values), np.zeros_like(values)
        length = min(int(np.ceil(self._length)), len(values) - 1)
        self._limit.add(STEPS_PER_NEIGHBOR * length * len(values), f"{len(values)} points with {length} neighbors each")
        for distance in range(1, length + 1):
            is_near = times[distance:] - times[:-distance] <= self._ticks
            before[distance:] += np.where(is_near, values[:-distance], 0)
            if distance <= self._length:
                after[:-distance] += np.where(is_near, values[distance:], 0)
        return self._agrees(before / self._length, values) | self._agrees(after / self._length, values)

    def _agrees(self, means: Values, values: Values) -> Flags:
        with np.errstate(divide="ignore", invalid="ignore"):
            agrees: Flags = np.abs(means - values) / (np.maximum(means, values) + 1) < self._threshold
        return agrees


def is_beyond(values: Values, first_quartile: float, third_quartile: float) -> Flags:
    """Return whether values are more than 1.5 interquartile ranges outside of the quartiles."""
    margin = 1.5 * (third_quartile - first_quartile)
    beyond: Flags = (values < first_quartile - margin) | (values > third_quartile + margin)
    return beyond


def keep(rows: pa.RecordBatch, selected: Flags) -> pa.RecordBatch:
    """Return the selected rows as points."""
    return pa.RecordBatch.from_arrays(rows.filter(pa.array(selected)).columns, ["time", "value"])


FUNCTIONS: Final[dict[str, type[UDTF]]] = {
    "UDTFIQR": InterquartileRange,
    "UDTFKSigma": KSigma,
    "UDTFLOF": LocalOutlierFactor,
    "UDTFMissDetect": MissingDetection,
    "UDTFOutlier": DistanceOutlier,
    "UDTFRange": OutOfRange,
    "UDTFTwoSidedFilter": TwoSidedFilter,
}
