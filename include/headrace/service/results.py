"""What a statement gives back."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Literal

if TYPE_CHECKING:
    import pyarrow as pa

    from headrace.verify import VerificationResult

Type = Literal["string", "bool", "int32", "int64", "timestamp[ms, tz=UTC]"]
"""A type of Arrow by its name, so that PyArrow need not be imported for a table that is only shown."""

STRING: Final[Type] = "string"
BOOL: Final[Type] = "bool"
INT: Final[Type] = "int32"
BIGINT: Final[Type] = "int64"
INSTANT: Final[Type] = "timestamp[ms, tz=UTC]"
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
ROWS_AT_A_TIME: Final = 10_000
"""So many rows become Python values at a time."""


@dataclass(frozen=True, slots=True)
class CatalogRows:
    """A small table of Python values; instants (`INSTANT`) are epoch milliseconds.

    It becomes Arrow only when asked: PyArrow and NumPy take 0.3 s to import, and pandas, which PyArrow imports at the first list
    that it is given, a second.
    """

    columns: dict[str, Type]
    values: Sequence[tuple[Any, ...]]

    def where(self, name: str, value: Any) -> CatalogRows:
        """The rows that have a value in a column."""
        place = list(self.columns).index(name)
        return replace(self, values=[row for row in self.values if row[place] == value])

    def like(self, pattern: str | None) -> CatalogRows:
        """The rows whose first column is LIKE a pattern; all where there is none."""
        if pattern is None:
            return self
        wanted = re.compile("".join({"%": ".*", "_": "."}.get(sign, re.escape(sign)) for sign in pattern), re.DOTALL)
        return replace(self, values=[row for row in self.values if row[0] is not None and wanted.fullmatch(row[0])])

    def select(self, names: Collection[str]) -> CatalogRows:
        """Some of the columns, in the order of `names`."""
        places = [list(self.columns).index(name) for name in names]
        return CatalogRows(
            {name: self.columns[name] for name in names}, [tuple(row[place] for place in places) for row in self.values]
        )

    def tuples(self) -> Iterator[tuple[Any, ...]]:
        instants = [kind == INSTANT for kind in self.columns.values()]
        for row in self.values:
            yield tuple(moment(value) if instant else value for value, instant in zip(row, instants, strict=True))

    def arrow(self) -> pa.Table:
        """The rows as Arrow."""
        import pyarrow as pa

        kinds = [pa.timestamp("ms", "UTC") if name == INSTANT else pa.type_for_alias(name) for name in self.columns.values()]
        arrays = [pa.array([row[place] for row in self.values], kind) for place, kind in enumerate(kinds)]
        return pa.table(dict(zip(self.columns, arrays, strict=True)))


def moment(value: int | None) -> datetime | None:
    """An instant in epoch milliseconds."""
    return None if value is None else EPOCH + timedelta(milliseconds=value)


@dataclass(frozen=True)
class Result:
    """Rows, None for a statement without; `affected` counts rows written or deleted, -1 if it means nothing.

    `verdict` is that of a verification.
    """

    rows: pa.Table | CatalogRows | None = None
    affected: int = -1
    verdict: VerificationResult | None = None

    @cached_property
    def table(self) -> pa.Table | None:
        """The rows as Arrow."""
        return self.rows.arrow() if isinstance(self.rows, CatalogRows) else self.rows

    @property
    def columns(self) -> dict[str, str]:
        """Names of the columns, and of their types in Arrow."""
        if self.rows is None:
            return {}
        if isinstance(self.rows, CatalogRows):
            return dict(self.rows.columns)
        return {field.name: str(field.type) for field in self.rows.schema}

    @property
    def names(self) -> list[str]:
        return list(self.columns)

    @property
    def count(self) -> int:
        """How many rows; 0 for a statement without."""
        if self.rows is None:
            return 0
        return len(self.rows.values) if isinstance(self.rows, CatalogRows) else int(self.rows.num_rows)

    def tuples(self) -> Iterator[tuple[Any, ...]]:
        """Rows as Python values: timestamps as aware datetimes, whole decimals (unsigned BIGINT) as integers.

        They are made as they are asked for: whoever takes the rows as Arrow does not wait for them.
        """
        if isinstance(self.rows, CatalogRows):
            yield from self.rows.tuples()
        elif self.rows is not None:
            for batch in self.rows.to_batches(max_chunksize=ROWS_AT_A_TIME):
                yield from zip(*(python_values(column) for column in batch.columns), strict=True)


def python_values(column: pa.Array) -> list[Any]:
    """A column as Python values."""
    import pyarrow as pa

    values = column.to_pylist()
    if pa.types.is_decimal(column.type) and column.type.scale == 0:
        return [None if value is None else int(value) for value in values]
    return [value.item() if hasattr(value, "item") and not isinstance(value, Decimal) else value for value in values]


def rows_result(names: Sequence[str], rows: Sequence[Sequence[Any]], types: Sequence[Type] | None = None) -> Result:
    """A small table, as SHOW and DESCRIBE give it; strings unless `types` says otherwise."""
    kinds = types or [STRING] * len(names)
    return Result(CatalogRows(dict(zip(names, kinds, strict=True)), [tuple(row) for row in rows]))
