"""Plays a combination of a stream's dimensions: its statements, its rows, and what the evaluator makes of them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final

from tests.combinations import windows as rowwise
from tests.combinations.covering import Combination
from tests.combinations.evaluator import Evaluator, Options, Query
from tests.combinations.stream_dimensions import INTERVALS, SCHEMA
from tests.combinations.windows import SECOND, Grid, Key, Row

HOUR: Final = 3600
DAY: Final = 24 * HOUR
TIMES: Final = {"m1": (0, 3, 4, 12, 17, 25, 31), "m2": (1, 5, 13, 14, 22, 33), "m3": (2, 9, 18, 34)}
"""When the subtables have rows, in units after the base. No two rows have the same time."""
SITES: Final = {"m1": "north", "m2": "south", "m3": "north"}
CREATED: Final = 15
CLOSING: Final = (100, 200, 300, 400)
COMPARED_UNTIL: Final = 60
"""Windows that begin later may be open at the end."""
TICKS: Final = {"ms": (1, 1000), "us": (1, 1), "ns": (1000, 1)}
MONTH: Final = 30 * DAY
DIGITS: Final = {**dict.fromkeys(("sum", "min", "max", "first", "last", "spread"), 3), "avg": 6}
"""Digits after the point of aggregates of the DECIMAL column."""


@dataclass(frozen=True)
class Scale:
    """A window clause, and rows that fit it: their base, and the seconds between them."""

    clause: str
    base: str
    unit: int
    length: int = 0
    months: int = 0
    offset: tuple[str, int] = ("", 0)
    step: tuple[str, int] = ("", 0)
    follows_zone: bool = True


SCALES: Final = {
    "seconds": Scale("10s", "2024-03-31T00:59:40", 1, 10, offset=("3s", 3), step=("5s", 5), follows_zone=False),
    "day": Scale("1d", "2024-03-29T00:00:00", DAY // 10, DAY, offset=("3h", 3 * HOUR), step=("12h", 12 * HOUR)),
    "week": Scale("1w", "2024-03-14T00:00:00", 7 * DAY // 10, 7 * DAY, offset=("4d", 4 * DAY), step=("3d", 3 * DAY)),
    "month": Scale("1n", "2024-01-30T00:00:00", 3 * DAY, months=1, offset=("5d", 5 * DAY), step=("1w", 7 * DAY)),
    "year": Scale("1y", "2021-11-20T00:00:00", 36 * DAY, months=12, offset=("5d", 5 * DAY), step=("26w", 26 * 7 * DAY)),
}
BY_ROWS: Final = {
    "session": ("session(ts, 3s)", rowwise.session(3 * SECOND)),
    "state": ("state_window(g)", rowwise.state("g")),
    "event": ("event_window start with g = 1 end with g = 3", rowwise.event(lambda row: row["g"] == 1, lambda row: row["g"] == 3)),
    "count": ("count_window(3)", rowwise.count(3)),
    "rows": ("", None),
}
CONDITIONS: Final = {
    "none": ("", lambda *_: True),
    "number": ("g > 1", lambda _, row: row["g"] > 1),
    "tag": ("site = 'north'", lambda _, row: row["site"] == "north"),
    "text": ("s like 'a%'", lambda _, row: row["s"] is not None and row["s"].startswith("a")),
    "list": ("g in (1, 3)", lambda _, row: row["g"] in (1, 3)),
    "not": ("not (g = 2)", lambda _, row: row["g"] != 2),
}
PARTITIONS: Final = {
    "none": ("", "", lambda _: None),
    "tbname": ("tbname", "varchar(40)", lambda row: row["tbname"]),
    "tag": ("site", "varchar(20)", lambda row: row["site"]),
    "column": ("g", "int", lambda row: row["g"]),
    "expression": ("g & 1", "bigint", lambda row: row["g"] & 1),
}
TYPES: Final = dict(part.strip().split(" ", 1) for part in SCHEMA.replace("(12, 3)", "(12;3)").split(","))


@dataclass
class Play:
    """A combination in a database of its own. `happen` says what is executed, and informs the evaluator."""

    combination: Combination
    name: str
    evaluator: Evaluator = field(init=False)

    def __post_init__(self) -> None:
        chosen = self.combination
        self.scale = SCALES.get(chosen["window"], SCALES["seconds"])
        base = dt.datetime.fromisoformat(self.scale.base).replace(tzinfo=dt.UTC)
        self.base = rowwise.microseconds(base)
        self.subtables = ("m",) if chosen["source"] == "plain" else tuple(TIMES)
        tags: dict[str, Row] = {} if chosen["source"] == "plain" else {name: {"site": site} for name, site in SITES.items()}
        options = Options(
            chosen["trigger"].split()[0],
            int(chosen["watermark"]) * self.scale.unit * SECOND,
            chosen["expired"] == "1",
            chosen["update"] == "1",
            chosen["partition"] != "tbname",
        )
        self.evaluator = Evaluator(self.query(), options, tags)

    # The stream

    def query(self) -> Query:
        chosen, scale = self.combination, self.scale
        windows: Any = BY_ROWS[chosen["window"]][1] if chosen["window"] not in INTERVALS else self.grid()
        after = self.base + 2 * scale.unit * SECOND
        condition = (lambda ts, _: ts >= after) if chosen["condition"] == "time" else CONDITIONS[chosen["condition"]][1]

        def passes(ts: int, row: Row) -> bool:
            return bool((chosen["source"] != "subtable" or row["tbname"] == "m1") and condition(ts, row))

        column = chosen["type"]
        return Query(
            windows,
            chosen["aggregate"],
            column,
            passes,
            PARTITIONS[chosen["partition"]][2],
            chosen["fill"],
            (7, self.constant()),
            shown=self.length_in_ticks if (chosen["aggregate"], column) == ("spread", "at") else lambda value: value,
            bounding="g" if chosen["window"] in ("state", "event") else None,
            takes_earlier_rows=chosen["window"] in (*INTERVALS, "session"),
            is_whole=chosen["aggregate"] == "count"
            or (column in "ibuwat" and chosen["aggregate"] in ("sum", "min", "max", "first", "last")),
            is_instant=column == "at" and chosen["aggregate"] in ("min", "max", "first", "last"),
            is_single=column == "f" and chosen["aggregate"] in ("min", "max", "first", "last"),
            digits=DIGITS.get(chosen["aggregate"]) if column == "c" else None,
        )

    def constant(self) -> Any:
        """Return the second value of FILL(VALUE, 7, 7): of a timestamp, the microseconds of 7 ticks."""
        multiplier, divisor = TICKS[self.combination["precision"]]
        if self.combination["aggregate"] in ("count", "sum", "avg", "spread", "stddev", "increase"):
            return 7
        return {"s": "7", "n": "7", "e": True, "at": 7 * divisor // multiplier}.get(self.combination["type"], 7)

    def length_in_ticks(self, length: int | None) -> int | None:
        multiplier, divisor = TICKS[self.combination["precision"]]
        return None if length is None else length * multiplier // divisor

    def grid(self) -> Grid:
        scale, chosen = self.scale, self.combination
        return Grid(
            length=scale.months or scale.length,
            step=scale.step[1] if chosen["slide"] == "half" else scale.months or scale.length,
            offset=scale.offset[1] if chosen["offset"] == "offset" else 0,
            has_months=bool(scale.months),
            steps_in_months=bool(scale.months) and chosen["slide"] != "half",
            zone=chosen["zone"] if scale.follows_zone else None,
        )

    def clause(self) -> str:
        chosen, scale = self.combination, self.scale
        fill = "" if chosen["fill"] == "none" else " fill(value, 7, 7)" if chosen["fill"] == "value" else f" fill({chosen['fill']})"
        if chosen["window"] not in INTERVALS:
            return BY_ROWS[chosen["window"]][0] + fill
        offset = f", {scale.offset[0]}" if chosen["offset"] == "offset" else ""
        slide = f" sliding({scale.step[0]})" if chosen["slide"] == "half" else ""
        return f"interval({scale.clause}{offset}){slide}{fill}"

    def statement(self, replaced: str = "") -> str:
        """Return the CREATE STREAM; `replaced` is a condition of the stream that another will replace."""
        chosen = self.combination
        verb = "create or replace stream" if chosen["history"] == "replace" and not replaced else "create stream"
        condition = f"ts >= {self.tick(2)}" if chosen["condition"] == "time" else CONDITIONS[chosen["condition"]][0]
        where = " and ".join(filter(None, (condition, replaced)))
        source = "m1" if chosen["source"] == "subtable" else "m"
        by = PARTITIONS[chosen["partition"]][0]
        columns = f"ts ws, g n, {chosen['type']} v" if chosen["window"] == "rows" else f"_wstart ws, count(*) n, {self.aggregate} v"
        return (
            f"{verb} s trigger {chosen['trigger']} watermark {int(chosen['watermark']) * self.scale.unit}s "
            f"ignore expired {chosen['expired']} ignore update {chosen['update']} "
            f"fill_history {int(chosen['history'] == 'filled')} into o{self.naming()} as select {columns} from {source}"
            f"{where and f' where {where}'}{by and f' partition by {by} p'} {self.clause()}"
        )

    @property
    def aggregate(self) -> str:
        return f"{self.combination['aggregate']}({self.combination['type']})"

    def naming(self) -> str:
        """Return TAGS and SUBTABLE."""
        target, by = self.combination["target"], self.combination["partition"]
        kind = PARTITIONS[by][1]
        if target == "new" or (target == "existing" and not kind):
            return ""
        if target == "existing":
            return " tags (p)"
        text = "p" if kind.startswith("varchar") else "cast(p as varchar(20))"
        return f" tags (p {kind}) subtable(concat('o_', {text}))" if kind else " subtable('only')"

    def tick(self, unit: int) -> int:
        """Return a time of the base plus units, in ticks of the precision."""
        multiplier, divisor = TICKS[self.combination["precision"]]
        return (self.base + unit * self.scale.unit * SECOND) * multiplier // divisor

    def setup(self) -> Iterator[str]:
        chosen = self.combination
        yield f"create database {self.name} precision '{chosen['precision']}' timezone '{chosen['zone']}'"
        yield f"use {self.name}"
        if chosen["source"] == "plain":
            yield f"create table m ({SCHEMA})"
        else:
            yield f"create stable m ({SCHEMA}) tags (site varchar(20))"
            yield "create table " + " ".join(f"{name} using m tags ('{site}')" for name, site in SITES.items())
        if chosen["target"] == "existing":
            kind = PARTITIONS[chosen["partition"]][1]
            tag = f"p {kind}" if kind else "group_id bigint unsigned"
            number = "int" if chosen["window"] == "rows" else "bigint"
            yield f"create stable o (ws timestamp, n {number}, v {self.result_type()}) tags ({tag})"

    def result_type(self) -> str:
        name, column = self.combination["aggregate"], self.combination["type"]
        if self.combination["window"] == "rows" or name in ("min", "max", "first", "last"):
            return TYPES[column].replace(";", ",")
        if name == "count":
            return "bigint"
        if name == "sum" and column in "ibw":
            return "bigint"
        return "bigint unsigned" if name == "sum" and column == "u" else "double"

    # Rows

    def rows(self, first: int, last: int) -> dict[Key, Row]:
        """Return the first rows of the subtables from one unit to before another."""
        rows: dict[Key, Row] = {}
        for name, times in TIMES.items():
            for time in times:
                if first <= time < last:
                    rows |= self.row(name, time, time)
        return rows

    def row(self, subtable: str, time: int, seed: int, **changed: Any) -> dict[Key, Row]:
        owner = subtable if self.combination["source"] != "plain" else "m"
        return {(owner, self.base + time * self.scale.unit * SECOND): values(seed, self.base) | changed}

    def insert(self, rows: Mapping[Key, Row]) -> list[str]:
        """Tell the evaluator of rows, and return the statement that inserts them in one commit."""
        self.evaluator.insert(rows)
        multiplier, divisor = TICKS[self.combination["precision"]]
        names = ", ".join(next(iter(rows.values())))
        texts = {
            key: f"({key[1] * multiplier // divisor}, {', '.join(self.literal(name, value) for name, value in row.items())})"
            for key, row in rows.items()
        }
        by_owner = {owner: [text for key, text in texts.items() if key[0] == owner] for owner, _ in rows}
        return ["insert into " + " ".join(f"{owner} (ts, {names}) values {' '.join(parts)}" for owner, parts in by_owner.items())]

    def literal(self, name: str, value: Any) -> str:
        if value is None:
            return "null"
        if name == "at":
            multiplier, divisor = TICKS[self.combination["precision"]]
            return str(value * multiplier // divisor)
        return f"'{value}'" if isinstance(value, str) else str(value).lower()

    def happen(self, event: str, second: bool) -> list[str]:
        """Return the statements of an event, and tell the evaluator."""
        number = int(second)
        other = "m1" if self.combination["source"] != "super" else ("m1", "m2")[number]
        first = next(iter(self.row("m1", 0, 0)))[0]
        match event:
            case "appended":
                return self.insert(self.row("m1", 43 + number, 7))
            case "late":
                return self.insert(self.row(other, (6, 8)[number], 5 + number))
            case "corrected":
                time = (17, 4)[number]
                return self.insert(self.row("m1", time, time + 20))
            case "moved":
                time = (12, 3)[number]
                return self.insert(self.row("m1", time, time + 21))
            case "deleted":
                time = (25, 0)[number]
                self.evaluator.delete(first, [next(iter(self.row("m1", time, 0)))[1]])
                return [f"delete from {first} where ts = {self.tick(time)}"]
            case "dropped":
                self.evaluator.drop("m3")
                self.subtables = ("m1", "m2")
                return ["drop table m3"]
            case "retagged":
                name, site = (("m2", "east"), ("m3", "south"))[number] if "m3" in self.subtables else ("m2", "east")
                self.evaluator.set_tag(name, "site", site)
                return [f"alter table {name} set tag site = '{site}'"]
        table = "table" if self.combination["source"] == "plain" else "stable"
        return [f"alter {table} m add column z{number} int", *self.insert(self.row("m1", 46 + number, 9, **{f"z{number}": 1}))]

    def closing(self, number: int) -> list[str]:
        """Insert one of four commits of late rows in all subtables, which close all windows before them."""
        rows: dict[Key, Row] = {}
        for place, name in enumerate(self.subtables):
            rows |= self.row(name, CLOSING[number] + place, 8, g=(3, 9)[number % 2], s="ax")
        return self.insert(rows)


def values(seed: int, base: int) -> dict[str, Any]:
    """Return the values of a row; every fifth has none but `g`."""
    row: dict[str, Any] = {
        "i": seed * 3 % 7 - 2,
        "b": (seed * 3 % 7 - 2) * 1_000_000_007,
        "u": seed * 17 % 23,
        "w": seed * 5 % 11 - 5,
        "f": seed * 3 % 9 / 2 - 1,
        "x": seed * 7 % 13 / 4,
        "c": Decimal(seed % 9 * 125) / 1000,
        "e": seed % 3 == 0,
        "s": ("ab", "b", "a", "cd")[seed % 4],
        "n": ("é", "b", "日本", "")[seed % 4],
        "at": base + seed * SECOND,
    }
    return {"g": (1, 1, 2, 3)[seed % 4]} | (dict.fromkeys(row) if seed % 5 == 4 else row)
