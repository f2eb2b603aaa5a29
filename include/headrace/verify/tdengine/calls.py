"""Calls of functions that read several rows: their first argument, and the constants after it."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.model.expressions import Call, DurationLiteral, Expression, Scalar, walk
from headrace.model.time import Duration
from headrace.verify.expressions import Compiler
from headrace.verify.steps import Partition
from headrace.verify.values import Value, unsupported

Constants = tuple[Scalar | Duration, ...]


@dataclass(frozen=True, slots=True)
class RowsCall:
    """One call: its first argument over rows, the constants after it, and how rows are partitioned and ordered, by time first."""

    function: str
    x: Value
    constants: Constants
    rows: Partition
    compiler: Compiler

    @property
    def present(self) -> str:
        """Condition that the argument has a value."""
        return f"{self.x.sql} IS NOT NULL"

    def number(self, position: int, default: int | None = None) -> float:
        """Return the constant at a position, which must be a number."""
        value = self.constants[position] if position < len(self.constants) else default
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise unsupported(f"{self.function} with {value!r}")
        return value


def constants_of(rows: Compiler, call: Call) -> Constants:
    """Return the arguments of a call after the first, which must be constants."""

    def constant(node: Expression) -> Scalar | Duration:
        if isinstance(node, DurationLiteral):
            return node.value
        value = rows.value(node)
        if not value.is_constant:
            raise unsupported(f"{call.function} with arguments that are not constant")
        return value.constant

    return tuple(constant(node) for node in call.arguments[1:])


def calls_of(node: Expression, *functions: str) -> list[Call]:
    """Return the calls of some functions in an expression."""
    return [part for part in walk(node) if isinstance(part, Call) and part.function in functions]
