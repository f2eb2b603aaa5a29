"""The catalog's time is that of its database, regardless of the machine's clock."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from headrace.catalog import Catalog
from tests.catalog.samples import chunks, with_stream

HOUR_MS = 3_600_000


@pytest.fixture
def ahead(url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Catalog]:
    """Open the catalog in a process of a machine whose clock is an hour ahead."""
    real = time.time_ns
    with Catalog.open(url) as opened:
        monkeypatch.setattr(time, "time_ns", lambda: real() + HOUR_MS * 1_000_000)
        monkeypatch.setattr(time, "time", lambda: real() / 1e9 + HOUR_MS / 1_000)
        yield opened


def test_a_machine_whose_clock_is_ahead_takes_no_lease_that_has_not_expired(ahead: Catalog) -> None:
    lease = ahead.leases.acquire("default", "a", HOUR_MS // 2)
    assert lease is not None
    assert 0 < lease.expires - ahead.now() <= HOUR_MS // 2
    assert time.time_ns() // 1_000_000 > lease.expires
    assert ahead.leases.acquire("default", "b", HOUR_MS) is None


def test_everything_is_dated_by_the_database(ahead: Catalog) -> None:
    before = ahead.now()
    lease = ahead.leases.acquire("default", "a", HOUR_MS)
    assert lease is not None
    stream = with_stream(ahead)
    ahead.events.record("job", stream.id, "RUNNING", "")
    ahead.ledger.plan(stream.id, "history", chunks(1))
    ahead.ledger.claim(stream.id, "history", 0)
    started = ahead.ledger.summary(stream.id, "history").started
    times = [ahead.snodes.beat(lease).at, ahead.events.all()[0].time, started or 0]
    assert all(before <= instant <= ahead.now() for instant in times)
