"""Binding of ASOF joins: the rule for timestamps and the keys in ON."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NoReturn

from headrace.compute.binding.binder import Binder
from headrace.compute.binding.environment import Environment
from headrace.compute.binding.ranges import MIRRORED
from headrace.compute.nodes import Column, Node
from headrace.compute.plan import AsofMatch
from headrace.errors import LimitError, NotSupportedError
from headrace.model.expressions import Call, ColumnRef, Expression, conjuncts, walk
from headrace.model.queries import Join
from headrace.model.types import NUMBERS

MAX_LIMIT: Final = 1024
DEFAULT_RULE: Final = ">="
TRUNCATION: Final = "timetruncate"


@dataclass(frozen=True, slots=True)
class AsofSides:
    """The sides of an ASOF join.

    Attributes:
        names: The columns of the join.
        binder: Binds expressions over them.
        driving: The index of the driving side.
        side_of: The index of the side of each column.
        times: The time column of each side.
    """

    names: Environment
    binder: Binder
    driving: int
    side_of: dict[str, int]
    times: tuple[str, str]

    def match(self, join: Join) -> AsofMatch:
        """Bind the rule and the keys of a join.

        Raises:
            LimitError: JLIMIT is out of range.
            NotSupportedError: ON has other conditions.
        """
        limit = 1 if join.limit is None else join.limit
        if not 1 <= limit <= MAX_LIMIT:
            raise LimitError(f"JLIMIT takes 1 to {MAX_LIMIT} rows, not {limit}")
        other = 1 - self.driving
        keys: list[tuple[Node, Node]] = []
        rules: list[tuple[str, tuple[Node, Node]]] = []
        for part in conjuncts(join.condition):
            sign, left, right = self._compared(part)
            if self._is_time(left) and self._is_time(right):
                rules.append((sign, (self.binder.bind(left).node, self.binder.bind(right).node)))
            elif sign == "=" and isinstance(left, ColumnRef) and isinstance(right, ColumnRef):
                keys.append(self._key(left, right))
            else:
                self._refuse(part)
        if len(rules) > 1:
            raise NotSupportedError("an ASOF JOIN compares timestamps once", hint="leave out the other comparisons")
        for time in self.times:
            self.names.used.add(time)
        sign, times = rules[0] if rules else (DEFAULT_RULE, (Column(self.times[self.driving]), Column(self.times[other])))
        return AsofMatch(self.driving, tuple(keys), times, Column(self.times[other]), sign, limit)

    def _compared(self, part: Expression) -> tuple[str, Expression, Expression]:
        """Return a comparison with the value of the driving side first."""
        if not isinstance(part, Call) or part.function not in MIRRORED or len(part.arguments) != 2:
            self._refuse(part)
        left, right = part.arguments
        sides = self._side(left), self._side(right)
        if sides == (self.driving, 1 - self.driving):
            return part.function, left, right
        if sides != (1 - self.driving, self.driving):
            self._refuse(part)
        return MIRRORED[part.function], right, left

    def _side(self, value: Expression) -> int | None:
        """Return the side of the only column in a value; None if it has none or several."""
        columns = [self.names.column(node).column for node in walk(value) if isinstance(node, ColumnRef)]
        return self.side_of[columns[0]] if len(columns) == 1 else None

    def _is_time(self, value: Expression) -> bool:
        """Return whether a value is a side's timestamp, or one that is truncated."""
        if isinstance(value, Call) and value.function == TRUNCATION:
            value = value.arguments[0]
        return isinstance(value, ColumnRef) and self.names.column(value).column in self.times

    def _key(self, left: ColumnRef, right: ColumnRef) -> tuple[Node, Node]:
        first, second = self.binder.bind(left), self.binder.bind(right)
        kinds = {None if term.type is None else term.type.kind for term in (first, second)}
        if len(kinds) > 1 and not kinds.issubset(NUMBERS):
            raise NotSupportedError(
                f"{left.name} is {first.type}, and {right.name} is {second.type}",
                hint="compare columns of one type",
                span=left.span,
            )
        return first.node, second.node

    def _refuse(self, part: Expression) -> NoReturn:
        raise NotSupportedError(
            "ON of an ASOF JOIN takes one comparison of timestamps, and equal columns of both tables, joined by AND",
            hint="write other conditions in WHERE",
            span=part.span,
        )
