"""What a query over trees reads: devices with their series, and the stored rows of each database."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa

from headrace.errors import NotSupportedError
from headrace.model.paths import PathPattern
from headrace.model.tables import Database, Table
from headrace.model.time import Precision
from headrace.model.trees import Device, Timeseries
from headrace.model.types import TIMESTAMP
from headrace.verify.frames import without_timestamps
from headrace.verify.values import duck_type

if TYPE_CHECKING:
    import duckdb


@dataclass(frozen=True, slots=True)
class TreeRows:
    """The stored rows of one database; `read` returns those of some devices within a range of time.

    `read` takes the columns besides time and device, the devices, and the least and greatest tick.
    """

    database: Database
    table: Table
    read: Callable[[Sequence[str], Sequence[str], tuple[int, int]], pa.Table]


@dataclass(frozen=True, slots=True)
class TreeSource:
    """What the paths of a query can match.

    Attributes:
        devices: The devices.
        rows: The stored rows by database.
        timezone: The zone of times that name none, and of calendar months.
        expired_before: For devices with a time to live, the first tick that is still visible.
    """

    devices: tuple[Device, ...]
    rows: Mapping[str, TreeRows]
    timezone: str = "UTC"
    expired_before: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Series:
    """One series of one device; `alias` is set if a query calls it so."""

    device: Device
    series: Timeseries
    alias: str | None = None

    @property
    def name(self) -> str:
        """The measurement, or the alias."""
        return self.alias or self.series.measurement

    @property
    def path(self) -> str:
        """The full path, with the alias if the query has it."""
        return self.device.series_path(self.name)


def matching_series(devices: Iterable[Device], pattern: PathPattern) -> list[Series]:
    """Return the series that a pattern matches by measurement, or by alias."""
    matched: list[Series] = []
    for device in devices:
        for series in device.series:
            alias = device.labels_of(series.measurement).alias
            if pattern.matches((*device.nodes, series.measurement)):
                matched.append(Series(device, series))
            elif alias is not None and alias == pattern.nodes[-1] and PathPattern(pattern.nodes[:-1]).matches(device.nodes):
                matched.append(Series(device, series, alias))
    return matched


@dataclass(slots=True)
class Loader:
    """Copies the columns that a query reads to tables of DuckDB."""

    connection: duckdb.DuckDBPyConnection
    source: TreeSource
    bounds: tuple[int, int]

    def load(self, name: str, series: Sequence[Series]) -> str:
        """Copy the rows of one database that have some series; return the table, with `_ts`, `_device` and the stored columns."""
        tree = self.source.rows[name]
        types = {part.series.column: part.series.type for part in series}
        devices = sorted({part.device.path for part in series})
        relation = f"tree_{len(self.connection.execute('SHOW TABLES').fetchall())}"
        self.connection.register("rows_in", without_timestamps(tree.read(sorted(types), devices, self.bounds)))
        unit = " // 1000" if tree.database.precision is Precision.MILLISECOND else ""
        columns = [f"{quoted_name(tree.table.timestamp.name)}{unit} AS _ts", f"{quoted_name(tree.table.series_key)} AS _device"]
        for column, type_ in types.items():
            divided = unit if type_ == TIMESTAMP else ""
            columns.append(f"CAST({quoted_name(column)}{divided} AS {duck_type(type_)}) AS {quoted_name(column)}")
        self.connection.execute(
            f"CREATE TEMP TABLE {relation} AS SELECT * FROM (SELECT {', '.join(columns)} FROM rows_in)"
            f" WHERE {is_among(devices)} AND {self.is_visible(devices)}"
        )
        self.connection.unregister("rows_in")
        return relation

    def is_visible(self, devices: Sequence[str]) -> str:
        """Return the condition that rows have not expired."""
        limits = self.source.expired_before
        expired = [f"(_device = {text(path)} AND _ts < {limits[path]})" for path in devices if path in limits]
        return f"NOT ({' OR '.join(expired)})" if expired else "true"


def is_among(devices: Sequence[str]) -> str:
    """Return the condition that a row is of one of some devices."""
    return f"_device IN ({', '.join(text(path) for path in devices)})"


def text(value: str) -> str:
    """Return a text as SQL."""
    return "'" + value.replace("'", "''") + "'"


def quoted_name(name: str) -> str:
    """Return a name as SQL."""
    return '"' + name.replace('"', '""') + '"'


def precision_of(source: TreeSource, names: Iterable[str]) -> Precision:
    """Return the precision that databases share."""
    precisions = {source.rows[name].database.precision for name in names}
    if len(precisions) > 1:
        raise NotSupportedError("verify does not support databases of several precisions", hint="verify each database alone")
    return next(iter(precisions), Precision.MILLISECOND)
