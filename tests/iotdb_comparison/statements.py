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
            (0.15, self.schema),
            (0.17, self.placeholders),
            (0.19, self.continuous),
            (0.21, self.alterations),
            (0.25, self.templated),
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

    def placeholders(self) -> list[str]:
        """Return a query with INTO whose targets are made of the nodes of the source."""
        path, expressions = self.queries.place()
        database, target = self.database, self.target
        group = self.queries.time_group()
        statement = self.pick(
            (
                f"select s1, s4 into {target}.${{2}}.${{3}}(${{3}}_copy, ${{4}}_copy) from {path}",
                f"select s1 into {target}.x${{2}}(${{2}}_${{3}}_y) from {database}.d*",
                f"select s1, s2 into {target}.x(::), {target}.y(::) from {database}.d1",
                f"select s1, s2 into {target}.x(a), {target}.y(b) from {database}.d1",
                f"select s1, s2 into {target}.x(a, b), aligned {target}.y(a, b) from {database}.d1, {database}.d2",
                f"select s1, s4 into {target}.::(a, b), {target}.y.::(::) from {database}.d1, {database}.d2 align by device",
                f"select s1, s4 into {target}.${{2}}(${{3}}, b) from {database}.d* align by device",
                f"select s1, s4 into {target}.::(a, b) from {database}.** align by device",
                f"select count(s1), last_value(s4) into {target}.${{2}}(n, ::) from {path}{group}",
                f"select count(s1) into {target}.x(${{2}}_n) from {database}.d*{group}",
                f"select count(s1) into {target}.x(n) from {database}.**{group[:-1]}, 10s) align by device",
                f"select avg(s1), max_value(s4) into aligned {target}.::(m, x) from {database}.d*{group} align by device",
                f"select s1 + s4, {expressions.number(1)} into {target}.x(`a b`, c) from {database}.d1",
                f"select s1 as p, s4 into {target}.x(::) from {database}.d1",
                f"select s1 as p, s4 as q into {target}.x(::) from {database}.d1",
                f"select * into {target}.::(${{2}}_${{3}}) from {path}",
                f"select s1 into {target}.${{9}}(a) from {database}.d1",
                f"select s1, s4 into {target}.x(a, a) from {database}.d1",
                f"select s6, s5 into {target}.x(a, b) from {database}.d1{self.queries.where(expressions, 0.5)}",
                f"select count(s1) into {target}.x(n) from {database}.d* group by level = {self.pick(('1', '2'))}",
                f"select s1, s4 into {target}.x(a, b) from {database}.d1 order by time desc limit 3 offset 1",
            )
        )
        return [statement, f"select * from {target}.**", f"show timeseries {target}.**"]

    def continuous(self) -> list[str]:
        """Return the definition of a continuous query that is not due, how it is shown, and its end."""
        name, database, target = f"c{self.queries.tree.database[5:]}_{self.number}", self.database, self.target
        resample = self.pick(("", " resample", *[f" resample{self.ranges()}"] * 4))
        policy = self.pick(("", "", " timeout policy blocked", " timeout policy discard"))
        group = self.pick(
            ("", " group by (1h)", " group by (30m)", " group by (1h, 30m)", " group by ([0, 10), 1h)", " group by (1d)")
        )
        into = self.pick((f" into {target}.x(a)", f" into {target}.x(a)", f" into {target}.::(a)", ""))
        where = self.pick(("", "", " where s1 > 3", " where time > 3"))
        tail = self.pick(("", "", " fill(previous)", " align by device", " having count(s1) > 1", " order by time desc"))
        column = self.pick(("count(s1)", "avg(s1)", "s1", "max_value(s4)"))
        body = f"select {column}{into} from {database}.{self.pick(('d1', 'd*'))}{where}{group}{tail}"
        word = self.pick(("cq", "continuous query"))
        return [
            f"create {word} {name}{resample}{policy} begin {body} end",
            "show cqs",
            f"drop {word} {name}",
        ]

    def ranges(self) -> str:
        """Return the clauses of RESAMPLE."""
        every = self.pick((" every 1h", " every 2h", " every 30m", " every 1d", " every 1d6h", " every 500ms", ""))
        boundary = self.pick(("", "", " boundary 0", " boundary 2023-11-14T22:13:30", " boundary 1700000000000"))
        span = self.pick(
            ("", " range 1h", " range 2h", " range 2h, 1h", " range 1h, 1h", " range 1h, 2h", " range 30m", " range 0s")
        )
        return f"{every}{boundary}{span}"

    def alterations(self) -> list[str]:
        """Return changes of a series of its own, and how it is shown."""
        series = f"{self.target}.a.m"
        changes = (
            f"alter timeseries {series} rename unit to u",
            f"alter timeseries {series} rename nope to u",
            f"alter timeseries {series} set unit=bar, owner=bob",
            f"alter timeseries {series} set nope=1",
            f"alter timeseries {series} drop unit",
            f"alter timeseries {series} drop nope, owner",
            f"alter timeseries {series} add tags site=north, floor=2",
            f"alter timeseries {series} add tags unit=hz",
            f"alter timeseries {series} add attributes owner=eve, age=3",
            f"alter timeseries {series} upsert alias=am tags(unit=mm, site=south) attributes(owner=joe)",
            f"alter timeseries {series} upsert alias=n",
            f"alter timeseries {series} upsert tags(k=v)",
            f"alter timeseries {series}x add tags a=b",
            f"create timeseries {series} with datatype=INT32",
            f"create timeseries {self.target}.a.am with datatype=INT32",
            f"create timeseries {series}.below with datatype=INT32",
            f"create timeseries {self.target}.a.n(am) with datatype={self.pick(('FLOAT', 'text', 'Int64'))}, encoding=plain",
            f"create aligned timeseries {self.target}.a(p INT32)",
            f"delete timeseries {series}",
            f"insert into {self.target}.a(time, am) values (1, 5)",
        )
        return [
            f"create timeseries {series} with datatype=INT32 tags(unit=rpm) attributes(owner=ada)",
            *self.dice.sample(changes, 4),
            f"show timeseries {self.target}.**",
            f"show timeseries {self.target}.** where tags({self.pick(('unit', 'u', 'site'))})={self.pick(('rpm', 'bar', 'north'))}",
            f"select am from {self.target}.a",
        ]

    def templated(self) -> list[str]:
        """Return a device template, changes of it and of what uses it, and how they are shown."""
        name, place = f"t{self.database[5:]}_{self.number}", f"{self.target}.t"
        kinds = self.dice.sample(sorted(VALUES), 2)
        values = ", ".join(self.cell(kind) for kind in kinds)
        measurements = ", ".join(f"m{at} {kind}" for at, kind in enumerate(kinds))
        changes = (
            f"create timeseries using device template on {place}.a",
            f"create timeseries of device template on {place}.a",
            f"create timeseries using device template on {place}",
            f"create timeseries using device template on {self.target}.other",
            f"insert into {place}.b(time, m0, m1) values (1, {values}), (2, {values})",
            f"insert into {place}.a(time, m0, m1) aligned values (3, {values})",
            f"insert into {place}.b(time, m9) values (2, 5)",
            f"insert into {place}(time, m1) values (4, {self.cell(kinds[1])})",
            f"alter device template {name} add (m3 INT32)",
            f"alter device template {name} add (m0 INT32)",
            f"delete from {place}.a.* where time < 2",
            f"delete timeseries {place}.a.m0",
            f"create timeseries {place}.c.m5 with datatype=INT32",
            f"create timeseries {place}.c.m0 with datatype=INT32",
            f"deactivate device template {name} from {place}.a",
            f"deactivate device template {name} from {place}.*",
            f"unset device template {name} from {place}",
            f"set device template {name} to {place}.a",
            f"set device template {name} to {self.target}",
            f"drop device template {name}",
        )
        return [
            f"create device template {name}{self.pick(('', ' aligned'))} ({measurements})",
            f"set device template {name} to {place}",
            *self.dice.sample(changes, 5),
            f"show nodes in device template {name}",
            f"show paths set device template {name}",
            f"show paths {self.target}.** using device template {name}",
            f"show devices {self.target}.**",
            f"show timeseries {self.target}.**",
            f"count timeseries {self.target}.** group by level = 3",
            f"select * from {self.target}.**",
            f"select count(*) from {place}.** align by device",
            f"deactivate device template {name} from {self.target}.**",
            f"unset device template {name} from {place}",
            f"drop device template {name}",
        ]
