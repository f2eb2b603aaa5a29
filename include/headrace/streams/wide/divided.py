"""Large commits whose changes are divided by series on the driver's disk, and computed one part after the other.

A part has all changes of its series, so that it is computed like a small micro-batch, with the state of these series alone. This
also serves late, updated and deleted rows, and windows that Spark SQL computes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from headrace.compute.window_plans import StateWindow
from headrace.context import Context
from headrace.streams.batches import BatchResult, idle_result
from headrace.streams.definition.define import StreamPlan
from headrace.streams.keep import kept_result
from headrace.streams.sources.spill import Spill
from headrace.streams.state.checkpoints import StreamState
from headrace.streams.wide.division import DividedState
from headrace.streams.wide.parts import PartResult, whole_result
from headrace.streams.wide.staging import can_stage, create_staging_folder
from headrace.streams.windows.accounting import later_of
from headrace.streams.windows.change_batch import Changes, LargeCommit, change_batch
from headrace.streams.windows.evaluation import WindowEvaluation
from headrace.streams.windows.retention import subtable_key

ProcessRows = Callable[[StreamState, Changes], BatchResult]
"""Computes changes from all of them at once."""


def can_be_divided(plan: StreamPlan) -> bool:
    return subtable_key(plan) is not None


@dataclass(frozen=True)
class DividedCommits:
    """Computes the large commits of one stream part by part."""

    context: Context
    plan: StreamPlan
    evaluation: WindowEvaluation
    process_rows: ProcessRows

    def process(self, state: StreamState, changes: Changes, commit: LargeCommit) -> BatchResult:
        with Spill.open([commit.series_key], commit.count) as spill:
            latest = state.max_event_time
            for piece in commit.plain_pieces():
                spill.add(piece)
                latest = later_of(latest, self._max_event_time(replace(changes, source=piece)))
            if not spill.parts():
                return idle_result(state)
            return self._process_parts(state, replace(changes, max_event_time=latest), spill)

    def _max_event_time(self, changes: Changes) -> int | None:
        batch = change_batch(self.plan, changes, ignore_update=self.plan.ignores_updates)
        selected = batch.is_written
        if selected.any() and (self.plan.query.filter is not None or isinstance(self.plan.query.window, StateWindow)):
            selected = selected & self.evaluation.passing(batch.rows)
        times = batch.ts[selected]
        return int(times.max()) if len(times) else None

    def _process_parts(self, state: StreamState, changes: Changes, spill: Spill) -> BatchResult:
        """Return the result of all parts. It is staged if nothing else than the target's rows follows from it."""
        folder = create_staging_folder(self.context, self.plan.id) if can_stage(self.plan) else None
        divided = DividedState.of(self.plan, state, spill.number_of)
        results = list[PartResult]()
        for number in spill.parts():
            results.append(self._process_part(divided.part(number), replace(changes, source=spill.read(number)), folder))
        return whole_result(self.plan, state, results, folder)

    def _process_part(self, state: StreamState, changes: Changes, folder: str | None) -> PartResult:
        return PartResult.of(kept_result(self.plan, self.process_rows(state, changes), changes.now), folder)
