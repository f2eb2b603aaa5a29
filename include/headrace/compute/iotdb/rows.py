"""The rows that a query over trees reads."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from headrace.compute.binding.environment import Environment, SourceColumn, series_column
from headrace.compute.binding.sources import BoundSource
from headrace.compute.iotdb.device_types import split_casts, split_devices
from headrace.compute.iotdb.expansion import DEVICE, TIME
from headrace.compute.iotdb.scope import DeviceTable, TreeScope
from headrace.compute.nodes import NULL, TRUE, Column, Node, bigint, both, call, case, either, if_, negated, string
from headrace.compute.plan_sources import RowGroup, Scan, SeriesOrigin, SeriesRows, StoredSeries
from headrace.compute.terms import ColumnRole
from headrace.compute.types import to_ticks
from headrace.errors import NotSupportedError
from headrace.model.expressions import ColumnRef, Expression
from headrace.model.tables import Table
from headrace.model.time import Precision, first_live_tick
from headrace.model.trees import Device, SeriesRef
from headrace.model.types import TIMESTAMP, DataType, TypeKind


@dataclass(frozen=True, slots=True)
class ColumnPart:
    """The part of a column that one stored column fills.

    Attributes:
        device: The only device whose rows it takes; empty for those of all.
        condition: A further one on `device`, `_slot` and `_columns`; None for none.
        presence: Replace values by 1, for aggregates that only count them or read their time.
        cast: The Spark type to which values are converted; empty to keep theirs.
        value: What replaces the stored value in each row that has one; None for nothing.
    """

    database: str
    column: str
    device: str = ""
    condition: Node | None = None
    presence: bool = False
    cast: str = ""
    value: Node | None = None

    @property
    def node(self) -> Node:
        """The value."""
        column = Column(self.column)
        if self.value is not None:
            return if_(column.is_null(), NULL, self.value)
        value = column.cast(self.cast) if self.cast else column
        return if_(value.is_null(), NULL, bigint(1)) if self.presence else value

    @property
    def rows(self) -> Node | None:
        """The condition on the rows that it takes; None for all."""
        return Column(DEVICE).equals(string(self.device)) if self.device else self.condition


def live_rows(first: Mapping[str, int], precision: Precision, time: str, key: str) -> list[Node]:
    """Return the conditions that rows are not before the first tick of their device; `time` and `key` are their columns."""
    devices: dict[int, list[str]] = defaultdict(list)
    for path, tick in first.items():
        devices[tick].append(path)
    ticks = to_ticks(Column(time), precision)
    return [
        either(negated(call("in", Column(key), *map(string, sorted(own)))), ticks >= bigint(tick)) for tick, own in devices.items()
    ]


@dataclass(slots=True)
class RowsBuilder:
    """Collects the columns and devices that a query reads, and builds the source of its rows.

    `casts` has the types of measurements that have several and are cast to text; `kinds` the devices by type of measurements whose
    types are not all numeric.
    """

    scope: TreeScope
    aligned: bool
    columns: dict[str, tuple[DataType, list[ColumnPart]]] = field(default_factory=dict)
    devices: dict[str, Device] = field(default_factory=dict)
    slots: int = 1
    groups: tuple[RowGroup, ...] = ()
    casts: Mapping[str, Sequence[DataType]] = field(default_factory=dict)
    kinds: Mapping[str, Mapping[DataType, Collection[str]]] = field(default_factory=dict)

    def split(self, node: Expression) -> Expression:
        """Return an expression that reads measurements of several types from the columns of each type if it has to."""
        node = split_casts(node, self.casts) if self.casts else node
        return split_devices(node, self.kinds, ColumnRef(device_column(self.scope))) if self.kinds else node

    def add(self, name: str, type_: DataType, parts: Sequence[ColumnPart]) -> None:
        """Add a column, filled from its parts."""
        self.columns.setdefault(name, (type_, list(parts)))

    def bind(self) -> BoundSource:
        """Return the source and the environment of its columns."""
        databases = list(dict.fromkeys(device.database for device in self.devices.values()))
        scans = tuple(self.scan(name) for name in databases)
        if len({scan.database.precision for scan in scans}) > 1:
            raise NotSupportedError(
                "databases of different precision cannot be read together", hint="query them one by one, and compare the results"
            )
        numbered = list(enumerate(self.columns.items()))
        columns = tuple(
            tuple((self.column_node(parts, name), f"s{number}") for number, (_, (_, parts)) in numbered) for name in databases
        )
        projections = tuple(self.projection(name) for name in databases)
        keys = tuple(sorted({group.group for group in self.groups} or self.devices))
        origins = tuple(tuple(map(self.origin, parts)) for _, parts in self.columns.values())
        stored = self.stored_series(scans)
        source = SeriesRows(scans, columns, keys, self.aligned, self.slots, stored, self.groups, projections, origins)
        return BoundSource(source, self.environment(scans[0].database.precision))

    def origin(self, part: ColumnPart) -> SeriesOrigin:
        """Return the stored column of a part."""
        source = self.scope.tables[part.database]
        stored = source.columns.get(part.column)
        return SeriesOrigin(source.table.id, part.column if stored is None else stored.name, part.device)

    def stored_series(self, scans: Sequence[Scan]) -> tuple[tuple[StoredSeries | None, ...], ...]:
        """Return the stored series of the columns of each scan; nothing if a column or a scan needs more than that."""
        parts = [part for _, column_parts in self.columns.values() for part in column_parts]
        if any(part.condition is not None or part.presence or part.cast for part in parts) or any(
            path in self.scope.ttl_ms for path in self.devices
        ):
            return ()
        if self.groups or any(self.scope.tables[device.database].subtables for device in self.devices.values()):
            return ()
        if any(self.combines_columns(column_parts) for _, column_parts in self.columns.values()):
            return ()
        return tuple(
            tuple(self.stored_part(column_parts, scan.database.name) for _, column_parts in self.columns.values()) for scan in scans
        )

    def combines_columns(self, parts: Sequence[ColumnPart]) -> bool:
        """Return whether a column is filled from several stored columns of a database, or from columns of several types."""
        if len(parts) == 1:
            return False
        columns = [self.scope.tables[part.database].table.column(part.column) for part in parts]
        types = {None if column is None else column.type for column in columns}
        return len(types) > 1 or len({part.database for part in parts}) < len(parts)

    @staticmethod
    def stored_part(parts: Sequence[ColumnPart], database: str) -> StoredSeries | None:
        return next((StoredSeries(part.device, part.column) for part in parts if part.database == database), None)

    def environment(self, precision: Precision) -> Environment:
        """Return the environment of the source's columns."""
        time = SourceColumn(
            TIME,
            None,
            TIME,
            to_ticks(Column(TIME), precision),
            TIMESTAMP,
            role=ColumnRole.TIME,
            is_converted=precision is not Precision.NANOSECOND,
        )
        columns = [
            SourceColumn(name, None, f"s{number}", stored_node(f"s{number}", type_, precision), type_)
            for number, (name, (type_, _)) in enumerate(self.columns.items())
        ]
        series = None if self.aligned else series_column(DEVICE, None, self.scope.language)
        names = (time, *columns, *((series,) if series is not None else ()))
        return Environment(self.scope.language, names, precision, self.scope.timezone, time, series)

    def scan(self, name: str) -> Scan:
        """Return the scan of one database, restricted to the query's devices and to rows that have not expired."""
        source = self.scope.tables[name]
        database, table = source.database, source.table
        paths = [path for path, device in self.devices.items() if device.database == name]
        stored = {source.columns[column].name if source.columns else column for column in self.columns_of(name)}
        series = [source.subtables.get(path, path) for path in paths]
        condition = call("in", Column(table.series_key), *map(string, sorted(series)))
        live = self.live_rows(paths, database.precision, table)
        columns = (table.timestamp.name, *sorted(stored), table.series_key)
        return Scan(table, database, None, None, columns, both(condition, *live))

    def columns_of(self, name: str) -> list[str]:
        """Return the columns of a database that the query reads, each once."""
        parts = [part for _, own in self.columns.values() for part in own]
        return sorted({part.column for part in parts if part.database == name})

    def projection(self, name: str) -> tuple[tuple[Node, str], ...]:
        """Return the columns that make rows of a table of another language look like those of a tree; none for a tree."""
        source = self.scope.tables[name]
        if not source.subtables:
            return ()
        table, columns = source.table, [(column, source.columns[column]) for column in self.columns_of(name)]
        values = [
            (Column(stored.name) if stored.cast is None else Column(stored.name).cast(stored.cast), column)
            for column, stored in columns
        ]
        return ((Column(table.timestamp.name), TIME), (device_node(name, source), DEVICE), *values)

    def live_rows(self, devices: Sequence[str], precision: Precision, table: Table) -> list[Node]:
        """Return the conditions that rows of devices are within their times to live."""
        ttls = {path: self.scope.ttl_ms[path] for path in devices if path in self.scope.ttl_ms}
        first = {path: first_live_tick(self.scope.now, ttl, precision) for path, ttl in ttls.items()}
        return live_rows(first, precision, table.timestamp.name, table.series_key)

    @staticmethod
    def column_node(parts: Sequence[ColumnPart], database: str) -> Node:
        own = [part for part in parts if part.database == database]
        if not own:
            return NULL
        if len(own) == 1 and own[0].rows is None:
            return own[0].node
        if all(part.rows is None for part in own):
            return call("coalesce", *(part.node for part in own))
        return case([(TRUE if part.rows is None else part.rows, part.node) for part in own])


def device_column(scope: TreeScope) -> str:
    """Return the binder's name of the device column."""
    return scope.language.pseudo_columns.series or DEVICE


def stored_node(column: str, type_: DataType, precision: Precision) -> Node:
    """Return a stored column for use in expressions: timestamps become ticks."""
    return to_ticks(Column(column), precision) if type_.kind is TypeKind.TIMESTAMP else Column(column)


def series_part(ref: SeriesRef, *, one_device: bool) -> ColumnPart:
    """Return the part of a column of rows aligned by time: the values of a series."""
    return ColumnPart(ref.device.database, ref.series.column, "" if one_device else ref.device.path)


def device_node(prefix: str, source: DeviceTable) -> Node:
    """Return the path of the device that a row of a table of another language belongs to."""
    key = Column(source.table.series_key)
    irregular = {name: device for device, name in source.subtables.items() if device != f"{prefix}.{name}"}
    path = call("concat", string(f"{prefix}."), key)
    return case([(key.equals(string(name)), string(device)) for name, device in irregular.items()], path) if irregular else path
