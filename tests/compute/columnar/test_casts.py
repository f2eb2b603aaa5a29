"""Casts of numbers to integers give what Spark gives."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from headrace.compute.columnar.expressions import evaluate, type_of
from headrace.compute.nodes import Column, Node, UnsupportedError

pytestmark = pytest.mark.spark

X = Column("x")
LIMITS = [2**31, 2**63]
DOUBLES = [float(sign * limit + by) for limit in LIMITS for sign in (1, -1) for by in (-2, -1, 0, 1, 2)]
NUMBERS: dict[pa.DataType, list[Any]] = {
    pa.float64(): [None, 0.0, -0.0, 0.5, -0.5, 1.9, -1.9, 2147483647.5, -2147483648.5, math.nan, math.inf, -math.inf, *DOUBLES],
    pa.float32(): [None, 1.5, -1.5, 2.0**31, -(2.0**31), 2.0**63, -(2.0**63), math.nan],
    pa.int64(): [None, 0, 2**31 - 1, 2**31, -(2**31), -(2**31) - 1, 2**63 - 1, -(2**63)],
    pa.int32(): [None, 0, 2**31 - 1, -(2**31)],
    pa.int8(): [None, -128, 127],
}


@pytest.mark.parametrize("type_", NUMBERS, ids=str)
@pytest.mark.parametrize("node", [X.try_cast("int"), X.try_cast("bigint"), X.try_cast("bigint").try_cast("int")], ids=str)
def test_numbers_are_truncated_as_spark_does(small: SparkSession, type_: pa.DataType, node: Node) -> None:
    rows = pa.table({"x": pa.array(NUMBERS[type_], type_)})
    expected = small.createDataFrame(rows).selectExpr(f"{node} AS x").toArrow()["x"]
    actual = evaluate(node, {"x": rows["x"]})
    assert actual.type == expected.type == type_of(node, {"x": type_})
    assert actual.to_pylist() == expected.to_pylist()


def test_casts_that_fail_in_spark_are_left_to_it() -> None:
    with pytest.raises(UnsupportedError):
        evaluate(X.cast("bigint"), {"x": pa.array([1e300])})
