"""Random queries whose clauses depend on each other: tags, latest values, sorted windows, paths in conditions, and instants."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tests.iotdb_comparison.expressions import Expressions
from tests.iotdb_comparison.trees import START

if TYPE_CHECKING:
    from tests.iotdb_comparison.queries import Queries

INSTANTS: Final = (
    "2023-11-14T22:13:30.000+00:00",
    "2023-11-14 22:13:30",
    "2023/11/14 22:13:30.250",
    "2023.11.14T22:13:30",
    "2023-11-14T22:13:30.5",
    "2023-11-15T06:13:30+08:00",
    "2023-11-14T22:13:30.123456+00:00",
    "2023-11-14 22:13:20 + 10s",
    "2023-11-14T22:14:20.000+00:00 - 1m",
    "2023-11-14",
    "2023/11/15",
    "1700000010000",
    "now()",
    "now() - 1s",
)


@dataclass(slots=True)
class Clauses:
    """Families of queries that need several clauses."""

    queries: Queries

    def families(self) -> Sequence[tuple[int, Callable[[], str]]]:
        """Return the families with their weights."""
        return (
            (4, self.by_tags),
            (4, self.latest),
            (4, self.sorted_windows),
            (4, self.instants),
            (3, self.paths),
            (4, self.filtered_groups),
            (3, self.filled_pages),
            (3, self.nested),
        )

    def pick(self, choices: Sequence[str]) -> str:
        return self.queries.pick(choices)

    def maybe(self, text: str, chance: float = 0.5) -> str:
        return self.queries.maybe(text, chance)

    def by_tags(self) -> str:
        """Return a query with GROUP BY TAGS."""
        queries = self.queries
        name = self.pick(("s1", "s4", "s1", "s2", "*"))
        functions = ("count", "max_time", "first_value", "last_value", "min_time", "max_value", "sum", "avg", "min_value", "stddev")
        chosen = queries.dice.sample(functions[:2] if name == "*" else functions, queries.dice.choice((1, 2)))
        items = ", ".join(f"{function}({name})" for function in chosen)
        path = f"{queries.tree.database}.{self.pick(('**', 'd*', '*', 'g.**'))}"
        time = f"({queries.span()}, {self.pick(('10s', '20s', '30s, 10s', '1m'))}), " if queries.dice.random() < 0.4 else ""
        having = self.maybe(f" having {self.pick((f'count({name}) > 3', f'count({name}) >= 0'))}", 0.15)
        order = self.maybe(f" order by time{self.maybe(' desc')}", 0.15) if time else ""
        pages = self.maybe(" limit 3", 0.15)
        where = self.maybe(f" where {queries.times()}", 0.2)
        tags = self.pick(("unit", "unit", "owner, unit"))
        return f"select {items} from {path}{where} group by {time}tags({tags}){having}{order}{pages}"

    def latest(self) -> str:
        """Return a query of latest values."""
        queries = self.queries
        path, expressions = queries.place()
        columns = self.pick(("*", "s1, s4", "s*", f"{expressions.any_name()}, s1", "s1 as x", "s2, s2"))
        where = self.maybe(f" where {self.pick((queries.times(), f'time > {self.pick(INSTANTS)}', 's1 > 3'))}", 0.4)
        order = self.pick(
            (
                " order by timeseries",
                " order by timeseries desc",
                " order by time desc, timeseries",
                " order by value, timeseries desc",
                " order by datatype, timeseries",
                " order by datatype desc, timeseries asc",
                "",
            )
        )
        pages = self.maybe(f" limit {self.pick(('1', '3'))}{self.maybe(' offset 1')}", 0.2) if order else ""
        return f"select last {columns} from {path}{where}{order}{pages}"

    def sorted_windows(self) -> str:
        """Return a query of aggregates sorted by one of them."""
        queries = self.queries
        path, expressions = queries.place()
        key = self.pick((expressions.plain_aggregate(), "count(s1)", "max_value(s4)", "count(s1) + 1", "-avg(s4)"))
        order = f" order by {key}{self.maybe(self.pick((' desc', ' asc', ' nulls first', ' desc nulls last')))}"
        items = queries.items(expressions.aggregate, 2)
        if queries.dice.random() < 0.5:
            grouping = queries.time_group() if queries.dice.random() < 0.6 else ""
            tie = ", device" if not grouping else self.pick((", device, time", ", time, device"))
            return f"select {items} from {path}{grouping}{order}{tie}{queries.pages(0.2)} align by device"
        return f"select {items} from {path}{queries.time_group()}{order}, time{queries.pages(0.2)}"

    def instants(self) -> str:
        """Return a query with instants in all their spellings."""
        queries = self.queries
        path, expressions = queries.place()
        first, second = (self.pick(INSTANTS) for _ in range(2))
        if queries.dice.random() < 0.4:
            start = self.pick(("2023-11-14T22:13:20", "2023-11-14 22:13:20.000+00:00", str(START), "2023-11-14T22:13:00 + 20s"))
            end = self.pick(("2023-11-14T22:14:20", f"{START + 60_000}", "2023-11-14T22:14:20+00:00", "2023/11/14 22:13:20 + 1m"))
            # The server cannot parse a sum after a parenthesis.
            is_closed = " + " in start or queries.dice.random() < 0.7
            span = f"[{start}, {end})" if is_closed else f"({start}, {end}]"
            where = self.maybe(f" where time {self.pick(('>', '<='))} {first}", 0.4)
            grouping = f" group by ({span}, {self.pick(('10s', '20s, 5s'))})"
            return f"select {queries.items(expressions.aggregate, 2)} from {path}{where}{grouping}"
        condition = self.pick(
            (
                f"time {self.pick(('>', '>=', '<', '<=', '=', '!='))} {first}",
                f"{first} {self.pick(('>', '<='))} time",
                f"time between {first} and {second}",
                f"time not between {first} and {second}",
                f"time >= {first} and time < {second}",
                f"time in ({first}, {second}, {START + 757})",
                f"time not in ({first}, {START + 757})",
                f"time > {first} and s1 > 2",
                f"s10 > {first}",
                f"not (time < {first})",
            )
        )
        return f"select {self.pick(('s1, s4', 's1', 'count(s1)', 's10, s1', '*'))} from {path} where {condition}"

    def paths(self) -> str:
        """Return a query with paths of several nodes in its columns and conditions."""
        queries, database = self.queries, self.queries.tree.database
        columns = self.pick(
            ("d1.s1", "d1.s1, d2.s4", "d*.s1", "g.d1.s1, d1.s4", "d1.s1 + d2.s1", f"{database}.d1.s1, d2.s1", "*.s1")
        )
        if queries.dice.random() < 0.3:
            columns = self.pick(("count(d1.s1), count(d2.s1)", "sum(d*.s1)", "max_value(d1.s1) - min_value(d2.s1)"))
        condition = self.pick(
            (
                "d1.s1 > 3",
                "d1.s1 > 3 and d2.s1 > 0",
                f"{database}.d1.s4 > 90",
                "d1.s1 is not null",
                "d*.s1 > 2",
                "time > 1700000020000",
            )
        )
        where = self.maybe(f" where {condition}", 0.6)
        grouping = queries.time_group() if "(" in columns and queries.dice.random() < 0.5 else ""
        return f"select {columns} from {self.pick((database, f'{database}, {database}'))}{where}{grouping}{queries.pages(0.3)}"

    def condition(self, expressions: Expressions) -> str:
        """Return a condition on aggregates."""
        aggregate = expressions.plain_aggregate
        return self.pick(
            (
                f"{aggregate()} > 2 and {aggregate()} is not null",
                f"count(s1) + count(s4) > {self.pick(('2', '4'))}",
                f"abs({aggregate()}) > 1 or count(s1) = 0",
                "count(s1) in (1, 2, 3)",
                "not (count(s1) > 2)",
                "count(s1) != 2 and max_time(s1) > 1700000020000",
                f"{aggregate()} between 1 and 50",
                "count(*) > 2",
                "max_value(s1) > min_value(s4)",
                "last_value(s6) = 'on'",
                "last_value(s5)",
                "count(s1) > 1 && count(s4) > 1 || count(s1) = 0",
            )
        )

    def filtered_groups(self) -> str:
        """Return a query with HAVING over windows and groups of all kinds."""
        queries = self.queries
        path, expressions = queries.place()
        tail = self.maybe(" align by device", 0.4)
        grouping = self.pick(
            (
                queries.time_group(),
                queries.time_group(),
                f" group by {queries.row_group(expressions)}",
                "",
                "" if tail else f" group by level = {self.pick(('1', '2', '1, 2'))}",
                "" if tail else f" group by ({queries.span()}, 10s), level = 2",
            )
        )
        fill = self.maybe(" fill(previous)", 0.1) if "([" in grouping else ""
        items = queries.items(expressions.plain_aggregate, 2)
        return f"select {items} from {path}{grouping} having {self.condition(expressions)}{fill}{tail}"

    def filled_pages(self) -> str:
        """Return a query with FILL, and with limits of rows and columns."""
        queries = self.queries
        path, expressions = queries.place()
        fill = self.pick(("previous", "linear", "0", "'text'", "previous, 4s", "2.5", "previous, 1m"))
        pages = f"{self.maybe(' limit 5')}{self.maybe(' offset 2', 0.3)}"
        series = f"{self.maybe(' slimit 2', 0.5)}{self.maybe(' soffset 1', 0.3)}"
        order = queries.order(0.2)
        by_device = self.maybe(" align by device", 0.3)
        if queries.dice.random() < 0.5:
            aggregate = self.pick(
                ("last_value(*)", "avg(s1), max_value(s4)", "first_value(s6), count(s1)", expressions.plain_aggregate())
            )
            return f"select {aggregate} from {path}{queries.time_group()}{order} fill({fill}){pages}{series}{by_device}"
        columns = self.pick(("*", "s1, s4, s6", "s5, s3", "s1 + 1, s4"))
        return f"select {columns} from {path}{queries.where(expressions, 0.2)}{order} fill({fill}){pages}{series}{by_device}"

    def nested(self) -> str:
        """Return a query of functions of functions."""
        queries = self.queries
        path, expressions = queries.device()
        deep = expressions.number(3)
        items = self.pick(
            (
                deep,
                f"count({deep})",
                f"avg({deep}), sum({expressions.number(2)})",
                f"max_value({deep}) - min_value({expressions.name('number')})",
                f"round(avg({expressions.number(2)}), 2), cast(count({expressions.any_name()}) as TEXT)",
                f"cast({expressions.number(1)} as {self.pick(('INT32', 'INT64', 'TEXT', 'BOOLEAN', 'FLOAT'))})",
                f"abs(diff({expressions.name('number')})), {expressions.name('number')}",
                f"length(concat({expressions.name('text')}, 'target1'='x')), upper(substring({expressions.name('text')}, 1, 2))",
                f"case when {expressions.boolean(1)} then {expressions.number(1)} else {expressions.number(0)} end",
                f"case when count({expressions.any_name()}) > 2 then avg({expressions.name('number')}) else 0 end",
            )
        )
        grouping = queries.time_group() if queries.dice.random() < 0.3 and ("count" in items or "avg" in items) else ""
        return f"select {items} from {path}{queries.where(expressions, 0.2)}{grouping}{queries.pages(0.2)}"
