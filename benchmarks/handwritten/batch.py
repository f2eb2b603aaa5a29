"""Batch jobs on a Delta table of readings: windows by subtable."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

OVER: Final = "OVER (PARTITION BY tbname ORDER BY ts)"


def read(spark: SparkSession, location: str) -> DataFrame:
    """Read a Delta table."""
    return spark.read.format("delta").load(location)


def intervals(rows: DataFrame, length: str, slide: str | None = None) -> DataFrame:
    """Compute count and mean voltage per time window and subtable."""
    window = F.window("ts", length, slide)
    aggregates = rows.groupBy("tbname", window.alias("window")).agg(F.count("*").alias("cnt"), F.avg("voltage").alias("av"))
    return aggregates.select("tbname", F.col("window.start").alias("ts"), "cnt", "av")


def intervals_overall(rows: DataFrame, length: str) -> DataFrame:
    """Compute count and mean voltage per time window over all subtables."""
    aggregates = rows.groupBy(F.window("ts", length).alias("window")).agg(F.count("*").alias("cnt"), F.avg("voltage").alias("av"))
    return aggregates.select(F.col("window.start").alias("ts"), "cnt", "av")


def run_windows(rows: DataFrame, breaks: str) -> DataFrame:
    """Compute windows of consecutive rows per subtable; a condition on a row and its predecessor (`lag`) starts a new one."""
    marked = rows.selectExpr("tbname", "ts", "voltage", f"if({breaks.replace('OVER', OVER)}, 1, 0) AS new")
    numbered = marked.selectExpr("tbname", "ts", "voltage", f"sum(new) {OVER[:-1]} ROWS UNBOUNDED PRECEDING) AS number")
    return aggregate_numbered(numbered)


def event_windows(rows: DataFrame, start: str, end: str) -> DataFrame:
    """Compute windows per subtable from a row that meets the start condition to the next that meets the end condition."""
    before = f"{OVER[:-1]} ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)"
    marked = rows.selectExpr("tbname", "ts", "voltage", f"if({start}, 1, 0) AS st", f"if({end}, 1, 0) AS en")
    numbered = marked.selectExpr("*", f"coalesce(sum(en) {before}, 0) AS number")
    opened = "max(st) OVER (PARTITION BY tbname, number ORDER BY ts ROWS UNBOUNDED PRECEDING) AS opened"
    groups = numbered.selectExpr("*", opened).where("opened = 1").groupBy("tbname", "number")
    windows = groups.agg(F.min("ts").alias("ts"), F.max("en").alias("en"), F.count("*").alias("cnt"), F.avg("voltage").alias("av"))
    return windows.where("en = 1").select("tbname", "ts", "cnt", "av")


def count_windows(rows: DataFrame, count: int) -> DataFrame:
    """Compute windows of `count` consecutive rows per subtable."""
    return aggregate_numbered(rows.selectExpr("tbname", "ts", "voltage", f"(row_number() {OVER} - 1) div {count} AS number"))


def aggregate_numbered(rows: DataFrame) -> DataFrame:
    """Compute start, count and mean voltage per numbered window and subtable."""
    groups = rows.groupBy("tbname", "number")
    windows = groups.agg(F.min("ts").alias("ts"), F.count("*").alias("cnt"), F.avg("voltage").alias("av"))
    return windows.select("tbname", "ts", "cnt", "av")


def write(rows: DataFrame, location: str) -> None:
    """Write rows to a Delta table, replacing its content."""
    rows.write.format("delta").mode("overwrite").save(location)
