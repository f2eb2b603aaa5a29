"""Spark SQL text that is completed when a plan runs: the present, stored types, errors."""

from __future__ import annotations

from headrace.compute.plan import Plan
from headrace.compute.terms import NOW, bigint_sql
from headrace.compute.types import from_ticks, spark_type
from headrace.model.time import Precision
from headrace.model.types import DataType, TypeKind


def resolve_now(plan: Plan, sql: str | None) -> str:
    """Replace `NOW` in a condition or expression by the plan's present. None becomes `true`."""
    if sql is None:
        return "true"
    return sql.replace(NOW, bigint_sql(plan.present)) if NOW in sql else sql


def to_stored_type(sql: str, type_: DataType, precision: Precision) -> str:
    """Return an expression of an internal type converted to its stored type: instants as timestamps."""
    if type_.kind is TypeKind.TIMESTAMP:
        return from_ticks(sql, precision)
    return f"CAST({sql} AS {spark_type(type_)})"


def raise_error(message: str) -> str:
    """Return an expression that fails the query when it is evaluated. `message` is SQL too."""
    return f"raise_error({message})"
