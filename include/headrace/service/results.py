"""What a statement gives back."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import cached_property
from typing import Any, Final

import pyarrow as pa

INSTANT: Final = pa.timestamp("ms", "UTC")
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Rows:
    """A small table of Python values; instants (`INSTANT`) are epoch milliseconds.

    It becomes Arrow only when asked: PyArrow imports pandas, which takes a second, at the first list that it is given.
    """

    columns: dict[str, pa.DataType]
    values: Sequence[tuple[Any, ...]]

    def where(self, name: str, value: Any) -> Rows:
        """The rows that have a value in a column."""
        place = list(self.columns).index(name)
        return replace(self, values=[row for row in self.values if row[place] == value])

    def like(self, pattern: str | None) -> Rows:
        """The rows whose first column is LIKE a pattern; all where there is none."""
        if pattern is None:
            return self
        wanted = re.compile("".join({"%": ".*", "_": "."}.get(sign, re.escape(sign)) for sign in pattern), re.DOTALL)
        return replace(self, values=[row for row in self.values if row[0] is not None and wanted.fullmatch(row[0])])

    def select(self, names: Collection[str]) -> Rows:
        """Some of the columns, in the order of `names`."""
        places = [list(self.columns).index(name) for name in names]
        return Rows({name: self.columns[name] for name in names}, [tuple(row[place] for place in places) for row in self.values])

    def tuples(self) -> Iterator[tuple[Any, ...]]:
        instants = [kind == INSTANT for kind in self.columns.values()]
        for row in self.values:
            yield tuple(moment(value) if instant else value for value, instant in zip(row, instants, strict=True))

    def arrow(self) -> pa.Table:
        """The rows as Arrow."""
        arrays = [pa.array([row[place] for row in self.values], kind) for place, kind in enumerate(self.columns.values())]
        return pa.table(dict(zip(self.columns, arrays, strict=True)))


def moment(value: int | None) -> datetime | None:
    """An instant in epoch milliseconds."""
    return None if value is None else EPOCH + timedelta(milliseconds=value)


@dataclass(frozen=True)
class Result:
    """Rows, None for a statement without; `affected` counts rows written or deleted, -1 where it means nothing."""

    rows: pa.Table | Rows | None = None
    affected: int = -1

    @cached_property
    def table(self) -> pa.Table | None:
        """The rows as Arrow."""
        return self.rows.arrow() if isinstance(self.rows, Rows) else self.rows

    @property
    def names(self) -> list[str]:
        if self.rows is None:
            return []
        return list(self.rows.columns) if isinstance(self.rows, Rows) else list(self.rows.column_names)

    def tuples(self) -> Iterator[tuple[Any, ...]]:
        """Rows as Python values: timestamps as aware datetimes, whole decimals (unsigned BIGINT) as integers."""
        if self.rows is None:
            return iter(())
        if isinstance(self.rows, Rows):
            return self.rows.tuples()
        columns = [python_values(column) for column in self.rows.columns]
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
    return Result(Rows(dict(zip(names, kinds, strict=True)), [tuple(row) for row in rows]))
