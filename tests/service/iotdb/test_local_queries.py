"""Queries over stored rows that are evaluated in this process: which files they read, and that Spark is not started."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

import headrace
from headrace.errors import OperationalError
from headrace.settings import load
from headrace.storage.delta import data_files
from tests.service.iotdb.conftest import START


@pytest.fixture
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail if a query starts Spark."""

    def refuse(*_: object) -> None:
        raise OperationalError("Spark was started")

    monkeypatch.setattr("headrace.runtime.context.open_session", refuse)


@pytest.fixture
def rows(plant: headrace.Connection) -> headrace.Connection:
    """The plant with a commit for each of two devices, and a third that adds a column."""
    plant.execute("insert into root.plant.line1(time, s1, s2) values (1, 5, 2.5), (2, null, 3), (70000, 6, 4)")
    plant.execute("insert into root.plant.line2(time, s1) values (1, 7), (100000, 8)")
    plant.execute("insert into root.plant.line2(time, s3) values (200000, true)")
    return plant


def fetch(connection: headrace.Connection, sql: str) -> list[tuple[Any, ...]]:
    return connection.execute(sql).fetchall()


def ticks(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return [(round(row[0].timestamp() * 1000), *row[1:]) for row in rows]


@pytest.mark.usefixtures("no_spark")
def test_queries_of_rows_start_no_spark(rows: headrace.Connection) -> None:
    by_device = "select s1, s3 from root.plant.* align by device"
    assert ticks(fetch(rows, by_device)) == [
        (1, "root.plant.line1", 5, None),
        (70_000, "root.plant.line1", 6, None),
        (1, "root.plant.line2", 7, None),
        (100_000, "root.plant.line2", 8, None),
        (200_000, "root.plant.line2", None, True),
    ]
    assert ticks(fetch(rows, "select s1 from root.plant.line2, root.plant.line1")) == [
        (1, 7, 5),
        (70_000, None, 6),
        (100_000, 8, None),
    ]
    windows = "select count(s1), last_value(s2) from root.plant.line1 group by ([0, 120000), 1m)"
    assert ticks(fetch(rows, windows)) == [(0, 1, 3.0), (60_000, 1, 4.0)]


@pytest.mark.usefixtures("no_spark")
def test_deleted_and_updated_values_are_those_that_queries_read(rows: headrace.Connection) -> None:
    rows.execute("delete from root.plant.line1.s1 where time <= 2")
    rows.execute("insert into root.plant.line1(time, s2) values (2, 30)")
    assert ticks(fetch(rows, "select s1, s2 from root.plant.line1")) == [(1, None, 2.5), (2, None, 30.0), (70_000, 6, 4.0)]


@pytest.mark.usefixtures("no_spark")
def test_files_of_other_times_and_devices_are_not_read(rows: headrace.Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []

    def spy(*arguments: Any, **options: Any) -> Iterator[pa.RecordBatch]:
        batches = list(original(*arguments, **options))
        read.append(sum(batch.num_rows for batch in batches))
        return iter(batches)

    original = data_files.read_batches
    monkeypatch.setattr("headrace.storage.delta.data_files.read_batches", spy)
    assert fetch(rows, "select count(s1) from root.plant.line1") == [(2,)]
    assert fetch(rows, "select count(s1) from root.plant.** where time >= 90000 align by device") == [
        ("root.plant.line1", 0),
        ("root.plant.line2", 1),
    ]
    assert read == [3, 2]


@pytest.mark.usefixtures("no_spark")
def test_a_setting_limits_the_rows_that_are_read_in_this_process(rows: headrace.Connection) -> None:
    home = rows.session.context.settings.home
    with headrace.connect(settings=load(home=home, local_rows=2), dialect="iotdb", clock=headrace.ManualClock(START)) as limited:
        assert fetch(limited, "select s1 from root.plant.line2 where time >= 150000") == []
        with pytest.raises(OperationalError):
            fetch(limited, "select s1 from root.plant.line1")


def test_explain_says_where_a_query_runs(rows: headrace.Connection) -> None:
    (first, *_), *_ = fetch(rows, "explain select s1 from root.plant.line1")
    assert first == "query in this process with Arrow, or on Spark if it reads many rows"
    (first, *_), *_ = fetch(rows, "explain select count(s1) from root.plant.line1 group by ([0, 20000), 50ms, 1ms)")
    assert first == "query on Spark"


def test_a_path_of_too_many_series_is_refused(rows: headrace.Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.compute.iotdb.expansion.MAX_SERIES", 3)
    with pytest.raises(headrace.Error, match="matches more than 3 series"):
        rows.execute("select ** from root.plant")
    monkeypatch.setattr("headrace.compute.iotdb.by_time.MAX_COLUMNS", 1)
    with pytest.raises(headrace.Error, match="more than 1 columns"):
        rows.execute("select s1 from root.plant.*")


@pytest.mark.usefixtures("no_spark")
def test_latest_points_start_no_spark(rows: headrace.Connection) -> None:
    rows.execute("insert into root.other.d(time, s1) values (5, 1.5)")
    points = fetch(rows, "select last s1, s2, s3 from root.plant.*, root.other.d order by timeseries")
    assert ticks(points) == [
        (5, "root.other.d.s1", "1.5", "DOUBLE"),
        (70_000, "root.plant.line1.s1", "6", "INT32"),
        (70_000, "root.plant.line1.s2", "4.0", "DOUBLE"),
        (100_000, "root.plant.line2.s1", "8", "INT32"),
        (200_000, "root.plant.line2.s3", "true", "BOOLEAN"),
    ]
    earlier = "select last s1 from root.plant.* where time < 50000 order by timeseries desc limit 1"
    assert ticks(fetch(rows, earlier)) == [(1, "root.plant.line2.s1", "7", "INT32")]


@pytest.mark.usefixtures("no_spark")
def test_explain_analyze_counts_the_rows_that_are_read(rows: headrace.Connection) -> None:
    lines = [line for (line,) in fetch(rows, "explain analyze verbose select count(s1) from root.plant.line1")]
    assert lines[-4:-2] == ["computed by this process, with Arrow: 1 row", "read by this process: 3 rows"]


WHOLE_SERIES = [
    "select top_k(s1, 'k'='2'), s2 from root.plant.line1",
    "select m4(s1, 'windowSize'='2') + 1, bottom_k(s1, 'k'='1') from root.plant.line1 where time < 70000",
    "select m4(s1, 'timeInterval'='60000') from root.plant.* align by device",
    "select s1, top_k(s1, 'k'='1') from root.plant.** order by time desc limit 3",
    "select equal_size_bucket_m4_sample(s1, 'proportion'='1') from root.plant.line2",
    "select top_k(s1, 'k'='1') from root.plant.line1 where s1 > 100",
]


def test_functions_over_whole_series_start_no_spark(rows: headrace.Connection, no_spark: None) -> None:  # noqa: ARG001
    assert ticks(fetch(rows, WHOLE_SERIES[0])) == [(1, 5, 2.5), (2, None, 3.0), (70_000, 6, 4.0)]
    assert ticks(fetch(rows, "select top_k(s1, 'k'='1') from root.plant.* align by device")) == [
        (70_000, "root.plant.line1", 6),
        (100_000, "root.plant.line2", 8),
    ]
    assert fetch(rows, WHOLE_SERIES[-1]) == []


@pytest.mark.spark
@pytest.mark.parametrize("query", WHOLE_SERIES)
def test_functions_over_whole_series_are_equal_with_spark(rows: headrace.Connection, query: str) -> None:
    settings = load(home=rows.session.context.settings.home, local_rows=0)
    with headrace.connect(settings=settings, dialect="iotdb", clock=headrace.ManualClock(START)) as on_spark:
        assert fetch(on_spark, query) == fetch(rows, query)


@pytest.mark.spark
@pytest.mark.parametrize(
    "query", ["select top_k(at, 'k'='1') from root.plant.line1", "select s1, top_k(s1, 'k'='2'), at from root.plant.line1"]
)
def test_instants_beside_functions_over_whole_series_are_equal_with_spark(rows: headrace.Connection, query: str) -> None:
    rows.execute("create timeseries root.plant.line1.at with datatype=TIMESTAMP")
    rows.execute(f"insert into root.plant.line1(time, at) values (1, {START}), (2, {START + 1}), (3, {START - 1})")
    local = fetch(rows, query)
    settings = load(home=rows.session.context.settings.home, local_rows=0)
    with headrace.connect(settings=settings, dialect="iotdb", clock=headrace.ManualClock(START)) as on_spark:
        assert fetch(on_spark, query) == local
    assert any(row[-1] is not None for row in local)
