"""Keeping tables fit: few files instead of many, and none that nobody needs. What a stream has yet to read is never removed."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Final

from headrace.errors import Error
from headrace.model.streams import DesiredState, StreamRecord
from headrace.model.tables import Table
from headrace.runtime.adoption import adopt_subtables
from headrace.runtime.context import Context

logger = logging.getLogger(__name__)

HOUR_MS: Final = 3_600_000
# Readers that began before a file was replaced may still want it: Delta's own least retention.
LEAST_HOURS: Final = 168


@dataclass(frozen=True, slots=True)
class Maintained:
    """What was done for one table; `kept` says why nothing was removed."""

    table: str
    compacted: int
    removed: int
    kept: str = ""


def maintain(context: Context, database: str | None = None, *, retention_hours: int = LEAST_HOURS) -> list[Maintained]:
    """Compact and vacuum every table, or those of one database; a table that fails is logged and passed over."""
    names = [database] if database is not None else [one.name for one in context.catalog.databases.all()]
    done = []
    for table in (table for name in names for table in context.catalog.tables.all(name)):
        try:
            done.append(maintain_table(context, table, retention_hours))
        except Error as error:
            logger.error("table %s.%s was passed over: %s", table.database, table.name, error.message)
    return done


def maintain_table(context: Context, table: Table, retention_hours: int) -> Maintained:
    """Compact one table, and remove files older than the retention unless a stream has still to read them."""
    name = f"{table.database}.{table.name}"
    adopt_subtables(context, table)
    compacted = context.tables.compact(table)
    waiting = waiting_stream(context, table)
    if waiting is not None:
        return Maintained(name, compacted, 0, f"stream {waiting.definition.name} has still to read older versions")
    return Maintained(name, compacted, context.tables.vacuum(table, retention_hours))


def waiting_stream(context: Context, table: Table) -> StreamRecord | None:
    """A stream that has not read all of the table's changes: paused, stopped, filling its history, or behind."""
    newest = context.tables.version(table)
    for record in context.catalog.streams.all():
        source = (record.definition.source_database, record.definition.source_table)
        if source != (table.database, table.name) or record.desired is DesiredState.DROPPED:
            continue
        reached = record.source_version
        if reached is None or (reached < newest and context.tables.change_rows(table, reached + 1, newest)):
            return record
    return None
