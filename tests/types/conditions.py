"""Conditions on a value of a type, and which values meet them."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tests.types.values import ColumnType

SIGNS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
FORMS: Final = ("literals", "texts", "parameters")
"""Ways to write a constant."""
LISTS: Final[dict[str, Callable[[Any, Any, Any], bool]]] = {
    "{column} in ({0}, {1})": lambda value, first, second: value in (first, second),
    "{column} not in ({0}, {1})": lambda value, first, second: value not in (first, second),
    "{column} between {0} and {1}": lambda value, first, second: first <= value <= second,
    "{column} not between {0} and {1}": lambda value, first, second: not first <= value <= second,
}


@dataclass(frozen=True)
class Condition:
    """A condition on a column, with `?` for parameters, and what decides for a value; NULL never meets one."""

    type: ColumnType
    sql: str
    parameters: tuple[Any, ...]
    is_met: Callable[[Any], bool]

    def __str__(self) -> str:
        return f"{self.sql} {self.parameters or ''}".strip()

    def times(self, rows: dict[int, dict[str, Any]]) -> list[int]:
        """Return the times of the rows that meet the condition."""
        return [time for time, row in rows.items() if (value := row[self.type.name]) is not None and self.is_met(value)]


def conditions(types: Sequence[ColumnType], forms: Sequence[str] = FORMS) -> Iterator[Condition]:
    """Yield each comparison of each column with each of its values, in each way to write a constant."""
    for type_ in types:
        for form in forms:
            for choice in range(3):
                yield from comparisons(type_, form, choice)
            yield from lists(type_, form)


def comparisons(type_: ColumnType, form: str, choice: int) -> Iterator[Condition]:
    value = type_.values[choice]
    for sign, compare in SIGNS.items():
        if type_.is_ordered or sign in ("=", "!="):
            sql = f"{type_.name} {sign} {constant(type_, form, choice)}"
            yield Condition(type_, sql, values_bound(type_, form, choice), bound(compare, value))


def bound(compare: Callable[..., bool], *constants: Any) -> Callable[[Any], bool]:
    return lambda value: compare(value, *constants)


def lists(type_: ColumnType, form: str) -> Iterator[Condition]:
    for template, decide in LISTS.items():
        if type_.is_ordered or "between" not in template:
            sql = template.format(*(constant(type_, form, choice) for choice in (0, 1)), column=type_.name)
            yield Condition(type_, sql, values_bound(type_, form, 0, 1), bound(decide, *type_.values[:2]))


def constant(type_: ColumnType, form: str, choice: int) -> str:
    match form:
        case "literals":
            return type_.literal(choice)
        case "texts":
            return type_.quoted(choice)
    return "?"


def values_bound(type_: ColumnType, form: str, *choices: int) -> tuple[Any, ...]:
    return tuple(type_.values[choice] for choice in choices) if form == "parameters" else ()
