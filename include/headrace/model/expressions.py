"""Expressions: a small tree that every dialect parses into and every engine compiles from.

Operators are calls whose function is the operator: `+ - * / % unary- & |`, `= <> < <= > >=`, `and or not`,
`is null`, `is not null`, `like`, `not like`, `match`, `nmatch`, `in`, `not in`, `between`, `not between`, `->` (JSON member),
`contains` (JSON key).
Names of functions are lower case. `span` never takes part in comparison.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from decimal import Decimal

from headrace.model.spans import Span
from headrace.model.time import Duration
from headrace.model.types import DataType

Scalar = None | bool | int | float | Decimal | str | bytes


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant; text of a timestamp stays text until binding. `spelling` is a number as written, for a result column's name."""

    value: Scalar
    span: Span | None = field(default=None, compare=False)
    spelling: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class DurationLiteral:
    """A duration inside an expression, as in `now - 1h` or `elapsed(ts, 1s)`."""

    value: Duration
    span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class ColumnRef:
    """A column, tag or pseudo-column (`tbname`, `_wstart`, `_wend`, `_wduration`, `_rowts`, …)."""

    name: str
    table: str | None = None
    span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Star:
    """`*` or `t.*`."""

    table: str | None = None
    span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Call:
    """A function or operator applied to arguments; `attributes` are named constants, as in `top_k(s, 'k'='3')`.

    `spelling` is the function as written, where its case is part of a result column's name.
    """

    function: str
    arguments: tuple[Expression, ...] = ()
    distinct: bool = False
    attributes: tuple[tuple[str, str], ...] = ()
    spelling: str = field(default="", compare=False)
    span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Cast:
    """`CAST(operand AS type)`; `spelling` and `function` are as written, where that is part of a result column's name.

    If it fills a `column`, a value that the column cannot hold is an error.
    """

    operand: Expression
    type: DataType
    span: Span | None = field(default=None, compare=False)
    spelling: str = field(default="", compare=False)
    function: str = field(default="CAST", compare=False)
    column: str = ""


@dataclass(frozen=True, slots=True)
class Case:
    """`CASE [operand] WHEN … THEN … [ELSE …] END`."""

    branches: tuple[tuple[Expression, Expression], ...]
    default: Expression | None = None
    operand: Expression | None = None
    span: Span | None = field(default=None, compare=False)


Expression = Literal | DurationLiteral | ColumnRef | Star | Call | Cast | Case


def children(node: Expression) -> tuple[Expression, ...]:
    """Return the direct children of an expression."""
    match node:
        case Call(arguments=arguments):
            return arguments
        case Cast(operand=operand):
            return (operand,)
        case Case(branches=branches, default=default, operand=operand):
            inside = [part for branch in branches for part in branch]
            return tuple(part for part in (operand, *inside, default) if part is not None)
        case _:
            return ()


def walk(node: Expression) -> Iterator[Expression]:
    """Yield an expression and all its descendants, outermost first."""
    yield node
    for child in children(node):
        yield from walk(child)


def columns_of(node: Expression) -> list[ColumnRef]:
    """Return the references of an expression to columns."""
    return [part for part in walk(node) if isinstance(part, ColumnRef)]


def conjuncts(node: Expression | None) -> list[Expression]:
    """Return the conditions that AND joins."""
    match node:
        case None:
            return []
        case Call(function="and", arguments=arguments):
            return [part for argument in arguments for part in conjuncts(argument)]
    return [node]


def transform(node: Expression, change: Callable[[Expression], Expression | None]) -> Expression:
    """Return a copy with each node replaced for which `change` returns one, outermost first; recurse into the others."""
    changed = change(node)
    if changed is not None:
        return changed
    match node:
        case Call(arguments=arguments):
            return replace(node, arguments=tuple(transform(argument, change) for argument in arguments))
        case Cast(operand=operand):
            return replace(node, operand=transform(operand, change))
        case Case(branches=branches, default=default, operand=subject):
            return replace(
                node,
                branches=tuple((transform(when, change), transform(then, change)) for when, then in branches),
                default=default and transform(default, change),
                operand=subject and transform(subject, change),
            )
        case _:
            return node
