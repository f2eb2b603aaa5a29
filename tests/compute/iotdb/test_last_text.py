"""Numbers in the result of SELECT LAST are written as Java writes them."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest

from headrace.compute.columnar.casts import java_text
from headrace.compute.nodes import UnsupportedError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SPECIAL = [0.0, -0.0, float("nan"), float("inf"), float("-inf"), 1e-3, -0.01, 100.0, 0.25, 1_000_000.0]
LONG = [0.1 + 0.2, 1e7, -9e-4, 1.5e12]


def numbers(digits: int) -> list[float]:
    """Return numbers of up to so many significant digits between a thousandth and ten million."""
    generator = random.Random(1)
    written = [float(f"{generator.randint(1 - 10**digits, 10**digits - 1)}e{generator.randint(-18, 6)}") for _ in range(20_000)]
    return [value for value in written if 1e-3 <= abs(value) < 1e7]


@pytest.mark.spark
@pytest.mark.parametrize(("type_", "digits"), [(np.float64, 15), (np.float64, 4), (np.float32, 6)])
def test_text_equals_that_of_spark(small: SparkSession, type_: type[np.floating], digits: int) -> None:
    array = np.array([*SPECIAL, *(LONG if type_ is np.float64 else ()), *numbers(digits)], type_)
    rows = small.createDataFrame(pa.table({"value": array})).selectExpr("CAST(value AS STRING) AS text").toArrow()
    assert [java_text(value) for value in array] == rows["text"].to_pylist()


@pytest.mark.parametrize("value", [np.float32(1.2345678), np.float32(2e7), np.float64(1e16), np.float64(-9e-14)])
def test_other_numbers_are_left_to_spark(value: np.floating) -> None:
    with pytest.raises(UnsupportedError):
        java_text(value)
