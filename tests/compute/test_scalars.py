"""Values of expressions over one row."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from headrace.compute import evaluate
from headrace.compute.columnar.near import evaluate_locally
from headrace.compute.tdengine.scalars import EXAMPLES, MATH_TABLE, TEXT_TABLE
from headrace.compute.tdengine.scalars_time import TIME_TABLE
from tests.compute.samples import METERS, T0, answer, frame, meters, pairs, plan, scope, to_offset

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

ROW = meters(("d1", 3_456, 7, 1000, 1.5, -2.75, True, "Hello"))
CASES = pairs("scalars.sql")


@pytest.fixture(scope="module")
def values(small: SparkSession) -> list[Any]:
    """Return the values of all expressions, from one query."""
    inside = "select ts, a, b, c, d, e, s, cast(null as int) nothing, cast(null as varchar(9)) nothing_s from d1"
    sql = f"select {', '.join(expression for expression, _ in CASES)} from ({inside})"
    (found,) = evaluate(plan(sql), frame(small, METERS, ROW)).collect()
    return [to_offset(value) for value in found]


@pytest.mark.parametrize("number", range(len(CASES)), ids=[expression for expression, _ in CASES])
def test_an_expression_has_the_value_that_the_language_gives_it(values: list[Any], number: int) -> None:
    wanted = ast.literal_eval(CASES[number][1])
    assert values[number] == (pytest.approx(wanted) if isinstance(wanted, float) else wanted)


def written(value: Any) -> str:
    """Return a value as the function reference writes it."""
    match value:
        case None:
            return "NULL"
        case float():
            return f"{value:.6g}"
        case datetime():
            return f"'{value:%Y-%m-%d %H:%M:%S}'"
        case _:
            return repr(value)


def test_every_function_has_an_example_that_holds(small: SparkSession) -> None:
    names = {function.name for function in (*MATH_TABLE, *TEXT_TABLE, *TIME_TABLE)}
    assert names - set(EXAMPLES) == {"rand"}
    assert set(EXAMPLES) <= names
    (found,) = evaluate(plan(f"select {', '.join(call for call, _ in EXAMPLES.values())}"), frame(small, METERS, [])).collect()
    assert dict(zip(EXAMPLES, map(written, found), strict=True)) == {name: value for name, (_, value) in EXAMPLES.items()}


def test_a_query_without_a_table_is_answered_in_any_thread(small: SparkSession) -> None:
    texts = "select upper('a'), length('b')"
    with ThreadPoolExecutor(2) as threads:
        assert (
            list(threads.map(lambda sql: evaluate(plan(sql), frame(small, METERS, [])).collect(), [texts, texts]))
            == [[("A", 1)]] * 2
        )


def test_a_query_without_a_table_needs_no_spark() -> None:
    sql = "select 1, now(), abs(-1), -2.5, 'a', null, true, 3 in (1, 2), 1 + 1 limit 5"
    for query in (sql, sql.replace(" limit", " where 1 < 2 limit")):
        found = evaluate_locally(plan(query), NoTables(), 0)
        assert found is not None
        assert [list(row.values()) for row in found.to_pylist()] == [
            [1, datetime.fromtimestamp(T0 / 1000, UTC), 1, -2.5, "a", None, True, False, 2.0]
        ]
    nothing = evaluate_locally(plan("select 1 where 1 > 2"), NoTables(), 0)
    assert nothing is not None
    assert nothing.num_rows == 0


class NoTables:
    """A reader that has nothing to read."""

    def count(self, *_: Any) -> int:
        raise AssertionError

    def batches(self, *_: Any) -> Iterator[pa.RecordBatch]:
        raise AssertionError

    def row_count(self, *_: Any) -> int:
        raise AssertionError

    def rows(self, *_: Any) -> pa.Table:
        raise AssertionError

    def subtables(self, *_: Any) -> pa.Table:
        raise AssertionError


def test_calendar_functions_follow_the_zone_of_the_statement(small: SparkSession) -> None:
    rows = frame(small, METERS, meters(("d1", 2 * 3_600_000)))
    sql = "select to_iso8601(ts), timetruncate(ts, 1d), timetruncate(ts, 1d, 0), weekday(ts), to_char(ts, 'hh24'), today() from d1"
    found = answer(sql, rows, where=scope(timezone="Asia/Kolkata"))
    midnight = 1_699_986_600_000 - T0
    assert found == [("2023-11-15T05:43:20.000+0530", midnight, 1_700_006_400_000 - T0, 2, "05", midnight)]


def test_text_columns_are_read_as_timestamps_in_the_zone_they_name_or_else_of_the_statement(small: SparkSession) -> None:
    texts = ["2023-11-14 23:13:21", "2023-11-14T22:13:21Z", "2023-11-15 06:13:21+08:00", "noon"]
    rows = frame(small, METERS, meters(*(("d1", at, at, None, None, None, None, text) for at, text in enumerate(texts))))
    found = answer("select cast(s as timestamp) from d1", rows, where=scope(timezone="Europe/Berlin"))
    assert found == [(1_000,), (1_000,), (1_000,), (None,)]


def test_members_of_json_tags_are_text_or_missing(small: SparkSession) -> None:
    assert plan("select * from meters").outputs
    row = small.sql("""select '{"a": 1, "b": {"c": "x"}}' j""")
    from headrace.compute.nodes import Column
    from headrace.compute.tdengine.operators import contains, member
    from headrace.compute.terms import Term, literal
    from headrace.model.types import DataType, TypeKind

    json = Term(Column("j"), DataType(TypeKind.JSON))
    terms = [
        member(json, literal("a")),
        member(member(json, literal("b")), literal("c")),
        contains(json, literal("b")),
        member(json, literal("x")),
    ]
    assert tuple(row.selectExpr(*(str(term.node) for term in terms)).collect()[0]) == ("1", "x", True, None)
