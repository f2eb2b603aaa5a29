"""Terms: typed Spark SQL text, and the quoting of names and literals."""

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
"""Placeholder for the present in ticks, replaced when a plan runs. No literal can contain it because literals escape NUL."""

NULL: Final = "NULL"


@dataclass(frozen=True, slots=True)
class Constant:
    """A value that planning can compute. A `relative` instant is an offset in ticks from the present."""

    value: Scalar
    relative: bool = False


class ColumnRole(Enum):
    """The special meaning of a column in its source."""

    TIME = "time"
    SERIES = "series"


@dataclass(frozen=True, slots=True)
class Term:
    """Spark SQL text with its type.

    Attributes:
        type: None for a bare NULL.
        constant: The value, if planning can compute it.
        role: Set if the term is, unchanged, the time or series key column of its source.
    """

    sql: str
    type: DataType | None
    constant: Constant | None = None
    role: ColumnRole | None = None

    @property
    def is_null(self) -> bool:
        """Whether the term is a bare NULL."""
        return self.type is None


def quote(name: str) -> str:
    """Quote a column name as a Spark SQL identifier."""
    return "`" + name.replace("`", "``") + "`"


def string_sql(value: str) -> str:
    """Write a string literal."""
    escaped = value.replace("\\", "\\\\").replace("'", "\\'").replace("\x00", "\\0")
    return f"'{escaped}'"


def literal(value: Scalar) -> Term:
    """Return a constant of the default type of its family: BIGINT for integers, DOUBLE for other numbers."""
    constant = Constant(value)
    match value:
        case None:
            return Term(NULL, None, constant)
        case bool():
            return Term("true" if value else "false", BOOL, constant)
        case int():
            return integer_literal(value)
        case float():
            return Term(double_sql(value), DOUBLE, constant)
        case Decimal():
            return Term(double_sql(float(value)), DOUBLE, constant)
        case bytes():
            return Term(f"X'{value.hex()}'", DataType(TypeKind.VARBINARY), constant)
        case str():
            return Term(string_sql(value), VARCHAR, constant)


def integer_literal(value: int) -> Term:
    """Return an integer constant: BIGINT, or BIGINT UNSIGNED beyond its range, or raise `DataError`."""
    if -(2**63) <= value < 2**63:
        return Term(bigint_sql(value), BIGINT, Constant(value))
    if 0 <= value < 2**64:
        return Term(f"CAST('{value}' AS DECIMAL(20,0))", DataType(TypeKind.UBIGINT), Constant(value))
    raise DataError(f"the number {value} is out of the range of BIGINT", hint="write it as a floating-point number, such as 1e20")


def double_sql(value: float) -> str:
    """Write a DOUBLE literal."""
    if math.isnan(value) or math.isinf(value):
        return f"CAST('{value}' AS DOUBLE)"
    return f"{value!r}D"


def bigint_sql(value: int) -> str:
    """Write a BIGINT literal."""
    return f"{value}L" if value > -(2**63) else f"({value + 1}L - 1L)"


def cast(term: Term, type_: DataType) -> str:
    """Convert a term to another type by a cast that cannot fail. Returns it unchanged if Spark's type is the same."""
    if term.type is not None and spark_type(term.type) == spark_type(type_):
        return term.sql
    return f"CAST({term.sql} AS {spark_type(type_)})"


def is_instant(term: Term) -> bool:
    """Return whether a term is a timestamp."""
    return term.type is not None and term.type.kind is TypeKind.TIMESTAMP


def instant_literal(value: int, relative: bool = False) -> Term:
    """Return a constant instant, in ticks or relative to the present."""
    if not relative:
        return Term(bigint_sql(value), TIMESTAMP, Constant(value))
    return Term(f"({NOW} + {bigint_sql(value)})" if value else NOW, TIMESTAMP, Constant(value, relative=True))


def to_string(term: Term) -> str:
    """Convert a term to STRING."""
    if term.type is None:
        return "CAST(NULL AS STRING)"
    return term.sql if is_text(term.type) else f"CAST({term.sql} AS STRING)"


def to_double(term: Term) -> str:
    """Convert a term that is not text to DOUBLE."""
    if term.type is None:
        return "CAST(NULL AS DOUBLE)"
    if term.constant is not None and isinstance(term.constant.value, int) and not isinstance(term.constant.value, bool):
        return f"{float(term.constant.value)!r}D" if not term.constant.relative else cast(term, DOUBLE)
    return cast(term, DOUBLE)
