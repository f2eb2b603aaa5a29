"""The columns of a result: outputs of the select list, constants of FILL, and sort columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from headrace.compute.binding.binder import Binder
from headrace.compute.binding.environment import SourceColumn
from headrace.compute.binding.resolvers import GroupResolver
from headrace.compute.language import Language
from headrace.compute.nodes import FALSE, NULL, Node, call
from headrace.compute.plan_clauses import Output, Sort
from headrace.errors import LimitError, ProgrammingError
from headrace.model.expressions import Call, ColumnRef, Literal
from headrace.model.queries import FillClause, Ordering, SelectItem
from headrace.model.spans import Span
from headrace.model.types import BOOL, DataType, TypeKind


def resolve_position(item: SelectItem, items: tuple[SelectItem, ...]) -> SelectItem:
    """Replace a position in PARTITION BY or GROUP BY by the item of the select list there."""
    match item.expression:
        case Literal(value=int(position), span=span) if not isinstance(position, bool):
            if not 1 <= position <= len(items):
                raise LimitError(f"position {position}: the select list has {len(items)} columns", span=span)
            selected = items[position - 1]
            return replace(selected, alias=item.alias or selected.alias)
        case _:
            return item


def make_output(binder: Binder, number: int, item: SelectItem) -> Output:
    if isinstance(binder.resolver, GroupResolver):
        binder.resolver.depends_on_rows = False
    term = binder.bind(item.expression)
    # As a value, a comparison with NULL is false. As a condition it stays NULL, so that NOT does not let the row through.
    is_test = isinstance(item.expression, Call) and item.expression.function in binder.language.nulls.shown_false
    node = call("coalesce", term.node, FALSE) if is_test else term.node
    is_filled = isinstance(binder.resolver, GroupResolver) and binder.resolver.depends_on_rows
    role = None if is_test else term.role
    return Output(f"o{number}", binder.language.column_name(item), node, term.type or BOOL, is_filled, role)


def bind_fill_values(fill: FillClause, binder: Binder, outputs: tuple[Output, ...], hidden: tuple[Output, ...]) -> tuple[Node, ...]:
    """Bind the constants of FILL(VALUE, …), one per output of the select list that depends on rows."""
    filled = [output for output in outputs if output.is_filled]
    names = ", ".join(output.name for output in filled)
    hint = f"give one value for each of {names}" if names else "no column of the select list depends on rows"
    constants = cast_fill_values(fill, binder, [output.type for output in filled], "columns", hint)
    return (*constants, *(NULL for output in hidden if output.is_filled))


def cast_fill_values(fill: FillClause, binder: Binder, types: Sequence[DataType], what: str, hint: str) -> tuple[Node, ...]:
    """Bind the constants of FILL(VALUE, …) and cast them to the types of what they fill, which must be as many."""
    if len(fill.values) != len(types):
        surplus = next(iter(fill.values[len(types) :]), fill)
        raise ProgrammingError(f"FILL has {len(fill.values)} values for {len(types)} {what}", hint=hint, span=surplus.span)
    cast, context = binder.language.operators.cast, binder.expression_context
    return tuple(cast(binder.bind(node), type_, context).node for node, type_ in zip(fill.values, types, strict=True))


def star_item(column: SourceColumn, span: Span | None) -> SelectItem:
    return SelectItem(ColumnRef(column.name, column.qualifier, span), column.name, column.name)


def make_sort(ordering: Ordering, output: Output, language: Language) -> Sort:
    """Return a sort by an output, with NULLs where the language puts them unless the query says otherwise."""
    lowest = ordering.descending != language.nulls.sorts_lowest
    nulls_first = lowest if ordering.nulls_first is None else ordering.nulls_first
    orders_zeros = language.orders_zeros and output.type.kind in (TypeKind.FLOAT, TypeKind.DOUBLE)
    return Sort(output.column, ordering.descending, nulls_first, orders_zeros)


def find_sorted_output(ordering: Ordering, items: tuple[SelectItem, ...], outputs: tuple[Output, ...]) -> str | None:
    """Return the output column that an ORDER BY item refers to by position, alias or expression, or None."""
    node = ordering.expression
    match node:
        case Literal(value=int(position), span=span) if not isinstance(position, bool):
            if not 1 <= position <= len(outputs):
                raise LimitError(f"ORDER BY {position}: the select list has {len(outputs)} columns", span=span)
            return outputs[position - 1].column
        case ColumnRef(name=name, table=None):
            aliased = [result.column for item, result in zip(items, outputs, strict=True) if item.alias == name]
            if aliased:
                return aliased[0]
    return next((result.column for item, result in zip(items, outputs, strict=True) if item.expression == node), None)
