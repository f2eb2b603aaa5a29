"""Rows in quarantine in a form that users can read, and JSON has."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa

from headrace.model.tables import Table


def json_values(rows: pa.Table, source: Table) -> list[dict[str, Any]]:
    """Return the declared columns of some rows by name: numbers, truth values and NULL as they are, others as text."""
    names = [column.name for column in source.columns if column.name in rows.column_names]
    return [{name: json_value(value) for name, value in row.items()} for row in rows.select(names).to_pylist()]


def json_value(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    return value.hex() if isinstance(value, bytes) else str(value)
