"""Feeds: one reader of changes a source table, and the streams that take them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import Final

from headrace.errors import Error, FencedError, TransientError
from headrace.model.faults import FaultError
from headrace.model.streams import DesiredState, StopReason, StreamRecord, StreamState
from headrace.model.tables import Database, Table
from headrace.streams.context import Context
from headrace.streams.failures import explained
from headrace.streams.reader import ChangeReader
from headrace.streams.runner import Runner

ATTEMPTS: Final = 5
"""Times that a batch is tried while it fails for a reason that may pass."""

FIRST_WAIT_S: Final = 0.1
LONGEST_WAIT_S: Final = 5.0
THREADS: Final = 4


@dataclass(slots=True)
class Seat:
    """A stream's place in a feed. `due` is when it may be tried again, on the monotonic clock."""

    record: StreamRecord
    runner: Runner | None = None
    work: Future[bool] | None = None
    failures: int = 0
    due: float = 0.0
    leaving: bool = False


@dataclass(slots=True)
class Round:
    """What one round found to do."""

    running: list[Seat] = field(default_factory=list)
    waiting: list[Seat] = field(default_factory=list)


class Feed:
    """Reads the changes of one source table and hands them to its streams, each at its own position.

    Streams at the same position share what was read. One that fails is marked STOPPED in the catalog and leaves.
    """

    def __init__(
        self,
        source: Table,
        database: Database,
        context: Context,
        pool: ThreadPoolExecutor | None = None,
        observe: Callable[[float], None] = lambda _: None,
    ) -> None:
        self.source = source
        self.database = database
        self.context = context
        self.reader = ChangeReader(context, source)
        self._observe = observe
        self._own_pool = pool is None
        self._pool = pool or ThreadPoolExecutor(THREADS, thread_name_prefix=f"feed-{source.name}")
        self._seats: dict[str, Seat] = {}

    def add(self, record: StreamRecord) -> None:
        """Take a stream in, at the position it has recorded. An error is recorded as its reason to stop, not raised."""
        if record.definition.id not in self._seats:
            self._seats[record.definition.id] = Seat(record)

    def remove(self, stream_id: str) -> None:
        """Let a stream leave; waits for the batch it is in."""
        seat = self._seats.pop(stream_id, None)
        if seat is not None and seat.work is not None:
            wait([seat.work])
            self._conclude(seat)

    @property
    def streams(self) -> frozenset[str]:
        """Ids of the streams taken in."""
        return frozenset(self._seats)

    def poll(self) -> bool:
        """One round: every stream that is behind and idle gets its next batch; returns when the first of those ends.

        True when there was something to do, so that `while feed.poll(): pass` settles. Never raises for a stream's sake.

        Raises:
            FencedError: this driver's lease has passed to another.
        """
        found = self.start()
        if found.running:
            wait([seat.work for seat in found.running if seat.work is not None], return_when=FIRST_COMPLETED)
            self.collect()
        elif found.waiting:
            time.sleep(max(0.0, min(seat.due for seat in found.waiting) - time.monotonic()))
        return bool(found.running or found.waiting)

    def start(self) -> Round:
        """Give idle streams that are behind their next batch; nothing is waited for."""
        newest = self.reader.newest() if self._seats else 0
        found = Round()
        for seat in self._seats.values():
            if seat.work is not None:
                found.running.append(seat)
            elif seat.due > time.monotonic():
                found.waiting.append(seat)
            elif seat.runner is None or seat.failures or seat.runner.position < newest:
                seat.work = self._pool.submit(self._advance, seat)
                found.running.append(seat)
        return found

    def collect(self) -> None:
        """Take note of the batches that have ended."""
        for seat in list(self._seats.values()):
            if seat.work is not None and seat.work.done():
                self._conclude(seat)

    @property
    def work(self) -> list[Future[bool]]:
        """Batches under way."""
        return [seat.work for seat in self._seats.values() if seat.work is not None]

    def close(self) -> None:
        """Wait for batches under way and let all streams go."""
        wait(self.work)
        self._seats.clear()
        if self._own_pool:
            self._pool.shutdown()

    def _advance(self, seat: Seat) -> bool:
        if seat.runner is None:
            seat.runner = Runner(self.context, seat.record, self.reader)
        elif seat.failures:
            seat.runner.reset()
        began = time.monotonic()
        advanced = seat.runner.advance()
        if advanced:
            self._observe(time.monotonic() - began)
        return advanced

    def _conclude(self, seat: Seat) -> None:
        """What the end of a batch means for its stream."""
        work, seat.work = seat.work, None
        error = work.exception() if work is not None else None
        if error is None:
            seat.failures = 0
        elif isinstance(error, FaultError | FencedError) or not isinstance(error, Exception):
            raise error
        else:
            self._failed(seat, explained(error))

    def _failed(self, seat: Seat, error: Error) -> None:
        seat.failures += 1
        if isinstance(error, TransientError) and seat.failures < ATTEMPTS:
            seat.due = time.monotonic() + min(LONGEST_WAIT_S, FIRST_WAIT_S * 2 ** (seat.failures - 1))
            return
        stream_id = seat.record.definition.id
        self._seats.pop(stream_id, None)
        reason = StopReason(error.code, error.message, error.hint, self.context.clock.now(), isinstance(error, TransientError))
        self.context.catalog.streams.set_state(stream_id, StreamState.STOPPED, reason)
        self.context.catalog.events.record("stream", stream_id, "STOPPED", f"{reason.code}: {reason.message}")


class Feeds:
    """The feeds of a driver: one for every source table of its streams. `observe` is told the seconds of every batch."""

    def __init__(self, context: Context, observe: Callable[[float], None] = lambda _: None) -> None:
        self.context = context
        self._observe = observe
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="feed")
        self._feeds: dict[tuple[str, str], Feed] = {}

    @property
    def streams(self) -> frozenset[str]:
        """Ids of the streams that run."""
        return frozenset(stream for feed in self._feeds.values() for stream in feed.streams)

    def reconcile(self, records: Sequence[StreamRecord]) -> None:
        """Make the streams that run those of `records` that should.

        Taken in: desired RUNNING and observed CREATED (without history), RUNNING or PAUSED; they become RUNNING. Desired PAUSED
        leave and become PAUSED. FILLING and STOPPED ones, and those not in `records`, are not run.
        """
        wanted = {record.definition.id: record for record in records if runs(record)}
        for feed in self._feeds.values():
            for stream_id in feed.streams - wanted.keys():
                feed.remove(stream_id)
        for record in records:
            if record.desired is DesiredState.PAUSED and record.state in (StreamState.CREATED, StreamState.RUNNING):
                self.context.catalog.streams.set_state(record.definition.id, StreamState.PAUSED)
        for stream_id in wanted.keys() - self.streams:
            self._take_in(wanted[stream_id])
        for place in [place for place, feed in self._feeds.items() if not feed.streams]:
            self._feeds.pop(place).close()

    def poll(self, timeout_s: float | None = None) -> bool:
        """One round of every feed; True when one had something to do.

        With `timeout_s` it does not wait longer than that for the first batch to end, so that streams that are idle get what has
        come for them while others are at work.
        """
        rounds = [feed.start() for feed in self._feeds.values()]
        work = [work for feed in self._feeds.values() for work in feed.work]
        if work:
            wait(work, timeout_s, return_when=FIRST_COMPLETED)
            for feed in self._feeds.values():
                feed.collect()
        waiting = [seat.due for found in rounds for seat in found.waiting]
        if waiting and not work:
            pause = max(0.0, min(waiting) - time.monotonic())
            time.sleep(pause if timeout_s is None else min(pause, timeout_s))
        return bool(work or waiting)

    def close(self) -> None:
        """Wait for batches under way and let all streams go."""
        for feed in self._feeds.values():
            feed.close()
        self._feeds.clear()
        self._pool.shutdown()

    def _take_in(self, record: StreamRecord) -> None:
        definition = record.definition
        place = (definition.source_database, definition.source_table)
        if place not in self._feeds:
            database = self.context.catalog.databases.get(place[0])
            source = self.context.catalog.tables.get(*place)
            self._feeds[place] = Feed(source, database, self.context, self._pool, self._observe)
        if record.state is not StreamState.RUNNING:
            self.context.catalog.streams.set_state(definition.id, StreamState.RUNNING)
        self._feeds[place].add(record)


def runs(record: StreamRecord) -> bool:
    """Whether a driver should run a stream: it is wanted, stands somewhere, and nothing else is at work on it."""
    placed = record.progress.source_version is not None or record.progress.boundary is not None
    ready = record.state in (StreamState.CREATED, StreamState.RUNNING, StreamState.PAUSED)
    return record.desired is DesiredState.RUNNING and ready and placed
