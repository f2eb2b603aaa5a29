"""Random statements of both dialects, and the errors among their answers that our code raises by accident."""

from __future__ import annotations

import random
import re
import traceback
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import headrace
from headrace.compute.functions.aggregates import AggregateFunction
from headrace.compute.functions.scalars import ScalarFunction
from headrace.compute.language import Function, language
from headrace.errors import InternalError
from headrace.library import IOTDB_LIBRARY, MODULES, functions_of
from tests.combinations.grammar import FOLDER, Grammar, mutated, read_rules

NOW: Final = 1_714_557_600_000
STATEMENTS_PER_HOME: Final = 400
MUTATED_SHARE: Final = 0.3
EXPLAINED_SHARE: Final = 0.3
SPARK_WORDS: Final = ("Spark failed", "SQLSTATE", "Py4J", "Traceback", "pyarrow", "sqlalche")

TDENGINE_SETUP: Final = (
    "create database d",
    "use d",
    "create stable m (ts timestamp, i int, b bigint, u bigint unsigned, f float, x double, c decimal(20, 4), e bool, "
    "s varchar(20), n nchar(20), y varbinary(10), at timestamp) tags (site varchar(10), room int)",
    "create table m1 using m tags ('north', 1)",
    "create table m2 using m tags (null, -5)",
    "insert into m1 values ('2024-05-01 10:00:00', 1, -2, 18446744073709551615, 0.1, 1e308, 1.5, true, 'x', 'é', 'ab', 0) "
    "(1714557601000, null, null, null, null, null, null, null, null, null, null, null) "
    "(1714557660000, -2147483648, 9223372036854775807, 0, -0.0, 0, -1, false, '', '', '', 1714557600000)",
    "insert into m2 values (0, 7, 7, 7, 7, 7, 7, true, '12', '1.5', '\\x98f4', null)",
    "create table p (ts timestamp, i int, t varchar(10))",
    "insert into p values (1714557600000, 3, 'on') (1714557700000, 4, 'off')",
    "create table k (ts timestamp, j int primary key, i double)",
    "insert into k values (1714557600000, 1, 2.5) (1714557600000, 2, null)",
    "create vtable v (ts timestamp, i int from m1.i, x double from m2.x)",
    "create stable vs (ts timestamp, a int) tags (g int) virtual 1",
    "create database other precision 'ns'",
    "create table other.q (ts timestamp, i int)",
    "insert into other.q values (1714557600000000001, 1)",
)
IOTDB_SETUP: Final = (
    "create database root.f",
    "create timeseries root.f.a.d1.v with datatype=INT32 tags(site=north)",
    "create timeseries root.f.a.d1.l with datatype=INT64",
    "create timeseries root.f.a.d1.g with datatype=FLOAT",
    "create timeseries root.f.a.d1.x with datatype=DOUBLE",
    "create timeseries root.f.a.d1.flag with datatype=BOOLEAN",
    "create timeseries root.f.a.d1.word with datatype=TEXT tags(site=south)",
    "create timeseries root.f.a.d1.str with datatype=STRING",
    "create timeseries root.f.a.d1.blob with datatype=BLOB",
    "create timeseries root.f.a.d1.day with datatype=DATE",
    "create timeseries root.f.a.d1.stamp with datatype=TIMESTAMP",
    "create timeseries root.f.b.d1.v with datatype=TEXT",
    "create aligned timeseries root.f.al(p INT32, q DOUBLE)",
    "insert into root.f.a.d1(time, v, l, g, x, flag, word, str, blob, day, stamp) values "
    "(0, 1, 2, 0.5, 1e308, true, 'on', 'a', X'00ff', '2024-02-29', 5), "
    "(10, -2147483648, null, -0.0, null, false, '', '12', null, null, null), "
    "(35, null, 9223372036854775807, 3, -2.5, null, 'x', null, X'', '1970-01-01', -1)",
    "insert into root.f.a.d2(time, v, w) values (5, 1.5, true), (50, null, false)",
    "insert into root.f.b.d1(time, v) values (1, '7'), (90, 'off')",
    "insert into root.f.al(time, p, q) aligned values (1, 1, null), (2, null, 2.5)",
)

CODE: Final = {
    "udf": """
from headrace.udf import UDTF, MappableRowByRowAccessStrategy, Type


def init():
    pass


def destroy():
    pass


def process(block):
    rows, _ = block.shape()
    return [None if block.data(row, 0) is None else block.data(row, 0) * 2 for row in range(rows)]


class Twice(UDTF):
    def before_start(self, parameters, configurations):
        configurations.set_access_strategy(MappableRowByRowAccessStrategy()).set_output_data_type(Type.DOUBLE)

    def transform(self, row, collector):
        return row.get_double(0) * 2
""",
    "trigger": """
from headrace.trigger import Trigger


class Watch(Trigger):
    def fire(self, tablet):
        return tablet.values is not None
""",
}
"""Modules by the folders from which statements register them."""


@dataclass(frozen=True)
class Accident:
    """A statement whose error no one has raised on purpose."""

    sql: str
    error: BaseException

    @property
    def kind(self) -> str:
        """The class of the error, and the place in our code that raised it."""
        error = self.error.__cause__ or self.error
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "/headrace/" in frame.filename]
        place = f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else "?"
        condition = re.search(r"\[[A-Z_.]{5,}\]", str(error))
        return f"{type(error).__name__} {condition[0] if condition else ''} at {place}"

    def __str__(self) -> str:
        return f"{self.kind}: {str(self.error)[:300]}\n  {self.sql}"


def is_accident(error: BaseException) -> bool:
    """Return whether an error is none of ours, says that our code is wrong, or has the words of Spark."""
    if not isinstance(error, headrace.Error) or isinstance(error, InternalError):
        return True
    return any(word in error.message for word in SPARK_WORDS)


def function_rules(dialect: str) -> dict[str, list[str]]:
    """Return rules for the names of all functions of a dialect, and for calls of them."""
    rules: dict[str, list[str]] = defaultdict(list)
    for name, function in language(dialect).functions.items():
        kind = (
            "scalar"
            if isinstance(function, ScalarFunction)
            else "aggregate"
            if isinstance(function, AggregateFunction)
            else "series"
        )
        rules[f"{kind}_name"].append(name)
        rules[f"{kind}_call"] += [
            f"{name}({', '.join(['<value>', *['<argument>'] * 9][:count])})" for count in argument_counts(function)
        ]
    rules["library_name"] = list(library_functions())
    return rules


def argument_counts(function: Function) -> list[int]:
    """Return the least number of arguments of a function, and one more if it takes more."""
    least, most = function.min_arguments, function.max_arguments
    return [least, least if most == least else least + 1]


def library_functions() -> dict[str, str]:
    """Return the class of each function of the library by the name under which the statements call it."""
    classes = [f"{IOTDB_LIBRARY}{package}.{name}" for package, module in MODULES.items() for name in functions_of(module)]
    return {path.rsplit(".", 1)[1].lower(): path for path in classes}


@dataclass
class Fuzzer:
    """Runs random statements of a dialect, by a seed."""

    dialect: str
    seed: int

    def __post_init__(self) -> None:
        self.dice = random.Random(f"{self.dialect} {self.seed}")
        self.grammar = Grammar(read_rules(FOLDER / f"{self.dialect}.txt") | function_rules(self.dialect), self.dice)

    def statements(self, count: int) -> Iterator[str]:
        """Yield random statements, some of them mutated, some of them to be explained."""
        recent = [self.grammar.text("statement")]
        for _ in range(count):
            sql = self.grammar.text("statement")
            recent = [*recent[-20:], sql]
            if self.dice.random() < MUTATED_SHARE:
                sql = mutated(sql, recent, self.dice)
            yield f"explain {sql}" if self.dice.random() < EXPLAINED_SHARE and not sql.startswith("explain") else sql


def accidents(dialect: str, home: Path, statements: Iterable[str]) -> Iterator[Accident]:
    """Execute statements on an empty home, and yield those that fail by accident."""
    with headrace.connect(home, dialect=dialect, clock=headrace.ManualClock(NOW)) as connection:
        write_code(home)
        for sql in setup(dialect):
            connection.execute(sql)
        for sql in statements:
            try:
                cursor = connection.execute(sql)
                if cursor.description is not None:
                    cursor.fetchall()
            except Exception as error:
                if is_accident(error):
                    yield Accident(sql, error)


def write_code(home: Path) -> None:
    """Write the modules that random statements register."""
    for kind, code in CODE.items():
        folder = home / "ext" / kind
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "fuzzed.py").write_text(code)


def setup(dialect: str) -> list[str]:
    """Return statements that create what random statements name."""
    if dialect == "tdengine":
        return [*TDENGINE_SETUP]
    return [*IOTDB_SETUP, *(f"create function {name} as '{path}'" for name, path in library_functions().items())]
