"""Tables as Spark DataFrames: rows and changes, as stored."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.storage.changes import CHANGE_TYPE, COMMIT_VERSION
from headrace.storage.handles import spark_path

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def frame(spark: SparkSession, uri: str, version: int | None) -> DataFrame:
    """Rows as stored, now or as of a version."""
    reader = spark.read.format("delta")
    if version is not None:
        reader = reader.option("versionAsOf", version)
    return reader.load(spark_path(uri))


def changes_frame(spark: SparkSession, uri: str, first: int, last: int) -> DataFrame:
    """Changes of versions `first` to `last`, both inclusive, with the columns of `Tables.changes`."""
    reader = spark.read.format("delta").option("readChangeFeed", "true")
    rows = reader.option("startingVersion", first).option("endingVersion", last).load(spark_path(uri))
    stored = [rows[f"`{_escaped(name)}`"] for name in rows.columns if not name.startswith("_commit_") and name != CHANGE_TYPE]
    return rows.select(*stored, rows[CHANGE_TYPE], rows[COMMIT_VERSION])


def _escaped(name: str) -> str:
    return name.replace("`", "``")
