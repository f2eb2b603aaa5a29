"""The columns that a SELECT can refer to, over the data frame of its source."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final

from headrace.compute import nodes
from headrace.compute.language import Language
from headrace.compute.nodes import Node
from headrace.compute.plan import Plan, UnionPlan
from headrace.compute.plan_clauses import Output
from headrace.compute.plan_sources import Scan
from headrace.compute.terms import ColumnRole, Term
from headrace.compute.types import to_ticks
from headrace.errors import NotFoundError, ProgrammingError
from headrace.model.expressions import ColumnRef
from headrace.model.spelling import did_you_mean
from headrace.model.tables import Column
from headrace.model.time import Precision
from headrace.model.types import TIMESTAMP, VARCHAR, DataType, TypeKind

MAX_NAMES_IN_HINT: Final = 10


@dataclass(frozen=True, slots=True)
class SourceColumn:
    """A column of a data frame that a SELECT can refer to by `name` or `qualifier.name`; `node` is its value in the internal type.

    Attributes:
        starred: Whether `*` includes the column.
        tag: Whether it is a tag or the series key.
        is_converted: Whether `node` converts a stored timestamp to ticks. Conditions should test the stored column instead, so that
            files can be pruned.
    """

    name: str
    qualifier: str | None
    column: str
    node: Node
    type: DataType
    starred: bool = True
    tag: bool = False
    role: ColumnRole | None = None
    is_converted: bool = False

    @property
    def term(self) -> Term:
        return Term(self.node, self.type, role=self.role)


@dataclass(slots=True)
class Environment:
    """The columns of a source, with the precision and time zone of its database; `used` collects those that the plan reads."""

    language: Language
    columns: tuple[SourceColumn, ...]
    precision: Precision
    timezone: str
    time: SourceColumn | None
    series: SourceColumn | None = None
    key: SourceColumn | None = None
    one_series: bool = False
    used: set[str] = field(default_factory=set)
    by_name: dict[str, list[SourceColumn]] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Index the columns, of which there may be thousands."""
        self.by_name = {}
        for column in self.columns:
            self.by_name.setdefault(column.name, []).append(column)

    def column(self, reference: ColumnRef) -> SourceColumn:
        """Return the column that a reference means, and mark it as used. Raise an error unless exactly one column matches."""
        if reference.name in self.language.pseudo_columns.row_time and self.time is not None:
            return self.use(self.time)
        matching = self.matching(reference)
        if not matching:
            shown = [*list(self.by_name)[:MAX_NAMES_IN_HINT], *(["…"] if len(self.by_name) > MAX_NAMES_IN_HINT else [])]
            hint = did_you_mean(reference.name, self.by_name, f"the columns are {', '.join(shown)}" if shown else "")
            full_name = f"{reference.table}.{reference.name}" if reference.table else reference.name
            raise NotFoundError(f"column {full_name} does not exist", hint=hint, span=reference.span)
        if len(matching) > 1:
            tables = " and ".join(str(column.qualifier) for column in matching)
            raise ProgrammingError(
                f"column {reference.name} is ambiguous: it exists in {tables}", hint="qualify it with the name of a table"
            )
        return self.use(matching[0])

    def has(self, reference: ColumnRef) -> bool:
        """Return whether a column matches a reference."""
        return bool(self.matching(reference))

    def use(self, column: SourceColumn) -> SourceColumn:
        """Mark a column as used."""
        self.used.add(column.column)
        return column

    def matching(self, reference: ColumnRef) -> list[SourceColumn]:
        """Return the columns that have the name and table of a reference."""
        return [column for column in self.by_name.get(reference.name, ()) if reference.table in (None, column.qualifier)]

    def starred(self, qualifier: str | None) -> list[SourceColumn]:
        """Return the columns that `*` or `qualifier.*` selects."""
        matching = [column for column in self.columns if column.starred and qualifier in (None, column.qualifier)]
        if not matching:
            raise NotFoundError(f"table {qualifier} is not in this query")
        return matching


def scan_environment(scan: Scan, language: Language) -> Environment:
    """Return columns, tags and series key of a table. `*` of a single series omits the tags.

    Those of an external table are columns in all other respects: rows of one series may differ in them.
    """
    precision, qualifier = scan.database.precision, scan.alias or scan.subtable or scan.table.name
    columns = tuple(
        replace(stored_column(column, qualifier, precision), starred=scan.subtable is None, tag=scan.table.is_joined(column.name))
        if scan.table.is_tag(column.name)
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
    is_converted = column.type.kind is TypeKind.TIMESTAMP and precision is not Precision.NANOSECOND
    node = nodes.Column(column.name)
    value = to_ticks(node, precision) if column.type.kind is TypeKind.TIMESTAMP else node
    return SourceColumn(column.name, qualifier, column.name, value, column.type, is_converted=is_converted)


def series_column(column: str, qualifier: str | None, language: Language) -> SourceColumn:
    """Return the series key of a table, under the language's name for it."""
    name = language.series_name(column)
    return SourceColumn(name, qualifier, column, nodes.Column(column), VARCHAR, starred=False, tag=True, role=ColumnRole.SERIES)


def plan_environment(plan: Plan | UnionPlan, alias: str | None, language: Language) -> Environment:
    """Return the columns of a sub-query. Its first timestamp is the time column."""
    outputs = plan.outputs
    first = next((output.column for output in outputs if output.type == TIMESTAMP), None)
    columns = tuple(
        SourceColumn(output.name, alias, output.column, nodes.Column(output.column), output.type, role=output_role(output, first))
        for output in outputs
    )
    time = next((column for column in columns if column.role is ColumnRole.TIME), None)
    series = next((column for column in columns if column.role is ColumnRole.SERIES), None)
    return Environment(language, columns, plan.precision, plan.timezone, time, series)


def output_role(output: Output, time: str | None) -> ColumnRole | None:
    if output.column == time:
        return ColumnRole.TIME
    return ColumnRole.SERIES if output.role is ColumnRole.SERIES else None
