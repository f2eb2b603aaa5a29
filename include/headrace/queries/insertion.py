"""INSERT … SELECT: the rows of a query, converted as those of a stream for an existing target, in one commit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from headrace.compute import Plan
from headrace.context import Context
from headrace.errors import DataError, Error, NotFoundError
from headrace.model.spans import Span
from headrace.model.tables import Column, Database, Table
from headrace.model.time import Precision
from headrace.model.types import TypeKind
from headrace.queries.evaluation import evaluate_bounded, stored_result, translated
from headrace.storage.loading.conversion import SERIES_TYPE
from headrace.storage.types import rows_schema
from headrace.storage.values.columns import InvalidValue, InvalidValues, to_stored_column
from headrace.storage.values.scalars import TimeContext

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

NANOSECONDS: Final = pa.timestamp("ns", "UTC")


@dataclass(frozen=True, slots=True)
class InsertTarget:
    """What a query's columns are written to: columns or the series key of a table, and of one subtable if none is the key."""

    table: Table
    database: Database
    columns: tuple[str, ...]
    subtable: str | None
    spans: tuple[Span | None, ...]

    def column(self, name: str) -> Column:
        """Return the column of a name; the series key is one of text."""
        return self.table.column(name) or Column(self.table.series_key, SERIES_TYPE)

    @contextmanager
    def spanned(self, span: Span | None = None) -> Iterator[None]:
        """Give an error that says what a column is the position of the expression for it, or `span`."""
        try:
            yield
        except Error as error:
            named = zip(self.columns, self.spans, strict=True)
            found = (own for name, own in named if f"{name}, which is " in error.message or f"column {name} is " in error.message)
            error.span = error.span or next(found, None) or span
            raise


@dataclass(frozen=True, slots=True)
class RowConverter:
    """Converts columns of a query, which have the types of a table, to its rows: times to its precision, and keys that are valid.

    `is_nanoseconds` says which columns hold timestamps as integers.
    """

    target: InsertTarget
    now: int
    is_nanoseconds: tuple[bool, ...]

    def convert(self, result: pa.Table) -> tuple[pa.Table, tuple[int, InvalidValue] | None]:
        """Return the rows, and the first invalid value with the number of its column."""
        target, table = self.target, self.target.table
        context = TimeContext(self.now, target.database.timezone, target.database.precision)
        schema = rows_schema(table, target.database)
        stored: dict[str, pa.Array | pa.ChunkedArray] = {}
        for number, name in enumerate(target.columns):
            values, column = result.column(number), target.column(name)
            is_time, is_key = column is table.timestamp, name in table.primary_key
            if not is_key and column.type.kind is not TypeKind.TIMESTAMP:
                stored[name] = values.cast(schema.field(name).type)
                continue
            values, invalid_values = values.cast(NANOSECONDS) if self.is_nanoseconds[number] else values, InvalidValues()
            stored[name] = to_stored_column(values, column, context, invalid_values, is_key=is_key, is_time=is_time)
            if invalid_values.count:
                return result.slice(0, 0), (number, invalid_values.first()[0])
        if target.subtable is not None:
            stored[table.series_key] = pa.repeat(pa.scalar(target.subtable, pa.string()), result.num_rows)
        columns = [stored[field.name] if field.name in stored else pa.nulls(result.num_rows, field.type) for field in schema]
        return pa.Table.from_arrays(columns, schema=schema), None


def insert_query(plan: Plan, target: InsertTarget, context: Context) -> int:
    """Write the rows of a query, whose outputs are converted for the target, in one commit, and return how many.

    Raises:
        DataError: A value is invalid; nothing is written.
        NotFoundError: A subtable does not exist.
    """
    is_nanoseconds = [plan.precision is Precision.NANOSECOND and output.type.kind is TypeKind.TIMESTAMP for output in plan.outputs]
    converter = RowConverter(target, context.clock.now(), tuple(is_nanoseconds))
    with target.spanned():
        result = evaluate_bounded(plan, context, context.settings.driver_rows)
    if result is None:
        return insert_large(plan, converter, context)
    rows, invalid = converter.convert(result)
    if invalid is not None:
        raise invalid_value(target, *invalid)
    check_subtables(target, pc.unique(rows[target.table.series_key]).to_pylist(), context)
    if not rows.num_rows:
        return 0
    written = context.tables.writer.write(target.table, target.database, rows, update_columns=value_columns(target))
    return written.inserted + written.updated


def value_columns(target: InsertTarget) -> tuple[str, ...]:
    return tuple(name for name in target.columns if name != target.table.series_key)


def insert_large(plan: Plan, converter: RowConverter, context: Context) -> int:
    """Write a result that is too large for the driver: executors validate, convert and stage the rows."""
    target = converter.target
    with target.spanned(), stored_result(plan, context) as frame, translated():
        first = first_invalid(frame, converter)
        if first is not None:
            raise invalid_value(target, *first)
        if target.subtable is None:
            column = f"c{target.columns.index(target.table.series_key)}"
            names = [row[0] for row in frame.select(column).distinct().collect()]
            check_subtables(target, names, context)
        rows = stored_rows(frame, converter)
        loader = context.tables.loader(context.spark, target.table, target.database)
        written = loader.insert_frame(rows, frozenset(value_columns(target)))
    return written.inserted + written.updated


def first_invalid(frame: DataFrame, converter: RowConverter) -> tuple[int, InvalidValue] | None:
    """Return an invalid value of a frame, with the number of its column; None if all are valid."""

    def check(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            _, invalid = converter.convert(pa.Table.from_batches([batch]))
            if invalid is not None:
                number, value = invalid
                fields = {"number": [number], "column": [value.column], "value": [value.value], "allowed": [value.allowed]}
                yield pa.RecordBatch.from_pydict(fields)
                return

    rows = frame.mapInArrow(check, "number bigint, column string, value string, allowed string").limit(1).collect()
    return (rows[0][0], InvalidValue(0, *rows[0][1:])) if rows else None


def stored_rows(frame: DataFrame, converter: RowConverter) -> DataFrame:
    """Return the rows of a frame in stored types."""
    from pyspark.sql.pandas.types import from_arrow_schema

    def convert(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield from converter.convert(pa.Table.from_batches([batch]))[0].to_batches()

    return frame.mapInArrow(convert, from_arrow_schema(rows_schema(converter.target.table, converter.target.database)))


def check_subtables(target: InsertTarget, names: Sequence[str], context: Context) -> None:
    """Raise `NotFoundError` if a column names a subtable that does not exist."""
    if target.subtable is not None or not names:
        return
    table = target.table
    existing = context.catalog.subtables.find(table.database, names)
    missing = sorted(name for name in names if name not in existing or existing[name].table != table.name)
    if missing:
        raise NotFoundError(
            f"{table.name} has no subtable {missing[0]}",
            hint=f"CREATE TABLE {missing[0]} USING {table.name} TAGS (…) first",
            span=target.spans[target.columns.index(table.series_key)],
        )


def invalid_value(target: InsertTarget, number: int, value: InvalidValue) -> DataError:
    """Return the error for an invalid value of a query's column."""
    return DataError(
        f"{target.subtable or target.table.name}: {value.value} is not valid for {value.column}",
        hint=f"give it {value.allowed}; nothing was inserted",
        span=target.spans[number],
    )
