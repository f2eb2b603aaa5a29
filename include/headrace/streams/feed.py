"""Feeds: one reader of changes a source table, and the streams that take them."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.model.streams import StreamRecord
from headrace.model.tables import Database, Table
from headrace.streams.context import Context


class Feed:
    """Reads the changes of one source table and hands them to its streams, each at its own position.

    Streams at the same position share what was read. One that fails is marked STOPPED in the catalog and leaves.
    """

    def __init__(self, source: Table, database: Database, context: Context) -> None:
        raise NotImplementedError

    def add(self, record: StreamRecord) -> None:
        """Take a stream in, at the position it has recorded. An error is recorded as its reason to stop, not raised."""
        raise NotImplementedError

    def remove(self, stream_id: str) -> None:
        """Let a stream leave once the batch it is in has ended."""
        raise NotImplementedError

    @property
    def streams(self) -> frozenset[str]:
        """Ids of the streams taken in."""
        raise NotImplementedError

    def poll(self) -> bool:
        """One round: every stream that is behind and idle gets its next batch; returns when the first of those ends.

        True when there was something to do, so that `while feed.poll(): pass` settles. Never raises for a stream's sake.

        Raises:
            FencedError: this driver's lease has passed to another.
        """
        raise NotImplementedError

    def close(self) -> None:
        """Wait for batches under way and let all streams go."""
        raise NotImplementedError


class Feeds:
    """The feeds of a driver: one for every source table of its streams."""

    def __init__(self, context: Context) -> None:
        raise NotImplementedError

    def reconcile(self, records: Sequence[StreamRecord]) -> None:
        """Make the streams that run those of `records` that should.

        Taken in: desired RUNNING and observed CREATED (without history), RUNNING or PAUSED; they become RUNNING. Desired PAUSED
        leave and become PAUSED. FILLING and STOPPED ones, and those not in `records`, are not run.
        """
        raise NotImplementedError

    def poll(self) -> bool:
        """One round of every feed; True when one had something to do."""
        raise NotImplementedError

    def close(self) -> None:
        """Wait for batches under way and let all streams go."""
        raise NotImplementedError
