"""The devices that paths may name: those of trees, and tables of the other language, which are only read.

A table `meters` of the database `power` is seen as a database `root.power.meters`: each subtable is a device below it, each column
but the first a series, and each tag a tag of all its series. A plain table is a device itself. Only a path that names the database
reads its tables: `root.power.**` does, `root.**` does not. A tree with the same name hides the tables.

The table of an external database, which this language creates, is seen in the same way, by the path of the database. A name of its
subtables is the path of a device below it, of one or more nodes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from headrace.context import Context
from headrace.errors import NotSupportedError
from headrace.model.external_tables import NODE_SEPARATOR
from headrace.model.paths import ROOT, PathPattern, is_path, join_path, quote_node, split_path, unquote_node
from headrace.model.tables import Table, TableKind
from headrace.model.trees import TREE_TABLE, Device, SeriesLabels, Timeseries
from headrace.model.types import DataType, TypeKind
from headrace.trees.databases import (
    databases_of,
    external_database,
    refuse_external_database,
    refuse_table_database,
    table_database,
)

if TYPE_CHECKING:
    from headrace.compute.iotdb.scope import DeviceTable

TREE_KINDS: Final = {
    TypeKind.BOOL: TypeKind.BOOL,
    TypeKind.TINYINT: TypeKind.INT,
    TypeKind.SMALLINT: TypeKind.INT,
    TypeKind.INT: TypeKind.INT,
    TypeKind.BIGINT: TypeKind.BIGINT,
    TypeKind.UTINYINT: TypeKind.INT,
    TypeKind.USMALLINT: TypeKind.INT,
    TypeKind.UINT: TypeKind.BIGINT,
    TypeKind.UBIGINT: TypeKind.DOUBLE,
    TypeKind.FLOAT: TypeKind.FLOAT,
    TypeKind.DOUBLE: TypeKind.DOUBLE,
    TypeKind.DECIMAL: TypeKind.DOUBLE,
    TypeKind.VARCHAR: TypeKind.VARCHAR,
    TypeKind.NCHAR: TypeKind.NCHAR,
    TypeKind.VARBINARY: TypeKind.VARBINARY,
    TypeKind.GEOMETRY: TypeKind.VARCHAR,
    TypeKind.JSON: TypeKind.VARCHAR,
    TypeKind.TIMESTAMP: TypeKind.TIMESTAMP,
    TypeKind.DATE: TypeKind.DATE,
}
"""The type that a column of each type has as a series."""
CASTS: Final = {TypeKind.INT: "INT", TypeKind.BIGINT: "BIGINT", TypeKind.DOUBLE: "DOUBLE", TypeKind.VARCHAR: "STRING"}
DATABASE_NODES: Final = 2
"""The nodes that name a database of the other language: `root` and its name."""
DEVICE_LEVEL: Final = 3
"""The level of subtables: after `root`, the database and the table."""


def may_lie_in(pattern: PathPattern, path: str) -> bool:
    """Return whether paths at or below a path may match a pattern."""
    return all(mine == theirs for mine, theirs in zip(pattern.literal_prefix, split_path(path), strict=False))


def devices_of(patterns: Sequence[PathPattern], context: Context) -> list[Device]:
    """Return the devices whose path may match one of the patterns or begin one, by database and order of creation."""
    return [*tree_devices(patterns, context), *table_devices(patterns, context)]


def tree_devices(patterns: Sequence[PathPattern], context: Context) -> list[Device]:
    """Return the devices of trees whose path may match one of the patterns or begin one, by database and order of creation."""
    trees = context.catalog.trees
    names = [name for name in trees.databases() if any(may_lie_in(pattern, name) for pattern in patterns)]
    return [device for name in names for device in trees.matching(name, patterns)]


def find_devices(paths: Collection[str], context: Context) -> dict[str, Device]:
    """Return those of the paths that are devices of trees."""
    by_database: dict[str, list[str]] = defaultdict(list)
    for path, name in databases_of(paths, context).items():
        by_database[name].append(path)
    return {path: device for name, own in by_database.items() for path, device in context.catalog.trees.find(name, own).items()}


def table_devices(patterns: Sequence[PathPattern], context: Context) -> list[Device]:
    """Return tables of the other language as devices, if their path may match one of the patterns or begin one."""
    devices: list[Device] = []
    for table in named_tables(patterns, context):
        own = [pattern for pattern in patterns if may_lie_in(pattern, table_path(table))]
        if table.key is None:
            devices += subtable_devices(table, own, context)
        else:
            refuse_composite_key(table, own)
    return devices


def refuse_composite_key(table: Table, patterns: Iterable[PathPattern]) -> None:
    """Raise `NotSupportedError` if a pattern names a table with a composite key; other patterns leave such tables out."""
    for pattern in patterns:
        if len(pattern.literal_prefix) >= DEVICE_LEVEL:
            raise NotSupportedError(
                f"{table.database}.{table.name} has a composite key, so it may have several rows of an instant",
                hint="read it with the tdengine dialect",
                span=pattern.span,
            )


def named_tables(patterns: Iterable[PathPattern], context: Context) -> Iterator[Table]:
    """Yield the tables of the other language that patterns may be about, by database and name, then those of external databases."""
    patterns = list(patterns)
    prefixes = {pattern.literal_prefix[:DATABASE_NODES] for pattern in patterns}
    names = [name for prefix in sorted(prefixes) if (name := table_database(prefix, context)) is not None]
    for name in names:
        for table in sorted(context.catalog.tables.all(name), key=lambda table: table.name):
            if table.kind is not TableKind.TREE and any(may_lie_in(pattern, table_path(table)) for pattern in patterns):
                yield table
    for name in context.catalog.trees.externals():
        if any(may_lie_in(pattern, name) for pattern in patterns):
            yield context.catalog.tables.get(name, TREE_TABLE)


def table_path(table: Table) -> str:
    """Return the path of a table that is seen as a database."""
    return table.database if is_path(table.database) else join_path((ROOT, quote_node(table.database), quote_node(table.name)))


def device_path(table: Table, subtable: str) -> str:
    """Return the path of the device that a subtable is."""
    if table.kind is TableKind.PLAIN:
        return table_path(table)
    nodes = subtable.split(NODE_SEPARATOR) if is_path(table.database) else [subtable]
    return join_path((table_path(table), *map(quote_node, nodes)))


def subtable_devices(table: Table, patterns: Sequence[PathPattern], context: Context) -> list[Device]:
    database, series = table_path(table), series_of(table)
    if table.kind is TableKind.PLAIN:
        return [Device(database, database, series, aligned=True)]
    measurements = [one.measurement for one in series]
    return [
        Device(database, device_path(table, name), series, aligned=True, labels=dict.fromkeys(measurements, labels))
        for name, labels in subtable_labels(table, patterns, context)
    ]


def series_of(table: Table) -> tuple[Timeseries, ...]:
    """Return the columns of a table, without the first, as series."""
    return tuple(
        Timeseries(quote_node(column.name), DataType(TREE_KINDS[column.type.kind]), f"c{number}")
        for number, column in enumerate(table.columns)
        if number > 0
    )


def subtable_labels(table: Table, patterns: Sequence[PathPattern], context: Context) -> Iterator[tuple[str, SeriesLabels]]:
    """Yield the subtables of a table that patterns may be about, with their tags, by name."""
    rows = context.tables.tags.of_subtables(table)
    rows = rows.filter(reduce(or_, (names_subtables(table, pattern) for pattern in patterns)))
    for row in sorted(rows.to_pylist(), key=lambda row: str(row[table.series_key])):
        tags = {tag.name: tag_text(row[tag.name]) for tag in table.tags if row[tag.name] is not None}
        yield row[table.series_key], SeriesLabels(tags=tags)


def names_subtables(table: Table, pattern: PathPattern) -> pc.Expression:
    """Return a condition on the series key of subtables that a pattern may be about: their devices match it or begin with it."""
    level = len(split_path(table_path(table)))
    nodes = [unquote_node(node) for node in pattern.literal_prefix[level:]]
    if not nodes:
        return pc.scalar(True)
    key = pc.field(table.series_key)
    if not is_path(table.database):
        return key == nodes[0]
    above = [NODE_SEPARATOR.join(nodes[: length + 1]) for length in range(len(nodes))]
    return key.isin(pa.array(above, pa.string())) | pc.starts_with(key, f"{above[-1]}{NODE_SEPARATOR}")


def tag_text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def device_tables(devices: Iterable[Device], context: Context) -> dict[str, DeviceTable]:
    from headrace.compute.iotdb.scope import DeviceTable

    catalog = context.catalog
    paths: dict[str, list[str]] = {}
    for device in devices:
        paths.setdefault(device.database, []).append(device.path)
    trees = set(catalog.trees.databases())
    return {
        name: DeviceTable(catalog.databases.get(name), catalog.tables.get(name, TREE_TABLE))
        if name in trees
        else table_of(name, own, context)
        for name, own in paths.items()
    }


def table_of(path: str, devices: Sequence[str], context: Context) -> DeviceTable:
    from headrace.compute.iotdb.scope import DeviceTable, StoredColumn

    nodes = split_path(path)
    is_external = path in context.catalog.trees.externals()
    database, name = (path, TREE_TABLE) if is_external else (unquote_node(node) for node in nodes[1:DEVICE_LEVEL])
    table = context.catalog.tables.get(database, name)
    below = {device: split_path(device)[len(nodes) :] or (table.name,) for device in devices}
    subtables = {device: NODE_SEPARATOR.join(map(unquote_node, own)) for device, own in below.items()}
    columns = {
        f"c{number}": StoredColumn(column.name, CASTS.get(TREE_KINDS[column.type.kind]))
        for number, column in enumerate(table.columns)
    }
    return DeviceTable(context.catalog.databases.get(database), table, subtables, columns)


def refuse_tables(patterns: Iterable[PathPattern], context: Context) -> None:
    """Raise an error if a pattern is about what this language only reads: tables of the other one, or an external database."""
    patterns = list(patterns)
    refuse_table_paths(patterns, context)
    for pattern in patterns:
        name = external_database(pattern.literal_prefix, context)
        if name is not None:
            refuse_external_database(name, pattern.span)


def refuse_table_paths(patterns: Iterable[PathPattern], context: Context) -> None:
    """Raise `NotSupportedError` if a pattern is about tables of the other language."""
    for pattern in patterns:
        name = table_database(pattern.literal_prefix, context)
        if name is not None:
            refuse_table_database(name, pattern.span)
