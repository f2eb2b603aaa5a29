"""Group commit: writes of many threads to one table within a few milliseconds become one commit."""

from __future__ import annotations

import threading
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from headrace.errors import Error, StaleDefinitionError, TransientError
from headrace.storage.delta.commits import WriteMetrics
from headrace.storage.delta.keys import conform_rows
from headrace.storage.types import rows_schema

if TYPE_CHECKING:
    from headrace.model.tables import Database, Table, TableId
    from headrace.storage.delta.writer import Writer

FULL_GROUP_ROWS: Final = 5_000
"""A group of this many rows is committed at once: waiting for more would save little."""


@dataclass(eq=False, slots=True)
class PendingWrite:
    """A write that waits for its commit. `columns` are those that an update replaces; None for all."""

    table: Table
    database: Database
    rows: pa.Table
    columns: tuple[str, ...] | None
    is_of_points: bool
    max_rows: int = 0
    is_first: bool = False
    """Whether no commit was in progress when it arrived."""
    woken: threading.Event = field(default_factory=threading.Event)
    written: WriteMetrics | None = None
    error: BaseException | None = None

    @property
    def is_done(self) -> bool:
        """Whether it is committed, or has failed."""
        return self.written is not None or self.error is not None

    def result(self) -> WriteMetrics:
        """Return the metrics of its commit, or raise its error."""
        if self.error is not None:
            raise self.error
        assert self.written is not None
        return self.written


class _Thread(threading.local):
    """What a thread has said of its writes."""

    is_gathered: bool = False


@dataclass(slots=True)
class WriteQueue:
    """The writes to one table that wait, in the order of their arrival."""

    pending: deque[PendingWrite] = field(default_factory=deque)
    rows: int = 0
    is_led: bool = False
    """Whether a thread is committing, or will do so."""
    full: threading.Event = field(default_factory=threading.Event)


class GroupCommit:
    """Commits rows that several threads write to one table together. Thread-safe.

    The threads of the writers do the work: the first that writes to a table waits `delay_ms`, commits what has arrived meanwhile,
    and hands over to the first of those that have arrived since, which does not wait. `write` and `write_points` return when the
    rows are durable, as those of `Writer` do, so what one thread writes is committed in its order. An invalid row fails its own
    write alone; a lock that cannot be had fails all that wait for it.

    At most `max_bytes` of rows wait for commits of all tables; further writers wait until there is room (a larger write goes in
    alone). That, and as much again for the commits in progress, bounds the memory.

    Where `Context.group_commit` is set, as in the doors of an snode, `INSERT` and `trees.write_points` write through it; callers of
    these need not know.
    """

    def __init__(self, writer: Callable[[], Writer], delay_ms: int, max_bytes: int) -> None:
        """Create it; `writer` returns what commits."""
        self._writer = writer
        self._delay_s = delay_ms / 1000
        self._max_bytes = max_bytes
        self._bytes = 0
        self._refused = 0
        self._room = threading.Condition()
        self._lock = threading.Lock()
        self._thread = _Thread()
        self._queues: dict[TableId, WriteQueue] = defaultdict(WriteQueue)

    @contextmanager
    def gathered(self) -> Iterator[None]:
        """Do not wait for others with what this thread writes in the block: it has been gathered from many already."""
        self._thread.is_gathered = True
        try:
            yield
        finally:
            self._thread.is_gathered = False

    def write(
        self, table: Table, database: Database, rows: pa.Table, *, update_columns: Collection[str] | None = None
    ) -> WriteMetrics:
        """Insert rows of a supertable or plain table, or update those whose key exists; the last row of a key wins.

        `rows` have stored columns and `tbname`; a missing column is NULL. An update replaces `update_columns`, by default all.

        Returns:
            The metrics of the commit, which has rows of other writers too.
        """
        return self.write_all(table, database, [(rows, update_columns)])[0]

    def write_all(
        self, table: Table, database: Database, parts: Sequence[tuple[pa.Table, Collection[str] | None]]
    ) -> list[WriteMetrics]:
        """Write several parts in their order as `write` does, each with columns to update, in one commit if that is possible."""
        schema = rows_schema(table, database)
        writes = [
            PendingWrite(
                table,
                database,
                conform_rows(rows, schema, table.primary_key, table.name),
                None if columns is None else tuple(columns),
                is_of_points=False,
            )
            for rows, columns in parts
        ]
        return self._commit(*writes)

    def write_points(self, table: Table, database: Database, rows: pa.Table, *, max_rows: int) -> WriteMetrics:
        """Write points of a tree: rows of stored columns and the device, in which NULL is no point.

        Of several points of a series at one instant, the last wins. `max_rows` is that of `Writer.write_points`.

        Returns:
            The metrics of the commit, which has points of other writers too.
        """
        conform_rows(rows, rows_schema(table, database), table.primary_key, table.name)
        return self._commit(PendingWrite(table, database, rows, None, is_of_points=True, max_rows=max_rows))[0]

    @property
    def waiting(self) -> int:
        """The number of writes that wait for the commit before theirs."""
        with self._lock:
            return sum(len(queue.pending) for queue in self._queues.values())

    @property
    def is_full(self) -> bool:
        """Whether writers wait for room."""
        with self._room:
            return self._refused > 0

    def is_committing(self, table: TableId) -> bool:
        """Return whether a commit to a table is in progress."""
        with self._lock:
            return self._queues[table].is_led and not self._queues[table].pending

    def _commit(self, *writes: PendingWrite) -> list[WriteMetrics]:
        size = sum(write.rows.nbytes for write in writes)
        self._reserve(size)
        try:
            self._enqueue(writes)
            for write in writes:
                write.woken.wait()
                if not write.is_done:
                    self._lead(write, self._queues[write.table.id])
        finally:
            self._release(size)
        return [write.result() for write in writes]

    def _reserve(self, size: int) -> None:
        with self._room:
            self._refused += 1
            self._room.wait_for(lambda: not self._bytes or self._bytes + size <= self._max_bytes)
            self._refused -= 1
            self._bytes += size

    def _release(self, size: int) -> None:
        with self._room:
            self._bytes -= size
            self._room.notify_all()

    def _enqueue(self, writes: Sequence[PendingWrite]) -> None:
        """Add writes to their table's queue; the first leads if no other thread does."""
        with self._lock:
            queue = self._queues[writes[0].table.id]
            queue.pending.extend(writes)
            queue.rows += sum(write.rows.num_rows for write in writes)
            if queue.rows >= FULL_GROUP_ROWS:
                queue.full.set()
            if not queue.is_led:
                queue.is_led = True
                writes[0].is_first = True
                writes[0].woken.set()

    def _lead(self, leader: PendingWrite, queue: WriteQueue) -> None:
        """Commit what waits, and wake its writers and the next leader."""
        if leader.is_first and not self._thread.is_gathered:
            queue.full.wait(self._delay_s)
        with self._lock:
            group = list(queue.pending)
            queue.pending.clear()
            queue.full.clear()
            queue.rows = 0
        try:
            self._commit_group(group)
        finally:
            self._hand_over(queue, group)

    def _hand_over(self, queue: WriteQueue, group: Sequence[PendingWrite]) -> None:
        with self._lock:
            queue.is_led = bool(queue.pending)
            following = queue.pending[0] if queue.pending else None
        if following is not None:
            following.woken.set()
        for write in group:
            write.woken.set()

    def _commit_group(self, group: Sequence[PendingWrite]) -> None:
        """Commit writes; those of one commit have the columns of one definition of the table.

        If the table's lock cannot be had, or the storage or the catalog fails, all that are not written fail at once: each of them
        would wait for the same time-out, one after the other.
        """
        try:
            for _, same in groupby(group, lambda write: (write.table, write.database, write.is_of_points)):
                self._commit_alike(list(same))
        except TransientError as error:
            fail([write for write in group if not write.is_done], error)

    def _commit_alike(self, writes: Sequence[PendingWrite]) -> None:
        """Commit writes in one commit, unless some update rows, or are invalid, and differ in what they do.

        Raises:
            TransientError: No write can be committed now.
        """
        try:
            written = self._append(writes) if len({write.columns for write in writes}) > 1 else self._write(writes)
        except Error as error:
            if isinstance(error, TransientError) and not isinstance(error, StaleDefinitionError):
                raise
            if len(writes) == 1:
                fail(writes, error)
                return
            # Nothing is written, and the error is that of one of them.
            for write in writes:
                self._commit_alike([write])
        except BaseException as error:
            fail(writes, error)
        else:
            if written is None:
                for _, own in groupby(writes, lambda write: write.columns):
                    self._commit_alike(list(own))
            for write in writes if written is not None else ():
                write.written = written

    def _append(self, writes: Sequence[PendingWrite]) -> WriteMetrics | None:
        """Write rows that name different columns, if all of them are new; else return None."""
        first, rows = writes[0], pa.concat_tables([write.rows for write in writes])
        columns = {name for write in writes for name in write.columns or rows.column_names}
        return self._writer().append_new(first.table, first.database, rows, columns)

    def _write(self, writes: Sequence[PendingWrite]) -> WriteMetrics:
        first, writer = writes[0], self._writer()
        rows = pa.concat_tables([write.rows for write in writes], promote_options="default")
        if first.is_of_points:
            return writer.write_points(first.table, first.database, rows, max_rows=first.max_rows)
        return writer.write(first.table, first.database, rows, update_columns=first.columns)


def fail(writes: Iterable[PendingWrite], error: BaseException) -> None:
    """Have writes end with an error."""
    for write in writes:
        write.error = error
