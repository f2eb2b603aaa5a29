"""Random tables, reproducible by seed."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from headrace.model.instants import parse_instant
from headrace.model.tables import TBNAME, Database, Table, TableKind
from headrace.model.time import Precision
from headrace.model.types import TypeKind
from headrace.verify import Lookup
from tests.verify.tables import column, lookup, stored_rows

MIXED: Final = Table(
    "db",
    "mixed",
    (
        column("ts", TypeKind.TIMESTAMP),
        column("ti", TypeKind.TINYINT),
        column("i", TypeKind.INT),
        column("bi", TypeKind.BIGINT),
        column("ui", TypeKind.UINT),
        column("ub", TypeKind.UBIGINT),
        column("f", TypeKind.FLOAT),
        column("d", TypeKind.DOUBLE),
        column("e", TypeKind.BOOL),
        column("s", TypeKind.VARCHAR, 20),
        column("n", TypeKind.NCHAR, 20),
        column("at", TypeKind.TIMESTAMP),
    ),
    (column("site", TypeKind.VARCHAR, 10), column("room", TypeKind.INT)),
)
KEYED: Final = Table(
    "db",
    "keyed",
    (
        column("ts", TypeKind.TIMESTAMP),
        column("k", TypeKind.INT, is_key=True),
        column("i", TypeKind.INT),
        column("d", TypeKind.DOUBLE),
    ),
    kind=TableKind.PLAIN,
)
TAGS: Final[dict[str, dict[str, Any]]] = {
    "m1": {"site": "north", "room": 1},
    "m2": {"site": "north", "room": 2},
    "m3": {"site": "south", "room": 1},
    "m4": {"site": None, "room": None},
}
WORDS: Final = ("on", "off", "", "Idle", "a_b", "50%", "x", "  pad ", "12abc", "élan")
PLACES: Final = (
    ("UTC", "2023-11-14 22:00:00"),
    ("UTC", "1969-12-31 23:50:00"),
    ("Europe/Berlin", "2024-03-30 20:00:00"),
    ("America/New_York", "2024-11-02 12:00:00"),
    ("Asia/Kolkata", "2024-02-28 18:00:00"),
    ("+08:00", "2024-12-31 20:00:00"),
    ("Pacific/Apia", "2011-12-29 18:00:00"),
)
PRECISIONS: Final = (Precision.MILLISECOND, Precision.MILLISECOND, Precision.MICROSECOND, Precision.NANOSECOND)
SIZES: Final = (300, 300, 24, 300, 300, 300, 300, 12)
"""Numbers of rows in a world."""
STEPS: Final = (1, 1, 2, 5, 30, 300, 7_200, 40_000)
"""Seconds between rows of a subtable."""


Row = dict[str, Any]


@dataclass(frozen=True)
class World:
    """The tables of one batch of queries: their rows, and the first and last instant in ticks.

    `values` are the rows of `mixed` with their tags, and instants in ticks.
    """

    database: Database
    first: int
    last: int
    rows: dict[str, pa.Table]
    values: list[Row]

    @property
    def is_small(self) -> bool:
        return len(self.rows["mixed"]) < max(SIZES) // 2

    @property
    def lookup(self) -> Lookup:
        return lookup({"mixed": (MIXED, self.rows["mixed"]), "keyed": (KEYED, self.rows["keyed"])}, TAGS, self.database)


def world(seed: int) -> World:
    """Return random tables; every fourth world is small."""
    dice = random.Random(seed)
    rows = SIZES[seed % len(SIZES)]
    timezone, start = dice.choice(PLACES)
    database = Database("db", dice.choice(PRECISIONS), timezone)
    second = database.precision.ticks_per_second
    first = parse_instant(start, "UTC", database.precision)
    assert first is not None
    pace = dice.choice(STEPS) * second
    counts = {name: max(rows // (30 if name == "m4" else len(TAGS)), 1) for name in TAGS}
    mixed = [row for name in TAGS for row in subtable(dice, name, first, pace, counts[name])]
    last = max(row["ts"] for row in mixed)
    keyed = {(row["ts"], row["k"]): row for row in (keyed_row(dice, first, pace) for _ in range(rows // 4))}
    stored = {
        "mixed": stored_rows(MIXED, database, dice.sample(mixed, len(mixed))),
        "keyed": stored_rows(KEYED, database, keyed.values()),
    }
    return World(database, first, last, stored, [row | TAGS[row[TBNAME]] for row in mixed])


def subtable(dice: random.Random, name: str, ticks: int, pace: int, rows: int) -> list[dict[str, Any]]:
    """Return rows of a subtable, with gaps and uneven steps.

    The common pace makes instants of subtables coincide.
    """
    rows_ = []
    for _ in range(rows):
        ticks += dice.choice((pace, pace, pace, pace, 2 * pace, 10 * pace, dice.randrange(1, pace + 1)))
        rows_.append({TBNAME: name, "ts": ticks} | values(dice, ticks, pace))
    return rows_


def values(dice: random.Random, ticks: int, pace: int) -> dict[str, Any]:
    generators: dict[str, Callable[[], Any]] = {
        "ti": lambda: dice.randrange(-3, 4),
        "i": lambda: dice.randrange(0, 6),
        "bi": lambda: dice.choice((dice.randrange(-1000, 1000), dice.randrange(-1000, 1000), 2**61 + dice.randrange(9))),
        "ui": lambda: dice.choice((0, 1, 2, 3_000_000_000)),
        "ub": lambda: dice.choice((0, 1, 5, 2**63 + 5)),
        "f": lambda: dice.randrange(-40, 40) / 8,
        "d": lambda: dice.choice((dice.randrange(-4000, 4000) / 8, dice.randrange(-4000, 4000) / 8, 0.0, 1e6, 0.1)),
        "e": lambda: dice.random() < 0.6,
        "s": lambda: dice.choice(WORDS),
        "n": lambda: dice.choice(WORDS),
        "at": lambda: ticks + dice.randrange(-5, 5) * pace,
    }
    return {name: None if dice.random() < 0.2 else make() for name, make in generators.items()}


def keyed_row(dice: random.Random, first: int, pace: int) -> dict[str, Any]:
    ticks = first + dice.randrange(40) * pace
    return {
        "ts": ticks,
        "k": dice.randrange(4),
        "i": dice.choice((None, 0, 1, 2, 3)),
        "d": dice.choice((None, dice.randrange(-80, 80) / 8)),
    }
