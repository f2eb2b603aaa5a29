"""Table maintenance: compact small files, and remove files that nothing needs. Changes that a job has yet to read are kept."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Final

from headrace.context import Context
from headrace.errors import Error, ExistsError
from headrace.jobs.registry import is_known, kind_of
from headrace.model.jobs import DesiredState, JobRecord
from headrace.model.positions import source_id
from headrace.model.tables import TBNAME, Table, TableKind
from headrace.storage import Bounds
from headrace.streams.leftovers import remove_leftovers

logger = logging.getLogger(__name__)

# A reader that has used this share of the time for which history is kept for it is warned.
WARNING_SHARE: Final = 0.5
HOUR_MS: Final = 3_600_000
DAY_MS: Final = 24 * HOUR_MS
HISTORY_HELD: Final = "HISTORY_HELD"
HISTORY_GONE: Final = "HISTORY_GONE"


@dataclass(frozen=True, slots=True)
class MaintenanceResult:
    """What was done for one table. `kept` says which files stay for a stream or pipe that is behind."""

    table: str
    compacted: int
    removed: int
    kept: str = ""


def maintain(
    context: Context, database: str | None = None, *, retention_hours: float | None = None, bounds: Bounds | None = None
) -> list[MaintenanceResult]:
    """Compact and vacuum all tables, or those of one database. A table that fails is logged and skipped.

    History of `retention_hours` is kept, by default as the setting says. With all tables, what crashes have left of streams goes,
    and what the catalog has of runs and tokens that have ended long ago, and the metastore, if there is one, gets the tables.

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
            forget_ended(context)
            context.catalog.remove_unused_locks()
        except Error as error:
            logger.error("leaving what crashes have left: %s", error.message)
        if context.settings.metastore:
            register(context)
    return results


def register(context: Context) -> None:
    from headrace.runtime.spark_catalog import register_tables  # INSERT needs no engine.

    try:
        register_tables(context)
    except Error as error:
        logger.error("%s", error.message)


def forget_ended(context: Context) -> None:
    """Forget runs of backfills, and tokens, that have ended as long ago as Airflow's runs that are deleted."""
    before = context.clock.now() - context.settings.keep_runs_days * DAY_MS
    context.catalog.ledger.forget(before)
    context.catalog.tokens.forget(before)


def maintain_table(
    context: Context, table: Table, retention_hours: float | None = None, bounds: Bounds | None = None
) -> MaintenanceResult:
    """Compact one table, and remove history older than the retention, except what a job has yet to read."""
    name, maintenance = f"{table.database}.{table.name}", context.tables.maintenance
    keep_hours = context.settings.maintenance_keep_hours
    adopt_subtables(context, table)
    if table.external is not None and not table.external.format.is_mirrored:
        return MaintenanceResult(name, 0, 0)
    readers, compacted = waiting_readers(context, table), 0
    if table.external is None:
        compacted = maintenance.compact(table, bounds)
        maintenance.announce_history(table, keep_hours)
    job, oldest = min(readers.items(), key=lambda reader: reader[1], default=("", None))
    removed = maintenance.vacuum(table, keep_hours if retention_hours is None else retention_hours, oldest)
    is_behind = oldest is not None and oldest < context.tables.version(table)
    kept = f"files since version {oldest} are kept for {job}" if is_behind else ""
    return MaintenanceResult(name, compacted, removed, kept)


def waiting_readers(context: Context, table: Table) -> dict[str, int]:
    """Return the offsets of the jobs for which history is kept, by kind and name.

    A job that has been behind for longer than the setting allows is not among them. An event says so, and another one before.
    """
    ages = context.tables.maintenance.commit_ages(table)
    max_ms = max(context.settings.maintenance_max_keep_hours, context.settings.maintenance_keep_hours) * HOUR_MS
    kept = {}
    for record, offset in offsets_of_jobs(context, table):
        # A version whose log entry is gone has been given up before.
        waiting_ms = ages.get(offset + 1, 0 if offset >= max(ages) else max_ms + 1)
        if waiting_ms <= max_ms:
            kept[f"{record.definition.kind} {record.definition}"] = offset
        if waiting_ms > max_ms * WARNING_SHARE:
            tell(context, record, f"{table.database}.{table.name}", waiting_ms, max_ms)
    return kept


def tell(context: Context, record: JobRecord, table: str, waiting_ms: int, max_ms: int) -> None:
    """Record how long history of a table will be kept for a job, or that it is not kept any longer."""
    waiting, limit = waiting_ms // HOUR_MS, max_ms // HOUR_MS
    if waiting_ms <= max_ms:
        text = f"changes of {table} wait since {waiting} h; they are kept for {limit} h (HEADRACE_MAINTENANCE_MAX_KEEP_HOURS)"
        context.catalog.events.record("job", record.definition.id, HISTORY_HELD, text)
        return
    text = f"changes of {table} have waited for more than {limit} h, and are not kept any longer"
    context.catalog.events.record("job", record.definition.id, HISTORY_GONE, text)


def offsets_of_jobs(context: Context, table: Table) -> list[tuple[JobRecord, int]]:
    """Return the version up to which each stream or pipe has read a table; for a backfill, its boundary."""
    records = [record for record in context.catalog.jobs.all() if record.desired is not DesiredState.DROPPED]
    offsets = [(record, needed_offset(context, record, table)) for record in records]
    return [(record, offset) for record, offset in offsets if offset is not None]


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
    if table.external is not None:
        return adopt_series(context, table)
    tagged = set(context.tables.tags.read(table)[TBNAME].to_pylist())
    names = [name for name in context.tables.tags.of_subtables(table)[TBNAME].to_pylist() if name not in tagged]
    return [name for name in names if _try_adopt(context, table, name)]


def adopt_series(context: Context, table: Table) -> list[str]:
    """Register the series of an external table that are not subtables yet, as far as their names are free; return these."""
    names = context.catalog.subtables.missing(table.database, context.tables.tags.read(table)[TBNAME].to_pylist())
    try:
        context.catalog.subtables.add(table.database, table.name, names)
        return names
    except ExistsError:  # one of them is the name of a table
        return [name for name in names if _try_adopt(context, table, name)]


def _try_adopt(context: Context, table: Table, name: str) -> bool:
    try:
        context.catalog.subtables.add(table.database, table.name, [name])
    except Error as error:
        logger.error("skipping rows of %s in %s.%s, which have no subtable: %s", name, table.database, table.name, error.message)
        return False
    logger.warning("%s.%s has no tags: set them with ALTER TABLE %s SET TAG", table.database, name, name)
    return True
