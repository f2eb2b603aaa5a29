"""The target's side of a stream: which columns and tags it has or gets, and what fills them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from headrace.compute import Plan
from headrace.errors import ExistsError, InvalidStreamError, NotFoundError, TypeMismatchError
from headrace.model.expressions import Cast, ColumnRef, Expression, transform
from headrace.model.queries import Query, SelectItem
from headrace.model.statements import CreateStream, TargetColumn, TargetTag
from headrace.model.tables import Column, Table, TableKind
from headrace.model.types import DataType, TypeKind

GROUP_ID: Final = "group_id"
IDENTITY: Final = DataType(TypeKind.UBIGINT)
WSTART: Final = "_wstart"
KEY_KINDS: Final = (TypeKind.INT, TypeKind.UINT, TypeKind.BIGINT, TypeKind.UBIGINT, TypeKind.VARCHAR)
LONGEST: Final = {TypeKind.VARCHAR: 65_517, TypeKind.VARBINARY: 65_517, TypeKind.NCHAR: 16_379}
"""Lengths of columns where the result's type tells none."""


@dataclass(frozen=True, slots=True)
class TagFill:
    """A tag of the target and the expression over the source that fills it; None leaves it NULL."""

    tag: Column
    expression: Expression | None


@dataclass(frozen=True, slots=True)
class Layout:
    """A target and what fills it: for each output column of the query the target's column, in order; its tags.

    `id_tag` takes the group's id.
    """

    table: Table
    columns: tuple[str, ...]
    tags: tuple[TagFill, ...]
    id_tag: str | None


def with_start(query: Query) -> Query:
    """A window query whose first item is the window's start; it is put there where it is not."""
    first = query.items[0].expression
    if query.window is None or (isinstance(first, ColumnRef) and first.name == WSTART):
        return query
    names = {item.name for item in query.items}
    alias = next(name for name in (WSTART, "ts", *(f"{WSTART}_{n}" for n in range(1, len(names) + 2))) if name not in names)
    items = (SelectItem(ColumnRef(WSTART), alias), *query.items)
    return replace(query, items=items)


def new_layout(statement: CreateStream, database: str, plan: Plan, prepended: bool) -> Layout:
    """The layout of a target that does not exist.

    Raises:
        InvalidStreamError: the column list or a type is invalid.
        ExistsError: two columns, or a column and a tag, have the same name.
        NotFoundError: a tag is none of PARTITION BY.
    """
    names, key = column_names(statement, plan, prepended)
    columns = tuple(
        Column(name, stored(output.type), is_key=number == 1 and key)
        for number, (name, output) in enumerate(zip(names, plan.outputs, strict=True))
    )
    tags, fills = new_tags(statement)
    distinct(statement, [*names, *(tag.name for tag in tags)])
    table = Table(database, statement.target.name, columns, tags)
    return Layout(table, names, fills, None if statement.tags is not None else GROUP_ID)


def column_names(statement: CreateStream, plan: Plan, prepended: bool) -> tuple[tuple[str, ...], bool]:
    """Names of the new target's columns, and whether the second one is a key."""
    own = tuple(output.name for output in plan.outputs)
    distinct(statement, own)
    if statement.columns is None:
        source_key = keyed_source(plan)
        return own, source_key is not None and plan.window is None
    given = statement.columns
    if len(given) != len(own) - prepended:
        raise InvalidStreamError(
            f"{len(given)} columns are listed for {len(own) - prepended} columns of the query",
            hint="name one for each item of the select list",
            span=given[0].span,
        )
    names = (*own[:prepended], *(column.name for column in given))
    return names, check_keys(given, prepended, plan)


def keyed_source(plan: Plan) -> str | None:
    """The composite key column of the source, where it has one."""
    key = plan.scans[0].table.key
    return key.name if key is not None else None


def check_keys(given: Sequence[TargetColumn], prepended: bool, plan: Plan) -> bool:
    """Whether the second column is marked as key; no other may be."""
    for place, column in enumerate(given):
        if column.is_key and place + prepended != 1:
            raise InvalidStreamError(
                f"the key column {column.name} is not the second column", hint="the key follows the timestamp", span=column.span
            )
        if column.is_key and plan.outputs[1].type.kind not in KEY_KINDS:
            raise TypeMismatchError(
                f"{column.name} is {plan.outputs[1].type} and cannot be a key",
                hint="keys are INT, BIGINT, their UNSIGNED forms, or VARCHAR",
                span=column.span,
            )
    return any(column.is_key for column in given)


def stored(type_: DataType) -> DataType:
    """A result's type as a column's: text has a length there."""
    return DataType(type_.kind, LONGEST[type_.kind]) if type_.kind in LONGEST and type_.length is None else type_


def distinct(statement: CreateStream, names: Sequence[str]) -> None:
    """Refuse names that occur twice."""
    twice = next((name for number, name in enumerate(names) if name in names[:number]), None)
    if twice is not None:
        raise ExistsError(
            f"the target {statement.target.name} would have two columns named {twice}",
            hint="give one of them an alias",
            span=statement.target.span,
        )


def new_tags(statement: CreateStream) -> tuple[tuple[Column, ...], tuple[TagFill, ...]]:
    """Tags of a new target, with what fills them."""
    if statement.tags is None:
        return (Column(GROUP_ID, IDENTITY),), ()
    fills = []
    for tag in statement.tags:
        expression = tag_expression(statement.query, tag)
        if tag.column is None:
            raise InvalidStreamError(
                f"the tag {tag.name} of the new table {statement.target.name} has no type",
                hint=f"write TAGS ({tag.name} VARCHAR(64)), or create the table before",
                span=tag.span,
            )
        fills.append(TagFill(tag.column, expression))
    return tuple(fill.tag for fill in fills), tuple(fills)


def tag_expression(query: Query, tag: TargetTag) -> Expression | None:
    """The item of PARTITION BY that a tag is named after; None where nothing is partitioned."""
    if not query.partition_by:
        return None
    found = partition_item(query, tag.name)
    if found is None:
        names = ", ".join(item.name for item in query.partition_by)
        raise NotFoundError(
            f"the tag {tag.name} is none of PARTITION BY", hint=f"there are: {names}; give one of them that alias", span=tag.span
        )
    return found


def partition_item(query: Query, name: str) -> Expression | None:
    """The expression of PARTITION BY with this alias or column name."""
    return next((item.expression for item in query.partition_by if item.name == name), None)


def name_expression(statement: CreateStream) -> Expression | None:
    """The SUBTABLE expression over the source: aliases of PARTITION BY put in.

    Raises:
        NotFoundError: it names a column that is none of PARTITION BY.
    """
    query = statement.query

    def change(node: Expression) -> Expression | None:
        if not isinstance(node, ColumnRef):
            return None
        found = partition_item(query, node.name)
        if found is None:
            raise NotFoundError(
                f"SUBTABLE names {node.name}, which is none of PARTITION BY", hint="use its columns and aliases", span=node.span
            )
        return found

    return None if statement.subtable is None else transform(statement.subtable, change)


def existing_layout(statement: CreateStream, table: Table, plan: Plan, prepended: bool) -> Layout:
    """The layout over a target that exists.

    Raises:
        InvalidStreamError: it is no supertable, or columns or tags do not fit.
        ExistsError: TAGS with types would create it again.
    """
    if table.kind is not TableKind.SUPER:
        raise InvalidStreamError(
            f"{table.name} is a plain table, and a stream writes to supertables",
            hint="name another target, or one that does not exist yet",
            span=statement.target.span,
        )
    typed = next((tag for tag in statement.tags or () if tag.column is not None), None)
    if typed is not None:
        raise ExistsError(f"the table {table.name} exists already", hint="write TAGS with names alone", span=typed.span)
    distinct(statement, [output.name for output in plan.outputs])
    columns = existing_columns(statement, table, plan, prepended)
    fills, id_tag = existing_tags(statement, table)
    return Layout(table, columns, fills, id_tag)


def existing_columns(statement: CreateStream, table: Table, plan: Plan, prepended: bool) -> tuple[str, ...]:
    """For each output the existing target's column: by position, or as the column list says."""
    if statement.columns is None:
        if len(plan.outputs) != len(table.columns):
            raise miscounted(statement, len(plan.outputs), f"the target has {len(table.columns)}")
        return tuple(column.name for column in table.columns)
    given = tuple(column.name for column in statement.columns)
    if len(given) != len(plan.outputs) - prepended:
        raise miscounted(statement, len(plan.outputs) - prepended, f"{len(given)} are listed")
    distinct(statement, given)
    for column in statement.columns:
        if not any(own.name == column.name for own in table.columns):
            raise NotFoundError(f"{table.name} has no column {column.name}", hint="see DESCRIBE", span=column.span)
    names = ((table.timestamp.name,) if prepended else ()) + given
    required = (table.timestamp, *((table.key,) if table.key else ()))
    missing = next((column for column in required if column.name not in names), None)
    if missing is not None:
        raise InvalidStreamError(
            f"the column {missing.name} of {table.name} cannot stay empty", hint="list it", span=statement.columns[0].span
        )
    return names


def miscounted(statement: CreateStream, have: int, other: str) -> InvalidStreamError:
    return InvalidStreamError(
        f"the query gives {have} columns, {other}", hint="list the columns to fill: INTO t (a, b)", span=statement.target.span
    )


def existing_tags(statement: CreateStream, table: Table) -> tuple[tuple[TagFill, ...], str | None]:
    """How an existing target's tags are filled; those not named stay NULL."""
    if statement.tags is None:
        if not statement.query.partition_by:
            return tuple(TagFill(tag, None) for tag in table.tags), None
        if len(table.tags) == 1 and table.tags[0].type.kind is TypeKind.UBIGINT:
            return (), table.tags[0].name
        raise InvalidStreamError(
            f"nothing says how the tags of {table.name} are filled", hint="add TAGS (…)", span=statement.target.span
        )
    named = {tag.name: tag for tag in statement.tags}
    unknown = next((tag for tag in statement.tags if not table.is_tag(tag.name)), None)
    if unknown is not None:
        raise NotFoundError(f"{table.name} has no tag {unknown.name}", hint="see DESCRIBE", span=unknown.span)
    fills = (TagFill(tag, tag_expression(statement.query, named[tag.name]) if tag.name in named else None) for tag in table.tags)
    return tuple(fills), None


def created_by(layout: Layout, table: Table) -> bool:
    """Whether a table is the one that a layout creates."""
    names = [column.name for column in layout.table.columns] == [column.name for column in table.columns]
    return names and [tag.name for tag in layout.table.tags] == [tag.name for tag in table.tags]


def hidden_items(statement: CreateStream, layout: Layout) -> tuple[SelectItem, ...]:
    """Keys to add to the query: the SUBTABLE expression and the tags' values. They follow from its own keys, so split nothing."""
    values = (name_expression(statement), *(tag_value(fill) for fill in layout.tags))
    return tuple(SelectItem(value, alias=f"__{place}") for place, value in enumerate(values) if value is not None)


def tag_value(fill: TagFill) -> Expression | None:
    """What fills a tag, as the tag's type."""
    return None if fill.expression is None else Cast(fill.expression, fill.tag.type)
