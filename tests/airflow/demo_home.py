"""A home whose streams have run for an hour, the same each time: for tests of what the page shows of them, and for its pictures."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import headrace
from headrace.catalog import Catalog
from headrace.settings import Settings, load
from tests.airflow.web_page import beat

START: Final = 1_790_000_040_000
"""When the first rows are written: a whole minute."""
STEP_S: Final = 120
STEPS: Final = 30
"""Rows are written every two minutes, for an hour."""
LAST_STEP_MS: Final = 5_000
LATE_STEP: Final = 22
CHANGES: Final = {
    14: ("PAUSE STREAM peaks",),
    17: ("RESUME STREAM peaks",),
    20: ("ALTER STREAM averages IGNORE UPDATE 0",),
    27: ("PAUSE STREAM low",),
}
"""Statements of users, by step."""
METERS: Final = {"harbor": 0.0, "library": 1.1, "stadium": 2.3}
STATEMENTS: Final = (
    "CREATE DATABASE power",
    "USE power",
    "CREATE STABLE meters (ts TIMESTAMP, current DOUBLE, voltage INT) TAGS (place VARCHAR(20))",
    *(f"CREATE TABLE {name} USING meters TAGS ('{name}')" for name in METERS),
    "CREATE DATABASE results",
    "CREATE STREAM averages TRIGGER WINDOW_CLOSE WATERMARK 30s IGNORE EXPIRED 0 INTO results.averages TAGS (place VARCHAR(20)) "
    "SUBTABLE(tbname) AS SELECT _wstart, AVG(current) AS mean, MAX(current) AS peak, COUNT(*) AS n FROM meters WHERE voltage > 0 "
    "PARTITION BY tbname, place INTERVAL(2m)",
    "CREATE STREAM peaks TRIGGER WINDOW_CLOSE WATERMARK 30s INTO results.peaks AS "
    "SELECT _wstart, MAX(peak) AS peak FROM results.averages INTERVAL(10m)",
    "CREATE DATABASE watch",
    "CREATE STREAM low TRIGGER WINDOW_CLOSE IGNORE EXPIRED 1 INTO watch.low SUBTABLE(tbname) AS "
    "SELECT _wstart, COUNT(*) AS n, MIN(current) AS least FROM meters WHERE current < 7 PARTITION BY tbname SESSION(ts, 3m)",
    "CREATE DATABASE alarms",
    "CREATE STREAM overload TRIGGER AT_ONCE INTO alarms.overload SUBTABLE(tbname) AS SELECT _wstart, MAX(current) AS peak "
    "FROM meters PARTITION BY tbname EVENT_WINDOW START WITH current > 12 END WITH current <= 12",
)


@dataclass(frozen=True)
class DemoHome:
    """The home, with its catalog and its clock. No connection is open."""

    settings: Settings
    catalog: Catalog
    clock: headrace.ManualClock

    def job_id(self, name: str) -> str:
        """Return the id of a stream."""
        record = self.catalog.jobs.find("power", name, "stream")
        assert record is not None
        return record.definition.id


@contextmanager
def demo_home(folder: Path) -> Iterator[DemoHome]:
    """Create the home, and let its streams run for an hour of a clock of their own."""
    clock = headrace.ManualClock(START)
    settings = load(home=folder / "home", kernels="always", metrics_interval_s=STEP_S // 2)
    with headrace.connect(settings=settings, clock=clock, user="ada") as connection:
        for sql in STATEMENTS:
            connection.execute(sql)
        for step in range(STEPS):
            run_step(connection, step)
            clock.advance(STEP_S * 1000 if step < STEPS - 1 else LAST_STEP_MS)
    with Catalog.open(settings.catalog, clock=clock.now) as catalog:
        home = DemoHome(settings, catalog, clock)
        beat(catalog, home.job_id("averages"), lag_ms=0)
        yield home


def run_step(connection: headrace.Connection, step: int) -> None:
    """Write the rows of a step and what else happens in it, and let the streams handle them."""
    for sql in CHANGES.get(step, ()):
        connection.execute(sql)
    write_rows(connection, step)
    if step == LATE_STEP:
        late_rows(connection, step)
    connection.settle()


def write_rows(connection: headrace.Connection, step: int) -> None:
    """Write the rows of two minutes, one each ten seconds; the meters' voltage is missing now and then."""
    first = START + step * STEP_S * 1000
    instants = range(first, first + STEP_S * 1000, 10_000)
    rows = [(name, instant, *reading(phase, instant)) for name, phase in METERS.items() for instant in instants]
    for name in METERS:
        values = " ".join(f"({ts}, {current:.2f}, {voltage})" for meter, ts, current, voltage in rows if meter == name)
        connection.execute(f"INSERT INTO {name} VALUES {values}")


def reading(phase: float, instant: int) -> tuple[float, int]:
    """Return current and voltage of a meter at an instant."""
    seconds = (instant - START) / 1000
    current = 9 + 4 * math.sin(seconds / 700 + phase) + math.sin(seconds / 90 + 2 * phase)
    return current, 0 if instant % 170_000 < 10_000 else 229 + int(seconds / 10) % 4


def late_rows(connection: headrace.Connection, step: int) -> None:
    """Write rows that come twenty minutes too late, and correct an earlier one."""
    late = START + (step - 10) * STEP_S * 1000
    connection.execute(f"INSERT INTO library VALUES ({late + 5_000}, 21.5, 230) ({late + 15_000}, 21.7, 230)")
    connection.execute(f"INSERT INTO harbor VALUES ({late + 60_000}, 3.1, 230)")
