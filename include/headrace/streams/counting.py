"""What became of a batch's rows, and how far event time has come."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.model.jobs import JobCounters
from headrace.model.tables import TBNAME
from headrace.streams.define import StreamPlan
from headrace.streams.frames import LATEST, USED
from headrace.streams.incoming import Bools, Incoming
from headrace.streams.state import SEEN, State


@dataclass(frozen=True)
class Count:
    """Rows of a batch by what became of them, and after it the largest instant of each subtable, and of all."""

    counters: JobCounters
    seen: pa.Table
    newest: int | None


def counted(plan: StreamPlan, batch: Incoming, state: State, windows: pa.Table) -> Count:
    """Count a batch of new rows in time. Rows that WHERE drops move no time on; the windows tell which those are."""
    if plan.query.filter is None:
        return count_of(plan, batch, state, batch.written, np.zeros(len(batch.ts), np.bool_))
    used = int(pc.sum(windows[USED]).as_py() or 0)
    written = len(batch.ts)
    counters = JobCounters(rows_in=written, rows_used=used, rows_filtered=written - used, batches=1)
    return Count(counters, state.seen, later(pc.max(windows[LATEST]).as_py(), state.newest))


def count_of(plan: StreamPlan, batch: Incoming, state: State, used: Bools, expired: Bools) -> Count:
    """Count a batch of which the used and the expired rows are known; the others that were written WHERE has dropped."""
    written, taken, lost = int(batch.written.sum()), int(used.sum()), int(expired.sum())
    counters = JobCounters(rows_in=written, rows_used=taken, rows_filtered=written - taken - lost, rows_expired=lost, batches=1)
    kept = used | expired
    if not kept.any():
        return Count(counters, state.seen, state.newest)
    seen = state.seen
    if plan.options.ignore_expired or plan.leaves_rows_out:
        seen = merged(seen, largest(batch.rows[TBNAME].filter(pa.array(kept)), pa.array(batch.ts[kept])))
    return Count(counters, seen, later(int(batch.ts[kept].max()), state.newest))


def later(one: int | None, other: int | None) -> int | None:
    """The later of two instants of which either may be missing."""
    return max((instant for instant in (one, other) if instant is not None), default=None)


def largest(names: pa.ChunkedArray, instants: pa.Array) -> pa.Table:
    """The largest instant that each subtable was given."""
    found = pa.table({TBNAME: names, LATEST: instants}).group_by(TBNAME).aggregate([(LATEST, "max")])
    return pa.table({TBNAME: found[TBNAME], LATEST: found[f"{LATEST}_max"]})


def merged(seen: pa.Table, shown: pa.Table) -> pa.Table:
    """The largest instants so far; subtables keep their places, new ones follow."""
    place = pc.index_in(shown[TBNAME], seen[TBNAME].combine_chunks() if seen.num_rows else pa.array([], pa.string()))
    old = shown.filter(pc.is_valid(place))
    new = shown.filter(pc.is_null(place)).rename_columns(SEEN.names).cast(SEEN)
    if old.num_rows:
        values = np.array(seen["_seen"].to_numpy(), copy=True)
        at = place.drop_null().to_numpy().astype(np.int64)
        np.maximum.at(values, at, old[LATEST].to_numpy())
        seen = pa.table({TBNAME: seen[TBNAME], "_seen": pa.array(values)}, schema=SEEN)
    return pa.concat_tables([seen, new]).combine_chunks()
