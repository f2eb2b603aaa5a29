"""The rows that a query over trees reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from headrace.compute.binding.environment import Environment, SourceColumn, series_column
from headrace.compute.binding.sources import BoundSource
from headrace.compute.iotdb.expansion import (
    DEVICE,
    TIME,
)
from headrace.compute.iotdb.schema import SeriesRef
from headrace.compute.iotdb.scope import TreeScope
from headrace.compute.plan import Scan, SeriesRows
from headrace.compute.terms import ColumnRole, quote, string_sql
from headrace.compute.types import to_ticks
from headrace.model.tables import Table
from headrace.model.time import Precision
from headrace.model.trees import Device
from headrace.model.types import TIMESTAMP, DataType, TypeKind


@dataclass(frozen=True, slots=True)
class ColumnPart:
    """The part of a column that one stored column fills.

    Attributes:
        condition: On `device` and `_slot`; empty for all rows.
        presence: Replace values by 1, for aggregates that only count them or read their time.
    """

    database: str
    column: str
    condition: str = ""
    presence: bool = False

    @property
    def sql(self) -> str:
        """The value as Spark SQL."""
        return f"if({quote(self.column)} IS NULL, NULL, 1L)" if self.presence else quote(self.column)


@dataclass(slots=True)
class RowsBuilder:
    """Collects the columns and devices that a query reads, and builds the source of its rows."""

    scope: TreeScope
    aligned: bool
    columns: dict[str, tuple[DataType, list[ColumnPart]]] = field(default_factory=dict)
    devices: dict[str, Device] = field(default_factory=dict)
    slots: int = 1

    def add(self, name: str, type_: DataType, parts: Sequence[ColumnPart]) -> None:
        """Add a column, filled from its parts."""
        self.columns.setdefault(name, (type_, list(parts)))

    def bind(self) -> BoundSource:
        """Return the source and the environment of its columns."""
        databases = list(dict.fromkeys(device.database for device in self.devices.values()))
        scans = tuple(self.scan(name) for name in databases)
        numbered = list(enumerate(self.columns.items()))
        columns = tuple(
            tuple((self.column_sql(parts, scan.database.name), f"s{number}") for number, (_, (_, parts)) in numbered)
            for scan in scans
        )
        source = SeriesRows(scans, columns, tuple(sorted(self.devices)), self.aligned, self.slots)
        return BoundSource(source, self.environment(scans[0].database.precision))

    def environment(self, precision: Precision) -> Environment:
        """Return the environment of the source's columns."""
        time = SourceColumn(
            TIME,
            None,
            TIME,
            to_ticks(TIME, precision),
            TIMESTAMP,
            role=ColumnRole.TIME,
            is_converted=precision is not Precision.NANOSECOND,
        )
        columns = [
            SourceColumn(name, None, f"s{number}", stored_sql(f"s{number}", type_, precision), type_)
            for number, (name, (type_, _)) in enumerate(self.columns.items())
        ]
        series = None if self.aligned else series_column(DEVICE, None, self.scope.language)
        names = (time, *columns, *((series,) if series is not None else ()))
        return Environment(self.scope.language, names, precision, self.scope.timezone, time, series)

    def scan(self, name: str) -> Scan:
        """Return the scan of one database, restricted to the query's devices and to rows that have not expired."""
        database, table = self.scope.tables[name]
        paths = [path for path, device in self.devices.items() if device.database == name]
        stored_columns = {part.column for _, parts in self.columns.values() for part in parts if part.database == name}
        condition = f"{table.series_key} IN ({', '.join(map(string_sql, sorted(paths)))})"
        ttl_conditions = self.ttl_conditions(paths, database.precision, table)
        return Scan(
            table,
            database,
            None,
            None,
            (table.timestamp.name, *sorted(stored_columns), table.series_key),
            " AND ".join([condition, *ttl_conditions]),
        )

    def ttl_conditions(self, devices: Sequence[str], precision: Precision, table: Table) -> list[str]:
        """Return the conditions that exclude rows older than their time to live."""
        by_ttl: dict[int, list[str]] = {}
        for path in devices:
            if (ttl := self.scope.ttl_ms.get(path)) is not None:
                by_ttl.setdefault(ttl, []).append(path)
        time = to_ticks(quote(table.timestamp.name), precision)
        unit = precision.ticks_per_second // 1000
        conditions = []
        for ttl, paths in by_ttl.items():
            others = f"{table.series_key} NOT IN ({', '.join(map(string_sql, sorted(paths)))})"
            conditions.append(f"({others} OR {time} >= {(self.scope.now - ttl) * unit}L)")
        return conditions

    @staticmethod
    def column_sql(parts: Sequence[ColumnPart], database: str) -> str:
        """Write a column over the rows of one database."""
        own = [part for part in parts if part.database == database]
        if not own:
            return "NULL"
        if len(own) == 1 and not own[0].condition:
            return own[0].sql
        if not any(part.condition for part in own):
            return f"coalesce({', '.join(part.sql for part in own)})"
        return f"CASE {' '.join(f'WHEN {part.condition} THEN {part.sql}' for part in own)} END"


def stored_sql(column: str, type_: DataType, precision: Precision) -> str:
    """Write a stored column for use in expressions: timestamps become ticks."""
    return to_ticks(column, precision) if type_.kind is TypeKind.TIMESTAMP else column


def series_part(ref: SeriesRef, *, one_device: bool) -> ColumnPart:
    """Return the part of a column of rows aligned by time: the values of a series."""
    return ColumnPart(ref.device.database, ref.series.column, "" if one_device else device_condition(ref.device))


def device_condition(device: Device) -> str:
    """Return the condition that selects the rows of a device."""
    return f"{DEVICE} = {string_sql(device.path)}"
