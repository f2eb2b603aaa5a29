"""Terms: bound expressions with their types, and constants."""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal
from enum import Enum

from headrace.compute import calendar
from headrace.compute.nodes import FALSE, NOW, NULL, TRUE, Node, Present, Value, bigint, double, integer, string
from headrace.compute.types import is_text, spark_type
from headrace.errors import DataError
from headrace.model.expressions import Scalar
from headrace.model.instants import PresentInstant, add_months
from headrace.model.time import Precision
from headrace.model.types import BIGINT, BOOL, DOUBLE, TIMESTAMP, VARCHAR, DataType, TypeKind


@dataclass(frozen=True, slots=True)
class Constant:
    """A value that planning can compute. With `present`, it is an offset in ticks from an instant that follows from the present."""

    value: Scalar
    present: PresentInstant | None = None

    @property
    def relative(self) -> bool:
        """Whether it is an instant that is known only when the plan runs."""
        return self.present is not None


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
            return Term(Value(value, "binary"), DataType(TypeKind.VARBINARY), constant)
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


def instant_literal(value: int, present: PresentInstant | None = None) -> Term:
    """Return a constant instant, in ticks or relative to the present."""
    if present is None:
        return Term(bigint(value), TIMESTAMP, Constant(value))
    node = present_node(present)
    return Term(node + bigint(value) if value else node, TIMESTAMP, Constant(value, present))


def present_node(present: PresentInstant) -> Node:
    """Return an instant that follows from the present as a node."""
    zone, precision = present.timezone, present.precision
    node: Node = NOW
    for ticks, months in present.steps:
        local = calendar.to_local(node + bigint(ticks) if ticks else node, zone, precision)
        moved = calendar.day_start(local, precision) if months is None else calendar.add_months(local, integer(months), precision)
        node = calendar.to_utc(moved, zone, precision)
    return Present(present, node) if present.steps else NOW


def shift_instant(base: Term, ticks: int) -> Term | None:
    """Return a constant instant moved by ticks; None for other terms."""
    if not is_instant(base) or base.constant is None or not isinstance(base.constant.value, int):
        return None
    return instant_literal(base.constant.value + ticks, base.constant.present)


def shift_months(base: Term, months: int, zone: str, precision: Precision) -> Term:
    """Return an instant moved by months in the calendar of a zone."""
    constant = base.constant
    if constant is None or not isinstance(constant.value, int):
        local = calendar.to_local(base.node, zone, precision)
        return Term(calendar.to_utc(calendar.add_months(local, integer(months), precision), zone, precision), TIMESTAMP)
    if constant.present is None:
        return instant_literal(add_months(constant.value, months, zone, precision))
    return instant_literal(0, replace(constant.present, steps=(*constant.present.steps, (constant.value, months))))


def to_string(term: Term) -> Node:
    return term.node if term.type is not None and is_text(term.type) else term.node.cast("string")


def to_double(term: Term) -> Node:
    """Convert a term that is not text to DOUBLE."""
    if term.constant is not None and isinstance(term.constant.value, int) and not isinstance(term.constant.value, bool):
        return double(float(term.constant.value)) if not term.constant.relative else cast(term, DOUBLE)
    return cast(term, DOUBLE)
