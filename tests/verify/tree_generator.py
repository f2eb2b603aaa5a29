"""Random trees of devices, and random queries over them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

SITES = {"root.w.a.d1": "north", "root.w.a.d2": "south", "root.w.b.d1": "north"}
"""The tag `site` of the series of each device; those of the last device have none."""
MEASUREMENTS = {"a": "INT32", "b": "INT64", "f": "FLOAT", "x": "DOUBLE", "flag": "BOOLEAN", "word": "TEXT"}
NUMBERS = ("a", "b", "f", "x")
WORDS = ("on", "off", "x y", "", "Idle")
START = 1_706_500_000_000
"""2024-01-29 03:46:40 UTC: months that follow have fewer days."""
SPAN = 120_000
AGGREGATES = ("count", "sum", "avg", "min_value", "max_value", "extreme", "first_value", "last_value", "min_time", "max_time")
RARE_AGGREGATES = ("stddev", "var_pop", "time_duration", "mode")
COUNT_IFS = ("count_if(a > 3, 2)", "count_if(flag, keep >= 1)", "count_if(a + x > 10, 1, 'ignoreNull'='false')")
OF_ANY = ("count", "first_value", "last_value", "min_time", "max_time", "time_duration", "mode")
POINTS = (
    "difference({})",
    "non_negative_difference({})",
    "derivative({})",
    "time_difference({})",
    "change_points({})",
    "diff({})",
    "diff({}, 'ignoreNull'='false')",
    "zero_count({})",
    "non_zero_count({}, 'min'='2')",
    "non_zero_duration({}, 'max'='20000')",
    "top_k({}, 'k'='4')",
    "bottom_k({}, 'k'='2')",
    "m4({}, 'windowSize'='6')",
    "m4({}, 'windowSize'='8', 'slidingStep'='3')",
    "m4({}, 'timeInterval'='20000')",
    "m4({}, 'timeInterval'='30000', 'slidingStep'='10000', 'displayWindowEnd'='1706500090000')",
    "m4({}, 'timeInterval'='30000', 'displayWindowBegin'='1706500005000')",
    "equal_size_bucket_m4_sample({}, 'proportion'='0.4')",
    "equal_size_bucket_agg_sample({}, 'proportion'='0.3', 'type'='avg')",
    "equal_size_bucket_agg_sample({}, 'proportion'='0.2', 'type'='max')",
    "equal_size_bucket_agg_sample({}, 'proportion'='0.5', 'type'='extreme')",
    "equal_size_bucket_agg_sample({}, 'type'='variance')",
)
GROUPED = ("count", "sum", "avg", "min_value", "max_value", "extreme", "min_time", "max_time", "var_pop")
OF_POINTS = ("count", "sum", "avg", "min_value", "max_value", "min_time", "last_value")
"""Aggregates of the points of time-series functions."""
SHAPES = ("raw", "raw", "all", "windows", "windows", "windows", "level", "rows", "rows", "tags", "points", "points")
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
        tags = f" tags(site={SITES[path]}, kind=k{dice.randrange(2)})" if path in SITES else ""
        statements += [f"create timeseries {path}.{name} with datatype={MEASUREMENTS[name]}{tags}" for name in names]
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
        shape = self.dice.choice(SHAPES)
        by_device = shape not in ("level", "tags") and self.chance(0.4)
        prefix = self.dice.choice(["root.w.a.d1", "root.w.a.*", "root.w.**", "root.w.*.d1", "root.w.a.d2, root.w.b.d1"])
        if shape == "level":
            return self.level(self.dice.choice([prefix, "root.w.a.*, root.w.b"]))
        if shape == "tags":
            return self.tags(prefix)
        items = self.dice.sample(self.items(shape, by_device), self.dice.randrange(1, 3))
        names = [
            f"{item} as c{number}" if prefix == "root.w.a.d1" and "*" not in item and self.chance(0.3) else item
            for number, item in enumerate(items)
        ]
        parts = [f"select {', '.join(names)} from {prefix}", self.where()]
        device = "" if by_device else self.dice.choice(["root.w.a.d1.", "root.w.b.d1."])
        parts.append(self.window() if shape == "windows" else self.rows(device) if shape == "rows" else "")
        parts.append(self.having() if shape not in ("raw", "points") and self.chance(0.25) else "")
        parts.append(self.order(by_device, shape))
        parts.append(self.fill() if shape != "all" and self.chance(0.35) else "")
        parts.append(f"limit {self.dice.randrange(1, 6)} offset {self.dice.randrange(3)}" if self.chance(0.25) else "")
        parts.append("align by device" if by_device else "")
        return " ".join(part for part in parts if part)

    def chance(self, share: float) -> bool:
        """Return True in a share of cases."""
        return self.dice.random() < share

    def items(self, shape: str, by_device: bool) -> list[str]:
        """Return items of a shape of query."""
        if shape == "points":
            return self.points()
        if shape == "raw":
            return self.raw(by_device)
        items = self.aggregate(by_device)
        return [*items, f"{self.dice.choice(OF_POINTS)}({self.series_function()})"] if self.chance(0.3) else items

    def series_function(self) -> str:
        """Return a time-series function, rarely of the points of another one."""
        inner = self.dice.choice(NUMBERS)
        if self.chance(0.15):
            inner = self.dice.choice(("difference({})", "change_points({})")).format(inner)
        nested = [function for function in POINTS if "ignoreNull" not in function] if "(" in inner else POINTS
        return self.dice.choice(nested).format(inner)

    def points(self) -> list[str]:
        """Return items of queries for the points of time-series functions."""
        function = self.series_function()
        return [function, self.series_function(), f"{function} * 2", self.dice.choice(NUMBERS), f"{self.dice.choice(NUMBERS)} + 1"]

    def rows(self, device: str) -> str:
        """Return GROUP BY by rows; `device` is in front of the names of series."""
        name, ignored = device + self.dice.choice(NUMBERS), self.dice.choice(["", ", ignoreNull=false"])
        clauses = [
            f"session({self.dice.choice(['1s', '3s', '10s', '500ms'])})",
            f"variation({name}{ignored})",
            f"variation({name}, {self.dice.choice(['3', '25.5', '100'])}{ignored})",
            f"variation({device}{self.dice.choice(['word', 'flag'])}{ignored})",
            f"condition({name} > 3, keep >= {self.dice.randrange(1, 3)}{ignored})",
            f"condition({device}flag = true, keep <= 3{ignored})",
            f"count({name}, {self.dice.randrange(1, 6)}{ignored})",
        ]
        return f"group by {self.dice.choice(clauses)}"

    def tags(self, prefix: str) -> str:
        """Return a query with GROUP BY TAGS."""
        functions = self.dice.sample(GROUPED, self.dice.randrange(1, 3))
        items = ", ".join(f"{function}({self.dice.choice(NUMBERS)})" for function in functions)
        keys = self.dice.choice(["site", "kind", "site, kind", "none"])
        windowed = self.chance(0.6)
        window = self.window().removeprefix("group by ") + ", " if windowed else ""
        parts = [f"select {items} from {prefix}", f"where time >= {START + 20_000}" if self.chance(0.3) else ""]
        parts.append(f"group by {window}tags({keys})")
        parts.append("order by time desc" if windowed and "mo" not in window and self.chance(0.3) else "")
        parts.append("fill(7)" if self.chance(0.3) else "")
        parts.append(f"limit {self.dice.randrange(1, 4)} offset {self.dice.randrange(2)}" if windowed and self.chance(0.25) else "")
        return " ".join(part for part in parts if part)

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
            self.dice.choice(COUNT_IFS),
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
        having = self.having() if self.chance(0.4) else ""
        return " ".join(part for part in (f"select {item} from {prefix}", time, f"group by {window}{levels}", having) if part)
