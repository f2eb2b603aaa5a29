"""Random queries over random tables, reproducible by seed."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from headrace.model.tables import TBNAME
from headrace.model.time import Precision
from tests.verify.worlds import TAGS, WORDS, Row, World

WHOLE: Final = ("ti", "i", "bi", "ui", "ub")
NUMBERS: Final = (*WHOLE, "f", "d")
ORDERED: Final = (*NUMBERS, "e", "s", "n", "at")
ANY: Final = ORDERED
SCATTER: Final = ("stddev", "stddev_pop", "stddev_samp", "variance", "var_pop", "var_samp")
ORDERS: Final = (
    "_wstart",
    "_wstart desc",
    "1, 2 desc",
    "count(*), _wstart",
    "sum(i) desc nulls first",
    "_wend, last(s) nulls last",
)
STATES: Final = ("i", "e", "s", "ti", "case when d > 0 then 1 else 2 end", "cast(d / 100 as int)")


@dataclass
class Generator:
    """Random queries over a world."""

    dice: random.Random
    world: World

    def query(self) -> str:
        kinds: tuple[Callable[[], str], ...] = (
            self.windowed,
            self.windowed,
            self.windowed,
            self.windowed,
            self.filled,
            self.filled,
            self.grouped,
            self.plain,
            self.series,
            self.nested,
            self.keyed,
            self.interpolated,
        )
        return self.dice.choice(kinds)()

    # clauses

    def pick(self, choices: Sequence[str]) -> str:
        return self.dice.choice(choices)

    def some(self, choices: Sequence[str], least: int, most: int) -> list[str]:
        return [self.pick(choices) for _ in range(self.dice.randint(least, most))]

    def chance(self, share: float) -> bool:
        return self.dice.random() < share

    def at(self, share: float) -> int:
        """Return an instant in the world, in ticks."""
        return self.world.first + round((self.world.last - self.world.first) * share)

    def span(self, row: Row) -> str:
        """Return a condition on time that a row meets."""
        low, high = sorted((self.dice.random() * 0.6, 0.4 + self.dice.random() * 0.7))
        before, after = min(self.at(low - 0.1), row["ts"] - 1), max(self.at(high), row["ts"] + 1)
        return self.pick(
            (
                f"ts >= {before} and ts < {after}",
                f"ts between {before} and {after}",
                f"ts > {before}",
                f"{after} >= ts",
            )
        )

    def condition(self, row: Row) -> str:
        """Return a condition that a row meets, unless the values that it depends on are NULL."""
        number, text = (self.pick([name for name in names if row[name] is not None] or names) for names in (NUMBERS, ("s", "n")))
        letters = [letter for letter in row[text] or "" if letter.isascii() and letter.isalpha()]
        return self.pick(
            (
                self.span(row),
                f"{number} > {min(math.floor(row[number] or 0), 4) - self.dice.randrange(1, 4)}",
                f"{number} is not null",
                f"i in (1, 2, {self.dice.randrange(6) if row['i'] is None else row['i']})",
                f"not (i = {self.dice.randrange(6)} and d < 0)",
                f"{text} like '%{self.pick(letters or ('', '_'))}%'",
                f"{text} <> '{self.pick([word for word in WORDS if word != row[text]])}'",
                f"{text} match '[{self.pick(letters or ('a',))}-z]'",
                {True: "e", False: "not e", None: "e is null"}[row["e"]],
                f"e = true or d between -100 and {self.dice.randrange(-50, 300)}",
                f"room = {row['room'] or self.dice.randrange(1, 3)} or site is null",
                f"case when i > 2 then d else {number} end > 0",
            )
        )

    def where(self, share: float = 0.5, source: str = "mixed") -> str:
        """Return WHERE with conditions that a row of the source meets, so that answers are rarely empty; or nothing."""
        if not self.chance(share):
            return ""
        row = self.row(source)
        return " where " + " and ".join(f"({self.condition(row)})" for _ in range(self.dice.randint(1, 2)))

    def row(self, source: str) -> Row:
        rows = self.world.values
        return self.dice.choice([row for row in rows if source in ("mixed", row[TBNAME])] or rows)

    def number(self) -> str:
        """Return a numeric expression over a row."""
        column = self.pick(NUMBERS)
        return self.pick(
            (
                column,
                column,
                column,
                f"{column} + i",
                f"{column} * 2",
                f"d / {self.pick(('i', '4'))}",
                "i % 3",
                f"abs({self.pick(('ti', 'i', 'd', 'f'))})",
                f"-{self.pick(('i', 'd'))}",
                f"case when e then i when d > 0 then {self.pick(('d', 'i', '7'))} end",
                "i & 3",
                "ti | 4",
                f"cast({self.pick(('d', 'f', 's', 'i'))} as {self.pick(('int', 'bigint', 'double', 'tinyint'))})",
                f"{self.pick(('floor', 'ceil', 'round', 'sign'))}({self.pick(('d', 'f', 'i'))})",
                "sqrt(d)",
                "ln(i)",
                "mod(i, 4)",
                "pow(ti, 2)",
                "length(s)",
                "char_length(n)",
                "ascii(n)",
                "dayofweek(ts)",
                "weekday(at)",
                "weekofyear(ts)",
                "timediff(at, ts, 1s)",
                "greatest(i, ti)",
                "least(d, i)",
                "truncate(d, 1)",
            )
        )

    def text(self) -> str:
        """Return a text expression over a row."""
        return self.pick(
            (
                "s",
                "n",
                "upper(s)",
                "lower(n)",
                "concat(s, '-', n)",
                "concat_ws('/', s, n)",
                "substr(s, 2, 2)",
                "substr(n, -2)",
                "trim(s)",
                "ltrim(s)",
                "replace(s, 'o', '0')",
                "repeat(s, 2)",
                "cast(i as varchar(3))",
                "cast(s as varchar(3))",
                "cast(n as nchar(2))",
                "case when i > 2 then s else n end",
                "site",
            )
        )

    def value(self) -> str:
        """Return an expression over a row."""
        choices = [
            self.number(),
            self.number(),
            self.text(),
            "e",
            "ts",
            "at",
            "ts + 1m",
            "tbname",
            "room",
            "i > 2",
            "s like '_n%'",
            "d is null",
            "i between 1 and 3",
            f"timetruncate(ts, 1{self.pick(('s', 'm', 'h', 'd', 'w'))})",
            "cast(e as int)",
            "cast(i as bool)",
            "position('n', s)",
        ]
        if self.world.database.precision is not Precision.NANOSECOND:
            choices.append("to_iso8601(ts)")
        return self.pick(choices)

    def aggregate(self, *, unique: bool, nested: bool = False) -> str:
        """Return an aggregate.

        `unique`: no two rows of a group have the same instant; `nested`: it is part of an expression.
        """
        number, ordered, anything = self.pick(NUMBERS), self.pick(ORDERED), self.pick(ANY)
        choices = [
            "count(*)",
            f"count({anything})",
            f"sum({self.number()})",
            f"sum({number})",
            f"avg({number})",
            f"avg({self.number()})",
            f"min({ordered})",
            f"max({ordered})",
            f"first({anything})",
            f"last({anything})",
            f"last_row({anything})",
            f"_group_key({anything})",
            f"last({self.text()})",
            f"spread({self.pick((*NUMBERS, 'ts'))})",
            f"{self.pick(SCATTER)}({self.pick(('i', 'd', 'f', 'ti'))})",
            f"percentile({self.pick(('i', 'd'))}, {self.pick(('0', '10', '33.3', '50', '99', '100'))})",
            f"mode({self.pick(('i', 's', 'e', 'ti'))})",
            "elapsed(ts)",
            "elapsed(ts, 1s)",
            "first(ts)",
            "last(ts)",
        ]
        if not nested:
            choices += [
                f"hyperloglog({anything})",
                f"apercentile({self.pick(('i', 'd'))}, {self.pick(('5', '50', '90'))})",
                "percentile(d, 10, 50, 90)",
            ]
        if unique:
            choices += [f"twa({self.pick(('i', 'd', 'f'))})", f"twa({number})"]
            choices += [f"{function}({self.pick(('i', 'd'))})" for function in ("irate", "increase", "rate")]
            choices += [] if nested else ["leastsquares(i, 1, 1)", "leastsquares(d, 0, 0.5)"]
        return self.pick(choices)

    def combined(self, *, unique: bool) -> str:
        """Return an expression over aggregates."""
        first, other = (self.aggregate_number() for _ in range(2))
        return self.pick(
            (
                self.aggregate(unique=unique),
                self.aggregate(unique=unique),
                self.aggregate(unique=unique),
                self.aggregate(unique=unique),
                f"{first} + {other}",
                f"{first} / {other}",
                f"case when {first} > 3 then {other} else {first} end",
                f"cast({first} as int)",
                f"abs({first})",
                f"{first} > {other}",
                f"greatest({first}, {other})",
                "concat(last(s), '/', first(n))",
            )
        )

    def aggregate_number(self) -> str:
        return self.pick(("count(*)", "sum(i)", "avg(d)", "max(i)", "min(ti)", "last(d)", "spread(f)", "stddev(i)", "count(s)"))

    def aggregates(self, *, unique: bool) -> list[str]:
        return [self.combined(unique=unique) for _ in range(self.dice.randint(4, 12))]

    def groups(self) -> tuple[str, str, bool, list[str]]:
        """Return FROM, PARTITION BY, whether instants are unique within a group, and the select list's group columns."""
        subtable = self.pick(tuple(TAGS))
        return self.dice.choice(
            (
                (subtable, "", True, ["tbname", "site"]),
                (subtable, "", True, []),
                ("mixed", " partition by tbname", True, ["tbname", "room"]),
                ("mixed", " partition by tbname", True, ["tbname", "site"]),
                ("mixed", " partition by tbname, e", True, ["tbname", "e"]),
                ("mixed", " partition by site", False, ["site"]),
                ("mixed", " partition by site, room", False, ["room"]),
                ("mixed", " partition by i % 2 odd", False, ["odd"]),
                ("mixed", "", False, []),
            )
        )

    def unit(self) -> int:
        """Return seconds of the order of the rows' spacing."""
        span = (self.world.last - self.world.first) // self.world.database.precision.ticks_per_second
        return max(span // 100, 1)

    def interval(self) -> str:
        unit = self.unit()
        length = unit * self.dice.choice((1, 2, 5, 10, 40))
        fixed = (
            f"interval({length}s)",
            f"interval({length}s, {self.dice.randrange(length)}s)",
            f"interval({length * 4}s) sliding({length}s)",
            f"interval({length * 3}s) sliding({length * 2}s)",
            f"interval({length * 3}s, {length}s) sliding({length * 2}s)",
            f"interval({length * 1000 + 7}a)",
        )
        if unit < 600:
            return self.pick(fixed)
        calendar = (
            "interval(1d)",
            "interval(1d, 3h)",
            "interval(1w)",
            "interval(2d) sliding(1d)",
            "interval(1n)",
            "interval(1n, 5d)",
            "interval(1n, 27d)",
            "interval(1d, 150m)",
            "interval(1d) sliding(30m)",
            "interval(1d) sliding(45m)",
            "interval(2d, 10m) sliding(7h)",
            "interval(1n) sliding(1w)",
            "interval(3n, 1n)",
            "interval(1y)",
            "interval(1d) sliding(8h)",
        )
        return self.pick((*fixed, *calendar))

    def window(self) -> str:
        unit = self.unit()
        least = self.pick(("", "", f" true_for({unit}s)"))
        count = self.dice.randint(2, 12)
        return self.pick(
            (
                self.interval(),
                self.interval(),
                f"session(ts, {self.dice.choice((1, 2, 3, 8)) * max(unit // 2, 1)}s)",
                f"state_window({self.pick(STATES)}){least}",
                f"event_window start with {self.pick(('i = 1', 'e', 'd > 0 and i < 4'))} "
                f"end with {self.pick(('i = 4', 'not e', 'd < 0', 'i = 1'))}{least}",
                f"count_window({count})",
                f"count_window({count}, {self.dice.randint(1, count)})",
            )
        )

    def having(self) -> str:
        if self.world.is_small and self.chance(0.8):
            return ""
        return self.pick(("", "", "", " having count(*) > 1", " having sum(i) > 2 or max(d) < 0", " having avg(d) is not null"))

    # queries

    def windowed(self) -> str:
        source, partition, unique, columns = self.groups()
        items = ["_wstart", *self.some(("_wend", "_wduration"), 0, 2), *columns, *self.aggregates(unique=unique)]
        order = self.pick(("", "", *(f" order by {by}" for by in ORDERS)))
        return (
            f"select {', '.join(items)} from {source}{self.where(source=source)}{partition} {self.window()}{self.having()}{order}"
            f"{self.pick(('', '', '', ' limit 5', ' limit 3 offset 2', ' slimit 2' if partition else ''))}"
        )

    def filled(self) -> str:
        source, partition, unique, columns = self.groups()
        window = self.interval()
        mode = self.pick(("null", "null_f", "prev", "next", "linear", "value", "value_f"))
        items = [self.aggregate(unique=unique, nested=mode == "linear") for _ in range(self.dice.randint(3, 8))]
        if mode.startswith("value"):
            items = [self.aggregate_number() for _ in items]
        constants = "".join(f", {self.pick(('0', '-1', '7'))}" for _ in items) if mode.startswith("value") else ""
        row = self.row(source)
        where = f" where {self.span(row)}{self.pick(('', ' and ' + self.condition(row)))}" if self.chance(0.7) else ""
        order = self.pick(("", " order by _wstart"))
        columns = [*columns, *self.some(("_wend", "_wduration", "'x' c"), 0, 2)]
        return (
            f"select _wstart, {', '.join([*columns, *items])} from {source}{where}{partition} {window} fill({mode}{constants})"
            f"{self.pick(('', '', self.having()))}{order}"
        )

    def grouped(self) -> str:
        keys = self.dice.choice((["site"], ["tbname"], ["i"], ["e", "room"], ["s"], ["i % 3"], ["timetruncate(ts, 1h)"], []))
        items = [*keys, *self.aggregates(unique=keys == ["tbname"])]
        by = f" {self.pick(('group by', 'partition by'))} {', '.join(keys)}" if keys else ""
        having = self.having() if by.startswith(" group") else ""
        order = (
            f" order by {', '.join(str(position + 1) for position in range(len(keys)))}{self.pick(('', ' desc'))}" if keys else ""
        )
        return f"select {', '.join(items)} from mixed{self.where()}{by}{having}{order}{self.pick(('', '', ' limit 3'))}"

    def plain(self) -> str:
        items = [self.value() for _ in range(self.dice.randint(3, 12))]
        order = self.pick(("", " order by ts, tbname", " order by i desc, ts", " order by d nulls last, ts desc", " order by 1"))
        distinct = "distinct " if order in ("", " order by 1") and self.chance(0.3) else ""
        source = self.pick(("mixed", "mixed", *TAGS))
        limit = self.pick(("", "", " limit 10", " limit 7 offset 3"))
        return f"select {distinct}{', '.join(items)} from {source}{self.where(source=source)}{order}{limit}"

    def series(self) -> str:
        number = self.pick(("i", "d", "f", "ti", "bi", "ub"))
        call = self.pick(
            (
                f"diff({number})",
                f"diff({number}, {self.dice.randrange(4)})",
                f"derivative({number}, 1s)",
                f"derivative(d, {self.unit()}s, 1)",
                f"csum({number})",
                f"mavg({number}, {self.dice.randint(1, 6)})",
                f"statecount({number}, '{self.pick(('GT', 'le', 'EQ', 'NE'))}', {self.dice.randrange(-1, 3)})",
                f"stateduration({number}, '{self.pick(('GT', 'le', 'LT', 'GE'))}', {self.dice.randrange(-1, 3)}, 1s)",
                f"top({self.pick(('i', 'd'))}, {self.dice.randint(1, 9)})",
                f"bottom({self.pick(('i', 'f', 'bi'))}, {self.dice.randint(1, 9)})",
                f"tail({self.pick(ANY)}, {self.dice.randint(1, 9)}, {self.dice.randrange(4)})",
                f"unique({self.pick(('i', 's', 'e'))})",
            )
        )
        source, partition = self.dice.choice(
            (("m1", ""), ("m3", ""), ("mixed", " partition by tbname"), ("mixed", " partition by site"))
        )
        items = [*self.some(("ts", "s", "tbname", "i"), 0, 2), call]
        limit = self.pick(("", "", " limit 6"))
        return f"select {', '.join(items)} from {source}{self.where(0.3, source)}{partition}{limit}"

    def nested(self) -> str:
        source = self.pick(tuple(TAGS))
        inner = f"select ts, i, d, s from {source}{self.where(source=source)}"
        window = self.interval()
        other = self.pick(tuple(TAGS))
        return self.pick(
            (
                f"select _wstart, count(*), sum(i), avg(d), last(s) from ({inner}) {window}",
                f"select max(x), min(y), count(*) from (select sum(i) x, avg(d) y from mixed partition by tbname {window})",
                f"select ts, i, s from m1{self.where(source='m1')} union all select ts, ti, n from m2{self.where(source='m2')}",
                f"select i, s from m1{self.where(source='m1')} union select ti, n from {other} order by 1, 2 desc limit 8",
                f"select x.ts, x.i, y.d, x.i + y.i from m1 x join {other} y on x.ts = y.ts and x.i > 1",
                f"select x.ts, y.s from m2 x left join {other} y on x.ts = y.ts and y.e",
                f"select count(*), sum(x.i), max(y.d) from m3 x full join {other} y on x.ts = y.ts",
                f"select x.ts, x.s from m1 x left anti join {other} y on x.ts = y.ts",
                f"select x.ts, x.i, y.ts, y.i from m1 x {self.pick(('left', 'right'))} asof join {other} y "
                f"on x.ts {self.pick(('>', '>=', '=', '<=', '<'))} y.ts{self.pick(('', ' and x.e = y.e'))} "
                f"jlimit {self.pick(('1', '2'))}",
                f"select distinct i, e from mixed{self.where()} order by 1, 2 limit 6",
                f"select _wstart, sum(n), max(x) from (select _wstart, count(*) n, max(d) x from mixed partition by tbname "
                f"{self.interval()}) {window}",
                f"select _wstart w, count(*) n from m1 {window} union all select _wstart, sum(ti) from {other} {window} "
                "order by 2, 1",
                f"select a.w, a.n, b.n from (select _wstart w, count(*) n from m1 {window}) a "
                f"join (select _wstart w, sum(i) n from {other} {window}) b on a.w = b.w",
                f"select distinct last(e), count(*) from mixed partition by tbname {window}",
                f"select tbname, s from (select tbname, last(s) s from mixed partition by tbname {window}) where s like '%o%'",
            )
        )

    def interpolated(self) -> str:
        source, partition = self.dice.choice((("m1", ""), ("m2", ""), ("mixed", " partition by tbname")))
        mode = self.pick(("none", "null", "prev", "next", "linear", "value"))
        option = self.pick(("", "", ", 1"))
        calls = [f"interp({column}{option})" for column in self.dice.sample(("i", "d", "f", "bi", "s"), self.dice.randint(1, 3))]
        if mode == "value":
            calls = [call for call in calls if "(s" not in call] or [f"interp(i{option})"]
        constants = "".join(", 3" for _ in calls) if mode == "value" else ""
        low, high = sorted((self.dice.random() * 1.2 - 0.1, self.dice.random() * 1.2 - 0.1))
        span = self.pick((f" range({self.at(low)}, {self.at(high)})", f" range({self.at(low)}, {self.at(high)})", ""))
        items = [*self.some(("_irowts", "_isfilled", *(("tbname",) if partition else ())), 1, 3), *calls]
        return (
            f"select {', '.join(items)} from {source}{self.where(0.3, source)}{partition}{span} "
            f"every({self.unit() * self.dice.randint(1, 5)}s) fill({mode}{constants})"
        )

    def keyed(self) -> str:
        window = self.pick(
            (
                self.interval(),
                f"session(ts, {self.unit()}s)",
                "state_window(i)",
                "event_window start with i = 1 end with i = 3",
                f"count_window({self.dice.randint(2, 6)})",
                f"count_window(5, {self.dice.randint(1, 4)})",
            )
        )
        items = self.some(
            (
                "count(*)",
                "sum(i)",
                "first(d)",
                "last(i)",
                "last_row(d)",
                "min(d)",
                "max(i)",
                "avg(d)",
                "first(k)",
                "last(k)",
                "spread(d)",
            ),
            3,
            9,
        )
        return f"select _wstart, _wend, {', '.join(items)} from keyed {window}"


def queries(seed: int, tables: World, count: int) -> list[str]:
    """Return `count` queries over a world."""
    generator = Generator(random.Random(seed), tables)
    return [generator.query() for _ in range(count)]
