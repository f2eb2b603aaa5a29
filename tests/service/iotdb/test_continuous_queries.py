"""Continuous queries: what is refused, what is executed when, and what becomes of their rows."""

from __future__ import annotations

from typing import Any

import pytest

import headrace
from headrace.errors import Error, ExistsError, NotFoundError, ProgrammingError
from headrace.model import failpoints
from headrace.queries import executions
from headrace.queries.kind import CONTINUOUS_QUERY
from tests.service.iotdb.conftest import START

BODY = "begin select count(s1) into root.agg.line1(c) from root.plant.line1 group by (10s) end"
SECOND = 1_000


def fetch(connection: headrace.Connection, sql: str) -> list[tuple[Any, ...]]:
    return connection.execute(sql).fetchall()


def points(connection: headrace.Connection, sql: str) -> dict[int, Any]:
    """Return the values of one column by seconds since START."""
    return {round((time.timestamp() * 1000 - START) / SECOND): value for time, value in fetch(connection, sql)}


def settle_after(connection: headrace.Connection, seconds: int) -> None:
    connection.clock.advance(seconds * SECOND)
    connection.settle()


def insert(connection: headrace.Connection, *seconds: int) -> None:
    rows = ", ".join(f"({START + second * SECOND}, {second})" for second in seconds)
    connection.execute(f"insert into root.plant.line1(time, s1) values {rows}")


def job(connection: headrace.Connection, name: str) -> Any:
    return connection.session.context.catalog.jobs.get("", name, CONTINUOUS_QUERY)


def states(connection: headrace.Connection, name: str = "") -> dict[int, str]:
    """Return the states of executions by seconds since START."""
    rows = fetch(connection, f"show cq executions {name}")
    return {round((row[1].timestamp() * 1000 - START) / SECOND): row[4] for row in reversed(rows)}


@pytest.mark.parametrize(
    ("sql", "status", "message"),
    [
        ("create cq q begin select s1 into root.a.b(c) from root.plant.line1 end", 701, "At least one of the parameters"),
        (f"create cq q resample every 999ms range 1s {BODY}", 305, r"Every interval \[999\] should not be lower"),
        (f"create cq q resample every 10s range 0s {BODY}", 305, "start time offset should be greater than 0"),
        (f"create cq q resample every 10s range 10s, 10s {BODY}", 305, "start time offset should be greater than end time offset"),
        (f"create cq q resample every 10s range 9s {BODY}", 305, "greater than or equal to every interval"),
        ("create cq q begin select count(s1) from root.plant.line1 group by (10s) end", 305, "misses an INTO clause"),
        (
            "create cq q begin select count(s1) into root.a.b(c) from root.plant.line1 group by ([0, 10), 10s) end",
            305,
            "Specifying time range in GROUP BY TIME clause is prohibited",
        ),
        (
            "create cq q begin select count(s1) into root.a.b(c) from root.plant.line1 where s1 > 1 and time > 0 group by (9s) end",
            305,
            "Specifying time filters in the query body is prohibited",
        ),
        (
            "create cq q begin select count(s1), avg(s1) into root.a.b(c) from root.plant.line1 group by (10s) end",
            305,
            "number of source columns and the number of target paths",
        ),
    ],
)
def test_an_invalid_query_is_refused(plant: headrace.Connection, sql: str, status: int | None, message: str) -> None:
    with pytest.raises(ProgrammingError, match=message) as refused:
        plant.execute(sql)
    assert refused.value.status == status
    assert refused.value.hint
    assert fetch(plant, "show cqs") == []


def test_a_query_over_series_that_do_not_exist_yet_is_created(connection: headrace.Connection) -> None:
    text = f"CREATE CQ q {BODY}"
    connection.execute(text)
    assert fetch(connection, "show continuous queries") == [("q", text, "ACTIVE")]
    with pytest.raises(ExistsError, match="CQ q has already been created") as refused:
        connection.execute(text)
    assert refused.value.status == 1402
    connection.execute("drop cq q")
    assert fetch(connection, "show cqs") == []
    with pytest.raises(NotFoundError, match="CQ q doesn't exist") as missing:
        connection.execute("drop continuous query q")
    assert missing.value.status == 1400


def test_explain_says_when_and_over_what_a_query_runs(plant: headrace.Connection) -> None:
    lines = [line for (line,) in fetch(plant, f"explain create cq q resample every 20s range 30s timeout policy discard {BODY}")]
    assert lines[0] == "create continuous query q"
    assert lines[1].startswith("  first at 2023-11-14 22:13:20+00:00, over [2023-11-14 22:12:50")
    assert lines[2] == "  intervals missed: only the latest is computed"
    assert fetch(plant, "show cqs") == []


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_blocked_executes_every_interval_in_order_and_discard_the_latest(plant: headrace.Connection) -> None:
    insert(plant, *range(-10, 60))
    plant.execute(f"create cq every_one {BODY}")
    plant.execute("create cq latest timeout policy discard " + BODY.replace("agg", "late"))
    plant.settle()
    settle_after(plant, 45)
    assert points(plant, "select c from root.agg.line1") == dict.fromkeys((-10, 0, 10, 20, 30), 10)
    assert points(plant, "select c from root.late.line1") == {-10: 10, 30: 10}
    assert states(plant, "every_one") == dict.fromkeys((0, 10, 20, 30, 40), "DONE")
    assert states(plant, "latest") == {0: "DONE", 10: "MISSED", 20: "MISSED", 30: "MISSED", 40: "DONE"}
    assert len(fetch(plant, "show cq executions limit 3 offset 1")) == 3


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_intervals_missed_before_the_first_execution_are_shown(plant: headrace.Connection) -> None:
    plant.execute(f"create cq latest timeout policy discard {BODY}")
    settle_after(plant, 20)
    assert states(plant, "latest") == {0: "MISSED", 10: "MISSED", 20: "DONE"}


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_a_repeated_execution_replaces_its_rows_and_no_others(plant: headrace.Connection) -> None:
    insert(plant, -10, -9, -5, 3)
    plant.execute(
        "create cq q resample every 10s begin select count(s1) into root.agg.line1(c) from root.plant.line1 group by (5s) having "
        "count(s1) > 0 end"
    )
    settle_after(plant, 10)
    assert points(plant, "select c from root.agg.line1") == {-10: 2, -5: 1, 0: 1}
    plant.execute(f"insert into root.agg.line1(time, c, other) values ({START - 4 * SECOND}, 7, 7), ({START - 5 * SECOND}, 1, 8)")
    plant.execute(f"delete from root.plant.line1.s1 where time < {START - 9 * SECOND}")
    plant.execute(f"delete from root.plant.line1.s1 where time = {START - 5 * SECOND}")
    context = plant.session.context
    executions.recompute(context, job(plant, "q").definition, START - 10 * SECOND, START - SECOND, "test")
    assert points(plant, "select c from root.agg.line1") == {-10: 1, -4: 7, 0: 1}, "points at other instants are the user's"
    assert points(plant, "select other from root.agg.line1") == {-5: 8, -4: 7}
    assert [(row[4], row[5], row[6]) for row in fetch(plant, "show cq executions q")] == [("DONE", 1, 1), ("DONE", 2, 1)]


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_series_that_a_query_reads_are_never_cleared(plant: headrace.Connection) -> None:
    rows = ", ".join(f"({START + second * SECOND}, {second})" for second in (-10, -9, -5))
    plant.execute(f"insert into root.plant.line1(time, s2) values {rows}")
    plant.execute(
        "create cq q resample every 10s begin select s2 + 100 into root.plant.line1(s2) from root.plant.line1 where s2 < -6 end"
    )
    plant.settle()
    assert points(plant, "select s2 from root.plant.line1") == {-10: 90, -9: 91, -5: -5}
    executions.recompute(plant.session.context, job(plant, "q").definition, START - 10 * SECOND, START, "test")
    assert points(plant, "select s2 from root.plant.line1") == {-10: 90, -9: 91, -5: -5}


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_a_failing_query_says_why_and_is_stopped_while_others_go_on(plant: headrace.Connection) -> None:
    insert(plant, *range(-10, 30))
    plant.execute(f"create cq good {BODY}")
    plant.execute("create cq bad begin select avg(s1) into root.bad.line1(c) from root.plant.line1 group by (10s) end")
    plant.execute("create timeseries root.bad.line1.c with datatype=BOOLEAN")
    settle_after(plant, 20)
    ((_, _, state), (_, _, good)) = fetch(plant, "show cqs")
    assert state.startswith("STOPPED: [TYPE] 701: The data type of target path (root.bad.line1.c[BOOLEAN]) is not compatible")
    assert good == "ACTIVE"
    (failed,) = [row for row in fetch(plant, "show cq executions bad") if row[4] == "FAILED"]
    assert (failed[5], "not compatible" in failed[8]) == (3, True)
    assert states(plant, "bad") == {0: "FAILED", 10: "PENDING", 20: "PENDING"}
    assert points(plant, "select c from root.agg.line1") == {-10: 10, 0: 10, 10: 10}
    plant.execute("delete timeseries root.bad.line1.c")
    plant.execute("resume cq bad")
    plant.settle()
    assert points(plant, "select c from root.bad.line1") == {-10: -5.5, 0: 4.5, 10: 14.5}
    assert states(plant, "bad") == dict.fromkeys((0, 10, 20), "DONE")


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_a_paused_query_catches_up_when_it_is_resumed(plant: headrace.Connection) -> None:
    insert(plant, *range(-10, 30))
    plant.execute(f"create cq q {BODY}")
    plant.execute("pause continuous query q")
    settle_after(plant, 10)
    assert fetch(plant, "show cqs")[0][2] == "PAUSED"
    assert states(plant) == {0: "PENDING", 10: "PENDING"}
    plant.execute("resume continuous query q")
    plant.settle()
    assert states(plant) == {0: "DONE", 10: "DONE"}
    assert points(plant, "select c from root.agg.line1") == {-10: 10, 0: 10}


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("place", ["queries.execution.claimed", "storage.commit", "storage.committed", "queries.execution.written"])
def test_an_execution_that_was_interrupted_is_done_once(plant: headrace.Connection, place: str) -> None:
    insert(plant, *range(-10, 10))
    plant.execute(f"create cq q {BODY}")
    context, definition = plant.session.context, job(plant, "q").definition
    with failpoints.armed(f"{place}:1:raise"), pytest.raises((failpoints.FailpointError, Error)):
        executions.execute(context, definition, START, "first")
    done = executions.execute(context, definition, START, "first")
    assert (done.state.value, done.attempt, done.rows) == ("DONE", 2, 1)
    assert points(plant, "select c from root.agg.line1") == {-10: 10}
    assert job(plant, "q").progress.counters.rows_out == 1


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_a_query_that_is_dropped_while_it_runs_writes_nothing(plant: headrace.Connection) -> None:
    insert(plant, *range(-10, 10))
    plant.execute(f"create cq q {BODY}")
    context, definition = plant.session.context, job(plant, "q").definition
    dropped = failpoints.calling("queries.execution.claimed", lambda: context.catalog.jobs.drop(definition.id))
    with dropped, pytest.raises(NotFoundError, match="dropped"):
        executions.execute(context, definition, START, "first")
    assert points(plant, "select c from root.agg.line1") == {}


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_queries_over_the_results_of_queries_see_them(plant: headrace.Connection) -> None:
    insert(plant, *range(-20, 20))
    plant.execute(f"create cq a {BODY}")
    plant.execute(
        "create cq b resample every 20s begin select sum(c) into root.agg.line1(twice) from root.agg.line1 group by (20s) end"
    )
    settle_after(plant, 20)
    assert points(plant, "select twice from root.agg.line1") == {-20: 10, 0: 20}


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_limits_and_groups_of_rows_are_kept(plant: headrace.Connection) -> None:
    insert(plant, -10, -9, -8, -4, -3, 2)
    select = "select count(s1) into aligned root.agg.{}(c) from root.plant.line1 {}"
    plant.execute(f"create cq session resample every 10s begin {select.format('sessions', 'group by session(2s)')} end")
    plant.execute(f"create cq limited resample every 10s begin {select.format('limited', 'group by (5s) limit 1')} end")
    plant.settle()
    assert points(plant, "select c from root.agg.sessions") == {-10: 3, -4: 2}
    assert points(plant, "select c from root.agg.limited") == {-10: 3}
    assert {row[:2] for row in fetch(plant, "show devices root.agg.**")} == {
        ("root.agg.limited", "true"),
        ("root.agg.sessions", "true"),
    }


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_boundaries_and_overlapping_ranges(plant: headrace.Connection) -> None:
    insert(plant, *range(-40, 20))
    plant.execute(f"create cq q resample every 10s boundary now() + 5s range 30s, 10s {BODY}")
    plant.settle()
    assert states(plant) == {}
    settle_after(plant, 5)
    assert states(plant) == {5: "DONE"}
    settle_after(plant, 10)
    assert points(plant, "select c from root.agg.line1") == {-25: 10, -15: 10, -5: 10}
