"""INSERT … SELECT and INSERT … FILE."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from headrace.compute import AnyPlan, Plan
from headrace.compute.assignment import assign_rows
from headrace.compute.language import language
from headrace.errors import NotFoundError, NotSupportedError, ProgrammingError
from headrace.model.queries import Query, Union
from headrace.model.spans import Span
from headrace.model.statements import FileBlock, InsertFiles, InsertSelect
from headrace.model.tables import Database, Name, Table
from headrace.queries.insertion import InsertTarget
from headrace.service.describing import explain_plan
from headrace.service.names import find_writable_table
from headrace.service.results import Result
from headrace.service.rights import Action, on_table, read_rights
from headrace.service.stage import PlanningContext, SessionState, Stage
from headrace.service.system_queries import reads_system_tables
from headrace.service.topics.queries import bind_query
from headrace.service.topics.rows import drop_duplicate_names, find_owner
from headrace.service.topics.subtables import (
    check_local_file,
    create_missing,
    find_subtables,
    make_subtables,
    qualify_name,
    specs_without_tags,
)
from headrace.storage.loading.inserted import InsertedFile
from headrace.storage.loading.lines import first_line, line_end


def plan_insert_select(statement: InsertSelect, session: PlanningContext) -> list[Stage]:
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
    with target.spanned(statement.query_span):
        rows = assign_rows(plan, [target.column(name) for name in columns], language(session.dialect))
    return [write_query(target, plan, rows)]


def write_query(target: InsertTarget, plan: AnyPlan, rows: Plan) -> Stage:
    """Write the result of a query, as `rows` converts it to a table and its columns, all or nothing, in one commit."""

    def apply(session: SessionState) -> Result:
        from headrace.queries.insertion import insert_query

        return Result(affected=insert_query(rows, target, session.context))

    name = f"{target.table.database}.{target.subtable or target.table.name}"
    head = f"write the rows of a query to {name} (columns {', '.join(target.columns)}), one commit"
    rights = (*on_table(Action.WRITE, target.table), *read_rights(plan))
    return Stage(rights, lambda: [head, *explain_plan(plan)], apply)


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
    """Check that the query has a column for each of the target's."""
    if len(plan.outputs) != len(target.columns):
        raise ProgrammingError(
            f"the query has {len(plan.outputs)} columns, {target.table.name} takes {len(target.columns)}",
            hint=f"select one for each of {', '.join(target.columns)}",
            span=span,
        )


def plan_insert_files(statement: InsertFiles, session: PlanningContext) -> list[Stage]:
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
    creations: list[Stage] = [make_subtables(first, drop_duplicate_names(missing), session)] if missing else []
    return [*creations, write_files(table, database, files)]


def write_files(table: Table, database: Database, files: Sequence[InsertedFile]) -> Stage:
    """Load the files of an INSERT into subtables of one table, all or nothing, in one commit."""

    def apply(session: SessionState) -> Result:
        context = session.context
        loader = context.tables.loader(context.spark, table, database)
        loaded = loader.insert(files, context.clock.now(), lambda tags: create_missing(context, table, database, tags))
        return Result(affected=loaded.written, read=loaded.read)

    names = ", ".join(file.path.name for file in files)
    described = f"load {names} into {table.database}.{table.name}, one commit"
    return Stage(on_table(Action.WRITE, table), lambda: [described], apply)


def file_columns(block: FileBlock) -> tuple[str, ...] | None:
    """Return the names in a file's first line, if it is one of names; a supertable takes files that name the subtables."""
    path = Path(block.path)
    if path.suffix.lower() != ".csv" or not path.is_file():
        return None
    line, _ = first_line(path, line_end(path))
    return tuple(name.strip().lower() for name in line.split(","))
