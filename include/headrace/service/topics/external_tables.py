"""Tables of other writers, read where they are: create them, in both languages. All else is a statement about tables or paths."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from headrace.errors import DataError, ExistsError, NotFoundError, NotSupportedError, ProgrammingError, TypeMismatchError
from headrace.model.access import Privilege
from headrace.model.external_statements import CreateExternalTable, ExternalColumn
from headrace.model.external_tables import External, OnChange
from headrace.model.instants import ZONE_HINT, find_zone
from headrace.model.spelling import did_you_mean
from headrace.model.statements import CreateTable
from headrace.model.tables import Column, Database, Table, TableKind
from headrace.model.tree_statements import CreateExternalDatabase
from headrace.model.types import TIMESTAMP, DataType, TypeKind
from headrace.service.names import check_name, database_of, with_span
from headrace.service.rights import Action, globally, on_database, on_table
from headrace.service.stage import PlanningContext, SessionState, Stage
from headrace.service.topics.tables import check_columns, find_existing
from headrace.service.topics.trees.databases import check_new_path
from headrace.storage.delta.external_source import ExternalSource, place_in_catalog, read_source

KINDS: Final = {
    pa.bool_(): TypeKind.BOOL,
    pa.int8(): TypeKind.TINYINT,
    pa.int16(): TypeKind.SMALLINT,
    pa.int32(): TypeKind.INT,
    pa.int64(): TypeKind.BIGINT,
    pa.float32(): TypeKind.FLOAT,
    pa.float64(): TypeKind.DOUBLE,
    pa.string(): TypeKind.VARCHAR,
    pa.large_string(): TypeKind.VARCHAR,
    pa.string_view(): TypeKind.VARCHAR,
    pa.binary(): TypeKind.VARBINARY,
    pa.large_binary(): TypeKind.VARBINARY,
    pa.binary_view(): TypeKind.VARBINARY,
    pa.date32(): TypeKind.TIMESTAMP,
}
INTEGER_ORDER: Final = (TypeKind.TINYINT, TypeKind.SMALLINT, TypeKind.INT, TypeKind.BIGINT)
SERIES_KINDS: Final = (*INTEGER_ORDER, TypeKind.VARCHAR, TypeKind.NCHAR)


def plan_create_external_table(statement: CreateExternalTable, session: PlanningContext) -> list[Stage]:
    check_name(statement.name)
    database = session.context.catalog.databases.get(database_of(statement.name, session))
    existing = find_existing(Table(database.name, statement.name.name, ()), session)
    if existing and statement.if_not_exists:
        return []
    if existing:
        message = f"{existing} {database.name}.{statement.name.name} already exists"
        raise ExistsError(message, hint="use IF NOT EXISTS, or another name", span=statement.name.span)
    table, source = look_up(statement, database, session)
    return [make_external_table(table, source, statement.if_not_exists)]


def plan_create_external_database(statement: CreateExternalDatabase, session: PlanningContext) -> list[Stage]:
    """Plan CREATE EXTERNAL DATABASE of the IoTDB language: a database, and its only table."""
    path, created = statement.path, statement.table
    if created.if_not_exists and str(path) in session.context.catalog.trees.externals():
        return []
    database = Database(check_new_path(path, session), timezone=session.context.settings.timezone)
    table, source = look_up(created, database, session)
    return [make_external_table(table, source, created.if_not_exists, database)]


def look_up(statement: CreateExternalTable, database: Database, session: PlanningContext) -> tuple[Table, ExternalSource]:
    """Return the table that a statement creates, and what is at its place."""
    with with_span(statement.location_span):
        place = place_in_catalog(statement.catalog) if statement.catalog else statement.location
        location = session.context.egress.location(place)
        source = look_at(location, statement)
    return resolve(statement, database, location, source), source


def look_at(location: str, statement: CreateExternalTable) -> ExternalSource:
    """Look at what is at a location that the user may name.

    Raises:
        ProgrammingError: There is nothing. It is no `NotFoundError`: those are concealed, as they would be about our own tables.
    """
    try:
        return read_source(location, statement.format, statement.catalog)
    except NotFoundError as error:
        raise ProgrammingError(error.message, hint=error.hint) from None


def resolve(statement: CreateExternalTable, database: Database, location: str, source: ExternalSource) -> Table:
    """Return the table with the columns that the source has."""
    found = {column: find_column(column, source.columns, location) for column in (*statement.columns, *statement.tags)}
    time = statement.columns[0]
    check_time(time, found[time][1], statement)
    is_text = statement.format.is_text
    types = {one: column_type(one, *found[one], is_text=is_text) for one in found if one is not time}
    columns = tuple(Column(one.name, types.get(one, TIMESTAMP), span=one.span) for one in statement.columns)
    tags = tuple(Column(one.name, types[one], span=one.span) for one in statement.tags)
    check_columns(CreateTable(statement.name, columns, tags))
    external = External(
        location,
        source.table_id,
        database.precision,
        tuple(path for path, _ in found.values()),
        check_series(statement, tags),
        check_zone(statement, database),
        statement.unit,
        check_rule(statement),
        statement.format,
        statement.catalog,
    )
    kind = TableKind.SUPER if tags else TableKind.PLAIN
    return Table(database.name, statement.name.name, columns, tags, kind, comment=statement.comment, external=external)


def find_column(column: ExternalColumn, schema: pa.Schema, location: str) -> tuple[tuple[str, ...], pa.DataType]:
    """Return the path of a column in the source as it is written there, and its type. Delta Lake ignores case in names."""
    path: tuple[str, ...] = ()
    type_: pa.DataType = pa.struct(list(schema))
    for name in column.source or (column.name,):
        names = [field.name for field in type_] if pa.types.is_struct(type_) else []
        found = next((one for one in names if one == name), None) or next(
            (one for one in names if one.lower() == name.lower()), None
        )
        if found is None:
            wanted = ".".join((*path, name))
            hint = did_you_mean(name, names, f"it has {', '.join(names)}") if names else f"{'.'.join(path)} is {type_}"
            raise ProgrammingError(f"{location} has no column {wanted}", hint=hint, span=column.span)
        path, type_ = (*path, found), type_.field(type_.get_field_index(found)).type
    return path, type_


def check_time(column: ExternalColumn, type_: pa.DataType, statement: CreateExternalTable) -> None:
    """Raise `TypeMismatchError` unless the first column can be a time, and the statement says what is needed for it."""
    if column.type is not None and column.type != TIMESTAMP:
        message = f"the first column of a table must be a TIMESTAMP, {column.name} is {column.type}"
        raise TypeMismatchError(message, hint=f"write {column.name} TIMESTAMP FROM column", span=column.span)
    is_number = pa.types.is_integer(type_)
    if statement.format.is_text and pa.types.is_string(type_):
        return
    if not (is_number or pa.types.is_timestamp(type_) or pa.types.is_date(type_)):
        message = f"{column.name} is {type_} in the source, which is no time"
        raise TypeMismatchError(message, hint="name a timestamp, a date or a whole number: ts FROM column", span=column.span)
    if is_number and statement.unit is None:
        message = f"{column.name} is a whole number in the source"
        raise TypeMismatchError(message, hint="say its unit since 1970: UNIT 's', 'ms', 'us' or 'ns'", span=column.span)
    if not is_number and statement.unit is not None:
        message = f"{column.name} is no whole number in the source"
        raise TypeMismatchError(message, hint="leave UNIT out", span=statement.time_span)


def column_type(column: ExternalColumn, path: tuple[str, ...], stored: pa.DataType, *, is_text: bool) -> DataType:
    """Return the type of a column: that of the source, or a wider one that the statement has; of text any.

    Raises:
        TypeMismatchError: There is none for the source's, or values would not fit.
    """
    own = own_type(stored)
    name = ".".join(path)
    if own is None:
        hint = f"name a part of it: FROM {name}.{stored.field(0).name}" if pa.types.is_struct(stored) else "leave it out"
        raise TypeMismatchError(f"{name} is {stored}, for which there is no column type", hint=hint, span=column.span)
    if column.type is None or column.type == own:
        return own
    if is_text:
        return column.type
    if not is_wider(column.type, own):
        raise TypeMismatchError(f"{name} is {own} in the source, not {column.type}", hint="leave the type out", span=column.span)
    return column.type


def own_type(stored: pa.DataType) -> DataType | None:
    """Return the column type for a stored one; None if there is none."""
    if pa.types.is_decimal(stored):
        return DataType(TypeKind.DECIMAL, stored.precision, stored.scale)
    if pa.types.is_timestamp(stored):
        return TIMESTAMP
    kind = KINDS.get(stored)
    return None if kind is None else DataType(kind)


def is_wider(type_: DataType, own: DataType) -> bool:
    """Return whether a type holds all values of another."""
    if own.kind in INTEGER_ORDER and type_.kind in INTEGER_ORDER:
        return INTEGER_ORDER.index(type_.kind) >= INTEGER_ORDER.index(own.kind)
    if type_.kind is TypeKind.DOUBLE:
        return own.kind in (TypeKind.FLOAT, *INTEGER_ORDER[:3])
    return own.kind is TypeKind.VARCHAR and type_.kind in (TypeKind.VARCHAR, TypeKind.NCHAR, TypeKind.JSON)


def check_series(statement: CreateExternalTable, tags: Sequence[Column]) -> tuple[str, ...]:
    """Return the tags that name the series: those of SERIES, else all."""
    types = {tag.name: tag.type for tag in tags}
    series = statement.series or tuple(types)
    for name in series:
        if name not in types:
            hint = did_you_mean(name, types, f"the tags are {', '.join(types)}")
            raise ProgrammingError(f"{name} is not a tag", hint=hint, span=statement.series_span)
        if types[name].kind not in SERIES_KINDS:
            message = f"tag {name} is {types[name]}, which cannot name a series"
            span = statement.series_span or next(tag.span for tag in tags if tag.name == name)
            raise TypeMismatchError(message, hint="SERIES (tag, …) takes texts and whole numbers", span=span)
    return series


def check_rule(statement: CreateExternalTable) -> OnChange:
    """Return what a commit that removes rows means. Of files that are gone there are no rows any more."""
    if statement.format.keeps_removed_files:
        return statement.on_change or OnChange.RECALCULATE
    if statement.on_change is OnChange.RECALCULATE:
        raise NotSupportedError(
            f"ON CHANGE RECALCULATE is not supported with {statement.format}: the rows of files that are gone are not known",
            hint="write ON CHANGE IGNORE or STOP",
            span=statement.name.span,
        )
    return statement.on_change or OnChange.IGNORE


def check_zone(statement: CreateExternalTable, database: Database) -> str:
    """Return the zone of times that have none."""
    zone = statement.timezone or database.timezone
    if find_zone(zone) is None:
        raise DataError(f"time zone {zone!r} does not exist", hint=ZONE_HINT, span=statement.time_span)
    return zone


def make_external_table(table: Table, source: ExternalSource, if_not_exists: bool, owner: Database | None = None) -> Stage:
    """Make an external table: our log of its files first if it has none, then its row in the catalog.

    With an `owner`, the database is created too, and its paths are those of the IoTDB language.
    """
    name, location = f"{table.database}.{table.name}", table.external.location if table.external is not None else ""

    def apply(session: SessionState) -> None:
        from headrace.runtime.table_maintenance import adopt_subtables

        catalog = session.context.catalog
        with catalog.lock(f"ddl {name if owner is None else owner.name}"):
            if owner is not None:
                catalog.databases.create(owner, if_not_exists=True)
            if catalog.tables.find(table.database, table.name) is not None and if_not_exists:
                return
            created = session.context.tables.create_external(table, source)
            catalog.tables.create(created)
        adopt_subtables(session.context, created)

    kind = f"{table.kind} table {name}" if owner is None else f"database {owner.name}"
    text = f"create external {kind}: {len(table.columns)} columns, {len(table.tags)} tags, read from {location}"
    creates = on_table(Action.CREATE, table) if owner is None else on_database(Action.CREATE, owner.name)
    return Stage((*globally(Privilege.USE_EXTERNAL), *creates), lambda: [text], apply)
