"""Tables as Spark DataFrames: rows and changes, as stored."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.storage.delta.changes import COMMIT_VERSION
from headrace.storage.delta.handles import spark_path
from headrace.storage.delta.log import CHANGE_TYPE

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession


def read_frame(spark: SparkSession, uri: str, schema: pa.Schema, version: int | None) -> DataFrame:
    """The columns of `schema` as stored, now or as of a version; those that were added after it are NULL."""
    from pyspark.sql import functions as F
    from pyspark.sql.pandas.types import from_arrow_type

    reader = spark.read.format("delta")
    if version is not None:
        reader = reader.option("versionAsOf", version)
    rows = reader.load(spark_path(uri))
    stored = set(rows.columns)
    columns = (
        F.col(f"`{_escape(field.name)}`")
        if field.name in stored
        else F.lit(None).cast(from_arrow_type(field.type)).alias(field.name)
        for field in schema
    )
    return rows.select(*columns)


def read_changes_frame(spark: SparkSession, uri: str, first: int, last: int) -> DataFrame:
    """Return the changes of versions `first` to `last`, both inclusive, with the columns of `Changes.read`."""
    reader = spark.read.format("delta").option("readChangeFeed", "true")
    rows = reader.option("startingVersion", first).option("endingVersion", last).load(spark_path(uri))
    stored = [rows[f"`{_escape(name)}`"] for name in rows.columns if not name.startswith("_commit_") and name != CHANGE_TYPE]
    return rows.select(*stored, rows[CHANGE_TYPE], rows[COMMIT_VERSION])


def _escape(name: str) -> str:
    return name.replace("`", "``")
