"""Reading of an IoTDB server: of each device the rows after a time, so that offsets are the last times of devices."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.egress import EgressPolicy
from headrace.model.paths import join_path, split_path
from headrace.model.positions import Offsets
from headrace.model.time import Precision
from headrace.model.tree_types import TREE_TYPES
from headrace.model.types import TypeKind
from headrace.pipes.events import DEVICE, TIME, DeviceRows, InsertEvent, Measurement
from headrace.pipes.iotdb import queries
from headrace.pipes.iotdb.connection import Connection, Node, login_of
from headrace.pipes.iotdb.nodes import Nodes
from headrace.pipes.iotdb.queries import query
from headrace.pipes.iotdb.session_options import SessionOptions
from headrace.pipes.plugins import Source, SourceBatch
from headrace.pipes.sinks.iotdb_thrift_options import PRIORITY

MAX_BATCH_VALUES: Final = 1_000_000
MAX_BATCH_ROWS: Final = 200_000
MIN_BATCH_ROWS: Final = 1_000
MAX_DEVICES: Final = 500
"""Devices in a query."""
SCHEMA_MAX_AGE_S: Final = 60.0
"""How long a changed type of a series may go unnoticed. New series are noticed at once."""


@dataclass(frozen=True, slots=True)
class Group:
    """Devices that are read together: they have the same series, and are read from the same time on.

    Attributes:
        after: The time after which they are read; None for all times.
        schema: Their series.
        devices: Their paths.
    """

    after: int | None
    schema: ServerDevice
    devices: Sequence[str]


@dataclass(slots=True)
class ServerSnapshot:
    """What the server said last.

    Attributes:
        devices: Its devices.
        last: The last time of each device.
        polled_at: When it was asked, on the monotonic clock; None for never.
        schema_at: When it was asked for its series.
    """

    devices: Mapping[str, ServerDevice] = field(default_factory=dict)
    last: dict[str, int] = field(default_factory=dict)
    polled_at: float | None = None
    schema_at: float = -SCHEMA_MAX_AGE_S


class SessionSource(Source):
    """Reads the series of a server. The offset of a device is the time of its last row that was read."""

    def __init__(self, options: SessionOptions, egress: EgressPolicy) -> None:
        """Take the options; nothing is connected yet."""
        self._options = options
        login = login_of(options, egress)
        self._nodes = Nodes([Node(*node) for node in options.nodes], login, PRIORITY, lambda _: None)
        self._snapshot = ServerSnapshot()
        self._resumed: dict[str, int] = {}
        """How far devices were read whose rows did not all fit into a batch."""
        self._has_more = True
        self._series: frozenset[str] = frozenset()
        self._checked: dict[str, int] = {}
        """The last times of devices up to which nothing more was found, such as times that were deleted since."""

    def has_news(self, offsets: Offsets) -> bool:  # noqa: ARG002
        """Return whether devices may have rows to read, or the server should be asked again."""
        return self._has_more or self._is_poll_due()

    def has_ended(self, offsets: Offsets) -> bool:
        """Return whether a snapshot has been read."""
        return self._options.is_snapshot and self._snapshot.polled_at is not None and not self.has_news(offsets)

    def pending(self, offsets: Offsets) -> tuple[int, int | None]:
        """Return the number of devices with rows to read, each of which has one at least."""
        return sum(self._is_behind(device, offsets) for device in self._snapshot.devices), None

    def close(self) -> None:
        """Close the connections."""
        self._nodes.close()

    def read(self, offsets: Offsets, until: Offsets | None = None) -> SourceBatch | None:
        """Return rows of some devices, None if no device has new ones.

        Raises:
            OperationalError: No node of the server can be reached.
            ConfigurationError: The user may not log in.
        """
        return self._nodes.run(lambda connection: self._read(connection, offsets, until))

    def _read(self, connection: Connection, offsets: Offsets, until: Offsets | None) -> SourceBatch | None:
        if self._is_poll_due() or until is not None:
            self._poll(connection)
        if until is not None and (changed := {device for device, end in until.items() if offsets.get(device) != end}):
            return self._repeat(connection, offsets, until, changed)
        while (group := self._next_group(connection, offsets)) is not None:
            batch = self._read_group(connection, group, offsets)
            if batch is not None:
                return batch
        self._has_more = False
        return None

    def _is_poll_due(self) -> bool:
        polled_at = self._snapshot.polled_at
        if polled_at is None:
            return True
        return not self._options.is_snapshot and time.monotonic() - polled_at >= self._options.poll_ms / 1_000

    def _poll(self, connection: Connection) -> None:
        """Ask for the last times of all series, and for the series if there are new ones."""
        snapshot, now = self._snapshot, time.monotonic()
        times = last_times(connection, self._options.path, self._bound(connection, is_start=False))
        last: dict[str, int] = {}
        for series, instant in times.items():
            device, _ = split_series(series)
            last[device] = max(instant, last.get(device, instant))
        if now - snapshot.schema_at >= SCHEMA_MAX_AGE_S or times.keys() != self._series:
            snapshot.devices, snapshot.schema_at = read_devices(connection, self._options.path), now
            self._series = frozenset(times)
        snapshot.last, snapshot.polled_at, self._has_more = last, now, True

    def _bound(self, connection: Connection, *, is_start: bool) -> int | None:
        """Return the first or last time to read, in ticks of the server."""
        bound = self._options.start if is_start else self._options.end
        return None if bound is None else bound.ticks(connection.precision)

    def _is_behind(self, device: str, offsets: Offsets) -> bool:
        last = self._snapshot.last.get(device)
        if last is None:
            return False
        if device in self._resumed:
            return True
        offset = offsets.get(device)
        return (offset is None or last > offset) and self._checked.get(device) != last

    def _next_group(self, connection: Connection, offsets: Offsets) -> Group | None:
        """Return devices with new rows that can be read together, those that are furthest behind."""
        behind = (device for device in self._snapshot.devices if self._is_behind(device, offsets))
        groups = self._groups(connection, behind, offsets)
        furthest = min(groups, key=lambda group: (group.after is not None, group.after or 0), default=None)
        return furthest and replace(furthest, devices=sorted(furthest.devices)[:MAX_DEVICES])

    def _groups(self, connection: Connection, devices: Iterable[str], offsets: Offsets) -> list[Group]:
        """Return devices by what they have in common. Equal schemas are the same object."""
        members: dict[tuple[int | None, int], list[str]] = defaultdict(list)
        for device in devices:
            members[self._after(connection, device, offsets), id(self._snapshot.devices[device])].append(device)
        return [Group(after, self._snapshot.devices[paths[0]], paths) for (after, _), paths in members.items()]

    def _after(self, connection: Connection, device: str, offsets: Offsets) -> int | None:
        """Return the time after which a device is read."""
        start = self._bound(connection, is_start=True)
        first = None if start is None else start - 1
        if device in self._resumed:
            return self._resumed[device]
        if device not in offsets:
            return first
        overlap = self._options.overlap_ms * Precision.MILLISECOND.nanoseconds // connection.precision.nanoseconds
        after = offsets[device] - overlap
        return after if first is None else max(after, first)

    def _read_group(self, connection: Connection, group: Group, offsets: Offsets) -> SourceBatch | None:
        """Return the next rows of devices; None if there are none."""
        most = batch_rows(len(group.schema.measurements))
        rows = read_rows(connection, group, self._bound(connection, is_start=False), limit=most)
        new = dict(offsets)
        finals = final_times(rows)
        for device, final in finals.items():
            new[device] = max(final, offsets.get(device, final))
        is_full = rows.num_rows >= most
        for device in finals if is_full else group.devices:
            self._resumed.pop(device, None)
            self._checked[device] = self._snapshot.last[device]
        if is_full:
            partial = rows["Device"][-1].as_py()
            self._resumed[partial] = finals[partial]
        if not rows.num_rows:
            return None
        return SourceBatch([to_event(rows, group, connection.precision)], new)

    def _repeat(self, connection: Connection, offsets: Offsets, until: Offsets, changed: set[str]) -> SourceBatch:
        """Return the batch that led to some offsets once more."""
        events = []
        for group in self._groups(connection, sorted(changed & self._snapshot.devices.keys()), offsets):
            rows = read_rows(connection, group, max(until[device] for device in group.devices))
            rows = rows_until(rows, until) if rows.num_rows else rows
            if rows.num_rows:
                events.append(to_event(rows, group, connection.precision))
        return SourceBatch(events, until)


def batch_rows(columns: int) -> int:
    """Return how many rows with this many columns are read at a time."""
    return min(MAX_BATCH_ROWS, max(MIN_BATCH_ROWS, MAX_BATCH_VALUES // (columns + 1)))


def read_rows(connection: Connection, group: Group, end: int | None, limit: int | None = None) -> pa.Table:
    """Return the rows of devices, one device after the other, each in the order of times: `Time`, `Device`, and measurements."""
    names = ", ".join(measurement.name for measurement in group.schema.measurements)
    bounds = [f"time > {group.after}"] if group.after is not None else []
    bounds += [f"time <= {end}"] if end is not None else []
    where = f" WHERE {' AND '.join(bounds)}" if bounds else ""
    limited = "" if limit is None else f" LIMIT {limit}"
    return queries.query(connection, f"SELECT {names} FROM {', '.join(group.devices)}{where}{limited} ALIGN BY DEVICE")


def final_times(rows: pa.Table) -> dict[str, int]:
    """Return the last time of each device, in the order of the rows."""
    if not rows.num_rows:
        return {}
    encoded = rows["Device"].combine_chunks().dictionary_encode()
    numbers = encoded.indices.to_numpy()
    ends = np.flatnonzero(np.append(numbers[1:] != numbers[:-1], True))
    paths, times = encoded.dictionary.to_pylist(), rows["Time"].to_numpy()
    return {paths[numbers[end]]: int(times[end]) for end in ends.tolist()}


def rows_until(rows: pa.Table, until: Offsets) -> pa.Table:
    """Return the rows that are not after the offset of their device."""
    encoded = rows["Device"].combine_chunks().dictionary_encode()
    ends = np.array([until[path] for path in encoded.dictionary.to_pylist()], np.int64)
    return rows.filter(pa.array(rows["Time"].to_numpy() <= ends[encoded.indices.to_numpy()]))


def to_event(rows: pa.Table, group: Group, precision: Precision) -> InsertEvent:
    """Return rows of the server as an event."""
    schema = group.schema
    columns = {TIME: rows["Time"], DEVICE: rows["Device"].combine_chunks().dictionary_encode()}
    measurements = {}
    for number, measurement in enumerate(schema.measurements):
        if measurement.name in rows.column_names:
            values = rows[measurement.name]
            columns[f"value_{number}"] = as_dates(values) if measurement.type.kind is TypeKind.DATE else values
            measurements[f"value_{number}"] = measurement
    aligned = frozenset(group.devices) if schema.is_aligned else frozenset()
    return InsertEvent(DeviceRows(pa.table(columns), measurements, precision, schema.database, aligned))


ALL_BELOW = "**"
BASE = "BASE"
"""What is no view of other series."""


@dataclass(frozen=True, slots=True)
class ServerDevice:
    """A device and its series.

    Attributes:
        database: Its database.
        measurements: Its series that match, in the order of their names.
        is_aligned: Whether it is aligned.
    """

    database: str
    measurements: tuple[Measurement, ...]
    is_aligned: bool


def read_devices(connection: Connection, pattern: str) -> dict[str, ServerDevice]:
    """Return the devices with series that match a pattern, by path. Views are left out. Equal ones are the same object."""
    series = query(connection, f"SHOW TIMESERIES {pattern}")
    if not series.num_columns:
        return {}
    aligned = aligned_devices(connection, pattern)
    databases: dict[str, str] = {}
    measurements: dict[str, list[Measurement]] = defaultdict(list)
    base = series.filter(pc.equal(series["ViewType"], BASE)).select(["Timeseries", "Database", "DataType"])
    for path, database, type_ in zip(*(column.to_pylist() for column in base.columns), strict=True):
        device, measurement = split_series(path)
        databases[device] = database
        measurements[device].append(Measurement(measurement, TREE_TYPES[type_]))
    schemas: dict[ServerDevice, ServerDevice] = {}
    devices = {}
    for device, database in databases.items():
        schema = ServerDevice(database, tuple(sorted(measurements[device], key=lambda one: one.name)), device in aligned)
        devices[device] = schemas.setdefault(schema, schema)
    return devices


def split_series(path: str) -> tuple[str, str]:
    """Return the device and the measurement of a series."""
    nodes = split_path(path)
    return join_path(nodes[:-1]), nodes[-1]


def aligned_devices(connection: Connection, pattern: str) -> set[str]:
    """Return the aligned devices among those that a pattern of series reaches."""
    prefix, last = split_pattern(pattern)
    reached = [prefix, f"{prefix}.{ALL_BELOW}"] if last == ALL_BELOW else [prefix]
    tables = [query(connection, f"SHOW DEVICES {devices}") for devices in reached]
    aligned = [table.filter(pc.equal(table["IsAligned"], "true"))["Device"].to_pylist() for table in tables if table.num_columns]
    return {device for devices in aligned for device in devices}


def last_times(connection: Connection, pattern: str, end: int | None) -> dict[str, int]:
    """Return the last time of each series that has values, up to an instant."""
    prefix, last = split_pattern(pattern)
    bound = "" if end is None else f" WHERE time <= {end}"
    table = query(connection, f"SELECT LAST {last} FROM {prefix}{bound}")
    if not table.num_columns:
        return {}
    return dict(zip(table["Timeseries"].to_pylist(), table["Time"].to_pylist(), strict=True))


def split_pattern(pattern: str) -> tuple[str, str]:
    """Return all nodes of a pattern but the last, and the last one."""
    nodes = split_path(pattern)
    return ".".join(nodes[:-1]), nodes[-1]


def as_dates(digits: pa.ChunkedArray) -> pa.Array:
    """Return dates of integers with year, month and day as decimal digits."""
    numbers = digits.combine_chunks()
    whole = numbers.fill_null(19700101).to_numpy().astype(np.int64)
    months = (whole // 10_000 - 1970) * 12 + whole // 100 % 100 - 1
    days = months.astype("datetime64[M]").astype("datetime64[D]") + (whole % 100 - 1)
    return pa.array(days, pa.date32(), mask=numbers.is_null().to_numpy(zero_copy_only=False))
