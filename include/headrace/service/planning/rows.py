"""Plan INSERT, DELETE, CREATE TABLE … USING, and changes of tags."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence, Set
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from headrace.errors import ExistsError, NotFoundError, ProgrammingError
from headrace.model.spans import Span
from headrace.model.statements import CreateSubtables, Delete, Insert, InsertBlock, RowValue, SetTags, SubtableSpec
from headrace.model.tables import Column, Database, Name, Subtable, Table, TableKind
from headrace.service.alteration_stages import SetTtl
from headrace.service.names import check_name, database_of, find_table, find_writable_table, refuse_virtual
from headrace.service.planning.inserted_tags import TaggedBlock, separate_tags
from headrace.service.predicates import ALWAYS, TimeRangeCompiler, split_conditions
from headrace.service.stage import Stage
from headrace.service.stages import DeleteRows, MakeSubtables, WriteRows, WriteTags
from headrace.service.state import PlanningContext
from headrace.storage.values.rows import rows_to_arrow, tags_to_arrow


def create_subtables(statement: CreateSubtables, session: PlanningContext) -> list[Stage]:
    """Check all subtables of the statement before the first is created."""
    by_table: dict[Name, list[SubtableSpec]] = defaultdict(list)
    for spec in statement.subtables:
        existing = find_subtables([spec.name], session).get(qualify_name(spec.name, session))
        using = qualify_supertable(spec, session)
        if existing is None or (spec.if_not_exists and lacks_tags(spec, existing, session)):
            by_table[using].append(spec)
        elif not spec.if_not_exists:
            raise ExistsError(
                f"table {existing.database}.{existing.name} already exists",
                hint="use IF NOT EXISTS, or another name",
                span=spec.name.span,
            )
    return [stage for using, specs in by_table.items() for stage in make_expiring_subtables(using, specs, session)]


def make_expiring_subtables(using: Name, specs: Sequence[SubtableSpec], session: PlanningContext) -> list[Stage]:
    """Plan the creation of subtables of one supertable, and when those with a TTL are dropped."""
    made = make_subtables(using, specs, session)
    names_by_ttl: dict[int, list[str]] = defaultdict(list)
    for spec in specs:
        if spec.ttl_days:
            names_by_ttl[spec.ttl_days].append(spec.name.name)
    return [made, *(SetTtl(made.table, tuple(names), days) for days, names in names_by_ttl.items())]


def qualify_supertable(spec: SubtableSpec, session: PlanningContext) -> Name:
    """Return the supertable after USING, with its database."""
    return Name(database_of(spec.using, session), spec.using.name, spec.using.span)


def lacks_tags(spec: SubtableSpec, existing: Subtable, session: PlanningContext) -> bool:
    """Return True if an existing subtable of the same supertable has no tags committed."""
    using = qualify_supertable(spec, session)
    if (using.database, using.name) != (existing.database, existing.table):
        return False
    return bool(specs_without_tags([spec], find_table(using, session)[0], session))


def specs_without_tags(specs: Sequence[SubtableSpec], table: Table, session: PlanningContext) -> list[SubtableSpec]:
    """Return the specs of existing subtables without tags: their creator died before it committed the tags."""
    if table.kind is not TableKind.SUPER:
        return []
    candidates = [spec for spec in specs if (database_of(spec.using, session), spec.using.name) == (table.database, table.name)]
    missing = set(session.context.tables.without_tags(table, [spec.name.name for spec in candidates])) if candidates else set()
    return [spec for spec in candidates if spec.name.name in missing]


def make_subtables(using: Name, specs: Sequence[SubtableSpec], session: PlanningContext) -> MakeSubtables:
    """Plan the creation of subtables of one supertable."""
    table, database = find_supertable(using, session)
    for spec in specs:
        check_name(spec.name)
        if database_of(spec.name, session) != table.database:
            raise ProgrammingError("a subtable must be in its supertable's database", span=spec.name.span)
    return MakeSubtables(table, database, pa.concat_tables([build_tag_row(spec, table, database, session) for spec in specs]))


def find_supertable(using: Name, session: PlanningContext) -> tuple[Table, Database]:
    """Return the supertable after USING and its database, or raise `ProgrammingError` if it is another table."""
    table, database = find_table(using, session)
    if table.kind is not TableKind.SUPER:
        raise ProgrammingError(f"{table.name} is a plain table, it has no subtables", hint="USING a supertable", span=using.span)
    if table.is_virtual:
        raise ProgrammingError(
            f"{table.name} is a virtual supertable",
            hint=f"CREATE VTABLE … (column FROM table.column, …) USING {table.name} TAGS (…)",
            span=using.span,
        )
    return table, database


def build_tag_row(spec: SubtableSpec, table: Table, database: Database, session: PlanningContext) -> pa.Table:
    """Build one row of the tags table; tags that are not named are NULL."""
    columns = table.tags if spec.tag_names is None else tuple(find_tag(table, name, spec) for name in spec.tag_names)
    if len(columns) != len(spec.tag_values):
        raise ProgrammingError(
            f"{len(spec.tag_values)} tag values for {len(columns)} tags of {table.name}",
            hint=f"the tags are {', '.join(column.name for column in columns)}",
            span=spec.name.span,
        )
    values = dict(zip((column.name for column in columns), spec.tag_values, strict=True))
    return tags_to_arrow(table, database, spec.name.name, values, now=session.context.clock.now())


def find_tag(table: Table, name: str, spec: SubtableSpec) -> Column:
    """Return the tag with a name."""
    for tag in table.tags:
        if tag.name == name:
            return tag
    names = ", ".join(tag.name for tag in table.tags)
    raise NotFoundError(f"{table.name} has no tag {name}", hint=f"its tags are {names}", span=spec.name.span)


def qualify_name(name: Name, session: PlanningContext) -> tuple[str, str]:
    """Return a name's database and name."""
    return database_of(name, session), name.name


def find_subtables(names: Sequence[Name], session: PlanningContext) -> dict[tuple[str, str], Subtable]:
    """Look up the subtables that exist, by database and name."""
    by_database: dict[str, list[str]] = defaultdict(list)
    for name in names:
        by_database[database_of(name, session)].append(name.name)
    catalog = session.context.catalog
    return {
        (database, name): subtable
        for database, requested in by_database.items()
        for name, subtable in catalog.subtables.find(database, list(dict.fromkeys(requested))).items()
    }


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows for one table that name the same columns. `tbnames` is empty if a column holds the names."""

    table: Table
    database: Database
    columns: tuple[str, ...]
    rows: list[tuple[RowValue, ...]]
    spans: list[Span]
    tbnames: list[str]


def insert(statement: Insert, session: PlanningContext) -> list[Stage]:
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
    writes = [stage for batch in batches.values() for stage in plan_write(batch, session, created)]
    return [*creations, *writes]


def drop_duplicate_names(specs: Sequence[SubtableSpec]) -> list[SubtableSpec]:
    """Keep the first spec of each name."""
    return list({spec.name: spec for spec in reversed(specs)}.values())[::-1]


def find_owner(
    table: Name, columns: tuple[str, ...] | None, using: SubtableSpec | None, subtable: Subtable | None, session: PlanningContext
) -> Name:
    """Return the table that the rows for a name belong to."""
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
    """Add a block's rows to the batch of its table and columns."""
    columns = block.columns or tuple(column.name for column in table.columns)
    batch = batches.setdefault((table.database, table.name, columns), Batch(table, database, columns, [], [], []))
    batch.rows.extend(block.rows)
    batch.spans.extend(block.row_spans)
    if is_subtable:
        batch.tbnames.extend([block.table.name] * len(block.rows))


def plan_write(batch: Batch, session: PlanningContext, created: Set[str]) -> list[Stage]:
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
    return [WriteRows(batch.table, batch.database, rows, tuple(name for name in batch.columns if name != key))]


def delete(statement: Delete, session: PlanningContext) -> list[Stage]:
    """Plan DELETE: which subtables, and which ranges of time."""
    catalog, context = session.context.catalog, session.context
    subtable = find_subtables([statement.table], session).get(qualify_name(statement.table, session))
    owner = statement.table if subtable is None else Name(subtable.database, subtable.table)
    table, database = find_table(owner, session)
    refuse_virtual(table, statement.table)
    times, groups = split_conditions(statement.where, table)
    ranges = TimeRangeCompiler(catalog.databases.get(database.name), context.clock.now()).ranges(times)
    tbnames: tuple[str, ...] | None = None if subtable is None else (subtable.name,)
    if groups:
        from headrace.compute import language
        from headrace.service.subtables import SubtableFilter  # imports DuckDB and the binder, which only such a DELETE needs

        subtables = SubtableFilter(
            table, database, read_tags(table, session), language(session.dialect), context.clock.now(), context.spark
        )
        names = subtables.names(groups)
        tbnames = tuple(names) if tbnames is None else tuple(name for name in names if name in tbnames)
    return [DeleteRows(table, database, tbnames, None if ranges == ALWAYS else ranges)]


def read_tags(table: Table, session: PlanningContext) -> pa.Table:
    """Return `tbname` and tags of every subtable; a plain table has one, named like itself."""
    if table.kind is TableKind.PLAIN:
        return pa.table({table.series_key: [table.name]})
    return session.context.tables.read_subtables(table)


def set_tags(statement: SetTags, session: PlanningContext) -> list[Stage]:
    """Plan ALTER TABLE … SET TAG."""
    catalog = session.context.catalog
    database_name, name = qualify_name(statement.table, session)
    subtable = catalog.subtables.get(database_name, name)
    table, database = catalog.tables.get(database_name, subtable.table), catalog.databases.get(database_name)
    if table.is_virtual is not statement.is_virtual:
        word, kind = ("VTABLE", "a virtual") if table.is_virtual else ("TABLE", "not a virtual")
        raise ProgrammingError(f"{name} is {kind} table", hint=f"ALTER {word} {name} SET TAG …", span=statement.table.span)
    spec = SubtableSpec(statement.table, Name(database_name, table.name), (), ())
    values = {find_tag(table, tag, spec).name: value for tag, value in statement.values}
    changed = tags_to_arrow(table, database, name, values, now=session.context.clock.now())
    return [WriteTags(table, changed.select([table.series_key, *values]))]
