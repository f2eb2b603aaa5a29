from __future__ import annotations

import itertools
from dataclasses import dataclass

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, multiple, rule, run_state_machine_as_test
from sqlalchemy import select, update

from headrace.catalog import Catalog
from headrace.catalog.engines import open_engine
from headrace.catalog.postgresql import SESSION
from headrace.catalog.rows.snodes import LEASES
from headrace.catalog.store import Store
from headrace.errors import FencedError, TransientError
from headrace.model.clock import ManualClock
from headrace.model.jobs import JobProgress
from headrace.model.snodes import Lease
from tests.catalog.samples import definition, with_stream

HOLDERS = st.sampled_from(["a", "b", "c"])
TTLS = st.integers(0, 50)


def test_the_first_lease_has_epoch_one_and_each_later_one_more(catalog: Catalog, clock: ManualClock) -> None:
    first = catalog.leases.acquire("default", "a", 100, "http://127.0.0.1:1")
    assert first == Lease("default", "a", 1, clock.now() + 100, "http://127.0.0.1:1")
    assert catalog.leases.get("default") == first
    catalog.leases.release(first)
    assert catalog.leases.get("default") is None
    second = catalog.leases.acquire("default", "b", 100)
    assert second == Lease("default", "b", 2, clock.now() + 100, None)


def test_a_lease_that_has_not_expired_is_kept_from_others(catalog: Catalog, clock: ManualClock) -> None:
    lease = catalog.leases.acquire("default", "a", 100)
    clock.advance(99)
    assert catalog.leases.acquire("default", "b", 100) is None
    assert catalog.leases.get("default") == lease
    clock.advance(1)
    successor = catalog.leases.acquire("default", "b", 100)
    assert successor is not None
    assert successor.epoch == 2


def test_the_holder_of_a_lease_gets_a_new_epoch_at_once(catalog: Catalog) -> None:
    first, second = (catalog.leases.acquire("default", "a", 100) for _ in range(2))
    assert first is not None
    assert second is not None
    assert second.epoch == 2
    with pytest.raises(FencedError):
        catalog.leases.renew(first, 100)


def test_a_renewed_lease_lasts_longer_and_may_move(catalog: Catalog, clock: ManualClock) -> None:
    lease = catalog.leases.acquire("default", "a", 100)
    assert lease is not None
    clock.advance(60)
    moved = Lease(lease.snode, lease.holder, lease.epoch, lease.expires, "http://127.0.0.1:2")
    renewed = catalog.leases.renew(moved, 100)
    assert renewed.expires == clock.now() + 100
    assert catalog.leases.get("default") == renewed
    clock.advance(60)
    assert catalog.leases.acquire("default", "b", 100) is None


def test_an_expired_lease_that_was_not_taken_over_can_be_renewed(catalog: Catalog, clock: ManualClock) -> None:
    lease = catalog.leases.acquire("default", "a", 100)
    assert lease is not None
    clock.advance(1_000)
    assert catalog.leases.renew(lease, 100).expires == clock.now() + 100


def test_a_lost_lease_cannot_be_renewed_and_releasing_it_has_no_effect(catalog: Catalog, clock: ManualClock) -> None:
    lost = catalog.leases.acquire("default", "a", 100)
    clock.advance(100)
    newer = catalog.leases.acquire("default", "b", 100)
    assert lost is not None
    assert newer is not None
    with pytest.raises(FencedError, match="epoch 1"):
        catalog.leases.renew(lost, 100)
    catalog.leases.release(lost)
    assert catalog.leases.get("default") == newer
    catalog.leases.release(newer)
    with pytest.raises(FencedError):
        catalog.leases.renew(newer, 100)


def test_snodes_do_not_share_leases(catalog: Catalog) -> None:
    assert catalog.leases.acquire("one", "a", 100) is not None
    assert catalog.leases.acquire("two", "b", 100) is not None
    assert catalog.leases.get("three") is None


@dataclass
class Expected:
    """The expected lease of one snode."""

    holder: str | None = None
    epoch: int = 0
    expires: int = 0


class LeaseMachine(RuleBasedStateMachine):
    """Drivers that acquire, renew, lose and release one lease, and write with whatever lease they still have."""

    leases = Bundle("leases")
    numbers = itertools.count()

    def __init__(self, catalog: Catalog, clock: ManualClock) -> None:
        super().__init__()
        self.catalog, self.clock, self.expected = catalog, clock, Expected()
        self.stream = definition(f"s{next(self.numbers)}", snode=f"snode{next(self.numbers)}")
        catalog.jobs.create(self.stream)

    @rule(target=leases, holder=HOLDERS, ttl=TTLS)
    def acquire(self, holder: str, ttl: int) -> object:
        now, expected = self.clock.now(), self.expected
        free = expected.holder in (None, holder) or expected.expires <= now
        lease = self.catalog.leases.acquire(self.stream.snode, holder, ttl)
        assert (lease is not None) == free
        if lease is None:
            return multiple()
        assert lease == Lease(self.stream.snode, holder, lease.epoch, now + ttl)
        assert lease.epoch > expected.epoch
        self.expected = Expected(holder, lease.epoch, lease.expires)
        return lease

    @rule(target=leases, lease=leases, ttl=TTLS)
    def renew(self, lease: Lease, ttl: int) -> object:
        if not self._holds(lease):
            with pytest.raises(FencedError):
                self.catalog.leases.renew(lease, ttl)
            return multiple()
        renewed = self.catalog.leases.renew(lease, ttl)
        self.expected.expires = renewed.expires
        assert renewed == Lease(lease.snode, lease.holder, lease.epoch, self.clock.now() + ttl)
        return renewed

    @rule(lease=leases)
    def release(self, lease: Lease) -> None:
        self.catalog.leases.release(lease)
        if self._holds(lease):
            self.expected.holder = None

    @rule(lease=leases)
    def write(self, lease: Lease) -> None:
        """Write with a lease of the newest epoch, which is allowed after it expired: no other driver can have written since."""
        progress = JobProgress(updated=self.clock.now(), pending_since=lease.epoch)
        if lease.epoch == self.expected.epoch:
            self.catalog.jobs.set_progress(self.stream.id, progress, lease.epoch)
            self.catalog.snodes.beat(lease)
            assert self.catalog.jobs.by_id(self.stream.id).progress == progress
        else:
            for write in (
                lambda: self.catalog.jobs.set_progress(self.stream.id, progress, lease.epoch),
                lambda: self.catalog.snodes.beat(lease),
            ):
                with pytest.raises(FencedError):
                    write()

    @rule(ms=st.integers(0, 60))
    def wait(self, ms: int) -> None:
        self.clock.advance(ms)

    @invariant()
    def the_catalog_shows_the_holder(self) -> None:
        expected = self.expected
        lease = self.catalog.leases.get(self.stream.snode)
        assert (lease and (lease.holder, lease.epoch, lease.expires)) == (
            expected.holder and (expected.holder, expected.epoch, expected.expires)
        )

    def _holds(self, lease: Lease) -> bool:
        return (lease.holder, lease.epoch) == (self.expected.holder, self.expected.epoch)


def test_only_the_newest_epoch_renews_and_writes(catalog: Catalog, clock: ManualClock) -> None:
    with_stream(catalog)
    run_state_machine_as_test(
        lambda: LeaseMachine(catalog, clock),  # type: ignore[arg-type]
        settings=settings(max_examples=40, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)),
    )


@pytest.mark.postgres
def test_a_process_that_freezes_while_it_renews_its_lease_loses_it(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SESSION, "idle_in_transaction_session_timeout", "500ms")
    frozen = Store(open_engine(postgres_url))
    with Catalog.open(postgres_url) as catalog:
        assert catalog.leases.acquire("default", "a", 1) is not None

        def renew_slowly() -> None:
            with frozen.write() as connection:
                connection.execute(update(LEASES).values(address="http://127.0.0.1:2"))
                catalog.leases.acquire("default", "b", 60_000)
                connection.execute(select(LEASES))

        with pytest.raises(TransientError, match="frozen"):
            renew_slowly()
        lease = catalog.leases.get("default")
        assert lease is not None
        assert (lease.holder, lease.epoch, lease.address) == ("b", 2, None)
    frozen.close()
