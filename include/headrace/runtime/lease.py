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
from headrace.model.streams import Lease

if TYPE_CHECKING:
    from headrace.catalog import Catalog

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
    told = False
    while True:
        lease = catalog.leases.acquire(snode, holder, ttl_ms, address=address)
        if lease is not None:
            return lease
        if not told:
            waiting(catalog.leases.get(snode))
            told = True
        pause = LOOK_S
        if deadline is not None:
            pause = min(pause, deadline - time.monotonic())
        if pause <= 0 or stopped.wait(pause):
            return None


class LeaseKeeper:
    """Renews a lease from a thread of its own until it is released or lost.

    `lost` is set when another driver has taken over; `changed` is called then. While the catalog cannot be reached the lease
    counts as kept: commits are fenced by its epoch in any case.
    """

    def __init__(self, catalog: Catalog, lease: Lease, ttl_ms: int, changed: Callable[[], None] = lambda: None) -> None:
        self._catalog = catalog
        self._lease = lease
        self._ttl_ms = ttl_ms
        self._changed = changed
        self._renewing = threading.Lock()
        self._released = threading.Event()
        self._alive = time.monotonic()
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
        """Say where this driver answers."""
        with self._renewing:
            self._lease = self._catalog.leases.renew(replace(self._lease, address=address), self._ttl_ms)

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
                    self._lease = self._catalog.leases.renew(self._lease, self._ttl_ms)
            except FencedError as error:
                logger.error("the lease is lost: %s", error.message)
                self.lost.set()
                self._changed()
                return
            except TransientError as error:
                logger.warning("the lease could not be renewed: %s", error.message)
