"""Results of statements."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

from headrace.errors import DataError
from headrace.model.paths import wildcards

if TYPE_CHECKING:
    import pyarrow as pa

    from headrace.verify import VerificationResult

T = TypeVar("T")
Type = Literal["string", "bool", "int32", "int64", "double", "timestamp[ms, tz=UTC]"]
"""The name of an Arrow type, so that a table that is only printed does not import PyArrow."""

STRING: Final[Type] = "string"
BOOL: Final[Type] = "bool"
INT: Final[Type] = "int32"
BIGINT: Final[Type] = "int64"
DOUBLE: Final[Type] = "double"
INSTANT: Final[Type] = "timestamp[ms, tz=UTC]"
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
CONVERSION_BATCH_ROWS: Final = 10_000
"""Rows that are converted to Python values at a time."""


@dataclass(frozen=True, slots=True)
class CatalogRows:
    """A small table of Python values; instants (`INSTANT`) are epoch milliseconds.

    Converted to Arrow only on demand: importing PyArrow and NumPy takes 0.3 s, and pandas, which PyArrow imports when it converts
    the first list, a second.
    """

    columns: dict[str, Type]
    values: Sequence[tuple[Any, ...]]

    def where(self, name: str, value: Any) -> CatalogRows:
        """Keep the rows with a value in a column."""
        position = list(self.columns).index(name)
        return replace(self, values=[row for row in self.values if row[position] == value])

    def like(self, pattern: str | None) -> CatalogRows:
        """Keep the rows whose first column is LIKE a pattern; all of them if it is None."""
        if pattern is None:
            return self
        matcher = wildcards(pattern, "%", "_")
        return replace(self, values=[row for row in self.values if row[0] is not None and matcher.fullmatch(row[0])])

    def select(self, names: Collection[str]) -> CatalogRows:
        """Select columns, in the order of `names`."""
        positions = [list(self.columns).index(name) for name in names]
        return CatalogRows(
            {name: self.columns[name] for name in names}, [tuple(row[position] for position in positions) for row in self.values]
        )

    def tuples(self) -> Iterator[tuple[Any, ...]]:
        """Yield the rows, instants as aware datetimes."""
        is_instant = [type_ == INSTANT for type_ in self.columns.values()]
        for row in self.values:
            yield tuple(to_datetime(value) if convert else value for value, convert in zip(row, is_instant, strict=True))

    def arrow(self) -> pa.Table:
        import pyarrow as pa

        types = [pa.timestamp("ms", "UTC") if name == INSTANT else pa.type_for_alias(name) for name in self.columns.values()]
        arrays = [pa.array([row[position] for row in self.values], type_) for position, type_ in enumerate(types)]
        return pa.table(dict(zip(self.columns, arrays, strict=True)))


ColumnOf = tuple[Type, Callable[[T], Any]]
"""The type of a column, and what it has of the thing that a row is about."""


def read_columns(columns: Mapping[str, ColumnOf[T]], things: Iterable[T]) -> CatalogRows:
    rows = [tuple(read(thing) for _, read in columns.values()) for thing in things]
    return CatalogRows({name: type_ for name, (type_, _) in columns.items()}, rows)


def to_datetime(value: int | None) -> datetime | None:
    return None if value is None else EPOCH + timedelta(milliseconds=value)


@dataclass(frozen=True)
class Result:
    """The result of a statement: rows (None if it returns none), or the count of affected ones.

    `affected` counts the rows written or deleted, -1 if that does not apply, and `read` those of files that were loaded.
    `verification` is the outcome of a verification, and `note` what a user should know who expects something else.
    """

    rows: pa.Table | CatalogRows | None = None
    affected: int = -1
    verification: VerificationResult | None = None
    note: str = ""
    read: int = -1

    @property
    def unwritten(self) -> str:
        """The number of rows that were read from files and not written, for messages; nothing if there are none."""
        missing = self.read - self.affected
        return f"; {self.read} read, {missing} with a repeated key or no value" if missing > 0 else ""

    @cached_property
    def table(self) -> pa.Table | None:
        """The rows as Arrow."""
        return self.rows.arrow() if isinstance(self.rows, CatalogRows) else self.rows

    @property
    def columns(self) -> list[tuple[str, str]]:
        """Column names, which need not be distinct, and the names of their Arrow types."""
        if self.rows is None:
            return []
        if isinstance(self.rows, CatalogRows):
            return list(self.rows.columns.items())
        return [(field.name, str(field.type)) for field in self.rows.schema]

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self.columns]

    @property
    def count(self) -> int:
        """Number of rows; 0 for a statement that returns none."""
        if self.rows is None:
            return 0
        return len(self.rows.values) if isinstance(self.rows, CatalogRows) else int(self.rows.num_rows)

    def tuples(self) -> Iterator[tuple[Any, ...]]:
        """Yield rows as Python values: timestamps as aware datetimes, decimals of scale 0 (BIGINT UNSIGNED) as integers.

        Values are converted on demand, so callers that take the rows as Arrow do not pay for it.
        """
        if isinstance(self.rows, CatalogRows):
            yield from self.rows.tuples()
        elif self.rows is not None:
            for batch in self.rows.to_batches(max_chunksize=CONVERSION_BATCH_ROWS):
                yield from zip(*(to_python_values(column) for column in batch.columns), strict=True)


def to_python_values(column: pa.Array) -> list[Any]:
    import pyarrow as pa

    try:
        values = column.to_pylist()
    except (OverflowError, ValueError) as error:
        if not pa.types.is_timestamp(column.type):
            raise
        hint = "numbers are ticks since 1970; read it as Arrow, or leave it out with WHERE"
        raise DataError("a timestamp of the result is outside the years 1 to 9999", hint=hint) from error
    if pa.types.is_decimal(column.type) and column.type.scale == 0:
        return [None if value is None else int(value) for value in values]
    return [value.item() if hasattr(value, "item") and not isinstance(value, Decimal) else value for value in values]


def rows_result(names: Sequence[str], rows: Sequence[Sequence[Any]], types: Sequence[Type] | None = None) -> Result:
    """Build a small table, as for SHOW and DESCRIBE; its columns are strings unless `types` says otherwise."""
    column_types = types or [STRING] * len(names)
    return Result(CatalogRows(dict(zip(names, column_types, strict=True)), [tuple(row) for row in rows]))
