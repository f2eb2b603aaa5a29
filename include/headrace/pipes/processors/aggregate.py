"""The processor that aggregates each series over windows of time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import zip_longest
from typing import Final

import numpy as np
import pyarrow as pa

from headrace.model.instants import parse_instant
from headrace.model.paths import ROOT, join_path, parse_path, split_path
from headrace.model.time import Precision
from headrace.pipes.attributes import PipeAttributes, pipe_error
from headrace.pipes.events import DEVICE, TIME, DeviceRows, Event, InsertEvent, Measurement
from headrace.pipes.plugins import PipeContext, Processor, Tables
from headrace.pipes.processors.aggregate_operators import OPERATORS
from headrace.pipes.processors.aggregate_partials import TYPES
from headrace.pipes.processors.aggregate_windows import Closed, OpenWindows
from headrace.pipes.processors.changing_value import plain
from headrace.pipes.processors.grouping import Array, Integers, group_by_device, times_of
from headrace.pipes.processors.sampling import check_keys, fingerprint_of, is_number
from headrace.pipes.processors.series import ColumnState, SeriesStates

NAME: Final = "aggregate-processor"
STRATEGIES: Final = ("tumbling", "sliding")
SLIDING_KEYS: Final = ("sliding.boundary-time", "sliding.seconds", "sliding.window-seconds")
OUTPUT_KEYS: Final = (
    "output.database",
    "output.measurements",
    "output.max-delay-seconds",
    "output.min-report-interval-seconds",
)
DEFAULT_SECONDS: Final = 120
MAX_WINDOWS_PER_POINT: Final = 64


@dataclass(frozen=True, slots=True)
class Options:
    """The parameters.

    Attributes:
        operators: The names of the operators, with those of their results.
        boundary: A time at which a window starts, as written.
        seconds: How far apart windows start.
        width: How many windows contain a point.
        database: The database of the results; empty for that of the series.
        max_delay: After how many seconds without points the result of an open window is delivered; negative for never.
    """

    operators: tuple[tuple[str, str], ...]
    boundary: str
    seconds: int
    width: int
    database: str
    max_delay: int

    def boundary_in(self, precision: Precision) -> int:
        """Return the boundary in ticks of a precision."""
        if is_integer(self.boundary):
            return int(self.boundary)
        ticks = parse_instant(self.boundary, "UTC", precision)
        assert ticks is not None, "the parameters were checked"
        return ticks


class AggregateProcessor(Processor):
    """Replaces inserted points by the aggregates of their series over windows of time.

    The results of a series are the measurements of a device that is called as the series. The state has the open windows of each
    series: one if windows tumble, else as many as contain a point.
    """

    def __init__(self, options: Options) -> None:
        """Create the processor without state."""
        self._options = options
        self._needed = frozenset(name for operator, _ in options.operators for name in OPERATORS[operator].needs)
        figures = {name: dtype for name, dtype in TYPES.items() if name == "count" or name in self._needed}
        fingerprint = fingerprint_of(NAME, asdict(options))
        # Series are kept by the precision of their times instead of by the name of the measurement, which is part of their device.
        self._states = SeriesStates({**OpenWindows.FIELDS, **figures}, fingerprint, options.width)

    def process(self, events: Sequence[Event], now: int) -> Sequence[Event]:
        """Return the results that are due in place of inserted points; other events pass."""
        results: list[Event] = []
        for event in events:
            results.extend(self._aggregate(event.data, now) if isinstance(event, InsertEvent) else [event])
        return [*results, *self._overdue(now)]

    @property
    def wake_at(self) -> int | None:
        """When the result of an open window is due, in epoch ms; None if none is, or if there is no greatest delay."""
        if self._options.max_delay < 0:
            return None
        oldest = [self._windows(state).oldest() for _, state in self._states]
        waiting = [time for time in oldest if time is not None]
        return min(waiting) + self._delay if waiting else None

    @property
    def _delay(self) -> int:
        return max(self._options.max_delay * 1000, 1)

    def _windows(self, state: ColumnState) -> OpenWindows:
        return OpenWindows(state, self._needed)

    def _aggregate(self, data: DeviceRows, now: int) -> Iterator[Event]:
        """Add the points of some rows to the windows of their series, and yield what is closed."""
        options, segments, times = self._options, group_by_device(data.rows), times_of(data.rows)
        boundary, slide = options.boundary_in(data.precision), options.seconds * data.precision.ticks_per_second
        for name, measurement in data.columns.items():
            column = data.rows.column(name)
            filled = segments.with_values(column)
            values = plain(column.take(pa.array(filled.rows)))
            if not len(values) or not self._results(values.type):
                continue
            state = self._states.column(Measurement(data.precision.value, measurement.type), values.type)
            devices = self._devices(filled.devices, data.database, measurement.name)
            moments = times[filled.rows]
            newest = np.floor_divide(moments - boundary, slide)
            closed = self._windows(state).add(devices, newest, filled.starts, moments, values.cast(state.arrow), now)
            if len(closed.series):
                names = pa.DictionaryArray.from_arrays(closed.series, pa.array(devices, pa.string()))
                yield self._event(closed, names, Measurement(data.precision.value, measurement.type), state, data.database)

    def _overdue(self, now: int) -> Iterator[Event]:
        """Yield the results of open windows that wait too long."""
        if self._options.max_delay < 0:
            return
        for measurement, state in self._states:
            closed = self._windows(state).overdue(now, self._delay)
            if len(closed.series):
                names = pa.array(state.devices(closed.series), pa.string()).dictionary_encode()
                yield self._event(closed, names, measurement, state, "")

    def _devices(self, devices: Sequence[str], database: str, measurement: str) -> list[str]:
        """Return the devices of the results of series."""
        target = self._options.database
        if not target:
            return [f"{device}.{measurement}" for device in devices]
        prefix = database if database else ROOT
        return [f"{target}{device.removeprefix(prefix)}.{measurement}" for device in devices]

    def _results(self, arrow: pa.DataType) -> list[tuple[str, str]]:
        """Return the operators that are defined for a type, with the names of their results."""
        return [pair for pair in self._options.operators if is_number(arrow) or not OPERATORS[pair[0]].is_numeric]

    def _event(
        self, closed: Closed, devices: pa.DictionaryArray, measurement: Measurement, state: ColumnState, database: str
    ) -> InsertEvent:
        """Return the results of windows as rows."""
        precision = Precision(measurement.name)
        table = {
            TIME: pa.array(self._starts(closed.windows, precision)),
            DEVICE: devices,
        }
        columns: dict[str, Measurement] = {}
        for operator, name in self._results(state.arrow):
            type_, arrow = OPERATORS[operator].type_for(measurement.type, state.arrow)
            with np.errstate(all="ignore"):
                table[name] = pa.array(as_type(OPERATORS[operator].compute(closed.partials), arrow), arrow)
            columns[name] = Measurement(name, type_)
        return InsertEvent(DeviceRows(pa.table(table), columns, precision, self._options.database or database))

    def _starts(self, windows: Integers, precision: Precision) -> Integers:
        return windows * (self._options.seconds * precision.ticks_per_second) + self._options.boundary_in(precision)

    def state(self) -> Tables | None:
        """Return the open windows of all series."""
        return self._states.to_tables()

    def restore(self, state: Tables) -> None:
        """Continue from a state. One that was kept under other parameters is discarded."""
        self._states.restore(state)


def as_type(values: Array, arrow: pa.DataType) -> Array:
    """Return results as the type of their column."""
    return values if values.dtype == object else values.astype(arrow.to_pandas_dtype())


def is_integer(text: str) -> bool:
    """Return whether a text is a whole number."""
    return text.removeprefix("-").isdecimal()


def read_options(attributes: PipeAttributes) -> Options:
    """Return the parameters; raise `ProgrammingError` for invalid ones."""
    check_keys(attributes, "sliding.", SLIDING_KEYS)
    check_keys(attributes, "output.", OUTPUT_KEYS)
    attributes.integer("output.min-report-interval-seconds", default=30)
    seconds = attributes.integer("sliding.seconds", default=DEFAULT_SECONDS)
    if seconds <= 0:
        raise pipe_error("The parameter sliding.seconds must be greater than 0")
    return Options(
        read_operators(attributes),
        read_boundary(attributes),
        seconds,
        read_width(attributes, seconds),
        read_database(attributes),
        attributes.integer("output.max-delay-seconds", default=-1),
    )


def read_operators(attributes: PipeAttributes) -> tuple[tuple[str, str], ...]:
    """Return the operators and the names of their results: by position those that are given, else the names of the operators."""
    operators = split_list(attributes.text("operators"))
    if not operators:
        raise pipe_error("The parameter operators must not be empty.", hint=f"the operators are {', '.join(OPERATORS)}")
    text = attributes.text("output.measurements")
    measurements = split_list(text)
    if any(len(split_path(name)) != 1 or parse_path(f"{ROOT}.{name}") is None for name in measurements):
        raise pipe_error(
            f"The output measurements {text} contains illegal measurements, the measurements must be the last level of a legal path"
        )
    pairs = tuple(zip_longest(operators, measurements[: len(operators)]))
    names = {operator.lower(): name or operator for operator, name in pairs}
    unknown = {operator: name for operator, name in names.items() if operator not in OPERATORS}
    if unknown or len(set(names.values())) < len(names):
        text = ", ".join(f"{operator}={name}" for operator, name in (unknown or names).items())
        raise pipe_error(
            f"The aggregator and output name {{{text}}} is invalid.",
            hint=f"the operators are {', '.join(OPERATORS)}; their output names differ from each other",
        )
    return tuple(names.items())


def split_list(text: str) -> list[str]:
    """Return the parts of a list that is separated by commas."""
    return [part.strip() for part in text.split(",") if part.strip()]


def read_width(attributes: PipeAttributes, seconds: int) -> int:
    """Return how many windows contain a point."""
    strategy = attributes.text("windowing-strategy", default="tumbling").lower()
    if not strategy:
        raise pipe_error("The parameter windowing-strategy must not be empty.")
    if strategy not in STRATEGIES:
        raise pipe_error(
            f"The processor {strategy}-windowing-processor is not a windowing processor.",
            hint=f"the strategies are {', '.join(STRATEGIES)}",
        )
    if strategy == "tumbling":
        return 1
    length = attributes.integer("sliding.window-seconds", default=0)
    if length <= 0 or length % seconds or length // seconds > MAX_WINDOWS_PER_POINT:
        raise pipe_error(
            f"The parameter sliding.window-seconds must be a multiple of sliding.seconds, but got {length} and {seconds}",
            hint=f"sliding windows are 1 to {MAX_WINDOWS_PER_POINT} times as long as the distance of their starts",
        )
    return length // seconds


def read_boundary(attributes: PipeAttributes) -> str:
    """Return the boundary time."""
    text = attributes.text("sliding.boundary-time", default="0").strip()
    if not is_integer(text) and parse_instant(text, "UTC", Precision.MILLISECOND) is None:
        raise pipe_error(
            f"Input time format {text} error. Input like yyyy-MM-dd HH:mm:ss, yyyy-MM-ddTHH:mm:ss or a number",
            hint="sliding.boundary-time is a time at which a window starts",
        )
    return text


def read_database(attributes: PipeAttributes) -> str:
    """Return the database of the results, in canonical spelling."""
    text = attributes.text("output.database")
    if not text:
        return ""
    nodes = parse_path(text)
    if not text.startswith(f"{ROOT}.") or nodes is None:
        raise pipe_error(f"The output database {text} shall start with root.")
    return join_path(nodes)


def validate(attributes: PipeAttributes) -> None:
    """Check the parameters."""
    read_options(attributes)


def create(attributes: PipeAttributes, _: PipeContext) -> Processor:
    """Return the processor."""
    return AggregateProcessor(read_options(attributes))
