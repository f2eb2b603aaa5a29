"""Messages reach a receiver that fails, stalls and dies, from drivers that die anywhere: all of them, in order, none twice."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from headrace.errors import FencedError
from headrace.model.clock import ManualClock
from headrace.model.jobs import JobState
from headrace.streams.lifecycle import forget
from headrace.streams.sinks.outbox import OutboxSink
from headrace.streams.sources.poller import SourcePollers
from tests.streams.house import House
from tests.streams.receiver import Receiver
from tests.streams.ticking import SQL
from tests.streams.worker import sending
from tests.support.waiting import wait_until

FIRST_TICKS = [{"tick": 10_000, "n": 1}, {"tick": 20_000, "n": 1}, {"tick": 30_000, "n": 1}, {"tick": 40_000, "n": 1}]


@pytest.fixture
def receiver(tmp_path: Path) -> Iterator[Receiver]:
    folder = tmp_path / "receiver"
    folder.mkdir()
    made = Receiver(folder)
    made.start()
    yield made
    made.die()


@pytest.fixture
def clock(empty: House, receiver: Receiver) -> ManualClock:
    assert isinstance(empty.context.clock, ManualClock)
    empty.runner = sending(receiver.port)
    empty.restart(epoch=1)
    return empty.context.clock


def begin(house: House) -> str:
    """A stream that has handled one row, so that it ticks from then on; its id."""
    plan = house.create(SQL.format(name="s"))
    house.insert([("d0", 0, 1, None)])
    house.settle()
    return plan.id


def wait_for(receiver: Receiver, messages: int) -> None:
    wait_until(lambda: len(receiver.payloads()) >= messages, f"{messages} messages")


def wait_until_recorded(house: House, job_id: str) -> None:
    outbox = house.tables.outbox(job_id)
    wait_until(lambda: outbox.backlog() == 0, "delivery to be recorded")


def test_messages_arrive_in_order(empty: House, receiver: Receiver, clock: ManualClock) -> None:
    stream = begin(empty)
    clock.advance(40_000)
    empty.settle()
    wait_until_recorded(empty, stream)
    assert receiver.payloads() == FIRST_TICKS
    assert receiver.doubles() == 0
    rows = Path(empty.tables.outbox(stream)._handle.uri)
    wait_until(lambda: not list(rows.glob("*.parquet")), "the files of delivered messages to be removed")


@pytest.mark.parametrize("mode", ["refuse", "drop", "stall"])
def test_a_receiver_that_fails_gets_everything_once_it_works_again(
    empty: House, receiver: Receiver, clock: ManualClock, mode: str
) -> None:
    stream = begin(empty)
    receiver.behave(mode)
    clock.advance(20_000)
    empty.settle()
    sink = sink_of(empty)
    wait_until(lambda: sink.deliverer.error is not None, "the first failure")
    receiver.behave("ok")
    clock.advance(20_000)
    empty.settle()
    wait_until_recorded(empty, stream)
    assert receiver.payloads() == FIRST_TICKS
    if mode != "refuse":
        assert receiver.doubles() > 0


def test_a_receiver_that_dies_gets_everything_after_it_is_back(empty: House, receiver: Receiver, clock: ManualClock) -> None:
    stream = begin(empty)
    clock.advance(20_000)
    empty.settle()
    wait_for(receiver, 1)
    receiver.die()
    clock.advance(20_000)
    empty.settle()
    receiver.start()
    wait_until_recorded(empty, stream)
    assert receiver.payloads() == FIRST_TICKS


def test_a_job_waits_while_its_receiver_does_not_keep_up(empty: House, receiver: Receiver, clock: ManualClock) -> None:
    empty.runner = sending(receiver.port, max_backlog=2)
    stream = begin(empty)
    receiver.die()
    clock.advance(40_000)
    pollers = empty.pollers
    assert pollers is not None
    outbox = empty.tables.outbox(stream)
    wait_until(lambda: pollers.poll(0) and outbox.backlog() == 2, "the outbox to be full")
    for _ in range(5):
        assert pollers.poll(), "the job still has work to do"
    assert outbox.backlog() == 2
    assert empty.catalog.jobs.by_id(stream).state is JobState.RUNNING
    receiver.start()
    empty.settle()
    wait_until_recorded(empty, stream)
    assert receiver.payloads() == FIRST_TICKS


def test_a_driver_that_was_taken_over_commits_no_message(empty: House, receiver: Receiver, clock: ManualClock) -> None:
    stream = begin(empty)
    newer = SourcePollers(replace(empty.context, epoch=2), runner=empty.runner)
    newer.reconcile(empty.catalog.jobs.all())
    clock.advance(20_000)
    while newer.poll():
        pass
    clock.advance(10_000)
    with pytest.raises(FencedError):
        empty.settle()
    clock.advance(10_000)
    while newer.poll():
        pass
    wait_until_recorded(empty, stream)
    newer.close()
    assert receiver.payloads() == FIRST_TICKS


def test_a_dropped_job_leaves_no_messages(empty: House, receiver: Receiver, clock: ManualClock) -> None:
    stream = begin(empty)
    receiver.die()
    clock.advance(20_000)
    empty.settle()
    folder = Path(empty.tables.outbox(stream)._handle.uri)
    assert folder.exists()
    empty.catalog.jobs.drop(stream)
    empty.settle()
    forget(empty.context, stream)
    assert not folder.exists()


POINTS = [
    "streams.evaluated",
    "streams.state.written",
    "storage.commit",
    "storage.committed",
    "streams.target.committed",
    "streams.progress.recorded",
    "outbox.sent",
    "outbox.removed",
]


@pytest.mark.parametrize("point", POINTS)
def test_a_driver_killed_anywhere_is_followed_by_one_that_sends_the_rest(
    empty: House, receiver: Receiver, clock: ManualClock, point: str
) -> None:
    del clock
    stream = begin(empty)
    passage = 4 if point.startswith("storage") else 2
    assert work(empty, receiver, epoch=2, faults=f"{point}:{passage}:kill") == -signal.SIGKILL
    assert work(empty, receiver, epoch=3) == 0
    assert receiver.payloads() == FIRST_TICKS
    assert empty.tables.outbox(stream).backlog() == 0


def sink_of(house: House) -> OutboxSink:
    """The sink of the only stream that runs."""
    assert house.pollers is not None
    (poller,) = house.pollers._pollers.values()
    (subscription,) = poller._subscriptions.values()
    assert subscription.runner is not None
    assert isinstance(subscription.runner.sink, OutboxSink)
    return subscription.runner.sink


def work(house: House, receiver: Receiver, epoch: int, faults: str = "") -> int:
    """Run a driver to its end, 40 seconds after the start; its exit code."""
    command = [
        sys.executable,
        "-m",
        "tests.streams.worker",
        str(house.context.settings.home),
        str(receiver.port),
        "40000",
        str(epoch),
    ]
    return subprocess.run(command, env={**os.environ, "HEADRACE_FAILPOINTS": faults}, check=False, timeout=120).returncode
