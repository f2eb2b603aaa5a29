"""Sample tables and rows for tests of the storage."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from filelock import FileLock

from headrace.model.tables import TBNAME, Column, Database, Table, TableKind
from headrace.model.time import Precision
from headrace.model.types import DataType, TypeKind
from headrace.storage import Tables
from headrace.storage.delta.change_columns import COMMIT_VERSION
from headrace.storage.delta.handles import rows_uri, spark_path
from headrace.storage.delta.log import CHANGE_TYPE
from headrace.storage.types import rows_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TS = Column("ts", DataType(TypeKind.TIMESTAMP))
POWER = Database("power")
METERS = Table(
    "power",
    "meters",
    (TS, Column("a", DataType(TypeKind.INT)), Column("b", DataType(TypeKind.DOUBLE))),
    (Column("site", DataType(TypeKind.INT)),),
)
PLAIN = Table("power", "plain", METERS.columns, kind=TableKind.PLAIN)
KEYED = Table("power", "keyed", (TS, Column("k", DataType(TypeKind.INT), is_key=True), Column("a", DataType(TypeKind.INT))))
HOUR = 3_600_000
START = 1_700_000_000_000

Row = dict[str, Any]


def file_locks(folder: Path) -> Callable[[str], AbstractContextManager[Any]]:
    """Return inter-process locks by name."""
    folder.mkdir(parents=True, exist_ok=True)
    return lambda name: FileLock(folder / hashlib.sha256(name.encode()).hexdigest())


def open_tables(home: Path, small_write_rows: int = 100_000) -> Tables:
    """Open tables in a folder, as a process does."""
    return Tables(str(home / "tables"), file_locks(home / "locks"), small_write_rows)


def rows(data: Iterable[Row], table: Table = METERS, database: Database = POWER) -> pa.Table:
    """Return rows in stored types, with the columns that they name; `ts` in ticks, `tbname` d1 by default."""
    records = [{TBNAME: "d1", **row} for row in data]
    schema = rows_schema(table, database)
    names = [name for name in schema.names if not records or any(name in row for row in records)]
    unit = 1_000 if database.precision is Precision.MILLISECOND else 1
    columns = []
    for name in names:
        values: list[Any] = [row.get(name) for row in records]
        type_ = schema.field(name).type
        if name == table.timestamp.name:
            columns.append(pa.array([value * unit for value in values], pa.int64()).cast(type_))
        else:
            columns.append(pa.array(values, type_))
    return pa.Table.from_arrays(columns, schema=pa.schema([schema.field(name) for name in names]))


def read(table_rows: pa.Table, table: Table = METERS, database: Database = POWER) -> list[Row]:
    """Return rows as Python values in key order, `ts` in ticks."""
    unit = 1_000 if database.precision is Precision.MILLISECOND else 1
    name = table.timestamp.name
    ticks = [value // unit for value in table_rows[name].cast(pa.int64()).to_pylist()]
    records = table_rows.set_column(table_rows.column_names.index(name), name, pa.array(ticks, pa.int64())).to_pylist()
    return sorted(
        records, key=lambda row: [str(row.get("_commit_version", "")), *(row[key] for key in table.primary_key if key in row)]
    )


class CountedLock:
    """A lock of one process that counts how often it was acquired."""

    def __init__(self) -> None:
        self.taken = 0
        self._lock = threading.Lock()

    def __call__(self, _: str) -> CountedLock:
        return self

    def __enter__(self) -> None:
        self._lock.acquire()
        self.taken += 1

    def __exit__(self, *_: object) -> None:
        self._lock.release()


def changes_frame(spark: SparkSession, tables: Tables, table: Table, first: int, last: int) -> DataFrame:
    """Return the changes of versions, both inclusive, as Spark reads them: the columns of `Changes.read`, in no order."""
    reader = spark.read.format("delta").option("readChangeFeed", "true").option("startingVersion", first)
    rows = reader.option("endingVersion", last).load(spark_path(rows_uri(tables.uri, table)))
    stored = [name for name in rows.columns if name not in (CHANGE_TYPE, COMMIT_VERSION, "_commit_timestamp")]
    return rows.select(*stored, CHANGE_TYPE, COMMIT_VERSION)
