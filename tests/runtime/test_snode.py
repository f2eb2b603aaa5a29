"""Snodes and backfill jobs as real processes: started, killed, stopped, frozen and replaced."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import psutil
import psycopg
import pytest

import headrace
from headrace.context import Context
from headrace.errors import OperationalError
from headrace.history import backfill
from headrace.model.jobs import JobState
from headrace.model.ledger import ChunkState
from headrace.model.snodes import Heartbeat
from headrace.runtime.context import open_context
from headrace.runtime.living_snodes import endpoint_of
from headrace.runtime.snode import Exit
from headrace.runtime.snode_client import JSON, send_statement
from headrace.settings import Settings, load
from tests.runtime.meters import START, Meters, readings
from tests.support.drawing import SEED, TAKES_ALL
from tests.support.jobs import Job

pytestmark = [pytest.mark.spark, pytest.mark.e2e, pytest.mark.timeout(600)]

PATIENCE_S = 180.0


@pytest.fixture
def settings(tmp_path: Path, request: pytest.FixtureRequest) -> Settings:
    url = request.getfixturevalue("postgres_url") if request.node.get_closest_marker("postgres") else ""
    return load(home=tmp_path / "home", spark_master="local[2]", chunk_rows=200, catalog_url=url)


@pytest.fixture
def context(settings: Settings) -> Iterator[Context]:
    opened = open_context(settings)
    yield opened
    opened.catalog.close()


@pytest.fixture
def start(settings: Settings, tmp_path: Path) -> Iterator[Callable[..., Job]]:
    """Starts jobs; whatever is left of them at the end is killed by its id."""
    jobs: list[Job] = []

    def run(script: str, *arguments: str, faults: str = "") -> Job:
        jobs.append(Job(settings, tmp_path, script, *arguments, faults=faults))
        return jobs[-1]

    yield run
    for job in jobs:
        job.clean_up()


def until(condition: Callable[[], Any], complaint: str, jobs: tuple[Job, ...] = ()) -> None:
    """Wait for a condition, and fail with the jobs' logs when it does not come about."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > deadline:
            pytest.fail("\n".join([complaint, *(f"--- {job.log.name}\n{job.text[-4000:]}" for job in jobs)]))
        time.sleep(0.1)


def epoch(context: Context) -> int:
    lease = context.catalog.leases.get("default")
    return 0 if lease is None else lease.epoch


def heartbeat(context: Context, wanted: int) -> Heartbeat:
    """The first heartbeat of an epoch."""
    until(lambda: epoch(context) >= wanted and any(beat.epoch == wanted for beat in context.catalog.snodes.all()), "no heartbeat")
    return context.catalog.snodes.get("default")


def test_a_snode_computes_and_another_takes_over_when_it_is_killed_or_frozen(context: Context, start: Callable[..., Job]) -> None:
    meters = Meters.create(context)
    meters.write(readings(600))
    stream = meters.create_stream("TRIGGER AT_ONCE FILL_HISTORY 1 IGNORE EXPIRED 0 IGNORE UPDATE 0")

    first = start("snode")
    until(lambda: epoch(context) == 1, "the first snode does not take the lease", (first,))
    # Frozen by itself in the middle of its first batch: the state is written, the results are not.
    second = start("snode", faults="streams.state.written:1:stop")
    until(lambda: "waiting until its lease ends" in second.text, "the second snode does not wait", (second,))
    until(lambda: meters.results() == meters.expected(), "the history is not filled", (first,))
    beat = heartbeat(context, 1)
    check_endpoint(beat)

    meters.write(readings(50, seed=1, start=START + 4_200_000))
    until(lambda: meters.results() == meters.expected(), "live rows are not computed", (first,))
    check_metrics(beat)

    first.signal(signal.SIGKILL)
    assert first.ended() == -signal.SIGKILL
    meters.write(readings(50, seed=2, start=START + 4_600_000))
    meters.delete("m1", START + 4_600_000, START + 4_700_000)
    until(lambda: psutil.Process(second.process.pid).status() == psutil.STATUS_STOPPED, "the second snode works not", (second,))

    rivals = [start("snode"), start("snode")]
    until(lambda: epoch(context) == 3, "nobody takes over from the frozen snode", (second, *rivals))
    until(lambda: meters.results() == meters.expected(), "the third snode does not catch up", tuple(rivals))
    second.signal(signal.SIGCONT)
    assert second.ended() == Exit.LEASE_LOST
    assert meters.results() == meters.expected()

    beat = heartbeat(context, 3)
    holder, waiter = sorted(rivals, key=lambda job: job.process.pid != beat.detail["pid"])
    holder.signal(signal.SIGTERM)
    assert holder.ended() == Exit.OK
    meters.write(readings(50, seed=3, start=START + 5_000_000))
    until(lambda: meters.results() == meters.expected(), "the fourth snode does not go on", (waiter,))
    assert context.catalog.jobs.by_id(stream).state is JobState.RUNNING
    lose_jvm(waiter, context)
    assert waiter.ended() == Exit.SPARK_DIED
    assert context.catalog.leases.get("default") is None
    assert context.catalog.events.all("snode", "default")[0].message == "Spark's JVM has died"


def lose_jvm(snode: Job, context: Context) -> None:
    """Kill the JVM of an snode while it evaluates a query, whose client is told so."""
    endpoint = endpoint_of(heartbeat(context, epoch(context)), context)
    count = {"sql": "SELECT count(*) FROM meters", "dialect": "tdengine", "database": "db"}

    def is_running() -> bool:
        _, content = send_statement(endpoint, count | {"sql": "SHOW QUERIES"}, JSON) or pytest.fail("no answer")
        return bool(json.loads(content)["rows"])

    jvm = snode.children()
    for child in jvm:
        child.suspend()
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(send_statement, endpoint, count, JSON)
        until(is_running, "the query does not run", (snode,))
        for child in jvm:
            child.kill()
        with pytest.raises(OperationalError, match=r"Spark has ended|did not answer"):
            answer.result()


def check_endpoint(beat: Heartbeat) -> None:
    """The endpoint answers who has the token, and nobody else more than whether it is well."""
    with httpx.Client(base_url=str(beat.address), trust_env=False) as http:
        assert http.get("/health").json() == {"status": "ok"}
        assert http.post("/sql", json={"sql": "SHOW DATABASES"}).status_code == 401
        http.headers["Authorization"] = f"Bearer {beat.token}"
        assert http.get("/health").json()["streams"]
        answer = http.post("/sql", json={"sql": "SELECT count(*) FROM meters", "database": "db"}, timeout=60)
        assert answer.json()["rows"] == [[600]]
        refused = http.post("/sql", json={"sql": "SELEKT 1"})
        assert (refused.status_code, refused.json()["line"], refused.json()["column"]) == (400, 1, 1)


def check_metrics(beat: Heartbeat) -> None:
    headers = {"Authorization": f"Bearer {beat.token}"}
    text = httpx.get(f"{beat.address}/metrics", headers=headers, trust_env=False).text
    assert 'headrace_streams{snode="default",state="RUNNING"} 1.0\n' in text
    assert 'headrace_lease_epoch{snode="default"} 1.0\n' in text
    assert 'stream_rows_in_total{database="db",snode="default",stream="s"}' in text


def test_an_snode_exits_at_once_if_it_must_not_wait(context: Context, start: Callable[..., Job]) -> None:
    context.catalog.leases.acquire("default", "somebody", 600_000)
    job = start("snode", "--wait", "0")
    assert job.ended() == Exit.LEASE_HELD
    assert "run by somebody" in job.text


def test_a_snode_outranks_the_targets_of_a_catalog_restored_from_a_backup(context: Context, start: Callable[..., Job]) -> None:
    meters = Meters.create(context)
    stream = meters.create_stream("TRIGGER AT_ONCE")
    context.tables.writer.fence(context.catalog.tables.get("db", "out"), stream, 50)
    job = start("snode")
    until(lambda: epoch(context) >= 1, "the snode does not take the lease", (job,))
    meters.write(readings(50))
    until(lambda: meters.results() == meters.expected(), "the stream is fenced for ever", (job,))
    assert epoch(context) == 51


def test_a_backfill_job_killed_after_its_commit_has_done_its_work(context: Context, start: Callable[..., Job]) -> None:
    meters = Meters.create(context)
    meters.write(readings(100))
    stream = meters.create_stream("TRIGGER AT_ONCE FILL_HISTORY 1")
    (chunk,) = backfill.plan_chunks(context, stream)
    arguments = ("--stream", stream, "--run", chunk.run, "--chunk", "0")
    killed = start("fill_history", *arguments, faults="history.committed:1:kill")
    assert killed.ended() == -signal.SIGKILL
    assert context.catalog.ledger.chunks(stream)[0].state is ChunkState.RUNNING
    assert meters.results() == meters.expected()
    assert start("fill_history", *arguments).ended() == 0
    assert context.catalog.ledger.chunks(stream)[0].state is ChunkState.DONE
    assert meters.results() == meters.expected()


def lose_locks(url: str) -> None:
    """Have the server end the connections that hold locks, as it does when it no longer hears of their processes."""
    holders = "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND granted"
    with psycopg.connect(url, autocommit=True) as connection:
        assert connection.execute(holders).fetchall()


FREEZES = {"before the commit": "history.commit:1", "between reading the version and the commit": "storage.commit:2"}
"""Where a job is frozen: each run of the tests takes one of both."""


@pytest.mark.postgres
@pytest.mark.parametrize("moment", FREEZES if TAKES_ALL else [list(FREEZES)[SEED % 2]])
def test_a_frozen_backfill_job_commits_nothing_once_another_has_done_its_chunk(
    context: Context, start: Callable[..., Job], moment: str
) -> None:
    meters = Meters.create(context)
    meters.write(readings(100))
    stream = meters.create_stream("TRIGGER AT_ONCE FILL_HISTORY 1")
    target = context.catalog.tables.get("db", "out")
    (chunk,) = backfill.plan_chunks(context, stream)
    arguments = ("--stream", stream, "--run", chunk.run, "--chunk", "0")
    frozen = start("fill_history", *arguments, faults=f"{FREEZES[moment]}:stop")
    until(lambda: psutil.Process(frozen.process.pid).status() == psutil.STATUS_STOPPED, "the job does not stop", (frozen,))
    assert context.tables.tags.read(target).num_rows == 3  # only the commit of the results is left to do
    assert meters.results() == []

    lose_locks(context.settings.catalog_url)
    assert start("fill_history", *arguments).ended() == 0
    assert meters.results() == meters.expected()
    context.tables.writer.delete(target, context.catalog.databases.get("db"))
    version = context.tables.version(target)
    frozen.signal(signal.SIGCONT)

    assert frozen.ended() == 1
    assert "DONE by" in frozen.text
    assert (context.tables.version(target), meters.results()) == (version, [])
    assert context.catalog.ledger.chunks(stream)[0].state is ChunkState.DONE


def test_a_failed_backfill_job_logs_the_error(start: Callable[..., Job]) -> None:
    job = start("fill_history", "--stream", "nonsense", "--chunk", "3")
    assert job.ended() == 1
    assert "no job has the id nonsense" in job.text


def test_an_snode_follows_a_table_that_gains_columns(context: Context, start: Callable[..., Job]) -> None:
    meters = Meters.create(context)
    meters.create_stream("TRIGGER AT_ONCE IGNORE EXPIRED 0 IGNORE UPDATE 0")
    first = start("snode")
    meters.write(readings(20))
    until(lambda: meters.results() == meters.expected(), "rows are not computed", (first,))
    with headrace.connect(context.settings.home) as connection:
        connection.execute("use db")
        for number in range(3):
            connection.execute(f"alter stable meters add column w{number} double")
            connection.execute(f"insert into m1 (ts, v, w{number}) values ({START + number}, {number}, 0.5)")
            meters.stored["m1", START + number] = number
            meters.write(readings(20, seed=number + 1))
            until(lambda: meters.results() == meters.expected(), "rows after the change are not computed", (first,))
        assert connection.execute("select count(w0), count(w2) from meters").fetchall() == [(1, 1)]
    first.process.kill()
    second = start("snode")
    meters.write(readings(20, seed=9))
    until(lambda: meters.results() == meters.expected(), "the second snode does not go on", (second,))
