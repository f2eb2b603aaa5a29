"""Planning of FILL: the outputs to fill and their values."""

from __future__ import annotations

from datetime import date
from typing import Final

from headrace.compute.nodes import FALSE, TRUE, Column, Node, bigint, raw, string
from headrace.compute.plan import Plan
from headrace.compute.plan_clauses import GapFill, Output
from headrace.model.expressions import Call, Expression, Literal
from headrace.model.tree_queries import TreeFill, TreeFillMode
from headrace.model.types import NUMBERS, DataType, TypeKind

TYPES: Final = {TypeKind.INT: "INT", TypeKind.BIGINT: "BIGINT", TypeKind.FLOAT: "FLOAT", TypeKind.DOUBLE: "DOUBLE"}


def gap_fill(fill: TreeFill, plan: Plan, *, has_time: bool, by_device: bool) -> GapFill:
    from headrace.compute.iotdb.windows import duration_ticks

    fixed = has_time + by_device
    values = [None if number < fixed else fill_value(fill, output) for number, output in enumerate(plan.outputs)]
    age = None if fill.max_age is None else duration_ticks(fill.max_age, plan.precision)
    return GapFill(fill.mode.value, tuple(values), Column(plan.outputs[0].column) if has_time else bigint(0), age)


def fill_value(fill: TreeFill, output: Output) -> Node | None:
    """Return what fills the gaps of an output; None if its type cannot hold the value."""
    match fill.mode:
        case TreeFillMode.PREVIOUS:
            return Column(output.column)
        case TreeFillMode.LINEAR:
            return Column(output.column) if output.type.kind in (*NUMBERS, TypeKind.TIMESTAMP) else None
        case _:
            return constant(fill.value, output.type)


def constant(node: Expression | None, type_: DataType) -> Node | None:
    """Write a constant in a type; None if the type cannot hold it."""
    match node:
        case Literal(value=bool(value)):
            if type_.kind is TypeKind.BOOL:
                return TRUE if value else FALSE
            return string(str(value).lower()) if is_string(type_) else None
        case Literal(value=int(value)):
            return integer_constant(value, type_)
        case Literal(value=float(value)):
            return number_constant(repr(value), type_) if type_.kind not in (TypeKind.INT, TypeKind.BIGINT) else None
        case Literal(value=str(value)):
            return string(value) if is_string(type_) else date_constant(value) if type_.kind is TypeKind.DATE else None
        case Call(function="-" | "unary-", arguments=(Literal(value=int() | float() as value),)):
            return constant(Literal(-value), type_)
    return None


def is_string(type_: DataType) -> bool:
    """Return whether a type is TEXT or STRING."""
    return type_.kind in (TypeKind.VARCHAR, TypeKind.NCHAR)


def integer_constant(value: int, type_: DataType) -> Node | None:
    """Write an integer in a type; None if the type cannot hold it."""
    match type_.kind:
        case TypeKind.INT if not -(2**31) <= value < 2**31:
            return None
        case TypeKind.TIMESTAMP:
            return bigint(value)
        case TypeKind.DATE:
            text = str(value)
            return date_constant(f"{text[:-4]}-{text[-4:-2]}-{text[-2:]}")
    return number_constant(str(value), type_)


def date_constant(written: str) -> Node | None:
    """Write a day such as 2024-05-01 as a DATE; None if there is no such day."""
    try:
        return raw(f"DATE '{date.fromisoformat(written)}'")
    except ValueError:
        return None


def number_constant(written: str, type_: DataType) -> Node | None:
    """Write a number in a type; None if the type is neither numeric nor text."""
    if is_string(type_):
        return string(written)
    return raw(written).cast(TYPES[type_.kind]) if type_.kind in TYPES else None
