"""The outbox delivers all messages in order, even if the receiver fails, stalls or dies, and the driver dies at any point."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from headrace.errors import FencedError
from headrace.jobs.hosts import Driving
from headrace.model.clock import ManualClock
from headrace.model.jobs import JobState
from headrace.runtime.job_host import JobHost
from headrace.streams.lifecycle import forget
from headrace.streams.runner import StreamRunner
from headrace.streams.sinks.outbox import OutboxSink
from tests.streams.environment import StreamEnvironment
from tests.streams.receiver import Receiver
from tests.streams.ticking import SQL
from tests.streams.worker import outbox_factory, start_driver
from tests.support.forking import MAX_WAIT_S
from tests.support.waiting import wait_until

FIRST_TICKS = [{"tick": 10_000, "n": 1}, {"tick": 20_000, "n": 1}, {"tick": 30_000, "n": 1}, {"tick": 40_000, "n": 1}]


@pytest.fixture
def receiver(tmp_path: Path) -> Iterator[Receiver]:
    folder = tmp_path / "receiver"
    folder.mkdir()
    made = Receiver(folder)
    made.start()
    yield made
    made.kill()


@pytest.fixture
def clock(offline_env: StreamEnvironment, receiver: Receiver) -> ManualClock:
    assert isinstance(offline_env.context.clock, ManualClock)
    offline_env.runner = outbox_factory(receiver.port)
    offline_env.restart(epoch=1)
    return offline_env.context.clock


def begin(env: StreamEnvironment) -> str:
    """A stream that has handled one row, so that it ticks from then on; its id."""
    plan = env.create(SQL.format(name="s"))
    env.insert([("d0", 0, 1, None)])
    env.settle()
    return plan.id


def wait_for(receiver: Receiver, messages: int) -> None:
    wait_until(lambda: len(receiver.payloads()) >= messages, f"{messages} messages")


def wait_until_recorded(env: StreamEnvironment, job_id: str) -> None:
    outbox = env.tables.outbox(job_id)
    wait_until(lambda: outbox.backlog() == 0, "delivery to be recorded")


def test_messages_arrive_in_order(offline_env: StreamEnvironment, receiver: Receiver, clock: ManualClock) -> None:
    stream = begin(offline_env)
    clock.advance(40_000)
    offline_env.settle()
    wait_until_recorded(offline_env, stream)
    assert receiver.payloads() == FIRST_TICKS
    assert receiver.duplicates() == 0
    rows = Path(offline_env.tables.outbox(stream)._handle.uri)
    wait_until(lambda: not list(rows.glob("*.parquet")), "the files of delivered messages to be removed")


@pytest.mark.parametrize("mode", ["refuse", "drop", "stall"])
def test_a_receiver_that_fails_gets_everything_once_it_works_again(
    offline_env: StreamEnvironment, receiver: Receiver, clock: ManualClock, mode: str
) -> None:
    stream = begin(offline_env)
    receiver.set_mode(mode)
    clock.advance(20_000)
    offline_env.settle()
    sink = sink_of(offline_env)
    wait_until(lambda: sink.deliverer.error is not None, "the first failure")
    receiver.set_mode("ok")
    clock.advance(20_000)
    offline_env.settle()
    wait_until_recorded(offline_env, stream)
    assert receiver.payloads() == FIRST_TICKS
    if mode != "refuse":
        assert receiver.duplicates() > 0


def test_a_receiver_that_dies_gets_everything_after_it_is_back(
    offline_env: StreamEnvironment, receiver: Receiver, clock: ManualClock
) -> None:
    stream = begin(offline_env)
    clock.advance(20_000)
    offline_env.settle()
    wait_for(receiver, 1)
    receiver.kill()
    clock.advance(20_000)
    offline_env.settle()
    receiver.start()
    wait_until_recorded(offline_env, stream)
    assert receiver.payloads() == FIRST_TICKS


def test_a_job_waits_while_its_receiver_does_not_keep_up(
    offline_env: StreamEnvironment, receiver: Receiver, clock: ManualClock
) -> None:
    offline_env.runner = outbox_factory(receiver.port, max_backlog=2)
    stream = begin(offline_env)
    receiver.kill()
    clock.advance(40_000)
    pollers = offline_env.pollers
    assert pollers is not None
    outbox = offline_env.tables.outbox(stream)
    wait_until(lambda: pollers.poll(0) and outbox.backlog() == 2, "the outbox to be full")
    for _ in range(5):
        assert pollers.poll(), "the job still has work to do"
    assert outbox.backlog() == 2
    assert offline_env.catalog.jobs.by_id(stream).state is JobState.RUNNING
    receiver.start()
    offline_env.settle()
    wait_until_recorded(offline_env, stream)
    assert receiver.payloads() == FIRST_TICKS


def test_a_driver_that_was_taken_over_commits_no_message(
    offline_env: StreamEnvironment, receiver: Receiver, clock: ManualClock
) -> None:
    stream = begin(offline_env)
    newer = JobHost(Driving(replace(offline_env.context, epoch=2)), offline_env.runner)
    newer.reconcile(offline_env.catalog.jobs.all())
    clock.advance(20_000)
    while newer.poll():
        pass
    clock.advance(10_000)
    with pytest.raises(FencedError):
        offline_env.settle()
    clock.advance(10_000)
    while newer.poll():
        pass
    wait_until_recorded(offline_env, stream)
    newer.close()
    assert receiver.payloads() == FIRST_TICKS


def test_a_dropped_job_leaves_no_messages(offline_env: StreamEnvironment, receiver: Receiver, clock: ManualClock) -> None:
    stream = begin(offline_env)
    receiver.kill()
    clock.advance(20_000)
    offline_env.settle()
    folder = Path(offline_env.tables.outbox(stream)._handle.uri)
    assert folder.exists()
    offline_env.catalog.jobs.drop(stream)
    offline_env.settle()
    forget(offline_env.context, stream)
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
    offline_env: StreamEnvironment, receiver: Receiver, clock: ManualClock, point: str
) -> None:
    stream = begin(offline_env)
    passage = 4 if point.startswith("storage") else 2
    assert work(offline_env, receiver, epoch=2, faults=f"{point}:{passage}:kill") == -signal.SIGKILL
    clock.advance(40_000)
    offline_env.restart(epoch=3)
    offline_env.settle()
    wait_until_recorded(offline_env, stream)
    assert receiver.payloads() == FIRST_TICKS


def sink_of(env: StreamEnvironment) -> OutboxSink:
    """The sink of the only stream that runs."""
    assert env.pollers is not None
    (job,) = env.pollers.jobs
    assert isinstance(job.runner, StreamRunner)
    assert isinstance(job.runner.sink, OutboxSink)
    return job.runner.sink


def work(env: StreamEnvironment, receiver: Receiver, epoch: int, faults: str) -> int:
    """Run a driver to its end, 40 seconds after the start; its exit code."""
    driver = start_driver(env.context.settings.home_path, 40_000, epoch, faults, port=receiver.port)
    driver.join(MAX_WAIT_S)
    assert driver.exitcode is not None
    return driver.exitcode
