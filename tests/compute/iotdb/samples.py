"""A tree of devices, rows and queries for the tests of IoTDB's language. The figures are what a running server 1.3.4 answers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from headrace.compute import Relation, Scope, bind, evaluate, language
from headrace.compute.plan import Plan
from headrace.model.expressions import Call, ColumnRef, Expression, Literal, Scalar
from headrace.model.queries import Query, SelectItem, TableSource
from headrace.model.tables import Column, Database, Name, Table, TableKind
from headrace.model.time import Precision
from headrace.model.types import DataType, TypeKind

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

KINDS = {
    "b": TypeKind.BOOL,
    "i": TypeKind.INT,
    "l": TypeKind.BIGINT,
    "f": TypeKind.FLOAT,
    "d": TypeKind.DOUBLE,
    "t": TypeKind.VARCHAR,
    "s": TypeKind.NCHAR,
    "o": TypeKind.VARBINARY,
    "da": TypeKind.DATE,
    "at": TypeKind.TIMESTAMP,
    "e": TypeKind.INT,
}
ARROW = {
    TypeKind.BOOL: pa.bool_(),
    TypeKind.INT: pa.int32(),
    TypeKind.BIGINT: pa.int64(),
    TypeKind.FLOAT: pa.float32(),
    TypeKind.DOUBLE: pa.float64(),
    TypeKind.VARCHAR: pa.string(),
    TypeKind.NCHAR: pa.string(),
    TypeKind.VARBINARY: pa.binary(),
    TypeKind.DATE: pa.date32(),
    TypeKind.TIMESTAMP: pa.timestamp("us", tz="UTC"),
}
TREE = Table(
    "root.fn",
    "tree",
    (Column("time", DataType(TypeKind.TIMESTAMP)), *(Column(name, DataType(kind)) for name, kind in KINDS.items())),
    kind=TableKind.TREE,
)
DATABASE = Database("root.fn", Precision.MILLISECOND, "UTC")
NAN = float("nan")
INFINITY = float("inf")

Rows = Iterable[tuple[int, dict[str, Any]]]

DAY = datetime(2024, 1, 1, tzinfo=UTC).date()
NEXT_DAY = datetime(2024, 1, 2, tzinfo=UTC).date()
MIXED: Rows = (
    (1, {"b": True, "i": 5, "l": 50, "f": 1.5, "d": 2.5, "t": "aa", "s": "xx", "o": b"\1", "da": DAY, "at": 100}),
    (2, {"i": -7, "l": -70, "f": -1.5, "d": -2.5, "t": "bb", "s": "yy"}),
    (3, {"b": False, "i": 7, "l": 70, "f": 1.25, "d": NAN, "t": "aa", "s": "zz", "o": b"\2", "da": NEXT_DAY, "at": 200}),
    (4, {"b": True, "i": 7, "d": 10.0, "t": "cc", "s": "yy"}),
    (6, {"b": True, "i": 0, "l": 5, "d": -10.0, "t": "%c_", "s": "yy", "o": b"\1"}),
)
"""One device with values of all types, NULL in most columns, NaN, ties, and nothing at all in `e`."""


def frame(spark: SparkSession, rows: Rows = MIXED, device: str = "root.fn.d") -> DataFrame:
    """Rows of one device as stored."""
    listed = list(rows)
    columns = {"time": pa.array([at * 1000 for at, _ in listed], ARROW[TypeKind.TIMESTAMP])}
    for name, kind in KINDS.items():
        values = [values.get(name) for _, values in listed]
        if kind is TypeKind.TIMESTAMP:
            values = [None if value is None else value * 1000 for value in values]
        columns[name] = pa.array(values, ARROW[kind])
    return spark.createDataFrame(pa.table({**columns, "device": pa.array([device] * len(listed), pa.string())})).coalesce(1)


def expression(part: Expression | Scalar) -> Expression:
    """A name begins with a dot; anything else is a constant or an expression already."""
    if isinstance(part, str) and part.startswith("."):
        return ColumnRef(part[1:])
    return Literal(part) if part is None or isinstance(part, bool | int | float | str | bytes | Decimal) else part


def call(function: str, *arguments: Expression | Scalar, **attributes: object) -> Call:
    pairs = tuple((name, str(value)) for name, value in attributes.items())
    return Call(function, tuple(expression(argument) for argument in arguments), attributes=pairs)


def planned(*items: Expression | Scalar, where: Expression | None = None) -> Plan:
    nodes = tuple(SelectItem(expression(item), f"c{number}") for number, item in enumerate(items))
    scope = Scope(lambda _: (Relation(TREE, DATABASE),), language("iotdb"), "UTC", 0)
    plan = bind(Query(nodes, TableSource(Name(None, "tree")), where=where), scope)
    assert isinstance(plan, Plan)
    return plan


def types(*items: Expression | Scalar) -> list[str]:
    return [str(output.type) for output in planned(*items).outputs]


def answer(rows: DataFrame, *items: Expression | Scalar, where: Expression | None = None) -> list[tuple[Any, ...]]:
    return [tuple(plain(value) for value in row) for row in evaluate(planned(*items, where=where), rows).collect()]


def columns(rows: DataFrame, *items: Expression | Scalar, where: Expression | None = None) -> list[list[Any]]:
    """Return the answer by column, in the order of time. A constant column keeps the rows without any point."""
    results = answer(rows, *items, 1, where=where)
    return [[row[number] for row in results] for number in range(len(items))]


def plain(value: Any) -> Any:
    """A value that equals itself: NaN as a word, instants as milliseconds, DOUBLE to nine digits."""
    if isinstance(value, float):
        return "NaN" if value != value else float(f"{value:.9g}")
    if isinstance(value, datetime):
        aware = value if value.tzinfo else value.replace(tzinfo=UTC)
        return round(aware.timestamp() * 1000)
    return bytes(value) if isinstance(value, bytearray) else value


def same(values: Sequence[Any]) -> list[Any]:
    return [plain(value) for value in values]
