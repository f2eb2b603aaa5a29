"""Keeping the lease of an snode: one driver at a time, known by its epoch."""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from headrace.errors import FencedError, TransientError
from headrace.model.snodes import Lease
from headrace.runtime.epochs import raise_epoch

if TYPE_CHECKING:
    from headrace.catalog import Catalog
    from headrace.runtime.context import Context

logger = logging.getLogger(__name__)

# Renewed three times within its life, so that one slow renewal, or two, do not lose it.
RENEWALS_PER_LIFE: Final = 3
# How often one who waits for a lease looks whether it is free.
LOOK_S: Final = 0.5
# A driver whose main loop has not turned for this long hangs; it stops renewing, so that another may take over.
STALLED_S: Final = 60.0


def holder_name() -> str:
    """How a driver signs its lease: host, process, and a part that no other process has."""
    return f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:8]}"


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
    """Take the lease of an snode, waiting while another holds it.

    Args:
        wait_s: how long to wait, None for as long as it takes.
        stopped: ends the wait.
        waiting: told once, when the lease is held by another.

    Returns:
        None when it was not free in time, or the wait was ended.
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
        pause = LOOK_S
        if deadline is not None:
            pause = min(pause, deadline - time.monotonic())
        if pause <= 0 or stopped.wait(pause):
            return None


class Contender:
    """Waits for a lease that another holds. After the catalog was away the holder has one term to renew it."""

    def __init__(self, catalog: Catalog, snode: str, holder: str, ttl_ms: int, address: str | None) -> None:
        self._catalog = catalog
        self._snode = snode
        self._holder = holder
        self._ttl_ms = ttl_ms
        self._address = address
        self._away = False
        self._patient_until = 0.0

    def acquire(self) -> Lease | None:
        """Take the lease if it is free; None while it is not, or while that cannot be told."""
        try:
            if self._is_patient() and self._catalog.leases.get(self._snode) is not None:
                return None
            return self._catalog.leases.acquire(self._snode, self._holder, self._ttl_ms, address=self._address)
        except TransientError as error:
            if not self._away:
                logger.warning("waiting for the catalog: %s", error.message)
            self._away = True
            return None

    def _is_patient(self) -> bool:
        """Whether an expired lease is left alone, because its holder could not renew it."""
        if self._away:
            self._catalog.now()  # raises while the catalog is still away
            self._away = False
            self._patient_until = time.monotonic() + self._ttl_ms / 1000
        return time.monotonic() < self._patient_until


class LeaseKeeper:
    """Renews a lease from a thread of its own until it is released or lost.

    `lost` is set when another driver has taken over; `changed` is called then.

    While the catalog is away the lease can be neither renewed nor taken, and its end passes: `is_confirmed` is False from then on.
    The driver keeps working all the same. Whoever takes its streams over commits a newer epoch to their targets first, and from
    then on the commits of this driver are refused, whether it knows of its successor or not. When the catalog is back, the lease
    is renewed unless it has been taken.
    """

    def __init__(self, catalog: Catalog, lease: Lease, ttl_ms: int, changed: Callable[[], None] = lambda: None) -> None:
        self._catalog = catalog
        self._lease = lease
        self._ttl_ms = ttl_ms
        self._changed = changed
        self._renewing = threading.Lock()
        self._released = threading.Event()
        self._alive = time.monotonic()
        self._ends = time.monotonic() + ttl_ms / 1000
        self.lost = threading.Event()
        self._thread = threading.Thread(target=self._run, name="lease", daemon=True)

    @property
    def lease(self) -> Lease:
        """The lease as last renewed."""
        return self._lease

    @property
    def epoch(self) -> int:
        return self._lease.epoch

    @property
    def is_confirmed(self) -> bool:
        """Return True until the lease's end as the catalog last confirmed it, measured without comparing clocks."""
        return not self.lost.is_set() and time.monotonic() < self._ends

    def start(self) -> None:
        self._thread.start()

    def publish(self, address: str) -> None:
        """Say where this driver answers."""
        with self._renewing:
            self._renew(replace(self._lease, address=address))

    def _renew(self, lease: Lease) -> None:
        began = time.monotonic()
        self._lease = self._catalog.leases.renew(lease, self._ttl_ms)
        self._ends = began + self._ttl_ms / 1000

    def raise_epoch(self, context: Context) -> bool:
        """Give the lease a newer epoch than its targets have seen; False if they have seen none.

        Raises:
            FencedError: The lease has passed to another driver.
        """
        with self._renewing:
            raised = raise_epoch(context, self._lease, self._ttl_ms)
            self._lease = raised or self._lease
        return raised is not None

    def alive(self) -> None:
        """Called by the main loop each turn: a driver that hangs must not keep its lease."""
        self._alive = time.monotonic()

    def release(self) -> None:
        """Give the lease back, so that the next driver need not wait for it to expire."""
        self._released.set()
        self._thread.join(5)
        if self.lost.is_set():
            return
        try:
            self._catalog.leases.release(self._lease)
        except (FencedError, TransientError) as error:
            logger.warning("the lease could not be given back: %s", error.message)

    def _run(self) -> None:
        while not self._released.wait(self._ttl_ms / 1000 / RENEWALS_PER_LIFE):
            if time.monotonic() - self._alive > STALLED_S:
                logger.error("the main loop hangs: the lease is left to expire")
                continue
            try:
                with self._renewing:
                    self._renew(self._lease)
            except FencedError as error:
                logger.error("the lease is lost: %s", error.message)
                self.lost.set()
                self._changed()
                return
            except TransientError as error:
                logger.warning("the lease could not be renewed: %s", error.message)
