"""Snodes: the lease that says which driver may run one, and the heartbeats by which the driver shows that it lives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

MAX_LEASE_MS: Final = 3_600_000
"""No lease lasts longer."""
MAX_AHEAD_MS: Final = 2 * MAX_LEASE_MS
"""A lease that ends later is of a clock that was ahead. One may have been acquired after the instant by which it is judged, so this
is more than a lease lasts."""


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to run an snode. A holder whose epoch is not the newest may not commit. `expires` is in epoch milliseconds."""

    snode: str
    holder: str
    epoch: int
    expires: int
    address: str | None = None

    def is_valid(self, now: int) -> bool:
        """Return whether it has not expired. One of a clock that was ahead counts as expired."""
        return now <= self.expires <= now + MAX_AHEAD_MS


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """An snode's last sign of life: `at` in epoch milliseconds; `address` and `token` open its HTTP endpoint; `detail` is JSON."""

    snode: str
    epoch: int
    at: int
    address: str | None = None
    token: str | None = field(default=None, repr=False)
    detail: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DriverStatus:
    """The lease and last heartbeat of an snode's driver, read from the catalog `at` an instant in epoch milliseconds."""

    at: int
    lease: Lease | None
    heartbeat: Heartbeat | None

    def is_unchanged(self, lease: Lease | None, heartbeat: Heartbeat | None) -> bool:
        """Return True if a later read shows the same holder, no newer heartbeat, and no renewal of an expired lease."""
        beats = [(beat.epoch, beat.at) if beat else None for beat in (self.heartbeat, heartbeat)]
        if beats[0] != beats[1] or self.lease is None or lease is None:
            return beats[0] == beats[1] and self.lease is lease
        is_same_holder = (self.lease.holder, self.lease.epoch) == (lease.holder, lease.epoch)
        return is_same_holder and (self.lease.expires >= self.at or self.lease.expires == lease.expires)


@dataclass(frozen=True, slots=True)
class Member:
    """An snode that shares the jobs of the catalog with others: its name, its number, and when it was registered (epoch ms)."""

    name: str
    dnode: int
    created: int


def member_name(dnode: int) -> str:
    """Return the name of the snode of a dnode; that of the first one is in the settings."""
    return f"snode{dnode}"
