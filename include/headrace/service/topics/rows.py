"""INSERT of values, and DELETE."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence, Set
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from headrace.errors import NotFoundError, NotSupportedError, ProgrammingError
from headrace.model.access import Privilege
from headrace.model.expressions import Expression, Scalar
from headrace.model.spans import Span
from headrace.model.statements import Delete, Insert, InsertBlock, Now, RowValue, SubtableSpec, TagValue
from headrace.model.tables import Database, Name, Subtable, Table, TableKind
from headrace.service.names import database_of, find_table, find_writable_table, refuse_unwritable
from headrace.service.predicates import ALWAYS, Range, TimeRangeCompiler, split_conditions
from headrace.service.results import Result
from headrace.service.rights import Action, denied_table, on_table
from headrace.service.stage import PlanningContext, SessionState, Stage
from headrace.service.subtable_conditions import permitted_subtables, writing
from headrace.service.topics.subtables import find_subtables, make_subtables, qualify_name, qualify_supertable, specs_without_tags
from headrace.storage.values.rows import rows_to_arrow


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows for one table that name the same columns. `tbnames` is empty if a column holds the names."""

    table: Table
    database: Database
    columns: tuple[str, ...]
    rows: list[tuple[RowValue, ...]]
    spans: list[Span]
    tbnames: list[str]


def plan_insert(statement: Insert, session: PlanningContext) -> list[Stage]:
    """Plan one commit for each table and set of columns, after checking every value."""
    subtables = find_subtables([block.table for block in statement.blocks], session)
    creations: list[Stage] = []
    batches: dict[tuple[str, str, tuple[str, ...]], Batch] = {}
    tables: dict[Name, tuple[Table, Database]] = {}
    specs_to_create: dict[Name, list[SubtableSpec]] = defaultdict(list)
    specs_to_tag: dict[Name, list[SubtableSpec]] = defaultdict(list)
    for block in statement.blocks:
        subtable = subtables.get(qualify_name(block.table, session))
        owner = find_owner(block.table, block.columns, block.using, subtable, session)
        table, database = tables[owner] if owner in tables else tables.setdefault(owner, find_writable_table(owner, session))
        if block.using is not None:
            (specs_to_create if subtable is None else specs_to_tag)[owner].append(replace(block.using, name=block.table))
        is_subtable = subtable is not None or block.using is not None
        tagged = TaggedBlock(block) if is_subtable else separate_tags(block, table, owner)
        existing = find_subtables([spec.name for spec in tagged.subtables], session)
        for spec in tagged.subtables:
            (specs_to_tag if qualify_name(spec.name, session) in existing else specs_to_create)[owner].append(spec)
        add_rows(batches, tagged.block, table, database, is_subtable=is_subtable)
    for owner, specs in specs_to_tag.items():
        specs_to_create[owner].extend(specs_without_tags(specs, tables[owner][0], session))
    creations.extend(
        make_subtables(owner, drop_duplicate_names(specs), session) for owner, specs in specs_to_create.items() if specs
    )
    created = {spec.name.name for specs in specs_to_create.values() for spec in specs}
    writes = [stage for batch in batches.values() for stage in plan_batch(batch, session, created)]
    return [*creations, *writes]


def drop_duplicate_names(specs: Sequence[SubtableSpec]) -> list[SubtableSpec]:
    return list({spec.name: spec for spec in reversed(specs)}.values())[::-1]


def find_owner(
    table: Name, columns: tuple[str, ...] | None, using: SubtableSpec | None, subtable: Subtable | None, session: PlanningContext
) -> Name:
    if subtable is not None:
        return Name(subtable.database, subtable.table)
    if using is not None:
        return qualify_supertable(using, session)
    database = database_of(table, session)
    if columns is not None and TableKind.SUPER.series_key in columns:
        return Name(database, table.name, table.span)
    if session.context.catalog.tables.find(database, table.name) is not None:
        raise ProgrammingError(
            f"{table.name} is a supertable: which subtable are the rows for?",
            hint=f"INSERT INTO subtable USING {table.name} TAGS (…) VALUES …, or name tbname among the columns",
            span=table.span,
        )
    raise NotFoundError(
        f"table {database}.{table.name} not found",
        hint="CREATE TABLE it, or INSERT INTO … USING supertable TAGS (…)",
        span=table.span,
    )


def add_rows(
    batches: dict[tuple[str, str, tuple[str, ...]], Batch],
    block: InsertBlock,
    table: Table,
    database: Database,
    *,
    is_subtable: bool,
) -> None:
    columns = block.columns or tuple(column.name for column in table.columns)
    batch = batches.setdefault((table.database, table.name, columns), Batch(table, database, columns, [], [], []))
    batch.rows.extend(block.rows)
    batch.spans.extend(block.row_spans)
    if is_subtable:
        batch.tbnames.extend([block.table.name] * len(block.rows))


def plan_batch(batch: Batch, session: PlanningContext, created: Set[str]) -> list[Stage]:
    """Plan a batch's commit. If a column names the subtables, they must exist, or be among those that the statement creates."""
    context = session.context
    key = batch.table.series_key
    has_names = key in batch.columns
    rows = rows_to_arrow(
        batch.table,
        batch.database,
        batch.columns,
        batch.rows,
        tbnames=None if has_names else batch.tbnames,
        now=context.clock.now(),
        spans=batch.spans,
    )
    if has_names:
        names = pc.unique(rows.column(key)).to_pylist()
        missing = sorted(set(names) - created - set(context.catalog.subtables.find(batch.table.database, names)))
        if missing:
            raise NotFoundError(
                f"{batch.table.name} has no subtable {missing[0]}",
                hint=f"CREATE TABLE {missing[0]} USING {batch.table.name} TAGS (…) first, or name tags among the columns",
            )
    columns = [name for name in batch.columns if name != key]
    action = writing(batch.table, rows.column(key), session)
    return [write_rows(batch.table, batch.database, rows, columns, action)]


def write_rows(table: Table, database: Database, rows: pa.Table, columns: Sequence[str], action: Action = Action.WRITE) -> Stage:
    """Write rows, in stored types with `tbname`, in one commit. `columns` are those that the statement names."""

    def apply(session: SessionState) -> Result:
        session.context.row_writer.write(table, database, rows, update_columns=columns)
        return Result(affected=rows.num_rows)

    described = f"write {rows.num_rows} rows to {table.database}.{table.name} (columns {', '.join(columns)}), one commit"
    return Stage(on_table(action, table), lambda: [described], apply)


def plan_delete(statement: Delete, session: PlanningContext) -> list[Stage]:
    """Plan DELETE: which subtables, and which ranges of time."""
    catalog, context = session.context.catalog, session.context
    subtable = find_subtables([statement.table], session).get(qualify_name(statement.table, session))
    owner = statement.table if subtable is None else Name(subtable.database, subtable.table)
    table, database = find_table(owner, session)
    refuse_unwritable(table, statement.table)
    times, groups = split_conditions(statement.where, table)
    ranges = TimeRangeCompiler(catalog.databases.get(database.name), context.clock.now()).ranges(times)
    permitted, action = deletable_subtables(table, session)
    if subtable is not None:
        named = frozenset({subtable.name})
        if action is Action.WRITE_PART and permitted is not None and not named <= permitted:
            raise denied_table()
        permitted = named if permitted is None else permitted & named
    tbnames = None if permitted is None else tuple(sorted(permitted))
    if groups and tbnames != ():
        tbnames = matching_subtables(table, database, groups, tbnames, session)
    return [delete_rows(table, database, tbnames, None if ranges == ALWAYS else ranges, action)]


def deletable_subtables(table: Table, session: PlanningContext) -> tuple[frozenset[str] | None, Action]:
    """Return the subtables of which the user may delete rows, None for all, and the right that this needs.

    Tags of others are not looked at: errors of conditions would tell their values.
    """
    permissions = session.context.permissions()
    conditions = permissions.conditions(Privilege.WRITE_TABLE, table.database, table.name)
    if conditions:
        return permitted_subtables(table, conditions, session.context), Action.WRITE_PART
    may_write = permissions.allows_table(Privilege.WRITE_TABLE, table.database, table.name)
    return None if may_write else frozenset(), Action.WRITE


def matching_subtables(
    table: Table,
    database: Database,
    conditions: Sequence[Expression],
    among: tuple[str, ...] | None,
    session: PlanningContext,
) -> tuple[str, ...]:
    """Return which of some subtables, None for all, meet conditions on tags."""
    from headrace.compute import language
    from headrace.service.subtable_filter import SubtableFilter  # imports DuckDB and the binder, which only such a DELETE needs

    tags = read_tags(table, session)
    if among is not None:
        tags = tags.filter(pc.is_in(tags[table.series_key], pa.array(among, pa.string())))
    context = session.context
    filter_ = SubtableFilter(table, database, tags, language(session.dialect), context.clock.now(), context.spark)
    return tuple(filter_.names(conditions))


def delete_rows(
    table: Table,
    database: Database,
    tbnames: tuple[str, ...] | None,
    ranges: tuple[Range, ...] | None,
    action: Action = Action.WRITE,
) -> Stage:
    """Delete rows of the named subtables (None: all) in ranges of ticks (None: at all times)."""

    def apply(session: SessionState) -> Result:
        return Result(affected=session.context.tables.writer.delete(table, database, tbnames=tbnames, ranges=ranges))

    times = "all times" if ranges is None else f"{len(ranges)} time ranges"
    subtables = "all subtables" if tbnames is None else ", ".join(tbnames)
    described = f"delete from {table.database}.{table.name}: {subtables}, {times}"
    return Stage(on_table(action, table), lambda: [described], apply)


def read_tags(table: Table, session: PlanningContext) -> pa.Table:
    """Return `tbname` and tags of every subtable; a plain table has one, named like itself."""
    if table.kind is TableKind.PLAIN:
        return pa.table({table.series_key: [table.name]})
    return session.context.tables.tags.of_subtables(table)


@dataclass(frozen=True, slots=True)
class TaggedBlock:
    """A block of INSERT INTO supertable without the tags, and for each subtable it names the tags of its first row."""

    block: InsertBlock
    subtables: tuple[SubtableSpec, ...] = ()


def separate_tags(block: InsertBlock, table: Table, owner: Name) -> TaggedBlock:
    """Separate tags from the other columns. `owner` is the supertable with its database."""
    names = block.columns or ()
    if table.series_key not in names or not any(table.is_tag(name) for name in names):
        return TaggedBlock(block)
    tags = [index for index, name in enumerate(names) if table.is_tag(name)]
    others = [index for index in range(len(names)) if index not in tags]
    key, tag_names = names.index(table.series_key), tuple(names[index] for index in tags)
    subtables: dict[str, SubtableSpec] = {}
    for row, span in zip(block.rows, block.row_spans, strict=True):
        name = row[key] if len(row) == len(names) else None
        if isinstance(name, str) and name not in subtables:
            values = tuple(TagValue(check_constant(row[index], span), span) for index in tags)
            subtables[name] = SubtableSpec(Name(owner.database, name, span), owner, values, tag_names, if_not_exists=True)
    rows = tuple(tuple(row[index] for index in others) if len(row) == len(names) else row for row in block.rows)
    return TaggedBlock(replace(block, rows=rows, columns=tuple(names[index] for index in others)), tuple(subtables.values()))


def check_constant(value: RowValue, span: Span) -> Scalar:
    """Return the value of a tag, which cannot be relative to the present."""
    if isinstance(value, Now):
        raise NotSupportedError("now as the value of a tag is not supported", hint="write the timestamp", span=span)
    return value
