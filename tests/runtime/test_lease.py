"""Acquiring and keeping the lease of an snode."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from headrace.catalog import Catalog
from headrace.model.snodes import Lease
from headrace.runtime.lease import LeaseKeeper, acquire, holder_name
from headrace.settings import Settings

TTL_MS = 1_000


@pytest.fixture
def catalog(settings: Settings) -> Iterator[Catalog]:
    with Catalog.open(settings.catalog) as opened:
        yield opened


def test_of_many_drivers_that_race_for_a_lease_one_gets_it(catalog: Catalog) -> None:
    barrier = threading.Barrier(8)

    def race(_: int) -> Lease | None:
        barrier.wait()
        return acquire(catalog, "default", holder_name(), 60_000, wait_s=0)

    with ThreadPoolExecutor(8) as pool:
        leases = [lease for lease in pool.map(race, range(8)) if lease is not None]
    assert [lease.epoch for lease in leases] == [1]


def test_holder_names_are_unique_even_within_a_process() -> None:
    assert holder_name() != holder_name()


def test_a_wait_for_a_held_lease_names_the_holder_and_can_be_declined(catalog: Catalog) -> None:
    held = acquire(catalog, "default", "first", 60_000)
    told: list[Lease | None] = []
    assert acquire(catalog, "default", "second", 60_000, wait_s=0, waiting=told.append) is None
    assert told == [held]


def test_a_wait_for_the_lease_can_be_ended(catalog: Catalog) -> None:
    acquire(catalog, "default", "first", 60_000)
    stopped = threading.Event()
    assert acquire(catalog, "default", "second", 60_000, stopped=stopped, waiting=lambda _: stopped.set()) is None


def test_a_lease_that_is_not_renewed_passes_to_the_waiting_driver(catalog: Catalog) -> None:
    first = acquire(catalog, "default", "first", TTL_MS)
    second = acquire(catalog, "default", "second", TTL_MS)
    assert first is not None
    assert second is not None
    assert second.epoch == first.epoch + 1


def test_a_kept_lease_outlives_its_duration_and_is_free_once_released(catalog: Catalog) -> None:
    lease = acquire(catalog, "default", "first", TTL_MS)
    assert lease is not None
    keeper = LeaseKeeper(catalog, lease, TTL_MS)
    keeper.start()
    assert acquire(catalog, "default", "second", TTL_MS, wait_s=2.5 * TTL_MS / 1000) is None
    keeper.release()
    assert acquire(catalog, "default", "second", TTL_MS, wait_s=0) is not None


def test_a_keeper_that_lost_its_lease_reports_it_and_does_not_release_the_new_one(catalog: Catalog) -> None:
    lease = acquire(catalog, "default", "first", TTL_MS)
    assert lease is not None
    taken = None
    while taken is None:
        taken = acquire(catalog, "default", "second", 60_000)
    noticed = threading.Event()
    keeper = LeaseKeeper(catalog, lease, TTL_MS, noticed.set)
    keeper.start()
    assert noticed.wait(30)
    assert keeper.lost.is_set()
    keeper.release()
    assert catalog.leases.get("default") == taken


def test_the_lease_records_the_address(catalog: Catalog) -> None:
    lease = acquire(catalog, "default", "first", 60_000)
    assert lease is not None
    keeper = LeaseKeeper(catalog, lease, 60_000)
    keeper.publish("http://127.0.0.1:1234")
    stored = catalog.leases.get("default")
    assert stored is not None
    assert stored.address == keeper.lease.address == "http://127.0.0.1:1234"
