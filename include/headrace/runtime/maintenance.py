"""Keeping tables fit: few files instead of many, and none that nobody needs. What a stream has yet to read is never removed."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Final

from headrace.errors import Error
from headrace.model.jobs import DesiredState, JobRecord
from headrace.model.tables import Table
from headrace.runtime.adoption import adopt_subtables
from headrace.runtime.context import Context

logger = logging.getLogger(__name__)

# Readers that began before a file was replaced may still want it: Delta's own least retention.
MIN_RETENTION_HOURS: Final = 168


@dataclass(frozen=True, slots=True)
class MaintenanceResult:
    """What was done for one table; `kept` says what stays for a stream that is behind."""

    table: str
    compacted: int
    removed: int
    kept: str = ""


def maintain(
    context: Context, database: str | None = None, *, retention_hours: int = MIN_RETENTION_HOURS
) -> list[MaintenanceResult]:
    """Compact and vacuum every table, or those of one database; a table that fails is logged and passed over."""
    names = [database] if database is not None else [one.name for one in context.catalog.databases.all()]
    done = []
    for table in (table for name in names for table in context.catalog.tables.all(name)):
        try:
            done.append(maintain_table(context, table, retention_hours))
        except Error as error:
            logger.error("table %s.%s was passed over: %s", table.database, table.name, error.message)
    return done


def maintain_table(context: Context, table: Table, retention_hours: int) -> MaintenanceResult:
    """Compact one table, and remove files older than the retention, except those that a stream has still to read."""
    name = f"{table.database}.{table.name}"
    adopt_subtables(context, table)
    readers = offsets(context, table)
    compacted = context.tables.compact(table)
    if not readers:
        return MaintenanceResult(name, compacted, context.tables.vacuum(table, retention_hours))
    stream, oldest = min(readers.items(), key=lambda reader: reader[1])
    removed = context.tables.vacuum(table, retention_hours, oldest)
    is_behind = oldest < context.tables.version(table)
    kept = f"files since version {oldest} are kept for stream {stream}" if is_behind else ""
    return MaintenanceResult(name, compacted, removed, kept)


def offsets(context: Context, table: Table) -> dict[str, int]:
    """The version of a table up to which each of its streams has read, by name; of a history that is filled, its boundary."""
    reading = {}
    for record in context.catalog.jobs.all():
        source = (record.definition.source.database, record.definition.source.name)
        if source == (table.database, table.name) and record.desired is not DesiredState.DROPPED:
            offset = needed_offset(record)
            if offset is not None:
                reading[f"{record.definition.database}.{record.definition.name}"] = offset
    return reading


def needed_offset(record: JobRecord) -> int | None:
    """The oldest version that a stream may still read; None before it has begun."""
    return record.boundary_version if record.source_version is None else record.source_version
