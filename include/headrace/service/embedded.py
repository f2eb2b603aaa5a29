"""Streams run by the connection itself, for as long as no snode does."""

from __future__ import annotations

import os
import threading
import time
from dataclasses import replace
from typing import Final

from headrace.errors import FencedError, OperationalError
from headrace.history.backfill import fill_history
from headrace.model.jobs import DesiredState, JobRecord, JobState
from headrace.model.snodes import Lease
from headrace.runtime.context import Context
from headrace.runtime.epochs import raise_epoch
from headrace.streams.sources.poller import SourcePollers

# How long `settle` waits for a living snode that does not get ahead.
STALLED_SECONDS: Final = 120
# Rounds after which a settle gives up: streams that feed each other in a circle would go on for ever.
MAX_ROUNDS: Final = 10_000


class Embedded:
    """The streams of one home, driven by whoever calls `settle`."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._lease: Lease | None = None
        self._pollers: SourcePollers | None = None
        self._holder = f"connection {os.getpid()}-{threading.get_ident()}-{id(self)}"

    def settle(self) -> None:
        """Return when every stream that runs has handled all that was written before the call."""
        if not self._records():
            return
        if not self._take_lease():
            self._wait()
            return
        try:
            self._run()
        except FencedError:
            if not self._raise_epoch():
                raise
            self._run()

    def _raise_epoch(self) -> bool:
        """Outrank the targets of a catalog that was restored from a backup; False if another holder has taken the streams over."""
        lease, self._lease = self._lease, None
        self._drop_pollers()
        if lease is not None:
            self._lease = raise_epoch(self._context, lease, self._context.settings.lease_ms)
        return self._lease is not None

    def close(self) -> None:
        """Let the streams go, and the lease."""
        self._drop_pollers()
        if self._lease is not None:
            self._context.catalog.leases.release(self._lease)
            self._lease = None

    def _drop_pollers(self) -> None:
        pollers, self._pollers = self._pollers, None
        if pollers is not None:
            pollers.close()

    def _records(self) -> list[JobRecord]:
        return self._context.catalog.jobs.all(snode=self._context.settings.snode)

    def _take_lease(self) -> bool:
        """Hold the snode's lease; False where a living snode has it."""
        leases, ttl = self._context.catalog.leases, self._context.settings.lease_ms
        if self._lease is not None:
            try:
                self._lease = leases.renew(self._lease, ttl)
                return True
            except FencedError:
                self._lease = None
                self._drop_pollers()
        self._lease = leases.acquire(self._context.settings.snode, self._holder, ttl)
        return self._lease is not None

    def _run(self) -> None:
        assert self._lease is not None
        if self._pollers is None:
            self._pollers = SourcePollers(replace(self._context, epoch=self._lease.epoch))
        for _ in range(MAX_ROUNDS):
            self._fill_histories()
            self._pollers.reconcile(self._records())
            if not self._pollers.poll():
                return
            self._lease = self._context.catalog.leases.renew(self._lease, self._context.settings.lease_ms)
        raise OperationalError("the streams do not settle", hint="do two streams write to each other's source?")

    def _fill_histories(self) -> None:
        for record in self._records():
            if record.state is JobState.FILLING and record.desired is DesiredState.RUNNING:
                fill_history(self._context, record.definition.id)

    def _wait(self) -> None:
        """Wait until the snode has handled what has been written so far."""
        wanted = {record.definition.id: self._source_version(record) for record in self._records()}
        last_change, before = time.monotonic(), None
        while behind := self._behind(wanted):
            now = time.monotonic()
            if behind != before:
                last_change, before = now, behind
            if now - last_change > STALLED_SECONDS:
                raise OperationalError(
                    f"the snode {self._context.settings.snode} does not get ahead with {len(behind)} streams", hint="see its log"
                )
            time.sleep(0.05)

    def _behind(self, wanted: dict[str, int]) -> dict[str, int | None]:
        """Running streams that are not yet where they should be, with where they are."""
        return {
            record.definition.id: record.source_version
            for record in self._records()
            if record.desired is DesiredState.RUNNING
            and record.state is not JobState.STOPPED
            and (record.source_version or 0) < wanted.get(record.definition.id, 0)
        }

    def _source_version(self, record: JobRecord) -> int:
        definition = record.definition
        table = self._context.catalog.tables.get(definition.source.database, definition.source.name)
        return self._context.tables.version(table)
