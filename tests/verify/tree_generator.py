"""Random trees of devices, and random queries over them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

MEASUREMENTS = {"a": "INT32", "b": "INT64", "f": "FLOAT", "x": "DOUBLE", "flag": "BOOLEAN", "word": "TEXT"}
NUMBERS = ("a", "b", "f", "x")
WORDS = ("on", "off", "x y", "", "Idle")
START = 1_706_500_000_000
"""2024-01-29 03:46:40 UTC: months that follow have fewer days."""
SPAN = 120_000
AGGREGATES = ("count", "sum", "avg", "min_value", "max_value", "extreme", "first_value", "last_value", "min_time", "max_time")
RARE_AGGREGATES = ("stddev", "var_pop", "time_duration", "mode")
OF_ANY = ("count", "first_value", "last_value", "min_time", "max_time", "time_duration", "mode")
GROUPED = ("count", "sum", "avg", "min_value", "max_value", "extreme", "min_time", "max_time", "var_pop")
FILLS = ("previous", "linear", "7", "2.5", "true", "'none'", "previous, 20s")
SCALARS = (
    "abs({})",
    "-{}",
    "floor({})",
    "round({}, 1)",
    "{} + 1",
    "{} * 2.5",
    "{} / 3",
    "{} % 4",
    "cast({} as DOUBLE)",
    "sqrt({})",
)


@dataclass(frozen=True)
class TreeWorld:
    """Devices with their measurements, and the statements that create and fill them."""

    devices: dict[str, tuple[str, ...]]
    statements: tuple[str, ...]


def tree_world(seed: int) -> TreeWorld:
    """Return a random tree."""
    dice = random.Random(seed)
    devices = {}
    for path in ("root.w.a.d1", "root.w.a.d2", "root.w.b.d1", "root.w.b.c.d9"):
        devices[path] = tuple(name for name in MEASUREMENTS if name == "a" or dice.random() < 0.9)
    statements = ["create database root.w"]
    for path, names in devices.items():
        statements += [f"create timeseries {path}.{name} with datatype={MEASUREMENTS[name]}" for name in names]
        times = sorted(dice.sample(range(START, START + SPAN, 500), dice.randrange(3, 40)))
        rows = [f"({time}, {', '.join(value(dice, name) for name in names)})" for time in times]
        statements.append(f"insert into {path}(time, {', '.join(names)}) values {', '.join(rows)}")
    return TreeWorld(devices, tuple(statements))


def value(dice: random.Random, name: str) -> str:
    """Return a random value of a measurement as SQL."""
    if dice.random() < 0.25:
        return "null"
    match name:
        case "a":
            return str(dice.randrange(-5, 12))
        case "b":
            return str(dice.randrange(-(10**12), 10**12))
        case "flag":
            return dice.choice(["true", "false"])
        case "word":
            return f"'{dice.choice(WORDS)}'"
    return f"{dice.uniform(-20, 90):.2f}"


def tree_queries(seed: int, count: int) -> Iterator[str]:
    """Yield random queries."""
    dice = random.Random(seed)
    for _ in range(count):
        yield Query(dice).sql()


@dataclass
class Query:
    """One random query."""

    dice: random.Random

    def sql(self) -> str:
        """Return the query."""
        shape = self.dice.choice(["raw", "raw", "all", "windows", "windows", "windows", "level"])
        by_device = shape != "level" and self.dice.random() < 0.4
        prefix = self.dice.choice(["root.w.a.d1", "root.w.a.*", "root.w.**", "root.w.*.d1", "root.w.a.d2, root.w.b.d1"])
        if shape == "level":
            return self.level(self.dice.choice([prefix, "root.w.a.*, root.w.b"]))
        items = self.dice.sample([self.raw, self.aggregate][shape != "raw"](by_device), self.dice.randrange(1, 3))
        names = [
            f"{item} as c{number}" if prefix == "root.w.a.d1" and "*" not in item and self.chance(0.3) else item
            for number, item in enumerate(items)
        ]
        parts = [f"select {', '.join(names)} from {prefix}", self.where()]
        parts.append(self.window() if shape == "windows" else "")
        parts.append(self.having() if shape != "raw" and self.chance(0.25) else "")
        parts.append(self.order(by_device, shape))
        parts.append(self.fill() if shape in ("raw", "windows") and self.chance(0.35) else "")
        parts.append(f"limit {self.dice.randrange(1, 6)} offset {self.dice.randrange(3)}" if self.chance(0.25) else "")
        parts.append("align by device" if by_device else "")
        return " ".join(part for part in parts if part)

    def chance(self, share: float) -> bool:
        """Return True in a share of cases."""
        return self.dice.random() < share

    def raw(self, by_device: bool) -> list[str]:
        """Return items of raw queries."""
        number = self.dice.choice(NUMBERS)
        scalars = [self.dice.choice(SCALARS).format(number) for _ in range(2)]
        tests = ["a > 3", "word like 'o%'", "flag = true", "a between 1 and 5", "x is null", "upper(word)", "a in (1, 2, 3)"]
        mixed = ["a + x", "case when a > 3 then b else a end"]
        wild = ["*", "a"] if by_device else ["*", "a", "d1.x"]
        return [*scalars, self.dice.choice(tests), self.dice.choice(mixed), *wild[: 2 if by_device else 3], number]

    def aggregate(self, _: bool) -> list[str]:
        """Return items of aggregated queries."""
        items: list[str] = []
        while len(items) < 4:
            function = self.dice.choice(AGGREGATES if self.chance(0.8) else RARE_AGGREGATES)
            name = self.dice.choice([*NUMBERS, "word", "flag"] if function in OF_ANY else NUMBERS)
            items.append(f"{function}({'*' if function == 'count' and self.chance(0.2) else name})")
        return [
            *items,
            f"{items[0]} + 1" if "value" not in items[0] and "mode" not in items[0] else "sum(a) / count(a)",
            "avg(a + x)",
        ]

    def where(self) -> str:
        """Return WHERE."""
        first = START + self.dice.randrange(-10_000, SPAN)
        conditions = [
            f"time >= {first}",
            f"time < {first} and time > {START}",
            "time >= 2024-01-29T03:47:00Z",
            "a > 2",
            "a > 2 or x < 30",
            "not (a = 1) and time > 5",
        ]
        return f"where {self.dice.choice(conditions)}" if self.chance(0.5) else ""

    def window(self) -> str:
        """Return GROUP BY time."""
        start = START + self.dice.randrange(-3, 3) * 7_000
        choices = [
            (start, start + SPAN, "20s"),
            (start, start + SPAN - 1_234, "15s, 40s"),
            (start, start + SPAN, "30s, 10s"),
            (start, start + 50_000, "1m"),
            (START - 30 * 86_400_000, START + 70 * 86_400_000, "1mo"),
            (START - 31 * 86_400_000, START + 40 * 86_400_000, "2mo, 1mo"),
            (START - 5 * 86_400_000, START + 86_400_000, "1d, 2d"),
        ]
        first, last, step = self.dice.choice(choices)
        brackets = "(]" if self.chance(0.25) and "mo" not in step else "[)"
        return f"group by ({brackets[0]}{first}, {last}{brackets[1]}, {step})"

    def having(self) -> str:
        """Return HAVING."""
        return self.dice.choice(["having count(a) > 1", "having avg(a) > 2 or count(a) = 0", "having max_value(a) is not null"])

    def order(self, by_device: bool, shape: str) -> str:
        """Return ORDER BY."""
        if shape == "all":
            return ""
        keys = ["time desc"] + (["device desc", "time, device desc", "device, time desc"] if by_device else [])
        return f"order by {self.dice.choice(keys)}" if self.chance(0.3) else ""

    def fill(self) -> str:
        """Return FILL."""
        return f"fill({self.dice.choice(FILLS)})"

    def level(self, prefix: str) -> str:
        """Return a query with GROUP BY LEVEL."""
        function, name = self.dice.choice(GROUPED), self.dice.choice(NUMBERS)
        levels = self.dice.choice(["level = 1", "level = 2", "level = 1, 3", "level = 0"])
        item = "count(*)" if function == "count" and self.chance(0.5) else f"{function}({name})"
        item += f", {self.dice.choice(GROUPED)}(d1.{self.dice.choice(NUMBERS)})" if prefix == "root.w.a.*, root.w.b" else ""
        window = self.window().removeprefix("group by ") + ", " if self.chance(0.6) else ""
        time = f"where time >= {START + 20_000}" if self.chance(0.3) else ""
        return " ".join(part for part in (f"select {item} from {prefix}", time, f"group by {window}{levels}") if part)
