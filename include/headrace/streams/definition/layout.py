"""The columns and tags of a stream's target, and what fills them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from headrace.compute import Key, Plan
from headrace.compute.terms import ColumnRole
from headrace.errors import ExistsError, InvalidStreamError, NotFoundError, TypeMismatchError
from headrace.model.expressions import Cast, ColumnRef, Expression, transform
from headrace.model.queries import Query, SelectItem
from headrace.model.statements import CreateStream, TargetColumn, TargetTag
from headrace.model.tables import Column, Table, TableKind
from headrace.model.types import INTEGERS, MAX_LENGTHS, DataType, TypeKind
from headrace.streams.definition.groups import GroupKind, GroupRule, KeyColumn, TagSource

GROUP_ID: Final = "group_id"
GROUP_ID_TYPE: Final = DataType(TypeKind.UBIGINT)
WSTART: Final = "_wstart"
KEY_KINDS: Final = (TypeKind.INT, TypeKind.UINT, TypeKind.BIGINT, TypeKind.UBIGINT, TypeKind.VARCHAR)


@dataclass(frozen=True, slots=True)
class TagFill:
    """A tag of the target and the expression over the source that fills it; None leaves it NULL."""

    tag: Column
    expression: Expression | None


@dataclass(frozen=True, slots=True)
class Layout:
    """A target and what fills it: for each output column of the query, in order, the target's column; and its tags.

    `id_tag` is the tag that takes the group's id; None if there is none.
    """

    table: Table
    columns: tuple[str, ...]
    tags: tuple[TagFill, ...]
    id_tag: str | None


def prepend_window_start(query: Query) -> Query:
    """Return a window query whose first item is the window's start, prepended if missing."""
    first = query.items[0].expression
    if query.window is None or (isinstance(first, ColumnRef) and first.name == WSTART):
        return query
    names = {item.name for item in query.items}
    alias = next(name for name in (WSTART, "ts", *(f"{WSTART}_{n}" for n in range(1, len(names) + 2))) if name not in names)
    items = (SelectItem(ColumnRef(WSTART), alias), *query.items)
    return replace(query, items=items)


def new_layout(statement: CreateStream, database: str, plan: Plan, prepended: bool) -> Layout:
    """Return the layout of a target that does not exist.

    Raises:
        InvalidStreamError: The column list or a type is invalid.
        ExistsError: Two columns, or a column and a tag, have the same name.
        NotFoundError: A tag is not in PARTITION BY.
    """
    names, key = column_names(statement, plan, prepended)
    columns = tuple(
        Column(name, column_type(output.type), is_key=number == 1 and key)
        for number, (name, output) in enumerate(zip(names, plan.outputs, strict=True))
    )
    tags, fills = new_tags(statement)
    check_distinct(statement, [*names, *(tag.name for tag in tags)])
    table = Table(database, statement.target.name, columns, tags)
    return Layout(table, names, fills, None if statement.tags is not None else GROUP_ID)


def column_names(statement: CreateStream, plan: Plan, prepended: bool) -> tuple[tuple[str, ...], bool]:
    """Return the names of the new target's columns, and whether the second one is a key."""
    outputs = tuple(output.name for output in plan.outputs)
    check_distinct(statement, outputs)
    keeps_key = source_key_name(plan) is not None and plan.window is None
    if statement.columns is None:
        return outputs, keeps_key
    listed = statement.columns
    if len(listed) != len(outputs) - prepended:
        raise InvalidStreamError(
            f"the column list has {len(listed)} columns, the query has {len(outputs) - prepended}",
            hint="name one column for each item of the select list",
            span=listed[0].span,
        )
    names = (*outputs[:prepended], *(column.name for column in listed))
    return names, check_keys(listed, prepended, plan) or keeps_key


def source_key_name(plan: Plan) -> str | None:
    """Return the name of the source's composite key column; None if it has none."""
    key = plan.scans[0].table.key
    return key.name if key is not None else None


def check_keys(listed: Sequence[TargetColumn], prepended: bool, plan: Plan) -> bool:
    """Return True if the second column is marked as key; raise if another one is."""
    for index, column in enumerate(listed):
        if column.is_key and index + prepended != 1:
            raise InvalidStreamError(
                f"the key column {column.name} is not the second column", hint="move it after the timestamp", span=column.span
            )
        if column.is_key and plan.outputs[1].type.kind not in KEY_KINDS:
            raise TypeMismatchError(
                f"{column.name} is {plan.outputs[1].type} and cannot be a key",
                hint="use INT, BIGINT, their UNSIGNED forms, or VARCHAR",
                span=column.span,
            )
    return any(column.is_key for column in listed)


def column_type(type_: DataType) -> DataType:
    """Return the column type for a result's type: strings get a length."""
    return DataType(type_.kind, MAX_LENGTHS[type_.kind]) if type_.kind in MAX_LENGTHS and type_.length is None else type_


def check_distinct(statement: CreateStream, names: Sequence[str]) -> None:
    """Raise `ExistsError` if a name occurs twice."""
    duplicate = next((name for index, name in enumerate(names) if name in names[:index]), None)
    if duplicate is not None:
        raise ExistsError(
            f"the target {statement.target.name} would have two columns named {duplicate}",
            hint="give one of them an alias",
            span=statement.target.span,
        )


def new_tags(statement: CreateStream) -> tuple[tuple[Column, ...], tuple[TagFill, ...]]:
    if statement.tags is None:
        return (Column(GROUP_ID, GROUP_ID_TYPE),), ()
    fills = []
    for tag in statement.tags:
        expression = tag_expression(statement.query, tag)
        if tag.column is None:
            raise InvalidStreamError(
                f"the tag {tag.name} of the new table {statement.target.name} has no type",
                hint=f"write TAGS ({tag.name} VARCHAR(64)), or create the table first",
                span=tag.span,
            )
        fills.append(TagFill(tag.column, expression))
    return tuple(fill.tag for fill in fills), tuple(fills)


def tag_expression(query: Query, tag: TargetTag) -> Expression | None:
    """Return the item of PARTITION BY that a tag is named after; None if there is no PARTITION BY."""
    if not query.partition_by:
        return None
    expression = find_partition_item(query, tag.name)
    if expression is None:
        names = ", ".join(item.name for item in query.partition_by)
        raise NotFoundError(
            f"the tag {tag.name} is not in PARTITION BY", hint=f"give one of these the alias {tag.name}: {names}", span=tag.span
        )
    return expression


def find_partition_item(query: Query, name: str) -> Expression | None:
    """Return the expression of PARTITION BY with this alias or column name; None if there is none."""
    return next((item.expression for item in query.partition_by if item.name == name), None)


def name_expression(statement: CreateStream) -> Expression | None:
    """Return the SUBTABLE expression over the source's columns, with aliases of PARTITION BY resolved.

    Raises:
        NotFoundError: It uses a column that is not in PARTITION BY.
    """
    query = statement.query

    def resolve(node: Expression) -> Expression | None:
        """Resolve a column reference."""
        if not isinstance(node, ColumnRef):
            return None
        expression = find_partition_item(query, node.name)
        if expression is None:
            raise NotFoundError(
                f"SUBTABLE uses {node.name}, which is not in PARTITION BY", hint="use its columns and aliases", span=node.span
            )
        return expression

    return None if statement.subtable is None else transform(statement.subtable, resolve)


def existing_layout(statement: CreateStream, table: Table, plan: Plan, prepended: bool) -> Layout:
    """Return the layout over a target that exists.

    Raises:
        InvalidStreamError: The target is not a supertable, or its columns or tags do not match.
        ExistsError: TAGS with types would create it again.
    """
    if table.kind is not TableKind.SUPER:
        raise InvalidStreamError(
            f"{table.name} is a plain table, not a supertable",
            hint="name another target, or one that does not exist yet",
            span=statement.target.span,
        )
    typed = next((tag for tag in statement.tags or () if tag.column is not None), None)
    if typed is not None:
        raise ExistsError(f"the table {table.name} exists already", hint="write TAGS with names only", span=typed.span)
    if table.key is None and plan.window is None and (key := source_key_name(plan)) is not None:
        raise InvalidStreamError(
            f"{table.name} has no key column for {key}, the key of the source: rows of one instant would replace each other",
            hint="name a target with a composite key, or one that does not exist yet",
            span=statement.target.span,
        )
    check_distinct(statement, [output.name for output in plan.outputs])
    columns = existing_columns(statement, table, plan, prepended)
    fills, id_tag = existing_tags(statement, table)
    return Layout(table, columns, fills, id_tag)


def existing_columns(statement: CreateStream, table: Table, plan: Plan, prepended: bool) -> tuple[str, ...]:
    """Return for each output the existing target's column: by position, or by the column list."""
    if statement.columns is None:
        if len(plan.outputs) != len(table.columns):
            raise column_count_error(statement, len(plan.outputs), f"the target has {len(table.columns)}")
        return tuple(column.name for column in table.columns)
    listed = tuple(column.name for column in statement.columns)
    if len(listed) != len(plan.outputs) - prepended:
        raise column_count_error(statement, len(plan.outputs) - prepended, f"the column list has {len(listed)}")
    check_distinct(statement, listed)
    for column in statement.columns:
        if not any(existing.name == column.name for existing in table.columns):
            raise NotFoundError(f"{table.name} has no column {column.name}", hint="see DESCRIBE", span=column.span)
    names = ((table.timestamp.name,) if prepended else ()) + listed
    required = (table.timestamp, *((table.key,) if table.key else ()))
    missing = next((column for column in required if column.name not in names), None)
    if missing is not None:
        raise InvalidStreamError(
            f"the column {missing.name} of {table.name} is required",
            hint="add it to the column list",
            span=statement.columns[0].span,
        )
    return names


def column_count_error(statement: CreateStream, count: int, expected: str) -> InvalidStreamError:
    return InvalidStreamError(
        f"the query has {count} columns, {expected}", hint="list the columns to fill: INTO t (a, b)", span=statement.target.span
    )


def existing_tags(statement: CreateStream, table: Table) -> tuple[tuple[TagFill, ...], str | None]:
    """Return how an existing target's tags are filled; tags that are not named stay NULL.

    Without TAGS, a single BIGINT UNSIGNED tag takes the id of the group, and others the values of PARTITION BY in their order.
    """
    if statement.tags is None:
        if not statement.query.partition_by:
            return tuple(TagFill(tag, None) for tag in table.tags), None
        if len(table.tags) == 1 and table.tags[0].type.kind is TypeKind.UBIGINT:
            return (), table.tags[0].name
        if len(table.tags) == len(statement.query.partition_by):
            pairs = zip(table.tags, statement.query.partition_by, strict=True)
            return tuple(TagFill(tag, item.expression) for tag, item in pairs), None
        count = len(statement.query.partition_by)
        raise InvalidStreamError(
            f"{table.name} has {len(table.tags)} tags, and PARTITION BY {count} value{'' if count == 1 else 's'}",
            hint="add TAGS (…), which names the tags to fill",
            span=statement.target.span,
        )
    named = {tag.name: tag for tag in statement.tags}
    unknown = next((tag for tag in statement.tags if not table.is_tag(tag.name)), None)
    if unknown is not None:
        raise NotFoundError(f"{table.name} has no tag {unknown.name}", hint="see DESCRIBE", span=unknown.span)
    fills = (TagFill(tag, tag_expression(statement.query, named[tag.name]) if tag.name in named else None) for tag in table.tags)
    return tuple(fills), None


def is_created_by(layout: Layout, table: Table) -> bool:
    has_same_columns = [column.name for column in layout.table.columns] == [column.name for column in table.columns]
    return has_same_columns and [tag.name for tag in layout.table.tags] == [tag.name for tag in table.tags]


def check_types(statement: CreateStream, new: Table, table: Table) -> None:
    """Refuse the target of a stream that is replaced if a column cannot hold all values of the new results."""
    for result, column in zip((*new.columns, *new.tags), (*table.columns, *table.tags), strict=True):
        if not can_hold(column.type, result.type):
            raise InvalidStreamError(
                f"the column {column.name} of {table.name} is {column.type}, the result is {result.type}",
                hint=f"use CAST(… AS {column.type}), or name another target",
                span=statement.target.span,
            )


def can_hold(column: DataType, result: DataType) -> bool:
    if column.kind in INTEGERS and result.kind in INTEGERS:
        low, high = column.integer_range()
        least, greatest = result.integer_range()
        return low <= least and greatest <= high
    if column.kind is TypeKind.DOUBLE and result.kind is TypeKind.FLOAT:
        return True
    return column.kind is result.kind and (column.length or 0) >= (result.length or 0) and column.scale == result.scale


def hidden_items(statement: CreateStream, layout: Layout) -> tuple[SelectItem, ...]:
    """Return the keys to add to the query: the SUBTABLE expression and the tags' values.

    They depend on the query's own keys, so they split no group.
    """
    values = (name_expression(statement), *(tag_value(fill) for fill in layout.tags))
    return tuple(SelectItem(value, alias=f"__{index}") for index, value in enumerate(values) if value is not None)


def tag_value(fill: TagFill) -> Expression | None:
    """Return the expression that fills a tag, converted for it; None if the tag stays NULL."""
    return None if fill.expression is None else Cast(fill.expression, fill.tag.type, column=fill.tag.name)


def define_groups(statement: CreateStream, layout: Layout, plan: Plan) -> GroupRule:
    items = list(dict.fromkeys(item.expression for item in (*statement.query.partition_by, *hidden_items(statement, layout))))
    keys = dict(zip(items, plan.keys, strict=False))
    subtable_expression = name_expression(statement)
    name = None if subtable_expression is None else keys[subtable_expression]
    if name is not None and not name.type.is_string:
        raise TypeMismatchError(
            f"SUBTABLE has the type {name.type}, not a string",
            hint="use CAST(… AS VARCHAR(64)) or concat",
            span=statement.target.span,
        )
    partition_keys = [keys[item.expression] for item in statement.query.partition_by]
    is_by_subtable = len(partition_keys) == 1 and partition_keys[0].role is ColumnRole.SERIES
    return GroupRule(
        kind=GroupKind.ONE if not partition_keys else GroupKind.SUBTABLE if is_by_subtable else GroupKind.VALUES,
        database=layout.table.database,
        table=layout.table.name,
        keys=tuple(
            KeyColumn(key.column, key.type, item.name)
            for key, item in zip(partition_keys, statement.query.partition_by, strict=True)
        ),
        name=None if name is None else name.column,
        tags=tuple(TagSource(fill.tag.name, fill.tag.type, find_tag_column(fill, keys)) for fill in layout.tags),
        id_tag=layout.id_tag,
    )


def find_tag_column(fill: TagFill, keys: Mapping[Expression, Key]) -> str | None:
    """Return the key column that holds a tag's values; None if the tag stays NULL."""
    value = tag_value(fill)
    return None if value is None else keys[value].column
