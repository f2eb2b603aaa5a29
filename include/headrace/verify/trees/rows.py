"""The rows that a query reads: aligned by time, by device, or all points of the groups of GROUP BY LEVEL."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from headrace.model.types import BIGINT, DOUBLE, DataType
from headrace.verify.trees.source import Loader, Series, is_among, quoted_name, text
from headrace.verify.values import Value, unsupported


@dataclass(slots=True)
class Rows:
    """A relation with `_ts`, `_device` if rows are of devices, and a column `c…` for each name.

    Attributes:
        columns: Column and type by name.
        devices: Devices of the rows if they are by device.
    """

    relation: str
    columns: Mapping[str, Value]
    devices: tuple[str, ...] | None = None


@dataclass(slots=True)
class RowsBuilder:
    """Builds the relations of rows."""

    loader: Loader
    step: Callable[[str, str], str]
    loaded: dict[str, str] = field(default_factory=dict)

    def by_time(self, series: Mapping[str, Series]) -> Rows:
        """Return one row for each instant at which one of the series has a value."""
        columns = named_columns({name: part.series.type for name, part in series.items()})
        sides = []
        for database, parts in by_database(series.values()).items():
            table = self.loader.load(database, parts)
            own = {name: part for name, part in series.items() if part.device.database == database}
            values = [
                f"any_value({quoted_name(part.series.column)}) FILTER (WHERE _device = {text(part.device.path)}) "
                f"AS {columns[name].sql}"
                for name, part in own.items()
            ]
            sides.append(f"(SELECT _ts, {', '.join(values)} FROM {table} GROUP BY _ts)")
        joined = sides[0] + "".join(f" FULL JOIN {side} USING (_ts)" for side in sides[1:])
        return Rows(self.step("rows", f"SELECT * FROM {joined} s WHERE {has_value(columns.values())}"), columns)

    def by_device(self, names: Mapping[str, Mapping[str, Series]]) -> Rows:
        """Return one row for each instant of a device at which one of its measurements has a value."""
        types: dict[str, DataType] = {}
        for measured in names.values():
            for name, part in measured.items():
                if types.setdefault(name, part.series.type) != part.series.type:
                    raise unsupported(f"{name}, which has several types, in ALIGN BY DEVICE")
        columns = named_columns(types)
        every = [part for measured in names.values() for part in measured.values()]
        sides = []
        for database, parts in by_database(every).items():
            table = self.loader.load(database, parts)
            values = [
                f"{self.measured([measured[name] for measured in names.values() if name in measured], database)} AS {column.sql}"
                for name, column in columns.items()
            ]
            sides.append(f"SELECT _ts, _device, {', '.join(values)} FROM {table}")
        united = " UNION ALL ".join(sides)
        relation = self.step("rows", f"SELECT * FROM ({united}) WHERE {has_value(columns.values())}")
        return Rows(relation, columns, tuple(sorted(path for path, measured in names.items() if measured)))

    def measured(self, parts: Sequence[Series], database: str) -> str:
        """Return a measurement of the devices of one database that have it."""
        by_column: dict[str, list[str]] = {}
        for part in parts:
            if part.device.database == database:
                by_column.setdefault(part.series.column, []).append(part.device.path)
        whens = [f"WHEN {is_among(devices)} THEN {quoted_name(column)}" for column, devices in by_column.items()]
        return f"CASE {' '.join(whens)} END" if whens else "NULL"

    def by_group(self, groups: Mapping[str, Sequence[Series]], types: Mapping[str, DataType]) -> Rows:
        """Return one row for each point of a series and group, with its value in the column of the group."""
        columns = named_columns(types)
        tables = {
            database: self.loader.load(database, parts)
            for database, parts in by_database(part for parts in groups.values() for part in parts).items()
        }
        points = [
            self.point_rows(part, tables[part.device.database], name, columns) for name, parts in groups.items() for part in parts
        ]
        return Rows(self.step("rows", " UNION ALL ".join(points)), columns)

    def by_tags(self, columns: Mapping[str, Mapping[str, Sequence[Series]]], labels: Iterable[str]) -> Rows:
        """Return one row for each point of a series, with the label of its group as device and its value in one column."""
        parts = {name: [part for own in groups.values() for part in own] for name, groups in columns.items()}
        types = {name: common_type(own) for name, own in parts.items()}
        named = named_columns(types)
        every = [part for own in parts.values() for part in own]
        tables = {database: self.loader.load(database, own) for database, own in by_database(every).items()}
        points = [
            self.point_rows(part, tables[part.device.database], name, named, label)
            for name, groups in columns.items()
            for label, own in groups.items()
            for part in own
        ]
        return Rows(self.step("rows", " UNION ALL ".join(points)), named, tuple(sorted(labels)))

    @staticmethod
    def point_rows(part: Series, table: str, name: str, columns: Mapping[str, Value], label: str | None = None) -> str:
        """Return the points of a series as rows with its values in the column of one name, and NULL in the others."""
        stored, type_ = quoted_name(part.series.column), columns[name].type
        # Groups of several types are computed as DOUBLE, or only counted.
        value = stored if type_ == part.series.type else f"CAST({stored} AS DOUBLE)" if type_ == DOUBLE else "1"
        cells = [f"{value if other == name else 'NULL'} AS {column.sql}" for other, column in columns.items()]
        fixed = ["_ts"] if label is None else ["_ts", f"{text(label)} AS _device"]
        where = f"_device = {text(part.device.path)} AND {stored} IS NOT NULL"
        return f"SELECT {', '.join([*fixed, *cells])} FROM (SELECT * FROM {table} WHERE {where})"


def common_type(parts: Sequence[Series]) -> DataType:
    """Return the type of a group of series, BIGINT of several types."""
    types = {part.series.type for part in parts}
    return next(iter(types)) if len(types) == 1 else BIGINT


def named_columns(types: Mapping[str, DataType]) -> dict[str, Value]:
    """Return a column `c…` for each name."""
    return {name: Value(f"c{number}", type_) for number, (name, type_) in enumerate(types.items())}


def by_database(series: Iterable[Series]) -> dict[str, list[Series]]:
    """Group series by database."""
    grouped: dict[str, list[Series]] = {}
    for part in series:
        grouped.setdefault(part.device.database, []).append(part)
    return grouped


def has_value(columns: Iterable[Value]) -> str:
    """Return the condition that a row has a value."""
    return " OR ".join(f"{column.sql} IS NOT NULL" for column in columns) or "true"
