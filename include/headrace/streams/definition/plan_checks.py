"""Checks of a stream that need its plan: resolved names, types, and the columns of its target."""

from __future__ import annotations

from typing import Final

from headrace.compute import Language, Plan, Relation
from headrace.errors import InvalidStreamError
from headrace.model.expressions import ColumnRef, Star
from headrace.model.queries import FillMode, IntervalClause, Query
from headrace.model.statements import CreateStream
from headrace.model.tables import Database
from headrace.model.types import TypeKind
from headrace.streams.definition.layout import Layout

WINDOW_BOUNDS: Final = ("_wstart", "_wend")


def check_plan(plan: Plan, statement: CreateStream, source: Relation, language: Language) -> None:
    """Check what depends on resolved names: types, and the first columns of the result."""
    first = plan.outputs[0]
    if first.type.kind is not TypeKind.TIMESTAMP or (
        plan.window is None and plan.interp is None and not is_timestamp_first(statement.query, source, language)
    ):
        raise InvalidStreamError(
            f"the first column of the result is not the timestamp {source.table.timestamp.name}",
            hint=f"select {source.table.timestamp.name} first",
            span=statement.query.items[0].expression.span or statement.query.span,
        )
    if plan.window is None and plan.aggregated:
        raise InvalidStreamError(
            "aggregates need a window in a stream", hint="add INTERVAL, or select only columns", span=statement.query.span
        )
    key = source.table.key
    if plan.window is None and key is not None and not (len(plan.outputs) > 1 and is_column_at(statement.query, 1, key.name)):
        raise InvalidStreamError(
            f"the second column of the result is not {key.name}, the key of {source.table.name}",
            hint=f"select {source.table.timestamp.name}, {key.name}, …",
            span=statement.query.span,
        )


def check_virtual_source(plan: Plan, statement: CreateStream) -> None:
    """Reject a virtual table of which no column that the query reads comes from a stored table."""
    scan = plan.scans[0]
    if scan.table.is_virtual and not scan.references_read:
        raise InvalidStreamError(
            f"no column of the virtual table {scan.table.name} that the query reads comes from another table",
            hint=f"see SHOW CREATE VTABLE, and ALTER VTABLE {scan.subtable or scan.table.name} ALTER COLUMN … SET table.column",
            span=statement.query.span,
        )


def check_precision(plan: Plan, query: Query, target: Database, statement: CreateStream) -> None:
    """Refuse a target whose precision is too coarse for the timestamps of the results: rows would replace each other.

    The bounds of an INTERVAL fit if its length, offset and step are whole ticks of the target.
    """
    tick = target.precision.nanoseconds
    if tick <= plan.precision.nanoseconds:
        return
    window = query.window
    fits = isinstance(window, IntervalClause) and all(
        length is None or length.is_calendar or length.nanoseconds % tick == 0
        for length in (window.length, window.offset, window.sliding)
    )
    for item, output in zip(query.items, plan.outputs, strict=False):
        is_bound = isinstance(item.expression, ColumnRef) and item.expression.name in WINDOW_BOUNDS
        if output.type.kind is TypeKind.TIMESTAMP and not (fits and is_bound):
            raise InvalidStreamError(
                f"{output.name} may have fractions of a {target.precision}, which the database {target.name} does not store",
                hint=f"name a target in a database of precision '{plan.precision}'",
                span=item.expression.span or statement.target.span,
            )


def is_timestamp_first(query: Query, source: Relation, language: Language) -> bool:
    return any(is_column_at(query, 0, name) for name in (source.table.timestamp.name, *language.pseudo_columns.row_time))


def is_column_at(query: Query, index: int, name: str) -> bool:
    """Return True if the item at an index of the select list is this column; `*` has all columns in their order."""
    first = query.items[0].expression
    if isinstance(first, Star):
        return True
    expression = query.items[index].expression if index < len(query.items) else first
    return isinstance(expression, ColumnRef) and expression.name == name


def check_filled_key(statement: CreateStream, layout: Layout, plan: Plan) -> None:
    """Reject a FILL that leaves the key of the target empty."""
    fill, key = plan.fill, layout.table.key
    if fill is None or key is None:
        return
    output = next(output for output, name in zip(plan.outputs, layout.columns, strict=True) if name == key.name)
    has_line = fill.mode is FillMode.LINEAR and output.type.is_number
    if output.is_filled and not has_line and fill.mode in (FillMode.NULL, FillMode.NULL_F, FillMode.LINEAR):
        raise InvalidStreamError(
            f"FILL({fill.mode}) leaves {key.name} empty, which is part of the key of {layout.table.name}",
            hint="use PREV, NEXT or VALUE",
            span=statement.query.fill.span if statement.query.fill else None,
        )
