"""Calls of a UDTF: one for each series, fed with batches of rows in order of time."""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa

from headrace.code.windows import windows
from headrace.udf import (
    UDTF,
    MappableRowByRowAccessStrategy,
    ParameterError,
    Parameters,
    PointCollector,
    Row,
    RowByRowAccessStrategy,
    RowWindow,
    StateWindowAccessStrategy,
    Type,
    UDTFConfigurations,
    Validator,
)
from headrace.udf.strategies import AccessStrategyError


def configure(function: UDTF, parameters: Parameters) -> UDTFConfigurations:
    """Prepare a function for its first row. Raise `ParameterError` if the parameters of the call are not valid."""
    function.validate(Validator(parameters))
    configurations = UDTFConfigurations()
    function.before_start(parameters, configurations)
    if configurations.output_data_type is None:
        raise ParameterError(f"{type(function).__name__}.before_start has to call set_output_data_type")
    configurations.access_strategy.check()
    if isinstance(configurations.access_strategy, StateWindowAccessStrategy) and len(parameters.get_data_types()) > 1:
        raise AccessStrategyError("StateWindowAccessStrategy only support one input series for now.")
    return configurations


@dataclass(slots=True)
class SeriesCall:
    """The call of a function over one series.

    `process` takes the next rows (`time` in ticks, then `x0`, `x1`, …, not all NULL) and `finish` ends the series. Both return
    points: `time` and `value`, in the order in which the function has added them.
    """

    function: UDTF
    parameters: Parameters
    configurations: UDTFConfigurations = field(init=False)
    output_type: Type = field(init=False)
    _rows: list[pa.RecordBatch] = field(default_factory=list)
    _current: Row | RowWindow | None = None

    def __post_init__(self) -> None:
        """Prepare the function."""
        self.configurations = configure(self.function, self.parameters)
        assert self.configurations.output_data_type is not None
        self.output_type = self.configurations.output_data_type

    def process(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return the points of the next rows. Windows are computed at the end."""
        collector = PointCollector(self.output_type)
        match self.configurations.access_strategy:
            case MappableRowByRowAccessStrategy():
                self._map_rows(rows, collector)
            case RowByRowAccessStrategy():
                self._transform_rows(rows, collector)
            case _:
                self._rows.append(rows)
        return collector.drain()

    def finish(self) -> pa.RecordBatch:
        """Return the points of the last windows, and those that the function adds when it ends."""
        collector = PointCollector(self.output_type)
        if self._rows:
            table = pa.Table.from_batches(self._rows).combine_chunks().to_batches()
            for rows in table:
                for window in windows(self.configurations.access_strategy, rows, self.parameters.get_data_types()):
                    self._current = window
                    self.function.transform(window, collector)
        self._current = None
        self.function.terminate(collector)
        return collector.drain()

    def close(self) -> None:
        """Let the function free what it holds."""
        self.function.before_destroy()

    def position(self) -> tuple[int, int] | None:
        """Return the times of the first and last row that `transform` has received last; None if it was not called."""
        match self._current:
            case Row() as row:
                return row.time, row.time
            case RowWindow() as window:
                return window.window_start_time(), window.window_end_time()
            case _:
                return None

    def _map_rows(self, rows: pa.RecordBatch, collector: PointCollector) -> None:
        if is_vectorized(self.function):
            collector.put_batch(rows["time"], self.function.transform_batch(rows))
            return
        row, transform = Row(self.parameters.get_data_types()), self.function.transform
        self._current = row
        times, *columns = (column.to_pylist() for column in rows.columns)
        values = []
        for row.time, row.values in zip(times, zip(*columns, strict=True), strict=True):
            values.append(transform(row, collector))
        collector.put_batch(times, values)

    def _transform_rows(self, rows: pa.RecordBatch, collector: PointCollector) -> None:
        if is_vectorized(self.function):
            points = self.function.transform_batch(rows)
            if points is not None:
                collector.put_batch(points["time"], points["value"])
            return
        row, transform = Row(self.parameters.get_data_types()), self.function.transform
        self._current = row
        times, *columns = (column.to_pylist() for column in rows.columns)
        for row.time, row.values in zip(times, zip(*columns, strict=True), strict=True):
            transform(row, collector)


def is_vectorized(function: UDTF) -> bool:
    """Return whether a function defines `transform_batch`."""
    return type(function).transform_batch is not UDTF.transform_batch
