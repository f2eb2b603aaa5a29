"""The step: a batch of changes and the state give rows to write, rows to withdraw, and the state after them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.compute.plan import WSTART
from headrace.streams import frames
from headrace.streams.context import Context
from headrace.streams.counting import Count, counted
from headrace.streams.define import StreamPlan
from headrace.streams.emission import emit
from headrace.streams.held import candidates, kept_windows
from headrace.streams.incoming import Changes, Incoming, incoming, suspects
from headrace.streams.judgement import Stored, Verdict, judged
from headrace.streams.repair import stored_rows
from headrace.streams.state import State

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class Outcome:
    """What a batch comes to: windows (`p*` and outputs) to write, windows (`p*`, `_wstart`) to withdraw, and the state after it."""

    upserts: pa.Table
    withdrawn: pa.Table
    state: State


class WindowStep:
    """The step of a query with a window."""

    def __init__(self, context: Context, plan: StreamPlan) -> None:
        self.context = context
        self.plan = plan

    def run(self, state: State, changes: Changes) -> Outcome:
        """Handle one batch; nothing is written."""
        batch = incoming(self.plan, changes)
        if batch.rows.num_rows == 0:
            return idle(state, changes.last)
        chosen, rest = candidates(self.plan, state, batch)
        if self.simple(batch, state):
            windows = self.fresh(batch, chosen)
            if not unheld(windows, state):
                return self.conclude(state, counted(self.plan, batch, state, windows), windows, None, rest)
        verdict = self.verdict(batch, state, chosen, changes)
        windows = self.merged(verdict.segments)
        return self.conclude(state, verdict.count, windows, verdict, rest)

    def simple(self, batch: Incoming, state: State) -> bool:
        """Whether all rows are new and in time, and what the batch shows of time is told by the windows or by the batch itself."""
        if batch.repairs:
            return False
        if not self.plan.options.ignore_expired:
            return True
        return self.plan.query.filter is None and not suspects(batch, state, self.plan.watermark).any()

    def fresh(self, batch: Incoming, chosen: pa.Table | None) -> pa.Table:
        held = self.frame(chosen) if chosen is not None and chosen.num_rows else None
        return frames.fresh(self.plan.query, self.frame(batch.rows), held).toArrow()

    def verdict(self, batch: Incoming, state: State, chosen: pa.Table | None, changes: Changes) -> Verdict:
        stored = stored_rows(self.context, self.plan, batch, state, changes)
        rows = batch.rows if stored is None else pa.concat_tables([batch.rows, stored.rows], promote_options="permissive")
        numbered = rows.append_column(frames.ROW, pa.array(np.arange(rows.num_rows)))
        found = frames.placed(self.plan.query, self.frame(numbered)).toArrow()
        return judged(self.plan, batch, state, found, chosen, stored or Stored.none(batch.rows))

    def merged(self, segments: pa.Table) -> pa.Table:
        return frames.valued(self.plan.query, self.frame(segments).coalesce(1)).toArrow()

    def frame(self, rows: pa.Table) -> DataFrame:
        return frames.small_session(self.context.spark()).createDataFrame(rows)

    def conclude(self, state: State, count: Count, windows: pa.Table, verdict: Verdict | None, rest: pa.Table | None) -> Outcome:
        moved = replace(state, version=count.version, seen=count.seen, newest=count.newest)
        before, frontier = state.frontier(self.plan.watermark), moved.frontier(self.plan.watermark)
        vanished = verdict.vanished if verdict is not None else None
        emission = emit(self.plan.options.trigger, windows, vanished, before, frontier)
        out = emission.upserts.num_rows + emission.withdrawn.num_rows
        again = 0 if verdict is None else verdict.repaired
        counters = state.counters.plus(replace(count.counters, rows_out=out, windows_repaired=again))
        moved = kept_windows(self.plan, replace(moved, counters=counters), [rest, emission.windows])
        return Outcome(emission.upserts, emission.withdrawn, moved)


def unheld(windows: pa.Table, state: State) -> bool:
    """Whether a window was touched that is not held and may have stored rows."""
    if state.floor is None:
        return False
    old = pc.and_(pc.less_equal(windows[WSTART], state.floor), pc.invert(windows[frames.WAS_HELD]))
    return bool(pc.any(old).as_py())


def idle(state: State, version: int) -> Outcome:
    """What a batch without rows for the stream comes to."""
    nothing = pa.table({})
    return Outcome(nothing, nothing, replace(state, version=version))
