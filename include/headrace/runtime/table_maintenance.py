"""Table maintenance: compact small files, and remove files that nothing needs. Changes that a job has yet to read are kept."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Final

from headrace.context import Context
from headrace.errors import Error
from headrace.jobs.registry import is_known, kind_of
from headrace.model.jobs import DesiredState, JobRecord
from headrace.model.positions import source_id
from headrace.model.tables import TBNAME, Table, TableKind
from headrace.storage import Bounds
from headrace.streams.leftovers import remove_leftovers

logger = logging.getLogger(__name__)

# Delta's minimum retention: readers that started before a file was replaced may still read it.
MIN_RETENTION_HOURS: Final = 168


@dataclass(frozen=True, slots=True)
class MaintenanceResult:
    """What was done for one table. `kept` says which files stay for a stream or pipe that is behind."""

    table: str
    compacted: int
    removed: int
    kept: str = ""


def maintain(
    context: Context, database: str | None = None, *, retention_hours: int = MIN_RETENTION_HOURS, bounds: Bounds | None = None
) -> list[MaintenanceResult]:
    """Compact and vacuum all tables, or those of one database. A table that fails is logged and skipped.

    With all tables, what crashes have left of streams goes too.

    With `bounds`, only files that may have rows of this range are compacted.
    """
    names = [database] if database is not None else [entry.name for entry in context.catalog.databases.all()]
    results = []
    for table in (table for name in names for table in context.catalog.tables.all(name) if not table.is_virtual):
        try:
            results.append(maintain_table(context, table, retention_hours, bounds))
        except Error as error:
            logger.error("skipping maintenance of %s.%s: %s", table.database, table.name, error.message)
    if database is None:
        try:
            context.tables.remove_dropped()
            remove_leftovers(context)
        except Error as error:
            logger.error("leaving what crashes have left: %s", error.message)
    return results


def maintain_table(context: Context, table: Table, retention_hours: int, bounds: Bounds | None = None) -> MaintenanceResult:
    """Compact one table, and remove files older than the retention, except those that a job has yet to read."""
    name = f"{table.database}.{table.name}"
    adopt_subtables(context, table)
    readers = offsets_by_job(context, table)
    compacted = context.tables.maintenance.compact(table, bounds)
    if not readers:
        return MaintenanceResult(name, compacted, context.tables.maintenance.vacuum(table, retention_hours))
    job, oldest = min(readers.items(), key=lambda reader: reader[1])
    removed = context.tables.maintenance.vacuum(table, retention_hours, oldest)
    is_behind = oldest < context.tables.version(table)
    kept = f"files since version {oldest} are kept for {job}" if is_behind else ""
    return MaintenanceResult(name, compacted, removed, kept)


def offsets_by_job(context: Context, table: Table) -> dict[str, int]:
    """Return the version up to which each stream or pipe has read a table, by kind and name; for a backfill, its boundary."""
    records = [record for record in context.catalog.jobs.all() if record.desired is not DesiredState.DROPPED]
    offsets = {f"{record.definition.kind} {record.definition}": needed_offset(context, record, table) for record in records}
    return {job: offset for job, offset in offsets.items() if offset is not None}


def needed_offset(context: Context, record: JobRecord, table: Table) -> int | None:
    """Return the oldest version of a table that a job may still read; None before it has started, and if it does not read it."""
    needed = kind_of(record.definition).needed_version if is_known(record.definition.kind) else None
    if needed is not None:
        return needed()(context, record, table)
    offsets = record.progress.boundary if record.offsets is None else record.offsets
    return None if offsets is None else offsets.get(source_id(table.database, table.name))


def adopt_subtables(context: Context, table: Table) -> list[str]:
    """Register all subtables that have rows but no tags, so that statements can name them; return their names.

    Their tags are NULL until `INSERT INTO … USING … TAGS` or `ALTER TABLE … SET TAG` sets them.
    """
    if table.kind is not TableKind.SUPER:
        return []
    tagged = set(context.tables.tags.read(table)[TBNAME].to_pylist())
    names = [name for name in context.tables.tags.of_subtables(table)[TBNAME].to_pylist() if name not in tagged]
    return [name for name in names if _try_adopt(context, table, name)]


def _try_adopt(context: Context, table: Table, name: str) -> bool:
    try:
        context.catalog.subtables.add(table.database, table.name, [name])
    except Error as error:
        logger.error("skipping rows of %s in %s.%s, which have no subtable: %s", name, table.database, table.name, error.message)
        return False
    logger.warning("%s.%s has no tags: set them with ALTER TABLE %s SET TAG", table.database, name, name)
    return True
