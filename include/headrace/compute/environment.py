"""What names a SELECT sees: the columns of its source, bound to Spark SQL over the source's frame."""

from __future__ import annotations

from dataclasses import dataclass, field

from headrace.compute.binding import nearest
from headrace.compute.plan import Plan, Scan, UnionPlan
from headrace.compute.terms import Term, quote
from headrace.compute.types import to_ticks
from headrace.errors import NotFoundError, ProgrammingError
from headrace.model.expressions import ColumnRef
from headrace.model.tables import TBNAME
from headrace.model.time import Precision
from headrace.model.types import TIMESTAMP, VARCHAR, DataType, Kind

ROW_TIME = ("_rowts", "_c0")


@dataclass(frozen=True, slots=True)
class SourceColumn:
    """One column that a SELECT can name: how (`name`, `qualifier`), where it is in the frame (`column`), what it is."""

    name: str
    qualifier: str | None
    column: str
    sql: str
    type: DataType
    starred: bool = True
    tag: bool = False

    @property
    def term(self) -> Term:
        return Term(self.sql, self.type)


@dataclass(slots=True)
class Environment:
    """The columns of a source, in the precision and the time zone of its database. `used` collects which of them a plan reads."""

    columns: tuple[SourceColumn, ...]
    precision: Precision
    timezone: str
    time: SourceColumn | None
    tbname: SourceColumn | None = None
    key: SourceColumn | None = None
    subtable: bool = False
    used: set[str] = field(default_factory=set)

    def column(self, reference: ColumnRef) -> SourceColumn:
        """What a reference means; an error where it means nothing, or more than one thing."""
        if reference.name in ROW_TIME and self.time is not None:
            return self.use(self.time)
        found = [column for column in self.columns if self.matches(column, reference)]
        if not found:
            names = [column.name for column in self.columns]
            shown = f"{reference.table}.{reference.name}" if reference.table else reference.name
            raise NotFoundError(f"there is no column {shown}", hint=nearest(reference.name, names), span=reference.span)
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
            raise NotFoundError(f"there is no table {qualifier} in this query")
        return found


def of_scan(scan: Scan) -> Environment:
    """A table's columns, tags and `tbname`; `*` of a subtable leaves out the tags."""
    precision, qualifier = scan.database.precision, scan.alias or scan.subtable or scan.table.name
    tags = {tag.name for tag in scan.table.tags}
    columns = tuple(
        SourceColumn(
            column.name,
            qualifier,
            column.name,
            to_ticks(quote(column.name), precision) if column.type.kind is Kind.TIMESTAMP else quote(column.name),
            column.type,
            starred=column.name not in tags or scan.subtable is None,
            tag=column.name in tags,
        )
        for column in (*scan.table.columns, *scan.table.tags)
    )
    tbname = SourceColumn(TBNAME, qualifier, TBNAME, quote(TBNAME), VARCHAR, starred=False, tag=True)
    key = scan.table.key
    return Environment(
        (*columns, tbname),
        precision,
        scan.database.timezone,
        columns[0],
        tbname,
        next((column for column in columns if key is not None and column.name == key.name), None),
        subtable=scan.subtable is not None or not scan.table.tags,
    )


def of_plan(plan: Plan | UnionPlan, alias: str | None) -> Environment:
    """A sub-query's columns by their names; its first timestamp is the time line."""
    columns = tuple(SourceColumn(output.name, alias, output.column, output.column, output.type) for output in plan.outputs)
    time = next((column for column in columns if column.type == TIMESTAMP), None)
    tbname = next((column for column in columns if column.name == TBNAME), None)
    return Environment(columns, plan.precision, plan.timezone, time, tbname)
