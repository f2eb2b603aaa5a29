"""Batch jobs on a Delta table of readings: windows of time by subtable."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def read(spark: SparkSession, location: str) -> DataFrame:
    return spark.read.format("delta").load(location)


def intervals(rows: DataFrame, length: str, slide: str | None = None) -> DataFrame:
    """Count and mean voltage of each window of each subtable."""
    window = F.window("ts", length, slide)
    found = rows.groupBy("tbname", window.alias("window")).agg(F.count("*").alias("cnt"), F.avg("voltage").alias("av"))
    return found.select("tbname", F.col("window.start").alias("ts"), "cnt", "av")


def overall(rows: DataFrame, length: str) -> DataFrame:
    """Count and mean voltage of each window of all subtables together."""
    found = rows.groupBy(F.window("ts", length).alias("window")).agg(F.count("*").alias("cnt"), F.avg("voltage").alias("av"))
    return found.select(F.col("window.start").alias("ts"), "cnt", "av")


def write(rows: DataFrame, location: str) -> None:
    rows.write.format("delta").mode("overwrite").save(location)
