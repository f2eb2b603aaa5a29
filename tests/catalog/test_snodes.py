from __future__ import annotations

import pytest

from headrace.catalog import Catalog
from headrace.errors import FencedError, NotFoundError
from headrace.model.clock import ManualClock
from headrace.model.snodes import Heartbeat


def test_the_last_heartbeat_is_kept(catalog: Catalog, clock: ManualClock) -> None:
    lease = catalog.leases.acquire("default", "a", 100, "http://127.0.0.1:1")
    assert lease is not None
    catalog.snodes.beat(lease, token="first")
    clock.advance(50)
    beat = catalog.snodes.beat(lease, token="secret", detail={"streams": 2, "lag_ms": None, "feeds": ["a", "b"]})
    expected = Heartbeat(
        "default", 1, clock.now(), "http://127.0.0.1:1", "secret", {"streams": 2, "lag_ms": None, "feeds": ["a", "b"]}
    )
    assert beat == expected
    assert catalog.snodes.get("default") == expected
    assert catalog.snodes.all() == [expected]


def test_a_token_does_not_show_in_logs(catalog: Catalog) -> None:
    lease = catalog.leases.acquire("default", "a", 100)
    assert lease is not None
    assert "secret" not in repr(catalog.snodes.beat(lease, token="secret"))


def test_a_driver_that_lost_its_lease_writes_no_heartbeat(catalog: Catalog, clock: ManualClock) -> None:
    old = catalog.leases.acquire("default", "a", 100)
    clock.advance(100)
    new = catalog.leases.acquire("default", "b", 100)
    assert old is not None
    assert new is not None
    catalog.snodes.beat(new)
    with pytest.raises(FencedError):
        catalog.snodes.beat(old)
    assert catalog.snodes.get("default").epoch == 2


def test_an_snode_that_never_lived_is_missing(catalog: Catalog) -> None:
    lease = catalog.leases.acquire("default", "a", 100)
    assert lease is not None
    catalog.snodes.beat(lease)
    with pytest.raises(NotFoundError, match="snode defalt does not exist") as caught:
        catalog.snodes.get("defalt")
    assert caught.value.hint == "did you mean default?"
