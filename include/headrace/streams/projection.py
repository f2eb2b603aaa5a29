"""The step of a query without a window: every row that WHERE keeps is a result of its own."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from headrace.compute import Key, project
from headrace.compute.plan import TS, WSTART
from headrace.model.types import BIGINT
from headrace.streams.batches import BatchResult, idle
from headrace.streams.context import Context
from headrace.streams.definition.define import StreamPlan
from headrace.streams.state.checkpoints import StreamState
from headrace.streams.windows.accounting import count_of
from headrace.streams.windows.changes import WRITTEN, ChangeBatch, Changes, change_batch, to_numpy
from headrace.streams.windows.row_matching import identities
from headrace.streams.windows.window_sql import ROW, small_session


class ProjectionProcessor:
    """Results are rows of the source, so a batch needs neither held windows nor stored rows: its changes tell everything.

    There is no window that could be closed or count a row twice, so no row comes too late, and an update replaces what it changes,
    whatever IGNORE EXPIRED and IGNORE UPDATE say.
    """

    def __init__(self, context: Context, plan: StreamPlan) -> None:
        self.context = context
        self.plan = plan

    def run(self, state: StreamState, changes: Changes) -> BatchResult:
        """Handle one batch; nothing is written."""
        batch = change_batch(self.plan, changes, ignore_update=False)
        if batch.rows.num_rows == 0:
            return idle(state)
        found = self.projected(batch)
        passing = np.zeros(len(batch.ts), np.bool_)
        passing[to_numpy(found[ROW])] = True
        none = np.zeros(len(passing), np.bool_)
        count = count_of(self.plan, batch, state, batch.written & passing, none)
        results = last_of_each(found, self.result_key(), batch)
        there = pa.array(np.isin(batch.kind[to_numpy(results[ROW])], WRITTEN))
        counters = state.counters.plus(replace(count.counters, rows_out=results.num_rows))
        moved = replace(
            state,
            max_event_time_by_subtable=count.max_event_time_by_subtable,
            max_event_time=count.max_event_time,
            counters=counters,
        )
        return BatchResult(results.filter(there), results.filter(pa.array(~np.asarray(there))), moved)

    def projected(self, batch: ChangeBatch) -> pa.Table:
        """Results of all rows that pass WHERE, with the numbers of their rows; `_wstart` is the instant."""
        numbered = batch.rows.append_column(ROW, pa.array(np.arange(batch.rows.num_rows)))
        plan = replace(self.plan.query, keys=(*self.plan.query.keys, Key(ROW, ROW, ROW, BIGINT)))
        rows = small_session(self.context.spark()).createDataFrame(numbered)
        return project(plan, rows).withColumnRenamed(TS, WSTART).toArrow().sort_by(ROW)

    def result_key(self) -> list[str]:
        """What tells results apart in the target: the group, the instant, and the key column where the source has one."""
        key = ["o1"] if self.plan.source.key is not None else []
        return [*self.plan.groups.columns, WSTART, *key]


def last_of_each(found: pa.Table, key: list[str], batch: ChangeBatch) -> pa.Table:
    """Of results with the same key the one that the last write gave; what a write put there outlasts what it took away."""
    if found.num_rows == 0:
        return found
    row = to_numpy(found[ROW]).astype(np.int64)
    there = np.isin(batch.kind[row], WRITTEN)
    (identity,) = identities([found], key)
    order = np.lexsort((there, batch.version[row], identity))
    last = np.concatenate((identity[order][1:] != identity[order][:-1], [True]))
    return found.take(pa.array(order[last]))
