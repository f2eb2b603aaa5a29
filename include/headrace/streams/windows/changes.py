"""A batch of source changes as one stream sees them: what each row does, and whether it may have come too late."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.compute.plan import SERIES, CountWindow, EventWindow, StateWindow
from headrace.model.time import Precision
from headrace.streams.definition.define import StreamPlan
from headrace.streams.state.checkpoints import StreamState

Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

NEVER: Final = np.iinfo(np.int64).min
"""Stands for 'no instant yet' among ticks."""

CHANGE: Final = "_change_type"
VERSION: Final = "_commit_version"


class RowKind(IntEnum):
    """What a row does to its windows."""

    INPUT = 0
    """It is one more row of them."""
    DELETED = 1
    """It was one of their rows: they are evaluated again."""
    BEFORE = 2
    """It was one of their rows until an update: they are evaluated again."""
    UPDATED = 3
    """It has become one of their rows by an update: they are evaluated again."""
    STORED = 4
    """It is a row of theirs as they are evaluated again."""
    HELD = 5
    """A window as the state holds it."""
    REPLACED = 6
    """It was one of their rows until an update that is ignored: it still counts."""
    AGAIN = 7
    """It replaces a row by such an update: it counts once more in windows whose borders stay."""


WRITTEN: Final = (RowKind.INPUT, RowKind.UPDATED)
REPAIRS: Final = (RowKind.DELETED, RowKind.BEFORE, RowKind.UPDATED)
EVERY_KIND: Final = {"delete": RowKind.DELETED, "update_preimage": RowKind.BEFORE, "update_postimage": RowKind.UPDATED}
IGNORING: Final = {"delete": RowKind.DELETED, "update_preimage": RowKind.REPLACED}


@dataclass(frozen=True)
class Changes:
    """Changes of a source, both versions inclusive: physical columns, tags, `_change_type`, `_commit_version`.

    `now` is the instant of the connection's clock at which they are handled, in epoch ms.
    """

    first: int
    last: int
    rows: pa.Table
    now: int = 0


@dataclass(frozen=True)
class ChangeBatch:
    """The changes that concern one stream.

    Attributes:
        rows: columns that the query reads, in the order of the writes.
        series_key: the one of them that tells the source's series apart.
        kind, version, ts: for each row its `RowKind`, the write, and its instant in ticks.
        last: the last source version of the batch.
    """

    rows: pa.Table
    series_key: str
    kind: npt.NDArray[np.int8]
    version: Int64s
    ts: Int64s
    last: int

    @property
    def series(self) -> pa.ChunkedArray:
        """For each row the name of its series."""
        return self.rows[self.series_key]

    @property
    def written(self) -> Bools:
        """Rows that were written, by insert or update."""
        return np.isin(self.kind, WRITTEN)

    @property
    def repairs(self) -> bool:
        """Whether windows have to be evaluated again."""
        return bool((self.kind != RowKind.INPUT).any())


def change_batch(plan: StreamPlan, changes: Changes, *, ignore_update: bool) -> ChangeBatch:
    """A batch of changes with what each does: an update is one more row where updates are ignored.

    Windows that depend on the order of rows need the row before it too, to see whether it moves their borders.
    """
    rows = changes.rows
    if plan.source_subtable is not None:
        rows = rows.filter(pc.equal(rows[plan.source.series_key], plan.source_subtable))
    if ignore_update and not isinstance(plan.query.window, StateWindow | EventWindow | CountWindow):
        rows = rows.filter(pc.not_equal(rows[CHANGE], "update_preimage"))
    rows = rows.sort_by(VERSION)
    change = rows[CHANGE]
    kind = np.full(rows.num_rows, RowKind.INPUT, np.int8)
    for name, one in (IGNORING if ignore_update else EVERY_KIND).items():
        kind[to_numpy(pc.equal(change, name)).astype(np.bool_)] = one
    timestamp = rows[plan.source.timestamp.name]
    return ChangeBatch(
        rows=rows.select(list(plan.query.scans[0].columns)),
        series_key=plan.source.series_key,
        kind=kind,
        version=to_numpy(rows[VERSION]).astype(np.int64),
        ts=ticks(timestamp, plan.query.precision),
        last=changes.last,
    )


def to_numpy(column: pa.ChunkedArray) -> npt.NDArray[np.generic]:
    return np.asarray(column.to_numpy(zero_copy_only=False) if isinstance(column, pa.Array) else column.to_numpy())


def ticks(column: pa.ChunkedArray, precision: Precision) -> Int64s:
    """A stored timestamp column as ticks."""
    values = to_numpy(column.cast(pa.int64())).astype(np.int64)
    return values // 1000 if precision is Precision.MILLISECOND else values


def from_ticks(values: pa.ChunkedArray, precision: Precision) -> pa.ChunkedArray:
    """Ticks as a stored timestamp column."""
    if precision is Precision.NANOSECOND:
        return values
    micros = pc.multiply(values, 1000) if precision is Precision.MILLISECOND else values
    return micros.cast(pa.timestamp("us", tz="UTC"))


def known(state: StreamState, series: pa.ChunkedArray) -> Int64s:
    """For each row the largest instant of its subtable in the state; `NEVER` where there is none."""
    place = pc.index_in(series, state.max_event_time_by_subtable[SERIES])
    found = pc.take(state.max_event_time_by_subtable["_seen"], place)
    return to_numpy(pc.fill_null(found, NEVER)).astype(np.int64)


def max_event_time_before(batch: ChangeBatch, max_event_time: int | None) -> Int64s:
    """For each row the largest instant of all rows written before its own write; `NEVER` where there is none."""
    versions, place = np.unique(batch.version, return_inverse=True)
    largest = np.full(len(versions), NEVER)
    np.maximum.at(largest, place[batch.written], batch.ts[batch.written])
    before = np.concatenate(([NEVER if max_event_time is None else max_event_time], largest[:-1]))
    return np.maximum.accumulate(before)[place]


def max_subtable_time_before(batch: ChangeBatch, state: StreamState) -> Int64s:
    """For each row the largest instant of its subtable's rows written before its own write; `NEVER` where there is none."""
    already = known(state, batch.series)
    if len(np.unique(batch.version)) < 2:
        return already
    subtable = to_numpy(pc.index_in(batch.series, pc.unique(batch.series))).astype(np.int64)
    written = np.where(batch.written, batch.ts, NEVER)
    return np.maximum(already, running_maximum_before(subtable, batch.version, written))


def running_maximum_before(group: Int64s, version: Int64s, value: Int64s) -> Int64s:
    """For each row the largest value of rows of its group with a smaller version."""
    values, rank = np.unique(value, return_inverse=True)
    order = np.lexsort((version, group))
    group, version, rank = group[order], version[order], rank[order]
    new_group = np.concatenate(([True], group[1:] != group[:-1]))
    new_write = new_group | np.concatenate(([True], version[1:] != version[:-1]))
    # Ranks of one group lie above those of the group before, so that one running maximum serves all groups.
    running = np.maximum.accumulate(rank + (np.cumsum(new_group) - 1) * len(values)) % len(values)
    start = np.maximum.accumulate(np.where(new_write, np.arange(len(order)), 0))
    before = np.where(new_group[start], NEVER, values[running[np.maximum(start - 1, 0)]])
    found = np.empty_like(before)
    found[order] = before
    return found


def maybe_expired(batch: ChangeBatch, state: StreamState, watermark: int) -> Bools:
    """Rows that may have come too late: older than their subtable's newest, and than the watermark, before their write.

    What WHERE drops is counted in, so that there may be more suspects than late rows, and never fewer.
    """
    max_event_time = max_event_time_before(batch, state.max_event_time)
    behind = batch.written & (max_event_time != NEVER) & (batch.ts < max_event_time - watermark)
    return np.asarray(behind & (batch.ts < max_subtable_time_before(batch, state))) if behind.any() else np.asarray(behind)


def watermarks_before(batch: ChangeBatch, state: StreamState, watermark: int, passing: Bools) -> Int64s:
    """For each row the instant before which it came too late: a window that ends there, or the row itself, takes it no more.

    That is the watermark before its write where its subtable had gone on by then, and `NEVER` for all others. Only rows that WHERE
    keeps (`passing`) move time on. Deleted rows never come too late.
    """
    kept, place = filter_batch(batch, passing)
    max_event_time = max_event_time_before(kept, state.max_event_time)
    behind = (kept.kind != RowKind.DELETED) & (max_event_time != NEVER) & (kept.ts < max_subtable_time_before(kept, state))
    found = np.full(len(passing), NEVER)
    found[place[behind]] = max_event_time[behind] - watermark
    return found


def max_event_times_before(batch: ChangeBatch, state: StreamState, passing: Bools) -> Int64s:
    """For each row the largest instant of its subtable before its write, of rows that WHERE keeps; `NEVER` where there is none."""
    kept, place = filter_batch(batch, passing)
    found = np.full(len(passing), NEVER)
    found[place] = max_subtable_time_before(kept, state)
    return found


def filter_batch(batch: ChangeBatch, passing: Bools) -> tuple[ChangeBatch, Int64s]:
    """Some rows of a batch, and their places in it."""
    place = np.flatnonzero(passing)
    rows = batch.rows.take(pa.array(place))
    return ChangeBatch(rows, batch.series_key, batch.kind[place], batch.version[place], batch.ts[place], batch.last), place
