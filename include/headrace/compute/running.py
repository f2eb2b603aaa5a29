"""What is settled only when a plan runs."""

from __future__ import annotations

from headrace.compute.plan import Plan
from headrace.compute.terms import NOW, ticks
from headrace.compute.types import from_ticks, spark_type
from headrace.model.time import Precision
from headrace.model.types import DataType, TypeKind


def run(plan: Plan, sql: str | None) -> str:
    """A term's text with the plan's present in it."""
    return "true" if sql is None else sql.replace(NOW, ticks(plan.present))


def stored(sql: str, type_: DataType, precision: Precision) -> str:
    """An expression of an internal type in the type in which it is stored: instants as timestamps."""
    if type_.kind is TypeKind.TIMESTAMP:
        return from_ticks(sql, precision)
    return f"CAST({sql} AS {spark_type(type_)})"


def refusal(message: str) -> str:
    """An expression that ends the query where it is evaluated; `message` is SQL of what is too much."""
    return f"raise_error({message})"
