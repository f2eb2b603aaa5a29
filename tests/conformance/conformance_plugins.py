"""The functions of IoTDB's own tests, ported to Python. Recorded answers name them by their Java classes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from headrace.udf import (
    UDAF,
    UDTF,
    AccessStrategy,
    MappableRowByRowAccessStrategy,
    ParameterError,
    Parameters,
    PointCollector,
    ResultValue,
    Row,
    RowByRowAccessStrategy,
    RowWindow,
    SessionTimeWindowAccessStrategy,
    SlidingSizeWindowAccessStrategy,
    SlidingTimeWindowAccessStrategy,
    StateWindowAccessStrategy,
    Type,
    UDAFConfigurations,
    UDTFConfigurations,
    Validator,
)

NUMERIC: Final = (Type.INT32, Type.INT64, Type.FLOAT, Type.DOUBLE)


def strategy_of(parameters: Parameters) -> AccessStrategy:
    """Return the strategy that the attribute `access` names. Without all attributes of a display window there is none."""
    begin, end = parameters.get_long("displayWindowBegin"), parameters.get_long("displayWindowEnd")
    if begin is None or end is None:
        begin = end = None
    match parameters.get_string("access"):
        case "size":
            return SlidingSizeWindowAccessStrategy(required(parameters, "windowSize"), parameters.get_int("slidingStep"))
        case "time":
            step, interval = parameters.get_long("slidingStep"), required(parameters, "timeInterval")
            is_complete = step is not None and end is not None
            return (
                SlidingTimeWindowAccessStrategy(interval, step, begin, end)
                if is_complete
                else SlidingTimeWindowAccessStrategy(interval)
            )
        case "session":
            return SessionTimeWindowAccessStrategy(begin, end, required(parameters, "sessionGap"))
        case "state":
            delta = parameters.get_double("stateDelta") or parameters.get_double("delta") or 0.0
            return StateWindowAccessStrategy(begin, end, delta)
    return RowByRowAccessStrategy()


def to_java_integer(value: float, bits: int) -> int:
    """Cut a number to an integer as Java does: NaN is 0, and what is out of range is the limit."""
    if math.isnan(value):
        return 0
    limit = 1 << (bits - 1)
    return int(max(-limit, min(value, limit - 1)))


def required(parameters: Parameters, name: str) -> int:
    value = parameters.get_long(name)
    if value is None:
        raise ParameterError(f"{name} is required")
    return value


class WindowStartEnd(UDTF):
    """The end of each window, at its start."""

    def before_start(self, parameters: Parameters, configurations: UDTFConfigurations) -> None:
        configurations.set_output_data_type(Type.INT64).set_access_strategy(strategy_of(parameters))

    def transform(self, window: RowWindow, collector: PointCollector) -> None:
        collector.put_long(window.window_start_time(), window.window_end_time())


class Accumulator(UDTF):
    """The sum of each window that has rows, at its first row. It knows no sessions, states and steps of sizes."""

    def validate(self, validator: Validator) -> None:
        validator.validate_input_series_data_type(0, Type.INT32, Type.DOUBLE)

    def before_start(self, parameters: Parameters, configurations: UDTFConfigurations) -> None:
        strategy: AccessStrategy = RowByRowAccessStrategy()
        if parameters.get_string("access") == "size":
            strategy = SlidingSizeWindowAccessStrategy(required(parameters, "windowSize"))
        elif parameters.get_string("access") == "time":
            times = [
                required(parameters, name) for name in ("timeInterval", "slidingStep", "displayWindowBegin", "displayWindowEnd")
            ]
            strategy = SlidingTimeWindowAccessStrategy(*times)
        configurations.set_output_data_type(Type.INT32).set_access_strategy(strategy)

    def transform(self, rows: Row | RowWindow, collector: PointCollector) -> None:
        if isinstance(rows, Row):
            collector.put_int(rows.get_time(), rows.get_int(0))
        elif rows.window_size():
            collector.put_int(rows.get_row(0).get_time(), sum(to_java_integer(row.get_double(0), 32) for row in rows))


class Adder(UDTF):
    """The sum of two inputs and a constant, cut to an integer."""

    def validate(self, validator: Validator) -> None:
        validator.validate_input_series_number(2)
        validator.validate_input_series_data_type(0, *NUMERIC).validate_input_series_data_type(1, *NUMERIC)

    def before_start(self, parameters: Parameters, configurations: UDTFConfigurations) -> None:
        self.addend = parameters.get_float_or_default("addend", 0)
        configurations.set_output_data_type(Type.INT64).set_access_strategy(RowByRowAccessStrategy())

    def transform(self, row: Row, collector: PointCollector) -> None:
        if not (row.is_null(0) or row.is_null(1)):
            total = row.get_double(0) + row.get_double(1) + self.addend
            collector.put_long(row.get_time(), to_java_integer(total, 64))


class Multiplier(UDTF):
    """An input times two constants."""

    def validate(self, validator: Validator) -> None:
        validator.validate_input_series_number(1).validate_input_series_data_type(0, Type.INT64)

    def before_start(self, parameters: Parameters, configurations: UDTFConfigurations) -> None:
        self.factor = parameters.get_long_or_default("a", 0) * parameters.get_long_or_default("b", 0)
        configurations.set_output_data_type(Type.INT64).set_access_strategy(RowByRowAccessStrategy())

    def transform(self, row: Row, collector: PointCollector) -> None:
        collector.put_long(row.get_time(), row.get_long(0) * self.factor)


class Max(UDTF):
    """The greatest value, at the time of its first occurrence."""

    def validate(self, validator: Validator) -> None:
        validator.validate_input_series_number(1).validate_input_series_data_type(0, Type.INT32)

    def before_start(self, parameters: Parameters, configurations: UDTFConfigurations) -> None:  # noqa: ARG002
        self.best: tuple[int, int] | None = None
        configurations.set_output_data_type(Type.INT32).set_access_strategy(RowByRowAccessStrategy())

    def transform(self, row: Row, collector: PointCollector) -> None:  # noqa: ARG002
        if self.best is None or self.best[1] < row.get_int(0):
            self.best = row.get_time(), row.get_int(0)

    def terminate(self, collector: PointCollector) -> None:
        if self.best is not None:
            collector.put_int(*self.best)


class Counter(UDTF):
    """1 for each row, or the number of rows of each window, at its first row."""

    def before_start(self, parameters: Parameters, configurations: UDTFConfigurations) -> None:
        configurations.set_output_data_type(Type.INT32).set_access_strategy(strategy_of(parameters))

    def transform(self, rows: Row | RowWindow, collector: PointCollector) -> None:
        if isinstance(rows, Row):
            collector.put_int(rows.get_time(), 1)
        elif rows.window_size():
            collector.put_int(rows.get_row(0).get_time(), rows.window_size())


class TerminateTester(UDTF):
    """1 for each row, and their number one tick after the last."""

    def before_start(self, parameters: Parameters, configurations: UDTFConfigurations) -> None:  # noqa: ARG002
        self.last: int | None = None
        self.count = 0
        configurations.set_output_data_type(Type.INT32).set_access_strategy(RowByRowAccessStrategy())

    def transform(self, row: Row, collector: PointCollector) -> None:
        self.last = row.get_time()
        self.count += 1
        collector.put_int(self.last, 1)

    def terminate(self, collector: PointCollector) -> None:
        if self.last is not None:
            collector.put_int(self.last + 1, self.count)


class TwoSum(UDTF):
    """The sum of two inputs of one type, row by row."""

    def validate(self, validator: Validator) -> None:
        validator.validate_input_series_number(2)
        validator.validate_input_series_data_type(0, *NUMERIC).validate_input_series_data_type(1, *NUMERIC)

    def before_start(self, parameters: Parameters, configurations: UDTFConfigurations) -> None:
        configurations.set_access_strategy(MappableRowByRowAccessStrategy())
        configurations.set_output_data_type(parameters.get_data_type(0))

    def transform(self, row: Row, collector: PointCollector) -> object:  # noqa: ARG002
        if row.is_null(0) or row.is_null(1):
            return None
        get = {Type.INT32: row.get_int, Type.INT64: row.get_long}.get(row.get_data_type(0), row.get_double)
        return get(0) + get(1)


@dataclass(slots=True)
class SumState:
    """The sum and number of values."""

    sum: float = 0.0
    count: int = 0


class Sums(UDAF):
    """A base of aggregates of sum and number of values."""

    output_type = Type.DOUBLE

    def validate(self, validator: Validator) -> None:
        validator.validate_input_series_number(1).validate_input_series_data_type(0, *NUMERIC)

    def before_start(self, parameters: Parameters, configurations: UDAFConfigurations) -> None:  # noqa: ARG002
        configurations.set_output_data_type(self.output_type)

    def create_state(self) -> SumState:
        return SumState()

    def add_row(self, state: SumState, row: Row) -> None:
        if not row.is_null(0):
            state.sum += row.get_double(0)
            state.count += 1

    def combine_state(self, state: SumState, other: SumState) -> None:
        state.sum += other.sum
        state.count += other.count

    def remove_state(self, state: SumState, removed: SumState) -> None:
        state.sum -= removed.sum
        state.count -= removed.count


class UDAFSum(Sums):
    """The sum of values."""

    def output_final(self, state: SumState, result_value: ResultValue) -> None:
        result_value.set(state.sum if state.count else None)


class UDAFAvg(Sums):
    """The mean of values."""

    def output_final(self, state: SumState, result_value: ResultValue) -> None:
        result_value.set(state.sum / state.count if state.count else None)


class UDAFCount(Sums):
    """The number of values."""

    output_type = Type.INT64

    def validate(self, validator: Validator) -> None:
        validator.validate_input_series_number(1)
        validator.validate_input_series_data_type(0, *NUMERIC, Type.BOOLEAN, Type.TEXT)

    def add_row(self, state: SumState, row: Row) -> None:
        state.count += not row.is_null(0)

    def output_final(self, state: SumState, result_value: ResultValue) -> None:
        result_value.set_long(state.count)
