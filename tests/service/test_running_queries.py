"""Queries that an snode runs for users: their limits, SHOW QUERIES and KILL QUERY, and what they leave to streams."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from pyspark.sql import SparkSession

import headrace
from headrace.context import Context
from headrace.doors.gate import Gate
from headrace.doors.iotdb.door import IotdbDoor
from headrace.doors.options import DoorOptions
from headrace.doors.tdengine.door import create_tdengine_door
from headrace.errors import LimitError, NotFoundError, OperationalError
from headrace.queries.running import RunningQueries
from headrace.runtime.context import Lazy, open_context
from headrace.runtime.snode_client import SnodeEndpoint, write_endpoint
from headrace.service.authentication import authenticator
from headrace.service.results import Result
from headrace.service.session import Session
from headrace.settings import load
from headrace.storage.spark import arrow_results
from tests.support.busy_spark import occupied, run_tasks, running_tasks
from tests.support.iotdb_client import iotdb_client  # noqa: F401  (fixture)
from tests.support.living_snode import TOKEN, living_snode
from tests.support.waiting import MAX_WAIT_S, wait_until

pytestmark = pytest.mark.spark

SELECT = "SELECT ts, a FROM d.readings ORDER BY ts"
ROWS = 100


@pytest.fixture
def home(readings: headrace.Connection) -> Context:
    """The context of a home with rows."""
    values = ", ".join(f"({1_700_000_000_000 + number}, {number}, 0)" for number in range(ROWS))
    readings.execute(f"insert into dev1 values {values}")
    return readings.session.context


@pytest.fixture
def served(home: Context, spark: SparkSession) -> Context:
    """The context of an snode that answers statements."""
    return replace(home, spark=lambda: spark, settings=home.settings.replace({"local_rows": 0}))


def limited(context: Context, **limits: int) -> Session:
    """Return a session of an snode with limits."""
    context = replace(context, settings=context.settings.replace(limits))
    return Session(context, queries=RunningQueries(context))


@pytest.mark.parametrize(("name", "limit"), [("query_rows", f"{ROWS - 1} rows"), ("query_bytes", "10 bytes")])
def test_a_query_beyond_a_limit_ends_with_its_name(served: Context, name: str, limit: str) -> None:
    with pytest.raises(LimitError, match=f"limit of {limit}") as caught:
        limited(served, **{name: int(limit.split()[0])}).execute(SELECT)
    assert f"HEADRACE_{name.upper()}" in caught.value.hint
    assert limited(served, query_rows=ROWS).execute(SELECT).count == ROWS


def test_a_large_result_is_kept_in_a_file_that_is_removed(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    frame = spark.range(1_000, numPartitions=4).selectExpr("id", "CAST(id AS STRING) AS text").orderBy("text")
    expected = frame.toArrow()
    monkeypatch.setattr(arrow_results, "MAX_MEMORY_BYTES", 100)
    files: set[str] = set()
    result = arrow_results.collect_arrow(frame, lambda *_: files.update(path.name for path in tmp_path.iterdir()))
    assert result == expected
    assert arrow_results.collect_arrow(frame.limit(0), lambda *_: None) == expected.slice(0, 0)
    assert files
    assert not list(tmp_path.iterdir())


@pytest.fixture
def client(served: Context) -> Iterator[Session]:
    """A session in another process than the snode that is alive."""
    with living_snode(served):
        opened = open_context(served.settings, served.clock)
        yield Session(replace(opened, spark=Lazy(lambda: pytest.fail("the query ran here"))))
        opened.catalog.close()


def test_a_running_query_is_listed_and_killed(client: Session, spark: SparkSession, tmp_path: Path) -> None:
    with occupied(spark, tmp_path), ThreadPoolExecutor(1) as pool:
        query: Future[Result] = pool.submit(client.execute, SELECT)
        wait_until(lambda: client.execute("SHOW QUERIES").count == 1, "the query to be listed")
        (row,) = client.execute("SHOW QUERIES").tuples()
        listed = dict(zip(client.execute("SHOW QUERIES").names, row, strict=True))
        assert (listed["user"], listed["sql"]) == ("http", SELECT)
        client.execute(f"KILL QUERY '{listed['kill_id']}'")
        with pytest.raises(OperationalError, match="the query was killed"):
            query.result(MAX_WAIT_S)
    assert client.execute("SHOW QUERIES").count == 0
    with pytest.raises(NotFoundError, match="is not running"):
        client.execute(f"KILL QUERY '{listed['kill_id']}'")
    assert client.execute(SELECT).count == ROWS


@pytest.mark.parametrize("kill", ["KILL QUERY '{}'", "KILL ALL QUERIES"])
def test_iotdb_lists_and_kills_queries_of_both_languages(client: Session, spark: SparkSession, tmp_path: Path, kill: str) -> None:
    tree = Session(client.context, "iotdb")
    with occupied(spark, tmp_path), ThreadPoolExecutor(1) as pool:
        query: Future[Result] = pool.submit(client.execute, SELECT)
        wait_until(lambda: tree.execute("SHOW QUERIES").count == 1, "the query to be listed")
        result = tree.execute("SHOW QUERY PROCESSLIST")
        assert result.names == ["Time", "QueryId", "DataNodeId", "ElapsedTime", "Statement"]
        ((_, id, _, elapsed, sql),) = result.tuples()
        assert (sql, elapsed >= 0) == (SELECT, True)
        assert tree.execute("SHOW QUERIES OFFSET 1").count == 0
        tree.execute(kill.format(id))
        with pytest.raises(OperationalError, match="the query was killed"):
            query.result(MAX_WAIT_S)
    with pytest.raises(NotFoundError, match="714: No such query"):
        tree.execute(f"KILL QUERY '{id}'")


def test_ctrl_c_ends_the_query_on_the_snode(client: Session, spark: SparkSession, tmp_path: Path) -> None:
    settings, lease = client.context.settings, client.context.catalog.leases.get("default")
    assert lease is not None
    endpoint = SnodeEndpoint(lease.snode, lease.epoch, str(lease.address), TOKEN)
    write_endpoint(settings.home_path, settings.catalog, endpoint)
    command = [sys.executable, "-m", "headrace.cli.main", "sql", "--home", str(settings.home_path), SELECT]
    with occupied(spark, tmp_path), subprocess.Popen(command, stderr=subprocess.PIPE, env={"PATH": os.defpath}) as process:
        wait_until(lambda: client.execute("SHOW QUERIES").count == 1, "the query to run")
        process.send_signal(signal.SIGINT)
        assert (process.wait(MAX_WAIT_S), process.stderr.read() if process.stderr else b"") == (130, b"")
        wait_until(lambda: client.execute("SHOW QUERIES").count == 0, "the query to end")


def test_the_query_of_a_client_of_tdengine_that_is_gone_ends(served: Context, spark: SparkSession, tmp_path: Path) -> None:
    settings = load(home=served.settings.home_path, doors="tdengine", tdengine_port=0, http_token="secret", local_rows=0)
    queries, context = RunningQueries(served), replace(served, settings=settings)
    door = create_tdengine_door(Gate(context, authenticator(context), queries))
    assert door is not None
    door.start()
    try:
        with occupied(spark, tmp_path):
            with pytest.raises(httpx.ReadTimeout):
                httpx.post(f"http://{door.address}/rest/sql", content=SELECT, auth=("root", "secret"), trust_env=False, timeout=2)
            wait_until(lambda: not queries.all(), "the query to end")
    finally:
        door.stop()


@pytest.mark.usefixtures("iotdb_client")
def test_the_query_of_a_client_of_iotdb_that_is_gone_ends(served: Context, spark: SparkSession, tmp_path: Path) -> None:
    from iotdb.Session import Session as Client

    settings = load(home=served.settings.home_path, doors="iotdb", iotdb_port=0, http_token="secret", local_rows=0)
    queries, context = RunningQueries(served), replace(served, settings=settings)
    door = IotdbDoor(Gate(context, authenticator(context), queries), DoorOptions("127.0.0.1", 0), 10)
    door.start()
    try:
        client = Client("127.0.0.1", door.port, "root", "secret")
        client.open(False)
        with occupied(spark, tmp_path), ThreadPoolExecutor(1) as pool:
            query = pool.submit(client.execute_query_statement, "SELECT a FROM root.d.readings.*")
            wait_until(lambda: queries.all(), "the query to run")
            (connection,) = door._connections
            door._loop.call_soon_threadsafe(connection.abort, "the client leaves")
            wait_until(lambda: not queries.all(), "the query to end")
            assert query.exception(MAX_WAIT_S) is not None
    finally:
        door.stop()


def test_a_query_ends_after_its_time_even_if_it_waits_for_spark(served: Context, spark: SparkSession, tmp_path: Path) -> None:
    with occupied(spark, tmp_path), pytest.raises(LimitError, match="limit of 1 s"):
        limited(served, query_timeout_s=1).execute(SELECT)


def test_jobs_of_streams_do_not_wait_for_the_tasks_of_a_query(served: Context, spark: SparkSession, tmp_path: Path) -> None:
    """A core that becomes free goes to the stream although tasks of the query have waited for it for longer."""
    cores, queries = spark.sparkContext.defaultParallelism, RunningQueries(served)
    first, rest = tmp_path / "first", tmp_path / "rest"

    def run_query() -> None:
        with queries.run("user", "SELECT"):
            run_tasks(spark, {number: rest if number else first for number in range(2 * cores)})

    with ThreadPoolExecutor(2) as pool:
        query = pool.submit(run_query)
        try:
            wait_until(lambda: running_tasks(spark) == cores, "the query to occupy all cores")
            before = set(spark.sparkContext.statusTracker().getActiveJobsIds())
            stream = pool.submit(spark.sparkContext.parallelize([0], 1).count)
            wait_until(lambda: set(spark.sparkContext.statusTracker().getActiveJobsIds()) > before, "the stream's job")
            first.touch()
            assert stream.result(MAX_WAIT_S) == 1
        finally:
            first.touch()
            rest.touch()
        query.result(MAX_WAIT_S)
