"""The timers of an snode: what is executed together, what waits, and what becomes of failures."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import headrace
from headrace.catalog import executions as ledger_module
from headrace.errors import FencedError, NotFoundError
from headrace.jobs.hosts import Driving, HostedJob
from headrace.model import failpoints
from headrace.model.continuous_queries import Execution, ExecutionState
from headrace.model.jobs import JobRecord, JobState
from headrace.queries.executions import execute, recompute
from headrace.queries.kind import CONTINUOUS_QUERY
from headrace.runtime.continuous_queries import QueryRunner, linked_ids, retry_pause_ms, split_work
from headrace.runtime.job_host import JobHost
from headrace.settings import current, load
from tests.runtime.hosts import polled

START = 1_700_000_000_000
SECOND = 1_000
DEADLINE_S = 120


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[headrace.Connection]:
    with opened_home(tmp_path / "home", attempts=2) as opened:
        yield opened


@contextmanager
def opened_home(home: Path, attempts: int) -> Iterator[headrace.Connection]:
    settings = load(home=home, cq_attempts=attempts)
    with headrace.connect(dialect="iotdb", clock=headrace.ManualClock(START), settings=settings) as opened:
        opened.execute("create timeseries root.plant.line1.s1 with datatype=INT32")
        values = ", ".join(f"({START + second * SECOND}, {second})" for second in range(-10, 60))
        opened.execute(f"insert into root.plant.line1(time, s1) values {values}")
        yield opened


def create(connection: headrace.Connection, name: str, source: str = "root.plant.line1", target: str = "root.agg.{}") -> None:
    body = f"select sum(s1) into {target.format(name)}(c) from {source} group by (1s)"
    connection.execute(f"create cq {name} resample every 1s begin {body} end")


def records(connection: headrace.Connection) -> list[JobRecord]:
    return connection.session.context.catalog.jobs.all(kind=CONTINUOUS_QUERY)


def ledger(connection: headrace.Connection, name: str) -> list[Execution]:
    catalog = connection.session.context.catalog
    return list(reversed(catalog.executions.all(catalog.jobs.get("", name, CONTINUOUS_QUERY).definition.id)))


@contextmanager
def running(connection: headrace.Connection) -> Iterator[JobHost]:
    host = JobHost(Driving(connection.session.context, "test"))
    host.reconcile(records(connection))
    with polled(host):
        yield host


def wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def becomes(read: Callable[[], object], expected: object) -> Callable[[], bool]:
    return lambda: read() == expected


def done(connection: headrace.Connection, name: str) -> int:
    return sum(execution.state is ExecutionState.DONE for execution in ledger(connection, name))


def points(connection: headrace.Connection, path: str) -> dict[int, Any]:
    rows = connection.execute(f"select c from {path}").fetchall()
    return {round((at.timestamp() * 1000 - START) / SECOND): int(value) for at, value in rows}


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_queries_that_are_due_together_share_a_commit_and_catch_up_at_once(connection: headrace.Connection) -> None:
    for name in ("a", "b", "c"):
        create(connection, name)
    connection.settle()
    database = connection.session.context.catalog.tables.get("root.agg", "devices")
    version = connection.session.context.tables.version(database)
    connection.clock.advance(30 * SECOND)
    with running(connection):
        wait_until(lambda: all(done(connection, name) == 31 for name in ("a", "b", "c")))
    commits = connection.session.context.tables.version(database) - version
    assert commits <= 2, "one for each thread"
    for name in ("a", "b", "c"):
        assert points(connection, f"root.agg.{name}") == {second: second for second in range(-1, 30)}
        assert [execution.rows for execution in ledger(connection, name)] == [1] * 31
        assert {execution.attempt for execution in ledger(connection, name)} == {1}


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_a_query_that_fails_is_tried_again_and_stopped_while_others_go_on(connection: headrace.Connection) -> None:
    create(connection, "bad")
    create(connection, "good")
    connection.execute("create timeseries root.agg.bad.c with datatype=TEXT")
    with running(connection):
        wait_until(lambda: [execution.attempt for execution in ledger(connection, "bad")] == [1])
        wait_until(lambda: done(connection, "good") == 1)
        connection.clock.advance(retry_pause_ms(SECOND, 1))
        wait_until(lambda: records(connection)[0].state is JobState.STOPPED)
        wait_until(lambda: done(connection, "good") == 2)
    (execution,) = ledger(connection, "bad")
    assert (execution.state, execution.attempt) == (ExecutionState.FAILED, 2)
    assert "not compatible" in str(records(connection)[0].reason)


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_pauses_between_attempts_double(tmp_path: Path) -> None:
    with opened_home(tmp_path / "home", attempts=4) as connection:
        create(connection, "bad")
        create(connection, "good")
        connection.execute("create timeseries root.agg.bad.c with datatype=TEXT")
        check_pauses(connection)


def check_pauses(connection: headrace.Connection) -> None:
    pauses = [retry_pause_ms(SECOND, attempt) for attempt in (1, 2, 3)]
    assert pauses == [SECOND, 2 * SECOND, 4 * SECOND]

    def attempts() -> list[int]:
        return [execution.attempt for execution in ledger(connection, "bad") if execution.state is ExecutionState.FAILED]

    with running(connection):
        for number, pause in enumerate(pauses, start=1):
            wait_until(becomes(attempts, [number]))
            elapsed = (connection.clock.now() - START) // SECOND
            for second in range(1, pause // SECOND):
                connection.clock.advance(SECOND)
                # The timers have seen the clock once the other query is done.
                wait_until(becomes(partial(done, connection, "good"), elapsed + second + 1))
                assert attempts() == [number]
            connection.clock.advance(SECOND)
        wait_until(lambda: records(connection)[0].state is JobState.STOPPED)
    assert attempts() == [4]


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_one_that_is_dropped_meanwhile_does_not_keep_the_others_from_writing(connection: headrace.Connection) -> None:
    create(connection, "a")
    create(connection, "b", target="root.agg.a_{}")
    connection.settle()
    connection.clock.advance(SECOND)
    dropped = threading.Event()

    def drop() -> None:
        connection.session.context.catalog.jobs.drop(records(connection)[0].definition.id)
        dropped.set()

    with failpoints.calling("storage.commit", drop), running(connection):
        wait_until(dropped.is_set)
        wait_until(lambda: done(connection, "b") == 2)
    assert points(connection, "root.agg.a_b") == {-1: -1, 0: 0}
    assert points(connection, "root.agg.a") == {-1: -1}


def test_queries_over_the_results_of_others_wait_for_them(connection: headrace.Connection) -> None:
    create(connection, "a")
    create(connection, "b", source="root.agg.a", target="root.next.{}")
    create(connection, "c", target="root.elsewhere.{}")
    create(connection, "d", target="root.elsewhere.{}")
    queries = records(connection)
    linked = linked_ids(queries)
    assert [record.definition.name for record in queries if record.definition.id in linked] == ["a", "b"]
    jobs = [HostedJob(record, QueryRunner) for record in reversed(queries)]
    names = [[job.record.definition.name for job in group] for group in split_work(jobs, linked, groups=2)]
    assert names == [["c"], ["d"], ["a", "b"]]


def test_a_small_execution_imports_neither_pandas_nor_spark(tmp_path: Path) -> None:
    with headrace.connect(dialect="iotdb", settings=load(home=tmp_path / "home")) as connection:
        connection.execute("create timeseries root.plant.line1.s1 with datatype=INT32")
        connection.execute("insert into root.plant.line1(time, s1) values (1000, 1), (2000, 2)")
        body = "select sum(s1), max_value(s1) into root.agg.q(c, m) from root.plant.line1 group by (1s)"
        connection.execute(f"create cq q resample every 1h begin {body} end")
        (record,) = records(connection)
        script = str(current().project / "spark_jobs" / "continuous_query.py")
        work = ["--query", record.definition.id, "--holder", "test", "--at", "1970-01-01T01:00:00"]
        ran = subprocess.run(
            [sys.executable, "-X", "importtime", script, *work],
            env=os.environ | {"HEADRACE_HOME": str(tmp_path / "home")},
            capture_output=True,
            text=True,
            check=False,
        )
        assert ran.returncode == 0, ran.stderr
        imported = {line.rpartition("|")[2].strip() for line in ran.stderr.splitlines() if line.startswith("import time:")}
        assert "sqlalchemy" in imported
        assert not imported & {"pandas.core", "pyspark.sql"}
        assert ledger(connection, "q")[0].state is ExecutionState.DONE


def test_aggregates_outlive_the_rows_that_a_time_to_live_has_removed(
    connection: headrace.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger_module, "KEPT", 20)
    monkeypatch.setattr(ledger_module, "PRUNED_EVERY", 1)
    create(connection, "a")
    connection.clock.advance(40 * SECOND)
    connection.settle()
    connection.execute("set ttl to root.plant.** 1000")
    (record,) = records(connection)
    recompute(connection.session.context, record.definition, START + 5 * SECOND, START + 6 * SECOND, "test")
    connection.settle()
    assert points(connection, "root.agg.a") == {second: second for second in range(-1, 40) if second != 5}


@pytest.mark.parametrize("is_dropped", [False, True], ids=["taken over", "dropped"])
def test_a_frozen_attempt_writes_nothing_even_if_nobody_else_has_written(
    connection: headrace.Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_dropped: bool
) -> None:
    create(connection, "a")
    connection.settle()
    connection.clock.advance(SECOND)
    (record,) = records(connection)
    executions = connection.session.context.catalog.executions
    check, checks = executions.check, []

    def take_over() -> None:
        settings = load(home=tmp_path / "home")
        with headrace.connect(dialect="iotdb", clock=headrace.ManualClock(START + SECOND), settings=settings) as other:
            if is_dropped:
                other.execute("drop cq a")
            else:
                other.execute(f"delete from root.plant.line1.s1 where time >= {START}")
                execute(other.session.context, record.definition, START + SECOND, "successor", abandoned_ms=0)

    def check_and_freeze(execution: Execution) -> None:
        check(execution)
        checks.append(execution)
        if len(checks) == 1:
            take_over()

    monkeypatch.setattr(executions, "check", check_and_freeze)
    with pytest.raises(NotFoundError if is_dropped else FencedError):
        execute(connection.session.context, record.definition, START + SECOND, "frozen")
    assert points(connection, "root.agg.a") == {-1: -1}
