"""Terms: bound expressions with their types, and constants."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from enum import Enum

from headrace.compute.nodes import FALSE, NOW, NULL, TRUE, Node, bigint, double, spark_sql, string
from headrace.compute.types import is_text, spark_type
from headrace.errors import DataError
from headrace.model.expressions import Scalar
from headrace.model.types import BIGINT, BOOL, DOUBLE, TIMESTAMP, VARCHAR, DataType, TypeKind


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
    """A bound expression with its type, which is None for a bare NULL, and its value if planning can compute it.

    `role` is set if the term is, unchanged, the time or series key column of its source.
    """

    node: Node
    type: DataType | None
    constant: Constant | None = None
    role: ColumnRole | None = None

    @property
    def constant_value(self) -> Scalar:
        """The value of a constant; None for other terms, and for instants relative to the present."""
        return None if self.constant is None or self.constant.relative else self.constant.value

    @property
    def is_null(self) -> bool:
        """Whether the term is a bare NULL."""
        return self.type is None


def literal(value: Scalar) -> Term:
    """Return a constant of the default type of its family: BIGINT for integers, DOUBLE for other numbers."""
    constant = Constant(value)
    match value:
        case None:
            return Term(NULL, None, constant)
        case bool():
            return Term(TRUE if value else FALSE, BOOL, constant)
        case int():
            return integer_literal(value)
        case float():
            return Term(double(value), DOUBLE, constant)
        case Decimal():
            return Term(double(float(value)), DOUBLE, constant)
        case bytes():
            return Term(spark_sql(f"X'{value.hex()}'"), DataType(TypeKind.VARBINARY), constant)
        case str():
            return Term(string(value), VARCHAR, constant)


def integer_literal(value: int) -> Term:
    """Return an integer constant: BIGINT, or BIGINT UNSIGNED beyond its range, or raise `DataError`."""
    if -(2**63) <= value < 2**63:
        return Term(bigint(value), BIGINT, Constant(value))
    if 0 <= value < 2**64:
        return Term(string(str(value)).cast("decimal(20,0)"), DataType(TypeKind.UBIGINT), Constant(value))
    raise DataError(f"the number {value} is out of the range of BIGINT", hint="write it as a floating-point number, such as 1e20")


def cast(term: Term, type_: DataType) -> Node:
    """Convert a term to another type by a cast that cannot fail. Returns it unchanged if Spark's type is the same."""
    if term.type is not None and spark_type(term.type) == spark_type(type_):
        return term.node
    return term.node.cast(spark_type(type_))


def is_instant(term: Term) -> bool:
    """Return whether a term is a timestamp."""
    return term.type is not None and term.type.kind is TypeKind.TIMESTAMP


def instant_literal(value: int, relative: bool = False) -> Term:
    """Return a constant instant, in ticks or relative to the present."""
    if not relative:
        return Term(bigint(value), TIMESTAMP, Constant(value))
    return Term(NOW + bigint(value) if value else NOW, TIMESTAMP, Constant(value, relative=True))


def to_string(term: Term) -> Node:
    return term.node if term.type is not None and is_text(term.type) else term.node.cast("string")


def to_double(term: Term) -> Node:
    """Convert a term that is not text to DOUBLE."""
    if term.constant is not None and isinstance(term.constant.value, int) and not isinstance(term.constant.value, bool):
        return double(float(term.constant.value)) if not term.constant.relative else cast(term, DOUBLE)
    return cast(term, DOUBLE)
