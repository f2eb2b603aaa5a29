"""Random expressions over the measurements of a device, most of them of fitting types."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tests.iotdb_comparison.functions import (
    AGGREGATES,
    MATH,
    NUMERIC_AGGREGATES,
    SERIES_FUNCTIONS,
    TEXT_FUNCTIONS,
    TWO_ARGUMENT_AGGREGATES,
    TWO_TEXTS,
    Choices,
)

KINDS: Final[Mapping[str, tuple[str, ...]]] = {
    "number": ("s1", "s2", "s3", "s4"),
    "boolean": ("s5",),
    "text": ("s6", "s7"),
    "other": ("s8", "s9", "s10"),
}
COMPARISONS: Final = ("=", "!=", "<>", "<", "<=", ">", ">=", "==")
MISFIT: Final = 0.06
"""How often an expression of another type is used, to see refusals."""
CASTS: Final = ("INT32", "INT64", "FLOAT", "DOUBLE", "BOOLEAN", "TEXT")
LIKES: Final = ("o%", "%f", "_n", "%", "x y", "%a%", "o_f", "")
REGEXPS: Final = ("^o", "o.*", "^[a-z]+$", "[0-9]+")


@dataclass(slots=True)
class Expressions:
    """Random expressions over the measurements that exist."""

    dice: random.Random
    measurements: Sequence[str]

    def pick(self, choices: Sequence[str]) -> str:
        return self.dice.choice(choices)

    def name(self, kind: str) -> str:
        """Return a measurement of a kind, rarely of another."""
        if self.dice.random() < MISFIT:
            kind = self.pick(tuple(KINDS))
        names = [name for name in KINDS[kind] if name in self.measurements]
        return self.pick(names or KINDS[kind])

    def any_name(self) -> str:
        return self.pick(self.measurements)

    # Rows

    def any(self, depth: int = 2) -> str:
        """Return an expression of any type."""
        return self.dice.choice((self.number, self.number, self.number, self.boolean, self.text, self.series, self.case))(depth)

    def number(self, depth: int = 2) -> str:
        if depth <= 0:
            return self.name("number")
        make = self.dice.choice(
            (self.arithmetic, self.arithmetic, self.math, self.series, self.rounded, self.cast, self.negated, self.name_only)
        )
        return make(depth - 1)

    def name_only(self, depth: int) -> str:  # noqa: ARG002
        return self.name("number")

    def arithmetic(self, depth: int) -> str:
        right = self.number(depth) if self.dice.random() < 0.5 else self.pick(("1", "2", "0", "7", "2.5", "-3", "10000000000"))
        left = self.number(depth)
        if self.dice.random() < 0.15:
            left, right = right, left
        text = f"{left} {self.pick('+-*/%')} {right}"
        return f"({text})" if self.dice.random() < 0.3 else text

    def math(self, depth: int) -> str:
        return f"{self.pick(MATH)}({self.number(depth)})"

    def rounded(self, depth: int) -> str:
        places = self.pick(("", ", 1", ", 2", ", -1", ", 0"))
        return f"round({self.number(depth)}{places})"

    def negated(self, depth: int) -> str:
        return f"-{self.number(depth)}" if self.dice.random() < 0.7 else f"-({self.number(depth)})"

    def cast(self, depth: int) -> str:
        source = self.dice.choice((self.number, self.number, self.number, self.boolean, self.text))(depth)
        return f"cast({source} as {self.pick(CASTS)})"

    def series(self, depth: int) -> str:
        """Return a call of a time-series function."""
        if self.dice.random() < 0.25:
            return self.text_function(depth)
        function = self.pick(tuple(SERIES_FUNCTIONS))
        if function == "change_points":
            return f"change_points({self.any_name()})"
        if function in ("const", "pi", "e"):
            inputs = ", ".join(self.any_name() for _ in range(self.dice.choice((1, 1, 2))))
            return f"{function}({inputs}{self.attributes(SERIES_FUNCTIONS[function])})"
        argument = self.number(depth) if self.dice.random() < 0.3 else self.name("number")
        if function == "master_repair":
            argument = f"{self.name('number')}, {self.name('number')}"
        if function == "jexl" and self.dice.random() < 0.2:
            return f"jexl({argument}, {self.name('number')}, 'expr'='(x, y) -> {{x + y}}')"
        return f"{function}({argument}{self.attributes(SERIES_FUNCTIONS[function])})"

    def text_function(self, depth: int) -> str:
        function = self.pick(tuple(TEXT_FUNCTIONS))
        argument = self.text(depth) if self.dice.random() < 0.2 else self.name("text")
        if function in TWO_TEXTS and (function == "strcmp" or self.dice.random() < 0.5):
            argument += f", {self.name('text')}"
        return f"{function}({argument}{self.attributes(TEXT_FUNCTIONS[function])})"

    def attributes(self, choices: Choices) -> str:
        """Return the attributes of a call; a required one is left out rarely."""
        chosen = [
            (name.lstrip("?"), self.pick(values))
            for name, values in choices.items()
            if self.dice.random() < (0.5 if name.startswith("?") else 0.97)
        ]
        return "".join(f", '{name}'='{value}'" for name, value in chosen)

    def text(self, depth: int = 1) -> str:
        name = self.name("text")
        match self.dice.randrange(7) if depth > 0 else 0:
            case 1:
                return f"replace({name}, {self.pick(COMPARABLE)}, '0')"
            case 2:
                return f"substring({name}, {self.pick(('1', '2', '0', '5'))}{self.pick(('', ', 2', ', 1'))})"
            case 3:
                return f"substring({name} from {self.pick(('1', '2'))} for {self.pick(('1', '2', '9'))})"
            case 4:
                return f"cast({self.name('number')} as TEXT)"
            case 5:
                return f"upper({name})"
            case _:
                return name

    def case(self, depth: int) -> str:
        constants = self.dice.random() < 0.5
        texts = self.dice.random() < 0.3
        results = [
            self.pick(("'high'", "'low'", "s6"))
            if texts
            else self.pick(("1", "0", "-2.5"))
            if constants
            else self.number(depth - 1)
            for _ in range(3)
        ]
        tail = f" else {results[2]}" if self.dice.random() < 0.7 else ""
        if self.dice.random() < 0.3:
            name = self.name("number")
            return f"case {name} when {self.pick(('1', '2', '0'))} then {results[0]} when 5 then {results[1]}{tail} end"
        return f"case when {self.boolean(depth - 1)} then {results[0]} when {self.boolean(0)} then {results[1]}{tail} end"

    def boolean(self, depth: int = 1) -> str:
        choices = [self.comparison, self.comparison, self.comparison, self.text_condition, self.membership, self.between, self.null]
        if depth > 0:
            choices += [self.junction, self.junction, self.negation]
        return self.dice.choice(choices)(depth - 1)

    def comparison(self, depth: int) -> str:
        if self.dice.random() < 0.15:
            return self.dice.choice(
                (
                    self.name("boolean"),
                    f"{self.name('boolean')} {self.pick(('=', '!=', '=', '>', '<='))} {self.pick(('true', 'false'))}",
                )
            )
        right = self.pick(("3", "0", "2.5", "-1", "90", "'5'")) if self.dice.random() < 0.7 else self.number(depth)
        return f"{self.number(depth)} {self.pick(COMPARISONS)} {right}"

    def text_condition(self, depth: int) -> str:  # noqa: ARG002
        name = self.name("text")
        match self.dice.randrange(4):
            case 0:
                return f"{name} {self.pick(('like', 'like', 'not like'))} '{self.pick(LIKES)}'"
            case 1:
                return f"{name} {self.pick(('regexp', 'regexp', 'not regexp'))} '{self.pick(REGEXPS)}'"
            case _:
                return f"{name} {self.pick(COMPARISONS)} {self.pick(COMPARABLE)}"

    def membership(self, depth: int) -> str:  # noqa: ARG002
        negation = self.pick(("", "", "not "))
        if self.dice.random() < 0.4:
            return f"{self.name('text')} {negation}in ('on', 'off', '')"
        return f"{self.name('number')} {negation}in ({', '.join(self.dice.sample(('1', '2', '3', '0', '-4', '8.5'), 3))})"

    def between(self, depth: int) -> str:
        low, high = self.pick(("1", "-2", "0.5")), self.pick(("5", "90", "s1"))
        return f"{self.number(depth)} {self.pick(('', '', 'not '))}between {low} and {high}"

    def null(self, depth: int) -> str:  # noqa: ARG002
        return f"{self.any_name()} is {self.pick(('', 'not '))}null"

    def junction(self, depth: int) -> str:
        text = f"{self.boolean(depth)} {self.pick(('and', 'or', '&', '|', '&&', '||'))} {self.boolean(depth)}"
        return f"({text})" if self.dice.random() < 0.5 else text

    def negation(self, depth: int) -> str:
        return f"{self.pick(('not', '!'))} ({self.boolean(depth)})"

    # Aggregates

    def aggregate(self, *, nested: bool = True) -> str:
        """Return an aggregation, sometimes of an expression, and sometimes within one."""
        text = self.plain_aggregate()
        if not nested or self.dice.random() < 0.8:
            return text
        return self.dice.choice(
            (
                lambda: f"{text} + {self.plain_aggregate()}",
                lambda: f"{self.pick(('abs', 'atan', 'sqrt'))}({text})",
                lambda: f"{text} * 2",
                lambda: f"cast({text} as DOUBLE)",
                lambda: f"{text} > 3",
                lambda: f"-{text}",
                lambda: f"{text} is null",
                lambda: f"round({text}, 1)",
            )
        )()

    def plain_aggregate(self) -> str:
        roll = self.dice.random()
        if roll < 0.08:
            first = self.pick((self.any_name(), "time", self.number(1)))
            return f"{self.pick(TWO_ARGUMENT_AGGREGATES)}({first}, {self.name('number')})"
        if roll < 0.14:
            ignore = self.pick(("", ", 'ignoreNull'='false'", ", 'ignoreNull'='true'"))
            keep = self.pick(("1", "2", "3", "keep >= 2", "keep = 1"))
            return f"count_if({self.boolean(0)}, {keep}{ignore})"
        if roll < 0.18:
            return "count_time(*)"
        if roll < 0.55:
            return f"{self.pick(NUMERIC_AGGREGATES)}({self.argument()})"
        return f"{self.pick(AGGREGATES)}({self.any_name() if self.dice.random() < 0.7 else self.argument()})"

    def argument(self) -> str:
        return self.name("number") if self.dice.random() < 0.8 else self.number(1)


COMPARABLE: Final = ("'on'", "'o'", "'x y'", "''", "'42'")
