"""Random queries over a tree, family by family of clauses."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from tests.iotdb_comparison.clauses import Clauses
from tests.iotdb_comparison.expressions import Expressions
from tests.iotdb_comparison.functions import SERIES_FUNCTIONS
from tests.iotdb_comparison.trees import DAY_MS, END, SLOW_START, START, Tree

NESTED: Final = ("derivative", "top_k", "difference", "zero_count", "in_range", "m4", "diff", "on_off")
STEPS: Final = ("5s", "10s", "7s", "10s, 5s", "20s, 7s", "1m", "4s, 9s", "1500ms", "30s, 30s", "2s")
LONG_STEPS: Final = ("1mo", "1mo, 1mo", "2mo, 1mo", "1mo, 2mo", "30d", "1w", "1mo, 15d", "1y", "40d, 20d", "1mo10d", "3mo")
FILLS: Final = ("previous", "linear", "0", "3.5", "'text'", "true", "previous, 8s", "previous, 1500ms", "-7", "'42'")
MANY: Final = ("*", "**", "g.*", "d*", "g.**", "*d1", "p.*")


@dataclass(slots=True)
class Queries:
    """Random queries over a tree."""

    dice: random.Random
    tree: Tree

    def query(self) -> str:
        """Return a query of a random family."""
        families: Sequence[tuple[int, Callable[[], str]]] = (
            (10, self.expressions),
            (8, self.functions),
            (5, self.raw),
            (6, self.aggregates),
            (8, self.by_time),
            (3, self.by_month),
            (5, self.by_level),
            (7, self.by_rows),
            (4, self.having),
            (6, self.filled),
            (7, self.by_device),
            (3, self.last),
            (3, self.paged),
            (3, self.ordered),
            *Clauses(self).families(),
        )
        weights = [weight for weight, _ in families]
        return self.dice.choices([make for _, make in families], weights)[0]()

    # Parts

    def pick(self, choices: Sequence[str]) -> str:
        return self.dice.choice(choices)

    def maybe(self, text: str, chance: float = 0.5) -> str:
        return text if self.dice.random() < chance else ""

    def device(self) -> tuple[str, Expressions]:
        """Return the path of one device and expressions over its measurements."""
        name = self.dice.choices(list(self.tree.devices), [6, 3, 2, 1, 1, 1, 2, 1])[0]
        device = self.tree.devices[name]
        return device.path, Expressions(self.dice, list(device.types))

    def devices(self) -> tuple[str, Expressions]:
        """Return a path of several devices, rarely one of none, and expressions over their measurements."""
        database = self.tree.database
        names = ["s1", "s4"] if self.dice.random() < 0.5 else ["s1", "s2", "s3", "s4", "s5", "s6"]
        match self.dice.randrange(10):
            case 0:
                path = ", ".join(self.dice.sample(self.tree.paths(), 2))
            case 1:
                path = self.pick((f"{database}.nope", "root.nope.**", f"{database}.d1.s1"))
            case _:
                path = f"{database}.{self.pick(MANY)}"
        return path, Expressions(self.dice, names)

    def place(self) -> tuple[str, Expressions]:
        return self.device() if self.dice.random() < 0.75 else self.devices()

    def where(self, expressions: Expressions, chance: float = 0.4) -> str:
        """Return a WHERE clause, or nothing."""
        if self.dice.random() >= chance:
            return ""
        times = self.times()
        match self.dice.randrange(5):
            case 0:
                return f" where {times}"
            case 1:
                return f" where {times} {self.pick(('and', 'and', 'or'))} {expressions.boolean(0)}"
            case _:
                return f" where {expressions.boolean(1)}"

    def times(self) -> str:
        first = START + self.dice.randint(0, 30) * 1000
        last = first + self.dice.randint(1, 30) * 1000
        return self.pick(
            (
                f"time >= {first} and time < {last}",
                f"time > {first}",
                f"time <= {last}",
                f"time between {first} and {last}",
                f"time in ({first}, {last}, {START + 5757})",
                f"time != {first}",
                "time > 2023-11-14T22:13:30+00:00",
                "time >= 2023-11-14 22:13:20.500 and time < 2023-11-14T22:14:00.000+00:00",
            )
        )

    def pages(self, chance: float = 0.4) -> str:
        """Return LIMIT, OFFSET, SLIMIT and SOFFSET, some of them."""
        if self.dice.random() >= chance:
            return ""
        parts = [
            self.maybe(f" limit {self.dice.choice((1, 3, 7, 20))}", 0.8),
            self.maybe(f" offset {self.dice.choice((0, 2, 5, 40))}", 0.4),
            self.maybe(f" slimit {self.dice.choice((1, 2, 5))}", 0.2),
            self.maybe(f" soffset {self.dice.choice((0, 1, 3))}", 0.15),
        ]
        return "".join(parts)

    def alias(self, text: str) -> str:
        return f"{text} as {self.pick(('a', 'b1', '`x y`', 'value'))}" if self.dice.random() < 0.1 else text

    def items(self, make: Callable[[], str], most: int = 3) -> str:
        return ", ".join(self.alias(make()) for _ in range(self.dice.randint(1, most)))

    # Families

    def expressions(self) -> str:
        path, expressions = self.device() if self.dice.random() < 0.85 else self.devices()
        if self.dice.random() < 0.05:
            columns = self.pick(("d1.s1 + d2.s1", "d*.s1 * 2", "*.s1", "d1.*", "g.*.s4"))
            return f"select {columns} from {self.tree.database}{self.pages()}"
        return f"select {self.items(lambda: expressions.any(2), 2)} from {path}{self.where(expressions, 0.2)}{self.pages(0.2)}"

    def functions(self) -> str:
        path, expressions = self.device() if self.dice.random() < 0.9 else self.devices()
        if self.dice.random() < 0.15:
            function = self.pick(NESTED)
            outer = f"{function}({expressions.series(0)}{expressions.attributes(SERIES_FUNCTIONS[function])})"
            return f"select {outer} from {path}{self.where(expressions, 0.2)}"
        return f"select {self.items(lambda: expressions.series(1), 2)} from {path}{self.where(expressions, 0.2)}{self.pages(0.2)}"

    def raw(self) -> str:
        path, expressions = self.place()
        if path.endswith("g.d1") and self.dice.random() < 0.5:
            return f"select {self.pick(('s1_alias', 's1_alias + 1', 'count(s1_alias)', 'last s1_alias'))} from {path}"
        columns = self.pick(("*", "s1, s4", "s1", "s6, s5", "s*", "s1, s1", "s1, s2, s3", "s1 as x, s4 as y", "s7, s8, s9, s10"))
        return f"select {columns} from {path}{self.where(expressions, 0.6)}{self.order(0.3)}{self.pages()}"

    def aggregates(self) -> str:
        path, expressions = self.place()
        items = self.pick(("count(*)", "last_value(*)", "max_time(s*)")) if self.dice.random() < 0.1 else ""
        return f"select {items or self.items(expressions.aggregate)} from {path}{self.where(expressions)}"

    def span(self) -> str:
        first, last = START + self.dice.choice((0, 0, -3000, 5500)), END - self.dice.choice((0, 0, 10_000, 750))
        return f"({first}, {last}]" if self.dice.random() < 0.25 else f"[{first}, {last})"

    def time_group(self) -> str:
        return f" group by {self.maybe('time', 0.1)}({self.span()}, {self.pick(STEPS)})"

    def by_time(self) -> str:
        path, expressions = self.place()
        end = self.maybe("__endTime, ", 0.1)
        rest = f"{self.where(expressions, 0.3)}{self.time_group()}{self.order(0.2)}{self.pages(0.2)}"
        return f"select {end}{self.items(expressions.aggregate)} from {path}{rest}"

    def by_month(self) -> str:
        expressions = Expressions(self.dice, ["s1", "s4"])
        first = SLOW_START + self.dice.choice((0, 0, 30, 14)) * DAY_MS + self.dice.choice((0, 0, 3_600_000))
        last = first + self.dice.choice((400, 300, 365, 90)) * DAY_MS
        span = f"({first}, {last}]" if self.dice.random() < 0.25 else f"[{first}, {last})"
        if self.dice.random() < 0.3:
            span = "[2023-01-31, 2024-02-01)"
        fill = self.maybe(f" fill({self.pick(FILLS)})", 0.2)
        grouping = f" group by ({span}, {self.pick(LONG_STEPS)})"
        return f"select {self.items(expressions.aggregate)} from {self.tree.database}.m1{grouping}{fill}{self.pages(0.1)}"

    def by_level(self) -> str:
        path, expressions = self.devices()
        level = self.pick(("0", "1", "2", "1, 2", "3", "2, 3"))
        item = self.dice.choice(
            (expressions.plain_aggregate, lambda: "count(*)", lambda: f"{self.pick(('sum', 'avg', 'count'))}(s1)")
        )
        time = f"({self.span()}, {self.pick(STEPS)}), " if self.dice.random() < 0.3 else ""
        having = self.maybe(" having count(s1) > 3", 0.1)
        return f"select {self.items(item, 2)} from {path}{self.where(expressions, 0.1)} group by {time}level = {level}{having}"

    def row_group(self, expressions: Expressions) -> str:
        null = self.pick(("", "", ", ignoreNull=true", ", ignoreNull=false"))
        name = expressions.name("number")
        return self.pick(
            (
                f"variation({name}, {self.pick(('0', '2', '3.5', '20'))}{null})",
                f"variation({self.pick(('s6', 's5', name))}{null})",
                f"variation({expressions.number(1)}, 3{null})",
                f"condition({expressions.boolean(0)}, {self.pick(('KEEP >= 1', 'KEEP >= 2', 'keep = 2', 'keep < 3', '2'))}{null})",
                f"session({self.pick(('2s', '5s', '1s', '1500ms'))})",
                f"count({expressions.any_name()}, {self.pick(('4', '3', '5', '1'))}{null})",
            )
        )

    def by_rows(self) -> str:
        path, expressions = self.device() if self.dice.random() < 0.8 else self.devices()
        end = self.maybe("__endTime, ", 0.5)
        tail = self.maybe(" align by device", 0.25)
        pages = "" if tail else self.pages(0.2)
        group = f" group by {self.row_group(expressions)}"
        having = self.maybe(f" having {expressions.plain_aggregate()} > 2", 0.1)
        return (
            f"select {end}{self.items(expressions.aggregate)} from {path}{self.where(expressions, 0.2)}{group}{having}{pages}{tail}"
        )

    def having(self) -> str:
        path, expressions = self.place()
        condition = self.pick(
            (
                f"{expressions.plain_aggregate()} > 3",
                f"{expressions.plain_aggregate()} is not null and count(s1) > 1",
                f"{expressions.plain_aggregate()} + 1 > 0 or avg(s4) < 90",
                "count(s1) between 2 and 5",
                "s1 > 3",
            )
        )
        grouping = self.time_group() if self.dice.random() < 0.8 else ""
        tail = self.maybe(" align by device", 0.3)
        return f"select {self.items(expressions.aggregate)} from {path}{grouping} having {condition}{tail}"

    def filled(self) -> str:
        path, expressions = self.place()
        fill = f" fill({self.pick(FILLS)})"
        if self.dice.random() < 0.5:
            grouping = f"{self.time_group()}{fill}{self.order(0.1)}{self.pages(0.2)}"
            return f"select {self.items(expressions.aggregate)} from {path}{grouping}{self.maybe(' align by device', 0.2)}"
        columns = self.pick(("s1, s4", "s1, s6", "s5, s3", "*", "s2, s1 + 1", "s9, s10, s7", "s1, s8"))
        return f"select {columns} from {path}{self.where(expressions, 0.3)}{fill}{self.order(0.1)}{self.pages(0.3)}"

    def by_device(self) -> str:
        path, expressions = self.devices() if self.dice.random() < 0.7 else self.device()
        where = self.where(expressions, 0.3)
        order = self.maybe(
            " order by "
            + self.pick(("time desc", "device desc", "device desc, time desc", "time", "s1 desc, time", "device, s1", "s4")),
            0.35,
        )
        if self.dice.random() < 0.5:
            items = self.pick(("*", "s1, s4", "s1", "s1 + 1", expressions.any(1), "s1 as x", "s6, s5"))
            fill = self.maybe(f" fill({self.pick(FILLS)})", 0.15)
            return f"select {items} from {path}{where}{order}{fill}{self.pages(0.4)} align by device"
        grouping = self.pick(("", self.time_group(), self.time_group()))
        order = "" if " s1" in order or " s4" in order else order
        items = self.items(expressions.aggregate)
        return f"select {items} from {path}{where}{grouping}{order}{self.pages(0.2)} align by device"

    def last(self) -> str:
        path, expressions = self.place()
        columns = self.pick(("*", "s1", "s1, s4", "s*", "s6, s5", expressions.any_name()))
        where = self.maybe(f" where {self.times()}", 0.3)
        order = self.pick((" order by timeseries", " order by timeseries desc", "", " order by time desc", " order by value"))
        return f"select last {columns} from {path}{where}{order}{self.maybe(' limit 2', 0.1)}"

    def paged(self) -> str:
        path, expressions = self.place()
        return f"select {self.pick(('*', 's1, s2', expressions.any(1)))} from {path}{self.where(expressions, 0.2)}{self.pages(1)}"

    def order(self, chance: float) -> str:
        return self.maybe(f" order by {self.pick(('time desc', 'time', 'time asc'))}", chance)

    def ordered(self) -> str:
        path, expressions = self.place()
        key = self.pick(
            (
                f"{expressions.number(1)} desc, time",
                f"{expressions.any_name()}, time desc",
                "s1 nulls first, time",
                "s4 desc nulls last",
            )
        )
        columns = self.pick(("s1, s4", "*", "s1"))
        return f"select {columns} from {path}{self.where(expressions, 0.2)} order by {key}{self.pages(0.3)}"
