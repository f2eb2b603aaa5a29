"""SHOW and COUNT with conditions, by the time of points and by the definitions of series."""

from __future__ import annotations

from typing import Any

import pytest

import headrace
from headrace.errors import SqlSyntaxError
from headrace.service.dispatch import plan
from headrace.service.session import is_query
from headrace.sql import parse
from tests.service.iotdb.conftest import START, with_plant

DAY = 86_400_000


@pytest.fixture
def changing(connection: headrace.Connection) -> headrace.Connection:
    """What `plant` has, for a test that changes it."""
    return with_points(with_plant(connection))


@pytest.fixture(scope="module")
def plant(unchanged: headrace.Connection) -> headrace.Connection:
    """The two devices of `root.plant` with points, and a third without any."""
    return with_points(with_plant(unchanged))


def with_points(plant: headrace.Connection) -> headrace.Connection:
    plant.execute("create timeseries root.plant.line3.s1 with datatype=TEXT tags(unit=rpm)")
    plant.execute("insert into root.plant.line1(time, s1) values (1, 1), (5, 2)")
    plant.execute(f"insert into root.plant.line1(time, s2) values ({START}, 1)")
    plant.execute("insert into root.plant.line2(time, s1) values (2, 3)")
    return plant


def fetch(connection: headrace.Connection, sql: str) -> list[tuple[Any, ...]]:
    return connection.execute(sql).fetchall()


def first(connection: headrace.Connection, sql: str) -> list[Any]:
    return [row[0] for row in fetch(connection, sql)]


SERIES_BY_TIME = {
    "time > 0": ["root.plant.line2.s1", "root.plant.line1.s1", "root.plant.line1.s2"],
    "time = 2": ["root.plant.line2.s1"],
    "timestamp < 2": ["root.plant.line1.s1"],
    "2 < time": ["root.plant.line1.s1", "root.plant.line1.s2"],
    "time != 2": ["root.plant.line1.s1", "root.plant.line1.s2"],
    "time = 1 or time = 2": ["root.plant.line2.s1", "root.plant.line1.s1"],
    "time > 1 and time < 5": ["root.plant.line2.s1"],
    "time in (1, 7)": ["root.plant.line1.s1"],
    "time between 2 and 4": ["root.plant.line2.s1"],
    "time >= now() - 1d": ["root.plant.line1.s2"],
    "time > 2020-01-01": ["root.plant.line1.s2"],
    f"time > {START}": [],
}


@pytest.mark.parametrize(("condition", "series"), SERIES_BY_TIME.items())
def test_series_and_devices_are_chosen_by_the_time_of_their_points(
    plant: headrace.Connection, condition: str, series: list[str]
) -> None:
    assert first(plant, f"show timeseries root.plant.** where {condition}") == series
    assert first(plant, f"count timeseries root.plant.** where {condition}") == [len(series)]
    devices = list(dict.fromkeys(path.rpartition(".")[0] for path in series))
    assert first(plant, f"show devices root.plant.** where {condition}") == devices
    assert first(plant, f"count devices where {condition}") == [len(devices)]


def test_a_condition_on_time_is_of_the_series_that_match(changing: headrace.Connection) -> None:
    changing.execute("create timeseries root.other.d.s1 with datatype=INT64")
    changing.execute("insert into root.other.d(time, s1) values (1, 1)")
    assert first(changing, "show devices root.other.* where time = 1") == ["root.other.d"]
    assert first(changing, "show devices where time = 1") == ["root.other.d", "root.plant.line1"]
    assert first(changing, "show timeseries root.**.s2 where time < 10") == []
    assert first(changing, "show timeseries root.nope.** where time < 10") == []
    assert fetch(changing, "show devices root.plant.* with database where time < 5 limit 1 offset 1")[0][:2] == (
        "root.plant.line1",
        "root.plant",
    )


def test_expired_and_deleted_points_do_not_count(changing: headrace.Connection) -> None:
    changing.execute("delete from root.plant.line2.** where time = 2")
    changing.execute(f"set ttl to root.plant.line1 {DAY}")
    assert first(changing, "show timeseries root.plant.** where time > 0") == ["root.plant.line1.s2"]
    assert first(changing, "show devices root.plant.** where time > 0") == ["root.plant.line1"]


def test_latest_series_come_first(plant: headrace.Connection) -> None:
    latest = ["root.plant.line1.s2", "root.plant.line1.s1", "root.plant.line2.s1", "root.plant.line3.s1"]
    cursor = plant.execute("show latest timeseries root.plant.**")
    assert [column[0] for column in cursor.description or ()][:4] == ["Timeseries", "Alias", "Database", "DataType"]
    assert [row[0] for row in cursor.fetchall()] == latest
    assert first(plant, "show latest timeseries root.plant.** limit 2 offset 1") == latest[1:3]
    assert first(plant, "show latest timeseries root.plant.** where time < 4") == latest[2:0:-1]
    assert first(plant, "show latest timeseries root.plant.** where datatype=INT32") == latest[1:3]


def test_devices_are_chosen_by_path_and_template(changing: headrace.Connection) -> None:
    changing.execute("create device template t1 (s1 INT32)")
    changing.execute("set device template t1 to root.plant.t")
    changing.execute("create timeseries using device template on root.plant.t.a")
    lines = ["root.plant.line3", "root.plant.line2", "root.plant.line1"]
    assert set(first(changing, "show devices root.plant.** where device contains 'line'")) == set(lines)
    assert first(changing, "show devices root.plant.** where device contains 'line' limit 1") in (lines[2:], lines[:1])
    assert first(changing, "show devices where template = 't1'") == ["root.plant.t.a"]
    assert first(changing, "show devices where template != 't1'") == []
    assert set(first(changing, "show devices where template is null")) == set(lines)
    assert first(changing, "show devices where template is not null") == ["root.plant.t.a"]
    assert first(changing, "count devices where template is null") == [3]


def test_series_are_chosen_by_text_tag_and_type(plant: headrace.Connection) -> None:
    assert first(plant, "show timeseries where timeseries contains 'line1.s'") == ["root.plant.line1.s1", "root.plant.line1.s2"]
    assert first(plant, "count timeseries where timeseries contains 'line1' group by level = 2") == ["root.plant.line1"]
    assert first(plant, "show timeseries where tags(unit) = 'rpm'") == ["root.plant.line3.s1"]
    assert first(plant, "show timeseries where tags(unit) contains 'p'") == ["root.plant.line3.s1"]
    assert first(plant, "count timeseries where 'datatype' = 'int32'") == [2]


REFUSED = {
    "show timeseries where s1 = 1": "unexpected filter key",
    "show timeseries where a > 1": "Value Filter can't exist in the condition of SHOW/COUNT clause",
    "show timeseries where time = 1 or s1 = 2": "Value Filter can't exist in the condition of SHOW/COUNT clause",
    "show timeseries where 1 > 1": "Value Filter can't exist in the condition of SHOW/COUNT clause",
    "show timeseries where time is null": "Value Filter can't exist in the condition of SHOW/COUNT clause",
    "show timeseries where datatype = INT99": "unsupported datatype: INT99",
    "show devices where time + 1 > 2": "Value Filter can't exist in the condition of SHOW/COUNT clause",
    "show devices where device = 'root.plant.line1'": "Value Filter can't exist in the condition of SHOW/COUNT clause",
    "count devices where s1 > 5": "Value Filter can't exist in the condition of SHOW/COUNT clause",
    "count timeseries where time > 1 group by level = 1": "TIME condition and GROUP BY LEVEL cannot be used at the same time.",
}


@pytest.mark.parametrize(("statement", "message"), REFUSED.items())
def test_other_conditions_are_refused_with_the_words_of_iotdb(plant: headrace.Connection, statement: str, message: str) -> None:
    with pytest.raises(SqlSyntaxError) as refused:
        plant.execute(statement)
    assert refused.value.message.startswith(f"701: {message}")
    assert refused.value.hint


def test_versions_and_functions_are_listed(plant: headrace.Connection) -> None:
    assert fetch(plant, "show version") == [(headrace.__version__, "Headrace")]
    assert fetch(plant, "show current_timestamp") == [(START,)]
    functions = {row[0]: row[1:] for row in fetch(plant, "show functions")}
    assert functions["ABS"] == ("built-in UDTF", "")
    assert functions["MAX_VALUE"] == ("native", "")
    assert functions["SUBSTRING"] == ("built-in scalar", "")


def test_databases_are_shown_with_details(plant: headrace.Connection) -> None:
    cursor = plant.execute("show databases details")
    assert len(cursor.description or ()) == 11
    assert cursor.fetchall() == [("root.plant", 1, 1, 0, 604_800_000, 1, 1, 1, 1, 1, 1)]


@pytest.mark.parametrize(
    "sql",
    [
        "select s1 from root.plant.line1",
        "select last s1 from root.plant.line1",
        "select count(s1) from root.plant.** group by tags(unit)",
        "show devices where time > 1",
        "show latest timeseries",
    ],
)
def test_a_snode_is_asked_for_what_needs_spark(plant: headrace.Connection, sql: str) -> None:
    stages = plan(parse(sql, "iotdb"), plant.session)
    assert is_query(stages)
    assert not is_query(plan(parse("show devices", "iotdb"), plant.session))


def test_reading_points_needs_the_right_to_read(plant: headrace.Connection) -> None:
    rights = [first(plant, f"explain show devices{condition}")[-1] for condition in ("", " where time > 1")]
    assert rights == ["needs the right to describe catalog", "needs the right to READ_DATA on root.**"]
