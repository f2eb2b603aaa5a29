"""Plays a combination of a continuous query's dimensions: its statements, its rows, and what the evaluator makes of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from tests.combinations.covering import Combination
from tests.combinations.query_dimensions import BY_ROWS, TIMED
from tests.combinations.query_evaluator import DAY, Length, Query, Row, Values

Series = tuple[str, str]
"""A device and a measurement."""
EVERY: Final = 20
"""How often a query is executed, in units."""


@dataclass(frozen=True)
class Scale:
    """The length of a unit, and windows of about 10, 20, 5 and 4 units."""

    base: int
    unit: int
    name: str
    window: tuple[str, Length]
    long: tuple[str, Length]
    short: tuple[str, Length]
    """Windows: the usual one, one that overlaps the next, and one that leaves gaps."""

    def duration(self, units: int) -> str:
        return f"{units * self.unit // (1000 if self.name == 's' else DAY)}{self.name}"


SCALES: Final = {
    "seconds": Scale(1_700_000_000_000, 1000, "s", ("10s", Length(10_000)), ("15s", Length(15_000)), ("4s", Length(4_000))),
    "months": Scale(
        1_706_659_200_000, 3 * DAY, "d", ("1mo", Length(months=1)), ("2mo", Length(months=2)), ("12d", Length(12 * DAY))
    ),
}
"""Both bases are an execution of EVERY. That of months is 2024-01-31: ends of months, and changes of clocks follow."""
AGES: Final = {"aged": 12, "months": 0}
CONDITIONS: Final[dict[str, tuple[str, Any]]] = {
    "none": ("", None),
    "number": ("w > 2", lambda w: w > 2),
    "not": ("not (w = 4)", lambda w: w != 4),
    "other": ("w in (1, 2, 3, 5)", lambda w: w in (1, 2, 3, 5)),
    "time": ("time > 5", None),
}
DEVICES: Final = {"one": ("g1.d1",), "group": ("g1.d1", "g1.d2"), "all": ("g1.d1", "g1.d2", "g2.d1")}
PATHS: Final = {"one": "g1.d1", "group": "g1.*", "all": "*.*"}
NEW: Final = "g1.d3"
STEPS: Final = {"g1.d1": 3, "g1.d2": 4, "g2.d1": 5, NEW: 3}
RUNS: Final = {"count": "count(v, 3)", "variation": "variation(w, 3)"}
NODES: Final = "${2}.${3}"
EMPTY: Final = range(22, 39)
"""Units of windows without rows."""


@dataclass
class Play:
    """A combination in a database of its own. `happen` says what is executed, and what is stored then."""

    combination: Combination
    name: str
    stored: dict[str, dict[int, dict[str, Any]]] = field(default_factory=dict)
    target: dict[tuple[str, str], dict[int, Any]] = field(default_factory=dict)
    created: int = 0
    done: int | None = None
    is_paused: bool = False
    executed: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.scale = SCALES[self.combination["scale"]]

    # The continuous query

    @property
    def devices(self) -> list[str]:
        """Return the devices that the query reads now."""
        names = DEVICES[self.combination["source"]]
        return sorted({*names, *([NEW] if NEW in self.stored and self.combination["source"] != "one" else [])})

    @property
    def aggregates(self) -> list[str]:
        return [self.combination["aggregate"], *(["count"] if self.combination["items"] == "two" else [])]

    def select(self) -> str:
        if self.combination["window"] == "rows":
            return "v, w" if self.combination["items"] == "two" else "v"
        return ", ".join(f"{name}(v)" for name in self.aggregates)

    def groups(self) -> list[list[str]]:
        """Return the devices of each column of an item."""
        level = self.combination["level"]
        if level == "none":
            return [[device] for device in self.devices]
        part = {"1": slice(0, 0), "2": slice(0, 1), "several": slice(1, 2)}[level]
        groups: dict[Any, list[str]] = {}
        for device in self.devices:
            groups.setdefault(tuple(device.split(".")[part]), []).append(device)
        return list(groups.values())

    def columns(self, devices: Sequence[str] | None = None) -> list[tuple[str, list[Series]]]:
        """Return the aggregate and the series of each column; of the rows of one device, with ALIGN BY DEVICE."""
        groups = self.groups() if devices is None else [list(devices)]
        if self.combination["window"] == "rows":
            measurements = ("v", "w") if self.combination["items"] == "two" else ("v",)
            return [("", [(device, name) for device in group]) for name in measurements for group in groups]
        return [(name, [(device, "v") for device in group]) for name in self.aggregates for group in groups]

    def targets(self) -> list[tuple[str, str]]:
        """Return the series that the columns are written to, by device; with ALIGN BY DEVICE, those of the first source."""
        count = len(self.columns() if self.combination["into"] != "nodes" else self.columns(self.devices[:1]))
        match self.combination["into"]:
            case "apart":
                return [(f"root.q{self.name}.e{number}", "c") for number in range(count)]
            case "database":
                return [(f"root.q{self.name}.d", f"c{number}") for number in range(count)]
            case "nodes":
                return [(f"root.q{self.name}.{NODES}", f"c{number}") for number in range(count)]
            case "copied":
                return [(f"root.q{self.name}.{device}", "v") for device in self.devices]
        return [(f"root.p{self.name}.out.d", f"c{number}") for number in range(count)]

    def into(self) -> str:
        match self.combination["into"]:
            case "none":
                return ""
            case "copied":
                return f"into root.q{self.name}.{NODES}(::) "
            case "apart":
                return "into " + ", ".join(f"{device}({name})" for device, name in self.targets()) + " "
        targets = self.targets()
        aligned = "aligned " if self.combination["into"] == "aligned" else ""
        return f"into {aligned}{targets[0][0]}({', '.join(name for _, name in targets)}) "

    def grouping(self) -> str:
        scale, window = self.scale, self.combination["window"]
        step = "1mo" if scale.name == "d" else "10s"
        clauses = {
            "tumbling": scale.window[0],
            "sliding": f"{scale.long[0]}, {step}",
            "gaps": f"{scale.short[0]}, {step}",
            "ranged": f"[0, 100), {scale.window[0]}",
        }
        items = []
        if window in clauses:
            items.append(f"({clauses[window]})")
        elif window in BY_ROWS:
            items.append(f"session({scale.duration(3)})" if window == "session" else RUNS[window])
        if self.combination["level"] != "none":
            items.append("level = " + {"1": "1", "2": "2", "several": "1, 3"}[self.combination["level"]])
        return f" group by {', '.join(items)}" if items else ""

    def fill(self) -> str:
        match self.combination["fill"]:
            case "none":
                return ""
            case "aged":
                return f" fill(previous, {self.scale.duration(12)})"
            case "months":
                return " fill(previous, 1mo)"
            case "linear aged":
                return f" fill(linear, {self.scale.duration(12)})"
            case "value":
                return " fill(7)"
        return f" fill({self.combination['fill']})"

    def resample(self) -> str:
        chosen, duration = self.combination, self.scale.duration
        every = {"default": "", "given": f" every {duration(EVERY)}", "short": " every 500ms"}[chosen["every"]]
        length = self.every
        ranges = {
            "default": "",
            "equal": f" range {length // 1000}s",
            "longer": f" range {2 * length // 1000}s",
            "offset": f" range {(length + 10 * self.scale.unit) // 1000}s, {duration(5)}",
            "shorter": f" range {length // 2000}s",
            "swapped": f" range {2 * length // 1000}s, {2 * length // 1000}s",
        }[chosen["range"]]
        boundary = "" if chosen["boundary"] == "default" else f" boundary {self.boundary}"
        text = f"{every}{boundary}{ranges}"
        policy = "" if chosen["policy"] == "default" else f"timeout policy {chosen['policy']} "
        return (f"resample{text} " if text else "") + policy

    def statement(self) -> str:
        chosen = self.combination
        condition = CONDITIONS[chosen["condition"]][0]
        where = f" where {condition}" if condition else ""
        having = " having count(v) > 1" if chosen["having"] == "count" else ""
        align = " align by device" if chosen["into"] == "nodes" else ""
        path = f"root.p{self.name}.{PATHS[chosen['source']]}"
        body = f"select {self.select()} {self.into()}from {path}{where}{self.grouping()}{having}{self.fill()}{align}"
        return f"create cq c{self.name} {self.resample()}begin {body} end"

    # Its schedule

    @property
    def every(self) -> int:
        if self.combination["every"] == "given" or self.combination["window"] not in TIMED:
            return EVERY * self.scale.unit
        # The default is the interval of GROUP BY; a month has 30 days.
        name = {"sliding": self.scale.long, "gaps": self.scale.short}.get(self.combination["window"], self.scale.window)
        return name[1].ms + name[1].months * 30 * DAY

    @property
    def boundary(self) -> int:
        return {
            "default": 0,
            "later": self.scale.base - 90 * self.every + 3 * self.scale.unit,
            "future": self.scale.base + 21 * self.scale.unit,
        }[self.combination["boundary"]]

    def offsets(self) -> tuple[int, int]:
        if self.combination["range"] == "offset":
            return self.every + 10 * self.scale.unit, 5 * self.scale.unit
        return self.every * (2 if self.combination["range"] == "longer" else 1), 0

    def create(self, now: int) -> list[str]:
        self.created = now
        return [self.statement()]

    def due(self, now: int) -> list[int]:
        """Return the instants whose executions are due, in order; with DISCARD, the latest."""
        boundary = self.boundary
        first = boundary if boundary >= self.created else boundary + -((boundary - self.created) // self.every) * self.every
        instants = [at for at in range(first, now + 1, self.every) if self.done is None or at > self.done]
        return instants[-1:] if self.combination["policy"] == "DISCARD" else instants

    def execute(self, now: int) -> None:
        """Compute what the executions that are due write."""
        if self.is_paused:
            return
        for at in self.due(now):
            since, until = self.offsets()
            self.write(at - since, at - until)
            self.done = at

    def write(self, start: int, end: int) -> None:
        if self.combination["into"] != "nodes":
            query = self.query(self.devices)
            result = query.evaluate(self.series(), start, end)
            self.replace(query, self.targets(), result, start, end)
            return
        # The rows of devices follow each other, so that FILL continues from one to the next.
        parts = [(device, self.query([device])) for device in self.devices]
        unfilled = [(device, replace(query, fill="none").evaluate(self.series(), start, end)) for device, query in parts]
        whole = [row for _, result in unfilled for row in result]
        filled = iter(list(parts[0][1].filled(whole)))
        for (device, query), (_, result) in zip(parts, unfilled, strict=True):
            rows = [(time, next(filled)) for time, _ in result]
            group, name = device.split(".")
            targets = [(f"root.q{self.name}.{group}.{name}", column) for _, column in self.targets()]
            self.replace(query, targets, rows, start, end)

    def series(self) -> dict[str, dict[int, Values]]:
        return {device: dict(rows.items()) for device, rows in self.stored.items()}

    def replace(self, query: Query, targets: Sequence[tuple[str, str]], result: Any, start: int, end: int) -> None:
        """Replace what earlier executions have written at the times of the windows."""
        for number, target in enumerate(targets):
            points = self.target.setdefault(target, {})
            for time in [time for time in points if self.writes_to(query, time, start, end)]:
                del points[time]
            points |= {time: values[number] for time, values in result if values[number] is not None}

    def writes_to(self, query: Query, time: int, start: int, end: int) -> bool:
        if query.window == "total":
            return time == 0
        if query.window != "timed":
            return start <= time < end
        return any(first == time for first, _ in query.windows([], start, end))

    def query(self, devices: Sequence[str]) -> Query:
        """Return the query over devices: all with ALIGN BY TIME, else one."""
        chosen, scale = self.combination, self.scale
        by_device = chosen["into"] == "nodes"
        columns = self.columns(devices if by_device else None)
        window = chosen["window"] if chosen["window"] not in TIMED else "timed"
        condition = CONDITIONS[chosen["condition"]][1]

        def passes(row: Row) -> bool:
            return condition is None or all((device, "w") in row and condition(row[device, "w"]) for device in devices)

        measurements = {"v"}
        if condition is not None or window == "variation" or (window == "rows" and chosen["items"] == "two"):
            measurements.add("w")
        counted = [[(device, "v") for device in group] for group in ([list(devices)] if by_device else self.groups())]

        def having(rows: Sequence[Row]) -> bool:
            return all(sum(one in row for row in rows for one in series) > 1 for series in counted)

        interval = {"sliding": scale.long, "gaps": scale.short}.get(chosen["window"], scale.window)[1]
        step = Length(months=1) if scale.name == "d" else Length(10_000)
        return Query(
            columns,
            window,
            Length(3 * scale.unit) if window == "session" else interval,
            step,
            chosen["zone"],
            passes,
            [(device, name) for device in devices for name in sorted(measurements)],
            having if chosen["having"] == "count" else None,
            fill=chosen["fill"].replace("aged", "previous").replace("months", "previous"),
            age={"aged": Length(12 * scale.unit), "months": Length(months=1)}.get(chosen["fill"]),
            constants=[constant(self.result_type(name)) for name, _ in columns],
            control=lambda row: row.get((devices[0], "v" if window == "count" else "w")),
        )

    def result_type(self, name: str) -> str:
        if name in ("count", "max_time"):
            return "INT64"
        if name in ("sum", "avg", "stddev"):
            return "DOUBLE"
        return self.combination["type"]

    # Rows

    def setup(self) -> Iterator[str]:
        yield f"create database root.p{self.name}"
        yield f"create database root.q{self.name}"
        for device in DEVICES["all"]:
            yield from self.create_device(device)

    def create_device(self, device: str) -> Iterator[str]:
        for name, kind in (("v", self.combination["type"]), ("w", "INT32")):
            yield f"create timeseries root.p{self.name}.{device}.{name} with datatype={kind}"

    def rows(self, device: str, first: int, last: int, shift: int = 0) -> dict[int, dict[str, Any]]:
        """Return rows of a device from one unit to before another."""
        rows: dict[int, dict[str, Any]] = {}
        for unit in range(first, last):
            if unit % STEPS[device] == 0 and unit not in EMPTY:
                value = None if unit % 7 == 6 else value_of(self.combination["type"], (unit * 5 + shift) % 11 - 3)
                rows[self.scale.base + unit * self.scale.unit] = {"v": value, "w": (unit + shift) % 7}
        return rows

    def insert(self, device: str, rows: dict[int, dict[str, Any]]) -> list[str]:
        own = self.stored.setdefault(device, {})
        for time, values in rows.items():
            own.setdefault(time, {}).update({name: value for name, value in values.items() if value is not None})
        if not rows:
            return []
        texts = ", ".join(f"({time}, {literal(values['v'])}, {values['w']})" for time, values in sorted(rows.items()))
        return [f"insert into root.p{self.name}.{device}(time, v, w) values {texts}"]

    def append(self, first: int, last: int) -> list[str]:
        devices = [*DEVICES["all"], *([NEW] if NEW in self.stored else [])]
        return [sql for device in devices for sql in self.insert(device, self.rows(device, first, last))]

    def happen(self, event: str, now: int) -> list[str]:
        """Return the statements of an event, and change the stored rows."""
        unit = (now - self.scale.base) // self.scale.unit
        match event:
            case "late":
                times = [self.scale.base + (unit - back) * self.scale.unit + self.scale.unit // 2 for back in (4, 11, 25)]
                kind = self.combination["type"]
                return self.insert("g1.d1", {time: {"v": value_of(kind, number), "w": 3} for number, time in enumerate(times)})
            case "corrected":
                return self.insert("g1.d1", self.rows("g1.d1", unit - 30, unit, shift=4))
            case "deleted":
                first, last = now - 28 * self.scale.unit, now - 6 * self.scale.unit
                self.stored["g1.d1"] = {time: row for time, row in self.stored["g1.d1"].items() if not first <= time < last}
                return [f"delete from root.p{self.name}.g1.d1.* where time >= {first} and time < {last}"]
            case "device":
                return [*self.create_device(NEW), *self.insert(NEW, self.rows(NEW, unit - 30, unit))]
            case "paused":
                self.is_paused = True
                return [f"pause cq c{self.name}"]
        return []

    def resume(self) -> list[str]:
        if not self.is_paused:
            return []
        self.is_paused = False
        return [f"resume cq c{self.name}"]


def value_of(kind: str, number: int) -> Any:
    match kind:
        case "FLOAT" | "DOUBLE":
            return number + 0.25
        case "BOOLEAN":
            return number % 2 == 0
        case "TEXT":
            return f"x{number}"
    return number


def literal(value: Any) -> str:
    return "null" if value is None else f"'{value}'" if isinstance(value, str) else str(value).lower()


def constant(kind: str) -> Any:
    """Return FILL(7) in a type, or None if the type cannot hold it."""
    return {"TEXT": "7", "BOOLEAN": None}.get(kind, 7)
