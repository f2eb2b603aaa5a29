"""The rows of virtual tables as DataFrames."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

import pyarrow as pa

from headrace.compute import Scan
from headrace.compute.nodes import quote
from headrace.context import Context
from headrace.model.positions import Offsets, source_id
from headrace.model.tables import Table
from headrace.storage.spark.functions import F
from headrace.streams.sources.virtual_rows import OriginColumns, origin_columns, origin_tables, virtual_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

STORED_SERIES = "_stored_series"


def virtual_frame(context: Context, scan: Scan, offsets: Offsets | None = None) -> DataFrame:
    """Return the rows of a virtual table, now or as of offsets of its origins: timestamp, the values that are read, series key.

    The rows of all origins are combined and grouped by series and instant, whatever their number: there is no join.
    """
    references = scan.references_read
    tables = origin_tables(context, references)
    no_rows = context.spark().createDataFrame(virtual_schema(scan).empty_table())
    groups = origin_columns(references)
    pieces = [origin_frame(context, scan, columns, tables[columns.origin], offsets) for columns in groups]
    combined = reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), pieces, no_rows)
    if len(pieces) < 2:
        return combined
    key = [scan.table.series_key, scan.table.timestamp.name]
    grouped = combined.groupBy(*map(quote, key))
    if not scan.values:
        return grouped.agg(F.count(F.lit(1)).alias(STORED_SERIES)).drop(STORED_SERIES)
    return grouped.agg(*(F.any_value(quote(name), F.lit(True)).alias(name) for name in scan.values))


def origin_frame(context: Context, scan: Scan, columns: OriginColumns, origin: Table, offsets: Offsets | None) -> DataFrame:
    spark = context.spark()
    version = None if offsets is None else offsets[source_id(origin.database, origin.name)]
    rows = context.tables.frame(spark, origin, version=version)
    names = {scan.table.timestamp.name: origin.timestamp.name}
    names |= {column: stored for column, stored in columns.columns if column in scan.values}
    values = [F.col(quote(stored)).alias(name) for name, stored in names.items()]
    stored_series = F.col(quote(origin.series_key))
    if len(columns.series) == 1:
        ((stored, series),) = columns.series
        return rows.where(stored_series == F.lit(stored)).select(F.lit(series).alias(scan.table.series_key), *values)
    stored_names, names_of_series = zip(*columns.series, strict=True)
    series_column = f"_{scan.table.series_key}"
    pairs = spark.createDataFrame(pa.table({STORED_SERIES: pa.array(stored_names), series_column: pa.array(names_of_series)}))
    joined = rows.join(F.broadcast(pairs), stored_series == F.col(STORED_SERIES))
    return joined.select(F.col(series_column).alias(scan.table.series_key), *values)
