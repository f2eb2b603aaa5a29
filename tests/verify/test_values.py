"""Values of expressions over columns of many types, as Spark, the kernels and DuckDB compute them."""

from __future__ import annotations

import ast
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pytest

from headrace.compute import Plan, Relation, Scope, bind, evaluate, language
from headrace.compute.columnar.columns import ProjectionKernel
from headrace.compute.nodes import UnsupportedError
from headrace.errors import NotSupportedError
from headrace.model.tables import Column, Database, Table, TableKind
from headrace.model.types import DataType, TypeKind
from headrace.storage.types import row_types
from tests.verify.tables import column, lookup, parse_query, query_rows, stored_rows
from tests.verify.test_answers import pairs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TYPED: Final = Table(
    "db",
    "typed",
    (
        column("ts", TypeKind.TIMESTAMP),
        column("f", TypeKind.FLOAT),
        column("x", TypeKind.DOUBLE),
        Column("p", DataType(TypeKind.DECIMAL, 20, 4)),
        Column("w", DataType(TypeKind.DECIMAL, 38, 10)),
        column("b", TypeKind.VARBINARY, 10),
        column("u", TypeKind.UBIGINT),
        column("i", TypeKind.INT),
        column("l", TypeKind.BIGINT),
        column("ti", TypeKind.TINYINT),
        column("s", TypeKind.VARCHAR, 20),
        column("n", TypeKind.NCHAR, 20),
    ),
    kind=TableKind.PLAIN,
)
ROWS: Final = (
    (0.1, 0.1, "1234567890123456.7891", "1234567890123456789012345678.0123456789", b"\x98\xf4", 2**64 - 1, 5, -(2**63), -128),
    (2.5, 2.5, "1234567890123456.7892", "-1", b"abc", 7, -3, 5, 3),
    (100.1, 100.1, "-2.5", "0", b"", 0, 2**31 - 1, 0, 0),
    (16_777_217.0, 16_777_217.0, "0.0001", "1000"),
    (),
)
TEXTS: Final = (("ABC", "äöü"), ("a_b", "北京"), ("C:\\dir", "Éa"), ("é", "a\nb"), (None, None))
REFUSED: Final = "DuckDB refuses: "
WHOLE: Final = ", ".join(map(str, range(3000)))
TENTHS: Final = ", ".join(f"{number}.1" for number in range(3000))
WORDS: Final = ", ".join(f"'{number}x'" for number in range(3000))
LISTS: Final = [
    (f"i not in ({WHOLE})", [False, True, True, False, False]),
    (f"not (i in ({WHOLE}, null))", [False, None, None, None, None]),
    (f"i in ({WHOLE}, null)", [True, False, False, False, False]),
    (f"ts in ({WHOLE})", [True] * 5),
    (f"l in ({WHOLE}, 5.5)", [False, True, True, False, False]),
    (f"x not in ({TENTHS})", [False, True, False, True, False]),
    (f"f in ({TENTHS})", [True, False, True, False, False]),
    (f"p not in ({TENTHS}, -2.5)", [True, True, False, True, False]),
    (f"s not in ({WORDS}, 'a_b')", [True, False, True, True, False]),
    (f"b in ({WORDS}, '\\x98f4')", [True, False, False, False, False]),
]
CASES: Final = [*((expression, ast.literal_eval(values)) for expression, values in pairs("values.sql")), *LISTS]
EXPRESSIONS: Final = [expression.removeprefix(REFUSED) for expression, _ in CASES]
NAMES: Final = [expression[:40] for expression in EXPRESSIONS]


def stored() -> pa.Table:
    names = [column.name for column in TYPED.columns[1:]]
    records = []
    for number, (numbers, texts) in enumerate(zip(ROWS, TEXTS, strict=True)):
        values = dict(zip(names, numbers, strict=False)) | dict(zip(("s", "n"), texts, strict=True))
        decimals = {name: Decimal(str(values[name])) for name in ("p", "w", "u") if name in values}
        records.append({"ts": number} | values | decimals)
    return stored_rows(TYPED, DATABASE, records)


DATABASE: Final = Database("db")
STORED: Final = stored()
SCOPE: Final = Scope(lambda _: (Relation(TYPED, DATABASE),), language("tdengine"), "UTC", 0)


def bound(*expressions: str) -> Plan:
    plan = bind(parse_query(f"select {', '.join(expressions)} from typed order by ts"), SCOPE)
    assert isinstance(plan, Plan)
    return plan


def shown(value: Any) -> Any:
    """Return a value as the fixture writes it: a DECIMAL as text, BIGINT UNSIGNED as a number."""
    if isinstance(value, Decimal):
        return int(value) if value.as_tuple().exponent == 0 else format(value, "f")
    return value


def assert_values(found: list[Any], expected: list[Any]) -> None:
    assert [shown(value) for value in found] == [
        pytest.approx(value, rel=1e-14) if isinstance(value, float) else value for value in expected
    ]


@pytest.fixture(scope="module")
def by_spark(spark: SparkSession) -> list[list[Any]]:
    """Return the values of all expressions, from one query."""
    frame = spark.createDataFrame(STORED)
    return [list(values) for values in zip(*evaluate(bound(*EXPRESSIONS), frame).collect(), strict=True)]


@pytest.mark.spark
@pytest.mark.parametrize("number", range(len(CASES)), ids=NAMES)
def test_spark_gives_an_expression_the_values_of_the_language(by_spark: list[list[Any]], number: int) -> None:
    assert_values(by_spark[number], CASES[number][1])


@pytest.mark.parametrize("number", range(len(CASES)), ids=NAMES)
def test_kernels_give_an_expression_the_values_of_the_language(number: int) -> None:
    plan = bound(EXPRESSIONS[number])
    try:
        kernel = ProjectionKernel.compile(plan, row_types(TYPED, DATABASE.precision))
    except UnsupportedError:
        pytest.skip("for Spark alone")
    assert_values(kernel.project(STORED)[plan.outputs[0].column].to_pylist(), CASES[number][1])


@pytest.mark.parametrize(("expression", "expected"), CASES, ids=NAMES)
def test_duckdb_gives_an_expression_the_values_of_the_language(expression: str, expected: list[Any]) -> None:
    query = f"select {expression.removeprefix(REFUSED)} v from typed order by ts"
    tables = lookup({"typed": (TYPED, STORED)}, {})
    if expression.startswith(REFUSED):
        with pytest.raises(NotSupportedError):
            query_rows(query, tables)
    else:
        assert_values([value for (value,) in query_rows(query, tables)], expected)
