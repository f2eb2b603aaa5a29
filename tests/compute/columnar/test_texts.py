"""Texts, patterns of LIKE and remainders give what Spark gives."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from headrace.compute.columnar.expressions import evaluate, type_of
from headrace.compute.nodes import Column, Node, Operation, UnsupportedError, Value, call, string
from headrace.compute.tdengine.patterns import like_regex

pytestmark = pytest.mark.spark

X, T = Column("x"), Column("t")
TEXTS = [None, "", "Ab", "K", "k", "\u212a", "ſ", "s", "b%c", "a\nb", "aé", "aÉ", "日本", "a.b"]
NUMBERS = [None, 0.0, -0.0, 3.0, -4.0, 5.5, -5.5, float("inf"), float("nan"), 1e300, 2.0, -1.0, 7.0, 9.0]
PATTERNS = ("%", "a%", "K", "s", "b\\%_", "%é", "_", "a_b", "", "日%")


@pytest.mark.parametrize(
    "node",
    [
        *(call("rlike", T, string(like_regex(pattern, in_bytes=False, ignores_case="i"))) for pattern in PATTERNS),
        Operation("%", (X, Value(2.0, "double"))),
        Operation("%", (Value(7.5, "double"), call("nullif", X, Value(0.0, "double")))),
        call("concat", string("o_"), T, string("!")),
        call("concat", string("o_"), Column("i").cast("string")),
    ],
    ids=str,
)
def test_values_are_those_of_spark(small: SparkSession, node: Node) -> None:
    numbers = pa.array([None, *range(-6, len(TEXTS) - 7)], pa.int64())
    rows = pa.table({"t": pa.array(TEXTS), "x": pa.array(NUMBERS, pa.float64()), "i": numbers})
    expected = small.createDataFrame(rows).selectExpr(f"{node} AS y").toArrow()["y"]
    actual = evaluate(node, {name: rows[name] for name in rows.column_names})
    assert actual.type == expected.type == type_of(node, {field.name: field.type for field in rows.schema})
    assert repr(actual.to_pylist()) == repr(expected.to_pylist())


@pytest.mark.parametrize("pattern", [string("(?i)[a-z]"), string("(?<=a)b"), string(r"\bab"), T], ids=str)
def test_other_patterns_are_left_to_spark(pattern: Node) -> None:
    with pytest.raises(UnsupportedError):
        type_of(call("rlike", T, pattern), {"t": pa.string()})


def test_texts_are_joined_also_where_all_of_them_are_null() -> None:
    rows = 40
    first, second = [None if number % 3 else "x" for number in range(rows)], [None if number % 5 else "y" for number in range(rows)]
    joined = evaluate(call("concat_ws", string("/"), X, T), {"x": pa.array(first, pa.string()), "t": pa.array(second, pa.string())})
    expected = ["/".join(text for text in texts if text is not None) for texts in zip(first, second, strict=True)]
    assert joined.to_pylist() == expected
