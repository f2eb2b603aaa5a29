"""The whole way on an object store: statements, loads, streams, backfills, maintenance, doctor, and the cost of polling."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.csv as pc
import pytest

from headrace.context import Context
from headrace.history import backfill
from headrace.jobs.hosts import Driving
from headrace.model.clock import SystemClock
from headrace.runtime.job_host import JobHost
from headrace.runtime.table_maintenance import maintain
from headrace.service.connecting import connect
from headrace.service.connection import Connection
from headrace.settings import Settings, load
from tests.runtime.meters import METERS, START, Meters, readings
from tests.support.object_store import Server

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
POLLS = 20


@pytest.fixture
def connection(settings: Settings, spark: SparkSession) -> Iterator[Connection]:
    assert spark
    with connect(settings=settings) as opened:
        yield opened


def opened_context(settings: Settings, spark: SparkSession, **changes: Any) -> Iterator[Context]:
    from headrace.catalog import Catalog
    from headrace.storage import Tables

    changed = settings.replace(changes)
    with Catalog.open(changed.catalog) as catalog:
        tables = Tables(changed.tables_uri, catalog.lock, changed.small_write_rows)
        yield Context(catalog=catalog, open_tables=lambda: tables, spark=lambda: spark, clock=SystemClock(), settings=changed)
        tables.close()


@pytest.fixture
def context(settings: Settings, spark: SparkSession) -> Iterator[Context]:
    yield from opened_context(settings, spark, chunk_rows=300)


def fetch(connection: Connection, sql: str) -> list[tuple[Any, ...]]:
    return connection.execute(sql).fetchall()


@pytest.mark.parametrize("small_write_rows", [100_000, 10], ids=["small", "by Spark"])
def test_files_are_loaded_queried_and_maintained_in_a_stream(
    settings: Settings, spark: SparkSession, tmp_path: Path, object_store: Server, small_write_rows: int
) -> None:
    assert spark
    values = list(range(200))
    file = tmp_path / "m1.csv"
    pc.write_csv(pa.table({"ts": [START + 1_000 * value for value in values], "v": values}), file)
    with connect(settings=settings.replace({"small_write_rows": small_write_rows})) as connection:
        for sql in ("create database db", "use db", "create stable m (ts timestamp, v int) tags (a int)"):
            connection.execute(sql)
        connection.execute("create table m1 using m tags (1)")
        query = "select _wstart, count(*) n, sum(v) t from m interval(1m)"
        connection.execute(f"create stream s trigger at_once ignore update 0 into out as {query}")
        assert connection.load([file], "m1") == 200
        connection.load([file], "m1")  # the rows exist, so that they are merged
        connection.settle()
        assert fetch(connection, "select _wstart, n, t from out order by _wstart") == fetch(connection, query)
        for number in range(70):
            connection.execute(f"insert into m1 values ({START + number}, {number})")
        context = connection.session.context
        assert all(result.compacted for result in maintain(context, None, retention_hours=0) if result.table == "db.m")
        assert fetch(connection, "select count(*) from m") == [(len(values) + 69,)]  # the file has one of the instants, too
        connection.execute("drop stream s")
        before = len(object_store.objects(f"{settings.tables_uri}/db/m/rows"))
        maintain(context, None, retention_hours=0)
        assert len(object_store.objects(f"{settings.tables_uri}/db/m/rows")) < before
        connection.execute("drop database db")
    assert object_store.objects(f"{settings.tables_uri}/db") == []
    assert not (settings.home_path / "tables").exists()


@pytest.mark.parametrize("kernels", ["never", "always"])
def test_a_backfill_equals_the_query(settings: Settings, spark: SparkSession, kernels: str) -> None:
    for context in opened_context(settings, spark, chunk_rows=300, driver_rows=20, kernels=kernels):
        meters = Meters.create(context)
        meters.write(readings(500))
        meters.write(readings(500, seed=1, start=START + 4_000_000))
        stream = meters.create_stream("TRIGGER AT_ONCE FILL_HISTORY 1")
        backfill.fill_history(context, stream)
        assert meters.results() == meters.expected()


def test_an_idle_poll_takes_one_request_for_each_source(context: Context, object_store: Server) -> None:
    meters = Meters.create(context)
    meters.create_stream("TRIGGER AT_ONCE IGNORE EXPIRED 0 IGNORE UPDATE 0")
    pollers = JobHost(Driving(context))
    pollers.reconcile(context.catalog.jobs.all())
    meters.write(readings(20))
    while pollers.poll():
        pass
    assert meters.results() == meters.expected()
    pollers.poll()
    before = object_store.requests()
    for _ in range(POLLS):
        assert not pollers.poll()
    assert object_store.requests() - before == Counter({"HeadObject": POLLS})
    meters.write(readings(20, seed=1, start=START + 1_000_000))
    while pollers.poll():
        pass
    assert meters.results() == meters.expected()
    pollers.close()


def test_polls_of_an_object_store_are_rarer(settings: Settings, tmp_path: Path) -> None:
    local = load(home=tmp_path)
    assert settings.idle_poll_ms == settings.object_store_poll_ms > local.idle_poll_ms == local.poll_ms


def doctor(settings: Settings, **variables: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "headrace.cli.main", "doctor", "--home", str(settings.home_path)]
    environment = os.environ | {"HEADRACE_WAREHOUSE": settings.tables_uri, "COLUMNS": "200"} | variables
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def test_the_doctor_checks_the_object_store(settings: Settings, object_store: Server) -> None:
    good = doctor(settings)
    assert good.returncode == 0, good.stdout + good.stderr
    assert f"warehouse: {settings.tables_uri}" in good.stdout
    assert object_store.objects(settings.tables_uri) == []
    bad = doctor(settings, HEADRACE_WAREHOUSE="s3://no-such-bucket/tables")
    assert bad.returncode == 1
    assert "no-such-bucket" in bad.stdout
    assert METERS.name not in bad.stdout
