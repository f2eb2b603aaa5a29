"""What clients ask about databases and tables: Flight SQL's catalogs, schemas, tables and facts about the server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import pyarrow as pa

from headrace import __version__
from headrace.doors.gate import DoorConnection
from headrace.runtime.flight_sql import schema_bytes
from headrace.service.results import CatalogRows

CATALOG: Final = "headrace"
TABLE: Final = "TABLE"
DEVICE: Final = "DEVICE"
CATALOGS: Final = pa.schema([pa.field("catalog_name", pa.string(), nullable=False)])
SCHEMAS: Final = pa.schema([pa.field("catalog_name", pa.string()), pa.field("db_schema_name", pa.string(), nullable=False)])
TABLES: Final = pa.schema(
    [
        *SCHEMAS.set(1, pa.field("db_schema_name", pa.string())),
        pa.field("table_name", pa.string(), nullable=False),
        pa.field("table_type", pa.string(), nullable=False),
    ]
)
TABLES_WITH_SCHEMA: Final = TABLES.append(pa.field("table_schema", pa.binary(), nullable=False))
TABLE_TYPES: Final = pa.schema([pa.field("table_type", pa.string(), nullable=False)])
KEYS: Final = pa.schema(
    [
        pa.field("catalog_name", pa.string()),
        pa.field("db_schema_name", pa.string()),
        pa.field("table_name", pa.string(), nullable=False),
        pa.field("column_name", pa.string(), nullable=False),
        pa.field("key_name", pa.string()),
        pa.field("key_sequence", pa.int32(), nullable=False),
    ]
)
INFO_VALUES: Final = pa.dense_union(
    [
        pa.field("string_value", pa.string()),
        pa.field("bool_value", pa.bool_()),
        pa.field("bigint_value", pa.int64()),
        pa.field("int32_bitmask", pa.int32()),
        pa.field("string_list", pa.list_(pa.string())),
        pa.field("int32_to_int32_list_map", pa.map_(pa.int32(), pa.list_(pa.int32()))),
    ]
)
INFO: Final = pa.schema([pa.field("info_name", pa.uint32(), nullable=False), pa.field("value", INFO_VALUES, nullable=False)])
FACTS: Final[dict[int, str | bool | int]] = {
    0: "Headrace",
    1: __version__,
    2: pa.__version__,
    3: False,
    4: True,
    5: False,
    8: 0,
    9: True,
    503: 1,
    504: "`",
    505: 1,
}
"""Name, version, version of Arrow, read-only, SQL, Substrait, transactions, cancel, case of names, their quote, its case."""
INTEGER: Final = 3


def tables_of(connection: DoorConnection) -> Iterator[tuple[str, str, str]]:
    """Yield database, name and kind of each table that the user may see, or of each device in the dialect of trees."""
    if connection.session.dialect == "iotdb":
        databases = [row[0] for row in _rows(connection, "SHOW DATABASES")]
        for database in databases:
            for row in _rows(connection, f"SHOW DEVICES {database}.**"):
                yield database, row[0].removeprefix(f"{database}."), DEVICE
        return
    for row in _rows(connection, "SELECT db_name, stable_name FROM information_schema.ins_stables"):
        yield row[0], row[1], TABLE
    for row in _rows(connection, "SELECT db_name, table_name, type FROM information_schema.ins_tables"):
        if "CHILD" not in row[2]:
            yield row[0], row[1], TABLE


def databases_of(connection: DoorConnection) -> list[str]:
    """Return the databases that the user may see."""
    return sorted(row[0] for row in _rows(connection, "SHOW DATABASES"))


def _rows(connection: DoorConnection, sql: str) -> Iterator[tuple[Any, ...]]:
    return connection.execute(sql).tuples()


def like(pattern: str) -> Callable[[str], bool]:
    """Return whether names are LIKE a pattern; an empty pattern matches all."""
    matching = CatalogRows({"name": "string"}, [])

    def is_like(name: str) -> bool:
        return not pattern or bool(CatalogRows(matching.columns, [(name,)]).like(pattern).values)

    return is_like


def catalogs(_connection: DoorConnection, _command: Any) -> pa.Table:
    """Return the only catalog."""
    return pa.table([[CATALOG]], schema=CATALOGS)


def schemas(connection: DoorConnection, command: Any) -> pa.Table:
    """Return the databases whose names are like a pattern."""
    is_like = like(command.db_schema_filter_pattern)
    names = [name for name in databases_of(connection) if is_like(name)] if command.catalog in ("", CATALOG) else []
    return pa.table([[CATALOG] * len(names), names], schema=SCHEMAS)


def tables(connection: DoorConnection, command: Any) -> pa.Table:
    """Return the tables whose names and databases are like patterns, on request with their columns."""
    is_database, is_table = like(command.db_schema_filter_pattern), like(command.table_name_filter_pattern)
    kinds = list(command.table_types)
    found = [
        (CATALOG, database, name, kind)
        for database, name, kind in (tables_of(connection) if command.catalog in ("", CATALOG) else ())
        if is_database(database) and is_table(name) and (not kinds or kind in kinds)
    ]
    columns = [list(column) for column in zip(*found, strict=True)] or [[], [], [], []]
    if not command.include_schema:
        return pa.table(columns, schema=TABLES)
    described = [schema_bytes(schema_of(connection, database, name, kind)) for _, database, name, kind in found]
    return pa.table([*columns, described], schema=TABLES_WITH_SCHEMA)


def schema_of(connection: DoorConnection, database: str, name: str, kind: str) -> pa.Schema:
    """Return the columns of a table as queries return them."""
    sql = f"SELECT * FROM {database}.{name} LIMIT 1" if kind == DEVICE else f"SELECT * FROM `{database}`.`{name}` LIMIT 0"
    result = connection.execute(sql).table
    return pa.schema([]) if result is None else result.schema


def table_types(connection: DoorConnection, _command: Any) -> pa.Table:
    """Return the kinds of tables."""
    return pa.table([[DEVICE if connection.session.dialect == "iotdb" else TABLE]], schema=TABLE_TYPES)


def keys(_connection: DoorConnection, _command: Any) -> pa.Table:
    """Return no keys: tables have a time, and none that other tables refer to."""
    return KEYS.empty_table()


def facts(_connection: DoorConnection, command: Any) -> pa.Table:
    """Return facts about the server by their numbers in the protocol; all if none are asked for."""
    numbers = [number for number in FACTS if not command.info or number in command.info]
    values = [FACTS[number] for number in numbers]
    kinds = [0 if isinstance(value, str) else 1 if isinstance(value, bool) else INTEGER for value in values]
    parts = [[value for value, kind in zip(values, kinds, strict=True) if kind == place] for place in range(6)]
    seen = [0] * 6
    offsets = []
    for kind in kinds:
        offsets.append(seen[kind])
        seen[kind] += 1
    children = [pa.array(part, INFO_VALUES.field(place).type) for place, part in enumerate(parts)]
    names = [INFO_VALUES.field(place).name for place in range(6)]
    union = pa.UnionArray.from_dense(pa.array(kinds, pa.int8()), pa.array(offsets, pa.int32()), children, names)
    return pa.Table.from_arrays([pa.array(numbers, pa.uint32()), union], schema=INFO)


METADATA: Final[dict[str, Callable[[DoorConnection, Any], pa.Table]]] = {
    "CommandGetCatalogs": catalogs,
    "CommandGetDbSchemas": schemas,
    "CommandGetTables": tables,
    "CommandGetTableTypes": table_types,
    "CommandGetPrimaryKeys": keys,
    "CommandGetExportedKeys": keys,
    "CommandGetImportedKeys": keys,
    "CommandGetCrossReference": keys,
    "CommandGetSqlInfo": facts,
}
"""What each command about metadata returns."""
