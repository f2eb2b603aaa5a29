"""The processor that counts points and reports how many there were."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from headrace.model.paths import join_path, parse_path
from headrace.model.time import Precision
from headrace.model.types import BIGINT
from headrace.pipes.attributes import PipeAttributes, pipe_error
from headrace.pipes.events import DEVICE, TIME, DeviceRows, Event, InsertEvent, Measurement
from headrace.pipes.plugins import PipeContext, Processor, Tables
from headrace.pipes.processors.sampling import fingerprint_of

NAME: Final = "count-point-processor"
COUNTS: Final = "counts"
MIN_NODES: Final = 3


class CountPointProcessor(Processor):
    """Replaces inserted points by a point with their number, since the pipe began, at the time of the clock.

    The state is that number.
    """

    def __init__(self, device: str, measurement: str) -> None:
        """Create the processor that reports to a series."""
        self._device, self._measurement = device, measurement
        self._fingerprint = fingerprint_of(NAME, {"device": device, "measurement": measurement})
        self._count = 0

    def process(self, events: Sequence[Event], now: int) -> Sequence[Event]:
        """Return the report, if there were points, after the other events."""
        inserts = [event for event in events if isinstance(event, InsertEvent)]
        others = [event for event in events if not isinstance(event, InsertEvent)]
        points = sum(count_points(event.data) for event in inserts)
        self._count += points
        return [*others, self._report(now)] if points else others

    def _report(self, now: int) -> InsertEvent:
        table = pa.table({TIME: [now], DEVICE: [self._device], self._measurement: pa.array([self._count], pa.int64())})
        return InsertEvent(DeviceRows(table, {self._measurement: Measurement(self._measurement, BIGINT)}, Precision.MILLISECOND))

    def state(self) -> Tables | None:
        """Return the number of points."""
        return {COUNTS: pa.table({"fingerprint": [self._fingerprint], "count": pa.array([self._count], pa.int64())})}

    def restore(self, state: Tables) -> None:
        """Continue from a state. One that was kept under other parameters is discarded."""
        rows = state[COUNTS].to_pylist() if COUNTS in state else []
        self._count = next((row["count"] for row in rows if row["fingerprint"] == self._fingerprint), 0)


def count_points(data: DeviceRows) -> int:
    """Return the number of values that are not NULL."""
    columns = [data.rows.column(name) for name in data.columns]
    return sum(len(column) - column.null_count for column in columns)


def read_series(attributes: PipeAttributes) -> tuple[str, str]:
    """Return device and measurement of the output series; raise `ProgrammingError` if it is missing or no path."""
    path = attributes.first("output-series", "output.series")
    if path is None:
        raise pipe_error(
            "The parameter output-series is required", hint="it is the path of a series, such as root.counts.pipe1.points"
        )
    nodes = parse_path(path)
    if nodes is None or len(nodes) < MIN_NODES or any("*" in node and not node.startswith("`") for node in nodes):
        raise pipe_error(f"Illegal output series path: {path}", hint="give the path of a series, such as root.counts.pipe1.points")
    return join_path(nodes[:-1]), nodes[-1]


def validate(attributes: PipeAttributes) -> None:
    """Check the parameters."""
    read_series(attributes)


def create(attributes: PipeAttributes, _: PipeContext) -> Processor:
    """Return the processor."""
    return CountPointProcessor(*read_series(attributes))
