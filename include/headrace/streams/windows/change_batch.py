"""A batch of source changes as one stream sees them: the kind of each row, and whether it may be late."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.compute.plan import SERIES_KEY
from headrace.model.positions import Offsets
from headrace.model.time import Precision
from headrace.storage.delta.changes import InsertedRows, Remaining
from headrace.streams.definition.define import StreamPlan
from headrace.streams.sources.spill import Spill
from headrace.streams.state.checkpoints import MAX_EVENT_TIME, StreamState
from headrace.streams.state.tables import StateTable, concat

if TYPE_CHECKING:
    from headrace.streams.sources.earlier_tags import EarlierTags

Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

NEVER: Final = np.iinfo(np.int64).min
"""The value for 'no instant' among ticks, and for 'no write' among versions."""

CHANGE: Final = "_change_type"
VERSION: Final = "_commit_version"


class RowKind(IntEnum):
    """The effect of a row on its windows."""

    INSERT = 0
    """A new row."""
    DELETE = 1
    """A deleted row: its windows are recalculated."""
    UPDATE_BEFORE = 2
    """A row before an update: its windows are recalculated."""
    UPDATE_AFTER = 3
    """A row after an update: its windows are recalculated."""
    STORED = 4
    """A stored row, read to recalculate its windows."""
    IN_STATE = 5
    """A window in state."""
    REPLACED = 6
    """A row before an ignored update: it still counts."""
    REWRITTEN = 7
    """The row after an ignored update that moves no border: it counts once more in its windows."""


UPSERT_KINDS: Final = (RowKind.INSERT, RowKind.UPDATE_AFTER)
RECALCULATION_KINDS: Final = (RowKind.DELETE, RowKind.UPDATE_BEFORE, RowKind.UPDATE_AFTER)
KIND_BY_CHANGE: Final = {
    "delete": RowKind.DELETE,
    "update_preimage": RowKind.UPDATE_BEFORE,
    "update_postimage": RowKind.UPDATE_AFTER,
}
KIND_BY_CHANGE_IGNORING_UPDATES: Final = {"delete": RowKind.DELETE, "update_preimage": RowKind.REPLACED}


@dataclass(frozen=True)
class Changes:
    """Changes of a stream's sources that follow some offsets.

    Attributes:
        offsets: The offsets after the changes, of all sources.
        source: The changes: the source's physical columns, tags, `_change_type` and `_commit_version`; or a large commit. Versions
            say which changes were written together, and in which order.
        is_one_write: Whether all were written together.
        now: When they are handled, in epoch ms of the connection's clock.
        max_event_time: The largest event time of all changes, in ticks, if these are only those of some series.
        leaves_due: Whether what the clock has made due is left to the next micro-batch.
        tags_version: If it is set, no rows have changed, but tags: the version of the tags from now on. The rows are those whose
            windows are recalculated, deleted with their earlier tags and inserted with the present ones.
        computed: If tags have changed, the ranges of ticks, in order, whose rows are all computed; none if those of all are.
        earlier_tags: The tags by which stored rows were counted, where these are not the present ones.
    """

    offsets: Offsets
    source: pa.Table | LargeCommit
    is_one_write: bool
    now: int = 0
    max_event_time: int | None = None
    leaves_due: bool = False
    tags_version: int | None = None
    computed: Sequence[tuple[int, int]] = ()
    earlier_tags: EarlierTags | None = None

    @property
    def large(self) -> LargeCommit | None:
        """The changes if they are a large commit; None if they are in memory."""
        return self.source if isinstance(self.source, LargeCommit) else None

    @property
    def count(self) -> int:
        return self.source.num_rows if isinstance(self.source, pa.Table) else self.source.count

    @property
    def rows(self) -> pa.Table:
        """All changes. Of a large commit this reads all rows into memory."""
        return self.source if isinstance(self.source, pa.Table) else self.source.read()

    def pieces(self) -> Iterator[pa.Table]:
        """Yield the changes: those in memory at once, those of a large commit in pieces."""
        return iter([self.source]) if isinstance(self.source, pa.Table) else self.source.plain_pieces()

    def matching(self, filter: pc.Expression) -> pa.Table:
        """Return the changes that a filter selects, which alone are in memory."""
        return concat([piece.filter(filter) for piece in self.pieces()])


@dataclass(frozen=True)
class LargeCommit:
    """A commit of `count` changes, which is processed in pieces if that is possible.

    Attributes:
        stream: Yields the changes in pieces.
        inserted: The rows, if it has only inserted some.
        columns: The stored columns that a stream needs of these; None for all.
        add_tags: Joins the tags that a query reads.
        remaining: Returns the changes of a piece without those that a stream leaves out.
        others: The changes instead of those that are left out.
    """

    series_key: str
    count: int
    stream: Callable[[], Iterator[pa.Table]]
    inserted: InsertedRows | None = None
    columns: frozenset[str] | None = None
    add_tags: Callable[[pa.Table], pa.Table] = lambda rows: rows
    remaining: Remaining | None = None
    others: pa.Table | None = None

    def raw_pieces(self) -> Iterator[pa.Table]:
        """Yield all changes in pieces, without tags. The series key of inserted rows is a dictionary."""
        return self.stream() if self.inserted is None else self.inserted.pieces()

    def pieces(self) -> Iterator[pa.Table]:
        """Yield the changes that remain in pieces."""
        yield from map(self.add_tags, self._remaining_pieces())
        if self.others is not None and self.others.num_rows:
            yield self.others

    def _remaining_pieces(self) -> Iterator[pa.Table]:
        if self.inserted is not None:
            return self.inserted.pieces(self.columns, self.remaining)
        return self.stream() if self.remaining is None else map(self.remaining, self.stream())

    def plain_pieces(self) -> Iterator[pa.Table]:
        """Yield the changes in pieces. The series key is text."""
        return (with_text_key(piece, self.series_key) for piece in self.pieces())

    def parts(self, key: Sequence[str]) -> Iterator[pa.Table]:
        """Yield the changes, divided on the local disk into parts that have all changes with the same values in some columns."""
        with Spill.open(key, self.count) as spill:
            for piece in self.plain_pieces():
                spill.add(piece)
            for number in spill.parts():
                yield spill.read(number)

    def read(self) -> pa.Table:
        """Return the changes that remain, with all columns."""
        return pa.concat_tables(replace(self, columns=None).plain_pieces(), promote_options="permissive")


def with_text_key(rows: pa.Table, name: str) -> pa.Table:
    return rows.set_column(rows.schema.get_field_index(name), name, rows[name].cast(pa.string()))


@dataclass(frozen=True)
class ChangeBatch:
    """The changes that concern one stream, in the order of the writes, with the columns that the query reads.

    Each has its `RowKind`, the version that wrote it, and its event time in ticks.
    """

    rows: pa.Table
    series_key: str
    kind: npt.NDArray[np.int8]
    version: Int64s
    ts: Int64s

    @property
    def series(self) -> pa.ChunkedArray:
        return self.rows[self.series_key]

    @cached_property
    def is_written(self) -> Bools:
        """For each row whether it was inserted or updated."""
        return np.asarray((self.kind == RowKind.INSERT) | (self.kind == RowKind.UPDATE_AFTER))

    @property
    def needs_recalculation(self) -> bool:
        return bool((self.kind != RowKind.INSERT).any())


def change_batch(plan: StreamPlan, changes: Changes, *, ignore_update: bool) -> ChangeBatch:
    """Return the changes that concern a stream, with their kinds. An update counts as a new row if updates are ignored.

    Windows that depend on the order of rows also need the row before an update, to see whether the update moves their borders.
    """
    subtable, key = plan.source_subtable, plan.source.series_key
    rows = changes.rows if subtable is None else changes.matching(pc.field(key).cast(pa.string()) == subtable)
    if ignore_update and not plan.query.depends_on_order:
        rows = rows.filter(pc.not_equal(rows[CHANGE], "update_preimage"))
    rows = rows if changes.is_one_write else rows.sort_by(VERSION)
    change = rows[CHANGE]
    kind = np.full(rows.num_rows, RowKind.INSERT, np.int8)
    for change_type, row_kind in (KIND_BY_CHANGE_IGNORING_UPDATES if ignore_update else KIND_BY_CHANGE).items():
        kind[to_numpy(pc.equal(change, change_type)).astype(np.bool_)] = row_kind
    timestamp = rows[plan.source.timestamp.name]
    return ChangeBatch(
        rows=rows.select(list(plan.query.scans[0].columns)),
        series_key=key,
        kind=kind,
        version=to_numpy(rows[VERSION]).astype(np.int64),
        ts=to_ticks(timestamp, plan.query.precision),
    )


def recalculation_batch(plan: StreamPlan, rows: pa.Table) -> ChangeBatch:
    """Return rows, maybe with other columns, as a batch that changes nothing but has their windows recalculated."""
    return ChangeBatch(
        rows=rows.select(list(plan.scan.columns)),
        series_key=plan.source.series_key,
        kind=np.full(rows.num_rows, RowKind.DELETE, np.int8),
        version=np.zeros(rows.num_rows, np.int64),
        ts=to_ticks(rows[plan.source.timestamp.name], plan.query.precision),
    )


def to_numpy(column: pa.ChunkedArray) -> npt.NDArray[np.generic]:
    return np.asarray(column.to_numpy(zero_copy_only=False) if isinstance(column, pa.Array) else column.to_numpy())


def to_ticks(column: pa.ChunkedArray, precision: Precision) -> Int64s:
    """Convert a stored timestamp column to ticks."""
    values = to_numpy(column.cast(pa.int64())).astype(np.int64)
    return values // 1000 if precision is Precision.MILLISECOND else values


def from_ticks(values: pa.ChunkedArray, precision: Precision) -> pa.ChunkedArray:
    """Convert ticks to a stored timestamp column."""
    if precision is Precision.NANOSECOND:
        return values
    micros = pc.multiply(values, 1000) if precision is Precision.MILLISECOND else values
    return micros.cast(pa.timestamp("us", tz="UTC"))


def max_subtable_time_in_state(state: StreamState, series: pa.ChunkedArray | pa.Array) -> Int64s:
    """Return for each row the largest event time of its subtable in the state; `NEVER` if there is none."""
    if pa.types.is_dictionary(series.type):
        encoded = series.unify_dictionaries().combine_chunks()
        return np.asarray(max_subtable_time_in_state(state, encoded.dictionary)[to_numpy(encoded.indices)])
    times = times_of(state.max_event_time_by_subtable, series)
    in_state = pc.take(times[MAX_EVENT_TIME], pc.index_in(series, times[SERIES_KEY]))
    return to_numpy(pc.fill_null(in_state, NEVER)).astype(np.int64)


def times_of(times: StateTable, series: pa.ChunkedArray | pa.Array) -> pa.Table:
    """Return the largest event times of some subtables in a state, and maybe of a few others."""
    return times.take(times.matching(pa.table({SERIES_KEY: series})))


def max_event_time_before(batch: ChangeBatch, max_event_time: int | None) -> Int64s:
    """Return for each row the largest event time of all rows of earlier writes; `NEVER` if there is none."""
    versions, write = np.unique(batch.version, return_inverse=True)
    largest = max_by_group(write[batch.is_written], batch.ts[batch.is_written], len(versions))
    before = np.concatenate(([NEVER if max_event_time is None else max_event_time], largest[:-1]))
    return np.maximum.accumulate(before)[write]


def max_subtable_time_before(batch: ChangeBatch, state: StreamState) -> Int64s:
    """Return for each row the largest event time of its subtable in earlier writes; `NEVER` if there is none."""
    in_state = max_subtable_time_in_state(state, batch.series)
    if len(np.unique(batch.version)) < 2:
        return in_state
    subtable = to_numpy(pc.index_in(batch.series, pc.unique(batch.series))).astype(np.int64)
    written_times = np.where(batch.is_written, batch.ts, NEVER)
    return np.maximum(in_state, running_maximum_before(subtable, batch.version, written_times))


def max_by_group(group: Int64s, value: Int64s, count: int) -> Int64s:
    """Return the largest value of each of `count` groups; `NEVER` for those without any."""
    maximum = np.full(count, NEVER)
    np.maximum.at(maximum, group, value)
    return maximum


def running_maximum_before(group: Int64s, version: Int64s, value: Int64s) -> Int64s:
    """Return for each row the largest value of rows of its group with a smaller version."""
    values, rank = np.unique(value, return_inverse=True)
    order = np.lexsort((version, group))
    group, version, rank = group[order], version[order], rank[order]
    new_group = np.concatenate(([True], group[1:] != group[:-1]))
    new_write = new_group | np.concatenate(([True], version[1:] != version[:-1]))
    # Offset the ranks of each group above those of the group before, so that one running maximum serves all groups.
    running = np.maximum.accumulate(rank + (np.cumsum(new_group) - 1) * len(values)) % len(values)
    start = np.maximum.accumulate(np.where(new_write, np.arange(len(order)), 0))
    before = np.where(new_group[start], NEVER, values[running[np.maximum(start - 1, 0)]])
    result = np.empty_like(before)
    result[order] = before
    return result


def maybe_expired(batch: ChangeBatch, state: StreamState, watermark_delay: int, delete_mark: int | None = None) -> Bools:
    """Return a mask of the rows that may be expired: out of order in their subtable, and older than the watermark.

    Rows that WHERE drops are included, so the result may have too many rows, but never too few.
    """
    max_event_time = max_event_time_before(batch, state.max_event_time)
    before_watermark = batch.is_written & (max_event_time != NEVER) & (batch.ts < max_event_time - watermark_delay)
    if not before_watermark.any():
        return np.asarray(before_watermark)
    return np.asarray(before_watermark & is_out_of_order(batch, state, delete_mark, max_event_time))


def is_out_of_order(batch: ChangeBatch, state: StreamState, delete_mark: int | None, max_event_time: Int64s) -> Bools:
    """Return a mask of the rows that are older than an earlier row of their subtable.

    The instants of subtables behind DELETE_MARK are not kept, so all rows behind it count as out of order.
    """
    out_of_order = batch.ts < max_subtable_time_before(batch, state)
    if delete_mark is not None:
        out_of_order |= (max_event_time != NEVER) & (batch.ts < max_event_time - delete_mark)
    return np.asarray(out_of_order)


def watermarks_before(
    batch: ChangeBatch, state: StreamState, plan: StreamPlan, passing: Bools, *, of_changes: bool = False
) -> Int64s:
    """Return for each row the watermark before its write if the row is out of order in its subtable; `NEVER` for all others.

    The row is expired for windows that end before that instant. Only rows that pass WHERE (`passing`) advance the watermark.
    Deleted rows never expire. With `of_changes`, deleted and updated rows get the watermark too, in order or not.
    """
    passing_batch, rows = filter_batch(batch, passing)
    max_event_time = max_event_time_before(passing_batch, state.max_event_time)
    out_of_order = is_out_of_order(passing_batch, state, plan.delete_mark, max_event_time)
    if of_changes:
        out_of_order |= np.isin(passing_batch.kind, RECALCULATION_KINDS)
    else:
        out_of_order &= passing_batch.kind != RowKind.DELETE
    has_watermark = out_of_order & (max_event_time != NEVER)
    watermarks = np.full(len(passing), NEVER)
    watermarks[rows[has_watermark]] = max_event_time[has_watermark] - plan.watermark
    return watermarks


def max_event_times_before(batch: ChangeBatch, state: StreamState, passing: Bools) -> Int64s:
    """Return for each row the largest event time of its subtable before its write, of rows that pass WHERE, or `NEVER`."""
    passing_batch, rows = filter_batch(batch, passing)
    times = np.full(len(passing), NEVER)
    times[rows] = max_subtable_time_before(passing_batch, state)
    return times


def filter_batch(batch: ChangeBatch, selected: Bools) -> tuple[ChangeBatch, Int64s]:
    indexes = np.flatnonzero(selected)
    rows = batch.rows.take(pa.array(indexes))
    return ChangeBatch(rows, batch.series_key, batch.kind[indexes], batch.version[indexes], batch.ts[indexes]), indexes
