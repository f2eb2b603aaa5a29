"""A subtable whose tags change: its rows move to the groups of the present tags, or stay in their earlier results."""

from __future__ import annotations

from typing import Any

import pytest

import headrace
from tests.service.conftest import START
from tests.support.drawing import drawn

HOUR = 3_600_000


@pytest.fixture
def meters(connection: headrace.Connection) -> headrace.Connection:
    connection.execute("create stable m (ts timestamp, v int) tags (site varchar(10), floor int)")
    connection.execute("create table a using m tags ('north', 1) b using m tags ('north', 1) c using m tags ('south', 2)")
    return connection


def insert(connection: headrace.Connection, *rows: tuple[str, int, int]) -> None:
    """Write rows: subtable, minutes after the start, and value."""
    values = " ".join(f"{name} values ({START + minute * 60_000}, {value})" for name, minute, value in rows)
    connection.execute(f"insert into {values}")


def results(connection: headrace.Connection, table: str = "o", tags: tuple[str, ...] = ("site",)) -> list[tuple[Any, ...]]:
    """Return the tags and values of the rows of a target, without Spark."""
    context = connection.session.context
    target = context.catalog.tables.get("d", table)
    rows = context.tables.scan(target).join(context.tables.tags.read(target), "tbname")
    columns = [*tags, *(column.name for column in target.columns[1:])]
    return sorted((tuple(row[name] for name in columns) for row in rows.to_pylist()), key=str)


def create(connection: headrace.Connection, rest: str, options: str = "", target: str = "o tags (site varchar(10))") -> None:
    connection.execute(
        f"create stream s trigger at_once ignore update 0 {options} into {target}"
        f" as select _wstart, count(*) n, sum(v) v from m {rest}"
    )


@pytest.mark.parametrize("options", ["ignore expired 0", ""])
@pytest.mark.parametrize("window", ["interval(1h)", "interval(1h) sliding(30m)", "session(ts, 20m)", "interval(1n)"])
def test_rows_move_to_the_group_of_the_present_tag(meters: headrace.Connection, window: str, options: str) -> None:
    create(meters, f"partition by site {window}", options)
    insert(meters, ("a", 10, 1), ("a", 15, 2), ("b", 10, 100), ("c", 10, 5))
    insert(meters, ("a", 300, 7), ("b", 310, 9))
    meters.settle()
    meters.execute("alter table a set tag site = 'south'")
    meters.settle()
    assert meters.verify(stream="s").equal
    by_site = {site: sum(row[-1] for row in results(meters) if row[0] == site) for site in ("north", "south")}
    factor = 2 if "sliding" in window else 1
    assert by_site == {"north": 109 * factor, "south": 15 * factor}
    insert(meters, ("a", 310, 50))
    meters.settle()
    meters.execute("alter table a set tag site = 'west'")
    meters.execute("alter table b set tag site = 'south'")
    meters.settle()
    assert meters.verify(stream="s").equal
    by_site = {site: sum(row[-1] for row in results(meters) if row[0] == site) for site in ("north", "south", "west")}
    assert by_site == {"north": 0, "south": 114 * factor, "west": 60 * factor}


@pytest.mark.parametrize("window", ["state_window(v)", "event_window start with v = 1 end with v > 4", "count_window(2)"])
def test_windows_of_rows_follow_a_condition_on_a_tag(meters: headrace.Connection, window: str) -> None:
    options = "watermark 10h ignore expired 1" if "count" in window else "ignore expired 0"
    create(meters, f"where site = 'north' partition by tbname p {window}", options, "o tags (p varchar(40))")
    insert(meters, ("a", 0, 1), ("a", 1, 1), ("a", 2, 9), ("c", 0, 1), ("c", 2, 5))
    insert(meters, ("a", 100, 1), ("a", 101, 9), ("c", 100, 1), ("c", 101, 9))
    meters.settle()
    meters.execute("alter table a set tag site = 'south'")
    meters.execute("alter table c set tag site = 'north'")
    meters.settle()
    assert {row[0] for row in results(meters, tags=("p",))} == {"c"}
    assert meters.verify(stream="s").equal


@pytest.mark.parametrize("again", ["reset", "replace"])
def test_a_stream_that_was_computed_again_follows_tags_of_all_its_rows(meters: headrace.Connection, again: str) -> None:
    create(meters, "partition by site interval(1h)")
    insert(meters, ("a", 10, 1), ("a", 300, 7), ("c", 10, 5))
    meters.settle()
    query = "select _wstart, count(*) n, sum(v) v from m partition by site interval(1h)"
    replacing = f"create or replace stream s trigger at_once ignore update 0 into o tags (site varchar(10)) as {query}"
    meters.execute("reset stream s" if again == "reset" else replacing)
    meters.settle()
    meters.execute("alter table a set tag site = 'south'")
    meters.settle()
    assert sorted(results(meters)) == [("south", 1, 7), ("south", 2, 6)]


QUERIES = {
    "tbname and tag": ("select _wstart, count(*) n, sum(v) v from m partition by tbname, site interval(1h)", True),
    "expression": ("select _wstart, count(*) n, sum(v) v from m partition by upper(site) u interval(1h)", True),
    "condition": ("select _wstart, count(*) n, sum(v) v from m where site = 'north' interval(1h)", True),
    "condition by subtable": ("select _wstart, count(*) n, sum(v) v from m where floor = 1 partition by tbname interval(1h)", True),
    "value": ("select _wstart, last(site) n, sum(floor) v from m partition by tbname interval(1h)", True),
    "state": ("select _wstart, count(*) n, sum(v) v from m partition by tbname, site state_window(v)", True),
    "event": (
        "select _wstart, count(*) n, sum(v) v from m partition by tbname, site event_window start with v > 1 end with v > 50",
        True,
    ),
    "one subtable": ("select _wstart, count(*) n, last(site) v from a interval(1h)", True),
    "no window": ("select ts, v, site from m partition by tbname", True),
    "no window, by tag": ("select ts, v from m where floor = 1 partition by tbname, site", True),
    "filled": ("select _wstart, count(*) n, sum(v) v from m partition by site interval(1h) fill(value, 0, 0)", False),
}


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("options", drawn(["trigger at_once ignore expired 0", "trigger at_once", "ignore expired 0"], "tags", 1))
def test_every_stream_that_reads_tags_follows_them(meters: headrace.Connection, options: str) -> None:
    names = {name: f"s{number}" for number, name in enumerate(QUERIES)}
    streams = {name: QUERIES[name][0] for name in names if "window" not in name or "at_once" in options}
    insert(meters, ("a", 5, 3), ("c", 6, 4))
    for name, query in streams.items():
        history = int(QUERIES[name][1])
        meters.execute(
            f"create stream {names[name]} {options} ignore update 0 fill_history {history} into o_{names[name]} as {query}"
        )
    insert(meters, ("a", 10, 1), ("a", 15, 2), ("b", 10, 100), ("c", 10, 5))
    insert(meters, ("a", 300, 7), ("b", 310, 90), ("a", 500, 1), ("b", 500, 1), ("c", 500, 1))
    meters.settle()
    meters.execute("alter table a set tag site = 'south', floor = 3")
    meters.execute("alter table c set tag floor = 1")
    meters.settle()
    assert {name: meters.verify(stream=names[name]).difference for name in streams} == dict.fromkeys(streams)
    insert(meters, ("a", 500, 20), ("c", 505, 3), ("a", 506, 1))
    meters.execute(f"delete from b where ts = {START + 500 * 60_000}")
    meters.execute("alter table b set tag site = null")
    meters.settle()
    assert {name: meters.verify(stream=names[name]).difference for name in streams} == dict.fromkeys(streams)


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("changed", [{}, {"driver_rows": 7}, {"kernels": "never"}], ids=str)
def test_a_restart_and_large_subtables_make_no_difference(meters: headrace.Connection, changed: dict[str, Any]) -> None:
    create(meters, "partition by site interval(1h)", "ignore expired 0")
    insert(meters, *(("a", minute, 1) for minute in range(200)), ("b", 10, 100))
    meters.settle()
    expected = {"north": 300}
    assert {site: sum(row[-1] for row in results(meters) if row[0] == site) for site in expected} == expected
    meters.execute("alter table a set tag site = 'south'")
    settings = meters.session.context.settings.replace(changed)
    with headrace.connect(settings=settings, clock=headrace.ManualClock(START)) as other:
        other.execute("use d")
        other.settle()
        assert other.verify(stream="s").equal
        sums = {site: sum(row[-1] for row in results(other) if row[0] == site) for site in ("north", "south")}
        assert sums == {"north": 100, "south": 200}


def test_a_stream_without_history_leaves_earlier_windows_alone(meters: headrace.Connection) -> None:
    insert(meters, ("a", 5, 1), ("b", 5, 2), ("c", 90, 4))
    create(meters, "partition by site interval(1h)", "ignore expired 0")
    insert(meters, ("a", 300, 7))
    meters.settle()
    meters.execute("alter table a set tag site = 'south'")
    meters.settle()
    assert results(meters) == [("south", 1, 7)]


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("window", ["interval(1h)", "session(ts, 20m)"])
def test_windows_that_a_backfill_has_computed_follow_tags(meters: headrace.Connection, window: str) -> None:
    insert(meters, ("a", 5, 1), ("b", 5, 2), ("a", 130, 8), ("c", 200, 4))
    create(meters, f"partition by site {window}", "ignore expired 0")
    insert(meters, ("a", 300, 7))
    meters.settle()
    if "interval" in window:
        meters.backfill(stream="d.s", start="2023-11-14 22:00:00", end="2023-11-14 23:00:00")
        meters.execute("alter table a set tag site = 'south'")
        meters.settle()
        assert results(meters) == [("north", 1, 2), ("south", 1, 1), ("south", 1, 7)]
    meters.backfill(stream="d.s")
    meters.execute("alter table a set tag site = 'west'")
    meters.settle()
    assert results(meters) == [("north", 1, 2), ("south", 1, 4), ("west", 1, 1), ("west", 1, 7), ("west", 1, 8)]
    assert meters.verify(stream="s").equal


def test_a_change_says_what_it_costs(meters: headrace.Connection) -> None:
    create(meters, "partition by site interval(1h)")
    meters.execute("create stream t into p as select _wstart, count(*) n from m partition by site interval(1h)")
    meters.execute("create stream u into q as select _wstart, count(*) n from m partition by floor interval(1h)")
    insert(meters, ("a", 10, 1), ("b", 10, 1))
    sql = "alter table a set tag site = 'south'"
    expected = [
        ("d.s", "recalculates the windows of up to 2 rows of a, in the groups that they leave and join"),
        (
            "d.t",
            "counts later rows in the new group; earlier rows stay where they were counted, and changes of them are ignored",
        ),
    ]
    lines = [line for (line,) in meters.execute(f"explain {sql}").fetchall()]
    assert [f"  stream {name}: {text}" for name, text in expected] == lines[1:3]
    assert meters.execute(sql).fetchall() == expected
    meters.execute("drop stream u")
    assert meters.execute("alter table a set tag floor = 1").description is None


def test_a_change_of_a_virtual_table_moves_its_rows(meters: headrace.Connection) -> None:
    meters.execute("create stable vm (ts timestamp, v int) tags (site varchar(10)) virtual 1")
    meters.execute("create vtable va (v from a.v) using vm tags ('north')")
    meters.execute("create vtable vb (v from b.v) using vm tags ('north')")
    meters.execute(
        "create stream s trigger at_once into o tags (site varchar(10))"
        " as select _wstart, count(*) n, sum(v) v from vm partition by site interval(1h)"
    )
    insert(meters, ("a", 10, 1), ("b", 10, 100))
    meters.settle()
    assert results(meters) == [("north", 2, 101)]
    meters.execute("alter vtable va set tag site = 'south'")
    meters.settle()
    assert results(meters) == [("north", 1, 100), ("south", 1, 1)]
    assert meters.verify(stream="s").equal
