"""What a query over trees reads: devices with their series, and the stored rows of each database."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from headrace.errors import NotSupportedError
from headrace.model.paths import PathPattern
from headrace.model.tables import Database, Table
from headrace.model.time import Precision
from headrace.model.trees import Device, SeriesRef
from headrace.model.types import DOUBLE, TIMESTAMP, DataType
from headrace.verify.steps import TS, Steps
from headrace.verify.values import Value, duck_type, quoted, quoted_name, unsupported


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
    """The devices that the paths of a query can match, and the stored rows by database.

    The time zone is that of times that name none, and of calendar months. For devices with a time to live, `expired_before` has the
    first tick that is still visible.
    """

    devices: tuple[Device, ...]
    rows: Mapping[str, TreeRows]
    timezone: str = "UTC"
    expired_before: Mapping[str, int] = field(default_factory=dict)

    @property
    def precision(self) -> Precision:
        """The precision that the databases share."""
        precisions = {self.rows[name].database.precision for name in {device.database for device in self.devices}}
        if len(precisions) > 1:
            raise NotSupportedError("verify does not support databases of several precisions", hint="verify each database alone")
        return next(iter(precisions), Precision.MILLISECOND)


def matching_series(devices: Iterable[Device], pattern: PathPattern) -> list[SeriesRef]:
    """Return the series that a pattern matches by measurement, or by alias."""
    matched: list[SeriesRef] = []
    for device in devices:
        for series in device.series:
            alias = device.labels_of(series.measurement).alias
            if pattern.matches((*device.nodes, series.measurement)):
                matched.append(SeriesRef(device, series))
            elif alias is not None and alias == pattern.nodes[-1] and PathPattern(pattern.nodes[:-1]).matches(device.nodes):
                matched.append(SeriesRef(device, series, alias))
    return matched


@dataclass(slots=True)
class Rows:
    """A relation with `_ts`, `_device` if rows are of devices or labeled groups, and a column `c…` for each name."""

    relation: str
    columns: Mapping[str, Value]
    devices: tuple[str, ...] | None = None


@dataclass(slots=True)
class RowsBuilder:
    """Builds the relations of rows from the stored rows within bounds of time."""

    steps: Steps
    source: TreeSource
    bounds: tuple[int, int]

    def by_time(self, series: Mapping[str, SeriesRef]) -> Rows:
        """Return one row for each instant at which one of the series has a value."""
        columns = _named_columns({name: part.series.type for name, part in series.items()})
        sides = []
        for database, table in self._loaded(series.values()).items():
            values = [
                f"any_value({quoted_name(part.series.column)}) FILTER (WHERE _device = {quoted(part.device.path)}) "
                f"AS {columns[name].sql}"
                for name, part in series.items()
                if part.device.database == database
            ]
            sides.append(f"(SELECT {TS}, {', '.join(values)} FROM {table} GROUP BY {TS})")
        joined = sides[0] + "".join(f" FULL JOIN {side} USING ({TS})" for side in sides[1:])
        return Rows(self.steps.step("rows", f"SELECT * FROM {joined} s WHERE {_has_value(columns)}"), columns)

    def by_device(self, names: Mapping[str, Mapping[str, SeriesRef]]) -> Rows:
        """Return one row for each instant of a device at which one of its measurements has a value."""
        types: dict[str, DataType] = {}
        for measured in names.values():
            for name, part in measured.items():
                if types.setdefault(name, part.series.type) != part.series.type:
                    raise unsupported(f"{name}, which has several types, in ALIGN BY DEVICE")
        columns = _named_columns(types)
        sides = []
        for database, table in self._loaded(part for measured in names.values() for part in measured.values()).items():
            own = [measured for measured in names.values() if any(part.device.database == database for part in measured.values())]
            values = [f"{_measured(name, own)} AS {column.sql}" for name, column in columns.items()]
            sides.append(f"SELECT {TS}, _device, {', '.join(values)} FROM {table}")
        relation = self.steps.step("rows", f"SELECT * FROM ({' UNION ALL '.join(sides)}) WHERE {_has_value(columns)}")
        return Rows(relation, columns, tuple(sorted(path for path, measured in names.items() if measured)))

    def by_group(
        self,
        groups: Mapping[str, Mapping[str, Sequence[SeriesRef]]],
        types: Mapping[str, DataType],
        *,
        labeled: Iterable[str] | None,
    ) -> Rows:
        """Return one row for each point of a series and column of `groups`, with its value in this column.

        `groups` has the series of each column by the label of the group; if rows have labels as their device, `labeled` has all.
        """
        columns = _named_columns(types)
        points = [(name, label, part) for name, own in groups.items() for label, parts in own.items() for part in parts]
        tables = self._loaded(part for _, _, part in points)
        selects = []
        for name, label, part in points:
            fixed = TS if labeled is None else f"{TS}, {quoted(label)} AS _device"
            selects.append(f"SELECT {fixed}, {_cells(part, name, columns)} FROM {tables[part.device.database]} {_where(part)}")
        relation = self.steps.step("rows", " UNION ALL ".join(selects))
        return Rows(relation, columns, None if labeled is None else tuple(sorted(labeled)))

    def _loaded(self, series: Iterable[SeriesRef]) -> dict[str, str]:
        """Copy the rows that have some series; return a table for each database, with `_ts`, `_device` and the stored columns."""
        grouped: dict[str, list[SeriesRef]] = {}
        for part in series:
            grouped.setdefault(part.device.database, []).append(part)
        return {database: self._load(self.source.rows[database], parts) for database, parts in grouped.items()}

    def _load(self, tree: TreeRows, series: Sequence[SeriesRef]) -> str:
        types = {part.series.column: part.series.type for part in series}
        devices = sorted({part.device.path for part in series})
        unit = " // 1000" if tree.database.precision is Precision.MILLISECOND else ""
        columns = [f"{quoted_name(tree.table.timestamp.name)}{unit} AS {TS}", f"{quoted_name(tree.table.series_key)} AS _device"]
        for column, type_ in types.items():
            divided = unit if type_ == TIMESTAMP else ""
            columns.append(f"CAST({quoted_name(column)}{divided} AS {duck_type(type_)}) AS {quoted_name(column)}")
        limits = self.source.expired_before
        expired = [f"(_device = {quoted(path)} AND {TS} < {limits[path]})" for path in devices if path in limits]
        where = f"{_is_among(devices)} AND NOT ({' OR '.join(expired) or 'false'})"
        sql = f"SELECT * FROM (SELECT {', '.join(columns)} FROM rows_in) WHERE {where}"
        return self.steps.load("tree", sql, rows_in=tree.read(sorted(types), devices, self.bounds))


def _measured(name: str, devices: Iterable[Mapping[str, SeriesRef]]) -> str:
    by_column: dict[str, list[str]] = {}
    for part in [measured[name] for measured in devices if name in measured]:
        by_column.setdefault(part.series.column, []).append(part.device.path)
    whens = [f"WHEN {_is_among(paths)} THEN {quoted_name(column)}" for column, paths in by_column.items()]
    return f"CASE {' '.join(whens)} END" if whens else "NULL"


def _cells(part: SeriesRef, name: str, columns: Mapping[str, Value]) -> str:
    """Return the values of a series in the column of one name, and NULL in the others."""
    stored, type_ = quoted_name(part.series.column), columns[name].type
    # Groups of several types are computed as DOUBLE, or only counted.
    value = stored if type_ == part.series.type else f"CAST({stored} AS DOUBLE)" if type_ == DOUBLE else "1"
    return ", ".join(f"{value if other == name else 'NULL'} AS {column.sql}" for other, column in columns.items())


def _where(part: SeriesRef) -> str:
    return f"WHERE _device = {quoted(part.device.path)} AND {quoted_name(part.series.column)} IS NOT NULL"


def _is_among(devices: Sequence[str]) -> str:
    return f"_device IN ({', '.join(quoted(path) for path in devices)})"


def _named_columns(types: Mapping[str, DataType]) -> dict[str, Value]:
    return {name: Value(f"c{number}", type_) for number, (name, type_) in enumerate(types.items())}


def _has_value(columns: Mapping[str, Value]) -> str:
    return " OR ".join(f"{column.sql} IS NOT NULL" for column in columns.values()) or "true"
