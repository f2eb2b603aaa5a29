"""Several connections of one process that run the streams of a home in turn."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

import headrace
from headrace.errors import DataError, TransientError
from headrace.model.failpoints import calling
from headrace.model.jobs import JobState
from headrace.service.rights import Securable
from headrace.service.topics.jobs import waiting_note
from headrace.settings import load
from tests.support.interpreted import interpret_plans
from tests.support.waiting import wait_until

interpret_plans()

STREAM = "CREATE STREAM d.s TRIGGER AT_ONCE INTO d.counts AS SELECT _wstart, count(*) n FROM d.t INTERVAL(1m)"
LONG_MS = 600_000
"""A lease that outlives the test: nobody can wait for its end."""


def insert_and_settle(connection: headrace.Connection, second: int) -> list[int]:
    """Insert a row, settle, and return the counts."""
    connection.execute(f"INSERT INTO d.t VALUES ('2026-01-01 00:00:{second:02}', {second})")
    connection.settle()
    return counts(connection)


def counts(connection: headrace.Connection) -> list[int]:
    """Return the stored counts, which needs no Spark."""
    context = connection.session.context
    target = context.catalog.tables.get("d", "counts")
    return list(context.tables.scan(target, columns=["n"])["n"].to_pylist())


def test_connections_hand_the_streams_over_to_each_other(tmp_path: Path) -> None:
    settings = load(home=tmp_path / "home", lease_ms=LONG_MS, kernels="always")
    with headrace.connect(settings=settings) as first, headrace.connect(settings=settings) as second:
        first.execute("CREATE DATABASE d")
        first.execute("CREATE TABLE d.t (ts TIMESTAMP, v INT)")
        first.execute(STREAM)
        assert [insert_and_settle(one, number) for number, one in enumerate((first, second, first, second))] == [[1], [2], [3], [4]]


def test_connections_that_settle_at_the_same_time_lose_nothing(tmp_path: Path) -> None:
    settings = load(home=tmp_path / "home", kernels="always")
    with headrace.connect(settings=settings) as connection:
        connection.execute("CREATE DATABASE d")
        connection.execute("CREATE TABLE d.t (ts TIMESTAMP, v INT)")
        connection.execute(STREAM)

        def write(thread: int) -> None:
            with headrace.connect(settings=settings) as own:
                for number in range(5):
                    insert_and_settle(own, 10 * thread + number)

        threads = [threading.Thread(target=write, args=(number,)) for number in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        connection.settle()
        assert counts(connection) == [15]


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_it_is_said_what_takes_time(tmp_path: Path) -> None:
    seen: list[str] = []
    settings = load(home=tmp_path / "home", kernels="always")
    with headrace.connect(settings=settings, database="d") as connection:
        session, leases = connection.session, connection.session.context.catalog.leases
        connection.execute("CREATE DATABASE d")
        connection.execute("CREATE TABLE t (ts TIMESTAMP, v INT)")
        connection.execute("INSERT INTO t VALUES (0, 1)")
        created = session.execute(STREAM.replace("INTO", "FILL_HISTORY 1 INTO"))
        assert created.note == "OK; the stream waits for an snode: `headrace up` starts one, `headrace settle` does its work once"
        note = waiting_note(Securable("stream", "d", "s"), settings.replace({"airflow_url": "http://airflow"}))
        assert "waits for an snode: the DAG headrace_snode__default starts one" in note
        connection.settle(seen.append)
        assert seen == ["Computing the history of stream d.s"]
        assert session.execute("PAUSE STREAM s").note == session.execute("RESUME STREAM s").note == ""

        session.close()
        lease = leases.acquire(settings.snode, "elsewhere:1:a", LONG_MS)
        connection.execute("INSERT INTO t VALUES (1, 1)")
        watch = threading.Thread(target=connection.settle, args=(seen.append,))
        watch.start()
        wait_until(lambda: len(seen) > 1, "the report")
        assert lease is not None
        leases.release(lease)
        watch.join()
        assert seen[1:] == ["Waiting for the snode of stream d.s"]
        assert session.execute("DROP STREAM s").note == ""


def test_a_history_that_fails_stops_its_own_stream_only(tmp_path: Path) -> None:
    errors = [DataError("a value cannot be computed"), TransientError("another process computes the chunk")]

    def fail() -> None:
        raise errors[0]

    with headrace.connect(tmp_path / "home") as connection:
        catalog = connection.session.context.catalog
        connection.execute("CREATE DATABASE d")
        connection.execute("CREATE TABLE d.t (ts TIMESTAMP, v INT)")
        connection.execute("INSERT INTO d.t VALUES ('2026-01-01 00:00:00', 1)")
        for name in "abc":
            sql = STREAM.replace("d.s", f"d.{name}").replace("counts", f"counts_{name}")
            connection.execute(sql.replace("AT_ONCE", f"AT_ONCE FILL_HISTORY {int(name != 'c')}"))
        connection.execute("INSERT INTO d.t VALUES ('2026-01-01 00:01:00', 2)")
        with calling("history.commit", fail):
            connection.settle()
        states = {record.definition.name: record.state for record in catalog.jobs.all()}
        assert states == {"a": JobState.STOPPED, "b": JobState.RUNNING, "c": JobState.RUNNING}
        assert connection.execute("SELECT count(*) FROM d.counts_b").fetchall() == [(2,)]
        connection.execute("RESUME STREAM d.a")
        errors.pop(0)
        connection.execute("INSERT INTO d.t VALUES ('2026-01-01 00:02:00', 2)")
        with calling("history.commit", fail), pytest.raises(TransientError):
            connection.settle()
        assert connection.execute("SELECT count(*) FROM d.counts_b").fetchall() == [(3,)]
        connection.settle()
        assert connection.execute("SELECT count(*) FROM d.counts_a").fetchall() == [(3,)]
