"""Long work that is not a statement: loading files, computing a range of a stream again."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa

from headrace.errors import NotFoundError, ProgrammingError
from headrace.model.instants import instant
from headrace.model.spans import Span
from headrace.model.tables import Database, Name, Table, TableKind
from headrace.runtime.context import Context
from headrace.runtime.history import recompute
from headrace.service.planning.dispatch import Surroundings, database_of
from headrace.storage.loading import Loaded, LoadOptions
from headrace.storage.types import tags_schema

Progress = Callable[[int, int], None]


def name_of(text: str) -> Name:
    """`database.name`, or a name alone."""
    database, dot, name = text.rpartition(".")
    return Name(database if dot else None, name.strip("`"), Span(0, len(text)))


def load_files(around: Surroundings, files: Sequence[Path], into: str, subtable: str | None, progress: Progress) -> Loaded:
    """Load files into `into`: a plain table, a subtable, or a supertable whose subtables a column `tbname` names.

    Raises:
        DataError: a row does not fit; nothing is written.
    """
    context, name = around.context, name_of(into)
    database = context.catalog.databases.get(database_of(name, around))
    found = context.catalog.subtables.find(database.name, [name.name]).get(name.name)
    table = context.catalog.tables.get(database.name, found.table if found else name.name)
    options = LoadOptions(tbname=subtable_of(table, found.name if found else None, subtable, around))
    total = sum(path.stat().st_size for path in files)
    return context.tables.load(
        context.spark,
        files,
        table,
        database,
        lambda _, read: progress(read, total),
        options=options,
        announce=lambda tags: make_subtables(context, table, database, tags),
    )


def make_subtables(context: Context, table: Table, database: Database, tags: pa.Table) -> None:
    """Create those of a file's subtables that are missing; tags for which the file has no column are NULL."""
    if table.kind is not TableKind.SUPER:
        return
    names = tags.column(table.series_key).to_pylist()
    known = context.catalog.subtables.find(table.database, names)
    missing = tags.filter(pa.array([name not in known for name in names]))
    for field in tags_schema(table, database):
        if field.name not in missing.column_names:
            missing = missing.append_column(field, pa.nulls(missing.num_rows, field.type))
    context.catalog.subtables.add(table.database, table.name, names)
    if missing.num_rows:
        context.tables.upsert_tags(table, missing)


def subtable_of(table: Table, named: str | None, given: str | None, around: Surroundings) -> str | None:
    """The one subtable that all rows are of, where there is one."""
    if table.kind is TableKind.PLAIN:
        return table.name
    if named is not None and given is not None and named != given:
        raise ProgrammingError(f"{named} is a subtable already, not a supertable", hint="leave out --subtable")
    chosen = named or given
    if chosen is not None and around.context.catalog.subtables.get(table.database, chosen).table != table.name:
        raise NotFoundError(f"{chosen} is no subtable of {table.name}", hint=f"SHOW TABLES FROM {table.database}")
    return chosen


def backfill(around: Surroundings, stream: str, start: str | None, end: str | None, rows: int | None, progress: Progress) -> int:
    """Compute the closed windows that start in `[start, end)` again, in this process; the number of chunks. None is open."""
    context, name = around.context, name_of(stream)
    definition = context.catalog.streams.get(database_of(name, around), name.name).definition
    database = context.catalog.databases.get(definition.source_database)
    first, last = (None if text is None else tick_of(text, database) for text in (start, end))
    if first is not None and last is not None and first >= last:
        raise ProgrammingError(
            f"the range from {start} to {end} is empty", hint="the end is exclusive and must lie after the start"
        )
    run = f"manual-{uuid.uuid4().hex[:12]}"
    return len(recompute(context, definition.id, run, first, last, progress=progress, rows=rows))


def tick_of(text: str, database: Database) -> int:
    """An instant as ticks: text in the database's time zone, or an epoch number."""
    tick = int(text) if text.isdigit() else instant(text, database.timezone, database.precision)
    if tick is None:
        raise ProgrammingError(f"{text!r} is no timestamp", hint="write it as '2024-05-01 12:00:00', or as an epoch number")
    return tick
