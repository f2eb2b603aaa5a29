"""The tables that a SELECT reads, with their tags, as DuckDB relations with resolvable names."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from headrace.errors import NotFoundError, ProgrammingError
from headrace.model.expressions import ColumnRef, Expression, columns_of
from headrace.model.tables import TBNAME, Database, Name, Table
from headrace.model.time import Precision
from headrace.model.types import TIMESTAMP, VARCHAR, DataType
from headrace.verify.expressions import Compiler
from headrace.verify.steps import TS, Steps
from headrace.verify.tdengine.operators import LANGUAGE
from headrace.verify.values import Value, duck_type, quoted, quoted_name

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
        return Value(self.sql, self.type)


@dataclass(frozen=True, slots=True)
class Frame:
    """A relation with the names of its columns, in the precision and time zone of its database; `key` is the composite key column.

    It is `single` if all rows belong to one subtable. `subtables` is a relation with the same columns and one row per subtable, in
    which only tags and `tbname` are set.
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
        return all(self.column(part).tag for part in columns_of(node))

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
        """Resolve a column reference; `NotFoundError` if there is no such column."""
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


def row_compiler(frame: Frame) -> Compiler:
    def leaf(node: Expression) -> Value | None:
        return frame.column(node).value if isinstance(node, ColumnRef) else None

    return Compiler(LANGUAGE, leaf, frame.precision, frame.timezone)


def load_table(steps: Steps, stored: StoredTable) -> tuple[str, str]:
    """Load a table; return the relation of its rows and that of its subtables, both with the columns of `table_frame`."""
    rows, tags = stored.rows(), stored.tags()
    return (
        steps.load("table", _rows_sql(stored), rows_in=rows, tags_in=tags),
        steps.load("subtables", _subtables_sql(stored), rows_in=rows, tags_in=tags),
    )


def table_frame(stored: StoredTable, relation: str, alias: str | None, subtables: str = "") -> Frame:
    """Return the frame of a table whose relation has columns `c0`, `c1`, …, `tbname` last."""
    table, database = stored.table, stored.database
    qualifier = alias or stored.subtable or table.name
    columns = tuple(
        Column(column.name, qualifier, f"c{number}", column.type, stored.subtable is None or not is_tag, is_tag)
        for number, column in enumerate((*table.columns, *table.tags))
        for is_tag in (table.is_tag(column.name),)
    )
    tbname = Column(TBNAME, qualifier, f"c{len(columns)}", VARCHAR, starred=False, tag=True)
    key = next((column for column in columns if table.key is not None and column.name == table.key.name), None)
    single = stored.subtable is not None or not table.tags
    return Frame(relation, (*columns, tbname), database.precision, database.timezone, columns[0], tbname, key, single, subtables)


def _rows_sql(stored: StoredTable) -> str:
    columns = [_stored_column("r", column.name, column.type, stored) for column in stored.table.columns]
    return _with_tags(stored, columns, "rows_in")


def _subtables_sql(stored: StoredTable) -> str:
    """Return the SELECT of one row per subtable that has tags or rows; a plain table is its own subtable."""
    columns = [f"CAST(NULL AS {duck_type(column.type)})" for column in stored.table.columns]
    names = f'SELECT "{TBNAME}" FROM tags_in UNION SELECT "{TBNAME}" FROM rows_in'
    if not stored.table.tags:
        names = f'SELECT {quoted(stored.table.name)} AS "{TBNAME}"'
    return _with_tags(stored, columns, f"({names})")


def _with_tags(stored: StoredTable, columns: list[str], relation: str) -> str:
    tags = stored.table.tags
    has_own = stored.table.external is not None and relation == "rows_in"
    selected = [*columns, *(_stored_column("r" if has_own else "g", tag.name, tag.type, stored) for tag in tags), f'r."{TBNAME}"']
    joined = f' LEFT JOIN tags_in g ON r."{TBNAME}" = g."{TBNAME}"' if tags and not has_own else ""
    where = "" if stored.subtable is None else f' WHERE r."{TBNAME}" = {quoted(stored.subtable)}'
    named = ", ".join(f"{sql} AS c{number}" for number, sql in enumerate(selected))
    return f"SELECT {named} FROM {relation} r{joined}{where}"


def _stored_column(relation: str, name: str, type_: DataType, stored: StoredTable) -> str:
    """Return a stored column as its DuckDB type; timestamps arrive as BIGINT in the unit they are stored in."""
    column = f"{relation}.{quoted_name(name)}"
    if type_ == TIMESTAMP:
        return f"({column} // 1000)" if stored.database.precision is Precision.MILLISECOND else column
    return f"CAST({column} AS {duck_type(type_)})"
