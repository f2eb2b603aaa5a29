"""Stored rows on their way to DuckDB."""

from __future__ import annotations

import pyarrow as pa


def without_timestamps(rows: pa.Table) -> pa.Table:
    """Convert Arrow timestamps (microseconds in UTC) to BIGINT."""
    for position, field in enumerate(rows.schema):
        if pa.types.is_timestamp(field.type):
            micros = rows.column(position).cast(pa.timestamp("us", tz=field.type.tz)).cast(pa.int64())
            rows = rows.set_column(position, field.name, micros)
    return rows
