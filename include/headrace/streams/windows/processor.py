"""The micro-batch: changes and the state give rows to write, rows to retract, and the state after them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.compute.plan import FIRST, WSTART, CountWindow, IntervalWindow, SessionWindow
from headrace.compute.windows import key_columns
from headrace.model.streams import TriggerMode
from headrace.streams.batches import BatchResult, idle
from headrace.streams.context import Context
from headrace.streams.definition.define import StreamPlan
from headrace.streams.state.checkpoints import StreamState
from headrace.streams.windows import window_sql
from headrace.streams.windows.accounting import Count, counted
from headrace.streams.windows.changes import Bools, ChangeBatch, Changes, Int64s, RowKind, change_batch, maybe_expired, to_numpy
from headrace.streams.windows.emission import CURRENT, emit, flags, is_closed
from headrace.streams.windows.lateness import BatchSegments, accepted, of_batch, rows_count, to_merge, with_held, with_stored
from headrace.streams.windows.recalculation import Components, components, counted_before
from headrace.streams.windows.retention import candidates, kept_windows, state_columns
from headrace.streams.windows.rewritten_rows import additions, counted_again, with_again
from headrace.streams.windows.row_matching import matches
from headrace.streams.windows.stored_rows import Ranges, coalesce_ranges, covered, stored_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class Evaluated:
    """The windows after a batch: those that it concerned (`windows`), the held ones that went into them, and held ones left alone.

    `possibly_emitted` are places of windows that were evaluated again, where the target may have rows that no held window tells of.
    """

    windows: pa.Table
    held: pa.Table
    unaffected: pa.Table
    possibly_emitted: pa.Table
    recalculated: int
    count: Count


class WindowProcessor:
    """The step of a query with a window."""

    def __init__(self, context: Context, plan: StreamPlan) -> None:
        self.context = context
        self.plan = plan

    def run(self, state: StreamState, changes: Changes) -> BatchResult:
        """Handle one batch; nothing is written."""
        batch = change_batch(self.plan, changes, ignore_update=self.plan.options.ignore_update)
        if batch.rows.num_rows == 0:
            return idle(state)
        chosen, rest = candidates(self.plan, state, batch)
        found = self.fresh(batch, state, chosen) if self.simple(batch, state) else None
        return self.conclude(state, found or self.judged(batch, state, chosen, changes), rest)

    def simple(self, batch: ChangeBatch, state: StreamState) -> bool:
        """Whether all rows are new and in time, and what the batch shows of time is told by the windows or by the batch itself."""
        if batch.repairs or not isinstance(self.plan.query.window, IntervalWindow):
            return False
        if not self.plan.options.ignore_expired:
            return True
        return self.plan.query.filter is None and not maybe_expired(batch, state, self.plan.watermark).any()

    def fresh(self, batch: ChangeBatch, state: StreamState, chosen: pa.Table | None) -> Evaluated | None:
        """All in one job; None where a window turns out to have stored rows that are not held."""
        held = self.frame(chosen) if chosen is not None and chosen.num_rows else None
        windows = window_sql.merge_insert_batch(self.plan.query, self.frame(batch.rows), held).toArrow()
        known = windows.slice(0, 0).select([*key_columns(self.plan.query), WSTART]) if chosen is None else chosen
        if state.evicted_through is not None:
            old = windows.filter(
                pc.and_(pc.less_equal(windows[WSTART], state.evicted_through), pc.greater(windows[window_sql.ADDED], 0))
            )
            if (matches(old, known, [*key_columns(self.plan.query), WSTART]) < 0).any():
                return None
        held_rows = self.held_like(windows) if chosen is None else chosen
        none = held_rows.slice(0, 0)
        return Evaluated(windows, held_rows, none, none, 0, counted(self.plan, batch, state, windows))

    def held_like(self, windows: pa.Table) -> pa.Table:
        """No held window, with the columns that held windows have."""
        columns = state_columns(self.plan.query)[:-1]
        return windows.slice(0, 0).select(columns).append_column(window_sql.EMITTED, pa.nulls(0, pa.int32()))

    def judged(self, batch: ChangeBatch, state: StreamState, chosen: pa.Table | None, changes: Changes) -> Evaluated:
        """First the rows alone, then, with what has to be read again, the windows."""
        found = self.placed(batch.rows)
        segments = with_again(self.plan.query, of_batch(self.plan, batch, state, found, chosen))
        count = rows_count(self.plan, batch, state, segments)
        none = self.held_like(found)
        if len(segments.start) == 0:
            return Evaluated(
                self.merged(to_merge(self.plan, segments, segments.expired, segments.expired)), none, none, none, 0, count
            )
        segments, judged = self.completed(segments, batch, state, changes)
        at, unaffected = judged.again[judged.of], judged.unaffected(segments)
        windows = self.merged(
            to_merge(self.plan, segments, accepted(segments, at, unaffected), judged.needs_recalculation[judged.of])
        )
        windows = self.numbered(windows, segments, judged)
        held = segments.kind == RowKind.HELD
        states = self.states(segments, chosen, none)
        possibly_emitted = judged.needs_recalculation[judged.of] & judged.unknown[judged.of] & ~unaffected
        evaluated = Evaluated(
            windows=windows,
            held=states.filter(pa.array((~unaffected)[held])),
            unaffected=states.filter(pa.array(unaffected[held])),
            possibly_emitted=segments.rows.filter(pa.array(possibly_emitted)),
            recalculated=int(judged.needs_recalculation.sum()),
            count=count,
        )
        return self.completed_windows(evaluated, segments, counted_again(segments, judged))

    def completed_windows(self, found: Evaluated, segments: BatchSegments, again: Int64s) -> Evaluated:
        """Count rows that were written again once more, and take in windows left alone that this batch closes."""
        closes = self.closed_now(found)
        if len(again) == 0 and not closes.any():
            return found
        columns = list(window_sql.segment_columns(self.plan.query))
        unaffected = with_held(self.plan, segments.rows.slice(0, 0), found.unaffected).select(columns)
        every = pa.concat_tables([found.windows.select(columns), unaffected], promote_options="permissive")
        also = np.concatenate((np.zeros(found.windows.num_rows, np.bool_), closes))
        parts, touched = additions(self.plan.query, segments, again, every, also)
        if not touched.any():
            return found
        new, moved = touched[: found.windows.num_rows], touched[found.windows.num_rows :]
        larger = window_sql.enlarged(self.plan.query, self.frame(parts).coalesce(1)).toArrow()
        return replace(
            found,
            windows=pa.concat_tables([found.windows.filter(pa.array(~new)), larger], promote_options="permissive"),
            held=pa.concat_tables([found.held, found.unaffected.filter(pa.array(moved))], promote_options="permissive"),
            unaffected=found.unaffected.filter(pa.array(~moved)),
        )

    def closed_now(self, found: Evaluated) -> Bools:
        """Which windows left alone are closed after the batch while the target has not their value."""
        if self.plan.options.trigger is TriggerMode.AT_ONCE or found.count.max_event_time is None:
            return np.zeros(found.unaffected.num_rows, np.bool_)
        closed = flags(is_closed(found.unaffected, found.count.max_event_time - self.plan.watermark))
        return np.asarray(closed & (to_numpy(found.unaffected[window_sql.EMITTED]) != CURRENT))

    def states(self, segments: BatchSegments, chosen: pa.Table | None, none: pa.Table) -> pa.Table:
        """The held windows among segments, which keep their order."""
        return none if chosen is None or not (segments.kind == RowKind.HELD).any() else chosen

    def completed(
        self, segments: BatchSegments, batch: ChangeBatch, state: StreamState, changes: Changes
    ) -> tuple[BatchSegments, Components]:
        """The segments with the stored rows of components that are evaluated again, read until nothing more is linked to them."""
        found = components(self.plan.query, segments, state.evicted_through)
        complete, read = segments, list[tuple[int, int]]()
        while found.needs_recalculation.any():
            wanted = self.wanted(found)
            if covered(wanted, read):
                break
            read = wanted
            stored = stored_rows(self.context, self.plan, batch, changes, read)
            complete = with_stored(self.plan, segments, self.placed(stored.rows), stored.first, stored.last)
            found = components(self.plan.query, complete, state.evicted_through)
        return complete, found

    def wanted(self, found: Components) -> Ranges:
        """The ranges of time to read for components that are evaluated again."""
        reach = np.zeros(len(found.again), np.int64)
        window = self.plan.query.window
        if isinstance(window, SessionWindow):
            # What is not held may go on beyond what is known, so look as far as there is already, and at least a gap.
            reach = np.where(found.unknown, np.maximum(window.gap, found.last - found.first) + 1, 0)
        needs_recalculation = found.needs_recalculation
        return coalesce_ranges((found.first - reach)[needs_recalculation], (found.last + reach)[needs_recalculation])

    def placed(self, rows: pa.Table) -> pa.Table:
        numbered = rows.append_column(window_sql.ROW, pa.array(np.arange(rows.num_rows)))
        return window_sql.assign_windows(self.plan.query, self.frame(numbered)).toArrow()

    def merged(self, segments: pa.Table) -> pa.Table:
        return window_sql.finalize_windows(self.plan.query, self.frame(segments).coalesce(1)).toArrow()

    def numbered(self, windows: pa.Table, segments: BatchSegments, found: Components) -> pa.Table:
        """COUNT windows of partitions that were evaluated from the middle on, numbered as from their beginning."""
        if not isinstance(self.plan.query.window, CountWindow) or not found.needs_recalculation.any() or windows.num_rows == 0:
            return windows
        offsets = counted_before(segments, found)
        representative = segments.rows.take(pa.array(np.unique(segments.group, return_index=True)[1]))
        group = matches(windows, representative, key_columns(self.plan.query)) if key_columns(self.plan.query) else 0
        moved = pc.add(windows[FIRST], pa.array(np.broadcast_to(offsets[group], windows.num_rows)))
        return windows.set_column(windows.schema.get_field_index(FIRST), FIRST, moved)

    def frame(self, rows: pa.Table) -> DataFrame:
        # PySpark fails on timestamp columns without chunks, which an empty selection has.
        return window_sql.small_session(self.context.spark()).createDataFrame(rows if rows.num_rows else rows.schema.empty_table())

    def conclude(self, state: StreamState, found: Evaluated, rest: pa.Table | None) -> BatchResult:
        count = found.count
        moved = replace(state, max_event_time_by_subtable=count.max_event_time_by_subtable, max_event_time=count.max_event_time)
        before, watermark = state.watermark(self.plan.watermark), moved.watermark(self.plan.watermark)
        trigger = self.plan.options.trigger
        emission = emit(self.plan.query, trigger, found.windows, found.held, found.possibly_emitted, before, watermark)
        out = emission.upserts.num_rows + emission.retractions.num_rows
        counters = state.counters.plus(replace(count.counters, rows_out=out, windows_recalculated=found.recalculated))
        parts = [rest, found.unaffected, emission.windows]
        return BatchResult(
            emission.upserts, emission.retractions, kept_windows(self.plan, replace(moved, counters=counters), parts)
        )
