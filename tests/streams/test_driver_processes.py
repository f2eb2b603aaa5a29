"""Drivers in processes of their own that are killed or frozen: nothing is lost, and a frozen one writes nothing once it thaws."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from multiprocessing.context import ForkServerProcess
from typing import TYPE_CHECKING, Final

import psutil
import pytest

from headrace.errors import OperationalError
from tests.streams import counting
from tests.streams.effort import drawn
from tests.streams.environment import START, SUBTABLES, StreamEnvironment, open_profile
from tests.streams.killing import STREAMS, Campaign, StreamRun, open_runs
from tests.streams.worker import start_driver
from tests.support.drawing import SEED
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

KILLED_AT: Final = (
    *("streams.evaluated", "storage.committed", "streams.target.committed", "outbox.sent", "streams.state.rename"),
    *("streams.state.written", "storage.commit", "streams.progress.recorded", "outbox.removed"),
)
FROZEN_AT: Final = ("streams.evaluated", "streams.state.written", "streams.target.committed", "outbox.sent")
FROZEN_STREAMS: Final = ("interval_window_close", "state_at_once", "forced", "filled_delayed", "filled", "continuous")
"""Streams that notify, of which the clock writes three."""
WITHOUT_SPARK: Final = tuple(name for name in STREAMS if name != "forced_filled")
"""The streams that need no Spark, which takes longer to start than these processes live."""


@pytest.fixture
def home(tmp_path: Path, spark: SparkSession) -> Iterator[StreamEnvironment]:
    with open_profile("kernels", tmp_path / "home", spark) as env:
        yield env


@contextmanager
def twins(home: StreamEnvironment, names: Sequence[str]) -> Iterator[tuple[list[StreamRun], list[StreamRun]]]:
    """Yield two runs of the same streams, each in a database of its own."""
    with ExitStack() as stack:
        both = [stack.enter_context(home.new_database({name: (g, 0) for name, g in SUBTABLES.items()})) for _ in range(2)]
        first, second = (stack.enter_context(open_runs(env, names)) for env in both)
        yield first, second


def start_driver_of(env: StreamEnvironment, epoch: int, failpoint: str) -> ForkServerProcess:
    """Start a driver of the streams of a database."""
    now = env.clock.now() - START
    return start_driver(env.context.settings.home_path, now, epoch, failpoint, database=env.database.name)


def wait_for(driver: ForkServerProcess) -> int | None:
    """Return the exit code of a driver once it has ended."""
    driver.join()
    return driver.exitcode


def apply_step(campaign: Campaign, runs: Sequence[Sequence[StreamRun]]) -> None:
    """Write the same rows for both runs, and let the clock advance."""
    (step,) = campaign.steps(1)
    for run in runs:
        step.apply(run[0].env)
    runs[0][0].env.clock.advance(step.pause_ms)


def settle(runs: Sequence[StreamRun]) -> None:
    for run in runs:
        run.settle()


def take_over(runs: Sequence[StreamRun], epoch: int) -> None:
    """Let newer drivers continue, in this process."""
    for run in runs:
        run.env.restart_after_failure()
        run.env.restart(epoch)
    settle(runs)


def assert_equal(disturbed: Sequence[StreamRun], undisturbed: Sequence[StreamRun]) -> None:
    for one, other in zip(disturbed, undisturbed, strict=True):
        assert one.rows() == other.rows(), (one.plan.name, SEED)
        assert one.events() == other.events(), (one.plan.name, SEED)


@pytest.mark.drawn(2)
def test_processes_that_are_killed_are_followed_by_ones_that_continue(home: StreamEnvironment) -> None:
    campaign = Campaign(SEED)
    names, killed = drawn(WITHOUT_SPARK, "killed processes", len(WITHOUT_SPARK) // 3), 0
    with twins(home, names) as (disturbed, undisturbed):
        for number, point in enumerate(drawn(KILLED_AT, "ends of processes", 4), 1):
            apply_step(campaign, (disturbed, undisturbed))
            settle(undisturbed)
            failpoint = f"{point}:{campaign.random.randint(1, len(names) // 2)}:kill"
            killed += wait_for(start_driver_of(disturbed[0].env, 2 * number, failpoint)) == -signal.SIGKILL
            take_over(disturbed, 2 * number + 1)
            assert_equal(disturbed, undisturbed)
    counting.add("kills by SIGKILL", killed)
    assert killed


def is_frozen(driver: ForkServerProcess) -> bool:
    return psutil.Process(driver.pid).status() == psutil.STATUS_STOPPED


@contextmanager
def frozen_driver(
    home: StreamEnvironment, campaign: Campaign, runs: tuple[list[StreamRun], list[StreamRun]], point: str
) -> Iterator[tuple[ForkServerProcess, int]]:
    """Yield a driver of the first runs that is frozen, and the epoch of the lease that was taken from it.

    A driver that freezes while another of its threads writes to the catalog blocks SQLite. It is killed, and the next one frozen.
    """
    lease = home.catalog.leases.acquire("default", "frozen", 1)
    assert lease is not None
    while True:
        apply_step(campaign, runs)
        home.clock.advance(10_000)
        settle(runs[1])
        driver = start_driver_of(runs[0][0].env, lease.epoch, f"{point}:{campaign.random.randint(1, 3)}:stop")
        try:
            wait_until(partial(is_frozen, driver), "the driver to freeze")
            try:
                newer = home.catalog.leases.acquire("default", "newer", 600_000)
            except OperationalError:
                driver.kill()
                wait_for(driver)
                take_over(runs[0], lease.epoch)
                continue
            assert newer is not None
            yield driver, newer.epoch
            return
        finally:
            driver.kill()
            wait_for(driver)


@pytest.mark.drawn(2)
@pytest.mark.parametrize("point", drawn(FROZEN_AT, "frozen processes", 2))
def test_a_frozen_process_writes_nothing_once_another_has_taken_its_streams_over(home: StreamEnvironment, point: str) -> None:
    campaign = Campaign(SEED)
    with twins(home, FROZEN_STREAMS) as (disturbed, undisturbed):
        with frozen_driver(home, campaign, (disturbed, undisturbed), point) as (driver, epoch):
            take_over(disturbed, epoch)
            written = written_by(disturbed)
            assert driver.pid is not None
            os.kill(driver.pid, signal.SIGCONT)
            wait_for(driver)
        assert written_by(disturbed) == written
        apply_step(campaign, (disturbed, undisturbed))
        settle(undisturbed)
        settle(disturbed)
        assert_equal(disturbed, undisturbed)


def written_by(runs: Sequence[StreamRun]) -> list[object]:
    """Return what a driver of these streams writes: versions of targets and outboxes, progress, and events."""
    written: list[object] = []
    for run in runs:
        tables, record = run.env.tables, run.env.record(run.plan)
        outbox = tables.outbox(run.plan.id)
        outbox_position = outbox.position(run.plan.source_ids)
        written.append((tables.version(run.plan.target), outbox_position, outbox.backlog(), record.progress, run.events()))
    return written
