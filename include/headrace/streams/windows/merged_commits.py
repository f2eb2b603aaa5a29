"""Large commits to INTERVAL and SESSION windows, merged piece by piece although rows are late, updated or deleted.

A commit is one write, so the order of its rows is of no importance: the segments of its new rows can be merged at once, and so can
those of its changed rows, which only say what has to be recalculated. Stored rows are read and merged in pieces too. What is in
memory follows the windows. If there are too many, the commit is read several times, each time for a share of the windows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.compute.columnar import UnsupportedError
from headrace.compute.plan import WEND, WSTART
from headrace.compute.windows import key_columns
from headrace.compute.windows.segments import base_key_columns
from headrace.context import Context
from headrace.model.jobs import JobCounters
from headrace.storage import Bounds
from headrace.storage.row_matching import row_ids
from headrace.streams.batches import BatchResult, idle_result
from headrace.streams.definition.define import StreamPlan
from headrace.streams.sinks.target import GROUP, TargetTable
from headrace.streams.sources.stored import source_pieces
from headrace.streams.sources.tags import with_tags
from headrace.streams.state.checkpoints import StreamState
from headrace.streams.state.hashing import hash_rows
from headrace.streams.wide.staging import can_stage, create_staging_folder, discard_staged, stage_result
from headrace.streams.windows.accounting import BatchCount, EvaluatedBatch, later_of
from headrace.streams.windows.change_batch import (
    NEVER,
    RECALCULATION_KINDS,
    Bools,
    ChangeBatch,
    Changes,
    Int64s,
    LargeCommit,
    RowKind,
    change_batch,
    recalculation_batch,
    to_numpy,
)
from headrace.streams.windows.evaluation import WindowEvaluation, source_schema
from headrace.streams.windows.large_commits import LargeCommits, TooManyWindowsError, check_windows
from headrace.streams.windows.lateness import BatchSegments, append_state_windows, append_stored_rows, batch_segments, count_batch
from headrace.streams.windows.moved_rows import MovedRows, has_earlier_tags
from headrace.streams.windows.recalculation import END, RecalculationScopes
from headrace.streams.windows.results import result_of, unevicted_result
from headrace.streams.windows.retention import Span, affected_windows, empty_state_windows, evict_windows, subtable_key
from headrace.streams.windows.rewritten_rows import find_windows
from headrace.streams.windows.scope_evaluation import add_marks, complete_scopes, evaluate_scopes
from headrace.streams.windows.stored_rows import Ranges, in_ranges
from headrace.streams.windows.window_sql import ROW

THIS_WRITE: Final = 0
"""The version of the commit among segments: all of its rows have the same."""
MAX_NAMES: Final = 10_000
"""Greatest number of series that a read of stored rows names."""
GROWTH: Final = 4
"""How many times as many shares are tried if the windows of one are too many."""


@dataclass(frozen=True)
class WindowShare:
    """One of `count` shares of the windows of a stream: those for which the hash of some columns has the remainder `number`."""

    columns: Sequence[str]
    number: int = 0
    count: int = 1

    @classmethod
    def all_of(cls, plan: StreamPlan) -> WindowShare:
        """Return all windows of a stream. Sessions of one group are not divided, since rows may join them."""
        return cls([*base_key_columns(plan.query), *([WSTART] if plan.query.kind.is_fixed else [])])

    def of(self, windows: pa.Table) -> pa.Table:
        if self.count == 1 or windows.num_rows == 0:
            return windows
        return windows.filter(pa.array(hash_rows(windows, self.columns) % np.uint64(self.count) == self.number))


@dataclass
class MergedRows:
    """What a commit comes to.

    The merged segments are those of new rows that are on time, and those of changed rows, whose windows are recalculated. `tally`
    is the state before the commit with its rows and event times counted; `marks` has rows that mark windows which are recalculated
    later; `span` decides which windows in state it may change, and is None if it has no rows.
    """

    tally: StreamState
    inserts: pa.Table | None = None
    changed: pa.Table | None = None
    marks: pa.Table | None = None
    span: Span | None = None

    def reach(self, batch: ChangeBatch) -> None:
        """Extend the span to the rows of a batch."""
        own, before = replace(Span.of(batch, None), series=None), self.span
        if before is not None:
            own = Span(min(before.first, own.first), max(before.last, own.last), later_of(before.written, own.written))
        self.span = own


@dataclass(frozen=True)
class MergedCommits:
    """Merges the large commits of one stream."""

    context: Context
    plan: StreamPlan
    evaluation: WindowEvaluation

    @property
    def is_divisible(self) -> bool:
        """Whether windows can be computed share by share: whether they can be divided, and results be staged."""
        return bool(WindowShare.all_of(self.plan).columns) and can_stage(self.plan)

    def process(self, state: StreamState, changes: Changes, commit: LargeCommit) -> BatchResult:
        """Return the result of a commit, computed in more and more shares until the windows of each are few."""
        share = WindowShare.all_of(self.plan)
        while True:
            try:
                return (self._process_shares if share.count > 1 else self._process_all)(state, changes, commit, share)
            except TooManyWindowsError:
                share = replace(share, count=share.count * GROWTH)

    def _process_all(self, state: StreamState, changes: Changes, commit: LargeCommit, share: WindowShare) -> BatchResult:
        rows = self.merge(commit, state, changes, share)
        if rows.span is None:
            return idle_result(state)
        result = result_of(self.plan, state, self.evaluate(rows, state, changes, share))
        return replace(result, state=replace(result.state, deferred=rows.marks))

    def _process_shares(self, state: StreamState, changes: Changes, commit: LargeCommit, share: WindowShare) -> BatchResult:
        staged = create_staging_folder(self.context, self.plan.id)
        result, rows = replace(idle_result(state), staged=staged), MergedRows(state)
        try:
            for number in range(share.count):
                own = replace(share, number=number)
                rows = self.merge(commit, state, changes, own)
                if rows.span is None:
                    break
                evaluated = self._evaluate_share(rows, result.state, state.max_event_time, changes, own)
                result = stage_result(self.plan, evaluated, changes.now, result.staged)
        except TooManyWindowsError:
            discard_staged(staged)
            raise
        return replace(result, state=evict_windows(self.plan, replace(result.state, deferred=rows.marks)))

    def _evaluate_share(
        self, rows: MergedRows, current: StreamState, reached: int | None, changes: Changes, share: WindowShare
    ) -> BatchResult:
        """Return the result of a share. Rows are counted with the first.

        `current` is the state after the shares so far, `reached` the largest event time before the commit.
        """
        state = replace(current, max_event_time=reached)
        evaluated = self.evaluate(rows, state, changes, share)
        if share.number > 0:
            evaluated = replace(evaluated, count=replace(evaluated.count, counters=JobCounters()))
        return unevicted_result(self.plan, state, evaluated)

    def merge(self, commit: LargeCommit, state: StreamState, changes: Changes, share: WindowShare) -> MergedRows:
        """Return what a commit comes to in a share of the windows.

        Raises:
            TooManyWindowsError: There are too many windows, and they can be divided.
        """
        merged = MergedRows(replace(state, counters=JobCounters()), marks=state.deferred)
        for piece in commit.plain_pieces():
            batch = change_batch(self.plan, replace(changes, source=piece), ignore_update=self.plan.ignores_updates)
            if batch.rows.num_rows:
                merged.reach(batch)
                if not self._add_on_time(merged, batch, state, share):
                    rows = self.evaluation.assign_windows(batch.rows)
                    self._add_rows(merged, batch, rows, state, share, defers=self.plan.defers_changes)
            if self.is_divisible:
                check_windows(sum(part.num_rows for part in (merged.inserts, merged.changed) if part is not None))
        return merged

    def recalculate(
        self,
        pieces: Iterable[pa.Table],
        state: StreamState,
        changes: Changes,
        evicted_through: int | None,
        moved: MovedRows | None = None,
    ) -> BatchResult:
        """Recalculate the windows of rows from what the source has after the changes; if tags have changed, of those that move.

        Windows up to `evicted_through` that are not in state may be in the target.
        """
        merged = self._merge_changed(pieces, state, moved)
        if merged.span is None:
            return idle_result(state)
        share = WindowShare.all_of(self.plan)
        recalculated = self.evaluate(merged, replace(state, evicted_through=evicted_through), changes, share)
        return result_of(self.plan, state, recalculated)

    def _merge_changed(self, pieces: Iterable[pa.Table], state: StreamState, moved: MovedRows | None) -> MergedRows:
        share, merged = WindowShare.all_of(self.plan), MergedRows(replace(state, counters=JobCounters()))
        for piece in pieces:
            if piece.num_rows:
                batch = recalculation_batch(self.plan, piece)
                merged.reach(batch)
                rows = self.evaluation.assign_windows(batch.rows)
                rows = rows if moved is None else moved.select(batch, has_earlier_tags(piece), rows)
                self._add_rows(merged, batch, rows, state, share, defers=False)
        return merged

    def computed_sessions(self, state: StreamState, changes: Changes) -> pa.Table:
        """Return the sessions with rows of retagged subtables, by their earlier or present tags, that state or the target has.

        They have their keys, and the first and last instant of their rows.
        """
        merged, keys = self._merge_changed(changes.pieces(), state, None), key_columns(self.plan.query)
        windows = None if merged.span is None else affected_windows(self.plan, state, merged.span)
        segments = self._segments(merged, windows)
        if len(segments.start) == 0:
            return segments.rows
        completed, scopes = self._complete(segments, replace(state, evicted_through=END), changes)
        is_computed = np.zeros(len(scopes.first), np.bool_)
        is_computed[scopes.of_segment[completed.kind == RowKind.IN_STATE]] = True
        is_computed[self._in_target(completed, scopes, scopes.needs_recalculation)[1]] = True
        member = np.unique(scopes.of_segment, return_index=True)[1]
        sessions = completed.rows.take(pa.array(member[is_computed]))
        ends = {WSTART: pa.array(scopes.first[is_computed]), WEND: pa.array(scopes.last[is_computed])}
        return pa.table({name: sessions[name] for name in keys} | ends)

    def _add_on_time(self, merged: MergedRows, batch: ChangeBatch, state: StreamState, share: WindowShare) -> bool:
        """Add a piece that only has new rows on time, without a segment for each; return False if kernels cannot."""
        kernels = self.evaluation.kernels
        if batch.needs_recalculation or kernels is None:
            return False
        commits = LargeCommits(self.plan, kernels)
        if not commits.is_on_time(batch, state, merged.tally):
            return False
        try:
            inserts, tally = kernels.piece_segments(batch.rows), commits.counted(batch, merged.tally)
        except UnsupportedError:
            return False
        merged.inserts, merged.tally = self._merged(merged.inserts, share.of(inserts)), tally
        return True

    def _add_rows(
        self, merged: MergedRows, batch: ChangeBatch, rows: pa.Table, state: StreamState, share: WindowShare, *, defers: bool
    ) -> None:
        """Add the segments of a piece's rows. With `defers`, changes only mark the windows that were closed before them."""
        segments = batch_segments(self.plan, batch, state, rows, None, defers=defers)
        merged.tally = count_batch(self.plan, batch, merged.tally, segments).added_to(merged.tally)
        merged.inserts = self._merged(merged.inserts, share.of(segments.rows.filter(pa.array(segments.is_kind(RowKind.INSERT)))))
        changed = segments.rows.filter(pa.array(segments.is_kind(*RECALCULATION_KINDS)))
        merged.changed = self._merged(merged.changed, share.of(changed))
        if segments.deferred.any():
            marks = batch.rows.take(pa.array(np.unique(segments.row_index[segments.deferred])))
            merged.marks = add_marks(self.plan, self.evaluation, merged.marks, marks)

    def _merged(self, windows: pa.Table | None, added: pa.Table) -> pa.Table | None:
        if added.num_rows == 0:
            return windows
        columns = [name for name in added.column_names if name != ROW]
        parts = [added.select(columns)] if windows is None else [windows.select(columns), added.select(columns)]
        return self.evaluation.merge_segments(pa.concat_tables(parts, promote_options="permissive"))

    def evaluate(self, merged: MergedRows, state: StreamState, changes: Changes, share: WindowShare) -> EvaluatedBatch:
        """Return the windows of a share after a commit that has rows."""
        assert merged.span is not None
        affected = affected_windows(self.plan, state, merged.span)
        state_windows = None if affected is None else share.of(affected)
        empty = self.evaluation.finalize_windows(self._no_segments().drop_columns(ROW))
        no_windows = empty_state_windows(self.plan, empty)
        segments = self._segments(merged, state_windows)
        count = BatchCount.of_write(merged.tally)
        if len(segments.start) == 0:
            return EvaluatedBatch(empty, no_windows, no_windows, no_windows, 0, count)

        completed, scopes = self._complete(segments, state, changes)
        in_state = no_windows if state_windows is None or state_windows.num_rows == 0 else state_windows
        evaluated = evaluate_scopes(self.plan, self.evaluation, completed, scopes, in_state, count)
        # Merged rows do not tell where sessions began before rows joined or parted them, so the target is asked.
        selected = scopes.needs_recalculation & scopes.maybe_evicted
        if self.plan.query.kind.is_fixed or not selected.any():
            return evaluated
        return replace(evaluated, possibly_emitted=self._in_target(completed, scopes, selected)[0])

    def _complete(self, segments: BatchSegments, state: StreamState, changes: Changes) -> tuple[BatchSegments, RecalculationScopes]:
        def read(ranges: Ranges, scopes: RecalculationScopes) -> BatchSegments:
            stored = self._stored_segments(segments, scopes, ranges, changes)
            first, last = np.array([NEVER]), np.array([np.iinfo(np.int64).max])
            return append_stored_rows(self.plan, segments, stored, first, last)

        return complete_scopes(self.plan, segments, state.evicted_through, read)

    def _in_target(self, segments: BatchSegments, scopes: RecalculationScopes, selected: Bools) -> tuple[pa.Table, Int64s]:
        """Return the windows that the target has of selected scopes, as their keys and starts, and the scope of each."""
        keys = key_columns(self.plan.query)
        group, first, last = (one[selected] for one in (scopes.group, scopes.first, scopes.last))
        numbers, members = np.unique(segments.group, return_index=True)
        is_selected = np.isin(numbers, group)
        groups = segments.rows.take(pa.array(members[is_selected]))
        stored = TargetTable(self.context, self.plan).windows_between(groups, int(first.min()), int(last.max()))
        number, start = to_numpy(stored[GROUP]).astype(np.int64), to_numpy(stored[WSTART]).astype(np.int64)
        order = np.lexsort((last, first, group))
        low, high = find_windows(group[order], first[order], last[order], numbers[is_selected][number], start)
        inside = np.flatnonzero(high > low)
        members_of = pa.array(number[inside])
        windows = {name: groups[name].take(members_of) for name in keys} | {WSTART: stored[WSTART].take(pa.array(inside))}
        return pa.table(windows), np.flatnonzero(selected)[order[low[inside]]]

    def _no_segments(self) -> pa.Table:
        return self.evaluation.assign_windows(source_schema(self.plan).empty_table())

    def _segments(self, merged: MergedRows, state_windows: pa.Table | None) -> BatchSegments:
        no_rows = self._no_segments()
        parts = [no_rows if part is None else with_row_number(part, -1) for part in (merged.inserts, merged.changed)]
        new = pa.concat_tables([part.select(no_rows.column_names) for part in parts], promote_options="permissive")
        rows = append_state_windows(self.plan, new, state_windows)
        inserts, changed = (part.num_rows for part in parts)
        old = rows.num_rows - inserts - changed
        kinds = np.repeat(np.array([RowKind.INSERT, RowKind.DELETE, RowKind.IN_STATE], np.int8), [inserts, changed, old])
        return BatchSegments.of(self.plan, rows, kinds, np.where(kinds == RowKind.IN_STATE, NEVER, THIS_WRITE))

    def _stored_segments(self, segments: BatchSegments, scopes: RecalculationScopes, ranges: Ranges, changes: Changes) -> pa.Table:
        needed = segments.rows.filter(pa.array(scopes.needs_recalculation[scopes.of_segment[: len(segments.start)]]))
        columns = [*key_columns(self.plan.query), *([WSTART] if self.plan.query.kind.is_fixed else [])]
        windows: pa.Table | None = None
        for piece in self._stored_pieces(needed, ranges, changes):
            rows = self.evaluation.assign_windows(piece)
            if columns:
                rows = rows.filter(pa.array(is_among(rows, needed, columns)))
            windows = self._merged(windows, rows)
        return self._no_segments() if windows is None else with_row_number(windows, 0)

    def _stored_pieces(self, needed: pa.Table, ranges: Ranges, changes: Changes) -> Iterator[pa.Table]:
        """Yield the stored rows in ranges, of the series that are needed and maybe others."""
        key, source, scan = subtable_key(self.plan), self.plan.source, self.plan.query.scans[0]
        names = self.plan.source_series
        if names is None and key is not None:
            distinct = pc.unique(needed[key])
            names = distinct.to_pylist() if len(distinct) <= MAX_NAMES else None
        bounds = [Bounds.of_ticks(low, high, self.plan.query.precision) for low, high in ranges]
        pieces = source_pieces(
            self.context,
            self.plan,
            changes.offsets,
            self.plan.stored_columns,
            filter=in_ranges(self.plan.source.timestamp.name, self.plan.query.precision, bounds),
            series=names,
            bounds=Bounds(bounds[0].low, bounds[-1].high),
        )
        tagged = (with_tags(self.context.tables, source, piece, scan.tags).select(list(scan.columns)) for piece in pieces)
        earlier = changes.earlier_tags
        return tagged if earlier is None else (earlier.restore(piece) for piece in tagged)


def with_row_number(segments: pa.Table, number: int) -> pa.Table:
    """Return segments that belong to no single row of a batch, with a number instead of that of a row."""
    return segments.append_column(ROW, pa.repeat(pa.scalar(number, pa.int64()), segments.num_rows))


def is_among(rows: pa.Table, others: pa.Table, columns: Sequence[str]) -> Bools:
    """Return a mask of the rows that have an equal among others."""
    row_id, other_id = row_ids([rows, others], columns)
    return np.asarray(np.isin(row_id, other_id))
