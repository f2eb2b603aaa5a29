"""Queries whose results fill the columns of a table: values are converted as `CAST` does; what a column cannot hold is an error."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from headrace.compute import nodes
from headrace.compute.columnar.expressions import evaluate, type_of
from headrace.compute.expression_context import ExpressionContext
from headrace.compute.language import Language
from headrace.compute.nodes import Operation, UnsupportedError
from headrace.compute.plan import AnyPlan, Plan, RowIdentity, UnionPlan
from headrace.compute.plan_clauses import Key, Output
from headrace.compute.plan_sources import OneRow
from headrace.compute.terms import Term
from headrace.compute.types import is_text
from headrace.errors import TypeMismatchError
from headrace.model.tables import Column
from headrace.model.types import BIGINT, TypeKind


def assign_outputs(plan: Plan, columns: Sequence[Column], language: Language) -> Plan:
    """Return a plan whose outputs, and constants of FILL, are converted for columns, one for each of the first outputs.

    Those that follow, such as what notifications say of windows, go to no column.

    Raises:
        TypeMismatchError: No value of an output can be converted for its column.
        DataError: A column cannot hold a constant of FILL.
    """
    context = ExpressionContext(plan.precision, plan.timezone)

    def assign(term: Term, column: Column) -> Term:
        assert language.operators.assign is not None
        try:
            return language.operators.assign(term, column.type, column.name, context)
        except TypeMismatchError as error:
            message = f"the column {column.name} is {column.type}, the result is {term.type}"
            raise TypeMismatchError(message, hint=f"name another column, or convert it: {error.message}") from None

    assigned, others = plan.outputs[: len(columns)], plan.outputs[len(columns) :]
    pairs = list(zip(assigned, columns, strict=True))
    terms = [assign(Term(output.node, output.type), column) for output, column in pairs]
    outputs = tuple(
        replace(output, node=term.node, type=term.type or output.type) for output, term in zip(assigned, terms, strict=True)
    )
    converted = replace(plan, outputs=(*outputs, *others))
    window = plan.interval
    if window is None or window.fill is None or not window.fill.values:
        return converted
    constants = window.fill.values
    filled = [pair for pair in pairs if pair[0].is_filled]
    values = [assign(Term(value, output.type), column).node for value, (output, column) in zip(constants, filled, strict=False)]
    for value in values:
        with suppress(UnsupportedError):
            type_of(value, {})
            evaluate(value, {})
    fill = replace(window.fill, values=(*values, *constants[len(values) :]))
    return replace(converted, selection=replace(plan.groups, window=replace(window, fill=fill)))


def assign_rows(plan: AnyPlan, columns: Sequence[Column], language: Language) -> Plan:
    """Return a plan whose outputs are those of a whole query, sorted, filled and limited, converted for columns.

    Numbers for a TIMESTAMP become BIGINT and text remains: only the table knows which instant ticks and local times are.

    Raises:
        TypeMismatchError: No value of an output can be converted for its column.
    """
    if not (isinstance(plan, Plan) and isinstance(plan.source, OneRow)):
        outputs = tuple(Output(output.column, output.name, nodes.Column(output.column), output.type) for output in plan.outputs)
        first = plan
        while isinstance(first, UnionPlan):
            first = first.left
        plan = Plan(first.query, plan, plan.precision, plan.timezone, first.now, RowIdentity(), None, outputs=outputs)
    return assign_outputs(plan, [as_ticks(column, output) for column, output in zip(columns, plan.outputs, strict=True)], language)


def as_ticks(column: Column, output: Output) -> Column:
    """Return the column that the values of an output are converted for."""
    if column.type.kind is not TypeKind.TIMESTAMP or output.type.kind is TypeKind.TIMESTAMP:
        return column
    return replace(column, type=output.type if is_text(output.type) else BIGINT)


def is_converted(value: Output | Key) -> bool:
    """Return whether values are converted for a column of another type."""
    return isinstance(value.node, Operation) and value.node.name == "assigned"
