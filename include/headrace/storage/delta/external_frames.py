"""External tables as DataFrames of Spark, with the rows that `ExternalRows` reads from the files."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from headrace.model.external_tables import TIME_UNITS, time_limits
from headrace.model.time import Precision
from headrace.storage.delta.column_mapping import MAPPED, declared_path
from headrace.storage.delta.external_rows import MICROSECOND_NS, ExternalRows, stored_type
from headrace.storage.delta.spark_writes import load_version, quote_identifier

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def external_frame(spark: SparkSession, rows: ExternalRows, version: int | None, declared: pa.Schema) -> DataFrame:
    """Return the columns, tags and the series key of the rows that have a time and a series, now or as of a version.

    `declared` has the columns of that version, some of which may have had other names.
    """
    from pyspark.sql import functions as F

    frame = load_version(spark, rows.uri, version)
    read = frame.select(*(F.expr(value_sql(rows, name, declared)).alias(name) for name in rows.schema.names))
    keys = (rows.table.timestamp.name, rows.table.series_key)
    return read.where(" AND ".join(f"{quote_identifier(name)} IS NOT NULL" for name in keys))


def value_sql(rows: ExternalRows, name: str, declared: pa.Schema) -> str:
    """Return a column, tag or the series key of a row in Spark SQL; see `external_frame`. The session's time zone is UTC."""
    from pyspark.sql.pandas.types import from_arrow_type

    if name == rows.table.series_key:
        return series_sql(rows, declared)
    path = rows.sources[name]
    stored, type_ = stored_type(rows.stored, path, rows.external.location), rows.schema.field(name).type
    value = path_sql(rows, path, declared)
    if rows.is_time(name, stored):
        # Spark reads times of nanoseconds as numbers.
        value = micros_sql(value) if stored_type(rows.declared, path, rows.external.location) != stored else value
        return time_sql(rows, value, stored)
    return value if type_ == stored else f"CAST({value} AS {from_arrow_type(type_).simpleString()})"


def path_sql(rows: ExternalRows, path: tuple[str, ...], declared: pa.Schema) -> str:
    """Return a stored column; NULL if the version does not have it yet."""
    from pyspark.sql.pandas.types import from_arrow_type

    names = declared_path(declared, rows.in_files(path)) if rows.mapping in MAPPED else path
    if names is None:
        return f"CAST(NULL AS {from_arrow_type(stored_type(rows.declared, path, rows.external.location)).simpleString()})"
    return ".".join(map(quote_identifier, names))


def series_sql(rows: ExternalRows, declared: pa.Schema) -> str:
    parts = [f"CAST({path_sql(rows, rows.sources[tag], declared)} AS STRING)" for tag in rows.external.series]
    if not parts:
        return text_sql(rows.table.name)
    return f"concat({f', {text_sql(rows.table.series_separator)}, '.join(parts)})"


def text_sql(text: str) -> str:
    """Return a literal of Spark SQL."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def micros_sql(nanoseconds: str) -> str:
    """Return nanoseconds since 1970 as a timestamp, rounded down."""
    below = f"CASE WHEN {nanoseconds} % {MICROSECOND_NS}L < 0 THEN 1L ELSE 0L END"  # division truncates, also below zero
    return f"timestamp_micros({nanoseconds} DIV {MICROSECOND_NS}L - {below})"


def time_sql(rows: ExternalRows, value: str, stored: pa.DataType) -> str:
    """Return a stored time as our own tables have it, cut to the precision; see `ExternalRows.times`."""
    precision = rows.external.precision
    is_long = precision is Precision.NANOSECOND
    if pa.types.is_integer(stored):
        unit_ns = TIME_UNITS[rows.external.unit or "s"]
        number = within_sql(f"CAST({value} AS BIGINT)", "{}", time_limits(unit_ns, precision))
        if is_long:
            return f"({number} * {unit_ns}L)"
        is_whole = unit_ns >= MICROSECOND_NS
        time = f"timestamp_micros({number} * {unit_ns // MICROSECOND_NS}L)" if is_whole else micros_sql(number)
    else:
        is_zoned = pa.types.is_timestamp(stored) and stored.tz is not None
        instant = value if is_zoned else f"CAST({value} AS TIMESTAMP)"
        time = within_sql(instant, "unix_micros({})", time_limits(MICROSECOND_NS, precision))
        time = time if is_zoned else f"to_utc_timestamp({time}, {text_sql(rows.external.timezone)})"
    if is_long:
        return f"(unix_micros({time}) * {MICROSECOND_NS}L)"
    return f"timestamp_millis(unix_millis({time}))" if precision is Precision.MILLISECOND else time


def within_sql(value: str, number: str, limits: tuple[int, int]) -> str:
    """Return a value, or NULL if what `number` makes of it is beyond some limits (inclusive)."""
    low, high = (f"CAST('{limit}' AS BIGINT)" for limit in limits)  # there is no literal of the least one
    return f"CASE WHEN {number.format(value)} BETWEEN {low} AND {high} THEN {value} END"
