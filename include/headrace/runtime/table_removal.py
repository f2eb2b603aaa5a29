"""Dropping tables and subtables: by statements, and when their TTL has passed."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from itertools import groupby

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import fs

from headrace.catalog import Catalog
from headrace.context import Context
from headrace.errors import Error, IntegrityError
from headrace.model.failpoints import failpoint
from headrace.model.jobs import JobDefinition
from headrace.model.tables import Database, Subtable, Table, TableId
from headrace.storage.delta.handles import path_segment
from headrace.storage.object_store import file_system
from headrace.storage.values.scalars import stored_units_per_tick
from headrace.streams.dropped_subtables import SUBTABLES_DROPPED, Group, dropped_message, groups_of
from headrace.streams.kind import STREAM

logger = logging.getLogger(__name__)


def drop_table(context: Context, table: Table) -> None:
    """Drop a table. The catalog row goes first: it refuses while a stream uses the table.

    If the files cannot be removed, DROP removes them when it is repeated.
    """
    with context.catalog.lock(f"ddl {table.database}.{table.name}"):  # CREATE TABLE waits until the files are gone
        context.catalog.tables.drop(table.database, table.name)
        failpoint("tables.drop.recorded")
        context.tables.drop(table)


def drop_subtables(context: Context, table: Table, database: Database, names: Sequence[str]) -> None:
    """Drop subtables with their rows and tags; repeating it completes what was interrupted."""
    context.catalog.subtables.check_unused(table.database, names)
    record_drop(context, table, database, names)
    context.tables.writer.delete(table, database, tbnames=names, drops=True)
    context.tables.tags.drop(table, names)
    emptied = context.tables.version(table)
    failpoint("tables.subtables.emptied")
    context.catalog.subtables.drop(table.database, names)
    if context.tables.version(table) != emptied:  # rows of a stream that runs, which creates the subtables again only from now on
        context.tables.writer.delete(table, database, tbnames=names, drops=True)


def record_drop(context: Context, table: Table, database: Database, names: Sequence[str]) -> None:
    """Record for each stream over a table that the rows of some subtables are dropped, which stay in its results."""
    readers = [record.definition for record in context.catalog.jobs.all() if table.id in record.definition.sources]
    ticks = stored_ticks(context, table, database, names) if readers else None
    if ticks is None:
        return
    for job in readers:
        groups = dropped_groups(context, job, table, names)
        context.catalog.events.record("job", job.id, SUBTABLES_DROPPED, dropped_message(names, ticks, groups))


def dropped_groups(context: Context, job: JobDefinition, table: Table, names: Sequence[str]) -> list[Group] | None:
    """Return the groups of a stream that may have rows of subtables; None if they are not known, as those of virtual tables."""
    from headrace.streams.definition.define import plan_recorded_stream  # INSERT needs no engine.

    if job.kind != STREAM or job.source != table.id or not table.tags:
        return None
    try:
        plan = plan_recorded_stream(job, context.catalog, context.settings)
    except Error:  # it cannot run now, but may later
        return None
    tags = context.tables.tags.read(table)
    return groups_of(plan, tags.filter(pc.is_in(tags[table.series_key], pa.array(names, pa.string()))))


def stored_ticks(context: Context, table: Table, database: Database, names: Sequence[str]) -> tuple[int, int] | None:
    """Return the first and last instant of the rows of some subtables; None if they have none."""
    unit, ends = stored_units_per_tick(database.precision), list[int]()
    for piece in context.tables.scan_pieces(table, [table.timestamp.name, table.series_key], tbnames=names):
        times = pc.min_max(piece[table.timestamp.name].cast(pa.int64()))
        ends += [times["min"].as_py(), times["max"].as_py()]
    return (min(ends) // unit, max(ends) // unit) if ends else None


def orphaned_folders(catalog: Catalog, tables_uri: str) -> list[str]:
    """Return the folders of databases and tables that the catalog does not have, as paths below the folder of all tables."""
    system, root = file_system(tables_uri)
    known = {path_segment(database.name): database.name for database in catalog.databases.all()}
    orphans = []
    for database in folders_in(system, root):
        if database not in known:
            orphans.append(database)
            continue
        tables = {path_segment(table.name) for table in catalog.tables.all(known[database])}
        orphans += [f"{database}/{table}" for table in folders_in(system, f"{root}/{database}") if table not in tables]
    return orphans


def folders_in(system: fs.FileSystem, path: str) -> list[str]:
    infos = system.get_file_info(fs.FileSelector(path, allow_not_found=True))
    return sorted(info.base_name for info in infos if not info.is_file and not info.base_name.startswith("."))


def drop_expired(context: Context, database: str | None = None) -> list[str]:
    """Drop the tables and subtables whose TTL has passed, of all databases or of one; return their names.

    Those that a stream or a virtual table uses, and those that fail, are kept, and logged.
    """
    dropped: list[str] = []
    due = [subtable for subtable in context.catalog.expirations.due() if database in (None, subtable.database)]
    for id_, subtables in groupby(due, key=lambda subtable: TableId(subtable.database, subtable.table)):
        dropped += drop_all_or_each(context, id_, list(subtables))
    return dropped


def drop_all_or_each(context: Context, id_: TableId, subtables: Sequence[Subtable]) -> list[str]:
    """Drop expired subtables of one table in one step; if one of them is used, each of the others."""
    names = [f"{subtable.database}.{subtable.name}" for subtable in subtables]
    try:
        table = context.catalog.tables.get(id_.database, id_.name)
        if table.has_series:
            drop_subtables(context, table, context.catalog.databases.get(id_.database), [one.name for one in subtables])
        else:
            drop_table(context, table)
    except Error as error:
        if isinstance(error, IntegrityError) and len(subtables) > 1:
            return [name for subtable in subtables for name in drop_all_or_each(context, id_, [subtable])]
        others = f" and {len(names) - 1} more" if len(names) > 1 else ""
        logger.warning("keeping %s%s, whose TTL has passed: %s", names[0], others, error.message)
        return []
    return names
