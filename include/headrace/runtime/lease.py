"""Acquiring and keeping the lease of an snode: one driver at a time, identified by its epoch."""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from headrace.catalog.processes import process_identity
from headrace.errors import FencedError, TransientError
from headrace.model.snodes import Lease

if TYPE_CHECKING:
    from headrace.catalog import Catalog

logger = logging.getLogger(__name__)

# Renew three times within the lease's duration, so that one or two slow renewals do not lose it.
RENEWALS_PER_LEASE: Final = 3
# The pause between attempts to acquire a lease that another driver holds.
ACQUIRE_PAUSE_S: Final = 0.5
# A driver whose main loop has not reported for this long stops renewing, so that another can take over.
MAX_LOOP_AGE_S: Final = 60.0


def holder_name() -> str:
    """Return the name that identifies this driver in its lease: its process, and a unique part."""
    return f"{process_identity()}:{uuid.uuid4().hex[:8]}"


def acquire(
    catalog: Catalog,
    snode: str,
    holder: str,
    ttl_ms: int,
    *,
    address: str | None = None,
    wait_s: float | None = None,
    stopped: threading.Event | None = None,
    waiting: Callable[[Lease | None], None] = lambda _: None,
) -> Lease | None:
    """Take the lease of an snode, waiting while another driver holds it.

    Waits at most `wait_s`, if that is not None, and until `stopped` is set; returns None then. If another driver holds the lease,
    `waiting` is called once, with that lease.
    """
    deadline = None if wait_s is None else time.monotonic() + wait_s
    stopped = stopped or threading.Event()
    contender = Contender(catalog, snode, holder, ttl_ms, address)
    lease = catalog.leases.acquire(snode, holder, ttl_ms, address=address)
    if lease is None:
        waiting(catalog.leases.get(snode))
    while True:
        lease = lease or contender.acquire()
        if lease is not None:
            return lease
        pause = ACQUIRE_PAUSE_S
        if deadline is not None:
            pause = min(pause, deadline - time.monotonic())
        if pause <= 0 or stopped.wait(pause):
            return None


@dataclass
class Contender:
    """Waits for a lease that another driver holds. After an outage of the catalog, the holder has one duration to renew it."""

    catalog: Catalog
    snode: str
    holder: str
    ttl_ms: int
    address: str | None
    away: bool = False
    hold_back_until: float = 0.0

    def acquire(self) -> Lease | None:
        """Take the lease if it is free; None if it is not, or the catalog cannot be reached."""
        try:
            if self._is_holding_back() and self.catalog.leases.get(self.snode) is not None:
                return None
            return self.catalog.leases.acquire(self.snode, self.holder, self.ttl_ms, address=self.address)
        except TransientError as error:
            if not self.away:
                logger.warning("waiting for the catalog: %s", error.message)
            self.away = True
            return None

    def _is_holding_back(self) -> bool:
        """Return True if an expired lease is left to its holder, which could not renew it during an outage."""
        if self.away:
            self.catalog.now()  # raises while the catalog is still away
            self.away = False
            self.hold_back_until = time.monotonic() + self.ttl_ms / 1000
        return time.monotonic() < self.hold_back_until


class LeaseKeeper:
    """Renews a lease in its own thread until it is released or lost.

    `lost` is set, and `changed` called, when another driver has taken over.

    While the catalog is away the lease can be neither renewed nor taken, and it expires. The driver keeps working nevertheless. A
    successor commits a newer epoch to the targets first, and from then on this driver's commits fail, whether it knows of its
    successor or not. When the catalog is back, the lease is renewed unless it has been taken.
    """

    def __init__(self, catalog: Catalog, lease: Lease, ttl_ms: int, changed: Callable[[], None] = lambda: None) -> None:
        self._catalog = catalog
        self._lease = lease
        self._ttl_ms = ttl_ms
        self._changed = changed
        self._renewing = threading.Lock()
        self._released = threading.Event()
        self._reported_at = time.monotonic()
        self.lost = threading.Event()
        self._thread = threading.Thread(target=self._run, name="lease", daemon=True)

    @property
    def lease(self) -> Lease:
        """The lease as last renewed."""
        return self._lease

    @property
    def epoch(self) -> int:
        return self._lease.epoch

    def start(self) -> None:
        self._thread.start()

    def publish(self, address: str) -> None:
        with self._renewing:
            self._renew(replace(self._lease, address=address))

    def _renew(self, lease: Lease) -> None:
        self._lease = self._catalog.leases.renew(lease, self._ttl_ms)

    def outrun(self, epoch: int) -> bool:
        """Make the lease's epoch newer than another one; return False if it is so already.

        Raises:
            FencedError: The lease has passed to another driver.
        """
        if self._lease.epoch > epoch:
            return False
        with self._renewing:
            self._lease = self._catalog.leases.raise_epoch(self._lease, epoch + 1, self._ttl_ms)
        return True

    def report_alive(self) -> None:
        """Report that the main loop runs. Without reports the lease is left to expire."""
        self._reported_at = time.monotonic()

    def release(self) -> None:
        """Release the lease, so that the next driver need not wait for it to expire."""
        self._released.set()
        self._thread.join(5)
        if self.lost.is_set():
            return
        try:
            self._catalog.leases.release(self._lease)
        except (FencedError, TransientError) as error:
            logger.warning("leaving the lease to expire, since it could not be released: %s", error.message)

    def _run(self) -> None:
        while not self._released.wait(self._ttl_ms / 1000 / RENEWALS_PER_LEASE):
            if time.monotonic() - self._reported_at > MAX_LOOP_AGE_S:
                logger.error("leaving the lease to expire: the main loop hangs")
                continue
            try:
                with self._renewing:
                    self._renew(self._lease)
            except FencedError as error:
                logger.error("lost the lease: %s", error.message)
                self.lost.set()
                self._changed()
                return
            except TransientError as error:
                logger.warning("retrying the renewal of the lease: %s", error.message)
