"""Drivers of one release are replaced by those of the next one after the other, and back, while rows are written."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from sqlalchemy import text

from headrace.catalog.engines import open_engine
from headrace.catalog.rows.metadata import VERSION_TABLE
from headrace.context import Context
from headrace.model.jobs import JobState
from headrace.runtime.context import open_context
from headrace.runtime.driver import Driver
from headrace.runtime.lease import holder_name
from headrace.runtime.metrics import Histogram
from headrace.settings import Settings, load
from tests.runtime.hosts import pollers_of
from tests.runtime.meters import START, Meters, readings
from tests.runtime.test_sharing import are_complete, create_streams, owners, work
from tests.support.next_version import release_next_version

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
        self.stack.callback(lambda: pollers_of(driver).close())
        return context

    def stop(self, name: str) -> None:
        """Stop a driver as SIGTERM does: it gives its lease back."""
        context = self.open()
        pollers_of(self.drivers.pop(name)).close()
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
        assert {record.progress.counters.rows_in for record in records} == {self.written}


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
        assert schema_version(fleet.settings) == "0002"
        fleet.run(meters)  # both drivers are of the old release, and use a catalog of the new one
        for name in SNODES:
            fleet.replace(name)
            fleet.run(meters)

    for name in SNODES:
        fleet.replace(name)
        fleet.run(meters)
    assert schema_version(fleet.settings) == "0002", "to go back, nothing has to be restored"
    assert owners(context) == {"default": 3, "snode2": 3}
    with monkeypatch.context() as newer:
        release_next_version(tmp_path / "migrations again", newer)
        fleet.replace("default")
        fleet.run(meters)
