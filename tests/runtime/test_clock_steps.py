"""A clock that is wrong for a while: nothing waits for a day that has not been, and nothing is done before its time."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

import headrace
from headrace.catalog import Catalog
from headrace.model.clock import MAX_STEP_MS, TRUSTED_AFTER_MS, ManualClock, SystemClock
from headrace.model.continuous_queries import ExecutionState
from headrace.model.ledger import Chunk, ChunkState
from headrace.model.snodes import MAX_LEASE_MS, Lease
from headrace.runtime.sharing import is_alive
from headrace.runtime.supervision import read_snapshot
from headrace.settings import load
from tests.runtime.test_continuous_queries import SECOND, START, create, done, ledger, points, records, running
from tests.support.waiting import wait_until

DAY, HOUR = 86_400_000, 3_600_000


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[headrace.Connection]:
    with headrace.connect(dialect="iotdb", clock=ManualClock(START), settings=load(home=tmp_path / "home")) as opened:
        opened.execute("create timeseries root.plant.line1.s1 with datatype=INT32")
        yield opened


class Machine:
    """A machine whose clock steps."""

    def __init__(self) -> None:
        self.uptime, self.wrong_by = 0, 0
        self.clock = SystemClock(lambda: (START + self.uptime + self.wrong_by) * 1_000_000, lambda: self.uptime * 1_000_000)

    def shows(self, after: int, wrong_by: int) -> int:
        """Return what the clock shows a while later, relative to the time."""
        self.uptime, self.wrong_by = self.uptime + after, wrong_by
        return self.clock.now() - START - self.uptime


def test_a_step_ahead_is_not_believed_until_it_has_lasted() -> None:
    machine = Machine()
    assert machine.shows(SECOND, 30 * SECOND) == 30 * SECOND, "small steps are"
    assert machine.shows(SECOND, DAY) == 30 * SECOND
    assert machine.clock.distrusted_ms() == DAY - 30 * SECOND
    assert machine.shows(SECOND, 0) == 0
    assert machine.clock.distrusted_ms() == 0
    assert machine.shows(SECOND, DAY) == 0, "the time that it has lasted counts anew"
    assert machine.shows(TRUSTED_AFTER_MS - 1, DAY) == 0
    assert machine.shows(1, DAY) == DAY
    assert machine.shows(SECOND, 0) == 0, "a step back is believed at once"


def test_a_clock_that_is_ahead_of_the_catalog_from_the_start_is_not_believed() -> None:
    machine = Machine()
    assert machine.shows(SECOND, MAX_STEP_MS) == MAX_STEP_MS
    machine.wrong_by = DAY
    for _ in range(3):
        machine.clock.compare(START + machine.uptime + DAY, START + machine.uptime)
        assert machine.shows(TRUSTED_AFTER_MS - 1, DAY) == 0
    machine.clock.compare(START + machine.uptime + DAY, START + machine.uptime + DAY - MAX_STEP_MS)
    assert machine.shows(1, DAY) == DAY


@pytest.mark.parametrize("policy", ["BLOCKED", "DISCARD"])
@pytest.mark.parametrize("restarts", [False, True])
def test_continuous_queries_go_on_after_a_day_that_has_not_been(
    connection: headrace.Connection, policy: str, restarts: bool
) -> None:
    body = "select sum(s1) into root.agg.q(c) from root.plant.line1 group by (1m)"
    minute, boundary = 60 * SECOND, START // 60_000 * 60_000
    connection.clock.set(boundary)
    connection.execute(f"create cq q resample every 1m timeout policy {policy} begin {body} end")

    def insert(number: int) -> None:
        connection.execute(f"insert into root.plant.line1(time, s1) values ({boundary + number * minute}, {number})")

    def is_done(number: int) -> bool:
        finished = {execution.scheduled: execution.finished for execution in ledger(connection, "q")}.get(
            boundary + number * minute
        )
        return finished is not None and finished <= connection.clock.now()

    with running(connection) as timers:
        for number in range(3):
            insert(number)
            connection.clock.set(boundary + number * minute + SECOND)
            wait_until(partial(is_done, number), "an execution")
        # The range of this execution ends after the present.
        connection.clock.advance(DAY)
        wait_until(lambda: is_done(2 + DAY // minute), "executions that are not due")
        if restarts:
            timers.reconcile([])
            wait_until(lambda: not timers.jobs, "the last execution")
            timers.reconcile(records(connection))
        connection.clock.advance(-DAY)
        for number in range(3, 6):
            insert(number)
            connection.clock.set(boundary + number * minute + SECOND)
            wait_until(partial(is_done, number), "an execution after the clock was set back")
    seconds = {at: value for at, value in points(connection, "root.agg.q").items() if at <= 5 * 60}
    assert sorted(seconds.values()) == [0, 1, 2, 3, 4]
    events = connection.session.context.catalog.events
    assert [event.kind for event in events.all("job", records(connection)[0].definition.id)].count("CLOCK_SET_BACK") == 1


def test_an_execution_that_was_begun_in_the_future_is_claimed(connection: headrace.Connection) -> None:
    create(connection, "q")
    (record,) = records(connection)
    claim = connection.session.context.catalog.executions.claim
    connection.clock.advance(DAY)
    assert claim(record.definition.id, record.definition.schedule, START, "other-host").state is ExecutionState.RUNNING
    connection.clock.advance(-DAY)
    taken = claim(record.definition.id, record.definition.schedule, START, "this")
    assert (taken.holder, taken.attempt, taken.takes_over) == ("this", 2, True)
    assert done(connection, "q") == 0


def test_a_chunk_that_was_claimed_in_the_future_is_claimed(connection: headrace.Connection) -> None:
    create(connection, "q")
    catalog, job = connection.session.context.catalog, records(connection)[0].definition.id
    catalog.ledger.plan(job, "run", [Chunk(job, "run", 0, 0, 1, 1)])
    connection.clock.advance(DAY)
    catalog.ledger.claim(job, "run", 0, "other-host")
    connection.clock.advance(-DAY)
    assert catalog.ledger.claim(job, "run", 0, "this").state is ChunkState.RUNNING


def test_a_lease_of_the_future_counts_as_expired(tmp_path: Path) -> None:
    clock = ManualClock(START)
    with Catalog.open(f"sqlite:///{tmp_path / 'catalog.db'}", clock=clock.now) as catalog:
        clock.advance(DAY)
        dead = catalog.leases.acquire("default", "other-host:1:a", MAX_LEASE_MS)
        assert dead is not None
        catalog.snodes.beat(dead)
        assert is_alive(dead, clock.now())
        clock.advance(-DAY)
        assert not is_alive(dead, clock.now())
        assert read_snapshot(catalog, clock.now()).driver_problem("default", 10_000) is not None
        taken = catalog.leases.acquire("default", "this", MAX_LEASE_MS)
        assert taken is not None
        assert taken.epoch > dead.epoch
        # Its heartbeat stays in the future until the next one.
        kept = Lease("default", "this", dead.epoch, clock.now() + MAX_LEASE_MS)
        state = read_snapshot(catalog, clock.now())
        state.leases["default"] = kept
        assert "does not answer" in str(state.driver_problem("default", 10_000))
