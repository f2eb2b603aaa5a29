"""The series of an IoTDB server that match a pattern, by device."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.model.paths import join_path, split_path
from headrace.model.tree_types import TREE_TYPES
from headrace.pipes.events import Measurement
from headrace.pipes.iotdb.connection import Connection
from headrace.pipes.iotdb.queries import query

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
