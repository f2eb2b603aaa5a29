"""Batch jobs on a Delta table of devices, with the columns and names that the IoTDB language gives them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def windows_by_device(rows: DataFrame) -> DataFrame:
    """Compute count and mean voltage per minute and device."""
    aggregates = rows.groupBy("device", F.window("time", "1 minute").alias("window")).agg(
        F.count("voltage").alias("count(voltage)"), F.avg("voltage").alias("avg(voltage)")
    )
    return aggregates.select(F.col("window.start").alias("Time"), F.col("device").alias("Device"), "count(voltage)", "avg(voltage)")


def windows_by_time(rows: DataFrame, devices: Sequence[str]) -> DataFrame:
    """Compute count and mean voltage per minute of some devices, as columns of their own."""
    chosen = rows.where(F.col("device").isin(list(devices)))
    by_window = chosen.groupBy(F.window("time", "1 minute").alias("window")).pivot("device", list(devices))
    aggregates = by_window.agg(F.count("voltage").alias("count"), F.avg("voltage").alias("avg"))
    columns = [F.col(f"`{device}_{name}`").alias(f"{name}({device}.voltage)") for name in ("count", "avg") for device in devices]
    return aggregates.select(F.col("window.start").alias("Time"), *columns)


def power_by_device(rows: DataFrame) -> DataFrame:
    """Compute an expression for the rows with a high voltage, sorted by device and time."""
    power = (F.col("voltage").cast("double") * F.col("current").cast("double")).alias("power")
    chosen = rows.where("voltage >= 239").select(F.col("time").alias("Time"), F.col("device").alias("Device"), power)
    return chosen.orderBy("Device", "Time")


def voltage_by_time(rows: DataFrame, devices: Sequence[str]) -> DataFrame:
    """Compute an expression over each of some devices, with a row for each instant, sorted by time."""
    by_time = rows.where(F.col("device").isin(list(devices))).groupBy("time").pivot("device", list(devices))
    columns = [(F.col(f"`{device}`").cast("double") + 1).alias(f"{device}.voltage + 1") for device in devices]
    return by_time.agg(F.first("voltage")).select(F.col("time").alias("Time"), *columns).orderBy("Time")
