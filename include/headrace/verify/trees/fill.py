"""FILL over the rows of a result, in their order."""

from __future__ import annotations

from datetime import date

from headrace.model.expressions import Call, Expression, Literal
from headrace.model.time import Precision
from headrace.model.tree_queries import TreeFill, TreeFillMode
from headrace.model.types import DataType, TypeKind
from headrace.verify.trees.scalars import FLOATS, NUMBERS
from headrace.verify.trees.spans import ticks_of
from headrace.verify.values import duck_type, quoted, unsupported

TEXTS = (TypeKind.VARCHAR, TypeKind.NCHAR)


def filled(fill: TreeFill, column: str, type_: DataType | None, by: str, precision: Precision) -> str:
    """Return a column with its gaps filled, as SQL over rows with `_time`; `by` is the order of the rows."""
    if type_ is None:
        return column
    before = f"(OVER_ ({by} ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW))"
    after = f"(OVER_ ({by} ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING))"
    point = f"CASE WHEN {column} IS NOT NULL THEN struct_pack(t := _time, v := {column}) END"
    previous = before.replace("OVER_", f"last_value({point} IGNORE NULLS) OVER")
    following = after.replace("OVER_", f"first_value({point} IGNORE NULLS) OVER")
    match fill.mode:
        case TreeFillMode.CONSTANT:
            value = constant_text(fill.value, type_)
            return column if value is None else f"coalesce({column}, {value})"
        case TreeFillMode.PREVIOUS:
            if fill.max_age is None:
                return f"{previous}.v"
            if any(part.unit == "n" for part in fill.max_age):
                raise unsupported("FILL with an age in months")
            # In descending order, the row before is later.
            return f"CASE WHEN abs(_time - {previous}.t) <= {ticks_of(fill.max_age, precision)} THEN {previous}.v END"
        case TreeFillMode.LINEAR:
            return linear(column, type_, previous, following)


def linear(column: str, type_: DataType, previous: str, following: str) -> str:
    """Return a column with gaps on the line between the points around them; whole numbers are truncated."""
    if type_.kind not in NUMBERS:
        return column
    share = f"coalesce(CAST(_time - {previous}.t AS DOUBLE) / nullif({following}.t - {previous}.t, 0), 0)"
    value = f"({previous}.v + (CAST({following}.v AS DOUBLE) - {previous}.v) * {share})"
    value = value if type_.kind in FLOATS else f"trunc({value})"
    return f"coalesce({column}, CAST({value} AS {duck_type(type_)}))"


def constant_text(node: Expression | None, type_: DataType) -> str | None:
    """Return a constant as SQL of a type; None if the type cannot hold it, so that its gaps remain."""
    match node:
        case Call(function="-" | "unary-", arguments=(Literal(value=int() | float() as value),)):
            return constant_text(Literal(-value), type_)
        case Literal(value=bool(value)):
            written, fits = str(value).lower(), type_.kind is TypeKind.BOOL
        case Literal(value=int(value)) if type_.kind is TypeKind.DATE:
            return date_text(f"{str(value)[:-4]}-{str(value)[-4:-2]}-{str(value)[-2:]}")
        case Literal(value=int(value)):
            written, fits = str(value), fits_integer(value, type_)
        case Literal(value=float(value)):
            written, fits = repr(value), type_.kind in FLOATS
        case Literal(value=str(value)) if type_.kind is TypeKind.DATE:
            return date_text(value)
        case Literal(value=str(value)):
            written, fits = value, False
        case _:
            raise unsupported(f"FILL with {node}")
    if type_.kind in TEXTS:
        return quoted(written)
    return f"CAST({quoted(written)} AS {duck_type(type_)})" if fits else None


def fits_integer(value: int, type_: DataType) -> bool:
    """Return whether a type can hold an integer."""
    if type_.kind is TypeKind.INT:
        return -(2**31) <= value < 2**31
    return type_.kind in (*NUMBERS, TypeKind.TIMESTAMP)


def date_text(written: str) -> str | None:
    """Return a day such as 2024-05-01 as SQL; None if there is no such day."""
    try:
        return f"DATE {quoted(str(date.fromisoformat(written)))}"
    except ValueError:
        return None
