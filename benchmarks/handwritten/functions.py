"""A function over all series, by `mapInArrow`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def sum_of_doubled(rows: DataFrame) -> DataFrame:
    """Return `Device`, and the sum of twice the voltage, for which each series passes through one task in order of time."""
    series = rows.select("time", "device", "voltage").repartition("device").sortWithinPartitions("device", "time")
    doubled = series.mapInArrow(double, "Time TIMESTAMP, Device STRING, doubled DOUBLE")
    return doubled.groupBy("Device").agg(F.sum("doubled").alias("total")).sort("Device")


def double(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        values = pc.multiply(pc.cast(batch["voltage"], pa.float64()), 2.0)
        yield pa.RecordBatch.from_arrays([batch["time"], batch["device"], values], ["Time", "Device", "doubled"])
