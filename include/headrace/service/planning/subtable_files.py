"""Plan CREATE TABLE USING … FILE."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from headrace.errors import Error, ExistsError, NotFoundError, ProgrammingError
from headrace.model.spans import Span
from headrace.model.statements import CreateSubtablesFromFile
from headrace.model.tables import Name, Table
from headrace.service.names import database_of
from headrace.service.planning.inserts import check_local_file
from headrace.service.planning.rows import find_supertable
from headrace.service.stage import Stage
from headrace.service.stages import MakeSubtables
from headrace.service.state import PlanningContext
from headrace.storage.loading.subtable_file import SubtableFile, read_subtables


def create_subtables(statement: CreateSubtablesFromFile, session: PlanningContext) -> list[Stage]:
    """Read and check the whole file before the first subtable is created."""
    using = Name(database_of(statement.using, session), statement.using.name, statement.using.span)
    table, database = find_supertable(using, session)
    check_columns(table, statement.columns, statement.column_span)
    check_local_file(statement.path, statement.span, "CREATE TABLE … FILE", session)
    try:
        file = read_subtables(Path(statement.path), statement.columns, table, database, session.context.clock.now())
    except Error as error:
        error.span = error.span or statement.span
        raise
    tags = missing_subtables(file, table, statement, session)
    return [MakeSubtables(table, database, tags)] if tags.num_rows else []


def check_columns(table: Table, columns: tuple[str, ...], span: Span | None) -> None:
    """Check that the columns are `tbname` and tags, each once."""
    own = [table.series_key, *(tag.name for tag in table.tags)]
    for index, name in enumerate(columns):
        if name not in own:
            raise NotFoundError(f"{table.name} has no tag {name}", hint=f"its tags are {', '.join(own[1:])}", span=span)
        if name in columns[:index]:
            raise ProgrammingError(f"the column {name} is named twice", hint="name each column once", span=span)
    if table.series_key not in columns:
        raise ProgrammingError(
            "a file of subtables needs a column tbname", hint=f"name {table.series_key} among the columns", span=span
        )


def missing_subtables(file: SubtableFile, table: Table, statement: CreateSubtablesFromFile, session: PlanningContext) -> pa.Table:
    """Return the subtables of a file that do not exist, or have no tags since their creator died.

    Raises:
        ExistsError: There are others, without IF NOT EXISTS.
    """
    names: list[str] = file.tags[table.series_key].to_pylist()
    existing = session.context.catalog.subtables.find(table.database, names)
    if not existing:
        return file.tags
    if not statement.if_not_exists:
        row = next(row for row, name in enumerate(names) if name in existing)
        raise ExistsError(
            f"{file.position(row)}: table {table.database}.{names[row]} already exists",
            hint="use IF NOT EXISTS, or another name",
            span=statement.span,
        )
    own = [name for name, subtable in existing.items() if subtable.table == table.name]
    left_out = existing.keys() - session.context.tables.without_tags(table, own)
    return file.tags.filter(pa.array([name not in left_out for name in names]))
