"""Marks of columns that only the Delta table keeps: they were dropped, or renamed by a copy under the new name."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import pyarrow as pa

from headrace.errors import StaleDefinitionError

RETIRED: Final = b"headrace.dropped"
RENAMED_FROM: Final = b"headrace.renamed_from"
"""Of a column that a rename adds: the name that its values had."""
TRUE: Final = b"true"


def is_retired(field: pa.Field) -> bool:
    return (field.metadata or {}).get(RETIRED) == TRUE


def refuse_retired(stored: pa.Schema, written: Collection[str], owner: str) -> None:
    """Raise `StaleDefinitionError` if a commit would write a retired column, where its values would be lost.

    `stored` has all columns at the version that the commit builds on, `written` those that get values; `owner` names the table.
    """
    retired = next((field.name for field in stored if is_retired(field) and field.name in written), None)
    if retired is not None:
        raise StaleDefinitionError(
            f"{owner} changed: its column {retired} was dropped or renamed meanwhile; nothing was written",
            hint="try again; if ALTER TABLE was interrupted, repeat it first",
        )
