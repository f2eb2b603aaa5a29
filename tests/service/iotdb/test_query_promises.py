"""What continuous queries promise beyond IoTDB: they stop when dropped, keep all clauses, and work with both languages."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

import headrace
from headrace.model import failpoints
from headrace.settings import load
from tests.service.iotdb.conftest import START
from tests.service.iotdb.test_continuous_queries import fetch, insert, points, settle_after

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]
BERLIN = ZoneInfo("Europe/Berlin")


def test_a_query_that_is_dropped_executes_nothing_more(plant: headrace.Connection) -> None:
    """It is dropped by another process while it executes the third of five intervals."""
    insert(plant, *range(-10, 50))
    plant.execute("create cq q begin select count(s1) into root.agg.line1(c) from root.plant.line1 group by (10s) end")
    settle_after(plant, 10)
    plant.clock.advance(30_000)

    def drop() -> None:
        settings = plant.session.context.settings
        with headrace.connect(dialect="iotdb", settings=settings, clock=headrace.ManualClock(START)) as other:
            other.execute("drop cq q")

    with failpoints.calling("queries.execution.claimed", drop):
        plant.settle()
    assert points(plant, "select c from root.agg.line1") == {-10: 10, 0: 10}
    settle_after(plant, 60)
    assert points(plant, "select c from root.agg.line1") == {-10: 10, 0: 10}
    assert fetch(plant, "show cqs") == fetch(plant, "show cq executions") == []


GROUPS = {
    "session": ("group by session(2s)", {-10: 3, -4: 2}),
    "variation": ("group by variation(s1, 1)", {-10: 2, -8: 1, -4: 2}),
    "condition": ("group by condition(s1 < -8, keep >= 2)", {-10: 2}),
    "count": ("group by count(s1, 2)", {-10: 2, -8: 2}),
    "having": ("group by (5s) having count(s1) > 2", {-10: 3}),
    "limit": ("group by (5s) limit 1 offset 1", {-5: 2}),
}


def test_all_groups_limits_and_alignment_are_kept(plant: headrace.Connection) -> None:
    insert(plant, -10, -9, -8, -4, -3, 2)
    for name, (clauses, _) in GROUPS.items():
        body = f"select count(s1) into aligned root.agg.{name}(c) from root.plant.line1 {clauses}"
        plant.execute(f"create cq q_{name} resample every 10s begin {body} end")
    plant.settle()
    assert {name: points(plant, f"select c from root.agg.{name}") for name in GROUPS} == {
        name: expected for name, (_, expected) in GROUPS.items()
    }
    assert {row[:2] for row in fetch(plant, "show devices root.agg.**")} == {(f"root.agg.{name}", "true") for name in GROUPS}
    for name in GROUPS:
        verification = plant.verify(cq=f"q_{name}")
        assert verification.equal, verification.difference


def test_an_aggregate_over_all_rows_is_that_of_the_latest_execution(plant: headrace.Connection) -> None:
    insert(plant, -3, -2)
    plant.execute(
        "create cq q resample every 10s begin select max_value(s1), count(s1) into root.agg.d(high, n) from root.plant.line1 end"
    )
    settle_after(plant, 0)
    assert fetch(plant, "select high, n from root.agg.d")[0][1:] == (-2, 2)
    settle_after(plant, 10)
    assert fetch(plant, "select high, n from root.agg.d")[0][1:] == (None, 0)
    assert plant.verify(cq="q").equal


def berlin(text: str) -> int:
    """Return an instant of the clocks in Berlin in epoch milliseconds."""
    return round(datetime.fromisoformat(text).replace(tzinfo=BERLIN).timestamp() * 1000)


@pytest.fixture
def german(tmp_path: Path) -> Iterator[headrace.Connection]:
    """A connection in Berlin's time, shortly before 2024-05-01 there."""
    settings = load(home=tmp_path / "home", timezone="Europe/Berlin")
    clock = headrace.ManualClock(berlin("2024-04-30T23:00"))
    with headrace.connect(dialect="iotdb", settings=settings, clock=clock) as opened:
        yield opened


def test_calendar_months_are_those_of_the_zone_in_which_a_query_was_created(german: headrace.Connection, tmp_path: Path) -> None:
    """The range begins on March 1 in winter time. The clocks go forward on March 31."""
    first, april, end = (berlin(f"2024-{month:02}-01T00:00") for month in (3, 4, 5))
    assert (end - first) % 3_600_000 == 0
    instants = (first, april - 1, april, end - 1)
    rows = ", ".join(f"({instant}, 1)" for instant in instants)
    german.execute(f"insert into root.p.d(time, v) values {rows}")
    german.execute(
        f"create cq q resample every 1d boundary {end} range {(end - first) // 3_600_000}h "
        "begin select count(v) into root.m.d(n) from root.p.d group by (1mo) end"
    )
    german.close()
    with headrace.connect(
        dialect="iotdb", settings=load(home=tmp_path / "home", timezone="UTC"), clock=headrace.ManualClock(end)
    ) as other:
        other.settle()
        written = {round(time.timestamp() * 1000): value for time, value in fetch(other, "select n from root.m.d")}
        verification = other.verify(cq="q")
    assert written == {first: 2, april: 2}
    assert verification.equal, verification.difference


@pytest.fixture
def power(tmp_path: Path) -> Iterator[headrace.Connection]:
    """A connection of the TDengine language to a home with the supertable `power.meters`."""
    with headrace.connect(tmp_path / "home", clock=headrace.ManualClock(START)) as opened:
        opened.execute("CREATE DATABASE power")
        opened.execute("CREATE STABLE power.meters (ts TIMESTAMP, watts INT) TAGS (site VARCHAR(20))")
        for name, site in (("m1", "north"), ("m2", "south")):
            opened.execute(f"CREATE TABLE power.{name} USING power.meters TAGS ('{site}')")
        yield opened


def measure(connection: headrace.Connection, *rows: tuple[str, int, int]) -> None:
    """Insert rows of subtable, seconds since START, and watts."""
    for name, second, watts in rows:
        connection.execute(f"INSERT INTO power.{name} VALUES ({START + second * 1_000}, {watts})")


def seconds(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Return rows with their first column in seconds since START."""
    return [(round((time.timestamp() * 1000 - START) / 1_000), *rest) for time, *rest in rows]


def test_a_stream_reads_what_a_query_over_a_table_of_the_other_language_writes(power: headrace.Connection, tmp_path: Path) -> None:
    clock = headrace.ManualClock(START)
    with headrace.connect(tmp_path / "home", dialect="iotdb", clock=clock) as tree:
        tree.execute("create timeseries root.agg.m1.total with datatype=DOUBLE")
        tree.execute(
            "create cq q resample every 10s begin select sum(watts) into root.agg.${3}(total) from root.power.meters.* "
            "group by (10s) align by device end"
        )
        power.execute("CREATE DATABASE results")
        power.execute(
            "CREATE STREAM results.s TRIGGER AT_ONCE IGNORE UPDATE 0 INTO results.totals AS "
            "SELECT _wstart, sum(total) total, count(*) n FROM `root.agg`.devices INTERVAL(20s)"
        )
        measure(power, ("m1", -9, 5), ("m1", -8, 6), ("m2", -3, 7))
        tree.settle()
        assert seconds(fetch(tree, "select total from root.agg.m1")) == [(-10, 11.0)]
        assert seconds(fetch(tree, "select total from root.agg.m2")) == [(-10, 7.0)]
        power.settle()
        stream = "SELECT _wstart, total, n FROM results.totals ORDER BY 1"
        assert seconds(fetch(power, stream)) == [(-20, 18.0, 2)]
        measure(power, ("m2", 4, 100))
        settle_after(tree, 10)
        power.settle()
        assert seconds(fetch(power, stream)) == [(-20, 18.0, 2), (0, 100.0, 1)]
        measure(power, ("m1", -7, 1))
        assert tree.backfill(cq="q", start=str(START - 10_000), end=str(START)) == 1
        power.settle()
        assert seconds(fetch(power, stream)) == [(-20, 19.0, 2), (0, 100.0, 1)]
