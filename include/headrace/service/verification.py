"""`headrace verify`: compare a query's result, or a stream's target, with what DuckDB computes from the stored rows."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from headrace.code.languages import registered_language
from headrace.compute import AnyPlan, Relation, Scan, language
from headrace.compute.assignment import is_converted
from headrace.context import Context
from headrace.errors import NotSupportedError, OperationalError, ProgrammingError
from headrace.model.expressions import Cast, Star
from headrace.model.functions import called_functions
from headrace.model.job_parts import part_ids, parts_of
from headrace.model.jobs import JobDefinition, JobRecord
from headrace.model.positions import Offsets, Position, source_id
from headrace.model.quarantine import RowKey
from headrace.model.queries import Query, SelectItem
from headrace.model.statements import CreateStream
from headrace.model.streams import StreamOptions, TriggerMode
from headrace.model.tables import Database, Name, Table, TableId, TableKind
from headrace.model.time import Precision
from headrace.queries.evaluation import evaluate_query
from headrace.service.names import current_timezone, database_of
from headrace.service.remote import query_living_snode
from headrace.service.stage import SessionState
from headrace.sql import parse
from headrace.storage.set_aside import SetAside
from headrace.streams.definition.define import StreamPlan, find_relation, plan_recorded_stream
from headrace.streams.definition.layout import find_partition_item, prepend_window_start
from headrace.streams.dropped_subtables import DroppedRange, dropped_ranges
from headrace.streams.filling.marks import MARK, window_mark
from headrace.verify import DroppedRows, Lookup, MaintainedTable, StoredTable, VerificationResult, verify
from headrace.verify.tdengine.virtual import virtual_rows

MAX_ATTEMPTS: Final = 3
"""A comparison is repeated if rows were written during it."""
MAX_PARTS_WAIT_S: Final = 10.0
"""How long to wait until all parts of a stream are at one version."""
PARTS_POLL_S: Final = 0.02


@dataclass(slots=True)
class Versions:
    """The versions of the tables that a comparison reads, as of before it reads them."""

    context: Context
    read: dict[TableId, int] = field(default_factory=dict)

    def record(self, table: Table) -> None:
        """Record that a table is about to be read."""
        self.read.setdefault(table.id, self.context.tables.version(table))

    def have_changed(self) -> bool:
        """Return whether one of the tables has been written to since."""
        tables = self.context.catalog.tables
        return any(
            self.context.tables.version(tables.get(table.database, table.name)) != version for table, version in self.read.items()
        )


def compare_undisturbed(compare: Callable[[], tuple[VerificationResult, Callable[[], bool]]]) -> VerificationResult:
    """Repeat a comparison until it matches or nothing was written during it; the last attempt counts in any case.

    `compare` also returns a function that returns whether what was read has changed since.
    """
    for _ in range(MAX_ATTEMPTS - 1):
        verification, has_changed = compare()
        if verification.equal or not has_changed():
            return verification
    return compare()[0]


def query_rows(sql: str, session: SessionState, evaluate: Callable[[], pa.Table]) -> pa.Table:
    """Return a query's rows, from a live snode if there is one, like any SELECT."""
    result = query_living_snode(session.context, sql, session.dialect, session.database)
    return evaluate() if result is None or result.table is None else result.table


def verify_query(plan: AnyPlan, sql: str, session: SessionState) -> VerificationResult:
    """Run a query with Spark and with DuckDB, and compare.

    Raises:
        NotSupportedError: The query uses something that verify does not support.
    """

    def rows() -> pa.Table:
        return query_rows(sql, session, lambda: evaluate_query(plan, session.context))

    functions = user_functions(session.context, session.dialect)
    part = checkable(plan.query, functions, len(plan.outputs)) if isinstance(plan.query, Query) else None

    def compare() -> tuple[VerificationResult, Callable[[], bool]]:
        versions = Versions(session.context)
        tables, timezone = stored_tables(session, plan, versions), current_timezone(session)
        if part is None:
            return verify(plan.query, rows, tables, timezone), versions.have_changed
        result = verify(part.query, lambda: part.rows(rows()), tables, timezone)
        return replace(result, remark=part.remark), versions.have_changed

    return compare_undisturbed(compare)


def user_functions(context: Context, dialect: str) -> list[str]:
    """Return the names of users' functions and of those of the library, as queries call them."""
    functions = registered_language(dialect, context.catalog, context.settings).functions
    return sorted(functions.keys() - language(dialect).functions.keys())


def stored_tables(session: SessionState, plan: AnyPlan, versions: Versions) -> Lookup:
    context = session.context

    def lookup(name: Name) -> StoredTable:
        source = find_relation(context.catalog, database_of(name, session), name.name)
        if source.table.is_virtual:
            scan = find_scan(plan, source)
            for origin in dict.fromkeys(reference.origin for reference in scan.references_read):
                versions.record(context.catalog.tables.get(origin.database, origin.name))
            return virtual_table(context, scan)
        versions.record(source.table)
        return stored_table(context, source.table, source.database, source.subtable)

    return lookup


def find_scan(plan: AnyPlan, source: Relation) -> Scan:
    """Return the read of a virtual table in a query.

    Raises:
        NotSupportedError: The query reads it several times, with different columns, which makes other rows.
    """
    scans = [scan for scan in plan.scans if scan.table.id == source.table.id and scan.subtable == source.subtable]
    if len({scan.values for scan in scans}) > 1:
        raise NotSupportedError(
            f"verify does not support a query that reads the virtual table {source.table.name} with different columns",
            hint="verify its parts one by one",
        )
    return scans[0]


def virtual_table(context: Context, scan: Scan, offsets: Offsets | None = None) -> StoredTable:
    """Return a virtual table as a query reads it, now or as of offsets of its origins."""
    table, database = scan.table, scan.database

    def read_origin(origin: TableId) -> tuple[Table, pa.Table]:
        stored = context.catalog.tables.get(origin.database, origin.name)
        version = None if offsets is None else offsets[source_id(origin.database, origin.name)]
        return stored, context.tables.scan(stored, version=version)

    def rows() -> pa.Table:
        return virtual_rows(table, context.tables.schema(table, database), scan.references_read, read_origin)

    return StoredTable(table, database, scan.subtable, rows, lambda: read_tags(context, table))


def stored_table(
    context: Context, table: Table, database: Database, subtable: str | None, version: int | None = None
) -> StoredTable:
    """Return a table as of a version, by default the current one."""
    names = None if subtable is None or table.kind is TableKind.PLAIN else [subtable]

    def rows() -> pa.Table:
        return context.tables.scan(table, version=version, tbnames=names)

    return StoredTable(table, database, subtable, rows, lambda: read_tags(context, table))


def read_tags(context: Context, table: Table) -> pa.Table:
    """Return the tags of a supertable's subtables; none for a plain table."""
    if table.kind is TableKind.SUPER:
        return context.tables.tags.read(table)
    return pa.table({table.series_key: pa.array([], pa.string())})


def verify_stream(job: JobDefinition, context: Context) -> VerificationResult:
    """Compare a stream's target with its query over the rows that the stream has processed.

    Except with AT_ONCE, only closed windows are compared; without history, only the windows that the target has, and none of FILL.

    Raises:
        NotSupportedError: Its query uses something that verify does not support, or its trigger is FORCE_WINDOW_CLOSE.
    """

    def compare() -> tuple[VerificationResult, Callable[[], bool]]:
        record = record_with_equal_parts(context, job.id)
        verification = compare_stream(context, record)
        return verification, lambda: positions(context.catalog.jobs.whole(job.id)) != positions(record)

    return compare_undisturbed(compare)


def positions(record: JobRecord) -> list[Position | None]:
    """Return the position of each part of a stream."""
    return [part.progress.position for part in parts_of(record)]


def record_with_equal_parts(context: Context, job_id: str) -> JobRecord:
    """Return a stream whose parts have read its source equally far; wait a moment for that."""
    deadline = time.monotonic() + MAX_PARTS_WAIT_S
    while True:
        record = context.catalog.jobs.whole(job_id)
        offsets = [part.offsets for part in parts_of(record)]
        if all(one == offsets[0] for one in offsets):
            return record
        if time.monotonic() > deadline:
            raise OperationalError(
                f"the parts of stream {record.definition.name} have read its source to different versions",
                hint="VERIFY again when all have caught up; RESUME STREAM if one has stopped",
            )
        time.sleep(PARTS_POLL_S)


def compare_stream(context: Context, record: JobRecord) -> VerificationResult:
    """Compare once, at the stream's current offset."""
    definition, progress = record.definition, record.progress
    statement = parse(definition.sql, definition.dialect)
    assert isinstance(statement, CreateStream)
    if record.offsets is None:
        raise ProgrammingError(f"stream {definition.name} has processed nothing yet", hint="wait for its history, or settle")
    plan = plan_recorded_stream(definition, context.catalog, context.settings)
    query, tags = add_tag_items(convert_items(prepend_window_start(statement.query), plan), statement, plan)
    if statement.options.trigger is TriggerMode.FORCE_WINDOW_CLOSE:
        raise NotSupportedError(
            f"stream {definition.name} has FORCE_WINDOW_CLOSE: which rows had arrived at the close of a window is not stored",
            hint="compare its target with a query yourself",
        )
    if not statement.options.fill_history:
        # Such a stream fills what it takes for gaps: windows whose rows it has not seen.
        query = replace(query, fill=None)
    rows = target_rows(context, plan, tags, only_windows=query.fill is None)
    closes = statement.options.trigger is not TriggerMode.AT_ONCE and query.window is not None
    watermark = (progress.watermark if progress.watermark is not None else -(2**62)) if closes else None
    # Results older than the target's KEEP are discarded, so such windows may be missing.
    partial = not statement.options.fill_history or plan.target_database.keep_ms is not None
    ranges, window = dropped_ranges(context.catalog, definition.id), plan.query.interval
    span = window.max_span(plan.query.precision) if window is not None else None if plan.query.window is not None else 0
    dropped = DroppedRows([(one.first, one.last, group_matcher(one, tags)) for one in ranges], span) if ranges else None
    maintained = MaintainedTable(watermark, partial=partial, dropped=dropped)
    source = (
        virtual_table(context, plan.scan, record.offsets)
        if plan.source.is_virtual
        else stored_table(context, plan.source, plan.source_database, plan.source_subtable, record.offsets[plan.source_ids[0]])
    )
    held = [row.key for id in part_ids(definition) for row in context.catalog.quarantine.rows(id)]
    source = without_rows(source, held, plan.query.precision)
    part = checkable(query, user_functions(context, definition.dialect), rows.num_columns)
    verification = verify(part.query, lambda: part.rows(rows), lambda _: source, maintained=maintained)
    remarks = [] if verification.equal else describe_option_differences(record, statement.options)
    if not verification.equal and plan.keeps_groups and context.tables.tags.version(plan.source) != plan.tags_version:
        remarks.append("rows stay in the group in which they were counted if tags change")
    remarks += [part.remark] if part.remark else []
    if verification.equal and dropped is not None and dropped.windows:
        windows = "1 window" if dropped.windows == 1 else f"{dropped.windows} windows"
        remarks.append(f"not compared: {windows} with rows of subtables that were dropped")
    if held:
        remarks.append(f"not compared: {len(held)} rows in quarantine, which SHOW QUARANTINE lists; the query leaves them out too")
    return replace(verification, remark="; ".join(remarks))


def group_matcher(dropped: DroppedRange, tags: Sequence[str]) -> Callable[[Sequence[object]], bool]:
    """Return whether a result, which ends with the values of these tags, is of a group that had dropped rows."""
    if dropped.groups is None:
        return lambda _: True
    groups = {tuple((tag, group[tag]) for tag in tags if tag in group) for group in dropped.groups}
    named = {tag for group in dropped.groups for tag in group}

    def matches(row: Sequence[object]) -> bool:
        values = zip(tags, row[len(row) - len(tags) :], strict=True)
        return tuple((tag, value) for tag, value in values if tag in named) in groups

    return matches


def without_rows(source: StoredTable, keys: Sequence[RowKey], precision: Precision) -> StoredTable:
    if not keys:
        return source
    set_aside = SetAside()
    set_aside.set(keys)
    return replace(source, rows=lambda: set_aside.exclude(source.rows(), source.table, precision))


def describe_option_differences(record: JobRecord, options: StreamOptions) -> list[str]:
    """Describe how a stream may differ from its query because of its options."""
    differences = []
    if options.ignore_expired and record.progress.counters.rows_expired:
        differences.append(f"the stream dropped {record.progress.counters.rows_expired} expired rows, which the query includes")
    if options.ignore_update and record.definition.virtual is None:
        differences.append("with IGNORE UPDATE 1 it counts a rewritten row again")
    if options.trigger is TriggerMode.CONTINUOUS_WINDOW_CLOSE:
        differences.append("windows that late changes have marked are recalculated later")
    return differences


def convert_items(query: Query, plan: StreamPlan) -> Query:
    """Convert the items of a query that the stream converts for the columns of its target."""
    if len(query.items) != len(plan.columns):
        return query
    items = [
        replace(item, expression=Cast(item.expression, output.type), alias=item.name) if is_converted(output) else item
        for item, output in zip(query.items, plan.query.outputs[: len(plan.columns)], strict=True)
    ]
    return replace(query, items=tuple(items))


def add_tag_items(query: Query, statement: CreateStream, plan: StreamPlan) -> tuple[Query, list[str]]:
    """Add the PARTITION BY items that fill the target's tags to the query; return it with the names of those tags."""
    items, names = [], []
    converted = {key.column for key in plan.query.keys if is_converted(key)}
    types = {tag.name: tag.type for tag in plan.groups.tags if tag.column in converted}
    for tag in statement.tags or ():
        node = find_partition_item(statement.query, tag.name)
        if node is not None:
            value = Cast(node, types[tag.name]) if tag.name in types else node
            items.append(SelectItem(value, f"__{tag.name}"))
            names.append(tag.name)
    return replace(query, items=(*query.items, *items)), names


def target_rows(context: Context, plan: StreamPlan, tags: list[str], *, only_windows: bool) -> pa.Table:
    """Return the target's rows: the columns that the query fills, in its order, then the tags in `tags`.

    With `only_windows`, windows that FILL has added are left out.
    """
    is_window = pc.field(MARK.name) == window_mark(plan) if only_windows and plan.fills_gaps else None
    rows = context.tables.scan(plan.target, filter=is_window)
    if tags:
        key = plan.target.series_key
        rows = rows.join(context.tables.tags.read(plan.target).select([key, *tags]), key)
    return pa.table([rows.column(name) for name in (*plan.columns, *tags)], [f"c{n}" for n in range(len(plan.columns) + len(tags))])


@dataclass(frozen=True, slots=True)
class CheckableQuery:
    """A query without the columns that rest on user code.

    Attributes:
        query: The query to verify.
        omitted: The numbers of the other columns, among all of the result.
        remark: Says which columns these are; empty if there are none.
    """

    query: Query
    omitted: tuple[int, ...] = ()
    remark: str = ""

    def rows(self, result: pa.Table) -> pa.Table:
        """Return the columns of the full result that are to be verified."""
        kept = [number for number in range(result.num_columns) if number not in self.omitted]
        return result.select(kept) if self.omitted else result


def checkable(query: Query, functions: Collection[str], columns: int) -> CheckableQuery:
    """Return what of a query can be verified.

    Args:
        query: A query.
        functions: The names of users' functions.
        columns: The number of columns of its result.

    Raises:
        NotSupportedError: Which rows the result has rests on user code, or all of its values do.
    """
    called = sorted(set(called_functions(query)).intersection(functions))
    if not called:
        return CheckableQuery(query)
    items = [item for item in query.items if not set(called_functions(item)).intersection(functions)]
    reduced = replace(query, items=tuple(items))
    elsewhere = sorted(set(called_functions(reduced)).intersection(functions))
    if elsewhere or not items:
        names = ", ".join(elsewhere or called)
        raise NotSupportedError(
            f"verify cannot check a result that rests on user code: {names}", hint="leave the function out to verify the rest"
        )
    omitted = omitted_columns(query, items, columns)
    remark = f"not compared: {len(omitted)} of {columns} columns, which rest on user code ({', '.join(called)})"
    return CheckableQuery(reduced, omitted, remark)


def omitted_columns(query: Query, kept: Collection[object], columns: int) -> tuple[int, ...]:
    """Return the numbers of the result columns of the items that are not kept; `*` has as many columns as the others leave."""
    stars = sum(isinstance(item.expression, Star) for item in query.items)
    width = (columns - (len(query.items) - stars)) // stars if stars else 1
    omitted, number = [], 0
    for item in query.items:
        if item not in kept:
            omitted.append(number)
        number += width if isinstance(item.expression, Star) else 1
    return tuple(omitted)
