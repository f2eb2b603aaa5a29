"""Which rows count in which windows, where that is not plain: late rows, and windows that have to be evaluated again.

Everything here is arithmetic over segments, so it needs no Spark. Writes are judged one by one, as if each had been a batch of
its own: how writes are cut into batches makes no difference. What is evaluated together, because rows of one part can change
windows of the other, is a *component* (`headrace.streams.windows.recalculation`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.compute.plan import WEND, WSTART
from headrace.compute.windows import key_columns
from headrace.streams.definition.define import StreamPlan
from headrace.streams.state.checkpoints import StreamState
from headrace.streams.windows import window_sql
from headrace.streams.windows.accounting import Count, count_of
from headrace.streams.windows.changes import (
    NEVER,
    REPAIRS,
    WRITTEN,
    Bools,
    ChangeBatch,
    Int64s,
    RowKind,
    max_event_times_before,
    to_numpy,
    watermarks_before,
)
from headrace.streams.windows.row_matching import identities

NO_WRITE: Final = np.iinfo(np.int64).max


@dataclass(frozen=True)
class BatchSegments:
    """Segments of a batch's rows, of held windows and of stored rows, with what is known of each.

    `rows` has the columns that `frames.segment_columns` names, and `_row`, the place in the batch (-1 for others). `group` tells
    partitions apart. `reached` is how far the row's subtable had come before its write, of windows that do not hold all their rows
    (EVENT); `first` and `last` are the versions in which a stored row was what it is.
    """

    rows: pa.Table
    group: Int64s
    start: Int64s
    end: Int64s
    kind: npt.NDArray[np.int8]
    version: Int64s
    expired: Bools
    reached: Int64s
    first: Int64s
    last: Int64s

    @property
    def place(self) -> Int64s:
        return to_numpy(self.rows[window_sql.ROW]).astype(np.int64)

    def are(self, *kinds: RowKind) -> Bools:
        """Those of some kinds that have not expired."""
        return np.asarray(np.isin(self.kind, kinds) & ~self.expired)


def of_batch(plan: StreamPlan, batch: ChangeBatch, state: StreamState, found: pa.Table, held: pa.Table | None) -> BatchSegments:
    """The segments of a batch's rows and of held windows."""
    rows = with_held(plan, found, held)
    place = to_numpy(rows[window_sql.ROW]).astype(np.int64)
    kind = np.append(batch.kind, np.int8(RowKind.HELD))[place]
    end = to_numpy(rows[WEND]).astype(np.int64)
    passing = passing_rows(batch, place)
    watermark = np.append(late_before(plan, batch, state, passing), NEVER)[place]
    reached = max_event_times_before(batch, state, passing) if plan.leaves_rows_out else np.full(len(batch.ts), NEVER)
    none = np.full(len(place), NEVER)
    return BatchSegments(
        rows=rows,
        group=identities([rows], key_columns(plan.query))[0],
        start=to_numpy(rows[WSTART]).astype(np.int64),
        end=end,
        kind=kind,
        version=np.append(batch.version, NEVER)[place],
        expired=np.asarray(end < watermark),
        reached=np.append(reached, NEVER)[place],
        first=none,
        last=none,
    )


def passing_rows(batch: ChangeBatch, place: Int64s) -> Bools:
    """Rows of a batch that WHERE keeps: those that have segments."""
    found = np.zeros(len(batch.ts), np.bool_)
    found[place[place >= 0]] = True
    return found


def late_before(plan: StreamPlan, batch: ChangeBatch, state: StreamState, passing: Bools) -> Int64s:
    """For each row the instant before which a window that ends is closed to it; `NEVER` where none is."""
    if not plan.options.ignore_expired:
        return np.full(len(batch.ts), NEVER)
    return watermarks_before(batch, state, plan.watermark, passing)


def with_held(plan: StreamPlan, found: pa.Table, held: pa.Table | None) -> pa.Table:
    """Segments of rows, then held windows as segments."""
    columns = [*window_sql.segment_columns(plan.query), window_sql.ROW]
    if held is None or held.num_rows == 0:
        return found.select(columns)
    size = held.num_rows
    empty = {
        window_sql.ADDED: pa.repeat(pa.scalar(0, pa.int64()), size),
        window_sql.USED: pa.repeat(pa.scalar(0, pa.int64()), size),
        window_sql.LATEST: pa.nulls(size, pa.int64()),
        window_sql.DIRTY: pa.repeat(pa.scalar(False), size),
        window_sql.ROW: pa.repeat(pa.scalar(-1, pa.int64()), size),
    }
    known = pa.table({**{name: held[name] for name in held.column_names}, **empty})
    return pa.concat_tables([found.select(columns), known.select(columns)], promote_options="permissive")


def with_stored(plan: StreamPlan, segments: BatchSegments, found: pa.Table, first: Int64s, last: Int64s) -> BatchSegments:
    """The segments, and those of stored rows; `first` and `last` are those of the rows that `_row` counts."""
    place = to_numpy(found[window_sql.ROW]).astype(np.int64)
    apart = found.set_column(
        found.schema.get_field_index(window_sql.ROW), window_sql.ROW, pa.repeat(pa.scalar(-1, pa.int64()), len(place))
    )
    columns = segments.rows.column_names
    rows = pa.concat_tables([segments.rows, apart.select(columns)], promote_options="permissive")
    return BatchSegments(
        rows=rows,
        group=identities([rows], key_columns(plan.query))[0],
        start=to_numpy(rows[WSTART]).astype(np.int64),
        end=to_numpy(rows[WEND]).astype(np.int64),
        kind=np.append(segments.kind, np.full(len(place), RowKind.STORED, np.int8)),
        version=np.append(segments.version, np.full(len(place), NEVER)),
        expired=np.append(segments.expired, np.zeros(len(place), np.bool_)),
        reached=np.append(segments.reached, np.full(len(place), NEVER)),
        first=np.append(segments.first, first[place]),
        last=np.append(segments.last, last[place]),
    )


def last_repair(segments: BatchSegments, component: Int64s, count: int) -> Int64s:
    """For each component the last write that took one of its rows away or changed one; `NEVER` where none did."""
    return latest(component, segments.version, segments.are(*REPAIRS), count)


def first_touch(segments: BatchSegments, component: Int64s, count: int) -> Int64s:
    """For each component the first write that added a row; `NEVER` where none did."""
    found = np.full(count, NO_WRITE)
    inputs = segments.are(RowKind.INPUT)
    np.minimum.at(found, component[inputs], segments.version[inputs])
    return np.where(found == NO_WRITE, NEVER, found)


def latest(component: Int64s, version: Int64s, chosen: Bools, count: int) -> Int64s:
    """For each component the last version of the chosen segments."""
    found = np.full(count, NEVER)
    np.maximum.at(found, component[chosen], version[chosen])
    return found


def accepted(segments: BatchSegments, at: Int64s, unaffected: Bools) -> Bools:
    """Segments that count: new rows in time that came after their component was evaluated (`at`, `NEVER` for not at all), the rows
    that it then had, and held windows of components that are not evaluated again. Those set aside do not."""
    plain = at == NEVER
    inputs = segments.are(RowKind.INPUT) & (plain | (segments.version > at))
    there = segments.are(RowKind.STORED) & ~plain & (segments.first <= at) & (at <= segments.last)
    return np.asarray((inputs | there | (segments.are(RowKind.HELD) & plain)) & ~unaffected)


def to_merge(plan: StreamPlan, segments: BatchSegments, chosen: Bools, needs_recalculation: Bools) -> pa.Table:
    """The chosen segments as they are merged, with whether their component was evaluated again."""
    place = segments.rows.schema.get_field_index(window_sql.DIRTY)
    marked = segments.rows.set_column(place, window_sql.DIRTY, pa.array(needs_recalculation))
    return marked.select(list(window_sql.segment_columns(plan.query))).filter(pa.array(chosen))


def rows_count(plan: StreamPlan, batch: ChangeBatch, state: StreamState, segments: BatchSegments) -> Count:
    """Count a batch: a row has expired when every window it lies in was closed to it."""
    place = segments.place
    own = place >= 0
    open_ = np.zeros(len(batch.ts), np.bool_)
    open_[place[own & ~segments.expired]] = True
    written = np.isin(batch.kind, WRITTEN) & passing_rows(batch, place)
    return count_of(plan, batch, state, written & open_, written & ~open_)
