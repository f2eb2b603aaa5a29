"""Homes as releases left them: jobs of every kind, open windows, and rows that no job has read yet.

`python -m tests.streams.released_homes` records one of this release. A home that is recorded is never recorded again.
"""

from __future__ import annotations

import random
import tarfile
from pathlib import Path
from typing import Final

import headrace
from headrace.settings import Settings, load
from tests.soak.streams import STREAMS, STREAMS_OF_STREAMS, TABLES, create_stream_sql

FOLDER: Final = Path(__file__).with_name("data")
START_MS: Final = 1_700_000_000_000
SUBTABLES: Final = 4
FUNCTION: Final = '''"""Ten times a value."""


def init():
    pass


def destroy():
    pass


def process(block):
    return [None if block.data(row, 0) is None else block.data(row, 0) * 10 for row in range(block.shape()[0])]
'''
VIRTUAL: Final = (
    "CREATE STABLE v_meters (ts TIMESTAMP, a INT) TAGS (g INT) VIRTUAL 1",
    "CREATE VTABLE v1 (a FROM readings_0.a) USING v_meters TAGS (1)",
    "CREATE STREAM joined IGNORE EXPIRED 0 IGNORE UPDATE 0 FILL_HISTORY 1 INTO out_joined AS "
    "SELECT _wstart, sum(a) total FROM v_meters PARTITION BY tbname INTERVAL(1m)",
    "CREATE FUNCTION tenfold AS 'tenfold.py' OUTPUTTYPE BIGINT LANGUAGE 'Python'",
)
TREES: Final = (
    "CREATE DATABASE root.plant",
    "INSERT INTO root.plant.oven(time, temperature) VALUES (1000, 20.5), (61000, 21.5)",
    "CREATE CQ means BEGIN SELECT avg(temperature) INTO root.means.oven(t) FROM root.plant.oven GROUP BY (1m) END",
    "CREATE PIPE counts WITH SOURCE ('source'='iotdb-source', 'source.path'='root.plant.**') "
    "WITH PROCESSOR ('processor'='count-point-processor', 'processor.output-series'='root.counts.points') "
    "WITH SINK ('sink'='write-back-sink')",
    "CREATE USER operator 'Operator-1234'",
    "GRANT READ_DATA ON root.plant.** TO USER operator",
)
NAMES: Final = (*STREAMS, *STREAMS_OF_STREAMS, "joined")


def archives() -> list[Path]:
    """Return the recorded homes."""
    return sorted(FOLDER.glob("home-*.tar.xz"))


def settings_of(home: Path) -> Settings:
    """Return the settings with which a home is recorded and opened."""
    return load(home=home, metrics_interval_s=0)


def write(connection: headrace.Connection, seed: int, minutes: range) -> None:
    """Write new, late, updated and deleted rows in small commits, of some minutes since `START_MS`."""
    draw = random.Random(seed)
    for minute in minutes:
        for number in range(SUBTABLES):
            times = sorted(draw.sample(range(0, 60_000, 250), 6))
            late = draw.choice([0, 0, 90_000])
            values = " ".join(
                f"({START_MS + minute * 60_000 + ms - late}, {draw.randrange(6)}, '{draw.choice('xyz')}')" for ms in times
            )
            connection.execute(f"INSERT INTO readings_{number} USING readings TAGS ({number % 3}) VALUES {values}")
        ordered = START_MS + minute * 60_000
        connection.execute(
            f"INSERT INTO ordered_0 USING ordered TAGS (0) VALUES ({ordered}, {minute}, 'x') ({ordered + 1}, 1, 'y')"
        )
        start = START_MS + draw.choice(minutes) * 60_000
        connection.execute(f"DELETE FROM readings_{draw.randrange(SUBTABLES)} WHERE ts BETWEEN {start} AND {start + 5_000}")


def record(home: Path) -> None:
    """Create a home with jobs of every kind that have worked and, beyond them, rows that they have not read."""
    functions = home / "ext" / "udf"
    functions.mkdir(parents=True)
    (functions / "tenfold.py").write_text(FUNCTION)
    settings = settings_of(home)
    with headrace.connect(settings=settings) as connection:
        connection.execute("CREATE DATABASE soak")
        connection.execute("USE soak")
        for sql in TABLES:
            connection.execute(sql)
        write(connection, 1, range(3))
        for sql in (*map(create_stream_sql, (*STREAMS, *STREAMS_OF_STREAMS)), *VIRTUAL):
            connection.execute(sql)
        with headrace.connect(settings=settings, dialect="iotdb") as trees:
            for sql in TREES:
                trees.execute(sql)
        connection.settle()
        write(connection, 2, range(3, 6))
        connection.settle()
        connection.execute("PAUSE STREAM minute")
        write(connection, 3, range(6, 8))


def pack(home: Path, archive: Path) -> None:
    """Write a home into an archive, without what a process only has while it runs."""
    with tarfile.open(archive, "w:xz") as tar:
        tar.add(home, "home", filter=lambda member: None if Path(member.name).name in {"cache", "locks", "logs"} else member)


def unpack(archive: Path, folder: Path) -> Path:
    """Return a copy of a recorded home."""
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter="data")
    return folder / "home"


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        record(Path(folder) / "home")
        FOLDER.mkdir(exist_ok=True)
        pack(Path(folder) / "home", FOLDER / f"home-{headrace.__version__}.tar.xz")
