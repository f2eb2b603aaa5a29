"""Times to live: which one a device has, what it hides and refuses, and what maintenance removes. As recorded on IoTDB 1.3.4."""

from __future__ import annotations

from pathlib import Path

import pytest

import headrace
from headrace.errors import ExpiredPointsError, NotFoundError, ProgrammingError
from headrace.model.jobs import JobState
from headrace.settings import load as load_settings
from headrace.trees.expiry import remove_expired
from tests.service.iotdb.conftest import START
from tests.service.iotdb.test_series import fetch, stored

HOUR = 3_600_000
OLD = START - 3 * HOUR


def ttls(connection: headrace.Connection, what: str = "all ttl") -> dict[str, str]:
    return dict(fetch(connection, f"show {what}"))


def device_ttls(connection: headrace.Connection) -> dict[str, str]:
    return {row[0]: row[3] for row in fetch(connection, "show devices root.**")}


def values(connection: headrace.Connection, path: str) -> list[float]:
    device, _, series = path.rpartition(".")
    return [row[1] for row in fetch(connection, f"select {series} from {device}")]


@pytest.fixture
def aged(connection: headrace.Connection) -> headrace.Connection:
    """A connection to `root.a`, with an old row and a present one of each of its devices."""
    connection.execute("create database root.a")
    for device in ("d", "d.e", "f"):
        connection.execute(f"insert into root.a.{device}(time, s) values ({OLD}, 1), ({START}, 2)")
    return connection


def test_the_time_to_live_of_a_database_is_that_of_everything_below_it(aged: headrace.Connection) -> None:
    aged.execute(f"set ttl to root.a {HOUR}")
    assert ttls(aged) == {"root.**": "INF", "root.a": str(HOUR), "root.a.**": str(HOUR)}
    assert set(device_ttls(aged).values()) == {str(HOUR)}
    assert values(aged, "root.a.d.s") == [2.0]
    assert fetch(aged, f"select count(s) from root.a.* where time < {START}") == [(0, 0)]
    aged.execute("insert into root.a.later(time, s) values (now(), 3)")
    assert device_ttls(aged)["root.a.later"] == str(HOUR)
    aged.execute("unset ttl from root.a")
    assert ttls(aged) == {"root.**": "INF"}
    assert values(aged, "root.a.d.s") == [1.0, 2.0]


def test_create_database_sets_both_and_unset_removes_both(connection: headrace.Connection) -> None:
    connection.execute("create database root.t1 with ttl=5000")
    assert ttls(connection) == {"root.**": "INF", "root.t1": "5000", "root.t1.**": "5000"}
    connection.execute("unset ttl from root.t1")
    assert ttls(connection) == {"root.**": "INF"}
    with pytest.raises(NotFoundError, match=r"508: Not TTL rule set for root\.t1"):
        connection.execute("unset ttl from root.t1")
    connection.execute("unset ttl from root.**")


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ({"root.a": "10"}, ("10", "10", "10")),
        ({"root.a.**": "10"}, ("10", "10", "10")),
        ({"root.**": "10"}, ("10", "10", "10")),
        ({"root.a.d": "10"}, ("10", "INF", "INF")),
        ({"root.a.d.**": "10"}, ("INF", "10", "INF")),
        ({"root.a": "10", "root.a.d": "20"}, ("20", "10", "10")),
        ({"root.a": "10", "root.a.d.**": "20"}, ("10", "20", "10")),
        ({"root.a.d": "20", "root.a": "10"}, ("20", "10", "10")),
        ({"root.a": "10", "root.a.f": "INF", "root.a.d.**": "INF"}, ("10", "INF", "INF")),
        ({"root.**": "10", "root.a": "INF"}, ("INF", "INF", "INF")),
        ({"root.b": "10", "root.b.**": "10"}, ("INF", "INF", "INF")),
        ({"root.a.d.s": "10"}, ("INF", "INF", "INF")),
    ],
)
def test_the_nearest_path_decides(aged: headrace.Connection, rules: dict[str, str], expected: tuple[str, ...]) -> None:
    for path, ttl in rules.items():
        aged.execute(f"set ttl to {path} {ttl}")
    found = device_ttls(aged)
    assert (found["root.a.d"], found["root.a.d.e"], found["root.a.f"]) == expected


def test_a_path_may_have_one_before_it_exists_and_after_it_is_gone(connection: headrace.Connection) -> None:
    connection.execute("set ttl to root.later.** 5000")
    connection.execute("set ttl to root.other 5000")
    connection.execute("insert into root.later.d(time, s) values (now(), 1)")
    connection.execute("insert into root.other.d(time, s) values (now(), 1)")
    assert device_ttls(connection) == {"root.later.d": "5000", "root.other.d": "INF"}
    connection.execute("delete database root.later")
    assert ttls(connection) == {"root.**": "INF", "root.later.**": "5000", "root.other": "5000"}


def test_show_ttl_lists_what_was_set_on_paths_that_match(aged: headrace.Connection) -> None:
    aged.execute("set ttl to root.a 5000")
    aged.execute("set ttl to root.a.d INF")
    assert ttls(aged, "ttl on root.a") == {"root.a": "5000"}
    assert ttls(aged, "ttl on root.a.f") == {}
    assert ttls(aged, "ttl on root.*") == {"root.**": "INF", "root.a": "5000"}
    assert ttls(aged, "ttl on root.a.**") == {"root.a.**": "5000", "root.a.d": "INF"}


@pytest.mark.parametrize("path", ["root.a.*.s", "root.a.*.**", "root.*.d", "root.a*", "root.**.d"])
def test_other_wildcards_are_refused(aged: headrace.Connection, path: str) -> None:
    for statement in (f"set ttl to {path} 10", f"unset ttl from {path}"):
        with pytest.raises(ProgrammingError, match="303: Illegal pattern path"):
            aged.execute(statement)


def test_an_older_row_is_refused_and_changes_nothing(aged: headrace.Connection) -> None:
    aged.execute(f"set ttl to root.a {HOUR}")
    refused = (
        f"insert into root.a.d(time, s) values ({START - HOUR - 1}, 3)",
        f"insert into root.a.d(time, s) values ({OLD}, 3), ({START}, 4)",
        f"insert into root.a.new(time, s) values ({OLD}, 3)",
        f"insert into root.a.aligned(time, s) aligned values ({OLD}, 3)",
        f"explain insert into root.a.d(time, s) values ({OLD}, 3)",
    )
    for statement in refused:
        with pytest.raises(ExpiredPointsError, match=r"607: Insertion time .* is less than ttl time bound"):
            aged.execute(statement)
    assert len(device_ttls(aged)) == 3
    aged.execute(f"insert into root.a.d(time, s) values ({START - HOUR}, 3)")
    assert values(aged, "root.a.d.s") == [3.0, 2.0]


def test_into_is_refused_and_a_continuous_query_leaves_older_rows_out(aged: headrace.Connection) -> None:
    aged.execute(f"set ttl to root.b.** {2 * HOUR}")
    with pytest.raises(ExpiredPointsError):
        aged.execute("select s into root.b.t(s) from root.a.d")
    assert values(aged, "root.b.t.s") == []
    aged.execute(
        "create continuous query q resample every 1h range 4h begin select sum(s) into root.b.t(s) from root.a.d group by (1h) end"
    )
    assert isinstance(aged.clock, headrace.ManualClock)
    aged.clock.advance(HOUR)
    aged.settle()
    assert fetch(aged, "show continuous queries")[0][2] == "ACTIVE"
    assert [row["s"] for row in stored(aged, "root.b").values()] == [2.0]


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("small_write_rows", [100_000, 0])
def test_a_file_with_older_rows_is_refused(tmp_path: Path, small_write_rows: int) -> None:
    file = tmp_path / "rows.csv"
    file.write_text(f"time,device,s\n{OLD},root.a.d,1\n{START},root.a.f,2\n")
    settings = load_settings(home=tmp_path / "home", small_write_rows=small_write_rows)
    with headrace.connect(dialect="iotdb", settings=settings, clock=headrace.ManualClock(START)) as connection:
        connection.execute(f"create database root.a with ttl={HOUR}")
        with pytest.raises(ExpiredPointsError, match="607"):
            connection.load(file, into="root.a")
        assert values(connection, "root.a.f.s") == []
        connection.execute("set ttl to root.a.d INF")
        assert connection.load(file, into="root.a") == 2


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_a_large_into_is_refused_too(tmp_path: Path) -> None:
    settings = load_settings(home=tmp_path / "home", driver_rows=1)
    with headrace.connect(dialect="iotdb", settings=settings, clock=headrace.ManualClock(START)) as connection:
        connection.execute(f"insert into root.a.d(time, s) values ({OLD}, 1), ({START}, 2), ({START + 1}, 3)")
        connection.execute(f"set ttl to root.b.** {HOUR}")
        with pytest.raises(ExpiredPointsError, match="607"):
            connection.execute("select s into root.b.t(s) from root.a.d")
        assert values(connection, "root.b.t.s") == []


def test_a_pipe_leaves_older_rows_out(aged: headrace.Connection) -> None:
    aged.execute(f"set ttl to root.a {HOUR}")
    aged.execute("create pipe p with source ('path'='root.a.**') with sink ('sink'='write-back-sink')")
    aged.settle()
    (record,) = [record for record in aged.session.context.catalog.jobs.all() if record.definition.kind == "pipe"]
    assert (record.state, record.reason) == (JobState.RUNNING, None)
    assert len(stored(aged, "root.a")) == 6


def test_maintenance_removes_what_has_expired(aged: headrace.Connection) -> None:
    aged.execute("insert into root.c.d(time, s) values (1, 1)")
    aged.execute(f"set ttl to root.a.d {HOUR}")
    aged.execute(f"set ttl to root.a.f {4 * HOUR}")
    context = aged.session.context
    assert (remove_expired(context, "root.c"), remove_expired(context), remove_expired(context)) == ({}, {"root.a": 1}, {})
    aged.execute("unset ttl from root.a.d")
    assert values(aged, "root.a.d.s") == [2.0]
    assert values(aged, "root.a.f.s") == [1.0, 2.0]


def test_a_time_to_live_may_be_longer_than_time_itself(aged: headrace.Connection) -> None:
    aged.execute(f"set ttl to root.a {2**63 - 2}")
    aged.execute("insert into root.a.d(time, s) values (-5, 0)")
    assert values(aged, "root.a.d.s") == [0.0, 1.0, 2.0]
