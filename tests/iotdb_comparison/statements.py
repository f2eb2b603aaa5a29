"""Random statements other than queries: INTO, writes, SHOW and COUNT. Each case is a list of statements."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tests.iotdb_comparison.queries import Queries
from tests.iotdb_comparison.trees import VALUES


@dataclass(slots=True)
class Cases:
    """Random cases over a tree; `number` keeps the series that they write apart."""

    queries: Queries
    number: int

    @property
    def dice(self) -> random.Random:
        return self.queries.dice

    @property
    def database(self) -> str:
        return self.queries.tree.database

    @property
    def target(self) -> str:
        """Return a path below which only this case writes."""
        return f"{self.database}_w.c{self.number}"

    def pick(self, choices: Sequence[str]) -> str:
        return self.dice.choice(choices)

    def case(self) -> list[str]:
        """Return the statements of a random case."""
        roll = self.dice.random()
        families: Sequence[tuple[float, Callable[[], list[str]]]] = (
            (0.06, self.into),
            (0.10, self.writes),
            (0.16, self.schema),
        )
        return next((make() for limit, make in families if roll < limit), None) or [self.queries.query()]

    def into(self) -> list[str]:
        """Return a query with INTO, and one that reads what it wrote."""
        path, expressions = self.queries.place()
        where = self.queries.where(expressions, 0.2)
        # The server drops rows of some disjunctions, which what is read afterwards would show.
        where = "" if " or " in where else where
        group = self.queries.time_group()
        aggregates = ", ".join(expressions.plain_aggregate() for _ in range(2))
        aligned = self.pick(("", "", "aligned "))
        statement = self.pick(
            (
                f"select s1, s4 into {aligned}{self.target}.x(a, b) from {self.database}.d1{where}",
                f"select s1, s2 into {aligned}{self.target}.x(::) from {self.database}.d1{where}",
                f"select * into {self.target}.::(::) from {path}{where}",
                f"select s1, s4 into {self.target}.${{2}}(${{3}}) from {path}",
                f"select s1 into {self.target}.x(${{2}}_${{3}}) from {path}",
                f"select {aggregates} into {aligned}{self.target}.x(a, b) from {self.database}.d1{where}{group}",
                f"select {aggregates} into {self.target}.x(a, b) from {self.database}.d1{where}",
                f"select s1, s1 + s4 into {self.target}.x(a, b) from {self.database}.d1{where}",
                f"select s1, s4 into {self.target}.::(::) from {self.database}.d*{where} align by device",
                f"select count(s1), avg(s4) into {self.target}.${{2}}(n, m) from {self.database}.d*{group} align by device",
                f"select {expressions.any(1)} into {self.target}.x(a) from {path}{where}",
                f"select s1 into {self.target}.x(a, b) from {path}",
                f"select last s1 into {self.target}.x(a) from {path}",
                f"select s1 into {self.target}.x(a) from {self.database}.d1{where} fill(previous) limit 4",
            )
        )
        return [statement, f"select * from {self.target}.**", f"show timeseries {self.target}.**"]

    def writes(self) -> list[str]:
        """Return inserts and deletes on a device of their own, and queries of it."""
        device = f"{self.target}.w"
        kinds = self.dice.sample(sorted(VALUES), 3)
        statements = []
        if self.dice.random() < 0.6:
            if self.dice.random() < 0.4:
                columns = ", ".join(f"m{at} {kind}" for at, kind in enumerate(kinds))
                statements.append(f"create aligned timeseries {device}({columns})")
            else:
                statements += [f"create timeseries {device}.m{at} with datatype={kind}" for at, kind in enumerate(kinds)]
        for _ in range(self.dice.randint(2, 5)):
            statements.append(self.write(device, kinds))
        return [*statements, f"select * from {device}", f"show timeseries {device}.*", f"select count(*) from {device}"]

    def write(self, device: str, kinds: Sequence[str]) -> str:
        """Return one write."""
        first = self.dice.randint(1, 20)
        columns = self.dice.sample(range(len(kinds)), self.dice.randint(1, len(kinds)))
        names = ", ".join(f"m{at}" for at in columns)
        rows = ", ".join(
            f"({first + step}, {', '.join(self.cell(kinds[at]) for at in columns)})" for step in range(self.dice.randint(1, 4))
        )
        return self.pick(
            (
                *[f"insert into {device}(time, {names}) values {rows}"] * 4,
                f"insert into {device}(time, {names}) aligned values {rows}",
                f"delete from {device}.m0 where time > {first}",
                f"delete from {device}.* where time >= {first} and time <= {first + 2}",
                f"delete from {device}.m1",
                f"delete timeseries {device}.m2",
                f"delete from {device}.m0 where m0 > 2",
                f"insert into {device}(timestamp, m0, m0) values ({first}, 1, 2)",
                f"insert into {device}(time, m0) values ({first}, 1, 2)",
            )
        )

    def cell(self, kind: str) -> str:
        """Return a value, sometimes NULL, sometimes of another type."""
        roll = self.dice.random()
        if roll < 0.15:
            return "null"
        return VALUES[self.pick(sorted(VALUES)) if roll < 0.22 else kind](self.dice)

    def schema(self) -> list[str]:
        """Return a statement about the tree."""
        database = self.database
        path = self.pick(
            (f"{database}.**", f"{database}.*", f"{database}.d1.*", f"{database}.g.**", f"{database}.d1", f"{database}.nope.**")
        )
        pages = self.pick(("", "", " limit 3", " limit 2 offset 1"))
        return [
            self.pick(
                (
                    f"show devices {path}{pages}",
                    f"show devices {path} with database{pages}",
                    f"show timeseries {path}{pages}",
                    f"show timeseries {path} where datatype='{self.pick(('INT32', 'TEXT', 'DOUBLE'))}'",
                    f"show timeseries {path} where tags(unit)='{self.pick(('rpm', 'bar'))}'{pages}",
                    f"show timeseries {path} where timeseries contains '{self.pick(('s1', 'd1'))}'",
                    f"show devices {path} where device contains '{self.pick(('d1', 'g'))}'",
                    f"count devices {path}",
                    f"count timeseries {path}",
                    f"count timeseries {path} group by level={self.pick(('1', '2', '3', '4'))}",
                    f"count timeseries {path} where datatype='INT32'",
                    f"count nodes {path} level={self.pick(('1', '2', '3'))}",
                    f"show child paths {self.pick((path, database))}",
                    f"show child nodes {self.pick((path, database))}",
                    f"show databases {self.pick((database, f'{database}.**'))}",
                    f"count databases {database}",
                    f"show child paths {database}.*",
                    f"count devices {database}.d*",
                    f"count timeseries {database}.d*.s1",
                )
            )
        ]
