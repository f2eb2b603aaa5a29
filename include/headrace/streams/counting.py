"""What became of a batch's rows, and how far event time has come: from what the step gave, or from the batch where it tells."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.model.streams import StreamCounters
from headrace.model.tables import TBNAME
from headrace.streams.define import StreamPlan
from headrace.streams.frames import LATEST, LOST, USED
from headrace.streams.incoming import Incoming
from headrace.streams.state import SEEN, State

if TYPE_CHECKING:
    from headrace.streams.step import Evaluated


@dataclass(frozen=True)
class Count:
    """Rows by what became of them, the largest instant of each subtable, and of all."""

    counters: StreamCounters
    seen: pa.Table
    newest: int | None


def count(plan: StreamPlan, batch: Incoming, state: State, found: Evaluated) -> Count:
    """Count a batch. Rows that WHERE drops move no time on."""
    written = int(batch.written.sum())
    if found.counts is not None:
        shown, used, lost = found.counts.select([TBNAME, LATEST]), total(found.counts, USED), total(found.counts, LOST)
    elif plan.query.filter is not None:
        shown, used, lost = found.windows.select([LATEST]), total(found.windows, USED), 0
    else:
        shown, used, lost = latest(batch), written, 0
    counters = StreamCounters(rows_in=written, rows_used=used, rows_filtered=written - used - lost, rows_expired=lost, batches=1)
    moved = pc.max(shown[LATEST]).as_py()
    newest = max((one for one in (moved, state.newest) if one is not None), default=None)
    seen = merged(state.seen, shown) if plan.options.ignore_expired and shown.num_rows else state.seen
    return Count(counters, seen, newest)


def total(rows: pa.Table, name: str) -> int:
    return int(pc.sum(rows[name]).as_py() or 0)


def latest(batch: Incoming) -> pa.Table:
    """The largest instant that each subtable was given."""
    rows = pa.table({TBNAME: batch.rows[TBNAME], LATEST: pa.array(batch.ts)}).filter(pa.array(batch.written))
    found = rows.group_by(TBNAME).aggregate([(LATEST, "max")])
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
