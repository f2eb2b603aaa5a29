"""Terms: what an expression becomes, a Spark SQL text with its type, and the quoting that keeps such text safe."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from typing import Final

from headrace.compute.types import is_text, spark_type
from headrace.errors import DataError
from headrace.model.expressions import Scalar
from headrace.model.types import BIGINT, BOOL, DOUBLE, TIMESTAMP, VARCHAR, DataType, TypeKind

NOW: Final = "\x00now\x00"
"""Stands for the present in ticks inside a term's text until a plan is run; no literal can hold it, since NUL is escaped there."""

NULL: Final = "NULL"


@dataclass(frozen=True, slots=True)
class Constant:
    """A value known when the statement is planned. An instant `relative` to the present is an offset in ticks from it."""

    value: Scalar
    relative: bool = False


class ColumnRole(Enum):
    """What a column is to its source, beside a value."""

    TIME = "time"
    SERIES = "series"


@dataclass(frozen=True, slots=True)
class Term:
    """Spark SQL text, its type, and its value where that is known. `type` is None for a bare NULL.

    `role` says that the term is a column which its source has a use for, as it is.
    """

    sql: str
    type: DataType | None
    constant: Constant | None = None
    role: ColumnRole | None = None

    @property
    def is_null(self) -> bool:
        return self.type is None


def quote(name: str) -> str:
    """A column's name as an identifier of Spark SQL."""
    return "`" + name.replace("`", "``") + "`"


def text(value: str) -> str:
    """A string as a literal of Spark SQL."""
    escaped = value.replace("\\", "\\\\").replace("'", "\\'").replace("\x00", "\\0")
    return f"'{escaped}'"


def literal(value: Scalar) -> Term:
    """A constant of the narrowest type of its family: BIGINT for integers, DOUBLE for other numbers."""
    constant = Constant(value)
    match value:
        case None:
            return Term(NULL, None, constant)
        case bool():
            return Term("true" if value else "false", BOOL, constant)
        case int():
            return integer(value)
        case float():
            return Term(number(value), DOUBLE, constant)
        case Decimal():
            return Term(number(float(value)), DOUBLE, constant)
        case bytes():
            return Term(f"X'{value.hex()}'", DataType(TypeKind.VARBINARY), constant)
        case str():
            return Term(text(value), VARCHAR, constant)


def integer(value: int) -> Term:
    """An integer constant; what BIGINT cannot hold is BIGINT UNSIGNED, beyond that an error."""
    if -(2**63) <= value < 2**63:
        return Term(ticks(value), BIGINT, Constant(value))
    if 0 <= value < 2**64:
        return Term(f"CAST('{value}' AS DECIMAL(20,0))", DataType(TypeKind.UBIGINT), Constant(value))
    raise DataError(f"the number {value} is out of the range of BIGINT", hint="write it as a floating-point number, such as 1e20")


def number(value: float) -> str:
    """A double as a literal."""
    if math.isnan(value) or math.isinf(value):
        return f"CAST('{value}' AS DOUBLE)"
    return f"{value!r}D"


def ticks(value: int) -> str:
    """A BIGINT as a literal."""
    return f"{value}L" if value > -(2**63) else f"({value + 1}L - 1L)"


def cast(term: Term, type_: DataType) -> str:
    """The text of a term as another type that it can always be turned into; no change where the type is the same inside Spark."""
    if term.type is not None and spark_type(term.type) == spark_type(type_):
        return term.sql
    return f"CAST({term.sql} AS {spark_type(type_)})"


def same_instant(term: Term) -> bool:
    return term.type is not None and term.type.kind is TypeKind.TIMESTAMP


def moment(value: int, relative: bool = False) -> Term:
    """A constant instant, in ticks or as an offset from the present."""
    if not relative:
        return Term(ticks(value), TIMESTAMP, Constant(value))
    return Term(f"({NOW} + {ticks(value)})" if value else NOW, TIMESTAMP, Constant(value, relative=True))


def string(term: Term) -> str:
    """A term as text."""
    if term.type is None:
        return "CAST(NULL AS STRING)"
    return term.sql if is_text(term.type) else f"CAST({term.sql} AS STRING)"


def double(term: Term) -> str:
    """A term that is no text, as DOUBLE."""
    if term.type is None:
        return "CAST(NULL AS DOUBLE)"
    if term.constant is not None and isinstance(term.constant.value, int) and not isinstance(term.constant.value, bool):
        return f"{float(term.constant.value)!r}D" if not term.constant.relative else cast(term, DOUBLE)
    return cast(term, DOUBLE)
