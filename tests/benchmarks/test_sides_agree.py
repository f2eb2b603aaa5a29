"""Every benchmark runs at a tiny size and compares the results of its sides; times are not checked."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from benchmarks import measure
from benchmarks.bench import Bench, Sizes
from benchmarks.cases import load_case
from benchmarks.cases.latency import Task
from benchmarks.cases.latency import measure as measure_latency
from benchmarks.cases.pipes import measure_fan_out, measure_history, measure_idle, measure_kafka, measure_visibility
from benchmarks.data import create_meters, generate_batch, prepare_meters
from benchmarks.driver import running_driver

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.support.iotdb_server import Server

pytestmark = pytest.mark.drawn(2)
TINY = Sizes(
    rows=3000,
    subtables=7,
    window_rows=2000,
    batch_rows=60,
    warm_up=0,
    batches=2,
    open_windows=(60, 90),
    fan_out=2,
    many=(1, 2),
    idle=60,
    idle_seconds=0.5,
    commit_rows=3000,
    commits=2,
    load_rows=3000,
    dags=3,
    followed=2,
    processes=1,
    rounds=1,
    wide_devices=12,
    wide_measurements=6,
    pipe_rows=3000,
    pipe_devices=7,
    pipe_messages=300,
    pipe_inserts=2,
    pipes=5,
)


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    monkeypatch.setattr(measure, "DISCARDED_ROUNDS", 0)
    bench = Bench(tmp_path, TINY, lambda _: None)
    yield bench
    bench.close()


@pytest.mark.spark
@pytest.mark.parametrize("name", ["history", "windows", "trees", "large_commits", "catch_up", "loads", "demo"])
def test_headrace_and_the_hand_written_job_give_equal_windows(name: str, bench: Bench, spark: SparkSession) -> None:  # noqa: ARG001
    lines = list(load_case(name)(bench))

    assert lines
    assert all(len(line.ours.samples) == len(line.theirs.samples) == TINY.rounds for line in lines if line.theirs)


@pytest.mark.spark
@pytest.mark.parametrize("task", [Task("AT_ONCE", 2), Task("WINDOW_CLOSE", 1)], ids=lambda task: task.label)
def test_streams_and_structured_streaming_queries_give_equal_windows(task: Task, bench: Bench, spark: SparkSession) -> None:  # noqa: ARG001
    line = measure_latency(bench, task)

    assert line.theirs is not None
    assert len(line.ours.samples) == len(line.theirs.samples) == TINY.rounds * TINY.batches
    assert {"read changes", "step", "commit"} <= set(line.parts)


@pytest.mark.parametrize(
    "name",
    [
        "statements",
        "inserts",
        "durability",
        "ingest_streams",
        "insert_triggers",
        "command",
        "wide_trees",
        "notifications",
        "triggers",
        "states",
    ],
)
def test_benchmarks_that_need_no_spark_run_without_it(name: str, bench: Bench) -> None:
    lines = list(load_case(name)(bench))

    assert lines
    assert all(line.ours.samples and line.limit is not None for line in lines)


def test_a_benchmark_runs_its_driver_after_one_that_settles(bench: Bench) -> None:
    bench.execute("CREATE TABLE numbers (ts TIMESTAMP, v INT)")
    bench.execute("CREATE STREAM counts INTO counted AS SELECT _wstart, count(*) FROM numbers INTERVAL(1s)")
    bench.connection.settle()

    with running_driver(bench):
        pass


def test_a_stream_beside_maintenance_is_measured(bench: Bench) -> None:
    (line,) = load_case("maintenance")(bench)

    (alone,) = line.others.values()
    assert len(line.ours.samples) >= len(alone.samples) == TINY.rounds * TINY.batches
    assert line.other_limits == {"no maintenance": 2.0}
    assert int(line.note.split()[0]) >= TINY.rounds


@pytest.mark.parametrize("name", ["many_streams", "virtual_tables"])
def test_benchmarks_of_streams_run_without_spark(name: str, bench: Bench) -> None:
    lines = list(load_case(name)(bench))

    assert lines
    assert all(line.ours.samples and line.parts and line.peaks for line in lines)


@pytest.mark.spark
def test_a_stream_in_parts_is_measured(bench: Bench, spark: SparkSession) -> None:  # noqa: ARG001
    bench.sizes = replace(TINY, only="session")
    (line,) = load_case("parts")(bench)

    assert line.ours.samples
    assert line.others["one snode"].samples


@pytest.mark.spark
def test_the_cpu_time_of_idle_streams_and_of_an_idle_query_is_measured(bench: Bench, spark: SparkSession) -> None:  # noqa: ARG001
    (line,) = load_case("idle")(bench)

    assert line.theirs is not None
    assert line.name == "CPU time per second of 60 idle streams on 2 sources"
    assert len(line.ours.samples) == len(line.theirs.samples) == TINY.rounds


@pytest.mark.spark
def test_a_function_gives_what_its_job_does(bench: Bench, spark: SparkSession) -> None:  # noqa: ARG001
    first, *forms = load_case("functions")(bench)

    assert first.theirs is None
    assert [line.name.rpartition(", ")[2] for line in forms] == ["vectorized", "by row", "against the built-in sum"]
    assert all(line.theirs is not None for line in forms)


def test_pipes_on_one_table_deliver_a_commit(bench: Bench) -> None:
    (line,) = measure_fan_out(bench)

    assert len(line.ours.samples) == TINY.rounds
    assert {"read changes once", "record the position"} <= set(line.parts)


def test_the_cpu_time_of_an_idle_pipe_is_measured(bench: Bench) -> None:
    (line,) = measure_idle(bench)

    assert list(line.others) == ["no pipe"]


def test_pipes_send_to_an_iotdb_server_what_a_loop_sends(bench: Bench, iotdb_server: Server) -> None:
    bench.sizes = replace(TINY, iotdb=f"127.0.0.1:{iotdb_server.port}")

    (history,) = measure_history(bench)
    (inserts,) = measure_visibility(bench)

    assert history.theirs is not None
    assert inserts.theirs is not None
    assert len(inserts.ours.samples) == len(inserts.theirs.samples) == TINY.pipe_inserts


def test_pipes_and_loops_send_to_kafka_and_read_it_again(bench: Bench) -> None:
    lines = list(measure_kafka(bench))

    if not lines:
        pytest.skip("there is no Kafka broker")
    assert [line.name for line in lines] == ["300 rows to Kafka", "300 messages of Kafka into a tree"]
    assert all(line.theirs is not None for line in lines)


@pytest.mark.airflow
def test_every_job_has_its_dag(bench: Bench) -> None:
    lines = list(load_case("dags")(bench))

    assert lines
    assert {len(line.ours.samples) for line in lines} == {TINY.rounds}


@pytest.mark.airflow
def test_the_page_shows_each_stream(bench: Bench) -> None:
    names = [line.name for line in load_case("page")(bench)]
    assert [name.split(",")[0] for name in names] == [
        "page: the list of 3 streams",
        "page: the graph of 3 streams",
        "page: a stream",
    ]


@pytest.mark.spark
def test_a_filled_table_is_used_again_by_the_next_run(bench: Bench, spark: SparkSession) -> None:  # noqa: ARG001
    first = prepare_meters(bench, 100, 5)
    version = bench.context.tables.version(first)
    again = prepare_meters(bench, 100, 5)

    assert again == first
    assert bench.context.tables.version(again) == version
    assert bench.context.tables.rows(again) == 100


def test_batches_are_consecutive_and_never_repeat_a_key(bench: Bench) -> None:
    table = create_meters(bench, "meters", 6)
    for second in (0, 10):
        bench.context.tables.writer.write(table, bench.database, generate_batch("meters", 6, 60, second))

    assert bench.context.tables.rows(table) == 120
