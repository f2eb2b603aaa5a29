"""Subtables: create and drop them, set their tags, and when they expire."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from headrace.context import Context
from headrace.errors import ExistsError, NotFoundError, NotSupportedError, ProgrammingError
from headrace.model.failpoints import failpoint
from headrace.model.jobs import JobDefinition
from headrace.model.spans import Span
from headrace.model.statements import CreateSubtables, CreateSubtablesFromFile, SetTags, SubtableSpec
from headrace.model.tables import Column, Database, Name, Subtable, Table, TableId, TableKind
from headrace.runtime.table_removal import drop_subtables
from headrace.service.names import check_name, database_of, find_table, refuse_unwritable, with_span
from headrace.service.results import STRING, Result, rows_result
from headrace.service.rights import Action, Right, on_table, table_securable
from headrace.service.stage import PlanningContext, SessionState, Stage
from headrace.storage.loading.subtable_file import SubtableFile, read_subtables
from headrace.storage.types import tags_schema
from headrace.storage.values.rows import tags_to_arrow
from headrace.streams.kind import STREAM


def plan_create_subtables(statement: CreateSubtables, session: PlanningContext) -> list[Stage]:
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
    table, _ = find_table(using, session)
    names_by_ttl: dict[int, list[str]] = defaultdict(list)
    for spec in specs:
        if spec.ttl_days:
            names_by_ttl[spec.ttl_days].append(spec.name.name)
    ttls = [set_ttl(table, names, days) for days, names in names_by_ttl.items()]
    return [make_subtables(using, specs, session), *ttls]


def qualify_supertable(spec: SubtableSpec, session: PlanningContext) -> Name:
    """Return the supertable after USING, with its database."""
    return Name(database_of(spec.using, session), spec.using.name, spec.using.span)


def lacks_tags(spec: SubtableSpec, existing: Subtable, session: PlanningContext) -> bool:
    using = qualify_supertable(spec, session)
    if (using.database, using.name) != (existing.database, existing.table):
        return False
    return bool(specs_without_tags([spec], find_table(using, session)[0], session))


def specs_without_tags(specs: Sequence[SubtableSpec], table: Table, session: PlanningContext) -> list[SubtableSpec]:
    """Return the specs of existing subtables without tags: their creator died before it committed the tags."""
    if table.kind is not TableKind.SUPER:
        return []
    candidates = [spec for spec in specs if (database_of(spec.using, session), spec.using.name) == (table.database, table.name)]
    missing = set(session.context.tables.tags.missing(table, [spec.name.name for spec in candidates])) if candidates else set()
    return [spec for spec in candidates if spec.name.name in missing]


def make_subtables(using: Name, specs: Sequence[SubtableSpec], session: PlanningContext) -> Stage:
    table, database = find_supertable(using, session)
    for spec in specs:
        check_name(spec.name)
        if database_of(spec.name, session) != table.database:
            raise ProgrammingError("a subtable must be in its supertable's database", span=spec.name.span)
    return add_subtables(table, pa.concat_tables([build_tag_row(spec, table, database, session) for spec in specs]))


def add_subtables(table: Table, tags: pa.Table) -> Stage:
    """Create the subtables in `tags`, one row each: `tbname` and a column per tag."""

    def apply(session: SessionState) -> None:
        """Add the names to the catalog first, which decides who owns a name. Existing subtables keep their tags."""
        catalog, names = session.context.catalog, tags.column(table.series_key).to_pylist()
        existing = catalog.subtables.find(table.database, names)
        catalog.subtables.add(table.database, table.name, names)
        tagged = set(session.context.tables.tags.read(table).column(table.series_key).to_pylist()) if existing else set()
        untagged = [position for position, name in enumerate(names) if name not in tagged]
        if untagged:
            session.context.tables.tags.upsert(table, tags.take(untagged))

    described = f"create {tags.num_rows} subtables of {table.database}.{table.name} if missing"
    return Stage(on_table(Action.WRITE, table), lambda: [described], apply)


def remove_subtable(name: str, table: Table, database: Database) -> Stage:
    return Stage(
        on_table(Action.DROP, table, name),
        lambda: [f"drop {name} with all rows"],
        lambda session: drop_subtables(session.context, table, database, [name]),
        loses=lambda: [] if table.is_virtual else [f"the rows of {table.database}.{name}"],
    )


def set_ttl(table: Table, names: Sequence[str], days: int) -> Stage:
    """Let a plain table, or subtables of a table, expire a number of days from now; 0 for never."""
    tables = ", ".join(f"{table.database}.{name}" for name in names)
    return Stage(
        tuple(Right(Action.ALTER, table_securable(table, name)) for name in names),
        lambda: [f"drop {tables} {days} days from now" if days else f"never drop {tables}"],
        lambda session: session.context.catalog.expirations.set(table.database, names, days),
    )


def find_supertable(using: Name, session: PlanningContext) -> tuple[Table, Database]:
    """Return the supertable after USING and its database, or raise `ProgrammingError` if it is another table."""
    table, database = find_table(using, session)
    if table.kind is not TableKind.SUPER:
        raise ProgrammingError(f"{table.name} is a plain table, it has no subtables", hint="USING a supertable", span=using.span)
    if table.external is not None:
        refuse_unwritable(table, using)
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
    for tag in table.tags:
        if tag.name == name:
            return tag
    names = ", ".join(tag.name for tag in table.tags)
    raise NotFoundError(f"{table.name} has no tag {name}", hint=f"its tags are {names}", span=spec.name.span)


def qualify_name(name: Name, session: PlanningContext) -> tuple[str, str]:
    return database_of(name, session), name.name


def find_subtables(names: Sequence[Name], session: PlanningContext) -> dict[tuple[str, str], Subtable]:
    by_database: dict[str, list[str]] = defaultdict(list)
    for name in names:
        by_database[database_of(name, session)].append(name.name)
    catalog = session.context.catalog
    return {
        (database, name): subtable
        for database, requested in by_database.items()
        for name, subtable in catalog.subtables.find(database, list(dict.fromkeys(requested))).items()
    }


def plan_set_tags(statement: SetTags, session: PlanningContext) -> list[Stage]:
    catalog = session.context.catalog
    database_name, name = qualify_name(statement.table, session)
    subtable = catalog.subtables.get(database_name, name)
    table, database = catalog.tables.get(database_name, subtable.table), catalog.databases.get(database_name)
    if table.is_virtual is not statement.is_virtual:
        word, kind = ("VTABLE", "a virtual") if table.is_virtual else ("TABLE", "not a virtual")
        raise ProgrammingError(f"{name} is {kind} table", hint=f"ALTER {word} {name} SET TAG …", span=statement.table.span)
    if table.external is not None:
        refuse_unwritable(table, statement.table)
    spec = SubtableSpec(statement.table, Name(database_name, table.name), (), ())
    values = {find_tag(table, tag, spec).name: value for tag, value in statement.values}
    changed = tags_to_arrow(table, database, name, values, now=session.context.clock.now())
    tags = changed.select([table.series_key, *values])
    return [change_tags(table, name, tags, session.context)]


def change_tags(table: Table, name: str, tags: pa.Table, context: Context) -> Stage:
    """Set tags of a subtable, and have the streams that follow them recalculate the windows of its rows."""
    effects = effects_on_streams(table, name, tags.column_names[1:], context)

    def apply(session: SessionState) -> Result:
        session.context.tables.tags.upsert(table, tags)
        failpoint("service.tags.stored")
        for source in dict.fromkeys(effect.source for effect in effects if effect.moves_rows):
            announce(session.context, source)
        shown = [(str(effect.stream), effect.text) for effect in effects]
        return rows_result(("stream", "effect"), shown, (STRING, STRING)) if shown else Result()

    described = [f"set tags of {tags.num_rows} subtables of {table.name}"]
    lines = [*described, *(f"  stream {effect.stream}: {effect.text}" for effect in effects)]
    return Stage(on_table(Action.WRITE, table), lambda: lines, apply)


@dataclass(frozen=True, slots=True)
class TagEffect:
    """What a change of a subtable's tags means for a stream that reads them, and a stored table whose changes it reads."""

    stream: JobDefinition
    moves_rows: bool
    text: str

    @property
    def source(self) -> TableId:
        return self.stream.sources[0]


def effects_on_streams(table: Table, name: str, tags: Sequence[str], context: Context) -> list[TagEffect]:
    from headrace.streams.definition.define import plan_recorded_stream

    effects = []
    for record in context.catalog.jobs.all(kind=STREAM):
        job = record.definition
        if job.source != table.id or job.schema is None or not set(tags) & set(job.schema.reads):
            continue
        plan = plan_recorded_stream(job, context.catalog, context.settings)
        if plan.source_subtable not in (None, name):
            continue
        text = "counts later rows in the new group; earlier rows stay where they were counted, and changes of them are ignored"
        if not plan.follows_tags and not plan.keeps_groups:
            text = "reads the new tags of later rows, and of rows that are written again; earlier results stay as they are"
        if plan.follows_tags:
            rows = None if table.is_virtual else context.tables.count_scanned(table, [name], None)
            counted = f"all rows of {name}" if rows is None else f"up to {rows} rows of {name}"
            text = f"recalculates the windows of {counted}, in the groups that they leave and join"
        effects.append(TagEffect(job, plan.follows_tags, text))
    return effects


def announce(context: Context, source: TableId) -> None:
    """Commit nothing to a table, which has its streams look for changed tags."""
    table = context.catalog.tables.get(source.database, source.name)
    context.tables.writer.advance(table, f"tags.{source}")


def plan_create_subtables_from_file(statement: CreateSubtablesFromFile, session: PlanningContext) -> list[Stage]:
    """Read and check the whole file before the first subtable is created."""
    using = Name(database_of(statement.using, session), statement.using.name, statement.using.span)
    table, database = find_supertable(using, session)
    check_file_columns(table, statement.columns, statement.column_span)
    check_local_file(statement.path, statement.span, "CREATE TABLE … FILE", session)
    with with_span(statement.span):
        file = read_subtables(Path(statement.path), statement.columns, table, database, session.context.clock.now())
    tags = missing_of_file(file, table, statement, session)
    return [add_subtables(table, tags)] if tags.num_rows else []


def check_file_columns(table: Table, columns: tuple[str, ...], span: Span | None) -> None:
    """Check that the columns are `tbname` and tags, each once."""
    own = [table.series_key, *(tag.name for tag in table.tags)]
    for index, name in enumerate(columns):
        if name not in own:
            raise NotFoundError(f"{table.name} has no tag {name}", hint=f"its tags are {', '.join(own[1:])}", span=span)
        if name in columns[:index]:
            raise ProgrammingError(f"the column {name} is named twice", hint="name each column once", span=span)
    if table.series_key not in columns:
        raise ProgrammingError(
            "a file of subtables needs a column tbname", hint=f"name {table.series_key} among the columns", span=span
        )


def missing_of_file(file: SubtableFile, table: Table, statement: CreateSubtablesFromFile, session: PlanningContext) -> pa.Table:
    """Return the subtables of a file that do not exist, or have no tags since their creator died.

    Raises:
        ExistsError: There are others, without IF NOT EXISTS.
    """
    names: list[str] = file.tags[table.series_key].to_pylist()
    existing = session.context.catalog.subtables.find(table.database, names)
    if not existing:
        return file.tags
    if not statement.if_not_exists:
        row = next(row for row, name in enumerate(names) if name in existing)
        raise ExistsError(
            f"{file.position(row)}: table {table.database}.{names[row]} already exists",
            hint="use IF NOT EXISTS, or another name",
            span=statement.span,
        )
    own = [name for name, subtable in existing.items() if subtable.table == table.name]
    left_out = existing.keys() - session.context.tables.tags.missing(table, own)
    return file.tags.filter(pa.array([name not in left_out for name in names]))


def create_missing(context: Context, table: Table, database: Database, tags: pa.Table) -> None:
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
        context.tables.tags.upsert(table, missing)


def check_local_file(path: str, span: Span | None, statement: str, session: PlanningContext) -> None:
    """Check that a file of a statement exists, and is not one of a server."""
    if not session.reads_files:
        raise NotSupportedError(
            f"{statement} is not supported here: the file would be one of the server",
            hint="use Python or the command line",
            span=span,
        )
    if not Path(path).is_file():
        raise NotFoundError(f"file {path} does not exist", hint="check the path", span=span)
