"""The stored tables that a job reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from headrace.context import Context
from headrace.model.positions import Offsets, SourceId, source_id
from headrace.model.tables import Table, TableId


def source_tables(context: Context, sources: Sequence[TableId]) -> Mapping[SourceId, Table]:
    """Return the stored tables that a job reads, by the ids that offsets have.

    Raises:
        NotFoundError: One of them is not in the catalog.
    """
    tables = (context.catalog.tables.get(source.database, source.name) for source in sources)
    return {source_id(table.database, table.name): table for table in tables}


def latest_offsets(context: Context, sources: Sequence[TableId]) -> Offsets:
    """Return the newest version of each source, which survives a power failure, so that it may be recorded."""
    tables = source_tables(context, sources)
    offsets = {source: context.tables.version(table) for source, table in tables.items()}
    for table in tables.values():
        context.tables.changes.sync(table)
    return offsets
