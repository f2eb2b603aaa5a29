"""The step: a batch of changes and the state give rows to write, rows to withdraw, and the state after them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.compute.plan import WSTART
from headrace.streams import frames
from headrace.streams.context import Context
from headrace.streams.counting import count
from headrace.streams.define import StreamPlan
from headrace.streams.emission import emit
from headrace.streams.held import candidates, kept_windows, without
from headrace.streams.incoming import NEVER, Bools, Changes, Incoming, incoming, known, suspects
from headrace.streams.repair import stored_rows
from headrace.streams.state import State
from headrace.streams.versions import FROM, TO

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class Outcome:
    """What a batch comes to: windows (`p*` and outputs) to write, windows (`p*`, `_wstart`) to withdraw, and the state after it."""

    upserts: pa.Table
    withdrawn: pa.Table
    state: State


@dataclass(frozen=True)
class Evaluated:
    """What Spark gave: windows held or touched, those evaluated again, and per subtable what its rows were."""

    windows: pa.Table
    dirty: pa.Table
    counts: pa.Table | None


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
        late = self.late(batch, state)
        chosen, rest = candidates(self.plan, state, batch)
        found = None
        if not batch.repairs and not late.any():
            found = self.fresh(batch, chosen)
            if self.unheld(found.windows, state):
                found = None
        if found is None:
            found = self.repaired(batch, state, chosen, changes, expire=bool(late.any()))
        return self.conclude(batch, state, found, rest)

    def late(self, batch: Incoming, state: State) -> Bools:
        if not self.plan.options.ignore_expired:
            return np.zeros(len(batch.ts), np.bool_)
        return suspects(batch, state, self.plan.watermark)

    def fresh(self, batch: Incoming, chosen: pa.Table | None) -> Evaluated:
        by_subtable = self.plan.query.filter is not None and self.plan.options.ignore_expired
        rows = self.frame(batch.rows)
        held = self.frame(chosen) if chosen is not None and chosen.num_rows else None
        found = self.evaluated(frames.fresh(self.plan.query, rows, held, by_subtable=by_subtable))
        return found if by_subtable else replace(found, counts=None)

    def repaired(self, batch: Incoming, state: State, chosen: pa.Table | None, changes: Changes, *, expire: bool) -> Evaluated:
        rows = marked(batch, state)
        stored = stored_rows(self.context, self.plan, batch, state, changes)
        frame = self.frame(rows if stored is None else pa.concat_tables([rows, stored], promote_options="permissive"))
        held = self.frame(chosen) if chosen is not None and chosen.num_rows else None
        return self.evaluated(
            frames.repaired(self.plan.query, frame, held, watermark=self.plan.watermark, floor=state.floor, expire=expire)
        )

    def frame(self, rows: pa.Table) -> DataFrame:
        return self.context.spark().createDataFrame(rows)

    def evaluated(self, frame: DataFrame) -> Evaluated:
        found = frame.toArrow()
        part = found[frames.PART]
        dirty = found.filter(pc.equal(part, frames.PART_DIRTY))
        counts = found.filter(pc.equal(part, frames.PART_COUNT))
        return Evaluated(found.filter(pc.equal(part, frames.PART_WINDOW)), dirty, counts)

    def unheld(self, windows: pa.Table, state: State) -> bool:
        """Whether a window was touched that is not held and may have stored rows."""
        if state.floor is None:
            return False
        old = pc.and_(pc.less_equal(windows[WSTART], state.floor), pc.invert(windows[frames.WAS_HELD]))
        return bool(pc.any(old).as_py())

    def conclude(self, batch: Incoming, state: State, found: Evaluated, rest: pa.Table | None) -> Outcome:
        counted = count(self.plan, batch, state, found)
        moved = replace(state, version=batch.last, seen=counted.seen, newest=counted.newest)
        before, frontier = state.frontier(self.plan.watermark), moved.frontier(self.plan.watermark)
        keys = [key.column for key in self.plan.query.keys]
        vanished = without(found.dirty, found.windows, [*keys, WSTART])
        emission = emit(self.plan.options.trigger, found.windows, vanished, before, frontier)
        out = emission.upserts.num_rows + emission.withdrawn.num_rows
        counters = replace(counted.counters, rows_out=out, windows_repaired=found.dirty.num_rows)
        moved = replace(moved, counters=state.counters.plus(counters))
        return Outcome(emission.upserts, emission.withdrawn, kept_windows(self.plan, moved, [rest, emission.windows]))


def marked(batch: Incoming, state: State) -> pa.Table:
    """A batch's rows with the columns that the step reads of every row."""
    already = known(state, batch.rows)
    newest = pa.scalar(state.newest, pa.int64())
    size = batch.rows.num_rows
    columns = {
        frames.KIND: pa.array(batch.kind.astype(np.int32)),
        frames.VERSION: pa.array(batch.version),
        frames.KNOWN: pa.array(already, mask=already == NEVER),
        frames.NEWEST: pa.repeat(newest, size),
        FROM: pa.nulls(size, pa.int64()),
        TO: pa.nulls(size, pa.int64()),
    }
    return reduce(lambda table, one: table.append_column(*one), columns.items(), batch.rows)


def idle(state: State, version: int) -> Outcome:
    """What a batch without rows for the stream comes to."""
    nothing = pa.table({})
    return Outcome(nothing, nothing, replace(state, version=version))
