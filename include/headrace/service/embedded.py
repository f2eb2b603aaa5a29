"""Run streams and continuous queries in the connection's own process while no snode does."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from typing import Final

from headrace.catalog.processes import process_identity
from headrace.errors import FencedError, OperationalError
from headrace.history.backfill import fill_history
from headrace.model.jobs import DesiredState, JobKind, JobRecord, JobState
from headrace.model.snodes import Lease
from headrace.runtime.context import Context
from headrace.runtime.continuous_queries import execute_due
from headrace.runtime.epochs import raise_epoch
from headrace.streams.sources.poller import SourcePollers

# How long `settle` waits for a live snode that makes no progress.
MAX_STALL_SECONDS: Final = 120
# Streams that write to each other's sources would never settle.
MAX_ROUNDS: Final = 10_000


class EmbeddedRunner:
    """The streams of one home, run by calls of `settle`."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._lease: Lease | None = None
        self._pollers: SourcePollers | None = None
        self._holder = f"connection {process_identity()} {threading.get_ident()}-{id(self)}"

    def settle(self) -> None:
        """Return when every running stream has processed all that was written before the call, and no execution is due.

        If a live snode holds the lease, wait for it instead.
        """
        if not self._load_records():
            return
        if not self._take_lease():
            self._wait_for_snode()
            return
        try:
            self._run()
        except FencedError:
            if not self._raise_epoch():
                raise
            self._run()

    def _raise_epoch(self) -> bool:
        """Raise the lease's epoch above those its targets have recorded, as after restoring the catalog from a backup.

        Returns:
            False if another holder has taken the streams over.
        """
        lease, self._lease = self._lease, None
        self._drop_pollers()
        if lease is not None:
            self._lease = raise_epoch(self._context, lease, self._context.settings.lease_ms)
        return self._lease is not None

    def close(self) -> None:
        """Stop the streams and release the lease."""
        self._drop_pollers()
        if self._lease is not None:
            self._context.catalog.leases.release(self._lease)
            self._lease = None

    def _drop_pollers(self) -> None:
        pollers, self._pollers = self._pollers, None
        if pollers is not None:
            pollers.close()

    def _load_records(self) -> list[JobRecord]:
        return self._context.catalog.jobs.all(snode=self._context.settings.snode)

    def _take_lease(self) -> bool:
        """Acquire or renew the snode's lease; return False if a live snode holds it."""
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
            records = self._load_records()
            self._pollers.reconcile([record for record in records if record.definition.kind is JobKind.STREAM])
            if not self._pollers.poll() and not execute_due(self._context, records, self._holder):
                return
            self._lease = self._context.catalog.leases.renew(self._lease, self._context.settings.lease_ms)
        raise OperationalError("the streams do not settle", hint="check that no two streams write to each other's source")

    def _fill_histories(self) -> None:
        for record in self._load_records():
            if record.state is JobState.FILLING and record.desired is DesiredState.RUNNING:
                fill_history(self._context, record.definition.id)

    def _wait_for_snode(self) -> None:
        """Wait until the snode has processed what has been written so far."""
        required = {
            record.definition.id: self._source_version(record)
            for record in self._load_records()
            if record.definition.kind is JobKind.STREAM
        }
        last_change, previous = time.monotonic(), None
        while behind := self._lagging_streams(required):
            now = time.monotonic()
            if behind != previous:
                last_change, previous = now, behind
            if now - last_change > MAX_STALL_SECONDS:
                raise OperationalError(
                    f"snode {self._context.settings.snode} makes no progress with {len(behind)} streams", hint="see its log"
                )
            time.sleep(0.05)

    def _lagging_streams(self, required: dict[str, int]) -> dict[str, int | None]:
        """Return the source versions of the running streams that have not reached the required ones, by stream."""
        return {
            record.definition.id: record.source_version
            for record in self._load_records()
            if record.desired is DesiredState.RUNNING
            and record.state is not JobState.STOPPED
            and (record.source_version or 0) < required.get(record.definition.id, 0)
        }

    def _source_version(self, record: JobRecord) -> int:
        definition = record.definition
        table = self._context.catalog.tables.get(definition.source.database, definition.source.name)
        return self._context.tables.version(table)
