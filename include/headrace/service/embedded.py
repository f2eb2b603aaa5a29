"""Run streams, continuous queries and pipes in the connection's own process while no snode does."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import Final
from weakref import WeakSet

from headrace.catalog.processes import CONNECTION, process_identity
from headrace.context import Context, allow_all
from headrace.errors import Error, FencedError, OperationalError, PermissionDeniedError, TransientError
from headrace.history.backfill import fill_history, is_filled
from headrace.jobs.hosts import Driving
from headrace.jobs.registry import kind_of
from headrace.model.access import administrator
from headrace.model.failpoints import FailpointError
from headrace.model.job_parts import part_number
from headrace.model.jobs import DesiredState, JobRecord, JobState
from headrace.model.positions import Offsets, is_behind
from headrace.model.snodes import Lease
from headrace.pipes.progress import PipeWatch
from headrace.runtime.continuous_queries import execute_due
from headrace.runtime.epochs import raise_epoch
from headrace.runtime.job_host import JobHost
from headrace.runtime.owner_rights import OwnerRights
from headrace.runtime.sharing import Moves, read_shared_jobs
from headrace.runtime.stream_metrics import StreamSampler
from headrace.settings import Settings
from headrace.streams.failures import stop_job
from headrace.streams.sources.source_tables import latest_offsets

# How long `settle` waits for a live snode that makes no progress.
MAX_STALL_SECONDS: Final = 120
# Streams that write to each other's sources would never settle.
MAX_ROUNDS: Final = 10_000
# The lease is renewed this often before it ends.
LEASE_PART: Final = 4

_runners: WeakSet[EmbeddedRunner] = WeakSet()


class Left:
    """Jobs that are left out until the next call of `settle`, with what prevents them, while the others continue."""

    def __init__(self) -> None:
        self.errors: dict[str, Error] = {}

    @contextmanager
    def on_error(self, record: JobRecord) -> Iterator[None]:
        """Leave a job out if its part fails in a `with` block, unless this process has lost its lease."""
        try:
            yield
        except FencedError:
            raise
        except Error as error:
            self.errors[record.definition.id] = error

    def raise_first(self) -> None:
        for error in self.errors.values():
            raise error


class EmbeddedRunner:
    """The streams of one home, run by calls of `settle`."""

    def __init__(self, context: Context) -> None:
        # Jobs run with the rights of their owners, not with those of whom settles.
        self._context = replace(context, user="", authorize_points=allow_all, permissions=administrator)
        self._lease: Lease | None = None
        self._host: JobHost | None = None
        self._sampler = StreamSampler(self._context)
        self._holder = f"{CONNECTION} {process_identity()} {threading.get_ident()}-{id(self)}"
        self._busy = threading.Lock()
        self._report: Callable[[str], None] = lambda _: None
        _runners.add(self)

    def settle(self, report: Callable[[str], None]) -> None:
        """Return when every running stream has processed all that was written before the call, and no execution is due.

        If a live snode holds the lease, wait for it instead. Another connection of this process hands its lease over. `report` is
        called with what takes its time, whenever that changes.
        """
        with self._busy:
            self._report = report
            if not self._load_records() and read_shared_jobs(self._context.catalog) is None:
                return
            if self._take_lease() or self._take_over() or self._wait_for_snode():
                self._run_fenced()
                self._wait_for_others()

    def _run_fenced(self) -> None:
        try:
            self._run()
        except FencedError:
            if not self._raise_epoch():
                raise
            self._run()

    def _raise_epoch(self) -> bool:
        """Raise the lease's epoch above those its targets have recorded, as after restoring the catalog from a backup.

        Returns False if another holder has taken the streams over.
        """
        lease, self._lease = self._lease, None
        self._close_host()
        if lease is not None:
            self._lease = raise_epoch(self._context, lease, self._context.settings.lease_ms)
        return self._lease is not None

    def close(self) -> None:
        """Stop the streams and release the lease."""
        with self._busy:
            self._release()

    def _take_over(self) -> bool:
        """Take the lease that an idle connection of this process holds, which would not use it until it settles again."""
        for other in list(_runners):
            if other is not self and other.is_of(self._context.settings) and other._busy.acquire(blocking=False):
                try:
                    other._release()
                finally:
                    other._busy.release()
        return self._take_lease()

    def is_of(self, settings: Settings) -> bool:
        """Return whether it runs the streams of the snode that these settings name."""
        own = self._context.settings
        return (own.catalog, own.snode) == (settings.catalog, settings.snode)

    def _release(self) -> None:
        self._close_host()
        if self._lease is not None:
            self._context.catalog.leases.release(self._lease)
            self._lease = None

    def _close_host(self) -> None:
        host, self._host = self._host, None
        if host is not None:
            host.close()

    def _load_records(self) -> list[JobRecord]:
        return self._context.catalog.jobs.parts(snode=self._context.settings.snode)

    def _take_lease(self) -> bool:
        """Acquire or renew the snode's lease; return False if a live snode holds it."""
        leases, ttl = self._context.catalog.leases, self._context.settings.lease_ms
        if self._lease is not None:
            try:
                self._lease = leases.renew(self._lease, ttl)
                return True
            except FencedError:
                self._lease = None
                self._close_host()
        self._lease = leases.acquire(self._context.settings.snode, self._holder, ttl)
        return self._lease is not None

    def _run(self) -> None:
        assert self._lease is not None
        self._lease = self._take_jobs(self._lease)
        context = replace(self._context, epoch=self._lease.epoch)
        host = self._host = self._host or JobHost(Driving(context))
        rounds, left = iter(range(MAX_ROUNDS)), Left()
        for _ in rounds:
            records = [record for record in self._permitted(self._load_records()) if record.definition.id not in left.errors]
            if self._fill_histories(records, left):
                continue
            self._reconcile(host, records, left)
            if not self._poll(host, rounds) and not execute_due(self._context, records, self._holder):
                self._sampler.take(host, records)
                left.raise_first()
                return
        raise OperationalError("the jobs do not settle", hint="check that no two of them write to each other's source")

    def _permitted(self, records: list[JobRecord]) -> list[JobRecord]:
        """Stop the jobs whose owners may not run them any more, and return the others."""
        owners, permitted = OwnerRights(self._context.catalog), []
        for record in records:
            try:
                if record.desired is DesiredState.RUNNING and record.state is not JobState.STOPPED:
                    owners.check(record.definition)
                permitted.append(record)
            except PermissionDeniedError as error:
                stop_job(self._context, record.definition.id, error)
        return permitted

    def _reconcile(self, host: JobHost, records: list[JobRecord], left: Left) -> None:
        host.reconcile([record for record in records if not kind_of(record.definition).is_scheduled])
        for record in records:
            if record.desired is DesiredState.DROPPED and record.definition.id not in host.running:
                with left.on_error(record):
                    kind_of(record.definition).drop()(self._context, record.definition)

    def _poll(self, host: JobHost, rounds: Iterator[int]) -> bool:
        """Poll until there is nothing to do; return False if there was nothing."""
        settings, busy = self._context.settings, host.poll()
        renew_at = time.monotonic()
        for _ in rounds if busy else ():
            if time.monotonic() >= renew_at:
                assert self._lease is not None
                self._lease = self._context.catalog.leases.renew(self._lease, settings.lease_ms)
                renew_at = time.monotonic() + settings.lease_ms / LEASE_PART / 1000
            if not host.poll():
                break
        return busy

    def _take_jobs(self, lease: Lease) -> Lease:
        """Take the jobs of snodes that share them and are dead, and return the lease, whose epoch is newer than theirs."""
        catalog = self._context.catalog
        shared = read_shared_jobs(catalog)
        moves = Moves() if shared is None else shared.moves(lease.snode)
        epoch = 0 if shared is None else shared.newest_epoch(moves.take)
        if epoch >= lease.epoch:
            self._close_host()
            lease = catalog.leases.raise_epoch(lease, epoch + 1, self._context.settings.lease_ms)
        for job_id, owner in moves.take.items():
            catalog.jobs.move(job_id, owner, lease.snode)
        return lease

    def _fill_histories(self, records: list[JobRecord], left: Left) -> bool:
        """Fill the histories of streams that begin with one, and return whether there were any. A stream that fails is STOPPED."""
        filling = [
            record
            for record in records
            if is_polled(record) and record.state is JobState.FILLING and record.desired is DesiredState.RUNNING
            if not part_number(record.definition.id) or is_filled(self._context, record.definition.id)
        ]
        for record in filling:
            self._report(f"Computing the history of {record.definition.kind} {record.definition}")
            with left.on_error(record):
                self._fill_or_stop(record.definition.id)
        return bool(filling)

    def _fill_or_stop(self, job_id: str) -> None:
        try:
            fill_history(self._context, job_id)
        except (FailpointError, FencedError):
            raise
        except Exception as error:
            if type(error) is TransientError:  # another process has a lock
                raise
            stop_job(self._context, job_id, error)

    def _wait_for_snode(self) -> bool:
        """Wait until the snode has processed what has been written so far; return True if its lease has ended before that."""
        shared = read_shared_jobs(self._context.catalog)
        records = self._load_records() if shared is None else list(shared.records.values())
        return any(self._take_lease() for _ in self._watch_progress(records))

    def _wait_for_others(self) -> None:
        """Wait until the snodes that share jobs have processed what has been written so far; take jobs of dead ones."""
        shared = read_shared_jobs(self._context.catalog)
        if shared is None or self._context.settings.snode not in shared.members:
            return
        own = self._context.settings.snode
        for _ in self._watch_progress([record for record in shared.records.values() if record.definition.snode != own]):
            self._run_fenced()

    def _watch_progress(self, records: list[JobRecord]) -> Iterator[None]:
        """Yield until streams and pipes have processed what had been written at the start; raise if they make no progress."""
        required = {
            record.definition.id: latest_offsets(self._context, record.definition.sources)
            for record in records
            if is_polled(record)
        }
        names = {record.definition.id: f"{record.definition.kind} {record.definition}" for record in records}
        with closing(PipeWatch(self._context, records)) as pipes:
            last_change, previous = time.monotonic(), None
            while behind := self._lagging_jobs(required, pipes):
                now = time.monotonic()
                if previous is None or behind.keys() != previous.keys():
                    first, more = names[min(behind)], len(behind) - 1
                    self._report(f"Waiting for the snode of {first}" + (f", and {more} more" if more else ""))
                if behind != previous:
                    last_change, previous = now, behind
                if now - last_change > MAX_STALL_SECONDS:
                    raise OperationalError(
                        f"snode {self._context.settings.snode} makes no progress with {len(behind)} jobs", hint="see its log"
                    )
                time.sleep(0.05)
                yield

    def _lagging_jobs(self, required: dict[str, Offsets], pipes: PipeWatch) -> dict[str, Offsets]:
        """Return the offsets of the running jobs that have not reached the required ones, or have rows to replay."""
        records = self._context.catalog.jobs.parts()
        streams = {
            record.definition.id: record.offsets or {}
            for record in records
            if record.definition.id in required
            and record.desired is DesiredState.RUNNING
            and record.state is not JobState.STOPPED
            and (is_behind(record.offsets or {}, required[record.definition.id]) or record.quarantine_requested is not None)
        }
        return streams | pipes.lagging(records)


def is_polled(record: JobRecord) -> bool:
    """Return True if a job reads the changes of tables once its history is filled."""
    return kind_of(record.definition).history is not None
