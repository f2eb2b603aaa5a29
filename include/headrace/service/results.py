"""What a statement gives back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Result:
    """Rows as Arrow, None for a statement without; `affected` counts rows written or deleted, -1 where it means nothing."""

    table: pa.Table | None = None
    affected: int = -1
    types: tuple[str, ...] = field(default=())

    @property
    def names(self) -> list[str]:
        return [] if self.table is None else list(self.table.column_names)

    def tuples(self) -> Iterator[tuple[Any, ...]]:
        """Rows as Python values: timestamps as aware datetimes, whole decimals (unsigned BIGINT) as integers."""
        if self.table is None:
            return iter(())
        columns = [python_values(column) for column in self.table.columns]
        return zip(*columns, strict=True) if columns else iter(())


def python_values(column: pa.ChunkedArray) -> list[Any]:
    """A column as Python values."""
    values = column.to_pylist()
    if pa.types.is_decimal(column.type) and column.type.scale == 0:
        return [None if value is None else int(value) for value in values]
    return [value.item() if hasattr(value, "item") and not isinstance(value, Decimal) else value for value in values]


def rows_result(names: Sequence[str], rows: Sequence[Sequence[Any]], types: Sequence[pa.DataType] | None = None) -> Result:
    """A small table, as SHOW and DESCRIBE give it; strings unless `types` says otherwise."""
    kinds = types or [pa.string()] * len(names)
    columns = [pa.array([row[place] for row in rows], kind) for place, kind in enumerate(kinds)]
    return Result(pa.table(dict(zip(names, columns, strict=True))))
