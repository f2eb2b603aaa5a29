"""Drivers of one release are replaced by those of the next one after the other, and back, while rows are written."""

from __future__ import annotations

import os
import signal
import subprocess
import tarfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from sqlalchemy import text

import headrace
from headrace.catalog.engines import open_engine
from headrace.catalog.rows.metadata import VERSION_TABLE
from headrace.context import Context
from headrace.errors import SqlSyntaxError
from headrace.model.job_parts import parts_of
from headrace.model.jobs import JobState
from headrace.runtime.context import open_context
from headrace.runtime.driver import Driver
from headrace.runtime.lease import holder_name
from headrace.runtime.metrics import Histogram
from headrace.runtime.snode import Exit
from headrace.settings import Settings, load
from headrace.sql.tdengine.streams import TDengineStreams
from tests.runtime.meters import START, Meters, readings
from tests.runtime.test_sharing import are_complete, create_streams, owners, work
from tests.runtime.test_snode import until
from tests.support.jobs import Job
from tests.support.next_version import NEXT, release_next_version

REVISION = os.environ.get("HEADRACE_UPGRADE_FROM", "")
"""A revision of the repository to upgrade from; `make upgrade FROM=…` sets it."""
ROWS = 60
SNODES = ("default", "snode2")


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def settings(request: pytest.FixtureRequest, tmp_path: Path) -> Settings:
    url = str(request.getfixturevalue("postgres_url")) if request.param == "postgres" else ""
    return load(home=tmp_path / "home", catalog_url=url)


@dataclass
class Fleet:
    """The drivers of two snodes, and the rows that were written while they ran."""

    settings: Settings
    stack: ExitStack
    drivers: dict[str, Driver] = field(default_factory=dict)
    written: int = 0

    def open(self) -> Context:
        """Open the home as the current release does."""
        context = open_context(self.settings)
        self.stack.callback(context.catalog.close)
        self.stack.callback(context.tables.close)
        return context

    def replace(self, name: str) -> Context:
        """Start a driver of the current release in place of the one that an snode has, and return its context."""
        context = self.open()
        if name in self.drivers:
            self.stop(name)
        lease = context.catalog.leases.acquire(name, holder_name(), 600_000)
        assert lease is not None
        driver = Driver(replace(context, epoch=lease.epoch), name, fills=True, batches=Histogram(), ended=lambda: None)
        self.drivers[name] = driver
        self.stack.callback(lambda: driver.host.close())
        return context

    def stop(self, name: str) -> None:
        """Stop a driver as SIGTERM does: it gives its lease back."""
        context = self.open()
        self.drivers.pop(name).host.close()
        lease = context.catalog.leases.get(name)
        assert lease is not None
        context.catalog.leases.release(lease)

    def run(self, meters: Meters) -> None:
        """Write rows, let all drivers work, and check that every stream has all rows, and each of them once."""
        meters.write(readings(ROWS, seed=self.written, start=START + self.written * 100_000))
        self.written += ROWS
        for driver in self.drivers.values():
            work(driver)
        records = meters.context.catalog.jobs.all()
        assert are_complete(meters.context, meters)
        assert {record.state for record in records} == {JobState.RUNNING}
        assert rows_read(meters.context) == {self.written}


def rows_read(context: Context) -> set[int]:
    """Return how many rows the streams have read."""
    return {record.progress.counters.rows_in for record in context.catalog.jobs.all()}


@pytest.fixture
def fleet(settings: Settings) -> Iterator[Fleet]:
    with ExitStack() as stack:
        yield Fleet(settings, stack)


def schema_version(settings: Settings) -> str:
    engine = open_engine(settings.catalog)
    with engine.connect() as connection:
        version: str = connection.scalar(text(f"SELECT version_num FROM {VERSION_TABLE}"))
    engine.dispose()
    return version


def test_drivers_are_replaced_by_the_next_release_one_after_the_other_and_back(
    fleet: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = fleet.replace("default")
    meters = Meters.create(context)
    streams = create_streams(context)
    context.catalog.members.create(2, "default")
    fleet.replace("snode2")
    fleet.drivers["default"].give(dict.fromkeys(streams[:3], "snode2"))
    fleet.run(meters)
    assert owners(context) == {"default": 3, "snode2": 3}

    with monkeypatch.context() as newer:
        release_next_version(tmp_path / "migrations", newer)
        fleet.open()
        assert schema_version(fleet.settings) == NEXT
        fleet.run(meters)  # both drivers are of the old release, and use a catalog of the new one
        for name in SNODES:
            fleet.replace(name)
            fleet.run(meters)

    for name in SNODES:
        fleet.replace(name)
        fleet.run(meters)
    assert schema_version(fleet.settings) == NEXT, "to go back, nothing has to be restored"
    assert owners(context) == {"default": 3, "snode2": 3}
    with monkeypatch.context() as newer:
        release_next_version(tmp_path / "migrations again", newer)
        fleet.replace("default")
        fleet.run(meters)


def test_a_release_that_does_not_know_an_option_stops_the_parts_that_it_gets(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    context = fleet.replace("default")
    context.catalog.members.create(2, "default")
    fleet.replace("snode2")
    meters = Meters.create(context)
    stream = meters.create_stream("TRIGGER AT_ONCE IGNORE EXPIRED 0 IGNORE UPDATE 0 PARTITIONS 2")
    meters.write(readings(ROWS))
    with monkeypatch.context() as older:
        older.delitem(TDengineStreams.OPTIONS, "PARTITIONS")
        work(fleet.drivers["snode2"])
    work(fleet.drivers["default"])
    first, second = parts_of(context.catalog.jobs.whole(stream))
    assert (first.state, second.state) == (JobState.RUNNING, JobState.STOPPED)
    assert second.reason is not None
    assert second.reason.code == SqlSyntaxError.code
    assert "PARTITIONS" in second.reason.message
    assert 0 < len(meters.results()) < len(meters.expected()), "those of the other part"

    fleet.replace("snode2")
    with headrace.connect(settings=fleet.settings, database="db") as connection:
        connection.execute("RESUME STREAM s")
    for driver in fleet.drivers.values():
        work(driver)
    assert meters.results() == meters.expected()
    assert rows_read(context) == {ROWS}


@pytest.fixture
def earlier(settings: Settings, tmp_path: Path) -> Settings:
    """Return the settings with the project of an earlier revision."""
    folder = tmp_path / "earlier"
    archive = subprocess.run(["git", "archive", REVISION], cwd=settings.project, capture_output=True, check=True).stdout
    (tmp_path / "earlier.tar").write_bytes(archive)
    with tarfile.open(tmp_path / "earlier.tar") as files:
        files.extractall(folder, filter="data")
    return settings.replace({"project": folder})


@pytest.mark.skipif(not REVISION, reason="no revision to upgrade from: make upgrade FROM=…")
@pytest.mark.spark
@pytest.mark.e2e
@pytest.mark.timeout(600)
def test_processes_of_an_earlier_revision_are_replaced_one_after_the_other_and_back(
    settings: Settings, earlier: Settings, tmp_path: Path
) -> None:
    with ExitStack() as stack:

        def start(release: Settings, name: str) -> Job:
            job = Job(release, tmp_path, "snode", "--snode", name)
            stack.callback(job.clean_up)
            return job

        context = open_context(settings)
        stack.callback(context.catalog.close)
        meters = Meters.create(context)
        create_streams(context)
        context.catalog.members.create(2, "default")
        running = {name: start(earlier, name) for name in SNODES}
        write_and_await(meters, running, rounds=0)
        for count, (release, name) in enumerate([(each, name) for each in (settings, earlier) for name in SNODES], 1):
            standby = start(release, name)
            running[name].signal(signal.SIGTERM)
            assert running[name].ended() == Exit.OK
            running[name] = standby
            write_and_await(meters, running, rounds=count)
        for job in running.values():
            job.signal(signal.SIGTERM)
            assert job.ended() == Exit.OK


def write_and_await(meters: Meters, running: dict[str, Job], rounds: int) -> None:
    """Write rows, and wait until both snodes have half of the streams and all results."""
    jobs = tuple(running.values())
    meters.write(readings(ROWS, seed=rounds, start=START + rounds * 1_000_000))
    until(lambda: are_complete(meters.context, meters), f"round {rounds}: results are missing", jobs)
    until(lambda: owners(meters.context) == {"default": 3, "snode2": 3}, f"round {rounds}: streams are not shared", jobs)
    until(lambda: rows_read(meters.context) == {ROWS * (rounds + 1)}, f"round {rounds}: rows are lost or counted twice", jobs)
