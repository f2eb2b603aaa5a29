"""What the families share: a base class for functions over whole series, arrays of points, and durations."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, ClassVar, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.udf import UDTF, ParameterError, Parameters, PointCollector, Type, UDTFConfigurations, Validator

Times = npt.NDArray[np.int64]
Values = npt.NDArray[np.float64]
Points = tuple[npt.ArrayLike, npt.ArrayLike]
"""Times in ticks, and a value for each."""

NUMERIC: Final = (Type.INT32, Type.INT64, Type.FLOAT, Type.DOUBLE)
NANOSECONDS: Final = {
    "ns": 1,
    "us": 1_000,
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
    "d": 86_400_000_000_000,
}
"""Units of durations. Longer suffixes come first: `ms` also ends in `s`."""


class RowsFunction(UDTF):
    """A function that needs all rows of a series: a subclass defines `compute_rows`, and `read_attributes` if it has any.

    It keeps all rows in memory: 16 bytes for each time and number, and 8 more for each further input.
    """

    number_of_inputs: ClassVar[int] = 1
    input_data_types: ClassVar[tuple[Type, ...]] = NUMERIC
    output_data_type: ClassVar[Type | None] = Type.DOUBLE
    """None for that of the first input."""

    def validate(self, validator: Validator) -> None:
        """Check the inputs."""
        validate_inputs(validator, self.number_of_inputs, self.input_data_types)

    def before_start(self, parameters: Parameters, configurations: UDTFConfigurations) -> None:
        """Read the attributes, and declare the output type."""
        self._batches: list[pa.RecordBatch] = []
        inputs = [(f"x{index}", data_type.arrow) for index, data_type in enumerate(parameters.get_data_types())]
        self._schema = pa.schema([("time", pa.int64()), *inputs])
        self.read_attributes(parameters)
        configurations.set_output_data_type(self.choose_output_data_type(parameters))

    def transform_batch(self, batch: pa.RecordBatch) -> pa.RecordBatch | None:
        """Keep the rows."""
        self._batches.append(batch)
        return None

    def terminate(self, collector: PointCollector) -> None:
        """Add the points that `compute_rows` returns."""
        batches, self._batches = self._batches, []
        rows = pa.concat_batches(batches) if batches else pa.RecordBatch.from_pylist([], self._schema)
        collector.put_batch(*self.compute_rows(rows))

    def choose_output_data_type(self, parameters: Parameters) -> Type:
        """Return the type of the values."""
        return self.output_data_type or parameters.get_data_type(0)

    def read_attributes(self, parameters: Parameters) -> None:
        """Read and check the attributes. Raise `ParameterError` if they are not valid."""

    def compute_rows(self, rows: pa.RecordBatch) -> Points:
        """Return the points of the function, in any order. `rows` has `time` in ticks, ascending, then `x0`, `x1`, …."""
        raise NotImplementedError


class SeriesFunction(RowsFunction):
    """A function of all numbers of a series: a subclass defines `compute`, and `read_attributes` if it has any."""

    def compute_rows(self, rows: pa.RecordBatch) -> Points:
        """Return the points that `compute` returns."""
        times, values = read_columns(rows)
        return self.compute(times, *values)

    def compute(self, times: Times, *values: Any) -> Points:
        """Return the points of the function, in any order.

        `times` are in ticks and ascend; `values` is a float64 array for each input, with NaN for NULL. All have the same length,
        which is 0 for an empty series.
        """
        raise NotImplementedError


def validate_inputs(validator: Validator, number: int = 1, data_types: tuple[Type, ...] = NUMERIC) -> None:
    """Require a number of inputs of some types."""
    validator.validate_input_series_number(number)
    for index in range(number):
        validator.validate_input_series_data_type(index, *data_types)


def read_columns(batch: pa.RecordBatch) -> tuple[Times, list[Values]]:
    """Return the times of rows, and each input as float64, with NaN for NULL."""
    times, *inputs = (column.to_numpy(zero_copy_only=False) for column in batch.columns)
    return times, [values.astype(np.float64) for values in inputs]


def make_points(times: npt.ArrayLike, values: npt.ArrayLike, data_type: Type = Type.DOUBLE) -> pa.RecordBatch:
    """Return points as a record batch, which `transform_batch` returns."""
    columns = [pa.array(times, pa.int64()), pa.array(values, data_type.arrow)]
    return pa.RecordBatch.from_arrays(columns, ["time", "value"])


def mean(values: Values) -> float:
    """Return the mean of at least one value, which is exact if all are equal."""
    return float(values[0] + (values - values[0]).mean())


def one_point(value: float, time: int = 0) -> Points:
    """Return a single point, at time 0 unless a time is passed."""
    return [time], [value]


NO_POINTS: Final[Points] = ([], [])


def parse_duration(text: str, parameters: Parameters) -> int:
    """Return a duration such as `1s` or `0.5 h` in ticks, and 0 for a number without unit.

    Raises `ParameterError` for anything else, and for a unit that is finer than the precision of times.
    """
    compact = text.lower().replace(" ", "")
    unit = next((unit for unit in NANOSECONDS if compact.endswith(unit)), "")
    try:
        number = Fraction(compact.removesuffix(unit))
    except (ValueError, ZeroDivisionError):
        raise ParameterError(f'"{text}" is not a duration, such as "10s" or "0.5h"') from None
    if not unit:
        return 0
    tick = 1_000_000_000 // parameters.ticks_per_second
    if NANOSECONDS[unit] < tick:
        raise ParameterError(f'the unit of "{text}" is finer than the precision of times, which is 1 {tick_name(parameters)}')
    return int(number * (NANOSECONDS[unit] // tick))


def tick_name(parameters: Parameters) -> str:
    """Return the unit of times: ms, us or ns."""
    return str(parameters.get_system_string("timestampPrecision"))


def interpolate(times: Times, values: Values) -> Values:
    """Return values with those that are not finite replaced by the line through the two finite ones around, before or after them.

    With less than two finite values, all are NaN.
    """
    is_finite = np.isfinite(values)
    if is_finite.all():
        return values
    finite = np.flatnonzero(is_finite)
    if len(finite) < 2:
        return np.full(len(values), np.nan)
    gaps = np.flatnonzero(~is_finite)
    right = np.searchsorted(finite, gaps).clip(1, len(finite) - 1)
    before, after = finite[right - 1], finite[right]
    filled = values.copy()
    rises = (values[after] - values[before]) * (times[gaps] - times[before])
    filled[gaps] = values[before] + rises / (times[after] - times[before])
    return filled
