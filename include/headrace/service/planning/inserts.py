"""Plan INSERT … SELECT and INSERT … FILE."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from headrace.compute import AnyPlan
from headrace.errors import NotFoundError, NotSupportedError, ProgrammingError, TypeMismatchError
from headrace.model.queries import Query, Union
from headrace.model.spans import Span
from headrace.model.statements import FileBlock, InsertFiles, InsertSelect
from headrace.model.tables import Name, Table
from headrace.model.types import TypeKind
from headrace.queries.insertion import InsertTarget
from headrace.service import work_stages
from headrace.service.names import find_writable_table
from headrace.service.planning.rows import find_owner, find_subtables, make_subtables, qualify_name, specs_without_tags
from headrace.service.stage import Stage
from headrace.service.state import PlanningContext
from headrace.service.topics.queries import bind_query, reads_system_tables
from headrace.storage.loading.inserted import InsertedFile


def insert_select(statement: InsertSelect, session: PlanningContext) -> list[Stage]:
    """Plan INSERT … SELECT: evaluate the query and write its rows in one commit."""
    if reads_system_tables(statement.query):
        raise NotSupportedError(
            "inserting from system tables is not supported", hint="select from tables", span=statement.query_span
        )
    subtable = find_subtables([statement.table], session).get(qualify_name(statement.table, session))
    owner = find_owner(statement.table, statement.columns, None, subtable, session)
    table, database = find_writable_table(owner, session)
    columns = statement.columns or tuple(column.name for column in table.columns)
    by_name = subtable is None and table.series_key in columns
    check_columns(table, columns, statement.column_span or statement.table.span, by_name=by_name)
    plan = bind_query(statement.query, session)
    spans = item_spans(statement.query, len(plan.outputs))
    target = InsertTarget(table, database, columns, None if subtable is None or by_name else subtable.name, spans)
    check_outputs(target, plan, statement.query_span)
    return [work_stages.InsertQuery(target, plan)]


def check_columns(table: Table, columns: tuple[str, ...], span: Span | None, *, by_name: bool) -> None:
    """Check that columns exist, are distinct, and include the key."""
    own = [column.name for column in table.columns]
    for index, name in enumerate(columns):
        if name not in own and not (by_name and name == table.series_key):
            kind = "a tag, not a column" if table.is_tag(name) else "no column"
            raise NotFoundError(f"{name} is {kind} of {table.name}", hint=f"its columns are {', '.join(own)}", span=span)
        if name in columns[:index]:
            raise ProgrammingError(f"the column {name} is named twice", hint="name each column once", span=span)
    for key in (table.timestamp, *((table.key,) if table.key else ())):
        if key.name not in columns:
            raise ProgrammingError(
                f"the column {key.name} of {table.name} is required: it is part of the key of every row",
                hint=f"add {key.name} to the columns",
                span=span,
            )


def item_spans(query: Query | Union, count: int) -> tuple[Span | None, ...]:
    """Return the position of the expression behind each output; None where `*` hides it."""
    while isinstance(query, Union):
        query = query.left
    spans = tuple(item.expression.span for item in query.items)
    return spans if len(spans) == count else (None,) * count


def check_outputs(target: InsertTarget, plan: AnyPlan, span: Span | None) -> None:
    """Check that the query has a column for each of the target's, of a type that can be converted."""
    if len(plan.outputs) != len(target.columns):
        raise ProgrammingError(
            f"the query has {len(plan.outputs)} columns, {target.table.name} takes {len(target.columns)}",
            hint=f"select one for each of {', '.join(target.columns)}",
            span=span,
        )
    for name, output, own in zip(target.columns, plan.outputs, target.spans, strict=True):
        column = target.column(name)
        if (output.type.kind is TypeKind.TIMESTAMP) and column.type.kind is not TypeKind.TIMESTAMP:
            raise TypeMismatchError(
                f"{output.name} is a TIMESTAMP, {name} is {column.type}",
                hint=f"use CAST(… AS {column.type})",
                span=own or span,
            )


def insert_files(statement: InsertFiles, session: PlanningContext) -> list[Stage]:
    """Plan INSERT … FILE: create missing subtables with their tags, and load all files in one commit."""
    for block in statement.blocks:
        check_local_file(block.path, block.span, "INSERT … FILE", session)
    subtables = find_subtables([block.table for block in statement.blocks], session)
    first: Name | None = None
    files = []
    specs = []
    for block in statement.blocks:
        subtable = subtables.get(qualify_name(block.table, session))
        owner = find_owner(block.table, block.columns or file_columns(block), block.using, subtable, session)
        first = first or owner
        if owner != first:
            raise NotSupportedError(
                f"files for {first.name} and {owner.name} in one statement are not supported",
                hint="write a statement for each supertable",
                span=block.table.span,
            )
        if block.using is not None:
            specs.append((subtable, replace(block.using, name=block.table)))
        is_subtable = subtable is not None or block.using is not None
        files.append(InsertedFile(Path(block.path), block.table.name if is_subtable else None, block.columns, block.span))
    assert first is not None
    table, database = find_writable_table(first, session)
    missing = [spec for subtable, spec in specs if subtable is None]
    missing += specs_without_tags([spec for subtable, spec in specs if subtable is not None], table, session)
    unique = list({spec.name: spec for spec in reversed(missing)}.values())[::-1]
    creations: list[Stage] = [make_subtables(first, unique, session)] if unique else []
    return [*creations, work_stages.InsertFiles(table, database, tuple(files))]


def file_columns(block: FileBlock) -> tuple[str, ...] | None:
    """Return the names in a file's first line, if it is one of names; a supertable takes files that name the subtables."""
    path = Path(block.path)
    if path.suffix.lower() != ".csv" or not path.is_file():
        return None
    with path.open(encoding="utf-8", errors="replace") as stream:
        return tuple(name.strip().lower() for name in stream.readline().split(","))


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
