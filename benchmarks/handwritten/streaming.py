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
    """One query: windows of `length` by subtable, from a Delta table into another.

    With `closed` windows are written once, when the watermark has passed them; else whenever rows have come for them. With
    `stateless` each micro-batch is aggregated by itself and nothing is remembered: not the same result, but the least that
    such a job can do.
    """

    spark: SparkSession
    source: str
    target: str
    checkpoint: Path
    length: str
    closed: bool
    stateless: bool = False

    def start(self) -> StreamingQuery:
        """Start, or go on from the checkpoint."""
        rows = self.spark.readStream.format("delta").load(self.source)
        if self.stateless:
            writer = rows.writeStream.foreachBatch(lambda batch, number: self._append(self._aggregated(batch), number))
        else:
            late = rows.withWatermark("ts", "0 seconds" if self.closed else "1 day")
            mode = "append" if self.closed else "update"
            writer = self._aggregated(late).writeStream.outputMode(mode).foreachBatch(self._append)
        return writer.option("checkpointLocation", str(self.checkpoint)).start()

    def _aggregated(self, rows: DataFrame) -> DataFrame:
        found = rows.groupBy("tbname", F.window("ts", self.length).alias("window"))
        aggregates = found.agg(F.count("*").alias("cnt"), F.avg("voltage").alias("av"))
        return aggregates.select("tbname", F.col("window.start").alias("ts"), "cnt", "av")

    def _append(self, windows: DataFrame, batch: int) -> None:
        windows.withColumn(BATCH, F.lit(batch)).write.format("delta").mode("append").save(self.target)


def latest(spark: SparkSession, target: str) -> DataFrame:
    """The result as readers want it: of a window that was written several times, what was written last."""
    found = spark.read.format("delta").load(target).groupBy("tbname", "ts")
    newest = found.agg(F.max_by("cnt", BATCH).alias("cnt"), F.max_by("av", BATCH).alias("av"))
    return newest.select("tbname", "ts", "cnt", "av")
