"""Tables as DataFrames of Spark, and large writes: executors write staged files, or merge rows whose keys exist."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, TypeVar

import pyarrow as pa

from headrace.errors import ConflictError, Error, OperationalError
from headrace.model.tables import Table, TableKind
from headrace.storage.delta.commits import WriteMetrics
from headrace.storage.delta.handles import first_line, look_again, spark_path
from headrace.storage.delta.pruning import Bounds
from headrace.storage.delta.staged_files import ROW_GROUP_ROWS, StagedFile, staged_files_in
from headrace.storage.loading.conversion import SplitTarget, StagedSplit, stage_split
from headrace.storage.loading.splits import FileSplit
from headrace.storage.types import MICROSECONDS

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

ORDER: Final = "__order"
Outcome = TypeVar("Outcome")
Work = TypeVar("Work")


def read_frame(spark: SparkSession, uri: str, schema: pa.Schema, version: int | None) -> DataFrame:
    """The columns of `schema` as stored, now or as of a version; those that were added after it are NULL."""
    from pyspark.sql import functions as F
    from pyspark.sql.pandas.types import from_arrow_type

    rows = load_version(spark, uri, version)
    stored = set(rows.columns)
    columns = (
        F.col(quote_identifier(field.name))
        if field.name in stored
        else F.lit(None).cast(from_arrow_type(field.type)).alias(field.name)
        for field in schema
    )
    return rows.select(*columns)


def load_version(spark: SparkSession, uri: str, version: int | None) -> DataFrame:
    """Return a Delta table as Spark reads it, now or as of a version."""
    reader = spark.read.format("delta")
    if version is not None:
        reader = reader.option("versionAsOf", version)
    return look_again(lambda: reader.load(spark_path(uri)))


@contextmanager
def translate_spark_errors(owner: str) -> Iterator[None]:
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JError) as error:
        kind = ConflictError if "Concurrent" in first_line(error) else OperationalError
        raise kind(
            f"Spark could not write to {owner}: {first_line(error)}", hint="nothing was written; the driver's log has more"
        ) from error


def stage_splits(spark: SparkSession, work: list[FileSplit], target: SplitTarget, uri: str) -> Iterator[StagedSplit]:
    return map_in_tasks(spark, work, lambda file_split: stage_split(file_split, target, uri), target.table.name)


def map_in_tasks(spark: SparkSession, work: Sequence[Work], function: Callable[[Work], Outcome], owner: str) -> Iterator[Outcome]:
    """Apply a function to pieces of work by Spark's workers, in order, in waves so that progress can be reported."""
    context = spark.sparkContext
    wave = max(1, context.defaultParallelism * 2)
    for start in range(0, len(work), wave):
        some = work[start : start + wave]
        with translate_spark_errors(owner):
            outcomes = context.parallelize(some, len(some)).map(lambda piece: _try(function, piece)).collect()
        for outcome in outcomes:
            if isinstance(outcome, Error):
                raise outcome
            yield outcome


def _try(function: Callable[[Work], Outcome], piece: Work) -> Outcome | Error:
    """Return our errors as values, as Spark would wrap them in its own."""
    try:
        return function(piece)
    except Error as error:
        return error


def stage_frame(frame: DataFrame, uri: str, table: Table, schema: pa.Schema) -> list[StagedFile]:
    """Write rows of a DataFrame (stored columns) as staged files of a table, each ordered by series and time."""
    folder = f"staged-{uuid.uuid4().hex}"
    with translate_spark_errors(table.name):
        ordered = stored_frame(frame, schema).sortWithinPartitions(*(quote_identifier(name) for name in table.primary_key))
        write_parquet(ordered, f"{spark_path(uri)}/{folder}")
    return staged_files_in(uri, folder, table, schema)


def stage_sorted(frame: DataFrame, uri: str, table: Table, schema: pa.Schema, max_rows: int) -> list[StagedFile]:
    """Write rows of a DataFrame as staged files of at most `max_rows` rows, in the order of keys: no two files overlap."""
    folder = f"staged-{uuid.uuid4().hex}"
    keys = [quote_identifier(name) for name in table.primary_key]
    with translate_spark_errors(table.name):
        rows = stored_frame(frame, schema)
        parts = max(1, -(-rows.count() // max_rows))
        ordered = rows.repartitionByRange(parts, *keys).sortWithinPartitions(*keys)
        write_parquet(ordered, f"{spark_path(uri)}/{folder}", max_rows)
    return staged_files_in(uri, folder, table, schema)


def write_parquet(rows: DataFrame, path: str, max_rows: int = 0) -> None:
    """Write rows as Parquet files of at most this many rows; 0 for any number."""
    writer = rows.write.option("compression", "zstd").option("maxRecordsPerFile", max_rows)
    writer = writer.option("parquet.block.row.count.limit", ROW_GROUP_ROWS)
    writer.option("mapreduce.fileoutputcommitter.marksuccessfuljobs", "false").parquet(path)


def stored_frame(frame: DataFrame, schema: pa.Schema) -> DataFrame:
    """Return a DataFrame with exactly the stored columns; a missing one is NULL."""
    from pyspark.sql import functions as F
    from pyspark.sql.pandas.types import from_arrow_type

    present = set(frame.columns)
    columns = []
    for field in schema:
        value = F.col(quote_identifier(field.name)) if field.name in present else F.lit(None)
        columns.append(value.cast(from_arrow_type(field.type)).alias(field.name))
    return frame.select(*columns)


def staged_frame(spark: SparkSession, uri: str, paths: Iterable[str]) -> DataFrame:
    """Read staged files as a DataFrame."""
    return spark.read.parquet(*(f"{spark_path(uri)}/{path}" for path in paths))


def deduplicate(spark: SparkSession, uri: str, files: list[StagedFile], table: Table, schema: pa.Schema) -> list[StagedFile]:
    """Return files with one row per key, that of the last file; the same files if no key repeats.

    In a tree each column has the value of the last file that has one.
    """
    from pyspark.sql import functions as F

    keys = [quote_identifier(name) for name in table.primary_key]
    with translate_spark_errors(table.name):
        rows = staged_frame(spark, uri, (file.path for file in files))
        if not rows.groupBy(*keys).count().where("count > 1").limit(1).count():
            return files
        order = F.create_map(*(F.lit(part) for number, file in enumerate(files) for part in (file.path, number)))
        name = F.element_at(F.split(F.input_file_name(), "/"), -1)
        ordered = rows.withColumn(ORDER, order[name])
        single = last_values(ordered, table, schema) if table.kind is TableKind.TREE else last_rows(ordered, keys)
        return stage_frame(single, uri, table, schema)


def last_rows(rows: DataFrame, keys: Sequence[str]) -> DataFrame:
    """Return the last row of each key, by `ORDER`."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    window = Window.partitionBy(*keys).orderBy(F.col(ORDER).desc())
    return rows.withColumn("__rank", F.row_number().over(window)).where("__rank = 1").drop(ORDER, "__rank")


def last_values(rows: DataFrame, table: Table, schema: pa.Schema) -> DataFrame:
    """Return one row for each key, with the last value of each column by `ORDER` that is not NULL."""
    from pyspark.sql import functions as F

    values = [name for name in schema.names if name not in table.primary_key]
    columns = [quote_identifier(name) for name in values]
    last = [
        F.max_by(column, F.when(F.col(column).isNotNull(), F.col(ORDER))).alias(name)
        for name, column in zip(values, columns, strict=True)
    ]
    return rows.groupBy(*(quote_identifier(name) for name in table.primary_key)).agg(*last)


def merge_rows(
    spark: SparkSession, uri: str, rows: DataFrame, table: Table, schema: pa.Schema, bounds: Bounds, update_columns: Collection[str]
) -> WriteMetrics:
    """Merge rows (one per key) by Spark: update existing keys in the `update_columns` columns, and insert the others.

    It has no compare-and-set and no guard, so it is for loads, which hold the table's lock, and not for streams.
    """
    from delta.tables import DeltaTable

    columns: dict[str, str | Column] = {quote_identifier(name): f"s.{quote_identifier(name)}" for name in schema.names}
    values = [name for name in schema.names if name not in table.primary_key and name in update_columns]
    updates: dict[str, str | Column] = {column: columns[column] for column in map(quote_identifier, values or [table.series_key])}
    if table.kind is TableKind.TREE:
        updates = {column: f"coalesce({value}, t.{column})" for column, value in updates.items()}
    with translate_spark_errors(table.name):
        target = look_again(lambda: DeltaTable.forPath(spark, spark_path(uri))).alias("t")
        merge = target.merge(rows.alias("s"), merge_condition(table, schema, bounds))
        result = merge.whenMatchedUpdate(set=updates).whenNotMatchedInsert(values=columns).execute().collect()[0]
    counts: dict[str, Any] = result.asDict()
    return WriteMetrics(-1, int(counts["num_inserted_rows"]), int(counts["num_updated_rows"]))


def merge_condition(table: Table, schema: pa.Schema, bounds: Bounds) -> str:
    time = quote_identifier(table.timestamp.name)
    low, high = (timestamp_literal(schema.field(table.timestamp.name).type, value) for value in (bounds.low, bounds.high))
    keys = [f"t.{name} = s.{name}" for name in map(quote_identifier, table.primary_key)]
    return " AND ".join([*keys, f"t.{time} >= {low}", f"t.{time} <= {high}"])


def timestamp_literal(type_: pa.DataType, value: int) -> str:
    """Return a stored timestamp's integer as a literal of Spark SQL."""
    return f"timestamp_micros({value})" if type_ == MICROSECONDS else str(value)


def quote_identifier(name: str) -> str:
    """Quote a name for Spark SQL."""
    return f"`{name.replace('`', '``')}`"
