"""Large commits by executors: tasks compute the windows of ranges of series and stage results; the driver commits these once.

The driver sees the windows that stay in state, the names of files, counts and event times, and no other rows, windows or results.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Final

from headrace.compute.window_plans import StateWindow
from headrace.context import Context
from headrace.errors import NotSupportedError
from headrace.model.failpoints import failpoint
from headrace.model.streams import TriggerMode
from headrace.storage.delta.changes import InsertedRows
from headrace.storage.delta.spark_writes import map_in_tasks
from headrace.streams.batches import BatchResult, StagedWindows
from headrace.streams.definition.define import StreamPlan
from headrace.streams.state.checkpoints import StreamState
from headrace.streams.wide.division import DividedState, number_by_name
from headrace.streams.wide.parts import CommitPart, PartTask, whole_result
from headrace.streams.wide.staging import can_stage, create_staging_folder, discard_staged
from headrace.streams.windows.accounting import later_of
from headrace.streams.windows.change_batch import Changes, LargeCommit
from headrace.streams.windows.evaluation import KernelEvaluation
from headrace.streams.windows.large_commits import LargeCommits
from headrace.streams.windows.retention import subtable_key

TRIGGERS: Final = (TriggerMode.AT_ONCE, TriggerMode.WINDOW_CLOSE)


def can_be_wide(plan: StreamPlan) -> bool:
    """Return whether the windows of a stream can be computed by ranges of series, and its results be written by executors."""
    is_by_series = subtable_key(plan) is not None and plan.source_subtable is None
    return is_by_series and can_stage(plan) and plan.options.trigger in TRIGGERS


@dataclass(frozen=True)
class WideCommits:
    """Has executors compute the large commits of one stream."""

    context: Context
    plan: StreamPlan
    kernels: KernelEvaluation

    def process(self, state: StreamState, changes: Changes, commit: LargeCommit) -> BatchResult | None:
        """Return the result of a commit; None if its rows need recalculation, or its files are not ordered by series."""
        if commit.inserted is None:
            return None
        parts = self._parts(state, commit.inserted)
        if parts is None:
            return None
        task = self._task(state, changes, commit, commit.inserted, parts)
        spark, name = self.context.spark(), self.plan.name
        results = [result for result in map_in_tasks(spark, parts, task.compute, name) if result is not None]
        failpoint("streams.wide.staged")
        if len(results) < len(parts):
            discard_staged(StagedWindows(task.folder))
            return None
        return whole_result(self.plan, state, results, task.folder)

    def _parts(self, state: StreamState, inserted: InsertedRows) -> list[CommitPart] | None:
        spark, columns = self.context.spark(), self._columns()
        tasks = spark.sparkContext.defaultParallelism
        try:
            shares = self.context.tables.shares(self.plan.source, columns, tasks, paths=inserted.paths)
        except NotSupportedError:
            return None
        if not shares:
            return None
        # Series between two shares have no rows, so any task can take their state.
        divided = DividedState.of(self.plan, state, number_by_name([share.series.first or "" for share in shares]))
        return [CommitPart(share, divided.part(number)) for number, share in enumerate(shares)]

    def _columns(self) -> tuple[str, ...]:
        source = self.plan.source
        return tuple(dict.fromkeys([*source.primary_key, *self.plan.query.scans[0].columns]))

    def _task(
        self, state: StreamState, changes: Changes, commit: LargeCommit, inserted: InsertedRows, parts: Sequence[CommitPart]
    ) -> PartTask:
        commits = LargeCommits(self.plan, self.kernels)
        span = commits.span(inserted)
        task = PartTask(
            commits=commits,
            changes=replace(changes, source=inserted.schema.empty_table()),
            version=inserted.version,
            columns=self._columns(),
            span=span,
            max_event_time=None,
            remaining=commit.remaining,
            folder=create_staging_folder(self.context, self.plan.id),
        )
        return replace(task, max_event_time=later_of(state.max_event_time, self._max_event_time(task, parts)))

    def _max_event_time(self, task: PartTask, parts: Sequence[CommitPart]) -> int | None:
        if self.plan.query.filter is None and not isinstance(self.plan.query.window, StateWindow):
            return task.span.last
        without_state = [replace(part, state=StreamState(part.state.position)) for part in parts]
        return reduce(later_of, map_in_tasks(self.context.spark(), without_state, task.max_time, self.plan.name), None)
