"""`headrace verify`: a query's answer, or a stream's target, beside what another engine makes of the stored rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

import pyarrow as pa

from headrace.errors import ProgrammingError
from headrace.model.expressions import Cast
from headrace.model.jobs import JobRecord
from headrace.model.queries import Query, SelectItem
from headrace.model.statements import CreateStream
from headrace.model.streams import StreamOptions, TriggerMode
from headrace.model.tables import Database, Name, Table, TableKind
from headrace.runtime.context import Context
from headrace.service.planning.dispatch import current_timezone, database_of, parse_name
from headrace.service.remote import ask, living_snode
from headrace.service.spark_queries import run_query
from headrace.service.stages import VerifyQuery, VerifyStream
from headrace.service.state import SessionState
from headrace.sql import parse
from headrace.streams.definition.define import StreamPlan, find, plan_of
from headrace.streams.definition.layout import partition_item, with_start
from headrace.verify import Lookup, MaintainedTable, StoredTable, VerificationResult, verify

MAX_ATTEMPTS: Final = 3
"""How often it is compared again where rows were written in between."""


def verify_query(stage: VerifyQuery, session: SessionState) -> VerificationResult:
    """Answer a query, and compare.

    Raises:
        NotSupportedError: the query has something that verify does not know.
    """
    timezone = current_timezone(session)

    def compared(seen: dict[str, int]) -> VerificationResult:
        return verify(stage.query, lambda: answer(stage, session), stored_tables(session, seen), timezone)

    return undisturbed(session, compared)


def answer(stage: VerifyQuery, session: SessionState) -> pa.Table:
    """The query's rows, from the snode if one lives, like those of any SELECT."""
    snode = living_snode(session.context)
    result = None if snode is None else ask(snode, stage.sql, session.dialect, session.database)
    rows = (result or run_query(stage.plan, session.context)).table
    assert rows is not None
    return rows


def undisturbed(session: SessionState, compared: Callable[[dict[str, int]], VerificationResult]) -> VerificationResult:
    """A comparison during which nothing was written; of the last try also a disturbed one."""
    for _ in range(MAX_ATTEMPTS - 1):
        seen: dict[str, int] = {}
        verdict = compared(seen)
        if verdict.equal or all(version_of(session, name) == version for name, version in seen.items()):
            return verdict
    return compared({})


def version_of(session: SessionState, text: str) -> int:
    name = parse_name(text)
    return session.context.tables.version(find(session.context.catalog, database_of(name, session), name.name).table)


def stored_tables(session: SessionState, seen: dict[str, int]) -> Lookup:
    """Tables by the names in a query; notes in `seen` the versions that they had before they were read."""
    context = session.context

    def lookup(name: Name) -> StoredTable:
        found = find(context.catalog, database_of(name, session), name.name)
        seen.setdefault(str(name), context.tables.version(found.table))
        return stored(context, found.table, found.database, found.subtable)

    return lookup


def stored(context: Context, table: Table, database: Database, subtable: str | None, version: int | None = None) -> StoredTable:
    """A table as it is, or as of a version."""
    names = None if subtable is None or table.kind is TableKind.PLAIN else [subtable]

    def rows() -> pa.Table:
        return context.tables.scan(table, database, version=version, tbnames=names)

    return StoredTable(table, database, subtable, rows, lambda: tags_of(context, table))


def tags_of(context: Context, table: Table) -> pa.Table:
    if table.kind is TableKind.SUPER:
        return context.tables.read_tags(table)
    return pa.table({table.series_key: pa.array([], pa.string())})


def verify_stream(stage: VerifyStream, context: Context) -> VerificationResult:
    """Compare a stream's target with what its query makes of the rows that the stream has handled.

    Of a stream with WINDOW_CLOSE the closed windows count; of one that began without the history, those that it has.

    Raises:
        NotSupportedError: its query has something that verify does not know.
    """
    verdict = None
    for _ in range(MAX_ATTEMPTS):
        record = context.catalog.jobs.by_id(stage.definition.id)
        verdict = stream_verdict(context, record)
        if verdict.equal or context.catalog.jobs.by_id(stage.definition.id).source_version == record.source_version:
            return verdict
    assert verdict is not None
    return verdict


def stream_verdict(context: Context, record: JobRecord) -> VerificationResult:
    definition, progress = record.definition, record.progress
    statement = parse(definition.sql, definition.dialect)
    assert isinstance(statement, CreateStream)
    if record.source_version is None:
        raise ProgrammingError(f"the stream {definition.name} has handled nothing yet", hint="wait for its history, or settle")
    plan = plan_of(definition, context.catalog)
    query, tags = with_tags(with_start(statement.query), statement)
    found = target_rows(context, plan, tags)
    closes = statement.options.trigger is TriggerMode.WINDOW_CLOSE and query.window is not None
    watermark = (progress.watermark if progress.watermark is not None else -(2**62)) if closes else None
    maintained = MaintainedTable(watermark, partial=not statement.options.fill_history)
    source = stored(context, plan.source, plan.source_database, plan.source_subtable, record.source_version)
    verdict = verify(query, lambda: found, lambda _: source, maintained=maintained)
    return verdict if verdict.equal else replace(verdict, remark=remark(record, statement.options))


def remark(record: JobRecord, options: StreamOptions) -> str:
    """In what a stream may differ from its query by its options."""
    found = []
    if options.ignore_expired and record.progress.counters.rows_expired:
        found.append(f"the stream has left out {record.progress.counters.rows_expired} expired rows, which count here")
    if options.ignore_update:
        found.append("with IGNORE UPDATE 1 it counts a row again that is written again")
    return "; ".join(found)


def with_tags(query: Query, statement: CreateStream) -> tuple[Query, list[str]]:
    """The query with the items of PARTITION BY that fill the target's tags, and those tags."""
    items, names = [], []
    for tag in statement.tags or ():
        node = partition_item(statement.query, tag.name)
        if node is not None:
            items.append(SelectItem(node if tag.column is None else Cast(node, tag.column.type), f"__{tag.name}"))
            names.append(tag.name)
    return replace(query, items=(*query.items, *items)), names


def target_rows(context: Context, plan: StreamPlan, tags: list[str]) -> pa.Table:
    """The target's rows: the columns that the query fills, in its order, then some tags."""
    rows = context.tables.scan(plan.target, plan.target_database)
    if tags:
        key = plan.target.series_key
        rows = rows.join(context.tables.read_tags(plan.target).select([key, *tags]), key)
    return pa.table([rows.column(name) for name in (*plan.columns, *tags)], [f"c{n}" for n in range(len(plan.columns) + len(tags))])
