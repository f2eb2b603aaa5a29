"""Numbers in the result of SELECT LAST are written as Java writes them."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest

from headrace.compute.iotdb.last_local import real_text
from headrace.compute.local.sql import UnsupportedError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SPECIAL = [0.0, -0.0, float("nan"), float("inf"), float("-inf"), 1e-3, 9.99e-4, 1e7, 9999999.0, 1e300, -1.5e-300, 100.0, 0.25]


def numbers(digits: int, exponents: int) -> list[float]:
    """Return numbers of up to so many significant digits, of many magnitudes."""
    generator = random.Random(1)
    written = (
        f"{generator.randint(-(10**digits) + 1, 10**digits - 1)}e{generator.randint(-exponents, exponents)}" for _ in range(3000)
    )
    return [float(text) for text in written]


@pytest.mark.spark
@pytest.mark.parametrize(
    ("type_", "values"),
    [
        (np.float64, [*SPECIAL, *numbers(15, 12), *numbers(9, 250)]),
        (np.float32, [*(value for value in SPECIAL if abs(value) != 1e300 and abs(value) != 1.5e-300), *numbers(6, 20)]),
    ],
)
def test_text_equals_that_of_spark(small: SparkSession, type_: type[np.floating], values: list[float]) -> None:
    array = np.array(values, type_)
    rows = small.createDataFrame(pa.table({"value": array})).selectExpr("CAST(value AS STRING) AS text").toArrow()
    assert [real_text(value) for value in array] == rows["text"].to_pylist()


def test_text_of_more_digits_is_left_to_spark() -> None:
    with pytest.raises(UnsupportedError):
        real_text(np.float64(0.1) + np.float64(0.2))
    with pytest.raises(UnsupportedError):
        real_text(np.float32(1.2345678))
