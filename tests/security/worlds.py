"""Two homes that are equal but for what a user may not know of, and the random statements of that user.

What is hidden from the user exists in the first home only, or has other values in the second. So all that the user sees is equal.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import headrace
from headrace.model.paths import ANY_LEVELS
from tests.combinations.statements import NOW, Fuzzer

USER, PASSWORD = "eve0", "secret12"
COLUMNS: Final = (
    "i int, b bigint, u bigint unsigned, f float, x double, c decimal(20, 4), e bool, s varchar(20), n nchar(20), y varbinary(10), "
    "at timestamp"
)
ROWS_OF_M1: Final = (
    "(1714557600000, 1, -2, 18446744073709551615, 0.1, 1e308, 1.5, true, 'x', 'é', 'ab', 0) "
    "(1714557601000, null, null, null, null, null, null, null, null, null, null, null) "
    "(1714557660000, -2147483648, 9223372036854775807, 0, -0.0, 0, -1, false, '', '', '', 1714557600000)"
)
ROWS_OF_M2: Final = (
    "(1714557600000, 77, 77, 77, 7.5, 7.5, 7.5, true, 'hidden', '1.5', 'yy', null) "
    "(1714557999000, 1, 1, 1, 1, 1, 1, true, '', '', '', 0)"
)
OBJECTS: Final = {
    "d.m": (f"create stable d.m (ts timestamp, {COLUMNS}) tags (site varchar(10), room int)",),
    "d.m1": ("create table d.m1 using d.m tags ('north', 1)", f"insert into d.m1 values {ROWS_OF_M1}"),
    "d.m2": ("create table d.m2 using d.m tags ('south', -5)", f"insert into d.m2 values {ROWS_OF_M2}"),
    "d.p": (
        "create table d.p (ts timestamp, i int, t varchar(10))",
        "insert into d.p values (1714557600000, 3, 'on') (1714557700000, 4, 'off')",
    ),
    "d.k": (
        "create table d.k (ts timestamp, j int primary key, i double)",
        "insert into d.k values (1714557600000, 1, 2.5) (1714557600000, 2, null)",
    ),
    "d.v": ("create vtable d.v (ts timestamp, i int from d.m1.i, x double from d.m2.x)",),
    "d.vs": ("create stable d.vs (ts timestamp, a int) tags (g int) virtual 1",),
    "other.q": ("create table other.q (ts timestamp, i int)", "insert into other.q values (1714557600000000001, 1)"),
    "stream": ("create stream d.st0 trigger at_once into d.out1 as select _wstart, count(*) n from d.m interval(1m)",),
}
"""The statements that make each object of the TDengine dialect."""
DATABASES: Final = {"d": "create database d", "other": "create database other precision 'ns'"}
NORTH: Final = "site = 'north'"
SERIES: Final = {
    "root.f.a.d1.v": ("INT32", ("1", "-2147483648")),
    "root.f.a.d1.l": ("INT64", ("9223372036854775807", "2")),
    "root.f.a.d1.g": ("FLOAT", ("0.5", "3")),
    "root.f.a.d1.x": ("DOUBLE", ("1e308", "-2.5")),
    "root.f.a.d1.flag": ("BOOLEAN", ("true", "false")),
    "root.f.a.d1.word": ("TEXT", ("'on'", "''")),
    "root.f.a.d1.blob": ("BLOB", ("X'00ff'", "X''")),
    "root.f.a.d1.stamp": ("TIMESTAMP", ("5", "-1")),
    "root.f.a.d2.v": ("DOUBLE", ("1.5", "2")),
    "root.f.b.d1.v": ("TEXT", ("'7'", "'off'")),
}
"""The type and the values of each series."""
PATHS: Final = (*SERIES, "root.f.a.**", "root.f.a.d1.**", "root.f.a.d2.**", "root.f.b.**", "root.f.**")
DATA: Final = ("READ_DATA", "WRITE_DATA")
PATH_PRIVILEGES: Final = ("READ_DATA", "READ_DATA", "WRITE_DATA", "READ_SCHEMA", "WRITE_SCHEMA")
TABLE_PRIVILEGES: Final = ("READ", "READ", "WRITE")
MAX_GRANTS: Final = 3
VARYING: Final = re.compile(r"\b[0-9a-f]{8,}\b|\b\d+(\.\d+)? m?s\b")
STORED_COLUMN: Final = re.compile(r"(?<=[a-z])_\d\b")
"""The number of a stored column. `v_2` tells that other measurements `v` have other types, which is accepted."""
NUMBERED: Final = re.compile(r"(show|explain show) (queries|connections)", re.IGNORECASE)
NUMBERS: Final = re.compile(r"\d+(\.\d+)?")


@dataclass(frozen=True)
class World:
    """What a user was granted, and the statements that make the full home and the one without what is hidden."""

    dialect: str
    grants: tuple[str, ...]
    full: tuple[str, ...]
    less: tuple[str, ...]


def table_world(dice: random.Random) -> World:
    """Return a world of tables: what is hidden is missing in the lesser home."""
    grants: dict[str, str] = {}
    for name in dice.sample(["d.m", "d.p", "d.k", "other.q"], dice.randint(1, MAX_GRANTS)):
        condition = f" with {NORTH}" if name == "d.m" and dice.random() < 0.6 else ""
        grants[name] = f"grant {dice.choice(TABLE_PRIVILEGES)} on {name}{condition} to {USER}"
    seen = set(grants) | ({"d.m1"} if "d.m" in grants else set())
    if "d.m" in grants and NORTH not in grants["d.m"]:
        seen.add("d.m2")
    databases = {name.partition(".")[0] for name in grants}
    less = [sql for name, sql in DATABASES.items() if name in databases]
    less += [sql for name, statements in OBJECTS.items() if name in seen for sql in statements]
    full = [*DATABASES.values(), *(sql for statements in OBJECTS.values() for sql in statements)]
    return World("tdengine", tuple(grants.values()), tuple(full), tuple(less))


def tree_world(dice: random.Random) -> World:
    """Return a world of series: in the lesser home hidden ones are missing, and those whose data are hidden have none."""
    granted = [(dice.choice(PATH_PRIVILEGES), dice.choice(PATHS)) for _ in range(dice.randint(1, MAX_GRANTS))]
    seen = {path for path in SERIES if any(covers(target, path) for _, target in granted)}
    read = {path for path in SERIES if any(covers(target, path) for name, target in granted if name in DATA)}
    made = [sql for path in SERIES for sql in series_statements(path, has_rows=True)]
    less = [sql for path in SERIES if path in seen for sql in series_statements(path, has_rows=path in read)]
    grants = tuple(f"grant {name} on {target} to user {USER}" for name, target in granted)
    database = "create database root.f"
    return World("iotdb", grants, (database, *made), (database, *less) if less else ())


def covers(target: str, path: str) -> bool:
    return path == target or (target.endswith(ANY_LEVELS) and path.startswith(target.removesuffix(ANY_LEVELS)))


def series_statements(path: str, *, has_rows: bool) -> list[str]:
    kind, values = SERIES[path]
    device, _, measurement = path.rpartition(".")
    start = 10 * list(SERIES).index(path)  # no two series have a point at the same time, so that rows of hidden ones would show
    rows = ", ".join(f"({start + number}, {value})" for number, value in enumerate(values))
    created = f"create timeseries {path} with datatype={kind}"
    return [created, f"insert into {device}(time, {measurement}) values {rows}"] if has_rows else [created]


FIRST: Final = {"tdengine": ("use d",), "iotdb": ()}
"""Statements before the random ones."""
WORLDS: Final = {"tdengine": table_world, "iotdb": tree_world}


@contextmanager
def opened(folder: Path, world: World, *, is_full: bool) -> Iterator[headrace.Connection]:
    """Make a home, and yield the user's connection to it."""
    clock = headrace.ManualClock(NOW)
    with (
        headrace.connect(folder, dialect=world.dialect, clock=clock) as root,
        headrace.connect(folder, dialect="iotdb", clock=clock) as trees,
    ):
        trees.execute(f"create user {USER} '{PASSWORD}'")
        for sql in (*(world.full if is_full else world.less), *world.grants):
            root.execute(sql)
        with headrace.connect(folder, dialect=world.dialect, clock=clock, user=USER, password=PASSWORD) as connection:
            yield connection


def observed(connection: headrace.Connection, sql: str) -> str:
    """Return all that the user sees of a statement, in any order, without what differs each time."""
    try:
        cursor = connection.execute(sql)
        rows = sorted(map(repr, cursor.fetchall())) if cursor.description else []
        text = repr((cursor.description, cursor.rowcount, rows))
    except headrace.Error as error:
        text = repr((error.code, str(error)))
    text = STORED_COLUMN.sub("", text)
    return NUMBERS.sub("0", text) if NUMBERED.match(sql) else VARYING.sub("…", text)


def leaks(folder: Path, dialect: str, seed: int, count: int) -> Iterator[str]:
    """Yield the random statements of a random user whose outcomes differ, with what was seen of them."""
    world = WORLDS[dialect](random.Random(f"{dialect} {seed}"))
    with opened(folder / "full", world, is_full=True) as full, opened(folder / "less", world, is_full=False) as less:
        for sql in (*FIRST[dialect], *Fuzzer(dialect, seed).statements(count)):
            answers = [observed(connection, sql) for connection in (full, less)]
            if answers[0] != answers[1]:
                yield "\n".join((sql, *(f"  {answer[:600]}" for answer in answers), f"  granted: {world.grants}"))
