"""Random calls of registered functions: of IoTDB's library, of its test functions with every access strategy, and of aggregates."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tests.iotdb_comparison.functions import Choices
from tests.iotdb_comparison.registered import (
    AGGREGATES,
    LIBRARY_FUNCTIONS,
    MATCHES,
    REGISTERED,
    ROW_FUNCTIONS,
    WINDOW_FUNCTIONS,
    Registered,
)
from tests.iotdb_comparison.trees import END, START, Tree

KINDS: Final[Mapping[str, tuple[str, ...]]] = {
    "number": ("s1", "s2", "s3", "s4"),
    "int": ("s1",),
    "long": ("s2",),
    "summed": ("s1", "s4"),
    "text": ("s6", "s6", "s7"),
    "any": ("s1", "s2", "s3", "s4", "s5", "s6"),
}
MISFIT: Final = 0.04
"""How often a series of another type is an input, or an attribute has a value that is seldom valid, to see refusals."""
SELDOM_VALID: Final = ("-1", "0", "x", "", "1.5", "1000000")
DEVICES: Final = ("d1", "d2", "p", "w", "e", "n", "z", "c")
WEIGHTS: Final = (8, 5, 2, 1, 1, 1, 0.3, 0.7)
STEPS: Final = ("5s", "10s", "20s", "20s, 7s", "7s, 10s", "1m")


@dataclass(slots=True)
class Calls:
    """Random queries with calls over a tree of series; `number` keeps the series that they write apart."""

    dice: random.Random
    tree: Tree
    number: int

    def pick(self, choices: Sequence[str]) -> str:
        return self.dice.choice(choices)

    def maybe(self, text: str, chance: float = 0.5) -> str:
        return text if self.dice.random() < chance else ""

    def case(self) -> list[str]:
        """Return the statements of a random case."""
        families: Sequence[tuple[float, Callable[[], list[str]]]] = (
            (12, self.plain),
            (4, self.several),
            (4, self.expressions),
            (4, self.nested),
            (3, self.aggregated),
            (2, self.of_aggregates),
            (4, self.devices),
            (3, self.conditions),
            (8, self.windows),
            (3, self.rows),
            (8, self.groups),
            (2, self.matches),
            (1, self.into),
            (1, self.registrations),
        )
        makers, weights = [make for _, make in families], [weight for weight, _ in families]
        return self.dice.choices(makers, weights)[0]()

    # Parts

    def path(self, function: Registered | None = None) -> str:
        """Return a device, which mostly suits a function."""
        suitable = function is not None and function.device and self.dice.random() < 0.7
        name = function.device if suitable and function is not None else self.dice.choices(DEVICES, WEIGHTS)[0]
        return self.tree.devices[name].path

    def library(self) -> tuple[str, Registered]:
        name = self.pick(tuple(LIBRARY_FUNCTIONS))
        return name, LIBRARY_FUNCTIONS[name]

    def call(self, name: str, inputs: Sequence[str] | None = None) -> str:
        """Return a call of a function, by default of series of fitting types."""
        function = REGISTERED[name]
        inputs = [] if inputs is None else list(inputs)
        for kind in function.inputs[len(inputs) :]:
            inputs.append(inputs[0] if kind == "same" else self.series(kind))
        return f"{name}({', '.join(inputs)}{self.attributes(self.dice.choice(function.variants))})"

    def series(self, kind: str) -> str:
        """Return a series of a kind, rarely of another; rarely an expression of numbers."""
        if self.dice.random() < MISFIT:
            kind = self.pick(("any", "text", "number"))
        name = self.pick(KINDS[kind])
        if kind == "number" and self.dice.random() < 0.12:
            return self.pick((f"{name} + 1", f"abs({name})", f"-{name}", f"{name} * s1", f"cast({name} as DOUBLE)"))
        return name

    def attributes(self, choices: Choices) -> str:
        """Return attributes; a required one is left out rarely."""
        chosen = [
            (name.lstrip("?"), self.pick(values) if name.startswith("display") else self.value(values))
            for name, values in choices.items()
            if self.dice.random() < (0.5 if name.startswith("?") else 0.98)
        ]
        return "".join(f", '{name}'='{value}'" for name, value in chosen)

    def value(self, values: Sequence[str]) -> str:
        return self.pick(SELDOM_VALID if self.dice.random() < MISFIT / 2 else values)

    def times(self) -> str:
        first = START + self.dice.choice((0, 5000, 12_757, 30_000))
        last = first + self.dice.choice((15_000, 40_000, 700))
        return self.pick((f"time >= {first}", f"time < {last}", f"time > {first} and time <= {last}"))

    def pages(self, chance: float) -> str:
        offset = self.maybe(f" offset {self.pick(('1', '3', '50'))}", 0.3)
        return self.maybe(f" limit {self.pick(('1', '5', '30'))}{offset}", chance)

    # Families

    def plain(self) -> list[str]:
        name, function = self.library()
        where = self.maybe(f" where {self.times()}", 0.15)
        return [f"select {self.call(name)} from {self.path(function)}{where}{self.pages(0.08)}"]

    def several(self) -> list[str]:
        """Return a query with several columns, of which at least one is a call."""
        name, function = self.library()
        others = (
            lambda: self.call(self.library()[0]),
            lambda: self.call(self.pick(tuple(ROW_FUNCTIONS))),
            lambda: self.call(self.pick(tuple(ROW_FUNCTIONS))),
            lambda: self.series("any"),
        )
        items = [self.call(name), *(self.dice.choice(others)() for _ in range(self.dice.choice((1, 1, 2))))]
        self.dice.shuffle(items)
        return [f"select {', '.join(items)} from {self.path(function)}{self.pages(0.1)}"]

    def expressions(self) -> list[str]:
        """Return a query with a call within an expression."""
        name, function = self.library()
        call = self.call(name)
        item = self.pick(
            (
                f"{call} + 1",
                f"-{call}",
                f"{call} > 0.5",
                f"abs({call})",
                f"sin({call}) * 2",
                f"cast({call} as {self.pick(('INT32', 'TEXT', 'DOUBLE'))})",
                f"{call} + {self.series('number')}",
                f"{call} is null",
                f"round({call}, 2)",
                f"{call} as a",
            )
        )
        return [f"select {item} from {self.path(function)}{self.pages(0.1)}"]

    def nested(self) -> list[str]:
        """Return a query with a call of the result of another."""
        outer, function = self.library()
        inner = self.pick(
            (
                self.call(self.library()[0]),
                self.call(self.pick(tuple(ROW_FUNCTIONS))),
                self.call(self.pick(tuple(WINDOW_FUNCTIONS))),
                f"difference({self.series('number')})",
                f"top_k({self.series('number')}, 'k'='20')",
            )
        )
        if self.dice.random() < 0.4:
            outer = self.pick((*WINDOW_FUNCTIONS, *ROW_FUNCTIONS))
            function = REGISTERED[outer]
        text = self.call(outer, [inner])
        if self.dice.random() < 0.2:
            text = f"{self.pick(('difference', 'sin', 'abs'))}({text})"
        return [f"select {text} from {self.path(function)}"]

    def aggregated(self) -> list[str]:
        """Return a query with an aggregate of a call."""
        name, function = self.library() if self.dice.random() < 0.6 else (self.pick(tuple(ROW_FUNCTIONS)), None)
        aggregate = self.pick(
            ("avg", "count", "max_value", "min_time", "sum", "last_value", "first_value", "udaf_count", "udaf_sum")
        )
        group = self.maybe(f" group by ([{START}, {END}), {self.pick(STEPS)})", 0.2)
        return [f"select {aggregate}({self.call(name)}) from {self.path(function)}{group}"]

    def of_aggregates(self) -> list[str]:
        """Return a query with a call of aggregates."""
        name = self.pick((*LIBRARY_FUNCTIONS, *ROW_FUNCTIONS, *WINDOW_FUNCTIONS))
        aggregates = ("avg", "max_value", "count", "last_value", "sum", "udaf_avg")
        inputs = [f"{self.pick(aggregates)}({self.series('number')})" for _ in REGISTERED[name].inputs]
        group = self.maybe(f" group by ([{START}, {END}), {self.pick(('5s', '2s', '10s'))})", 0.8)
        return [f"select {self.call(name, inputs)} from {self.path()}{group}"]

    def devices(self) -> list[str]:
        """Return a query of several devices or series."""
        name, _ = self.library() if self.dice.random() < 0.7 else self.row_function()
        inputs = [self.pick(("*", "s*"))] if self.dice.random() < 0.25 else None
        database = self.tree.database
        path = self.pick(
            (f"{database}.*", f"{database}.d1, {database}.d2", f"{database}.d*", f"{database}.**", f"{database}.e, {database}.c")
        )
        call = self.call(name, inputs)
        if self.dice.random() < 0.5:
            order = self.maybe(f" order by {self.pick(('device desc', 'device, time'))}", 0.1)
            return [f"select {call}{self.maybe(', s1', 0.2)} from {path}{order}{self.pages(0.1)} align by device"]
        return [f"select {call} from {path}{self.pages(0.1)}"]

    def row_function(self) -> tuple[str, Registered]:
        name = self.pick(tuple(ROW_FUNCTIONS))
        return name, REGISTERED[name]

    def conditions(self) -> list[str]:
        """Return a query with a call in WHERE, or with conditions on values."""
        condition = self.pick(
            (
                "two_sum(s2, s2) > 5",
                f"two_sum(s1, s1) > 6 and {self.times()}",
                f"{self.call('adder')} > 8",
                f"{self.call('strreplace')} = 'off'",
                f"{self.call(self.library()[0])} > 0",
                f"s1 > {self.pick(('3', '100'))}",
                f"s4 > {self.pick(('1.5', '-2'))} and s1 < 7",
                "s6 = 'on on on' or s1 > 2",
                f"{self.times()} and s1 > 1",
            )
        )
        name, function = self.library() if self.dice.random() < 0.6 else self.row_function()
        item = self.call(name) if self.dice.random() < 0.8 else "s1, s4"
        return [f"select {item} from {self.path(function)} where {condition}{self.pages(0.1)}"]

    def windows(self) -> list[str]:
        """Return a query with a function of windows."""
        items = [self.call(self.pick(tuple(WINDOW_FUNCTIONS)))]
        if self.dice.random() < 0.15:
            items.append(self.pick((self.call(self.pick(tuple(WINDOW_FUNCTIONS))), "s1")))
        where = self.maybe(f" where {self.times()}", 0.1)
        return [f"select {', '.join(items)} from {self.path()}{where}{self.pages(0.1)}"]

    def rows(self) -> list[str]:
        """Return a query with a function of rows."""
        call = self.call(self.pick(tuple(ROW_FUNCTIONS)))
        item = self.pick((call, call, f"{call} + 1, sin({call})", f"{call}, s1", f"two_sum({call}, {call})", f"{call} * s4"))
        return [f"select {item} from {self.path()}{self.maybe(f' where {self.times()}', 0.2)}{self.pages(0.15)}"]

    def groups(self) -> list[str]:
        """Return a query with a registered aggregate, mostly of groups."""
        database = self.tree.database
        name = self.pick(tuple(AGGREGATES))
        call = self.call(name)
        item = self.pick((call, call, f"{call}, count(s1)", f"{call} + {self.call(self.pick(tuple(AGGREGATES)))}", f"abs({call})"))
        group = self.pick(
            (
                "",
                f" group by ([{START}, {END}), {self.pick(STEPS)})",
                f" group by ([{START}, {END}), {self.pick(STEPS)})",
                f" group by variation(s1, {self.pick(('2', '0', '5'))})",
                f" group by session({self.pick(('1s', '3s'))})",
                f" group by count(s1, {self.pick(('5', '3', '1'))})",
                f" group by condition(s1 > 3, KEEP >= {self.pick(('1', '2'))})",
                f" group by level = {self.pick(('0', '1', '2'))}",
                f" group by ([{START}, {END}), 20s), level = 1",
            )
        )
        having = self.maybe(f" having {self.pick((f'{call} > 3', f'{call} is not null', 'count(s1) > 2'))}", 0.15) if group else ""
        path = self.pick((f"{database}.*", f"{database}.d*", f"{database}.d1, {database}.d2")) if "level" in group else self.path()
        if not group and self.dice.random() < 0.3:
            path = self.pick((f"{database}.*", f"{database}.d1, {database}.d2"))
        where = self.maybe(f" where {self.pick((self.times(), 's1 > 2'))}", 0.15)
        tail = self.maybe(" align by device", 0.15) if "level" not in group else ""
        return [f"select {item} from {path}{where}{group}{having}{tail}"]

    def matches(self) -> list[str]:
        """Return a query with an aggregate of the library."""
        group = self.maybe(f" group by ([{START}, {END}), {self.pick(('20s', '30s'))})", 0.4)
        return [f"select {self.call(self.pick(tuple(MATCHES)))} from {self.path()}{group}"]

    def into(self) -> list[str]:
        """Return a query that writes the result of a call, and one that reads it."""
        name, function = self.library()
        target = f"{self.tree.database}_w.c{self.number}"
        return [
            f"select {self.call(name)} into {target}.x(a) from {self.path(function)}",
            f"select * from {target}.**",
            f"show timeseries {target}.**",
        ]

    def registrations(self) -> list[str]:
        """Return statements that register and drop functions, and are refused or undone."""
        name, class_name = f"f{self.number}", REGISTERED[self.pick(tuple(LIBRARY_FUNCTIONS))].class_name
        statements = (
            f"create function {self.pick(tuple(REGISTERED))} as '{class_name}'",
            f"create function {self.pick(('sin', 'top_k', 'avg', 'count'))} as '{class_name}'",
            f"create function {name} as 'org.apache.iotdb.library.NoSuchClass'",
            f"create function {name} as 'no.such.Thing'",
            f"drop function {name}",
            f"drop function {self.pick(('sin', 'avg', 'top_k', 'round'))}",
            f"select {name}(s1) from {self.tree.devices['d1'].path}",
            f"create function {name} as ''",
        )
        return [*self.dice.sample(statements, 2), f"create function {name} as '{class_name}'", f"drop function {name.upper()}"]
