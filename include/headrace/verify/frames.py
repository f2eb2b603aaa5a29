"""What a SELECT reads (tables with their tags, sub-queries, joins) as DuckDB relations with resolvable names."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa

from headrace.errors import NotFoundError, ProgrammingError
from headrace.model.expressions import Call, ColumnRef, Expression, walk
from headrace.model.tables import TBNAME, Database, Name, Table
from headrace.model.time import Precision
from headrace.model.types import VARCHAR, DataType, TypeKind
from headrace.verify.aggregates import TS
from headrace.verify.values import Value, duck_type

ROW_TIME: Final = ("_rowts", "_c0")


@dataclass(frozen=True, slots=True)
class StoredTable:
    """What a table name refers to: a table, the subtable if the name is one's, and readers of its rows and tags."""

    table: Table
    database: Database
    subtable: str | None
    rows: Callable[[], pa.Table]
    tags: Callable[[], pa.Table]


Lookup = Callable[[Name], StoredTable]


@dataclass(frozen=True, slots=True)
class Column:
    """A column that a SELECT can refer to. `sql` is its name in the relation; `tag` means that it is constant within a subtable."""

    name: str
    qualifier: str | None
    sql: str
    type: DataType
    starred: bool = True
    tag: bool = False

    @property
    def value(self) -> Value:
        """The column as a typed value."""
        return Value(self.sql, self.type)


@dataclass(frozen=True, slots=True)
class Frame:
    """A relation with the names of its columns, in the precision and time zone of its database.

    Attributes:
        relation: The DuckDB relation.
        columns: Its columns.
        precision: The unit of its ticks.
        timezone: The time zone of its wall clock.
        time: The timestamp column.
        tbname: The subtable's name.
        key: The composite key column.
        single: True if all rows belong to one subtable.
        subtables: A relation with the same columns and one row per subtable, in which only tags and `tbname` are set.
    """

    relation: str
    columns: tuple[Column, ...]
    precision: Precision
    timezone: str
    time: Column | None = None
    tbname: Column | None = None
    key: Column | None = None
    single: bool = False
    subtables: str = ""

    def is_of_subtable(self, node: Expression) -> bool:
        """Return True if an expression is constant within a subtable."""
        return all(self.column(part).tag for part in walk(node) if isinstance(part, ColumnRef))

    def find(self, reference: ColumnRef) -> Column | None:
        """Resolve a column reference; None if there is no such column."""
        if reference.name in ROW_TIME and self.time is not None:
            return self.time
        matches = [
            column for column in self.columns if column.name == reference.name and reference.table in (None, column.qualifier)
        ]
        if len(matches) > 1:
            raise ProgrammingError(f"column {reference.name} is ambiguous", span=reference.span)
        return matches[0] if matches else None

    def column(self, reference: ColumnRef) -> Column:
        """Resolve a column reference.

        Raises:
            NotFoundError: There is no such column.
        """
        column = self.find(reference)
        if column is None:
            raise NotFoundError(f"column {reference.name} does not exist", span=reference.span)
        return column

    def starred(self, qualifier: str | None) -> list[Column]:
        """Return the columns that `*` or `qualifier.*` expands to."""
        return [column for column in self.columns if column.starred and qualifier in (None, column.qualifier)]

    @property
    def order(self) -> tuple[str, ...]:
        """The columns that order rows: the instant (`_ts`), then what distinguishes rows of one instant."""
        return (TS, *(column.sql for column in (self.tbname, self.key) if column is not None))


def table_frame(stored: StoredTable, relation: str, alias: str | None, subtables: str = "") -> Frame:
    """Return the frame of a table whose relation has columns `c0`, `c1`, …, `tbname` last."""
    table = stored.table
    declared = (*table.columns, *table.tags)
    qualifier = alias or stored.subtable or table.name
    columns = tuple(
        Column(column.name, qualifier, f"c{number}", column.type, _is_starred(stored, column.name), table.is_tag(column.name))
        for number, column in enumerate(declared)
    )
    tbname = Column(TBNAME, qualifier, f"c{len(declared)}", VARCHAR, starred=False, tag=True)
    key = next((column for column in columns if table.key is not None and column.name == table.key.name), None)
    single = stored.subtable is not None or not table.tags
    database = stored.database
    return Frame(relation, (*columns, tbname), database.precision, database.timezone, columns[0], tbname, key, single, subtables)


def _is_starred(stored: StoredTable, name: str) -> bool:
    return stored.subtable is None or not stored.table.is_tag(name)


def table_sql(stored: StoredTable, rows: str, tags: str) -> str:
    """Return the SELECT that gives a stored table the column names of `table_frame`."""
    table = stored.table
    columns = [
        f"{stored_column_sql(column.type, 'r', column.name, stored)} AS c{number}" for number, column in enumerate(table.columns)
    ]
    first = len(columns)
    columns += [
        f"{stored_column_sql(tag.type, 'g', tag.name, stored)} AS c{first + number}" for number, tag in enumerate(table.tags)
    ]
    columns.append(f'r."{TBNAME}" AS c{len(columns)}')
    joined = f' LEFT JOIN {tags} g ON r."{TBNAME}" = g."{TBNAME}"' if table.tags else ""
    subtable = "" if stored.subtable is None else f""" WHERE r."{TBNAME}" = '{stored.subtable.replace("'", "''")}'"""
    return f"SELECT {', '.join(columns)} FROM {rows} r{joined}{subtable}"


def subtables_sql(stored: StoredTable, rows: str, tags: str) -> str:
    """Return the SELECT of one row per subtable that has tags or rows; a plain table is its own subtable."""
    table = stored.table
    columns = [f"CAST(NULL AS {duck_type(column.type)}) AS c{number}" for number, column in enumerate(table.columns)]
    first = len(columns)
    columns += [
        f"{stored_column_sql(tag.type, 'g', tag.name, stored)} AS c{first + number}" for number, tag in enumerate(table.tags)
    ]
    names = f'SELECT "{TBNAME}" FROM {tags} UNION SELECT "{TBNAME}" FROM {rows}'
    if not table.tags:
        names = f"""SELECT '{table.name.replace("'", "''")}' AS "{TBNAME}" """
    condition = "" if stored.subtable is None else f""" WHERE n."{TBNAME}" = '{stored.subtable.replace("'", "''")}'"""
    joined = f' LEFT JOIN {tags} g ON n."{TBNAME}" = g."{TBNAME}"' if table.tags else ""
    return f'SELECT {", ".join(columns)}, n."{TBNAME}" AS c{len(columns)} FROM ({names}) n{joined}{condition}'


def stored_column_sql(type_: DataType, relation: str, name: str, stored: StoredTable) -> str:
    """Return a stored column as its DuckDB type; timestamps arrive as BIGINT in the unit they are stored in."""
    column = f'{relation}."{name.replace(chr(34), chr(34) * 2)}"'
    if type_.kind is TypeKind.TIMESTAMP:
        return f"({column} // 1000)" if stored.database.precision is Precision.MILLISECOND else column
    return f"CAST({column} AS {duck_type(type_)})"


def without_timestamps(rows: pa.Table) -> pa.Table:
    """Convert Arrow timestamps (microseconds in UTC) to BIGINT."""
    for position, field in enumerate(rows.schema):
        if pa.types.is_timestamp(field.type):
            micros = rows.column(position).cast(pa.timestamp("us", tz=field.type.tz)).cast(pa.int64())
            rows = rows.set_column(position, field.name, micros)
    return rows


def conjuncts(node: Expression | None) -> list[Expression]:
    """Return the conditions that AND joins."""
    if node is None:
        return []
    if isinstance(node, Call) and node.function == "and":
        return [part for argument in node.arguments for part in conjuncts(argument)]
    return [node]


def on_frame(left: Frame, right: Frame) -> Frame:
    """Return the frame that ON sees, of relations `l` and `r`; the left side's timestamp is the join's."""
    sides = [("l", column) for column in left.columns] + [("r", column) for column in right.columns]
    columns = tuple(replace(column, sql=f"{side}.{column.sql}") for side, column in sides)
    time = next((new for new, (_, old) in zip(columns, sides, strict=True) if old is left.time), None)
    return Frame("", columns, left.precision, left.timezone, time)


def join_frame(inside: Frame, relation: str) -> Frame:
    """Return the frame of a join whose relation has the columns that ON sees as `c0`, `c1`, …."""
    columns = tuple(replace(column, sql=f"c{number}") for number, column in enumerate(inside.columns))
    time = next((new for new, old in zip(columns, inside.columns, strict=True) if old is inside.time), None)
    return replace(inside, relation=relation, columns=columns, time=time)
