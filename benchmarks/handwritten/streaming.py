"""Structured Streaming jobs on a Delta table of readings: stateful windows, `foreachBatch`, Delta's own writer."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

BATCH = "batch"


@dataclass(frozen=True)
class Job:
    """A streaming query that computes windows by subtable from one Delta table into another.

    Attributes:
        spark: Runs the query.
        source: Location of the Delta table to read.
        target: Location of the Delta table to write.
        checkpoint: Folder of the query's checkpoint.
        length: Length of the windows.
        closed: Write windows once, after the watermark has passed them; else whenever they change.
        stateless: Aggregate each micro-batch separately, without state. The result differs; the time is a lower bound.
    """

    spark: SparkSession
    source: str
    target: str
    checkpoint: Path
    length: str
    closed: bool
    stateless: bool = False

    def start(self) -> StreamingQuery:
        """Start the query, or resume it from the checkpoint."""
        rows = self.spark.readStream.format("delta").load(self.source)
        if self.stateless:
            writer = rows.writeStream.foreachBatch(lambda batch, number: self._append(self._aggregate(batch), number))
        else:
            with_watermark = rows.withWatermark("ts", "0 seconds" if self.closed else "1 day")
            mode = "append" if self.closed else "update"
            writer = self._aggregate(with_watermark).writeStream.outputMode(mode).foreachBatch(self._append)
        return writer.option("checkpointLocation", str(self.checkpoint)).start()

    def _aggregate(self, rows: DataFrame) -> DataFrame:
        groups = rows.groupBy("tbname", F.window("ts", self.length).alias("window"))
        aggregates = groups.agg(F.count("*").alias("cnt"), F.avg("voltage").alias("av"))
        return aggregates.select("tbname", F.col("window.start").alias("ts"), "cnt", "av")

    def _append(self, windows: DataFrame, batch: int) -> None:
        windows.withColumn(BATCH, F.lit(batch)).write.format("delta").mode("append").save(self.target)


def latest(spark: SparkSession, target: str) -> DataFrame:
    """Read the latest version of each window from a target that has one row per update."""
    groups = spark.read.format("delta").load(target).groupBy("tbname", "ts")
    last = groups.agg(F.max_by("cnt", BATCH).alias("cnt"), F.max_by("av", BATCH).alias("av"))
    return last.select("tbname", "ts", "cnt", "av")
