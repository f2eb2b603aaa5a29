"""What names a SELECT sees: the columns of its source, bound to Spark SQL over the source's frame."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from headrace.compute.binding.binder import nearest
from headrace.compute.language import Language
from headrace.compute.plan import Output, Plan, Scan, UnionPlan
from headrace.compute.terms import ColumnRole, Term, quote
from headrace.compute.types import to_ticks
from headrace.errors import NotFoundError, ProgrammingError
from headrace.model.expressions import ColumnRef
from headrace.model.tables import Column
from headrace.model.time import Precision
from headrace.model.types import TIMESTAMP, VARCHAR, DataType, TypeKind


@dataclass(frozen=True, slots=True)
class SourceColumn:
    """One column that a SELECT can name: how (`name`, `qualifier`), where it is in the frame (`column`), what it is.

    `converted` tells that `sql` makes ticks of a stored timestamp, so that conditions should test the stored column itself.
    """

    name: str
    qualifier: str | None
    column: str
    sql: str
    type: DataType
    starred: bool = True
    tag: bool = False
    role: ColumnRole | None = None
    converted: bool = False

    @property
    def term(self) -> Term:
        return Term(self.sql, self.type, role=self.role)


@dataclass(slots=True)
class Environment:
    """The columns of a source, in the precision and the time zone of its database. `used` collects which of them a plan reads."""

    language: Language
    columns: tuple[SourceColumn, ...]
    precision: Precision
    timezone: str
    time: SourceColumn | None
    series: SourceColumn | None = None
    key: SourceColumn | None = None
    one_series: bool = False
    used: set[str] = field(default_factory=set)

    def column(self, reference: ColumnRef) -> SourceColumn:
        """What a reference means; an error where it means nothing, or more than one thing."""
        if reference.name in self.language.pseudo_columns.row_time and self.time is not None:
            return self.use(self.time)
        found = [column for column in self.columns if self.matches(column, reference)]
        if not found:
            names = [column.name for column in self.columns]
            shown = f"{reference.table}.{reference.name}" if reference.table else reference.name
            raise NotFoundError(f"column {shown} does not exist", hint=nearest(reference.name, names), span=reference.span)
        if len(found) > 1:
            places = " and ".join(str(column.qualifier) for column in found)
            raise ProgrammingError(f"column {reference.name} is ambiguous: it is in {places}", hint="write the table before it")
        return self.use(found[0])

    def has(self, reference: ColumnRef) -> bool:
        """Whether a source has a column of that name."""
        return any(self.matches(column, reference) for column in self.columns)

    def use(self, column: SourceColumn) -> SourceColumn:
        self.used.add(column.column)
        return column

    @staticmethod
    def matches(column: SourceColumn, reference: ColumnRef) -> bool:
        return column.name == reference.name and reference.table in (None, column.qualifier)

    def starred(self, qualifier: str | None) -> list[SourceColumn]:
        """The columns that `*` or `qualifier.*` stands for."""
        found = [column for column in self.columns if column.starred and qualifier in (None, column.qualifier)]
        if not found:
            raise NotFoundError(f"table {qualifier} is not in this query")
        return found


def of_scan(scan: Scan, language: Language) -> Environment:
    """A table's columns, tags and series key; `*` of one series leaves out the tags."""
    precision, qualifier = scan.database.precision, scan.alias or scan.subtable or scan.table.name
    tags = {tag.name for tag in scan.table.tags}
    columns = tuple(
        replace(stored_column(column, qualifier, precision), starred=scan.subtable is None, tag=True)
        if column.name in tags
        else stored_column(column, qualifier, precision)
        for column in (*scan.table.columns, *scan.table.tags)
    )
    time = replace(columns[0], role=ColumnRole.TIME)
    series = series_column(scan.table.series_key, qualifier, language)
    key = scan.table.key
    return Environment(
        language,
        (time, *columns[1:], series),
        precision,
        scan.database.timezone,
        time,
        series,
        next((column for column in columns if key is not None and column.name == key.name), None),
        one_series=scan.subtable is not None or not scan.table.has_series,
    )


def stored_column(column: Column, qualifier: str | None, precision: Precision) -> SourceColumn:
    """A column as its table stores it."""
    converted = column.type.kind is TypeKind.TIMESTAMP and precision is not Precision.NANOSECOND
    sql = to_ticks(quote(column.name), precision) if column.type.kind is TypeKind.TIMESTAMP else quote(column.name)
    return SourceColumn(column.name, qualifier, column.name, sql, column.type, converted=converted)


def series_column(column: str, qualifier: str | None, language: Language) -> SourceColumn:
    """The series key of a table, by the language's name for it."""
    name = language.series_name(column)
    return SourceColumn(name, qualifier, column, quote(column), VARCHAR, starred=False, tag=True, role=ColumnRole.SERIES)


def of_plan(plan: Plan | UnionPlan, alias: str | None, language: Language) -> Environment:
    """A sub-query's columns by their names; its first timestamp is the time line."""
    outputs = plan.outputs
    first = next((output.column for output in outputs if output.type == TIMESTAMP), None)
    columns = tuple(
        SourceColumn(output.name, alias, output.column, output.column, output.type, role=role_of(output, first))
        for output in outputs
    )
    time = next((column for column in columns if column.role is ColumnRole.TIME), None)
    series = next((column for column in columns if column.role is ColumnRole.SERIES), None)
    return Environment(language, columns, plan.precision, plan.timezone, time, series)


def role_of(output: Output, time: str | None) -> ColumnRole | None:
    """What a sub-query's column is to the query around it."""
    if output.column == time:
        return ColumnRole.TIME
    return ColumnRole.SERIES if output.role is ColumnRole.SERIES else None
