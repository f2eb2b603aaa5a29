"""Batch jobs on a Delta table of readings: windows of time by subtable."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

OVER: Final = "OVER (PARTITION BY tbname ORDER BY ts)"


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


def runs(rows: DataFrame, breaks: str) -> DataFrame:
    """Windows of neighbouring rows of each subtable that end where a condition on a row and the one before it (`lag`) holds."""
    marked = rows.selectExpr("tbname", "ts", "voltage", f"if({breaks.replace('OVER', OVER)}, 1, 0) AS new")
    numbered = marked.selectExpr("tbname", "ts", "voltage", f"sum(new) {OVER[:-1]} ROWS UNBOUNDED PRECEDING) AS number")
    return of_numbers(numbered)


def events(rows: DataFrame, start: str, end: str) -> DataFrame:
    """Windows from a row that starts one to the next that ends it."""
    before = f"{OVER[:-1]} ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)"
    marked = rows.selectExpr("tbname", "ts", "voltage", f"if({start}, 1, 0) AS st", f"if({end}, 1, 0) AS en")
    cut = marked.selectExpr("*", f"coalesce(sum(en) {before}, 0) AS number")
    opened = "max(st) OVER (PARTITION BY tbname, number ORDER BY ts ROWS UNBOUNDED PRECEDING) AS opened"
    found = cut.selectExpr("*", opened).where("opened = 1").groupBy("tbname", "number")
    every = found.agg(F.min("ts").alias("ts"), F.max("en").alias("en"), F.count("*").alias("cnt"), F.avg("voltage").alias("av"))
    return every.where("en = 1").select("tbname", "ts", "cnt", "av")


def counted(rows: DataFrame, count: int) -> DataFrame:
    """Windows of so many rows of each subtable."""
    return of_numbers(rows.selectExpr("tbname", "ts", "voltage", f"(row_number() {OVER} - 1) div {count} AS number"))


def of_numbers(rows: DataFrame) -> DataFrame:
    """Count and mean voltage of each numbered window of each subtable."""
    found = rows.groupBy("tbname", "number")
    every = found.agg(F.min("ts").alias("ts"), F.count("*").alias("cnt"), F.avg("voltage").alias("av"))
    return every.select("tbname", "ts", "cnt", "av")


def write(rows: DataFrame, location: str) -> None:
    rows.write.format("delta").mode("overwrite").save(location)
