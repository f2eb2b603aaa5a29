"""The step of a query without a window: every row that WHERE keeps is a result of its own."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.compute import Key, project
from headrace.compute.plan import TS, WSTART
from headrace.compute.types import BIGINT, INT
from headrace.model.streams import StreamCounters
from headrace.model.tables import TBNAME
from headrace.streams import frames
from headrace.streams.context import Context
from headrace.streams.counting import merged
from headrace.streams.define import StreamPlan
from headrace.streams.held import identities
from headrace.streams.incoming import WRITTEN, Bools, Changes, Incoming, Kind, array, incoming, newest_before, seen_before
from headrace.streams.state import State
from headrace.streams.step import Outcome, idle, marked

NUMBER = "_number"


class ProjectionStep:
    """Results are rows of the source, so a batch needs neither held windows nor stored rows: its changes tell everything."""

    def __init__(self, context: Context, plan: StreamPlan) -> None:
        self.context = context
        self.plan = plan

    def run(self, state: State, changes: Changes) -> Outcome:
        """Handle one batch; nothing is written."""
        batch = incoming(self.plan, changes)
        if batch.rows.num_rows == 0:
            return idle(state, changes.last)
        found = self.projected(batch, state)
        place = array(found[NUMBER]).astype(np.int64)
        kind, ts = batch.kind[place], batch.ts[place]
        late = self.late(batch, state, place)
        results = latest_of_each(found.filter(pa.array(~late)), self.result_key(), batch)
        gone = pc.is_in(results[frames.KIND], pa.array([int(Kind.DELETED), int(Kind.BEFORE)], pa.int32()))
        upserts, withdrawn = results.filter(pc.invert(gone)), results.filter(gone)
        written = np.isin(kind, WRITTEN)
        used, lost = int((written & ~late).sum()), int((written & late).sum())
        total = int(batch.written.sum())
        counters = StreamCounters(
            rows_in=total,
            rows_used=used,
            rows_filtered=total - used - lost,
            rows_expired=lost,
            rows_out=results.num_rows,
            batches=1,
        )
        return Outcome(upserts, withdrawn, self.moved(state, batch, found, written, ts, counters))

    def projected(self, batch: Incoming, state: State) -> pa.Table:
        """Results of all rows that pass WHERE, numbered as the batch has them."""
        numbered = marked(batch, state).append_column(NUMBER, pa.array(np.arange(batch.rows.num_rows)))
        keys = (Key(NUMBER, NUMBER, NUMBER, BIGINT), Key(frames.KIND, frames.KIND, frames.KIND, INT))
        plan = replace(self.plan.query, keys=(*self.plan.query.keys, *keys))
        rows = self.context.spark().createDataFrame(numbered)
        found = project(plan, rows).withColumnRenamed(TS, WSTART).toArrow()
        return found.sort_by(NUMBER)

    def late(self, batch: Incoming, state: State, place: np.ndarray[tuple[int], np.dtype[np.int64]]) -> Bools:
        """Rows that came too late, of those that pass WHERE; deleted rows never do."""
        if not self.plan.options.ignore_expired:
            return np.zeros(len(place), np.bool_)
        passing = Incoming(batch.rows.take(pa.array(place)), batch.kind[place], batch.version[place], batch.ts[place], batch.last)
        newest = newest_before(passing, state.newest)
        behind = (newest > np.iinfo(np.int64).min) & (passing.ts < newest - self.plan.watermark)
        return np.asarray((passing.kind != Kind.DELETED) & behind & (passing.ts < seen_before(passing, state)))

    def result_key(self) -> list[str]:
        """What tells results apart in the target: the group, the instant, and the key column where the source has one."""
        key = ["o1"] if self.plan.source.key is not None else []
        return [*self.plan.groups.columns, WSTART, *key]

    def moved(
        self, state: State, batch: Incoming, found: pa.Table, written: Bools, ts: np.ndarray, counters: StreamCounters
    ) -> State:
        shown = pa.table({TBNAME: found[TBNAME], frames.LATEST: pa.array(ts)}).filter(pa.array(written))
        newest = max((one for one in (pc.max(shown[frames.LATEST]).as_py(), state.newest) if one is not None), default=None)
        seen = merged(state.seen, largest(shown)) if self.plan.options.ignore_expired and shown.num_rows else state.seen
        return replace(state, version=batch.last, seen=seen, newest=newest, counters=state.counters.plus(counters))


def largest(shown: pa.Table) -> pa.Table:
    """The largest instant of each subtable."""
    found = shown.group_by(TBNAME).aggregate([(frames.LATEST, "max")])
    return pa.table({TBNAME: found[TBNAME], frames.LATEST: found[f"{frames.LATEST}_max"]})


def latest_of_each(found: pa.Table, key: list[str], batch: Incoming) -> pa.Table:
    """Of results with the same key the one that the last write gave; what a write put there outlasts what it took away."""
    if found.num_rows == 0:
        return found
    place = array(found[NUMBER]).astype(np.int64)
    there = np.isin(batch.kind[place], WRITTEN)
    (identity,) = identities([found], key)
    order = np.lexsort((there, batch.version[place], identity))
    last = np.concatenate((identity[order][1:] != identity[order][:-1], [True]))
    return found.take(pa.array(order[last]))
