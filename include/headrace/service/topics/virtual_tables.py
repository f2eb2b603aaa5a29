"""Virtual tables: create and alter them, and set the origins of their columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from headrace.catalog.alterations import require_column, with_column, with_column_type, with_renamed_column, without_column
from headrace.errors import ExistsError, NotFoundError, NotSupportedError, ProgrammingError, TypeMismatchError
from headrace.model.statements import (
    AddColumn,
    AlterVirtualTable,
    CreateTable,
    CreateVirtualSubtable,
    CreateVirtualTable,
    DropColumn,
    ModifyColumn,
    Origin,
    RenameColumn,
    SetOrigin,
)
from headrace.model.tables import Column, ColumnReference, Database, Name, Table, TableKind
from headrace.service.describing import indent
from headrace.service.names import check_name, database_of, find_table, with_span
from headrace.service.rights import Action, ObjectKind, Right, Securable, on_table
from headrace.service.stage import PlanningContext, SessionState, Stage
from headrace.service.topics.alterations import check_droppable, check_kind, check_widening
from headrace.service.topics.subtables import build_tag_row, find_subtables, qualify_name, qualify_supertable
from headrace.service.topics.tables import check_columns, find_existing
from headrace.sql import to_sql

if TYPE_CHECKING:
    import pyarrow as pa


def plan_create_virtual_table(statement: CreateVirtualTable, session: PlanningContext) -> list[Stage]:
    name = statement.name
    check_name(name)
    check_columns(CreateTable(name, statement.columns))
    database = session.context.catalog.databases.get(database_of(name, session))
    table = Table(database.name, name.name, statement.columns, (), TableKind.PLAIN, is_virtual=True)
    if existing_kind := find_existing(table, session):
        if statement.if_not_exists:
            return []
        raise already_exists(existing_kind, name, database)
    references = tuple(
        resolve_origin(name.name, column, origin, table, database, session)
        for column, origin in zip(statement.columns, statement.origins, strict=True)
        if origin is not None
    )
    return [make_virtual_table(table, references, if_not_exists=statement.if_not_exists)]


def make_virtual_table(table: Table, references: Sequence[ColumnReference], *, if_not_exists: bool) -> Stage:
    """Create a virtual table of one series, with the origins of its columns."""

    def apply(session: SessionState) -> None:
        try:
            session.context.catalog.virtual_tables.create(table, references)
        except ExistsError:
            if not if_not_exists:
                raise

    head = f"create virtual table {table.database}.{table.name}: {len(table.columns)} columns"
    rights = (*on_table(Action.CREATE, table), *read_origins(references))
    return Stage(rights, lambda: [head, *indent(explain_references(references))], apply)


def plan_create_virtual_subtable(statement: CreateVirtualSubtable, session: PlanningContext) -> list[Stage]:
    spec = statement.spec
    check_name(spec.name)
    table, database = find_table(qualify_supertable(spec, session), session)
    if not table.is_virtual or table.kind is not TableKind.SUPER:
        raise ProgrammingError(
            f"{table.name} is not a virtual supertable",
            hint="CREATE STABLE … VIRTUAL 1, or CREATE TABLE … USING for subtables of a stored supertable",
            span=spec.using.span,
        )
    if database_of(spec.name, session) != table.database:
        raise ProgrammingError("a subtable must be in its supertable's database", span=spec.name.span)
    if find_subtables([spec.name], session):
        if spec.if_not_exists:
            return []
        raise already_exists("table", spec.name, database)
    references = tuple(
        resolve_origin(spec.name.name, column, origin, table, database, session)
        for column, origin in assign_origins(statement, table)
    )
    return [make_virtual_subtable(table, spec.name.name, build_tag_row(spec, table, database, session), references)]


def make_virtual_subtable(table: Table, name: str, tags: pa.Table, references: Sequence[ColumnReference]) -> Stage:
    """Create a virtual subtable, with its row of tags and the origins of its columns."""

    def apply(session: SessionState) -> None:
        """Create the subtable before its tags, since its name decides who owns it."""
        session.context.catalog.virtual_tables.create_subtable(table.database, table.name, name, references)
        session.context.tables.tags.upsert(table, tags)

    head = f"create virtual subtable {name} of {table.database}.{table.name}"
    rights = (*on_table(Action.WRITE, table), *read_origins(references))
    return Stage(rights, lambda: [head, *indent(explain_references(references))], apply)


def already_exists(kind: str, name: Name, database: Database) -> ExistsError:
    return ExistsError(
        f"{kind} {database.name}.{name.name} already exists", hint="use IF NOT EXISTS, or another name", span=name.span
    )


def assign_origins(statement: CreateVirtualSubtable, table: Table) -> list[tuple[Column, Origin]]:
    """Return the column of each origin: the one that is named, else the next of the supertable."""
    assigned: dict[str, tuple[Column, Origin]] = {}
    for position, (name, origin) in enumerate(statement.origins, start=1):
        if name is None and position >= len(table.columns):
            raise ProgrammingError(f"{table.name} has only {len(table.columns) - 1} columns", span=origin.span)
        column = table.columns[position] if name is None else value_column(table, name, origin)
        if column.name in assigned:
            raise ProgrammingError(f"column {column.name} has two origins", hint="name each column once", span=origin.span)
        assigned[column.name] = (column, origin)
    return list(assigned.values())


def value_column(table: Table, name: str, origin: Origin) -> Column:
    """Return the column of a name, which is no tag."""
    with with_span(origin.span):
        return check_kind(table, name, is_tag=False)


def resolve_origin(
    series: str, column: Column, origin: Origin, table: Table, database: Database, session: PlanningContext
) -> ColumnReference:
    """Return the reference of a column of a series to its origin; refuse what cannot be one."""
    span = origin.span
    if column.name == table.timestamp.name:
        raise ProgrammingError(
            f"{column.name} has the instants of all origins", hint="leave out FROM behind the timestamp", span=span
        )
    owner, owning_database, stored_series = find_origin(origin, session)
    if owning_database.precision is not database.precision:
        raise NotSupportedError(
            f"{owner.database} has timestamps in {owning_database.precision}, {database.name} in {database.precision}",
            hint="create the virtual table in a database of the same precision",
            span=span,
        )
    with with_span(span):
        stored = check_kind(owner, origin.column, is_tag=False)
    if stored.name == owner.timestamp.name:
        raise ProgrammingError(
            f"{stored.name} is the timestamp of {owner.name}, by which rows are aligned", hint="name another column", span=span
        )
    if stored.type != column.type:
        raise TypeMismatchError(
            f"{column.name} is {column.type}, but {stored_series}.{stored.name} is {stored.type}",
            hint=f"declare {column.name} {stored.type}",
            span=span,
        )
    return ColumnReference(series, column.name, owner.id, stored_series, stored.name)


def find_origin(origin: Origin, session: PlanningContext) -> tuple[Table, Database, str]:
    catalog, name = session.context.catalog, origin.table
    database = catalog.databases.get(database_of(name, session))
    subtable = catalog.subtables.find(database.name, [name.name]).get(name.name)
    if subtable is None and catalog.tables.find(database.name, name.name) is not None:
        raise ProgrammingError(
            f"{name.name} is a supertable, whose columns have a value for each of its subtables",
            hint=f"name a subtable of {name.name}",
            span=name.span,
        )
    if subtable is None:
        raise NotFoundError(
            f"table {database.name}.{name.name} does not exist", hint="SHOW TABLES lists what there is", span=name.span
        )
    table = catalog.tables.get(database.name, subtable.table)
    if table.is_virtual:
        raise ProgrammingError(
            f"{name.name} is a virtual table itself", hint="name the table that its column comes from", span=name.span
        )
    if table.kind is TableKind.TREE or table.key is not None:
        reason = "a tree of devices" if table.key is None else f"a table whose primary key includes {table.key.name}"
        raise NotSupportedError(
            f"{name.name} belongs to {reason}, which cannot be aligned by time alone", hint="name another table", span=name.span
        )
    return table, database, subtable.name


def plan_alter_virtual_table(statement: AlterVirtualTable, session: PlanningContext) -> list[Stage]:
    change = statement.change
    table, series = find_virtual(change.table, session)
    if table.kind is not TableKind.PLAIN:
        raise ProgrammingError(
            f"{series} is a subtable, and has the columns of {table.name}",
            hint=f"ALTER STABLE {table.name} …",
            span=change.table.span,
        )
    catalog, alter = session.context.catalog, partial(session.context.catalog.virtual_tables.alter, table)
    origins: tuple[ColumnReference, ...] = ()
    match change:
        case AddColumn(column=column):
            with with_span(column.span):
                check_columns(CreateTable(change.table, with_column(table, column, is_tag=False).columns))
            if statement.origin is not None:
                database = catalog.databases.get(table.database)
                origins = (resolve_origin(series, column, statement.origin, table, database, session),)
            alter = partial(alter, partial(with_column, column=column, is_tag=False), added=next(iter(origins), None))
        case DropColumn(name=name, span=span):
            with with_span(span):
                check_droppable(table, check_kind(table, name, is_tag=False).name)
                catalog.tables.check_unused(table.database, table.name, [name])
            alter = partial(alter, partial(without_column, name=name), removed=name)
        case ModifyColumn(column=column):
            with with_span(column.span):
                check_widening(check_kind(table, column.name, is_tag=False), column.type)
                with_column_type(table, column)
            alter = partial(alter, partial(with_column_type, changed=column))
        case RenameColumn(name=name, new_name=new_name, span=span):
            with with_span(span):
                renamed = with_renamed_column(table, check_kind(table, name, is_tag=False).name, new_name)
                check_columns(CreateTable(change.table, renamed.columns))
                catalog.tables.check_unused(table.database, table.name, [name])
            alter = partial(alter, partial(with_renamed_column, old=name, new=new_name), removed=name, renamed=new_name)
    rights = (*on_table(Action.ALTER, table), *read_origins(origins))
    described = [to_sql(AlterVirtualTable(change)), *indent(explain_references(origins))]
    return [Stage(rights, lambda: described, lambda _: alter())]


def plan_set_origin(statement: SetOrigin, session: PlanningContext) -> list[Stage]:
    table, series = find_virtual(statement.table, session)
    with with_span(statement.span):
        column = check_kind(table, require_column(table, statement.column).name, is_tag=False)
        if column.name == table.timestamp.name:
            raise ProgrammingError(f"{column.name} has the instants of all origins", hint="name another column")
    database = session.context.catalog.databases.get(table.database)
    origin = statement.origin
    reference = None if origin is None else resolve_origin(series, column, origin, table, database, session)
    return [
        Stage(
            (*on_table(Action.ALTER, table, series), *read_origins([] if reference is None else [reference])),
            lambda: [f"column {column.name} of virtual table {table.database}.{series} comes from {reference or 'NULL'}"],
            lambda session: session.context.catalog.virtual_tables.set_origin(table.database, series, column.name, reference),
        )
    ]


def find_virtual(name: Name, session: PlanningContext) -> tuple[Table, str]:
    """Return the virtual table that a series belongs to, and the series; refuse any other table."""
    catalog = session.context.catalog
    database, _ = qualify_name(name, session)
    with with_span(name.span):
        subtable = catalog.subtables.get(database, name.name)
    table = catalog.tables.get(database, subtable.table)
    if not table.is_virtual:
        raise ProgrammingError(f"{name.name} is not a virtual table", hint=f"ALTER TABLE {name.name} …", span=name.span)
    return table, subtable.name


def read_origins(references: Iterable[ColumnReference]) -> tuple[Right, ...]:
    names = dict.fromkeys((reference.origin.database, reference.origin_series) for reference in references)
    return tuple(Right(Action.READ, Securable(ObjectKind.TABLE, *name)) for name in names)


def explain_references(references: Iterable[ColumnReference]) -> list[str]:
    return [f"{reference.column} from {reference}" for reference in references]
