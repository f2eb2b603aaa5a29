"""Which versions of tables pipes have yet to read, so that maintenance keeps their files."""

from __future__ import annotations

from headrace.context import Context
from headrace.model.jobs import JobRecord
from headrace.model.pipes import PipeStage
from headrace.model.positions import source_id
from headrace.model.tables import Table
from headrace.pipes.attributes import PipeAttributes
from headrace.pipes.builtin import BY_NAME
from headrace.pipes.feeds import created_at, created_key
from headrace.pipes.lookup import plugin_name


def needed_version(context: Context, record: JobRecord, table: Table) -> int | None:
    """Return the oldest version of a table that a pipe may still read; None if it does not read it.

    A table that was created after the pipe, also in place of one that had its name, is read from its beginning.
    """
    offsets = record.offsets or {}
    id, created = source_id(table.database, table.name), created_at(context, table)
    if id in offsets and offsets.get(created_key(id), created) == created:
        return offsets[id]
    return 0 if reads_later_table(context, record, table) else None


def reads_later_table(context: Context, record: JobRecord, table: Table) -> bool:
    """Return whether the source of a pipe reads a table that its offsets do not know."""
    typed = record.definition.stages.source
    plugin = BY_NAME.get(plugin_name(PipeStage.SOURCE, typed).lower())
    return plugin is not None and plugin.reads is not None and bool(plugin.reads()(PipeAttributes(typed), context, table))
