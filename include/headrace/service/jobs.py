"""Long work that no statement expresses: loading files and recomputing a range of a stream or continuous query."""

from __future__ import annotations

import uuid

import pyarrow as pa
import pyarrow.compute as pc

from headrace.catalog.processes import process_identity
from headrace.history.backfill import recompute
from headrace.model.tables import Database, Table, TableKind
from headrace.queries import executions
from headrace.runtime.context import Context
from headrace.service.work_stages import Backfill, BackfillQuery, InsertFiles, LoadFiles
from headrace.storage.loading.loader import LoadOptions
from headrace.storage.types import tags_schema


def load_files(stage: LoadFiles, context: Context) -> int:
    """Load files and return the number of rows written.

    Raises:
        DataError: A value is invalid; nothing is written.
    """
    loaded = context.tables.load(
        context.spark,
        stage.files,
        stage.table,
        stage.database,
        lambda _, read: stage.progress(read, stage.bytes),
        options=LoadOptions(format=stage.format, tbname=stage.subtable, now=context.clock.now()),
        announce=lambda tags: make_subtables(context, stage.table, stage.database, tags),
    )
    return loaded.inserted + loaded.updated


def insert_files(stage: InsertFiles, context: Context) -> int:
    """Load the files of an INSERT and return the number of rows written.

    Raises:
        DataError: A value is invalid; nothing is written.
    """
    loaded = context.tables.loader(context.spark, stage.table, stage.database).insert(
        stage.files, context.clock.now(), lambda tags: make_subtables(context, stage.table, stage.database, tags)
    )
    return loaded.inserted + loaded.updated


def make_subtables(context: Context, table: Table, database: Database, tags: pa.Table) -> None:
    """Create the missing subtables among those of a file; tags that the file has no column for are NULL."""
    if table.kind is not TableKind.SUPER:
        return
    names = tags.column(table.series_key).to_pylist()
    missing_names = pa.array(context.catalog.subtables.missing(table.database, names), pa.string())
    missing = tags.filter(pc.is_in(tags[table.series_key], missing_names))
    for field in tags_schema(table, database):
        if field.name not in missing.column_names:
            missing = missing.append_column(field, pa.nulls(missing.num_rows, field.type))
    context.catalog.subtables.add(table.database, table.name, names)
    if missing.num_rows:
        context.tables.upsert_tags(table, missing)


def backfill(stage: Backfill, context: Context) -> int:
    """Recompute windows of a stream in this process and return the number of chunks."""
    run = f"manual-{uuid.uuid4().hex[:12]}"
    chunks = recompute(context, stage.definition.id, run, stage.start, stage.end, progress=stage.progress, rows=stage.chunk_rows)
    return len(chunks)


def backfill_query(stage: BackfillQuery, context: Context) -> int:
    """Execute a continuous query again in this process and return the number of executions."""
    holder = f"backfill {process_identity()} {uuid.uuid4().hex[:12]}"
    return len(executions.recompute(context, stage.definition, stage.start, stage.end, holder, stage.progress))
