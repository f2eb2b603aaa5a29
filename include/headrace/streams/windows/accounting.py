"""What became of a batch's rows, and how far event time has come."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.compute.plan import SERIES
from headrace.model.jobs import JobCounters
from headrace.streams.definition.define import StreamPlan
from headrace.streams.state.checkpoints import SEEN, StreamState
from headrace.streams.windows.changes import Bools, ChangeBatch
from headrace.streams.windows.window_sql import LATEST, USED


@dataclass(frozen=True)
class Count:
    """Rows of a batch by what became of them, and after it the largest instant of each subtable, and of all."""

    counters: JobCounters
    max_event_time_by_subtable: pa.Table
    max_event_time: int | None


def counted(plan: StreamPlan, batch: ChangeBatch, state: StreamState, windows: pa.Table) -> Count:
    """Count a batch of new rows in time. Rows that WHERE drops move no time on; the windows tell which those are."""
    if plan.query.filter is None:
        return count_of(plan, batch, state, batch.written, np.zeros(len(batch.ts), np.bool_))
    used = int(pc.sum(windows[USED]).as_py() or 0)
    written = len(batch.ts)
    counters = JobCounters(rows_in=written, rows_used=used, rows_filtered=written - used, batches=1)
    return Count(counters, state.max_event_time_by_subtable, later(pc.max(windows[LATEST]).as_py(), state.max_event_time))


def count_of(plan: StreamPlan, batch: ChangeBatch, state: StreamState, used: Bools, expired: Bools) -> Count:
    """Count a batch of which the used and the expired rows are known; the others that were written WHERE has dropped."""
    written, taken, lost = int(batch.written.sum()), int(used.sum()), int(expired.sum())
    counters = JobCounters(rows_in=written, rows_used=taken, rows_filtered=written - taken - lost, rows_expired=lost, batches=1)
    kept = used | expired
    if not kept.any():
        return Count(counters, state.max_event_time_by_subtable, state.max_event_time)
    max_event_time_by_subtable = state.max_event_time_by_subtable
    if plan.options.ignore_expired or plan.leaves_rows_out:
        max_event_time_by_subtable = merged(
            max_event_time_by_subtable, largest(batch.series.filter(pa.array(kept)), pa.array(batch.ts[kept]))
        )
    return Count(counters, max_event_time_by_subtable, later(int(batch.ts[kept].max()), state.max_event_time))


def later(one: int | None, other: int | None) -> int | None:
    """The later of two instants of which either may be missing."""
    return max((instant for instant in (one, other) if instant is not None), default=None)


def largest(names: pa.ChunkedArray, instants: pa.Array) -> pa.Table:
    """The largest instant that each subtable was given."""
    found = pa.table({SERIES: names, LATEST: instants}).group_by(SERIES).aggregate([(LATEST, "max")])
    return pa.table({SERIES: found[SERIES], LATEST: found[f"{LATEST}_max"]})


def merged(max_event_time_by_subtable: pa.Table, shown: pa.Table) -> pa.Table:
    """The largest instants so far; subtables keep their places, new ones follow."""
    place = pc.index_in(
        shown[SERIES],
        max_event_time_by_subtable[SERIES].combine_chunks() if max_event_time_by_subtable.num_rows else pa.array([], pa.string()),
    )
    old = shown.filter(pc.is_valid(place))
    new = shown.filter(pc.is_null(place)).rename_columns(SEEN.names).cast(SEEN)
    if old.num_rows:
        values = np.array(max_event_time_by_subtable["_seen"].to_numpy(), copy=True)
        at = place.drop_null().to_numpy().astype(np.int64)
        np.maximum.at(values, at, old[LATEST].to_numpy())
        max_event_time_by_subtable = pa.table({SERIES: max_event_time_by_subtable[SERIES], "_seen": pa.array(values)}, schema=SEEN)
    return pa.concat_tables([max_event_time_by_subtable, new]).combine_chunks()
