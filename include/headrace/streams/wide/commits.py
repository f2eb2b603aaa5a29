"""Large commits by executors: tasks compute the windows of ranges of series and stage results; the driver commits these once.

A window has rows of one series, so a range of series can be computed without the others. Only the watermark depends on all rows.
The driver sees the windows that stay in state, the names of files, counts and event times, and no other rows, windows or results.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import reduce
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.compute.columnar import UnsupportedError
from headrace.context import Context
from headrace.errors import NotSupportedError
from headrace.model.failpoints import failpoint
from headrace.model.streams import TriggerMode
from headrace.storage.delta.change_columns import as_inserted
from headrace.storage.delta.changes import InsertedRows
from headrace.storage.delta.shares import Share
from headrace.storage.delta.spark_writes import map_in_tasks
from headrace.streams.batches import BatchResult, StagedWindows
from headrace.streams.definition.define import StreamPlan
from headrace.streams.state.checkpoints import StreamState
from headrace.streams.wide.division import divide_state, join_results, number_by_name, whole_result
from headrace.streams.wide.staging import can_stage, create_staging_folder, discard_staged, stage_result
from headrace.streams.windows.accounting import later_of
from headrace.streams.windows.change_batch import Changes, Int64s, LargeCommit, to_numpy, to_ticks
from headrace.streams.windows.large_commits import LargeCommits
from headrace.streams.windows.results import result_of
from headrace.streams.windows.retention import subtable_key

TRIGGERS: Final = (TriggerMode.AT_ONCE, TriggerMode.WINDOW_CLOSE)
MAX_CLOSED_WINDOWS: Final = 100
"""Closed windows of a slice to retain, at least two for each subtable: the driver gets those of all slices."""

CommitPart = tuple[Share, StreamState]
"""A range of series: the rows that a commit has of it, and what the state has."""
Slice = tuple[StreamState, list[pa.Table]]


def can_be_wide(plan: StreamPlan) -> bool:
    """Return whether the windows of a stream can be computed by ranges of series, and its results be written by executors."""
    is_by_series = subtable_key(plan) is not None and plan.source_subtable is None
    return is_by_series and can_stage(plan) and plan.options.trigger in TRIGGERS


@dataclass(frozen=True)
class WideCommits:
    """Has executors compute the large commits of one stream."""

    context: Context
    commits: LargeCommits

    def process(self, state: StreamState, changes: Changes, commit: LargeCommit) -> BatchResult | None:
        """Return the result of a commit; None if its rows need recalculation, or its files are not ordered by series."""
        plan, spark = self.commits.plan, self.context.spark()
        parts = [] if commit.inserted is None else self._parts(state, commit.inserted)
        if commit.inserted is None or not parts:
            return None
        staged = create_staging_folder(self.context, plan.id)
        task = PartTask(
            self.commits, replace(changes, source=commit.inserted.schema.empty_table()), commit.inserted, commit.remaining, staged
        )
        task = replace(task, max_event_time=later_of(state.max_event_time, self._max_event_time(task, parts)))
        results = [result for result in map_in_tasks(spark, parts, task.compute, plan.name) if result is not None]
        failpoint("streams.wide.staged")
        if len(results) < len(parts):
            discard_staged(staged)
            return None
        return whole_result(plan, state, results)

    def _parts(self, state: StreamState, inserted: InsertedRows) -> list[CommitPart]:
        plan, tasks = self.commits.plan, self.context.spark().sparkContext.defaultParallelism
        try:
            shares = self.context.tables.shares(plan.source, columns_read(plan), tasks, paths=inserted.paths)
        except NotSupportedError:
            return []
        # Series between two shares have no rows, so any task can take their state.
        state_of = divide_state(plan, state, number_by_name([share.series.first or "" for share in shares]))
        return [(share, state_of(number)) for number, share in enumerate(shares)]

    def _max_event_time(self, task: PartTask, parts: list[CommitPart]) -> int | None:
        plan = self.commits.plan
        if plan.query.filter is None and not plan.query.ignores_null and plan.part is None:
            return self.commits.span(task.inserted).last
        shares = [share for share, _ in parts]
        return reduce(later_of, map_in_tasks(self.context.spark(), shares, task.max_time, plan.name), None)


def columns_read(plan: StreamPlan) -> tuple[str, ...]:
    return tuple(dict.fromkeys([*plan.source.primary_key, *plan.scan.columns]))


@dataclass(frozen=True)
class PartTask:
    """What all tasks of a commit have in common. Sent to Spark's workers.

    `changes` is the commit without its rows; `max_event_time`, the largest one after it, in ticks. `remaining` returns rows without
    those that the stream leaves out; None if it leaves out none.
    """

    commits: LargeCommits
    changes: Changes
    inserted: InsertedRows
    remaining: Callable[[pa.Table], pa.Table] | None
    staged: StagedWindows
    max_event_time: int | None = None

    def compute(self, part: CommitPart) -> BatchResult | None:
        """Return the result of a part; None if the driver has to compute the commit, because windows need recalculation."""
        results = list[BatchResult]()
        for state, rows in self._slices(part):
            result = self._compute_slice(state, rows)
            if result is None:
                return None
            results.append(result)
        return join_results(self.commits.plan, results)

    def _slices(self, part: CommitPart) -> Iterator[Slice]:
        """Yield the rows of a part by ranges of series, with the state of these; at last the state that is left, without rows."""
        share, state = part
        for rows in self._read(share):
            last = pc.max(rows[share.key].unique().cast(pa.string())).as_py()
            own, state = through(self.commits.plan, state, last)
            yield own, [as_inserted(rows, self.inserted.version)]
        yield state, []

    def _compute_slice(self, state: StreamState, pieces: list[pa.Table]) -> BatchResult | None:
        plan = self.commits.plan
        try:
            merged = self.commits.merge_pieces(state, self.changes, pieces, self.commits.span(self.inserted))
        except UnsupportedError:
            return None
        if merged is None:
            return None
        evaluated = replace(merged, count=replace(merged.count, max_event_time=self.max_event_time))
        return stage_result(plan, result_of(plan, state, evaluated, MAX_CLOSED_WINDOWS), self.changes.now, self.staged)

    def _read(self, share: Share) -> Iterator[pa.Table]:
        """Yield the rows of a share that remain, by ranges of series."""
        rows = share.read(columns_read(self.commits.plan))
        return rows if self.remaining is None else (slice_ for slice_ in map(self.remaining, rows) if slice_.num_rows)

    def max_time(self, share: Share) -> int | None:
        """Return the largest event time of the rows of a share that pass WHERE, in ticks; None if there are none."""
        plan = self.commits.plan
        latest: int | None = None
        for rows in self._read(share):
            times = to_ticks(rows[plan.source.timestamp.name], plan.query.precision)[self.commits.kernels.passing(rows)]
            latest = later_of(latest, int(times.max()) if len(times) else None)
        return latest


def through(plan: StreamPlan, state: StreamState, last: str) -> tuple[StreamState, StreamState]:
    """Return the state of the series up to a name, inclusive, and that of the others."""

    def is_after(series: pa.ChunkedArray) -> Int64s:
        return to_numpy(pc.greater(series.cast(pa.string()), last)).astype(np.int64)

    state_of = divide_state(plan, state, is_after)
    return state_of(0), state_of(1)
