"""What rows need of their supertable: it is created, given columns and tags, and its texts are widened, by statements."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from headrace.doors.tdengine.schemaless.series import Series, Tag
from headrace.errors import ExistsError, LimitError, NotSupportedError, TypeMismatchError
from headrace.model.statements import AddColumn, CreateTable, ModifyColumn, Statement
from headrace.model.tables import Column, Database, Name, Table, TableKind
from headrace.model.types import MAX_LENGTHS, TIMESTAMP, DataType
from headrace.service.dispatch import plan
from headrace.service.topics.subtables import add_subtables
from headrace.storage.types import tags_schema
from headrace.storage.values.columns import stored_array
from headrace.storage.values.scalars import TimeContext, to_stored

if TYPE_CHECKING:
    from headrace.service.session import Session
    from headrace.service.stage import Stage

TIME_COLUMN: Final = "_ts"
MAX_CHANGES: Final = 5
"""Attempts to give a table what it lacks: another process may do the same at the same time."""


def prepare_table(
    session: Session, database: Database, name: str, types: Mapping[str, DataType], series: Sequence[Series]
) -> Table:
    """Return a supertable that has columns of these types, and the tags of these series, once it has them.

    Raises:
        TypeMismatchError: A column or a tag has another type.
        NotSupportedError: The table is none to which rows without a schema can be written.
        LimitError: A text is longer than TDengine's longest.
    """
    tags = tag_types(series)
    for type_ in (*types.values(), *tags.values()):
        check_length(type_)
    for attempt in range(MAX_CHANGES):
        table = session.context.catalog.tables.find(database.name, name)
        statements = [creation(database.name, name, types, tags)] if table is None else list(changes(table, types, tags))
        if table is not None and not statements:
            return table
        try:
            for statement in statements:
                session.run(plan(statement, session))
        except ExistsError:
            if attempt == MAX_CHANGES - 1:
                raise
    return session.context.catalog.tables.get(database.name, name)


def tag_types(series: Iterable[Series]) -> dict[str, DataType]:
    """Return the types of tags, with the lengths that their values need."""
    types: dict[str, DataType] = {}
    for tag in (tag for one in series for tag in one.tags):
        present = types.setdefault(tag.name, tag.type)
        if present.kind is not tag.type.kind:
            raise TypeMismatchError(f"the tag {tag.name} is {present.kind} and {tag.type.kind}", hint="send it with one type")
        types[tag.name] = wider(present, tag.type)
    return types


def wider(first: DataType, second: DataType) -> DataType:
    return first if first.length is None or first.length >= (second.length or 0) else second


def check_length(type_: DataType) -> None:
    longest = MAX_LENGTHS.get(type_.kind)
    if longest is not None and type_.length is not None and type_.length > longest:
        raise LimitError(f"a value has {type_.length} characters or bytes", hint=f"{type_.kind} holds at most {longest}")


def creation(database: str, name: str, types: Mapping[str, DataType], tags: Mapping[str, DataType]) -> CreateTable:
    columns = (Column(TIME_COLUMN, TIMESTAMP), *(Column(column, type_) for column, type_ in types.items()))
    return CreateTable(Name(database, name), columns, tuple(Column(tag, type_) for tag, type_ in tags.items()), if_not_exists=True)


def changes(table: Table, types: Mapping[str, DataType], tags: Mapping[str, DataType]) -> Iterator[Statement]:
    """Yield the statements that give a table what it lacks."""
    if table.kind is not TableKind.SUPER or table.is_virtual or table.key is not None:
        raise NotSupportedError(
            f"{table.name} is no supertable to which rows can be written without a schema",
            hint="use a supertable without a composite key, or INSERT",
        )
    name = Name(table.database, table.name)
    for is_tag, wanted in ((False, types), (True, tags)):
        for column, type_ in wanted.items():
            present = table.column(column)
            if present is None:
                yield AddColumn(name, Column(column, type_), is_tag, supertable=True)
            elif present.type.kind is not type_.kind or table.is_tag(column) is not is_tag:
                noun = "tag" if table.is_tag(column) else "column"
                raise TypeMismatchError(
                    f"{table.name} has a {noun} {column} of type {present.type.kind}, not a {'tag' if is_tag else 'column'} "
                    f"of type {type_.kind}",
                    hint="send values of its type",
                )
            elif wider(present.type, type_) is not present.type:
                yield ModifyColumn(name, replace(present, type=type_), is_tag, supertable=True)


def missing_subtables(session: Session, table: Table, database: Database, series: Mapping[str, Series]) -> Stage | None:
    """Return what creates the subtables that do not exist; None if all do."""
    catalog = session.context.catalog

    def find(names: Collection[str]) -> dict[str, bool]:
        wanted = list(names)
        missing = {*catalog.subtables.missing(database.name, wanted), *session.context.tables.tags.missing(table, wanted)}
        return {name: True for name in wanted if name not in missing}

    present = catalog.pins.get_each(("subtables", table.id), list(series), find, keeps_absence=False)
    missing = [name for name in series if name not in present]
    if not missing:
        return None
    context = TimeContext(session.context.clock.now(), database.timezone, database.precision)
    added = [one for name, one in series.items() if name in missing]
    values = [{tag.name: tag for tag in one.tags} for one in added]
    columns = {table.series_key: pa.array([one.subtable for one in added], pa.string())}
    for tag in table.tags:
        stored = [stored_tag(own.get(tag.name), tag, context) for own in values]
        columns[tag.name] = stored_array(stored, tags_schema(table, database).field(tag.name).type)
    return add_subtables(table, pa.table(columns, schema=tags_schema(table, database)))


def stored_tag(tag: Tag | None, column: Column, context: TimeContext) -> object:
    return None if tag is None or tag.value is None else to_stored(tag.value, column.type, context)
