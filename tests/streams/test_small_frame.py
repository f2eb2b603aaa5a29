"""Arrow tables as DataFrames of small batches."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from headrace.streams.windows.window_sql import small_frame

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("sizes", [[], [0], [1, 0, 2], [0, 1]])
def test_a_table_with_empty_chunks_keeps_its_rows(spark: SparkSession, sizes: list[int]) -> None:
    schema = pa.schema([("at", pa.timestamp("us", tz="UTC")), ("name", pa.string())])
    parts = [
        pa.table([pa.array(range(size), pa.int64()).cast(schema.field(0).type), ["x"] * size], schema=schema) for size in sizes
    ]
    rows = pa.concat_tables(parts) if parts else schema.empty_table()
    assert small_frame(spark, rows).toArrow().num_rows == sum(sizes)
