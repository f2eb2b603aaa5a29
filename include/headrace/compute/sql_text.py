"""Expressions that are completed when a plan runs: the present, stored types, errors."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from headrace.compute.nodes import NOW, Column, Node, bigint, substitute
from headrace.compute.plan import AnyPlan, Plan
from headrace.compute.types import from_ticks, spark_type
from headrace.errors import DataError
from headrace.model.time import Precision
from headrace.model.types import DataType, TypeKind

UNASSIGNABLE: Final = re.compile(r"\[USER_RAISED_EXCEPTION\] (.* is not valid for .+, which is .+?)(?: SQLSTATE.*)?$", re.MULTILINE)
"""What Spark says if an `assigned` value does not fit."""


def at_present(plan: Plan, node: Node) -> Node:
    """Replace `NOW` by the plan's present."""
    return substitute(node, {NOW.name: bigint(plan.present)})


def to_sql(plan: Plan, node: Node) -> str:
    """Render an expression as Spark SQL at the plan's present."""
    return str(at_present(plan, node))


def named_sql(plan: Plan, nodes: Mapping[str, Node]) -> list[str]:
    """Render expressions as Spark SQL at the plan's present, each with its name."""
    return [f"{to_sql(plan, node)} AS {name}" for name, node in nodes.items()]


def to_stored_type(node: Node, type_: DataType, precision: Precision) -> Node:
    """Return an expression of an internal type converted to its stored type: instants as timestamps."""
    if type_.kind is TypeKind.TIMESTAMP:
        return from_ticks(node, precision)
    return node.cast(spark_type(type_))


def stored_outputs(plan: AnyPlan) -> dict[str, Node]:
    """Return the select list in stored types, over results with instants as ticks."""
    return {output.column: to_stored_type(Column(output.column), output.type, plan.precision) for output in plan.outputs}


def unassignable(message: str) -> DataError:
    """Return the error for a value that a column cannot hold."""
    return DataError(message, hint="leave such rows out with WHERE, or convert the value in the query")


def unassignable_raised(error: BaseException) -> DataError | None:
    """Return the error for a value that a column cannot hold if that is what Spark has raised."""
    match = UNASSIGNABLE.search(str(error))
    return None if match is None else unassignable(match[1])


def raise_error(message: str) -> str:
    """Return an expression that fails the query when it is evaluated. `message` is SQL too."""
    return f"raise_error({message})"
