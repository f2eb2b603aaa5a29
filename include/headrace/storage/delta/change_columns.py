"""The columns of changes: those of the rows, and what has become of them in which version."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from headrace.storage.delta.log import CHANGE_TYPE

COMMIT_VERSION: Final = "_commit_version"


def changes_schema(stored: pa.Schema) -> pa.Schema:
    """Return the columns of `Changes.read`: the stored ones, then the type of change and its version."""
    return pa.schema([*stored, pa.field(CHANGE_TYPE, pa.string()), pa.field(COMMIT_VERSION, pa.int64())])


def as_inserted(rows: pa.Table, version: int) -> pa.Table:
    """Return rows that a version has inserted with the columns that changes have."""
    return as_changed(rows, version, "insert")


def as_changed(rows: pa.Table, version: int, change_type: str | None) -> pa.Table:
    """Return rows that a version has changed with the columns that changes have; without a type, the rows have theirs."""
    if change_type is not None:
        rows = rows.append_column(CHANGE_TYPE, pa.repeat(pa.scalar(change_type), rows.num_rows))
    return rows.append_column(COMMIT_VERSION, pa.repeat(pa.scalar(version, pa.int64()), rows.num_rows))
