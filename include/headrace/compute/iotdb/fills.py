"""Planning of FILL: the outputs to fill and their values."""

from __future__ import annotations

from datetime import date
from typing import Final

from headrace.compute.nodes import string_sql
from headrace.compute.plan import GapFill, Output, Plan
from headrace.model.expressions import Call, Expression, Literal
from headrace.model.tree_queries import TreeFill, TreeFillMode
from headrace.model.types import NUMBERS, DataType, TypeKind

TYPES: Final = {TypeKind.INT: "INT", TypeKind.BIGINT: "BIGINT", TypeKind.FLOAT: "FLOAT", TypeKind.DOUBLE: "DOUBLE"}


def gap_fill(fill: TreeFill, plan: Plan, *, has_time: bool, by_device: bool) -> GapFill:
    """Return the plan of FILL, which leaves time and device alone."""
    from headrace.compute.iotdb.windows import duration_ticks

    fixed = has_time + by_device
    values = [None if number < fixed else fill_value(fill, output) for number, output in enumerate(plan.outputs)]
    age = None if fill.max_age is None else duration_ticks(fill.max_age, plan.precision)
    return GapFill(fill.mode.value, tuple(values), plan.outputs[0].column if has_time else "0L", age)


def fill_value(fill: TreeFill, output: Output) -> str | None:
    """Return the SQL that fills the gaps of an output; None if its type cannot hold the value."""
    match fill.mode:
        case TreeFillMode.PREVIOUS:
            return output.column
        case TreeFillMode.LINEAR:
            return output.column if output.type.kind in (*NUMBERS, TypeKind.TIMESTAMP) else None
        case _:
            return constant_sql(fill.value, output.type)


def constant_sql(node: Expression | None, type_: DataType) -> str | None:
    """Write a constant as SQL of a type; None if the type cannot hold it."""
    match node:
        case Literal(value=bool(value)):
            return str(value).lower() if type_.kind is TypeKind.BOOL else f"'{str(value).lower()}'" if is_string(type_) else None
        case Literal(value=int(value)):
            return integer_sql(value, type_)
        case Literal(value=float(value)):
            return number_sql(repr(value), type_) if type_.kind not in (TypeKind.INT, TypeKind.BIGINT) else None
        case Literal(value=str(value)):
            return string_sql(value) if is_string(type_) else date_sql(value) if type_.kind is TypeKind.DATE else None
        case Call(function="-" | "unary-", arguments=(Literal(value=int() | float() as value),)):
            return constant_sql(Literal(-value), type_)
    return None


def is_string(type_: DataType) -> bool:
    """Return whether a type is TEXT or STRING."""
    return type_.kind in (TypeKind.VARCHAR, TypeKind.NCHAR)


def integer_sql(value: int, type_: DataType) -> str | None:
    """Write an integer as SQL of a type; None if the type cannot hold it."""
    match type_.kind:
        case TypeKind.INT if not -(2**31) <= value < 2**31:
            return None
        case TypeKind.TIMESTAMP:
            return f"{value}L"
        case TypeKind.DATE:
            text = str(value)
            return date_sql(f"{text[:-4]}-{text[-4:-2]}-{text[-2:]}")
    return number_sql(str(value), type_)


def date_sql(written: str) -> str | None:
    """Write a day such as 2024-05-01 as a DATE; None if there is no such day."""
    try:
        return f"DATE '{date.fromisoformat(written)}'"
    except ValueError:
        return None


def number_sql(written: str, type_: DataType) -> str | None:
    """Write a number as SQL of a type; None if the type is neither numeric nor text."""
    if is_string(type_):
        return string_sql(written)
    return f"CAST({written} AS {TYPES[type_.kind]})" if type_.kind in TYPES else None
